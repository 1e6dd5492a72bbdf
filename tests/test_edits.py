"""Random edits of an archive and of a finished run, with and without the digests redone: each is
found by a digest, found by a rule, or is a consistent forgery that only an outside anchor can tell.

`make chaos` makes a thousand; here it is a sample."""

import gzip
import hashlib
import json
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beforehand.config import Home, Workspace
from beforehand.errors import BeforehandError
from beforehand.runs.query import need_journal
from beforehand.runs.verify import verify
from beforehand.store.archive.manifest import read_manifest, write_manifest
from beforehand.store.archive.reader import Archive
from beforehand.store.files import file_digest
from beforehand.store.run_folder import RunFolder
from experiments import Out, told
from fuzzing import bitten, mutated
from proofs import count

EDITS = count("edits of what was stored, of each kind", 25, 250)


def changed(rng: np.random.Generator, data: bytes) -> bytes:
    """Other bytes."""
    while (made := bitten(rng, data)) == data:
        pass
    return made


def archive_problems(path: Path) -> list[str]:
    try:
        return Archive(path).verify()
    except BeforehandError as error:
        return [str(error)]


def test_bytes_of_an_archive(sim: Path, tmp_path: Path) -> None:
    """Every one of them is found: nothing in an archive is without a digest."""
    rng = np.random.default_rng(0)
    path = tmp_path / "a"
    shutil.copytree(sim, path)
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix != ".lock")
    for _ in range(EDITS):
        file = files[int(rng.integers(0, len(files)))]
        whole = file.read_bytes()
        file.chmod(0o644)
        file.write_bytes(changed(rng, whole))
        assert archive_problems(path), file.name
        file.write_bytes(whole)
    assert archive_problems(path) == [], "the control: put back, it is whole"


def redo_archive(path: Path, rng: np.random.Generator) -> bool:
    """Change one record, and make every digest right again; False where nothing changed."""
    manifest = read_manifest(path)
    segment = manifest["segments"][int(rng.integers(0, len(manifest["segments"])))]
    kind = segment["kind"]
    file = path / "segments" / f"{kind}-{segment['digest']}.jsonl.gz"
    lines = gzip.decompress(file.read_bytes()).splitlines()
    place = int(rng.integers(0, len(lines)))
    made = json.dumps(mutated(rng, json.loads(lines[place]))).encode()
    if json.loads(made) == json.loads(lines[place]):
        return False
    lines[place] = made
    content = b"\n".join(lines) + b"\n"
    packed = gzip.compress(content, mtime=0)
    file.chmod(0o644)
    file.unlink()
    segment["digest"] = hashlib.sha256(content).hexdigest()
    segment["file_digest"] = hashlib.sha256(packed).hexdigest()
    (path / "segments" / f"{kind}-{segment['digest']}.jsonl.gz").write_bytes(packed)
    write_manifest(path, manifest)
    return True


def test_records_of_an_archive_with_digests_redone(sim: Path, tmp_path: Path) -> None:
    """Rules find what they speak of; each other one has another digest than was kept elsewhere."""
    rng = np.random.default_rng(1)
    anchor, counts = Archive(sim).digest, Counter[str]()
    for k in range(EDITS):
        path = tmp_path / str(k)
        shutil.copytree(sim, path)
        if not redo_archive(path, rng):
            counts["no change"] += 1
        elif archive_problems(path):
            counts["found by a rule"] += 1
        else:
            assert Archive(path).digest != anchor
            counts["a consistent forgery"] += 1
        shutil.rmtree(path)
    print(dict(counts))
    assert sum(counts.values()) == EDITS
    assert counts["found by a rule"] > EDITS / 3


@pytest.fixture
def finished(sim: Path, home: Path, capsys: Out) -> RunFolder:
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,drift"]
    told(capsys, *command, "--run-id", "r", "--every", "28d", "--placebo", "0", "--draws", "100")
    return RunFolder(Home(home).runs, "r")


def run_problems(folder: RunFolder, home: Path) -> list[str]:
    workspace = Workspace(Home(home))
    try:
        return [one.name for one in verify(folder, need_journal(workspace)) if one.wrong]
    except BeforehandError as error:
        return [str(error)]


def test_bytes_of_a_run(finished: RunFolder, home: Path) -> None:
    rng = np.random.default_rng(2)
    files = sorted(p for p in finished.path.rglob("*") if p.is_file())
    for _ in range(EDITS):
        file = files[int(rng.integers(0, len(files)))]
        whole = file.read_bytes()
        file.write_bytes(changed(rng, whole))
        assert run_problems(finished, home), file.name
        file.write_bytes(whole)
    assert run_problems(finished, home) == []


def redo_run(folder: RunFolder, rng: np.random.Generator, journal: Path | None) -> bool:
    """Change a value in a file of a run, and the digests in run.json; with a journal also the seal
    that it keeps, and the digests that its steps wrote down."""
    files = sorted(p for p in folder.path.glob("*.json*") if p.name not in ("run.json", "log.json"))
    file = files[int(rng.integers(0, len(files)))]
    packed, content = file.suffix == ".gz", file.read_bytes()
    content = gzip.decompress(content) if packed else content
    lines = content.splitlines() if ".jsonl" in file.suffixes else [content]
    if not lines:
        return False
    place = int(rng.integers(0, len(lines)))
    value = json.loads(lines[place])
    made = mutated(rng, value)
    if made == value:
        return False
    lines[place] = json.dumps(made).encode()
    before = file_digest(file)
    content = b"\n".join(lines) + b"\n"
    file.write_bytes(gzip.compress(content) if packed else content)
    facts: dict[str, Any] = json.loads((folder.path / "run.json").read_text())
    facts["files"][file.name] = file_digest(file)
    sealed = file_digest(folder.path / "run.json")
    (folder.path / "run.json").write_text(json.dumps(facts, indent=2))
    if journal is not None:
        redo_journal(
            journal, {before: file_digest(file), sealed: file_digest(folder.path / "run.json")}
        )
    return True


def redo_journal(journal: Path, digests: dict[str, str]) -> None:
    """Put other digests everywhere in the journal."""
    with sqlite3.connect(journal) as db:
        for table, column in (
            ("runs", "seal"),
            ("task_outputs", "output_data"),
        ):
            columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
            for old, new in digests.items() if column in columns else ():
                db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))
    db.close()


@pytest.mark.parametrize("thorough", [False, True])
def test_values_of_a_run_with_digests_redone(
    finished: RunFolder, home: Path, thorough: bool
) -> None:
    """Without the journal every one is found. With it, rows that contradict themselves or each
    other are; a forgery is told by the digest of run.json, kept elsewhere."""
    rng, journal = np.random.default_rng(3), Home(home).journal
    anchor, counts = file_digest(finished.path / "run.json"), Counter[str]()
    kept = home.parent / "kept"
    shutil.copytree(home, kept)
    for _ in range(EDITS):
        if not redo_run(finished, rng, journal if thorough else None):
            counts["no change"] += 1
        elif run_problems(finished, home):
            counts["found"] += 1
        else:
            assert thorough, "the journal keeps the digest of run.json"
            assert file_digest(finished.path / "run.json") != anchor
            counts["a consistent forgery"] += 1
        shutil.rmtree(home)
        shutil.copytree(kept, home)
    print(thorough, dict(counts))
    assert sum(counts.values()) == EDITS
    assert counts["found"] > EDITS / 3
