"""How a market is shown: the documented keys, from what was known at t."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from beforehand.clock import iso, parse_instant, when
from beforehand.config import (
    MARKET_STATUS_ACTIVE,
    MARKET_STATUS_CLOSED,
    MARKET_STATUS_RESOLVED,
    MAX_POLYMARKET_RESULTS,
)
from beforehand.errors import BeforehandError, InputError, NotFound, Stopped
from beforehand.gateway.search import Method
from beforehand.gateway.view import View
from beforehand.gateway.worlds import Listing
from beforehand.ids import split_market_id
from beforehand.records.world import Market, MarketState, Odds, OrderBook
from beforehand.tools.bounds import Rows
from beforehand.tools.registry import Call


class Quote(TypedDict):
    bid: float | None
    ask: float | None
    observed_at: str
    age_seconds: float


class Missing(TypedDict):
    id: str
    reason: str


class ListedMarket(TypedDict):
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


class FullMarket(ListedMarket):
    """A market with its whole text, and how old each part of it is."""

    id: str
    event_id: str | None
    known_since: str
    text_known_at: str | None
    background: NotRequired[str]
    quote: NotRequired[Quote]
    resolution: NotRequired[Ending]


class FoundMarkets(TypedDict):
    markets: list[ListedMarket]
    search_method: str
    llm_scoring_enabled: bool


class Markets(TypedDict):
    markets: list[ListedMarket]


class Book(TypedDict):
    """An order book seen from YES; each level is [price, size]. `levels` counts both sides."""

    market_id: str
    observed_at: str | None
    bids: list[list[float]]
    asks: list[list[float]]
    age_seconds: NotRequired[float]
    spread: NotRequired[float | None]
    levels: NotRequired[list[int]]


SIMULATED = frozenset({"SIM", "SIMEX", "SIMKET", "SIMPLAY"})
"""The venues of simulated worlds: every server treats them as its own."""
SHORT = 300
MOST_LISTED = 1000
"""The most markets that are read live to find those that fit."""
_NOT_TRADED = frozenset({"closed", "determined", "disputed", "amended"})
_NOT_TRADED |= {"inactive", "initialized", "unopened", "paused"}  # Not yet, or not now.
_SETTLED = frozenset({"finalized", "settled", "resolved"})


YES = (("yes",), ("yes",))
"""Which columns a thinned series keeps the lowest and the highest of."""
Status = Literal["active", "closed", "resolved"]
FOUND_ROWS = Rows("markets", default=10, maximum=50, counted=False)
MARKET_ROWS = Rows("markets", default=10, maximum=100, whole=True)


def venues(*names: str) -> frozenset[str]:
    """A server's own venues, and the simulated one."""
    return SIMULATED | set(names)


def qualified(venue: str, market_id: str) -> str:
    """The id as a user wrote it; a bare one belongs to the server's venue."""
    return market_id if split_market_id(market_id)[0] else f"{venue}:{market_id}"


def lookup(view: View, venue: str, market_id: str) -> Market:
    """A market by id or slug, at the server's venue or (a bare id) wherever it is unambiguous."""
    try:
        return view.market(qualified(venue, market_id))
    except NotFound:
        if split_market_id(market_id)[0]:
            raise
        return view.market(market_id)


def odds(view: View, market_id: str) -> Odds | None:
    """The price at t, or None before the first."""
    try:
        return view.odds(market_id)
    except NotFound:
        return None


def status(view: View, market: Market, state: MarketState | None) -> str:
    """active, closed (not traded: over, not open yet, or paused) or resolved, as far as was known
    at t. Without an observed state a market counts as closed from its scheduled close on."""
    ended = view.resolution(market.id)
    if ended is not None and ended.status != "disputed":
        return MARKET_STATUS_RESOLVED
    if state is not None and state.status is not None:
        if state.status in _SETTLED:
            return MARKET_STATUS_RESOLVED
        return MARKET_STATUS_CLOSED if state.status in _NOT_TRADED else MARKET_STATUS_ACTIVE
    if market.scheduled_close is not None and market.scheduled_close <= view.t:
        return MARKET_STATUS_CLOSED
    return MARKET_STATUS_ACTIVE


