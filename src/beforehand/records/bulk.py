"""The bulk path: msgspec structs for JSONL by the hundred thousand.

They accept and refuse the same input as the pydantic records (a property test checks this); the
records remain the definition.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from beforehand.records.world import Document

Aware = Annotated[datetime, Meta(tz=True)]
P = Annotated[float, Meta(ge=0.0, le=1.0)]


class DocumentRow(Struct, frozen=True, omit_defaults=True):
    """A stored Document, as the archive's `document` segments hold it."""

    id: str
    title: str
    known_at: Aware
    text: str = ""
    url: str | None = None
    source: str | None = None
    published_at: Aware | None = None
    text_known_at: Aware | None = None
    captured_how: str | None = None
    licence: str | None = None

    def record(self) -> Document:
        """The public record."""
        return Document(**{name: getattr(self, name) for name in self.__struct_fields__})


class PriceSeriesRow(Struct, frozen=True, omit_defaults=True):
    """One market's prices as columns; times are microseconds since 1970, NaN is null."""

    market_id: str
    observed_at: list[int]
    known_at: list[int]
    price: list[P]
    bid: list[P | None] | None = None
    ask: list[P | None] | None = None
    volume: list[float | None] | None = None


class EvidenceRow(Struct, frozen=True):
    """An EvidenceItem, as the audit needs it."""

    type: str
    source: str
    snippet: str | None = None
    timestamp: Aware | None = None
    value: float | None = None
    unit: str | None = None
    period: str | None = None


class PayloadRow(Struct, frozen=True):
    """A PredictionPayload."""

    probability: P
    rationale: list[EvidenceRow] | None = None
    analysis: str | None = None


class MetadataRow(Struct, frozen=True):
    """The part of PredictionMetadata that scoring needs."""

    model: str
    timestamp: Aware
    version: str | None = None
    predictor_id: str | None = None
    order: str | None = None


class PredictionRow(Struct, frozen=True):
    """The part of a PredictionRecord that scoring needs."""

    id: str
    prediction: PayloadRow
    metadata: MetadataRow | None = None


class ResolutionRow(Struct, frozen=True):
    """The part of a ResolutionRecord that scoring needs."""

    id: str
    outcome: Literal[0, 1]
    payout: P | None = None
    resolved_at: Aware | None = None

    def __post_init__(self) -> None:
        if self.payout in (0.0, 1.0) and self.payout != self.outcome:
            raise ValueError("payout and outcome contradict each other")

    @property
    def settled(self) -> float:
        """The value forecasts are scored against."""
        return float(self.outcome) if self.payout is None else self.payout


decode_document = msgspec.json.Decoder(DocumentRow).decode
decode_series = msgspec.json.Decoder(PriceSeriesRow).decode
decode_prediction = msgspec.json.Decoder(PredictionRow).decode
decode_resolution = msgspec.json.Decoder(ResolutionRow).decode
