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

    def __bool__(self) -> bool:
        return True  # An empty series is still a series; `len` says how long it is.

    def __len__(self) -> int:
        return len(self.known_at)

    @cached_property
    def latest(self) -> Ints:
        """For each prefix, the position of its latest observation (later knowledge wins ties)."""
        best = np.maximum.accumulate(self.observed_at)
        positions = np.where(self.observed_at == best, np.arange(len(best)), 0)
        return np.maximum.accumulate(positions)

    @cached_property
    def _known_list(self) -> list[int]:
        return [int(k) for k in self.known_at]

    @cached_property
    def _latest_list(self) -> list[int]:
        return [int(i) for i in self.latest]

    @cached_property
    def _rows(self) -> list[tuple[float, int, int]]:
        return list(
            zip(self.price.tolist(), self.observed_at.tolist(), self.known_at.tolist(), strict=True)
        )

    def row(self, i: int) -> tuple[float, int, int]:
        """(price, observed_at, known_at) of one row, as plain Python numbers."""
        return self._rows[i]

    def position(self, t: int) -> int:
        """The position of the price at t (microseconds), or -1 where none was known."""
        i = bisect_right(self._known_list, t) - 1
        return -1 if i < 0 else self._latest_list[i]

    def positions(self, t: Ints) -> Ints:
        """`position` for an array of instants."""
        if not len(self):
            return np.full(len(t), -1, dtype=np.int64)
        i = np.searchsorted(self.known_at, t, side="right") - 1
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
