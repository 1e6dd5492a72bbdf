"""Python callables, as forecasters are made of them: marked, named, found again in another process,
and told apart by their code."""

import ast
import dis
import importlib
import importlib.util
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from types import BuiltinFunctionType, GenericAlias, ModuleType
from typing import Any, TypeVar, overload

from beforehand.errors import (
    InputError,
    NotConfigured,
)
from beforehand.ids import digest
from beforehand.records.text import storable
from beforehand.store.files import file_digest

FIRST = "1"
"""The version of a callable that states none."""
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
Callee = Callable[[Any], Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declared:
    """A callable as a forecaster. `make` gives one to ask, of a class a new object; `version` is
    part of its identity. `free` says that asking it twice costs nothing: its answers are recorded
    in batches."""

    callee: Any
    make: Callable[[], Callee]
    name: str
    version: str = FIRST
    memoryless: bool = False
    free: bool = False


REGISTERED: dict[str, Declared] = {}
"""The callables that were marked in this process, by name (`python:NAME`)."""


@overload
def forecaster(
    callee: F,
    *,
    name: str | None = None,
    version: str | int = FIRST,
    memoryless: bool = False,
    free: bool = False,
) -> F: ...
@overload
def forecaster(
    callee: None = None,
    *,
    name: str | None = None,
    version: str | int = FIRST,
    memoryless: bool = False,
    free: bool = False,
) -> Callable[[F], F]: ...
def forecaster(
    callee: Any = None,
    *,
    name: str | None = None,
    version: str | int = FIRST,
    memoryless: bool = False,
    free: bool = False,
) -> Any:
    """Mark a function of a Context, or a class, as a forecaster. Plain or with options:

        @forecaster
        def mine(context): return 0.9 * context.odds + 0.05

        @forecaster(memoryless=True, version="2")
        async def asked(context): ...

    `version` is part of its identity: raise it when the code changes, and no answer of the old
    code is taken for one of the new. `memoryless` declares that it keeps nothing between two
    questions, anywhere: it is then asked side by side and in no order. `free` declares that asking
    twice costs nothing: its answers are recorded in batches, which is many times faster, and a
    crash may lose the last tenth of a second of them. Raises InputError for what cannot be called.
    """
    if callee is None:
        return lambda found: forecaster(
            found, name=name, version=version, memoryless=memoryless, free=free
        )
    if not isinstance(free, bool) or not isinstance(memoryless, bool):
        raise InputError("free and memoryless are True or False")
    if "__beforehand__" in getattr(callee, "__dict__", {}):
        callee = _another(callee)
    declared = declare(callee, name, str(version), memoryless, free)
    try:
        callee.__beforehand__ = declared
    except AttributeError:  # A method, or an object with slots: a function around it is marked.
        asked = declared.make()

        def callee(context: Any) -> Any:
            return asked(context)

        declared = replace(declared, callee=callee, make=lambda: asked)
        callee.__beforehand__ = declared
    REGISTERED[declared.name] = declared
    return callee


def _another(callee: Any) -> Any:
    """The same code as another object, to be marked a second time."""
    if inspect.isclass(callee):
        return type(callee.__name__, (callee,), {"__module__": callee.__module__})

    @wraps(callee)
    def again(context: Any) -> Any:
        return callee(context)

    vars(again).pop("__beforehand__", None)
    return again


def declare(
    callee: Any,
    name: str | None = None,
    version: str = FIRST,
    memoryless: bool = False,
    free: bool = False,
) -> Declared:
    """A function or class as a forecaster; one that is marked already as it was marked. Raises
    InputError for what cannot be called."""
    known = getattr(callee, "__beforehand__", None)
    if isinstance(known, Declared) and known.callee is callee:
        return known
    if not callable(callee) and not callable(getattr(callee, "decide", None)):
        raise InputError(f"{callee!r} cannot be called: give a function of a Context, or a class")
    called = name or str(getattr(callee, "__name__", type(callee).__name__))
    if not isinstance(name, (str, type(None))) or not called.isidentifier():
        raise InputError(
            f"a forecaster cannot be called {called!r}: give it a name, {{NAME: callable}}"
        )
    if not _VERSION.fullmatch(version):
        raise InputError(f"{called}: a version is letters, digits, . _ + -, not {version!r}")
    return Declared(callee, _maker(callee), called, version, memoryless, free)


def entry_of(callee: Any, name: str | None = None) -> str:
    """The name by which a run finds this callable: that of its module, so that another process
    finds it as well, else its own (`name`, where it has none), which is known to this process
    alone. Raises InputError for what cannot be called."""
    declared = declare(callee, name)
    place, path = getattr(callee, "__module__", None), getattr(callee, "__qualname__", "")
    module = sys.modules.get(place) if place not in (None, "__main__") else None
    if module is not None and getattr(module, path, None) is callee:
        return f"python:{place}:{path}"
    if name is not None:
        declared = replace(declared, name=name)
    REGISTERED[declared.name] = declared
    return f"python:{declared.name}"


def file_of(callee: Any) -> Path | None:
    """The folder of the file in which a callable is written, if it is in one."""
    try:
        path = Path(inspect.getfile(inspect.unwrap(callee)))
    except (OSError, TypeError):
        return None
    return path.resolve().parent if path.is_file() else None


def place_of(callee: Any) -> str | None:
    """Where a callable stands: its file and its name. None where that does not tell it from others:
    for a lambda, and for one of a notebook, whose names are used again and again."""
    found = inspect.unwrap(callee)
    name = getattr(found, "__qualname__", "<")
    with suppress(OSError, TypeError):
        path = Path(inspect.getfile(found))
        if "<" not in name and path.is_file():
            return f"{path.resolve()}:{name}"
    return None


def code_digest(callee: Any) -> str | None:
    """The SHA-256 of a callable's code: of the file that it is in, and of those beside it that are
    imported from there; else of its own source; None where neither can be read."""
    found = inspect.unwrap(callee)
    name = getattr(found, "__qualname__", type(found).__qualname__)
    with suppress(OSError, TypeError):
        path = Path(inspect.getfile(found))
        if path.is_file():
            return digest([name, *map(file_digest, [path, *_beside(path)])])
    # A notebook's class has no source of its own, but its methods have.
    parts = [found]
    if inspect.isclass(found):
        parts = [part for part in vars(found).values() if inspect.isfunction(part)]
    try:
        return digest([name, *map(inspect.getsource, parts)]) if parts else None
    except (OSError, TypeError):
        return None


def _beside(path: Path) -> list[Path]:
    """The files that a file imports, and those that they import, as far as they lie in its folder
    or below (in a package: in the package), sorted. Found by reading: nothing is run."""
    within = root = path.resolve().parent
    while (root / "__init__.py").is_file():
        within, root = root, root.parent
    if within.name == "site-packages":  # A module by itself: what lies beside it is not its own.
        return []
    found, waiting = set[Path](), [path.resolve()]
    while waiting:
        one = waiting.pop()
        with suppress(OSError, SyntaxError, ValueError):
            for name in _imports(one, root):
                place = root.joinpath(*name.split("."))
                for file in (place.with_suffix(".py"), place / "__init__.py"):
                    new = file not in found and file != path.resolve()
                    if new and file.is_relative_to(within) and file.is_file():
                        found.add(file)
                        waiting.append(file)
    return sorted(found)


def _imports(file: Path, root: Path) -> Iterator[str]:
    """The names of the modules that a file imports, also inside its functions; relative ones as
    seen from `root`."""
    within = file.relative_to(root).with_suffix("").parts
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = within[: len(within) - node.level] if node.level else ()
            base = ".".join((*start, *(node.module or "").split("."))).strip(".")
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
            if base:
                yield base


def keeps_nothing(function: Any) -> bool:
    """True for a plain function that can be seen to keep nothing between two runs of one process:
    it writes no global or enclosing name, and what it refers to cannot change (modules, classes,
    functions alike, numbers, texts)."""
    waiting, seen = [function], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, (*_CONSTANT, *_OTHERS)):
            continue
        seen.add(id(one))
        if not inspect.isfunction(one) or set(vars(one)) - {"__beforehand__"}:
            return False
        if any(step.opname in _WRITES for step in dis.get_instructions(one)):
            return False
        found = inspect.getclosurevars(one)
        waiting += [*found.globals.values(), *found.nonlocals.values(), *(one.__defaults__ or ())]
        waiting += (one.__kwdefaults__ or {}).values()
    return True


