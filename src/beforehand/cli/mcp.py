"""`beforehand mcp`: the tools as MCP servers."""

import os
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from beforehand.cli.aside import AsideFlags, aside_model
from beforehand.cli.output import ArchivePath, Json, TextGrade, archive_path, emit, note
from beforehand.cli.server import ServerLimits, server_limits
from beforehand.clock import SystemClock, iso, parse_instant
from beforehand.config import ENDS_WITH, Workspace, WorldMode
from beforehand.errors import EXIT_OK, InputError
from beforehand.gateway.opening import connect
from beforehand.store.files import is_alive

if TYPE_CHECKING:
    from beforehand.serve.auth import Visitor
    from beforehand.serve.backend import Backend
    from beforehand.serve.collecting import Days
    from beforehand.serve.connections import Limits

HOST, PORT, LOOK_S = "127.0.0.1", 8765, 1.0
WITHOUT_ARCHIVE = frozenset({"google-news-rss", "market-data"})
Transport = Annotated[
    Literal["stdio", "http"], Parameter(help="stdio: one local client. http: many.")
]
Client = Literal[
    "claude-code", "claude-desktop", "codex", "cursor", "gemini", "vscode", "windsurf", "zed"
]


@Parameter(name="*")
@dataclass(frozen=True)
class Taking:
    """Whether forecasts are taken too."""

    answers: Annotated[
        Path | None,
        Parameter(
            help="Take forecasts too (the tool submit_forecasts), and write them to this JSONL "
            "with the user and the instant of the token."
        ),
    ] = None
    days: Annotated[
        str | None,
        Parameter(
            help="With --answers, FROM..UNTIL: FutureSim's tools alone (search_news, "
            "submit_forecasts, next_day), one day after the other."
        ),
    ] = None

    def of_days(self) -> "Days | None":
        """The first and the last day. Raises InputError."""
        from beforehand.serve.collecting import Days

        if self.days is None:
            return None
        if self.answers is None:
            raise InputError("--days goes with --answers, where the forecasts are written")
        first, _, last = self.days.partition("..")
        try:
            found = Days(parse_instant(first), parse_instant(last))
        except ValueError as error:
            raise InputError(f"--days {self.days}: write FROM..UNTIL ({error})") from None
        if found.first >= found.last:
            raise InputError(f"--days {self.days}: the first day lies before the last")
        return found


@dataclass(frozen=True)
class ServeOptions:
    """What a server is started with."""

    name: str
    http: bool
    host: str | None
    port: int | None
    auth: str | None
    discovery: bool
    as_of: str | None
    mode: WorldMode
    archive: Path | None
    aside: AsideFlags | None = None
    limits: "Limits | None" = None
    grade: Literal["captured", "published"] = "captured"
    taking: "Taking" = field(default_factory=lambda: Taking())

    def check(self) -> None:
        """Raises InputError for options that exclude each other, and for a missing archive."""
        from beforehand.serve.http import check_binding

        pairs = (("--port", self.port), ("--host", self.host), ("--auth", self.auth))
        given = next((option for option, value in pairs if value is not None), None)
        if not self.http and given is not None:
            raise InputError(f"{given} goes with --transport http; stdio serves one local client")
        if self.http and self.discovery:
            raise InputError("over http, discovery mode has its own address: /mcp/discovery")
        check_binding(self.host or HOST, self.auth or "token")
        self.taking.of_days()
        if not 0 <= (PORT if self.port is None else self.port) <= 65535:
            raise InputError(f"--port must lie between 0 and 65535, not {self.port}")
        if self.as_of is not None:
            try:
                pinned = parse_instant(self.as_of)
            except ValueError as error:
                raise InputError(f"--as-of: {error}") from None
            now = SystemClock().now()
            if pinned > now:
                raise InputError(f"--as-of {self.as_of} lies in the future: a pin lies in the past")
        path = archive_path(self.archive)
        wanted = self.archive is not None or self.name not in WITHOUT_ARCHIVE
        if self.mode == "replay" and wanted and not (path / "archive.json").is_file():
            raise InputError(
                f"there is no archive at {path}: name one with --archive (`make demo` makes "
                "data/demo-world-0), make one with `beforehand world simulate`, or ask the "
                "services with --mode live"
            )


