"""A program that is asked in JSON lines: a question goes to its standard input, an answer comes
from its standard output.

It is started when it is first asked, and again after it ended. What it prints that is no answer is
counted and not read; what it says on standard error is kept for the message that says why it
failed. Where bubblewrap works, it does not see the archive, the runs and the journal.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

import orjson

from beforehand.errors import BadAnswer
from beforehand.forecast.process import own_environment

LONGEST_LINE, MOST_STRAY, LONGEST_ERROR = 1 << 20, 10_000, 500
"""Bytes of a line, lines beside the answers to one question, and characters of its own error."""
GRACE_S = 2.0
LATE, STRAY, WRONG, TWICE, AGAIN = (
    "late answer",
    "line that is no answer",
    "answer to no question of ours",
    "second answer to one question",
    "started again",
)


@dataclass(frozen=True)
class Start:
    """How it is started: the command, the folder that it works in, its variables, what it is not
    shown (empty where the system cannot hide it), and whether it has a network."""

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    hidden: tuple[Path, ...] = ()
    network: bool = True
    shown: tuple[Path, ...] = ()
    """What should be hidden and is not: its own folder lies in it."""
    own: Path | None = None
    """A folder that it sees, though it lies in what is hidden."""

    def arguments(self) -> list[str]:
        """The whole command, in bubblewrap where something is hidden."""
        if not self.hidden and self.network:
            return list(self.command)
        parts = [shutil.which("bwrap") or "bwrap", "--dev-bind", "/", "/", "--unshare-pid"]
        # It ends with the thread that started it: also where we are killed.
        parts += ["--die-with-parent", "--proc", "/proc"]
        parts += () if self.network else ("--unshare-net",)
        for place in self.hidden:
            parts += (
                ["--tmpfs", str(place)]
                if place.is_dir()
                else ["--ro-bind", "/dev/null", str(place)]
            )
        if self.own is not None:
            parts += ["--bind", str(self.own), str(self.own)]
        return [*parts, "--chdir", str(self.folder), *self.command]


@cache
def can_hide() -> bool:
    """True where bubblewrap can give a program its own view of the files."""
    found = shutil.which("bwrap")
    if found is None:
        return False
    tried = [found, "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"]
    try:
        return subprocess.run(tried, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass
class _Slot:
    """A question that waits for its answer."""

    ready: threading.Event = field(default_factory=threading.Event)
    line: bytes | None = None
    why: str | None = None


class Lines:
    """A program that goes on running, and is asked one question at a time. Safe for threads."""

    def __init__(
        self,
        start: Start,
        timeout: float,
        note: Callable[[str], None],
        is_answer: Callable[[bytes], bool],
    ) -> None:
        """`timeout` is in seconds, for one answer; `note` counts what is odd; `is_answer` tells a
        line that answers from any other."""
        self._is_answer, self._out_of_step = is_answer, False
        self._start, self._timeout, self._note = start, timeout, note
        self._asking, self._guard = threading.Lock(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[str, _Slot] = {}
        self._answered: deque[str] = deque(maxlen=10_000)
        self._errors: deque[bytes] = deque(maxlen=20)
        self._stray, self._started = 0, False
        self._unread = b""

    def ask(self, name: str, question: Mapping[str, object]) -> str:
        """The line that answers a question; `name` is its `id`. Raises BadAnswer where none came:
        the program is then ended, and started again for the next question."""
        with self._asking:
            if self._out_of_step:  # Nothing ties its lines to questions.
                raise BadAnswer(
                    "it wrote an answer without an id that no question had asked for, so its other "
                    "answers may be to other questions: write the id of the question with each"
                )
            process = self._running()
            slot = _Slot()
            with self._guard:
                self._waiting, self._stray, self._unread = {name: slot}, 0, b""
            write(process, orjson.dumps({**question, "id": name}) + b"\n")
            if not slot.ready.wait(self._timeout):
                raise self._failed(slot, f"no answer within {self._timeout:g} s")
            if slot.line is None:
                raise self._failed(slot, slot.why or "it ended")
            with self._guard:
                self._waiting = {}
            return slot.line.decode("utf-8", "replace")

    def close(self) -> None:
        """End it."""
        with self._guard:
            process, self._process = self._process, None
        if process is not None:
            end(process)

    def _failed(self, slot: _Slot, why: str) -> BadAnswer:
        self.close()
        said, told = last_line(b"".join(self._errors)), slot.why or why
        if self._unread:
            told += f"; no answer is its line {last_line(self._unread)[:100]!r}"
        return BadAnswer(f"{told}; it said: {said}" if said else told)

    def _running(self) -> subprocess.Popen[bytes]:
        with self._guard:
            process = self._process
        if process is not None and process.poll() is None:
            return process
        self.close()
        if self._started:
            self._note(AGAIN)
        self._errors.clear()
        begun = Future[subprocess.Popen[bytes]]()
        threading.Thread(target=self._live, args=(begun,), daemon=True).start()
        process = begun.result()
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _live(self, begun: "Future[subprocess.Popen[bytes]]") -> None:
        """Start it, and read it to its end: it ends with the thread that started it."""
        try:
            process = open_program(self._start)
        except BaseException as error:
            begun.set_exception(error)
            return
        with self._guard:
            self._process, self._started = process, True
        begun.set_result(process)
        self._read(process)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Keep the end of what it says on standard error."""
        assert process.stderr is not None
        with suppress(OSError, ValueError), process.stderr:
            while part := process.stderr.read1(4096):  # type: ignore[attr-defined]
                self._errors.append(part)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Give each line to the question that it answers."""
        assert process.stdout is not None
        why = None
        with suppress(OSError, ValueError), process.stdout:
            while line := process.stdout.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    why = f"it wrote a line of more than {LONGEST_LINE:,} bytes"
                    break
                if line.strip() and not self._take(line.strip()):
                    why = f"it wrote more than {MOST_STRAY:,} lines that are no answer"
                    break
        if why is not None:
            end(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        code = process.poll()
        ended = f"its process ended with code {code}"
        if code == 0:
            ended = (
                "its process ended (code 0) without an answer: read lines until the input ends, or "
                "say that it is started for each question (#each)"
            )
        with self._guard:
            mine = self._process is process
            slots = list(self._waiting.values()) if mine else []
        for slot in slots:
            slot.why = why or ended
            slot.ready.set()

    def _take(self, line: bytes) -> bool:
        """Read a line; False where there were too many that are no answer."""
        name = id_of(line)
        odd = None if name is not None or self._is_answer(line) else STRAY
        with self._guard:
            waiting = next(iter(self._waiting), None)
            slot = None if waiting is None else self._waiting[waiting]
            if odd is None and slot is not None and name in (None, waiting):
                if slot.line is None:
                    slot.line = line
                    self._answered.append(waiting or "")
                    slot.ready.set()
                    return True
                odd = TWICE
            elif odd is None and name is not None and name in self._answered:
                odd = TWICE
            elif odd is None:
                odd = LATE if slot is None else WRONG
                self._out_of_step |= name is None
            self._stray += 1
            self._unread = line if odd == STRAY else self._unread
            too_many = self._stray > MOST_STRAY
        self._note(odd)
        return not too_many


def id_of(line: bytes) -> str | None:
    """The `id` that a line names, if it is an object that has one."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    name = found.get("id") if isinstance(found, dict) else None
    return None if name is None else str(name)


