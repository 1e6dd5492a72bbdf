"""Ask the forecasters at an instant, and collect their answers.

Baselines were computed before, for the whole step at once. All others are asked side by side
(stateful ones, and those whose answers are recorded in batches, one after the other). Their answers
are kept in a fixed order, whichever comes first. A decision that cites a document which the leak
detector flags is marked.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from beforehand.engine.context import StepContext
from beforehand.errors import BadAnswer, Refused, Stopped
from beforehand.forecast.base import (
    Abstained,
    Context,
    Decision,
    Forecaster,
    NoDecision,
    PanelForecaster,
    Question,
)
from beforehand.forecast.schemes.http import kept_text, read_kept
from beforehand.records.rows import DecisionRow, FailureRow, TraceRow
from beforehand.score.leaks.report import Also, flagged_in
from beforehand.store.journal.calls import call_key
from beforehand.store.journal.events import was_resumed
from beforehand.store.journal.free import FreeAnswer

MOST_USELESS = 20
"""After so many answers without one forecast among them, the run stops."""
SIDE_BY_SIDE = 256
"""Threads that ask, started as they are needed; the run's concurrency caps the calls."""


@dataclass(frozen=True)
class Interval:
    """One interval to be decided: its forecasters, the forecasts of the baselines among them (by
    entry), the instant (microseconds), the context that is shown, the experiment's mode, and the
    number of simulations."""

    forecasters: Sequence[Forecaster]
    known: Mapping[str, float]
    t: int
    context: Context
    mode: str
    simulations: int


@dataclass
class Answers:
    """The results of one forecaster in one interval."""

    decisions: list[DecisionRow] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    traces: list[TraceRow] = field(default_factory=list)
    audits: list[Mapping[str, Any]] = field(default_factory=list)

    def keep(self, said: Decision, one: Forecaster, simulation: int, context: Context) -> None:
        """Add a decision."""
        self.decisions.append(said.row(one.model_id, simulation, context))
        self.traces += said.traces
        self.audits += [] if said.audit is None else [said.audit]

    def fail(self, error: Exception, one: Forecaster, simulation: int) -> None:
        """Add a failure to decide."""
        self.failures.append(FailureRow(one.model_id, simulation, str(error)))
        self.traces += error.traces if isinstance(error, NoDecision) else ()

    def add(self, other: "Answers") -> None:
        """Add the results of another simulation."""
        self.decisions += other.decisions
        self.failures += other.failures
        self.traces += other.traces
        self.audits += other.audits


class Asked(NamedTuple):
    """A question to a forecaster in one simulation, and where its answer goes."""

    answers: Answers
    simulation: int
    interval: Interval


ByForecaster = dict[str, Answers]
"""The answers of an interval by the forecasters' entries, in the order in which they are named."""


class Asker:
    """Asks the forecasters of a run. Safe for threads."""

    def __init__(self, also: Also | None = None) -> None:
        """`also` is the leak detector's rule that needs the archive."""
        self._also = also
        self._pool: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def ask(self, intervals: Sequence[Interval], context: StepContext) -> list[ByForecaster]:
        """The answers of all forecasters in each interval; they are asked side by side."""
        found = [ByForecaster() for _ in intervals]
        waiting = list[tuple[Answers, Forecaster, int, Interval, Future[Answers] | None]]()
        batched: dict[str, tuple[Forecaster, list[Asked]]] = {}
        for interval, answers in zip(intervals, found, strict=True):
            for one in interval.forecasters:
                mine = answers[one.entry] = Answers()
                if isinstance(one, PanelForecaster):
                    _know(mine, one, interval.known[one.entry], interval.context)
                    continue
                if one.batched:
                    asked = batched.setdefault(one.entry, (one, []))[1]
                    asked += [Asked(mine, i, interval) for i in range(interval.simulations)]
                    continue
                for i in range(interval.simulations):
                    later = None
                    if not one.stateful:
                        later = self._threads().submit(_answer, one, i, interval, context)
                    waiting.append((mine, one, i, interval, later))
        try:
            for one, questions in batched.values():
                with one.asking if one.stateful else nullcontext():
                    _ask_batch(one, questions, context)
            for mine, one, i, interval, later in waiting:
                mine.add(_answer(one, i, interval, context) if later is None else later.result())
        finally:  # Calls in flight may cost money: the step waits for them.
            wait([later for *_, later in waiting if later is not None])
        for interval, answers in zip(intervals, found, strict=True):
            _mark_flagged(interval, answers, self._also)
        return found

    def _threads(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, "ask")
            return self._pool


def meter_of(
    one: Forecaster, simulation: int, interval: Interval, step: StepContext
) -> StepContext:
    """The step's context for one question, with a readable name of the question."""
    question = question_of(one, simulation, interval.context)
    return step.about(question, interval.t, simulation)


def question_of(one: Forecaster, simulation: int, context: Context) -> str:
    """A question for people to read."""
    return f"{context.market.id} at {context.time}, {one.provider}, simulation {simulation}"


def _know(mine: Answers, one: PanelForecaster, p: float, context: Context) -> None:
    """Add a baseline's forecast."""
    try:
        mine.keep(one.decision(p, context), one, 0, context)
    except NoDecision as error:
        mine.fail(error, one, 0)


def _answer(one: Forecaster, i: int, interval: Interval, step: StepContext) -> Answers:
    """A forecaster's answers to one question in one simulation, from each of its arms in turn."""
    found, context = Answers(), interval.context
    if refusal := one.refusal(context):
        return Answers(failures=[FailureRow(one.model_id, i, refusal)])
    meter = meter_of(one, i, interval, step)
    for arm in one.arms(interval.mode):
        try:
            said = _decide(arm, context, meter)
        except (BadAnswer, Refused) as error:
            found.fail(error, one, i)
            _useless(one, error, meter)
        else:
            found.keep(said, one, i, context)
            step.signals.useful.add(one.entry)
    return found


