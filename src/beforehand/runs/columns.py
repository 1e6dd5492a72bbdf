"""The rows of a run as columns for scoring, and its questions as scoring needs them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any

from beforehand.clock import parse_instant
from beforehand.records.rows import IntervalRow, forecasts
from beforehand.runs.rows import read_jsonl
from beforehand.score.bets import Kelly
from beforehand.score.evaluate import FEES, Columns, Question


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


def question(
    event: Mapping[str, Any], resolution: Mapping[str, Any] | None, bets: Kelly = Kelly()
) -> Question:
    """What scoring needs, from an EventSpec and its ResolutionRecord; `bets` may state fees."""
    name = str(event["id"])
    venue = name.split(":", 1)[0]
    settled, resolved_at, known_at = None, None, None
    if resolution is not None:
        payout = resolution.get("payout")
        settled = float(resolution["outcome"]) if payout is None else float(payout)
        stamp = resolution.get("resolved_at") or event.get("resolution_date")
        resolved_at = parse_instant(stamp) if stamp else None
        known_at = parse_instant(said) if (said := resolution.get("known_at")) else None
    text = str(event["question"])
    return Question(
        id=name,
        text=None if text == name else text,
        event_id=event.get("event_id"),
        settled=settled,
        resolved_at=resolved_at,
        known_at=known_at,
        play=event.get("currency", "usd") != "usd",
        category=event.get("domain"),
        fee=bets.fee(venue, event.get("domain"), FEES.get(venue, 0.0)),
    )


def _number(value: float | None) -> float:
    """NaN for what is unknown."""
    return math.nan if value is None else float(value)


def read_questions(path: Path, bets: Kelly = Kelly()) -> list[Question]:
    """The questions of a run, from the events.jsonl and resolutions.jsonl in its folder; `bets` may
    state fees."""
    return list(each_question(path, bets))


def _shared(value: Any) -> Any:
    return intern(value) if isinstance(value, str) else value


def each_question(path: Path, bets: Kelly = Kelly()) -> Iterator[Question]:
    """The same, one at a time. Both files are in the same order, so that few endings wait."""
    wanted = ("payout", "outcome", "resolved_at", "known_at")
    endings = read_jsonl(path / "resolutions.jsonl")
    waiting = dict[str, tuple[Any, ...]]()
    for event in read_jsonl(path / "events.jsonl"):
        while event["id"] not in waiting and (row := next(endings, None)) is not None:
            # A fifth of the memory of the line; many end at one time.
            waiting[row["id"]] = tuple(_shared(row.get(name)) for name in wanted)
        said = waiting.pop(event["id"], None)
        yield question(event, None if said is None else dict(zip(wanted, said, strict=True)), bets)
