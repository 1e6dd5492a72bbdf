"""The servers over HTTP, behind one port: MCP servers over streamable HTTP, and the API.

    /mcp              the server that was named (all, or one)
    /mcp/discovery    the same in discovery mode
    /NAME/mcp, /NAME/mcp/discovery    each server by its name
    /api/…            the API (`beforehand serve`)

Each request stands alone: there is no session that a restart could lose. An answer is one piece of
JSON, or a stream if the client asked for progress. A call ends when its client disconnects.
"""

import asyncio
import errno
import logging
import math
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Any

import anyio.to_thread
import h11
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from beforehand.errors import InputError
from beforehand.serve.auth import Verifier
from beforehand.serve.backend import ALIASES, ALL, Backend, server_names
from beforehand.serve.connections import USUAL, Connections, Limits
from beforehand.serve.guards import LOOPBACK, Body, InFlight, LocalOnly, RpcErrors, TokenGuard

BACKLOG = 1024
"""The connections that the system keeps until they are accepted."""
AT_A_TIME = 32
"""The connections that are accepted before the loop does anything else: fewer than the file
descriptors that are spared, so that each is counted (and the oldest closed) before they run out."""
STOP_S = 30
"""The seconds that calls in flight have to end after the server was asked to stop."""


@dataclass(frozen=True)
class Place:
    """A path and the server behind it."""

    path: str
    name: str
    discovery: bool


def places(name: str) -> list[Place]:
    """Every address of a process that serves `name`."""
    names = [n for n in server_names() if n != ALL] if name == ALL else [name]
    roots = [("", name), *((f"/{n}", n) for n in names)]
    roots += [(f"/{alias}", n) for alias, n in ALIASES.items() if n in names]
    return [
        Place(f"{root}/mcp{end}", n, bool(end)) for root, n in roots for end in ("", "/discovery")
    ]


def application(
    backend: Backend,
    name: str,
    verifier: Verifier | None,
    limits: Limits = USUAL,
    api: ASGIApp | None = None,
) -> Starlette:
    """The ASGI application: the MCP servers, and the API where one is given. Without a verifier no
    token is needed, and only programs on this machine are let in."""
    routes: list[BaseRoute] = []
    made: list[_WhenAsked] = []
    for place in places(name):
        made.append(_WhenAsked(backend, place))
        endpoint: ASGIApp = InFlight(Body(made[-1], limits), limits)
        if verifier is not None:
            covers = None if place.name == ALL else place.name
            endpoint = TokenGuard(endpoint, verifier, backend.log, covers)
        endpoint = RpcErrors(endpoint)
        routes += [Route(path, endpoint=endpoint) for path in (place.path, f"{place.path}/")]
    if api is None:
        routes.append(Route("/", endpoint=_index(name, verifier is not None)))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if api is None:
            await made[0].start()
        try:
            yield
        finally:
            for one in made:
                await one.close()

    local = [Middleware(LocalOnly)] if verifier is None else []
    app = Starlette(routes=routes, middleware=local, lifespan=lifespan)
    if api is not None:
        app.router.default = api
    return app


class _WhenAsked:
    """An MCP server that is made when it is first asked: to load the protocol's types takes longer
    than to start everything else."""

    def __init__(self, backend: Backend, place: Place) -> None:
        self._backend, self._place = backend, place
        self._app: asyncio.Future[ASGIApp] | None = None
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self.start())(scope, receive, send)

    async def start(self) -> ASGIApp:
        """The server, made if it is not there."""
        if self._app is None or (self._app.done() and self._app.exception() is not None):
            self._app = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(self._app))
        return await asyncio.shield(self._app)

    async def _hold(self, app: "asyncio.Future[ASGIApp]") -> None:
        """Make it, and keep it until the process stops serving."""
        try:
            module = await anyio.to_thread.run_sync(import_module, "beforehand.serve.channel")
            place = self._place
            async with module.channel(self._backend, place.name, place.discovery) as made:
                app.set_result(made)
                await self._over.wait()
        except BaseException as error:
            if app.done():
                raise
            app.set_exception(error)

    async def close(self) -> None:
        """End it, if it was made."""
        self._over.set()
        if self._task is not None:
            await self._task


def _index(name: str, token: bool) -> Callable[..., Any]:
    async def index(_: Any) -> JSONResponse:
        return JSONResponse(
            {
                "name": "beforehand",
                "addresses": [place.path for place in places(name)],
                "authorization": "bearer token" if token else "none",
            }
        )

    return index


def check_binding(host: str, auth: str) -> None:
    """Raises InputError for a server that other machines can reach without a token."""
    if auth == "none" and host not in LOOPBACK:
        raise InputError(
            f"--auth none is only for this machine (--host 127.0.0.1), not {host}: use --auth "
            "token and issue tokens with `beforehand token issue`"
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises InputError if the port is taken or there is no such host."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP is named explicitly; otherwise asyncio leaves Nagle's delay on, 40 ms per answer.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise InputError(
            f"--host {host} --port {port} cannot be served ({error.strerror or error}): choose "
            "another port, or 0 for any that is free"
        ) from None
    return found


class _Uvicorn(uvicorn.Server):
    """Stops at a signal, and does not raise the signal again afterwards: what was recorded must
    still be stored, and a stop on request is not a failure. `stopping` is called first: what is
    told without end (live events) must end before the connections can."""

    def __init__(
        self, config: uvicorn.Config, stopping: Callable[[], None], log: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._stopping, self._log = stopping, log

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_Unaccepted(self._log))
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # The loop has set it to AT_A_TIME.

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Closing:
    """Answers nobody where the connection is closing already, because what came over it was not
    HTTP: the client has had its 400."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except h11.LocalProtocolError:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    while (await receive())["type"] != "http.disconnect":
                        pass


class _Unaccepted:
    """Handles what the event loop could not: connections that cannot be accepted are said once in
    `EVERY_S`, by a sentence, and not each by a traceback."""

    EVERY_S = 60.0

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log, self._said = log, -math.inf

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _USED_UP:
            return loop.default_exception_handler(context)
        if loop.time() - self._said >= self.EVERY_S:
            self._said = loop.time()
            self._log(
                f"- a connection cannot be accepted ({error.strerror}): raise `ulimit -n`, or "
                "lower --connections; said once a minute"
            )
        return None


_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def run(
    app: Starlette,
    sockets: Sequence[socket.socket],
    limits: Limits = USUAL,
    stopping: Callable[[], None] = lambda: None,
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Serve until SIGINT or SIGTERM; calls in flight are answered first."""
    config = uvicorn.Config(
        _Closing(app),
        http=Connections(limits).protocol(),
        ws="none",
        timeout_keep_alive=limits.idle,  # type: ignore[arg-type]  # A float works as well.
        log_level="error",
        access_log=False,
        lifespan="on",
        backlog=AT_A_TIME,
        timeout_graceful_shutdown=STOP_S,
        server_header=False,
    )
    # A client that leaves in the middle of an answer is no event for the log.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    _Uvicorn(config, stopping, log).run(list(sockets))


def base_url(host: str, port: int) -> str:
    """`http://host:port`, an IPv6 address in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def addresses(name: str, sock: socket.socket) -> list[tuple[str, str]]:
    """(what, URL) of the main addresses, for people."""
    base = base_url(*sock.getsockname()[:2])
    return [(name, f"{base}/mcp"), (f"{name}, discovery mode", f"{base}/mcp/discovery")]
