"""When one may say "beats the market": the profit of a position, marked at every price on record.

Every proper score's gain over a price m is `x (y - m) - c`, with x and c known when the forecast is
made: for the Brier score x = 2 (p - m) and c = (p - m)^2. If prices are efficient, that profit is a
martingale, whatever the markets have to do with each other, as long as positions are weighed by
what is known when they are taken, marks are fresh, and every position is kept until its end. So the
gains of periods (a day, or what is finer) show how far their sum may lie from its mean by chance.
What one sample need not show is covered by other variances, and the widest of them decides: that of
events, that which the prices implied, that of late marks, that of windows that overlap where there
were no prices in between. The positions and their gains are those of positions.py, the prices on
which they stand those of prices.py.
docs/metrics.md has the derivation and the sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from beforehand.score.intervals import t_quantile
from beforehand.score.positions import Gains
from beforehand.score.prices import sums
from beforehand.score.table import Floats, Ints, Table

TAIL = 0.025
LEAST_PERIODS = 5.0
"""The effective periods, or windows, without which nothing is shown."""
MOST_UNSETTLED = 0.5
"""The share of a gain that may rest on questions that are still open."""
PRINTED = 0.00005
"""What a table prints as 0.0000: no verdict rests on so little."""
MOST_WINDOWS = 1_000
"""Windows are told apart by at most so many parts of the time."""
SIGNS, SEED, AT_ONCE = 9_999, 20_261_128, 2_000_000
"""Draws of random signs for the best of several tries, so many numbers at once. The seed is fixed,
and no option: a figure that one may choose is one more try."""
EVIDENCE = 40.0
"""What an e-value must reach: one over the tail."""
BURN_IN, SCALES = 5, tuple(4.0**j for j in range(-1, 4))
"""The first periods with a gain set the scale of the mixture, which is spread over these."""
POWER_Z = 0.8416212335729143
"""The normal quantile of a power of 80 %."""
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - TAIL)


def effective(values: Floats) -> float:
    """How many equal values would vary as much: (sum of squares)^2 / sum of fourth powers."""
    squares = values * values
    fourth = float((squares * squares).sum())
    return float(squares.sum()) ** 2 / fourth if fourth > 0 else 0.0


def _blocks(values: Floats, size: int) -> Floats:
    """Sums over blocks of so many periods."""
    padded = np.pad(values, (0, -len(values) % size))
    return np.asarray(padded.reshape(-1, size).sum(axis=1))


def _lagged(values: Floats, lags: int) -> float:
    """The long-run variance of a sum with so many lags (Newey and West 1987)."""
    found = float(values @ values)
    for lag in range(1, min(lags, len(values) - 1) + 1):
        found += 2 * (1 - lag / (lags + 1)) * float(values[lag:] @ values[:-lag])
    return found


def _overlapping(found: Gains) -> tuple[float, float]:
    """The variance of a sum over questions whose windows overlap, and its degrees of freedom: two
    go together by the part of their time that they share, sum of g g' overlap / sqrt(len len')."""
    has = np.flatnonzero(found.each)
    if not len(has):
        return 0.0, 0.0
    gain, begin, end = found.each[has], found.first[has], found.last[has] + 1
    coarse = max(1, -(-int(end.max() - begin.min()) // MOST_WINDOWS))
    begin, end = (begin - begin.min()) // coarse, -(-(end - begin.min()) // coarse)
    size = int(end.max()) + 1
    per = gain / np.sqrt(end - begin)
    there = np.bincount(begin, per, size) - np.bincount(end, per, size)
    variance = float((np.cumsum(there) ** 2).sum())
    # The sum over pairs of overlap^2 is that over every two moments of what is held at both.
    both, share = np.zeros((size, size)), gain * gain / (end - begin)
    for i, j, sign in ((begin, begin, 1), (begin, end, -1), (end, begin, -1), (end, end, 1)):
        np.add.at(both, (i, j), sign * share)
    together = float((both.cumsum(axis=0).cumsum(axis=1) ** 2).sum())
    return variance, float((gain * gain).sum()) ** 2 / together if together > 0 else 0.0


class Heavy(NamedTuple):
    """A period that makes much of the variance: when it begins (microseconds), its share, the
    question (its place among all) that gained or lost the most then, and what its price did."""

    at: int
    share: float
    question: int
    move: float


@dataclass(frozen=True)
class Estimate:
    """What may be said of a sum of gains. `mean` is per unit of weight, `half` the half-width of
    its interval, `leading` which variance led (`periods`, `implied`, `late marks`, `events`,
    `windows`); `n_eff` the effective periods, `windows` those of windows where these are needed.
    `cost` is the mean cost: so far below 0 lies who has no skill. `at_once` is the share of the sum
    that was gained before the first mark after each forecast, `unsettled` the share of questions
    that are still open. `heaviest` has the three periods that make most of the variance; `age` is
    the largest age of a mark, in periods of `step` microseconds. `apart` bounds the mean whatever
    the outcomes. `factor` widens `half` for tries. `error` is the standard error by the variance
    that led, `df` its degrees of freedom. `last_day` is as in `Periods`."""

    mean: float
    half: float
    leading: str
    n_eff: float
    windows: float | None
    cost: float
    at_once: float
    unsettled: float
    apart: float
    heaviest: tuple[Heavy, ...]
    age: int
    step: int
    factor: float
    error: float
    df: float
    last_day: bool

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true mean lies, at 95 %."""
        return self.mean - self.half, self.mean + self.half

    @property
    def bounds(self) -> tuple[float, float]:
        """The same, widened for tries: what a verdict rests on."""
        reach = self.factor * self.half
        return self.mean - reach, self.mean + reach

    @property
    def rests_on(self) -> float:
        """The fewest of its effective periods and windows."""
        return self.n_eff if self.windows is None else min(self.n_eff, self.windows)

    @property
    def enough(self) -> bool:
        """Whether it rests on enough periods (and windows) to say anything."""
        return self.rests_on >= LEAST_PERIODS

    @property
    def sign(self) -> int:
        """1 where the mean is shown to lie above 0, -1 below, 0 where neither is: nor where it is
        printed as 0, or rests for the most part on questions that are still open."""
        low, high = self.bounds
        told = self.enough and self.unsettled <= MOST_UNSETTLED and abs(self.mean) >= PRINTED
        return int(told and low > 0) - int(told and high < 0)

    def within(self, margin: float) -> bool:
        """Whether the mean is shown to lie within so much of 0, by two one-sided tests (Schuirmann
        1987), or because no outcome could have taken it out."""
        low, high = self.bounds
        return self.apart <= margin or (self.enough and -margin < low and high < margin)

    def power(self, effect: float) -> float:
        """The probability, from 0 to 1, that a true mean of this size is told from 0: by the normal
        distribution, with the error seen here."""
        if not self.error:
            return float(effect != 0)
        reach, shift = self.factor * self.half / self.error, abs(effect) / self.error
        return _NORMAL.cdf(shift - reach) + _NORMAL.cdf(-shift - reach)

    @property
    def detectable(self) -> float:
        """The true mean that is told from 0 with a probability of 80 %."""
        return self.factor * self.half + POWER_Z * self.error


