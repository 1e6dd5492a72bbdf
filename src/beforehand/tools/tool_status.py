"""How far a tool is proven: live-verified, recorded or simulated, with a date."""

from typing import Any

from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.store.files import read_json
from beforehand.tools.registry import Tool

PROBED = {
    "search_markets": "gamma public-search",
    "list_markets": "gamma markets",
    "get_market": "gamma markets",
    "list_events": "gamma events",
    "get_event": "gamma events",
    "get_order_books": "clob books",
    "get_price_history": "data prices-history",
    "get_top_holders": "data holders",
    "list_comments": "gamma comments",
    "get_builder_leaderboard": "data builders",
    "get_btc_price": "coinbase ticker",
    "search_polymarket_markets": "gamma public-search",
    "get_market_price_history": "data prices-history",
    "get_market_price_range": "data prices-history",
    "get_market_metadata": "kalshi markets",
    "list_kalshi_markets": "kalshi markets",
    "get_kalshi_event": "kalshi events",
    "search_kalshi_markets": "kalshi events",
    "get_kalshi_trades": "kalshi trades",
    "preview_search_feed": "google news search",
    "fetch_search_feed": "google news search",
    "get_company_facts": "edgar companyfacts",
    "list_company_filings": "edgar submissions",
}
"""Which live check stands for which tool."""


def label(tool: Tool, home: Home | None = None) -> dict[str, Any]:
    """{label, date, source}: live-verified where `doctor --live` saw the service answer as
    expected from this home, else what the tool was tried on."""
    if home is not None and tool.name in PROBED:
        try:
            kept = read_json(home.live_checks)
            row = kept.get(PROBED[tool.name]) if isinstance(kept, dict) else None
        except InputError:
            row = None
        if row is not None and row.get("state") == "ok" and "mirror" not in row:
            return {"label": "live-verified", "date": row["date"], "source": row["name"]}
    return {
        "label": tool.example.evidence,
        "date": tool.example.date,
        "source": tool.example.source,
    }
