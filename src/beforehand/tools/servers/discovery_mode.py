"""Discovery mode: four tools through which a client reaches all others.

A client that lists every tool pays for every schema on connecting. A client of these four pays a
few hundred tokens, and for a schema only when it asks for one. With `run_code` it pays nothing for
what its code reads and does not print.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from pydantic import Field
from typing_extensions import TypedDict

from beforehand.errors import InputError
from beforehand.sandbox.policy import Policy
from beforehand.tools.bounds import ToolAnswer, estimate_tokens
from beforehand.tools.caller import CallSignals, ToolLimit
from beforehand.tools.discovery import (
    Described,
    Named,
    describe_tool,
    load_tools,
    search_tools,
    servers,
)
from beforehand.tools.registry import LONGEST_NAME, Call, Example, Tool, Toolbox, find_tool
from beforehand.tools.servers.code import EXECUTIONS, CodeMode, Executed, InputData

INSIDE = Example("offline", "2026-11-22", "the registry itself")
WRITING = ("submit_forecasts", "next_day")
"""Tools of `serve/collecting.py`, the only ones that change something."""
Name = Annotated[str, Field(max_length=LONGEST_NAME, description="A tool's name.")]


class NamedTools(TypedDict):
    tools: list[Named]


class CodeResult(Executed):
    """`result` is the value of the last expression, `calls` how many tools were called."""

    result: Any
    calls: int


def _search(
    call: Call,
    *,
    query: Annotated[str, Field(max_length=400, description="Words; none: all tools.")] = "",
    server: Annotated[str | None, Field(description="Only this server.")] = None,
) -> NamedTools:
    """Find tools by what they do: names, servers, one-line summaries."""
    allows = call.toolbox.caller.allows
    if server is not None and server not in servers():
        raise InputError(f"server: no {server[:LONGEST_NAME]!r}: there are {', '.join(servers())}")
    found = [tool for tool in search_tools(query, server, 50) if allows(tool.server)]
    shown = found[:10] if query else found
    return {
        "tools": [{"name": t.name, "server": t.server, "summary": t.summary[:160]} for t in shown]
    }


def _schema(call: Call, *, name: Name) -> Described:
    """Get one tool's description, and the JSON schemas of its arguments and its answer."""
    return describe_tool(_allowed(call.toolbox, name).name)


def _call(
    call: Call,
    *,
    name: Name,
    arguments: Annotated[
        dict[str, object] | None, Field(description="As its schema says, as_of and max_tokens too.")
    ] = None,
) -> dict[str, object]:
    """Call a tool by name."""
    raise NotImplementedError("desk_call returns the inner tool's own answer")


def _run(
    call: Call,
    *,
    code: Annotated[
        str,
        Field(
            description="Python. Every tool is an async function of its name (- as _), with "
            "keywords only, e.g. `r = await get_prices(ids=[...])`. Also: search_tools(query=), "
            "get_tool_schema(name=)."
        ),
    ],
    input_data: InputData = None,
) -> CodeResult:
    """Run sandboxed Python that calls the other tools: only what it prints, and its last value,
    comes back. 30 seconds, no files, no network."""
    policy = Policy(stop=call.signals.stop)
    made = CodeMode(call.toolbox, call.storage.sandbox).run(
        code, input_data, policy, call.signals.progress
    )
    done = made.execution
    call.note(f"engine {done.engine}: {', '.join(done.layers)}")
    for note in done.notes:
        call.note(note)
    for failed in [row for row in made.calls if "error" in row][:5]:
        call.note(f"{failed['tool']}: {failed['error']}")
    if cut := sorted({row["tool"] for row in made.calls if "next_cursor" in row}):
        call.note(f"{', '.join(cut)}: cut; cursor=answer['next_cursor'] goes on")
    return {
        "success": done.success,
        "output": done.output,
        "error": done.error,
        "execution_time_ms": round(done.execution_time_ms, 3),
        "result": done.result,
        "calls": len(made.calls),
    }


def _made(name: str, function: Any, returns: Any, limit: ToolLimit | None = None) -> Tool:
    return Tool(name, "", function, returns, INSIDE, None, (), False, limit)


DISCOVERY = {
    tool.name: tool
    for tool in (
        _made("search_tools", _search, NamedTools),
        _made("get_tool_schema", _schema, Described),
        _made("call_tool", _call, None),
        _made("run_code", _run, CodeResult, EXECUTIONS),
    )
}
"""The four discovery tools. They belong to no server."""


def desk_call(
    toolbox: Toolbox,
    tool: Tool,
    arguments: Mapping[str, object],
    signals: CallSignals | None = None,
) -> ToolAnswer:
    """Call one of the four discovery tools. Raises our errors only."""
    if tool.name != "call_tool":
        return toolbox.run(tool, arguments, signals)
    asked = tool.validate(arguments)
    inner = _allowed(toolbox, asked["name"])
    given = dict(asked["arguments"] or {})
    if "max_tokens" in arguments:
        given.setdefault("max_tokens", asked["max_tokens"])
    return toolbox.run(inner, given, signals)


def _allowed(toolbox: Toolbox, name: str) -> Tool:
    load_tools()
    return find_tool(name, toolbox.caller)


def definition(tool: Tool, structured: bool) -> dict[str, object]:
    """A tool as MCP lists it. With `structured` its answers come as JSON of a declared schema
    too."""
    made: dict[str, object] = {
        "name": tool.name,
        "description": unwrapped(tool.description),
        "inputSchema": tool.schema,
        "annotations": {
            "readOnlyHint": tool.name not in WRITING,
            "openWorldHint": tool.outside,
        },
    }
    if structured:
        made["outputSchema"] = tool.answer
    return made


def unwrapped(text: str) -> str:
    """A docstring's paragraphs, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def is_structured(tool: Tool) -> bool:
    """Whether answers are sent twice, as text and as structured content. Tables, and what
    `call_tool` returns, are sent as one text, because each row would cost twice."""
    return tool.rows is None and tool.returns is not None


def listing(discovery: bool, servers: frozenset[str] | None, whole: bool) -> list[Tool]:
    """The tools a client sees: the four in discovery mode, else those of the servers; `whole`
    (all servers behind one address) adds run_code."""
    if discovery:
        return list(DISCOVERY.values())
    plain = [t for t in load_tools().values() if servers is None or t.server in servers]
    return [*plain, DISCOVERY["run_code"]] if whole else plain


class ListingCost(TypedDict):
    """What a client pays on connecting to a server, in estimated tokens; `tools` is how many."""

    server: str
    tools: int
    tokens: int
    discovery_tokens: int


def listing_costs() -> list[ListingCost]:
    """What a client pays on connecting to each server; the last row is all of them behind one
    address."""
    four = _tokens(listing(True, None, False))
    rows: list[ListingCost] = []
    for name, covered in [*((n, frozenset({n})) for n in servers()), ("all", None)]:
        tools = listing(False, covered, covered is None)
        rows.append(
            {
                "server": name,
                "tools": len(tools),
                "tokens": _tokens(tools),
                "discovery_tokens": four,
            }
        )
    return rows


def _tokens(tools: list[Tool]) -> int:
    rows = [definition(tool, is_structured(tool)) for tool in tools]
    return estimate_tokens(orjson.dumps({"tools": rows}))
