"""Intervals by resampling clusters, the same resample for every forecaster.

Scores of markets that belong to one event, or that resolve together, are not independent. The
unit that is drawn is therefore the cluster. Each draw serves all forecasters that rest on the same
clusters; one that has forecasts in fewer of them is resampled over its own, so that its figures do
not depend on who else is scored. The percentile interval is widened for few clusters as
Hesterberg (2015, "What Teachers Should Know about the Bootstrap", section 5.3) gives it.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import pi, sqrt, tan
from statistics import NormalDist
from tempfile import TemporaryFile
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DRAWS = 2000
_NORMAL = NormalDist()
_CACHE_CELLS, _SMALL_CELLS = 4_000_000, 2_000_000_000
"""The most counts that are kept as numbers for matrix products, and in a byte each in a file;
beyond, the draws are made again for each statistic."""
_THREADS, _BLOCK, _PIECE, _READ = 2, 64, 8192, 2_000_000
"""Those of a file are made into numbers by so many threads, and in pieces of so many draws and
clusters, which stay in a core's cache; so many bytes are read at once."""
_PARTS, _PART_CELLS = 8, 2_500_000
_AT_ONCE, _AHEAD = 1_000_000, 100_000
"""Sums by cluster that are in memory at once, and clusters that are drawn at once."""
_SHARED: WeakValueDictionary[tuple[int, int, int, type], Any] = WeakValueDictionary()
_KEPT: ContextVar["list[Any] | None"] = ContextVar("_KEPT", default=None)
K = TypeVar("K")


