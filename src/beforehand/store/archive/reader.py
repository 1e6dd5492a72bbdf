"""The recorded world on disk: content-addressed segments under one manifest.

    archive/
      archive.json                  the manifest, replaced atomically
      segments/{kind}-{digest}.jsonl.gz         the records of one kind of one import
      segments/{kind}-pack-{digest}.jsonl.gz    those of many small imports (`world compact`)
      rejects/{import}.jsonl        lines an import did not take, with file, line and reason

It is bitemporal. A record says what was said and when it could be known (`known_at`); its
segment's entry in the manifest says when we stored it (`recorded_at`). Segments are never
changed: an import only adds new ones, and only for records that are not there yet, so
importing twice changes nothing. The archive's `digest` covers the content alone: two machines
that import the same files in the same order hold the same world. `docs/archive.md` describes
the format.

One market's prices are held in memory as sorted columns (`Series`). The price at t
is the latest *observation* among the points known at t. A backfilled older price, published late,
does not replace a newer one. The lookup depends on the visible prefix only.
"""

import hashlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from msgspec import Struct
from pydantic import BaseModel

from beforehand.clock import SystemClock, from_us, parse_instant, to_us
from beforehand.errors import Corrupt, InputError
from beforehand.records import world
from beforehand.records.bulk import DocumentRow, PriceSeriesRow, decode_document, decode_series
from beforehand.records.cutoff import visible_us
from beforehand.records.world import Resolution
from beforehand.store.archive import rules
from beforehand.store.archive.endings import Endings
from beforehand.store.archive.manifest import (
    Segment,
    counts_of,
    coverage_of,
    digest_of,
    gaps_of,
    need_manifest,
    seal_of,
)
from beforehand.store.files import (
    file_digest,
    json_bytes,
    need_file,
    unpack,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
KINDS: dict[str, type[BaseModel]] = {
    "market": world.Market,
    "state": world.MarketState,
    "event": world.Event,
    "price": world.PricePoint,
    "book": world.OrderBook,
    "document": world.Document,
    "resolution": world.Resolution,
    "forecast": world.RecordedForecast,
    "observation": world.Observation,
    "exchange": world.Exchange,
}
KIND_OF = {model: kind for kind, model in KINDS.items()}
MARKET_KINDS = ("market", "state", "price", "book", "resolution", "forecast")
"""Kinds whose records are each about one market."""
IN_CACHE = 2048
"""Prices of a market that are searched whole."""
R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True)
class Series:
    """Columns of equal length, sorted by `known_at`; times in microseconds, absent values NaN."""

    market_id: str
    known_at: Ints
    observed_at: Ints
    price: Floats
    bid: Floats
    ask: Floats
    volume: Floats

    @classmethod
    def build(cls, market_id: str, known_at: Ints, observed_at: Ints, rest: list[Floats]) -> Self:
        """From columns in the order in which they were stored; `rest` are price, bid, ask and
        volume."""
        if (known_at[1:] > known_at[:-1]).all():  # As nearly every series is stored.
            return cls(market_id, known_at, observed_at, *rest)
        order = np.lexsort((np.arange(len(known_at)), observed_at, known_at))
        return cls(
            market_id, known_at[order], observed_at[order], *(_sorted(one, order) for one in rest)
        )

    @classmethod
    def of(cls, row: PriceSeriesRow) -> Self:
        """A stored line. Numbers in arrays take a fifth of the memory of numbers in lists."""
        known_at, observed_at = (
            np.array(column, dtype=np.int64) for column in (row.known_at, row.observed_at)
        )
        rest = [
            _nothing(len(known_at)) if column is None else np.array(column, dtype=np.float64)
            for column in (row.price, row.bid, row.ask, row.volume)
        ]
        return cls.build(row.market_id, known_at, observed_at, rest)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """One market's series from those of several lines, in the order of these."""
        if len(parts) == 1:
            return parts[0]
        known_at, observed_at, *rest = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("known_at", "observed_at", "price", "bid", "ask", "volume")
        )
        return cls.build(parts[0].market_id, known_at, observed_at, rest)

    @classmethod
    def empty(cls, market_id: str) -> Self:
        """The series of a market that has no prices."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls.build(market_id, nothing, nothing, [np.zeros(0)] * 4)

    def __len__(self) -> int:
        return len(self.known_at)

    @cached_property
    def latest(self) -> Ints:
        """For each prefix, the position of its latest observation (later knowledge wins ties)."""
        best = np.maximum.accumulate(self.observed_at)
        positions = np.where(self.observed_at == best, np.arange(len(best)), 0)
        return np.maximum.accumulate(positions)

    @cached_property
    def in_order(self) -> bool:
        """True if prices became known in the order in which they were observed."""
        return bool((self.observed_at[1:] >= self.observed_at[:-1]).all())

    @cached_property
    def _known_list(self) -> list[int]:
        return [int(k) for k in self.known_at]

    def position(self, t: int) -> int:
        """The position of the price at t (microseconds), or -1 where none was known."""
        i = bisect_right(self._known_list, t) - 1
        return -1 if i < 0 else int(self.latest[i])

    def positions(self, t: Ints) -> Ints:
        """`position` for an array of instants."""
        if not len(self) or not len(t):
            return np.full(len(t), -1, dtype=np.int64)
        known, low = self.known_at, 0
        if len(known) > IN_CACHE:  # Cut to the span of the instants, to search a slice in cache.
            low = int(known.searchsorted(t.min(), side="left"))
            known = known[low : int(known.searchsorted(t.max(), side="right"))]
        i = known.searchsorted(t, side="right")
        i += low - 1
        if self.in_order:
            return i
        return np.where(i < 0, -1, self.latest[np.maximum(i, 0)])

    def until(self, t: int) -> "Series":
        """The visible prefix at t."""
        n = int(np.count_nonzero(visible_us(self.known_at, t)))
        return Series(
            self.market_id,
            known_at=self.known_at[:n],
            observed_at=self.observed_at[:n],
            price=self.price[:n],
            bid=self.bid[:n],
            ask=self.ask[:n],
            volume=self.volume[:n],
        )


class Archive:
    """Read-only access; nothing in this class writes. Opened once per run, then held in memory."""

    def __init__(self, path: Path, stored_until: datetime | None = None) -> None:
        """`stored_until` leaves out what was stored later (the second time axis)."""
        self.path = path
        self.manifest = need_manifest(path)
        self.segments = [
            segment
            for segment in self.manifest["segments"]
            if stored_until is None or parse_instant(segment["recorded_at"]) <= stored_until
        ]
        self.contents = Contents(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process reads the files itself: those that this one knows of."""
        return _again, (self.path, self.manifest, self.segments)

    @property
    def digest(self) -> str:
        """Identity of the content: SHA-256 over the segments' digests."""
        return digest_of(self.segments)

    def counts(self) -> dict[str, int]:
        """Records per kind."""
        return counts_of(self.segments)

    def gaps(self) -> list[tuple[str, int, int]] | None:
        """What the dumps in it do not cover (venue, begin and end in microseconds); None where it
        holds no dump."""
        return gaps_of(self.manifest) if coverage_of(self.manifest) else None

    def lines(self, kind: str) -> Iterator[bytes]:
        """Every stored line of a kind, in the order it was stored, digest checked."""
        for segment in self.segments:
            if segment["kind"] == kind:
                for line in BytesIO(self.contents.of(segment)):  # One at a time, not all at once.
                    yield line.rstrip(b"\n")

    def records(self, model: type[R]) -> list[R]:
        """Every record of a kind, in stored order (prices and documents have faster readers)."""
        return list(self.each(model))

    def each(self, model: type[R]) -> Iterator[R]:
        """The same, one at a time."""
        kind = KIND_OF[model]
        return (checked(kind, model.model_validate_json, line) for line in self.lines(kind))

    @cached_property
    def by_market(self) -> bool:
        """True for an archive with an import so large that it was cut by market."""
        return any("markets" in segment for segment in self.segments)

    def first_known(self) -> dict[str, int]:
        """When the first price of each market became known, in microseconds, by name."""
        found: dict[str, int] = {}
        for line in self.lines("price"):
            row = checked("price", _decode_known, line)
            if row.known_at:
                first = min(row.known_at)
                found[row.market_id] = min(first, found.get(row.market_id, first))
        return {name: found[name] for name in sorted(found)}

    def last_known(self) -> datetime:
        """The last instant at which a price, a text or a state became known (the date of a
        resolution may lie ahead of it). Raises InputError for an archive that holds none."""
        latest = [int(series.known_at[-1]) for series in self.series().values()]
        for kind in self.counts():
            if kind not in ("price", "resolution", "forecast"):
                stamps = (orjson.loads(line).get("known_at") for line in self.lines(kind))
                latest += [to_us(parse_instant(stamp)) for stamp in stamps if stamp]
        if not latest:
            raise InputError(f"{self.path} holds nothing yet")
        return from_us(max(latest))

    def documents(self) -> list[DocumentRow]:
        """All document versions, ordered by (known_at, id)."""
        rows = [checked("document", decode_document, line) for line in self.lines("document")]
        return sorted(rows, key=lambda row: (row.known_at, row.id))

    def series(self) -> dict[str, Series]:
        """Every market's price series."""
        parts: dict[str, list[Series]] = defaultdict(list)
        for line in self.lines("price"):
            row = checked("price", decode_series, line)
            parts[row.market_id].append(Series.of(row))
        return {name: Series.joined(parts[name]) for name in sorted(parts)}

    def verify(self) -> list[str]:
        """Every way in which the files differ from the manifest, or the records from what must hold
        between them (`rules.py`); empty means intact."""
        problems = list(rules.import_problems(self.manifest, SystemClock().now()))
        endings = Endings()
        importers = {entry["name"]: entry["importer"] for entry in self.manifest["imports"]}
        sealed = {**self.manifest, "seal": seal_of(self.manifest)}
        if (self.path / "archive.json").read_bytes() != json_bytes(sealed):
            problems.append("archive.json: not byte for byte what was written")
        for segment in self.manifest["segments"]:
            try:
                content = self.contents.of(segment)
                model = KINDS[segment["kind"]]
                rows = content.splitlines()
                latest, found = _check_lines(segment["kind"], model, rows, endings)
                problems += [f"{segment_name(segment)}: {problem}" for problem in found]
                if late := rules.late_records(
                    segment["kind"],
                    latest,
                    importers.get(segment["import"], ""),
                    segment["recorded_at"],
                ):
                    problems.append(f"{segment_name(segment)}: {late}")
                problems += _misplaced(segment, rows)
                total = record_count(segment["kind"], rows)
                if total != segment["records"]:
                    problems.append(
                        f"{segment_name(segment)}: {total} records, manifest says "
                        f"{segment['records']}"
                    )
            except Corrupt as error:
                problems.append(str(error))
            except ValueError as error:
                problems.append(f"{segment_name(segment)}: a record breaks its schema: {error}")
        for entry in self.manifest["imports"]:
            kept = self.path / "rejects" / f"{entry['name']}.jsonl"
            if entry["rejected"] and not (
                kept.is_file() and file_digest(kept) == entry["rejects_digest"]
            ):
                problems.append(f"rejects/{kept.name}: not what was written")
        return [*problems, *rules.conflicts(endings.of_several())]

    def strays(self) -> list[str]:
        """Segment files that no import lists: what an interrupted import, or packing, leaves."""
        listed = {segment_name(segment) for segment in self.manifest["segments"]}
        folder = self.path / "segments"
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(path.name for path in found if path.name not in listed)