def write(process: subprocess.Popen[bytes], question: bytes, last: bool = False) -> None:
    """Write a question from a thread of its own: a program that does not read holds nobody up.
    After the `last` one its standard input ends."""

    def work() -> None:
        with suppress(OSError, ValueError):  # Its end is noticed by who reads its answers.
            assert process.stdin is not None
            process.stdin.write(question)
            process.stdin.flush()
            if last:
                process.stdin.close()

    threading.Thread(target=work, daemon=True).start()


@dataclass(frozen=True)
class Ran:
    """How a program ran: the last line that it wrote, and why it failed, if it did."""

    last: str
    why: str | None

    def line(self) -> str:
        """The last line. Raises BadAnswer where it failed, or wrote none."""
        if self.why is not None:
            raise BadAnswer(self.why)
        if not self.last:
            raise BadAnswer("it wrote no answer")
        return self.last


def run_once(start: Start, question: bytes, timeout: float) -> Ran:
    """Start a program for one question, and wait for its end. Raises BadAnswer where it cannot be
    started."""
    process = open_program(start)
    errors, kept = bytearray(), _Tail()

    def listen() -> None:
        assert process.stderr is not None
        with process.stderr:
            while part := process.stderr.read(1 << 16):
                errors[:] = (errors + part)[-4096:]

    readers = [
        threading.Thread(target=kept.read, args=(process,), daemon=True),
        threading.Thread(target=listen, daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        write(process, question + b"\n", last=True)
        readers[0].join(timeout)
        late = readers[0].is_alive()
        if not late:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        code = process.poll()
    finally:  # Also where we are told to stop.
        end(process)
    readers[1].join(GRACE_S)
    said = last_line(bytes(errors))
    why = None
    if late:
        why = f"no answer within {timeout:g} s"
    elif kept.flooded:
        why = f"it wrote more than {LONGEST_LINE:,} bytes"
    elif code != 0:
        why = f"its process ended with code {code}"
    if why is not None and said:
        why = f"{why}; it said: {said}"
    return Ran(kept.last.decode("utf-8", "replace"), why)


class _Tail:
    """The last line of what a program writes."""

    def __init__(self) -> None:
        self.last, self.flooded = b"", False

    def read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            self._lines(process, process.stdout)

    def _lines(self, process: subprocess.Popen[bytes], written: IO[bytes]) -> None:
        size = 0
        while line := written.readline(LONGEST_LINE + 1):
            size += len(line)
            if size > LONGEST_LINE:
                self.flooded = True
                end(process)
                return
            self.last = line.strip() or self.last


def open_program(start: Start) -> subprocess.Popen[bytes]:
    """Start it, in a session of its own. Raises BadAnswer where it cannot be."""
    try:
        return subprocess.Popen(
            start.arguments(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=start.folder,
            env=dict(start.environment),
            start_new_session=True,
        )
    except OSError as error:
        raise BadAnswer(f"it cannot be started: {error.strerror or error}") from None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError):
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with suppress(OSError, ValueError):
        process.stdin and process.stdin.close()  # The others are closed by who reads them.


def last_line(text: bytes) -> str:
    """What a program said last."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[-LONGEST_ERROR:] if lines else ""


def clean_environment() -> dict[str, str]:
    """The variables of this process without ours: they lead to the archive and the journal."""
    found = own_environment().items()
    return {name: value for name, value in found if not name.startswith("BEFOREHAND_")}


def hidden_places(
    home: Path, archive: Path | None, data: str | None, mine: Sequence[Path]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """(what a program is not shown, what it sees nevertheless): the runs and archives of a home,
    its journal, the archive, the recorded data; it sees what one of `mine` (its own folder and
    file) lies in."""
    wanted = [home / "data", home / "workspace", *([archive] if archive else [])]
    wanted += [Path(data)] if data else []
    found = dict.fromkeys(path.resolve() for path in wanted if path.is_dir())
    own = [path.resolve() for path in mine]
    seen = tuple(path for path in found if any(one.is_relative_to(path) for one in own))
    return tuple(path for path in found if path not in seen), seen
