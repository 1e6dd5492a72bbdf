"""Vendors on loopback that list what is open in a simulated world at the present time: its even
markets Polymarket's way, its odd ones Kalshi's, and every tenth on both. Asked for one market by
its id they say how it stands, and how it ended."""

from datetime import UTC, datetime
from typing import Any

import shapes
from beforehand.clock import iso
from beforehand.errors import NotFound
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.records.world import Market
from beforehand.store.archive.reader import Archive
from vendor import Asked, Vendor

PAGE = 9


def condition(name: str) -> str:
    """The id that Polymarket gives a market of the world."""
    return "0x" + digest(name)[:64]


def ticker(name: str) -> str:
    """The one that Kalshi gives it."""
    return "KXSIM-" + name.partition(":")[2].upper()


def vendor_of_open(archive: Archive, dead: set[str] | None = None) -> Vendor:
    """A vendor whose provider is in `dead` answers nothing while it is there."""
    gateway = Gateway(RecordedWorld(archive))
    names = sorted(m.id for m in gateway.full_view().markets())
    places, dead = {name: i for i, name in enumerate(names)}, set() if dead is None else dead

    def open_now(odd: bool) -> list[tuple[Market, float]]:
        view = gateway.at(datetime.now(UTC))
        found = []
        for market in sorted(view.markets(), key=lambda m: m.id):
            place = places[market.id]
            if (place % 2 == 1) is not odd and place % 10:
                continue
            if view.resolution(market.id) is not None:
                continue
            try:
                found.append((market, view.odds(market.id).price))
            except NotFound:
                continue
        return found

    def gamma(asked: Asked) -> Any:
        if "gamma" in dead:
            return 503
        if (only := asked.param("condition_ids")) is not None:
            rows = [_ended_gamma(*one) for one in ended() if condition(one[0].id) == only]
            return {
                "markets": rows
                or [_gamma(*m) for m in open_now(False) if condition(m[0].id) == only],
                "next_cursor": None,
            }
        found = open_now(False)
        first = int(asked.param("after_cursor") or 0)
        rows = [_gamma(*one) for one in found[first : first + PAGE]]
        more = first + PAGE < len(found)
        return {"markets": rows, "next_cursor": str(first + PAGE) if more else None}

    def kalshi(asked: Asked) -> Any:
        if "kalshi" in dead:
            return 503
        if name := asked.path.partition("/markets")[2].strip("/"):
            done = [_ended_kalshi(*one) for one in ended() if ticker(one[0].id) == name]
            still = [_kalshi(*one) for one in open_now(True) if ticker(one[0].id) == name]
            return {"market": (done or still)[0]} if done or still else 404
        assert asked.param("status") == "open"
        found = open_now(True)
        first = int(asked.param("cursor") or 0)
        rows = [_kalshi_event(*one) for one in found[first : first + PAGE]]
        return {"events": rows, "cursor": str(first + PAGE) if first + PAGE < len(found) else ""}

    def ended() -> list[tuple[Market, Any]]:
        view = gateway.at(datetime.now(UTC))
        return [(view.market(r.market_id), r) for r in view.resolutions() if r.payout is not None]

    def endings(asked: Asked) -> Any:
        for market, ending in ended():
            if condition(market.id) == asked.param("condition_id"):
                yes = ending.payout
                row = {
                    "condition_id": condition(market.id),
                    "status": "resolved",
                    "payouts": [round(yes * 1e6), round((1 - yes) * 1e6)],
                    "resolved_at": iso(ending.resolved_at),
                }
                return shapes.page([row])
        return shapes.page([])

    vendor = Vendor()
    vendor.route("gamma", "/markets/keyset", gamma)
    vendor.route("kalshi", "/markets", kalshi)
    vendor.route("kalshi", "/events", kalshi)
    vendor.route("polymarket-data", "/v2/resolutions", endings)
    return vendor


def _ended_gamma(market: Market, ending: Any) -> dict[str, Any]:
    yes = ending.payout
    return {
        **_gamma(market, 0.5),
        "outcomePrices": f'["{yes}", "{1 - yes}"]',
        "closed": True,
        "umaResolutionStatus": "resolved",
        "closedTime": iso(ending.resolved_at),
    }


def _ended_kalshi(market: Market, ending: Any) -> dict[str, Any]:
    return {
        **_kalshi(market, 0.5),
        "status": "finalized",
        "result": "yes" if ending.payout == 1 else "no",
        "settlement_ts": iso(ending.resolved_at),
    }


def _gamma(market: Market, price: float) -> dict[str, Any]:
    number = str(int(digest(market.id)[:12], 16))
    return {
        **shapes.GAMMA_MARKET,
        "id": number,
        "slug": market.native_id,
        "conditionId": condition(market.id),
        "question": market.question,
        "outcomePrices": f'["{price:.4f}", "{1 - price:.4f}"]',
        "clobTokenIds": f'["{number}", "{number}0"]',
        "endDate": iso(market.scheduled_close) if market.scheduled_close else None,
        "lastTradePrice": round(price, 4),
        "bestBid": round(price - 0.01, 4),
        "bestAsk": round(price + 0.01, 4),
        "category": "Economics",
        "tags": [{"label": "All"}, {"label": "Indices"}],
    }


def _kalshi_event(market: Market, price: float) -> dict[str, Any]:
    """A page of events names the category; a market alone does not."""
    found = _kalshi(market, price)
    return {
        "event_ticker": found["event_ticker"],
        "title": market.question,
        "category": "Financials",
        "markets": [found],
    }


def _kalshi(market: Market, price: float) -> dict[str, Any]:
    return {
        "ticker": ticker(market.id),
        "event_ticker": "KXSIM",
        "title": market.question,
        "status": "active",
        "result": "",
        "created_time": "2025-01-01T00:00:00Z",
        "open_time": "2025-01-01T00:00:00Z",
        "close_time": iso(market.scheduled_close) if market.scheduled_close else None,
        "yes_bid_dollars": f"{price - 0.01:.4f}",
        "yes_ask_dollars": f"{price + 0.01:.4f}",
        "last_price_dollars": f"{price:.4f}",
        "volume_fp": "5000.00",
    }
