"""Who decides in an interval, and what is kept of it: baselines, forecasters at addresses, models,
forecasters held in this process.

Baselines have spoken for the whole chunk already. All others are asked side by side (held ones in
turn), in a fixed order whoever answers first. A decision that cites what it was not shown is
marked; one that cites a document flagged by the leak detector is marked too.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from beforehand.clock import from_us
from beforehand.config import Home
from beforehand.engine.context import StepContext
from beforehand.errors import BadAnswer, Refused
from beforehand.forecast import external
from beforehand.forecast.answer import decide
from beforehand.forecast.baselines import Baseline
from beforehand.forecast.code_mode import ARMS, Agent, Tried
from beforehand.forecast.cutoff_guard import CutoffGuard
from beforehand.forecast.held import Holder, is_held
from beforehand.gateway.opening import open_traffic
from beforehand.llm.names import ModelSpec
from beforehand.records.world import Resolution
from beforehand.score.detector import flags
from beforehand.sources.providers import Limit
from beforehand.store.calls import Usage
from beforehand.traffic import Traffic

SIDE_BY_SIDE = 256
"""Threads that ask, started as they are needed; the run's concurrency caps the calls."""
MODES = {"code": "daytona_agent", "direct": "direct_llm"}
"""The documented mode of a decision, by the arm that made it."""


class Asker:
    """Asks forecasters at addresses, through the traffic limits and the journal."""

    def __init__(
        self, addresses: Sequence[str], home: Home, limits: tuple[Limit, ...], timeout: float
    ) -> None:
        self._providers = {name: external.provider(name, limits, timeout) for name in addresses}
        self._home = home
        self._traffic: Traffic | None = None
        self._opening = threading.Lock()

    def ask(
        self, address: str, body: Mapping[str, Any], index: int, context: StepContext
    ) -> external.Said:
        """One answer; raises Refused or BadAnswer where there is none and never will be."""
        traffic = self._open()
        limited = bool(self._providers[address].limits)

        def send(key: str) -> str:
            asked = external.request(address, body, index, key, context.run_id)
            # A process that slept through its lease sends no context of an earlier instant.
            still = partial(context.calls.holds, context.run_id, key)
            return traffic.fetch(asked, turn_taken=limited, still=still).text

        def turn(stop: threading.Event) -> None:
            traffic.turn(address, external.ENDPOINT, stop)

        answer = context.call(address, body, index, send, _usage, turn if limited else None)
        return external.parse(address, answer)

    def _open(self) -> Traffic:
        with self._opening:
            if self._traffic is None:
                self._traffic = open_traffic(self._home, providers=self._providers)
            return self._traffic


def _usage(answer: str) -> Usage:
    return Usage(*external.usage(answer))


@dataclass(frozen=True)
class Interval:
    """One interval to be decided: who is asked, what the baselines among them said, the instant
    (microseconds), the context as it goes out, the mode of models, the simulations."""

    names: Sequence[str]
    said: Mapping[str, float]
    t: int
    seen: dict[str, Any]
    mode: str
    sims: int


@dataclass
class Decided:
    """The decisions and failures of an interval by model, and the traces of the models' ways."""

    by_model: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    traces: list[dict[str, Any]] = field(default_factory=list)

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """All of them, in the order of the names."""
        return [row for name in names for row in self.by_model[name]]


@dataclass(frozen=True)
class _Question:
    """One question to one forecaster in one simulation."""

    name: str
    index: int
    interval: Interval