_CONSTANT = (str, bytes, int, float, complex, type(None), re.Pattern, frozenset)
_OTHERS = (ModuleType, type, BuiltinFunctionType, GenericAlias)
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF")
ASKED: dict[int, tuple[Any, set[str]]] = {}
"""The callables that were asked in this process, with the runs that did."""


def _maker(callee: Any) -> Callable[[], Callee]:
    if not inspect.isclass(callee):
        found = callee if callable(callee) else callee.decide
        return lambda: found

    def make() -> Callee:
        made = callee()
        found = getattr(made, "decide", None) or made
        if not callable(found):
            raise InputError(
                f"{callee.__name__} has no method decide(context) or __call__(context)"
            )
        return found  # type: ignore[no-any-return]

    return make


def load(target: str, folder: Path | None = None) -> Declared:
    """The callable at `module:name` or `path.py:name`, as seen from a folder [that of this
    process]. Raises InputError saying what is missing."""
    place, colon, name = target.rpartition(":")
    if not colon:
        if target in REGISTERED:
            return REGISTERED[target]
        raise InputError(
            f"python:{target}: write python:package.module:name or python:./file.py:name; a "
            "callable that a script or a notebook defines is known to that program alone: run it "
            "again with the same run_id"
        )
    seen_from = folder or Path.cwd()
    file = place.endswith(".py")
    module = _of_file(place, seen_from) if file else _of_name(place, str(seen_from))
    found = getattr(module, name, None)
    if found is None:
        raise InputError(f"python:{target}: {place} has no {name!r}")
    return declare(found)


