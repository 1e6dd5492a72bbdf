"""The `polymarket` server: markets, events, books, prices, wallets, comments, builders."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso
from beforehand.errors import InputError, NotFound
from beforehand.gateway.worlds import Listing, Order
from beforehand.ids import split_market_id
from beforehand.records.world import Market
from beforehand.sources.polymarket import VENUE
from beforehand.tools.bounds import Rows
from beforehand.tools.markets import (
    FOUND_ROWS,
    MARKET_ROWS,
    YES,
    Book,
    FoundMarkets,
    FullMarket,
    ListedMarket,
    Markets,
    Missing,
    Status,
    book_row,
    describe,
    detail,
    listed,
    lookup,
    odds,
    qualified,
    search,
    span,
    venues,
)
from beforehand.tools.registry import Call, Example, Row, server, tool


class ListedEvent(TypedDict):
    event_id: str
    title: str | None
    slug: str | None
    market_count: int
    mutually_exclusive: bool | None


class Events(TypedDict):
    events: list[ListedEvent]


class EventMarkets(ListedEvent):
    markets: list[ListedMarket]


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


SERVER = server(
    "polymarket",
    "Read-only access to Polymarket: markets, events, order books, prices, wallets, "
    "comments, builders; composites; the price of Bitcoin.",
)
SOURCE = "polymarket"
NAMES = venues(VENUE)
GAMMA = Example("recorded", "2026-07-25", "Gamma responses")
BOOK = Example("recorded", "2026-08-09", "CLOB order books")
HISTORY = Example("recorded", "2026-02-07", "CLOB price histories; Data API v2 from its SDK 0.14")
ROWS_V1 = Example("recorded", "2026-08-03", "Data API v1 responses; v2 from its SDK 0.14")
COMMENTS = Example("recorded", "2026-08-19", "Gamma comments")
SHAPE = Example("simulated", "2026-10-31", "polymarket-client 0.14 (shape, not recorded)")
DATA = ("polymarket-data", "gamma")
Id = Annotated[
    str, Field(min_length=1, max_length=200, description="Condition id, slug or VENUE:id.")
]
Ids = Annotated[
    list[str], Field(min_length=1, max_length=20, description="Market ids, at most 20.")
]
Wallet = Annotated[
    str, Field(pattern=r"^0x[0-9a-fA-F]{40}$", description="Wallet address, 0x and 40 hex digits.")
]


@tool(
    SERVER, example=GAMMA, rows=FOUND_ROWS, services=("gamma", "clob"), probe="gamma public-search"
)
def search_markets(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words or a question.")],
    status: Annotated[Status | None, Field(description="Only markets in this status.")] = None,
) -> FoundMarkets:
    """Search markets by words and meaning.

    `search_method` says how they were found: hybrid_llm, hybrid, keyword or top_volume (nothing
    fitted: the most traded ones).
    """
    wanted = 50 if status else call.skip + call.wanted + 1
    found, method, rated = search(call, query, wanted, NAMES)
    if status:
        found = [row for row in found if row["status"] == status]
    return {"markets": found, "search_method": method, "llm_scoring_enabled": rated}


@tool(SERVER, example=GAMMA, rows=MARKET_ROWS, services=("gamma", "clob"), probe="gamma markets")
def list_markets(
    call: Call,
    *,
    status: Annotated[Status | None, Field(description="Only markets in this status.")] = None,
    order: Annotated[Order, Field(description="What to sort by.")] = "volume",
    ascending: Annotated[bool, Field(description="Smallest first.")] = False,
) -> Markets:
    """List markets, filtered and sorted by what was known about them."""
    wanted = call.skip + call.wanted + 1
    found = listed(call, Listing(NAMES, status, order, ascending, wanted))
    return {"markets": found}


@tool(SERVER, example=GAMMA, services=("gamma", "clob"), probe="gamma markets")
def get_market(call: Call, *, id: Id) -> FullMarket:
    """Get one market in full: text, status, price with its age, resolution once known."""
    return detail(call.view, lookup(call.view, VENUE, id))


@tool(
    SERVER,
    example=GAMMA,
    rows=Rows("events", default=10, maximum=100),
    services=("gamma",),
    probe="gamma events",
)
def list_events(call: Call) -> Events:
    """List events: groups of markets on one happening."""
    found = call.view.events(VENUE)
    if not found:
        found = [event for event in call.view.events() if event.venue in NAMES]
    return {"events": [_event(event) for event in found]}


def _event(event: Any) -> ListedEvent:
    return {
        "event_id": event.id.partition(":")[2],
        "title": event.title,
        "slug": (event.model_extra or {}).get("slug"),
        "market_count": len(event.market_ids),
        "mutually_exclusive": event.mutually_exclusive,
    }


@tool(
    SERVER,
    example=GAMMA,
    rows=Rows("markets", default=20, maximum=200),
    services=("gamma", "clob"),
    probe="gamma events",
)
def get_event(
    call: Call, *, id: Annotated[str, Field(min_length=1, description="Event id or slug.")]
) -> EventMarkets:
    """Get one event with its markets."""
    event = find_event(call, id)
    return {**_event(event), "markets": event_markets(call, event)}


def find_event(call: Call, event_id: str) -> Any:
    """An event at the server's venue, or by its full id anywhere."""
    try:
        return call.view.event(qualified(VENUE, event_id))
    except NotFound:
        return call.view.event(event_id)


