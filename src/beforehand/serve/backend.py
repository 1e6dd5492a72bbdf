"""What stands behind every server of a process, and the names of the servers."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from beforehand.errors import InputError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.opening import Connection
from beforehand.serve.auth import Quotas, Visitor
from beforehand.serve.collecting import Collecting
from beforehand.tools.discovery import servers
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage

ALL = "all"
ALIASES = {"polymarket-read": "polymarket"}
AT_ONCE, CODE_AT_ONCE = 64, 16
"""The most calls, and the most runs of code, at the same time; others wait."""


def server_names() -> list[str]:
    """The servers there are; `all` puts them behind one address."""
    return [*servers(), ALL]


def named(server: str) -> str:
    """The name of a server; InputError lists those there are."""
    name = ALIASES.get(server.lower(), server.lower())
    if name not in server_names():
        raise InputError(f"no server {server!r}: there are {', '.join(server_names())}")
    return name


SERVING = {
    "replay": "Answers come from a recorded archive: nothing is asked of the services.",
    "live": "Answers come from the live services.",
    "record": "Answers come from the live services, and are recorded.",
}
"""What clients are told on connecting."""


@dataclass
class Backend:
    """What the servers of a process share."""

    connection: Connection
    storage: Storage
    quotas: Quotas
    log: Callable[[str], None]
    """Called with one line for each call."""
    local: Visitor | None
    """The caller if no token is used; None if a token is required."""
    pinned: datetime | None = None
    hidden: tuple[tuple[str, str], ...] = ()
    """Paths on this machine that errors do not show, and what they show instead."""
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "mcp-call")
    )
    runners: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CODE_AT_ONCE, "mcp-code")
    )
    """Threads for code alone. Code may take half a minute, so it waits only for other code, and no
    other call waits for it."""
    collecting: Collecting | None = None
    """Where forecasts are taken, if they are."""
    working: set[threading.Event] = field(default_factory=set)
    """For each call in progress, the event that ends it."""

    def toolbox(self, visitor: Visitor, servers: frozenset[str] | None) -> Toolbox:
        """The tools for this visitor, pinned to the earlier of the server's and the token's
        instants. Each has its own gateway, so its trail is kept apart and ends with the call."""
        gateway = Gateway(self.connection.gateway.world, self.connection.gateway.clock)
        today = None if self.collecting is None else self.collecting.today(visitor.user)
        pins = [at for at in (self.pinned, visitor.as_of, today) if at is not None]
        pinned = min(*pins, gateway.clock.now()) if pins else None
        caller = replace(self.quotas.caller(visitor, servers), hidden=self.hidden)
        return Toolbox(gateway, self.storage, pinned, caller)

    def close(self) -> int:
        """End all calls, and move what was recorded into the archive; returns how many exchanges
        were moved."""
        for stop in tuple(self.working):
            stop.set()
        for pool in (self.runners, self.threads):
            pool.shutdown(wait=False, cancel_futures=True)
        self.quotas.close()
        return self.connection.close()
