"""The `kalshi` server: markets, odds at an instant, events, books, candles, trades. Read-only."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import end_of_day, iso
from beforehand.errors import NotFound, ReplayMiss
from beforehand.gateway.worlds import Listing, Order
from beforehand.records.world import PricePoint
from beforehand.sources.kalshi import PERIODS, VENUE, eastern_day
from beforehand.tools.bounds import Rows
from beforehand.tools.markets import (
    FOUND_ROWS,
    MARKET_ROWS,
    Book,
    FoundMarkets,
    FullMarket,
    Markets,
    Status,
    book_row,
    detail,
    listed,
    lookup,
    moment,
    qualified,
    search,
    span,
    venues,
)
from beforehand.tools.registry import Call, Example, Row, server, tool


class OddsAt(TypedDict):
    id: str
    time: str
    odds: float
    yes_bid: float | None
    yes_ask: float | None
    observed_at: str
    age_seconds: float


class KalshiEvent(TypedDict):
    event_ticker: str
    title: str | None
    mutually_exclusive: bool | None
    markets: list[FullMarket]


class Candles(TypedDict):
    ticker: str
    period: str
    candles: list[Row]


class Trades(TypedDict):
    ticker: str
    trades: list[Row]


SERVER = server(
    "kalshi",
    "Read-only access to Kalshi: markets, odds at an instant, events, order books, "
    "candles, trades.",
)
SOURCE, SERVICES = "kalshi", ("kalshi",)
NAMES = venues(VENUE)
MARKET = Example("recorded", "2026-07-25", "Trade API responses; OpenAPI 3.13")
CANDLE = Example("recorded", "2026-08-05", "candles of both tiers; OpenAPI 3.13")
CANDLE_EXTREMES = (("low", "close", "yes_bid"), ("high", "close", "yes_ask"))
Ticker = Annotated[str, Field(min_length=1, max_length=200, description="Ticker or VENUE:ticker.")]


@tool(SERVER, example=MARKET, services=SERVICES, probe="kalshi markets")
def get_market_metadata(call: Call, *, id: Ticker) -> FullMarket:
    """Get one Kalshi market in full: text and rules, status, quote, settlement once known."""
    return detail(call.view, lookup(call.view, VENUE, id))


@tool(SERVER, example=CANDLE, services=SERVICES)
def get_odds_at(
    call: Call,
    *,
    id: Ticker,
    time: Annotated[str, Field(description="Instant, ISO 8601 with a zone.")],
) -> OddsAt:
    """Get the odds at an instant: of the last candle that had ended by then, never of the one
    that contains it."""
    at = moment("time", time)
    assert at is not None
    view = call.view.narrow(at)
    price = view.odds(lookup(view, VENUE, id).id)
    return {
        "id": price.market_id,
        "time": iso(at),
        "odds": price.price,
        "yes_bid": price.bid,
        "yes_ask": price.ask,
        "observed_at": iso(price.observed_at),
        "age_seconds": round(price.price_age, 3),
    }


@tool(SERVER, example=MARKET, rows=FOUND_ROWS, services=SERVICES, probe="kalshi events")
def search_kalshi_markets(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words or a question.")],
) -> FoundMarkets:
    """Search Kalshi markets by words and meaning. Kalshi has no search of its own: live, its open
    events (two thousand at most) are read and ranked here."""
    found, method, rated = search(call, query, min(call.skip + call.wanted + 1, 51), NAMES)
    return {"markets": found, "search_method": method, "llm_scoring_enabled": rated}


@tool(SERVER, example=MARKET, rows=MARKET_ROWS, services=SERVICES, probe="kalshi markets")
def list_kalshi_markets(
    call: Call,
    *,
    status: Annotated[Status | None, Field(description="Only markets in this status.")] = None,
    order: Annotated[Order, Field(description="What to sort by.")] = "volume",
) -> Markets:
    """List Kalshi markets, filtered and sorted by what was known about them. Kalshi cannot sort:
    live, the first thousand it lists are."""
    wanted = call.skip + call.wanted + 1
    return {"markets": listed(call, Listing(NAMES, status, order, limit=wanted))}


@tool(
    SERVER,
    example=MARKET,
    rows=Rows("markets", default=20, maximum=200),
    services=SERVICES,
    probe="kalshi events",
)
def get_kalshi_event(call: Call, *, id: Ticker) -> KalshiEvent:
    """Get one Kalshi event with its markets."""
    event = call.view.event(qualified(VENUE, id))
    rows = []
    for name in event.market_ids:
        try:
            rows.append(detail(call.view, call.view.market(name)))
        except NotFound:
            continue  # It joins the event later.
    return {
        "event_ticker": event.id.partition(":")[2],
        "title": event.title,
        "mutually_exclusive": event.mutually_exclusive,
        "markets": rows,
    }


@tool(SERVER, example=MARKET, services=SERVICES)
def get_kalshi_order_book(
    call: Call,
    *,
    id: Ticker,
    depth: Annotated[int, Field(ge=1, le=100, description="Levels a side.")] = 10,
) -> Book:
    """Get a Kalshi order book seen from YES. Kalshi lists bids of both sides; a YES ask is one
    minus a NO bid."""
    market = lookup(call.view, VENUE, id)
    return book_row(market.native_id, call.view.book(market.id), depth, call.at)


@tool(
    SERVER,
    example=CANDLE,
    rows=Rows("candles", default=200, maximum=5000, series=CANDLE_EXTREMES),
    services=SERVICES,
)
def get_kalshi_candlesticks(
    call: Call,
    *,
    id: Ticker,
    period: Annotated[Literal["1m", "1h", "1d"], Field(description="Length of a candle.")] = "1d",
    start: Annotated[str | None, Field(description="Ending from this instant on.")] = None,
    end: Annotated[str | None, Field(description="Ending until this instant.")] = None,
) -> Candles:
    """Get candles, oldest first; live, the thousand before `end`.

    `end` of a candle is its inclusive end; a daily one ends at midnight US Eastern and names its
    `eastern_day`. Prices are null where nothing was traded.
    """
    market = lookup(call.view, VENUE, id)
    minutes = PERIODS[period]
    low, high = span(start, end)
    view = call.view if high is None or high > call.at else call.view.narrow(high)
    try:
        rows = view.observations(SOURCE, "candle", f"{market.native_id}|{minutes}")
        candles = [row.data for row in reversed(rows)]
    except (ReplayMiss, NotFound):
        call.note("no candles are on record: these are made from the recorded prices")
        candles = _candles(call.view.history(market.id), timedelta(minutes=minutes), call.at)
    shown = [
        candle
        for candle in candles
        if (low is None or datetime.fromisoformat(candle["end"]) >= low)
        and (high is None or datetime.fromisoformat(candle["end"]) <= high)
    ]
    return {"ticker": market.native_id, "period": period, "candles": shown}


def _candles(points: list[PricePoint], width: timedelta, t: datetime) -> list[Row]:
    """Candles of recorded prices; one that had not ended by t is left out. Days are Eastern."""
    groups: dict[Any, list[PricePoint]] = {}
    for point in points:
        if width >= timedelta(days=1):
            key: Any = eastern_day(point.observed_at)
        else:
            key = (point.observed_at.timestamp() - 1e-6) // width.total_seconds()
        groups.setdefault(key, []).append(point)
    out = []
    for key, group in groups.items():
        prices = [p.price for p in group]
        if isinstance(key, str):
            end = _eastern_midnight(key)
        else:
            end = datetime.fromtimestamp((key + 1) * width.total_seconds(), t.tzinfo)
        if end > t:
            continue
        made = {"end": iso(end), "open": prices[0], "high": max(prices), "low": min(prices)}
        made |= {"close": prices[-1], "yes_bid": group[-1].bid, "yes_ask": group[-1].ask}
        out.append(made | ({"eastern_day": key} if isinstance(key, str) else {}))
    return out


def _eastern_midnight(day: str) -> datetime:
    """The instant at which an Eastern day ends."""
    from beforehand.sources.kalshi import EASTERN

    start = datetime.fromisoformat(day).replace(tzinfo=EASTERN)
    return (start + timedelta(days=1)).astimezone(end_of_day(start).tzinfo)


@tool(
    SERVER,
    example=MARKET,
    rows=Rows("trades", default=50, maximum=1000),
    services=SERVICES,
    probe="kalshi trades",
)
def get_kalshi_trades(call: Call, *, id: Ticker) -> Trades:
    """Get the trades of a Kalshi market, newest first."""
    try:
        ticker = lookup(call.view, VENUE, id).native_id
    except NotFound:
        ticker = (
            id.partition(":")[2] or id
        )  # Its trades may be on record, although the market is not.
    found = call.view.observations(SOURCE, "trade", ticker)
    return {"ticker": ticker, "trades": [row.data for row in found]}
