"""Single markets of a large archive, without loading all of them.

An import that was cut by market keeps neighbours by name in one segment of a megabyte. A segment is
read whole, and the last few stay in memory: who asks about one market reads its segments, and who
goes through all of them by name reads each segment once, in the memory of a few.
"""

import threading
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, TypeVar

from beforehand.records.bulk import decode_series
from beforehand.store.archive.manifest import Segment
from beforehand.store.archive.reader import (
    KIND_OF,
    Archive,
    R,
    Series,
    checked,
    market_of,
)

T = TypeVar("T")
HELD = 4
"""Cut segments of a kind that stay in memory."""
PASSES = 3
"""Who reads each segment more often than this goes here and there, and not through them."""


class _Places:
    """The segments of a kind: import by import, those of each in order of the markets' names."""

    def __init__(self) -> None:
        self._imports: dict[str, list[Segment]] = {}

    def add(self, segment: Segment) -> None:
        self._imports.setdefault(segment["import"], []).append(segment)

    def of(self, market_id: str) -> Iterator[Segment]:
        """Those that may hold a market: of hundreds, one or two are looked at."""
        for segments in self._imports.values():
            if "markets" not in segments[0]:
                yield from segments
                continue
            k = bisect_left(segments, market_id, key=_last)
            while k < len(segments) and segments[k]["markets"][0] <= market_id:
                yield segments[k]
                k += 1


def _last(segment: Segment) -> str:
    return segment["markets"][1]


class Nearby:
    """Reads the segments of one archive. Safe for threads."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._held: dict[str, OrderedDict[str, dict[str, list[bytes]]]] = {}
        self._whole: dict[str, dict[str, list[bytes]]] = {}
        self._latest: dict[str, tuple[str, list[Any]]] = {}
        """The records of the market that was asked for last, by kind."""
        self._series: tuple[str, Series | None] = "", None
        self._lock = threading.RLock()
        self._reads = 0
        self._cut = sum("markets" in segment for segment in archive.segments)
        self._places: dict[str, _Places] = defaultdict(_Places)
        for segment in archive.segments:
            self._places[segment["kind"]].add(segment)

    @property
    def pays(self) -> bool:
        """False once cut segments were read so often that reading all of them is less work."""
        return self._reads <= PASSES * self._cut

    def records(self, model: type[R], market_id: str) -> list[R]:
        """Every record of one market, in stored order."""
        return self._of(KIND_OF[model], market_id, model.model_validate_json)

    def series(self, market_id: str) -> Series | None:
        """One market's price series; None without a price."""
        name, found = self._series
        if name != market_id:
            found = self._joined(market_id)
            self._series = market_id, found
        return found

    def _joined(self, market_id: str) -> Series | None:
        parts = self._of("price", market_id, lambda line: Series.of(decode_series(line)))
        return Series.joined(parts) if parts else None

    def _of(self, kind: str, market_id: str, decode: Callable[[bytes], T]) -> list[T]:
        with self._lock:
            name, records = self._latest.get(kind, ("", []))
            if name != market_id:
                records = [
                    checked(kind, decode, line)
                    for segment in self._places[kind].of(market_id)
                    for line in self._lines_of(segment).get(market_id, ())
                ]
                self._latest[kind] = market_id, records
            return [*records]

    def _lines_of(self, segment: Segment) -> dict[str, list[bytes]]:
        """The lines of a segment by market; only those that are asked for are decoded. A segment
        that was not cut stays in memory."""
        kind, name = segment["kind"], segment["digest"]
        if "markets" not in segment:
            if name not in self._whole:
                self._whole[name] = self._read(segment)
            return self._whole[name]
        held = self._held.setdefault(kind, OrderedDict())
        if name in held:
            held.move_to_end(name)
            return held[name]
        self._reads += 1
        while len(held) >= HELD:
            held.popitem(last=False)
        held[name] = self._read(segment)
        return held[name]

    def _read(self, segment: Segment) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for line in BytesIO(self._archive.contents.of(segment)):
            found.setdefault(market_of(segment["kind"], line), []).append(line)
        return found