def describe(view: View, market: Market, full: bool = False) -> ListedMarket:
    """The documented market object. Values that change are as last observed by t, or null."""
    state, price = view.state(market.id), odds(view, market.id)
    extra = market.model_extra or {}
    outcomes = list(extra.get("outcomes") or ["Yes", "No"])
    text = market.rules or market.background or ""
    if not full and len(text) > SHORT:
        text = text[: SHORT - 1] + "…"
    close = market.scheduled_close
    return {
        "market_id": market.native_id,
        "title": market.question,
        "description": text,
        "outcomes": outcomes,
        "prices": {}
        if price is None
        else {outcomes[0]: price.price, outcomes[1]: round(1 - price.price, 9)},
        "volume": None if state is None else state.volume,
        "liquidity": None if state is None else state.liquidity,
        "status": status(view, market, state),
        "url": market.url,
        "slug": extra.get("slug"),
        "close_time": None if close is None else iso(close),
    }


def detail(view: View, market: Market) -> FullMarket:
    """A market in full: the documented object, and how old each part of it is."""
    price, ended = odds(view, market.id), view.resolution(market.id)
    made: FullMarket = {
        "id": market.id,
        **describe(view, market, full=True),  # type: ignore[typeddict-item]  # The rest: below.
        "event_id": market.event_id,
        "known_since": iso(market.known_at),
        "text_known_at": None if market.text_known_at is None else iso(market.text_known_at),
    }
    if market.background and market.rules:
        made["background"] = market.background
    if price is not None:
        made["quote"] = {
            "bid": price.bid,
            "ask": price.ask,
            "observed_at": iso(price.observed_at),
            "age_seconds": round(price.price_age, 3),
        }
    if ended is not None:
        made["resolution"] = {
            "status": ended.status,
            "payout": ended.payout,
            "resolved_at": None if ended.status == "disputed" else iso(ended.resolved_at),
        }
    return made


def listed(call: Call, listing: Listing) -> list[ListedMarket]:
    """The page of a listing that was asked for, filtered and sorted by what was known at t. Only
    what is shown is described in full; `call.total` says how many there are."""
    return _told(call, [describe(call.view, market) for market in _page(call, listing)])


def _told(call: Call, rows: list[ListedMarket]) -> list[ListedMarket]:
    """The rows; the answer says how many of them have no price, whose `prices` are empty."""
    if unpriced := sum(not row["prices"] for row in rows):
        call.note(f"{unpriced:,} of these {len(rows):,} markets had no price on record by then")
    return rows


def _page(call: Call, listing: Listing) -> list[Market]:
    view = call.view
    live = call.storage.mode != "replay"
    found, seen = _selected(view, listing)
    while live and len(found) < listing.limit < MOST_LISTED:
        # The venue's filter is coarser than ours: ask for more until enough fit.
        listing = replace(listing, limit=min(4 * listing.limit, MOST_LISTED))
        found, more = _selected(view, listing)
        if more == seen:
            break
        seen = more
    known = sorted(row for row in found if row[0] is not None)
    if not listing.ascending:
        known.sort(key=lambda row: row[0], reverse=True)
    unknown = sorted((row for row in found if row[0] is None), key=lambda row: row[1])
    call.total = None if live else len(found)
    return [market for _, _, market in [*known, *unknown][call.skip : call.skip + call.wanted]]


def _selected(view: View, listing: Listing) -> tuple[list[tuple[Any, str, Market]], int]:
    """(sort key, id, market) of a listing's markets that fit, and how many there were."""
    markets = [market for market in view.list_markets(listing) if market.question is not None]
    found = []
    for market in markets:
        state = view.state(market.id)
        if listing.status is None or status(view, market, state) == listing.status:
            found.append((_sort_key(listing, market, state), market.id, market))
    return found, len(markets)


