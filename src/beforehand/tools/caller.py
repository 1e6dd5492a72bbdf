"""The caller of a tool: what it may use, how often, what it may read, and if it still waits."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from beforehand.errors import BeforehandError, Unauthorized


@dataclass(frozen=True)
class ToolLimit:
    """How often one user of a server may call the tools that share it."""

    calls: int
    seconds: int
    name: str


class Limited(Protocol):
    """What a caller asks to use: a tool."""

    @property
    def name(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def limit(self) -> ToolLimit | None: ...


@dataclass(frozen=True)
class Caller:
    """Who calls: the servers it may use (None: all), and `take`, which counts its calls and raises
    RateLimited (None: calls are not counted)."""

    servers: frozenset[str] | None = None
    take: Callable[[ToolLimit], None] | None = None
    user: str | None = None
    hidden: tuple[tuple[str, str], ...] = ()
    """Paths on the server's machine, and the text that errors show instead of them."""

    def told(self, error: BeforehandError) -> BeforehandError:
        """The error as this caller may read it."""
        text = str(error)
        for place, instead in self.hidden:
            text = text.replace(place, instead)
        error.args = (text,)
        return error

    def allows(self, server: str) -> bool:
        """True if the caller may use a server's tools; those of no server are always allowed."""
        return self.servers is None or not server or server in self.servers

    def admit(self, tool: "Limited") -> None:
        """Raises Unauthorized for a tool of another server, RateLimited beyond its limit."""
        if not self.allows(tool.server):
            raise Unauthorized(
                f"{tool.name} belongs to the server {tool.server}, which this token does not cover "
                f"(it covers {', '.join(sorted(self.servers or ())) or 'none'} here)"
            )
        if self.take is not None and tool.limit is not None:
            self.take(tool.limit)


OWNER = Caller()
"""The user of this machine: may use every server, and no call is counted."""


@dataclass
class CallSignals:
    """Signals between a call and its client: the call's progress, and `stop` if the client left."""

    progress: Callable[[int, int | None, str], None] = lambda done, total, text: None
    stop: threading.Event = field(default_factory=threading.Event)
