"""What is read of each source's answer, in a table a door: a good answer, and the same with its
figure null, zero, missing or odd, in the form that the service had before, and dated of tomorrow.

`python tests/contracts/doors.py docs/sources.md` writes the page (`make docs`): each cell is what the
reader made of the answer, so that the page and the code cannot differ; test_sources.py compares.
"""

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import shapes
from beforehand.clock import iso
from beforehand.errors import BeforehandError
from beforehand.gateway.worlds.pull import gamma_markets, kalshi_markets
from beforehand.records.world import (
    Document,
    Market,
    MarketState,
    Observation,
    OrderBook,
    PricePoint,
    Resolution,
)
from beforehand.sources import (
    btc,
    edgar,
    exa,
    google_news,
    kalshi,
    polymarket,
    polymarket_data,
    reddit,
    web_search,
)
from beforehand.sources.fields import answer

AT = datetime(2026, 1, 6, tzinfo=UTC)
TOMORROW, TOMORROW_S = "2026-01-07T08:00:00Z", shapes.T0 + 2 * 86_400
GONE = object()
Change = Mapping[str, object]
"""Paths of an answer with dots, and what stands there instead (GONE: nothing)."""


@dataclass(frozen=True)
class Door:
    """A form of answer: what it holds, how it is read, and what may be odd of it."""

    name: str
    good: Any
    read: Callable[[Any], Any]
    cases: Mapping[str, Change] = field(default_factory=dict)


def changed(good: Any, change: Change) -> Any:
    """The answer with the changes."""
    found = copy.deepcopy(good)
    for path, value in change.items():
        if path == "":
            return value
        *outer, last = path.split(".")
        place = found
        for name in outer:
            place = place[int(name) if isinstance(place, list) else name]
        key = int(last) if isinstance(place, list) else last
        if value is GONE:
            del place[key]
        else:
            place[key] = value
    return found


def outcome(door: Door, change: Change) -> str:
    """What comes of an answer, in words."""
    try:
        found = answer("the answer")(lambda raw, _: door.read(raw))(changed(door.good, change), AT)
    except BeforehandError as error:
        return f"refused: {str(error).removeprefix('the answer: ')}"
    said = [one for record in _flat(found) if (one := _said(record))]
    return "; ".join(dict.fromkeys(said)) or "nothing"


