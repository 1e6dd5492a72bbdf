"""What an import brings that an archive does not hold yet. Lines wait in a file without a name, so
that a large import needs no more memory than a small one."""

import hashlib
import os
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from beforehand.clock import to_us
from beforehand.records import world
from beforehand.records.bulk import PriceSeriesRow, decode_series
from beforehand.store.archive.reader import Archive, Series, market_of

IN_MEMORY = 4_000_000
"""Bytes of lines that wait in memory; what comes after them waits in a file."""


class Shelf:
    """Lines that wait, each under the number that `keep` gives it."""

    def __init__(self, folder: Path | None = None) -> None:
        """Without a `folder` all of them stay in memory. The file in it has no name, and is gone
        with the process."""
        self._folder, self._here, self._free = folder, list[bytes](), IN_MEMORY
        self._file: IO[bytes] | None = None
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._here) + len(self._ends) - 1

    def keep(self, line: bytes) -> int:
        """Put a line down."""
        self._free -= len(line)
        if self._folder is None or (self._file is None and self._free >= 0):
            self._here.append(bytes(memoryview(line)))  # As orjson gives it, it holds 4 KB.
        else:
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 (the shelf closes it)
                weakref.finalize(self, self._file.close)
            self._file.write(line)
            self._ends.append(self._ends[-1] + len(line))
        return len(self) - 1

    def size(self, number: int) -> int:
        """The bytes of a line."""
        place = number - len(self._here)
        return self._ends[place + 1] - self._ends[place] if place >= 0 else len(self._here[number])

    def __getitem__(self, number: int) -> bytes:
        if number < len(self._here):
            return self._here[number]
        place = number - len(self._here)
        start, end = self._ends[place], self._ends[place + 1]
        assert self._file is not None
        self._file.flush()
        return os.pread(self._file.fileno(), end - start, start)


class Lines:
    """The lines on a shelf that an import stores, in this order."""

    def __init__(self, shelf: Shelf, order: Sequence[int] | None = None) -> None:
        self._shelf, self._order = shelf, range(len(shelf)) if order is None else order

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[bytes]:
        return (self._shelf[number] for number in self._order)

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return sum(map(self._shelf.size, self._order))

    def by_market(self, kind: str) -> "Lines":
        """In order of the markets' names, and of those of a market as they are."""
        key = lambda number: market_of(kind, self._shelf[number])  # noqa: E731
        return Lines(self._shelf, sorted(self._order, key=key))


class Numbers:
    """A number for each market: of a hundred thousand, the names are kept once."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def __call__(self, market: str) -> int:
        return self.of.setdefault(market, len(self.of))


class Marks:
    """Marks of some bytes each, of every market: most have one, and take no more than it."""

    def __init__(self, size: int) -> None:
        self._size, self._none = size, bytes(size)
        self._first, self._several = bytearray(), dict[int, list[bytes]]()

    def of(self, number: int) -> list[bytes]:
        """Those of a market, sorted."""
        if number in self._several:
            return self._several[number]
        start = self._size * number
        first = bytes(self._first[start : start + self._size])
        return [first] if first and first != self._none else []

    def add(self, number: int, mark: bytes) -> None:
        """Put one to those of a market; none is all zeros."""
        if held := self.of(number):
            self._several[number] = sorted([*held, mark])
            return
        start = self._size * number
        self._first.extend(bytes(max(start + self._size - len(self._first), 0)))
        self._first[start : start + self._size] = mark


_ENTRY = 24
"""Bytes of an ending: since when it is known (microseconds, in an order that bytes have too), and a
digest of what it says."""


class EndingLedger:
    """How markets ended, as it became known: what says again what was known last is not new. A set
    that is published every night says it every night."""

    def __init__(self, archive: Archive | None, numbers: Numbers) -> None:
        self._archive, self._numbers = archive, numbers
        self._known: Marks | None = None

    def add(self, ending: world.Resolution) -> bool:
        """True where it is new."""
        if self._known is None:
            self._known = Marks(_ENTRY)
            for one in self._archive.each(world.Resolution) if self._archive else ():
                self._known.add(self._numbers(one.market_id), _entry(one))
        entry, number = _entry(ending), self._numbers(ending.market_id)
        known = self._known.of(number)
        before = bisect_right(known, entry[:8], key=lambda one: one[:8]) - 1
        if entry in known or (before >= 0 and known[before][8:] == entry[8:]):
            return False
        self._known.add(number, entry)
        return True


class TextLedger:
    """The versions of markets' texts that there are: each is stored once."""

    def __init__(self, archive: Archive | None, numbers: Numbers) -> None:
        self._archive, self._numbers = archive, numbers
        self._known: Marks | None = None

    def add(self, market: str, line: bytes) -> bool:
        """True where this line of it is new."""
        if self._known is None:
            self._known = Marks(MARK)
            for stored in self._archive.lines("market") if self._archive else ():
                self._known.add(self._numbers(market_of("market", stored)), mark_of(stored))
        number, mark = self._numbers(market), mark_of(line)
        if mark in self._known.of(number):
            return False
        self._known.add(number, mark)
        return True