def _useless(one: Forecaster, error: Exception, step: StepContext) -> None:
    """Count an answer that was no forecast. Raises Stopped, and stops the run, where a forecaster
    has given nothing else: the other questions would be asked (and paid) for nothing. A run that
    somebody has resumed goes on, and so does one whose forecaster says that it has no forecast."""
    signals = step.signals
    if one.entry in signals.useful or isinstance(error, Abstained):
        return
    signals.useless[one.entry] += 1
    if signals.useless[one.entry] >= MOST_USELESS:
        if was_resumed(step.journal.database, step.run_id):
            signals.useful.add(one.entry)
            return
        why = (
            f"{one.name} gave no valid forecast in its first {MOST_USELESS} answers, the last: "
            f"{error}. Correct it and begin a new run (`backtest run --try 3` asks a few questions "
            "first); a resume goes on as it is"
        )
        step.journal.stop(step.run_id, why)
        raise Stopped(why)


def _ask_batch(one: Forecaster, asked: Sequence[Asked], context: StepContext) -> None:
    """Ask a forecaster whose answers are recorded in batches. One that keeps something is asked
    again what it was asked before; of any other the answer on record is taken."""
    requests = [each.interval.context.wire() for each in asked]
    keys = [
        call_key(one.provider, request, each.simulation)
        for request, each in zip(requests, asked, strict=True)
    ]
    known = context.free.known(keys)
    for (mine, i, interval), key in zip(asked, keys, strict=True):
        shown = interval.context
        if refusal := one.refusal(shown):
            mine.failures.append(FailureRow(one.model_id, i, refusal))
            continue
        context.check()
        question, kept = question_of(one, i, shown), known.get(key)
        try:
            if kept is not None and not one.stateful:
                said = read_kept(one.provider, kept)
            else:
                meter = context.about(question, interval.t, i)
                said = _made(one, shown, meter)
                if kept is None:
                    context.free.add(
                        FreeAnswer(key, one.provider, i, question, interval.t, kept_text(said))
                    )
                elif kept != kept_text(said):
                    one.differing.add(_question(shown, meter))
                    said = read_kept(one.provider, kept)
        except (BadAnswer, Refused) as error:
            mine.fail(error, one, i)
            _useless(one, error, context)
        else:
            mine.keep(said, one, i, shown)
            context.signals.useful.add(one.entry)


def _made(one: Forecaster, context: Context, meter: StepContext) -> Decision:
    """A forecaster's decision, checked. A stateful one is shown no context twice."""
    said = _asked_once(one, context, meter) if one.stateful else one.decide(context, meter)
    if said.read_as is not None:
        one.note(said.read_as)
    p = float(said.probability)
    if not 0.0 <= p <= 1.0:
        raise NoDecision(f"{one.name} answered no probability from 0 to 1: {p:g} is outside")
    return said if p is said.probability else msgspec.structs.replace(said, probability=p)


def show_again(
    one: Forecaster, context: Context, said: DecisionRow | FailureRow, meter: StepContext
) -> None:
    """Show a stateful forecaster a context that it was asked about in another process, where it
    `said` this."""
    if one.refusal(context) is not None or _question(context, meter) in one.shown:
        return
    with suppress(BadAnswer, Refused):  # It failed the first time too, or that is on record.
        if not one.batched:
            _decide(one, context, meter)
        elif _made(one, context, meter).probability != getattr(said, "probability", None):
            one.differing.add(_question(context, meter))


def _question(context: Context, meter: StepContext) -> Question:
    return context.market.id, context.time, meter.simulation


def _decide(one: Forecaster, context: Context, meter: StepContext) -> Decision:
    """A forecaster's decision, checked and on record. One that made no call for it is recorded
    here, so that a resume repeats it and `runs verify` can look it up."""
    with one.asking if one.stateful else nullcontext():
        said = _made(one, context, meter)
    if said.mode != "external":
        return said
    request = context.wire()
    if call_key(one.provider, request, meter.simulation) in meter.made:
        return said
    answer = kept_text(said)
    kept = meter.record(one.provider, request, answer)
    if kept == answer:
        return said
    one.differing.add(_question(context, meter))
    return read_kept(one.provider, kept)


def _asked_once(one: Forecaster, context: Context, meter: StepContext) -> Decision:
    """The decision of a stateful forecaster, which is shown no context twice: a step that is tried
    again gets the answers of the first attempt."""
    question, (time, answers) = _question(context, meter), one.instant
    if time != context.time:
        answers = {}
        one.instant = context.time, answers
    if question not in answers:
        one.shown.add(question)
        try:
            answers[question] = one.decide(context, meter)
        except BadAnswer as error:
            answers[question] = error
    said = answers[question]
    if isinstance(said, BadAnswer):
        raise said
    return said


def _mark_flagged(interval: Interval, answers: ByForecaster, also: Also | None) -> None:
    """Mark the decisions that cite a document which the leak detector flags."""
    if not any(row.key_evidence_ids for mine in answers.values() for row in mine.decisions):
        return
    if not (flagged := flagged_in(interval.context, also)):
        return
    for mine in answers.values():
        for k, row in enumerate(mine.decisions):
            if cited := [c for c in row.key_evidence_ids if c in flagged]:
                mine.decisions[k] = msgspec.structs.replace(row, flagged_evidence_ids=cited)
