"""What is scored: one row per forecast instant of a question, the same rows for every forecaster;
and which questions count as one event.

Markets that share an event id are one event. So are questions that resolve on the same day and
share most of their words (the strikes of one price, the rounds of one contest), near-duplicates
across venues whenever they resolve, and questions that name the same thing in the same three words
("98th Academy Awards"; dates do not count). If venues give event ids, these separate questions that
only read alike, except for near-duplicates. Texts are compared by the Jaccard index of their
content words. The grouping only widens intervals; it never changes a score.
"""

import json
import mmap
import os
import re
import weakref
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from beforehand.ids import number_of
from beforehand.memory import trim

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MARKET = "market"
"""The name of the market's price among the forecasters."""
STALE_DAYS = 7.0
BLOCK = 100_000
"""Rows of a part of a large table (`Table.blocks`)."""
SAME_DAY, ANY_DAY = 0.5, 0.8
ROUNDING = 1e-9
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset("a an and at be before by for from if in is it of on or the to will with".split())
_DATE = frozenset(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec day week month year end".split()
)
NAME_WORDS = 3


@dataclass(frozen=True)
class Marks:
    """Prices of the table's questions besides those of its rows: places of questions, microseconds,
    prices. Open bets are worth these. They lie on the table's disk, if it has one."""

    q: Ints
    t: Ints
    price: Floats

    @classmethod
    def none(cls) -> "Marks":
        """No price."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Placed(NamedTuple):
    """A column for another process: where it lies on the disk, or the one value that it repeats."""

    n: int
    kind: np.dtype[Any]
    start: int | None
    value: Any = None


class Disk:
    """Columns in a file without a name, mapped: what is read of them takes memory until `let_go`,
    so that a large table takes that of a part."""

    def __init__(self, path: str | None = None) -> None:
        """`path` is that of another process's file, to be read (`path`)."""
        self._file = TemporaryFile() if path is None else open(path, "rb")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._maps: list[mmap.mmap] = []
        self._starts: dict[tuple[int, int], int] = {}

    @property
    def path(self) -> str:
        """Where another process of this user finds the file, as long as this one runs: Linux alone
        has such a place."""
        return f"/proc/{os.getpid()}/fd/{self._file.fileno()}"

    def placed(self, column: npt.NDArray[Any]) -> Any:
        """A whole column as `column` takes it; one that is not kept here as it is."""
        start, n = self._starts.get((column.ctypes.data, column.nbytes)), len(column)
        if column.strides == (0,) and n:
            return Placed(n, column.dtype, None, column[0])
        return column if start is None else Placed(n, column.dtype, start)

    def column(self, placed: Any) -> Any:
        """What `placed` was made of."""
        if not isinstance(placed, Placed):
            return placed
        if placed.start is None:
            return np.broadcast_to(placed.value, placed.n)
        return self._mapped(placed.start, placed.n * placed.kind.itemsize, placed.kind)

    def keep(self, parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """A column of these parts, one after the other; all of one kind, the first may be empty.
        Without any part it is one of no whole numbers."""
        start, size, kind = self._file.tell(), 0, np.dtype(np.int64)
        for part in parts:
            kind = part.dtype
            size += self._file.write(np.ascontiguousarray(part).data.cast("B"))
        if not size:
            return np.zeros(0, dtype=kind)
        self._file.write(b"\0" * (-size % mmap.ALLOCATIONGRANULARITY))
        self._file.flush()
        return self._mapped(start, size, kind)

    def _mapped(self, start: int, size: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        mapped = mmap.mmap(self._file.fileno(), size, prot=mmap.PROT_READ, offset=start)
        self._maps.append(mapped)
        found = np.frombuffer(mapped, dtype=kind)
        self._starts[found.ctypes.data, size] = start
        return found

    def room(self, n: int, k: int) -> Floats:
        """k columns of n numbers, to be filled in: nothing else is kept on this disk after them."""
        # Not `truncate`: a full disk would kill the process on writing, and raises OSError here.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file.fileno(), 0, 8 * n * k)
        else:
            for _ in range(k):
                self._file.write(bytes(8 * n))
            self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 8 * n * k)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype=np.float64).reshape(k, n).T

    def let_go(self) -> None:
        """Free the memory of what was read; whoever reads again brings it back."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)


def of_rows(columns: Any, some: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> dict[str, Any]:
    """What a row has beside its question and forecasts, by name: `some` of each column."""
    names = ("t", "market", "price_age", "strict", "evidence", "bid", "ask")
    return {name: some(getattr(columns, name)) for name in names}


def parts_of(n: int) -> Iterator[slice]:
    """Rows of a large table, `BLOCK` at a time."""
    return (slice(k, min(k + BLOCK, n)) for k in range(0, n, BLOCK))


def picked(
    column: npt.NDArray[Any],
    mask: npt.NDArray[np.bool_],
    disk: Disk | None,
    let_go: Callable[[], None] = lambda: None,
) -> npt.NDArray[Any]:
    """The rows of a mask. A column of one value stays one value. `let_go` frees what was read."""
    if column.strides == (0,):
        return np.broadcast_to(column[0], int(mask.sum())) if len(column) else column
    if disk is None:
        return np.asarray(column[mask])

    def parts() -> Iterator[npt.NDArray[Any]]:
        for part in parts_of(len(mask)):
            yield column[part][mask[part]]
            let_go()

    return disk.keep(parts())


def _places(mask: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.int32]]:
    """The rows of a mask, in parts."""
    for part in parts_of(len(mask)):
        yield (np.flatnonzero(mask[part]) + part.start).astype(np.int32)


class Rows(Mapping[str, Floats]):
    """Some rows of columns on a disk, each put on a disk of their own when it is asked for."""

    def __init__(
        self, columns: Mapping[str, Floats], rows: npt.NDArray[np.int32], of: Disk, disk: Disk
    ) -> None:
        """`rows` of columns that are `of` one disk are kept on `disk`."""
        self._columns, self._rows, self._of, self._disk = columns, rows, of, disk
        self._kept = dict[str, Floats]()

    def __getitem__(self, name: str) -> Floats:
        if name not in self._kept:
            self._kept[name] = self._disk.keep(self._parts(self._columns[name]))
        return self._kept[name]

    def _parts(self, column: Floats) -> Iterator[Floats]:
        # By parts of the column: a few rows that lie far apart would bring in all of it.
        for part in parts_of(len(column)):
            ends = np.array((part.start, part.stop), self._rows.dtype)  # Else all are copied.
            here = slice(*np.searchsorted(self._rows, ends).tolist())
            yield column[part][self._rows[here] - part.start]
            self._of.let_go()
            self._disk.let_go()

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@dataclass(frozen=True)
class Table:
    """Columns of equal length n (rows), and per-question columns of length Q.

    Per row: `q` (index of the question), `t` (microseconds), `market` (its price at t),
    `price_age` (days), `strict` (the text shown was stored by t), `evidence` (documents shown),
    `bid`, `ask` (NaN where no book was recorded). Per question: `y` (settled value), `event` and
    `period` (cluster labels 0..), `resolved_at` (microseconds, 0 where unknown), `play` (a venue
    without real money), `fee`, `category` (may be empty), `bare` (without text and event id).
    `forecasts[name]` is (n,), NaN where the forecaster gave none; `asked[name]` is how many
    forecasts it was asked for, where that is not every row. `marks` are prices for open bets.
    """

    questions: list[str]
    q: Ints
    t: Ints
    market: Floats
    price_age: Floats
    strict: npt.NDArray[np.bool_]
    evidence: Ints
    bid: Floats
    ask: Floats
    y: Floats
    event: Ints
    period: Ints
    resolved_at: Ints
    play: npt.NDArray[np.bool_]
    fee: Floats
    forecasts: Mapping[str, Floats] = field(default_factory=dict)
    category: list[str] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    bare: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    marks: Marks = field(default_factory=Marks.none)
    known_at: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """When it was known how each question ended (Q,), 0 where that is not on record; empty where it
    is of none."""
    scheduled: Floats = field(default_factory=lambda: np.zeros(0))
    """How many instants were to be expected of a question at its first row (Q,): NaN where nothing
    said so; empty where that is not known of any."""
    closes: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """When the text that was known at its first row says that each question closes (Q,), 0 where it
    says nothing; empty where that is known of none."""
    open: "Table | None" = None
    """The rows of questions that are still open, with `y` NaN: no score, but positions that stand.
    Their `event` labels are those of this table and more."""
    disk: Disk | None = None
    """Where the columns of rows are, if not in memory."""

    def once(self, made: Callable[["Table"], T]) -> T:
        """What is made of this table, which is made when it is first asked for."""
        found: T | None = self._made.get(made)
        if found is None:
            found = self._made[made] = made(self)
        return found

    @cached_property
    def _made(self) -> dict[Callable[["Table"], Any], Any]:
        return {}

    @cached_property
    def settled_at(self) -> Ints:
        """When each question was settled (Q,): once its ending was known, else as resolved."""
        if not len(self.known_at):
            return self.resolved_at
        return np.where(self.known_at > 0, self.known_at, self.resolved_at)

    @cached_property
    def whole(self) -> "Table":
        """This table, with the questions that are still open after the others, as if they paid
        their last price, at a time that is not on record: bets stand on it."""
        if self.open is None:
            return self
        there, disk = (self, self.open), None if self.disk is None else Disk()
        n = [len(one.q) for one in there]

        def of_both(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
            if disk is None:
                return np.concatenate(columns)
            return disk.keep(one[part] for one in columns for part in parts_of(len(one)))

        def said(name: str) -> Floats:
            columns = [one.forecasts.get(name) for one in there]
            nothing = (np.full(k, np.nan) for k in n)
            filled = zip(columns, nothing, strict=True)
            return of_both([b if a is None else a for a, b in filled])

        first, second = (of_rows(one, lambda column: column) for one in there)
        rows: Any = {name: of_both([column, second[name]]) for name, column in first.items()}
        marks, later = self.marks, self.open.marks
        shift = len(self.questions)
        return replace(
            self,
            questions=[*self.questions, *self.open.questions],
            q=of_both([self.q, self.open.q + shift]),
            **rows,
            y=np.concatenate([self.y, self.open.last_prices]),
            event=self.events,
            period=np.concatenate([self.period, self.open.period]),
            resolved_at=np.concatenate([self.resolved_at, np.zeros_like(self.open.resolved_at)]),
            known_at=np.zeros(0, dtype=np.int64)
            if not len(self.known_at)
            else np.concatenate([self.known_at, np.zeros_like(self.open.resolved_at)]),
            play=np.concatenate([self.play, self.open.play]),
            fee=np.concatenate([self.fee, self.open.fee]),
            category=[*self.category, *self.open.category],
            bare=np.concatenate([self.bare, self.open.bare]),
            forecasts={name: said(name) for name in self.forecasts},
            marks=Marks(
                of_both([marks.q, later.q + shift]),
                of_both([marks.t, later.t]),
                of_both([marks.price, later.price]),
            ),
            scheduled=np.zeros(0),
            closes=np.zeros(0, dtype=np.int64),
            open=None,
            disk=disk,
        )

    @property
    def last_prices(self) -> Floats:
        """The last price of each question (Q,), NaN where it has none."""
        q, t = np.concatenate([self.q, self.marks.q]), np.concatenate([self.t, self.marks.t])
        price = np.concatenate([self.market, self.marks.price])
        order = np.lexsort((t, q))
        order = order[np.isfinite(price[order])]
        found = np.full(len(self.questions), np.nan)
        found[q[order]] = price[order]  # Of several, the last one stays.
        return found

    @property
    def events(self) -> Ints:
        """The labels of the events of all questions, those that are open last."""
        return self.event if self.open is None else np.concatenate([self.event, self.open.event])

    def name(self, place: int) -> str:
        """The question at a place among all, those that are open last."""
        n = len(self.questions)
        return self.questions[place] if place < n or not self.open else self.open.name(place - n)

    def __getstate__(self) -> dict[str, Any]:
        """What another process is told: where the columns lie on the disk, and not what they
        hold."""
        disk, told = self.disk, dict(vars(self))  # Another thread may add what it has cached.
        told.pop("whole", None)
        if disk is None:
            return told
        of_rows = {name: disk.placed(p) for name, p in self.forecasts.items()}
        columns = (name for name, one in told.items() if isinstance(one, np.ndarray))
        placed = {name: disk.placed(told[name]) for name in columns}
        placed["marks"] = Marks(*(disk.placed(one) for one in vars(self.marks).values()))
        names = orjson.dumps(self.questions)  # One by one they would take ten times the memory.
        return {**told, **placed, "questions": names, "forecasts": of_rows, "disk": disk.path}

    def __setstate__(self, told: dict[str, Any]) -> None:
        vars(self).update(told)
        if told["disk"] is not None:
            disk = Disk(told["disk"])
            forecasts = {name: disk.column(p) for name, p in told["forecasts"].items()}
            here = {name: disk.column(one) for name, one in told.items()}
            here["marks"] = Marks(*(disk.column(one) for one in vars(told["marks"]).values()))
            names = orjson.loads(told["questions"])
            vars(self).update({**here, "questions": names, "forecasts": forecasts, "disk": disk})

    def missing(self, name: str, p: Floats) -> int:
        """How many of the forecasts asked for the forecaster `name` did not make."""
        made = 0
        for part in parts_of(len(p)):
            made += int(np.isfinite(p[part]).sum())
            self.let_go()
        return self.asked.get(name, len(self.q)) - made

    @property
    def fresh(self) -> npt.NDArray[np.bool_]:
        """Rows whose price is at most a week old."""
        found = np.empty(len(self.price_age), dtype=np.bool_)
        for part in parts_of(len(found)):
            found[part] = self.price_age[part] <= STALE_DAYS
            self.let_go()
        return found

    def said(self, name: str) -> Floats:
        """The forecasts of a forecaster, or the market's prices."""
        return self.market if name == MARKET else self.forecasts[name]

    def part(self, mask: npt.NDArray[np.bool_]) -> "Table":
        """`where`, and the table itself where the mask has every row: nothing is copied."""
        return self if mask.all() else self.where(mask)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Table":
        """The rows of a mask, with the questions that still have one, relabelled from 0."""
        disk = None if self.disk is None else Disk()
        kept, place = ranks(self.q, len(self.questions), mask, self.let_go)

        def q() -> Iterator[Ints]:
            for part in parts_of(len(mask)):
                yield place[self.q[part][mask[part]]]
                self.let_go()

        def some(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return picked(column, mask, disk, self.let_go)

        return Table(
            questions=[self.questions[i] for i in kept],
            q=place[self.q[mask]] if disk is None else disk.keep(q()),
            **of_rows(self, some),
            y=self.y[kept],
            event=relabel(self.event[kept]),
            period=relabel(self.period[kept]),
            resolved_at=self.resolved_at[kept],
            play=self.play[kept],
            fee=self.fee[kept],
            category=[self.category[i] for i in kept] if self.category else [],
            bare=self.bare[kept] if len(self.bare) else self.bare,
            scheduled=self.scheduled[kept] if len(self.scheduled) else self.scheduled,
            closes=self.closes[kept] if len(self.closes) else self.closes,
            known_at=self.known_at[kept] if len(self.known_at) else self.known_at,
            forecasts={name: p[mask] for name, p in self.forecasts.items()}
            if self.disk is None or disk is None
            else Rows(self.forecasts, disk.keep(_places(mask)), self.disk, disk),
            disk=disk,
        )

    def known(self, p: Floats) -> npt.NDArray[np.bool_]:
        """The rows in which a column has a number."""
        found = np.empty(len(p), dtype=np.bool_)
        for part in parts_of(len(p)):
            np.isfinite(p[part], out=found[part])
            self.let_go()
        return found

    def let_go(self) -> None:
        """Free the memory of what was read from a disk."""
        if self.disk is not None:
            self.disk.let_go()

    def give_back(self) -> None:
        """The same, and what was made of it and is freed already; nothing for one in memory."""
        if self.disk is not None:
            self.disk.let_go()
            trim()

    def blocks(self, most: int | None = None) -> Iterator[tuple[slice, "Table"]]:
        """The table in parts of whole questions, without forecasts, each with its place among the
        rows (about `most` of them, else `BLOCK`); of a small one, or one that is not in order of
        questions, all at once. What is made of every row then takes the memory of a part."""
        n, most = len(self.q), BLOCK if most is None else most
        if n <= most or not self._in_order:
            yield slice(0, n), self
            self.let_go()
            return
        begin = 0
        while begin < n:
            last = self.q[min(begin + most, n) - 1]
            end = int(np.searchsorted(self.q, last, side="right"))
            first, rows = self.q[begin], slice(begin, end)
            mine = slice(int(first), int(last) + 1)
            yield (
                rows,
                Table(
                    questions=self.questions[mine],
                    q=self.q[rows] - first,
                    **of_rows(self, itemgetter(rows)),
                    y=self.y[mine],
                    event=self.event[mine],
                    period=self.period[mine],
                    resolved_at=self.resolved_at[mine],
                    known_at=self.known_at[mine] if len(self.known_at) else self.known_at,
                    play=self.play[mine],
                    fee=self.fee[mine],
                ),
            )
            self.let_go()
            begin = end

    @cached_property
    def _in_order(self) -> bool:
        """Whether the rows are in order of questions."""
        return in_order(self.q, self.let_go)

    def question_means(self, rows: Floats, valid: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """(mean over a question's valid rows, 1.0 where it has any), both of shape (Q,)."""
        q, rows = (self.q, rows) if valid.all() else (self.q[valid], rows[valid])
        counts = np.bincount(q, minlength=len(self.questions))
        sums = np.bincount(q, weights=rows, minlength=len(self.questions))
        present = (counts > 0).astype(np.float64)
        return sums / np.maximum(counts, 1), present

    def row_weights(self, valid: npt.NDArray[np.bool_]) -> Floats:
        """Weights that give each question one vote over its valid rows; (n,), 0 elsewhere."""
        counts = np.bincount(self.q[valid], minlength=len(self.questions))
        weights = 1.0 / np.maximum(counts, 1)[self.q]
        return np.where(valid, weights, 0.0)


def in_order(places: npt.NDArray[Any], let_go: Callable[[], None] = lambda: None) -> bool:
    """Whether no place is lower than the one before; `let_go` frees what was read."""
    for part in parts_of(len(places)):
        if (np.diff(places[max(part.start - 1, 0) : part.stop]) < 0).any():
            return False
        let_go()
    return True


def ranks(
    places: npt.NDArray[Any],
    n: int,
    mask: npt.NDArray[np.bool_] | None = None,
    let_go: Callable[[], None] = lambda: None,
) -> tuple[npt.NDArray[np.intp], Ints]:
    """Which of `n` places occur (in the rows of a mask), and the rank of each among them: as
    `numpy.unique` has them, without sorting. `let_go` frees what was read."""
    counts = np.zeros(n, dtype=np.int64)
    for part in parts_of(len(places)):
        counts += np.bincount(places[part] if mask is None else places[part][mask[part]], None, n)
        let_go()
    there = counts > 0
    return np.flatnonzero(there), np.cumsum(there, dtype=np.int64) - 1


def relabel(labels: npt.NDArray[np.int64]) -> Ints:
    """The same grouping with labels 0..C-1."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


class Spool:
    """Texts in a file without a name, read one after the other: a hundred thousand of them take
    20 MB of memory, and are needed once."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 (it is closed with this)
        weakref.finalize(self, self._file.close)
        self._n = 0

    def append(self, text: str | None) -> None:
        """Put a text at the end."""
        self._file.write(json.dumps(text).encode() + b"\n")
        self._n += 1

    def __iter__(self) -> Iterator[str | None]:
        self._file.seek(0)
        return map(json.loads, self._file)

    def __len__(self) -> int:
        return self._n


def event_labels(
    texts: Sequence[str | None] | Spool, days: Sequence[str | None], events: Sequence[str | None]
) -> Ints:
    """Cluster labels 0.. for each question, from its text, resolution day and event id."""
    parent = array("q", range(len(texts)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def join(i: int, j: int) -> None:
        parent[max(root(i), root(j))] = min(root(i), root(j))

    first: dict[str, int] = {}
    for i, event in enumerate(events):
        if event is not None:
            join(i, first.setdefault(event, i))
    for i, text in enumerate(texts):
        for name in _names(text or "") if events[i] is None else ():
            join(i, first.setdefault(name, i))
    del first
    bags = _Bags.of(texts)
    for bound, groups in ((ANY_DAY, np.zeros(len(texts), np.int64)), (SAME_DAY, _numbered(days))):
        for i, j in _alike(bags, groups, bound, lambda i, j: root(i) == root(j)):
            if bound == ANY_DAY or events[i] is None or events[j] is None:
                join(i, j)
    roots = np.fromiter(map(root, range(len(texts))), np.int64, len(texts))
    return np.unique(roots, return_inverse=True)[1].astype(np.int64)


def _names(text: str) -> set[str]:
    """Runs of content words without a date among them, `NAME_WORDS` long."""
    kept = [w for w in _WORD.findall(text.lower()) if w not in _STOP]
    runs = (kept[i : i + NAME_WORDS] for i in range(len(kept) - NAME_WORDS + 1))
    return {" ".join(run) for run in runs if not any(w.isdigit() or w in _DATE for w in run)}


def _numbered(names: Sequence[str | None]) -> Ints:
    """A number for each name, the same for equal ones; -1 for None."""
    known: dict[str, int] = {}
    found = (-1 if name is None else known.setdefault(name, len(known)) for name in names)
    return np.fromiter(found, np.int64, len(names))


@dataclass(frozen=True)
class _Bags:
    """The content words of all texts, one after the other: those of text i are `words[ends[i] :
    ends[i + 1]]` as numbers, the rarest first. Words below `once` occur in one text alone."""

    words: npt.NDArray[np.int32]
    ends: Ints
    once: int

    @classmethod
    def of(cls, texts: Sequence[str | None] | Spool) -> "_Bags":
        """The words of these texts."""
        found, ends = array("q"), array("q", [0])
        for text in texts:
            found.extend(map(number_of, {*_WORD.findall((text or "").lower())} - _STOP))
            ends.append(len(found))
        hashes = np.frombuffer(found, np.int64) if found else np.zeros(0, np.int64)
        known = np.unique(hashes)
        place = np.searchsorted(known, hashes).astype(np.int32)
        rarity = np.bincount(place, minlength=len(known))
        number = np.empty(len(known), dtype=np.int32)
        number[np.argsort(rarity, kind="stable")] = np.arange(len(known))
        words, size = number[place], np.diff(ends)
        del hashes, found, known, place
        of = np.repeat(np.arange(len(texts), dtype=np.int32), size)
        return cls(words[np.lexsort((words, of))], np.array(ends), int((rarity == 1).sum()))

    def __getitem__(self, i: int) -> list[int]:
        found: list[int] = self.words[self.ends[i] : self.ends[i + 1]].tolist()
        return found


def _alike(
    bags: _Bags, groups: Ints, bound: float, known: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """Pairs of one group (-1 is of no group) whose Jaccard index is at least `bound`, but those
    `known` to belong together. They are found by their rarest words: of two such sets each has one
    of the other's among its first `|bag| - ceil(bound * |bag|) + 1` (prefix filtering: Chaudhuri,
    Ganti and Kaushik 2006), and behind the first that they share, enough words are left in both
    (positional filtering: Xiao, Wang, Lin and Yu 2008)."""
    sizes = np.diff(bags.ends)
    prefix = sizes - np.ceil(bound * sizes - ROUNDING).astype(np.int64) + 1
    of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    places = (np.arange(len(of)) - bags.ends[of]).astype(np.int32)
    rows = np.flatnonzero((places < prefix[of]) & (bags.words >= bags.once) & (groups[of] >= 0))
    of, places, words = of[rows], places[rows], bags.words[rows]
    # A word that is in the prefix of no other text of its group finds nothing.
    _, keys, many = np.unique(
        groups[of] * (int(words.max(initial=0)) + 1) + words,
        return_inverse=True,
        return_counts=True,
    )
    several = many[keys] > 1
    of, places, keys = of[several], places[several], keys[several]
    bounds = np.flatnonzero(np.diff(of, prepend=-1)).tolist()
    holders: dict[int, dict[tuple[int, int], list[int]]] = defaultdict(dict)
    for start, end in pairwise([*bounds, len(of)]):
        i, n, found = int(of[start]), int(sizes[of[start]]), dict[int, None]()
        mine = [
            (k, holders[key])
            for k, key in zip(places[start:end].tolist(), keys[start:end].tolist(), strict=True)
        ]
        for k, held in mine:
            for (m, place), those in held.items():
                needed = bound / (1 + bound) * (n + m) - ROUNDING
                if min(n, m) >= bound * max(n, m) - ROUNDING and min(n - k, m - place) >= needed:
                    found.update(dict.fromkeys(those))
        bag = {*bags[i]} if found else set[int]()
        for j in found:
            other = [] if known(i, j) else bags[j]
            shared = len(bag.intersection(other))
            if shared and shared / (n + len(other) - shared) >= bound:
                yield i, j
        for k, held in mine:
            held.setdefault((n, k), []).append(i)
