"""`beforehand mcp`: the tools as MCP servers."""

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.clock import SystemClock, iso, parse_instant
from beforehand.config import Home
from beforehand.errors import EXIT_OK, InputError
from beforehand.gateway.opening import Mode, open_door

PORT = 8765
Client = Literal[
    "claude-code", "claude-desktop", "codex", "cursor", "gemini", "vscode", "windsurf", "zed"
]


def mcp(
    server: Annotated[
        str | None,
        Parameter(help="A server (polymarket, kalshi…), or all. Without one: what there is."),
    ] = None,
    /,
    *,
    transport: Annotated[
        Literal["stdio", "http"], Parameter(help="stdio: one local client. http: many.")
    ] = "stdio",
    port: Annotated[int | None, Parameter(help=f"Of http [{PORT}]; 0: any that is free.")] = None,
    host: Annotated[str | None, Parameter(help="Of http [127.0.0.1].")] = None,
    auth: Annotated[
        Literal["token", "none"] | None,
        Parameter(help="Of http: bearer tokens, or (on this machine alone) none [token]."),
    ] = None,
    discovery: Annotated[
        bool,
        Parameter(negative="", help="Of stdio: four tools that reach all others (http: a path)."),
    ] = False,
    as_of: Annotated[
        str | None, Parameter(help="Pin the whole server to this instant: nothing later is seen.")
    ] = None,
    mode: Annotated[
        Mode, Parameter(help="replay: the archive. live: the services. record: both, kept.")
    ] = "replay",
    archive: ArchivePath = None,
    config: Annotated[
        Client | None, Parameter(help="Print what to paste into this client, and serve nothing.")
    ] = None,
    json: Json = False,
) -> int:
    """Serve the tools to MCP clients, read-only: over stdio to a local one, over http to many.

    `beforehand mcp all --transport http` puts every server behind one port: /mcp is all of them,
    /NAME/mcp each, and with /discovery behind it either is reached through four small tools.
    Clients over http show a token of `beforehand token issue`. A server with --as-of is a
    backtest: an unmodified client sees the world as it was.
    """
    from beforehand.serve.mcp import named

    if server is None:
        return _overview(json)
    name = named(server)
    if transport == "stdio" and (given := _only_http(port, host, auth)):
        raise InputError(f"{given} goes with --transport http; stdio serves one local client")
    if transport == "http" and discovery:
        raise InputError("over http discovery mode is an address of its own, /mcp/discovery")
    if json:
        raise InputError("--json goes with `beforehand mcp` alone: a server speaks its protocol")
    if config is not None:
        return _config(config, name, transport, port, host, discovery, as_of, mode, archive)
    return _serve(name, transport, port, host, auth, discovery, as_of, mode, archive)


def _config(
    client: str,
    name: str,
    transport: str,
    port: int | None,
    host: str | None,
    discovery: bool,
    as_of: str | None,
    mode: Mode,
    archive: Path | None,
) -> int:
    from beforehand.serve.configs import config

    url = None
    options = ["--discovery"] if discovery else []
    options += [] if as_of is None else ["--as-of", as_of]
    options += [] if mode == "replay" else ["--mode", mode]
    options += [] if archive is None else ["--archive", str(archive_path(archive).resolve())]
    if transport == "http":
        url = f"http://{host or '127.0.0.1'}:{PORT if port is None else port}/mcp"
    place, text = config(client, name, options, url)
    note(f"{place}:")
    print(text)
    return EXIT_OK


def _only_http(port: int | None, host: str | None, auth: str | None) -> str | None:
    pairs = (("--port", port), ("--host", host), ("--auth", auth))
    return next((option for option, value in pairs if value is not None), None)


def _serve(
    name: str,
    transport: str,
    port: int | None,
    host: str | None,
    auth: str | None,
    discovery: bool,
    as_of: str | None,
    mode: Mode,
    archive: Any,
) -> int:
    from beforehand.serve.auth import Visitor, open_quotas
    from beforehand.serve.mcp import Backend, McpServer, run_stdio
    from beforehand.tools.storage import Storage

    home, clock = Home.from_environment(), SystemClock()
    path = archive_path(archive)
    try:
        pinned = None if as_of is None else parse_instant(as_of)
    except ValueError as error:
        raise InputError(f"--as-of: {error}") from None
    door = open_door(home, mode, path, clock=clock)
    if pinned is not None:
        door.gateway.live().narrow(pinned)
    storage = Storage(home, mode, door.live, door.traffic)
    local = Visitor() if transport == "stdio" else Visitor("anyone")
    backend = Backend(door, storage, open_quotas(home, clock), pinned, local)
    try:
        if transport == "stdio":
            if sys.stdin.isatty():
                note(
                    f"{name} waits for an MCP client on standard input; Ctrl-C ends it. What to "
                    "paste into yours: --config CLIENT"
                )
            with suppress(KeyboardInterrupt):
                run_stdio(McpServer(backend, name, discovery))
        else:
            _http(
                backend, name, host or "127.0.0.1", PORT if port is None else port, auth or "token"
            )
    finally:
        if moved := backend.close():
            note(f"recorded {moved} exchanges in {path}")
    return EXIT_OK


def _http(backend: Any, name: str, host: str, port: int, auth: str) -> None:
    from beforehand.serve.auth import Verifier, open_tokens
    from beforehand.serve.http import addresses, application, check_binding, listen, run

    check_binding(host, auth)
    if not 0 <= port <= 65535:
        raise InputError(f"--port must lie between 0 and 65535, not {port}")
    verifier, clock = None, SystemClock()
    backend.log = lambda text: note(f"{iso(clock.now())} {text}")
    with ExitStack() as opened:
        sock = opened.enter_context(listen(host, port))
        if auth == "token":
            tokens = opened.enter_context(open_tokens(Home.from_environment()))
            verifier = Verifier(tokens, clock)
            if not any(t.state(clock.now()) == "valid" for t in tokens.all()):
                note("no token is valid yet: beforehand token issue --user NAME --servers all")
        for what, url in addresses(name, sock):
            note(f"{what}: {url}")
        note("Ctrl-C ends it; calls in flight are answered first")
        run(application(backend, name, host, verifier), [sock])


def _overview(json: bool) -> int:
    from beforehand.tools.desk import listing_costs

    rows = listing_costs()
    if json:
        emit({"servers": rows})
        return EXIT_OK
    from beforehand.cli.tables import console, table

    cells = [
        [r["server"], str(r["tools"]), f"{r['tokens']:,}", f"{r['discovery_tokens']:,}"]
        for r in rows
    ]
    columns = (
        ("server", "left"),
        ("tools", "right"),
        ("tokens, plain", "right"),
        ("discovery", "right"),
    )
    console().print(table("What a client pays on connecting", columns, cells, 40))
    print("beforehand mcp SERVER serves one over stdio; docs/mcp.md has what to paste where")
    return EXIT_OK
