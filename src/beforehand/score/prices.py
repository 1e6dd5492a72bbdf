"""The prices on which positions stand: every one on record of a question, in order of time, and the
periods in which they moved.

A run asks no market on the day (UTC) on which it ends. So that there is a forecast at all says that
the market will live to see midnight, and a position counts from then on, when all know it. In a
file whose markets are asked on their last day as on any other, it counts at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US
from beforehand.score.table import BLOCK, Floats, Ints, Marks, Table, in_order

Flags = npt.NDArray[np.bool_]
UNDATED = 253_402_300_799_000_000
"""The end of time, at which all is gained of which it is not on record when: 9999-12-31."""
MINUTE = 60_000_000
STEPS = tuple(MINUTE * n for n in (1, 5, 15, 30, 60, 120, 180, 240, 360, 720, 1440))
"""What a period may be, in microseconds: a minute to a day."""
MOST_DAYS = 2**22
"""More days than there are from 1970 to the end of time."""
COVERED = 0.9
"""The share of the gaps between prices that a period is no shorter than."""


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
class Part:
    """Some questions of a table in full: the table `of` which they are, the place of the first of
    them among all questions, that of their rows, the table of them alone, and their marks."""

    of: Table
    first: int
    rows: slice
    table: Table
    marks: Marks
    scheduled: Floats


def parts(table: Table) -> Iterator[Part]:
    """A table in parts, so that what is made of every price takes the memory of a part; then its
    open questions, which follow the others."""
    before = 0
    for one in (table,) if table.open is None else (table, table.open):
        marks, n = one.marks, len(one.questions)
        if not in_order(marks.q, one.let_go):
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
            yield Part(one, before + first, rows, part, its, scheduled[mine])
        before += n


def periods(table: Table) -> Periods:
    """The periods of a table."""
    return table.once(_periods)


def _periods(table: Table) -> Periods:
    """A step is the finest of `STEPS`, at most a day, that nine of ten gaps
    between successive prices of a question do not exceed; a day where there are none."""
    within, gaps, on_last, before_it = np.zeros(len(STEPS)), 0, 0, 0
    for part in parts(table):
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
    for part in parts(table):
        on = points_of(part, step, last_day=True)
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


def windows_of(part: Part, points: Points, step: int) -> tuple[Ints, Ints]:
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


def points_of(part: Part, step: int, last_day: bool) -> Points:
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
        return sums(stretch, values, len(starts) + 1)[: len(starts)]

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
    for part in parts(table):
        if part.of is table:
            points = points_of(part, DAY_US, last_day=False)
            rows = points.row[points.row >= 0]
            found[part.rows][rows] = np.append(points.price[points.starts], np.nan)[points.entry]
    return found


def _within(t: Ints, step: int) -> Ints:
    """The period of what was seen at t: a moment between two belongs to the first."""
    return np.asarray(-(-t // step) - 1)


def _prices(part: Part) -> tuple[Ints, Ints, Floats, Ints, Ints]:
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
    for part in parts(table):
        points = points_of(part, on.step, on.last_day)
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


def sums(places: Ints, values: Floats, n: int) -> Floats:
    """The sum of the values at each of n places."""
    return np.bincount(places, values, n).astype(np.float64, copy=False)
