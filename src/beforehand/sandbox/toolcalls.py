"""Tools called from inside a sandbox: lines of JSON to calls, and answers to lines.

A call is `[number, name, args, kwargs]`, an answer `[number, "value", value]`, or the name of an
exception and its message, which is raised inside.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any

from beforehand.errors import BeforehandError, InputError, NotFound
from beforehand.sandbox.policy import Tools

LONGEST_LINE = 2**18
MOST_SPOILED = 1000


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
        """The calls in what was read. The code may write anything: what is no call is dropped, and
        too much of it spoils the run."""
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
        """Make the call; the line that answers it."""
        number, name, args, kwargs = call
        try:
            if name not in self._tools:
                raise NotFound(f"no tool is named {name!r}")
            return _line(number, "value", self._tools[name](*args, **kwargs))
        except Exception as error:
            return _line(number, *raised(error))


def raised(error: Exception) -> tuple[str, str]:
    """The exception that is raised inside for one outside: its name and message."""
    if isinstance(error, (InputError, NotFound)):
        return "ValueError", str(error)
    if isinstance(error, TypeError):
        return "TypeError", str(error)
    if isinstance(error, BeforehandError):
        return "RuntimeError", str(error)
    return "RuntimeError", f"{type(error).__name__}: {error}"


def _line(number: int, kind: str, value: Any) -> bytes:
    return json.dumps([number, kind, value]).encode() + b"\n"