def mcp(
    server: Annotated[
        str | None, Parameter(help="A server (polymarket…), or all. Without one: a list of them.")
    ] = None,
    /,
    *,
    transport: Transport = "stdio",
    port: Annotated[int | None, Parameter(help=f"For http [{PORT}]; 0: any free one.")] = None,
    host: Annotated[str | None, Parameter(help=f"For http [{HOST}].")] = None,
    auth: Annotated[
        Literal["token", "none"] | None,
        Parameter(help="For http: bearer tokens, or none (only on this machine) [token]."),
    ] = None,
    discovery: Annotated[
        bool,
        Parameter(negative="", help="For stdio: four tools that reach all others (http: a path)."),
    ] = False,
    as_of: Annotated[
        str | None, Parameter(help="Pin the whole server to this instant: nothing later is seen.")
    ] = None,
    mode: Annotated[
        WorldMode | None,
        Parameter(
            help="replay: the archive. live: the services. record: live, and stored [replay where "
            "there is an archive or a pin, else live]."
        ),
    ] = None,
    grade: TextGrade = "captured",
    archive: ArchivePath = None,
    taking: Taking | None = None,
    aside: AsideFlags | None = None,
    limits: ServerLimits | None = None,
    config: Annotated[
        Client | None, Parameter(help="Print what to paste into this client, and serve nothing.")
    ] = None,
    json: Json = False,
) -> int:
    """Serve the tools to MCP clients, read-only: over stdio to a local one, over http to many.

    `beforehand mcp all --transport http` puts every server behind one port: /mcp is all of them
    together, /NAME/mcp one of them; /discovery after either path reaches its tools through four
    small ones. Clients over http need a token from `beforehand token issue`. With --as-of it is a
    backtest: an unmodified client sees the world as it was. With --model, a model rates markets.
    """
    from beforehand.serve.backend import named

    if server is None:
        if config or as_of or archive or discovery or transport == "http":
            raise InputError("name a server first, or all: `beforehand mcp` alone lists them")
        return _overview(json)
    given = ServeOptions(
        named(server), transport == "http", host, port, auth, discovery, as_of,
        mode_of(mode, as_of, archive), archive,
        aside, server_limits(limits), grade, taking or Taking(),
    )  # fmt: skip
    if json:
        raise InputError("--json goes with `beforehand mcp` alone")
    given.check()
    return _serve(given) if config is None else _config(config, given, mode)


def mode_of(mode: WorldMode | None, as_of: str | None, archive: Path | None) -> WorldMode:
    """The mode of a server that may not be told one: it answers from an archive where one is there
    or asked for, and else from the services, so that a client which starts it finds it running."""
    if mode is not None:
        return mode
    asked = as_of is not None or archive is not None
    held = (archive_path(archive) / "archive.json").is_file()
    return "replay" if asked or held else "live"


def _config(client: str, given: ServeOptions, mode: WorldMode | None) -> int:
    """Print what to paste into a client; a `mode` that was not stated is chosen at each start."""
    from beforehand.cli.aside import aside_options
    from beforehand.serve.configs import config
    from beforehand.serve.http import base_url

    url = None
    options = ["--discovery"] if given.discovery else []
    options += [] if given.as_of is None else ["--as-of", given.as_of]
    options += [] if mode in (None, "replay") else ["--mode", mode]
    options += [] if given.grade == "captured" else ["--grade", given.grade]
    options += aside_options(given.aside)
    if given.archive is not None:
        options += ["--archive", str(archive_path(given.archive).resolve())]
    if given.http:
        if options:
            raise InputError(f"give {options[0]} to the command that serves over http")
        if given.port == 0:
            raise InputError("--port 0 picks another port each time: name the one in use")
        url = f"{base_url(given.host or HOST, given.port or PORT)}/mcp"
    place, text = config(client, given.name, options, url, token=given.auth != "none")
    note(f"{place}:")
    print(text)
    return EXIT_OK


