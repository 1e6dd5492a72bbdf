"""One valid call of every tool, and a vendor that answers them all: shape, not recorded."""

from datetime import UTC, datetime
from typing import Any

import shapes
from vendor import Asked, Vendor

CALLS: dict[str, dict[str, Any]] = {
    "search_markets": {"query": "rain in avaria"},
    "list_markets": {"status": "active"},
    "get_market": {"id": shapes.CONDITION},
    "list_events": {},
    "get_event": {"id": "55"},
    "get_order_books": {"ids": [shapes.CONDITION]},
    "get_prices": {"ids": [shapes.CONDITION]},
    "get_price_history": {"id": shapes.CONDITION},
    "get_user_positions": {"user": shapes.WALLET},
    "get_user_activity": {"user": shapes.WALLET, "type": "TRADE"},
    "get_top_holders": {"id": shapes.CONDITION},
    "list_comments": {"id": shapes.CONDITION},
    "get_builder_leaderboard": {"period": "week"},
    "get_btc_price": {},
    "execute-python-code": {"code": "print(6 * 7)"},
    "get_market_snapshot": {"id": shapes.CONDITION},
    "get_event_overview": {"id": "55"},
    "compare_markets": {"ids": [shapes.CONDITION, "nothing-here"]},
    "search_polymarket_markets": {"query": "rain", "session_id": "s"},
    "get_polymarket_history": {"session_id": "s"},
    "get_market_price_history": {"market_id": shapes.CONDITION, "date": "2026-01-05"},
    "get_market_price_range": {
        "market_id": shapes.CONDITION,
        "start_date": "2026-01-01",
        "end_date": "2026-01-10",
    },
    "get_market_metadata": {"id": "KXRAIN-26MAR-T1"},
    "get_odds_at": {"id": "KXRAIN-26MAR-T1", "time": "2026-01-06T00:00:00Z"},
    "search_kalshi_markets": {"query": "rain avaria"},
    "list_kalshi_markets": {},
    "get_kalshi_event": {"id": "KXRAIN-26MAR"},
    "get_kalshi_order_book": {"id": "KXRAIN-26MAR-T1"},
    "get_kalshi_candlesticks": {"id": "KXRAIN-26MAR-T1", "period": "1d"},
    "get_kalshi_trades": {"id": "KXRAIN-26MAR-T1"},
    "list_editions": {},
    "explain_operators": {},
    "build_search_feed": {"query": "rain", "exclude": ["snow"]},
    "preview_search_feed": {"query": "rain avaria"},
    "fetch_search_feed": {"query": "rain avaria"},
    "search_web": {"query": "will it rain"},
    "get_search_capabilities": {},
    "search": {"query": "rain expected avaria"},
    "search_domains": {"query": "rain avaria"},
    "search_all_markets": {"query": "rain avaria", "venues": ["polymarket"]},
    "reddit_api_search_and_fetch_threads": {"keywords": ["rain"]},
    "reddit_search_and_fetch_threads": {"keywords": ["rain"]},
    "get_company_facts": {"cik": "320193"},
    "list_company_filings": {"cik": "320193"},
    "run_query": {"template": "all_valid"},
}
QUOTES = (
    "symbol,bid,ask,timestamp,file_date,created_at\n"
    "XX.A.C,0.1,0.2,2026-01-01T10:00:00Z,2026-01-01,2026-01-01T12:00:00Z\n"
    "XX.B.C,0.3,0.4,2026-01-05T10:00:00Z,2026-01-05,2026-01-05T12:00:00Z\n"
)
NOW = datetime(2026, 1, 7, tzinfo=UTC)


