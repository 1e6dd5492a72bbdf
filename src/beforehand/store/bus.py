"""The file bus: agents talk through files, `workspace/agents/{agent}/{out,logs,meta.json}`.

Any number of processes and threads may write. An id is claimed by creating `out/.{id}.claim`, which
only one of them can and which stays, so no id is used twice, also after a crash (which leaves a
gap). Files appear whole or not at all: they are fsynced before they get their name. `meta.json` is
made anew from the rest by whoever finds that it lags behind.
"""

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from beforehand.clock import Clock, SystemClock, iso
from beforehand.errors import InputError, NotFound, Unavailable
from beforehand.ids import check_segment, is_segment
from beforehand.records.bus import Manifest as ManifestRecord
from beforehand.records.bus import OutputEnvelope, RunLog
from beforehand.records.record import Record
from beforehand.store.files import (
    is_alive,
    json_bytes,
    put,
    read_json,
    temporary_name,
    write_durable,
)

R = TypeVar("R", bound=Record)
META, LOCK, TURN = "meta.json", ".lock", ".turn"
CHANGING, UNCHANGED = b"1", b"0"
COUNTS = 512
"""How many bytes of the lock file hold the mark and the counts."""
_OUTPUT, _CLAIM = re.compile(r"(\d{6,})\.json"), re.compile(r"\.(\d{6,})\.claim")
_RUN = re.compile(r"(\d{8}_\d{6})(?:_(\d+))?")


def output_name(number: int) -> str:
    """`000001.json`."""
    return f"{number:06d}.json"


