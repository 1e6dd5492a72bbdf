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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from beforehand.score.intervals import t_quantile
from beforehand.score.table import Floats, Ints, Marks, Table

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
class Periods:
    """The periods of a table, in which anything was forecast or seen: `at` (K,) is when each
    begins, and `step` how long it is, in microseconds."""

    at: Ints
    step: int

    def ranks(self, points: "Points") -> "Ranks":
        """The places of points among these periods."""

        def place(period: Ints, side: Literal["left", "right"] = "left") -> Ints:
            return np.searchsorted(self.at, period * self.step, side)

        period = place(points.period)
        age = np.maximum(period - place(points.since, "right"), 0)
        return Ranks(period, place(points.begun), age)


class Ranks(NamedTuple):
    """Where points lie among the periods: that of the move, that of the point, and for how many of
    them its price had stood when the next one came."""

    period: Ints
    begun: Ints
    age: Ints


@dataclass(frozen=True)
class Points:
    """Prices in order of question and time: those of rows, and marks.

    `q` (n,) is the question, `row` the row or -1, `price` the price; `move` is the next price less
    this one: at the last point the payout less it, and 0 where the question is open. `period` is
    that of the move, `begun` that of the point, `since` the one in which its price was seen, all as
    multiples of a step. `marked` is whether the question has a price between its first row and its
    end.
    """

    q: Ints
    row: Ints
    price: Floats
    move: Floats
    period: Ints
    begun: Ints
    since: Ints
    marked: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Part:
    """Some questions of a table in full: where they and their rows lie in it, the table of them
    alone, and their marks."""

    first: int
    rows: slice
    table: Table
    marks: Marks


def _parts(table: Table) -> Iterator[_Part]:
    """A table in parts, so that what is made of every price takes the memory of a part."""
    marks = table.marks
    if (np.diff(marks.q) < 0).any():
        order = np.argsort(marks.q, kind="stable")
        marks = Marks(marks.q[order], marks.t[order], marks.price[order])
    for rows, part in table.blocks():
        first = int(table.q[rows.start] - part.q[0]) if len(part.q) else 0
        here = slice(*np.searchsorted(marks.q, [first, first + len(part.questions)]).tolist())
        yield _Part(
            first, rows, part, Marks(marks.q[here] - first, marks.t[here], marks.price[here])
        )


def periods(table: Table) -> Periods:
    """The periods of a table. A step is the finest of `STEPS`, at most a day, that nine of ten gaps
    between successive prices of a question do not exceed; a day where there are none."""
    within, gaps = np.zeros(len(STEPS)), 0
    for part in _parts(table):
        q, t, *_ = _prices(part)
        apart = np.diff(t)[np.diff(q) == 0]
        apart = apart[apart > 0]
        within += [(apart <= step).sum() for step in STEPS]
        gaps += len(apart)
    enough = within >= COVERED * gaps
    step = STEPS[int(np.argmax(enough))] if gaps and enough.any() else STEPS[-1]
    seen = [np.zeros(0, dtype=np.int64)]
    for part in _parts(table):
        on = _points(part, step)
        seen.append(np.unique(np.concatenate([on.begun, on.period])))
    return Periods(np.unique(np.concatenate(seen)) * step, step)


