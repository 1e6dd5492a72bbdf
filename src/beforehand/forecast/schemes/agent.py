"""`agent:purple` and `agent:purple:MODEL`: the agent of the benchmark, with tools at t.

It is shown a context, looks further through tools that are pinned at its instant, and cites typed
evidence. Without a model it follows rules, costs nothing, and says the same every time.
"""

from msgspec import structs

from beforehand.errors import BadAnswer, InputError, NotFound
from beforehand.forecast.base import (
    Context,
    Decision,
    Forecaster,
    Meter,
    NoDecision,
    Opening,
    scheme,
)
from beforehand.forecast.purple import Looked, by_rules, look
from beforehand.forecast.schemes.baselines import telling
from beforehand.forecast.schemes.model import Model, ModelArm
from beforehand.gateway.gateway import Gateway
from beforehand.llm.names import KEYS, LOCAL, SCRIPTED
from beforehand.records.settles import Settles, rule_of

PURPLE = "agent:purple"


@scheme("agent", shown=(PURPLE, f"{PURPLE}:MODEL"))
class PurpleAgent(Forecaster):
    """The agent; `model` words the forecast from what it found."""

    program = False
    memoryless, stateful = True, False
    isolation = "by construction"
    order = "memoryless"

    def __init__(self, entry: str, name: str | None, model: Model | None, opening: Opening) -> None:
        super().__init__(entry, name)
        if opening.world is None:
            raise InputError(f"{entry}: an agent is asked in a run, which has a world")
        self._world, self._clock = opening.world, opening.workspace.clock
        self._model = model
        self.free = model is None or model.free
        self.ranked = model is None or model.ranked

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for another agent, or a model that cannot be."""
        _, *parts = rest.split(":", 2)
        model = parts[1:]
        if parts[:1] != ["purple"]:
            raise InputError(f"{rest[:100]!r}: the agent is called purple: write {PURPLE}")
        if not model:
            return cls(rest, name, None, opening)
        known = model[0].partition(":")[0]
        if known not in (*KEYS, SCRIPTED, LOCAL) and "@" not in model[0]:
            raise InputError(f"{rest[:100]!r}: {known!r} is no model: {', '.join(KEYS)}, local")
        opened = Model.open(model[0], None, opening)
        assert isinstance(opened, Model)
        made = cls(rest, name, opened, opening)
        opened.model_id = made.model_id  # The rows and traces are the agent's.
        return made

    @classmethod
    def on_record(cls, rest: str) -> str:
        """Its model's calls are the model's."""
        return rest.removeprefix(f"{PURPLE}:")

    def check(self) -> None:
        """Raises NotConfigured or InputError where the model cannot be asked."""
        if self._model is not None:
            self._model.check()

    def ready(self) -> None:
        """Raises Unavailable where the model's address accepts no connection."""
        if self._model is not None:
            self._model.ready()

    def refusal(self, context: Context) -> str | None:
        """Why its model may not be asked."""
        return None if self._model is None else self._model.refusal(context)

    def close(self) -> None:
        """Close the model's connections."""
        if self._model is not None:
            self._model.close()

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Look, forecast, cite. Raises NoDecision where nothing is known to forecast from."""
        return self.answer(context, meter, self._rule(context))

    def _rule(self, context: Context) -> Settles | None:
        """What settles the question, where its record as of t says so."""
        try:
            known = Gateway(self._world, self._clock).at(context.t).wordings(context.market.id)
        except NotFound:
            return None
        return next((rule for one in known if (rule := rule_of(one)) is not None), None)

    def answer(
        self, context: Context, meter: Meter, rule: Settles | None = None, known: bool = True
    ) -> Decision:
        """The same for any question: `rule` is what settles one that was born from EDGAR, and one
        that no market asks is not `known`."""
        gateway = Gateway(self._world, self._clock)
        text = context.market.description or context.market.id
        looked = look(gateway.at(context.t), context.market.id if known else None, text, rule)
        if self._model is None:
            made = self._by_rules(looked, rule)
        else:
            made = self._by_model(context, looked, meter)
        trail = f"Looked up: {'; '.join(looked.tools)}."
        shown = {snippet.id for snippet in context.search_snippets}
        own = {find.id for find in looked.finds} - shown  # These are cited as evidence.
        return structs.replace(
            made,
            evidence_ids=[cited for cited in made.evidence_ids if cited not in own],
            rationale=f"{made.rationale} {trail}".strip(),
            mode="external" if self._model is None else made.mode,
            audit=gateway.audit.wire(),
        )

    def _by_rules(self, looked: Looked, rule: Settles | None) -> Decision:
        words = [telling([one.line.snippet or ""]) for one in looked.news]
        weight = sum(len(up) - len(down) for up, down in words)
        cited = [one.id for one, (up, down) in zip(looked.news, words, strict=True) if up or down]
        try:
            p, why = by_rules(looked, weight, rule)
        except BadAnswer as error:
            raise NoDecision(f"{self.name}: {error}") from None
        if looked.facts:
            cited += [one.id for one in looked.facts]
            if looked.price is not None:
                why = f"{why} {looked.facts[-1].text}"
        return Decision(p, None, why, cited, evidence=looked.lines(cited))

    def _by_model(self, context: Context, looked: Looked, meter: Meter) -> Decision:
        assert self._model is not None
        shown = structs.replace(context, search_snippets=[one.snippet for one in looked.finds])
        made = ModelArm(self._model, "direct", "direct_llm").decide(shown, meter)
        return structs.replace(made, evidence=looked.lines(made.evidence_ids))
