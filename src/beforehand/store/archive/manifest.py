"""The archive's manifest: which segments it holds, and where they came from. `docs/archive.md`
describes it."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict, TypeGuard, cast

from beforehand.clock import parse_instant, to_us
from beforehand.config import in_a_probe
from beforehand.errors import Corrupt, InputError, NotConfigured
from beforehand.ids import digest
from beforehand.store.files import read_json, sync_folder, write_json

FORMAT = "beforehand-archive/1"
ASIDE = ".beside-the-probe"
"""Ends the name of an archive while a probe has another world at its path."""
Segment = TypedDict(
    "Segment",
    {
        "kind": str,
        "digest": str,
        "file_digest": str,
        "records": int,
        "recorded_at": str,
        "import": str,
        "markets": NotRequired[list[str]],
        "pack": NotRequired["Pack"],
    },
)
"""Records of one kind: the digests of their lines and of the file that holds them, how many there
are, when they were stored, and by which import. Where an import was cut by market, `markets` are
the first and the last one that it may hold. Where the file holds others as well, `pack` says where
in it these are."""


class Pack(TypedDict):
    """A file of several segments: the digest of its content, and where a segment lies in it, in
    bytes before packing."""

    digest: str
    start: int
    size: int


class Coverage(TypedDict):
    """What a dump covers of a venue: its first and last row, and the times of at least `gap_s`
    seconds without one (each as begin and end)."""

    venue: str
    first: str | None
    last: str | None
    gap_s: float
    gaps: list[list[str]]


class ImportEntry(TypedDict):
    """One import: its name in the archive, what it read, how many records of each kind were new,
    under which licence they came (SPDX), where that was stated, and what a dump covers."""

    name: str
    importer: str
    source: str
    source_digest: str
    recorded_at: str
    new: dict[str, int]
    rejected: int
    rejects_digest: NotRequired[str]
    licence: NotRequired[str]
    coverage: NotRequired[list[Coverage]]


class ArchiveManifest(TypedDict):
    """`archive.json`; the seal is added when it is written."""

    format: str
    segments: list[Segment]
    imports: list[ImportEntry]
    seal: NotRequired[str]


def empty_manifest() -> ArchiveManifest:
    """The manifest of an archive that holds nothing yet."""
    return {"format": FORMAT, "segments": [], "imports": []}


def need_manifest(path: Path) -> ArchiveManifest:
    """The manifest of an archive; raises NotConfigured where there is none."""
    refuse_aside(path)
    if not (path / "archive.json").is_file():
        others = sorted(str(p.parent) for p in path.parent.glob("*/archive.json"))[:3]
        if others:
            raise NotConfigured(
                f"there is no archive at {path}: name one with --archive, such as {others[0]}, or "
                "make one with `beforehand world simulate`"
            )
        raise NotConfigured(
            f"there is no archive at {path}: make one with `beforehand world simulate` or "
            "`beforehand world import markets FILE`, or name one with --archive"
        )
    found = read_manifest(path)
    refuse_aside(path)  # Again: a probe may have begun in between.
    return found


def refuse_aside(path: Path) -> None:
    """Raises NotConfigured while a probe has another world at an archive's path."""
    if (aside := path.with_name(path.name + ASIDE)).is_dir() and not in_a_probe():
        raise NotConfigured(
            f"a probe is at work here, or was interrupted, and the archive is at {aside}: if none "
            f"is at work, `beforehand backtest probe market --archive {path}` puts it back"
        )


def digest_of(segments: Iterable[Segment]) -> str:
    """Identity of a content: SHA-256 over its segments' digests."""
    return digest([segment["digest"] for segment in segments])


def counts_of(segments: Iterable[Segment]) -> dict[str, int]:
    """Records per kind."""
    totals = Counter[str]()
    for segment in segments:
        totals[segment["kind"]] += segment["records"]
    return dict(sorted(totals.items()))


def coverage_of(manifest: ArchiveManifest) -> list[Coverage]:
    """What the dumps in an archive cover, each with its gaps."""
    return [one for entry in manifest["imports"] for one in entry.get("coverage", ())]


