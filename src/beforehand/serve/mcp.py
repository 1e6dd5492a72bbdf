"""MCP servers over the tool registry, on the official SDK's low level.

One Backend stands behind every server of a process: the connection to the world, what is stored,
the instant it is pinned to. A server is a name, the tools of one or all servers, and whether they
are listed plainly or reached through discovery. A call runs on a thread of its own: validated,
admitted and bounded by the registry, as the command line's calls are.
"""

import asyncio
import json
import secrets
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from beforehand import __version__
from beforehand.clock import iso, stopwatch
from beforehand.errors import BeforehandError
from beforehand.serve.auth import VISITOR, Visitor
from beforehand.serve.backend import ALL, SERVING, Backend, named
from beforehand.tools.bounds import MAX_TOKENS, ToolAnswer
from beforehand.tools.caller import Caller, CallSignals
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import (
    LEAST_TOKENS,
    LONGEST_NAME,
    REGISTRY,
    SERVERS,
    Schema,
    Tool,
    Toolbox,
    close_to,
)
from beforehand.tools.servers.code import EXECUTIONS
from beforehand.tools.servers.discovery_mode import (
    DISCOVERY,
    definition,
    desk_call,
    is_structured,
    listing,
)

Context = ServerRequestContext[Any, Any]
LONGEST_LINE, TOLD_S = 400, 5.0
TTL = CacheHint(ttl_ms=3_600_000, scope="private")
"""Listings change only with the version and with what a token covers."""


class McpServer:
    """One server as clients see it. `sdk` is the SDK's object, for a transport to run."""

    def __init__(self, backend: Backend, name: str, discovery: bool = False) -> None:
        self._backend, self.name, self._discovery = backend, named(name), discovery
        self._servers = None if self.name == ALL else frozenset({self.name})
        load_tools()
        self._offered = {
            tool.name: tool for tool in listing(False, self._servers, self.name == ALL)
        }
        if discovery:  # Tools that are not listed can still be called by name.
            self._offered |= DISCOVERY
        taking = backend.collecting
        self._taking = {} if taking is None else taking.tools
        self._alone = taking is not None and taking.days is not None
        self._offered = self._taking if self._alone else {**self._offered, **self._taking}
        self.sdk: Server[Any] = Server(
            f"beforehand-{self.name}",
            version=__version__,
            instructions=self._instructions(),
            on_list_tools=self._list,
            on_call_tool=self._call,
            cache_hints={"tools/list": TTL},
            get_tool_input_schema=self._schema_of,
        )
        self.sdk.middleware.clear()  # It makes OpenTelemetry spans, which are not used.

    def _instructions(self) -> str:
        purpose = SERVERS.get(self.name, "Read-only data for forecasting: all servers.")
        said = [purpose, "Times are ISO 8601, UTC.", SERVING[self._backend.connection.mode]]
        if self._discovery:
            said.append(
                "Find a tool with search_tools, read get_tool_schema, then call_tool; for several "
                "calls write run_code."
            )
        local = self._backend.local
        pins = [self._backend.pinned, local.as_of if local else None]
        if any(pins):
            first = min(at for at in pins if at is not None)
            said.append(
                f"Answers are as of {iso(first)} at the latest: no record known later is shown."
            )
        elif local is None:
            said.append(
                "Where your token is pinned, its instant is today: no record known later is shown, "
                "and `_meta.as_of` of each answer names it."
            )
        return " ".join(said)

    def _schema_of(self, name: str) -> Schema | None:
        found = self._taking.get(name) or DISCOVERY.get(name) or REGISTRY.get(name)
        return None if found is None else found.schema

    async def _list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        caller = self._backend.quotas.caller(visitor(ctx, self._backend), self._servers)
        if not self._taking:
            return _listed(self._discovery, caller.servers, self.name == ALL)
        plain = () if self._alone else listing(self._discovery, caller.servers, self.name == ALL)
        return _as_listed([*self._taking.values(), *plain])

    async def _call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        who, started = visitor(ctx, self._backend), stopwatch()
        toolbox = self._backend.toolbox(who, self._servers)
        try:
            found, arguments = self._find(params.name, toolbox.caller), params.arguments or {}
        except MCPError as error:
            self._log(who, "?", started, str(error))
            raise
        signals, telling = _signals(ctx)
        if found.instant:
            made = self._answer(toolbox, found, arguments, signals)
            self._log(who, found.name, started, made.said)
            return made.result
        pool = self._backend.runners if found.limit is EXECUTIONS else self._backend.threads
        job = pool.submit(self._answer, toolbox, found, arguments, signals)
        self._backend.working.add(signals.stop)
        try:
            made = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            signals.stop.set()
            self._log(who, found.name, started, "cancelled")
            raise
        finally:
            self._backend.working.discard(signals.stop)
        if telling:  # What was told on the way leaves before the answer, which ends the stream.
            await asyncio.wait(map(asyncio.wrap_future, telling), timeout=TOLD_S)
        self._log(who, found.name, started, made.said)
        return made.result

    def _find(self, name: str, caller: Caller) -> Tool:
        """The tool of this name among those this server offers; else the protocol's error for
        unknown tools."""
        if name in self._offered:
            return self._offered[name]
        if name in REGISTRY:
            said = f"it belongs to the server {REGISTRY[name].server}"
        else:
            mine = [tool.name for tool in self._offered.values() if caller.allows(tool.server)]
            said = close_to(name, mine)
        raise MCPError(
            code=types.INVALID_PARAMS, message=f"Unknown tool: {name[:LONGEST_NAME]} ({said})"
        )

    def _answer(
        self, toolbox: Toolbox, found: Tool, arguments: Mapping[str, object], signals: CallSignals
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
            text = f"{found.name} failed inside the server; its log has the reason ({mark})"
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


@lru_cache(maxsize=256)
def _listed(discovery: bool, servers: frozenset[str] | None, whole: bool) -> types.ListToolsResult:
    return _as_listed(listing(discovery, servers, whole))


def _as_listed(tools: Sequence[Tool]) -> types.ListToolsResult:
    rows = [definition(tool, is_structured(tool)) for tool in tools]
    return types.ListToolsResult.model_validate({"tools": rows}, by_alias=True)


@dataclass(frozen=True)
class Made:
    """The result for the client, and a text about it for the log."""

    result: types.CallToolResult
    said: str


def _failed(text: str, about: dict[str, object]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text)], is_error=True, _meta={"beforehand/error": about}
    )


