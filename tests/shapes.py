"""Example answers where no capture exists: shape, not recorded. From the vendors' SDKs and
specifications, with made-up values."""

from typing import Any

WALLET = "0x" + "ab" * 20
CONDITION = "0x" + "cd" * 32
TX = "0x" + "ef" * 32
YES, NO = "713210456792522125946263", "521143195019017259461033"
T0 = 1_767_600_000  # 2026-01-05T08:00:00Z


def page(rows: list[Any], cursor: str | None = None) -> dict[str, Any]:
    """A Data API v2 answer."""
    return {"data": rows, "pagination": {"has_more": cursor is not None, "next_cursor": cursor}}


GAMMA_MARKET: dict[str, Any] = {
    "id": "777",
    "version": "v1",
    "slug": "will-it-rain",
    "conditionId": CONDITION,
    "question": "Will it rain in Avaria by March?",
    "description": "Resolves YES if it rains.",
    "outcomes": '["Yes", "No"]',
    "outcomePrices": '["0.61", "0.39"]',
    "clobTokenIds": f'["{YES}", "{NO}"]',
    "active": True,
    "closed": False,
    "createdAt": "2025-12-01T00:00:00Z",
    "startDate": "2025-12-01T00:00:00Z",
    "endDate": "2027-03-31T00:00:00Z",
    "volumeNum": 1000.5,
    "liquidityNum": 200.25,
    "lastTradePrice": 0.6,
    "bestBid": 0.6,
    "bestAsk": 0.62,
    "events": [{"id": "55"}],
}
GAMMA_EVENT: dict[str, Any] = {
    "id": "55",
    "slug": "rain",
    "title": "Rain in Avaria",
    "negRisk": False,
    "markets": [GAMMA_MARKET],
}
COMMENT: dict[str, Any] = {
    "id": "9",
    "body": "Clouds.",
    "parentEntityType": "Event",
    "parentEntityID": 55,
    "createdAt": "2026-01-04T00:00:00Z",
    "updatedAt": "2026-01-05T00:00:00Z",
    "userAddress": WALLET,
    "reactions": [{"id": "1"}],
    "reportCount": 0,
}
PRICES_V2 = page(
    [
        {"timestamp": T0, "price": 0.5, "resolution_seconds": 43_200},
        {"timestamp": T0 + 43_200, "price": 0.55, "resolution_seconds": 43_200},
        {"timestamp": T0 + 90_000, "price": 0.61, "resolution_seconds": 0},
    ]
)
TRADE_V2: dict[str, Any] = {
    "proxy_wallet": WALLET,
    "token_id": YES,
    "condition_id": CONDITION,
    "side": "BUY",
    "size": 10.5,
    "price": 0.6,
    "timestamp": T0,
    "transaction_hash": TX,
    "title": "Will it rain in Avaria by March?",
    "slug": "will-it-rain",
    "outcome": "Yes",
    "outcome_index": 0,
}
ACTIVITY_V2: dict[str, Any] = {
    **TRADE_V2,
    "type": "TRADE",
    "usdc_size": 6.3,
    "is_combo": False,
}
POSITION_V2: dict[str, Any] = {
    "proxy_wallet": WALLET,
    "token_id": YES,
    "condition_id": CONDITION,
    "current_size": 10.5,
    "avg_price": 0.6,
    "entry_cost_usdc": 6.3,
    "entry_fees_usdc": 0.0,
    "total_cost_usdc": 6.3,
    "current_price": 0.61,
    "current_value": 6.405,
    "total_size": 10.5,
    "realized_pnl": 0.0,
    "unrealized_pnl": 0.105,
    "total_pnl": 0.105,
    "percent_pnl": 1.6667,
    "percent_realized_pnl": 0.0,
    "status": "OPEN",
    "redeemable": False,
    "mergeable": False,
    "negative_risk": False,
    "archived": False,
    "verified": False,
    "title": "Will it rain in Avaria by March?",
    "outcome_index": 0,
}
HOLDERS_V2: dict[str, Any] = {
    "token_id": YES,
    "holders": [
        {
            "proxy_wallet": WALLET,
            "token_id": YES,
            "amount": 500.25,
            "outcome_index": 0,
            "display_username_public": True,
            "verified": False,
            "name": "rainmaker",
        }
    ],
}
BUILDER_V2: dict[str, Any] = {
    "rank": 1,
    "builder_name": "Example",
    "builder_code": "0x" + "12" * 32,
    "verified": True,
    "volume": 12_345.5,
    "active_users": 17,
}
RESOLUTION_V2: dict[str, Any] = {
    "question_id": TX,
    "condition_id": CONDITION,
    "status": "resolved",
    "extended_review": False,
    "was_disputed": False,
    "new_version_q": False,
    "price": 1_000_000,
    "payouts": [1_000_000, 0],
    "last_update_timestamp": T0 + 10,
    "resolved_at": T0,
}
KALSHI_MARKET: dict[str, Any] = {
    "ticker": "KXRAIN-26MAR-T1",
    "event_ticker": "KXRAIN-26MAR",
    "market_type": "binary",
    "title": "Will it rain in Avaria?",
    "yes_sub_title": "More than 1 mm",
    "status": "active",
    "yes_bid_dollars": "0.5600",
    "yes_ask_dollars": "0.5800",
    "last_price_dollars": "0.5700",
    "volume_fp": "1000.00",
    "liquidity_dollars": "50.0000",
    "result": "",
    "created_time": "2025-12-01T00:00:00Z",
    "open_time": "2025-12-01T00:00:00Z",
    "close_time": "2027-03-31T00:00:00Z",
    "rules_primary": "If it rains, YES.",
    "rules_secondary": "",
}
KALSHI_EVENT: dict[str, Any] = {
    "event_ticker": "KXRAIN-26MAR",
    "title": "Rain in Avaria",
    "mutually_exclusive": False,
    "markets": [KALSHI_MARKET],
}
KALSHI_CANDLE: dict[str, Any] = {
    "end_period_ts": T0,
    "yes_bid": {
        "open_dollars": "0.50",
        "high_dollars": "0.56",
        "low_dollars": "0.50",
        "close_dollars": "0.56",
    },
    "yes_ask": {
        "open_dollars": "0.55",
        "high_dollars": "0.60",
        "low_dollars": "0.55",
        "close_dollars": "0.58",
    },
    "price": {
        "open_dollars": "0.52",
        "high_dollars": "0.58",
        "low_dollars": "0.52",
        "close_dollars": "0.57",
        "previous_dollars": "0.51",
    },
    "volume_fp": "12.00",
    "open_interest_fp": "100.00",
}
KALSHI_CANDLE_OLD: dict[str, Any] = {
    "end_period_ts": T0,
    "yes_bid": {"open": "0.50", "high": "0.56", "low": "0.50", "close": "0.56"},
    "yes_ask": {"open": "0.55", "high": "0.60", "low": "0.55", "close": "0.58"},
    "price": {"open": "0.52", "high": "0.58", "low": "0.52", "close": "0.57", "previous": "0.51"},
    "volume": "12.00",
    "open_interest": "100.00",
}
KALSHI_BOOK = {
    "orderbook_fp": {"yes_dollars": [["0.56", "10.00"]], "no_dollars": [["0.42", "5.00"]]}
}
KALSHI_TRADE: dict[str, Any] = {
    "trade_id": "t1",
    "ticker": "KXRAIN-26MAR-T1",
    "count_fp": "3.00",
    "yes_price_dollars": "0.5700",
    "no_price_dollars": "0.4300",
    "taker_outcome_side": "yes",
    "created_time": "2026-01-05T08:00:00Z",
}
CUTOFF = {"market_settled_ts": "2026-06-12T00:00:00Z", "trades_created_ts": "2026-06-12T00:00:00Z"}
EXA: dict[str, Any] = {
    "results": [
        {
            "id": "a",
            "url": "https://example.org/rain",
            "title": "Rain expected",
            "publishedDate": "2026-01-01T00:00:00.000Z",
            "text": "Rain is expected in Avaria.",
            "snapshotAt": "2026-01-02T00:00:00.000Z",
        },
        {
            "id": "b",
            "url": "https://example.org/edited",
            "title": "It rained",
            "publishedDate": "2026-01-01T00:00:00.000Z",
            "text": "Edited later.",
        },
    ],
    "costDollars": {"total": 0.005},
}
RSS = b"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0"><channel><title>search</title>
<item><title>Rain in Avaria - Example Post</title><link>https://example.org/r</link>
<guid isPermaLink="false">g1</guid><pubDate>Mon, 05 Jan 2026 08:00:00 GMT</pubDate>
<description>&lt;a href="https://example.org"&gt;Rain&lt;/a&gt;&amp;nbsp; in Avaria</description>
<source url="https://example.org">Example Post</source></item>
</channel></rss>"""
OPENAI: dict[str, Any] = {
    "id": "resp_1",
    "output": [
        {
            "type": "web_search_call",
            "id": "ws",
            "status": "completed",
            "action": {"type": "search"},
        },
        {
            "type": "message",
            "content": [
                {
                    "type": "output_text",
                    "text": "It may rain in Avaria.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://example.org/rain",
                            "title": "Rain",
                            "start_index": 22,
                            "end_index": 22,
                        }
                    ],
                }
            ],
        },
    ],
    "usage": {"input_tokens": 100, "output_tokens": 20},
}
POST: dict[str, Any] = {
    "id": "abc12",
    "subreddit": "Avaria",
    "title": "Rain in March?",
    "selftext": "Who knows.",
    "author": "cloud",
    "created_utc": float(T0),
    "edited": False,
    "permalink": "/r/Avaria/comments/abc12/",
    "url": "https://example.org",
    "score": 12,
    "num_comments": 1,
}
REPLY: dict[str, Any] = {
    "id": "c1",
    "link_id": "t3_abc12",
    "parent_id": "t3_abc12",
    "body": "Yes, rain.",
    "author": "sun",
    "created_utc": float(T0 + 60),
    "edited": float(T0 + 120),
    "score": 3,
    "replies": "",
}


def listing(*things: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A Reddit listing."""
    return {"kind": "Listing", "data": {"children": [{"kind": k, "data": d} for k, d in things]}}


