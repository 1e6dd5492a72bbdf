"""`execute-python-code`, and code mode: sandboxed code that calls the other tools.

In code mode results stay in the sandbox, and only what is printed or returned comes back. Tools are
async functions there, found by `search_tools`; nothing is listed beforehand. Every call goes
through the toolbox, pinned as it is, and through a meter where there is one (a run's journal).
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import stopwatch
from beforehand.errors import Held, InputError, NotFound, Refused, Stopped
from beforehand.ids import check_storable
from beforehand.meter import Meter
from beforehand.sandbox.engines import Sandbox
from beforehand.sandbox.policy import CODE_MODULES, ON_REQUEST, Execution, Policy
from beforehand.tools.caller import ToolLimit
from beforehand.tools.discovery import Described, Named, describe_tool, load_tools, search_tools
from beforehand.tools.metered import metered
from beforehand.tools.registry import MAX_ALLOWED_TOKENS, Call, Example, Tool, Toolbox, tool


class Executed(TypedDict):
    """`output` is what was printed."""

    success: bool
    output: str
    error: str | None
    execution_time_ms: float


NAME = "execute-python-code"
EXECUTIONS = ToolLimit(10, 3600, "executions")
"""The limit for runs of code, by any tool."""
MOST_CALLS = 1000
"""The most tool calls that one piece of code may make."""
InputData = Annotated[
    dict[str, object] | None,
    Field(description="Values for the code; a key that is a free name is a global too."),
]


@tool(
    "polymarket",
    name=NAME,
    example=Example("offline", "2026-11-22", "run in the sandbox"),
    outside=False,
    limit=EXECUTIONS,
)
def execute_python_code(
    call: Call,
    *,
    code: Annotated[str, Field(description="Python code to execute.")],
    input_data: InputData = None,
) -> Executed:
    """Execute Python in the sandbox; returns success, output (what was printed), error and
    execution_time_ms.

    Allowed modules: json, math, datetime, statistics, itertools, functools, collections, re,
    string, random. Blocked: files (os, open, pathlib), network (socket, urllib, requests),
    processes (subprocess, sys, multiprocessing), dynamic code (eval, exec, compile, importlib). 30
    seconds, 512 MB; nothing is kept between executions. The clock inside answers the instant of the
    call.
    """
    policy = Policy(now=call.at, stop=call.signals.stop)
    done = call.storage.sandbox.run(code, input_data or {}, policy)
    call.note(f"engine {done.engine}: {', '.join(done.layers)}")
    for note in done.notes:
        call.note(note)
    return {
        "success": done.success,
        "output": done.output,
        "error": done.error,
        "execution_time_ms": round(done.execution_time_ms, 3),
    }


class ToolCall(TypedDict):
    """A call that a piece of code made: how long it took, why it failed if it did, and how it goes
    on where its answer was cut."""

    tool: str
    arguments: Mapping[str, object]
    error: NotRequired[str]
    ms: NotRequired[float]
    next_cursor: NotRequired[str]


@dataclass
class CodeRun:
    """The result of a piece of code: its Execution, and the tool calls that it made. `stopped` is
    why the run has to end, if that came up in a call."""

    execution: Execution
    calls: list[ToolCall] = field(default_factory=list)
    stopped: Exception | None = None

    def wire(self) -> dict[str, object]:
        """The Execution's wire form; the calls under `_meta`."""
        found = self.execution.wire()
        found["_meta"]["calls"] = self.calls
        return found


class CodeMode:
    """Runs code that calls tools. Safe for threads."""

    def __init__(
        self,
        toolbox: Toolbox,
        sandbox: Sandbox,
        meter: Meter | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """`only` names the tools that the code may call [all of the caller's]."""
        self._toolbox, self._sandbox, self._meter = toolbox, sandbox, meter
        self._only = only
        load_tools()

    def run(
        self,
        code: str,
        input_data: Mapping[str, object] | None = None,
        policy: Policy | None = None,
        told: Callable[[int, int | None, str], None] | None = None,
    ) -> CodeRun:
        """Run the code with every tool of the caller as an async function. The clock inside
        answers the toolbox's instant. `told` is called for each tool call. Raises InputError for
        code that cannot be run."""
        policy = policy or Policy()
        more = tuple(name for name in ON_REQUEST if name in policy.modules)
        policy = replace(policy, modules=(*CODE_MODULES, *more))
        if self._toolbox.pinned is not None:
            policy = replace(policy, now=self._toolbox.pinned)
        made = CodeRun(Execution(False, "", None, 0.0))
        counting = threading.Lock()
        functions = {
            python_name(tool.name): self._function(tool.name, made, counting, told)
            for tool in self._tools()
        }
        functions |= {"search_tools": self._search, "get_tool_schema": self._schema}
        made.execution = self._sandbox.run(code, dict(input_data or {}), policy, functions)
        if made.stopped is not None:  # The code may have caught it, and gone on without the rest.
            raise made.stopped
        return made

    def _tools(self) -> list[Tool]:
        allows, only = self._toolbox.caller.allows, self._only
        known = [t for t in load_tools().values() if t.name != NAME and allows(t.server)]
        return [tool for tool in known if only is None or tool.name in only]

    def _function(
        self,
        name: str,
        made: CodeRun,
        counting: threading.Lock,
        told: Callable[[int, int | None, str], None] | None,
    ) -> Callable[..., Any]:
        def call(*args: Any, **arguments: Any) -> Any:
            if args:
                names = ", ".join(load_tools()[name].arguments)
                raise TypeError(f"{python_name(name)} takes keywords only: {names}")
            check_storable(arguments, f"the arguments of {python_name(name)}")
            row: ToolCall = {"tool": name, "arguments": arguments}
            with counting:
                if len(made.calls) >= MOST_CALLS:
                    raise Refused(f"the code made {MOST_CALLS:,} calls: it may make no more")
                made.calls.append(row)
                if told is not None:
                    told(len(made.calls), None, name)
            started = stopwatch()
            try:
                found = self._answer(name, arguments)
            except Exception as error:
                row["error"] = str(error)
                if isinstance(error, (Stopped, Held)):
                    made.stopped = made.stopped or error
                raise
            finally:
                row["ms"] = round(1000 * (stopwatch() - started), 3)
            meta = found.pop("_meta", None)
            cut = meta.get("cut") if isinstance(meta, Mapping) else None
            if isinstance(cut, Mapping) and (more := cut.get("next_cursor")) is not None:
                # Else a program would take the first page for all there is.
                found["next_cursor"] = row["next_cursor"] = str(more)
            return found

        return call

    def _answer(self, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
        asked = {"max_tokens": MAX_ALLOWED_TOKENS, **arguments}
        return metered(self._toolbox, self._meter, name, asked)

    def _search(self, query: str = "", server: str | None = None) -> list[Named]:
        if not isinstance(query, str) or not isinstance(server, str | None):
            raise InputError("search_tools: query and server must be text")
        mine = {tool.name for tool in self._tools()}
        return [
            {"name": python_name(found.name), "server": found.server, "summary": found.summary}
            for found in search_tools(query, server)
            if found.name in mine
        ]

    def _schema(self, name: str) -> Described:
        known = {python_name(tool.name): tool.name for tool in self._tools()}
        if python_name(name) not in known:
            raise NotFound(
                f"no tool is named {name!r:.100} here: search_tools lists those that are"
            )
        return describe_tool(known[python_name(name)])


def python_name(name: str) -> str:
    """The name of a tool as a Python function."""
    return name.replace("-", "_")
