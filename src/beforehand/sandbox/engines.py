"""Choosing an engine, and the fallback from Monty to the jail.

auto    the jail; for code with tools Monty, and the jail for what Monty cannot do. Without
        seccomp: Monty, then wasi where the extra is there.
"""

import threading
from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any, Literal, Protocol

import orjson

from beforehand.errors import InputError, NotConfigured
from beforehand.sandbox.daytona import Daytona
from beforehand.sandbox.jail import Jail
from beforehand.sandbox.monty import Monty, limited
from beforehand.sandbox.policy import DEFAULT, Execution, Policy, Tools
from beforehand.sandbox.wasi import Wasi

Engine = Literal["auto", "jail", "monty", "wasi", "daytona"]
ENGINES = ("auto", "jail", "monty", "wasi", "daytona")


class Runs(Protocol):
    """What an engine is."""

    name: str

    def run(
        self, code: str, input_data: Any = ..., policy: Policy = ..., tools: Tools | None = ...
    ) -> Execution: ...
    def close(self) -> None: ...


@cache
def shared() -> "Sandbox":
    """The process's own sandbox, for tools."""
    return Sandbox()


class Once:
    """Tools whose results are remembered by their arguments: when the same code runs again in
    another engine, what was called before is answered from memory, in the order of the calls."""

    def __init__(self, tools: Tools) -> None:
        self._known: dict[bytes, list[tuple[bool, Any]]] = defaultdict(list)
        self._lock = threading.Lock()
        self._replaying: dict[bytes, list[tuple[bool, Any]]] = {}
        self.made = 0
        self.tools = {name: self._remembering(name, tool) for name, tool in tools.items()}

    def again(self) -> None:
        """From now on what is known is answered first."""
        with self._lock:
            self._replaying = {key: list(found) for key, found in self._known.items()}

    def _remembering(self, name: str, tool: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            key = orjson.dumps([name, args, kwargs], default=repr, option=orjson.OPT_SORT_KEYS)
            with self._lock:
                if waiting := self._replaying.get(key):
                    worked, value = waiting.pop(0)
                    if worked:
                        return value
                    raise value
                self.made += 1
            try:
                value = tool(*args, **kwargs)
            except Exception as error:
                with self._lock:
                    self._known[key].append((False, error))
                raise
            with self._lock:
                self._known[key].append((True, value))
            return value

        return call


class Sandbox:
    """The engines of a process, each started when first used. Safe for threads."""

    def __init__(self, engine: Engine = "auto") -> None:
        if engine not in ENGINES:
            raise InputError(f"no engine {engine!r}: there are {', '.join(ENGINES)}")
        self.engine = engine
        self._made: dict[str, Any] = {}
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
        works here; a code that fails is an Execution like any other."""
        if self.engine == "monty" or (self.engine == "auto" and tools):
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
        return self._without_jail(code, input_data, policy)

    def close(self) -> None:
        """End what was started."""
        with self._making:
            for engine in self._made.values():
                engine.close()
            self._made.clear()

    def _monty(self, code: str, input_data: Any, policy: Policy, tools: Tools | None) -> Execution:
        once = Once(tools or {})
        try:
            first = self._get("monty").run(code, input_data, policy, once.tools)
        except NotConfigured:
            if self.engine == "monty":
                raise
            return self._get("jail").run(code, input_data, policy, tools)
        if first.success or limited(first) or self._jailless:
            return first
        once.again()
        try:
            second = self._get("jail").run(code, input_data, policy, once.tools)
        except NotConfigured:
            self._jailless = True
            return first
        return replace(second, notes=(f"monty: {first.error}", *second.notes))

    def _without_jail(self, code: str, input_data: Any, policy: Policy) -> Execution:
        first: Execution = self._get("monty").run(code, input_data, policy)
        if first.success or limited(first):
            return first
        try:
            second: Execution = self._get("wasi").run(code, input_data, policy)
        except NotConfigured:
            return first
        return replace(second, notes=(f"monty: {first.error}",))

    def _get(self, name: str) -> Runs:
        with self._making:
            if name not in self._made:
                kinds = {"jail": Jail, "monty": Monty, "wasi": Wasi, "daytona": Daytona}
                self._made[name] = kinds[name]()
            engine: Runs = self._made[name]
            return engine
