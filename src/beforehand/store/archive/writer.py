"""Adding to an archive: one writer at a time, new segments only, the manifest last.

Records wait in a spool until they are moved to their archive: one file per process, fsynced line by
line.

Every exchange is on disk before its answer is used, so a crash loses nothing that was paid for. A
file names the archive it belongs to. `flush` moves the lines there, also those of processes that
ended without a flush; moving them twice changes nothing. A line that cannot be read is set aside
(`.damaged`), never dropped.
"""

import fcntl
import hashlib
import os
import secrets
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, TypedDict

from orjson import JSONDecodeError, dumps, loads
from pydantic import BaseModel

from beforehand.clock import iso, parse_instant
from beforehand.errors import InputError, Unavailable
from beforehand.ids import canonical, digest
from beforehand.records import world
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.world import Exchange
from beforehand.store.archive import packs
from beforehand.store.archive.ledger import (
    EndingLedger,
    Lines,
    Numbers,
    PointLedger,
    Shelf,
    TextLedger,
    mark_of,
)
from beforehand.store.archive.manifest import (
    Coverage,
    ImportEntry,
    Segment,
    counts_of,
    empty_manifest,
    read_manifest,
    refuse_aside,
    write_manifest,
)
from beforehand.store.archive.reader import (
    KIND_OF,
    KINDS,
    MARKET_KINDS,
    Archive,
    market_of,
    record_count,
    segment_name,
)
from beforehand.store.archive.rules import conflicts
from beforehand.store.files import TURN, Reject, exclusive, file_digest, write_jsonl

PATIENCE_S, LARGEST_SEGMENT, LARGEST_BY_MARKET, PACKERS = 30.0, 100_000_000, 1_000_000, 2
"""Seconds; the most bytes of a segment before packing, which is held in memory twice, and of one of
`MARKET_KINDS`, which are sorted and cut by market where an import brings more, so that one market
can be read without the others; threads that pack."""


@dataclass
class ImportReport:
    """What an import did: per kind, how many records were new and how many already there."""

    importer: str
    source: str
    new: dict[str, int] = field(default_factory=dict)
    same: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    rejects_file: str | None = None
    conflicts: list[str] = field(default_factory=list)
    coverage: Sequence[Coverage] = ()

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "importer": self.importer,
            "source": self.source,
            "new": self.new,
            "same": self.same,
            "notes": self.notes,
            "rejected": len(self.rejects),
            "rejects": [reject.sentence() for reject in self.rejects[:20]],
            "rejects_file": self.rejects_file,
            "conflicts": self.conflicts,
            **({"coverage": list(self.coverage)} if self.coverage else {}),
        }


@dataclass
class Pruned:
    """What was taken out of an archive: records by kind, and files that nothing lists."""

    records: dict[str, int]
    files: int = 0
    bytes: int = 0


@dataclass
class Compacted:
    """How many segments an archive has, and in how many files they were and are."""

    segments: int
    files_before: int
    files: int