def evidence(table: Table, found: Gains, factor: float = 1.0) -> Estimate:
    """The interval that the widest variance gives; `factor` widens it for tries (`for_tries`)."""
    net, age, weight, total = found.net, found.age, found.weight or np.nan, found.total
    n_eff = effective(net if age == 0 else _blocks(net, age + 1))
    unpriced = 2 * found.priced < found.squares
    df = 2 * n_eff if age == 0 and not unpriced else n_eff - 1
    profit = float(found.moved @ found.moved)
    implied = max(found.squares - found.skewed, 0.0)
    variances = {
        "periods": (profit if found.pair else float(net @ net), df),
        "implied": (implied * profit / found.squares if found.squares else 0.0, df),
    }
    if age:
        variances["late marks"] = _lagged(net, 2 * age), df
    events = sums(table.events, found.each, 1)
    n_events = effective(events)
    variances["events"] = float(events @ events), n_events - 1 if unpriced else 2 * n_events
    windows = None
    if 2 * found.bare > found.squares:
        variance, windows = _overlapping(found)
        variances["windows"] = variance, windows - 1
    errors = {name: sqrt(max(variance, 0.0)) for name, (variance, _) in variances.items()}
    halves = {
        name: t_quantile(1 - TAIL, max(degrees, 1.0)) * errors[name]
        for name, (_, degrees) in variances.items()
    }
    leading = max(halves, key=lambda name: halves[name])
    shares = net * net / max(float(net @ net), np.finfo(float).tiny)
    return Estimate(
        mean=total / weight,
        half=halves[leading] / weight,
        leading=leading,
        n_eff=n_eff,
        windows=windows,
        cost=float(found.cost.sum()) / weight,
        at_once=found.at_once / total if total else 0.0,
        unsettled=abs(found.unsettled / total) if total else 0.0,
        apart=found.apart / weight,
        heaviest=tuple(
            Heavy(int(found.on.shown[k]), float(shares[k]), int(found.of[k]), float(found.by[k]))
            for k in np.argsort(-shares)[:3]
            if shares[k]
        ),
        age=age,
        step=found.on.step,
        factor=factor,
        error=errors[leading] / weight,
        df=variances[leading][1],
        last_day=found.on.last_day,
    )


class Course(NamedTuple):
    """The gain over time: at the end of each period (microseconds), what was gained by then, per
    unit of the whole weight, and how far from 0 it may have come by chance (95 %)."""

    at: Ints
    gain: Floats
    band: Floats


