"""The recorded world on disk: content-addressed segments under one manifest.

    archive/
      archive.json                  the manifest, replaced atomically
      segments/{kind}-{digest}.jsonl.gz
      rejects/{import}.jsonl        lines an import did not take, with file, line and reason

It is bitemporal. A record says what was said and when it could be known (`known_at`); its
segment's entry in the manifest says when we stored it (`recorded_at`). Segments are never
changed: an import only adds new ones, and only for records that are not there yet, so
importing twice changes nothing. The archive's `digest` covers the content alone: two machines
that import the same files in the same order hold the same world. `docs/archive.md` describes
the format.
"""

import gzip
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from beforehand.clock import parse_instant
from beforehand.errors import Corrupt
from beforehand.records import world
from beforehand.records.bulk import DocumentRow, PriceSeriesRow, decode_document, decode_series
from beforehand.store.archive.manifest import counts_of, digest_of, need_manifest, seal_of
from beforehand.store.archive.series import Series
from beforehand.store.files import (
    file_digest,
    json_bytes,
)

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
_COLUMNS = ("price", "bid", "ask", "volume")
R = TypeVar("R", bound=BaseModel)


class Archive:
    """Read-only access; nothing in this class writes. Opened once per run, then held in memory."""

    def __init__(self, path: Path, stored_until: datetime | None = None) -> None:
        """`stored_until` leaves out what was stored later (the second time axis)."""
        self.path = path
        self.manifest = need_manifest(path)
        self._segments: list[dict[str, Any]] = [
            segment
            for segment in self.manifest["segments"]
            if stored_until is None or parse_instant(segment["recorded_at"]) <= stored_until
        ]

    @property
    def digest(self) -> str:
        """Identity of the content: SHA-256 over the segments' digests."""
        return digest_of(self._segments)

    def counts(self) -> dict[str, int]:
        """Records per kind."""
        return counts_of(self._segments)

    def lines(self, kind: str) -> Iterator[bytes]:
        """Every stored line of a kind, in the order it was stored, digest checked."""
        for segment in self._segments:
            if segment["kind"] == kind:
                yield from _unpack(self.path, segment).splitlines()

    def records(self, model: type[R]) -> list[R]:
        """Every record of a kind, in stored order (prices and documents have faster readers)."""
        return [model.model_validate_json(line) for line in self.lines(KIND_OF[model])]

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
        sealed = {**self.manifest, "seal": seal_of(self.manifest)}
        if (self.path / "archive.json").read_bytes() != json_bytes(sealed):
            problems.append("archive.json: not byte for byte what was written")
        for segment in self.manifest["segments"]:
            try:
                content = _unpack(self.path, segment)
                model = KINDS[segment["kind"]]
                rows = content.splitlines()
                for line in rows:
                    _check_line(segment["kind"], model, line)
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
        return problems

    def strays(self) -> list[str]:
        """Segment files that no import lists: what an interrupted import leaves. Harmless."""
        listed = {segment_name(segment) for segment in self.manifest["segments"]}
        folder = self.path / "segments"
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(path.name for path in found if path.name not in listed)


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


def record_count(kind: str, lines: list[bytes]) -> int:
    """How many records the lines of a segment hold: a price line holds many."""
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


def segment_name(segment: dict[str, Any]) -> str:
    """The file name of a segment."""
    return f"{segment['kind']}-{segment['digest']}.jsonl.gz"


def _unpack(path: Path, segment: dict[str, Any]) -> bytes:
    """The segment's content; raises Corrupt where a single byte differs."""
    name = segment_name(segment)
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
