"""ForecastBench question sets and resolution sets, as published.

A question set's texts are known from the end of its due date. Its market questions become
Market versions; its dataset questions (ACLED, FRED, Wikipedia, Yahoo Finance, DBnomics) become
one market a horizon, `SOURCE:id@date`. A resolution set gives settled values: a resolved market
question becomes a Resolution, an unresolved one the price of that day, a dataset row the Resolution
of its horizon; all of it is known when the set was published. Combination questions are counted and
left out: they are scored by `bench forecastbench --combinations`, not walked through time.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Required, TypedDict

from beforehand.clock import end_of_day, parse_instant
from beforehand.ids import market_id
from beforehand.records.record import Record
from beforehand.records.world import PricePoint, Resolution
from beforehand.score.forecastbench import kind_of
from beforehand.store.files import read_json
from beforehand.world.importers.lines import Rejects, guarded
from beforehand.world.importers.markets import QuestionText, text_version


def read(
    path: Path, rejects: Rejects, notes: dict[str, int], published_at: datetime
) -> Iterator[Record]:
    """Records of a question set or of a resolution set, told apart by their keys.

    What a resolution set says is known at `published_at`: the set carries no date of its own,
    and its outcomes are often published weeks after the dates they are about.
    """

    def note(what: str) -> None:
        notes[what] = notes.get(what, 0) + 1

    body = read_json(path)
    parse: Any
    if isinstance(body, dict) and isinstance(body.get("questions"), list):
        items, parse = body["questions"], _question
    elif isinstance(body, dict) and isinstance(body.get("resolutions"), list):
        items, parse = body["resolutions"], _resolution
    else:
        rejects.bad(
            path, 1, "neither a question set (`questions`) nor a resolution set (`resolutions`)"
        )
        return
    try:
        due = end_of_day(parse_instant(str(body["forecast_due_date"])))
    except (KeyError, ValueError):
        rejects.bad(path, 1, "forecast_due_date is missing or is not a date")
        return
    for number, raw in enumerate(items, start=1):
        if isinstance(raw, dict) and isinstance(raw.get("id"), list):
            note("combination_questions_left_out")
            continue

        def one(item: Mapping[str, object], parse: Any = parse) -> list[Record]:
            if kind_of(item) is None:
                raise ValueError(f"unknown source {item['source']!r}")
            found = list(parse(item, due, published_at))
            if not found:
                note("without_a_horizon_or_value")
            return found

        yield from guarded(path, number, raw, rejects, one)


def horizon_id(source: str, native: str, date: str) -> str:
    """The id of one horizon of a dataset question."""
    return market_id(source, f"{native}@{date}")


class _SetQuestion(QuestionText, total=False):
    """A question of a set: `resolution_dates` is a list for dataset questions, else `N/A`."""

    id: Required[str]
    source: Required[str]
    market_info_open_datetime: str | None
    market_info_close_datetime: str | None
    resolution_dates: list[str] | str


class _SetResolution(TypedDict):
    """A row of a resolution set; `resolved` is False where the value is the day's price."""

    id: str
    source: str
    resolution_date: str
    resolved_to: float
    resolved: bool


def _question(raw: _SetQuestion, due: datetime, _: datetime) -> Iterator[Record]:
    source, native = raw["source"], raw["id"]
    opened, close = raw.get("market_info_open_datetime"), raw.get("market_info_close_datetime")
    if kind_of(raw) == "market":
        yield text_version(raw, source, native, due, opened=opened, close=close)
        return
    dates = raw.get("resolution_dates")
    for date in dates if isinstance(dates, list) else []:
        market = text_version(raw, source, f"{native}@{date}", due, opened=None, close=f"{date}")
        question = (market.question or "").replace("{resolution_date}", date)
        question = question.replace("{forecast_due_date}", due.date().isoformat())
        yield market.model_copy(
            update={"question": question, "currency": "none", "event_id": market_id(source, native)}
        )


def _resolution(raw: _SetResolution, _: datetime, published_at: datetime) -> Iterator[Record]:
    source, native, date = raw["source"], raw["id"], raw["resolution_date"]
    at = end_of_day(parse_instant(date))
    value, resolved = raw["resolved_to"], raw["resolved"]
    of_dataset = kind_of(raw) == "dataset"
    name = horizon_id(source, native, date) if of_dataset else market_id(source, native)
    known_at = max(at, published_at)
    if resolved:
        yield Resolution(
            market_id=name, status="resolved", payout=value, resolved_at=at, known_at=known_at
        )
    elif not of_dataset:
        yield PricePoint(market_id=name, price=value, observed_at=at, known_at=known_at)