class ArchiveWriter:
    """The sole writer of an archive; holds its lock while adding."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self,
        records: Iterable[BaseModel | PriceSeriesRow],
        *,
        importer: str,
        source: str,
        source_digest: str,
        recorded_at: datetime,
        rejects: Iterable[Reject] = (),
        notes: dict[str, int] | None = None,
        licence: str | None = None,
        coverage: Sequence[Coverage] = (),
    ) -> ImportReport:
        """Store what is not there yet, and return the counts.

        `records` may be lazy; `rejects` and `coverage` are read after `records`, so that a parser
        can fill them meanwhile. Nothing is visible to a reader until the manifest is replaced at
        the end.
        """
        report = ImportReport(
            importer, source, notes=notes if notes is not None else {}, coverage=coverage
        )
        with self._locked():
            manifest = read_manifest(self.path) if self._exists() else empty_manifest()
            lines = self._new_lines(records, report)
            report.rejects = list(rejects)
            report.conflicts = self._conflicts(lines)
            # Who waited for another's import was begun before it, and is recorded after it.
            before = [parse_instant(i["recorded_at"]) for i in manifest["imports"][-1:]]
            stamp = iso(max([recorded_at, *before]))
            last = max((int(i["name"].partition("-")[0]) for i in manifest["imports"]), default=0)
            name = f"{last + 1:04d}-{importer}"
            entry: ImportEntry = {
                "name": name,
                "importer": importer,
                "source": source,
                "source_digest": source_digest,
                "recorded_at": stamp,
                "new": report.new,
                "rejected": len(report.rejects),
            }
            if licence is not None:
                entry["licence"] = licence
            if coverage:
                entry["coverage"] = list(coverage)
            target = self.path / "rejects" / f"{name}.jsonl"
            report.rejects_file = str(target) if report.rejects else None
            for kind in sorted(lines):
                made = self._write_segments(kind, lines[kind], report.new[kind], stamp, name)
                manifest["segments"] += made
            mark = importer, source_digest
            if lines or mark not in map(_source, manifest["imports"]):
                if report.rejects:
                    write_jsonl(target, [vars(reject) for reject in report.rejects])
                    entry["rejects_digest"] = file_digest(target)
                manifest["imports"].append(entry)
                write_manifest(self.path, manifest)
            elif report.rejects:
                earlier = next(i["name"] for i in manifest["imports"] if _source(i) == mark)
                report.rejects_file = str(self.path / "rejects" / f"{earlier}.jsonl")
        return report

    def prune(self, names: Collection[str] = ()) -> Pruned:
        """Take imports out of the archive, and delete every file that no import lists any more.
        Raises InputError for a name that the archive does not have."""
        with self._locked():
            manifest = read_manifest(self.path)
            known = [entry["name"] for entry in manifest["imports"]]
            if missing := sorted({*names} - {*known}):
                raise InputError(
                    f"the archive has no import {missing[0]!r}: it has {', '.join(known)}"
                )
            if names:
                kept = [entry for entry in manifest["imports"] if entry["name"] not in names]
                left = [s for s in manifest["segments"] if s["import"] not in names]
                gone = counts_of(s for s in manifest["segments"] if s["import"] in names)
                torn = {segment_name(s) for s in manifest["segments"] if s["import"] in names}
                left = packs.repacked(self.path, left, torn)
                manifest = {**manifest, "imports": kept, "segments": left}
                write_manifest(self.path, manifest)
            else:
                gone = {}
            listed = {self.path / "segments" / segment_name(s) for s in manifest["segments"]}
            listed |= {self.path / "rejects" / f"{i['name']}.jsonl" for i in manifest["imports"]}
            done = Pruned(gone)
            for folder in ("segments", "rejects"):
                for path in sorted((self.path / folder).glob("*")):
                    if path not in listed:
                        done.files += 1
                        done.bytes += path.stat().st_size
                        path.unlink()
            return done

    def compact(self) -> Compacted:
        """Put the segments of many small imports into few files. What the archive holds, and its
        digest, stay the same. The files of before stay until `prune`: others may be reading
        them."""
        with self._locked():
            manifest = read_manifest(self.path)
            before = {segment_name(s) for s in manifest["segments"]}
            segments = packs.compacted(self.path, manifest["segments"])
            if segments != manifest["segments"]:
                write_manifest(self.path, {**manifest, "segments": segments})
            after = {segment_name(s) for s in segments}
            return Compacted(len(segments), len(before), len(after))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock. Raises NotConfigured where a probe has another world in the archive's
        place, also where it was put there just now: nothing is made beside that."""
        new = not self._exists()
        refuse_aside(self.path)  # In this order: where there is no archive, it may lie aside.
        try:
            with exclusive(self.path / "archive.lock", make=new, wait=TURN):
                refuse_aside(self.path)
                yield
        except FileNotFoundError:
            refuse_aside(self.path)
            raise

    def _exists(self) -> bool:
        return (self.path / "archive.json").is_file()

    def _new_lines(
        self, records: Iterable[BaseModel | PriceSeriesRow], report: ImportReport
    ) -> dict[str, Lines]:
        """The lines to store per kind, without what is stored already."""
        archive = Archive(self.path) if self._exists() else None
        seen: dict[str, set[bytes]] = {}
        numbers = Numbers()
        points, endings = (
            PointLedger(archive, Shelf(self.path), numbers),
            EndingLedger(archive, numbers),
        )
        texts = TextLedger(archive, numbers)
        waiting: dict[str, Shelf] = defaultdict(lambda: Shelf(self.path))
        for record in records:
            if isinstance(record, PriceSeriesRow):
                fresh = points.add_series(record)
                for tally, n in ((report.new, fresh), (report.same, len(record.price) - fresh)):
                    if n:
                        tally["price"] = tally.get("price", 0) + n
                continue
            kind = KIND_OF[type(record)]
            if isinstance(record, world.PricePoint):
                is_new = points.add(record)
            elif isinstance(record, world.Resolution):
                if is_new := endings.add(record):
                    waiting[kind].keep(_line(record))
            elif isinstance(record, world.Market):
                line = _line(record)
                if is_new := texts.add(record.id, line):
                    waiting[kind].keep(line)
            else:
                if kind not in seen:
                    stored = archive.lines(kind) if archive else ()
                    seen[kind] = {mark_of(line) for line in stored}
                line = _line(record)
                mark = mark_of(line)
                if is_new := mark not in seen[kind]:
                    seen[kind].add(mark)
                    waiting[kind].keep(line)
            tally = report.new if is_new else report.same
            tally[kind] = tally.get(kind, 0) + 1
        lines = {kind: Lines(shelf) for kind, shelf in waiting.items()}
        if len(priced := points.lines()):
            lines["price"] = priced
        return lines

    def _conflicts(self, lines: Mapping[str, Lines]) -> list[str]:
        """Markets of new endings whose outcome on record is another one."""
        endings = lines.get("resolution", ())
        said = Counter(market_of("resolution", line) for line in endings)
        stored = Archive(self.path).records(world.Resolution) if said and self._exists() else []
        stored = [one for one in stored if one.market_id in said]
        again = {name for name, n in said.items() if n > 1} | {one.market_id for one in stored}
        new = (line for line in endings if market_of("resolution", line) in again)
        return conflicts([*map(world.Resolution.model_validate_json, new), *stored])

    def _write_segments(
        self, kind: str, lines: Lines, total: int, stamp: str, name: str
    ) -> Iterator[Segment]:
        """Store the new lines, `total` records, in as many segments as they need."""

        def write(part: list[bytes]) -> Segment:
            n = total if len(part) == len(lines) else record_count(kind, part)
            ends = [market_of(kind, part[0]), market_of(kind, part[-1])] if by_market else None
            return self._write_segment(kind, part, n, stamp, name, ends)

        if by_market := kind in MARKET_KINDS and lines.size > LARGEST_BY_MARKET:
            lines = lines if kind == "price" else lines.by_market(kind)  # Those are in order.
        parts = _parts(lines, LARGEST_BY_MARKET if by_market else LARGEST_SEGMENT)
        with ThreadPoolExecutor(PACKERS) as pool:  # Packing leaves the interpreter to others.
            while several := list(islice(parts, PACKERS)):  # No more than these are in memory.
                yield from pool.map(write, several)

    def _write_segment(
        self,
        kind: str,
        lines: list[bytes],
        total: int,
        stamp: str,
        name: str,
        markets: list[str] | None,
    ) -> Segment:
        """Store the new lines of the import with this name, and return their segment's entry."""
        content = b"\n".join(lines) + b"\n"
        packed = packs.packed(content)
        segment: Segment = {
            "kind": kind,
            "digest": hashlib.sha256(content).hexdigest(),
            "file_digest": hashlib.sha256(packed).hexdigest(),
            "records": total,
            "recorded_at": stamp,
            "import": name,
        }
        if markets is not None:
            segment["markets"] = markets
        packs.store(self.path, segment, packed)
        return segment


