"""Polymarket's responses as records: Gamma markets and events, CLOB book and price history.

A Gamma market shows the state at fetch time, so its text version, its state and its price are
all known at `fetched_at`. A price pinned near 0 or 1 is not a resolution: only a closed market
whose `umaResolutionStatus` (or `resolutionStatus`) is `resolved` gets one, and prices of one half
each mean void. Shapes: docs.polymarket.com, checked against recorded responses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beforehand.config import POLYMARKET_API_BASE_URL, POLYMARKET_GAMMA_BASE_URL
from beforehand.errors import BadAnswer
from beforehand.ids import market_id
from beforehand.records.record import Record
from beforehand.records.world import (
    BookLevel,
    Event,
    Market,
    MarketState,
    OrderBook,
    PricePoint,
    Resolution,
)
from beforehand.sources.base import Limit, Probe, Provider, Request, Source, known, params, words
from beforehand.sources.fields import (
    answer,
    each,
    embedded,
    instant,
    mapping,
    number,
    probability,
    required,
    rows,
    seconds,
    text,
)
from beforehand.sources.readings import Quote, of_payouts, of_winners, quoted

VENUE = "POLYMARKET"
SITE = "https://polymarket.com"
EVERYTHING = "All"
"""A tag that every event has."""


@answer("a Polymarket page")
def page(body: Any, key: str) -> tuple[list[Any], str | None]:
    """The rows of a keyset page, and the cursor of the next one."""
    found = mapping(body, f"a page of {key}")
    cursor = found.get("next_cursor")
    return rows(found.get(key), key), str(cursor) if cursor else None


@answer("a Polymarket price answer")
def parse_quotes(raw: Any, token: str, market: str, fetched_at: datetime) -> list[PricePoint]:
    """Best bid and ask of the YES token from `/prices`; the price is their middle. Which side a
    vendor calls BUY has changed before: the lower one is the bid."""
    block = mapping(raw, "the prices").get(token)
    if block is None:
        return []
    sides = [probability(value) for value in mapping(block, "a token's prices").values()]
    known = sorted(value for value in sides if value is not None)
    quote = quoted(*(known if len(known) == 2 else (None, None)))
    return _now(market, quote, fetched_at)


def _now(market: str, quote: Quote, fetched_at: datetime) -> list[PricePoint]:
    """The price that a quote gives, if it gives one."""
    if quote.price is None:
        return []
    seen = {"observed_at": fetched_at, "known_at": fetched_at}
    return [PricePoint(market_id=market, **quote._asdict(), **seen)]


@answer("a Polymarket answer")
def parse(raw: Any, fetched_at: datetime, market: str | None = None) -> list[Record]:
    """Any recorded response, by its shape: a market or a list of them, an event or a list,
    keyset and search pages, a book or a list, a price history (which needs `market`)."""
    if isinstance(raw, list):
        return [record for item in raw for record in parse(item, fetched_at, market)]
    body = mapping(raw, "a Polymarket response")
    for key in ("events", "markets", "data"):
        if isinstance(body.get(key), list) and "question" not in body and "title" not in body:
            return parse(body[key], fetched_at, market)
    if "history" in body:
        if market is None:
            raise BadAnswer(
                "a price history does not say which market it belongs to: name it with --market"
            )
        return list(parse_history(body, market))
    if "bids" in body and "asks" in body:
        return [parse_book(body, market)]
    if "markets" in body:
        return parse_event(body, fetched_at)
    if "conditionId" in body or "condition_id" in body:
        return parse_market(body, fetched_at)
    raise BadAnswer(
        "not a Polymarket market, event, book or price history (keys: "
        f"{', '.join(sorted(body)[:6])})"
    )


@answer("a Polymarket market")
def parse_market(
    raw: Mapping[str, object], fetched_at: datetime, event: str | None = None
) -> list[Record]:
    """A Gamma market: its text version, its state, its price, and its resolution if it has one."""
    if "condition_id" in raw:
        return _parse_clob_market(raw, fetched_at)
    if (version := _version(raw)) not in ("v1", "v2"):
        raise BadAnswer(f"unknown market version {version!r}")
    name = market_id(VENUE, str(required(raw, "conditionId")))
    sides = _sides(raw, name)
    market = _text_version(raw, name, sides, fetched_at, event)
    records: list[Record] = [market, _state(raw, name, sides.last, fetched_at)]
    resolution = _resolution(raw, name, sides.prices, fetched_at)
    if resolution is not None:
        records.append(resolution)
    if not raw.get("closed") and sides.prices != [0.0, 0.0]:  # They are before it opens.
        # Of a market without a book, the venue's own price.
        shown = sides.prices[0] if _is_pair(sides.prices) else None
        quote = quoted(sides.bid, sides.ask, shown if sides.last is None else sides.last)
        records += _now(name, quote, fetched_at)
    return records


@dataclass(frozen=True)
class _BothSides:
    """The two outcomes of a market, YES first, and the quotes of YES. `turned`: Gamma gave the
    outcomes with NO first."""

    outcomes: list[str]
    prices: list[float | None]
    tokens: list[Any]
    bid: float | None
    ask: float | None
    last: float | None
    turned: bool


def _sides(raw: Mapping[str, object], name: str) -> _BothSides:
    """What a Gamma market says of each outcome, turned where NO comes first."""
    outcomes = [str(o) for o in embedded(raw.get("outcomes"))]
    prices = [probability(p) for p in embedded(raw.get("outcomePrices"))]
    if len(outcomes) != 2:
        raise BadAnswer(f"{name} has {len(outcomes)} outcomes: only binary markets are read")
    tokens = _tokens(raw)
    # Bid, ask and last trade are those of the first outcome.
    bid, ask, last = (probability(raw.get(k)) for k in ("bestBid", "bestAsk", "lastTradePrice"))
    if not _no_first(outcomes):
        return _BothSides(outcomes, prices, tokens, bid, ask, last, turned=False)
    ask, bid, last = (None if q is None else round(1.0 - q, 9) for q in (bid, ask, last))
    return _BothSides(outcomes[::-1], prices[::-1], tokens[::-1], bid, ask, last, turned=True)


def _tokens(raw: Mapping[str, object]) -> list[Any]:
    """The ids of the outcome tokens, in the order of the outcomes; v2 has another name for them."""
    return embedded(raw.get("clobTokenIds" if _version(raw) == "v1" else "positionIds"))


def _version(raw: Mapping[str, object]) -> object:
    return raw.get("version") or "v1"


def _no_first(outcomes: Sequence[object]) -> bool:
    return [str(o).lower() for o in outcomes] == ["no", "yes"]


def _parent(raw: Mapping[str, object]) -> str | None:
    """The first event that a Gamma market names as its own."""
    parents: Any = raw.get("events") or [{}]
    return market_id(VENUE, str(parents[0]["id"])) if parents[0].get("id") else None


def _text_version(
    raw: Mapping[str, object],
    name: str,
    sides: _BothSides,
    fetched_at: datetime,
    event: str | None,
) -> Market:
    slug = raw.get("slug")
    return Market(
        id=name,
        venue=VENUE,
        native_id=str(raw["conditionId"]),
        question=str(required(raw, "question")),
        rules=raw.get("description") or None,
        url=f"{SITE}/market/{slug}" if slug else None,
        event_id=event or _parent(raw),
        opened_at=instant(raw.get("startDate")),
        scheduled_close=instant(raw.get("endDate")),
        domain=text(raw.get("category")),
        tokens=tuple(str(t) for t in sides.tokens),
        known_at=fetched_at,
        tags=[name for name in _tags(raw) if name != EVERYTHING] or None,
        gamma_id=raw.get("id"),
        slug=slug,
        outcomes=sides.outcomes,
        turned=sides.turned,
    )


def _tags(raw: Mapping[str, object]) -> list[str]:
    """The labels that the venue gave a market, or its event."""
    found = (text(mapping(item, "a tag").get("label")) for item in rows(raw.get("tags"), "tags"))
    return [name for name in found if name is not None]


def _state(
    raw: Mapping[str, object], name: str, last: float | None, fetched_at: datetime
) -> MarketState:
    open_status = "active" if raw.get("active") else "inactive"
    return MarketState(
        market_id=name,
        status="closed" if raw.get("closed") else open_status,
        volume=number(raw.get("volumeNum", raw.get("volume"))),
        liquidity=number(raw.get("liquidityNum", raw.get("liquidity"))),
        last_price=quoted(None, None, last).price,
        closed_at=instant(raw.get("closedTime")),
        known_at=fetched_at,
    )


@answer("a Polymarket market")
def listed(raw: Mapping[str, object]) -> Market | None:
    """What the listing itself fixed: that the market exists, its event and its tokens. This is
    known since its creation; the text is not (it may have been edited since)."""
    created = instant(raw.get("createdAt") or raw.get("startDate"))
    if created is None or not raw.get("conditionId"):
        return None
    tokens = _tokens(raw)
    if _no_first(embedded(raw.get("outcomes"))):
        tokens = tokens[::-1]
    return Market(
        id=market_id(VENUE, str(raw["conditionId"])),
        venue=VENUE,
        native_id=str(raw["conditionId"]),
        event_id=_parent(raw),
        tokens=tuple(str(t) for t in tokens),
        known_at=created,
    )


def _is_pair(prices: Sequence[float | None]) -> bool:
    """True for two prices that add up to one."""
    return len(prices) == 2 and None not in prices and 0.99 <= sum(p or 0.0 for p in prices) <= 1.01


def _resolution(
    raw: Mapping[str, object], name: str, prices: Sequence[float | None], fetched_at: datetime
) -> Resolution | None:
    status = raw.get("umaResolutionStatus") or raw.get("resolutionStatus")
    if status == "disputed":
        return Resolution(
            market_id=name, status="disputed", resolved_at=fetched_at, known_at=fetched_at
        )
    if not raw.get("closed") or status not in ("resolved", "settled"):
        return None
    if not _is_pair(prices) or (ending := of_payouts(prices[0], prices[1])) is None:
        return None
    return Resolution(
        market_id=name,
        **ending._asdict(),
        resolved_at=min(instant(raw.get("closedTime")) or fetched_at, fetched_at),
        known_at=fetched_at,
    )


def _parse_clob_market(raw: Mapping[str, object], fetched_at: datetime) -> list[Record]:
    """The CLOB's own market shape (snake case, tokens with a `winner` flag)."""
    name = market_id(VENUE, str(required(raw, "condition_id")))
    tokens = rows(raw.get("tokens"), "tokens")
    if len(tokens) != 2:
        raise BadAnswer(f"{name} has {len(tokens)} outcomes: only binary markets are read")
    if _no_first([t.get("outcome") for t in tokens]):
        tokens = tokens[::-1]
    records: list[Record] = []
    if raw.get("question"):
        records.append(
            Market(
                id=name,
                venue=VENUE,
                native_id=str(raw["condition_id"]),
                question=raw["question"],
                rules=raw.get("description") or None,
                scheduled_close=instant(raw.get("end_date_iso")),
                tokens=tuple(str(t.get("token_id")) for t in tokens),
                known_at=fetched_at,
                outcomes=[t.get("outcome") for t in tokens],
            )
        )
    closed = bool(raw.get("closed"))
    records.append(
        MarketState(
            market_id=name,
            status="closed" if closed else "active",
            last_price=quoted(None, None, probability(tokens[0].get("price"))).price,
            known_at=fetched_at,
        )
    )
    ending = of_winners(
        [t.get("winner") is True for t in tokens], raw.get("is_50_50_outcome") is True
    )
    if closed and ending is not None:
        records.append(
            Resolution(
                market_id=name,
                **ending._asdict(),
                resolved_at=fetched_at,  # This shape does not say when.
                known_at=fetched_at,
            )
        )
    return records


