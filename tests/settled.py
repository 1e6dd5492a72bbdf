"""Vendors on loopback that list the settled markets of a simulated world, Polymarket's way and
Kalshi's."""

from datetime import UTC, datetime
from typing import Any

import shapes
from beforehand.clock import from_us, iso
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.store.archive.reader import Archive
from vendor import Asked, Vendor

PAGE = 7


def vendor_of_settled(archive: Archive, cutoff: datetime, broken: frozenset[str]) -> Vendor:
    """`cutoff` parts Kalshi's tiers; a history whose native id is in `broken` cannot be read."""
    world = RecordedWorld(archive)
    view = Gateway(world).full_view()
    markets = []
    for ending in sorted(view.resolutions(), key=lambda r: (r.resolved_at, r.market_id)):
        series = world.series(ending.market_id)
        if series is None or ending.payout is None:
            continue
        text = view.market(ending.market_id)
        prices = [
            (int(from_us(int(at)).timestamp()), round(float(price), 4))
            for at, price in zip(series.known_at, series.price, strict=True)
        ]
        markets.append((text, ending, prices))
    vendor = Vendor()

    def wanted(start: str | None, stop: str | None = None) -> list[Any]:
        def seconds(text: str | None, default: float) -> float:
            if text is None:
                return default
            return float(text) if text.isdigit() else datetime.fromisoformat(text).timestamp()

        low, high = seconds(start, 0), seconds(stop, 1e12)
        return [m for m in markets if low <= m[1].resolved_at.timestamp() < high]

    def gamma(asked: Asked) -> Any:
        found = wanted(asked.param("end_date_min"))
        if (only := asked.param("condition_ids")) is not None:
            found = [m for m in found if _condition(m[0].id) == only]
        first = int(asked.param("after_cursor") or 0)
        rows = [_gamma(*m) for m in found[first : first + PAGE]]
        more = first + PAGE < len(found)
        return {"markets": rows, "next_cursor": str(first + PAGE) if more else None}

    def history(asked: Asked) -> Any:
        token = asked.param("token_id") or ""
        if token in broken:
            return {"data": [{"timestamp": "soon", "price": 2}], "pagination": {}}
        for _, ending, prices in markets:
            if _token(ending.market_id) == token:
                rows = [{"timestamp": t, "price": p, "resolution_seconds": 0} for t, p in prices]
                return shapes.page(rows)
        return 404

    def endings(asked: Asked) -> Any:
        for _, ending, _ in markets:
            if _condition(ending.market_id) == asked.param("condition_id"):
                yes = ending.payout or 0.0
                row = {
                    "condition_id": _condition(ending.market_id),
                    "status": "resolved",
                    "payouts": [round(yes * 1e6), round((1 - yes) * 1e6)],
                    "resolved_at": iso(ending.resolved_at),
                }
                return shapes.page([row])
        return 404

    def kalshi(asked: Asked) -> Any:
        since = max(float(asked.param("min_settled_ts") or 0), cutoff.timestamp())
        found = wanted(str(int(since)), asked.param("max_settled_ts"))
        return _kalshi_page(found, asked)

    def historical(asked: Asked) -> Any:
        return _kalshi_page(wanted(None, str(int(cutoff.timestamp()))), asked)

    def candles(asked: Asked) -> Any:
        low, high = (int(asked.param(f"{n}_ts") or 0) for n in ("start", "end"))
        name = asked.param("market_tickers") or asked.path.split("/")[3]
        prices = next((p for m, _, p in markets if _ticker(m.id) == name), [])
        rows = [
            {"end_period_ts": t, "price": {"close_dollars": str(p)}, "volume_fp": "1"}
            for t, p in prices
            if low <= t <= high
        ]
        if asked.param("market_tickers"):
            return {"markets": [{"market_ticker": name, "candlesticks": rows}]}
        old = [
            {"end_period_ts": r["end_period_ts"], "price": {"close": r["price"]["close_dollars"]}}
            for r in rows
        ]  # type: ignore[index]
        return {"ticker": name, "candlesticks": old}

    marks = {"market_settled_ts": iso(cutoff), "trades_created_ts": iso(cutoff)}
    vendor.route("gamma", "/markets/keyset", gamma)
    vendor.route("polymarket-data", "/v2/prices-history", history)
    vendor.route("polymarket-data", "/v2/resolutions", endings)
    vendor.route("kalshi", "/historical/cutoff", marks)
    vendor.route(
        "kalshi",
        "/historical/markets",
        lambda asked: candles(asked) if "candlesticks" in asked.path else historical(asked),
    )
    vendor.route("kalshi", "/markets", kalshi)
    vendor.route("kalshi", "/markets/candlesticks", candles)
    return vendor


def _condition(name: str) -> str:
    return "0x" + digest(name)[:64]


def _token(name: str) -> str:
    return str(int(digest(name)[:12], 16))


def _ticker(name: str) -> str:
    return "KXSIM-" + name.partition(":")[2].upper()


def _gamma(text: Any, ending: Any, prices: Any) -> dict[str, Any]:
    yes = ending.payout
    return {
        **shapes.GAMMA_MARKET,
        "id": _token(text.id),
        "slug": text.native_id,
        "conditionId": _condition(text.id),
        "question": text.question,
        "outcomePrices": f'["{yes}", "{1 - yes}"]',
        "clobTokenIds": f'["{_token(text.id)}", "{_token(text.id)}0"]',
        "closed": True,
        "umaResolutionStatus": "resolved",
        "createdAt": iso(datetime.fromtimestamp(prices[0][0], UTC)),
        "startDate": iso(datetime.fromtimestamp(prices[0][0], UTC)),
        "endDate": iso(ending.resolved_at),
        "closedTime": iso(ending.resolved_at),
        "volumeNum": 5000.0,
        "events": [{"id": "55"}],
    }


def _kalshi_page(found: list[Any], asked: Asked) -> dict[str, Any]:
    first = int(asked.param("cursor") or 0)
    rows = [
        {
            "ticker": _ticker(text.id),
            "event_ticker": "KXSIM",
            "title": text.question,
            "status": "finalized",
            "result": "yes" if ending.payout == 1 else "no",
            "settlement_ts": iso(ending.resolved_at),
            "created_time": iso(datetime.fromtimestamp(prices[0][0], UTC)),
            "open_time": iso(datetime.fromtimestamp(prices[0][0], UTC)),
            "volume_fp": "5000.00",
        }
        for text, ending, prices in found[first : first + PAGE]
    ]
    return {"markets": rows, "cursor": str(first + PAGE) if first + PAGE < len(found) else ""}
