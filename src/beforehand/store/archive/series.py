"""One market's prices in memory: sorted columns and the as-of lookup.

The answer at t is the latest *observation* among the points known at t. A backfilled older
price, published late, does not replace a newer one. It depends on the visible prefix only.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from beforehand.records.cutoff import visible_us

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = tuple[list[int], list[float], list[int], list[int]]


@dataclass(frozen=True)
class Series:
    """Columns of equal length, sorted by `known_at`; times in microseconds, absent values NaN."""

    market_id: str
    known_at: Ints
    observed_at: Ints
    price: Floats
    bid: Floats
    ask: Floats
    volume: Floats

    @classmethod
    def build(cls, market_id: str, rows: npt.NDArray[np.float64], times: Ints) -> "Series":
        """From `rows` (n, 4: price, bid, ask, volume) and `times` (n, 2: observed, known)."""
        order = np.lexsort((np.arange(len(times)), times[:, 0], times[:, 1]))
        rows, times = rows[order], times[order]
        return cls(
            market_id,
            known_at=np.ascontiguousarray(times[:, 1]),
            observed_at=np.ascontiguousarray(times[:, 0]),
            price=np.ascontiguousarray(rows[:, 0]),
            bid=np.ascontiguousarray(rows[:, 1]),
            ask=np.ascontiguousarray(rows[:, 2]),
            volume=np.ascontiguousarray(rows[:, 3]),
        )

    @classmethod
    def empty(cls, market_id: str) -> "Series":
        """The series of a market that has no prices."""
        return cls.build(market_id, np.zeros((0, 4)), np.zeros((0, 2), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.known_at)

    @cached_property
    def latest(self) -> Ints:
        """For each prefix, the position of its latest observation (later knowledge wins ties)."""
        best = np.maximum.accumulate(self.observed_at)
        positions = np.where(self.observed_at == best, np.arange(len(best)), 0)
        return np.maximum.accumulate(positions)

    @cached_property
    def in_order(self) -> bool:
        """True if prices became known in the order in which they were observed."""
        return bool((np.diff(self.observed_at) >= 0).all())

    @cached_property
    def distinct(self) -> bool:
        """True if no two prices became known at the same instant."""
        return bool((np.diff(self.known_at) > 0).all())

    @cached_property
    def _known_list(self) -> list[int]:
        return [int(k) for k in self.known_at]

    def rows(self) -> Rows:
        """Plain lists for one-at-a-time lookups: when each prefix ends, and the price, the
        observation and the knowledge of its latest point."""
        at = self.latest
        return (
            self.known_at.tolist(),
            self.price[at].tolist(),
            self.observed_at[at].tolist(),
            self.known_at[at].tolist(),
        )

    def position(self, t: int) -> int:
        """The position of the price at t (microseconds), or -1 where none was known."""
        i = bisect_right(self._known_list, t) - 1
        return -1 if i < 0 else int(self.latest[i])

    def positions(self, t: Ints) -> Ints:
        """`position` for an array of instants."""
        if not len(self) or not len(t):
            return np.full(len(t), -1, dtype=np.int64)
        # The instants' own span first: a walk's chunk then searches a slice that stays in cache.
        low = int(np.searchsorted(self.known_at, t.min(), side="left"))
        high = int(np.searchsorted(self.known_at, t.max(), side="right"))
        i = np.searchsorted(self.known_at[low:high], t, side="right")
        i += low - 1
        if self.in_order:
            return i
        return np.where(i < 0, -1, self.latest[np.maximum(i, 0)])

    def until(self, t: int) -> "Series":
        """The visible prefix at t."""
        n = int(np.count_nonzero(visible_us(self.known_at, t)))
        return Series(
            self.market_id,
            known_at=self.known_at[:n],
            observed_at=self.observed_at[:n],
            price=self.price[:n],
            bid=self.bid[:n],
            ask=self.ask[:n],
            volume=self.volume[:n],
        )
