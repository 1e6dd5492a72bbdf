"""The bytes that commands write and print, held against those that were accepted before.

    make golden          says which files changed, and how
    make golden-accept   takes what is written now

Each command is run in order in one home, its clock standing still a minute after that of the one
before. What it prints and every file that it writes is compared by its digest (digests.json; without
databases and locks, and without how long things took). The accepted bytes of the simulated world lie in accepted/; those over recorded
markets, whose texts are not ours to keep, in .cache/golden of whoever ran this before.
"""

import argparse
import csv
import difflib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), *(str(HERE.parent / f) for f in ("chaos", "servers"))]

import duckdb  # noqa: E402
from commands import REAL, SIMULATED, Command  # noqa: E402

from program import run_program  # noqa: E402

DIGESTS, ACCEPTED = HERE / "digests.json", HERE / "accepted"
STORE = HERE.parents[1] / ".cache" / "golden"
MOST_KEPT = 64_000
"""A larger file of the simulated world is not kept in the repository: its digest is."""
MOST_LINES = 40
MOST_COMPARED = 1_000_000
"""Of larger files the sizes are told alone: a difference of theirs takes longer than the commands."""
FROZEN = """
import sys, time_machine
from beforehand.cli.app import run
with time_machine.travel(sys.argv[1], tick=False):
    sys.exit(run(sys.argv[2:]))
"""
LEFT_OUT = re.compile(r"\.(db|sqlite|lock|pid)(-\w+)?$|(^|/)\.|/engine/")
"""Databases and locks: the journal's bytes depend on the order in which calls end."""


