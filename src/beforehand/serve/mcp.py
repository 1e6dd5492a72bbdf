"""MCP servers over the tool registry, on the official SDK's low level.

One Backend stands behind every server of a process: the door to the world, what is stored, the
instant it is pinned to. A server is a name, the tools of one or all servers, and whether they are
listed plainly or reached through discovery. A call runs on a thread of its own: validated,
admitted and bounded by the registry, as the command line's calls are.
"""

import asyncio
import contextvars
import secrets
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from beforehand import __version__
from beforehand.clock import iso, stopwatch
from beforehand.errors import BeforehandError, InputError
from beforehand.gateway import Gateway
from beforehand.gateway.opening import Door
from beforehand.serve.auth import Quotas, Visitor
from beforehand.tools.bounds import MAX_TOKENS, Answer
from beforehand.tools.desk import DESK, definition, desk_call, is_structured, listing
from beforehand.tools.discovery import load_tools
from beforehand.tools.pages import PURPOSES
from beforehand.tools.registry import REGISTRY, Caller, Signals, Tool, Toolbox
from beforehand.tools.storage import Storage

Context = ServerRequestContext[Any, Any]
ALL = "all"
ALIASES = {"polymarket-read": "polymarket"}
AT_ONCE = 64
"""Calls that run at the same time; others wait."""
LONGEST_LINE = 400
VISITOR = "beforehand.visitor"
"""Where in a request's scope the guard leaves who calls."""
TTL = CacheHint(ttl_ms=3_600_000, scope="private")
"""Listings change with the version only, and with what a token covers."""


def server_names() -> list[str]:
    """The servers there are; `all` puts them behind one address."""
    return [*dict.fromkeys(tool.server for tool in load_tools().values()), ALL]


def named(server: str) -> str:
    """The name of a server; InputError lists those there are."""
    name = ALIASES.get(server, server)
    if name not in server_names():
        raise InputError(f"no server {server!r}: there are {', '.join(server_names())}")
    return name


@dataclass
class Backend:
    """What the servers of a process share."""

    door: Door
    storage: Storage
    quotas: Quotas
    pinned: datetime | None = None
    local: Visitor = Visitor()
    """Who calls where no token says so."""
    log: Callable[[str], None] = lambda text: None
    """Is given a line for each call."""
    hands: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "mcp-call")
    )

    def toolbox(self, visitor: Visitor, servers: frozenset[str] | None) -> Toolbox:
        """The tools as this visitor has them here: pinned to the earlier of both instants. A
        gateway of its own keeps its trail apart, and ends with the call."""
        pins = [at for at in (self.pinned, visitor.as_of) if at is not None]
        gateway = Gateway(self.door.gateway.world, self.door.gateway.clock)
        caller = self.quotas.caller(visitor, servers)
        return Toolbox(gateway, self.storage, min(pins, default=None), caller)

    def close(self) -> int:
        """End what runs, and move what was recorded into the archive."""
        self.hands.shutdown(wait=False, cancel_futures=True)
        self.quotas.close()
        return self.door.close()


