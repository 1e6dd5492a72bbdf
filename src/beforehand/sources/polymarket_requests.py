"""What can be asked of Polymarket's Gamma and CLOB, as values. No key is needed."""

from collections.abc import Sequence

from beforehand.sources.request import Request, params

MAX_PAGE = 100
ORDERS = {"volume": "volumeNum", "liquidity": "liquidityNum", "close_time": "endDate", "id": "id"}
"""`order=volume` would sort a text column, letter by letter: Gamma's numeric columns are named."""


def search_request(query: str, page: int = 1, per_type: int = 20) -> Request:
    """Gamma's public search; it answers with events and their nested markets."""
    values = {"q": query, "page": page, "limit_per_type": per_type, "keep_closed_markets": 1}
    return Request("gamma", "public-search", "/public-search", params(values))


def markets_request(
    *,
    ids: Sequence[str] = (),
    condition_ids: Sequence[str] = (),
    slugs: Sequence[str] = (),
    closed: bool | None = None,
    order: str | None = None,
    ascending: bool = False,
    limit: int = MAX_PAGE,
    cursor: str | None = None,
) -> Request:
    """A keyset page of markets."""
    values = {
        "id": list(ids),
        "condition_ids": list(condition_ids),
        "slug": list(slugs),
        "closed": closed,
        "order": ORDERS[order] if order else None,
        "ascending": ascending if order else None,
        "limit": limit,
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