def event_markets(call: Call, event: Any) -> list[ListedMarket]:
    """The event's markets that are known at t."""
    rows = []
    for name in event.market_ids:
        try:
            rows.append(describe(call.view, call.view.market(name)))
        except NotFound:
            continue  # It joins the event later.
    return rows


@tool(
    SERVER, example=BOOK, rows=Rows("books", 20, 20), services=("clob", "gamma"), probe="clob books"
)
def get_order_books(
    call: Call,
    *,
    ids: Ids,
    depth: Annotated[int, Field(ge=1, le=100, description="Levels a side.")] = 10,
) -> Books:
    """Get order books seen from YES, best levels first, each level [price, size]. An id that is
    not known stands under `missing`."""
    markets, missing = found_markets(call, ids)
    books = [book_row(m.native_id, call.view.book(m.id), depth, call.at) for m in markets]
    return {"books": books, "missing": missing}


def found_markets(call: Call, ids: list[str]) -> tuple[list[Market], list[Missing]]:
    """The markets that are known at t, and why the others are not."""
    markets, missing = list[Market](), list[Missing]()
    for i, name in enumerate(ids):
        call.progress(i, len(ids), name)
        try:
            markets.append(lookup(call.view, VENUE, name))
        except (NotFound, InputError) as error:
            missing.append({"id": name, "reason": str(error)})
    return markets, missing


@tool(
    SERVER,
    example=BOOK,
    rows=Rows("prices", 20, 20),
    services=("clob", "gamma"),
)
def get_prices(call: Call, *, ids: Ids) -> Prices:
    """Get the best bid, the best ask and the price of YES. An id that is not known stands under
    `missing`."""
    markets, missing = found_markets(call, ids)
    prices = list[Price]()
    for market in markets:
        price = odds(call.view, market.id)
        prices.append(
            {
                "market_id": market.native_id,
                "bid": None if price is None else price.bid,
                "ask": None if price is None else price.ask,
                "price": None if price is None else price.price,
                "observed_at": None if price is None else iso(price.observed_at),
                "age_seconds": None if price is None else round(price.price_age, 3),
            }
        )
    return {"prices": prices, "missing": missing}


@tool(
    SERVER,
    example=HISTORY,
    rows=Rows("points", default=400, maximum=10_000, series=YES, counts=("data_points",)),
    services=("polymarket-data", "gamma"),
    probe="data prices-history",
)
def get_price_history(
    call: Call,
    *,
    id: Id,
    start: Annotated[str | None, Field(description="From this instant on (ISO 8601).")] = None,
    end: Annotated[str | None, Field(description="Until this instant (ISO 8601).")] = None,
) -> History:
    """Get the price of YES over time, oldest first.

    Longer series are thinned to `limit` points that keep every stretch's lowest and highest.
    """
    market = lookup(call.view, VENUE, id)
    low, high = span(start, end)
    if high is not None and high > call.at:
        call.note(f"nothing after {iso(call.at)} is shown: that is the instant of this call")
    view = call.view if high is None or high > call.at else call.view.narrow(high)
    points: list[Point] = [
        {"time": iso(p.observed_at), "yes": p.price}
        for p in view.history(market.id, low)
        if high is None or p.observed_at <= high
    ]
    return {"market_id": market.native_id, "data_points": len(points), "points": points}