FACTS: dict[str, Any] = {
    "cik": 320193,
    "entityName": "Example",
    "facts": {
        "us-gaap": {
            "Assets": {
                "units": {
                    "USD": [
                        {
                            "end": "2025-09-27",
                            "val": 5,
                            "accn": "0000320193-25-1",
                            "fy": 2025,
                            "fp": "FY",
                            "form": "10-K",
                            "filed": "2025-10-31",
                        }
                    ]
                }
            }
        }
    },
}
SUBMISSIONS: dict[str, Any] = {
    "cik": "320193",
    "name": "Example",
    "filings": {
        "recent": {
            "accessionNumber": ["0000320193-25-1"],
            "filingDate": ["2025-10-31"],
            "reportDate": ["2025-09-27"],
            "acceptanceDateTime": ["2025-10-31T18:01:14.000Z"],
            "form": ["10-K"],
            "primaryDocument": ["a.htm"],
            "primaryDocDescription": ["10-K"],
        }
    },
}
TICKER = {"price": "61234.5", "time": "2026-01-05T08:00:00.000Z", "trade_id": 1}
CANDLES = [
    [T0, 61000.0, 61300.0, 61100.0, 61250.0, 3.5],
    [T0 - 60, 60900.0, 61150.0, 61000.0, 61100.0, 2.0],
]
