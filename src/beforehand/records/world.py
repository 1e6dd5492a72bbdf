"""The world's own records. Each carries `known_at`, set once per kind where it is read in.

What is fixed (Market), what moves (MarketState, PricePoint, OrderBook) and how it ended
(Resolution) are separate records, so that no Market can carry its own answer.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from beforehand.records.record import Number, Probability, Record, Utc

Currency = Literal["usd", "play", "none"]
PLAY_MONEY = frozenset({"MANIFOLD", "METACULUS", "INFER"})
"""Venues without real money: they have prices, and no profit."""
ResolutionStatus = Literal["resolved", "void", "disputed"]


class Market(Record):
    """One stored version of what a market says: question, rules and *scheduled* close.

    `known_at` is when this version could first be read. A View that knows the market only by
    its prices returns it with `question=None` and `text_known_at=None`.
    """

    id: str
    venue: str
    native_id: str
    question: str | None = None
    background: str | None = None
    rules: str | None = None
    url: str | None = None
    event_id: str | None = None
    opened_at: Utc | None = None
    scheduled_close: Utc | None = None
    currency: Currency = "usd"
    domain: str | None = None
    tokens: tuple[str, ...] = ()
    known_at: Utc
    text_known_at: Utc | None = None


def currency_of(venue: str) -> Currency:
    """What a venue trades in."""
    return "play" if venue.upper() in PLAY_MONEY else "usd"


class MarketState(Record):
    """What moves besides the price; known when observed."""

    market_id: str
    status: str | None = None
    volume: Number | None = None
    liquidity: Number | None = None
    last_price: Probability | None = None
    closed_at: Utc | None = None
    known_at: Utc


class Event(Record):
    """A group of markets that settle on one real-world happening."""

    id: str
    venue: str
    title: str
    market_ids: tuple[str, ...] = ()
    mutually_exclusive: bool | None = None
    known_at: Utc


class PricePoint(Record):
    """A YES price. `observed_at` is when the market stood there (the *end* of a candle or day),
    `known_at` when it could be read; `bid` and `ask` only where a book was recorded."""

    market_id: str
    price: Probability
    observed_at: Utc
    known_at: Utc
    bid: Probability | None = None
    ask: Probability | None = None
    volume: Number | None = None

    @model_validator(mode="after")
    def _possible(self) -> "PricePoint":
        if self.known_at < self.observed_at:
            raise ValueError("known_at lies before observed_at: a price is not known in advance")
        if self.bid is not None and self.ask is not None and self.bid > self.ask:
            raise ValueError("the bid lies above the ask")
        return self


class Odds(PricePoint):
    """The last price known at the View's instant. `price_age` is seconds since it was observed."""

    price_age: float


class BookLevel(Record):
    """One level of an order book: a price in [0, 1] and a size in contracts or shares."""

    price: Probability
    size: Number


class OrderBook(Record):
    """Bids and asks for YES, each best first."""

    market_id: str
    bids: tuple[BookLevel, ...] = ()
    asks: tuple[BookLevel, ...] = ()
    token_id: str | None = None
    known_at: Utc


NOMINATED = "exa:"
"""How the ids of documents begin that a search engine picked when it was asked. Their texts are
dated; that these were picked, of all there are, is knowledge of the day of the search."""


class Document(Record):
    """A dated text. `text_known_at` is when this very wording was stored; where it is no later
    than t the document is evidence of the strict grade (`captured`)."""

    id: str
    title: str
    text: str = ""
    url: str | None = None
    source: str | None = None
    published_at: Utc | None = None
    known_at: Utc
    text_known_at: Utc | None = None
    captured_how: str | None = None
    licence: str | None = None


class Resolution(Record):
    """How a market ended. `payout` in [0, 1] per YES share is None for void and disputed ones.
    `first_published` is when a source first said so, where that is on record (once in a while
    before the official `resolved_at`: forecasting stops there)."""

    market_id: str
    status: ResolutionStatus
    payout: Probability | None = None
    resolved_at: Utc
    first_published: Utc | None = None
    known_at: Utc


class RecordedForecast(Record):
    """Somebody else's forecast of a market, replayed as a forecaster of its own."""

    market_id: str
    predictor: str
    probability: Probability
    known_at: Utc


class Observation(Record):
    """A vendor's row that is none of the records above: a comment, a trade, a position, a fact.

    `source`, `kind` and `subject` say where it came from, what it is and whom it is about; `id`
    is the same in every fetch of the row. A *snapshot* (positions, holders, a leaderboard) is
    known when it was fetched; any other row when it was made. `now` holds the fields that show
    the moment of the fetch (scores, reactions): a View older than `now_known_at` takes them off.
    """

    source: str
    kind: str
    subject: str
    id: str
    data: dict[str, Any]
    snapshot: bool = False
    known_at: Utc
    now: dict[str, Any] = Field(default_factory=dict)
    now_known_at: Utc | None = None


class Exchange(Record):
    """A recorded request and its answer, as it came: the evidence behind the parsed records.

    `key` is the digest of the request without its secrets, `digest` that of the body.
    """

    provider: str
    endpoint: str
    key: str
    url: str
    request: Any = None
    body: str
    digest: str
    known_at: Utc


WorldRecord = (
    Market
    | MarketState
    | Event
    | PricePoint
    | OrderBook
    | Document
    | Resolution
    | RecordedForecast
    | Observation
    | Exchange
)
