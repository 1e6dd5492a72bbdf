"""One run as its caller sees it: the job goes in; output, report and tool calls come out.

Nothing that comes out is trusted, and none of it can block the caller: every buffer has a limit,
and every wait has an end.

Code in a sandbox calls tools with lines of JSON. A call is `[number, name, args, kwargs]`. An
answer is `[number, "value", value]`, or has the name of an exception and its message, and the
exception is raised inside.
"""

import contextvars
import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import orjson

from beforehand.clock import stopwatch
from beforehand.errors import BeforehandError, InputError, NotFound
from beforehand.sandbox import reports
from beforehand.sandbox.policy import Policy, Tools

LONGEST_LINE = 2**18
MOST_SPOILED = 1000
STATUS = struct.Struct("<iiq")
GRACE_S = 5.0
"""Seconds after the limit; then the server itself counts as stuck."""
LONGEST_REPORT = 4 * 2**20
TOOL_THREADS, MOST_TAKEN_IN = 16, 16 * 2**20
SIGNALS = {
    9: "the run was killed (out of memory, or its limit of processor time)",
    11: "the interpreter crashed (signal 11): too deep a nesting, perhaps",
    31: "the run was killed: a system call of a foreign architecture",
}


class ToolLines:
    """The tools of one run, as the host sees them."""

    def __init__(self, tools: Tools) -> None:
        self._tools, self._buffer = tools, b""
        self.sending = threading.Lock()
        self._bad = 0
        self.stopped = self.spoiled = False

    @property
    def any(self) -> bool:
        """Whether there are tools at all."""
        return bool(self._tools)

    def stop(self) -> None:
        """The run is over: no answer is sent any more."""
        self.stopped = True

    def feed(self, data: bytes) -> Iterator[Any]:
        """The calls in the bytes that were read. The code may write anything: a line that is not a
        call is dropped, and too many such lines, or one that is too long, end the run."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > LONGEST_LINE:
            self.spoiled = True
        for line in filter(None, lines):
            try:
                number, name, args, kwargs = json.loads(line)
                good = isinstance(number, int) and isinstance(args, list)
                if not good or not isinstance(kwargs, dict):
                    raise ValueError
            except (ValueError, TypeError, RecursionError):
                self._bad += 1
                if self._bad > MOST_SPOILED:
                    self.spoiled = True
                    return
                continue
            yield number, name, args, kwargs

    def answer(self, call: Any) -> bytes:
        """Make the call and return the line that answers it."""
        number, name, args, kwargs = call
        try:
            if name not in self._tools:
                raise NotFound(f"no tool is named {name!r}")
            check_arguments(name, args, kwargs)
            return _line(number, "value", self._tools[name](*args, **kwargs))
        except Exception as error:
            return _line(number, *raised(error))


def check_arguments(name: str, args: object, kwargs: object) -> None:
    """Raises InputError for arguments that are no JSON of ours: half a character (a lone
    surrogate), a key that is not text, or a nesting as deep as no tool needs it."""
    try:
        orjson.dumps([args, kwargs])
    except (TypeError, RecursionError) as error:
        raise InputError(f"{name}: the arguments are not plain JSON: {error}") from None


def raised(error: Exception) -> tuple[str, str]:
    """The name and message of the exception to raise inside for this one outside."""
    if isinstance(error, (InputError, NotFound)):
        return "ValueError", str(error)
    if isinstance(error, TypeError):
        return "TypeError", str(error)
    if isinstance(error, BeforehandError):
        return "RuntimeError", str(error)
    return "RuntimeError", f"{type(error).__name__}: {error}"


def _line(number: int, kind: str, value: Any) -> bytes:
    return json.dumps([number, kind, value]).encode() + b"\n"


class Run:
    """The pipes of one run. `theirs` are the ends for the server."""

    def __init__(self, job: bytes, policy: Policy, tools: ToolLines) -> None:
        self._job, self._policy, self._tools = memoryview(job), policy, tools
        self._open: set[int] = set()
        self.theirs: list[int] = []
        self._line, line = socket.socketpair()
        try:
            job_out, self._job_in = self._pipe()
            self._out, out_in = self._pipe()
            self._report, report_in = self._pipe()
            self._status, status_in = self._pipe()
        except OSError:
            line.close()
            self.close()
            raise
        self.theirs = [job_out, out_in, report_in, line.detach(), status_in]
        self._printed, self._reported, self._state = bytearray(), bytearray(), b""
        self._pending, self._taken_in = set[Future[None]](), 0
        self._too_much = self._cancelled = False
        self._first: reports.Report | None = None
        self._last: reports.Report | None = None
        self.peak = 0

    def _pipe(self) -> tuple[int, int]:
        pair = os.pipe()
        self._open |= set(pair)
        return pair

    def follow(self, started: float) -> None:
        """Feed the job in and read until the child has ended."""
        for fd in self.theirs:
            os.close(fd)
        self._open -= set(self.theirs)
        self.theirs = []
        for fd in self._open:
            os.set_blocking(fd, False)
        self._line.setblocking(False)
        end = started + self._policy.timeout + GRACE_S
        pool = ThreadPoolExecutor(TOOL_THREADS, "tool") if self._tools.any else None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._job_in, selectors.EVENT_WRITE)
                for source in (self._out, self._report, self._status):
                    selector.register(source, selectors.EVENT_READ)
                self._loop(selector, pool, end)
                for fd in (self._out, self._report):  # What the child wrote before it ended.
                    while fd in self._open and self._read(fd, selector):
                        pass
        finally:
            self._tools.stop()
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        first, _, rest = bytes(self._reported).partition(b"\n")
        self._first, self._last = reports.parse(first), reports.parse(rest.partition(b"\n")[0])

    @property
    def layers(self) -> tuple[str, ...] | None:
        """The security layers that were active: the jail's first line, written before the code
        ran."""
        if self._first is None or "layers" not in self._first:
            return None
        return tuple(self._first["layers"])

    @property
    def begun(self) -> bool:
        """False if the server ended before the child said anything: the code has not run."""
        ended = self._too_much or self._cancelled
        return ended or self._first is not None or len(self._state) == STATUS.size

    @property
    def refused(self) -> str | None:
        """Why the child could not be locked in, if that is what happened."""
        return None if self._first is None else self._first.get("refused")

    @property
    def result(self) -> Any:
        """The value of the last expression."""
        return None if self._last is None else reports.plain(self._last.get("result"))

    @property
    def output(self) -> str:
        """What was printed, up to the limit."""
        return reports.text(bytes(self._printed), self._policy.output)

    def error(self) -> str | None:
        """Why the run failed, in a sentence; None if it did not."""
        policy = self._policy
        if self._cancelled:
            return "the run was cancelled"
        if self._too_much:
            return f"the output is longer than {policy.output:,} bytes: print less"
        if self._tools.spoiled:
            return "the run was ended: it wrote lines that are not calls to the tools' channel"
        if len(self._state) != STATUS.size:
            return "the jail's server ended in the middle of the run: try again"
        code, late, self.peak = STATUS.unpack(self._state)
        if late or (os.WIFSIGNALED(code) and os.WTERMSIG(code) == 24):
            return f"the time limit of {policy.timeout:g} s was reached"
        if os.WIFSIGNALED(code):
            number = os.WTERMSIG(code)
            return SIGNALS.get(number, f"the interpreter was ended by signal {number}")
        if self.layers is None and self._first is not None and "failed" in self._first:
            return reports.clean(str(self._first["failed"]))
        if (said := reports.error_of(self._last)) is not None:
            return said
        if self._last is None or "result" not in self._last:
            return f"the run ended without a report (exit code {os.waitstatus_to_exitcode(code)})"
        return None

    def close(self) -> None:
        """Close what is open; the server kills a run if the reading end of its status is closed."""
        for fd in {*self.theirs, *self._open}:
            os.close(fd)
        self._open.clear()
        self.theirs = []
        self._line.close()

    def _loop(
        self, selector: selectors.BaseSelector, pool: ThreadPoolExecutor | None, end: float
    ) -> None:
        listening = False
        while self._status in self._open and not self._tools.spoiled:
            if stopwatch() > end:  # The server itself is gone or stuck.
                return
            if self._policy.stop is not None and self._policy.stop.is_set():
                self._cancelled = True  # The status is closed next: the server kills it.
                return
            self._pending = {call for call in self._pending if not call.done()}
            if not self._pending:
                self._taken_in = 0
            # While the code writes calls it reads no answers. So calls are read long before a
            # thread is free for them: else both sides would wait for each other.
            room = pool is not None and self._taken_in < MOST_TAKEN_IN
            if room and not listening and self._line.fileno() >= 0:
                selector.register(self._line, selectors.EVENT_READ)
            elif listening and not room:
                selector.unregister(self._line)
            listening = self._line.fileno() >= 0 and room
            for key, _ in selector.select(0.005 if self._pending and not room else 0.5):
                if key.fileobj is self._line:
                    assert pool is not None
                    if not self._converse(pool):
                        selector.unregister(self._line)
                        self._line.close()
                        listening = False
                elif key.fd == self._job_in:
                    self._feed(selector)
                elif key.fd in self._open:  # An earlier event of this batch may have closed it.
                    self._read(key.fd, selector)

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
            if len(self._printed) > self._policy.output:
                self._too_much = True
                self._shut(fd, selector)
                if self._status in self._open:  # Once closed, the server kills the run.
                    self._shut(self._status, selector)
        return bool(data)

    def _converse(self, pool: ThreadPoolExecutor) -> bool:
        """Read calls and hand them out; False once the line is closed."""
        try:
            data = self._line.recv(2**16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._taken_in += len(data)
        for call in self._tools.feed(data):
            context = contextvars.copy_context()
            self._pending.add(pool.submit(context.run, self._answer, call))
        return bool(data)

    def _answer(self, call: Any) -> None:
        if self._tools.stopped:
            return
        left = memoryview(self._tools.answer(call))
        quiet = suppress(OSError, ValueError)
        with self._tools.sending, quiet, selectors.DefaultSelector() as writable:
            writable.register(self._line, selectors.EVENT_WRITE)
            while left and not self._tools.stopped:  # The child may be slow to read.
                if writable.select(0.2):
                    left = left[self._line.send(left[: 2**18]) :]

    def _shut(self, fd: int, selector: selectors.BaseSelector) -> None:
        with suppress(KeyError):
            selector.unregister(fd)
        os.close(fd)
        self._open.discard(fd)
