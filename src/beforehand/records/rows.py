"""The rows of a run's files, typed: what a forecaster was shown and said at each instant.

`intervals.jsonl`, `traces.jsonl` and `predictions.jsonl` are made of these. They are the documented
records (defined in `records/backtest.py` and `records/benchmark.py`) with our additional keys; a
key that is unset is left out. Times are ISO 8601 in UTC.
"""

from collections.abc import Iterable
from statistics import fmean
from typing import Any, Literal, NotRequired

import msgspec
import orjson
from msgspec import UNSET, Struct, UnsetType, field
from typing_extensions import TypedDict

from beforehand.clock import parse_us
from beforehand.ids import digest

Mode = Literal["daytona_agent", "direct_llm", "hybrid", "baseline", "external"]
"""How a decision was made: the documented modes, and ours."""
BASELINE = "baseline:"


def label(model_id: str) -> str:
    """A forecaster's name in tables: a baseline's without its prefix."""
    return model_id.removeprefix(BASELINE)


def description(question: str | None, rules: str | None) -> str:
    """A question as it is shown: its wording, and the rules that it is settled by."""
    return "\n\n".join(part for part in (question, rules) if part)


def yes_or_no(probability: float) -> Literal["YES", "NO"]:
    """YES from a half up."""
    return "YES" if probability >= 0.5 else "NO"


def sureness(probability: float) -> float:
    """The confidence of a forecaster that states none: twice the distance from a half."""
    return round(abs(probability - 0.5) * 2, 12)


class MarketSeen(Struct, frozen=True):
    """The market as it stood at t. `odds`, `bid` and `ask` are probabilities, `price_age` is in
    seconds; None is unknown."""

    id: str
    description: str | None = None
    odds: float | None = None
    price_age: float | None = None
    odds_known_at: str | None = None
    text_known_at: str | None = None
    bid: float | None = None
    ask: float | None = None


class Snippet(Struct, frozen=True):
    """A document that was found, with the instant from which it was known."""

    id: str
    text: str
    timestamp: str


class Previous(Struct, frozen=True):
    """What was decided at an earlier instant of the same experiment."""

    time: str
    aggregated_probability: float


class Context(Struct, frozen=True):
    """Everything that a forecaster is shown at `time`: the documented IntervalContext."""

    time: str
    market: MarketSeen
    search_snippets: list[Snippet] = field(default_factory=list)
    previous_intervals: list[Previous] = field(default_factory=list)

    @property
    def t(self) -> int:
        """The instant in microseconds since 1970."""
        return parse_us(self.time)

    @property
    def odds(self) -> float | None:
        """The market's probability at t."""
        return self.market.odds

    def wire(self) -> dict[str, object]:
        """The documented JSON."""
        found: dict[str, object] = msgspec.to_builtins(self)
        return found


class EvidenceLine(Struct, frozen=True, omit_defaults=True):
    """An EvidenceItem as a run writes it; `value`, `unit` and `period` are a figure's."""

    type: str
    source: str
    snippet: str | None
    timestamp: str | None
    value: float | None = None
    unit: str | None = None
    period: str | None = None


class DecisionRow(Struct, frozen=True, omit_defaults=True):
    """One decision of one forecaster in one simulation: the documented DecisionResult. The marks
    say what was cited without being shown, that the answer lies in the model's training, and what
    was cited although the leak detector flags it. `evidence` are typed items of its own."""

    model_id: str
    simulation_index: int
    mode: Mode
    decision: Literal["YES", "NO"]
    confidence: float
    probability: float
    rationale: str
    key_evidence_ids: list[str]
    created_at: str
    unshown_evidence_ids: list[str] = field(default_factory=list)
    answer_in_training: bool = False
    flagged_evidence_ids: list[str] = field(default_factory=list)
    evidence: list[EvidenceLine] | None = None


class FailureRow(Struct, frozen=True):
    """A decision that did not come about, and why."""

    model_id: str
    simulation_index: int
    error: str


class AggregateRow(Struct, frozen=True):
    """The decisions of one interval brought together; None without any."""

    method: str
    probability: float | None
    decision: Literal["YES", "NO"] | None
    n: int


