"""The price of Bitcoin in dollars from Coinbase Exchange: the last trade, or minute candles for
an instant in the past. A candle is stamped with its start and known at its end.
Shape, not recorded (Coinbase's public documentation).
"""

from datetime import datetime, timedelta
from typing import Any

from beforehand.clock import iso
from beforehand.errors import BadAnswer
from beforehand.records.world import Observation
from beforehand.sources.base import Limit, Parse, Probe, Provider, Request, Source, params, words
from beforehand.sources.fields import answer, instant, mapping, number, required, rows, seconds

SOURCE, SUBJECT = "coinbase", "BTC-USD"
MINUTE = timedelta(minutes=1)


def ticker_request() -> Request:
    """The last trade."""
    return Request("coinbase", "ticker", f"/products/{SUBJECT}/ticker")


def candles_request(until: datetime) -> Request:
    """Minute candles of the four hours before an instant."""
    start = until - timedelta(hours=4)
    values = {"start": start, "end": until, "granularity": 60}
    return Request("coinbase", "candles", f"/products/{SUBJECT}/candles", params(values))


@answer("Coinbase's ticker")
def parse_ticker(raw: Any, fetched_at: datetime) -> list[Observation]:
    """The last trade, known when it was made."""
    body = mapping(raw, "a ticker")
    price, at = number(required(body, "price")), instant(required(body, "time"))
    assert price is not None
    assert at is not None
    if price <= 0:
        raise BadAnswer(f"a price of {price:g} is none")
    return [_price(price, min(at, fetched_at))]


@answer("Coinbase's candles")
def parse_candles(raw: Any) -> list[Observation]:
    """Closing prices, each known at the end of its minute: [start, low, high, open, close, …]."""
    out = []
    for row in rows(raw, "candles"):
        close = number(row[4])
        assert close is not None
        out.append(_price(close, seconds(row[0]) + MINUTE))
    return out


def _price(price: float, at: datetime) -> Observation:
    return Observation(
        source=SOURCE,
        kind="price",
        subject=SUBJECT,
        id=iso(at),
        data={"price": price, "observed_at": iso(at)},
        known_at=at,
    )


def _btc(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    if live:
        return [(ticker_request(), lambda b, at: list(parse_ticker(b, at)))]
    return [(candles_request(until), lambda b, _: list(parse_candles(b)))]


THE_SOURCE = Source(
    SOURCE,
    (
        Provider(
            "coinbase",
            "Coinbase Exchange",
            "https://api.exchange.coinbase.com",
            (Limit(10, 1.0),),
        ),
    ),
    answers={"price": _btc},
    probes=(
        Probe(
            "coinbase ticker",
            lambda _: ticker_request(),
            "-",
            words("price time"),
            "polymarket",
        ),
    ),
)