class McpServer:
    """One server as clients see it. `sdk` is the SDK's object, for a transport to run."""

    def __init__(self, backend: Backend, name: str, discovery: bool = False) -> None:
        self._backend, self.name, self._discovery = backend, named(name), discovery
        self._servers = None if self.name == ALL else frozenset({self.name})
        load_tools()
        self._offered = {
            tool.name: tool for tool in listing(False, self._servers, self.name == ALL)
        }
        if discovery:  # What is not listed can be called by its name all the same.
            self._offered |= DESK
        self.sdk: Server[Any] = Server(
            f"beforehand-{self.name}",
            version=__version__,
            instructions=self._instructions(),
            on_list_tools=self._list,
            on_call_tool=self._call,
            cache_hints={"tools/list": TTL},
            get_tool_input_schema=self._schema_of,
        )
        self.sdk.middleware.clear()  # Spans for OpenTelemetry, which nobody collects.

    def _instructions(self) -> str:
        purpose = PURPOSES.get(self.name, "Read-only data for forecasting: all servers.")
        said = [purpose, "Times are ISO 8601, UTC."]
        if self._discovery:
            said.append(
                "Find a tool with search_tools, read get_tool_schema, then call_tool; for several "
                "calls write run_code."
            )
        if self._backend.pinned is not None:
            said.append(
                f"Answers are as of {iso(self._backend.pinned)} at the latest: no record known later "
                "is shown."
            )
        return " ".join(said)

    def _schema_of(self, name: str) -> Mapping[str, Any] | None:
        found = DESK.get(name) or REGISTRY.get(name)
        return None if found is None else found.schema

    async def _list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        caller = self._backend.quotas.caller(visitor(ctx, self._backend), self._servers)
        tools = listing(self._discovery, caller.servers, self.name == ALL)
        rows = [definition(tool, is_structured(tool)) for tool in tools]
        return types.ListToolsResult.model_validate({"tools": rows}, by_alias=True)

    async def _call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        who, started = visitor(ctx, self._backend), stopwatch()
        toolbox = self._backend.toolbox(who, self._servers)
        found, arguments = self._find(params.name, toolbox.caller), params.arguments or {}
        signals = _signals(ctx)
        if found.instant:
            made = self._answer(toolbox, found, arguments, signals)
            self._log(who, found.name, started, made.said)
            return made.result
        work = contextvars.copy_context().run
        job = self._backend.hands.submit(work, self._answer, toolbox, found, arguments, signals)
        try:
            made = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            signals.stop.set()
            self._log(who, found.name, started, "cancelled")
            raise
        self._log(who, found.name, started, made.said)
        return made.result

    def _find(self, name: str, caller: Caller) -> Tool:
        """The tool of this name among those this server offers; else the protocol's error for
        unknown tools."""
        if name in self._offered:
            return self._offered[name]
        if name in REGISTRY:
            said = f"{name} belongs to the server {REGISTRY[name].server}"
        else:
            mine = [tool.name for tool in self._offered.values() if caller.allows(tool.server)]
            said = f"there is {', '.join(mine)}" if len(mine) <= 8 else _close(name, mine)
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {name} ({said})")

    def _answer(
        self, toolbox: Toolbox, found: Tool, arguments: dict[str, Any], signals: Signals
    ) -> "Made":
        """The result of a call, errors included."""
        structured = is_structured(found)
        try:
            answer = _run(toolbox, found, arguments, signals, structured)
        except BeforehandError as error:
            kind, wait = type(error).__name__, getattr(error, "retry_after", None)
            about = {"kind": kind} | ({} if wait is None else {"retry_after": round(wait, 3)})
            return Made(_failed(str(error), about), f"{kind}: {error}")
        except Exception:
            mark = secrets.token_hex(4)
            self._backend.log(f"{found.name} failed ({mark})\n{traceback.format_exc()}")
            text = f"{found.name} failed inside the server, which has written down why ({mark})"
            return Made(_failed(text, {"kind": "Internal", "mark": mark}), f"failed ({mark})")
        result = types.CallToolResult(
            content=[types.TextContent(text=answer.raw.decode())],
            structured_content=answer.content if structured else None,
        )
        asked = f", {answer.spent.requests} requests" if answer.spent.requests else ""
        paid = f", ${answer.spent.usd:.4f}" if answer.spent.usd else ""
        return Made(result, f"ok, {answer.tokens} tokens{asked}{paid}")

    def _log(self, who: Visitor, tool: str, started: float, said: str) -> None:
        ms, line = 1000 * (stopwatch() - started), " ".join(said.split())[:LONGEST_LINE]
        self._backend.log(f"{who.user or '-'} {self.name}/{tool} {ms:.1f} ms {line}")


@dataclass(frozen=True)
class Made:
    """What goes to the client, and the log's word for it."""

    result: types.CallToolResult
    said: str


def _failed(text: str, about: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text)], is_error=True, _meta={"beforehand/error": about}
    )


def _run(
    toolbox: Toolbox, found: Tool, arguments: dict[str, Any], signals: Signals, structured: bool
) -> Answer:
    """An answer that goes out twice may be half as long by default."""
    if structured:
        arguments = {"max_tokens": MAX_TOKENS // 2, **arguments}
    if found.name in DESK:
        return desk_call(toolbox, found, arguments, signals)
    return toolbox.run(found, arguments, signals)


def visitor(ctx: Context, backend: Backend) -> Visitor:
    """Who calls, as the token says, if there is one."""
    found = None if ctx.request is None else ctx.request.scope.get(VISITOR)
    return found if isinstance(found, Visitor) else backend.local


def _signals(ctx: Context) -> Signals:
    """Progress from the call's thread to the client (which the SDK drops if none was asked for)."""
    loop = asyncio.get_running_loop()

    def progress(done: int, total: int | None, text: str) -> None:
        asyncio.run_coroutine_threadsafe(ctx.session.report_progress(done, total, text), loop)

    return Signals(progress)


def _close(name: str, offered: list[str]) -> str:
    """What may have been meant."""
    from rapidfuzz import process

    return (
        f"perhaps {' or '.join(match for match, _, _ in process.extract(name, offered, limit=3))}"
    )


async def serve_stdio(server: McpServer) -> None:
    """Serve one client on standard input and output until it hangs up."""
    async with stdio_server() as (reads, writes):
        await server.sdk.run(reads, writes, server.sdk.create_initialization_options())


def run_stdio(server: McpServer) -> None:
    """The same, from plain code."""
    anyio.run(serve_stdio, server)
