"""Agents, and the files through which they talk. Reading repairs nothing."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.agents.base import load_agents
from beforehand.errors import NotFound
from beforehand.ids import is_segment
from beforehand.records.bus import OutputEnvelope, RunLog
from beforehand.serve.api.answers import Cursor, Descending, Limit, Listed, page
from beforehand.serve.api.base import Api, ApiDep, Json, Unpinned, json_ready
from beforehand.store.bus import AgentFolder, Bus, read_log, read_output
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import argument_schema, close_to

router = APIRouter(prefix="/api", tags=["agents"], dependencies=[Unpinned])
AgentName = Annotated[str, Path(description="The agent's name.")]
FileName = Annotated[str, Path(description="A name from the list of its files.")]


class AgentRow(TypedDict):
    """An agent: what it does, the tools it may use, the JSON schema of its inputs."""

    name: str
    about: str
    tools: list[str]
    inputs: dict[str, Json]


class BusRow(TypedDict):
    """An agent that has written to the bus."""

    agent: str
    outputs: int
    logs: int


class BusFile(TypedDict):
    """A file of the bus, by its name."""

    agent: str
    folder: Literal["out", "logs"]
    name: str
    bytes: int


@router.get("/agents", response_model=Listed[AgentRow])
def agents(request: Request, api: ApiDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every agent that there is."""

    def made() -> object:
        load_tools()
        rows = [
            {
                "name": agent.name,
                "about": agent.summary,
                "tools": list(agent.tools),
                "inputs": dict(argument_schema(agent.model)),
            }
            for agent in load_agents().values()
        ]
        return page(rows, "agents", cursor, limit, id="name")

    return api.answers.reply(request, made, ("agents", limit, cursor))


def _bus(api: Api) -> Bus:
    return Bus(api.workspace.home.bus)


@router.get("/bus", response_model=Listed[BusRow])
def bus(request: Request, api: ApiDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every agent that has written to the bus, with its outputs and runs."""

    def made() -> object:
        rows = []
        for name in _bus(api).agents():
            folder = AgentFolder(api.workspace.home.bus / name, api.workspace.clock)
            outputs, logs = len(folder.outputs()), len(folder.logs())
            rows.append({"agent": name, "outputs": outputs, "logs": logs})
        return page(rows, "bus", cursor, limit, id="agent")

    return api.answers.reply(request, made)


def _folder(api: Api, agent: str) -> AgentFolder:
    """An agent's folder on the bus. Raises NotFound."""
    names = _bus(api).agents()
    if agent not in names:
        said = close_to(agent, names) if names else "none has yet"
        raise NotFound(f"no agent {agent[:100]!r} has written to the bus: {said}")
    return AgentFolder(api.workspace.home.bus / agent, api.workspace.clock)


@router.get("/bus/{agent}", response_model=Listed[BusFile])
def bus_files(
    request: Request,
    api: ApiDep,
    agent: AgentName,
    folder: Annotated[
        Literal["out", "logs"] | None, Query(description="Outputs or logs alone.")
    ] = None,
    descending: Descending = True,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The outputs and logs of an agent, newest first."""
    found = _folder(api, agent)

    def made() -> object:
        rows: list[dict[str, Any]] = []
        for kind, paths in (("out", found.outputs()), ("logs", found.logs())):
            if folder in (None, kind):
                rows += [
                    {"agent": agent, "folder": kind, "name": p.name, "bytes": p.stat().st_size}
                    for p in paths
                ]
        return page(rows, f"bus/{folder}", cursor, limit, "name", "folder", descending)

    return api.answers.reply(request, made)


@router.get("/bus/{agent}/out/{name}", response_model=OutputEnvelope)
def bus_output(request: Request, api: ApiDep, agent: AgentName, name: FileName) -> Response:
    """One output: its rows and its metadata."""
    found = _folder(api, agent)
    path = next((p for p in found.outputs() if p.name == name or p.stem == name), None)
    if path is None or not is_segment(name):
        raise NotFound(f"{agent} has no output {name[:100]!r}: see /api/bus/{agent}")
    return api.answers.reply(request, lambda: json_ready(read_output(path)))


@router.get("/bus/{agent}/logs/{name}", response_model=RunLog)
def bus_log(request: Request, api: ApiDep, agent: AgentName, name: FileName) -> Response:
    """The log of one run of an agent, successful or not."""
    found = _folder(api, agent)
    path = next((p for p in found.logs() if p.name == name or p.stem == name), None)
    if path is None or not is_segment(name):
        raise NotFound(f"{agent} has no log {name[:100]!r}: see /api/bus/{agent}")
    return api.answers.reply(request, lambda: json_ready(read_log(path)))
