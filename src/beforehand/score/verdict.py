"""When one may say "beats the market": the profit of a position, marked at every price on record.

Every proper score's gain over a price m is `x (y - m) - c`, with x and c known when the forecast is
made: for the Brier score x = 2 (p - m) and c = (p - m)^2. If prices are efficient, that profit is a
martingale, whatever the markets have to do with each other, as long as positions are weighed by
what is known when they are taken, marks are fresh, and every position is kept until its end. So the
gains of periods (a day, or what is finer) show how far their sum may lie from its mean by chance.
What one sample need not show is covered by other variances, and the widest of them decides: that of
events, that which the prices implied, that of late marks, that of windows that overlap where there
were no prices in between.

A run asks no market on the day (UTC) on which it ends. So that there is a forecast at all says that
the market will live to see midnight, and a position counts from then on, when all know it. In a
file whose markets are asked on their last day as on any other, it counts at once.
docs/metrics.md has the derivation and the sources.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US
from beforehand.score.intervals import t_quantile
from beforehand.score.table import (
    BLOCK,
    MARKET,
    STALE_DAYS,
    Floats,
    Ints,
    Marks,
    Table,
    in_order,
)

Flags = npt.NDArray[np.bool_]
K = TypeVar("K")
"""What a contest is called."""


TAIL = 0.025
UNDATED = 253_402_300_799_000_000
"""The end of time, at which all is gained of which it is not on record when: 9999-12-31."""
LEAST_PERIODS = 5.0
"""The effective periods, or windows, without which nothing is shown."""
MOST_UNSETTLED = 0.5
"""The share of a gain that may rest on questions that are still open."""
PRINTED = 0.00005
"""What a table prints as 0.0000: no verdict rests on so little."""
MINUTE = 60_000_000
STEPS = tuple(MINUTE * n for n in (1, 5, 15, 30, 60, 120, 180, 240, 360, 720, 1440))
"""What a period may be, in microseconds: a minute to a day."""
MOST_DAYS = 2**22
"""More days than there are from 1970 to the end of time."""
COVERED = 0.9
"""The share of the gaps between prices that a period is no shorter than."""
LATE = 0.2
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
POWER_Z = 0.8416212335729143
"""The normal quantile of a power of 80 %."""
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - TAIL)


@dataclass(frozen=True)
class Periods:
    """The periods of a table, in which anything was forecast or seen: `at` (K,) is when each
    begins, and `step` how long it is, in microseconds. `last_day`: markets are asked on the day on
    which they end as on any other."""

    at: Ints
    step: int
    last_day: bool

    @property
    def shown(self) -> Ints:
        """`at`, with the end of time after the last period that has a date."""
        found = self.at.copy()
        if len(found) > 1 and found[-1] == UNDATED // self.step * self.step:
            found[-1] = found[-2] + self.step
        return found

    def ranks(self, points: "Points") -> "Ranks":
        """The places of points among these periods."""

        def place(period: Ints, side: Literal["left", "right"] = "left") -> Ints:
            return np.searchsorted(self.at, period * self.step, side)

        period = place(points.period)
        age = np.maximum(period - place(points.since, "right"), 0)
        late = np.flatnonzero((age > 0) & points.marked[points.q])
        return Ranks(period, place(points.begun), age, late, np.flatnonzero(points.row >= 0))


class Ranks(NamedTuple):
    """Where points lie among the periods: that of the move, that of the point, for how many of
    them its price had stood when the next one came; which points (of questions with a price in
    between) waited for any, and which are rows."""

    period: Ints
    begun: Ints
    age: Ints
    late: Ints
    rows: Ints


@dataclass(frozen=True)
class Points:
    """Prices in order of question and time: those of rows, and marks.

    `q` (n,) is the question, `row` the row or -1, `price` the price; `move` is the next price less
    this one: at the last point the payout less it, and 0 where the question is open. `period` is
    that of the move, `begun` that of the point, `since` the one in which its price was seen, all as
    multiples of a step. A position is held from one of the points of `starts` (E,) to the next, or
    to the end of its question: `stretch` (n,) is the place among them of each point, and `entry`
    that from which on the position of each row counts, in the order of the rows among the points;
    E for none. Of each stretch (E,), the sums of its moves (`summed`), of their squares (`squared`)
    and of (1 - 2 price) times the move (`skewed`). `marked` (Q,) is whether the question has a
    price between its first row and its end.
    """

    q: Ints
    row: Ints
    starts: Ints
    stretch: Ints
    entry: Ints
    summed: Floats
    squared: Floats
    skewed: Floats
    price: Floats
    move: Floats
    period: Ints
    begun: Ints
    since: Ints
    marked: Flags


@dataclass(frozen=True)
class _Part:
    """Some questions of a table in full: the table `of` which they are, the place of the first of
    them among all questions, that of their rows, the table of them alone, and their marks."""

    of: Table
    first: int
    rows: slice
    table: Table
    marks: Marks
    scheduled: Floats


def _parts(table: Table) -> Iterator[_Part]:
    """A table in parts, so that what is made of every price takes the memory of a part; then its
    open questions, which follow the others."""
    before = 0
    for one in (table,) if table.open is None else (table, table.open):
        marks, n = one.marks, len(one.questions)
        if not in_order(marks.q):
            order = np.argsort(marks.q, kind="stable")
            marks = Marks(marks.q[order], marks.t[order], marks.price[order])
        scheduled = one.scheduled if len(one.scheduled) else np.full(n, np.nan)
        # About as many prices a part as other parts have rows.
        most = BLOCK * len(one.q) // max(len(one.q) + len(marks.q), 1)
        for rows, part in one.blocks(max(most, 1)):
            first = int(one.q[rows.start] - part.q[0]) if len(part.q) else 0
            mine = slice(first, first + len(part.questions))
            here = slice(*np.searchsorted(marks.q, [mine.start, mine.stop]).tolist())
            its = Marks(marks.q[here] - first, marks.t[here], marks.price[here])
            yield _Part(one, before + first, rows, part, its, scheduled[mine])
        before += n


def periods(table: Table) -> Periods:
    """The periods of a table. A step is the finest of `STEPS`, at most a day, that nine of ten gaps
    between successive prices of a question do not exceed; a day where there are none."""
    within, gaps, on_last, before_it = np.zeros(len(STEPS)), 0, 0, 0
    for part in _parts(table):
        q, t, *_ = _prices(part)
        apart = np.diff(t)[np.diff(q) == 0]
        apart = apart[apart > 0]
        within += [(apart <= step).sum() for step in STEPS]
        gaps += len(apart)
        left = _days_left(part.table)
        on_last, before_it = on_last + int((left <= 0).sum()), before_it + int((left == 1).sum())
    enough = within >= COVERED * gaps
    step = STEPS[int(np.argmax(enough))] if gaps and enough.any() else STEPS[-1]
    seen = [np.zeros(0, dtype=np.int64)]
    for part in _parts(table):
        on = _points(part, step, last_day=True)
        seen.append(np.unique(np.concatenate([on.begun, on.period])))
        bare = np.flatnonzero(~np.isfinite(part.table.market))
        if len(bare):
            seen.extend(map(np.unique, _window(part.table, bare, step)))
    # About as many rows of last days as of the days before: nothing follows from being asked.
    last_day = on_last > 0 and 4 * on_last >= 3 * before_it
    return Periods(np.unique(np.concatenate(seen)) * step, step, last_day)


def _days_left(table: Table) -> Ints:
    """How many days (UTC) after each priced row its question ended, of those of which it is on
    record when."""
    ended = table.settled_at[table.q]
    dated = np.isfinite(table.market) & np.isfinite(table.y[table.q]) & (ended > 0)
    return np.asarray(_within(ended, DAY_US)[dated] - table.t[dated] // DAY_US)


def _window(table: Table, rows: Ints, step: int) -> tuple[Ints, Ints]:
    """The periods in which rows without a price begin, and in which their questions end."""
    begun = table.t[rows] // step
    return begun, np.maximum(_ends(table, step)[table.q[rows]], begun)


def _ends(table: Table, step: int) -> Ints:
    """The period in which each question ended: without a date, after all others, together with all
    that have none; that of an open one is of no account."""
    ended = table.settled_at
    return np.where(ended > 0, _within(ended, step), UNDATED // step)


def _windows(part: _Part, points: Points, step: int) -> tuple[Ints, Ints]:
    """The periods in which each question of a part is first forecast, and in which it ends."""
    n = len(part.table.questions)
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(first, points.q, points.begun)
    np.maximum.at(last, points.q, points.period)
    bare = np.flatnonzero(~np.isfinite(part.table.market))
    if len(bare):
        begun, ended = _window(part.table, bare, step)
        np.minimum.at(first, part.table.q[bare], begun)
        np.maximum.at(last, part.table.q[bare], ended)
    return first, last


def _points(part: _Part, step: int, last_day: bool) -> Points:
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
    y = part.table.y[q]
    paid = np.where(np.isfinite(y), y, price)
    stops = np.where(np.isfinite(y), _ends(part.table, step)[q], begun + 1)
    starts, ends = np.flatnonzero(np.diff(q, prepend=-1)), np.flatnonzero(last)
    marked = np.zeros(len(part.table.questions), dtype=np.bool_)
    marked[q[ends]] = t[ends] > t[starts]
    on = np.flatnonzero(row >= 0) if last_day else _entries(part.table, q, t, row)
    starts = np.unique(on[on < len(q)])
    stretch = np.searchsorted(starts, np.arange(len(q)), "right") - 1
    apart = stretch < 0
    apart |= q != np.append(q[starts], -1)[stretch]
    stretch[apart] = len(starts)
    move = np.where(last, paid, np.append(price[1:], np.nan)) - price

    def over(values: Floats) -> Floats:
        return _sums(stretch, values, len(starts) + 1)[: len(starts)]

    return Points(
        q=q,
        row=row,
        starts=starts,
        stretch=stretch,
        entry=np.where(on < len(q), np.searchsorted(starts, on), len(starts)),
        summed=over(move),
        squared=over(move * move),
        skewed=over((1 - 2 * price) * move),
        price=price,
        move=move,
        period=np.maximum(np.where(last, stops, np.append(since[1:], 0)), begun),
        begun=begun,
        since=since,
        marked=marked,
    )


def _entries(table: Table, q: Ints, t: Ints, row: Ints) -> Ints:
    """For each point of a row, the point on which its position begins to count: the last one by
    the midnight (UTC) after it; none (the number of all) if its question has ended by then."""
    mine = np.flatnonzero(row >= 0)
    today = t[mine] // DAY_US
    found = np.searchsorted(
        q * MOST_DAYS + _within(t, DAY_US), q[mine] * MOST_DAYS + today, "right"
    )
    ended = table.settled_at[q[mine]]
    over = (ended > 0) & np.isfinite(table.y[q[mine]]) & (_within(ended, DAY_US) <= today)
    return np.where(over, len(q), found - 1)


def counted_prices(table: Table) -> Floats:
    """The price (n,) from which on a position in each row counts: that of the next midnight (UTC),
    NaN where the question has ended by then or the row has no price; that of the row itself where
    markets are asked on their last day as on any other. Open questions are not among these."""
    if periods(table).last_day:
        return table.market
    found = np.full(len(table.q), np.nan)
    for part in _parts(table):
        if part.of is table:
            points = _points(part, DAY_US, last_day=False)
            rows = points.row[points.row >= 0]
            found[part.rows][rows] = np.append(points.price[points.starts], np.nan)[points.entry]
    return found


def _within(t: Ints, step: int) -> Ints:
    """The period of what was seen at t: a moment between two belongs to the first."""
    return np.asarray(-(-t // step) - 1)


def _prices(part: _Part) -> tuple[Ints, Ints, Floats, Ints, Ints]:
    """Question, time, price, row (-1 for a mark) and when it was seen, of all prices from a
    question's first row to its end, in order; of one instant, a mark comes before the row."""
    table, marks = part.table, part.marks
    rows = np.flatnonzero(np.isfinite(table.market))
    at = table.t[rows]
    first = np.full(len(table.questions), np.iinfo(np.int64).max)
    np.minimum.at(first, table.q[rows], at)
    ended = table.settled_at[marks.q]
    kept = np.flatnonzero((marks.t > first[marks.q]) & ((ended == 0) | (marks.t < ended)))
    old = np.nan_to_num(table.price_age[rows] * DAY_US).astype(np.int64)
    q = np.concatenate([marks.q[kept], table.q[rows]])
    t = np.concatenate([marks.t[kept], at])
    price = np.concatenate([marks.price[kept], table.market[rows]])
    row = np.concatenate([np.full(len(kept), -1), rows])
    seen = np.concatenate([marks.t[kept], at - old])
    # Marks and rows are in order each: a stable sort by one key merges the two.
    after = t - first[q]
    longest = int(after.max(initial=0)) + 1
    whole = len(table.questions) * longest < 2**62
    order = np.argsort(q * longest + after, kind="stable") if whole else np.lexsort((t, q))
    return q[order], t[order], price[order], row[order], seen[order]