def is_binary(raw: Mapping[str, object]) -> bool:
    """True for a market with two outcomes and an id on the chain: no other is read (a market that
    waits to be opened has none yet)."""
    return len(embedded(raw.get("outcomes"))) == 2 and bool(raw.get("conditionId"))


@answer("a Polymarket event")
def parse_event(raw: Mapping[str, object], fetched_at: datetime) -> list[Record]:
    """A Gamma event and its nested binary markets."""
    name = market_id(VENUE, str(required(raw, "id")))
    children = [m for m in rows(raw.get("markets"), "markets") if is_binary(m)]
    of_event = {key: raw[key] for key in ("category", "tags") if raw.get(key)}
    records = [
        record
        for child in children
        for record in parse_market({**of_event, **child}, fetched_at, event=name)
    ]
    event = Event(
        id=name,
        venue=VENUE,
        title=str(required(raw, "title")),
        market_ids=tuple(market_id(VENUE, str(m["conditionId"])) for m in children),
        mutually_exclusive=raw.get("negRisk"),
        markets_not_binary=len(rows(raw.get("markets"), "markets")) - len(children),
        known_at=fetched_at,
        slug=raw.get("slug"),
    )
    return [event, *records]


@answer("a Polymarket book")
def parse_book(raw: Mapping[str, object], market: str | None = None) -> OrderBook:
    """A CLOB book; its own millisecond timestamp says when the book looked like this. Levels arrive
    worst first and are returned best first; either side may be empty."""
    stamp = number(required(raw, "timestamp"))
    assert stamp is not None

    def side(key: str, best_first: int) -> tuple[BookLevel, ...]:
        levels = [
            BookLevel(price=probability(level["price"]), size=number(level["size"]))
            for level in rows(raw.get(key), key)
        ]
        levels = [level for level in levels if level.size]  # Of a size of 0: what was taken away.
        return tuple(sorted(levels, key=lambda level: best_first * level.price))

    return OrderBook(
        market_id=market or market_id(VENUE, str(required(raw, "market"))),
        token_id=raw.get("asset_id"),
        bids=side("bids", -1),
        asks=side("asks", 1),
        known_at=seconds(stamp / 1000),
    )


