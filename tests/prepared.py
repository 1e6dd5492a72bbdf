"""Folders that tests start from: made once, by whoever needs them first, and kept between runs.

They lie in .cache/tests, under a digest of all that makes them (the package, the helpers of the
tests, the locked requirements): a change makes them anew. Tests get copies, or read them in place.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from beforehand.clock import parse_instant
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig
from program import COMMAND, run_program

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".cache" / "tests"
KEPT = 3
"""Folders of so many versions of the code are kept."""


@cache
def digest() -> str:
    """Of what makes the folders."""
    made = hashlib.sha256(sys.version.encode())
    files = [
        *(ROOT / "src").rglob("*.py"),
        *ROOT.glob("tests/[!t]*.py"),
        ROOT / "requirements.lock",
    ]
    files += [ROOT / "tests" / "servers" / "serving.py", ROOT / "tests" / "chaos" / "provider.py"]
    for path in sorted(files):
        made.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    made.update(os.environ.get("BEFOREHAND_DATA", "").encode())
    return made.hexdigest()[:16]


def prepared(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name, made by `make` where it is not there or was changed. Not to be
    written to: `copy` it first."""
    place = PLACE / digest()
    place.mkdir(parents=True, exist_ok=True)
    folder, listed = place / name, place / f"{name}.files"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not listed.is_file() or json.loads(listed.read_text()) != _files(folder):
            shutil.rmtree(folder, ignore_errors=True)
            listed.unlink(missing_ok=True)
            folder.mkdir()
            make(folder)
            listed.write_text(json.dumps(_files(folder)))
            _forget()
    os.utime(place)
    return folder


def simulated_archive(dates: int = 14) -> Path:
    """A small simulated world, in which markets end on so many dates."""

    def make(folder: Path) -> None:
        ArchiveWriter(folder / "archive").add(
            records(SimConfig(seed=3, dates=dates)),
            importer="simulate",
            source="test",
            source_digest="test",
            recorded_at=parse_instant("2026-11-01T00:00:00Z"),
        )

    return prepared(f"sim{dates}", make) / "archive"


def real_archive(data: Path) -> Path:
    """Recorded markets and documents."""

    def make(folder: Path) -> None:
        for kind, files in (
            (
                "markets",
                [data / "forecastbench" / f"markets_{k}.jsonl" for k in ("resolved", "open")],
            ),
            ("documents", sorted((data / "evidence").glob("*/*.jsonl.gz"))),
        ):
            order = [
                "world",
                "import",
                kind,
                *map(str, files),
                "--archive",
                str(folder / "archive"),
            ]
            run_program([*COMMAND, *order], check=True, capture_output=True)

    return prepared("real", make) / "archive"


def copy(folder: Path, to: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(folder, to, symlinks=True, dirs_exist_ok=True)
    return to


def _files(folder: Path) -> dict[str, list[int]]:
    """Every file's size and time of change: a test that wrote to the shared folder is noticed."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and path.suffix != ".lock":
            stat = path.stat()
            found[str(path.relative_to(folder))] = [stat.st_size, stat.st_mtime_ns]
    return found


def _forget() -> None:
    """Remove what older code made."""
    places = sorted(PLACE.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for place in places[KEPT:]:
        shutil.rmtree(place, ignore_errors=True)
