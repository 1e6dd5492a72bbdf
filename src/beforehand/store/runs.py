"""A run's folder, `data/runs/{run_id}/`, and the ledger of variants tried.

Every file is written whole by one writer; `run.json` lists them with their digests and is
written last. Wall-clock times go to `log.json` alone: two runs with one seed are the same bytes
but for the run id.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from beforehand.errors import InputError, NotFound
from beforehand.ids import check_segment
from beforehand.store.files import exclusive, file_digest, read_json, write_atomic, write_json

LOG = "log.json"


class RunFolder:
    """One run's files."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.run_id = check_segment(run_id)
        self.path = root / run_id

    def create(self) -> None:
        """Claim the folder; raises InputError if the run exists already."""
        try:
            self.path.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            raise InputError(
                f"run {self.run_id!r} exists already at {self.path}: choose another --run-id"
            ) from None

    def seal(self, facts: dict[str, Any]) -> None:
        """Write `run.json`: the facts, and the digest of every other file but the log."""
        files = {
            path.relative_to(self.path).as_posix(): file_digest(path)
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.name not in ("run.json", LOG)
        }
        write_json(self.path / "run.json", {"run_id": self.run_id, **facts, "files": files})

    def facts(self) -> dict[str, Any]:
        """`run.json`, or a note that the run did not finish."""
        sealed = self.path / "run.json"
        if not sealed.is_file():
            return {"run_id": self.run_id, "status": "unfinished"}
        return dict(read_json(sealed))


def list_runs(root: Path) -> list[RunFolder]:
    """Every run, newest id first."""
    names = [p.name for p in root.iterdir() if p.is_dir()] if root.is_dir() else []
    return [RunFolder(root, name) for name in sorted(names, reverse=True)]


def open_run(root: Path, run_id: str) -> RunFolder:
    """An existing run; raises NotFound naming what there is."""
    folder = RunFolder(root, run_id)
    if not folder.path.is_dir():
        known = [run.run_id for run in list_runs(root)[:5]]
        hint = f"the latest are {', '.join(known)}" if known else "there are none yet"
        raise NotFound(f"no run {run_id!r} in {root}: {hint}")
    return folder


def tried(ledger: Path, set_digest: str) -> set[str]:
    """Fingerprints of every forecaster ever scored on this set of markets."""
    if not ledger.is_file():
        return set()
    rows = [orjson.loads(line) for line in ledger.read_bytes().splitlines() if line.endswith(b"}")]
    return {row["variant"] for row in rows if row["set"] == set_digest}


def note_trials(ledger: Path, set_digest: str, variants: Iterable[str]) -> int:
    """Add what was not there; returns how many variants this set has now seen."""
    with exclusive(ledger.with_suffix(".lock")):
        before = tried(ledger, set_digest)
        new = sorted(set(variants) - before)
        if new:
            old = ledger.read_bytes() if ledger.is_file() else b""
            lines = [orjson.dumps({"set": set_digest, "variant": v}) + b"\n" for v in new]
            write_atomic(ledger, old + b"".join(lines))
        return len(before) + len(new)
