"""The markets of a dump: words and endings, known when the dump was fetched."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import orjson

from beforehand.clock import end_of_day, when
from beforehand.errors import BadAnswer
from beforehand.ids import market_id
from beforehand.records.record import Record
from beforehand.records.world import Market, Resolution
from beforehand.sources.readings import Ending, dollars, of_payouts, of_result

Row = Mapping[str, Any]


def records_of(venue: str, row: Row, notes: dict[str, int]) -> Iterator[Record]:
    """A row of a table of markets as a market's words and, where it has one, its ending; what is
    left out is counted in `notes`."""
    fetched = instant(row.get("_fetched_at"))
    if fetched is None:
        _count(notes, "markets_without_a_time_of_fetching_not_stored")
        return
    if venue == "KALSHI":
        yield from _kalshi(row, fetched, notes)
    else:
        yield from _polymarket(row, fetched, notes)


def _kalshi(row: Row, fetched: datetime, notes: dict[str, int]) -> Iterator[Record]:
    ticker = str(row["ticker"])
    event, close = row.get("event_ticker"), instant(row.get("close_time"))
    said = [str(row[key]) for key in ("title", "yes_sub_title") if row.get(key)]
    yield Market(
        id=market_id("KALSHI", ticker),
        venue="KALSHI",
        native_id=ticker,
        question=": ".join(dict.fromkeys(said)) or None,
        event_id=market_id("KALSHI", str(event)) if event else None,
        opened_at=instant(row.get("open_time")),
        scheduled_close=close,
        known_at=fetched,
    )
    try:
        ending = of_result(str(row.get("result") or ""), dollars(row, "settlement_value"), ticker)
    except BadAnswer:
        _count(notes, "endings_of_an_unknown_kind")
        return
    if ending is not None and close is not None and close <= fetched:
        yield _ending("KALSHI", ticker, ending, close, fetched)
    elif ending is not None:
        _count(notes, "endings_without_a_time")


def _polymarket(row: Row, fetched: datetime, notes: dict[str, int]) -> Iterator[Record]:
    name, close = str(row["condition_id"]), instant(row.get("end_date"))
    outcomes, prices = _list(row.get("outcomes")), _list(row.get("outcome_prices"))
    tokens = _list(row.get("clob_token_ids"))
    if len(outcomes) != 2:
        _count(notes, "markets_without_two_outcomes_not_stored")
        return
    words = [str(one).lower() for one in outcomes]
    yes = words.index("yes") if "yes" in words else 0
    yield Market(
        id=market_id("POLYMARKET", name),
        venue="POLYMARKET",
        native_id=name,
        question=str(row["question"]) if row.get("question") else None,
        background=None if yes or words[0] == "yes" else f"YES means {outcomes[0]}.",
        url=f"https://polymarket.com/market/{row['slug']}" if row.get("slug") else None,
        opened_at=instant(row.get("created_at")),
        scheduled_close=close,
        tokens=tuple(str(tokens[k]) for k in (yes, 1 - yes)) if len(tokens) == 2 else (),
        known_at=fetched,
    )
    try:
        paid = [float(one) for one in prices]
    except (TypeError, ValueError):
        paid = []
    settled = bool(row.get("closed")) and sorted(paid) in ([0.0, 1.0], [0.5, 0.5])
    ending = of_payouts(paid[yes], paid[1 - yes]) if settled else None
    if ending is not None and close is not None and close <= fetched:
        yield _ending("POLYMARKET", name, ending, close, fetched)
    elif row.get("closed"):
        _count(notes, "closed_markets_without_an_ending")


def _ending(
    venue: str, native: str, ending: Ending, close: datetime, fetched: datetime
) -> Resolution:
    return Resolution(
        market_id=market_id(venue, native),
        **ending._asdict(),
        resolved_at=close,
        known_at=fetched,
    )


def _list(value: object) -> list[Any]:
    """A list that is stored as one, or as the JSON of one."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return []
    return value if isinstance(value, list) else []


def _count(notes: dict[str, int], what: str) -> None:
    notes[what] = notes.get(what, 0) + 1


def instant(value: object) -> datetime | None:
    """A time of a dump of the venues, which write UTC; of a date, the end of the day; None for
    none."""
    if isinstance(value, str):
        try:
            return when(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return end_of_day(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