def gaps_of(manifest: ArchiveManifest) -> list[tuple[str, int, int]]:
    """The times that no dump of a venue covers, between those that one does: the venue, begin and
    end in microseconds, in order. What one dump lacks, another may have."""
    spans, least = defaultdict[str, list[tuple[int, int]]](list), dict[str, float]()
    for one in coverage_of(manifest):
        if one["first"] is None or one["last"] is None:
            continue
        edges = [one["first"], *(at for gap in one["gaps"] for at in gap), one["last"]]
        at = [to_us(parse_instant(edge)) for edge in edges]
        spans[one["venue"]] += zip(at[::2], at[1::2], strict=True)
        least[one["venue"]] = min(least.get(one["venue"], math.inf), one["gap_s"] * 1e6)
    found = list[tuple[str, int, int]]()
    for venue, parts in sorted(spans.items()):
        reached = min(parts)[1]
        for begin, end in sorted(parts):
            if begin - reached >= least[venue]:
                found.append((venue, reached, begin))
            reached = max(reached, end)
    return found


def licences_of(manifest: ArchiveManifest) -> list[str]:
    """The licences of what an archive holds, in order; "not stated" where an import states none."""
    imports = [entry for entry in manifest["imports"] if entry["new"]]
    return sorted({entry.get("licence", "not stated") for entry in imports})


def seal_of(manifest: ArchiveManifest) -> str:
    """The digest that shows whether a manifest was changed by hand."""
    return digest(
        {
            "format": manifest["format"],
            "segments": manifest["segments"],
            "imports": manifest["imports"],
        }
    )


def stored_at(path: Path, importer: str, source_digest: str) -> datetime | None:
    """When a file of this digest was first imported; None if it never was."""
    if not (path / "archive.json").is_file():
        return None
    for entry in read_manifest(path)["imports"]:
        if (entry["importer"], entry["source_digest"]) == (importer, source_digest):
            return parse_instant(entry["recorded_at"])
    return None


def read_manifest(path: Path) -> ArchiveManifest:
    """The manifest of an archive. Raises Corrupt where it does not match its own seal, InputError
    where another version wrote it."""
    try:
        manifest = read_json(path / "archive.json")
    except InputError as error:
        raise Corrupt(str(error)) from None
    return checked_manifest(manifest, str(path / "archive.json"))


def checked_manifest(manifest: object, name: str) -> ArchiveManifest:
    """The manifest that was read from the file `name`; raises as `read_manifest` does."""
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if isinstance(found, str) and found.startswith("beforehand-archive/") and found != FORMAT:
        raise InputError(
            f"{name} is that of an archive of the form {found}, and this beforehand reads "
            f"{FORMAT}: import its sources into a new archive, or use the beforehand that wrote it"
        )
    if not _is_manifest(manifest):
        raise Corrupt(f"{name} is not a {FORMAT} manifest")
    try:
        intact = manifest["seal"] == seal_of(manifest)
    except KeyError:
        intact = False
    if not intact:
        raise Corrupt(f"{name} does not match its own seal: it was changed by hand")
    return manifest


def _is_manifest(found: object) -> TypeGuard[ArchiveManifest]:
    """True for a manifest: its lists hold what they should. Whether it was changed by hand, its
    seal shows."""
    if not (isinstance(found, dict) and found.get("format") == FORMAT):
        return False
    lists = found.get("segments"), found.get("imports")
    if not all(isinstance(each, list) for each in lists):
        return False
    segments, imports = cast("tuple[list[object], list[object]]", lists)
    return all(map(_is_segment, segments)) and all(map(_is_import, imports))


def _is_segment(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    texts = [found.get(name) for name in ("kind", "recorded_at", "import")]
    digests = [found.get(name) for name in ("digest", "file_digest")]
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(one, str) and _DIGEST.fullmatch(one) for one in digests)
        and type(found.get("records")) is int
        and _is_range(found.get("markets", ["", ""]))
        and ("pack" not in found or _is_pack(found["pack"]))
    )


def _is_range(found: object) -> bool:
    if not isinstance(found, list) or len(found) != 2:
        return False
    return all(isinstance(market, str) for market in found)


def _is_pack(found: object) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("digest"), str):
        return False
    start, size = found.get("start"), found.get("size")
    whole = type(start) is int and type(size) is int and start >= 0 and size >= 0
    return whole and _DIGEST.fullmatch(found["digest"]) is not None


def _is_import(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    texts = [found.get(name) for name in ("name", "importer", "source", "recorded_at")]
    new = found.get("new")
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(new, dict)
        and all(type(n) is int for n in new.values())
        and type(found.get("rejected")) is int
    )


_DIGEST = re.compile(r"[0-9a-f]{64}")


def write_manifest(path: Path, manifest: ArchiveManifest) -> None:
    """Seal the manifest and replace the file atomically, once the segments' own names are safe."""
    if (path / "segments").is_dir():
        sync_folder(path / "segments")
    write_json(path / "archive.json", {**manifest, "seal": seal_of(manifest)})