def _flat(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [one for part in found for one in _flat(part)]
    return [found]


def _said(record: Any) -> str:
    if isinstance(record, PricePoint):
        return (
            f"price {_figures(price=record.price, bid=record.bid, ask=record.ask)}{_known(record)}"
        )
    if isinstance(record, MarketState):
        return f"state {record.status}"
    if isinstance(record, Resolution):
        payout = "" if record.payout is None else f", YES pays {record.payout:g}"
        return f"ended: {record.status}{payout}{_known(record)}"
    if isinstance(record, OrderBook):
        best = _figures(bid=_best(record.bids, max), ask=_best(record.asks, min))
        return f"book with {best or 'no level'}{_known(record)}"
    if isinstance(record, Document):
        return f"document{_known(record)}" + ("" if record.text_known_at else ", its text undated")
    if isinstance(record, Market):
        return ""
    if isinstance(record, Observation):
        if record.id == "@fetch":
            return ""
        names = ("value", "yes_price", "price", "usd", "form", "title", "body", "answer", "close")
        told = {k: v for k, v in {**record.data, **(record.now or {})}.items() if k in names}
        return f"{record.kind} {_figures(**told)}{_known(record)}"
    why = getattr(record, "why", None) or getattr(record, "reason", None)
    return f"left out and counted: {why}" if why else ""


def _best(levels: Sequence[Any], pick: Any) -> float | None:
    return pick((level.price for level in levels), default=None)


def _figures(**values: Any) -> str:
    shown = {k: f"{v:g}" if isinstance(v, float) else v for k, v in values.items() if v is not None}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _known(record: Any) -> str:
    return "" if record.known_at == AT else f", known {iso(record.known_at)[:16]}"


CLOB_BOOK = {
    "market": shapes.CONDITION, "asset_id": shapes.YES, "timestamp": str(shapes.T0 * 1000),
    "bids": [{"price": "0.60", "size": "10"}], "asks": [{"price": "0.62", "size": "20"}],
}  # fmt: skip
QUOTES = ("bestBid", "bestAsk")
DOORS = (
    Door(
        "Polymarket Gamma: a market",
        {"markets": [shapes.GAMMA_MARKET], "next_cursor": None},
        lambda raw: gamma_markets(raw, AT),
        {
            "one side null": {"markets.0.bestBid": None},
            "both sides 0": {"markets.0.bestBid": 0, "markets.0.bestAsk": 0},
            "0 and 1, never traded": {
                "markets.0.bestBid": 0,
                "markets.0.bestAsk": 1,
                "markets.0.lastTradePrice": 0,
                "markets.0.outcomePrices": '["0", "0"]',
            },
            "no price at all": {
                f"markets.0.{k}": GONE for k in (*QUOTES, "lastTradePrice", "outcomePrices")
            },
            "crossed": {"markets.0.bestBid": 0.7},
            "a price above 1": {"markets.0.bestBid": 60, "markets.0.bestAsk": 62},
            "closed, with its result": {
                "markets.0.closed": True,
                "markets.0.outcomePrices": '["1", "0"]',
                "markets.0.umaResolutionStatus": "resolved",
                "markets.0.closedTime": "2026-01-05T08:00:00Z",
            },
            "closed, undecided": {
                "markets.0.closed": True,
                "markets.0.outcomePrices": '["0.5", "0.5"]',
            },
            "before: a bare list": {"": [shapes.GAMMA_MARKET]},
        },
    ),
    Door(
        "Polymarket CLOB: a book",
        [CLOB_BOOK],
        lambda raw: polymarket.parse(raw, AT, "POLYMARKET:x"),
        {
            "one side empty": {"0.asks": []},
            "both sides empty": {"0.asks": [], "0.bids": []},
            "side null": {"0.bids": None},
            "a level of size 0": {"0.bids.0.size": "0"},
            "a price above 1": {"0.bids.0.price": "60"},
            "no time": {"0.timestamp": GONE},
            "of tomorrow": {"0.timestamp": str(TOMORROW_S * 1000)},
            "before: one book, no list": {"": CLOB_BOOK},
        },
    ),
    Door(
        "Polymarket Data API: a price history",
        shapes.page([{"timestamp": shapes.T0, "price": 0.5, "resolution_seconds": 43_200}]),
        lambda raw: polymarket_data.parse_history(raw, "POLYMARKET:x", AT),
        {
            "null": {"data.0.price": None},
            "0": {"data.0.price": 0},
            "missing": {"data.0.price": GONE},
            "above 1": {"data.0.price": 50},
            "a text": {"data.0.price": "soon"},
            "no time": {"data.0.timestamp": GONE},
            "of tomorrow": {"data.0.timestamp": TOMORROW_S},
            "without rows": {"data": GONE},
        },
    ),
    Door(
        "Polymarket CLOB: the price history of before",
        {"history": [{"t": shapes.T0, "p": 0.5}]},
        lambda raw: polymarket.parse(raw, AT, "POLYMARKET:x"),
        {
            "null": {"history.0.p": None},
            "above 1": {"history.0.p": 50},
            "of tomorrow": {"history.0.t": TOMORROW_S},
        },
    ),
    Door(
        "Polymarket Data API: an ending",
        shapes.page([shapes.RESOLUTION_V2]),
        lambda raw: polymarket_data.parse_resolutions(raw, AT),
        {
            "NO": {"data.0.price": 0, "data.0.payouts": [0, 1_000_000]},
            "half": {"data.0.price": 500_000, "data.0.payouts": [500_000, 500_000]},
            "payouts null": {"data.0.payouts": None},
            "price null": {"data.0.price": None},
            "neither": {"data.0.price": None, "data.0.payouts": None},
            "disputed": {"data.0.status": "disputed"},
            "an unknown status": {"data.0.status": "pondering"},
            "of tomorrow": {"data.0.resolved_at": TOMORROW_S},
        },
    ),
    Door(
        "Polymarket Data API: a trade",
        shapes.page([shapes.TRADE_V2]),
        lambda raw: polymarket_data.parse_rows(raw, "trades", "x", AT),
        {
            "price null": {"data.0.price": None},
            "no time": {"data.0.timestamp": GONE},
            "no row": {"data": []},
            "of tomorrow": {"data.0.timestamp": TOMORROW_S},
        },
    ),
    Door(
        "Polymarket: a comment",
        [shapes.COMMENT],
        lambda raw: polymarket_data.parse_comments(raw, "event:1", AT),
        {
            "body null": {"0.body": None},
            "no time": {"0.createdAt": GONE},
            "never changed": {"0.updatedAt": None},
        },
    ),
    Door(
        "Kalshi: a market",
        {"markets": [shapes.KALSHI_MARKET], "cursor": ""},
        lambda raw: kalshi_markets(raw, AT),
        {
            "one side 0": {"markets.0.yes_bid_dollars": "0.0000"},
            "0 and 1, never traded": {
                "markets.0.yes_bid_dollars": "0.0000",
                "markets.0.yes_ask_dollars": "1.0000",
                "markets.0.last_price_dollars": "0.0000",
            },
            "null": {"markets.0.yes_bid_dollars": None, "markets.0.yes_ask_dollars": None},
            "crossed": {"markets.0.yes_bid_dollars": "0.7000"},
            "a price above 1": {
                "markets.0.yes_bid_dollars": "56",
                "markets.0.yes_ask_dollars": "58",
            },
            "before: cents": {
                "markets.0.yes_bid_dollars": GONE,
                "markets.0.yes_ask_dollars": GONE,
                "markets.0.last_price_dollars": GONE,
                "markets.0.yes_bid": 56,
                "markets.0.yes_ask": 58,
                "markets.0.last_price": 57,
            },
            "settled YES": {
                "markets.0.status": "finalized",
                "markets.0.result": "yes",
                "markets.0.settlement_ts": "2026-01-05T08:00:00Z",
            },
            "settled, result null": {"markets.0.status": "finalized", "markets.0.result": None},
            "a scalar settlement": {
                "markets.0.status": "finalized",
                "markets.0.result": "scalar",
                "markets.0.settlement_value_dollars": "0.2500",
            },
        },
    ),
    Door(
        "Kalshi: a candle",
        {"candlesticks": [shapes.KALSHI_CANDLE]},
        lambda raw: kalshi.candle_rows(raw, "x", 60, AT),
        {
            "no trade": {"candlesticks.0.price.close_dollars": None},
            "one side 0": {"candlesticks.0.yes_bid.close_dollars": "0.0000"},
            "a side missing": {"candlesticks.0.yes_ask": GONE},
            "before: no unit in the names": {"candlesticks.0": shapes.KALSHI_CANDLE_OLD},
            "of tomorrow": {"candlesticks.0.end_period_ts": TOMORROW_S},
        },
    ),
    Door(
        "Kalshi: a book",
        shapes.KALSHI_BOOK,
        lambda raw: kalshi.parse_book(raw, "KALSHI:x", AT),
        {
            "one side null": {"orderbook_fp.no_dollars": None},
            "both sides null": {"orderbook_fp.no_dollars": None, "orderbook_fp.yes_dollars": None},
            "a price above 1": {"orderbook_fp.yes_dollars.0.0": "56"},
            "before: cents": {"": {"orderbook": {"yes": [[56, 10]], "no": [[42, 5]]}}},
            "another form": {"": {"levels": []}},
        },
    ),
    Door(
        "Kalshi: a trade",
        {"trades": [shapes.KALSHI_TRADE], "cursor": ""},
        lambda raw: kalshi.parse_trades(raw, AT),
        {
            "null": {"trades.0.yes_price_dollars": None},
            "missing": {"trades.0.yes_price_dollars": GONE},
            "before: cents": {
                "trades.0.yes_price_dollars": GONE,
                "trades.0.no_price_dollars": GONE,
                "trades.0.yes_price": 57,
                "trades.0.no_price": 43,
            },
            "no time": {"trades.0.created_time": GONE},
            "of tomorrow": {"trades.0.created_time": TOMORROW},
        },
    ),
    Door(
        "EDGAR: a fact",
        shapes.FACTS,
        lambda raw: edgar.parse_facts(raw, AT),
        {
            "null": {"facts.us-gaap.Assets.units.USD.0.val": None},
            "0": {"facts.us-gaap.Assets.units.USD.0.val": 0},
            "missing": {"facts.us-gaap.Assets.units.USD.0.val": GONE},
            "a text": {"facts.us-gaap.Assets.units.USD.0.val": "5"},
            "no filing day": {"facts.us-gaap.Assets.units.USD.0.filed": GONE},
            "of tomorrow": {"facts.us-gaap.Assets.units.USD.0.filed": "2026-01-07"},
        },
    ),
    Door(
        "EDGAR: filings",
        shapes.SUBMISSIONS,
        lambda raw: edgar.parse_submissions(raw, AT),
        {
            "form null": {"filings.recent.form.0": None},
            "a short column": {"filings.recent.form": []},
            "no filing day": {"filings.recent.filingDate": GONE},
            "none": {"filings.recent.accessionNumber": []},
        },
    ),
    Door(
        "Google News: an item",
        shapes.RSS,
        lambda raw: google_news.parse(
            raw.decode() if isinstance(raw, bytes) else raw, google_news.build("rain"), AT
        ),
        {
            "no date": {"": shapes.RSS.replace(b"pubDate", b"someDate")},
            "no channel": {"": b"<html></html>"},
        },
    ),
    Door(
        "Reddit: a post",
        [shapes.listing(("t3", shapes.POST))],
        lambda raw: reddit.parse(raw, AT),
        {
            "score null": {"0.data.children.0.data.score": None},
            "no time": {"0.data.children.0.data.created_utc": GONE},
            "edited, without a time": {"0.data.children.0.data.edited": True},
            "removed": {"0.data.children.0.data.selftext": "[removed]"},
        },
    ),
    Door(
        "Exa: a page",
        {"results": shapes.EXA["results"][:1], "costDollars": {"total": 0.005}},
        lambda raw: exa.parse(raw, AT, False),
        {
            "no stored copy": {"results.0.snapshotAt": GONE},
            "no date": {"results.0.publishedDate": None},
            "no address": {"results.0.url": GONE},
        },
    ),
    Door(
        "OpenAI: an answer with its sources",
        shapes.OPENAI,
        lambda raw: web_search.parse(raw, "q||", AT),
        {"without output": {"output": GONE}, "output null": {"output": None}},
    ),
    Door(
        "Coinbase: a price",
        shapes.TICKER,
        lambda raw: btc.parse_ticker(raw, AT),
        {
            "null": {"price": None},
            "0": {"price": "0"},
            "missing": {"price": GONE},
            "a text": {"price": "soon"},
            "no time": {"time": GONE},
        },
    ),
)
HEAD = """# What is read of each source

Written by `make docs` from `tests/contracts/doors.py`: each cell is what the reader made of that answer, fetched on
2026-01-06. "Refused" is an error that the caller sees. The answers here have one row: among others an odd row costs
itself alone, is left out and counted; an answer of which no row can be read is refused.
How a price, an ending and a time are read is in [the archive](archive.md#what-a-venues-figures-mean).
"""


def page() -> str:
    """docs/sources.md."""
    lines = [HEAD]
    for door in DOORS:
        lines += [f"## {door.name}", "", "| answer | what is read |", "|---|---|"]
        for name, change in {"good": {}, **door.cases}.items():
            said = outcome(door, change).replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {name} | {said} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
