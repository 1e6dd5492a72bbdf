"""An MCP server over streamable HTTP, as an application of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beforehand.serve.backend import Backend
from beforehand.serve.mcp import McpServer
from beforehand.serve.problems import problem


@asynccontextmanager
async def channel(backend: Backend, name: str, discovery: bool) -> AsyncIterator[ASGIApp]:
    """The server of this name while the block lasts."""
    server = McpServer(backend, name, discovery)
    streamed, plain = (
        StreamableHTTPSessionManager(server.sdk, stateless=True, json_response=as_json)
        for as_json in (False, True)
    )
    async with streamed.run(), plain.run():
        yield Channel(StreamableHTTPASGIApp(streamed), StreamableHTTPASGIApp(plain))


class Channel:
    """Answers with one piece of JSON or with a stream. JSON is cheaper, so clients of the protocol
    before 2026-07-28 get a stream only if they ask for progress. For later ones the SDK itself
    starts a stream only when there is something to tell."""

    def __init__(self, streamed: ASGIApp, plain: ASGIApp) -> None:
        self._streamed, self._plain = streamed, plain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            said = "this server has no sessions and sends nothing by itself: POST a message"
            answer = problem(405, "method_not_allowed", said)
            answer.headers["Allow"] = "POST"
            return await answer(scope, receive, send)
        version = Headers(scope=scope).get("mcp-protocol-version")
        body = await receive()
        waiting: list[Message] = [body]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        new = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        if new or b'"progressToken"' in body["body"]:
            return await self._streamed(scope, again, send)
        return await self._whole(scope, waiting, receive, send)

    async def _whole(
        self, scope: Scope, waiting: list[Message], receive: Receive, send: Send
    ) -> None:
        begun = False

        async def once() -> Message:
            while not waiting:
                await asyncio.Event().wait()
            return waiting.pop()

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        answering = asyncio.ensure_future(self._plain(scope, once, sending))

        async def hang_up() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            answering.cancel()

        watching = asyncio.ensure_future(hang_up())
        try:
            await asyncio.wait([answering])
        except asyncio.CancelledError:  # The server is stopping, and its wait is over.
            answering.cancel()
            if not begun:
                said = "the server was stopped during the call: ask again"
                await problem(503, "stopped", said, retry_after=1)(scope, receive, send)
            return
        finally:
            watching.cancel()
        if not answering.cancelled():
            answering.result()