@dataclass
class Written:
    """What the commands of one world wrote: name of the command, name of the file, bytes."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def digests(self) -> dict[str, dict[str, str]]:
        return {c: {n: _digest(raw) for n, raw in sorted(f.items())} for c, f in self.files.items()}


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def carry_out(world: str, commands: Sequence[Command], home: Path) -> Written:
    """Run them in this home. Raises RuntimeError where one ends otherwise than it should."""
    written = Written()
    seen = _state(home)
    for number, command in enumerate(commands):
        if command.before is not None:
            command.before(home)
            seen = _state(home)
        at = f"2026-11-01T{number // 60:02d}:{number % 60:02d}:00Z"
        t0 = __import__("time").time()
        done = run_program(
            [sys.executable, "-c", FROZEN, at, *command.arguments],
            cwd=home, env=_environment(home), capture_output=True,
        )  # fmt: skip
        if os.environ.get("GT"):
            print(command.name, round(__import__("time").time() - t0, 2), flush=True)
        if done.returncode != command.code:
            raise RuntimeError(
                f"{world}: {command.name} ended with {done.returncode}: {done.stderr.decode()}"
            )
        files = {"stdout": done.stdout, "stderr": done.stderr}
        now = _state(home)
        files |= {name: (home / name).read_bytes() for name in now if now[name] != seen.get(name)}
        written.files[f"{world}/{command.name}"] = {
            name: comparable(name, home / name, raw).replace(str(home).encode(), b"HOME")
            for name, raw in files.items()
            if raw
        }
        seen = now
    return written


TOOK = re.compile(rb'("\w*(?:duration|latency)\w*": ?)[\d.e+-]+')


PROGRESS = re.compile(rb"(?m)^[\w -]+: [^\n]*\d of [\d,]+\n")


def comparable(name: str, path: Path, raw: bytes) -> bytes:
    """The bytes without what took how long, the one thing that no clock holds still; of a Parquet
    file, what is read in it."""
    if name.endswith(".parquet"):
        table = duckdb.sql(f"SELECT * EXCLUDE latency_ms FROM '{path}'")
        types = ", ".join(f"{c} {t}" for c, t in zip(table.columns, table.types, strict=True))
        return "\n".join([types, *map(str, table.fetchall())]).encode()
    if name.endswith(".csv") and b"latency_ms" in raw.partition(b"\n")[0]:
        rows = list(csv.reader(io.StringIO(raw.decode(), newline="")))
        at = rows[0].index("latency_ms")
        return "\n".join(",".join(row[:at] + row[at + 1 :]) for row in rows).encode()
    if name == "stderr":  # How far a command is, it says when that takes a while.
        raw = PROGRESS.sub(b"", raw)
    return TOOK.sub(rb"\g<1>0", raw)


def _environment(home: Path) -> dict[str, str]:
    left = ("BEFOREHAND_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left)}
    return {**kept, "BEFOREHAND_HOME": str(home), "COLUMNS": "120"}


def _state(home: Path) -> dict[str, tuple[int, int]]:
    """The files of a home with their size and time of change."""
    found = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if path.is_file() and not path.is_symlink() and not LEFT_OUT.search(name):
            found[name] = (path.stat().st_size, path.stat().st_mtime_ns)
    return found


def differences(
    accepted: Mapping[str, Mapping[str, str]], written: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str, str]]:
    """(command, file, what happened to it) of every file whose bytes are others."""
    found = []
    for command in sorted({*accepted, *written}):
        old, new = accepted.get(command, {}), written.get(command, {})
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                what = (
                    "changed" if name in old and name in new else "new" if name in new else "gone"
                )
                found.append((command, name, what))
    return found


def shown(old: bytes | None, new: bytes) -> list[str]:
    """The lines that differ, for people."""
    if old is None:
        return [
            "    (the accepted bytes are not here: accept them once before you change the code)"
        ]
    sizes = f"    {len(old):,} bytes before, {len(new):,} now"
    if max(len(old), len(new)) > MOST_COMPARED:
        return [sizes]
    try:
        texts = [raw.decode().replace(",", ",\n").splitlines() for raw in (old, new)]
    except UnicodeDecodeError:
        return [sizes]
    lines = [f"    {line[:160]}" for line in difflib.unified_diff(*texts, lineterm="", n=0)][2:]
    more = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"    … {more:,} more lines"] if more > 0 else [])


def accepted_bytes(command: str, name: str, digest: str) -> bytes | None:
    for path in (ACCEPTED / command / name, STORE / digest):
        if path.is_file() and _digest(path.read_bytes()) == digest:
            return path.read_bytes()
    return None


def accept(written: Written) -> None:
    """Take these bytes as the accepted ones."""
    digests = json.loads(DIGESTS.read_text()) if DIGESTS.is_file() else {}
    worlds = {command.partition("/")[0] for command in written.files}
    digests = {c: f for c, f in digests.items() if c.partition("/")[0] not in worlds}
    DIGESTS.write_text(json.dumps(digests | written.digests(), indent=1, sort_keys=True) + "\n")
    for world in worlds - {"real"}:
        shutil.rmtree(ACCEPTED / world, ignore_errors=True)
    for command, files in written.files.items():
        for name, raw in files.items():
            text = not name.endswith((".npy", ".gz"))
            if text and not command.startswith("real/") and len(raw) <= MOST_KEPT:
                path = ACCEPTED / command / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(raw)


def store(written: Written) -> None:
    """Keep what was written, under its digest, so that a later difference can be shown."""
    STORE.mkdir(parents=True, exist_ok=True)
    for files in written.files.values():
        for raw in files.values():
            path = STORE / _digest(raw)
            if not path.is_file():
                path.write_bytes(raw)


def everything(worlds: Sequence[str]) -> Written:
    """All commands over these worlds."""
    makers: Mapping[str, tuple[Sequence[Command], Callable[[ExitStack], None]]]
    makers = {"simulated": SIMULATED, "real": REAL}
    whole = Written()
    for world in worlds:
        commands, beside = makers[world]
        with ExitStack() as stack:
            beside(stack)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="golden-"))
            whole.files |= carry_out(world, commands, Path(folder).resolve()).files
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accept", action="store_true", help="take what is written now")
    parser.add_argument("--world", choices=("simulated", "real"), help="only one of the worlds")
    asked = parser.parse_args()
    worlds = [asked.world] if asked.world else ["simulated", "real"]
    if "real" in worlds and not os.environ.get("BEFOREHAND_DATA"):
        print("golden: BEFOREHAND_DATA names no folder: the real markets are left out")
        worlds.remove("real")
    written = everything(worlds)
    kept = json.loads(DIGESTS.read_text()) if DIGESTS.is_file() else {}
    kept = {c: f for c, f in kept.items() if c.partition("/")[0] in worlds}
    found = differences(kept, written.digests())
    for command, name, what in found:
        print(f"{command}: {name} is {what}" if what != "changed" else f"{command}: {name}")
        if what == "changed":
            old = accepted_bytes(command, name, kept[command][name])
            print("\n".join(shown(old, written.files[command][name])))
    files = sum(map(len, written.files.values()))
    print(f"golden: {len(found):,} of {files:,} files of {len(written.files)} commands changed")
    if asked.accept:
        accept(written)
        print("golden: accepted" if found else "golden: nothing to accept")
    if asked.accept or not found:
        store(written)
    return 0 if asked.accept or not found else 1


if __name__ == "__main__":
    sys.exit(main())
