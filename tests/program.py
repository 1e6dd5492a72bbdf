"""Programs under test: `beforehand …` and scripts in a process of their own, as users start them.

Starting Python and loading the package takes longer than most tests, so a program is forked from a
process that has loaded it already (fork_server.py). It has its own process, environment, folder and
streams, and ends as any program does. `fresh=True` starts a new interpreter instead: for tests of
signals, floods, limits, standard streams, crashes, and of what a program loads.
"""

import json
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "beforehand"]
FRESH = os.environ.get("BEFOREHAND_FRESH") == "1"
"""Every program is started, none forked: to see whether a test depends on it."""
_INTERPRETER = ("PYTHON", "LD_", "LC_", "LANG", "OPENBLAS", "OMP")
"""What an interpreter or a C library reads once, when it starts."""


class Program(subprocess.Popen[Any]):
    """A `subprocess.Popen` of a Python program, forked where it can be."""

    def __init__(self, command: Sequence[str | Path], fresh: bool = False, **options: Any) -> None:
        self._call: dict[str, Any] | None = None
        self._status: socket.socket | None = None
        words = [str(word) for word in command]
        environment = options.get("env")
        environment = dict(os.environ if environment is None else environment)
        if not (fresh or FRESH) and _same_interpreter(environment) and not _special(options):
            self._call = _called(words)
        if self._call is not None:
            self._call |= {
                "environment": environment,
                "folder": str(options.get("cwd") or os.getcwd()),
                "session": bool(options.get("start_new_session")),
            }
        super().__init__(words, **options)

    def _execute_child(self, *arguments: Any) -> None:
        """Ask the fork server; in the place of fork and exec (Python 3.11 to 3.14)."""
        if self._call is None:
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        # (…, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, …): see subprocess.py.
        ends = arguments[10:16]
        assert len(ends) == 6
        pipes = [(ends[0], ends[1]), (ends[3], ends[2]), (ends[5], ends[4])]  # Theirs, and ours.
        streams = [i if theirs == -1 else theirs for i, (theirs, _) in enumerate(pipes)]
        self._status, there = socket.socketpair()
        with there:
            _server().ask(self._call, [*streams, there.fileno()])
        (self.pid,) = struct.unpack("i", exactly(self._status, 4))
        self._child_created = True
        devnull = getattr(self, "_devnull", None)
        for fd in {theirs for theirs, ours in pipes if ours != -1} - {-1, devnull}:
            os.close(fd)
        if devnull is not None:
            os.close(devnull)
        self._closed_child_pipe_fds = True

    def _ended(self, wait: float | None) -> int | None:
        """The exit code as `waitpid` gives it; None if it has not ended after `wait` seconds."""
        assert self._status is not None
        if self._status.fileno() == -1:
            return None
        ready = select.poll()  # select() knows no descriptor above 1,024.
        ready.register(self._status, select.POLLIN)
        if not ready.poll(None if wait is None else wait * 1000):
            return None
        (status,) = struct.unpack("i", exactly(self._status, 4))
        self._status.close()
        return int(status)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._call is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        status = self._ended(0 if wait_flags == os.WNOHANG else None)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, **_: Any) -> int | None:
        if self._call is None:
            return super()._internal_poll()  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                status = self._ended(0) if self.returncode is None else None
                if status is not None:
                    self.returncode = os.waitstatus_to_exitcode(status)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run_program(
    command: Sequence[str | Path],
    *,
    input: Any = None,
    capture_output: bool = False,
    check: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` of a Program."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Program(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _called(words: list[str]) -> dict[str, Any] | None:
    """What to run, if it is the package, code or a script."""
    if words[0] == str(Path(sys.executable).with_name("beforehand")):
        words = [*COMMAND, *words[1:]]
    if words[0] != sys.executable or len(words) < 2:
        return None
    if words[1].endswith(".py"):
        return {"script": words[1], "arguments": words[2:]}
    if words[1:3] == COMMAND[1:]:
        return {"module": words[2], "arguments": words[3:]}
    return {"code": words[2], "arguments": words[3:]} if words[1] == "-c" else None


def _special(options: Mapping[str, Any]) -> bool:
    """Whether an option asks for what only a fresh process has."""
    known = {"env", "cwd", "stdin", "stdout", "stderr", "text", "encoding", "bufsize", "start_new_session"}  # fmt: skip
    return not options.keys() <= known


def _same_interpreter(environment: Mapping[str, str]) -> bool:
    """Whether a fresh interpreter would start with the settings of this one."""
    names = {n for n in {*environment, *os.environ} if n.startswith(_INTERPRETER)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def exactly(there: socket.socket, size: int) -> bytes:
    """So many bytes. Raises RuntimeError where the other side ended before."""
    got = b""
    while len(got) < size:
        if not (more := there.recv(size - len(got))):
            raise RuntimeError("the other side of the fork server ended")
        got += more
    return got


class _Server:
    """The process that forks."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip

    def ask(self, call: Mapping[str, Any], fds: Sequence[int]) -> None:
        raw = json.dumps(call).encode()
        socket.send_fds(self._socket, [struct.pack("i", len(raw))], list(fds))
        self._socket.sendall(raw)


@cache
def _server() -> _Server:
    return _Server()