@contextmanager
def kept_draws() -> Iterator[None]:
    """Draws in a file that are made inside stay until the end, for all that draws as many clusters
    of the same seed."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def t_quantile(probability: float, df: float) -> float:
    """Student's t quantile: the closed forms for 1 and 2 degrees of freedom, then the expansion
    of Abramowitz and Stegun 26.7.5 (at most 1.5 % off at the levels used here)."""
    if df <= 1:
        return tan(pi * (probability - 0.5))
    if df <= 2:
        spread = 2 * probability - 1
        return spread * sqrt(2 / (1 - spread**2))
    z = _NORMAL.inv_cdf(probability)
    z3, z5, z7, z9 = z**3, z**5, z**7, z**9
    terms = (
        (z3 + z) / 4,
        (5 * z5 + 16 * z3 + 3 * z) / 96,
        (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384,
        (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / 92160,
    )
    return z + sum(term / df ** (i + 1) for i, term in enumerate(terms))


class _File:
    """A file without a name: it is gone with the process."""

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115 (it is closed with this)
        weakref.finalize(self, self._file.close)
        self.write, self.fileno = self._file.write, self._file.fileno


class _OneThread:
    """One thread of BLAS at a time: these products are small, so that threads wait for each other
    longer than they work, a hundred times longer where another process has a core."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    @cached_property
    def _found(self) -> ThreadpoolController:
        return ThreadpoolController()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:  # The number is one for all threads: who comes first sets it.
            if not self._inside:
                self._limit = self._found.limit(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._limit.restore_original_limits()


one_thread = _OneThread()


@dataclass(frozen=True)
class Resampler:
    """Draws of clusters with replacement. `labels` (n,) gives each question's cluster, 0..C-1."""

    labels: Ints
    draws: int = DRAWS
    seed: int = 0
    cells: int = _CACHE_CELLS
    _parts: dict[bytes, "Resampler"] = field(default_factory=dict, compare=False, repr=False)

    def holding(self, present: Floats) -> "Resampler":
        """The resampler of those clusters alone that hold a question that is `present` (n,).
        Questions of others must have zeros in all columns: they get the label of the first."""
        kept = np.unique(self.labels[present > 0])
        if len(kept) == self.size:
            return self
        key = kept.tobytes()
        if key not in self._parts:
            place = np.zeros(self.size, dtype=np.int64)
            place[kept] = np.arange(len(kept))
            while len(self._parts) >= _PARTS:
                self._parts.pop(next(iter(self._parts)))
            labels, cells = place[self.labels], min(self.cells, _PART_CELLS)
            self._parts[key] = replace(self, labels=labels, cells=cells, _parts={})
        return self._parts[key]

    @cached_property
    def size(self) -> int:
        """The number of clusters."""
        return int(self.labels.max()) + 1 if len(self.labels) else 0

    def sums(self, columns: Floats) -> Floats:
        """(n, K) per question to (C, K) per cluster."""
        out = np.empty((self.size, columns.shape[1]))
        for k in range(columns.shape[1]):
            out[:, k] = np.bincount(self.labels, weights=columns[:, k], minlength=self.size)
        return out

    def totals(self, columns: Floats, let_go: Callable[[], None] | None = None) -> Floats:
        """(draws, K): each draw's total of every column, from (n, K) per question. `let_go` frees
        the memory of columns on a disk."""
        several, made = max(_AT_ONCE // max(self.size, 1), 8), list[Floats]()
        for k in range(0, columns.shape[1], several):
            sums = self.sums(columns[:, k : k + several])
            if let_go is not None:
                let_go()
            made.append(self.resample(sums))
            del sums
        return made[0] if len(made) == 1 else np.concatenate(made, axis=1)

    def resample(self, sums: Floats) -> Floats:
        """(draws, K) from (C, K) per cluster."""
        with one_thread():
            return self._resample(sums)

    def _resample(self, sums: Floats) -> Floats:
        if self.draws * self.size <= self.cells:
            return np.asarray(self._counts @ sums)
        out = np.zeros((self.draws, sums.shape[1]))
        if self.draws * self.size <= _SMALL_CELLS:
            each = -(-self.draws // _THREADS)
            parts = [range(k, min(k + each, self.draws)) for k in range(0, self.draws, each)]
            one = partial(self._from_file, self._file.fileno(), sums, out)
            with ThreadPoolExecutor(_THREADS) as pool:  # Numpy works outside of Python's lock.
                for _ in pool.map(one, parts):
                    pass
            return out
        rng = np.random.default_rng(self.seed)
        for b in range(self.draws):
            out[b] = self._draw(rng) @ sums
        return out

    def _from_file(self, file: int, sums: Floats, out: Floats, draws: range) -> None:
        """The totals of some draws, from the counts in the file: a byte each. (That a cluster is
        drawn more than 255 times of C draws from C has a probability below 1e-500.)"""
        size = self.size
        several = max(min(_BLOCK, _READ // size), 1)
        # Made anew for each piece, these would cost more.
        read, held = np.empty((several, size), np.uint8), np.empty(several * min(_PIECE, size))
        for start in draws[::several]:
            n = min(several, draws.stop - start)
            _fill(read[:n].data.cast("B"), file, start * size)
            for first in range(0, size, _PIECE):
                width = min(_PIECE, size - first)
                numbers = held[: n * width].reshape(n, width)
                np.copyto(numbers, read[:n, first : first + width])
                out[start : start + n] += numbers @ sums[first : first + width]

    def _picks(self, rng: np.random.Generator, draws: range) -> npt.NDArray[np.int32]:
        return rng.integers(0, self.size, (len(draws), self.size), dtype=np.int32)

    def _draw(self, rng: np.random.Generator) -> Floats:
        (picks,) = self._picks(rng, range(1))
        return np.bincount(picks, minlength=self.size).astype(np.float64)

    @cached_property
    def _counts(self) -> Floats:
        """How often each draw has each cluster: (draws, C)."""
        return self._shared(np.ndarray, self._in_memory)

    @cached_property
    def _file(self) -> "_File":
        """The same in a file, in a byte each."""
        return self._shared(_File, self._on_disk)

    def _shared(self, kind: type[K], make: Callable[[np.random.Generator], K]) -> K:
        """What is made of the draws. Resamplers of as many clusters share it while they live."""
        key = self.draws, self.size, self.seed, kind
        if (kept := _SHARED.get(key)) is None:
            kept = _SHARED[key] = make(np.random.default_rng(self.seed))
        held = _KEPT.get()
        if kind is _File and held is not None and kept not in held:
            while held and (len(held) + 1) * self.draws * self.size > _SMALL_CELLS:
                held.pop(0)
            held.append(kept)
        found: K = kept
        return found

    def _in_memory(self, rng: np.random.Generator) -> Floats:
        counts = np.empty((self.draws, self.size))  # No stack: half of the memory.
        n = max(_AHEAD // self.size, 1)
        for first in range(0, self.draws, n):
            picks = self._picks(rng, range(first, min(first + n, self.draws)))
            cells = picks + self.size * np.arange(len(picks), dtype=np.int64)[:, None]
            found = np.bincount(cells.ravel(), minlength=cells.size)
            counts[first : first + len(picks)] = found.reshape(picks.shape)
        counts.flags.writeable = False
        return counts

    def _on_disk(self, rng: np.random.Generator) -> "_File":
        made, n = _File(), max(_AHEAD // self.size, 1)
        parts = [range(k, min(k + n, self.draws)) for k in range(0, self.draws, n)]
        with ThreadPoolExecutor(1) as pool:  # The next draws, while these are counted.
            following = pool.submit(self._picks, rng, parts[0])
            for part in [*parts[1:], None]:
                picks = following.result()
                if part is not None:
                    following = pool.submit(self._picks, rng, part)
                for one in picks:
                    made.write(np.bincount(one, minlength=self.size).astype(np.uint8).data)
        return made

    def clusters(self, present: Floats) -> int:
        """How many clusters hold a question that is `present` (n,): what a forecaster rests on."""
        return len(np.unique(self.labels[present > 0]))

    def interval(
        self, draws: Floats, level: float = 0.95, clusters: int | None = None
    ) -> tuple[float, float]:
        """The expanded percentile interval of one statistic's draws (NaN draws left out);
        `clusters` is how many it rests on, where that is not all of them."""
        draws = draws[np.isfinite(draws)]
        tail = self._tail(level, self.size if clusters is None else clusters)
        if tail is None or not len(draws):
            return float("nan"), float("nan")
        low, high = np.quantile(draws, [tail, 1 - tail])
        return float(low), float(high)

    def error(self, draws: Floats, level: float = 0.95) -> float:
        """The standard error of the bounds of `interval` that comes of so few draws, the larger of
        the two: half of the way between the quantiles one binomial standard deviation of the tail's
        share apart on either side."""
        draws = draws[np.isfinite(draws)]
        tail = self._tail(level, self.size)
        if tail is None or not len(draws):
            return float("nan")
        apart = sqrt(tail * (1 - tail) / len(draws))
        below, above = max(tail - apart, 0.0), tail + apart
        ends = np.quantile(draws, [below, above, 1 - above, 1 - below])
        return float(max(ends[1] - ends[0], ends[3] - ends[2])) / 2

    @staticmethod
    def _tail(level: float, clusters: int) -> float | None:
        """The share of the draws beyond each bound; None below two clusters."""
        if clusters < 2:
            return None
        widened = np.sqrt(clusters / (clusters - 1))
        return _NORMAL.cdf(widened * t_quantile((1 - level) / 2, clusters - 1))

    def standard_error(self, draws: Floats) -> float:
        """The draws' standard deviation, widened by sqrt(C/(C-1))."""
        draws = draws[np.isfinite(draws)]
        g = self.size
        if g < 2 or not len(draws):
            return float("nan")
        return float(np.std(draws) * np.sqrt(g / (g - 1)))


def _fill(room: memoryview, file: int, start: int) -> None:
    """Read a file from `start` on until there is no more room. Raises OSError where it is short."""
    done = 0
    while done < len(room):
        if not (got := os.preadv(file, [room[done:]], start + done)):
            raise OSError("the file of draws was cut short")
        done += got
