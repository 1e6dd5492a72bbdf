"""What each tool answers: the shapes behind the output schemas.

A key that may be absent is NotRequired, one that may be unknown at t is null. Rows that a vendor
shapes (positions, facts, trades…) are objects with that vendor's own keys.
"""

from typing import Any, NotRequired

from typing_extensions import TypedDict

Row = dict[str, Any]


class Quote(TypedDict):
    bid: float | None
    ask: float | None
    observed_at: str
    age_seconds: float


class Missing(TypedDict):
    id: str
    reason: str


class Market(TypedDict):
    """A market as listings show it."""

    market_id: str
    title: str | None
    description: str
    outcomes: list[str]
    prices: dict[str, float]
    volume: float | None
    liquidity: float | None
    status: str
    url: str | None
    slug: str | None
    close_time: str | None
    relevance_score: NotRequired[float]
    relevance_reason: NotRequired[str]


class Ending(TypedDict):
    """How a market ended."""

    status: str
    payout: float | None
    resolved_at: str | None


class FullMarket(Market):
    """A market with its whole text, and how old each part of it is."""

    id: str
    event_id: str | None
    known_since: str
    text_known_at: str | None
    background: NotRequired[str]
    quote: NotRequired[Quote]
    resolution: NotRequired[Ending]


class FoundMarkets(TypedDict):
    markets: list[Market]
    search_method: str
    llm_scoring_enabled: bool


class Markets(TypedDict):
    markets: list[Market]


class Event(TypedDict):
    event_id: str
    title: str | None
    slug: str | None
    market_count: int
    mutually_exclusive: bool | None


class Events(TypedDict):
    events: list[Event]


class EventMarkets(Event):
    markets: list[Market]


class Book(TypedDict):
    """An order book seen from YES; each level is [price, size]. `levels` counts both sides."""

    market_id: str
    observed_at: str | None
    bids: list[list[float]]
    asks: list[list[float]]
    age_seconds: NotRequired[float]
    spread: NotRequired[float | None]
    levels: NotRequired[list[int]]


class Books(TypedDict):
    books: list[Book]
    missing: list[Missing]


class Price(TypedDict):
    market_id: str
    bid: float | None
    ask: float | None
    price: float | None
    observed_at: str | None
    age_seconds: float | None


class Prices(TypedDict):
    prices: list[Price]
    missing: list[Missing]


class Point(TypedDict):
    time: str
    yes: float


class History(TypedDict):
    market_id: str
    data_points: int
    points: list[Point]


class Positions(TypedDict):
    user: str
    observed_at: str
    positions: list[Row]


class Activity(TypedDict):
    user: str
    activity: list[Row]


class Holders(TypedDict):
    market_id: str
    observed_at: str
    holders: list[Row]


class Comments(TypedDict):
    event_id: str
    comments: list[Row]


class Builders(TypedDict):
    period: str
    observed_at: str
    builders: list[Row]


class Bitcoin(TypedDict):
    price: float
    source: str
    observed_at: str


class Snapshot(TypedDict):
    market: Market
    bid: float | None
    ask: float | None
    age_seconds: float | None
    change_day: float | None
    change_week: float | None
    top_holders: list[Row] | None
    comments: int | None


class Ranked(TypedDict):
    market_id: str
    title: str | None
    yes: float | None
    status: str
    volume: float | None


class Overview(TypedDict):
    event_id: str
    title: str | None
    mutually_exclusive: bool | None
    sum_of_yes: float | None
    markets: list[Ranked]


class Compared(TypedDict):
    market_id: str
    title: str | None
    yes: float | None
    spread: float | None
    volume: float | None
    change_day: float | None
    change_week: float | None


class Comparison(TypedDict):
    markets: list[Compared]
    missing: list[Missing]


class AgentMarkets(TypedDict):
    markets: list[Market]
    metadata: Row


class AgentHistory(TypedDict):
    history: list[Row]
    metadata: Row


class Sides(TypedDict):
    yes: float
    no: float


class Change(TypedDict):
    yes: float | None
    no: float | None


class PriceAround(TypedDict):
    market_id: str
    date: str
    price: Sides
    data_points: int
    data_source: str
    note: str


class DatedPrice(TypedDict):
    date: str
    yes: float
    no: float


class PriceRange(TypedDict):
    market_id: str
    start_date: str
    end_date: str
    prices: list[DatedPrice]
    data_points: int
    price_change: Change
    note: str


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


class Edition(TypedDict):
    edition: str
    name: str
    gl: str
    hl: str
    ceid: str


class Editions(TypedDict):
    editions: list[Edition]


class Operator(TypedDict):
    operator: str
    meaning: str


class Operators(TypedDict):
    operators: list[Operator]
    notes: list[str]


class BuiltFeed(TypedDict):
    q: str
    edition: str
    url: str
    queryKey: str


class FeedItems(TypedDict):
    """`fetched_at` is null where no copy of the feed is on record and documents stand in."""

    q: str
    edition: str
    queryKey: str
    fetched_at: str | None
    count: int
    items: list[Row]


class WebAnswer(TypedDict):
    """`answered_at` is null where no stored answer is at hand and documents stand in."""

    query: str
    answer: NotRequired[str | None]
    results: list[Row]
    answered_at: str | None


class Capabilities(TypedDict):
    model: str
    maxResults: dict[str, int]
    query: dict[str, int]
    timeoutSeconds: float
    rateLimit: Row
    dateFilter: bool
    freshnessHours: str
    pointInTime: str


class Found(TypedDict):
    id: str
    title: str | None
    text: str | None
    url: str | None
    source: str | None
    timestamp: str


class FoundDocuments(TypedDict):
    query: str
    time_upper_bound: str
    results: list[Found]


class Threads(TypedDict):
    threads: list[Row]
    thread_count: int


class Facts(TypedDict):
    cik: str
    facts: list[Row]


class Filings(TypedDict):
    cik: str
    filings: list[Row]


class QueryMetadata(TypedDict):
    query: str
    params: list[Any]
    row_count: int
    sample: list[Row]
    columns: str


class TableRows(TypedDict):
    data: list[Row]
    metadata: QueryMetadata


class Executed(TypedDict):
    """`output` is what was printed."""

    success: bool
    output: str
    error: str | None
    execution_time_ms: float
