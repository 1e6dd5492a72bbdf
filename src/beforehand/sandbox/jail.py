"""The default engine: a fork-server jail (rlimits, another user, Landlock, seccomp).

The server is a process of its own that this module starts when first needed and asks for one
fork a run. It fails closed: where the kernel has no seccomp, nothing runs. Where namespaces are
allowed the whole server stands in bubblewrap as well.
"""

import json
import os
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from beforehand.clock import stopwatch
from beforehand.errors import ExecutionFailed, NotConfigured
from beforehand.sandbox import seccomp
from beforehand.sandbox.policy import DEFAULT, INSTEAD, Execution, Policy, Tools, check
from beforehand.sandbox.toolcalls import ToolLines

REQUEST, STATUS = struct.Struct("<d?"), struct.Struct("<iiq")
START_S = 20.0
GRACE_S = 5.0
LONGEST_REPORT = 4 * 2**20
HERE = Path(__file__).resolve().parents[2]
WITHOUT = "the engines monty and daytona run without it"


class Jail:
    """One fork server. Safe for threads: runs go side by side."""

    name = "jail"

    def __init__(self, bubblewrap: bool | None = None, guard: bool = True) -> None:
        """`bubblewrap` None takes it where it works. Without `guard` the code has all builtins and
        imports: the wall is the same, the messages are not (for tests of the wall)."""
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
        options = {
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
        run = _Run(job, policy, ToolLines(tools or {}))
        try:
            self._ask(REQUEST.pack(policy.timeout, "asyncio" in policy.modules), run.theirs)
            run.follow(started)
        finally:
            run.close()
        took = 1000 * (stopwatch() - started)
        if run.layers is None:
            raise NotConfigured(
                "the jail could not lock its process in (no seccomp here, or the machine is out of "
                f"memory), so nothing was run; {WITHOUT}. {run.why()}".strip()
            )
        wrapped = ("bubblewrap",) if self._wrapped else ()
        error = run.error(policy)
        return Execution(
            success=error is None,
            output=run.output(policy),
            error=error,
            execution_time_ms=took,
            engine=self.name,
            layers=(*wrapped, *run.layers),
            result=run.ended.get("result"),
            peak_mb=run.peak / 1024 if run.peak else None,
        )

    def close(self) -> None:
        """End the server, and with it every run."""
        with self._starting:
            if self._control is not None:
                self._control.close()
            if self._process is not None and self._owner == os.getpid():
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE_S)
            self._process = self._control = None

    def _ask(self, request: bytes, fds: list[int]) -> None:
        """Have the server fork a run; starts it, or starts it again, where it is not there."""
        with self._starting:
            for attempt in (1, 2):
                control = self._server()
                try:
                    socket.send_fds(control, [request], fds)
                    return
                except OSError:
                    self._process = self._control = None
                    if attempt == 2:
                        raise ExecutionFailed("the jail's server ended: try again") from None

    def _server(self) -> socket.socket:
        alive = self._process is not None and self._process.poll() is None
        if self._control is not None and alive and self._owner == os.getpid():
            return self._control
        if seccomp.ARCHES.get(os.uname().machine) is None or sys.platform != "linux":
            raise NotConfigured(
                f"the jail knows Linux on {' and '.join(seccomp.ARCHES)}, not "
                f"{sys.platform} on {os.uname().machine}; {WITHOUT}"
            )
        if self._wrapped is None:  # Asked by trying: what works stays.
            self._wrapped = shutil.which("bwrap") is not None and self._start(_wrapping())
            started = self._wrapped or self._start([])
        else:
            started = self._start(_wrapping() if self._wrapped else [])
        if not started:
            raise ExecutionFailed("the jail's server did not start: see `beforehand doctor`")
        assert self._control is not None
        return self._control

    def _start(self, wrapping: list[str]) -> bool:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"TZ": "UTC", "PYTHONHASHSEED": "0"}
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