def parse_history(raw: Mapping[str, object], market: str) -> list[PricePoint]:
    """`prices-history`: each point is an observation at its own second."""

    def point(item: Mapping[str, object]) -> PricePoint:
        stamp, price = number(required(item, "t")), probability(required(item, "p"))
        assert stamp is not None
        assert price is not None
        at = seconds(stamp)
        return PricePoint(market_id=market, price=price, observed_at=at, known_at=at)

    return each(rows(raw.get("history"), "history"), point)


LEAST_TOKEN = 20
"""Digits from which a number is a token's: Gamma counts its markets in a few."""
MAX_PAGE = 100
ORDERS = {"volume": "volumeNum", "liquidity": "liquidityNum", "close_time": "endDate", "id": "id"}
"""`order=volume` would sort a text column, letter by letter, so Gamma's numeric columns are
used."""


def search_request(query: str, page: int = 1, per_type: int = 20) -> Request:
    """Gamma's public search; it answers with events and their nested markets."""
    values = {"q": query, "page": page, "limit_per_type": per_type, "keep_closed_markets": 1}
    return Request("gamma", "public-search", "/public-search", params(values))


def is_token(native: str) -> bool:
    """Whether an id is that of a token (a 256-bit number in decimal), and not Gamma's own number of
    a market, which is short."""
    return native.isascii() and native.isdigit() and len(native) >= LEAST_TOKEN


