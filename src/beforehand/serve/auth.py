"""The callers of the servers: check bearer tokens, and count users' quotas.

Tokens and quotas are durable (SQLite in the home folder, or Postgres), so a restart loses neither,
and several processes count together.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import anyio

from beforehand.clock import Clock, epoch, stopwatch
from beforehand.config import Workspace
from beforehand.errors import RateLimited, Unauthorized
from beforehand.store.ledger import Ledger
from beforehand.store.tokens import SCOPES, QuotaPairs, Token, Tokens
from beforehand.tools.caller import Caller, ToolLimit

VISITOR = "beforehand.visitor"
"""The key of a request's scope under which the guard stores the visitor."""
TRUSTED_S, MOST_TRUSTED = 1.0, 10_000
"""A valid token is not looked up again for TRUSTED_S seconds, so a revocation takes effect within
that time."""
LONGEST_TOKEN = 200
HOW = (
    "issue one with `beforehand token issue` and send it as the header "
    "`Authorization: Bearer bh_...`"
)


@dataclass(frozen=True)
class Visitor:
    """A caller of a server. Without a name, nothing is counted (a local stdio server). `scopes` say
    what it may do; `servers` None covers all; `as_of` is the instant that a token is pinned to;
    `quotas` replace the usual ones."""

    user: str | None = None
    scopes: frozenset[str] = SCOPES
    servers: frozenset[str] | None = None
    as_of: datetime | None = None
    quotas: QuotaPairs = ()


class Verifier:
    """Checks bearer tokens against the table of tokens."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens, self._clock = tokens, clock
        self._trusted: dict[str, tuple[float, Token]] = {}

    async def visitor(self, authorization: str | None) -> Visitor:
        """The visitor with this header (`Bearer …`, RFC 6750). Raises Unauthorized, which says
        whether the token is missing, unknown, expired or revoked."""
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise Unauthorized(f"this server needs a bearer token: {HOW}")
        found = await self._find(text.strip())
        if found is None:
            raise Unauthorized(f"this server does not know this token: {HOW}")
        if (state := found.state(self._clock.now())) != "valid":
            raise Unauthorized(f"this token is {state}: {HOW}")
        return Visitor(found.user, found.scopes, found.servers, found.as_of, found.quotas)

    async def _find(self, text: str) -> Token | None:
        if len(text) > LONGEST_TOKEN:
            return None
        asked = stopwatch()
        held = self._trusted.get(text)
        if held is not None and asked - held[0] < TRUSTED_S:
            return held[1]
        found = await anyio.to_thread.run_sync(self._tokens.find, text)
        newer = self._trusted.get(text)
        if found is not None and (newer is None or newer[0] < asked):
            if len(self._trusted) >= MOST_TRUSTED:
                self._trusted.clear()
            self._trusted[text] = (asked, found)
        return found


class Quotas:
    """How often each user may call what is limited."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger, self._clock = ledger, clock

    def caller(self, visitor: Visitor, servers: frozenset[str] | None) -> Caller:
        """The visitor as a Caller, at an address that offers these servers (None: all)."""
        allowed = servers
        if visitor.servers is not None:
            allowed = visitor.servers if servers is None else servers & visitor.servers
        if visitor.user is None:
            return Caller(allowed)
        user, own = visitor.user, dict(visitor.quotas)

        def take(limit: ToolLimit) -> None:
            calls = own.get(limit.name, limit.calls)
            wait = self._ledger.take(
                [(_bucket(user, limit), calls, float(limit.seconds))], epoch(self._clock.now())
            )
            if wait > 0:
                raise RateLimited(
                    f"the quota of {limit.name} ({calls:,} in {span(limit.seconds)}) is used up "
                    f"for {user}: try again in {span(wait)} (a token can have more: `beforehand "
                    f"token issue --quota {limit.name}=N`)",
                    wait,
                )

        return Caller(allowed, take, user)

    def used(self, user: str, limit: ToolLimit) -> int:
        """How many calls of this limit's window the user has made."""
        now = epoch(self._clock.now())
        return self._ledger.count(_bucket(user, limit), float(limit.seconds), now)

    def close(self) -> None:
        """Release the connections."""
        self._ledger.close()


def _bucket(user: str, limit: ToolLimit) -> str:
    return f"user/{user}/{limit.name}"


def span(seconds: float) -> str:
    """A waiting time in words, rounded up."""
    if seconds < 120:
        return f"{max(1, -int(-seconds // 1))} s"
    return f"{-int(-(seconds - 1) // 60)} minutes"  # One second over is not rounded up.


@contextmanager
def open_tokens(workspace: Workspace) -> Iterator[Tokens]:
    """The tokens of this home folder, or of all machines of one Postgres."""
    tokens = Tokens(workspace.access)
    try:
        yield tokens
    finally:
        tokens.close()


def open_quotas(workspace: Workspace) -> Quotas:
    """The quotas of this home folder, or of all machines of one Postgres."""
    return Quotas(Ledger(workspace.traffic), workspace.clock)
