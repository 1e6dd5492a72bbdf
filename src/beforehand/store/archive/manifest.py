"""The archive's manifest: which segments it holds, and where they came from. `docs/archive.md`
describes it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.clock import parse_instant
from beforehand.errors import Corrupt, InputError, NotConfigured
from beforehand.ids import digest
from beforehand.store.files import read_json, write_json

FORMAT = "beforehand-archive/1"


def empty_manifest() -> dict[str, Any]:
    """The manifest of an archive that holds nothing yet."""
    return {"format": FORMAT, "segments": [], "imports": []}


def need_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an archive; raises NotConfigured where there is none."""
    if not (path / "archive.json").is_file():
        raise NotConfigured(
            f"there is no archive at {path}: make one with `beforehand world simulate` or "
            "`beforehand world import markets FILE`, or name one with --archive"
        )
    return read_manifest(path)


def digest_of(segments: Iterable[Mapping[str, Any]]) -> str:
    """Identity of a content: SHA-256 over its segments' digests."""
    return digest([segment["digest"] for segment in segments])


def counts_of(segments: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Records per kind."""
    totals = Counter[str]()
    for segment in segments:
        totals[segment["kind"]] += segment["records"]
    return dict(sorted(totals.items()))


def seal_of(manifest: Mapping[str, Any]) -> str:
    """The digest by which a manifest shows that nobody changed it by hand."""
    return digest({key: manifest[key] for key in ("format", "segments", "imports")})


def stored_at(path: Path, importer: str, source_digest: str) -> datetime | None:
    """When a file of this digest was first imported; None if it never was."""
    if not (path / "archive.json").is_file():
        return None
    for entry in read_manifest(path)["imports"]:
        if (entry["importer"], entry["source_digest"]) == (importer, source_digest):
            return parse_instant(entry["recorded_at"])
    return None


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an archive; raises Corrupt where it does not match its own seal."""
    try:
        manifest = read_json(path / "archive.json")
    except InputError as error:
        raise Corrupt(str(error)) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Corrupt(f"{path / 'archive.json'} is not a {FORMAT} manifest")
    try:
        intact = manifest["seal"] == seal_of(manifest)
    except KeyError:
        intact = False
    if not intact:
        raise Corrupt(
            f"{path / 'archive.json'} does not match its own seal: it was changed by hand"
        )
    return manifest


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Seal the manifest and replace the file atomically."""
    write_json(path / "archive.json", {**manifest, "seal": seal_of(manifest)})