def markets_request(
    *,
    ids: Sequence[str] = (),
    condition_ids: Sequence[str] = (),
    slugs: Sequence[str] = (),
    tokens: Sequence[str] = (),
    closed: bool | None = None,
    order: str | None = None,
    ascending: bool = False,
    limit: int = MAX_PAGE,
    cursor: str | None = None,
    tags: bool = False,
) -> Request:
    """A keyset page of markets; with `tags`, each has its labels."""
    values = {
        "id": list(ids),
        "condition_ids": list(condition_ids),
        "clob_token_ids": list(tokens),
        "slug": list(slugs),
        "closed": closed,
        "order": ORDERS[order] if order else None,
        "ascending": ascending if order else None,
        "limit": limit,
        "after_cursor": cursor,
        "include_tag": True if tags else None,
    }
    return Request("gamma", "markets", "/markets/keyset", params(values))


def settled_request(since: datetime, min_volume: float, cursor: str | None) -> Request:
    """A keyset page of closed markets that were scheduled to close since then, in that order."""
    values = {
        "closed": True,
        "end_date_min": since,
        "volume_num_min": min_volume or None,
        "order": ORDERS["close_time"],
        "ascending": True,
        "limit": MAX_PAGE,
        "after_cursor": cursor,
    }
    return Request("gamma", "markets", "/markets/keyset", params(values))


