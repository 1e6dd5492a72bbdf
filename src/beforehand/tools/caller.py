"""Who calls a tool: what it may use, how often, what it is told, and whether it still waits.

What tools read besides the View: the log of searches, the market-data table, the meters.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from beforehand.config import Home
from beforehand.errors import BeforehandError, Unauthorized
from beforehand.gateway.opening import Mode, write_threads
from beforehand.gateway.worlds.live import LiveWorld
from beforehand.lazy import lazy
from beforehand.records.world import Market, Observation
from beforehand.sandbox.engines import Sandbox, shared
from beforehand.store.market_data.table import MarketData
from beforehand.store.queries import QueryLog
from beforehand.traffic import Traffic


@dataclass(frozen=True)
class ToolLimit:
    """How often one user of a server may call the tools that share it."""

    calls: int
    seconds: int
    name: str


class Limited(Protocol):
    """What a caller is admitted to: a tool."""

    @property
    def name(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def limit(self) -> ToolLimit | None: ...


@dataclass(frozen=True)
class Caller:
    """Who calls: the servers it may use (None: all), and what counts its calls, if anything does
    (it raises RateLimited)."""

    servers: frozenset[str] | None = None
    take: Callable[[ToolLimit], None] | None = None
    user: str | None = None
    hidden: tuple[tuple[str, str], ...] = ()
    """Places of the server's machine, and what errors say instead of them."""

    def told(self, error: BeforehandError) -> BeforehandError:
        """The error as this caller may read it."""
        text = str(error)
        for place, instead in self.hidden:
            text = text.replace(place, instead)
        error.args = (text,)
        return error

    def allows(self, server: str) -> bool:
        """Whether the caller may use a server's tools; those of no server it always may."""
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
"""Whoever runs the program on this machine: every server, and nothing counted."""


@dataclass
class CallSignals:
    """Between one call and whoever waits for it: how far it is, and that nobody waits any more."""

    progress: Callable[[int, int | None, str], None] = lambda done, total, text: None
    stop: threading.Event = field(default_factory=threading.Event)


Scorer = Callable[[str, Sequence[Market]], list[tuple[float, str]]]
"""A model's (relevance in [0, 1], reason) for each market and a query."""


@dataclass
class Storage:
    """Opened on first use. `scorer` is the model that rates search results, where there is one."""

    home: Home
    mode: Mode = "replay"
    world: LiveWorld | None = None
    traffic: Traffic | None = None
    scorer: Scorer | None = None

    @lazy
    def queries(self) -> QueryLog:
        """The log of market searches."""
        return QueryLog(self.home.queries)

    @lazy
    def table(self) -> MarketData:
        """The market-data table."""
        return MarketData(self.home.market_data)

    @property
    def sandbox(self) -> Sandbox:
        """Where code runs."""
        return shared()

    def keep_threads(self) -> None:
        """Store the Reddit threads that were fetched live, for the cache-backed tool."""
        if self.world is not None:
            write_threads(self.home.reddit_cache, self.world.seen(Observation))