def _again(path: Path, manifest: Any, segments: list[Segment]) -> Archive:
    found = Archive.__new__(Archive)
    found.path, found.manifest, found.segments = path, manifest, segments
    found.contents = Contents(path)
    return found


def checked(kind: str, decode: Callable[[bytes], T], line: bytes) -> T:
    """A stored line as its record. Raises Corrupt for one that breaks its schema: its segment was
    made by hand, for nothing else is stored."""
    try:
        return decode(line)
    except ValueError as error:  # Those of pydantic and msgspec are such.
        said = " ".join(str(error).split())[:200]
        raise Corrupt(
            f"a {kind} breaks its schema ({said}): `beforehand world verify` names it"
        ) from None


def _sorted(column: Floats, order: npt.NDArray[np.intp]) -> Floats:
    """A column in this order. One in which nothing is known takes no memory: most markets have no
    recorded book."""
    return _nothing(len(column)) if np.isnan(column).all() else column[order]


_NOTHING = np.broadcast_to(np.nan, 2**40)


def _nothing(n: int) -> Floats:
    """`n` times NaN, in the memory of one."""
    return _NOTHING[:n]


class _Named(Struct):
    """What names the market in a line."""

    id: str = ""
    market_id: str = ""


class _Known(Struct):
    """What says when the prices of a line became known."""

    market_id: str
    known_at: list[int]