def _serve(given: ServeOptions) -> int:
    import anyio

    from beforehand.serve.auth import Visitor, open_quotas
    from beforehand.serve.backend import Backend
    from beforehand.serve.log import LogWriter
    from beforehand.serve.mcp import McpServer, serve_stdio
    from beforehand.tools.storage import Storage

    workspace = Workspace.from_environment()
    path, log = archive_path(given.archive), LogWriter(workspace.clock)
    connection = connect(workspace, given.mode, path, given.grade)
    storage = Storage(workspace.home, given.mode, connection.live, connection.traffic)
    pinned = None if given.as_of is None else parse_instant(given.as_of)
    opened = ExitStack()
    model = opened.enter_context(aside_model(given.aside, workspace, f"mcp {given.name}"))
    storage.scorer = None if model is None else model.rate
    who = Visitor() if given.http else _of_token(workspace)
    backend = Backend(connection, storage, open_quotas(workspace), log.write, who, pinned)
    if given.taking.answers is not None:
        from beforehand.serve.collecting import Collecting

        backend.collecting = Collecting(
            given.taking.answers, workspace.clock, given.taking.of_days()
        )
    pins = [at for at in (pinned, who.as_of) if at is not None]
    pin = f", pinned to {iso(min(pins))}" if pins else ""
    user = "" if who.user is None else f", as {who.user}"
    source = "" if given.mode == "live" else f", archive {path}"
    about = f"{given.name}: {given.mode}{source}{pin}{user}"

    def leave() -> None:
        """Store what was recorded, then end the process, even if a thread still waits."""
        if moved := backend.close():
            log.write(f"recorded {moved} exchanges in {path}")
        opened.close()
        log.close()
        sys.stdout.flush()
        os._exit(EXIT_OK)

    if given.http:
        _http(backend, given, path, workspace, about)
    else:
        log.write(f"serving MCP on standard input and output ({about})")
        if sys.stdin.isatty():
            log.write("this is for an MCP client (--config CLIENT says how); Ctrl-C ends it")
        anyio.run(serve_stdio, McpServer(backend, given.name, given.discovery), leave)
    leave()
    return EXIT_OK


def _of_token(workspace: Workspace) -> "Visitor":
    """The user of a stdio server: of the token in the environment, with its pin and its quotas;
    without one, the user of this machine, for whom nothing is counted."""
    import anyio

    from beforehand.serve.auth import Verifier, Visitor, open_tokens
    from beforehand.serve.configs import TOKEN

    if not (text := workspace.settings.get(TOKEN)):
        return Visitor()
    with open_tokens(workspace) as tokens:
        verifier = Verifier(tokens, workspace.clock)
        return anyio.run(verifier.visitor, f"Bearer {text}")


def _http(
    backend: "Backend", given: ServeOptions, path: Path, workspace: Workspace, about: str
) -> None:
    from beforehand.serve.auth import Verifier, Visitor, open_tokens
    from beforehand.serve.http import addresses, application, listen, run

    if number := os.environ.get(ENDS_WITH):
        threading.Thread(target=_end_with, args=(int(number),), daemon=True).start()
    verifier, clock, home = None, workspace.clock, workspace.home
    # In errors for clients, paths are relative to the home folder or the archive's parent folder.
    backend.hidden = ((f"{home.root}{os.sep}", ""), (f"{path.resolve().parent}{os.sep}", ""))
    with ExitStack() as opened:
        sock = opened.enter_context(
            listen(given.host or HOST, PORT if given.port is None else given.port)
        )
        if given.auth == "none":
            backend.local = Visitor("anyone")
        else:
            backend.local = None
            tokens = opened.enter_context(open_tokens(workspace))
            verifier = Verifier(tokens, clock)
            if not any(t.state(clock.now()) == "valid" for t in tokens.all()):
                note("no token is valid yet: beforehand token issue --user NAME --servers all")
        note(f"serving MCP over HTTP ({about})")
        for what, url in addresses(given.name, sock):
            note(f"{what}: {url}")
        note("Ctrl-C ends it; calls in flight are answered first")
        limits = given.limits or server_limits(None)
        app = application(backend, given.name, verifier, limits)
        run(app, [sock], limits, log=backend.log)


def _end_with(number: int) -> None:
    """End when that process has ended."""
    while is_alive(number):
        time.sleep(LOOK_S)
    os._exit(EXIT_OK)


def _overview(json: bool) -> int:
    from beforehand.tools.servers.discovery_mode import listing_costs

    rows = listing_costs()
    if json:
        emit({"servers": rows})
        return EXIT_OK
    from beforehand.cli.screen import screen
    from beforehand.cli.tables import table

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
    screen().print(table("What a client pays on connecting", columns, cells, 40))
    print("beforehand mcp SERVER serves one over stdio; --config CLIENT prints what to paste where")
    return EXIT_OK
