"""The code-writing forecaster and its fallback: context to code, code to sandbox, else a direct
prompt. Whatever happens comes back as a decision or a failure, with a trace of how.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import orjson

from beforehand.errors import BadAnswer, Refused
from beforehand.forecast import prompts
from beforehand.forecast.answer import Answer, from_output
from beforehand.ids import digest
from beforehand.llm.prompt import Asks, Meter, Prompt
from beforehand.sandbox.engines import Sandbox
from beforehand.sandbox.policy import Execution, Policy

Arm = Literal["code", "direct"]
ARMS: dict[str, tuple[Arm, ...]] = {
    "daytona_agent": ("code",),
    "direct_llm": ("direct",),
    "hybrid": ("code", "direct"),
}
"""What each mode asks for; `daytona_agent` falls back to direct, `hybrid` has both anyway."""
NO_CODE = "no code in the answer"
CODE_TOKENS, DIRECT_TOKENS, QUERY_TOKENS = 1500, 600, 200


@dataclass
class Tried:
    """What one arm came to: an answer or a reason, and the trace that is kept."""

    arm: Arm
    answer: Answer | None = None
    error: str | None = None
    trace: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What is asked of whom: a context, in one simulation, through a meter."""

    model: str
    context: Mapping[str, Any]
    index: int
    meter: Meter


class Agent:
    """Asks models for code and for direct answers. Safe for threads."""

    def __init__(self, models: Asks, sandbox: Sandbox) -> None:
        self._models, self._sandbox = models, sandbox

    def close(self) -> None:
        """Close the connections, end the sandbox."""
        self._models.close()
        self._sandbox.close()

    def decide(
        self, model: str, mode: str, context: Mapping[str, Any], index: int, meter: Meter
    ) -> list[Tried]:
        """One Tried an arm; a direct one after a failed code arm of `daytona_agent`."""
        asked = Question(model, context, index, meter)
        tried = [self._try(arm, asked) for arm in ARMS[mode]]
        if mode == "daytona_agent" and tried[0].answer is None:
            fallback = self._try("direct", asked)
            fallback.trace["fallback_reason"] = tried[0].error
            tried.append(fallback)
        return tried

    def queries(
        self, model: str, context: Mapping[str, Any], meter: Meter, calls: list[str]
    ) -> list[str]:
        """Search queries for the question of a context; raises BadAnswer and Refused."""
        asked = {"market": {"description": context["market"]["description"]}}
        prompt = Prompt(prompts.QUERIES, prompts.shown(asked), prompts.Queries, QUERY_TOKENS)
        found = self._models.ask(model, prompt, 0, meter, calls)
        return [query.strip()[:200] for query in found.queries if query.strip()]

    def _try(self, arm: Arm, asked: Question) -> Tried:
        tried = Tried(arm, trace={"arm": arm, "calls": []})
        way = self._code if arm == "code" else self._direct
        try:
            tried.answer = way(asked, tried.trace)
        except (BadAnswer, Refused) as error:
            tried.error = tried.trace["error"] = str(error)
        return tried

    def _code(self, asked: Question, trace: dict[str, Any]) -> Answer:
        prompt = Prompt(
            prompts.CODE, prompts.code_prompt(asked.context), prompts.Written, CODE_TOKENS
        )
        written = self._ask(asked, prompt, trace)
        code = prompts.code_in(written.code)
        if code is None:
            raise BadAnswer(NO_CODE)
        trace["code"] = code
        done = self._run(code, asked)
        trace |= {"engine": done.engine, "layers": list(done.layers), "output": done.output}
        if done.result is not None:
            trace["result"] = done.result
        if done.error is not None:
            raise BadAnswer(done.error)
        return from_output(done.output, done.result)

    def _direct(self, asked: Question, trace: dict[str, Any]) -> Answer:
        prompt = Prompt(prompts.DIRECT, prompts.shown(asked.context), Answer, DIRECT_TOKENS)
        answer: Answer = self._ask(asked, prompt, trace)
        trace["answer"] = answer.model_dump(mode="json")
        return answer

    def _ask(self, asked: Question, prompt: Prompt, trace: dict[str, Any]) -> Any:
        return self._models.ask(asked.model, prompt, asked.index, asked.meter, trace["calls"])

    def _run(self, code: str, question: Question) -> Execution:
        """Run the code on the context, its clock at t. A remote run is paid for: it passes the
        journal like any other call."""
        context, index = question.context, question.index
        policy = policy_of(context, index)
        if self._sandbox.engine != "daytona":
            return self._sandbox.run(code, dict(context), policy)
        asked = {"code": code, "context": digest(dict(context)), "seed": policy.seed}
        return _execution(
            question.meter.call(
                "daytona",
                asked,
                index,
                lambda _: _text(self._sandbox.run(code, dict(context), policy)),
            )
        )


def policy_of(context: Mapping[str, Any], index: int) -> Policy:
    """The limits of a decision's code: its clock is the context's, its seed follows from what is
    asked, so that running it again gives the same."""
    seed = int(digest([context["market"]["id"], context["time"], index])[:8], 16)
    return Policy(now=datetime.fromisoformat(context["time"]), seed=seed)


def _text(done: Execution) -> str:
    return orjson.dumps(done).decode()


def _execution(text: str) -> Execution:
    found = orjson.loads(text)
    return Execution(**{**found, "layers": tuple(found["layers"]), "notes": tuple(found["notes"])})
