"""Connections that cannot be held for nothing: deadlines for a request's head and for a client that
does not read, and caps on connections that have not shown who they are.

A connection is *unproven* until a request on it was let in (by its token, or because it came from
this machine where no token is needed). Beyond a cap the unproven connection that has been idle for
longest gives way to a new one; where all room is taken, so does a proven one that is idle. Where
none is idle, the new one is closed. Watchers of live events
are busy, so no deadline ends them.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

KEY = "beforehand.connection"
SPARE_FILES = 128
"""File descriptors that are kept for everything but connections."""


@dataclass(frozen=True)
class Limits:
    """What a server grants to its clients. Times are seconds, sizes bytes; `rate` is the requests a
    second of one user (or of one address, where there are no users), `at_once_each` those of one
    that are in progress, `at_once` those of all."""

    head: float = 10.0
    body: float = 20.0
    idle: float = 5.0
    stalled: float = 30.0
    per_peer: int = 512
    unproven: int = 1024
    connections: int = 4096
    largest: int = 4 * 2**20
    largest_upload: int = 64 * 2**20
    rate: float = 200.0
    at_once: int = 256
    at_once_each: int = 64


USUAL = Limits()


class Connections:
    """The connections of one server, counted."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = max(16, min(limits.connections, files - SPARE_FILES))
        self.open = 0
        self._unproven: dict[Connection, None] = {}
        self._proven: dict[Connection, None] = {}
        self._of_peer: Counter[str] = Counter()

    def enter(self, one: "Connection") -> bool:
        """Count a new connection; False if there is no room for it."""
        limits = self.limits
        if self._of_peer[one.peer] >= limits.per_peer and not self._give_way(one.peer):
            return False
        if len(self._unproven) >= limits.unproven and not self._give_way(None):
            return False
        if self.open >= self.most and not (self._give_way(None) or self._idle_proven()):
            return False
        self.open += 1
        self._unproven[one] = None
        self._of_peer[one.peer] += 1
        return True

    def _give_way(self, peer: str | None) -> bool:
        """Close the unproven connection (of this peer) that has been idle for longest."""
        for held in self._unproven:  # In the order in which they came.
            if peer in (None, held.peer) and not held.busy:
                held.transport.abort()
                self.leave(held)
                return True
        return False

    def _idle_proven(self) -> bool:
        """Close the proven connection that has been idle for longest."""
        for held in self._proven:  # In the order of their last requests.
            if not held.busy:
                held.transport.abort()
                self.leave(held)
                return True
        return False

    def proven(self, one: "Connection") -> None:
        """A request on this connection was let in."""
        if one in self._unproven:
            del self._unproven[one]
            self._forget(one.peer)
        if one.counted:
            self._proven.pop(one, None)
            self._proven[one] = None

    def leave(self, one: "Connection") -> None:
        """A connection is closed."""
        if one.counted:
            one.counted = False
            self.open -= 1
            self.proven(one)
            self._proven.pop(one, None)

    def _forget(self, peer: str) -> None:
        self._of_peer[peer] -= 1
        if not self._of_peer[peer]:
            del self._of_peer[peer]

    def protocol(self) -> type["Connection"]:
        """The protocol class that uvicorn makes a connection of."""
        return type("CountedConnection", (Connection,), {"among": self})


class Connection(H11Protocol):
    """One connection, with its deadlines. `state` of every request on it has the connection."""

    among: Connections
    counted = False
    peer = ""
    _late: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """True while a request on it is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self.counted = self.among.enter(self)
        if not self.counted:
            transport.abort()
            return
        self.app_state = {**self.app_state, KEY: self}
        self._expect_head(self.among.limits.head)

    def data_received(self, data: bytes) -> None:
        with suppress(h11.RemoteProtocolError):  # Bytes after an end that was announced.
            super().data_received(data)
        if self.busy:
            self._cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self.busy:
            self._expect_head(self.among.limits.head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self.resume_writing()
        self.among.leave(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered by a problem, and the connection closed."""
        body = orjson.dumps(
            {
                "type": "about:blank",
                "title": "Bad Request",
                "status": 400,
                "detail": "this is not an HTTP request as RFC 9112 has it: check its head",
                "error": "bad_request",
            }
        )
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def pause_writing(self) -> None:
        """The client does not read what is sent to it."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.among.limits.stalled, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if self.flow is not None:
            super().resume_writing()

    def _expect_head(self, seconds: float) -> None:
        self._cancel()
        self._late = self.loop.call_later(seconds, self._close_late)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        if not self.busy:
            self.transport.abort()


def prove(scope: MutableMapping[str, Any]) -> None:
    """Mark the connection of a request that was let in."""
    held = scope.get("state", {}).get(KEY)
    if isinstance(held, Connection):
        held.among.proven(held)
