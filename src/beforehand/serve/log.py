"""The log of the servers: lines on standard error, written by a thread of their own.

A slow or missing reader must not delay an answer: lines are dropped instead.
"""

import queue
import sys
import threading
from contextlib import suppress

from beforehand.clock import Clock, iso

MOST_WAITING, LAST_S = 10_000, 2.0


class LogWriter:
    """Safe for threads; `write` never waits and never fails."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Write one line (a traceback keeps its own lines) with the time. Control characters that a
        terminal would act on are escaped."""
        safe = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
        with suppress(queue.Full):
            self._waiting.put_nowait(f"{iso(self._clock.now())} {safe}\n")

    def close(self) -> None:
        """Write the waiting lines, for LAST_S seconds at most."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(LAST_S)

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            with suppress(OSError, ValueError):
                sys.stderr.write(line)
                sys.stderr.flush()
