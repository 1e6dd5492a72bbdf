"""Kalshi's responses as records: market, event, order book, candles of both tiers, trades' prices.

Prices are dollar strings (`yes_bid_dollars`), counts fixed-point strings (`volume_fp`); the
historical tier drops the suffixes. A candle is known at its inclusive end. The order book lists
bids of both sides; a YES ask is one minus a NO bid. Shapes: Kalshi's OpenAPI 3.13.
"""

from datetime import UTC, datetime
from typing import Any

from beforehand.errors import BadAnswer
from beforehand.ids import market_id
from beforehand.records.base import Record
from beforehand.records.world import (
    BookLevel,
    Event,
    Market,
    MarketState,
    OrderBook,
    PricePoint,
    Resolution,
)
from beforehand.sources.fields import instant, mapping, number, probability, required, rows

VENUE = "KALSHI"


def parse(raw: Any, fetched_at: datetime, market: str | None = None) -> list[Record]:
    """Any recorded response, by its shape: market(s), event(s), order book, candlesticks."""
    if isinstance(raw, list):
        return [record for item in raw for record in parse(item, fetched_at, market)]
    body = mapping(raw, "a Kalshi response")
    for key in ("market", "markets", "event", "events"):
        if key in body and "event_ticker" not in body and "title" not in body:
            return parse(body[key], fetched_at, market)
    if "candlesticks" in body or "end_period_ts" in body:
        name = market or (market_id(VENUE, str(body["ticker"])) if body.get("ticker") else None)
        if name is None:
            raise BadAnswer(
                "these candles do not say which market they belong to: name it with --market"
            )
        candles = rows(body["candlesticks"], "candlesticks") if "candlesticks" in body else [body]
        return list(parse_candles(candles, name))
    if "orderbook_fp" in body or "orderbook" in body:
        name = market or (market_id(VENUE, str(body["ticker"])) if body.get("ticker") else None)
        if name is None:
            raise BadAnswer("this order book does not name its market: name it with --market")
        return [parse_book(body, name, fetched_at)]
    if "markets" in body or ("event_ticker" in body and "ticker" not in body):
        return parse_event(body, fetched_at)
    if "ticker" in body or "ticker_name" in body:
        return parse_market(body, fetched_at)
    raise BadAnswer(
        "not a Kalshi market, event, order book or candle list (keys: "
        f"{', '.join(sorted(body)[:6])})"
    )


def parse_market(raw: dict[str, Any], fetched_at: datetime) -> list[Record]:
    """A market: its text version, state, price with book, and its settlement if it has one."""
    ticker = str(raw.get("ticker") or required(raw, "ticker_name"))
    name = market_id(VENUE, ticker)
    title = str(required(raw, "title"))
    side = raw.get("yes_sub_title")
    rules = "\n\n".join(p for p in (raw.get("rules_primary"), raw.get("rules_secondary")) if p)
    event = raw.get("event_ticker")
    market = Market(
        id=name,
        venue=VENUE,
        native_id=ticker,
        question=f"{title} [{side}]" if side and side not in title else title,
        rules=rules or None,
        event_id=market_id(VENUE, event) if event else None,
        opened_at=instant(raw.get("open_time") or raw.get("open_date")),
        scheduled_close=instant(raw.get("close_time") or raw.get("close_date")),
        known_at=fetched_at,
        market_type=raw.get("market_type", "binary"),
    )
    status = raw.get("status")
    records: list[Record] = [
        market,
        MarketState(
            market_id=name,
            status=status,
            volume=number(raw.get("volume_fp", raw.get("volume"))),
            liquidity=number(raw.get("liquidity_dollars")),
            last_price=probability(raw.get("last_price_dollars")),
            known_at=fetched_at,
        ),
    ]
    if (resolution := _resolution(raw, name, status, fetched_at)) is not None:
        return [*records, resolution]
    bid, ask = probability(raw.get("yes_bid_dollars")), probability(raw.get("yes_ask_dollars"))
    price = quote(bid, ask, probability(raw.get("last_price_dollars")))
    if status == "active" and price is not None:
        records.append(
            PricePoint(
                market_id=name,
                price=price,
                bid=bid,
                ask=ask,
                observed_at=fetched_at,
                known_at=fetched_at,
            )
        )
    return records


