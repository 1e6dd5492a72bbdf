"""Kalshi's two tiers: what was settled or traded before the cutoff is in the historical one alone,
and the live one would answer with nothing."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from beforehand.gateway.worlds.pull import Puller
from beforehand.records.world import Observation, Resolution
from beforehand.sources import kalshi


class KalshiTiers:
    """Candles and trades from the tier that holds them. `once` asks for a market unless a fresh
    state of it is at hand."""

    def __init__(self, puller: Puller, once: Callable[[str], None]) -> None:
        self._puller, self._once = puller, once

    def candles(self, ticker: str, start: datetime, end: datetime, minutes: int) -> list[Any]:
        """Candles from the tier that holds them: a market settled before the cutoff is in the
        historical one alone, and the live one would answer with nothing."""
        name = f"{kalshi.VENUE}:{ticker}"
        self._once(name)
        settled = [
            r.resolved_at for r in self._puller.held(Resolution, name) if r.status == "resolved"
        ]
        cutoff, _ = self._cutoff()
        historical = bool(settled) and settled[-1] < cutoff
        found: list[Any] = []
        for low, high in kalshi.candle_windows(start, end, minutes):
            request = kalshi.candles_request(ticker, low, high, minutes, historical)

            def read(body: Any, at: datetime) -> list[Any]:
                return [
                    *kalshi.parse(body, at, name),
                    *kalshi.candle_rows(body, ticker, minutes, at),
                ]

            found += self._puller.pull(request, read)
        return found

    def _cutoff(self) -> tuple[datetime, datetime]:
        """(markets settled before, trades made before) stand in Kalshi's historical tier."""
        settled, traded = self._puller.pull(
            kalshi.cutoff_request(), lambda b, _: list(kalshi.parse_cutoff(b))
        )
        return settled, traded

    def trades(self, ticker: str, until: datetime, live: bool) -> list[Observation]:
        """The newest trades until an instant: those made before the cutoff are in the historical
        tier, the live one would answer with nothing."""
        end = None if live else until
        tiers = [True] if until < self._cutoff()[1] else [False, True]
        found: list[Observation] = []
        for historical in tiers:
            request = kalshi.trades_request(ticker, 1000, historical, end)
            found = list(
                self._puller.pull(
                    request, lambda body, at: list(kalshi.parse_trades(body, at, ticker))
                )
            )
            if len(found) > 1:  # More than the mark of the fetch.
                break
        return found
