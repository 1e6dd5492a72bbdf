"""Side-by-side speed of the hot paths, as ratios of CPU time measured in one run.

Run: `make bench` (or `python bench/run.py [name ...]`). Each line is our time over a floor or a
peer's, the median of several alternating rounds, all threads' CPU time. The floors are the
plainest code that gives the same figures; the peers are PyPI packages. No test asserts a time.
"""

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from beforehand.clock import FrozenClock, from_us
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.score import metrics
from beforehand.score.intervals import Resampler
from beforehand.store.archive.reader import Series

N = 1_000_000
ROUNDS = 7


def side_by_side(*jobs: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Median CPU seconds of each job, the jobs taking turns."""
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()
    for _ in range(rounds):
        for job, spent in zip(jobs, times, strict=True):
            start = time.process_time()
            job()
            spent.append(time.process_time() - start)
    return [median(spent) for spent in times]


def line(what: str, ours: float, theirs: float, name: str, goal: str, scale: float = 1.0) -> None:
    """One result: both times, and ours over theirs."""
    ratio = ours / (theirs * scale)
    print(
        f"{what:34s} ours {ours * 1e3:9.2f} ms   {name:24s} {theirs * scale * 1e3:11.2f} ms   "
        f"ours/theirs {ratio:8.4f}   goal {goal}"
    )


def scoring() -> None:
    """Brier, log loss and ECE of a million predictions; numpy's floor and arena-evaluation."""
    rng = np.random.default_rng(0)
    p = rng.random(N)
    y = (rng.random(N) < p).astype(np.float64)

    def ours() -> tuple[float, float, float]:
        return metrics.brier(p, y), metrics.log_loss(p, y), metrics.ece(p, y)

    def floor() -> tuple[float, float, float]:
        brier = float(((p - y) ** 2).mean())
        q = np.clip(np.where(y == 1, p, 1 - p), 1e-6, 1 - 1e-6)
        log = float(-np.log(q).mean())
        index = np.minimum((p * 10 + 1e-9).astype(np.int64), 9)
        n = np.bincount(index, minlength=10)
        gap = np.bincount(index, weights=p, minlength=10) - np.bincount(
            index, weights=y, minlength=10
        )
        return brier, log, float(np.abs(gap).sum() / n.sum())

    assert np.allclose(ours(), floor())
    mine, plain = side_by_side(ours, floor)
    line("score 1 M predictions", mine, plain, "numpy", "<= 1.3")
    try:
        from arena_evaluation import Cell, Resolution, evaluate_cells
    except ImportError:
        print("arena-evaluation is not installed: `make bench` installs it")
        return
    part = 50_000
    cells = [
        Cell(
            "a",
            f"e{i}",
            0,
            {"yes": float(p[i])},
            {"yes": Resolution.YES if y[i] else Resolution.NO},
        )
        for i in range(part)
    ]
    (peer,) = side_by_side(lambda: evaluate_cells(cells, slices=False), rounds=3)
    report = evaluate_cells(cells, slices=False).scores[0]
    assert np.isclose(report.brier, metrics.brier(p[:part], y[:part]))
    assert np.isclose(report.ece, metrics.ece(p[:part], y[:part]))
    line("score 1 M predictions", mine, peer, "arena-evaluation (x20)", "<= 0.01", N / part)


def resampling() -> None:
    """1,000 clustered resamples over a million rows of 10,000 questions."""
    rng = np.random.default_rng(0)
    q = rng.integers(0, 10_000, N)
    d = rng.normal(size=N)

    def ours() -> float:
        sampler = Resampler(q, draws=1000)
        totals = sampler.totals(np.stack([d, np.ones(N)], axis=1))
        return float(np.std(totals[:, 0] / totals[:, 1]))

    def floor() -> float:
        sums, counts = np.bincount(q, weights=d), np.bincount(q)
        draws = np.random.default_rng(0)
        out = np.empty(1000)
        for b in range(1000):
            drawn = np.bincount(draws.integers(0, len(sums), len(sums)), minlength=len(sums))
            out[b] = (drawn @ sums) / (drawn @ counts)
        return float(np.std(out))

    def naive() -> float:
        rows = [np.flatnonzero(q == i) for i in range(100)]
        pick = np.concatenate([rows[i] for i in rng.integers(0, 100, 100)])
        return float(d[pick].mean())

    assert np.isclose(ours(), floor(), rtol=0.15)
    mine, plain = side_by_side(ours, floor, rounds=3)
    line("1,000 resamples, 1 M rows", mine, plain, "per-event sums", "<= 1.5")


class _World:
    """A gateway's world that holds price series and nothing else."""

    grade = "captured"

    def __init__(self, series: dict[str, Series]) -> None:
        self._series = series

    def series(self, market_id: str) -> Series | None:
        return self._series.get(market_id)

    def resolutions(self, *_: object) -> list[Any]:
        return []

    def market_versions(self, *_: object) -> list[Any]:
        return []


def _gateway(markets: int, points: int) -> tuple[Gateway, dict[str, Series]]:
    rng = np.random.default_rng(0)
    made = {}
    for i in range(markets):
        known = np.sort(rng.integers(0, 10**15, points))
        rest = [rng.random(points), *(np.full(points, np.nan),) * 3]
        made[f"A:{i}"] = Series.build(f"A:{i}", known, known, rest)
    return Gateway(_World(made), FrozenClock(from_us(10**15))), made  # type: ignore[arg-type]


def lookups() -> None:
    """As-of lookups as a panel takes them: guarded, in batch."""
    gateway, made = _gateway(100, 10_000)
    rng = np.random.default_rng(1)
    t = np.sort(rng.integers(0, 10**15, (100, 10_000)), axis=1)
    names = list(made)

    def ours() -> float:
        total = 0.0
        for name, instants in zip(names, t, strict=True):
            series, rows = gateway.take(name, instants)
            total += float(series.price[rows[rows >= 0]].sum())
        return total

    def floor() -> float:
        total = 0.0
        for name, instants in zip(names, t, strict=True):
            series = made[name]
            order = np.argsort(series.known_at, kind="stable")
            known, price = series.known_at[order], series.price[order]
            rows = np.searchsorted(known, instants, side="right") - 1
            total += float(price[rows[rows >= 0]].sum())
        return total

    assert np.isclose(ours(), floor())
    mine, plain = side_by_side(ours, floor)
    line("1 M as-of lookups, batch", mine, plain, "numpy sort+searchsorted", "<= 1.25")


def loop() -> None:
    """A panel under the guard and a callback over its rows: the bare callback, honest-backtest."""
    gateway, made = _gateway(1, N)
    series = made["A:0"]
    stamps = series.known_at

    def strategy(t: int, price: float) -> bool:
        return price < 0.0001

    def ours() -> int:
        panel = gateway.panel([("A:0", stamps)], evidence=Evidence(max_results=0))
        rows = zip(panel.t.tolist(), panel.price.tolist(), strict=True)
        return sum(strategy(t, p) for t, p in rows)

    def bare() -> int:
        rows = zip(stamps.tolist(), series.price.tolist(), strict=True)
        return sum(strategy(t, p) for t, p in rows)

    assert abs(ours() - bare()) <= 2
    mine, plain = side_by_side(ours, bare)
    line("panel and loop, 1 M rows", mine, plain, "bare callback", "<= 1.67")
    try:
        from honest_backtest import Decision, Signal, SlotCtx, run_signal
        from honest_backtest.signal import SlotMeta
    except ImportError:
        print("honest-backtest is not installed: `make bench` installs it")
        return

    class Cheap(Signal):  # type: ignore[misc]
        once = False

        def decide(self, ctx: Any, i: int) -> Any:
            if ctx.ya[i] < 0.0001:
                return Decision(i, int(ctx.ts[i]), True, "taker", 0.01, 1.0)
            return None

    size = N // 4
    column = np.ones(size)
    snaps = (stamps[:size] // 1000, column, column, series.price[:size], *([column] * 7))
    meta = SlotMeta("c", "btc", "1h", 3600, 0, 3600, 1.0, 1.0, 1.0, "y", "n", "Yes", 0.0, 0.0)
    empty = np.zeros(0)
    ctx = SlotCtx(
        meta, snaps, (empty.astype(np.int64), empty.astype(bool), empty, empty, empty.astype(bool))
    )
    (peer,) = side_by_side(lambda: run_signal(Cheap(), [ctx]), rounds=3)
    line("panel and loop, 1 M rows", mine, peer, "honest-backtest (x4)", "<= 1", 4)


SECTIONS = {"scoring": scoring, "resampling": resampling, "lookups": lookups, "loop": loop}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
