"""The forecaster that writes code, and its fallback: a model turns the context into code, and the
sandbox runs it; if that fails, a direct prompt follows. The result is always a decision or a
failure, with a trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

import orjson

from beforehand.errors import BadAnswer, Refused
from beforehand.forecast import prompts
from beforehand.forecast.base import Context, Meter
from beforehand.forecast.prompts import Answer, Arm, from_output
from beforehand.ids import digest
from beforehand.llm.prompt import Asks, Prompt
from beforehand.records.rows import Mode, TraceRow
from beforehand.sandbox.engines import Sandbox
from beforehand.sandbox.policy import PURE_MODULES, Execution, Policy

ARMS: dict[str, tuple[Arm, ...]] = {
    "daytona_agent": ("code",),
    "direct_llm": ("direct",),
    "hybrid": ("code", "direct"),
}
"""What each mode asks for; `daytona_agent` falls back to direct, `hybrid` has both anyway."""
MODES: dict[Arm, Mode] = {"code": "daytona_agent", "direct": "direct_llm"}
"""The documented mode of a decision, by the arm that made it."""
NO_CODE = "no code in the answer"
QUERY_TOKENS = 200


class TraceParts(TypedDict, total=False):
    """The fields of a TraceRow that are known so far in an attempt."""

    code: str
    engine: str
    layers: list[str]
    output: str
    result: object
    answer: dict[str, object]
    queries: list[str]
    error: str
    fallback_reason: str


@dataclass(frozen=True)
class Attempt:
    """The result of one arm: an answer, or a reason why there is none, and the trace to keep."""

    arm: Arm
    answer: Answer | None
    error: str | None
    trace: TraceRow


@dataclass(frozen=True)
class Asked:
    """One question to a model: the model (as it is on record), the context, the meter."""

    model_id: str
    spec: str
    context: Context
    meter: Meter


class Agent:
    """Asks models for code and for direct answers. Safe for threads."""

    def __init__(self, models: Asks, sandbox: Sandbox) -> None:
        self._models, self._sandbox = models, sandbox

    def close(self) -> None:
        """Close the connections."""
        self._models.close()

    def attempts(self, arm: Arm, asked: Asked, *, fallback: bool = False) -> list[Attempt]:
        """One attempt; with `fallback`, a direct one follows if code gave no answer."""
        first = self._attempt(arm, asked)
        if not fallback or first.answer is not None:
            return [first]
        return [first, self._attempt("direct", asked, first.error)]

    def queries(self, asked: Asked) -> TraceRow:
        """The trace of a request for search queries for the question of a context."""
        found: TraceParts = {}
        calls: list[str] = []
        text = prompts.shown({"market": {"description": asked.context.market.description}})
        prompt = Prompt(prompts.QUERIES, text, prompts.Queries, QUERY_TOKENS)
        try:
            said = self._models.ask(asked.spec, prompt, asked.meter, calls)
            found["queries"] = [query.strip()[:200] for query in said.queries if query.strip()]
        except (BadAnswer, Refused) as error:
            found["error"] = str(error)
        return TraceRow(
            market_id=asked.context.market.id,
            model_id=asked.model_id,
            arm="queries",
            calls=calls,
            **found,
        )

    def _attempt(self, arm: Arm, asked: Asked, fallback_reason: str | None = None) -> Attempt:
        kept: TraceParts = {}
        calls: list[str] = []
        answer, reason = None, None
        way = self._code if arm == "code" else self._direct
        try:
            answer = way(asked, kept, calls)
        except (BadAnswer, Refused) as error:
            reason = kept["error"] = str(error)
        if fallback_reason is not None:
            kept["fallback_reason"] = fallback_reason
        trace = TraceRow(
            market_id=asked.context.market.id,
            time=asked.context.time,
            model_id=asked.model_id,
            simulation_index=asked.meter.simulation,
            arm=arm,
            calls=calls,
            **kept,
        )
        return Attempt(arm, answer, reason, trace)

    def _code(self, asked: Asked, kept: TraceParts, calls: list[str]) -> Answer:
        seen = asked.context.wire()
        written = self._models.ask(asked.spec, prompts.prompt_of("code", seen), asked.meter, calls)
        code = prompts.code_in(written.code)
        if code is None:
            raise BadAnswer(NO_CODE)
        kept["code"] = code
        policy = policy_of(seen, asked.meter.simulation)
        done = self._run(code, seen, policy, asked.meter)
        kept |= {"engine": done.engine, "layers": list(done.layers), "output": done.output}
        if done.result is not None:
            kept["result"] = done.result
        if done.error is not None:
            raise BadAnswer(done.error)
        return from_output(done.output, done.result)

    def _direct(self, asked: Asked, kept: TraceParts, calls: list[str]) -> Answer:
        prompt = prompts.prompt_of("direct", asked.context.wire())
        answer: Answer = self._models.ask(asked.spec, prompt, asked.meter, calls)
        kept["answer"] = answer.model_dump(mode="json")
        return answer

    def _run(
        self, code: str, seen: Mapping[str, object], policy: Policy, meter: Meter
    ) -> Execution:
        """Run the code on the context, with its clock at t. A remote run costs money, so it goes
        through the journal like any other call."""
        if self._sandbox.engine != "daytona":
            return self._sandbox.run(code, seen, policy)
        asked = {"code": code, "context": digest(seen), "seed": policy.seed}
        return _execution(
            meter.call("daytona", asked, lambda _: _text(self._sandbox.run(code, seen, policy)))
        )


def policy_of(context: Mapping[str, Any], index: int) -> Policy:
    """The limits of a decision's code. Its clock shows the context's time, and its seed is derived
    from the question, so that running it again gives the same result."""
    seed = int(digest([context["market"]["id"], context["time"], index])[:8], 16)
    at = datetime.fromisoformat(context["time"])
    return Policy(now=at, seed=seed, modules=PURE_MODULES)


def _text(done: Execution) -> str:
    return orjson.dumps(done).decode()


def _execution(text: str) -> Execution:
    found = orjson.loads(text)
    return Execution(**{**found, "layers": tuple(found["layers"]), "notes": tuple(found["notes"])})
