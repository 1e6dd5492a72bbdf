"""A run's files: questions and resolutions written, rows read back, the scored result stored."""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from beforehand.clock import from_us, iso, parse_instant, to_us
from beforehand.gateway import Audit, Gateway
from beforehand.records.backtest import forecasts
from beforehand.records.world import Market, Resolution
from beforehand.score.leaks import CANARY, LeakReport
from beforehand.score.report import html
from beforehand.store.archive import Archive
from beforehand.store.files import write_atomic, write_json, write_jsonl
from beforehand.work.grid import end_of
from beforehand.work.scoring import (
    FEES,
    Columns,
    Question,
    Result,
    Settings,
    build_table,
    leaderboard_csv,
    number,
    pair,
    score_only,
)


def event_wire(market: Market, resolution: Resolution | None) -> dict[str, Any]:
    """An EventSpec line; `event_id` and `currency` are additive."""
    date = resolution.resolved_at if resolution else market.scheduled_close
    source: dict[str, Any] = {"type": market.venue.title(), "market_id": market.native_id}
    if market.url:
        source["url"] = market.url
    if date:
        source["resolution_date"] = iso(date)
    return {
        "id": market.id,
        "question": market.question or market.id,
        "domain": market.domain,
        "resolution_date": iso(date) if date else None,
        "source": source,
        "ground_truth_source": market.venue.title(),
        "tags": [],
        "event_id": market.event_id,
        "currency": market.currency,
    }


def resolution_wire(resolution: Resolution) -> dict[str, Any] | None:
    """A ResolutionRecord line, or None for void and disputed markets. A partial payout keeps the
    contract's 0/1 `outcome` (1 from a half up) and carries the additive `payout`."""
    if resolution.status != "resolved" or resolution.payout is None:
        return None
    payout = resolution.payout
    line: dict[str, Any] = {
        "id": resolution.market_id,
        "outcome": int(payout >= 0.5),
        "resolved_at": iso(resolution.resolved_at),
    }
    return line if payout in (0.0, 1.0) else {**line, "payout": payout}


def write_questions(path: Path, gateway: Gateway, resolutions: Mapping[str, Resolution]) -> None:
    """events.jsonl and resolutions.jsonl for the markets of a run; `forecast_from` and
    `forecast_until` say when each could be forecast."""
    view, events = gateway.hindsight(), []
    for name, ending in resolutions.items():
        event = {**event_wire(view.market(name), ending), "forecast_until": iso(end_of(ending))}
        series = gateway.world.series(name)
        if series is not None and len(series):
            event["forecast_from"] = iso(from_us(series.known_at[0]))
        events.append(event)
    write_jsonl(path / "events.jsonl", events)
    lines = [line for r in resolutions.values() if (line := resolution_wire(r))]
    write_jsonl(path / "resolutions.jsonl", lines)


def question(event: Mapping[str, Any], resolution: Mapping[str, Any] | None) -> Question:
    """What scoring needs, from an EventSpec and its ResolutionRecord."""
    name = str(event["id"])
    venue = name.split(":", 1)[0]
    settled, resolved_at = None, None
    if resolution is not None:
        payout = resolution.get("payout")
        settled = float(resolution["outcome"]) if payout is None else float(payout)
        stamp = resolution.get("resolved_at") or event.get("resolution_date")
        resolved_at = parse_instant(stamp) if stamp else None
    text = str(event["question"])
    return Question(
        id=name,
        text=None if text == name else text,
        event_id=event.get("event_id"),
        settled=settled,
        resolved_at=resolved_at,
        play=event.get("currency", "usd") != "usd",
        fee=FEES.get(venue, 0.0),
    )


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Each line of a file this program wrote."""
    with path.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def questions_of(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of an intervals.jsonl, one a market and instant: where several experiments asked,
    their decisions and failures together, with the context of the first."""
    held: dict[str, Any] | None = None
    for row in read_jsonl(path):
        if held and (held["market_id"], held["time"]) == (row["market_id"], row["time"]):
            for part in ("decisions", "failures"):
                held[part] = held[part] + row[part]
            if len(row["context"]["search_snippets"]) > len(held["context"]["search_snippets"]):
                held["context"] = row["context"]
            continue
        if held is not None:
            yield held
        held = row
    if held is not None:
        yield held


