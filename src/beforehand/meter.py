"""The interface for every paid call: journalled in a run, only counted outside one."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from beforehand.errors import Stopped
from beforehand.store.journal.calls import Usage


class Meter(Protocol):
    """The interface through which a forecaster makes its paid calls: the engine's StepContext
    journals them, and a `CallCounter` only counts them. One Meter is for one question in one
    simulation."""

    run_id: str
    simulation: int
    stopped: Stopped | None
    """Set where a call was ended by the run's end or limits."""

    @property
    def policy(self) -> str:
        """What happens to a call that was sent and never answered: resend, skip or stop."""

    def call(
        self,
        provider: str,
        request: Any,
        send: Callable[[str], str],
        measure: Callable[[str], Usage] = ...,
        turn: Callable[[threading.Event], None] | None = ...,
        outer: bool = ...,
    ) -> str:
        """The answer to `request` (JSON). It is asked once, however often the step runs. `send`
        gets the idempotency key, `turn` waits for the provider's rate limit; `outer` says that it
        costs nothing itself and may make calls `within` it."""

    def holds(self, key: str) -> bool:
        """False once another process has taken over the call with this key."""

    def within(self, counted: bool = False) -> "Meter":
        """The same for calls that are made while another one is in flight for this question, which
        is `counted` or not."""


def tool_usage(answer: str) -> Usage:
    """What a tool's answer cost, as its `_meta` says; no tokens are known."""
    found = orjson.loads(answer)
    meta = found.get("_meta") if isinstance(found, dict) else None
    cost = (meta or {}).get("cost")
    return Usage(None, cost["usd"] if cost else None)


@dataclass
class CallCounter:
    """A Meter without a journal: every call is made, and counted."""

    run_id: str = "none"
    simulation: int = 0
    policy: str = "resend"
    stopped: Stopped | None = None
    calls: int = 0
    usage: list[Usage] = field(default_factory=list)

    def call(
        self,
        provider: str,
        request: Any,
        send: Callable[[str], str],
        measure: Callable[[str], Usage] = lambda answer: Usage(),
        turn: Callable[[threading.Event], None] | None = None,
        outer: bool = False,
    ) -> str:
        """Send the request, and count what it cost; an outer call costs nothing itself."""
        if turn is not None:
            turn(threading.Event())
        self.calls += not outer
        answer = send(f"call-{self.calls}")
        self.usage.append(measure(answer))
        return answer

    def holds(self, key: str) -> bool:
        """True: there is no other process."""
        return True

    def within(self, counted: bool = False) -> "CallCounter":
        """Itself: nothing waits."""
        return self
