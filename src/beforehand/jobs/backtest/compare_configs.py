"""Compare configurations on the same markets and instants: accuracy beside cost.

Each arm is a run of its own, so an arm that is finished is not run again. An arm's forecast is
the aggregate of its models and simulations. Arms are compared where all of them made a forecast.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict, cast

from beforehand.config import Workspace
from beforehand.engine.runs import QUIET, Reporter, start
from beforehand.errors import InputError
from beforehand.forecast.aggregate import Method, aggregate
from beforehand.jobs.backtest.backtest_job import BacktestJob, BacktestRequest
from beforehand.jobs.backtest.grid import instants
from beforehand.jobs.forecasters import MAY_REMEMBER
from beforehand.records.rows import IntervalRow
from beforehand.runs.columns import columns_of, read_questions
from beforehand.runs.rows import questions_of, read_intervals
from beforehand.score.bets import Kelly
from beforehand.score.compare import compare as paired_difference
from beforehand.score.evaluate import (
    Columns,
    Question,
    build_table,
    score_only,
)
from beforehand.score.skill import Options
from beforehand.score.summary import Pair, ProfitWire, number, pair, profit_wire
from beforehand.store.files import read_json
from beforehand.store.journal.journal import opened_journal
from beforehand.store.run_folder import RunFolder

Key = tuple[str, str]


class _Spoken(NamedTuple):
    """An arm's forecast at an instant: the aggregate of its decisions, and the row."""

    row: IntervalRow
    probability: float


class ArmCost(TypedDict):
    """What an arm paid for: calls, tokens, and dollars."""

    calls: int
    tokens: int
    cost: float


class Arm(ArmCost):
    """A row of the comparison. `difference` is the paired Brier difference to the first arm (above
    0: this arm is better), with the same clustered interval as skill against the market."""

    arm: str
    run_id: str
    n: int
    n_questions: int
    brier: float | None
    brier_ci: Pair
    skill_vs_market: float | None
    skill_ci: Pair
    difference: float | None
    difference_ci: Pair
    verdict: str
    kelly: ProfitWire | str
    may_remember: list[str]
    cost_per_forecast: float


class ArmsCompared(TypedDict):
    """Arms over the `shared` forecasts; `first` is what the others are compared with."""

    run_id: str
    first: str
    shared: int
    arms: list[Arm]


NOTHING_SHARED = "the configurations have no market and instant in common: nothing can be paired"


def compare(
    arms: Mapping[str, BacktestRequest],
    workspace: Workspace,
    run_id: str,
    report: Reporter = QUIET,
) -> ArmsCompared:
    """Run every arm (as `{run_id}-{arm}`) and compare them; JSON-ready. Raises InputError if the
    arms share no forecast."""
    if len(arms) < 2:
        raise InputError("name two configurations or more to compare")
    _check(arms, workspace, run_id)
    folders: dict[str, RunFolder] = {}
    for name, request in arms.items():
        folders[name] = start(
            request, workspace, f"{run_id}-{name}", report, finished_too=True
        ).folder
    request = next(iter(arms.values()))
    rows = {name: _spoken(folder) for name, folder in folders.items()}
    shared = [key for key in rows[next(iter(rows))] if all(key in found for found in rows.values())]
    if not shared:
        raise InputError(NOTHING_SHARED)
    questions = _questions(folders.values(), request.settings.kelly)
    scored_rows = build_table(_columns(shared, rows), questions)
    board = score_only(scored_rows, request.settings)
    first = next(iter(arms))
    options = Options(draws=request.settings.draws, seed=request.settings.seed)
    spent = _spent(workspace, folders)
    table = list[Arm]()
    for name in arms:
        scored = next(row for row in board if row.forecaster == name)
        versus = paired_difference(scored_rows, name, first, options) if name != first else None
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
                "difference": number(versus.difference) if versus else 0.0,
                "difference_ci": pair(versus.ci) if versus else [None, None],
                "verdict": versus.verdict if versus else "",
                "kelly": profit_wire(scored.profit, scored_rows.whole, name),
                "may_remember": _may_remember(folders[name]),
                **spent[name],
                "cost_per_forecast": spent[name]["cost"] / len(rows[name]),
            }
        )
    return {"run_id": run_id, "first": first, "shared": len(shared), "arms": table}


def _may_remember(folder: RunFolder) -> list[str]:
    """The forecasters of an arm that an earlier arm, or another run, asked about later instants."""
    board = read_json(folder.path / "scores.json")["leaderboard"]
    return [row["forecaster"] for row in board if row["order"].startswith(MAY_REMEMBER)]


def _check(arms: Mapping[str, BacktestRequest], workspace: Workspace, run_id: str) -> None:
    """Open every arm before the first one is paid for; raises InputError as its run would."""
    asked: list[set[tuple[str, int]]] = []
    for name, request in arms.items():
        job = BacktestJob(request, f"{run_id}-{name}", workspace)
        asked.append({(c.market_id, int(t)) for c in job.configs for t in instants(c)})
    if not set.intersection(*asked):
        raise InputError(NOTHING_SHARED)


def _spoken(folder: RunFolder) -> dict[Key, _Spoken]:
    """An arm's forecasts by market and time. Where several of its experiments asked, the forecast
    is the aggregate of all their decisions."""
    found = {}
    for row in questions_of(read_intervals(folder.path / "intervals.jsonl")):
        said, p = [one.probability for one in row.decisions], row.aggregate.probability
        if row.aggregate.n != len(said):
            p = aggregate(cast(Method, row.aggregate.method), said)
        if p is not None:
            found[row.market_id, row.time] = _Spoken(row, p)
    return found


def _columns(shared: Sequence[Key], rows: Mapping[str, Mapping[Key, _Spoken]]) -> Columns:
    """Shared forecasts as columns."""
    first = next(iter(rows.values()))
    columns = columns_of([first[key].row for key in shared], sort=False)
    columns.forecasts.clear()
    for key in shared:
        columns.forecasts.append({name: found[key].probability for name, found in rows.items()})
    return columns


def _questions(folders: Iterable[RunFolder], bets: Kelly) -> list[Question]:
    found = {q.id: q for folder in folders for q in read_questions(folder.path, bets)}
    return list(found.values())


def _spent(workspace: Workspace, folders: Mapping[str, RunFolder]) -> dict[str, ArmCost]:
    with opened_journal(workspace) as journal:
        found = {name: journal.known_run(folder.run_id) for name, folder in folders.items()}
    return {
        name: {"calls": row.calls, "tokens": row.tokens, "cost": row.cost}
        for name, row in found.items()
    }
