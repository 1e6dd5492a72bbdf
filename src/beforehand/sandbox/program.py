"""Running a piece of code in an interpreter that is already locked in. Standard library only.

The engines with an interpreter of their own (wasi, daytona) send the text of this file there, so it
imports nothing of this package. The guard (restricted builtins and imports) is there for good
messages, not for security.
"""

import ast
import builtins
import datetime
import json
import keyword
import random
import sys
import time
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import asyncio

NAME = "<code>"
LONGEST_ERROR = 4000
LONGEST_RESULT = 2**20
_NO_FILES, _NO_CODE = "there are no files, the input is in input_data", "write the code out"
_NOBODY = "nobody is there to answer"
BLOCKED = {
    "open": _NO_FILES,
    "eval": _NO_CODE,
    "exec": _NO_CODE,
    "compile": _NO_CODE,
    "input": _NOBODY,
    "breakpoint": _NOBODY,
    "help": _NOBODY,
}
FROM_C = ("time", "_strptime")
"""Modules that built-in functions import on behalf of the code that calls them."""


class RunOptions(TypedDict):
    """What a run is given beside its code and input. `now` is in seconds since 1970, `memory` in
    bytes; `instead` is what to use in place of a module."""

    seed: int
    now: float | None
    modules: list[str]
    memory: int
    guard: bool
    instead: dict[str, str]


def execute(
    code: bytes,
    raw: bytes,
    options: RunOptions,
    loop: "asyncio.AbstractEventLoop | None",
    functions: dict[str, Callable[..., Any]],
) -> dict[str, object]:
    """Compile and run, with `functions` as globals too; returns {"error": …} or {"result": …}.

    With a loop, the code may use asyncio and await outside of functions.
    """
    try:
        data = json.loads(raw)
        names = global_names(data, functions)
        space = {"__name__": "__main__", **functions, **{name: data[name] for name in names}}
        space["input_data"] = data
        space["__builtins__"] = (
            _guarded(options["modules"], options["instead"]) if options["guard"] else vars(builtins)
        )
        if loop is not None:
            import asyncio

            asyncio.set_event_loop(loop)
            asyncio.run = _runner(loop)
        tree = ast.parse(code.decode(), NAME)
        if tree.body and isinstance(last := tree.body[-1], ast.Expr):
            target = ast.copy_location(ast.Name("__result__", ast.Store()), last)
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if loop is not None else 0
        made = compile(ast.fix_missing_locations(tree), NAME, "exec", flags)
        del tree
        if loop is not None and made.co_flags & 0x80:  # A coroutine: there is an await outside.
            loop.run_until_complete(types.FunctionType(made, space)())
        else:
            exec(made, space)
        return {"result": _plain(space.get("__result__"))}
    except SystemExit as error:
        if error.code in (None, 0):
            return {"result": None}
        return {"error": f"SystemExit: {error.code}"[:LONGEST_ERROR]}
    except BaseException as error:
        return {"error": _told(error, options["memory"])}


def global_names(data: Iterable[str], functions: Iterable[str] = ()) -> list[str]:
    """The keys of the input that are globals of the code too: names that hide nothing."""
    taken = {*vars(builtins), *functions, "input_data"}
    return [
        key
        for key in data
        if key.isidentifier()
        and not keyword.iskeyword(key)
        and not key.startswith("__")
        and key not in taken
    ]


