"""PredictionRecord and ResolutionRecord JSONL.

A prediction becomes a RecordedForecast, replayed in backtests as `recorded:NAME`; it is known at
its own timestamp, and without one it is refused. A resolution is known at `resolved_at`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from beforehand.ids import market_id, split_market_id
from beforehand.records.benchmark import PredictionRecord, ResolutionRecord, zoned
from beforehand.records.record import Record
from beforehand.records.world import RecordedForecast, Resolution
from beforehand.world.importers.lines import Rejects, each_object


def read(path: Path, rejects: Rejects, venue: str, assume_utc: bool = False) -> Iterator[Record]:
    """Forecasts and resolutions of a JSONL file; a row with `outcome` is a resolution."""

    def name(identifier: str) -> str:
        head, native = split_market_id(identifier)
        return market_id(head or venue, native)

    def parse(raw: Mapping[str, object]) -> list[Record]:
        if "outcome" in raw:
            resolution = ResolutionRecord.model_validate(raw)
            if resolution.resolved_at is None:
                raise ValueError("resolved_at is missing: a resolution needs a time")
            return [
                Resolution(
                    market_id=name(resolution.id),
                    status="resolved",
                    payout=resolution.settled,
                    resolved_at=resolution.resolved_at,
                    known_at=resolution.resolved_at,
                )
            ]
        prediction = PredictionRecord.model_validate(raw)
        if prediction.metadata is None:
            raise ValueError("metadata.timestamp is missing: a prediction needs a time")
        meta = prediction.metadata
        return [
            RecordedForecast(
                market_id=name(prediction.id),
                predictor=meta.predictor_id or meta.model,
                probability=prediction.prediction.probability,
                known_at=meta.timestamp,
            )
        ]

    return each_object(path, rejects, parse, lambda line: zoned(line, assume_utc))
