"""The arms of a probe: two worlds that stand at one path, one after the other, and what a
forecaster says in each.

Where this machine allows it, an arm mounts its world over the archive's usual path in a namespace
of its own: the archive itself is never touched, folders that a forecaster may write to are copied
on write, and other runs, the journal and recorded data are hidden. Elsewhere the worlds are swapped
at that path by renaming, and the archive comes back at the end, also after a crash.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

from beforehand.clock import from_us, stopwatch
from beforehand.config import Home
from beforehand.errors import ExecutionFailed, InputError, Unavailable
from beforehand.forecast.process import Nursery, own_environment
from beforehand.gateway.search import Grade
from beforehand.jobs.probe.arm import Hiding, Order
from beforehand.records.record import Record
from beforehand.records.rows import Context
from beforehand.store.archive.manifest import ASIDE
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.files import exclusive, is_alive

STORED_AT = 1_700_000_000
"""The time of change of every file of every world."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
LEFT = "beforehand-probe-of-"
PATIENCE_S = 30.0
Answer = tuple[float | None, str | None]
"""A probability, or why there is none."""


@dataclass(frozen=True)
class Subject:
    """The forecaster that is probed: its entry; its name; a copy of it (base64) where no other
    process can import it; the folder of its file, if it has one."""

    entry: str
    name: str
    pickled: str | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Place:
    """Where the arms run: the archive's path, the home, the text grade, the most documents that a
    context shows, and the seconds that one arm may take."""

    archive: Path
    home: Home
    grade: Grade
    max_results: int
    timeout: float


