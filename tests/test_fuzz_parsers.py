"""A fuzzer over every parser: truncated, mistyped, huge, deeply nested, wrongly encoded. Only our
own errors come out, and what comes out whole is whole."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapes
from beforehand.errors import BadAnswer, BeforehandError
from beforehand.gateway.worlds.pull import gamma_events, gamma_markets, kalshi_markets
from beforehand.records.record import Record
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
from beforehand.sources.fields import answer, decode_json
from fuzzing import STRANGE, mutated
from proofs import count

AT = datetime(2026, 9, 1, tzinfo=UTC)
FEED = google_news.build("x")
ROUNDS = count("broken inputs of each reader", 400, 15_000)
Parser = Callable[[Any], Any]


def _rows(kind: str) -> Parser:
    return lambda raw: polymarket_data.parse_rows(raw, kind, "s", AT)


JSON: dict[str, tuple[Parser, Any]] = {
    "gamma market": (lambda r: polymarket.parse_market(r, AT), shapes.GAMMA_MARKET),
    "gamma event": (lambda r: polymarket.parse_event(r, AT), shapes.GAMMA_EVENT),
    "gamma anything": (
        lambda r: polymarket.parse(r, AT),
        [shapes.GAMMA_EVENT, shapes.GAMMA_MARKET],
    ),
    "gamma page": (
        lambda r: answer("x")(gamma_markets)(r, AT),
        {"markets": [shapes.GAMMA_MARKET], "next_cursor": "x"},
    ),
    "gamma events page": (
        lambda r: answer("x")(gamma_events)(r, AT),
        {"events": [shapes.GAMMA_EVENT]},
    ),
    "gamma listing": (polymarket.listed, shapes.GAMMA_MARKET),
    "clob book": (
        polymarket.parse_book,
        {
            "market": "0x1",
            "asset_id": "1",
            "timestamp": "1785734468581",
            "bids": [{"price": "0.1", "size": "5"}],
            "asks": [],
        },
    ),
    "clob prices": (
        lambda r: polymarket.parse_quotes(r, "1", "POLYMARKET:x", AT),
        {"1": {"BUY": "0.1", "SELL": "0.2"}},
    ),
    "clob history": (
        lambda r: polymarket.parse(r, AT, "POLYMARKET:x"),
        {"history": [{"t": shapes.T0, "p": 0.5}]},
    ),
    "comments": (lambda r: polymarket_data.parse_comments(r, "event:1", AT), [shapes.COMMENT]),
    "data history": (lambda r: polymarket_data.parse_history(r, "POLYMARKET:x"), shapes.PRICES_V2),
    "data resolutions": (
        lambda r: polymarket_data.parse_resolutions(r, AT),
        shapes.page([shapes.RESOLUTION_V2]),
    ),
    "data positions": (_rows("positions"), shapes.page([shapes.POSITION_V2])),
    "data activity": (_rows("activity"), shapes.page([shapes.ACTIVITY_V2])),
    "data trades": (_rows("trades"), shapes.page([shapes.TRADE_V2])),
    "data holders": (_rows("holders"), shapes.page([shapes.HOLDERS_V2])),
    "data builders": (_rows("builders"), shapes.page([shapes.BUILDER_V2])),
    "kalshi anything": (lambda r: kalshi.parse(r, AT), {"events": [shapes.KALSHI_EVENT]}),
    "kalshi page": (
        lambda r: answer("x")(kalshi_markets)(r, AT),
        {"markets": [shapes.KALSHI_MARKET], "cursor": ""},
    ),
    "kalshi listing": (kalshi.listed, shapes.KALSHI_MARKET),
    "kalshi book": (lambda r: kalshi.parse_book(r, "KALSHI:x", AT), shapes.KALSHI_BOOK),
    "kalshi candles": (
        lambda r: kalshi.candle_rows(r, "x", 1440, AT),
        {"candlesticks": [shapes.KALSHI_CANDLE, shapes.KALSHI_CANDLE_OLD]},
    ),
    "kalshi trades": (lambda r: kalshi.parse_trades(r, AT), {"trades": [shapes.KALSHI_TRADE]}),
    "kalshi cutoff": (kalshi.parse_cutoff, shapes.CUTOFF),
    "exa": (lambda r: exa.parse(r, AT, False), shapes.EXA),
    "openai": (lambda r: web_search.parse(r, "q||", AT), shapes.OPENAI),
    "reddit": (
        lambda r: reddit.parse(r, AT),
        [shapes.listing(("t3", shapes.POST)), shapes.listing(("t1", shapes.REPLY))],
    ),
    "reddit file": (
        lambda r: reddit.parse_thread_file(r, AT),
        {"uri": "x", "body": shapes.listing(("t3", shapes.POST))},
    ),
    "edgar facts": (lambda r: edgar.parse_facts(r, AT), shapes.FACTS),
    "edgar submissions": (lambda r: edgar.parse_submissions(r, AT), shapes.SUBMISSIONS),
    "btc ticker": (lambda r: btc.parse_ticker(r, AT), shapes.TICKER),
    "btc candles": (btc.parse_candles, shapes.CANDLES),
}


def check(parse: Parser, raw: Any) -> bool:
    """True where the parser took it; its records are then whole."""
    try:
        found = parse(raw)
    except BeforehandError:
        return False
    flat = found if isinstance(found, list) else [found]
    for record in flat:
        if isinstance(record, Record):
            type(record).model_validate_json(record.model_dump_json())
    return True


@pytest.mark.parametrize("name", sorted(JSON))
def test_mistyped_and_missing(name: str) -> None:
    parse, example = JSON[name]
    assert check(parse, copy.deepcopy(example)), "the example itself is read"
    rng = np.random.default_rng(0)
    taken = sum(check(parse, mutated(rng, example)) for _ in range(ROUNDS))
    assert taken < ROUNDS, "some must be refused, or the fuzzer proves nothing"


@pytest.mark.parametrize("name", sorted(JSON))
def test_truncated_and_encoded(name: str) -> None:
    parse, example = JSON[name]
    raw = json.dumps(example).encode()
    rng = np.random.default_rng(1)
    for _ in range(100):
        cut = raw[: int(rng.integers(0, len(raw)))]
        for data in (cut, cut + b"\xff\xfe", raw.decode().encode("utf-16")[:-1], b"\x00" * 9):
            with pytest.raises(BadAnswer):
                decode_json(data, "x")
    for deep in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900):
        try:
            value = decode_json(deep, "x")
        except BadAnswer:
            continue
        check(parse, value)
    for strange in STRANGE:
        check(parse, strange)


def test_feeds() -> None:
    rng = np.random.default_rng(2)
    body = shapes.RSS.decode()
    assert google_news.parse(body, FEED, AT)
    for _ in range(ROUNDS):
        text = list(body)
        for _ in range(int(rng.integers(1, 30))):
            place = int(rng.integers(0, len(text)))
            text[place] = str(rng.choice(list("<>&;\"'/= x\x0b9é")))
        try:
            found = google_news.parse("".join(text), FEED, AT)
        except BeforehandError:
            continue
        assert all(isinstance(record, Record) for record in found)
    for bad in (
        "",
        body[:200],
        "<html/>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><rss/>",
        "<rss>" * 5000,
        "\x00",
        "<rss><item><pubDate>never</pubDate></item></rss>",
    ):
        with pytest.raises(BadAnswer):
            google_news.parse(bad, FEED, AT)


@pytest.mark.real_data
def test_captures_survive_mutation(data: Path) -> None:
    """The same on real captures, which have more corners than our examples."""
    rng = np.random.default_rng(3)
    names = {
        "_look_only/pmvl_captures_2026-07/polymarket_markets.json": lambda r: polymarket.parse(
            r, AT
        ),
        "_look_only/pmvl_captures_2026-07/kalshi_markets.json": lambda r: kalshi.parse(r, AT),
        "_look_only/polymarket/data_api_positions.json": _rows("positions"),
        "reddit/TestSubmission.test_comments.1.json": lambda r: reddit.parse(r["body"], AT),
    }
    for name, parse in names.items():
        raw = json.loads((data / name).read_text())
        small = raw[:2] if isinstance(raw, list) else raw
        for _ in range(60):
            changed = mutated(rng, small)
            if isinstance(changed, dict) and "body" not in changed and "reddit" in name:
                continue
            check(parse, changed)