class _Prices(Struct):
    """The prices of a line, unread."""

    price: msgspec.Raw


_decode_prices = msgspec.json.Decoder(_Prices).decode
_decode_known = msgspec.json.Decoder(_Known).decode
_decode_named = msgspec.json.Decoder(_Named).decode


def market_of(kind: str, line: bytes) -> str:
    """The market that a stored line of one of MARKET_KINDS is about."""
    found: _Named = checked(kind, _decode_named, line)
    return found.id if kind == "market" else found.market_id


def _misplaced(segment: Segment, rows: list[bytes]) -> list[str]:
    """What is wrong with a segment that was cut by market: a record outside of its range would not
    be found."""
    if "markets" not in segment:
        return []
    first, last = segment["markets"]
    wrong = sum(not first <= market_of(segment["kind"], line) <= last for line in rows)
    return [f"{segment_name(segment)}: {wrong:,} records outside of its markets"] if wrong else []


def record_count(kind: str, lines: list[bytes]) -> int:
    """How many records the lines of a segment hold: a price line holds many."""
    if kind != "price":
        return len(lines)
    columns = (bytes(_decode_prices(line).price) for line in lines)
    return sum(column.count(b",") + 1 for column in columns if column.strip() != b"[]")


def _check_lines(
    kind: str, model: type[BaseModel], lines: list[bytes], endings: Endings
) -> tuple[int | None, list[str]]:
    """(the latest `known_at` of a segment, what is wrong in it); its endings are added. Raises
    ValueError for a line that breaks its schema."""
    latest, problems = None, list[str]()
    for line in lines:
        problem: str | None = None
        if kind == "price":
            row = decode_series(line)
            problem, known = rules.series_problem(row), max(row.known_at, default=0)
        elif kind == "document":
            document = decode_document(line)
            known = to_us(document.known_at)
            problem = rules.document_problem(document.id, known, document.published_at)
        else:
            record = model.model_validate_json(line)
            if isinstance(record, Resolution):
                problem = rules.resolution_problem(record)
                endings.add(record)
            known = to_us(record.known_at)  # type: ignore[attr-defined]
        latest = known if latest is None else max(latest, known)
        problems += [problem] if problem else []
    return latest, problems


