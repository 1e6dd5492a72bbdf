"""Language models by name: they write code that forecasts, or answer a direct prompt.

`scripted`, `local`, `openai:NAME`, `anthropic:NAME`, `NAME@http://host:port/v1`. The mode of an
experiment says how a model is asked (`forecast/code_mode.py`): by code with a direct prompt as
fallback, directly, or both ways (`hybrid`), which are two arms with a decision each.
"""

from collections.abc import Sequence

from beforehand.forecast.base import (
    Context,
    Decision,
    Forecaster,
    Meter,
    NoDecision,
    Opening,
    scheme,
)
from beforehand.forecast.code_mode import ARMS, MODES, Agent, Asked, Attempt
from beforehand.forecast.prompts import Arm
from beforehand.gateway.transport import reach
from beforehand.lazy import lazy
from beforehand.llm.names import KEYS, LOCAL, SCRIPTED, ModelSpec, need_key, need_price, parse_model
from beforehand.records.rows import TraceRow
from beforehand.store.journal.calls import Usage


@scheme(SCRIPTED, LOCAL, *KEYS, "@")
class Model(Forecaster):
    """A model. One request holds all that it sees, so it is declared memoryless; its weights lie
    outside the wall, and the guard marks questions whose answer they may hold."""

    program = False
    kind = "model"
    memoryless, stateful = True, False
    isolation = "by construction"
    order = "declared memoryless"

    def __init__(self, spec: ModelSpec, name: str | None, opening: Opening) -> None:
        super().__init__(spec.id, name)
        self.spec, self._opening = spec, opening
        self.ranked, self.free = spec.ranked, spec.id in (SCRIPTED, LOCAL)

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError if the name cannot be that of a model."""
        cutoffs = opening.models.cutoffs
        stated = {rest: cutoffs[name]} if name in cutoffs else cutoffs
        return cls(parse_model(rest, stated), name, opening)

    def check(self) -> None:
        """Raises NotConfigured if the key or the sandbox is missing, InputError for a budget that
        cannot be kept."""
        need_key(self.spec, self._opening.workspace.settings)
        opening = self._opening
        need_price(self.spec, opening.limited_cost, opening.cost_per_call)
        assert opening.sandbox

    def ready(self) -> None:
        """Raises Unavailable if the model has an address and nothing accepts a connection."""
        if self.spec.base:
            reach(self.spec.base, f"the model {self.spec.name}")

    def refusal(self, context: Context) -> str | None:
        """Why it is not asked: the answer was known before its training ended, and the run refuses
        such questions."""
        return self._opening.guard.refusal(self.spec, context.market.id)

    def arms(self, mode: str) -> Sequence[Forecaster]:
        """One forecaster for each way of asking. If the mode is not one of models, the run's own
        mode for models is used."""
        known = mode if mode in ARMS else self._opening.models.mode
        return [ModelArm(self, arm, known) for arm in ARMS[known]]

    def decide(self, context: Context, meter: Meter) -> Decision:
        """By code, else directly."""
        return ModelArm(self, "code", "daytona_agent").decide(context, meter)

    def queries(self, context: Context, meter: Meter) -> TraceRow:
        """How it words a search for the context's question."""
        return self.agent.queries(Asked(self.model_id, self.provider, context, meter))

    @lazy
    def agent(self) -> Agent:
        """The model behind its limits, and the sandbox."""
        from beforehand.llm.ask import Models  # The vendors' libraries take a second to load.

        opening = self._opening
        limits, cost = opening.limits, opening.cost_per_call
        models = Models([self.spec], opening.workspace, limits, opening.timeout, cost)
        return Agent(models, opening.sandbox)

    def decided(self, attempts: Sequence[Attempt]) -> Decision:
        """The decision of the last attempt. Raises NoDecision saying why there is none."""
        traces, last = [one.trace for one in attempts], attempts[-1]
        if last.answer is None:
            raise NoDecision("; ".join(f"{one.arm}: {one.error}" for one in attempts), traces)
        mark = self._opening.guard.mark(self.spec, last.trace.market_id)
        return Decision(
            last.answer.probability,
            confidence=last.answer.confidence,
            rationale=last.answer.rationale,
            evidence_ids=last.answer.key_evidence_ids,
            mode=MODES[last.arm],
            answer_in_training=mark == "before",
            traces=traces,
        )

    def close(self) -> None:
        """Close the connections."""
        if "agent" in self.__dict__:
            self.agent.close()

    @staticmethod
    def usage(answer: str) -> Usage:
        """Tokens as reported, US dollars by the prices of the day."""
        from beforehand.llm.ask import usage

        return usage(answer)


class ModelArm(Forecaster):
    """A model asked in one way."""

    kind = "model"
    memoryless, stateful = True, False
    isolation = Model.isolation
    order = Model.order

    def __init__(self, model: Model, arm: Arm, mode: str) -> None:
        super().__init__(model.provider)
        self._model, self._arm, self._fallback = model, arm, mode == "daytona_agent"
        self.entry, self.model_id, self.name = model.entry, model.model_id, model.name

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Its decision, with a trace for every way that was tried."""
        model = self._model
        asked = Asked(model.model_id, model.provider, context, meter)
        return model.decided(model.agent.attempts(self._arm, asked, fallback=self._fallback))