def columns_of(intervals: Iterable[Mapping[str, Any]]) -> Columns:
    """Rows of `questions_of` as columns for scoring, by market and then by time."""
    columns = Columns()
    for row in intervals:
        market = row["context"]["market"]
        columns.id.append(row["market_id"])
        columns.t.append(to_us(parse_instant(row["time"])))
        columns.market.append(as_number(market["odds"]))
        columns.price_age.append(as_number(market["price_age"]) / 86400)
        columns.strict.append(market.get("text_known_at") is not None)
        columns.evidence.append(len(row["context"]["search_snippets"]))
        columns.bid.append(as_number(market.get("bid")))
        columns.ask.append(as_number(market.get("ask")))
        said = forecasts(row["decisions"])
        said.pop("market", None)
        columns.forecasts.append(said)
    return columns.by_market()


def leak_report(audit: Audit, archive: Archive) -> LeakReport:
    """A report with what the wall counted and how many documents the world holds."""
    return LeakReport(
        checked=audit.checked,
        refused=len(audit.refusals),
        documents=archive.counts().get("document", 0),
    )


def canaries(archive: Archive) -> dict[str, datetime]:
    """The planted documents of a simulated world, with the instants from which they are known."""
    return {d.id: d.known_at for d in archive.documents() if d.id.startswith(CANARY)}


def without_flagged(
    path: Path, questions: list[Question], settings: Settings
) -> dict[str, Any] | None:
    """Each forecaster's Brier and skill with all its decisions, and without those that rest on a
    flagged document; None if none does."""

    def kept(row: dict[str, Any]) -> dict[str, Any]:
        decisions = [d for d in row["decisions"] if "flagged_evidence_ids" not in d]
        return {**row, "decisions": decisions}

    rows = path / "intervals.jsonl"
    if not any("flagged_evidence_ids" in d for r in read_jsonl(rows) for d in r["decisions"]):
        return None
    found = {}
    for name, intervals in (("all", questions_of(rows)), ("kept", map(kept, questions_of(rows)))):
        table = build_table(columns_of(intervals), questions)
        found[name] = {
            row.forecaster: {
                "n": row.n,
                "brier": number(row.brier),
                "skill_vs_market": number(row.skill_vs_market),
            }
            for row in score_only(table, settings)
        }
    return found


def short_wire(
    path: Path, apart: set[str], questions: list[Question], settings: Settings
) -> dict[str, Any] | None:
    """The scores of markets whose life held no instant of the grid: each was asked once, when its
    first price was known. They are scored apart, since being asked outside the grid tells that the
    end is near. None where there are none."""
    if not apart:
        return None
    rows = (row for row in questions_of(path) if row["market_id"] in apart)
    table = build_table(columns_of(rows), questions)
    return {
        "n_questions": len(table.questions),
        "n_forecasts": len(table.q),
        "leaderboard": [
            {
                "forecaster": row.forecaster,
                "n": row.n,
                "brier": number(row.brier),
                "skill_vs_market": number(row.skill_vs_market),
                "skill_ci": pair(row.skill.ci) if row.skill else [None, None],
            }
            for row in score_only(table, settings)
        ],
    }


def store(
    path: Path,
    result: Result,
    leaks: LeakReport,
    about: Mapping[str, Any],
    intervals: list[dict[str, Any]],
) -> dict[str, Any]:
    """Write scores.json, leaderboard.csv and report.html; returns the summary for `--json`."""
    summary = {**about, **result.wire(), "leaks": leaks.wire()}
    write_json(path / "scores.json", summary)
    write_atomic(path / "leaderboard.csv", leaderboard_csv(result.rows))
    write_atomic(path / "report.html", html(summary, intervals).encode())
    return summary


def as_number(value: float | None) -> float:
    """NaN for what is unknown."""
    return math.nan if value is None else float(value)
