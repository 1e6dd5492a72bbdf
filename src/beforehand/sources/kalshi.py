"""Kalshi's responses as records: market, event, order book, candles of both tiers, trades' prices.

Prices are dollar strings (`yes_bid_dollars`), counts fixed-point strings (`volume_fp`); the
historical tier drops the suffixes, and older answers are in cents. A candle is known at its
inclusive end. The order book lists bids of both sides; a YES ask is one minus a NO bid. Shapes:
Kalshi's OpenAPI 3.13.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib import parse as urls
from zoneinfo import ZoneInfo

from beforehand.clock import MICROSECOND
from beforehand.errors import BadAnswer
from beforehand.ids import market_id
from beforehand.records.record import Record
from beforehand.records.world import (
    BookLevel,
    Event,
    Market,
    MarketState,
    Observation,
    OrderBook,
    PricePoint,
    Resolution,
)
from beforehand.sources.base import (
    Limit,
    Probe,
    Provider,
    Request,
    Source,
    fetch_mark,
    known,
    params,
    words,
)
from beforehand.sources.fields import (
    answer,
    each,
    instant,
    mapping,
    number,
    probability,
    required,
    rows,
    seconds,
    text,
)
from beforehand.sources.readings import (
    amount,
    counted,
    dollars,
    of_result,
    quoted,
)

VENUE = "KALSHI"
EASTERN = ZoneInfo("America/New_York")
ENDED = ("determined", "amended", "finalized", "settled")
"""The statuses of a market that has a result."""
PERIODS = {"1m": 1, "1h": 60, "1d": 1440}
"""Candle periods in minutes; Kalshi takes no others."""


@answer("Kalshi's cutoff")
def parse_cutoff(raw: Any) -> tuple[datetime, datetime]:
    """(markets settled before, trades made before) are in the historical tier."""
    body = mapping(raw, "the cutoff")
    settled = instant(required(body, "market_settled_ts"))
    traded = instant(required(body, "trades_created_ts"))
    assert settled is not None
    assert traded is not None
    return settled, traded


@answer("a Kalshi page")
def page(raw: Any, key: str) -> tuple[list[Any], str | None]:
    """The rows of a page and the next cursor. A page may be empty while its cursor is not."""
    body = mapping(raw, f"a page of {key}")
    return rows(body.get(key), key), str(body["cursor"]) if body.get("cursor") else None


@answer("a Kalshi trade list")
def parse_trades(
    raw: Any, fetched_at: datetime, ticker_asked: str | None = None
) -> list[Observation]:
    """Trades, each known when it was made; with `ticker_asked`, also a record that it was asked
    for."""
    body = raw.get("trades") if isinstance(raw, dict) else raw
    out: list[Observation] = []
    if ticker_asked is not None:
        count = len(rows(body, "trades"))
        out.append(fetch_mark("kalshi", "trade", ticker_asked, count, fetched_at))

    def trade(row: object) -> Observation:
        item = mapping(row, "a trade")
        at = instant(required(item, "created_time"))
        assert at is not None
        return Observation(
            source="kalshi",
            kind="trade",
            subject=str(required(item, "ticker")),
            id=str(required(item, "trade_id")),
            data={
                "trade_id": str(item["trade_id"]),
                "time": at.isoformat().replace("+00:00", "Z"),
                "yes_price": _needed(item, "yes_price", dollars),
                "count": _needed(item, "count", counted),
                "taker_side": item.get("taker_outcome_side") or item.get("taker_side"),
            },
            known_at=at,
        )

    return [*out, *each(rows(body, "trades"), trade)]


def _period(candles: list[Any]) -> int | None:
    """The length of these candles in minutes, from the least time between two; None for one."""
    ends = sorted({seconds(required(candle, "end_period_ts")) for candle in candles})
    if len(ends) < 2:
        return None
    gap = min((b - a).total_seconds() for a, b in pairwise(ends))
    return PERIODS["1m"] if gap < 3600 else PERIODS["1h"] if gap < 82_800 else PERIODS["1d"]


@answer("a Kalshi candle list")
def candle_rows(raw: Any, ticker: str, minutes: int, fetched_at: datetime) -> list[Observation]:
    """Candles with open, high, low, close and both sides, each known at its inclusive end; one
    that had not ended when it was fetched is left out."""
    body = mapping(raw, "candles")
    if "markets" in body:
        found = [c for m in rows(body["markets"], "markets") for c in rows(m["candlesticks"], "c")]
    else:
        found = rows(body.get("candlesticks"), "candlesticks")
    out = []
    for candle in found:
        at = seconds(required(candle, "end_period_ts"))
        price = candle.get("price")
        silent = all(_close(candle, key) is None for key in ("price", "yes_bid", "yes_ask"))
        if silent or at > fetched_at:
            continue
        data: dict[str, object] = {
            key: dollars(price, key) for key in ("open", "high", "low", "close", "previous")
        }
        data |= {"yes_bid": _close(candle, "yes_bid"), "yes_ask": _close(candle, "yes_ask")}
        if minutes == PERIODS["1d"]:
            data["eastern_day"] = eastern_day(at)
        data["volume"] = counted(candle, "volume")
        out.append(
            Observation(
                source="kalshi",
                kind="candle",
                subject=f"{ticker}|{minutes}",
                id=str(int(at.timestamp())),
                data={"end": at.isoformat().replace("+00:00", "Z"), **data}
                | {"open_interest": counted(candle, "open_interest")},
                known_at=at,
                now_known_at=fetched_at,
            )
        )
    return out


def eastern_day(end: datetime) -> str:
    """The Eastern day that a daily candle ending at `end` covers: it ends at midnight Eastern,
    which is 04:00 or 05:00 UTC of the next date."""
    return (end - MICROSECOND).astimezone(EASTERN).date().isoformat()


@answer("a Kalshi market")
def listed(raw: Mapping[str, object]) -> Market | None:
    """A record that the market exists, known since its creation; its text is known when fetched."""
    created = instant(raw.get("created_time") or raw.get("open_time"))
    ticker = raw.get("ticker")
    if created is None or not ticker:
        return None
    name = market_id(VENUE, str(ticker))
    return Market(id=name, venue=VENUE, native_id=str(ticker), known_at=created)


@answer("a Kalshi answer")
def parse(raw: Any, fetched_at: datetime, market: str | None = None) -> list[Record]:
    """Any recorded response, by its shape: market(s), event(s), order book, candlesticks."""
    if isinstance(raw, list):
        return [record for item in raw for record in parse(item, fetched_at, market)]
    body = mapping(raw, "a Kalshi response")
    if "event" in body and "event_ticker" not in body:
        event = mapping(body["event"], "an event")
        return parse_event({"markets": body.get("markets"), **event}, fetched_at)
    for key in ("market", "markets", "events"):
        if key in body and "event_ticker" not in body and "title" not in body:
            return parse(body[key], fetched_at, market)
    if "candlesticks" in body or "end_period_ts" in body:
        ticker = body.get("ticker") or body.get("market_ticker")
        name = market or (market_id(VENUE, str(ticker)) if ticker else None)
        if name is None:
            raise BadAnswer(
                "these candles do not say which market they belong to: name it with --market"
            )
        candles = rows(body["candlesticks"], "candlesticks") if "candlesticks" in body else [body]
        minutes = _period(candles)
        kept = (
            []
            if minutes is None
            else candle_rows({"candlesticks": candles}, name.partition(":")[2], minutes, fetched_at)
        )
        ended = [p for p in parse_candles(candles, name) if p.known_at <= fetched_at]
        return [*ended, *kept]
    if "orderbook_fp" in body or "orderbook" in body:
        name = market or (market_id(VENUE, str(body["ticker"])) if body.get("ticker") else None)
        if name is None:
            raise BadAnswer("this order book does not name its market: name it with --market")
        return [parse_book(body, name, fetched_at)]
    if "markets" in body or ("event_ticker" in body and "ticker" not in body):
        return parse_event(body, fetched_at)
    if "trades" in body or "trade_id" in body:
        return list(parse_trades(body if "trades" in body else [body], fetched_at))
    if "ticker" in body or "ticker_name" in body:
        return parse_market(body, fetched_at)
    raise BadAnswer(
        "not a Kalshi market, event, order book or candle list (keys: "
        f"{', '.join(sorted(body)[:6])})"
    )


@answer("a Kalshi market")
def parse_market(raw: Mapping[str, object], fetched_at: datetime) -> list[Record]:
    """A market: its text version, state, price with book, and its settlement if it has one."""
    ticker = str(raw.get("ticker") or required(raw, "ticker_name"))
    name = market_id(VENUE, ticker)
    title = str(required(raw, "title"))
    side: Any = raw.get("yes_sub_title")
    parts: list[Any] = [raw.get("rules_primary"), raw.get("rules_secondary")]
    rules = "\n\n".join(part for part in parts if part)
    event: Any = raw.get("event_ticker")
    tags: Any = raw.get("tags") or []
    market = Market(
        id=name,
        venue=VENUE,
        native_id=ticker,
        question=f"{title} [{side}]" if side and side not in title else title,
        rules=rules or None,
        event_id=market_id(VENUE, event) if event else None,
        opened_at=instant(raw.get("open_time") or raw.get("open_date")),
        scheduled_close=instant(raw.get("close_time") or raw.get("close_date")),
        domain=text(raw.get("category")),
        known_at=fetched_at,
        tags=[said for tag in tags if (said := text(tag))] or None,
        market_type=raw.get("market_type", "binary"),
    )
    status = raw.get("status")
    records: list[Record] = [
        market,
        MarketState(
            market_id=name,
            status=status,
            volume=counted(raw, "volume"),
            liquidity=number(raw.get("liquidity_dollars")),
            last_price=quoted(None, None, dollars(raw, "last_price")).price,
            known_at=fetched_at,
        ),
    ]
    if (resolution := _resolution(raw, name, status, fetched_at)) is not None:
        return [*records, resolution]
    quote = quoted(*(dollars(raw, key) for key in ("yes_bid", "yes_ask", "last_price")))
    if status == "active" and quote.price is not None:
        seen = {"observed_at": fetched_at, "known_at": fetched_at}
        records.append(PricePoint(market_id=name, **quote._asdict(), **seen))
    return records


def _resolution(
    raw: Mapping[str, object], name: str, status: object, fetched_at: datetime
) -> Resolution | None:
    if status == "disputed":
        return Resolution(
            market_id=name, status="disputed", resolved_at=fetched_at, known_at=fetched_at
        )
    if status not in ENDED:
        return None
    value = dollars(raw, "settlement_value")
    if (ending := of_result(str(raw.get("result") or ""), value, name)) is None:
        return None
    return Resolution(
        market_id=name,
        **ending._asdict(),
        resolved_at=min(instant(raw.get("settlement_ts")) or fetched_at, fetched_at),
        known_at=fetched_at,
    )


@answer("a Kalshi event")
def parse_event(raw: Mapping[str, object], fetched_at: datetime) -> list[Record]:
    """An event and its nested markets."""
    ticker = str(raw.get("event_ticker") or required(raw, "ticker"))
    name = market_id(VENUE, ticker)
    children = rows(raw.get("markets"), "markets")
    tickers = [str(m.get("ticker") or m.get("ticker_name")) for m in children]
    event = Event(
        id=name,
        venue=VENUE,
        title=str(required(raw, "title")),
        market_ids=tuple(market_id(VENUE, t) for t in tickers),
        mutually_exclusive=raw.get("mutually_exclusive"),
        known_at=fetched_at,
    )
    of_event = {key: raw[key] for key in ("category", "tags") if raw.get(key)}
    nested = [{"event_ticker": ticker, **of_event, **m} for m in children]
    return [event, *(record for m in nested for record in parse_market(m, fetched_at))]


@answer("a Kalshi order book")
def parse_book(raw: Mapping[str, object], market: str, fetched_at: datetime) -> OrderBook:
    """Bids of both sides; the order they arrive in is not relied on."""
    body = mapping(raw.get("orderbook_fp") or raw.get("orderbook"), "the order book")
    yes, no = _levels(body, "yes"), _levels(body, "no")
    asks = [(round(1.0 - price, 6), size) for price, size in no]
    return OrderBook(
        market_id=market,
        bids=tuple(BookLevel(price=p, size=s) for p, s in sorted(yes, reverse=True) if s),
        asks=tuple(BookLevel(price=p, size=s) for p, s in sorted(asks) if s),
        known_at=fetched_at,
    )


def _levels(body: Mapping[str, object], side: str) -> list[tuple[float, float]]:
    """The price and the number of contracts of each level of a side: `SIDE_dollars`, or `SIDE`, in
    cents, in older answers."""
    in_dollars, found = f"{side}_dollars" in body, list[tuple[float, float]]()
    if not in_dollars and side not in body:
        raise BadAnswer(f"the order book has no {side}_dollars (keys: {', '.join(body)})")
    for level in rows(body[f"{side}_dollars" if in_dollars else side], side):
        price = probability(level[0]) if in_dollars else amount(level[0], side)
        size = number(level[1])
        if price is None or size is None:
            raise BadAnswer("a level of the order book lacks price or size")
        found.append((price, size))
    return found


@answer("a Kalshi candle list")
def parse_candles(candles: list[Any], market: str) -> list[PricePoint]:
    """Candles of the live (`close_dollars`) and of the historical tier (`close`).

    The price is the middle of the closing bid and ask, else the closing trade; a candle with
    neither is skipped.
    """
    points = []
    for candle in candles:
        at = seconds(required(candle, "end_period_ts"))
        # A candle that only carries a previous close forward is not an observation.
        quote = quoted(*(_close(candle, key) for key in ("yes_bid", "yes_ask", "price")))
        if quote.price is None:
            continue
        points.append(
            PricePoint(
                market_id=market,
                **quote._asdict(),
                observed_at=at,
                known_at=at,
                volume=counted(candle, "volume"),
            )
        )
    return points


def _close(candle: Mapping[str, object], key: str) -> float | None:
    return dollars(candle.get(key), "close")


def _needed(
    item: Mapping[str, object],
    key: str,
    read: Callable[[Mapping[str, object], str], float | None],
) -> float:
    """A figure that must be there, under either of its names."""
    found = read(item, key)
    if found is None:
        raise BadAnswer(f"the field {key!r} is missing")
    return found


MAX_CANDLES = 5000


def markets_request(
    *,
    tickers: Sequence[str] = (),
    event_ticker: str | None = None,
    series_ticker: str | None = None,
    status: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Request:
    """A page of markets; combinations of several events are left out."""
    values = {
        "limit": limit,
        "cursor": cursor,
        "event_ticker": event_ticker,
        "series_ticker": series_ticker,
        "status": status,
        "tickers": ",".join(tickers) or None,
        "mve_filter": "exclude",
    }
    return Request("kalshi", "markets", "/markets", params(values))


def settled_request(
    since: datetime, until: datetime, series: str | None, cursor: str | None, historical: bool
) -> Request:
    """A page of settled markets. The historical tier takes no dates, and one filter at a time."""
    values: dict[str, object] = {"limit": 1000, "cursor": cursor, "series_ticker": series}
    if historical:
        return Request("kalshi", "markets", "/historical/markets", params(values))
    values |= {
        "status": "settled",
        "min_settled_ts": int(since.timestamp()),
        "max_settled_ts": int(until.timestamp()),
        "mve_filter": "exclude",
    }
    return Request("kalshi", "markets", "/markets", params(values))


def page_of(ticker: str) -> str:
    """The address of the page of a market's series, with which its ticker begins: Kalshi's answers
    name no address."""
    return f"https://kalshi.com/markets/{urls.quote(ticker.partition('-')[0].lower(), safe='')}"


def market_request(ticker: str, historical: bool = False) -> Request:
    """One market; those settled before the cutoff are in the historical tier alone."""
    tier = "/historical" if historical else ""
    return Request("kalshi", "market", f"{tier}/markets/{urls.quote(ticker, safe='')}")


MOST_EVENTS = 200
"""Events a page."""


def events_request(
    limit: int = 100, cursor: str | None = None, status: str | None = None
) -> Request:
    """A page of events with their markets."""
    values = {"limit": limit, "cursor": cursor, "with_nested_markets": True, "status": status}
    return Request("kalshi", "events", "/events", params(values))


def event_request(ticker: str) -> Request:
    """One event with its markets."""
    values = {"with_nested_markets": True}
    return Request("kalshi", "event", f"/events/{urls.quote(ticker, safe='')}", params(values))


def book_request(ticker: str, depth: int = 100) -> Request:
    """The order book of a market."""
    return Request(
        "kalshi",
        "orderbook",
        f"/markets/{urls.quote(ticker, safe='')}/orderbook",
        params({"depth": depth}),
    )


def cutoff_request() -> Request:
    """Where the live tier ends and the historical one begins."""
    return Request("kalshi", "cutoff", "/historical/cutoff")


def candles_request(
    ticker: str, start: datetime, end: datetime, minutes: int, historical: bool
) -> Request:
    """Candles that end in [start, end]; at most 5,000 may be asked for at once."""
    values: dict[str, object] = {
        "start_ts": int(start.timestamp()),
        "end_ts": int(end.timestamp()),
        "period_interval": minutes,
    }
    if historical:
        path = f"/historical/markets/{urls.quote(ticker, safe='')}/candlesticks"
        return Request("kalshi", "candlesticks", path, params(values))
    values = {"market_tickers": ticker, **values}
    return Request("kalshi", "candlesticks", "/markets/candlesticks", params(values))


def candle_windows(start: datetime, end: datetime, minutes: int) -> list[tuple[datetime, datetime]]:
    """[start, end] in parts that one request may cover."""
    width = timedelta(minutes=minutes * (MAX_CANDLES - 1))
    parts = []
    while start < end:
        parts.append((start, min(start + width, end)))
        start = parts[-1][1]
    return parts


def trades_request(
    ticker: str, limit: int, historical: bool, until: datetime | None = None
) -> Request:
    """Trades of a market until an instant, newest first."""
    tier = "/historical/trades" if historical else "/markets/trades"
    end = None if until is None else int(until.timestamp())
    values = {"ticker": ticker, "limit": limit, "max_ts": end}
    return Request("kalshi", "trades", tier, params(values))


THE_SOURCE = Source(
    "kalshi",
    (
        Provider(
            "kalshi",
            "Kalshi Trade API",
            "https://external-api.kalshi.com/trade-api/v2",
            (Limit(20, 1.0),),
        ),
    ),
    probes=(
        Probe(
            "kalshi markets",
            lambda _: markets_request(status="open", limit=2),
            "markets",
            words(
                "ticker event_ticker title status yes_bid_dollars yes_ask_dollars "
                "last_price_dollars volume_fp open_time close_time rules_primary"
            ),
            "kalshi",
        ),
        Probe(
            "kalshi events",
            lambda _: events_request(limit=1),
            "events",
            words("event_ticker title markets"),
            "kalshi",
        ),
        Probe(
            "kalshi cutoff",
            lambda _: cutoff_request(),
            "-",
            words("market_settled_ts trades_created_ts"),
            "kalshi",
        ),
        Probe(
            "kalshi trades",
            known("ticker", lambda ticker: trades_request(ticker, 2, False)),
            "trades",
            words("trade_id ticker count_fp yes_price_dollars created_time"),
            "kalshi",
        ),
    ),
    recorded=lambda raw, at, market: list(parse(raw, at, market)),
)
