"""Market histories in JSONL: one market a line with its text, price history and resolution.

A price is observed at the end of its date and known at its publication. A text is known from
the end of the last round the question stood in: its wording is as of that round, so it is never
served earlier (importing a stored question set adds an older version of the same text). A
resolution is known when it was first published, and not before the end of its own date.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Required, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt

from beforehand.clock import end_of_day, parse_instant, to_us
from beforehand.ids import market_id
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.world import Market, Resolution, currency_of
from beforehand.world.importers.lines import Rejects, Stored, each_object

_Point = tuple[str, Annotated[float, msgspec.Meta(ge=0, le=1)], float]
LAST_S = 253_402_300_799
"""The last second of the year 9999."""


class QuestionText(TypedDict, total=False):
    """The fields that market histories and ForecastBench's question sets share. `N/A` means none; a
    line with other types is refused."""

    question: Required[str]
    background: str | None
    resolution_criteria: str | None
    market_info_resolution_criteria: str | None
    url: str | None
    event_id: str | None


class _MarketEnd(TypedDict):
    """How a market ended: on which day, at which payout, and when that was first published (in
    seconds since 1970)."""

    date: str
    outcome: float
    first_published: float


class _MarketHistory(QuestionText, total=False):
    """A line. Each price is (day, price, published in seconds since 1970)."""

    id: Required[str]
    source: Required[str]
    rounds: list[str] | None
    open_datetime: str | None
    close_datetime: str | None
    history: Required[list[tuple[str, float, float]]]
    freeze: list[object] | None
    resolution: _MarketEnd | None


def read(path: Path, rejects: Rejects, notes: dict[str, int]) -> Iterator[Stored]:
    """Records of every line of `path`; `notes` counts what is deliberately left out."""

    def parse(raw: _MarketHistory) -> list[Stored]:
        records = parse_row(raw)
        notes["freeze_values_not_taken_as_prices"] = notes.get(
            "freeze_values_not_taken_as_prices", 0
        ) + len(raw.get("freeze") or [])
        if raw.get("question") and not any(isinstance(one, Market) for one in records):
            notes["texts_without_a_round_not_stored"] = (
                notes.get("texts_without_a_round_not_stored", 0) + 1
            )
        return records

    return each_object(path, rejects, parse)


def parse_row(raw: _MarketHistory) -> list[Stored]:
    """One line: a text version, its prices, and a resolution where there is one."""
    source, native = str(raw["source"]), str(raw["id"])
    name = market_id(source, native)
    records: list[Stored] = []
    if (known_at := _text_known(raw)) is not None:
        records.append(
            text_version(
                raw,
                source,
                native,
                known_at,
                opened=raw.get("open_datetime"),
                close=raw.get("close_datetime"),
            )
        )
    if rows := _history(raw["history"]):
        days, prices, published = zip(*rows, strict=True)
        known, ends = _us(published), np.array([*map(_end_of_day, days)], dtype=np.int64)
        observed = np.minimum(ends, known).tolist()
        records.append(PriceSeriesRow(name, observed, known.tolist(), [*map(float, prices)]))
    ending = raw.get("resolution")
    if ending:
        _check_ending(ending)
        resolved_at = end_of_day(parse_instant(ending["date"]))
        published_at = datetime.fromtimestamp(ending["first_published"], UTC)
        records.append(
            Resolution(
                market_id=name,
                status="resolved",
                payout=ending["outcome"],
                resolved_at=resolved_at,
                known_at=max(published_at, resolved_at),
                first_published=published_at,
            )
        )
    return records


@lru_cache(maxsize=10_000)
def _end_of_day(day: str) -> int:
    return to_us(end_of_day(parse_instant(day)))


def _us(seconds: Sequence[float]) -> npt.NDArray[np.int64]:
    """Seconds since 1970 in microseconds."""
    found = np.array(seconds, dtype=np.float64)
    if (np.mod(found, 1) == 0).all() and found.min() >= 0 and found.max() <= LAST_S:
        return found.astype(np.int64) * 1_000_000
    return np.array([to_us(datetime.fromtimestamp(one, UTC)) for one in seconds], dtype=np.int64)


def _text_known(raw: _MarketHistory) -> datetime | None:
    """When the text was known: at the end of its last round; None without one. Raises ValueError
    for rounds that are no days."""
    rounds = raw.get("rounds") or []
    if not isinstance(rounds, list) or not all(isinstance(day, str) for day in rounds):
        raise ValueError('rounds is not a list of days such as "2025-01-13"')
    if rounds:
        return end_of_day(parse_instant(max(rounds)))
    return None


def _check_ending(ending: object) -> None:
    """Raises ValueError for a resolution without its fields."""
    if not isinstance(ending, dict):
        raise ValueError("resolution is not an object with date, outcome and first_published")
    if not isinstance(ending.get("date"), str):
        raise ValueError(f"resolution: the date {ending.get('date')!r} is not text")
    for field in ("outcome", "first_published"):
        value = ending.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"resolution: {field} {value!r} is not a number")


def _history(rows: object) -> list[tuple[str, float, float]]:
    """The price rows. Raises ValueError, which names the row."""
    with suppress(msgspec.ValidationError):  # What is said of others is found below.
        return msgspec.convert(rows, list[_Point])
    if not isinstance(rows, list):
        raise ValueError("history is not a list of [day, price, published in seconds]")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list) or len(row) != 3:
            raise ValueError(f"history, row {number}: it is not [day, price, published in seconds]")
        if not isinstance(row[0], str):
            raise ValueError(f"history, row {number}: the day {row[0]!r} is not text")
        for value in row[1:]:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"history, row {number}: {value!r} is not a number")
        if not 0 <= row[1] <= 1:
            raise ValueError(f"history, row {number}: the price {row[1]!r} is not from 0 to 1")
    return rows


def text_version(
    raw: QuestionText,
    source: str,
    native: str,
    known_at: datetime,
    opened: object,
    close: object,
) -> Market:
    """A Market record from the fields ForecastBench rows and question sets share."""
    extra = raw.get("market_info_resolution_criteria")
    rules = [raw.get("resolution_criteria"), None if extra in (None, "", "N/A") else extra]
    return Market(
        id=market_id(source, native),
        venue=source.upper(),
        native_id=native,
        question=raw["question"],
        background=_stated(raw.get("background")),
        rules="\n\n".join(part for part in rules if part and part != "N/A") or None,
        url=_stated(raw.get("url")),
        opened_at=_instant(opened),
        scheduled_close=_instant(close),
        event_id=_stated(raw.get("event_id")),
        currency=currency_of(source),
        known_at=known_at,
    )


def _stated(value: object) -> str | None:
    return None if value in (None, "", "N/A") else str(value)


def _instant(value: object) -> datetime | None:
    return None if value in (None, "", "N/A") else parse_instant(str(value))
