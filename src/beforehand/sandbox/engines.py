"""Choosing an engine, and the fallback from Monty to the jail.

auto    the jail, in code mode too: its results are those of Python. Without seccomp: Monty, then
        wasi if the extra is installed.
monty   Monty, and the jail for code that Monty lacks or computes differently.
"""

import atexit
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, Protocol

import orjson

from beforehand.clock import stopwatch
from beforehand.errors import InputError, NotConfigured
from beforehand.sandbox.daytona import Daytona
from beforehand.sandbox.jail import Jail
from beforehand.sandbox.monty import Monty, differs, limited
from beforehand.sandbox.policy import DEFAULT, Execution, Policy, Tools, not_global
from beforehand.sandbox.wasi import Wasi

Engine = Literal["auto", "jail", "monty", "wasi", "daytona"]
ENGINES = ("auto", "jail", "monty", "wasi", "daytona")


class Runs(Protocol):
    """The interface of an engine."""

    name: str

    def run(
        self, code: str, input_data: Any = ..., policy: Policy = ..., tools: Tools | None = ...
    ) -> Execution: ...
    def close(self) -> None: ...


@cache
def shared() -> "Sandbox":
    """The process's own sandbox, for tools; it ends with the process."""
    made = Sandbox()
    atexit.register(made.close)
    return made


class Once:
    """Tools that remember their answers by arguments: when the same code runs again in another
    engine, calls that were made before are answered from memory, in the order of the calls."""

    def __init__(self, tools: Tools) -> None:
        self._known: dict[bytes, list[Future[Any]]] = defaultdict(list)
        self._lock = threading.Lock()
        self._replaying: dict[bytes, list[Future[Any]]] = {}
        self.tools = {name: self._remembering(name, tool) for name, tool in tools.items()}

    def again(self) -> None:
        """From now on give the remembered and pending answers first."""
        with self._lock:
            self._replaying = {key: list(found) for key, found in self._known.items()}

    def _remembering(self, name: str, tool: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            key = orjson.dumps([name, args, kwargs], default=repr, option=orjson.OPT_SORT_KEYS)
            with self._lock:
                waiting = self._replaying.get(key)
                known = waiting.pop(0) if waiting else None
                answer = Future[Any]()
                if known is None:
                    self._known[key].append(answer)
            if known is not None:
                return known.result()
            try:
                answer.set_result(tool(*args, **kwargs))
            except Exception as error:
                answer.set_exception(error)
            return answer.result()

        return call


class Sandbox:
    """The engines of a process, each started when first used. Safe for threads."""

    def __init__(
        self, engine: Engine = "auto", settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`settings` holds the keys that an engine may need, by their variables' names."""
        if engine not in ENGINES:
            raise InputError(f"no engine {engine!r}: there are {', '.join(ENGINES)}")
        self.engine, self._settings = engine, settings
        self._made: dict[str, Runs] = {}
        self._making = threading.Lock()
        self._jailless = False

    def run(
        self,
        code: str,
        input_data: Any = None,
        policy: Policy = DEFAULT,
        tools: Tools | None = None,
    ) -> Execution:
        """Run the code. Raises InputError for what cannot be run, NotConfigured where no engine
        works here; code that fails gives an Execution like any other."""
        done = self._run(code, input_data, policy, tools)
        note = not_global(input_data, tools or ())
        return done if note is None else replace(done, notes=(*done.notes, note))

    def _run(self, code: str, input_data: Any, policy: Policy, tools: Tools | None) -> Execution:
        if self.engine == "monty":
            return self._monty(code, input_data, policy, tools)
        if self.engine != "auto":
            if tools and self.engine in ("wasi", "daytona"):
                raise InputError(f"the engine {self.engine} offers no tools: use monty or jail")
            return self._get(self.engine).run(code, input_data, policy, tools)
        if not self._jailless:
            try:
                return self._get("jail").run(code, input_data, policy, tools)
            except NotConfigured:
                self._jailless = True
        return self._without_jail(code, input_data, policy, tools)

    def check(self) -> None:
        """Raises NotConfigured where the engine lacks a key or an extra."""
        if self.engine == "daytona":
            Daytona(self._settings).check()
        elif self.engine == "wasi":
            Wasi.check()

    def close(self) -> None:
        """End what was started."""
        with self._making:
            for engine in self._made.values():
                engine.close()
            self._made.clear()

    def _monty(self, code: str, input_data: Any, policy: Policy, tools: Tools | None) -> Execution:
        if differs(code) and not self._jailless:
            try:
                done = self._get("jail").run(code, input_data, policy, tools)
                return replace(done, notes=("monty may compute this differently", *done.notes))
            except NotConfigured:
                self._jailless = True
        once, started = Once(tools or {}), stopwatch()
        first = self._get("monty").run(code, input_data, policy, once.tools)
        left = policy.timeout - (stopwatch() - started)
        if first.success or limited(first) or self._jailless or left <= 0:
            return first
        once.again()
        try:
            again = replace(policy, timeout=left)
            second = self._get("jail").run(code, input_data, again, once.tools)
        except NotConfigured:
            self._jailless = True
            return first
        return replace(second, notes=(f"monty: {first.error}", *second.notes))

    def _without_jail(
        self, code: str, input_data: Any, policy: Policy, tools: Tools | None
    ) -> Execution:
        first = self._get("monty").run(code, input_data, policy, tools)
        if first.success or limited(first) or tools:
            return first
        try:
            second = self._get("wasi").run(code, input_data, policy)
        except NotConfigured:
            return first
        return replace(second, notes=(f"monty: {first.error}",))

    def _get(self, name: str) -> Runs:
        with self._making:
            if name not in self._made:
                kinds: dict[str, Callable[[], Runs]] = {"jail": Jail, "monty": Monty, "wasi": Wasi}
                daytona = name == "daytona"
                self._made[name] = Daytona(self._settings) if daytona else kinds[name]()
            return self._made[name]
