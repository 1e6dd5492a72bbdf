"""What an import brings that an archive does not hold yet. Lines wait in a file without a name, so
that a large import needs no more memory than a small one."""

import hashlib
import os
import weakref
from array import array
from bisect import bisect_left, bisect_right, insort
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
        key = {number: market_of(kind, self._shelf[number]) for number in self._order}
        return Lines(self._shelf, sorted(self._order, key=key.__getitem__))


class Endings:
    """How markets ended, as it became known: what says again what was known last is not new. A set
    that is published every night says it every night."""

    def __init__(self, archive: Archive | None) -> None:
        self._archive = archive
        self._known: dict[str, list[tuple[int, bytes]]] | None = None

    def add(self, ending: world.Resolution) -> bool:
        """True where it is new."""
        if self._known is None:
            self._known = defaultdict(list)
            for one in self._archive.records(world.Resolution) if self._archive else ():
                insort(self._known[one.market_id], _said(one))
        known, said = self._known[ending.market_id], _said(ending)
        before = bisect_right(known, said[0], key=lambda one: one[0]) - 1
        if before >= 0 and known[before][1] == said[1]:
            return False
        insort(known, said)
        return True


def _said(ending: world.Resolution) -> tuple[int, bytes]:
    """Since when an ending is known (in microseconds), and a digest of what it says."""
    text = ending.model_dump_json(exclude={"market_id", "known_at"})
    return to_us(ending.known_at), hashlib.sha256(text.encode()).digest()[:16]


class PointLedger:
    """Price points seen so far, per market, so that only new ones are stored. As with endings, what
    says again what was known last of an instant is not new."""

    def __init__(self, archive: Archive | None, shelf: Shelf) -> None:
        self._old = archive.series() if archive else {}
        self._seen: dict[str, _Points] = {}
        self._new: dict[str, list[tuple[float | None, ...]]] = defaultdict(list)
        self._shelf, self._whole = shelf, dict[str, int]()

    def add(self, p: world.PricePoint) -> bool:
        row = (to_us(p.observed_at), to_us(p.known_at), p.price, p.bid, p.ask, p.volume)
        if is_new := self._points_of(p.market_id).add(row):
            self._new[p.market_id].append(row)
        return is_new

    def add_series(self, row: PriceSeriesRow) -> int:
        """Add a market's whole series; returns how many of its points are new."""
        name = row.market_id
        alone = name not in self._old and name not in self._seen and name not in self._whole
        if alone and len({*row.observed_at}) == len(row.price):
            # As it is: there is nothing to compare it with.
            self._whole[name] = self._shelf.keep(_encode(row))
            return len(row.price)
        return self._add_rows(row)

    def _points_of(self, name: str) -> "_Points":
        """The points of a market so far."""
        if name not in self._seen:
            self._seen[name] = _Points(self._old.get(name))
            if (first := self._whole.pop(name, None)) is not None:
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
            self._whole[market] = self._shelf.keep(_encode(row))
        return Lines(self._shelf, [self._whole[market] for market in sorted(self._whole)])


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
