"""Which requests answer for which kind of observation: (source, kind) to requests and parsers.

A subject is what the rows are filed under, live and on record: a wallet, a condition id, a
ticker, an event, a search as it was written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from beforehand.errors import BadAnswer
from beforehand.gateway.world import Listing
from beforehand.sources import (
    btc,
    edgar,
    google_news,
    kalshi,
    kalshi_requests,
    polymarket,
    polymarket_data,
    polymarket_requests,
    reddit,
    web_search,
)
from beforehand.sources.fields import mapping
from beforehand.sources.observed import snapshot
from beforehand.sources.request import Request

Parse = Callable[[Any, datetime], list[Any]]
Ask = Callable[[str, datetime, bool], list[tuple[Request, Parse]]]
"""(subject, until, live) to the requests to send and how to read each."""
PAGE, THREAD_LIMIT, THREAD_DEPTH = 500, 200, 8


def _data(kind: str) -> Ask:
    def ask(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
        request = {
            "positions": lambda: polymarket_data.user_request(kind, subject, PAGE),
            "activity": lambda: polymarket_data.user_request(
                kind, subject, PAGE, end=None if live else until
            ),
            "trades": lambda: polymarket_data.trades_request(subject, PAGE),
            "holders": lambda: polymarket_data.holders_request(subject, 100),
            "builders": lambda: polymarket_data.builders_request(subject, 100),
        }[kind]()
        return [(request, lambda b, at: list(polymarket_data.parse_rows(b, kind, subject, at)))]

    return ask


def _comments(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    request = polymarket_requests.comments_request(subject.removeprefix("event:"), 100)
    return [(request, lambda b, at: list(polymarket_data.parse_comments(b, subject, at)))]


def _feed(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    edition, _, q = subject.partition("|")
    feed = google_news.Feed(q, edition)
    return [(feed.request(), lambda b, at: google_news.parse(b, feed, at))]


def _answer(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    query, region, hours = subject.rsplit("|", 2)
    request = web_search.search_request(query, 8, float(hours) if hours else None, region or None)
    return [(request, lambda b, at: [web_search.parse(b, subject, at)])]


def _posts(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    subreddit, window, limit, query = subject.split("|", 3)

    def read(body: Any, at: datetime) -> list[Any]:
        posts = reddit.parse(body, at)
        ids = [post.id for post in posts]
        return [snapshot(reddit.SOURCE, "search", subject, ids, at), *posts]

    return [(reddit.search_request(query, subreddit or None, window, int(limit)), read)]


def _thread(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    request = reddit.thread_request(subject, THREAD_DEPTH, THREAD_LIMIT)
    return [(request, lambda b, at: list(reddit.parse(b, at)))]


def _facts(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    return [(edgar.facts_request(subject), lambda b, at: list(edgar.parse_facts(b, at)))]


def _filings(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    return [
        (edgar.submissions_request(subject), lambda b, at: list(edgar.parse_submissions(b, at)))
    ]


def _btc(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    if live:
        return [(btc.ticker_request(), lambda b, at: list(btc.parse_ticker(b, at)))]
    return [(btc.candles_request(until), lambda b, _: list(btc.parse_candles(b)))]


ASKED: dict[tuple[str, str], Ask] = {
    **{
        ("polymarket", kind): _data(kind)
        for kind in ("positions", "activity", "trades", "holders", "builders")
    },
    ("polymarket", "comment"): _comments,
    (google_news.SOURCE, "feed"): _feed,
    (web_search.SOURCE, "answer"): _answer,
    (reddit.SOURCE, "search"): _posts,
    (reddit.SOURCE, "comment"): _thread,
    (edgar.SOURCE, "fact"): _facts,
    (edgar.SOURCE, "filing"): _filings,
    (btc.SOURCE, "price"): _btc,
}


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
        return kalshi_requests.markets_request(status=status, cursor=cursor, limit=1000)
    closed = None if listing.status is None else listing.status != "active"
    return polymarket_requests.markets_request(
        closed=closed,
        order=listing.order,
        ascending=listing.ascending,
        limit=min(listing.limit, polymarket_requests.MAX_PAGE),
        cursor=cursor,
    )


def page_parser(venue: str) -> Callable[[Any, datetime], list[Any]]:
    """How to read a page of a venue's listing."""
    return kalshi_markets if venue == kalshi.VENUE else gamma_markets
