"""Checks before the servers: tokens, the host names that browsers send, the length of a body."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import orjson
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beforehand.errors import BeforehandError, InputError, Unauthorized
from beforehand.serve.auth import VISITOR, Verifier
from beforehand.serve.connections import Limits, prove
from beforehand.serve.problems import MEDIA, problem
from beforehand.store.files import unpack

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
WORDS = {"read": "read runs and worlds", "start": "start and stop runs", "tools": "call tools"}
_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)
REFUSED = -32001
"""The JSON-RPC code of a refusal; of those that servers may choose."""
LARGEST_TOGETHER = 128 * 2**20
"""The most bytes of all bodies that are being read."""


def needs_tools(_: Scope) -> str:
    """What a token must allow for a request to an MCP server."""
    return "tools"


class TokenGuard:
    """Lets in requests with a valid token that allows what they ask for, and covers the server (RFC
    6750). `needs` gives the scope of a request."""

    def __init__(
        self,
        app: ASGIApp,
        verifier: Verifier,
        log: Callable[[str], None],
        server: str | None = None,
        needs: Callable[[Scope], str | None] = needs_tools,
    ) -> None:
        self._app, self._verifier, self._log = app, verifier, log
        self._server, self._needs = server, needs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (needed := self._needs(scope)) is None:
            return await self._app(scope, receive, send)
        shown = Headers(scope=scope).get("authorization")
        try:
            who = await self._verifier.visitor(shown)
        except Unauthorized as error:
            self._log(f"- {_path(scope)} 401 {error}")
            named = "invalid_token" if shown else ""
            return await _asking(named, str(error), 401)(scope, receive, send)
        except BeforehandError as error:
            self._log(f"- {_path(scope)} 503 tokens cannot be checked: {error}")
            said = "tokens cannot be checked at the moment: try again later"
            return await problem(503, "unavailable", said, retry_after=5)(scope, receive, send)
        if needed not in who.scopes:
            self._log(f"{who.user} {_path(scope)} 403 does not allow {needed}")
            said = (
                f"this token does not allow to {WORDS[needed]}: issue one with `beforehand token "
                f"issue --user {who.user} --scopes {','.join(sorted({*who.scopes, needed}))}`"
            )
            return await _asking("insufficient_scope", said, 403)(scope, receive, send)
        if self._server is not None and who.servers is not None and self._server not in who.servers:
            self._log(f"{who.user} {_path(scope)} 403 covers {', '.join(sorted(who.servers))}")
            said = (
                f"this token covers {', '.join(sorted(who.servers))}, not {self._server}: issue "
                f"one with `beforehand token issue --servers {self._server}`"
            )
            return await _asking("insufficient_scope", said, 403)(scope, receive, send)
        scope[VISITOR] = who
        prove(scope)
        return await self._app(scope, receive, send)


def _path(scope: Scope) -> str:
    """The path for a line of the log: what a client wrote must not look like another line."""
    return ascii(scope["path"])[1:-1]


def _asking(error: str, said: str, status: int) -> JSONResponse:
    """A refusal that asks for a token; the header names an error only if a token was sent."""
    answer = problem(status, error or "no_token", said)
    about = f' error="{error}", error_description="{said}"' if error else ' realm="beforehand"'
    answer.headers["WWW-Authenticate"] = f"Bearer{about}"
    return answer


class LocalOnly:
    """For servers without tokens: lets in only requests that name this machine, and only pages from
    the address of this server itself. So a page of another site cannot get in by pointing its own
    name here (DNS rebinding)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _LOCAL.fullmatch(host):
            said = f"this server answers only to the names of this machine, not to {host[:100]!r}"
            return await problem(421, "misdirected_request", said)(scope, receive, send)
        if origin is not None:
            scheme, _, name = origin.partition("://")
            port = f":{scope['server'][1]}"
            if scheme != "http" or not _LOCAL.fullmatch(name) or not name.endswith(port):
                said = f"pages of {origin[:100]!r} may not use this server"
                return await problem(403, "forbidden_origin", said)(scope, receive, send)
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode") != "navigate" or scope["method"] != "GET"
        ):
            said = "a page of another site may not use this server"
            return await problem(403, "forbidden_origin", said)(scope, receive, send)
        prove(scope)
        return await self._app(scope, receive, send)