class _Run:
    """The pipes of one run, and what came out of them."""

    def __init__(self, job: bytes, policy: Policy, tools: ToolLines) -> None:
        self._job = memoryview(job)
        self._tools = tools
        job_out, self._job_in = os.pipe()
        self._out, out_in = os.pipe()
        self._report, report_in = os.pipe()
        self._status, status_in = os.pipe()
        self._line, line_in = socket.socketpair()
        self.theirs = [job_out, out_in, report_in, line_in.fileno(), status_in]
        self._theirs = [*self.theirs[:3], line_in.detach(), status_in]
        self._limit = policy.output
        self._deadline = policy.timeout + GRACE_S
        self._printed, self._reported, self._state = bytearray(), bytearray(), b""
        self.too_much = False
        self.layers: tuple[str, ...] | None = None
        self.ended: dict[str, Any] = {}
        self.peak = 0
        self._open = {self._job_in, self._out, self._report, self._status}

    def follow(self, started: float) -> None:
        """Feed the job in and read until the child has ended."""
        self._close(*self._theirs)
        self._theirs = []
        for fd in (self._job_in, self._out, self._report, self._status):
            os.set_blocking(fd, False)
        self._line.setblocking(False)
        with selectors.DefaultSelector() as selector, ThreadPoolExecutor(16) as pool:
            selector.register(self._job_in, selectors.EVENT_WRITE)
            for source in (self._out, self._report, self._status, self._line):
                selector.register(source, selectors.EVENT_READ)
            pending = set[Future[None]]()
            while self._status in self._open:
                if stopwatch() - started > self._deadline:  # The server itself is gone or stuck.
                    break
                for key, _ in selector.select(0.5):
                    if key.fileobj is self._line:
                        self._converse(selector, pool, pending)
                    elif key.fd == self._job_in:
                        self._feed(selector)
                    else:
                        self._read(key.fd, selector)
            for fd in (self._out, self._report):  # What the child wrote before it ended.
                while fd in self._open and self._read(fd, selector):
                    pass
            self._tools.stop()
        self._parse()

    def why(self) -> str:
        """What the child said when it could not be locked in."""
        return str(self.ended.get("error", ""))

    def error(self, policy: Policy) -> str | None:
        """Why the run failed, in a sentence; None if it did not."""
        if self.too_much:
            return f"the output is longer than {policy.output:,} bytes: print less"
        code, late = 0, 0
        if len(self._state) == STATUS.size:
            code, late, self.peak = STATUS.unpack(self._state)
        elif "error" not in self.ended and "result" not in self.ended:
            return f"the run was ended after {self._deadline:g} s"
        if late:
            return f"the time limit of {policy.timeout:g} s was reached"
        if os.WIFSIGNALED(code):
            return _signalled(os.WTERMSIG(code), policy)
        if "error" in self.ended:
            return str(self.ended["error"])
        if "result" not in self.ended:
            return f"the run ended without a report (exit code {os.waitstatus_to_exitcode(code)})"
        return None

    def output(self, policy: Policy) -> str:
        """What was printed, up to the limit; bytes that are no UTF-8 become a mark."""
        return bytes(self._printed[: policy.output]).decode("utf-8", "replace")

    def close(self) -> None:
        """Close what is open; the server kills a run whose status nobody reads."""
        self._close(*self._theirs, *self._open)
        self._open.clear()
        self._line.close()

    def _feed(self, selector: selectors.BaseSelector) -> None:
        try:
            self._job = self._job[os.write(self._job_in, self._job[: 2**20]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._job = self._job[:0]
        if not self._job:
            self._shut(self._job_in, selector)

    def _read(self, fd: int, selector: selectors.BaseSelector) -> bool:
        try:
            data = os.read(fd, 2**18)
        except BlockingIOError:
            return False
        if not data:
            self._shut(fd, selector)
        elif fd == self._status:
            self._state += data
        elif fd == self._report:
            self._reported += data[: LONGEST_REPORT - len(self._reported)]
        else:
            self._printed += data
            if len(self._printed) > self._limit:
                self.too_much = True
                self._shut(self._status, selector)  # Nobody reads on: the server kills it.
                self._shut(fd, selector)
        return bool(data)

    def _converse(
        self, selector: selectors.BaseSelector, pool: ThreadPoolExecutor, pending: set[Future[None]]
    ) -> None:
        try:
            data = self._line.recv(2**18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            selector.unregister(self._line)
            return
        for call in self._tools.feed(data):
            pending.add(pool.submit(self._answer, call))

    def _answer(self, call: Any) -> None:
        reply = self._tools.answer(call)
        with self._tools.sending, suppress(OSError):
            # The child may be slow to read: wait for it, a moment at a time.
            left = memoryview(reply)
            with selectors.DefaultSelector() as writable:
                writable.register(self._line, selectors.EVENT_WRITE)
                while left and not self._tools.stopped:
                    if writable.select(0.5):
                        left = left[self._line.send(left[: 2**18]) :]

    def _parse(self) -> None:
        """The first line is the jail's own; the second may have been written by the code."""
        first, _, rest = bytes(self._reported).partition(b"\n")
        try:
            preamble = json.loads(first)
        except ValueError:
            return
        if "layers" not in preamble:
            self.ended = {"error": preamble.get("refused")}
            return
        self.layers = tuple(preamble["layers"])
        with suppress(ValueError):
            found = json.loads(rest.partition(b"\n")[0])
            self.ended = found if isinstance(found, dict) else {}

    def _shut(self, fd: int, selector: selectors.BaseSelector) -> None:
        with suppress(KeyError):
            selector.unregister(fd)
        self._close(fd)
        self._open.discard(fd)

    @staticmethod
    def _close(*fds: int) -> None:
        for fd in fds:
            os.close(fd)


def _signalled(number: int, policy: Policy) -> str:
    if number == 24:  # SIGXCPU
        return f"the time limit of {policy.timeout:g} s was reached"
    if number == 9:
        return "the run was killed (out of memory, or its limit of processor time)"
    if number == 31:
        return "the run was killed: a system call of a foreign architecture"
    if number == 11:
        return "the interpreter crashed (signal 11): too deep a recursion, perhaps"
    return f"the interpreter was ended by signal {number}"


def _interpreter() -> list[str]:
    start = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); "
        "from beforehand.sandbox.server import main; main()"
    )
    return [sys.executable, "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start]


def _wrapping() -> list[str]:
    """Bubblewrap around the server: no network, no other processes, a read-only world. Root keeps
    what the server needs to run the code as nobody."""
    wrapping = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
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
