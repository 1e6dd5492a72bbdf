"""`beforehand agent NAME|list`: run an agent; its output and its log go to the file bus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from beforehand.cli.arguments import pairs
from beforehand.cli.aside import AsideFlags, aside_model
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note, plain_table
from beforehand.config import Workspace, WorldMode
from beforehand.errors import EXIT_OK, InputError

if TYPE_CHECKING:
    from beforehand.agents.base import Agent, Ran
    from beforehand.jobs.aside_model import AsideModel


def agent(
    name: Annotated[str, Parameter(help="An agent, or list.")],
    /,
    *,
    arg: Annotated[
        list[str] | None,
        Parameter(name="--arg", negative="", help="An input, as name=value. Repeat for more."),
    ] = None,
    as_of: Annotated[
        str | None, Parameter(help="Work as of this instant: nothing later is seen.")
    ] = None,
    mode: Annotated[
        WorldMode,
        Parameter(help="replay: the archive. live: the services. record: live, and stored."),
    ] = "replay",
    archive: ArchivePath = None,
    aside: AsideFlags | None = None,
    json: Json = False,
) -> int:
    """Run an agent, or list them with their inputs.

    An agent writes one output, `workspace/agents/NAME/out/000001.json` and so on, and a log of the
    run, also where it fails. With --model, that model rates searches of markets and writes the code
    of code-agent.
    """
    from beforehand.agents.base import find_agent, load_agents, written

    if name == "list":
        if arg:
            raise InputError("`agent list` takes no --arg")
        return _list(load_agents(), json)
    workspace = Workspace.from_environment()
    path = archive_path(archive)
    with aside_model(aside, workspace, f"agent {name}") as model:
        ran = _run(find_agent(name), arg or (), as_of, mode, path, workspace, model)
    if json:
        emit(ran.output.wire())
    else:
        n = ran.output.metadata.row_count
        said = written(ran.path, workspace.home.root)
        print(f"{said}: {n:,} row{'' if n == 1 else 's'} (run {ran.run_id})")
    return EXIT_OK


def _run(
    found: "Agent",
    given: Sequence[str],
    as_of: str | None,
    mode: WorldMode,
    archive: Path,
    workspace: Workspace,
    model: "AsideModel | None",
) -> "Ran":
    from beforehand.agents.base import AgentContext, run_agent
    from beforehand.agents.code import NAME as CODE_AGENT
    from beforehand.gateway.opening import connect
    from beforehand.jobs.checks import instant
    from beforehand.store.bus import Bus
    from beforehand.tools.discovery import load_tools
    from beforehand.tools.registry import Toolbox, coerce_fields
    from beforehand.tools.storage import Storage

    load_tools()
    inputs = coerce_fields(found.model.model_fields, pairs(given))
    pinned = None if as_of is None else instant("as-of", as_of, "--")
    connection = connect(workspace, mode, archive)
    if pinned is not None:
        connection.gateway.live().narrow(pinned)
    storage = Storage(workspace.home, mode, connection.live, connection.traffic)
    storage.scorer = None if model is None else model.rate
    toolbox = Toolbox(connection.gateway, storage, pinned, bounded=False)
    bus, home = Bus(workspace.home.bus, workspace.clock), workspace.home
    client = None if model is None or found.name != CODE_AGENT else model.client()
    context = AgentContext(bus, toolbox, home.root, workspace.clock, model=client)
    try:
        return run_agent(found, inputs, context)
    finally:
        if moved := connection.close():
            note(f"recorded {moved} exchanges in {archive}")


def _list(agents: Mapping[str, "Agent"], json: bool) -> int:
    if json:
        rows = [
            {
                "agent": one.name,
                "summary": one.summary,
                "inputs": {
                    name: {"required": entry.is_required(), "description": entry.description}
                    for name, entry in one.model.model_fields.items()
                },
                "tools": list(one.tools),
            }
            for one in agents.values()
        ]
        emit({"agents": rows})
        return EXIT_OK
    for one in agents.values():
        print(f"{one.name}: {one.summary}")
        inputs = [
            (f"    {name}", "" if entry.is_required() else "(optional)", entry.description or "")
            for name, entry in one.model.model_fields.items()
        ]
        print(plain_table(inputs))
        print(f"    tools: {', '.join(one.tools) or 'none'}")
    return EXIT_OK