def _run(
    toolbox: Toolbox,
    found: Tool,
    arguments: Mapping[str, object],
    signals: CallSignals,
    structured: bool,
) -> ToolAnswer:
    """Run a call. An answer that is sent twice (as text and structured) may be half as long."""
    if structured:
        asked = arguments.get("max_tokens", MAX_TOKENS)
        if isinstance(asked, int) and asked >= LEAST_TOKENS:
            arguments = {**arguments, "max_tokens": max(asked // 2, LEAST_TOKENS)}
    if found.name in DISCOVERY:
        return desk_call(toolbox, found, arguments, signals)
    return toolbox.run(found, arguments, signals)


def visitor(ctx: Context, backend: Backend) -> Visitor:
    """The visitor that the token names; if no token is needed, the user of this machine."""
    found = None if ctx.request is None else ctx.request.scope.get(VISITOR)
    who = found if isinstance(found, Visitor) else backend.local
    if who is None:
        raise MCPError(code=types.INVALID_REQUEST, message="this server needs a token")
    return who


def _signals(ctx: Context) -> tuple[CallSignals, list["Future[None]"]]:
    """Progress from the call's thread to the client (which the SDK drops if none was asked for),
    and what of it is on its way."""
    loop, telling = asyncio.get_running_loop(), list["Future[None]"]()

    def progress(done: int, total: int | None, text: str) -> None:
        told = ctx.session.report_progress(done, total, text)
        telling.append(asyncio.run_coroutine_threadsafe(told, loop))

    return CallSignals(progress), telling


def _unreadable(error: Exception) -> types.JSONRPCError:
    """The answer to a line that is no message: under its id, if it has one, so that nobody waits
    for it."""
    said: Any = error.errors()[0]["input"] if isinstance(error, ValidationError) else None
    code, told = types.INVALID_REQUEST, "Invalid request: a line is one JSON-RPC message"
    if isinstance(said, str):
        code, told = types.PARSE_ERROR, "Parse error: a line is JSON, and its texts are Unicode"
        with suppress(ValueError, RecursionError):
            said = json.loads(said)  # It takes the escape of half a character, which ours does not.
    asked = said.get("id") if isinstance(said, dict) else None
    if isinstance(asked, bool) or not isinstance(asked, (str, int)):
        asked = None
    problem = types.ErrorData(code=code, message=told)
    return types.JSONRPCError(jsonrpc="2.0", id=asked, error=problem)


async def serve_stdio(server: McpServer, leave: Callable[[], None]) -> None:
    """Serve one client on standard input and output until it disconnects. A signal calls `leave` at
    once: the SDK reads standard input on a thread that only another line would end."""

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                leave()

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        async with stdio_server() as (reads, writes):
            put, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)

            async def relay() -> None:
                async with put:
                    async for item in reads:
                        if isinstance(item, Exception):
                            await writes.send(SessionMessage(_unreadable(item)))
                        else:
                            await put.send(item)

            group.start_soon(relay)
            await server.sdk.run(read, writes, server.sdk.create_initialization_options())
        group.cancel_scope.cancel()
