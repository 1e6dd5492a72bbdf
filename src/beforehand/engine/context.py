"""What an action may use while it runs: paid calls through the journal, bulk parts, its deadline.

A paid call is: look up, claim, send, record. The answer is written down before anybody reads it,
so a crash after that moment costs nothing; a crash before it leaves a visible `sent` row.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from beforehand.clock import stopwatch
from beforehand.errors import BadAnswer, Refused, Stopped, Unauthorized, Unavailable
from beforehand.store.calls import Calls, Usage, call_key
from beforehand.store.journal import Journal

LOOK_AGAIN_S = 0.2


@dataclass
class Signals:
    """How a process tells its steps to end: `stop` is set with `reason`. `leaving` means that only
    this process ends, and others take its steps over; `number` is the signal that ended it, if
    one did. `slots` caps the calls in flight here."""

    slots: threading.Semaphore
    stop: threading.Event = field(default_factory=threading.Event)
    reason: str = ""
    leaving: bool = False
    number: int | None = None

    def end(self, reason: str, leaving: bool = False) -> None:
        """Ask every step to end at its next call."""
        self.reason, self.leaving = self.reason or reason, leaving
        self.stop.set()


@dataclass
class StepContext:
    """One attempt at one step. Safe for the threads of its action."""

    run_id: str
    task_id: str
    owner: str
    journal: Journal
    calls: Calls
    signals: Signals
    deadline: float | None = None
    parts: dict[str, bytes] = field(default_factory=dict)

    def check(self) -> None:
        """Raises Stopped if the run is to end, Unavailable if the step's time is up."""
        if self.signals.stop.is_set():
            raise Stopped(self.signals.reason)
        if self.deadline is not None and stopwatch() > self.deadline:
            raise Unavailable(f"the step {self.task_id} ran out of time")

    def keep(self, name: str, content: bytes) -> None:
        """A bulk output of this step, stored with its success."""
        self.parts[name] = content

    def part(self, task_id: str, name: str) -> bytes:
        """A bulk output of a step that this one depends on."""
        return self.journal.part(self.run_id, task_id, name)

    def call(
        self,
        provider: str,
        request: Any,
        index: int,
        send: Callable[[str], str],
        measure: Callable[[str], Usage] = lambda answer: Usage(),
    ) -> str:
        """The answer to a paid `request` (any JSON value), asked once however often the step runs.

        `send` gets the idempotency key. Raises what `send` raises; what is final (Refused,
        BadAnswer) is remembered and raised again as Refused on every replay.
        """
        key = call_key(provider, request, index)
        while True:
            self.check()
            with self.signals.slots:
                self.check()
                claim = self.calls.claim(
                    self.run_id,
                    key,
                    task_id=self.task_id,
                    provider=provider,
                    index=index,
                    owner=self.owner,
                )
                if claim.state == "ask":
                    return self._ask(key, send, measure)
            if claim.state == "done":
                assert claim.answer is not None
                return claim.answer
            if claim.state == "failed":
                raise Refused(claim.error or "refused")
            self.signals.stop.wait(LOOK_AGAIN_S)  # Another owner is on it.

    def _ask(self, key: str, send: Callable[[str], str], measure: Callable[[str], Usage]) -> str:
        started = stopwatch()
        try:
            answer = send(key)
        except (Refused, BadAnswer, Unauthorized) as error:
            self.calls.refused(self.run_id, key, str(error))
            raise Refused(str(error)) from None
        except Unavailable as error:
            record = self.calls.unknown if error.uncertain else self.calls.lost
            record(self.run_id, key, str(error))
            raise
        except BaseException as error:
            self.calls.unknown(self.run_id, key, f"{type(error).__name__}: {error}")
            raise
        return self.calls.answered(
            self.run_id, key, answer, measure(answer), 1000 * (stopwatch() - started)
        )
