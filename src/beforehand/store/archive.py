"""The recorded world on disk: content-addressed segments under one manifest.

    archive/
      archive.json                  the manifest, replaced atomically
      segments/{kind}-{digest}.jsonl.gz
      rejects/{import}.jsonl        lines an import did not take, with file, line and reason

It is bitemporal. A record says what was said and when it could be known (`known_at`); its
segment's entry in the manifest says when we stored it (`recorded_at`). Segments are never
changed: an import only adds new ones, and only for records that are not there yet, so
importing twice changes nothing. The archive's `digest` covers the content alone: two machines
that import the same files hold the same world. `docs/archive.md` is the format's description.
"""

import gzip
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from pydantic import BaseModel

from beforehand.clock import iso, parse_instant, to_us
from beforehand.errors import Corrupt, NotConfigured
from beforehand.ids import canonical, digest
from beforehand.records import world
from beforehand.records.bulk import DocumentRow, PriceSeriesRow, decode_document, decode_series
from beforehand.store.files import (
    Reject,
    exclusive,
    json_bytes,
    read_json,
    write_atomic,
    write_json,
    write_jsonl,
)
from beforehand.store.series import Series

FORMAT = "beforehand-archive/1"
KINDS: dict[str, type[BaseModel]] = {
    "market": world.Market,
    "state": world.MarketState,
    "event": world.Event,
    "price": world.PricePoint,
    "book": world.OrderBook,
    "document": world.Document,
    "resolution": world.Resolution,
    "forecast": world.RecordedForecast,
}
_KIND_OF = {model: kind for kind, model in KINDS.items()}
_COLUMNS = ("price", "bid", "ask", "volume")
R = TypeVar("R", bound=BaseModel)


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

    def wire(self) -> dict[str, Any]:
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
        }


class Archive:
    """Read-only access; nothing in this class writes. Opened once per run, then held in memory."""

    def __init__(self, path: Path, stored_until: datetime | None = None) -> None:
        """`stored_until` leaves out what was stored later (the second time axis)."""
        self.path = path
        if not (path / "archive.json").is_file():
            raise NotConfigured(
                f"there is no archive at {path}: make one with `beforehand world simulate` or "
                "`beforehand world import markets FILE`, or name one with --archive"
            )
        self.manifest = _read_manifest(path)
        self._segments: list[dict[str, Any]] = [
            segment
            for segment in self.manifest["segments"]
            if stored_until is None or parse_instant(segment["recorded_at"]) <= stored_until
        ]

    @property
    def digest(self) -> str:
        """Identity of the content: SHA-256 over the segments' digests."""
        return digest([segment["digest"] for segment in self._segments])

    def counts(self) -> dict[str, int]:
        """Records per kind."""
        totals: dict[str, int] = defaultdict(int)
        for segment in self._segments:
            totals[segment["kind"]] += segment["records"]
        return dict(sorted(totals.items()))

    def lines(self, kind: str) -> Iterator[bytes]:
        """Every stored line of a kind, in the order it was stored, digest checked."""
        for segment in self._segments:
            if segment["kind"] == kind:
                yield from _unpack(self.path, segment).splitlines()

    def records(self, model: type[R]) -> list[R]:
        """Every record of a kind, in stored order (prices and documents have faster readers)."""
        return [model.model_validate_json(line) for line in self.lines(_KIND_OF[model])]

    def documents(self) -> list[DocumentRow]:
        """All document versions, ordered by (known_at, id)."""
        rows = [decode_document(line) for line in self.lines("document")]
        return sorted(rows, key=lambda row: (row.known_at, row.id))

    def series(self) -> dict[str, Series]:
        """Every market's price series."""
        parts: dict[str, list[PriceSeriesRow]] = defaultdict(list)
        for line in self.lines("price"):
            row = decode_series(line)
            parts[row.market_id].append(row)
        return {name: _series(name, parts[name]) for name in sorted(parts)}

    def verify(self) -> list[str]:
        """Every way in which the files differ from the manifest; empty means intact."""
        problems = []
        sealed = {**self.manifest, "seal": _seal(self.manifest)}
        if (self.path / "archive.json").read_bytes() != json_bytes(sealed):
            problems.append("archive.json: not byte for byte what was written")
        listed = {_segment_name(segment) for segment in self.manifest["segments"]}
        for segment in self.manifest["segments"]:
            try:
                content = _unpack(self.path, segment)
                model = KINDS[segment["kind"]]
                rows = content.splitlines()
                for line in rows:
                    _check_line(segment["kind"], model, line)
                total = _record_count(segment["kind"], rows)
                if total != segment["records"]:
                    problems.append(
                        f"{_segment_name(segment)}: {total} records, manifest says "
                        f"{segment['records']}"
                    )
            except Corrupt as error:
                problems.append(str(error))
            except ValueError as error:
                problems.append(f"{_segment_name(segment)}: a record breaks its schema: {error}")
        folder = self.path / "segments"
        for stray in sorted(folder.iterdir()) if folder.is_dir() else []:
            if stray.name not in listed:
                problems.append(f"segments/{stray.name}: not in the manifest")
        return problems


