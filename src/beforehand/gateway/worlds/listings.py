"""Pages of the venues' listings: what to ask for, and the records of an answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beforehand.errors import BadAnswer
from beforehand.gateway.world import Listing
from beforehand.sources import kalshi, polymarket
from beforehand.sources.base import Request
from beforehand.sources.fields import mapping


def gamma_markets(body: Any, at: datetime) -> list[Any]:
    """The records of a page of Gamma markets, then the next cursor."""
    rows, cursor = polymarket.page(body, "markets") if isinstance(body, dict) else (body, None)
    return [*_binary(rows, at), cursor]


def _binary(rows: Sequence[Any], at: datetime) -> list[Any]:
    """The records of a page's binary markets; others are not read."""
    found: list[Any] = []
    for row in _each(rows):
        if polymarket.is_binary(row):
            found += _readable(polymarket.parse_market, row, at)
            found += [m for m in [polymarket.listed(row)] if m is not None]
    return found


def _each(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [mapping(row, "a row of a page") for row in rows]


@dataclass(frozen=True)
class Skipped:
    """A row of a page that could not be read, and why."""

    reason: str


def _readable(parse: Callable[..., Any], row: dict[str, Any], at: datetime) -> list[Any]:
    """The records of one row of a page. A row that cannot be read (an unknown version, a price
    above one) is left out, counted, and does not take the page along."""
    try:
        return list(parse(row, at))
    except BadAnswer as error:
        return [Skipped(str(error))]


def gamma_events(body: Any, at: datetime) -> list[Any]:
    """The records of a page of Gamma events, or of a search."""
    rows, _ = polymarket.page(body, "events")
    found: list[Any] = []
    for row in _each(rows):
        children = _each(row.get("markets") or ())
        readable = []
        for child in children:
            # A nested market that cannot be read is told of; the event is read without it.
            read = (
                _readable(polymarket.parse_market, child, at) if polymarket.is_binary(child) else []
            )
            odd = [record for record in read if isinstance(record, Skipped)]
            found += odd
            readable += [] if odd else [child]
        found += polymarket.parse_event({**row, "markets": readable}, at)
        found += [m for child in readable if (m := polymarket.listed(child))]
    return found


def kalshi_events(body: Any, at: datetime) -> list[Any]:
    """The records of a page of Kalshi events, then the next cursor."""
    rows, cursor = kalshi.page(body, "events")
    found = [record for row in _each(rows) for record in _readable(kalshi.parse_event, row, at)]
    return [*found, cursor]


def kalshi_markets(body: Any, at: datetime) -> list[Any]:
    """The records of one Kalshi market or of a page, then the next cursor."""
    rows, cursor = ([body["market"]], None) if "market" in body else kalshi.page(body, "markets")
    found: list[Any] = []
    for row in _each(rows):
        found += _readable(kalshi.parse_market, row, at)
        found += [m for m in [kalshi.listed(row)] if m is not None]
    return [*found, cursor]


def page_request(venue: str, listing: Listing, cursor: str | None) -> Request:
    """The next page of a venue's listing."""
    if venue == kalshi.VENUE:
        status = {"active": "open", "closed": "closed", "resolved": "settled"}.get(
            listing.status or ""
        )
        return kalshi.markets_request(status=status, cursor=cursor, limit=1000)
    closed = None if listing.status is None else listing.status != "active"
    return polymarket.markets_request(
        closed=closed,
        order=listing.order,
        ascending=listing.ascending,
        limit=min(listing.limit, polymarket.MAX_PAGE),
        cursor=cursor,
    )


def page_parser(venue: str) -> Callable[[Any, datetime], list[Any]]:
    """How to read a page of a venue's listing."""
    return kalshi_markets if venue == kalshi.VENUE else gamma_markets
