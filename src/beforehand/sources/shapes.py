"""What each endpoint is expected to answer with: the fields that our parsers read, of one row.

`doctor --live` compares today's answers with these and reports what is missing (drift that would
break a parser) and what is new. `rows` says where the rows are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beforehand.sources import (
    btc,
    edgar,
    google_news,
    kalshi_requests,
    polymarket_data,
    polymarket_requests,
)
from beforehand.sources.request import Request


@dataclass(frozen=True)
class Probe:
    """One question to ask of an endpoint, and the fields expected in a row of the answer.

    `ask` gets facts that earlier probes found (a market's ids); it returns None where one that it
    needs is missing.
    """

    name: str
    ask: Callable[[dict[str, str]], Request | None]
    rows: str
    expected: frozenset[str]
    server: str


def _fields(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _with(name: str, make: Callable[[str], Request]) -> Callable[[dict[str, str]], Request | None]:
    return lambda facts: make(facts[name]) if name in facts else None


_PM, _K = "polymarket", "kalshi"
PROBES: tuple[Probe, ...] = (
    Probe(
        "gamma markets",
        lambda _: polymarket_requests.markets_request(closed=False, order="volume", limit=5),
        "markets",
        _fields(
            "id conditionId question slug outcomes outcomePrices clobTokenIds active closed "
            "volumeNum startDate endDate events"
        ),
        _PM,
    ),
    Probe(
        "gamma events",
        lambda _: polymarket_requests.events_request(closed=False, limit=2),
        "events",
        _fields("id title slug markets"),
        _PM,
    ),
    Probe(
        "gamma public-search",
        lambda _: polymarket_requests.search_request("election", per_type=2),
        "events",
        _fields("id title markets"),
        _PM,
    ),
    Probe(
        "gamma comments",
        _with("event", lambda event: polymarket_requests.comments_request(event, 2)),
        "comments",
        _fields("id body parentEntityType parentEntityID createdAt"),
        _PM,
    ),
    Probe(
        "clob books",
        _with("token", lambda token: polymarket_requests.books_request([token])),
        "",
        _fields("market asset_id timestamp bids asks"),
        _PM,
    ),
    Probe(
        "data prices-history",
        _with("token", polymarket_data.history_request),
        "data",
        _fields("timestamp price resolution_seconds"),
        _PM,
    ),
    Probe(
        "data holders",
        _with("market", lambda market: polymarket_data.holders_request(market, 2)),
        "data",
        _fields("token_id holders"),
        _PM,
    ),
    Probe(
        "data trades",
        _with("market", lambda market: polymarket_data.trades_request(market, 2)),
        "data",
        _fields("proxy_wallet token_id side size price timestamp transaction_hash"),
        _PM,
    ),
    Probe(
        "data builders",
        lambda _: polymarket_data.builders_request("week", 2),
        "data",
        _fields("rank builder_name volume active_users"),
        _PM,
    ),
    Probe(
        "kalshi markets",
        lambda _: kalshi_requests.markets_request(status="open", limit=2),
        "markets",
        _fields(
            "ticker event_ticker title status yes_bid_dollars yes_ask_dollars last_price_dollars "
            "volume_fp open_time close_time rules_primary"
        ),
        _K,
    ),
    Probe(
        "kalshi events",
        lambda _: kalshi_requests.events_request(limit=1),
        "events",
        _fields("event_ticker title markets"),
        _K,
    ),
    Probe(
        "kalshi cutoff",
        lambda _: kalshi_requests.cutoff_request(),
        "-",
        _fields("market_settled_ts trades_created_ts"),
        _K,
    ),
    Probe(
        "kalshi trades",
        _with("ticker", lambda ticker: kalshi_requests.trades_request(ticker, 2, False)),
        "trades",
        _fields("trade_id ticker count_fp yes_price_dollars created_time"),
        _K,
    ),
    Probe(
        "google news search",
        lambda _: google_news.build("economy").request(),
        "rss",
        _fields("title link pubDate"),
        "google-news-rss",
    ),
    Probe(
        "edgar companyfacts",
        lambda _: edgar.facts_request("320193"),
        "-",
        _fields("cik facts"),
        "edgar",
    ),
    Probe(
        "edgar submissions",
        lambda _: edgar.submissions_request("320193"),
        "-",
        _fields("cik filings"),
        "edgar",
    ),
    Probe(
        "coinbase ticker",
        lambda _: btc.ticker_request(),
        "-",
        _fields("price time"),
        _PM,
    ),
)


def rows_of(body: Any, place: str) -> list[dict[str, Any]]:
    """The rows of an answer: a list itself (""), the answer itself ("-"), or under a key."""
    found = body if place == "" else [body] if place == "-" else body.get(place)
    return [row for row in found or [] if isinstance(row, dict)]