class ArchiveWriter:
    """The sole writer of an archive; holds its lock while adding."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self,
        records: Iterable[BaseModel],
        *,
        importer: str,
        source: str,
        source_digest: str,
        recorded_at: datetime,
        rejects: Iterable[Reject] = (),
        notes: dict[str, int] | None = None,
    ) -> ImportReport:
        """Store what is not there yet, and return the counts.

        `records` may be lazy; `rejects` is read after it, so that a parser can fill it on the
        way. Nothing is visible to a reader until the manifest is replaced at the end.
        """
        report = ImportReport(importer, source, notes=notes if notes is not None else {})
        with exclusive(self.path / "archive.lock"):
            manifest = _read_manifest(self.path) if self._exists() else _empty_manifest()
            lines = self._new_lines(records, report)
            report.rejects = list(rejects)
            stamp = iso(recorded_at)
            name = f"{len(manifest['imports']) + 1:04d}-{importer}"
            entry = {
                "name": name,
                "importer": importer,
                "source": source,
                "source_digest": source_digest,
                "recorded_at": stamp,
                "new": report.new,
                "rejected": len(report.rejects),
            }
            if report.rejects:
                target = self.path / "rejects" / f"{name}.jsonl"
                report.rejects_file = str(target)
            for kind in sorted(lines):
                manifest["segments"].append(
                    {**self._write_segment(kind, lines[kind]), "recorded_at": stamp, "import": name}
                )
            known = {(i["importer"], i["source_digest"]) for i in manifest["imports"]}
            if lines or (importer, source_digest) not in known:
                manifest["imports"].append(entry)
                if report.rejects:
                    write_jsonl(
                        self.path / "rejects" / f"{name}.jsonl",
                        [vars(reject) for reject in report.rejects],
                    )
                _write_manifest(self.path, manifest)
            elif report.rejects:
                earlier = next(
                    i["name"]
                    for i in manifest["imports"]
                    if (i["importer"], i["source_digest"]) == (importer, source_digest)
                )
                report.rejects_file = str(self.path / "rejects" / f"{earlier}.jsonl")
        return report

    def _exists(self) -> bool:
        return (self.path / "archive.json").is_file()

    def _new_lines(
        self, records: Iterable[BaseModel], report: ImportReport
    ) -> dict[str, list[bytes]]:
        """The lines to store per kind, without what is stored already."""
        archive = Archive(self.path) if self._exists() else None
        seen: dict[str, set[bytes]] = {}
        points = _PointLedger(archive)
        lines: dict[str, list[bytes]] = defaultdict(list)
        for record in records:
            kind = _KIND_OF[type(record)]
            if isinstance(record, world.PricePoint):
                is_new = points.add(record)
            else:
                if kind not in seen:
                    stored = archive.lines(kind) if archive else ()
                    seen[kind] = {_fingerprint(line) for line in stored}
                line = canonical(record.model_dump(mode="json", exclude_none=True))
                mark = _fingerprint(line)
                is_new = mark not in seen[kind]
                if is_new:
                    seen[kind].add(mark)
                    lines[kind].append(line)
            tally = report.new if is_new else report.same
            tally[kind] = tally.get(kind, 0) + 1
        if fresh := points.lines():
            lines["price"] = fresh
        return dict(lines)

    def _write_segment(self, kind: str, lines: list[bytes]) -> dict[str, Any]:
        content = b"\n".join(lines) + b"\n"
        packed = gzip.compress(content, compresslevel=6, mtime=0)
        segment = {
            "kind": kind,
            "digest": hashlib.sha256(content).hexdigest(),
            "file_digest": hashlib.sha256(packed).hexdigest(),
            "records": _record_count(kind, lines),
        }
        target = self.path / "segments" / _segment_name(segment)
        write_atomic(target, packed)
        target.chmod(0o444)
        return segment


class _PointLedger:
    """Price points seen so far, per market, so that only new ones are stored."""

    def __init__(self, archive: Archive | None) -> None:
        self._old = archive.series() if archive else {}
        self._seen: dict[str, set[tuple[float | None, ...]]] = {}
        self._new: dict[str, list[tuple[float | None, ...]]] = defaultdict(list)

    def add(self, p: world.PricePoint) -> bool:
        row = (to_us(p.observed_at), to_us(p.known_at), p.price, p.bid, p.ask, p.volume)
        if p.market_id not in self._seen:
            self._seen[p.market_id] = _point_set(self._old.get(p.market_id))
        if row in self._seen[p.market_id]:
            return False
        self._seen[p.market_id].add(row)
        self._new[p.market_id].append(row)
        return True

    def lines(self) -> list[bytes]:
        encode = msgspec.json.Encoder().encode
        out = []
        for market, rows in sorted(self._new.items()):
            observed, known, price, *rest = (list(column) for column in zip(*rows, strict=True))
            bid, ask, volume = (c if any(v is not None for v in c) else None for c in rest)
            out.append(encode(PriceSeriesRow(market, observed, known, price, bid, ask, volume)))
        return out


def _point_set(series: Series | None) -> set[tuple[float | None, ...]]:
    if series is None:
        return set()
    columns = [series.observed_at.tolist(), series.known_at.tolist(), series.price.tolist()]
    columns += [
        [None if v != v else v for v in column.tolist()]
        for column in (series.bid, series.ask, series.volume)
    ]
    return set(zip(*columns, strict=True))


def _series(name: str, parts: list[PriceSeriesRow]) -> Series:
    times = np.array(
        [pair for part in parts for pair in zip(part.observed_at, part.known_at, strict=True)],
        dtype=np.int64,
    ).reshape(-1, 2)
    rows = np.full((len(times), len(_COLUMNS)), np.nan)
    for j, column in enumerate(_COLUMNS):
        start = 0
        for part in parts:
            values = getattr(part, column)
            if values is not None:
                rows[start : start + len(part.price), j] = np.array(values, dtype=np.float64)
            start += len(part.price)
    return Series.build(name, rows, times)


def _fingerprint(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()


def _record_count(kind: str, lines: list[bytes]) -> int:
    if kind != "price":
        return len(lines)
    return sum(len(decode_series(line).price) for line in lines)


def _check_line(kind: str, model: type[BaseModel], line: bytes) -> None:
    if kind == "price":
        decode_series(line)
    elif kind == "document":
        decode_document(line)
    else:
        model.model_validate_json(line)


def _segment_name(segment: dict[str, Any]) -> str:
    return f"{segment['kind']}-{segment['digest']}.jsonl.gz"


def _unpack(path: Path, segment: dict[str, Any]) -> bytes:
    """The segment's content; raises Corrupt where a single byte differs."""
    name = _segment_name(segment)
    try:
        packed = (path / "segments" / name).read_bytes()
    except FileNotFoundError:
        raise Corrupt(f"segments/{name}: the file is missing") from None
    if hashlib.sha256(packed).hexdigest() != segment["file_digest"]:
        raise Corrupt(f"segments/{name}: its bytes do not match the digest in archive.json")
    content = gzip.decompress(packed)
    if hashlib.sha256(content).hexdigest() != segment["digest"]:
        raise Corrupt(f"segments/{name}: its content does not match its name")
    return content


def _empty_manifest() -> dict[str, Any]:
    return {"format": FORMAT, "segments": [], "imports": []}


def _seal(manifest: dict[str, Any]) -> str:
    return digest({key: manifest[key] for key in ("format", "segments", "imports")})


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path / "archive.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Corrupt(f"{path / 'archive.json'} is not a {FORMAT} manifest")
    try:
        intact = manifest["seal"] == _seal(manifest)
    except KeyError:
        intact = False
    if not intact:
        raise Corrupt(
            f"{path / 'archive.json'} does not match its own seal: it was changed by hand"
        )
    return manifest


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    write_json(path / "archive.json", {**manifest, "seal": _seal(manifest)})
