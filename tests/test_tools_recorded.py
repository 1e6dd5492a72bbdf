"""Every tool that says "recorded" answers, network off, from the captures it names."""

import json
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import parse_instant
from beforehand.config import Home, Workspace
from beforehand.gateway.opening import connect
from beforehand.store.market_data.load import load
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage

pytestmark = pytest.mark.real_data
REGISTRY = load_tools()
AT = "2026-09-01T00:00:00Z"
SEEN = "2026-08-20T00:00:00Z"
PM, K = "_look_only/pmvl_captures_2026-07", "_look_only/kalshi"


@pytest.fixture(scope="module")
def box(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    root = tmp_path_factory.mktemp("recorded")
    archive = root / "archive"
    candles = root / "candles.json"
    raw = json.loads((data / f"{K}/candlestick_rows_live_and_historical.json").read_text())
    book = json.loads((data / f"{PM}/kalshi-orderbook.json").read_text())
    ticker = json.loads((data / f"{PM}/kalshi-market.json").read_text())["market"]["ticker"]
    candles.write_text(json.dumps({"ticker": ticker, "candlesticks": [raw["live"]]}))
    ours = root / "book.json"
    ours.write_text(json.dumps({**book, "ticker": ticker}))
    captured: list[tuple[str, Any, list[str]]] = [
        ("polymarket", data / f"{PM}/polymarket_markets.json", []),
        ("polymarket", data / f"{PM}/polymarket-market.json", []),
        ("polymarket", data / f"{PM}/polymarket_events.json", []),
        ("polymarket", data / f"{PM}/polymarket-book.json", []),
        ("polymarket", data / "_look_only/polymarket/data_api_positions.json", []),
        ("polymarket", data / "_look_only/polymarket/data_api_activity.json", []),
        ("polymarket", data / "_look_only/polymarket/gamma_comments_captured_2026-08-19.json", []),
        (
            "polymarket",
            data / "_look_only/polymarket/prices_history_1h.json",
            ["--market", f"POLYMARKET:{MARKET}"],
        ),
        ("kalshi", data / f"{PM}/kalshi-market.json", []),
        ("kalshi", data / f"{PM}/kalshi_events.json", []),
        ("kalshi", data / f"{PM}/kalshi_trades.json", []),
        ("kalshi", candles, []),
        ("kalshi", ours, []),
        ("edgar", data / "edgar/lpa_companyfacts.json", []),
        ("reddit", data / "reddit/TestSubmission.test_comments.1.json", []),
    ]
    for source, file, more in captured:
        command = ["world", "import", source, str(file), "--archive", str(archive)]
        assert cli([*command, "--fetched-at", SEEN, *more, "--skip-bad", "--json"]) in (0, 3), file
    home = Home(root / "home")
    load(
        home.market_data,
        data / "_look_only/options/cme_glbx_bbo1m_rows.csv",
        parse_instant("2026-01-10"),
    )
    connection = connect(Workspace(home), "replay", archive)
    return Toolbox(connection.gateway, Storage(home), parse_instant(AT))


MARKET = "0x60c2c085ee8c16bc8f2419739a94971d4c9d00f637ead10fc0f540afa1be64e8"
TICKER = "KXMLBGAME-26AUG092020HOUSD-HOU"
WALLET = "0x09b428f7c2b469786286214aa5c90dd9015f7320"
RECORDED: dict[str, tuple[dict[str, Any], str]] = {
    "search_markets": ({"query": "strait of hormuz traffic"}, "markets"),
    "list_markets": ({}, "markets"),
    "get_market": ({"id": MARKET}, "title"),
    "list_events": ({}, "events"),
    "get_event": ({"id": "16183"}, "markets"),
    "get_order_books": ({"ids": [MARKET]}, "books"),
    "get_prices": ({"ids": [MARKET]}, "prices"),
    "get_price_history": ({"id": MARKET}, "points"),
    "get_user_positions": ({"user": WALLET}, "positions"),
    "get_user_activity": ({"user": WALLET}, "activity"),
    "list_comments": ({"id": "45915"}, "comments"),
    "get_market_snapshot": ({"id": MARKET}, "market"),
    "get_event_overview": ({"id": "16183"}, "markets"),
    "compare_markets": ({"ids": [MARKET]}, "markets"),
    "search_polymarket_markets": ({"query": "strait of hormuz"}, "markets"),
    "search_all_markets": ({"query": "strait of hormuz"}, "markets"),
    "get_market_price_history": ({"market_id": MARKET, "date": "2026-02-07"}, "price"),
    "get_market_price_range": (
        {"market_id": MARKET, "start_date": "2026-02-07", "end_date": "2026-02-08"},
        "prices",
    ),
    "get_market_metadata": ({"id": "TICKER"}, "title"),
    "get_odds_at": ({"id": "TICKER", "time": "2026-08-25T00:00:00Z"}, "odds"),
    "search_kalshi_markets": ({"query": "elon musk mars"}, "markets"),
    "list_kalshi_markets": ({}, "markets"),
    "get_kalshi_event": ({"id": "KXELONMARS-99"}, "markets"),
    "get_kalshi_order_book": ({"id": "TICKER"}, "bids"),
    "get_kalshi_candlesticks": ({"id": "TICKER", "period": "1h"}, "candles"),
    "get_kalshi_trades": ({"id": "TRADED"}, "trades"),
    "reddit_search_and_fetch_threads": ({"keywords": ["PRAW"]}, "threads"),
    "reddit_api_search_and_fetch_threads": ({"keywords": ["PRAW"]}, "threads"),
    "get_company_facts": ({"cik": "1997711"}, "facts"),
    "run_query": ({"template": "all_valid"}, "data"),
}


def test_every_recorded_tool_is_here() -> None:
    assert set(RECORDED) == {n for n, t in REGISTRY.items() if t.example.evidence == "recorded"}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_tool_answers(box: Toolbox, data: Path, name: str) -> None:
    arguments, key = RECORDED[name]
    market = json.loads((data / f"{PM}/kalshi-market.json").read_text())["market"]["ticker"]
    traded = json.loads((data / f"{PM}/kalshi_trades.json").read_text())["trades"][0]["ticker"]
    names = {"TICKER": market, "TRADED": f"KALSHI:{traded}"}
    given = {k: names.get(v, v) if isinstance(v, str) else v for k, v in arguments.items()}
    content = box.call(name, given).content
    assert content[key], name
    assert "simulated" not in content["_meta"]


def test_a_token_names_its_market(box: Toolbox) -> None:
    view = box.gateway.full_view()
    market = next(m for m in view.markets() if m.tokens)
    for token in market.tokens:
        assert view.resolve_id(token) == market.id