@dataclass
class Deciders:
    """The cast of a run. `asker`, `agent` and `holder` are there if anybody needs them. `answers`
    are for the guard and for the weights of past scores, each used once it is known: nobody is
    shown them. `mode` is that of a model that stands in, by a fork, where no model was asked
    before."""

    baselines: Mapping[str, Baseline]
    asker: Asker | None = None
    agent: Agent | None = None
    holder: Holder | None = None
    guard: CutoffGuard = field(default_factory=lambda: CutoffGuard({}))
    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    answers: Mapping[str, Resolution] = field(default_factory=dict)
    mode: str = "daytona_agent"
    _pool: ThreadPoolExecutor | None = None
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        """Close what was opened to ask."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
        if self.agent is not None:
            self.agent.close()

    def _threads(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, "ask")
            return self._pool

    def decide(self, intervals: Sequence[Interval], context: StepContext) -> list[Decided]:
        """What everybody decides in each interval, all of them asked side by side, in the order of
        the intervals, the names and the simulations."""
        found = [Decided({name: [] for name in interval.names}) for interval in intervals]
        asked = list[tuple[Decided, _Question]]()
        for interval, decided in zip(intervals, found, strict=True):
            for name in interval.names:
                if name in interval.said:
                    said = self._baseline(name, interval.said[name], interval.seen)
                    decided.by_model[name].append(said)
                else:
                    for index in range(interval.sims):
                        asked.append((decided, _Question(name, index, interval)))
        futures = [
            None if is_held(one.name) else self._threads().submit(self._ask, one, context)
            for _, one in asked
        ]
        try:
            for (decided, one), future in zip(asked, futures, strict=True):
                rows, traces = self._held(one, context) if future is None else future.result()
                decided.by_model[one.name] += rows
                decided.traces += traces
        finally:  # What is under way may be paid for: the step ends after it.
            wait([future for future in futures if future is not None])
        for interval, decided in zip(intervals, found, strict=True):
            _mark_flagged(interval, decided)
        return found

    def _ask(
        self, one: _Question, context: StepContext
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows and the traces of one question; its calls are on record under its name."""
        seen, mine = one.interval.seen, _asking(one.interval, one.name, one.index, context)
        if one.name in self.models:
            return self._model(one.name, one.index, seen, one.interval.mode, mine)
        return [self._address(one.name, one.index, seen, mine)], []

    def _held(
        self, one: _Question, context: StepContext
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        assert self.holder is not None
        seen, mine = one.interval.seen, _asking(one.interval, one.name, one.index, context)
        try:
            said = external.parse(one.name, self.holder.ask(one.name, seen, one.index, mine))
        except (Refused, BadAnswer) as error:
            return [{**_who(one.name, one.index), "error": str(error)}], []
        return [_external(one.name, one.index, said, seen)], []

    def _baseline(self, name: str, p: float, seen: dict[str, Any]) -> dict[str, Any]:
        if p != p:
            return {**_who(name, 0), "error": "no forecast known at t"}
        model = self.baselines[bare(name)]
        cited = [s["id"] for s in seen["search_snippets"]] if model.cites else []
        return _decision(name, 0, "baseline", p, model.says, cited, seen["time"])

    def _address(
        self, name: str, index: int, seen: dict[str, Any], context: StepContext
    ) -> dict[str, Any]:
        assert self.asker is not None
        try:
            answer = self.asker.ask(name, seen, index, context)
        except (Refused, BadAnswer) as error:
            return {**_who(name, index), "error": str(error)}
        return _external(name, index, answer, seen)

    def _model(
        self, name: str, index: int, seen: dict[str, Any], mode: str, context: StepContext
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """A model's rows, and a trace for every arm that was tried."""
        assert self.agent is not None
        spec, market = self.models[name], seen["market"]["id"]
        if refusal := self.guard.refusal(spec, market):
            return [{**_who(name, index), "error": refusal}], []
        mode = mode if mode in ARMS else self.mode
        tried = self.agent.decide(name, mode, seen, index, context)
        where = {"market_id": market, "time": seen["time"], **_who(name, index)}
        traces = [{**where, **one.trace} for one in tried]
        mark = self.guard.mark(spec, market)
        known = {"answer_in_training": True} if mark == "before" else {}
        rows = [{**self._answered(name, index, one, seen), **known} for one in tried if one.answer]
        if mode == "hybrid":
            rows += [_failed(name, index, [one]) for one in tried if one.answer is None]
        elif not rows:
            rows.append(_failed(name, index, tried))
        return rows, traces

    def _answered(
        self, name: str, index: int, tried: Tried, seen: dict[str, Any]
    ) -> dict[str, Any]:
        answer = tried.answer
        assert answer is not None
        cited, unshown = _shown(answer.key_evidence_ids, seen)
        decision = _decision(
            name,
            index,
            MODES[tried.arm],
            answer.probability,
            answer.rationale,
            cited,
            seen["time"],
            answer.confidence,
        )
        return {**decision, **unshown}


def _asking(interval: Interval, name: str, index: int, context: StepContext) -> StepContext:
    """The step's context for one question, with its name for people."""
    market, time = interval.seen["market"]["id"], interval.seen["time"]
    return context.about(f"{market} at {time}, {name}, simulation {index}", interval.t)


def _mark_flagged(interval: Interval, decided: Decided) -> None:
    """Mark the decisions that cite a document which the leak detector flags."""
    at = from_us(interval.t)
    flagged = {s["id"] for s in interval.seen["search_snippets"] if flags(s["text"], at)}
    for row in decided.rows(interval.names):
        if cited := [c for c in row.get("key_evidence_ids", ()) if c in flagged]:
            row["flagged_evidence_ids"] = cited


def bare(name: str) -> str:
    """A baseline's own name; empty for what is no baseline."""
    return name.removeprefix("baseline:") if name.startswith("baseline:") else ""


def _shown(cited: Sequence[str], seen: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The cited ids that stood in the context, and the mark for those that did not."""
    shown = {snippet["id"] for snippet in seen["search_snippets"]}
    unshown = [c for c in cited if c not in shown]
    return [c for c in cited if c in shown], {"unshown_evidence_ids": unshown} if unshown else {}


def _external(name: str, index: int, answer: external.Said, seen: dict[str, Any]) -> dict[str, Any]:
    cited, unshown = _shown(answer.evidence_ids, seen)
    decision = _decision(
        name, index, "external", answer.probability, answer.rationale, cited, seen["time"]
    )
    return {**decision, **unshown}


def _who(name: str, index: int) -> dict[str, Any]:
    return {"model_id": name, "simulation_index": index}


def _failed(name: str, index: int, tried: Sequence[Tried]) -> dict[str, Any]:
    said = "; ".join(f"{one.arm}: {one.error}" for one in tried)
    return {**_who(name, index), "error": said}


def _decision(
    name: str,
    index: int,
    mode: str,
    p: float,
    rationale: str,
    cited: list[str],
    at: str,
    confidence: float | None = None,
) -> dict[str, Any]:
    return {
        **_who(name, index),
        "mode": mode,
        "decision": decide(p),
        "confidence": round(abs(p - 0.5) * 2, 12) if confidence is None else confidence,
        "probability": p,
        "rationale": rationale,
        "key_evidence_ids": cited,
        "created_at": at,
    }
