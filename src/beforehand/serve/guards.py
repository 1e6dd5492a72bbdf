"""Checks before the servers: tokens, the host names that browsers send, the length of a body."""

import asyncio
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beforehand.errors import BeforehandError, Unauthorized
from beforehand.serve.auth import Verifier
from beforehand.serve.mcp import VISITOR

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)
LARGEST, LARGEST_TOGETHER, BODY_S = 4 * 2**20, 64 * 2**20, 20.0
"""The most bytes of one body, and of all bodies that are being read; and the seconds within which a
body must arrive."""


def refusal(status: int, error: str, said: str) -> JSONResponse:
    """A refusal before the protocol begins: one sentence."""
    return JSONResponse({"error": error, "error_description": said}, status)


class TokenGuard:
    """Lets in requests with a valid token that covers the server (RFC 6750)."""

    def __init__(
        self, app: ASGIApp, verifier: Verifier, server: str | None, log: Callable[[str], None]
    ) -> None:
        self._app, self._verifier, self._server, self._log = app, verifier, server, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown = Headers(scope=scope).get("authorization")
        try:
            who = await self._verifier.visitor(shown)
        except Unauthorized as error:
            self._log(f"- {scope['path']} 401 {error}")
            named = "invalid_token" if shown else ""
            return await _asking(named, str(error), 401)(scope, receive, send)
        except BeforehandError as error:
            self._log(f"- {scope['path']} 503 tokens cannot be checked: {error}")
            said = "tokens cannot be checked at the moment: try again later"
            return await refusal(503, "temporarily_unavailable", said)(scope, receive, send)
        if self._server is not None and who.servers is not None and self._server not in who.servers:
            self._log(f"{who.user} {scope['path']} 403")
            said = (
                f"this token covers {', '.join(sorted(who.servers))}, not {self._server}: issue "
                f"one with `beforehand token issue --servers {self._server}`"
            )
            return await _asking("insufficient_scope", said, 403)(scope, receive, send)
        scope[VISITOR] = who
        return await self._app(scope, receive, send)


def _asking(error: str, said: str, status: int) -> JSONResponse:
    """A refusal that asks for a token; the header names an error only if a token was sent."""
    answer = refusal(status, error or "no_token", said)
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
            return await refusal(421, "misdirected_request", said)(scope, receive, send)
        if origin is not None:
            scheme, _, name = origin.partition("://")
            port = f":{scope['server'][1]}"
            if scheme != "http" or not _LOCAL.fullmatch(name) or not name.endswith(port):
                said = f"pages of {origin[:100]!r} may not use this server"
                return await refusal(403, "forbidden_origin", said)(scope, receive, send)
        return await self._app(scope, receive, send)


class Body:
    """Reads a request's whole body before anything else is done with it: of bounded length, in
    bounded time, and not more of them at once than memory allows."""

    reading = 0
    """Bytes of the bodies that are being read, by all servers of the process."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdigit() and int(declared) > LARGEST:
            return await self._too_large(scope, receive, send)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(BODY_S):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None  # The client left before it had sent all.
                    parts.append(message.get("body", b""))
                    Body.reading += len(parts[-1])
                    if sum(map(len, parts)) > LARGEST:
                        return await self._too_large(scope, receive, send)
                    if Body.reading > LARGEST_TOGETHER:
                        said = "too many long requests at once: ask again in a moment"
                        return await refusal(503, "busy", said)(scope, receive, send)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            said = f"the request did not arrive within {BODY_S:g} s"
            return await refusal(408, "request_timeout", said)(scope, receive, send)
        finally:
            Body.reading -= sum(map(len, parts))
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts)}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        return await self._app(scope, again, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = f"a request may have at most {LARGEST:,} bytes"
        await refusal(413, "request_too_large", said)(scope, receive, send)
