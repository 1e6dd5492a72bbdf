"""Programs that this one starts: the one place for it, outside the sandbox."""

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

import beforehand
from beforehand.clock import stopwatch
from beforehand.errors import BeforehandError, ExecutionFailed, Unavailable

LONGEST_ERROR = 2000
LOOK_S, ENDS_WITHIN_S, ANSWERS_WITHIN_S = 1.0, 5.0, 600.0
"""How often a second process is looked at, and how long it may take to end, and to answer."""
LATE = -1000
"""The exit code of a child that took too long: no signal has this number."""
Program = subprocess.Popen
"""A program that was started."""


class Nursery:
    """A process that has loaded `python -m module`, which calls `answer_each`, and forks a child of
    itself for every request: a process as it is when it has just begun, in a tenth of the time.
    One thread at a time asks."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        """It has these variables instead of ours. Raises OSError where it cannot be started."""
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                # -P: a file beside the user is not taken for a library.
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
            )

    def ask(self, request: bytes, timeout: float, called: str) -> bytes:
        """What a child answers. Raises ExecutionFailed where it takes too long or ends with an
        error, with the name that it is `called` by."""
        try:
            self._pipe.send_bytes(struct.pack("d", timeout) + request)
            said = self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise ExecutionFailed(f"{called} ended the process that had begun it") from None
        code, size = struct.unpack("qq", said[:16])
        answer, errors = said[16 : 16 + size], said[16 + size :]
        if code == LATE:
            raise ExecutionFailed(f"{called} took longer than {timeout:g} s: allow more time")
        if code:
            last = errors.decode(errors="replace").strip()[-LONGEST_ERROR:]
            why = f": {last}" if last else ", and said nothing"
            raise ExecutionFailed(f"{called} ended its process with code {code}{why}")
        return answer

    def close(self) -> None:
        """End it."""
        self._pipe.close()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def answer_each(answer: Callable[[bytes], None]) -> None:
    """The other end of a `Nursery`: each request is answered, on stdout, by a child."""
    pipe = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        while True:
            said = pipe.recv_bytes()
            (timeout,) = struct.unpack("d", said[:8])
            out, errors = os.pipe(), os.pipe()
            child = os.fork()
            if not child:
                pipe.close()
                _as_a_process(lambda: answer(said[8:]), (out, errors))  # noqa: B023
            for end in (out[1], errors[1]):
                os.close(end)
            code, *found = _heard(child, (out[0], errors[0]), timeout)
            pipe.send_bytes(struct.pack("qq", code, len(found[0])) + found[0] + found[1])


def _as_a_process(work: Callable[[], None], pipes: Sequence[tuple[int, int]]) -> NoReturn:
    """In a child: work with these ends as stdout and stderr, and end."""
    code = 1
    try:
        for target, (theirs, mine) in enumerate(pipes, 1):
            os.dup2(mine, target)
            os.close(theirs)
            os.close(mine)
        try:
            work()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code & 0xFF)


def _heard(child: int, ends: Sequence[int], timeout: float) -> tuple[int, bytes, bytes]:
    """The exit code of a child, `LATE` where it was ended, and what it wrote until then."""
    heard = {end: bytearray() for end in ends}
    latest, late = stopwatch() + timeout, False
    with selectors.DefaultSelector() as open_ends:
        for end in ends:
            open_ends.register(end, selectors.EVENT_READ)
        while open_ends.get_map():
            ready = open_ends.select(max(latest - stopwatch(), 0.0))
            if not ready and not late:
                os.kill(child, signal.SIGKILL)
                # What it began may hold the ends open: nobody waits for that.
                late, latest = True, stopwatch() + LOOK_S
            elif not ready:
                break
            for key, _ in ready:
                if piece := os.read(key.fd, 1 << 16):
                    heard[key.fd] += piece
                else:
                    open_ends.unregister(key.fd)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for end in ends:
        os.close(end)
    return (LATE if late else code), *(bytes(heard[end]) for end in ends)  # type: ignore[return-value]


def start_python(
    module: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> "Program[bytes]":
    """Start `python -m module …` in a session of its own, so that it goes on when this process
    ends; what it says goes to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )


