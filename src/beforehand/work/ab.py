"""Configurations against each other on the same markets and instants: accuracy beside cost.

Each arm is a run of its own, so an arm that is finished is not run again. An arm's forecast is
the aggregate of its models and simulations. Arms are compared where all of them spoke.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from beforehand.clock import Clock, SystemClock, parse_instant, to_us
from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.forecast.aggregate import aggregate
from beforehand.store.files import read_json
from beforehand.store.runs import RunFolder
from beforehand.work import results
from beforehand.work.grid import instants
from beforehand.work.jobs import QUIET, Told, opened_journal, start
from beforehand.work.kept import MAY_REMEMBER
from beforehand.work.request import Request
from beforehand.work.run import BacktestJob
from beforehand.work.scoring import (
    Columns,
    Question,
    build_table,
    number,
    pair,
    score_only,
)

Key = tuple[str, str]
NOTHING_SHARED = "the configurations have no market and instant in common: nothing can be paired"


def compare(
    arms: Mapping[str, Request],
    run_id: str,
    clock: Clock | None = None,
    told: Told = QUIET,
) -> dict[str, Any]:
    """Run every arm (as `{run_id}-{arm}`) and compare them; JSON-ready.

    `difference` is the paired Brier difference to the first arm (above 0: better than it), with
    the same clustered interval as skill against the market. Raises InputError if the arms share
    no forecast.
    """
    if len(arms) < 2:
        raise InputError("name two configurations or more to compare")
    _check(arms, run_id, clock or SystemClock())
    folders: dict[str, RunFolder] = {}
    for name, request in arms.items():
        folders[name] = start(request, f"{run_id}-{name}", clock, told, finished_too=True).folder
    request = next(iter(arms.values()))
    rows = {name: _spoken(folder) for name, folder in folders.items()}
    shared = [key for key in rows[next(iter(rows))] if all(key in found for found in rows.values())]
    if not shared:
        raise InputError(NOTHING_SHARED)
    questions = _questions(folders.values())
    board = score_only(build_table(_columns(shared, rows, None), questions), request.settings)
    first = next(iter(arms))
    versus = score_only(build_table(_columns(shared, rows, first), questions), request.settings)
    spent = _spent(Home(request.home), folders)
    table = []
    for name in arms:
        scored = next(row for row in board if row.forecaster == name)
        against = next((row for row in versus if row.forecaster == name), None)
        skill = against.skill if against else None
        made = sum(1 for key in rows[name])
        table.append(
            {
                "arm": name,
                "run_id": folders[name].run_id,
                "n": scored.n,
                "n_questions": scored.n_questions,
                "brier": number(scored.brier),
                "brier_ci": pair(scored.intervals["brier"]),
                "skill_vs_market": number(scored.skill.skill) if scored.skill else None,
                "skill_ci": pair(scored.skill.ci) if scored.skill else [None, None],
                "difference": 0.0 if name == first else number(skill.skill if skill else None),
                "difference_ci": pair(skill.ci) if skill and name != first else [None, None],
                "may_remember": _may_remember(folders[name]),
                **spent[name],
                "cost_per_forecast": spent[name]["cost"] / made if made else None,
            }
        )
    return {"run_id": run_id, "first": first, "shared": len(shared), "arms": table}


def _may_remember(folder: RunFolder) -> list[str]:
    """The forecasters of an arm that an earlier arm, or another run, asked about later instants."""
    board = read_json(folder.path / "scores.json")["leaderboard"]
    return [row["forecaster"] for row in board if row["order"].startswith(MAY_REMEMBER)]


def _check(arms: Mapping[str, Request], run_id: str, clock: Clock) -> None:
    """Open every arm before the first one is paid for; raises InputError as its run would."""
    asked: list[set[tuple[str, int]]] = []
    for name, request in arms.items():
        job = BacktestJob(request, f"{run_id}-{name}", clock)
        asked.append({(c.market_id, int(t)) for c in job.configs for t in instants(c)})
    if not set.intersection(*asked):
        raise InputError(NOTHING_SHARED)


def _spoken(folder: RunFolder) -> dict[Key, dict[str, Any]]:
    """The intervals at which an arm said something, by market and time; where several of its
    experiments asked, with the aggregate of all their decisions."""
    found = {}
    for row in results.questions_of(folder.path / "intervals.jsonl"):
        said = [d["probability"] for d in row["decisions"]]
        together = aggregate(row["aggregate"]["method"], said)
        if row["aggregate"]["n"] != len(said):
            row["aggregate"] = {**row["aggregate"], "probability": together, "n": len(said)}
        if row["aggregate"]["probability"] is not None:
            found[row["market_id"], row["time"]] = row
    return found


def _columns(
    shared: Sequence[Key], rows: Mapping[str, Mapping[Key, dict[str, Any]]], base: str | None
) -> Columns:
    """Shared forecasts as columns; `base` stands in for the market where it is given."""
    columns, first = Columns(), next(iter(rows.values()))
    for key in shared:
        market = first[key]["context"]["market"]
        said = {name: found[key]["aggregate"]["probability"] for name, found in rows.items()}
        odds = market["odds"] if base is None else said.pop(base)
        columns.id.append(key[0])
        columns.t.append(to_us(parse_instant(key[1])))
        columns.market.append(results.as_number(odds))
        columns.price_age.append(results.as_number(market["price_age"]) / 86400)
        columns.strict.append(market.get("text_known_at") is not None)
        columns.evidence.append(len(first[key]["context"]["search_snippets"]))
        columns.bid.append(results.as_number(market.get("bid")))
        columns.ask.append(results.as_number(market.get("ask")))
        columns.forecasts.append(said)
    return columns


def _questions(folders: Any) -> list[Question]:
    found: dict[str, Question] = {}
    for folder in folders:
        path = folder.path
        endings = {row["id"]: row for row in results.read_jsonl(path / "resolutions.jsonl")}
        for event in results.read_jsonl(path / "events.jsonl"):
            found[event["id"]] = results.question(event, endings.get(event["id"]))
    return list(found.values())


def _spent(home: Home, folders: Mapping[str, RunFolder]) -> dict[str, dict[str, Any]]:
    with opened_journal(home, SystemClock()) as (journal, _):
        found = {name: journal.known_run(folder.run_id) for name, folder in folders.items()}
    return {
        name: {"calls": row.calls, "tokens": row.tokens, "cost": row.cost}
        for name, row in found.items()
    }