def split_version(target: str) -> tuple[str, str, str]:
    """(target, "@", version) of `TARGET@VERSION`; the version is empty where none is stated."""
    head, at, version = target.rpartition("@")
    if not at or ":" in version or "/" in version:
        return target, "", ""
    return head, at, version


_LOADING = threading.Lock()


def _of_file(place: str, folder: Path) -> Any:
    path = (folder / place).resolve()
    if not path.is_file():
        raise InputError(f"python:{place}: there is no file {path}")
    name = f"_beforehand_{path.stem}_{digest(str(path).encode())[:12]}"
    with _LOADING:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        if str(path.parent) not in sys.path:  # Files beside it, after all else of their name.
            sys.path.append(str(path.parent))
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):  # Ctrl-C is not about the file.
                raise
            raise InputError(f"python:{place}: it cannot be imported: {said_of(error)}") from error
    return module


def _of_name(place: str, here: str) -> Any:
    if here not in sys.path and (here != os.getcwd() or "" not in sys.path):  # As `python -m`.
        sys.path.insert(0, here)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise InputError(
                f"python:{place}: there is no module {error.name!r}: install it, go to the folder "
                "that it lies in, or write the path of the file (python:./file.py:name)"
            ) from None
        raise NotConfigured(f"python:{place} needs {error.name}, which is not installed") from None
    except Exception as error:
        raise InputError(f"python:{place}: it cannot be imported: {said_of(error)}") from error


def said_of(error: BaseException) -> str:
    return storable(f"{type(error).__name__}: {error}")
