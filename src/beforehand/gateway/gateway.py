"""The Gateway: Views over one world, panels and bulk walks, all through one guard."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

import numpy as np
import numpy.typing as npt

from beforehand.clock import Clock, SystemClock, to_us
from beforehand.errors import CutoffViolation, InputError
from beforehand.gateway.audit import Audit
from beforehand.gateway.guard import Guard
from beforehand.gateway.panel import USUAL, Evidence, Panel, PanelBuilder, QueryMaker
from beforehand.gateway.view import View
from beforehand.gateway.world import FOREVER, World
from beforehand.lazy import lazy
from beforehand.store.archive.series import Rows, Series


class Gateway:
    """Hands out Views over one world and keeps the audit trail of all of them."""

    def __init__(self, world: World, clock: Clock | None = None) -> None:
        self.world = world
        self.clock = clock or SystemClock()
        self.guard = Guard()
        self._rows: dict[str, Rows] = {}

    @property
    def audit(self) -> Audit:
        """The trail of everything that was shown, or refused, through this gateway."""
        return self.guard.audit

    def at(self, t: datetime | int) -> View:
        """The world at `t` (an aware datetime, or microseconds since 1970)."""
        if isinstance(t, datetime):
            if t.tzinfo is None:
                raise InputError("the instant of a View needs a time zone")
            t = to_us(t)
        return View(self, t)

    def panel(
        self,
        pairs: Sequence[tuple[str, npt.NDArray[np.int64]]],
        recorded: Sequence[str] = (),
        evidence: Evidence = USUAL,
        queries: QueryMaker | None = None,
    ) -> Panel:
        """Many (market, t) at once, each row as a View at its own t would show it: markets and
        their instants (each array ascending), in that order. `recorded` names the predictors whose
        stored forecasts are replayed. Without `queries` the question itself is searched for."""
        return self._panels.build(pairs, recorded, evidence, queries)

    @lazy
    def _panels(self) -> PanelBuilder:
        return PanelBuilder(self)

    def live(self) -> View:
        """The world now. Its instant moves on with the clock, so that what a service answers a
        moment later is not refused."""
        return View(self, None)

    def hindsight(self) -> View:
        """Everything the world holds: for naming markets and scoring them, never for forecasting.

        Not the same as `live`: an ending may be recorded with a date that still lies ahead, and
        a score must not depend on the day it is computed.
        """
        return self.at(FOREVER)

    def lookup(self, market_id: str, t: int) -> tuple[float, int, int] | None:
        """(price, observed_at, known_at) at `t` in microseconds, guarded; None before the first.

        The one-at-a-time path for loops: plain lists and a bisection. No record is built and no
        trail is kept; the comparison is `visible_us` written out, as the call would cost as much
        as the lookup.
        """
        known_at, price, observed_at, known = self._rows.get(market_id) or self._list(market_id)
        i = bisect_right(known_at, t) - 1
        if i < 0:
            return None
        if known[i] > t:
            raise CutoffViolation(f"{market_id}: a price known after t was looked up")
        return price[i], observed_at[i], known[i]

    def _list(self, market_id: str) -> Rows:
        series = self.world.series(market_id) or Series.empty(market_id)
        rows = self._rows[market_id] = series.rows()
        return rows

    def replay(self, market_id: str, chunk: int = 65_536) -> Iterator[tuple[int, float]]:
        """(t, price at t) for each instant at which a price became known, a chunk at a time."""
        series = self.world.series(market_id) or Series.empty(market_id)
        if not series.distinct:  # Several became known at once: the last stands.
            return self.walk(market_id, np.unique(series.known_at), chunk)
        instants, prices, _, _ = self._rows.get(market_id) or self._list(market_id)

        def chunks() -> Iterator[Iterator[tuple[int, float]]]:
            for start in range(0, len(instants), chunk):
                part = slice(start, start + chunk)
                known, t = series.known_at[series.latest[part]], series.known_at[part]
                self.guard.all("replay", market_id, known, t)
                yield zip(instants[part], prices[part], strict=True)

        return chain.from_iterable(chunks())

    def take(
        self, market_id: str, t: npt.NDArray[np.int64], method: str = "odds"
    ) -> tuple[Series, npt.NDArray[np.int64]]:
        """A series and the row in it for each instant (-1 where none), the chunk audited.

        Raises CutoffViolation if the world handed out anything known after its instant.
        """
        # A market without prices answers like one whose first price is still to come.
        series = self.world.series(market_id) or Series.empty(market_id)
        rows = series.positions(t)
        if len(rows) and rows.min() >= 0:
            known, at = series.known_at[rows], t
        else:
            known, at = series.known_at[rows[rows >= 0]], t[rows >= 0]
        self.guard.all(method, market_id, known, at)
        return series, rows

    def walk(
        self, market_id: str, t: npt.NDArray[np.int64], chunk: int = 16384
    ) -> Iterator[tuple[int, float]]:
        """(t, price) for each instant that has a price, guarded a chunk at a time."""

        def chunks() -> Iterator[Iterator[tuple[int, float]]]:
            for start in range(0, len(t), chunk):
                part = t[start : start + chunk]
                series, rows = self.take(market_id, part, "walk")
                if len(rows) and rows.min() < 0:
                    part, rows = part[rows >= 0], rows[rows >= 0]
                yield zip(part.tolist(), series.price[rows].tolist(), strict=True)

        return chain.from_iterable(chunks())