class Manifest:
    """The manifest of an agent's folder, as documented: `increment()` gives the next id of an
    output, which nobody else gets.

    The counts stand in the lock file, where changing them costs no new file; `meta.json` is written
    from them by one process at a time, which writes once more where others changed them meanwhile.
    """

    def __init__(self, agent_workspace: Path, clock: Clock | None = None) -> None:
        self.path = agent_workspace / META
        self._folder, self._clock = agent_workspace, clock or SystemClock()
        self._lock, self._out = str(agent_workspace / LOCK), str(agent_workspace / "out")
        self._turn = str(agent_workspace / TURN)

    def increment(self, publish: bool = True) -> int:
        """Claim the next id. Without `publish` the next change shows it in `meta.json`. Raises
        Unavailable where the folder cannot be written."""
        with _mapped(self._folder):
            with self._changing() as counts:
                while not _linked(self._lock, f"{self._out}/.{counts.next_id:06d}.claim"):
                    counts.next_id += 1
                number = counts.next_id
                counts.next_id += 1
            if publish:
                self._publish()
        return number

    def add_log(self, path: Path, data: bytes, claim: str | None = None) -> None:
        """Write the log of a run and count it, both or neither. A claim that is the caller's alone
        becomes the log; without one it is written under a name of its own."""
        written = claim or str(temporary_name(path))
        with _mapped(self._folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_durable(written, data)
                with self._changing() as counts:
                    counts.total_runs += not path.exists()
                    os.rename(written, path)
                self._publish()
            except BaseException:
                if claim is None:
                    Path(written).unlink(missing_ok=True)
                raise

    def read(self) -> ManifestRecord:
        """The manifest; made anew where it is missing, damaged, or lags behind."""
        held = self._held()
        return held if held is not None and self._true(held) else self.rebuild()

    def rebuild(self) -> ManifestRecord:
        """Make the manifest anew from claims, outputs and logs."""
        with _mapped(self._folder):
            with self._changing() as counts:
                counts.next_id, counts.total_runs = self._counted()
            return self._publish(wait=True)

    def true(self) -> bool:
        """False where the manifest is not what lies in the folder."""
        held = self._held()
        return held is not None and self._true(held)

    def _true(self, held: ManifestRecord) -> bool:
        return (held.next_id, held.total_runs) == self._counted()

    def _counted(self) -> tuple[int, int]:
        """The next id and the number of runs, from claims, outputs and logs."""
        names = _names(self._folder / "out")
        claimed = [int(m[1]) for m in map(_CLAIM.fullmatch, names) if m]
        written = [int(m[1]) for m in map(_OUTPUT.fullmatch, names) if m]
        runs = [name for name in _names(self._folder / "logs") if _is_log(name)]
        return max([0, *claimed, *written]) + 1, len(runs)

    def _held(self) -> ManifestRecord | None:
        with suppress(InputError, ValidationError):
            return ManifestRecord.model_validate(read_json(self.path))
        return None

    @contextmanager
    def _changing(self) -> Iterator["_Counts"]:
        """The counts, under the folder's lock. A mark before them says that a change is under way:
        whoever finds it there knows that its process was killed, and counts anew."""
        lock = _made(self._lock, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            counts = _Counts.read(os.pread(lock, COUNTS, 0))
            os.pwrite(lock, CHANGING, 0)
            counts = counts or _Counts(*self._counted())
            yield counts
            counts.last_updated = max(iso(self._clock.now()), counts.last_updated)
            os.pwrite(lock, counts.wire(), 0)
        finally:
            os.close(lock)

    def _publish(self, wait: bool = False) -> ManifestRecord:
        """Write `meta.json` from the counts. Where another process is at it, that one writes once
        more after it, and this one does not wait unless it must."""
        turn, shown = _made(self._turn, os.O_CREAT | os.O_RDWR), None
        try:
            while (now := self._counts()) != shown:
                try:
                    fcntl.flock(turn, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    break
                shown = self._counts()
                data = json_bytes(shown.record().model_dump(mode="json"))
                put(str(self.path), data, str(temporary_name(self.path)), durable=False)
                fcntl.flock(turn, fcntl.LOCK_UN)  # Whoever came until now is seen by the next look.
            return now.record()
        finally:
            os.close(turn)

    def _counts(self) -> "_Counts":
        """The counts as they stand. Those of a process that was killed are made anew."""
        lock = os.open(self._lock, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            found = _Counts.read(os.pread(lock, COUNTS, 0))
        finally:
            os.close(lock)
        if found is None:
            with self._changing() as found:
                pass
        return found


@dataclass
class _Counts:
    """What a manifest counts."""

    next_id: int
    total_runs: int
    last_updated: str = ""

    @classmethod
    def read(cls, raw: bytes) -> "_Counts | None":
        """The counts of a lock file; None where they cannot be trusted."""
        parts = raw[1:].split()
        if raw[:1] != UNCHANGED or len(parts) != 3:
            return None
        return cls(int(parts[0]), int(parts[1]), parts[2].decode())

    def wire(self) -> bytes:
        """As the lock file holds them, with the mark of no change."""
        said = f"{self.next_id} {self.total_runs} {self.last_updated}"
        return UNCHANGED + said.encode().ljust(COUNTS - 1)

    def record(self) -> ManifestRecord:
        """As `meta.json` holds them."""
        return ManifestRecord.model_validate(vars(self))


@dataclass
class Checked:
    """What is wrong in an agent's folder, one sentence each, and how many files were read."""

    agent: str
    outputs: int = 0
    logs: int = 0
    gaps: int = 0
    problems: list[str] = field(default_factory=list)


class AgentFolder:
    """One agent's folder on the bus. Safe for threads and processes."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path, self.name, self._clock = path, path.name, clock
        self.manifest, self._logs = Manifest(path, clock), str(path / "logs")
        self._last: dict[str, int] = {}
        self._begun = set[str]()
        self._starting = threading.Lock()

    def begin(self) -> str:
        """Claim the id of a run: `YYYYMMDD_HHMMSS`, then `_2`, `_3`…"""
        base = self._clock.now().strftime("%Y%m%d_%H%M%S")
        with _mapped(self.path), self._starting:
            number = self._last.get(base, 0) + 1
            while not _run_claimed(f"{self._logs}/", _numbered(base, number)):
                number += 1
            self._last = {base: number}
            self._begun.add(_numbered(base, number))
        return _numbered(base, number)

    def write(self, envelope: OutputEnvelope, number: int | None = None) -> Path:
        """Write an output under the next id, or one that was claimed; returns its path. Raises
        InputError for an envelope of another agent."""
        if envelope.metadata.agent != self.name:
            raise InputError(f"{envelope.metadata.agent} does not write for {self.name}")
        # In a run the log comes next, and shows both: one file less to make.
        claimed = self.manifest.increment(publish=not self._begun) if number is None else number
        path = self.path / "out" / output_name(claimed)
        with _mapped(self.path):
            put(str(path), json_bytes(envelope.wire()), str(temporary_name(path)))
        return path

    def log(self, log: RunLog) -> Path:
        """Write the log of a run, and count it."""
        path = self.path / "logs" / f"{check_segment(log.run_id)}.json"
        with self._starting:
            mine = log.run_id in self._begun
            self._begun.discard(log.run_id)
        claim = f"{self._logs}/.{log.run_id}.claim" if mine else None
        self.manifest.add_log(path, json_bytes(log.wire()), claim)
        return path

    def outputs(self) -> list[Path]:
        """Every output, by id."""
        names = [name for name in _names(self.path / "out") if _OUTPUT.fullmatch(name)]
        return [self.path / "out" / name for name in sorted(names, key=lambda n: int(n[:-5]))]

    def logs(self) -> list[Path]:
        """Every log, oldest first."""
        names = [name for name in _names(self.path / "logs") if _is_log(name)]
        return [self.path / "logs" / name for name in sorted(names, key=_in_time)]

    def check(self, repair: bool = False) -> Checked:
        """Read everything. With `repair` a manifest that lags is rebuilt, and what crashes left
        half-written is removed."""
        found = Checked(self.name)
        for path in self.outputs():
            found.outputs += 1
            _note(found, path, read_output)
        for path in self.logs():
            found.logs += 1
            log = _note(found, path, read_log)
            output = log.output_path if log is not None else None
            if output and not (self.path / "out" / Path(output).name).is_file():
                found.problems.append(f"{path}: its output {output} is missing")
        numbers = [int(m[1]) for m in map(_CLAIM.fullmatch, _names(self.path / "out")) if m]
        written = {int(path.stem) for path in self.outputs()}
        found.gaps = len(set(numbers) - written)
        found.problems += [
            f"{self.path / 'out' / output_name(n)}: its claim is missing"
            for n in sorted(written - set(numbers))
        ]
        if not self.manifest.true():
            if repair:
                self.manifest.rebuild()
            else:
                found.problems.append(f"{self.manifest.path} lags behind: --repair rebuilds it")
        if repair:
            for folder in (self.path, self.path / "out", self.path / "logs"):
                _remove_leftovers(folder)
        return found


class Bus:
    """All agents' folders below `workspace/agents`."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root, self.clock = root, clock or SystemClock()
        self._open: dict[str, AgentFolder] = {}
        self._opening = threading.Lock()

    def agents(self) -> list[str]:
        """Those that have a folder, sorted."""
        found = [name for name in _names(self.root) if is_segment(name)]
        return sorted(name for name in found if (self.root / name).is_dir())

    def agent(self, name: str) -> AgentFolder:
        """An agent's folder, made when it is first written to. A manifest that lags (its process
        was killed) is rebuilt when a process opens it."""
        check_segment(name, "agent")
        with self._opening:
            if name not in self._open:
                made = AgentFolder(self.root / name, self.clock)
                if made.path.is_dir():
                    made.manifest.read()
                self._open[name] = made
            return self._open[name]

    def known(self, name: str) -> AgentFolder:
        """The folder of an agent that has written. Raises NotFound naming those that have."""
        if name not in self.agents():
            there = ", ".join(self.agents()) or "none"
            raise NotFound(f"no agent named {name!r} has written here: there is {there}")
        return self.agent(name)

    def output(self, number: int, agent: str) -> OutputEnvelope:
        """An agent's output by its number. Raises NotFound."""
        path = self.known(agent).path / "out" / output_name(number)
        if not path.is_file():
            raise NotFound(f"{agent} has no output {number}")
        return read_output(path)


def read_output(path: Path) -> OutputEnvelope:
    """An output that an agent wrote. Raises InputError where it is not as documented."""
    return _validated(path, OutputEnvelope)


def read_log(path: Path) -> RunLog:
    """The log of a run. Raises InputError where it is not as documented."""
    return _validated(path, RunLog)


def _validated(path: Path, model: type[R]) -> R:
    try:
        return model.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from None


def _note(found: Checked, path: Path, read: Callable[[Path], R]) -> R | None:
    try:
        return read(path)
    except InputError as error:
        found.problems.append(str(error))
        return None


def _made(path: str, flags: int) -> int:
    """An open file; its folder is made where it is not there yet."""
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o644)


def _claimed(path: str) -> bool:
    """True if this call made the file: then the name is ours."""
    try:
        os.close(_made(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _linked(existing: str, path: str) -> bool:
    """`_claimed` by a link, which costs a tenth of a new file where the disk allows one more."""
    try:
        os.link(existing, path)
    except FileExistsError:
        return False
    except OSError:  # The folder is missing, the disk has no links, or the file has its 65,000.
        return _claimed(path)
    return True


def _run_claimed(folder: str, name: str) -> bool:
    """True if this call claimed the id of a run: a claim turns into the log that it is for."""
    claim, log = f"{folder}.{name}.claim", f"{folder}{name}.json"
    if os.path.exists(log) or not _claimed(claim):
        return False
    if os.path.exists(log):  # The claim of another became it just before.
        os.unlink(claim)
        return False
    return True


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}_{number}"


def _in_time(name: str) -> tuple[str, int, str]:
    """Where the log of a run stands among others: ids of a plan's own come last."""
    found = _RUN.fullmatch(name.removesuffix(".json"))
    return ("~", 0, name) if found is None else (found[1], int(found[2] or 1), name)


def _is_log(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes that are gone."""
    for name in _names(folder):
        found = re.fullmatch(r"\..*\.(\d+)\.\d+\.tmp", name)
        if found and not is_alive(int(found[1])):
            (folder / name).unlink(missing_ok=True)


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the bus folder {path} cannot be written: {error.strerror}") from None