def events_request(
    *,
    ids: Sequence[str] = (),
    slugs: Sequence[str] = (),
    closed: bool | None = None,
    limit: int = MAX_PAGE,
    cursor: str | None = None,
) -> Request:
    """A keyset page of events with their markets, the most traded first."""
    listed = not ids and not slugs
    values = {
        "id": list(ids),
        "slug": list(slugs),
        "closed": closed,
        "order": "volume" if listed else None,
        "ascending": False if listed else None,
        "limit": limit,
        "after_cursor": cursor,
    }
    return Request("gamma", "events", "/events/keyset", params(values))


def comments_request(event_id: str, limit: int = 50) -> Request:
    """Comments of an event, newest first. There are none per market: `limit` counts root
    comments, and their replies come along."""
    values = {
        "parent_entity_id": event_id,
        "parent_entity_type": "Event",
        "limit": limit,
    }
    return Request("gamma", "comments", "/comments/keyset", params(values))


def books_request(tokens: Sequence[str]) -> Request:
    """Order books of outcome tokens."""
    return Request("clob", "books", "/books", body=[{"token_id": token} for token in tokens])


def prices_request(tokens: Sequence[str]) -> Request:
    """Best prices of outcome tokens, both sides."""
    sides = [{"token_id": t, "side": side} for t in tokens for side in ("BUY", "SELL")]
    return Request("clob", "prices", "/prices", body=sides)


THE_SOURCE = Source(
    "polymarket",
    (
        Provider(
            "gamma",
            "Polymarket Gamma",
            POLYMARKET_GAMMA_BASE_URL,
            (
                Limit(4000, 10.0),
                Limit(500, 10.0, ("events",)),
                Limit(300, 10.0, ("markets",)),
                Limit(200, 10.0, ("comments",)),
                Limit(350, 10.0, ("public-search",)),
            ),
        ),
        Provider(
            "clob",
            "Polymarket CLOB",
            POLYMARKET_API_BASE_URL,
            (
                Limit(9000, 10.0),
                Limit(500, 10.0, ("books", "prices")),
                Limit(1000, 10.0, ("prices-history",)),
            ),
        ),
    ),
    probes=(
        Probe(
            "gamma markets",
            lambda _: markets_request(closed=False, order="volume", limit=5),
            "markets",
            words(
                "id conditionId question slug outcomes outcomePrices clobTokenIds active closed "
                "volumeNum startDate endDate events"
            ),
            "polymarket",
        ),
        Probe(
            "gamma events",
            lambda _: events_request(closed=False, limit=2),
            "events",
            words("id title slug markets"),
            "polymarket",
        ),
        Probe(
            "gamma public-search",
            lambda _: search_request("election", per_type=2),
            "events",
            words("id title markets"),
            "polymarket",
        ),
        Probe(
            "gamma comments",
            known("event", lambda event: comments_request(event, 2)),
            "comments",
            words("id body parentEntityType parentEntityID createdAt"),
            "polymarket",
        ),
        Probe(
            "clob books",
            known("token", lambda token: books_request([token])),
            "",
            words("market asset_id timestamp bids asks"),
            "polymarket",
        ),
    ),
)