def _parts(lines: Iterable[bytes], largest: int) -> Iterator[list[bytes]]:
    """The lines of one import, cut where a segment would be larger than so many bytes."""
    part, size = list[bytes](), 0
    for line in lines:
        if part and size + len(line) > largest:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _source(entry: ImportEntry) -> tuple[str, str]:
    return entry["importer"], entry["source_digest"]


def _line(record: BaseModel) -> bytes:
    """A record as it is stored."""
    return canonical(record.model_dump(mode="json", exclude_none=True))


class Spooled(TypedDict):
    """A waiting line: an exchange and its records as (kind, record), in wire form."""

    exchange: dict[str, object]
    records: list[tuple[str, dict[str, object]]]


class Spool:
    """The waiting records of one archive; safe for threads of one process."""

    def __init__(self, folder: Path, archive: Path) -> None:
        self.folder, self.archive = folder, archive.resolve()
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()

    def keep(self, exchange: Exchange, records: Sequence[BaseModel]) -> None:
        """Write an exchange and its records to disk and fsync. Raises Unavailable if that fails (a
        full disk): no half-written line stays behind."""
        rows = [[KIND_OF[type(r)], r.model_dump(mode="json", exclude_none=True)] for r in records]
        with self._lock:
            if self._file is None:
                self._file = self._open()
            self._write(dumps({"exchange": exchange.wire(), "records": rows}) + b"\n")

    def _open(self) -> IO[bytes]:
        """A new file. It is locked before it gets the name that `flush` looks for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        hidden = path.with_suffix(".new")
        made = hidden.open("ab", buffering=0)
        weakref.finalize(self, made.close)
        fcntl.flock(made, fcntl.LOCK_EX)
        made.write(dumps({"archive": str(self.archive)}) + b"\n")
        hidden.rename(path)
        self._path = path
        return made

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        start, done = os.fstat(self._file.fileno()).st_size, 0
        try:
            while done < len(line):
                done += os.write(self._file.fileno(), line[done:])
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), start)
            raise Unavailable(
                f"{self.folder} cannot be written to ({error.strerror}), and an answer was lost: "
                "free space before you record more"
            ) from None

    @property
    def size(self) -> int:
        """Bytes that wait in this process's file."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def flush(self, now: datetime) -> int:
        """Move everything that waits into its archive; returns how many exchanges were new."""
        with self._lock:
            return self._flush(now)

    def _flush(self, now: datetime) -> int:
        moved = 0
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder.is_dir() else ():
            mine = self._file is not None and self._path == path
            try:
                handle = path.open("rb")
            except FileNotFoundError:
                continue  # Another process has just moved it.
            with handle:
                if not mine:
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue  # Another process is still recording.
                moved += self._move(path, handle.read(), now)
                if mine:
                    assert self._file is not None
                    self._file.close()
                    self._file = None
                path.unlink(missing_ok=True)
        return moved

    def _move(self, path: Path, content: bytes, now: datetime) -> int:
        records: list[BaseModel] = []
        damaged: list[bytes] = []
        archive, providers = self.archive, set()
        lines = content.split(b"\n")
        for line in filter(None, lines):
            try:
                row = loads(line)
                if "archive" in row:
                    archive = Path(row["archive"])
                    continue
                found = _read(row)
            except (JSONDecodeError, KeyError, TypeError, ValueError):
                if line != lines[-1]:  # A crash may have cut the last line short.
                    damaged.append(line)
                continue
            records += found
            providers.add(row["exchange"]["provider"])
        if damaged:
            path.with_suffix(".damaged").write_bytes(b"\n".join(damaged) + b"\n")
        if not records:
            return 0
        waited = 0.0
        while True:
            try:
                report = ArchiveWriter(archive).add(
                    records,
                    importer="record",
                    source=", ".join(sorted(providers)),
                    source_digest=digest(content),
                    recorded_at=now,
                )
                return report.new.get("exchange", 0)
            except Unavailable:
                if waited >= PATIENCE_S:
                    raise
                time.sleep(0.2)
                waited += 0.2


def _read(row: Spooled) -> list[BaseModel]:
    """The exchange of a line and its records."""
    records: list[BaseModel] = [Exchange.model_validate(row["exchange"])]
    return records + [KINDS[kind].model_validate(value) for kind, value in row["records"]]
