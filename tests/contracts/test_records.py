"""Wire forms, held against golden files: what is written stays what the documents say."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from beforehand.records import backtest, benchmark, bus, plan, world
from beforehand.records.record import Record

GOLDEN = Path(__file__).with_name("records")
MODELS: dict[str, type[Record]] = {
    "event_spec": benchmark.EventSpec,
    "event_source": benchmark.EventSource,
    "prediction_record": benchmark.PredictionRecord,
    "resolution_record": benchmark.ResolutionRecord,
    "resolution_record_partial": benchmark.ResolutionRecord,
    "market_snapshot": benchmark.MarketSnapshot,
    "experiment_config": backtest.ExperimentConfig,
    "interval_context": backtest.IntervalContext,
    "decision_result": backtest.DecisionResult,
    "interval_data": backtest.IntervalData,
    "output_envelope": bus.OutputEnvelope,
    "run_log_success": bus.RunLog,
    "run_log_failed": bus.RunLog,
    "manifest": bus.Manifest,
    "prediction_query": bus.PredictionQuery,
    "scout_plan": plan.ScoutPlan,
    "world_market": world.Market,
    "world_state": world.MarketState,
    "world_event": world.Event,
    "world_price": world.PricePoint,
    "world_odds": world.Odds,
    "world_book": world.OrderBook,
    "world_document": world.Document,
    "world_resolution": world.Resolution,
    "world_forecast": world.RecordedForecast,
}


def load(name: str) -> dict[str, object]:
    return dict(json.loads((GOLDEN / f"{name}.json").read_text()))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_round_trip_is_the_golden_file(name: str) -> None:
    golden = load(name)
    record = MODELS[name].model_validate(golden)
    assert record.wire() == golden
    assert MODELS[name].model_validate_json(record.model_dump_json(by_alias=True)) == record


def test_every_golden_file_is_used() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(MODELS)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_unknown_fields_are_kept_and_records_are_frozen(name: str) -> None:
    record = MODELS[name].model_validate({**load(name), "added_later": [1, 2]})
    assert record.wire()["added_later"] == [1, 2]
    field = next(iter(type(record).model_fields))
    with pytest.raises(ValidationError):
        setattr(record, field, None)


def _paths(value: object, path: tuple[object, ...] = ()) -> list[tuple[tuple[object, ...], object]]:
    if isinstance(value, dict):
        return [found for k, v in value.items() for found in _paths(v, (*path, k))]
    if isinstance(value, list):
        return [found for i, v in enumerate(value) for found in _paths(v, (*path, i))]
    return [(path, value)]


def _with(value: object, path: tuple[object, ...], new: object) -> object:
    if not path:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)  # type: ignore[call-overload]
    copy[path[0]] = _with(copy[path[0]], path[1:], new)  # type: ignore[index]
    return copy


FREE = {"results", "data", "params", "inputs"}  # Rows of anybody's own shape.


def cases(kind: str) -> list[tuple[str, tuple[object, ...]]]:
    """(model, path) of every time, or every probability, in the golden files."""
    names = {
        "probability",
        "confidence",
        "price",
        "bid",
        "ask",
        "odds",
        "payout",
        "last_price",
        "baseline_probability",
        "aggregated_probability",
    }
    found = []
    for model in sorted(MODELS):
        for path, value in _paths(load(model)):
            if FREE & set(path):
                continue
            is_time = isinstance(value, str) and value[4:5] == "-" and "T" in value
            if (kind == "time" and is_time) or (kind == "probability" and path[-1] in names):
                found.append((model, path))
    return found


@pytest.mark.parametrize(("name", "path"), cases("time"), ids=str)
def test_naive_times_are_refused(name: str, path: tuple[object, ...]) -> None:
    with pytest.raises(ValidationError):
        MODELS[name].model_validate(_with(load(name), path, "2026-01-01T00:00:00"))
    shifted = MODELS[name].model_validate(_with(load(name), path, "2026-01-05T02:00:00+02:00"))
    assert "2026-01-05T00:00:00Z" in shifted.model_dump_json()


@pytest.mark.parametrize(("name", "path"), cases("probability"), ids=str)
@pytest.mark.parametrize("bad", [-0.01, 1.01, float("nan"), float("inf"), True, "x"])
def test_impossible_probabilities_are_refused(
    name: str, path: tuple[object, ...], bad: object
) -> None:
    with pytest.raises(ValidationError):
        MODELS[name].model_validate(_with(load(name), path, bad))


def test_invariants() -> None:
    refused = [
        (bus.OutputEnvelope, _with(load("output_envelope"), ("metadata", "row_count"), 9)),
        (bus.RunLog, {**load("run_log_failed"), "error": None}),
        (backtest.ExperimentConfig, {**load("experiment_config"), "interval_minutes": 0}),
        (
            backtest.ExperimentConfig,
            {**load("experiment_config"), "end_time": "2020-01-01T00:00:00Z"},
        ),
        (backtest.ExperimentConfig, {**load("experiment_config"), "models": []}),
        (benchmark.ResolutionRecord, {**load("resolution_record"), "outcome": 2}),
        (benchmark.ResolutionRecord, {**load("resolution_record"), "outcome": True}),
        (plan.ScoutPlan, {**load("scout_plan"), "schema": "scout_plan_v2"}),
        (plan.ScoutPlan, _with(load("scout_plan"), ("dag", "run_id"), "../out")),
        (plan.ScoutPlan, _with(load("scout_plan"), ("dag", "nodes", 1, "deps"), ["nobody"])),
        (plan.ScoutPlan, _with(load("scout_plan"), ("dag", "nodes", 0, "deps"), ["act"])),
        (plan.ScoutPlan, _with(load("scout_plan"), ("dag", "nodes", 1, "tool"), None)),
    ]
    for model, value in refused:
        with pytest.raises(ValidationError):
            model.model_validate(value)


def test_the_shipped_scout_schema_is_generated() -> None:
    from beforehand.records.plan import SCOUT_PLAN, scout_plan_schema

    assert SCOUT_PLAN.read_text() == scout_plan_schema()
