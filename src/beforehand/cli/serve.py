"""`beforehand serve`: the API, the pages and the MCP tools over HTTP."""

import os
import webbrowser
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
from cyclopts import Parameter

from beforehand.cli.aside import AsideFlags, aside_model
from beforehand.cli.mcp import HOST, PORT, WITHOUT_ARCHIVE, ServeOptions
from beforehand.cli.output import ArchivePath, note
from beforehand.cli.server import ServerLimits, server_limits
from beforehand.clock import parse_instant
from beforehand.config import Workspace, WorldMode
from beforehand.errors import EXIT_OK, InputError
from beforehand.gateway.opening import connect

if TYPE_CHECKING:
    from beforehand.serve.backend import Backend
    from beforehand.serve.starter import Starter

NO_ARCHIVE = next(iter(WITHOUT_ARCHIVE))


@dataclass(frozen=True)
class Told:
    """What `serve` was told besides the options of every server."""

    programs: bool
    runs_at_once: int
    open: bool
    json: bool


def serve(
    *,
    port: Annotated[int, Parameter(help="0: any free one.")] = PORT,
    host: Annotated[str, Parameter(help="The address to serve at.")] = HOST,
    auth: Annotated[
        Literal["token", "none"] | None,
        Parameter(help="Bearer tokens, or none [none on this machine, else token]."),
    ] = None,
    as_of: Annotated[
        str | None, Parameter(help="Pin the whole server to this instant: nothing later is seen.")
    ] = None,
    mode: Annotated[
        WorldMode,
        Parameter(help="For tools. replay: the archive. live: the services. record: and stored."),
    ] = "replay",
    archive: ArchivePath = None,
    allow_programs: Annotated[
        bool | None,
        Parameter(
            help="Runs may execute code of this machine, python:… [only where no token is needed]."
        ),
    ] = None,
    runs_at_once: Annotated[int, Parameter(help="Runs under way that were started here.")] = 4,
    open: Annotated[bool, Parameter(negative="", help="Open the page in a browser.")] = False,
    limits: ServerLimits | None = None,
    aside: AsideFlags | None = None,
    json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the addresses as a line of JSON.")
    ] = False,
) -> int:
    """Serve every object and every run of this home folder: the API at /api, the pages at /, the
    MCP tools at /mcp.

    On this machine no token is needed. Elsewhere callers need one: `beforehand token issue --user
    NAME --scopes read,start,tools`. Runs that are started over HTTP have processes of their own:
    they go on when the server ends, and one that starts again takes care of them.
    """
    from beforehand.serve.guards import LOOPBACK

    chosen = auth or ("none" if host in LOOPBACK else "token")
    if runs_at_once < 1:
        raise InputError(f"--runs-at-once must be at least 1, not {runs_at_once}")
    workspace = Workspace.from_environment()
    path = _archive(workspace, archive)
    held = (path / "archive.json").is_file()
    name = "all" if held or mode != "replay" else NO_ARCHIVE
    if held:
        archive = path
    given = ServeOptions(
        name, True, host, port, chosen, False, as_of, mode, archive, aside, server_limits(limits)
    )
    given.check()
    programs = chosen == "none" if allow_programs is None else allow_programs
    told = Told(programs, runs_at_once, open, json)
    return _serve(given, path, replace(workspace, programs=programs), told)


def _archive(workspace: Workspace, given: Path | None) -> Path:
    """The archive that tools ask: the one that is named, the home's own, or the only one there."""
    home = workspace.home
    if given is not None or (home.archive / "archive.json").is_file():
        return home.archive_at(given)
    found = sorted((home.root / "data").glob("*/archive.json"))
    return found[0].parent if found else home.archive


def _serve(
    given: ServeOptions,
    path: Path,
    workspace: Workspace,
    told: Told,
) -> int:
    from beforehand.serve.auth import Visitor, open_quotas
    from beforehand.serve.backend import Backend
    from beforehand.serve.log import LogWriter
    from beforehand.serve.starter import Starter
    from beforehand.tools.storage import Storage

    log = LogWriter(workspace.clock)
    connection = connect(workspace, given.mode, path)
    storage = Storage(workspace.home, given.mode, connection.live, connection.traffic)
    pinned = None if given.as_of is None else parse_instant(given.as_of)
    with ExitStack() as opened:
        model = opened.enter_context(aside_model(given.aside, workspace, "serve"))
        storage.scorer = None if model is None else model.rate
        backend = Backend(connection, storage, open_quotas(workspace), log.write, None, pinned)
        hidden = {f"{workspace.home.root}{os.sep}", f"{path.resolve().parent}{os.sep}"}
        backend.hidden = tuple((place, "") for place in sorted(hidden, key=len, reverse=True))
        if given.auth == "none":
            backend.local = Visitor("anyone")
        starter = Starter(workspace, log.write, told.runs_at_once)
        _run(given, path, workspace, backend, starter, told)
        if moved := backend.close():
            log.write(f"recorded {moved} exchanges in {path}")
    log.close()
    os._exit(EXIT_OK)  # A thread may still wait for a service.


def _run(
    given: ServeOptions,
    path: Path,
    workspace: Workspace,
    backend: "Backend",
    starter: "Starter",
    told: Told,
) -> None:
    from beforehand.serve.api.app import build
    from beforehand.serve.api.base import Api, Worlds
    from beforehand.serve.api.pages import pages_built
    from beforehand.serve.auth import Verifier, open_tokens
    from beforehand.serve.http import application, base_url, listen, run

    limits = given.limits or server_limits(None)
    local = given.auth == "none"
    served = path if (path / "archive.json").is_file() else None
    worlds = Worlds(workspace, None if served is None else served.resolve())
    api = Api(workspace, backend, worlds, limits, local, told.programs, starter)
    with ExitStack() as opened:
        sock = opened.enter_context(listen(given.host or HOST, given.port or 0))
        verifier = None
        if not local:
            tokens = opened.enter_context(open_tokens(workspace))
            verifier = Verifier(tokens, workspace.clock)
            if not any(t.state(workspace.clock.now()) == "valid" for t in tokens.all()):
                note("no token is valid yet: beforehand token issue --user NAME")
        for run_id in starter.recover():
            note(f"run {run_id} goes on")
        url = base_url(*sock.getsockname()[:2])
        pin = "" if given.as_of is None else f", pinned to {given.as_of}"
        note(f"serving {workspace.home.root} ({given.mode}{pin})")
        if pages_built():
            note(f"pages: {url}/")
        else:
            note("pages: not built into this installation (`make ui`)")
        note(f"API: {url}/api")
        note(f"MCP: {url}/mcp")
        note("Ctrl-C ends it; runs that were started here go on")
        app = application(backend, "all", verifier, limits, build(api, verifier, backend.log))
        if told.json:
            addresses = {"url": url, "api": f"{url}/api", "mcp": f"{url}/mcp"}
            print(orjson.dumps({**addresses, "token": not local}).decode(), flush=True)
        if told.open:
            webbrowser.open(f"{url}/")
        run(app, [sock], limits, api.feeds.stop, backend.log)
