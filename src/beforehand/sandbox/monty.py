"""The light engine: pydantic-monty, an interpreter that has no way out by construction.

It starts in half a millisecond, awaits tools outside in a fraction of one, and lacks parts of
Python (inheritance, generators, statistics, string). Code that it cannot run goes to the jail:
`engines` runs it there with the recorded results of the tools, so no tool is called twice.
"""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from beforehand.clock import stopwatch
from beforehand.errors import NotConfigured
from beforehand.sandbox import program
from beforehand.sandbox.pipes import check_arguments, raised
from beforehand.sandbox.policy import DEFAULT, Execution, Policy, Tools, check
from beforehand.sandbox.reports import Ended

GRACE_S, LATE_S, START_S = 0.6, 0.3, 30.0
TOOL_THREADS = 16
SUSPENSIONS = 10_000
_DIFFERS = re.compile(
    r"^[ \t]*(?!for\b|async for\b)\S.*\bfor\b|^[ \t]*for\b[^:\n]*$|\bmap\(|\bfilter\(|\bround\(|"
    r"\bre\.sub|\bset\(|\bgamma",
    re.MULTILINE,
)
"""Code that Monty 1.4 evaluates differently from CPython, or may (generator expressions and map at
once, rounding, empty matches, the order of sets): it goes to the jail, if there is one."""
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w., \t]+)", re.MULTILINE)


class ToolCalls:
    """The tools of one run on threads of their own: none is called once the run is over."""

    def __init__(self, tools: Tools) -> None:
        self._tools, self._stopped = tools, False
        self._pool = ThreadPoolExecutor(TOOL_THREADS, "tool") if tools else None

    def stop(self) -> None:
        """The run is over."""
        self._stopped = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def function(self, name: str) -> Callable[..., Any]:
        """The async function that stands for a tool."""
        tool = self._tools[name]

        def made(args: Any, kwargs: Any) -> Any:
            if self._stopped:
                raise RuntimeError("the run is over")
            check_arguments(name, args, kwargs)
            return tool(*args, **kwargs)

        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._pool, made, args, kwargs)
            except Exception as error:
                kind, message = raised(error)
                known = {"ValueError": ValueError, "TypeError": TypeError}
                raise known.get(kind, RuntimeError)(message) from None

        return call


