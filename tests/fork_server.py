"""A process that has loaded the package and forks the programs that tests ask for (program.py).

It does nothing else and has one thread, so that each child is as a program that has just loaded.
"""

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import time
import types
from typing import Any

from program import exactly


def load() -> None:
    """Load all of the package that is installed whole. Nothing is opened or started."""
    import beforehand

    for module in pkgutil.walk_packages(beforehand.__path__, "beforehand."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # An extra that is not installed.
                importlib.import_module(module.name)
    for name in ("dbos", "duckdb", "time_machine", "sqlite3"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> dict[str, Any]:
    """Fork at each request. Returns in a child alone, with what it was asked to be."""
    awake, wake = socket.socketpair()
    for end in (awake, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, socket.socket] = {}
    while True:
        ready = select.select([control, awake], [], [])[0]
        if awake in ready:
            awake.recv(4096)
            _report(running)
        if control not in ready:
            continue
        head, fds, _, _ = socket.recv_fds(control, 4, 4)
        if not head:
            os._exit(0)  # The tests have ended.
        call = json.loads(exactly(control, struct.unpack("i", head)[0]))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _become(call, fds)
            return dict(call)
        for fd in fds[:3]:
            os.close(fd)
        running[pid] = socket.socket(fileno=fds[3])
        running[pid].sendall(struct.pack("i", pid))


def _report(running: dict[int, socket.socket]) -> None:
    """Tell who asked for a child how it ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as asked, contextlib.suppress(OSError):  # Nobody may wait.
            asked.sendall(struct.pack("i", status))


def _become(call: dict[str, Any], fds: list[int]) -> None:
    """Take the streams, the environment and the folder of the program."""
    for target, fd in enumerate(fds[:3]):
        os.dup2(fd, target)
    os.closerange(3, 1024)
    if call["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(call["environment"])
    time.tzset()
    os.chdir(call["folder"])
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr, line_buffering=True)


def _stream(fd: int, mode: str, like: Any, line_buffering: bool = False) -> Any:
    """A standard stream, as the interpreter opens it."""
    raw = open(fd, mode + "b", closefd=False)  # noqa: SIM115
    lines = line_buffering or os.isatty(fd)
    return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=lines)


def run(call: dict[str, Any]) -> None:
    """Run it as the interpreter would."""
    if script := call.get("script"):
        sys.path[0], sys.argv = os.path.dirname(script), [script, *call["arguments"]]
        runpy.run_path(script, run_name="__main__")
    elif name := call.get("module"):
        sys.path[0], sys.argv = call["folder"], ["-m", *call["arguments"]]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = "", ["-c", *call["arguments"]]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(call["code"], "<string>", "exec"), module.__dict__)


def leave(error: BaseException | None) -> None:
    """End as the interpreter would, but for taking the loaded modules down: that takes a while,
    and some of them write to stderr where the garbage collector was told to pass them over."""
    code = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as failed:
            code = code if isinstance(failed, ValueError) else 120
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as control:
        load()
        asked = serve(control)
        control.detach()
    try:
        run(asked)
    except BaseException as error:
        leave(error)
    leave(None)