def segment_name(segment: Segment) -> str:
    """The name of the file that holds a segment."""
    if "pack" in segment:
        return f"{segment['kind']}-pack-{segment['pack']['digest']}.jsonl.gz"
    return f"{segment['kind']}-{segment['digest']}.jsonl.gz"


class Contents:
    """The unpacked segments of one archive. The last pack that was read stays in memory, for its
    segments are read one after the other. Safe for threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: tuple[str, bytes] = ("", b"")

    def of(self, segment: Segment) -> bytes:
        """The content of a segment. Raises Corrupt where a single byte differs."""
        if "pack" not in segment:
            return _unpack(self._path, segment, segment["digest"])
        pack, name = segment["pack"], segment_name(segment)
        held, content = self._last
        if held != name:
            content = _unpack(self._path, segment, pack["digest"])
            self._last = name, content
        part = content[pack["start"] : pack["start"] + pack["size"]]
        if hashlib.sha256(part).hexdigest() != segment["digest"]:
            raise Corrupt(f"segments/{name}: what it holds of {segment['import']} was changed")
        return part


def _unpack(path: Path, segment: Segment, expected: str) -> bytes:
    """The content of the file that holds a segment; its digest is `expected`."""
    name = segment_name(segment)
    try:
        need_file(path / "segments" / name)
        packed = (path / "segments" / name).read_bytes()
    except FileNotFoundError:
        raise Corrupt(f"segments/{name}: the file is missing") from None
    except InputError as error:
        gone = "does not exist" in str(error)
        raise Corrupt(f"segments/{name}: the file is missing" if gone else str(error)) from None
    if hashlib.sha256(packed).hexdigest() != segment["file_digest"]:
        raise Corrupt(f"segments/{name}: its bytes do not match the digest in archive.json")
    content = unpack(packed, f"segments/{name}")
    if hashlib.sha256(content).hexdigest() != expected:
        raise Corrupt(f"segments/{name}: its content does not match its name")
    return content