@tool(
    SERVER,
    example=ROWS_V1,
    rows=Rows("positions", default=20, maximum=500),
    services=DATA,
)
def get_user_positions(call: Call, *, user: Wallet) -> Positions:
    """Get a wallet's positions, as last fetched."""
    found = call.view.snapshot(SOURCE, "positions", user.lower())
    return {
        "user": user.lower(),
        "observed_at": iso(found.known_at),
        "positions": found.data["rows"],
    }


@tool(
    SERVER,
    example=ROWS_V1,
    rows=Rows("activity", default=20, maximum=500),
    services=DATA,
)
def get_user_activity(
    call: Call,
    *,
    user: Wallet,
    type: Annotated[
        str | None, Field(description="Only this type, such as TRADE, REDEEM, SPLIT, MERGE.")
    ] = None,
) -> Activity:
    """Get a wallet's activity, newest first: live the last 500 rows, else what is on record."""
    found = [
        {**row.data, **row.now} for row in call.view.observations(SOURCE, "activity", user.lower())
    ]
    if type is not None:
        found = [row for row in found if str(row.get("type", "")).upper() == type.upper()]
    return {"user": user.lower(), "activity": found}


@tool(
    SERVER,
    example=SHAPE,
    rows=Rows("holders", default=20, maximum=200),
    services=DATA,
    probe="data holders",
)
def get_top_holders(call: Call, *, id: Id) -> Holders:
    """Get the largest holders of a market's outcomes, as last fetched."""
    market = lookup(call.view, VENUE, id)
    found = call.view.snapshot(SOURCE, "holders", market.native_id)
    holders = sorted(found.data["rows"], key=lambda row: -float(row.get("amount") or 0))
    return {
        "market_id": market.native_id,
        "observed_at": iso(found.known_at),
        "holders": holders,
    }


@tool(
    SERVER,
    example=COMMENTS,
    rows=Rows("comments", default=20, maximum=200),
    services=("gamma",),
    probe="gamma comments",
)
def list_comments(call: Call, *, id: Id) -> Comments:
    """List comments, newest first.

    Polymarket keeps comments per event: a market's are those of its event. A comment is known
    when it was last changed; reactions are shown only where they were seen by then.
    """
    event = comment_subject(call, id)
    found = call.view.observations(SOURCE, "comment", event)
    comments = [
        {**row.data, **{key: value for key, value in row.now.items() if value is not None}}
        for row in found
    ]
    return {"event_id": event.removeprefix("event:"), "comments": comments}


def comment_subject(call: Call, name: str) -> str:
    """`event:ID` of a market or an event."""
    try:
        market = lookup(call.view, VENUE, name)
    except NotFound:
        try:
            event_id = find_event(call, name).id
        except NotFound:
            event_id = qualified(VENUE, name.removeprefix("event:"))
    else:
        event_id = market.event_id or market.id
    return f"event:{split_market_id(event_id)[1]}"


@tool(
    SERVER,
    example=SHAPE,
    rows=Rows("builders", default=20, maximum=100),
    services=DATA,
    probe="data builders",
)
def get_builder_leaderboard(
    call: Call,
    *,
    period: Annotated[
        Literal["day", "week", "month", "all"], Field(description="Over this long.")
    ] = "all",
) -> Builders:
    """Get the builders by volume, as last fetched."""
    found = call.view.snapshot(SOURCE, "builders", period)
    return {
        "period": period,
        "observed_at": iso(found.known_at),
        "builders": found.data["rows"],
    }


def change(call: Call, market_id: str, days: int) -> float | None:
    """How far the price of YES has moved in the given number of days before t."""
    now = odds(call.view, market_id)
    earlier = odds(call.view.narrow(call.view.t - timedelta(days=days)), market_id)
    return None if now is None or earlier is None else round(now.price - earlier.price, 9)