def _sort_key(listing: Listing, market: Market, state: MarketState | None) -> Any:
    if listing.order == "id":
        return market.native_id
    if listing.order == "close_time":
        return market.scheduled_close
    return None if state is None else getattr(state, listing.order)


def search(
    call: Call, query: str, limit: int, names: frozenset[str]
) -> tuple[list[ListedMarket], Method, bool]:
    """(described markets, how they were found, whether a model rated them), as `find` finds
    them."""
    found, method, rated = find(call, query, limit, names)
    return _told(call, [row for _, row in found]), method, rated


Described = list[tuple[Market, ListedMarket]]


def find(
    call: Call, query: str, limit: int, names: frozenset[str] | None
) -> tuple[Described, Method, bool]:
    """(markets and how they are shown, how they were found, whether a model rated them), at the
    named venues or all. Falls back from a model's rating to words and meaning, then to the most
    traded ones: never empty while any market has a text known at t."""
    # A model rates the same pool for every page, or pages would be cut from different orders.
    pool = MAX_POLYMARKET_RESULTS if call.storage.scorer else min(limit, MAX_POLYMARKET_RESULTS)
    hits, method = call.view.find_markets(query, pool, names)
    if not hits:
        call.note(f"nothing fits {query!r}: these are the most traded markets instead")
        asked = Call(call.view, call.storage, call.toolbox, wanted=limit)
        page = _page(asked, Listing(names, order="volume", limit=limit))
        return [(market, describe(call.view, market)) for market in page], "top_volume", False
    found = [(hit.market, describe(call.view, hit.market)) for hit in hits]
    scorer = call.storage.scorer
    return (found, method, False) if scorer is None else _rated(call, query, found, method)


def _rated(
    call: Call, query: str, found: Described, method: Method
) -> tuple[Described, Method, bool]:
    assert call.storage.scorer is not None
    try:
        ratings = call.storage.scorer(query, [market for market, _ in found])
    except Stopped:  # The run ends, and asks again when it is resumed.
        raise
    except BeforehandError as error:
        call.note(f"the model's rating failed ({error}): ranked without it")
        return found, method, False
    for (_, row), (score, reason) in zip(found, ratings, strict=True):
        row["relevance_score"], row["relevance_reason"] = round(score, 4), reason
    found.sort(key=lambda pair: -float(pair[1]["relevance_score"]))
    return found, "hybrid_llm", True


def book_row(market_id: str, book: OrderBook | None, depth: int, at: datetime) -> Book:
    """A book with its spread; `observed_at` is null where none is on record."""
    if book is None:
        return {"market_id": market_id, "observed_at": None, "bids": [], "asks": []}
    bids = [[level.price, level.size] for level in book.bids]
    asks = [[level.price, level.size] for level in book.asks]
    spread = round(asks[0][0] - bids[0][0], 9) if bids and asks else None
    return {
        "market_id": market_id,
        "observed_at": iso(book.known_at),
        "age_seconds": round((at - book.known_at).total_seconds(), 3),
        "bids": bids[:depth],
        "asks": asks[:depth],
        "spread": spread,
        "levels": [len(bids), len(asks)],
    }


def span(start: str | None, end: str | None) -> tuple[datetime | None, datetime | None]:
    """The instants `start` and `end`, of bare dates both days whole. Raises InputError if they are
    in the wrong order."""
    low, high = moment("start", start), moment("end", end, when)
    if low is not None and high is not None and low > high:
        raise InputError(f"start {start} lies after end {end}")
    return low, high


def moment(
    name: str, text: str | None, read: Callable[[str], datetime] = parse_instant
) -> datetime | None:
    """An instant among the arguments. A bad one raises InputError with its name."""
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
