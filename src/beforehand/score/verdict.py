"""When one may say "beats the market": the profit of a position, marked at every price on record.

Every proper score's gain over a price m is `x (y - m) - c`, with x and c known when the forecast is
made: for the Brier score x = 2 (p - m) and c = (p - m)^2. If prices are efficient, that profit is a
martingale, whatever the markets have to do with each other, as long as positions are weighed by
what is known when they are taken, marks are fresh, and every position is kept until its end. So the
gains of periods (a day, or what is finer) show how far their sum may lie from its mean by chance.
What one sample need not show is covered by other variances, and the widest of them decides: that of
events, that which the prices implied, that of late marks, that of windows that overlap where there
were no prices in between. docs/metrics.md has the derivation and the sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from beforehand.score.intervals import t_quantile
from beforehand.score.table import Floats, Ints, Table

TAIL = 0.025
LEAST_PERIODS = 5.0
"""The effective periods, or windows, without which nothing is shown."""
MOST_UNSETTLED = 0.5
"""The share of a gain that may rest on questions that are still open."""
MINUTE, DAY = 60_000_000, 86_400_000_000
STEPS = tuple(MINUTE * n for n in (1, 5, 15, 30, 60, 120, 180, 240, 360, 720, 1440))
"""What a period may be, in microseconds: a minute to a day."""
COVERED = 0.9
"""The share of the gaps between prices that a period is no shorter than."""
LATE = 0.1
"""What may rest on marks that are older than those that count as late: one market that is seen once
a month does not make months of all days."""
MOST_WINDOWS = 1_000
"""Windows are told apart by at most so many parts of the time."""
SIGNS, SEED, AT_ONCE = 9_999, 20_261_128, 2_000_000
"""Draws of random signs for the best of several tries, so many numbers at once. The seed is fixed,
and no option: a figure that one may choose is one more try."""
EVIDENCE = 40.0
"""What an e-value must reach: one over the tail."""
BURN_IN, SCALES = 5, tuple(4.0**j for j in range(-1, 4))
"""The first periods with a gain set the scale of the mixture, which is spread over these."""
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - TAIL)


@dataclass(frozen=True)
class Points:
    """The prices of all questions in order of question and time: those of rows, and marks.

    `q` (n,) is the question, `row` the table's row or -1, `price` the price; `move` is the next
    price less this one: at the last point the payout less it, and 0 where the question is open.
    `period` is where that move belongs, `begun` where the point itself lies, both as ranks among
    the periods in which anything moved or was forecast; `age` is for how many of these the price
    had stood when the next one came. `first` and `last` (Q,) are the periods of a question's first
    row and of its end, not ranked; `marked` (Q,) whether it has a price between them. `at` is when
    each ranked period begins, and `step` its length, in microseconds.
    """

    q: Ints
    row: Ints
    price: Floats
    move: Floats
    period: Ints
    begun: Ints
    age: Ints
    first: Ints
    last: Ints
    marked: npt.NDArray[np.bool_]
    at: Ints
    step: int


def step_of(q: Ints, t: Ints) -> int:
    """The period for prices in order of question and time: the finest of `STEPS`, at most a day,
    that nine of ten gaps between them do not exceed; a day where there are none. Microseconds."""
    gaps = np.diff(t)[np.diff(q) == 0]
    gaps = gaps[gaps > 0]
    if not len(gaps):
        return STEPS[-1]
    wanted = float(np.quantile(gaps, COVERED, method="inverted_cdf"))
    return next((step for step in STEPS if step >= wanted), STEPS[-1])


def points(table: Table) -> Points:
    """The prices on which positions in a table's questions stand."""
    q, t, price, row, seen = _prices(table)
    step = step_of(q, t)
    # A row at the end of a period is the beginning of the next; what is seen then is still of it.
    begun, since = np.where(row >= 0, t // step, _within(t, step)), _within(seen, step)
    repeated = np.zeros(len(q), dtype=np.bool_)
    # Of marks of one period, the last counts, unless a row stands between.
    repeated[:-1] = (q[1:] == q[:-1]) & (begun[1:] == begun[:-1]) & (row[:-1] < 0)
    kept = ~repeated
    q, t, price, row = q[kept], t[kept], price[kept], row[kept]
    begun, since = begun[kept], since[kept]
    total = len(table.questions)
    last = np.ones(len(q), dtype=np.bool_)
    last[:-1] = q[1:] != q[:-1]
    y, ended = table.y[q], table.resolved_at[q]
    paid = np.where(np.isfinite(y), y, price)
    stops = np.where(ended > 0, _within(ended, step), begun + 1)
    came = np.maximum(np.where(last, stops, np.append(since[1:], 0)), begun)
    at = np.unique(np.concatenate([begun, came]))
    period, rank = np.searchsorted(at, came), np.searchsorted(at, begun)
    starts, ends = np.flatnonzero(np.diff(q, prepend=-1)), np.flatnonzero(last)
    first, stop = np.zeros(total, dtype=np.int64), np.zeros(total, dtype=np.int64)
    marked = np.zeros(total, dtype=np.bool_)
    first[q[starts]], stop[q[ends]] = begun[starts], came[ends]
    marked[q[ends]] = t[ends] > t[starts]
    return Points(
        q=q,
        row=row,
        price=price,
        move=np.where(last, paid, np.append(price[1:], np.nan)) - price,
        period=period,
        begun=rank,
        age=np.maximum(period - np.searchsorted(at, since, side="right"), 0),
        first=first,
        last=stop,
        marked=marked,
        at=at * step,
        step=step,
    )


def _within(t: Ints, step: int) -> Ints:
    """The period of what was seen at t: a moment between two belongs to the first."""
    return np.asarray(-(-t // step) - 1)


def _prices(table: Table) -> tuple[Ints, Ints, Floats, Ints, Ints]:
    """Question, time, price, row (-1 for a mark) and when it was seen, of all prices from a
    question's first row to its end, in order; of one instant, a mark comes before the row."""
    rows, marks = np.flatnonzero(np.isfinite(table.market)), table.marks
    at = table.t[rows]
    old = np.nan_to_num(table.price_age[rows] * DAY).astype(np.int64)
    q = np.concatenate([marks.q, table.q[rows]])
    t = np.concatenate([marks.t, at])
    price = np.concatenate([marks.price, table.market[rows]])
    row = np.concatenate([np.full(len(marks.q), -1), rows])
    seen = np.concatenate([marks.t, at - old])
    first = np.full(len(table.questions), np.iinfo(np.int64).max)
    np.minimum.at(first, table.q[rows], at)
    ended = table.resolved_at[q]
    kept = np.flatnonzero((row >= 0) | ((t > first[q]) & ((ended == 0) | (t < ended))))
    order = kept[np.lexsort((row[kept], t[kept], q[kept]))]
    return q[order], t[order], price[order], row[order], seen[order]


@dataclass(frozen=True)
class Bets:
    """What a proper score stakes on forecasts, a row each: `x` is the position and `c` its cost,
    both known at the forecast; NaN where there is none. `pair`: of two forecasters, whose cost may
    be a gain."""

    x: Floats
    c: Floats
    pair: bool = False


def against_market(p: Floats, market: Floats) -> Bets:
    """A forecaster against the market's price, by the Brier score."""
    apart = p - market
    return Bets(2 * apart, apart * apart)


def against_each_other(a: Floats, b: Floats, market: Floats) -> Bets:
    """One forecaster, a, against another, by the Brier score."""
    apart = a - b
    return Bets(2 * apart, -apart * (2 * market - a - b), pair=True)


def weights(table: Table, made: npt.NDArray[np.bool_]) -> Floats:
    """The weight of each forecast that is `made` (n,), as it is known at that instant: one over the
    number of instants that were scheduled for its question at its first one; where no schedule is
    known, 1 / (j (j + 1)) for its j-th. 0 where nothing is forecast."""
    scheduled = table.scheduled[table.q] if len(table.scheduled) else np.full(len(made), np.nan)
    planned = np.isfinite(scheduled)
    found = np.zeros(len(made))
    found[made & planned] = 1 / scheduled[made & planned]
    rows = np.flatnonzero(made & ~planned)
    order = rows[np.lexsort((table.t[rows], table.q[rows]))]
    begins = np.flatnonzero(np.diff(table.q[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    j = np.arange(len(order)) - np.repeat(begins, sizes) + 1.0
    found[order] = 1 / (j * (j + 1))
    return found


@dataclass(frozen=True)
class Gains:
    """What positions gained. Of each ranked period (K,): `moved`, the profit D; `cost`, C;
    `skew`, the sum of q^2 (1 - 2 m) times the move; `opened`, the variance that prices implied for
    what was opened. Of each question (Q,): `each`. `squares` is the sum of the squared profits of
    single moves, `bare` that of questions without a price in between; `at_once` was gained before
    the first mark after each forecast, `unsettled` by questions still open; `apart` is the most
    that any outcome could make of it. All are sums over rows times their weights, whose sum is
    `weight`; `age` is the largest age of a mark, in periods."""

    moved: Floats
    cost: Floats
    skew: Floats
    opened: Floats
    each: Floats
    squares: float
    bare: float
    at_once: float
    unsettled: float
    apart: float
    weight: float
    age: int
    pair: bool

    @property
    def total(self) -> float:
        """S, the sum of all gains."""
        return float(self.moved.sum() - self.cost.sum())

    @property
    def net(self) -> Floats:
        """The gains of periods. Of a pair, without what was certain when it was forecast."""
        return self.moved if self.pair else self.moved - self.cost


def gains(table: Table, on: Points, bets: Bets) -> Gains:
    """The profit of the positions that `bets` take, period by period."""
    periods, total, made = len(on.at), len(table.questions), np.isfinite(bets.x)
    w = weights(table, made)
    taken, cost = np.where(made, bets.x, 0.0) * w, np.where(made, bets.c, 0.0) * w
    step, is_row = np.zeros(len(on.q)), on.row >= 0
    step[is_row] = taken[on.row[is_row]]
    held = _running(step, on.q)
    won = held * on.move
    squared = won * won
    costs = np.bincount(table.q, cost, total)
    each = np.asarray(np.bincount(on.q, won, total) - costs, dtype=np.float64)
    grown = (held * held - (held - step) ** 2) * on.price * (1 - on.price)

    def of_periods(values: Floats, period: Ints) -> Floats:
        return np.asarray(np.bincount(period, values, periods), dtype=np.float64)

    marked = on.marked[on.q]
    return Gains(
        moved=of_periods(won, on.period),
        cost=of_periods(cost[on.row[is_row]], on.begun[is_row]),
        skew=of_periods(held * held * (1 - 2 * on.price) * on.move, on.period),
        opened=np.maximum(of_periods(grown, on.begun), 0.0),
        each=each,
        squares=float(squared.sum()),
        bare=float(squared[~marked].sum()),
        at_once=float((step * on.move).sum() - cost.sum()),
        unsettled=float(each[~np.isfinite(table.y)].sum()),
        apart=float((np.abs(taken) + np.abs(cost)).sum()),
        weight=float(w.sum()),
        age=_age(on.age[marked], squared[marked]),
        pair=bets.pair,
    )


def _running(step: Floats, q: Ints) -> Floats:
    """The sums of `step` so far, anew for each question; q in order."""
    sums = np.cumsum(step)
    starts = np.flatnonzero(np.diff(q, prepend=-1))
    sizes = np.diff(np.append(starts, len(q)))
    found = sums - np.repeat(np.append(0.0, sums)[starts], sizes)
    return np.asarray(found)


def _age(age: Ints, squared: Floats) -> int:
    """The largest age of a mark, in periods, leaving aside those that carry next to nothing."""
    by_age = np.bincount(age, weights=squared)
    above = by_age[::-1].cumsum()[::-1] - by_age
    late = np.flatnonzero(above <= LATE * by_age.sum())
    return int(late[0]) if len(late) else 0


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


def _overlapping(on: Points, each: Floats) -> tuple[float, float]:
    """The variance of a sum over questions whose windows overlap, and its degrees of freedom: two
    go together by the part of their time that they share, sum of g g' overlap / sqrt(len len')."""
    has = np.flatnonzero(each)
    if not len(has):
        return 0.0, 0.0
    gain, begin, end = each[has], on.first[has], on.last[has] + 1
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


@dataclass(frozen=True)
class Evidence:
    """What may be said of a sum of gains. `mean` is per unit of weight, `half` the half-width of
    its interval, `leading` which variance led (`periods`, `implied`, `late marks`, `events`,
    `windows`), `error` the root of the widest one; `n_eff` the effective periods, `windows` those
    of windows where these are needed. `cost` is the mean cost: so far below 0 lies who has no
    skill. `at_once` is the share of the sum that was gained before the first mark after each
    forecast, `unsettled` the share of questions that are still open. `heaviest` has the three
    periods that make most of the variance, with their shares; `age` is the largest age of a mark,
    in periods of `step` microseconds. `apart` bounds the mean whatever the outcomes. `factor`
    widened `half` for tries."""

    mean: float
    half: float
    leading: str
    error: float
    n_eff: float
    windows: float | None
    cost: float
    at_once: float
    unsettled: float
    apart: float
    heaviest: tuple[tuple[int, float], ...]
    age: int
    step: int
    factor: float

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true mean lies, at 95 %."""
        return self.mean - self.half, self.mean + self.half

    @property
    def enough(self) -> bool:
        """Whether it rests on enough periods (and windows) to say anything."""
        least = self.n_eff if self.windows is None else min(self.n_eff, self.windows)
        return least >= LEAST_PERIODS

    @property
    def sign(self) -> int:
        """1 where the mean is shown to lie above 0, -1 below, 0 where neither is."""
        if not self.enough or not abs(self.mean) > self.half:
            return 0
        return 1 if self.mean > 0 else -1

    def within(self, margin: float) -> bool:
        """Whether the mean is shown to lie within so much of 0, by two one-sided tests (Schuirmann
        1987), or because no outcome could have taken it out."""
        low, high = self.interval
        return self.apart <= margin or (self.enough and -margin < low and high < margin)


def evidence(on: Points, event: Ints, found: Gains, factor: float = 1.0) -> Evidence:
    """The interval that the widest variance gives. `event` (Q,) is the label of each question's
    event; `factor` widens it for tries (`for_tries`)."""
    net, age, weight, total = found.net, found.age, found.weight or np.nan, found.total
    n_eff = effective(net if age == 0 else _blocks(net, age + 1))
    df = 2 * n_eff if age == 0 else n_eff - 1
    profit = float(found.moved @ found.moved)
    implied = max(found.squares - float(found.skew.sum()), 0.0)
    variances = {
        "periods": (profit if found.pair else float(net @ net), df),
        "implied": (implied * profit / found.squares if found.squares else 0.0, df),
    }
    if age:
        variances["late marks"] = _lagged(net, 2 * age), df
    events = np.asarray(np.bincount(event, found.each, 1), dtype=np.float64)
    variances["events"] = float(events @ events), 2 * effective(events)
    windows = None
    if 2 * found.bare > found.squares:
        variance, windows = _overlapping(on, found.each)
        variances["windows"] = variance, windows - 1
    halves = {
        name: t_quantile(1 - TAIL, max(degrees, 1.0)) * sqrt(max(variance, 0.0))
        for name, (variance, degrees) in variances.items()
    }
    leading = max(halves, key=lambda name: halves[name])
    shares = net * net / max(float(net @ net), np.finfo(float).tiny)
    return Evidence(
        mean=total / weight,
        half=factor * halves[leading] / weight,
        leading=leading,
        error=sqrt(max(variance for variance, _ in variances.values())) / weight,
        n_eff=n_eff,
        windows=windows,
        cost=float(found.cost.sum()) / weight,
        at_once=found.at_once / total if total else 0.0,
        unsettled=abs(found.unsettled / total) if total else 0.0,
        apart=found.apart / weight,
        heaviest=tuple((int(on.at[k]), float(shares[k])) for k in np.argsort(-shares)[:3]),
        age=age,
        step=on.step,
        factor=factor,
    )


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


def e_values(found: Gains) -> Floats:
    """The evidence after each period that the gains have a mean above 0, for whoever looks every
    day: where there is no skill it ever reaches `EVIDENCE` with a probability of 2.5 %. (K,), 0
    until the fifth period with a gain; a mixture of normal mixtures (Robbins 1970; exact for
    symmetric increments, de la Pena 1999, else an approximation)."""
    series = found.moved - found.cost, found.moved, found.skew, found.opened
    size = max(2 * found.age, 1)
    net, moved, skew, opened = (_blocks(one, size) for one in series)
    active = np.flatnonzero(net)
    values = np.zeros(len(net))
    if len(active) >= BURN_IN:
        begin = int(active[BURN_IN - 1])
        scale = float(opened[: begin + 1].sum()) or np.finfo(float).tiny
        implied = np.maximum.accumulate(np.maximum(np.cumsum(moved * moved - skew), 0.0))
        spread = np.maximum(np.cumsum(net * net), implied)
        sums = np.cumsum(net)
        for rho in (scale * one for one in SCALES):
            z = sums / np.sqrt(spread + rho)
            tail = np.array([_NORMAL.cdf(one) for one in z.tolist()])
            grown = np.exp(np.minimum(z * z / 2, 700.0))
            values += 2 * np.sqrt(rho / (spread + rho)) * grown * tail / len(SCALES)
        values[:begin] = 0.0
    return np.repeat(values, size)[: len(found.moved)]