def _resolution(
    raw: dict[str, Any], name: str, status: Any, fetched_at: datetime
) -> Resolution | None:
    if status == "disputed":
        return Resolution(
            market_id=name, status="disputed", resolved_at=fetched_at, known_at=fetched_at
        )
    result = raw.get("result") or ""
    if status not in ("determined", "amended", "finalized", "settled") or not result:
        return None
    settled = min(instant(raw.get("settlement_ts")) or fetched_at, fetched_at)
    value = probability(raw.get("settlement_value_dollars"))
    if result == "scalar" and value is None:
        raise BadAnswer(f"{name} settled as scalar without settlement_value_dollars")
    payout = {"yes": 1.0, "no": 0.0, "scalar": value}.get(result)
    void = result in ("void", "voided", "cancelled")
    if payout is None and not void:
        raise BadAnswer(f"{name} has the unknown result {result!r}")
    return Resolution(
        market_id=name,
        status="void" if void else "resolved",
        payout=payout,
        resolved_at=settled,
        known_at=fetched_at,
    )


def parse_event(raw: dict[str, Any], fetched_at: datetime) -> list[Record]:
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
    nested = [{"event_ticker": ticker, **m} for m in children]
    return [event, *(record for m in nested for record in parse_market(m, fetched_at))]


def parse_book(raw: dict[str, Any], market: str, fetched_at: datetime) -> OrderBook:
    """Bids of both sides; the order they arrive in is not relied on."""
    body = mapping(raw.get("orderbook_fp") or raw.get("orderbook"), "the order book")

    def levels(key: str) -> list[tuple[float, float]]:
        out = []
        for level in rows(body.get(key), key):
            price, size = probability(level[0]), number(level[1])
            if price is None or size is None:
                raise BadAnswer(f"{market}: an order book level lacks price or size")
            out.append((price, size))
        return out

    yes, no = levels("yes_dollars"), levels("no_dollars")
    asks = [(round(1.0 - price, 6), size) for price, size in no]
    return OrderBook(
        market_id=market,
        bids=tuple(BookLevel(price=p, size=s) for p, s in sorted(yes, reverse=True)),
        asks=tuple(BookLevel(price=p, size=s) for p, s in sorted(asks)),
        known_at=fetched_at,
    )


def parse_candles(candles: list[Any], market: str) -> list[PricePoint]:
    """Candles of the live (`close_dollars`) and of the historical tier (`close`).

    The price is the middle of the closing bid and ask, else the closing trade, else the previous
    close; a candle with none of them is skipped.
    """
    points = []
    for candle in candles:
        end = number(required(candle, "end_period_ts"))
        assert end is not None
        at = datetime.fromtimestamp(end, UTC)
        bid, ask = _close(candle, "yes_bid"), _close(candle, "yes_ask")
        trade = _close(candle, "price")
        if trade is None:
            trade = _field(candle.get("price"), "previous")
        price = quote(bid, ask, trade)
        if price is None:
            continue
        points.append(
            PricePoint(
                market_id=market,
                price=price,
                bid=bid,
                ask=ask,
                observed_at=at,
                known_at=at,
                volume=number(candle.get("volume_fp", candle.get("volume"))),
            )
        )
    return points


def quote(bid: float | None, ask: float | None, trade: float | None) -> float | None:
    """The middle of a two-sided book, else the last trade. A book of 0 and 1 is no book."""
    if bid is not None and ask is not None and bid <= ask and (bid > 0.0 or ask < 1.0):
        return round((bid + ask) / 2, 6)
    return trade


def _field(block: Any, key: str) -> float | None:
    if not isinstance(block, dict):
        return None
    return probability(block.get(f"{key}_dollars", block.get(key)))


def _close(candle: dict[str, Any], key: str) -> float | None:
    return _field(candle.get(key), "close")
