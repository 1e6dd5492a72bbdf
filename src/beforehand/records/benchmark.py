"""The benchmark's three files: events in, predictions from any forecaster, resolutions."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from beforehand.records.record import Number, Probability, Record, Utc, _not_bool

Outcome = Annotated[int, BeforeValidator(_not_bool), Field(ge=0, le=1)]


_WITHOUT_ZONE = re.compile(
    rb'("(timestamp|resolved_at|resolution_date)"\s*:\s*")'
    rb'(\d{4}-\d\d-\d\d)([T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"'
)


def zoned(line: bytes, assume_utc: bool = False) -> bytes:
    """A line of these files with a zone for every time that has none. A bare date is the day itself
    for a resolution_date and the end of that day for any other time, both UTC. A time of day
    without a zone is UTC with `assume_utc`; without it, ValueError says what to do."""

    def zone(found: re.Match[bytes]) -> bytes:
        start, key, day, clock = found.groups()
        if clock is None:
            at = b"T00:00:00Z" if key == b"resolution_date" else b"T23:59:59.999999Z"
            return start + day + at + b'"'
        if not assume_utc:
            raise ValueError(
                f"{key.decode()}: {(day + clock).decode()!r} has no time zone: add Z or an offset "
                "such as +00:00, or use --assume-utc"
            )
        return start + day + clock + b'Z"'

    return _WITHOUT_ZONE.sub(zone, line)


class EventSource(Record):
    """Where an event comes from."""

    type: str
    market_id: str | None = None
    url: str | None = None
    resolution_date: Utc | None = None


class EventSpec(Record):
    """One question. `baseline_probability` is the source market's, for ELS and Kelly."""

    id: str
    question: str
    domain: str | None = None
    resolution_date: Utc | None = None
    source: EventSource | None = None
    ground_truth_source: str | None = None
    forecast_horizon_days: Annotated[int, Field(ge=0)] | None = None
    tags: Annotated[list[str], BeforeValidator(lambda given: given or [])] = Field(
        default_factory=list
    )
    baseline_probability: Probability | None = None


class EvidenceItem(Record):
    """One piece of cited evidence; without a timestamp it fails the audit. `value`, `unit` and
    `period` (a date, or `2025 Q1`), which are ours, state a figure apart from the snippet."""

    type: str
    source: str
    snippet: str | None = None
    timestamp: Utc | None = None
    value: Number | None = None
    unit: str | None = None
    period: str | None = None


class PredictionPayload(Record):
    """A probability of outcome 1 and what supports it."""

    probability: Probability
    rationale: list[EvidenceItem] | None = None
    analysis: str | None = None


class PredictionMetadata(Record):
    """Who predicted, and when. In a run pinned at t the timestamp is t. `order`, which is ours,
    says in which order of time the predictor was asked."""

    model: str
    timestamp: Utc
    version: str | None = None
    predictor_id: str | None = None
    order: str | None = None


class PredictionRecord(Record):
    """A forecaster's answer to the event of the same id."""

    id: str
    prediction: PredictionPayload
    metadata: PredictionMetadata | None = None


class ResolutionRecord(Record):
    """The verified outcome. Partial and scalar settlements carry an additive `payout` in [0, 1];
    void and disputed markets get no ResolutionRecord at all."""

    id: str
    outcome: Outcome
    verified_value: Number | None = None
    verified_source: str | None = None
    resolved_at: Utc | None = None
    payout: Probability | None = None
    known_at: Utc | None = None
    """When the ending was first published, where that is not `resolved_at`."""

    @model_validator(mode="after")
    def _consistent(self) -> "ResolutionRecord":
        if self.payout in (0.0, 1.0) and self.payout != self.outcome:
            raise ValueError("payout and outcome contradict each other")
        return self

    @property
    def settled(self) -> float:
        """The value forecasts are scored against: the payout where there is one."""
        return float(self.outcome) if self.payout is None else self.payout


class MarketSnapshot(Record):
    """A line of `events_snapshots.jsonl`: what dates an event's `baseline_probability`."""

    id: str
    probability: Probability
    observed_at: Utc
    known_at: Utc
    price_age: float
