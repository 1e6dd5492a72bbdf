"""The jail's fork server: a clean process that forks once for each run.

It is started with an empty environment and preloads what the code may import, so that a run needs
to open nothing. It never reads a job: the child does, after the fork, so nothing of one run can
reach another. One request on the control socket is `struct REQUEST` and the child's descriptors
(job, output, report, tools) and the status pipe; the status is written when the child has ended.
"""

import fcntl
import gc
import os
import select
import signal
import socket
import struct
from contextlib import suppress

from beforehand.clock import stopwatch
from beforehand.sandbox import inside

CONTROL = 0
REQUEST = struct.Struct("<dI")
"""Seconds that the run may take, and the modules of `inside.LATER` that it may import, as bits."""
STATUS = struct.Struct("<iiq")
"""The wait status, whether time ran out, the peak of resident memory in KiB."""
FDS = 5
READY = b"ready"


def main(packages: str) -> None:
    """Serve until the control socket closes. `packages` is the folder in which numpy lies."""
    os.closerange(3, 4096)
    inside.preload()
    gc.collect()
    gc.freeze()
    # A child that ends interrupts the wait; its status is read by pid.
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    control = socket.socket(fileno=CONTROL)
    control.sendall(READY)
    _serve(control, wake, packages)


def _serve(control: socket.socket, wake: int, packages: str) -> None:
    running: dict[int, tuple[int, float]] = {}
    late: set[int] = set()
    poll = select.poll()
    poll.register(CONTROL, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ends = [end for pid, (_, end) in running.items() if pid not in late]
        wait = max(0.0, min(ends) - stopwatch()) if ends else None
        events = dict(poll.poll(None if wait is None else int(wait * 1000) + 1))
        if wake in events:
            with suppress(BlockingIOError):
                os.read(wake, 4096)
        for pid, (status, end) in list(running.items()):
            if events.get(status, 0) & select.POLLERR or stopwatch() >= end:
                # The caller closed its end, or the time is up.
                if pid not in late and not events.get(status, 0) & select.POLLERR:
                    late.add(pid)
                os.kill(pid, signal.SIGKILL)
            done, code, used = os.wait4(pid, os.WNOHANG)
            if done:
                poll.unregister(status)
                del running[pid]
                with suppress(OSError):
                    os.write(status, STATUS.pack(code, pid in late, used.ru_maxrss))
                os.close(status)
                late.discard(pid)
        if CONTROL in events:
            message, fds, _, _ = socket.recv_fds(control, REQUEST.size, FDS)
            if not message:
                return
            job, output, report, tools, status = fds
            timeout, modules = REQUEST.unpack(message)
            inside.preload_later(modules, packages)
            try:
                pid = os.fork()
            except OSError:  # No room for another process: the caller sees its pipes close.
                for fd in fds:
                    os.close(fd)
                continue
            if pid == 0:
                try:
                    _child(job, output, report, tools)
                finally:
                    os._exit(70)
            for fd in (job, output, report, tools):
                os.close(fd)
            running[pid] = (status, stopwatch() + timeout)
            poll.register(status, 0)


def _child(job: int, output: int, report: int, tools: int) -> None:
    """Put the descriptors in their places, close all others, run."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    moved = [_above(fd) for fd in (job, output, report, tools)]
    places = (inside.JOB, inside.OUTPUT, inside.REPORT, inside.TOOLS)
    for fd, place in zip(moved, places, strict=True):
        os.dup2(fd, place)
    os.closerange(inside.TOOLS + 1, 4096)
    inside.run()


def _above(fd: int) -> int:
    """A copy of the descriptor with a number above the places that `_child` fills."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD, 16)