def vendor_of_shapes() -> Vendor:
    """Every endpoint answers with its example."""
    vendor = Vendor()
    route = vendor.route

    def markets(asked: Asked) -> Any:
        named = ("condition_ids", "slug", "clob_token_ids", "id")
        wanted = next((found for name in named if (found := asked.param(name))), shapes.CONDITION)
        known = wanted in (shapes.CONDITION, "will-it-rain", shapes.YES, shapes.NO)
        return {"markets": [shapes.GAMMA_MARKET] if known else [], "next_cursor": None}

    def kalshi_market(asked: Asked) -> Any:
        known = asked.path.endswith("/KXRAIN-26MAR-T1")
        return {"market": shapes.KALSHI_MARKET} if known else 404

    events = {"events": [shapes.GAMMA_EVENT], "next_cursor": None}
    book = {
        "market": shapes.CONDITION,
        "asset_id": shapes.YES,
        "timestamp": str(shapes.T0 * 1000),
        "bids": [{"price": "0.5", "size": "1"}, {"price": "0.6", "size": "10"}],
        "asks": [{"price": "0.7", "size": "1"}, {"price": "0.62", "size": "20"}],
    }
    route("gamma", "/markets/keyset", markets)
    route("gamma", "/events/keyset", events)
    route("gamma", "/public-search", {"events": [shapes.GAMMA_EVENT], "tags": None})
    route("gamma", "/comments/keyset", {"comments": [shapes.COMMENT], "next_cursor": None})
    route("clob", "/books", [book])
    route("clob", "/prices", {shapes.YES: {"BUY": "0.6", "SELL": "0.62"}})
    route("polymarket-data", "/v2/prices-history", shapes.PRICES_V2)
    route("polymarket-data", "/v2/positions", shapes.page([shapes.POSITION_V2]))
    route("polymarket-data", "/v2/activity", shapes.page([shapes.ACTIVITY_V2]))
    route("polymarket-data", "/v2/trades", shapes.page([shapes.TRADE_V2]))
    route("polymarket-data", "/v2/holders", shapes.page([shapes.HOLDERS_V2]))
    route("polymarket-data", "/v2/builders/leaderboard", shapes.page([shapes.BUILDER_V2]))
    route("polymarket-data", "/v2/resolutions", shapes.page([]))
    route("kalshi", "/markets", {"markets": [shapes.KALSHI_MARKET], "cursor": ""})
    route("kalshi", "/markets/", kalshi_market)
    route("kalshi", "/historical/markets/", 404)
    route("kalshi", "/events", {"events": [shapes.KALSHI_EVENT], "cursor": ""})
    route("kalshi", "/events/", {"event": shapes.KALSHI_EVENT})
    route("kalshi", "/markets/KXRAIN-26MAR-T1/orderbook", shapes.KALSHI_BOOK)
    route("kalshi", "/historical/cutoff", shapes.CUTOFF)
    batch = {"market_ticker": "KXRAIN-26MAR-T1", "candlesticks": [shapes.KALSHI_CANDLE]}
    route("kalshi", "/markets/candlesticks", {"markets": [batch]})
    route("kalshi", "/markets/trades", {"trades": [shapes.KALSHI_TRADE], "cursor": ""})
    route("kalshi", "/historical/trades", {"trades": [shapes.KALSHI_TRADE], "cursor": ""})
    route("google-news", "/rss/search", shapes.RSS)
    route("openai", "/responses", shapes.OPENAI)
    route("exa", "/search", shapes.EXA)
    route("reddit-auth", "/api/v1/access_token", {"access_token": "t", "expires_in": 3600})
    route("reddit", "/search", shapes.listing(("t3", shapes.POST)))
    thread = [shapes.listing(("t3", shapes.POST)), shapes.listing(("t1", shapes.REPLY))]
    route("reddit", "/comments/abc12", thread)
    route("edgar", "/api/xbrl/companyfacts", shapes.FACTS)
    route("edgar", "/submissions", shapes.SUBMISSIONS)
    route("coinbase", "/products/BTC-USD/ticker", shapes.TICKER)
    route("coinbase", "/products/BTC-USD/candles", shapes.CANDLES)
    return vendor