class Helper:
    """A process of this program beside this one, as a second core: `python -m module`, which calls
    `answer_all`. What is sent either way is pickled, so only our own code may be at the other end.
    It ends when this process does, however that ends. One thread at a time asks."""

    def __init__(self, module: str, begin: bytes) -> None:
        """`begin` is what it is told first. Raises OSError where no process can be started."""
        self._pipe, theirs = Pipe()
        self._began = self._gone = False
        with theirs:
            try:
                self._process = subprocess.Popen(
                    # -P: a file beside the user is not taken for a library.
                    [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for this process alone.
                )
            except BaseException:
                self._pipe.close()
                raise
        self._tell(begin)

    def _tell(self, said: bytes) -> None:
        """On a thread: it may read late, or never."""
        self._telling = threading.Thread(target=self._told, args=(said,), daemon=True)
        self._telling.start()

    def _told(self, said: bytes) -> None:
        with suppress(OSError):  # It has ended already, which who waits for it finds out.
            self._pipe.send_bytes(said)

    @property
    def ready(self) -> bool:
        """True once it can be asked, and as long as it runs. One of other sources than this process
        has never begun."""
        try:
            if not (self._began or self._gone) and self._pipe.poll():
                self._began = self._pipe.recv() == (True, _sources())
                self._gone = not self._began
        except (EOFError, OSError):
            self._gone = True
        return self._began and not self._gone

    def ask(self, question: object, stopped: Callable[[], bool] = lambda: False) -> Any:
        """What it answers. Raises what it raised, and Unavailable where it has ended, or does not
        answer for long [a few seconds, once the run is `stopped`]."""
        said = pickle.dumps(question)
        try:
            self._tell(said)
            began = running = stopwatch()
            while not self._pipe.poll(LOOK_S):
                running = running if stopped() else stopwatch()
                if stopwatch() - min(running, began + ANSWERS_WITHIN_S) > ENDS_WITHIN_S:
                    self._process.kill()
            self._telling.join()
            done, answer = self._pipe.recv()
        except (EOFError, OSError):
            self._gone = True
            raise Unavailable(
                f"the second process of this run ended by itself, with code {self._end()}"
            ) from None
        except BaseException:
            self._gone = True  # What it says next would be taken for the answer to another one.
            raise
        if not done:
            raise answer
        return answer

    def close(self) -> None:
        """End it. One that has not begun may be in the middle of being told."""
        if not self._began:
            self._process.kill()
        self._telling.join()
        self._gone = True
        self._pipe.close()
        self._end()

    def _end(self) -> int:
        """Its exit code; it is killed where it does not end by itself."""
        try:
            return self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def answer_all(begin: Callable[[bytes], Callable[[Any], object]]) -> None:
    """The other end of a `Helper`: begin as told, and answer each question until it closes."""
    pipe = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        try:
            answer = begin(pipe.recv_bytes())
        except Exception as error:
            pipe.send((False, _sendable(error)))
            return
        pipe.send((True, _sources()))
        while True:
            told = pipe.recv_bytes()
            try:
                said = True, answer(pickle.loads(told))
            except Exception as error:
                said = False, _sendable(error)
            del told  # It may be large, and the next one as well.
            pipe.send(said)


def _sources() -> str:
    """Where this program's code lies: another process may find another one."""
    return str(Path(beforehand.__file__).resolve())


def _sendable(error: Exception) -> Exception:
    """An error that can be sent: ours as it is, another one (a bug) with where it came from."""
    if isinstance(error, BeforehandError):
        with suppress(Exception):
            if type(pickle.loads(pickle.dumps(error))) is type(error):
                return error
    return RuntimeError("".join(traceback.format_exception(error)))


def cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def own_environment() -> dict[str, str]:
    """The variables of this process."""
    return dict(os.environ)