MARK = 16


def mark_of(line: bytes) -> bytes:
    """Tells lines apart: of two million, two are alike once in 10^26."""
    return hashlib.sha256(line).digest()[:MARK]


def _entry(ending: world.Resolution) -> bytes:
    text = ending.model_dump_json(exclude={"market_id", "known_at"})
    since = (to_us(ending.known_at) + 2**63).to_bytes(8, "big")
    return since + hashlib.sha256(text.encode()).digest()[: _ENTRY - 8]


class PointLedger:
    """Price points seen so far, per market, so that only new ones are stored. As with endings, what
    says again what was known last of an instant is not new."""

    def __init__(self, archive: Archive | None, shelf: Shelf, numbers: Numbers) -> None:
        self._old = archive.series() if archive else {}
        self._seen: dict[str, _Points] = {}
        self._new: dict[str, list[tuple[float | None, ...]]] = defaultdict(list)
        self._shelf, self._numbers, self._whole = shelf, numbers, array("q")

    def add(self, p: world.PricePoint) -> bool:
        row = (to_us(p.observed_at), to_us(p.known_at), p.price, p.bid, p.ask, p.volume)
        if is_new := self._points_of(p.market_id).add(row):
            self._new[p.market_id].append(row)
        return is_new

    def add_series(self, row: PriceSeriesRow) -> int:
        """Add a market's whole series; returns how many of its points are new."""
        if not row.price:
            return 0
        name = row.market_id
        alone = name not in self._old and name not in self._seen and self._line_of(name) < 0
        if alone and len({*row.observed_at}) == len(row.price):
            # As it is: there is nothing to compare it with.
            self._whole[self._numbers(name)] = self._shelf.keep(_encode(row))
            return len(row.price)
        return self._add_rows(row)

    def _line_of(self, name: str) -> int:
        """The line on the shelf that is a market's whole series; -1 for none."""
        number = self._numbers(name)
        self._whole.extend([-1] * (number + 1 - len(self._whole)))
        return self._whole[number]

    def _points_of(self, name: str) -> "_Points":
        """The points of a market so far."""
        if name not in self._seen:
            self._seen[name] = _Points(self._old.get(name))
            if (first := self._line_of(name)) >= 0:
                self._whole[self._numbers(name)] = -1
                self._add_rows(decode_series(self._shelf[first]))
        return self._seen[name]

    def _add_rows(self, row: PriceSeriesRow) -> int:
        nothing: list[float | None] = [None] * len(row.price)
        rest = [row.bid or nothing, row.ask or nothing, row.volume or nothing]
        seen, new = self._points_of(row.market_id), self._new[row.market_id]
        before = len(new)
        for one in zip(row.observed_at, row.known_at, row.price, *rest, strict=True):
            if seen.add(one):
                new.append(one)
        return len(new) - before

    def lines(self) -> Lines:
        """What is new, a line a market, in order of their names."""
        for market, rows in self._new.items():
            if not rows:
                continue
            observed, known, price, *rest = (list(column) for column in zip(*rows, strict=True))
            bid, ask, volume = (c if any(v is not None for v in c) else None for c in rest)
            row = PriceSeriesRow(market, observed, known, price, bid, ask, volume)
            self._line_of(market)
            self._whole[self._numbers(market)] = self._shelf.keep(_encode(row))
        named = sorted(name for name, number in self._numbers.of.items() if self._has(number))
        return Lines(self._shelf, [self._whole[self._numbers.of[name]] for name in named])

    def _has(self, number: int) -> bool:
        return number < len(self._whole) and self._whole[number] >= 0


_encode = msgspec.json.Encoder().encode


class _Points:
    """What became known of a market's price: by the instant that it is about, in order of when."""

    def __init__(self, series: Series | None) -> None:
        self._said: dict[int, list[tuple[int, tuple[float | None, ...]]]] = {}
        if series is None:
            return
        columns = [series.observed_at.tolist(), series.known_at.tolist(), series.price.tolist()]
        columns += [
            [None if v != v else v for v in column.tolist()]
            for column in (series.bid, series.ask, series.volume)
        ]
        for observed, known, *values in zip(*columns, strict=True):
            self._said.setdefault(observed, []).append((known, tuple(values)))

    def add(self, row: tuple[Any, ...]) -> bool:
        """True where (observed, known, price, bid, ask, volume) says something new."""
        observed, known, *rest = row
        values, said = tuple(rest), self._said.setdefault(observed, [])
        first, after = (bisect(said, known, key=_since) for bisect in (bisect_left, bisect_right))
        last = said[first:after] or said[max(first - 1, 0) : first]
        if any(one[1] == values for one in last):
            return False
        said.insert(after, (known, values))
        return True


def _since(said: tuple[int, tuple[float | None, ...]]) -> int:
    return said[0]