class Arms:
    """Runs arms. Safe for threads where worlds are mounted; where they are swapped, one arm runs at
    a time."""

    def __init__(self, subject: Subject, place: Place, mounts: bool | None = None) -> None:
        """With `mounts` None they are used where they work."""
        self._subject, self._place = subject, place
        _remove_leftovers()
        self._work = Path(tempfile.mkdtemp(prefix=f"{LEFT}{os.getpid()}-"))
        self._swapping = threading.Lock()
        self._idle, self._begun = list[Nursery](), list[Nursery]()
        self.files: dict[str, None] = {}
        self.mounts = mounts is not False
        self._sure = mounts is True

    def close(self) -> None:
        """Remove what was made."""
        for one in self._begun:
            one.close()
        restore(self._place.archive)
        shutil.rmtree(self._work, ignore_errors=True)

    def world(self, name: str, *parts: Iterable[Record]) -> Path:
        """Store a world of these records, imported part by part; every file has the same time of
        change."""
        path = self._work / name
        shutil.rmtree(path, ignore_errors=True)
        for number, records in enumerate(parts):
            ArchiveWriter(path).add(
                records,
                importer="probe",
                source="probe",
                source_digest=f"probe {number}",
                recorded_at=_stored_at(),
            )
        (path / "archive.lock").unlink(missing_ok=True)
        for folder, _, files in os.walk(path, topdown=False):
            for file in files:
                os.utime(Path(folder) / file, (STORED_AT, STORED_AT))
            os.utime(folder, (STORED_AT, STORED_AT))
        return path

    def forget(self, world: Path) -> None:
        """Remove a stored world."""
        shutil.rmtree(world, ignore_errors=True)

    def ask(self, world: Path, contexts: Sequence[Context], now: str) -> list[Answer]:
        """What the forecaster says to each context, begun anew in a process of its own, with this
        world in the archive's place. Raises ExecutionFailed where the process does not end well,
        InputError where the forecaster cannot be opened in it."""
        if self.mounts:
            reply = self._mounted(world, contexts, now)
            if "hidden" not in reply:
                self._sure = True
                return self._answers(reply)
            if self._sure:
                raise ExecutionFailed(f"an arm could not mount its world: {reply['error']}")
            self.mounts = False
        with self._swapping, self._swapped(world), self._empty() as (folder, environment):
            order = self._order(contexts, now, None, folder, environment)
            return self._answers(self._run(order))

    def _mounted(self, world: Path, contexts: Sequence[Context], now: str) -> Mapping[str, object]:
        with tempfile.TemporaryDirectory(dir=self._work) as scratch:
            hiding: Hiding = {
                "archive": str(world),
                "copied": self._copied(),
                "hidden": self._hidden(),
                "scratch": scratch,
            }
            return self._run(self._order(contexts, now, hiding, Path.cwd(), {}))

    def _order(
        self,
        contexts: Sequence[Context],
        now: str,
        hiding: Hiding | None,
        folder: Path,
        environment: dict[str, str],
    ) -> Order:
        return {
            "folder": str(folder),
            "environment": environment,
            "entry": self._subject.entry,
            "pickled": self._subject.pickled,
            "name": self._subject.name,
            "archive": str(self._place.archive),
            "grade": self._place.grade,
            "now": now,
            "contexts": [context.wire() for context in contexts],
            "max_results": self._place.max_results,
            "path": [str(Path(part or ".").resolve()) for part in sys.path],
            "hiding": hiding,
            "home": str(self._place.home.root),
        }

    def _run(self, order: Order) -> Mapping[str, object]:
        try:
            one = self._idle.pop()
        except IndexError:
            one = Nursery("beforehand.jobs.probe.arm", self._environment())
            self._begun.append(one)
        found = one.ask(orjson.dumps(order), self._place.timeout, self._subject.name)
        self._idle.append(one)  # One that failed is not asked again.
        reply: Mapping[str, object] = orjson.loads(found)
        return reply

    def _answers(self, reply: Mapping[str, object]) -> list[Answer]:
        if "error" in reply:
            raise InputError(str(reply["error"]))
        found, files = reply["answers"], reply["files"]
        assert isinstance(found, list)
        assert isinstance(files, list)
        own = [path for path in files if not Path(path).is_relative_to(self._work)]
        self.files.update(dict.fromkeys(own))
        return [(p, error) for p, error in found]

    def _environment(self) -> dict[str, str]:
        """The same variables for every arm: one thread, no chance in hashes, no recorded data."""
        found = own_environment()
        found.pop("BEFOREHAND_DATA", None)
        found |= dict.fromkeys(ONE_THREAD, "1")
        found |= {"PYTHONHASHSEED": "0", "BEFOREHAND_HOME": str(self._place.home.root)}
        found["BEFOREHAND_PROBE"] = "1"
        return {**found, "PYTHONDONTWRITEBYTECODE": "1"}

    def _copied(self) -> list[str]:
        """The folders that a forecaster may write to: each arm finds them as they were."""
        wanted = [Path.cwd(), Path.home(), Path(tempfile.gettempdir()), Path("/var/tmp")]
        wanted += [self._place.home.root, self._place.archive.parent]
        if self._subject.folder is not None:
            wanted.append(self._subject.folder)
        found = sorted({path.resolve() for path in wanted if path.is_dir()})
        found = [path for path in found if path != Path("/")]
        outer = [p for p in found if not any(p != o and p.is_relative_to(o) for o in found)]
        return [str(path) for path in outer]

    def _hidden(self) -> list[str]:
        """Other runs, the journal, recorded data, and the worlds of other arms."""
        home = self._place.home
        data = own_environment().get("BEFOREHAND_DATA")
        wanted = [home.root / "data", home.workspace, self._work]
        wanted += [Path(data)] if data else []
        folders = [path.resolve() for path in wanted if path.is_dir()]
        mine = self._subject.folder
        return [str(f) for f in folders if mine is None or not mine.is_relative_to(f)]

    @contextmanager
    def _empty(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """An empty folder to work in, at the same path each time, with its own home and scratch."""
        root = self._work / "empty"
        shutil.rmtree(root, ignore_errors=True)
        for part in ("work", "home", "tmp"):
            (root / part).mkdir(parents=True)
        own = {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
        yield root / "work", own

    @contextmanager
    def _swapped(self, world: Path) -> Iterator[None]:
        """The world at the archive's path; the archive is back at the end."""
        path = self._place.archive
        aside = path.with_name(path.name + ASIDE)
        with _unwritten(path):
            os.rename(path, aside)
        try:
            os.symlink(world, path)
            yield
        finally:
            restore(path)


@contextmanager
def _unwritten(archive: Path) -> Iterator[None]:
    """Wait until nobody writes to an archive, and let nobody begin."""
    end = stopwatch() + PATIENCE_S
    while True:
        try:
            with exclusive(archive / "archive.lock"):
                yield
                return
        except Unavailable:
            if stopwatch() > end:
                raise
            time.sleep(0.01)


def _remove_leftovers() -> None:
    """Remove the worlds of probes that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{LEFT}*-*"):
        number = path.name.removeprefix(LEFT).partition("-")[0]
        if number.isdecimal() and path.is_dir() and not is_alive(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _stored_at() -> datetime:
    return from_us(STORED_AT * 1_000_000)


def restore(archive: Path) -> None:
    """Put an archive back that an interrupted probe left aside."""
    aside = archive.with_name(archive.name + ASIDE)
    if aside.exists():
        if archive.is_symlink():
            archive.unlink()
        os.rename(aside, archive)