def _points(part: _Part, step: int) -> Points:
    """The prices on which positions in some questions stand."""
    q, t, price, row, seen = _prices(part)
    # A row at the end of a period is the beginning of the next; what is seen then is still of it.
    begun, since = np.where(row >= 0, t // step, _within(t, step)), _within(seen, step)
    repeated = np.zeros(len(q), dtype=np.bool_)
    # Of marks of one period, the last counts, unless a row stands between.
    repeated[:-1] = (q[1:] == q[:-1]) & (begun[1:] == begun[:-1]) & (row[:-1] < 0)
    kept = ~repeated
    q, t, price, row = q[kept], t[kept], price[kept], row[kept]
    begun, since = begun[kept], since[kept]
    last = np.ones(len(q), dtype=np.bool_)
    last[:-1] = q[1:] != q[:-1]
    y, ended = part.table.y[q], part.table.resolved_at[q]
    paid = np.where(np.isfinite(y), y, price)
    stops = np.where(ended > 0, _within(ended, step), begun + 1)
    starts, ends = np.flatnonzero(np.diff(q, prepend=-1)), np.flatnonzero(last)
    marked = np.zeros(len(part.table.questions), dtype=np.bool_)
    marked[q[ends]] = t[ends] > t[starts]
    return Points(
        q=q,
        row=row,
        price=price,
        move=np.where(last, paid, np.append(price[1:], np.nan)) - price,
        period=np.maximum(np.where(last, stops, np.append(since[1:], 0)), begun),
        begun=begun,
        since=since,
        marked=marked,
    )


def _within(t: Ints, step: int) -> Ints:
    """The period of what was seen at t: a moment between two belongs to the first."""
    return np.asarray(-(-t // step) - 1)


def _prices(part: _Part) -> tuple[Ints, Ints, Floats, Ints, Ints]:
    """Question, time, price, row (-1 for a mark) and when it was seen, of all prices from a
    question's first row to its end, in order; of one instant, a mark comes before the row."""
    table, marks = part.table, part.marks
    rows = np.flatnonzero(np.isfinite(table.market))
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
    order = kept[np.lexsort((t[kept], q[kept]))]  # It keeps the order of what is equal.
    return q[order], t[order], price[order], row[order], seen[order]


@dataclass(frozen=True)
class Bets:
    """What a proper score stakes on forecasts, a row each: `x` is the position and `c` its cost,
    both known at the forecast; NaN where there is none."""

    x: Floats
    c: Floats


@dataclass(frozen=True)
class AgainstMarket:
    """A forecaster against the market's price, by the Brier score."""

    p: Floats

    def bets(self, rows: slice, market: Floats) -> Bets:
        """What is staked in some rows, at these prices."""
        apart = self.p[rows] - market
        return Bets(2 * apart, apart * apart)


@dataclass(frozen=True)
class AgainstEachOther:
    """One forecaster, a, against another, by the Brier score; its cost may be a gain."""

    a: Floats
    b: Floats

    def bets(self, rows: slice, market: Floats) -> Bets:
        """What is staked in some rows, at these prices."""
        a, b = self.a[rows], self.b[rows]
        return Bets(2 * (a - b), -(a - b) * (2 * market - a - b))


Contest = AgainstMarket | AgainstEachOther


def weights(table: Table, scheduled: Floats, made: npt.NDArray[np.bool_]) -> Floats:
    """The weight of each forecast that is `made` (n,), as it is known at that instant: one over the
    number of instants that were `scheduled` for its question (Q,) at its first one; where that is
    not known (NaN), 1 / (j (j + 1)) for its j-th. 0 where nothing is forecast."""
    of_row = scheduled[table.q]
    planned = np.isfinite(of_row)
    found = np.zeros(len(made))
    found[made & planned] = 1 / of_row[made & planned]
    rows = np.flatnonzero(made & ~planned)
    order = rows[np.lexsort((table.t[rows], table.q[rows]))]
    begins = np.flatnonzero(np.diff(table.q[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    j = np.arange(len(order)) - np.repeat(begins, sizes) + 1.0
    found[order] = 1 / (j * (j + 1))
    return found


@dataclass
class Gains:
    """What positions gained. Of each period of `on` (K,): `moved`, the profit D; `cost`, C;
    `skew`, the sum of q^2 (1 - 2 m) times the move; `opened`, the variance that prices implied for
    what was opened. Of each question (Q,): `each`, and the periods of its `first` row and its
    `last`, its end, as multiples of a step. `squares` is the sum of the squared profits of single
    moves, `bare` that of questions without a price in between, `by_age` that of the others by how
    many periods the price had stood when the next came; `at_once` was gained before the first mark
    after each forecast, `unsettled` by questions still open; `apart` is the most that any outcome
    could make of it. All are sums over rows times their weights, whose sum is `weight`. `pair`: of
    two forecasters."""

    on: Periods
    moved: Floats
    cost: Floats
    skew: Floats
    opened: Floats
    each: Floats
    first: Ints
    last: Ints
    by_age: Floats
    pair: bool
    squares: float = 0.0
    bare: float = 0.0
    at_once: float = 0.0
    unsettled: float = 0.0
    apart: float = 0.0
    weight: float = 0.0

    @classmethod
    def none(cls, on: Periods, questions: int, pair: bool) -> "Gains":
        """Of no position yet."""
        k = len(on.at)
        return cls(
            on=on,
            moved=np.zeros(k),
            cost=np.zeros(k),
            skew=np.zeros(k),
            opened=np.zeros(k),
            each=np.zeros(questions),
            first=np.zeros(questions, dtype=np.int64),
            last=np.zeros(questions, dtype=np.int64),
            by_age=np.zeros(k + 1),
            pair=pair,
        )

    @property
    def total(self) -> float:
        """S, the sum of all gains."""
        return float(self.moved.sum() - self.cost.sum())

    @property
    def net(self) -> Floats:
        """The gains of periods. Of a pair, without what was certain when it was forecast."""
        return self.moved if self.pair else self.moved - self.cost

    @property
    def age(self) -> int:
        """The largest age of a mark, in periods, but for the oldest, on which little rests."""
        above = self.by_age[::-1].cumsum()[::-1] - self.by_age
        late = np.flatnonzero(above <= LATE * self.by_age.sum())
        return int(late[0]) if len(late) else 0

    def add(self, part: _Part, points: Points, ranks: Ranks, bets: Bets, scheduled: Floats) -> None:
        """Take in the positions in a part of the questions."""
        table, (period, begun, age), k = part.table, ranks, len(self.on.at)
        made = np.isfinite(bets.x)
        w = weights(table, scheduled, made)
        taken, cost = np.where(made, bets.x, 0.0) * w, np.where(made, bets.c, 0.0) * w
        step, is_row = np.zeros(len(points.q)), points.row >= 0
        step[is_row] = taken[points.row[is_row]]
        held = _running(step, points.q)
        won = held * points.move
        squared = won * won
        self.moved += np.bincount(period, won, k)
        self.cost += np.bincount(begun[is_row], cost[points.row[is_row]], k)
        self.skew += np.bincount(period, held * held * (1 - 2 * points.price) * points.move, k)
        grown = (held * held - (held - step) ** 2) * points.price * (1 - points.price)
        self.opened += np.bincount(begun, grown, k)
        here = slice(part.first, part.first + len(table.questions))
        each = np.bincount(points.q, won, len(table.questions))
        each = each - np.bincount(table.q, cost, len(table.questions))
        self.each[here] = each
        starts = np.flatnonzero(np.diff(points.q, prepend=-1))
        ends = np.flatnonzero(np.diff(points.q, append=-1))
        self.first[part.first + points.q[starts]] = points.begun[starts]
        self.last[part.first + points.q[ends]] = points.period[ends]
        marked = points.marked[points.q]
        self.by_age += np.bincount(age[marked], squared[marked], k + 1)
        self.squares += float(squared.sum())
        self.bare += float(squared[~marked].sum())
        self.at_once += float((step * points.move).sum() - cost.sum())
        self.unsettled += float(each[~np.isfinite(table.y)].sum())
        self.apart += float((np.abs(taken) + np.abs(cost)).sum())
        self.weight += float(w.sum())


def gains(table: Table, contests: Mapping[str, Contest]) -> dict[str, Gains]:
    """The profit of the positions that each contest takes, period by period."""
    on, n = periods(table), len(table.questions)
    found = {
        name: Gains.none(on, n, isinstance(contest, AgainstEachOther))
        for name, contest in contests.items()
    }
    scheduled = table.scheduled if len(table.scheduled) else np.full(n, np.nan)
    for part in _parts(table):
        points = _points(part, on.step)
        ranks = on.ranks(points)
        planned = scheduled[part.first : part.first + len(part.table.questions)]
        for name, contest in contests.items():
            bets = contest.bets(part.rows, part.table.market)
            found[name].add(part, points, ranks, bets, planned)
    for one in found.values():
        np.maximum(one.opened, 0.0, out=one.opened)
    return found


def _running(step: Floats, q: Ints) -> Floats:
    """The sums of `step` so far, anew for each question; q in order."""
    sums = np.cumsum(step)
    starts = np.flatnonzero(np.diff(q, prepend=-1))
    sizes = np.diff(np.append(starts, len(q)))
    found = sums - np.repeat(np.append(0.0, sums)[starts], sizes)
    return np.asarray(found)


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


@dataclass(frozen=True)
class Estimate:
    """What may be said of a sum of gains. `mean` is per unit of weight, `half` the half-width of
    its interval, `leading` which variance led (`periods`, `implied`, `late marks`, `events`,
    `windows`); `n_eff` the effective periods, `windows` those
    of windows where these are needed. `cost` is the mean cost: so far below 0 lies who has no
    skill. `at_once` is the share of the sum that was gained before the first mark after each
    forecast, `unsettled` the share of questions that are still open. `heaviest` has the three
    periods that make most of the variance, with their shares; `age` is the largest age of a mark,
    in periods of `step` microseconds. `apart` bounds the mean whatever the outcomes. `factor`
    widens `half` for tries."""

    mean: float
    half: float
    leading: str
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
        """1 where the mean is shown to lie above 0, -1 below, 0 where neither is. Above 0 is not
        shown where most of the gain rests on questions that are still open."""
        if not self.enough or not abs(self.mean) > self.factor * self.half:
            return 0
        if self.mean > 0:
            return int(self.unsettled <= MOST_UNSETTLED)
        return -1

    def within(self, margin: float) -> bool:
        """Whether the mean is shown to lie within so much of 0, by two one-sided tests (Schuirmann
        1987), or because no outcome could have taken it out."""
        low, high = self.interval
        return self.apart <= margin or (self.enough and -margin < low and high < margin)


def evidence(event: Ints, found: Gains, factor: float = 1.0) -> Estimate:
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
        variance, windows = _overlapping(found)
        variances["windows"] = variance, windows - 1
    halves = {
        name: t_quantile(1 - TAIL, max(degrees, 1.0)) * sqrt(max(variance, 0.0))
        for name, (variance, degrees) in variances.items()
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
        heaviest=tuple((int(found.on.at[k]), float(shares[k])) for k in np.argsort(-shares)[:3]),
        age=age,
        step=found.on.step,
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
