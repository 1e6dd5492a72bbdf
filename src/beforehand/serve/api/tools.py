"""The tools over plain HTTP: list, schema, call. The same tools, quotas and pins as over MCP."""

import asyncio
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Body, Path, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.serve.api.answers import Cursor, Limit, Listed, page
from beforehand.serve.api.base import Api, ApiDep, Json, Who
from beforehand.serve.auth import Visitor
from beforehand.tools.caller import CallSignals
from beforehand.tools.discovery import load_tools
from beforehand.tools.index import listed_tools
from beforehand.tools.registry import SERVERS, Tool, find_tool
from beforehand.tools.servers.code import EXECUTIONS

router = APIRouter(prefix="/api/tools", tags=["tools"])
ToolName = Annotated[str, Path(description="A tool's name, from the list.")]


class ToolRow(TypedDict):
    """A tool in a line. `label` says how far it is proven, when and on what; `as_of`: it can be
    pinned to an instant."""

    name: str
    server: str
    summary: str
    as_of: bool
    label: str
    date: str
    source: str


class ToolWhole(TypedDict):
    """A tool with the JSON schemas of its arguments and of its answers."""

    name: str
    server: str
    purpose: str
    description: str
    arguments: dict[str, Json]
    answer: dict[str, Json]


@router.get("", response_model=Listed[ToolRow])
def tools(
    request: Request,
    api: ApiDep,
    who: Who,
    server: Annotated[str | None, Query(description="Of this server alone.")] = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Response:
    """Every tool that this caller may use."""

    def made() -> object:
        allowed = api.backend.quotas.caller(who, None)
        rows = [
            {name: tool[name] for name in ToolRow.__annotations__}  # type: ignore[literal-required]
            for tool in listed_tools(api.workspace.home)
            if server in (None, tool["server"]) and allowed.allows(tool["server"])
        ]
        return page(rows, "tools", cursor, limit, id="name")

    return api.answers.reply(request, made)


def _found(api: Api, who: Visitor, name: str) -> Tool:
    load_tools()
    return find_tool(name, api.backend.quotas.caller(who, None))


@router.get("/{name}", response_model=ToolWhole)
def tool(request: Request, api: ApiDep, who: Who, name: ToolName) -> Response:
    """One tool, with the schemas of its arguments and answers."""
    found = _found(api, who, name)

    def made() -> object:
        return {
            "name": found.name,
            "server": found.server,
            "purpose": SERVERS.get(found.server, ""),
            "description": found.description,
            "arguments": found.schema,
            "answer": found.answer,
        }

    return api.answers.reply(request, made)


@router.post("/{name}", response_model=dict[str, Json])
async def call(
    request: Request,
    api: ApiDep,
    who: Who,
    name: ToolName,
    arguments: Annotated[
        dict[str, Json], Body(description="By name; `as_of` pins the answer to an instant.")
    ],
) -> Response:
    """Call a tool. `_meta` of the answer says as of when it is, and what was cut. A client that
    hangs up ends the call."""
    found = await anyio.to_thread.run_sync(_found, api, who, name)
    toolbox, signals = api.backend.toolbox(who, None), CallSignals()
    slow = found.limit is EXECUTIONS
    pool = api.backend.runners if slow else api.backend.threads
    job = asyncio.wrap_future(pool.submit(toolbox.run, found, arguments, signals))
    api.backend.working.add(signals.stop)
    try:
        while not job.done():
            await asyncio.wait([job], timeout=0.5)
            if not job.done() and await request.is_disconnected():
                signals.stop.set()
        answer = await job
    finally:
        signals.stop.set()
        api.backend.working.discard(signals.stop)
    raw = bytes(answer.raw)
    return api.answers.reply(request, lambda: raw)