class IntervalRow(Struct, frozen=True):
    """One instant of one experiment: the documented IntervalData. `digest` covers everything but
    itself and `run_id`, and is in the line that `sealed` gives."""

    run_id: str
    market_id: str
    time: str
    context: Context
    decisions: list[DecisionRow]
    failures: list[FailureRow]
    aggregate: AggregateRow
    digest: str = ""

    @property
    def said(self) -> "list[DecisionRow | FailureRow]":
        """Decisions, then failures."""
        return [*self.decisions, *self.failures]

    def sealed(self) -> bytes:
        """The row as a line of JSON, with its digest."""
        found: dict[str, object] = msgspec.to_builtins(self)
        body = {key: value for key, value in found.items() if key not in ("run_id", "digest")}
        return orjson.dumps({**found, "digest": digest(body)})


class TraceRow(Struct, frozen=True, kw_only=True):
    """How a model came to a decision: the keys of its calls, the code and what it printed, or the
    direct answer. `queries` traces have no instant: a question is worded once."""

    market_id: str
    time: str | UnsetType = UNSET
    model_id: str
    simulation_index: int | UnsetType = UNSET
    arm: Literal["code", "direct", "queries", "python"]
    calls: list[str]
    code: str | UnsetType = UNSET
    engine: str | UnsetType = UNSET
    layers: list[str] | UnsetType = UNSET
    output: str | UnsetType = UNSET
    result: Any = UNSET
    answer: dict[str, Any] | UnsetType = UNSET
    queries: list[str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    fallback_reason: str | UnsetType = UNSET


class PayloadLine(Struct, frozen=True):
    """A forecast, what it rests on, and why."""

    probability: float
    rationale: list[EvidenceLine] | UnsetType = UNSET
    analysis: str | UnsetType = UNSET


class MetadataLine(Struct, frozen=True):
    """Who made a prediction, when, and how it was asked."""

    model: str
    timestamp: str
    version: str | UnsetType = UNSET
    predictor_id: str | UnsetType = UNSET
    order: str | UnsetType = UNSET


class PredictionLine(Struct, frozen=True):
    """A PredictionRecord as a run writes it."""

    id: str
    prediction: PayloadLine
    metadata: MetadataLine


decode_interval = msgspec.json.Decoder(IntervalRow).decode
decode_trace = msgspec.json.Decoder(TraceRow).decode
decode_line = msgspec.json.Decoder(PredictionLine).decode


def encode(row: Struct) -> bytes:
    """A row as a line of JSON."""
    return orjson.dumps(msgspec.to_builtins(row))


def forecasts(decisions: Iterable[DecisionRow]) -> dict[str, float]:
    """Each forecaster's probability among the decisions of one interval, by its name in tables: the
    mean of its simulations, or of a single one exactly its forecast."""
    said: dict[str, list[float]] = {}
    for one in decisions:
        said.setdefault(label(one.model_id), []).append(one.probability)
    return {name: p[0] if len(p) == 1 else fmean(p) for name, p in said.items()}


class PairWire(TypedDict):
    """a against b on the rows that both forecast: `difference` is b's Brier score minus a's (above
    0, a is better), `ci` its 95 % interval. The verdict rests on the `gain`, what a gains on b
    where each forecast weighs as was known when it was made, with its 95 % interval `gain_ci`, and
    `gain_bounds` once the number of `pairs` is corrected for; `margin` was stated beforehand to be
    no difference, `unsettled` is the share of questions that are still open.
    `minimum_detectable_effect` is the difference that is found with a power of 80 %,
    `power_at_0_01` the power to find one of .01. Of two that never forecast at the same instant,
    `difference` is that of their `skills` against the market, each at its own instants, and `n`
    counts the rows of both."""

    a: str
    b: str
    n: int
    n_questions: int
    n_events: int
    difference: float | None
    ci: list[float | None]
    leading: str
    gain: float | None
    gain_ci: list[float | None]
    gain_bounds: list[float | None]
    effective_periods: float | None
    unsettled: float | None
    margin: float
    minimum_detectable_effect: float | None
    power_at_0_01: float | None
    brier_a: float
    brier_b: float
    pairs: NotRequired[int]
    verdict: str
    skills: NotRequired[list[float | None]]
