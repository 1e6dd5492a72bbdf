"""What happens in the jail: one child, one run, then it ends. Standard library only.

The order matters: read the job, set the limits, the clock and the seed, prepare the event loop,
lock, and only then compile and run. Whatever the code does to this interpreter, the lock holds;
the guard (restricted builtins and imports) is there for good messages, not for security.
"""

import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from beforehand.sandbox import lock, program

if TYPE_CHECKING:
    import asyncio

JOB, OUTPUT, REPORT, TOOLS = 0, 1, 3, 4
PRELOADED = (
    "_strptime calendar locale decimal fractions numbers bisect heapq operator copy copyreg "
    "unicodedata stringprep collections.abc json.decoder json.encoder json.scanner "
    "encodings.ascii encodings.latin_1 encodings.utf_16 encodings.utf_32 encodings.cp1252 "
    "encodings.idna encodings.raw_unicode_escape encodings.unicode_escape encodings.hex_codec "
    "encodings.rot_13 re datetime statistics string functools itertools math __future__ "
    "contextlib reprlib keyword abc enum types weakref struct typing"
).split()
"""Modules that the allowed ones import late: no file can be opened once the lock is on."""
LATER = (
    *("asyncio", "array", "base64", "cmath", "csv", "dataclasses", "difflib", "graphlib"),
    *("pprint", "textwrap", "numpy"),
)
"""Modules that the server imports when the first code asks for them: the place of each is its bit
in a request."""
PARTS = {"numpy": ("linalg", "fft", "random", "polynomial")}


class JobOptions(program.RunOptions):
    """The first line of a job: the lengths of its code and input, its limit in seconds, and the
    names of its tools."""

    code: int
    input: int
    timeout: float
    tools: list[str]


def preload() -> None:
    """Import everything that a run may need."""
    for name in PRELOADED:
        importlib.import_module(name)


def wanted(code: str, modules: Iterable[str]) -> int:
    """The modules of `LATER` that code may import, as bits. (With asyncio the code gets a loop,
    whether it names it or not.)"""
    allowed = set(modules)
    return sum(
        1 << i
        for i, name in enumerate(LATER)
        if name in allowed and (name == "asyncio" or name in code)
    )


def preload_later(bits: int, packages: str) -> None:
    """Import what a request asks for. asyncio takes as long as all the rest, mostly for TLS, which
    is left out; numpy lies in the folder `packages`."""
    for i, name in enumerate(LATER):
        if not bits >> i & 1 or name in sys.modules:
            continue
        if name == "asyncio":
            sys.modules["ssl"] = None  # type: ignore[assignment]
        sys.path.append(packages)
        try:
            module = importlib.import_module(name)
            for part in PARTS.get(name, ()):
                importlib.import_module(f"{name}.{part}")
        except ImportError:
            continue  # The code is told when it imports it.
        finally:
            sys.path.remove(packages)
        if name == "asyncio":
            module.new_event_loop().close()


def run() -> None:
    """Read the job, lock, run, report. Ends the process."""
    try:
        code, raw, options, loop, out = _prepare()
    except BaseException as error:
        _report({"failed": f"{type(error).__name__}: the input could not be read ({error})"})
        os._exit(71)
    try:
        layers = lock.lock((TOOLS,), (OUTPUT, REPORT, TOOLS))
    except BaseException as error:
        _report({"refused": f"{type(error).__name__}: {error}"})
        os._exit(71)
    if options["guard"]:
        layers.append("guard")
    _report({"layers": layers})
    functions = {}
    if loop is not None and options["tools"]:
        remote = _Remote(loop)
        functions = {name: remote.function(name) for name in options["tools"]}
    ended = program.execute(code, raw, options, loop, functions)
    with suppress(OSError, ValueError):
        out.flush()
    _report(ended)
    os._exit(0)


def _prepare() -> tuple[bytes, bytes, JobOptions, "asyncio.AbstractEventLoop | None", Any]:
    """Do everything that is not possible once the lock is on."""
    source = os.fdopen(JOB, "rb", closefd=False)
    options: JobOptions = json.loads(source.readline())
    lock.limits(options["memory"], options["timeout"])
    code, raw = source.read(options["code"]), source.read(options["input"])
    os.close(JOB)
    program.seed_random(options["seed"])
    if "numpy" in options["modules"] and "numpy" in sys.modules:
        program.seed_numpy(options["seed"])
    if options["now"] is not None:
        program.freeze_clock(options["now"])
    loop = None
    if "asyncio" in options["modules"]:
        import asyncio

        loop = asyncio.new_event_loop()
    out = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(OUTPUT, "w", closefd=False), 8192),
        "utf-8",
        errors="backslashreplace",
        newline="\n",
        line_buffering=True,
    )
    for name, stream in (("stdin", None), ("stderr", None), ("stdout", out)):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return code, raw, options, loop, out


def _report(value: Mapping[str, object]) -> None:
    data = json.dumps(value).encode() + b"\n"
    while data:
        data = data[os.write(REPORT, data) :]


class _Remote:
    """The tools outside: a line of JSON for a call, a line of JSON back, any number of calls at a
    time."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        self._loop, self._buffer, self._asked = loop, b"", 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        loop.add_reader(TOOLS, self._read)

    def function(self, name: str) -> Callable[..., Any]:
        """The async function that stands for a tool."""

        async def call(*args: Any, **kwargs: Any) -> Any:
            number = self._asked + 1
            try:
                asked = json.dumps([number, name, args, kwargs], ensure_ascii=False)
                line = asked.encode() + b"\n"
            except (UnicodeEncodeError, RecursionError):
                raise ValueError(
                    f"{name}: the arguments hold half a character (a lone surrogate), or nest too "
                    "deeply"
                ) from None
            self._asked = number
            answer = self._waiting[number] = self._loop.create_future()
            while line:
                line = line[os.write(TOOLS, line) :]
            return await answer

        call.__name__ = call.__qualname__ = name
        return call

    def _read(self) -> None:
        data = os.read(TOOLS, 2**20)
        if not data:
            self._loop.remove_reader(TOOLS)
            for future in self._waiting.values():
                future.set_exception(RuntimeError("the tools can no longer be reached"))
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            number, kind, value = json.loads(line)
            future = self._waiting.pop(number)
            if future.done():
                continue
            if kind == "value":
                future.set_result(value)
            else:
                known = {"ValueError": ValueError, "TypeError": TypeError}
                future.set_exception(known.get(kind, RuntimeError)(value))
