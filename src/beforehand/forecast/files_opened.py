"""The files that code opens: what may carry an answer, or a memory, from one run to another."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

MOST_FILES = 100
_SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/etc", "/bin", "/var", "/run")
_WATCHED: ContextVar["FilesOpened | None"] = ContextVar("_WATCHED", default=None)


class FilesOpened:
    """The files that are opened, besides code, libraries, what every process reads and what lies
    `apart`; where only those count that are `read`, none that is there and only written. The first
    `MOST_FILES` of them are kept, in `found`, with when each had been written when it was first
    opened (seconds since 1970; None where it was not there). Code that means to hide can: it runs
    with us."""

    def __init__(self, apart: Sequence[Path], read: bool = False) -> None:
        package = Path(__file__).resolve().parents[1]
        folders = [*map(str, apart), str(package), sys.prefix, sys.base_prefix, *_SYSTEM]
        self._apart = tuple(f"{os.path.abspath(path)}{os.sep}" for path in folders)
        self._read, self.found = read, dict[str, float | None]()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note what is opened inside, in this thread and in the tasks that it begins."""
        _begin()
        token = _WATCHED.set(self)
        try:
            yield
        finally:
            _WATCHED.reset(token)

    def watch_all(self) -> None:
        """Note what this process opens from now on."""
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at an event of Python's audit."""
        if event not in ("open", "sqlite3.connect"):
            return
        if not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        written = self._read and event == "open" and not _reads(*arguments[1:3])
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if path.endswith((".py", ".pyc", ".so")) or path.startswith(self._apart):
            return
        if path in self.found or len(self.found) >= MOST_FILES or os.path.isdir(path):
            return
        try:
            at = os.stat(path).st_mtime
        except OSError:
            self.found[path] = None  # It is made here: no earlier run has written it.
            return
        if not written:
            self.found[path] = at

    def newest(self) -> tuple[float, str] | None:
        """When the newest of them had been written before it was first opened (seconds since 1970),
        and its path; None where none was there."""
        return max(((at, path) for path, at in self.found.items() if at is not None), default=None)


def _reads(mode: object, flags: object) -> bool:
    """Whether a file is opened to be read."""
    if isinstance(mode, str):
        return "r" in mode or "+" in mode
    return not isinstance(flags, int) or flags & os.O_ACCMODE != os.O_WRONLY


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if (event == "open" or event == "sqlite3.connect") and (one := _WATCHED.get()) is not None:
        one.note(event, arguments)


_BEGUN = list[bool]()


def _begin() -> None:
    """Python's audit has no end: one hook for all that are ever watched."""
    if not _BEGUN:
        _BEGUN.append(True)
        sys.addaudithook(_look)
