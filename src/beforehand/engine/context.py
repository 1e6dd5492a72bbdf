"""What an action may use while it runs: paid calls through the journal, and bulk parts.

A paid call has four steps: look up, claim, send, record. The answer is stored before any code reads
it, so a crash after that moment costs nothing. A crash before it leaves a visible `sent` row.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from beforehand.clock import stopwatch
from beforehand.engine.free import FreeAnswers
from beforehand.errors import (
    BadAnswer,
    Held,
    InputError,
    NotConfigured,
    NotFound,
    Refused,
    Stopped,
    Unauthorized,
    Unavailable,
)
from beforehand.records.text import storable
from beforehand.store.journal.calls import Calls, Claim, Policy, State, Usage, call_key
from beforehand.store.journal.journal import Journal

LOOK_AGAIN_S = 0.2
WRITE_AGAIN_S = (0.2, 1.0, 5.0, 20.0)
"""Pauses between attempts to write an answer down."""
AWAY = (502, 503, 504)
"""Statuses from 500 up that say something about the service, not about the question."""
UNLIMITED = 1_000_000
MOST_SILENT = 3
"""After this many calls in a row to one provider without an answer, the run stops."""
T = TypeVar("T")


@dataclass
class Signals:
    """How a process tells its steps to end: it sets `stop` and `reason`. `leaving` means that only
    this process ends, and other processes take its steps over. `number` is the signal that ended
    it, if one did. `slots` limits the calls in flight in this process. `silent` counts, for each
    provider, the calls in a row without an answer, `forbidden` those that it answered with 403,
    and `failing` holds the questions that it failed at since it last answered one, `odd` those
    that it failed at before it answered others: they lie in the question; `answered` says when
    (stopwatch) each last answered this process. `useless` counts, for each forecaster, the answers
    that were no forecast; one that gave one is in `useful`."""

    slots: threading.Semaphore
    stop: threading.Event = field(default_factory=threading.Event)
    reason: str = ""
    leaving: bool = False
    number: int | None = None
    silent: Counter[str] = field(default_factory=Counter)
    forbidden: Counter[str] = field(default_factory=Counter)
    failing: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    odd: set[str] = field(default_factory=set)
    answered: dict[str, float] = field(default_factory=dict)
    useless: Counter[str] = field(default_factory=Counter)
    useful: set[str] = field(default_factory=set)

    def end(self, reason: str, leaving: bool = False) -> None:
        """Ask every step to end at its next call."""
        self.reason, self.leaving = self.reason or reason, leaving
        self.stop.set()


@dataclass
class StepContext:
    """One attempt at one step. Safe for the threads of its action. `question` names the question
    for people to read. `instant` (microseconds) is the time that is asked about, if there is
    one. `slots` limits the calls in flight [those of the process]. `made` holds the keys of the
    calls that were made through it; `attempt` counts from 1. `stopped` is set where a call through
    it was ended by the run's end or limits, whoever catches that."""

    run_id: str
    task_id: str
    owner: str
    journal: Journal
    signals: Signals
    parts: dict[str, bytes] = field(default_factory=dict)
    question: str | None = None
    instant: int | None = None
    simulation: int = 0
    made: set[str] = field(default_factory=set)
    attempt: int = 1
    slots: threading.Semaphore | None = None
    stopped: Stopped | None = None
    _within: bool = False
    _places: list[bool] = field(default_factory=list)
    _policy: Policy | None = None
    _free: FreeAnswers | None = None

    @property
    def calls(self) -> Calls:
        """The journal's paid calls."""
        return self.journal.calls

    def about(self, question: str, instant: int, simulation: int) -> "StepContext":
        """The same step for one question in one simulation: its calls are recorded under that
        question."""
        found = StepContext.__new__(StepContext)  # As `replace`, in a fifth of its time.
        found.__dict__ |= self.__dict__
        found.question, found.instant, found.simulation = question, instant, simulation
        found.made, found.stopped = set(), None
        return found

    @property
    def free(self) -> FreeAnswers:
        """The answers of this step that cost nothing; one thread uses them."""
        if self._free is None:
            self._free = FreeAnswers(self)
        return self._free

    def commit(self) -> None:
        """Write down the free answers that are waiting."""
        if self._free is not None:
            self._free.commit()

    def within(self, counted: bool = False) -> "StepContext":
        """The same for calls that are made while another call of this question is in flight: they
        take no slot of their own, else the two could wait for each other. Where that call is
        `counted` among the run's, the first of them is not counted again."""
        found = self.about(self.question or "", self.instant or 0, self.simulation)
        found.question, found.instant = self.question, self.instant
        found.slots = threading.Semaphore(UNLIMITED)
        found._within, found._places, found.stopped = True, [True] if counted else [], None
        return found

    def holds(self, key: str) -> bool:
        """False once another process has taken over the call with this key."""
        return self.calls.holds(self.run_id, key)

    def check(self) -> None:
        """Raises Stopped if the run is to end."""
        if self.signals.stop.is_set():
            raise Stopped(self.signals.reason)

    @property
    def policy(self) -> Policy:
        """What happens to a call that was sent and never answered."""
        if self._policy is None:
            self._policy = self.journal.policy(self.run_id)
        return self._policy

    def keep(self, name: str, content: bytes) -> None:
        """Keep a bulk output of this step; it is stored when the step succeeds."""
        self.parts[name] = content

    def part(self, task_id: str, name: str) -> bytes:
        """A bulk output of a step that this one depends on."""
        return self.journal.part(self.run_id, task_id, name)

    def record(self, provider: str, request: Any, answer: str) -> str:
        """Record the answer to `request` that was made in this process and cost nothing; returns
        the one on record. Raises Stopped if the run is to end."""
        self.check()
        key = call_key(provider, request, self.simulation)
        self.made.add(key)
        return self.journal.free.record(
            self.run_id,
            key,
            _storable(answer),
            task_id=self.task_id,
            provider=provider,
            index=self.simulation,
            owner=self.owner,
            question=self.question,
            instant=self.instant,
        )

    def call(
        self,
        provider: str,
        request: Any,
        send: Callable[[str], str],
        measure: Callable[[str], Usage] = lambda answer: Usage(),
        turn: Callable[[threading.Event], None] | None = None,
        outer: bool = False,
    ) -> str:
        """The answer to a paid `request` (any JSON value). It is asked once, however often the step
        runs.

        `send` gets the idempotency key. `turn` waits for the provider's rate limit, or until the
        event is set: it is called before the intent is written, and not for a call that is recorded
        already. `outer` is for a `send` that costs nothing itself and may make calls `within` it.
        Raises what `send` raises. A final error (any refusal, and the fifth attempt
        without an answer) is recorded, and raised again as Refused on every replay. Raises Stopped,
        and stops the run, if the provider cannot be connected to, asks for a key, says that its
        credit is used up, left three calls in a row unanswered, or failed at three questions.
        """
        key = call_key(provider, request, self.simulation)
        self.made.add(key)

        def claim(peek: bool = False) -> Claim:
            counted = self._places.pop() if self._places else False
            found = self.calls.claim(
                self.run_id,
                key,
                task_id=self.task_id,
                provider=provider,
                index=self.simulation,
                owner=self.owner,
                question=self.question,
                instant=self.instant,
                peek=peek,
                outer=outer,
                within=self._within,
                counted=counted,
            )
            if counted and (peek or found.state != "ask"):
                self._places.append(True)
            return found

        try:
            while True:
                self.check()
                with self.slots or self.signals.slots:
                    self.check()
                    found = claim(peek=True) if turn else claim()
                    if found.state == "ask" and turn:
                        turn(self.signals.stop)
                        self.check()
                        found = claim()
                    if found.state == "ask":
                        with suppress(Held):  # The lease lapsed meanwhile: look again.
                            answer = self._ask(provider, key, send, measure)
                            if answer is not None:
                                return answer
                if found.state == "done":
                    assert found.answer is not None
                    return found.answer
                if found.state == "failed":
                    raise Refused(found.error or "refused")
                self.signals.stop.wait(LOOK_AGAIN_S)  # Another owner asks, or budget is tight.
        except Stopped as error:
            self.stopped = error
            raise

    def _ask(
        self,
        provider: str,
        key: str,
        send: Callable[[str], str],
        measure: Callable[[str], Usage],
    ) -> str | None:
        """The answer; None where the service failed at this question and lives: ask it again."""
        started = stopwatch()
        run, owner, calls = self.run_id, self.owner, self.calls
        try:
            answer = _storable(send(key))
        except Unauthorized as error:
            self.signals.forbidden[provider] += error.status == 403
            few = self.signals.forbidden[provider] < MOST_SILENT
            if error.status == 403 and few and provider in self.signals.answered:
                return self._refused(key, error)  # It may be about this question.
            # Without a key, or credit, no question is answered: none is spent on it.
            said = _storable(str(error))
            self._write_down(key, lambda: calls.lost(run, key, owner, said))
            self.journal.stop(run, said)
            raise Stopped(said) from None
        except (Refused, BadAnswer, NotFound) as error:
            self.signals.silent[provider] = 0
            return self._refused(key, error)
        except Held as error:  # It was not sent. An owner that took it over keeps it.
            calls.lost(run, key, owner, _storable(str(error)), arrived=False)
            raise
        except Unavailable as error:
            if self._no_answer(provider, key, error, started):
                return None
            raise
        except BaseException as error:
            certain = isinstance(error, (InputError, NotConfigured))
            record = calls.lost if certain else calls.unknown
            said = _storable(str(error) if certain else f"{type(error).__name__}: {error}")
            self._write_down(key, lambda: record(run, key, owner, said))
            raise
        self.signals.silent[provider] = self.signals.forbidden[provider] = 0
        self.signals.odd |= self.signals.failing.pop(provider, set())
        self.signals.answered[provider] = stopwatch()
        usage, took = measure(answer), 1000 * (stopwatch() - started)
        return self._write_down(key, lambda: calls.answered(run, key, answer, usage, took))

    def _refused(self, key: str, error: Exception) -> NoReturn:
        """Record a refusal, which is final."""
        refusal = _storable(str(error))
        self._write_down(key, lambda: self.calls.refused(self.run_id, key, self.owner, refusal))
        raise Refused(refusal) from None

    def _no_answer(self, provider: str, key: str, error: Unavailable, started: float) -> bool:
        """The service failed. A call that it may have carried out, or that it failed at itself
        (500 and the like), counts against the question: the fifth such call is final. True if it
        should be asked again in this run: it has answered others. Raises Stopped, and stops the
        run, once it has failed at three questions and answered none in between. A service that
        answered another call after this one was sent (`started`, stopwatch) is not silent: only
        this question waits."""
        run, owner, calls, said = self.run_id, self.owner, self.calls, _storable(str(error))
        state: State = "sent" if error.uncertain else "lost"
        failed_at_it = error.status >= 500 and error.status not in AWAY
        if not error.uncertain and not failed_at_it:
            arrived = not error.unreached
            self._write_down(key, lambda: calls.lost(run, key, owner, said, arrived))
        else:
            final = self._write_down(key, lambda: calls.unanswered(run, key, owner, said, state))
            if failed_at_it:
                self._fails_at(provider, key, said)
            if final:
                raise Refused(said) from None
            if self.signals.answered.get(provider, -1.0) > (started if error.uncertain else -1.0):
                return True
        if error.uncertain:
            self.signals.silent[provider] += 1
        if error.unreached or self.signals.silent[provider] >= MOST_SILENT:
            self.signals.silent[provider] = 0
            many = "" if error.unreached else f"{MOST_SILENT} calls in a row without an answer: "
            self.journal.stop(run, many + said)  # No process makes another call.
            raise Stopped(many + said) from None
        return False

    def _fails_at(self, provider: str, key: str, said: str) -> None:
        """Note a question that a service failed at. Raises Stopped, and stops the run, where it has
        failed at three and answered none in between: the others would fare no better."""
        if key in self.signals.odd:
            return
        failing = self.signals.failing[provider]
        failing.add(key)
        if len(failing) >= MOST_SILENT:
            failing.clear()
            why = f"{MOST_SILENT} questions without an answer in between: {said}"
            self.journal.stop(self.run_id, why)
            raise Stopped(why) from None

    def _write_down(self, key: str, write: Callable[[], T]) -> T:
        """Record how a call ended, and try again while the database is unavailable: the call was
        paid for."""
        for pause in WRITE_AGAIN_S:
            try:
                return write()
            except Unavailable:
                time.sleep(pause)
        try:
            return write()
        except BaseException:
            self.calls.drop(self.run_id, key)
            raise


def _storable(text: str) -> str:
    """What can be stored of a text. Raises BadAnswer for what is no text."""
    if not isinstance(text, str):
        raise BadAnswer(f"send returned {text!r:.60}: return a text (json.dumps makes one)")
    return storable(text)
