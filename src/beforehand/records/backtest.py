"""The experiment's records: configuration, what the agent saw, what it decided."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, Literal

from pydantic import Field, PositiveInt, model_validator

from beforehand.records.record import Probability, Record, Utc
from beforehand.records.rows import Mode


class SearchConfig(Record):
    """How evidence is looked up at each interval: of all that was known by then, or of the last
    `lookback_days` alone (additive; absent where there is no such bound)."""

    max_results: int = Field(default=5, ge=0, le=20)
    lookback_days: int | None = Field(default=None, ge=1)
    query_mode: Literal["template", "llm_generated"] = "template"


class ExperimentConfig(Record):
    """One market walked from start to end. `baseline` and `external` are additive modes: `models`
    then holds `baseline:NAME` and, for `external`, addresses of forecasters. Several markets or
    modes are a list of these."""

    market_id: str
    start_time: Utc
    end_time: Utc
    interval_minutes: PositiveInt
    num_sims: PositiveInt = 1
    models: list[str] = Field(min_length=1)
    mode: Mode = "daytona_agent"
    search_config: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _in_order(self) -> "ExperimentConfig":
        if self.end_time < self.start_time:
            raise ValueError(
                f"end_time {self.end_time.isoformat()} lies before start_time "
                f"{self.start_time.isoformat()}: the range must not be reversed"
            )
        return self


class ContextMarket(Record):
    """The market as the agent sees it at t; `odds` is a probability."""

    id: str
    description: str | None = None
    odds: Probability | None = None
    price_age: float | None = None


class SearchSnippet(Record):
    """A piece of evidence with the instant it was known."""

    id: str
    text: str
    timestamp: Utc


class PreviousInterval(Record):
    """What was decided one interval earlier."""

    time: Utc
    aggregated_probability: Probability


class IntervalContext(Record):
    """Everything an agent may use at `time`."""

    time: Utc
    market: ContextMarket
    search_snippets: list[SearchSnippet] = Field(default_factory=list)
    previous_intervals: list[PreviousInterval] = Field(default_factory=list)


class DecisionResult(Record):
    """One decision of one model in one simulation."""

    model_id: str
    simulation_index: int = Field(ge=0)
    mode: Mode
    decision: Literal["YES", "NO"]
    confidence: Probability
    probability: Probability
    rationale: str
    key_evidence_ids: list[str] = Field(default_factory=list)
    created_at: Utc

    @model_validator(mode="after")
    def _decision_and_probability_agree(self) -> "DecisionResult":
        said = "YES" if self.probability >= 0.5 else "NO"
        if self.probability != 0.5 and self.decision != said:
            raise ValueError(f"the decision {self.decision} contradicts {self.probability:g}")
        return self


def forecasts(decisions: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Each model's forecast among the decisions of one interval, by its name (a baseline's own):
    the mean of its simulations, or of a single one exactly its forecast."""
    said: dict[str, list[float]] = {}
    for d in decisions:
        said.setdefault(d["model_id"].removeprefix("baseline:"), []).append(d["probability"])
    return {name: p[0] if len(p) == 1 else fmean(p) for name, p in said.items()}


class FailedDecision(Record):
    """A decision that did not come about, and why."""

    model_id: str
    simulation_index: int = Field(ge=0)
    error: str


class Aggregate(Record):
    """The decisions of one interval brought together."""

    method: str
    probability: Probability | None
    decision: Literal["YES", "NO"] | None
    n: int


class IntervalData(Record):
    """One step of one market: context, decisions, failures, aggregate, and a digest of it all."""

    run_id: str
    market_id: str
    time: Utc
    context: IntervalContext
    decisions: list[DecisionResult]
    failures: list[FailedDecision] = Field(default_factory=list)
    aggregate: Aggregate
    digest: str