def _guarded(modules: list[str], instead: dict[str, str]) -> dict[str, object]:
    """Builtins without those that reach outside, and with an import that allows only the list."""
    allowed, real = {*modules, "__future__"}, builtins.__import__

    def imported(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> types.ModuleType:
        root = name.partition(".")[0]
        if name in FROM_C and isinstance(fromlist, list):
            return real(name, globals, locals, fromlist, level)
        if level or root not in allowed:
            near = f" Use {instead[root]} instead." if root in instead else ""
            raise ImportError(
                f"import of {name!r} is not allowed here.{near} Allowed: {', '.join(modules)}"
            )
        try:
            return real(name, globals, locals, fromlist, level)
        except OSError:
            raise ImportError(f"{name!r} is not available here") from None

    def refuse(name: str) -> Callable[..., Any]:
        def refused(*_: Any, **__: Any) -> Any:
            raise PermissionError(f"{name} is blocked here: {BLOCKED[name]}")

        refused.__name__ = name
        return refused

    found = {k: v for k, v in vars(builtins).items() if k not in ("exit", "quit", "copyright")}
    return {**found, "__import__": imported, **{name: refuse(name) for name in BLOCKED}}


def _told(error: BaseException, memory: int) -> str:
    """An exception in a sentence: what, and on which line of the code."""
    name = type(error).__name__[:200]
    if isinstance(error, SyntaxError) and error.filename == NAME:
        text = f": {error.text.strip()[:200]}" if error.text else ""
        return f"{name}: {error.msg} (line {error.lineno}){text}"[:LONGEST_ERROR]
    try:
        message = str(error)
    except BaseException:
        message = "(its message could not be read)"
    if isinstance(error, MemoryError):
        message = message or f"more than {memory // 2**20} MB were needed, or too deep a nesting"
    line, place = None, ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == NAME:
            line, inner = trace.tb_lineno, trace.tb_frame.f_code.co_name
            place = "" if inner == "<module>" else f", in {inner}"
        trace = trace.tb_next
    where = "" if line is None else f" (line {line}{place})"
    return f"{name}: {message[:LONGEST_ERROR]}{where}" if message else f"{name}{where}"


def _plain(value: Any) -> Any:
    """A JSON value as it is; else, or if it is too long, its text, cut to a limit."""
    if value is None:
        return None
    try:
        if len(json.dumps(value, allow_nan=False)) <= LONGEST_RESULT:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return repr(value)[:LONGEST_ERROR]


def seed_random(seed: int) -> None:
    """Seed random, and every generator that is made without a seed."""
    plain, source = random.Random.seed, random.Random(seed)

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        plain(self, source.getrandbits(64) if a is None else a, version)

    random.Random.seed = seeded  # type: ignore[method-assign]
    random.SystemRandom = random.Random  # type: ignore[misc,assignment]
    shared = random.seed.__self__  # type: ignore[attr-defined]
    made = random.Random(seed)
    for name in dir(random):
        if getattr(getattr(random, name), "__self__", None) is shared:
            setattr(random, name, getattr(made, name))


def seed_numpy(seed: int) -> None:
    """The same for numpy's generators."""
    import numpy

    source, plain = random.Random(seed), numpy.random.default_rng

    def default_rng(seed: Any = None) -> Any:
        return plain(source.getrandbits(64) if seed is None else seed)

    numpy.random.seed(seed % 2**32)
    numpy.random.default_rng = default_rng


def freeze_clock(now: float) -> None:
    """Let the clock answer `now` (seconds since 1970), in UTC: in datetime's own classes where this
    interpreter lets them be changed, and everywhere in time but for the clocks that only measure
    how long something takes."""
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)

    def at(seconds: float | None = None) -> time.struct_time:
        known = (
            moment if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        )
        found = known.timetuple()
        return time.struct_time((*found[:8], 0))

    formatted, texts = time.strftime, time.asctime
    clocks = {
        "time": lambda: now,
        "time_ns": lambda: int(now * 1_000_000) * 1000,
        "localtime": at,
        "gmtime": at,
        "ctime": lambda seconds=None: texts(at(seconds)),
        "asctime": lambda t=None: texts(at() if t is None else t),
        "strftime": lambda format, t=None: formatted(format, at() if t is None else t),
    }
    for name, function in clocks.items():
        setattr(time, name, function)
    for name in ("clock_gettime", "clock_gettime_ns", "clock_settime", "clock_settime_ns"):
        if hasattr(time, name):
            delattr(time, name)

    def current(cls: Any, tz: Any = None) -> Any:
        return cls.fromtimestamp(now, tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(now, datetime.UTC).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(now)

    methods: dict[str, Callable[..., Any]] = {"now": current, "utcnow": utcnow, "today": today}
    if not (_changed(datetime.datetime, methods) and _changed(datetime.date, {"today": today})):
        _frozen(methods)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("ctypes", "_ctypes")]:
        del sys.modules[name]  # By it, C's own clock could be asked.


def _changed(cls: type, methods: dict[str, Callable[..., Any]]) -> bool:
    """Put class methods into a class that is written in C; False where that cannot be done. A
    class above it, or another one derived from it, would still have the real ones."""
    try:
        import ctypes
        import gc

        (space,) = gc.get_referents(cls.__dict__)
        for name, method in methods.items():
            space[name] = classmethod(method)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    except (ImportError, AttributeError, ValueError):
        return False
    return all(getattr(cls, name).__func__ is method for name, method in methods.items())


def _frozen(methods: dict[str, Callable[..., Any]]) -> None:
    """A class in datetime's place, where the class itself cannot be changed."""
    real = datetime.datetime

    class Frozen(real):  # type: ignore[misc,valid-type]
        """datetime.datetime with a clock that stands still."""

        __slots__ = ()

        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

    for name, method in methods.items():
        setattr(Frozen, name, classmethod(method))
    Frozen.__module__, Frozen.__name__, Frozen.__qualname__ = "datetime", "datetime", "datetime"
    Frozen.min, Frozen.max = Frozen(1, 1, 1), Frozen(9999, 12, 31, 23, 59, 59, 999999)
    datetime.datetime = Frozen  # type: ignore[misc]


def _runner(loop: "asyncio.AbstractEventLoop") -> Any:
    """asyncio.run on the one loop that was made before the lock."""

    def run(main: Any, *, debug: Any = None, loop_factory: Any = None) -> Any:
        if loop.is_running():
            main.close()
            raise RuntimeError("the code already runs in an event loop: write `await …` instead")
        return loop.run_until_complete(main)

    return run


def alone(options: RunOptions, code: bytes, raw: bytes) -> dict[str, object]:
    """A whole run in an interpreter that is locked in from outside; returns what `execute` does."""
    seed_random(options["seed"])
    if options["now"] is not None:
        freeze_clock(options["now"])
    return execute(code, raw, options, None, {})