class RpcErrors:
    """Refusals of a POST to an MCP server as errors of JSON-RPC, the problem details in `data`:
    clients of the protocol show a JSON-RPC message, and of any other body its status alone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        refusal: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal refusal
            if message["type"] == "http.response.start":
                headers = Headers(raw=message["headers"])
                if headers.get("content-type") == MEDIA:
                    refusal = message
                    return
            elif refusal is not None:
                said = orjson.loads(message["body"])
                error = {"code": REFUSED, "message": said["detail"], "data": said}
                body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
                replaced = (b"content-type", b"content-length")
                kept = [(k, v) for k, v in refusal["headers"] if k.lower() not in replaced]
                kept += [(b"content-type", b"application/json")]
                kept += [(b"content-length", str(len(body)).encode())]
                await send({**refusal, "headers": kept})
                message = {"type": "http.response.body", "body": body}
            await send(message)

        return await self._app(scope, receive, sending)


class InFlight:
    """Bounds the requests of one user (of one address, where there are no users) that are in
    progress at once. The count is the process's: one user's calls to several servers add up."""

    now: ClassVar[Counter[str]] = Counter()

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._most = app, limits.at_once_each

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or watches(scope):
            return await self._app(scope, receive, send)
        who, now = caller(scope), InFlight.now
        if now[who] >= self._most:
            said = f"{now[who]} requests of yours are in progress: wait for one to end"
            return await problem(429, "rate_limited", said, retry_after=1)(scope, receive, send)
        now[who] += 1
        try:
            return await self._app(scope, receive, send)
        finally:
            now[who] -= 1
            if not now[who]:
                del now[who]


MOST_ROWS = 100_000
"""The lines of a file that are scored in a server: each takes some kB there."""
MOST_VALUES, MOST_OPEN = 300_000, 20_000
"""The commas, and the brackets that open, in a body of JSON: what is checked takes time for each,
and everybody waits meanwhile."""


def refuse_large(content: bytes, most: int) -> None:
    """Raises InputError for an upload that unpacks to more than `most` bytes, or has more lines
    than are scored in a server."""
    if content[:2] == b"\x1f\x8b":
        content = unpack(content, "the file", most)
    if max(content.count(b"\n"), content.count(b"\r")) > MOST_ROWS:
        raise InputError(
            f"the file has more than {MOST_ROWS:,} lines: score it with `beforehand score` on the "
            "server's own machine, or send parts of it"
        )


def caller(scope: Scope) -> str:
    """Who is counted for a request: its user, or its address where there are no users."""
    client = scope.get("client")
    return getattr(scope.get(VISITOR), "user", None) or f"at {client[0] if client else ''}"


def watches(scope: Scope) -> bool:
    """True for a request that waits for live events, and does no work."""
    return bool(scope["path"].endswith("/events") and scope["method"] == "GET")


class Body:
    """Reads a request's whole body before anything else is done with it: of bounded length, in
    bounded time, and not more of them at once than memory allows."""

    reading = 0
    """Bytes of the bodies that are being read, by all servers of the process."""

    def __init__(
        self, app: ASGIApp, limits: Limits, uploads: Callable[[Scope], bool] = lambda scope: False
    ) -> None:
        """`uploads` says for which requests a body may be as long as an upload."""
        self._app, self._limits, self._uploads = app, limits, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self._app(scope, receive, send)
        upload = self._uploads(scope)
        most = self._limits.largest_upload if upload else self._limits.largest
        sent = Headers(scope=scope)
        declared = sent.get("content-length", "")
        if declared and "transfer-encoding" in sent:
            # RFC 9112, section 6.1: two lengths may hide a second request.
            said = "send Content-Length or Transfer-Encoding, not both"
            refused = problem(400, "bad_request", said)
            refused.headers["Connection"] = "close"
            return await refused(scope, receive, send)
        if declared.isdigit() and int(declared) > most:
            return await self._too_large(most, scope, receive, send)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._limits.body):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None  # The client left before it had sent all.
                    parts.append(message.get("body", b""))
                    Body.reading += len(parts[-1])
                    if sum(map(len, parts)) > most:
                        return await self._too_large(most, scope, receive, send)
                    if Body.reading > LARGEST_TOGETHER:
                        said = "too many long requests at once: ask again in a moment"
                        return await problem(503, "busy", said, retry_after=1)(scope, receive, send)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            said = f"the request did not arrive within {self._limits.body:g} s"
            return await problem(408, "request_timeout", said)(scope, receive, send)
        finally:
            Body.reading -= sum(map(len, parts))
        body = b"".join(parts)
        if not upload and (
            body.count(b",") > MOST_VALUES or body.count(b"[") + body.count(b"{") > MOST_OPEN
        ):
            said = f"a body may have at most {MOST_VALUES:,} commas and {MOST_OPEN:,} open brackets"
            return await problem(413, "request_too_large", said)(scope, receive, send)
        whole: list[Message] = [{"type": "http.request", "body": body}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        return await self._app(scope, again, send)

    async def _too_large(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        said = f"a request may have at most {most:,} bytes here"
        await problem(413, "request_too_large", said)(scope, receive, send)
