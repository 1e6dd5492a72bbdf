"""What can be asked of Kalshi's Trade API, as values. Reads of markets need no key."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from beforehand.sources.request import Request, params

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


def market_request(ticker: str, historical: bool = False) -> Request:
    """One market; those settled before the cutoff stand in the historical tier alone."""
    tier = "/historical" if historical else ""
    return Request("kalshi", "market", f"{tier}/markets/{quote(ticker, safe='')}")


def events_request(
    limit: int = 100, cursor: str | None = None, status: str | None = None
) -> Request:
    """A page of events with their markets."""
    values = {"limit": limit, "cursor": cursor, "with_nested_markets": True, "status": status}
    return Request("kalshi", "events", "/events", params(values))


def event_request(ticker: str) -> Request:
    """One event with its markets."""
    values = {"with_nested_markets": True}
    return Request("kalshi", "event", f"/events/{quote(ticker, safe='')}", params(values))


def book_request(ticker: str, depth: int = 100) -> Request:
    """The order book of a market."""
    return Request(
        "kalshi",
        "orderbook",
        f"/markets/{quote(ticker, safe='')}/orderbook",
        params({"depth": depth}),
    )


def cutoff_request() -> Request:
    """Where the live tier ends and the historical one begins."""
    return Request("kalshi", "cutoff", "/historical/cutoff")


def candles_request(
    ticker: str, start: datetime, end: datetime, minutes: int, historical: bool
) -> Request:
    """Candles that end in [start, end]; at most 5,000 may be asked for at once."""
    values: dict[str, Any] = {
        "start_ts": int(start.timestamp()),
        "end_ts": int(end.timestamp()),
        "period_interval": minutes,
    }
    if historical:
        path = f"/historical/markets/{quote(ticker, safe='')}/candlesticks"
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