class MontyRun:
    """The output and result of one run, collected while it runs."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._printed = policy, bytearray()
        self.result: Any = None
        self._error: str | None = None

    def collect(self, _: str, text: str) -> None:
        """Keep what is printed, up to the limit."""
        if len(self._printed) <= self._policy.output:
            self._printed.extend(text.encode("utf-8", "replace"))

    def fail(self, error: Exception) -> None:
        """The run ended with an error of the code or of a limit. Raises any other error."""
        from pydantic_monty import MontyCrashedError, MontyError

        if isinstance(error, TimeoutError):
            self._error = _late(self._policy)
        elif isinstance(error, MontyCrashedError):
            crashed = f"the interpreter crashed: {error}"
            self._error = _late(self._policy) if error.timed_out else crashed
        elif isinstance(error, MontyError):
            self._error = _told(error, self._policy)
        else:
            raise error

    def execution(self, started: float) -> Execution:
        """Everything collected, as an Execution."""
        ended = Ended(Monty.name, Monty.layers, 1000 * (stopwatch() - started))
        return ended.execution(bytes(self._printed), self._error, self.result, self._policy)


class Monty:
    """A pool of interpreters on an event loop of its own. Safe for threads."""

    name = "monty"
    layers = ("interpreter", "process")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: Any = None
        self._simple: Any = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._owner = 0

    def run(
        self,
        code: str,
        input_data: Any = None,
        policy: Policy = DEFAULT,
        tools: Tools | None = None,
    ) -> Execution:
        """Run the code. Raises InputError for what cannot be run at all, NotConfigured without
        the library; whatever the code does comes back as an Execution."""
        _, raw = check(code, input_data, policy)
        if outside := imported(code) - {*policy.modules, "__future__"}:
            return self._failed(
                f"ImportError: import of {sorted(outside)[0]!r} is not allowed here. Allowed: "
                f"{', '.join(policy.modules)}"
            )
        loop = self._running()
        data = orjson.loads(raw)
        if not tools and "asyncio" not in code and "sleep" not in code:
            return self._plainly(code, data, policy)
        work = self._execute(code, data, policy, tools or {})
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def close(self) -> None:
        """End the interpreters."""
        with self._starting:
            if self._loop is not None and self._owner == os.getpid():
                asyncio.run_coroutine_threadsafe(_leave(self._pool), self._loop).result(START_S)
                self._loop.call_soon_threadsafe(self._loop.stop)
                assert self._thread is not None
                self._thread.join(START_S)
                self._loop.close()
                self._simple.__exit__(None, None, None)
            self._loop = self._pool = self._thread = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None or self._owner != os.getpid():
                try:
                    from pydantic_monty import AsyncMonty
                    from pydantic_monty import Monty as SimpleMonty
                except ImportError:
                    raise NotConfigured(
                        "the engine monty needs pydantic-monty==1.4.0: install it; the engine jail "
                        "runs without it"
                    ) from None
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=loop.run_forever, name="monty", daemon=True)
                self._thread.start()
                self._pool = AsyncMonty(feed_duration_limit_grace=LATE_S)
                asyncio.run_coroutine_threadsafe(_enter(self._pool), loop).result(START_S)
                self._simple = SimpleMonty(feed_duration_limit_grace=LATE_S).__enter__()
                self._loop, self._owner = loop, os.getpid()
            return self._loop

    def _plainly(self, code: str, data: dict[str, object], policy: Policy) -> Execution:
        """Run without tools and sleeps: no event loop is needed, which halves the time."""
        ran, started = MontyRun(policy), stopwatch()
        try:
            with self._simple.checkout(**_session(policy)) as session:
                ran.result = session.feed_run(
                    code, inputs=_inputs(data, ()), print_callback=ran.collect
                )
        except Exception as error:
            ran.fail(error)
        return ran.execution(started)

    async def _execute(
        self, code: str, data: dict[str, object], policy: Policy, tools: Tools
    ) -> Execution:
        calls, ran, started = ToolCalls(tools), MontyRun(policy), stopwatch()
        try:
            async with asyncio.timeout(policy.timeout + GRACE_S):
                async with self._pool.checkout(**_session(policy)) as session:
                    ran.result = await session.feed_run(
                        code,
                        inputs=_inputs(data, tools),
                        external_lookup={name: calls.function(name) for name in tools},
                        print_callback=ran.collect,
                    )
        except Exception as error:
            ran.fail(error)
        finally:
            calls.stop()
        return ran.execution(started)

    def _failed(self, error: str) -> Execution:
        return Execution(False, "", error, 0.0, self.name, self.layers)


def _inputs(data: dict[str, object], tools: Iterable[str]) -> dict[str, object]:
    names = program.global_names(data, tools)
    return {**{name: data[name] for name in names}, "input_data": data}


async def _enter(pool: Any) -> None:
    await pool.__aenter__()


async def _leave(pool: Any) -> None:
    await pool.__aexit__(None, None, None)
    left = asyncio.all_tasks() - {asyncio.current_task()}  # Tools of runs that were given up.
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def imported(code: str) -> set[str]:
    """The modules that lines of the code import. A line inside a text counts too: the jail, which
    compiles the code, decides in the end."""
    return {
        part.split()[0].partition(".")[0]
        for names in _IMPORT.findall(code)
        for part in names.partition(" import ")[0].split(",")
        if part.split()
    }


def differs(code: str) -> bool:
    """Whether the code holds something that Monty may compute differently from CPython."""
    return _DIFFERS.search(code) is not None


def limited(execution: Execution) -> bool:
    """Whether a limit ended the run: another engine would only reach it again."""
    error = execution.error or ""
    return error.startswith(("the time limit", "the output is longer", "MemoryError"))


def _session(policy: Policy) -> dict[str, object]:
    limits = {
        "max_memory": policy.memory,
        "max_feed_duration_secs": policy.timeout,
        "max_total_sleep_secs": policy.timeout,
        "max_suspensions": SUSPENSIONS,
    }
    return {"script_name": "<code>", "limits": limits, "os_policy": _clock(policy)}


def _clock(policy: Policy) -> dict[str, object]:
    found: dict[str, object] = {
        "random_start": {"seed": policy.seed},
        "sleep": "system",
        "sleep_system_max": float("inf"),
    }
    return found if policy.now is None else {**found, "datetime": policy.now}


def _late(policy: Policy) -> str:
    return f"the time limit of {policy.timeout:g} s was reached"


def _told(failed: Any, policy: Policy) -> str:
    inner = failed.exception()
    if isinstance(inner, TimeoutError) and "limit" in str(failed):
        return _late(policy)
    said = str(failed.display("type-msg"))[:4000]
    frames = failed.traceback()
    return f"{said} (line {frames[-1].line})" if frames else said