def course(found: Gains, estimate: Estimate, most: int = 100) -> Course:
    """The gain over time, in at most so many steps. The band is that of the whole, as its variance
    grew from period to period."""
    k = np.unique(np.linspace(0, len(found.net) - 1, most).round().astype(np.int64))
    k = k[k >= 0]
    net, whole = found.moved - found.cost, float(found.net @ found.net)
    grown = np.cumsum(found.net**2) / whole if whole else np.zeros(len(net))
    band = estimate.factor * estimate.half * np.sqrt(grown)
    gain = np.cumsum(net) / (found.weight or np.nan)
    return Course(found.on.shown[k] + found.on.step, gain[k], band[k])


def for_tries(series: Sequence[Floats], tries: int) -> float:
    """By how much an interval is widened so that it holds for the best of `tries`: with the gains
    of periods on record, (K,) each, by the largest of their sums under common random signs (Romano
    and Wolf 2005); the others, of which only the number is known, as if each stood alone."""
    known = [one / sqrt(float(one @ one)) for one in series if one.any()]
    if max(tries, len(known)) <= 1:
        return 1.0
    alike = 1.0
    if len(known) > 1:
        together, largest = np.stack(known, axis=1), list[Floats]()
        rng = np.random.default_rng(SEED)
        several = max(1, AT_ONCE // len(together))
        for begin in range(0, SIGNS, several):
            shape = min(several, SIGNS - begin), len(together)
            signs = rng.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
            largest.append((signs @ together).max(axis=1))
        reached = float(np.quantile(np.concatenate(largest), 1 - TAIL))
        alike = max(1.0, TAIL / (1 - _NORMAL.cdf(reached)))
    independent = min(alike, float(len(known))) + max(tries - len(known), 0)
    return _NORMAL.inv_cdf(1 - TAIL / max(independent, 1.0)) / _Z


def e_values(found: Gains, below: bool = False) -> Floats:
    """The evidence after each period that the gains have a mean above 0 (or `below`), for whoever
    looks every day: where they have not, it ever reaches `EVIDENCE` with a probability of 2.5 %.
    (K,), 0 until the fifth period with a gain; a mixture of normal mixtures (Robbins 1970; exact
    for symmetric increments, de la Pena 1999, else an approximation). The gains must have been
    `looked` at."""
    assert found.looked
    sums, spread, scale, begin, size = _looked_at(found)
    values = np.zeros(len(sums))
    if scale:
        values = _mixture(-sums if below else sums, spread, scale)
        values[:begin] = 0.0
    return np.repeat(values, size)[: len(found.moved)]


def _looked_at(found: Gains) -> tuple[Floats, Floats, float, int, int]:
    """The sums of gains after each block of periods and their variance, the scale that the first
    ones set (0 where there are too few), the block from which on it is known, and the periods of a
    block."""
    series = found.moved - found.cost, found.moved, found.skew, found.opened
    size = max(2 * found.age, 1)
    net, moved, skew, opened = (_blocks(one, size) for one in series)
    implied = np.maximum.accumulate(np.maximum(np.cumsum(moved * moved - skew), 0.0))
    spread = np.maximum(np.cumsum(net * net), implied)
    active = np.flatnonzero(net)
    if len(active) < BURN_IN:
        return np.cumsum(net), spread, 0.0, 0, size
    begin = int(active[BURN_IN - 1])
    scale = float(opened[: begin + 1].sum()) or np.finfo(float).tiny
    return np.cumsum(net), spread, scale, begin, size


def _mixture(sums: Floats, spread: Floats, scale: float) -> Floats:
    values = np.zeros(len(sums))
    for rho in (scale * one for one in SCALES):
        z = sums / np.sqrt(spread + rho)
        tail = np.array([_NORMAL.cdf(one) for one in z.tolist()])
        grown = np.exp(np.minimum(z * z / 2, 700.0))
        values += 2 * np.sqrt(rho / (spread + rho)) * grown * tail / len(SCALES)
    return values


def looked_power(found: Gains, effect: float, needed: float = EVIDENCE) -> float:
    """The probability that whoever looks every day has seen, by the end, that the mean gain lies
    `effect` below 0, where it does: by the normal distribution, with the variance seen here; NaN
    where there are too few periods."""
    _, spread, scale, _, _ = _looked_at(found)
    if not scale or not found.weight:
        return float("nan")
    last, low, high = spread[-1:], 0.0, 40.0 * sqrt(float(spread[-1]) + scale * SCALES[-1])
    for _ in range(60):  # The sum at which the evidence is enough.
        middle = (low + high) / 2
        enough = float(_mixture(np.array([middle]), last, scale)[0]) >= needed
        low, high = (low, middle) if enough else (middle, high)
    return _NORMAL.cdf((abs(effect) * found.weight - high) / sqrt(float(last[0])))
