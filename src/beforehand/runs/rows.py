"""The rows of a run's files, read back and typed.

How the decisions of a run came about, counted from its rows: by code, by fallback, directly, or
not at all, with the reasons.

The rows of a run as columns for scoring, and its questions as scoring needs them.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson

from beforehand.clock import parse_instant
from beforehand.records.rows import (
    DecisionRow,
    IntervalRow,
    TraceRow,
    decode_interval,
    decode_trace,
    forecasts,
)
from beforehand.score.evaluate import FEES, Columns, Question


def read_intervals(path: Path) -> Iterator[IntervalRow]:
    """The rows of an intervals.jsonl that this program wrote."""
    with path.open("rb") as lines:
        yield from map(decode_interval, lines)


def read_traces(path: Path) -> Iterator[TraceRow]:
    """The rows of a traces.jsonl; none where no model was asked."""
    if path.is_file():
        with path.open("rb") as lines:
            yield from map(decode_trace, lines)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Each line of a file this program wrote."""
    with path.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def questions_of(rows: Iterable[IntervalRow]) -> Iterator[IntervalRow]:
    """Rows of an intervals.jsonl, one a market and instant: where several experiments asked, their
    decisions and failures together, with the context that shows most."""
    held: IntervalRow | None = None
    for row in rows:
        if held is None or (held.market_id, held.time) != (row.market_id, row.time):
            if held is not None:
                yield held
            held = row
            continue
        shows_more = len(row.context.search_snippets) > len(held.context.search_snippets)
        held = msgspec.structs.replace(
            held,
            decisions=held.decisions + row.decisions,
            failures=held.failures + row.failures,
            context=row.context if shows_more else held.context,
        )
    if held is not None:
        yield held


_ARM = re.compile(r"(?:^|; )(?:code|direct): ")
MARKS = ("unshown_evidence_ids", "flagged_evidence_ids", "answer_in_training")
KINDS = ("code", "fallback", "direct", "external", "baseline")


def counts(intervals: Iterable[IntervalRow], traces: Iterable[TraceRow]) -> dict[str, Any]:
    """Decisions by how they were made, failures, and why code did not decide; per model as well.

    `reasons` counts what kept code from deciding (and then the fallback was asked), `failures`
    what ended without any decision.
    """
    fallbacks = set[tuple[str, str, str, int]]()
    reasons, requests = Counter[str](), Counter[str]()
    for trace in traces:
        requests[trace.model_id] += len(trace.calls)
        if isinstance(trace.fallback_reason, str):
            time, index = str(trace.time), int(trace.simulation_index or 0)
            fallbacks.add((trace.market_id, time, trace.model_id, index))
            reasons[reason(trace.fallback_reason)] += 1
    total, failures = Counter[str](), Counter[str]()
    models: dict[str, Counter[str]] = {}
    for row in intervals:
        for decision in row.decisions:
            name, index = decision.model_id, decision.simulation_index
            kind = _kind(decision, (row.market_id, row.time, name, index) in fallbacks)
            mine = models.setdefault(name, Counter())
            for counted in (total, mine):
                counted[kind] += 1
                counted["made"] += 1
                for mark in MARKS:
                    counted[mark] += bool(getattr(decision, mark))
        for failure in row.failures:
            total["failed"] += 1
            models.setdefault(failure.model_id, Counter())["failed"] += 1
            failures[reason(failure.error)] += 1
    return {
        **_shown(total),
        "reasons": dict(sorted(reasons.items())),
        "failures": dict(sorted(failures.items())),
        "models": {
            name: {**_shown(found), "requests": requests[name]}
            for name, found in sorted(models.items())
        },
    }


def reason(text: str) -> str:
    """A reason without its particulars, so that it can be counted."""
    arms = [part for part in _ARM.split(text) if part]
    return "; ".join(part.partition(": ")[0].partition(" (")[0][:80] for part in arms)


def _kind(decision: DecisionRow, fallback: bool) -> str:
    if decision.mode == "direct_llm":
        return "fallback" if fallback else "direct"
    return "code" if decision.mode == "daytona_agent" else decision.mode


def _shown(found: Counter[str]) -> dict[str, int]:
    return {name: found[name] for name in ("made", *KINDS, "failed", *MARKS)}


def columns_of(rows: Iterable[IntervalRow], sort: bool = True) -> Columns:
    """Rows of `questions_of` as columns for scoring, by market and then by time if `sort`."""
    columns = Columns()
    for row in rows:
        market = row.context.market
        columns.id.append(row.market_id)
        columns.t.append(row.context.t)
        columns.market.append(_number(market.odds))
        columns.price_age.append(_number(market.price_age) / 86400)
        columns.strict.append(market.text_known_at is not None)
        columns.evidence.append(len(row.context.search_snippets))
        columns.bid.append(_number(market.bid))
        columns.ask.append(_number(market.ask))
        said = forecasts(row.decisions)
        said.pop("market", None)
        columns.forecasts.append(said)
    return columns.by_market() if sort else columns


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


def _number(value: float | None) -> float:
    """NaN for what is unknown."""
    return math.nan if value is None else float(value)
