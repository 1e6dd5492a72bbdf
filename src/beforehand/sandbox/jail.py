"""The default engine: a fork-server jail (rlimits, another user, Landlock, seccomp).

The server is a separate process. This module starts it when first needed, and asks it for one fork
per run. It fails closed: where the kernel has no seccomp, nothing runs. Where namespaces are
allowed, the whole server also runs in bubblewrap.
"""

import importlib.util
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from beforehand.clock import stopwatch
from beforehand.errors import NotConfigured, Unavailable
from beforehand.sandbox import inside, lock
from beforehand.sandbox.inside import JobOptions
from beforehand.sandbox.pipes import GRACE_S, Run, ToolLines
from beforehand.sandbox.policy import DEFAULT, INSTEAD, Execution, Policy, Tools, check

REQUEST = struct.Struct("<dI")
START_S = 20.0
HERE = Path(__file__).resolve().parents[2]
WITHOUT = "the engines monty and daytona run without it"


class Jail:
    """One fork server. Safe for threads: runs go side by side."""

    name = "jail"

    def __init__(self, bubblewrap: bool | None = None, guard: bool = True) -> None:
        """With `bubblewrap` None it is used where it works. Without `guard` the code has all
        builtins and imports: the security layers are the same, the messages are not (for tests of
        the layers)."""
        self._wrapped, self._guard = bubblewrap, guard
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    def run(
        self,
        code: str,
        input_data: Any = None,
        policy: Policy = DEFAULT,
        tools: Tools | None = None,
    ) -> Execution:
        """Run the code. Raises InputError for what cannot be run at all, NotConfigured where this
        machine cannot lock a process in; whatever the code does comes back as an Execution."""
        source, raw = check(code, input_data, policy)
        options: JobOptions = {
            "code": len(source),
            "input": len(raw),
            "timeout": policy.timeout,
            "memory": policy.memory,
            "seed": policy.seed,
            "now": None if policy.now is None else policy.now.timestamp(),
            "modules": list(policy.modules),
            "tools": list(tools or ()),
            "guard": self._guard,
            "instead": INSTEAD,
        }
        job = json.dumps(options).encode() + b"\n" + source + raw
        started = stopwatch()
        request = REQUEST.pack(policy.timeout, inside.wanted(code, policy.modules))
        for _ in range(2):  # A server that has just ended is noticed only by its missing answer.
            run = Run(job, policy, ToolLines(tools or {}))
            try:
                self._ask(request, run.theirs)
                run.follow(stopwatch())
            finally:
                run.close()
            if run.begun:
                break
        took = 1000 * (stopwatch() - started)
        if run.refused is not None:
            raise NotConfigured(
                f"the jail could not lock its process in ({run.refused}), so nothing was run; "
                f"{WITHOUT}"
            )
        wrapped = ("bubblewrap",) if self._wrapped else ()
        error = run.error()
        return Execution(
            success=error is None,
            output=run.output,
            error=error,
            execution_time_ms=took,
            engine=self.name,
            layers=(*wrapped, *(run.layers or ())),
            result=run.result,
            peak_mb=run.peak / 1024 if run.peak else None,
        )

    def close(self) -> None:
        """End the server, and with it every run."""
        with self._starting:
            self._forget()

    def _forget(self) -> None:
        """Close the connection and wait for the server to end; only close it if another process
        started the server."""
        control, process = self._control, self._process
        self._process = self._control = None
        mine = self._owner == os.getpid()
        if control is not None:
            if mine:  # A fork of this process may hold the socket as well.
                with suppress(OSError):
                    control.shutdown(socket.SHUT_RDWR)
            control.close()
        if process is not None and mine:
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _ask(self, request: bytes, fds: list[int]) -> None:
        """Have the server fork a run; starts the server, or starts it again, if it is not
        running."""
        with self._starting:
            for attempt in (1, 2):
                control = self._server()
                try:
                    socket.send_fds(control, [request], fds)
                    return
                except OSError:
                    self._forget()
                    if attempt == 2:
                        raise Unavailable("the jail's server ended: try again") from None

    def _server(self) -> socket.socket:
        alive = self._process is not None and self._process.poll() is None
        if self._control is not None and alive and self._owner == os.getpid():
            return self._control
        self._forget()
        if lock.ARCHES.get(os.uname().machine) is None or sys.platform != "linux":
            raise NotConfigured(
                f"the jail needs Linux on {' or '.join(lock.ARCHES)}, not "
                f"{sys.platform} on {os.uname().machine}; {WITHOUT}"
            )
        if self._wrapped is None:  # Tried once: what works is used from now on.
            self._wrapped = shutil.which("bwrap") is not None and self._start(_wrapping())
            started = self._wrapped or self._start([])
        else:
            started = self._start(_wrapping() if self._wrapped else [])
        if not started:
            raise Unavailable("the jail's server did not start: see `beforehand doctor`")
        assert self._control is not None
        return self._control

    def _start(self, wrapping: list[str]) -> bool:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {"TZ": "UTC", "PYTHONHASHSEED": "0", **one}
        process = subprocess.Popen(
            [*wrapping, *_interpreter()],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(START_S)
        try:
            said = ours.recv(16)
        except OSError:
            said = b""
        if said != b"ready":
            process.kill()
            process.wait()
            ours.close()
            return False
        ours.settimeout(None)
        self._process, self._control, self._owner = process, ours, os.getpid()
        return True


def _interpreter() -> list[str]:
    start = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); "
        f"from beforehand.sandbox.server import main; main({_packages()!r})"
    )
    return [sys.executable, "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start]


def _packages() -> str:
    """The folder in which numpy is installed; empty where it is not."""
    found = importlib.util.find_spec("numpy")
    return "" if found is None or found.origin is None else str(Path(found.origin).parents[1])


def _wrapping() -> list[str]:
    """Bubblewrap around the server: no network, no other processes, a read-only file system. Root
    keeps the rights that the server needs to run the code as the user nobody. (No
    --die-with-parent: the kernel ties that to the thread that started it. The server ends when the
    control socket closes.)"""
    wrapping = [shutil.which("bwrap") or "bwrap", "--new-session"]
    if os.getuid() == 0:
        wrapping += [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup-try")]
        wrapping += [
            part for cap in ("SETUID", "SETGID", "KILL") for part in ("--cap-add", f"CAP_{cap}")
        ]
    else:
        wrapping.append("--unshare-all")
    roots = {
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        sys.prefix,
        sys.base_prefix,
        str(HERE / "beforehand"),
    }
    for root in sorted({*roots, str(Path(sys.executable).resolve().parent.parent)}):
        if Path(root).exists():
            wrapping += ["--ro-bind", root, root]
    return [*wrapping, "--chdir", "/"]