class Moves(NamedTuple):
    """Every move of a price, in order of question and time: the question (its place among all), the
    price before, the move, the periods (among those of the table) of the price and of the move,
    how long the move took in steps, and whether the question ended with it."""

    q: Ints
    price: Floats
    move: Floats
    begun: Ints
    ends: Ints
    length: Ints
    ended: Flags


def moves(table: Table, chosen: Flags, on: Periods) -> Moves:
    """The moves of the prices of `chosen` questions (of all, open ones last) from the first row of
    each on; what an open one will do is none."""
    found = list[Moves]()
    for part in _parts(table):
        points = _points(part, on.step, on.last_day)
        last = np.ones(len(points.q), dtype=np.bool_)
        last[:-1] = points.q[1:] != points.q[:-1]
        kept = ~last | np.isfinite(part.table.y[points.q])
        kept &= chosen[part.first + points.q]
        length = np.maximum(points.period - points.begun + (points.row >= 0), 1)
        found.append(
            Moves(
                q=part.first + points.q[kept],
                price=points.price[kept],
                move=points.move[kept],
                begun=points.begun[kept],
                ends=points.period[kept],
                length=length[kept],
                ended=last[kept],
            )
        )
    return Moves._make(np.concatenate(columns) for columns in zip(*found, strict=True))


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

    def add(self, part: _Part, points: Points, ranks: Ranks, contest: Contest) -> None:
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
        step = _sums(points.entry, taken[rows], len(starts))[: len(starts)]
        held = _running(step, of)
        squares = held * held
        self._add_moves(part.first, points, period, held, contest.noted)
        each = _sums(of, held * points.summed, n) - _sums(table.q, cost, n)
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

    def _end_unpriced(self, part: _Part, rows: Ints, late: Floats, w: Floats) -> Floats:
        """Take in what two forecasters gain on each other where there is no price: all of it is
        gained at the end. Of each question of the part."""
        table, n = part.table, len(part.table.questions)
        rows = rows[np.isfinite(late[rows])]  # An open question has gained nothing yet.
        q, gained = table.q[rows], late[rows] * w[rows]
        found, there = _sums(q, gained, n), np.unique(q)
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
    for part in _parts(table):
        points = _points(part, on.step, on.last_day)
        ranks = on.ranks(points)
        windows[:, part.first : part.first + len(part.table.questions)] = _windows(
            part, points, on.step
        )
        for name, contest in contests.items():
            found[name].add(part, points, ranks, contest)
    for one in found.values():
        np.maximum(one.opened, 0.0, out=one.opened)
    return found


def _sums(places: Ints, values: Floats, n: int) -> Floats:
    """The sum of the values at each of n places."""
    return np.bincount(places, values, n).astype(np.float64, copy=False)


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
    events = _sums(table.events, found.each, 1)
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
