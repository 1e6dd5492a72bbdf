"""The positions that forecasts are, and what they gain from price to price.

Every proper score's gain over a price m is `x (y - m) - c`, with x and c known when the forecast is
made: for the Brier score x = 2 (p - m) and c = (p - m)^2. Positions are weighed by what is known
when they are taken, and held from the price at which they begin to count to their end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from beforehand.score.prices import (
    Flags,
    Part,
    Periods,
    Points,
    Ranks,
    parts,
    periods,
    points_of,
    sums,
    windows_of,
)
from beforehand.score.table import MARKET, STALE_DAYS, Floats, Ints, Table

K = TypeVar("K")
"""What a contest is called."""
LATE = 0.2
"""What may rest on marks that are older than those that count as late: one market that is seen once
a month does not make months of all days."""


@dataclass(frozen=True)
class Bets:
    """What a proper score stakes on forecasts, a row each: `x` is the position and `c` its cost,
    both known at the forecast; NaN where there is none. `late` (of two forecasters) is what is
    gained where there is no price, known at the end; NaN where there is one."""

    x: Floats
    c: Floats
    late: Floats | None = None


class Contest(Protocol):
    """Who is held against whom. `pair` is of two forecasters; the weights of its rows count a
    `share` each."""

    @property
    def pair(self) -> bool: ...
    @property
    def share(self) -> float: ...
    @property
    def noted(self) -> bool:
        """Whether it is kept which question moved most in each period."""
        ...

    def bets(self, part: Table, of: Table, rows: slice) -> Bets:
        """What is staked in the rows of a part of a table."""
        ...


def _said(table: Table, name: str, rows: slice) -> Floats:
    """What a forecaster said in some rows; one that said nothing of these questions, NaN."""
    if name != MARKET and name not in table.forecasts:
        return np.full(rows.stop - rows.start, np.nan)
    return table.said(name)[rows]


def fresh(part: Table, of: Table, rows: slice) -> Flags:
    """The rows of a part whose price is at most a week old."""
    return np.asarray(part.price_age <= STALE_DAYS)


@dataclass(frozen=True)
class AgainstMarket:
    """A forecaster against the quoted price, by the Brier score; `only` in some rows; or, at the
    `book`, against the price between bid and ask that is nearest to what it says."""

    name: str
    only: Callable[[Table, Table, slice], Flags] | None = None
    book: bool = False
    pair: bool = field(default=False, init=False)
    share: float = field(default=1.0, init=False)

    @property
    def noted(self) -> bool:
        """On all rows alone."""
        return self.only is None and not self.book

    def bets(self, part: Table, of: Table, rows: slice) -> Bets:
        """What is staked in the rows of a part of a table."""
        p, market = _said(of, self.name, rows), part.market
        stands = np.clip(p, part.bid, part.ask) if self.book else market
        x = 2 * (p - stands)
        c = (p - stands) ** 2 + x * (stands - market)
        if self.only is not None:
            x = np.where(self.only(part, of, rows), x, np.nan)
        return Bets(np.where(np.isfinite(c), x, np.nan), c)


@dataclass(frozen=True)
class AgainstEachOther:
    """One forecaster, a, against another, by the Brier score; its cost may be a gain. `apart`: who
    never forecast at one instant, each held against the price at its own."""

    a: str
    b: str
    apart: bool = False
    pair: bool = field(default=True, init=False)
    noted: bool = field(default=False, init=False)

    @property
    def share(self) -> float:
        """Of two rows that make one comparison, each is half of it."""
        return 0.5 if self.apart else 1.0

    def bets(self, part: Table, of: Table, rows: slice) -> Bets:
        """What is staked in the rows of a part of a table."""
        a, b, market = _said(of, self.a, rows), _said(of, self.b, rows), part.market
        if self.apart:
            neither = ~np.isfinite(a) & ~np.isfinite(b)
            a, b = np.where(np.isfinite(a), a, market), np.where(np.isfinite(b), b, market)
            a = np.where(neither, np.nan, a)
        x, c = 2 * (a - b), -(a - b) * (2 * market - a - b)
        if self.apart or np.isfinite(market).all():
            return Bets(np.where(np.isfinite(c), x, np.nan), c)
        late = np.where(np.isfinite(market), np.nan, (b - a) * (a + b - 2 * part.y[part.q]))
        return Bets(np.where(np.isfinite(c) | np.isfinite(late), x, np.nan), c, late)


def weights(table: Table, scheduled: Floats, made: Flags) -> Floats:
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
    """What positions gained. Of each period of `on` (K,): `moved`, the profit D; `cost`, C; `skew`,
    the sum of q^2 (1 - 2 m) times the move, and `opened`, the variance that prices implied for what
    was opened, where it is `looked` at every day (else only the sum `skewed` is known); `most`, the
    largest profit or loss of one question, `of` that question (its place among all, -1 for none)
    and `by` what its price did. Of each question (Q,): `each`, and the periods of its `first` row
    and its `last`, its end, as multiples of a step. `squares` is the sum of the squared profits of
    single moves, `bare` that of questions without a price in between, `by_age` that of the others
    by how many periods the price had stood when the next came, `priced` what is of `squares` where
    there are prices at all; `at_once` was gained before the first mark after each forecast,
    `unsettled` by questions still open; `apart` is the most that any outcome could make of it. All
    are sums over rows times their weights, whose sum is `weight`. `pair`: of two forecasters."""

    on: Periods
    moved: Floats
    cost: Floats
    skew: Floats
    opened: Floats
    most: Floats
    of: Ints
    by: Floats
    each: Floats
    first: Ints
    last: Ints
    by_age: Floats
    pair: bool
    looked: bool = False
    skewed: float = 0.0
    squares: float = 0.0
    bare: float = 0.0
    priced: float = 0.0
    at_once: float = 0.0
    unsettled: float = 0.0
    apart: float = 0.0
    weight: float = 0.0

    @classmethod
    def none(
        cls, on: Periods, first: Ints, last: Ints, pair: bool, looked: bool = False
    ) -> "Gains":
        """Of no position yet; the windows of questions are filled in with the gains."""
        k = len(on.at)
        return cls(
            on=on,
            moved=np.zeros(k),
            cost=np.zeros(k),
            skew=np.zeros(k),
            opened=np.zeros(k),
            most=np.zeros(k),
            of=np.full(k, -1),
            by=np.zeros(k),
            each=np.zeros(len(first)),
            first=first,
            last=last,
            by_age=np.zeros(k + 1),
            pair=pair,
            looked=looked,
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

    def add(self, part: Part, points: Points, ranks: Ranks, contest: Contest) -> None:
        """Take in the positions in a part of the questions."""
        table, (period, begun, age, *_), k = part.table, ranks, len(self.on.at)
        bets = contest.bets(table, part.of, part.rows)
        made = np.isfinite(bets.x)
        if not made.any():
            return
        w = weights(table, part.scheduled, made) * contest.share
        known = made & np.isfinite(bets.c)
        taken, cost = np.where(known, bets.x, 0.0) * w, np.where(known, bets.c, 0.0) * w
        rows = points.row[ranks.rows]
        self.cost += np.bincount(begun[ranks.rows], cost[rows], k)
        starts, of, n = points.starts, points.q[points.starts], len(table.questions)
        step = sums(points.entry, taken[rows], len(starts))[: len(starts)]
        held = _running(step, of)
        squares = held * held
        self._add_moves(part.first, points, period, held, contest.noted)
        each = sums(of, held * points.summed, n) - sums(table.q, cost, n)
        squared = squares * points.squared
        whole, marked = float(squared.sum()), squared
        if not points.marked.all():
            marked = np.where(points.marked[of], squared, 0.0)
        self.by_age[0] += float(marked.sum())
        if len(late := ranks.late):
            found = np.append(squares, 0.0)[points.stretch[late]] * points.move[late] ** 2
            self.by_age += np.bincount(age[late], found, k + 1)
            self.by_age[0] -= float(found.sum())
        self.skewed += float((squares * points.skewed).sum())
        if self.looked:
            m = points.price[starts]
            grown = (squares - (held - step) ** 2) * m * (1 - m)
            self.opened += np.bincount(begun[starts], grown, k)
        self.squares += whole
        self.priced += whole
        self.bare += whole - float(marked.sum())
        self.at_once += float((step * points.move[starts]).sum() - cost.sum())
        self.apart += float((np.abs(taken) + np.abs(cost)).sum())
        if bets.late is not None:
            bare = np.flatnonzero(made & ~known)
            each = each + self._end_unpriced(part, bare, bets.late, w)
        self.each[part.first : part.first + n] = each
        self.unsettled += float(each[~np.isfinite(table.y)].sum())
        self.weight += float(w.sum())

    def _add_moves(
        self, first: int, points: Points, period: Ints, held: Floats, noted: bool
    ) -> None:
        """Take in what each move brought, given what is held over each stretch; `first` is the
        place of the first question of these among all."""
        q, price, move, of = points.q, points.price, points.move, np.append(held, 0.0)
        if 2 * np.count_nonzero(held) < len(held):  # Where nothing is held, nothing is gained.
            some = np.flatnonzero((of != 0)[points.stretch])
            q, price, move, period = q[some], price[some], move[some], period[some]
            mine = of[points.stretch[some]]
        else:
            mine = of[points.stretch]
        won, k = mine * move, len(self.on.at)
        self.moved += np.bincount(period, won, k)
        if self.looked:
            self.skew += np.bincount(period, mine * won * (1 - 2 * price), k)
        if noted:
            self._note(first + q, won, move, period)

    def _note(self, question: Ints, won: Floats, move: Floats, period: Ints) -> None:
        """Keep the question that gained or lost the most in each period."""
        size, most = np.abs(won), self.most.copy()
        np.maximum.at(most, period, size)
        new = np.flatnonzero((size == most[period]) & (size > self.most[period]))
        self.of[period[new]], self.by[period[new]] = question[new], move[new]
        self.most = most

    def _end_unpriced(self, part: Part, rows: Ints, late: Floats, w: Floats) -> Floats:
        """Take in what two forecasters gain on each other where there is no price: all of it is
        gained at the end. Of each question of the part."""
        table, n = part.table, len(part.table.questions)
        rows = rows[np.isfinite(late[rows])]  # An open question has gained nothing yet.
        q, gained = table.q[rows], late[rows] * w[rows]
        found, there = sums(q, gained, n), np.unique(q)
        own = part.first + there
        place = np.searchsorted(self.on.at, self.last[own] * self.on.step)
        self.moved += np.bincount(place, found[there], len(self.on.at))
        self._note(own, found[there], np.zeros(len(there)), place)
        self.squares += float((found * found).sum())
        self.bare += float((found * found).sum())
        self.apart += float((np.abs(late[rows]) * w[rows]).sum())
        return found


def gains(table: Table, contests: Mapping[K, Contest], looked: bool = False) -> dict[K, Gains]:
    """The profit of the positions that each contest takes, period by period; `looked`: for
    `e_values`."""
    on, n = periods(table), len(table.events)
    windows = np.zeros((2, n), dtype=np.int64)
    found = {
        name: Gains.none(on, windows[0], windows[1], contest.pair, looked)
        for name, contest in contests.items()
    }
    for part in parts(table):
        points = points_of(part, on.step, on.last_day)
        ranks = on.ranks(points)
        windows[:, part.first : part.first + len(part.table.questions)] = windows_of(
            part, points, on.step
        )
        for name, contest in contests.items():
            found[name].add(part, points, ranks, contest)
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
