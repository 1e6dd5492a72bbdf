"""The benchmark in three stages over files: ingest, predict, evaluate.

Each stage reads and writes documented files only, so that a foreign forecaster can stand in the
middle: take events.jsonl, write PredictionRecords, hand them to `evaluate`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson

from beforehand import __version__
from beforehand.clock import iso, parse_instant, to_us
from beforehand.engine import driver
from beforehand.errors import InputError, NotFound
from beforehand.forecast.baselines import choose
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.gateway.panel import Evidence
from beforehand.records.backtest import ExperimentConfig, SearchConfig
from beforehand.records.benchmark import EventSpec, ResolutionRecord
from beforehand.records.bulk import PredictionRow, decode_prediction
from beforehand.score.leaks import LeakReport, audit_evidence
from beforehand.score.scoreboard import MARKET
from beforehand.score.validity import SetFacts
from beforehand.store.archive import Archive
from beforehand.store.files import read_lines, write_jsonl
from beforehand.store.runs import RunFolder
from beforehand.work import backtest, grid, results
from beforehand.work.scoring import Columns, Question, Result, Settings, build_table, evaluate


def ingest(archive: Archive, horizon: timedelta, out: Path) -> dict[str, int]:
    """Events, dated market snapshots and resolutions for every settled market that had a price
    `horizon` before its end. The event shows the *scheduled* close known then, never the end."""
    world = RecordedWorld(archive)
    gateway = Gateway(world)
    selection = backtest.select(gateway, world, None)
    events, snapshots, endings = [], [], []
    for name, resolution in selection.markets.items():
        t = grid.end_of(resolution) - horizon
        view = gateway.at(t)
        try:
            market, odds = view.market(name), view.odds(name)
        except NotFound:
            selection.skip("no price that early")
            continue
        event = results.event_wire(market, None)
        days = int(horizon / timedelta(days=1))
        events.append(
            {
                **event,
                "forecast_horizon_days": days,
                "baseline_probability": odds.price,
                "forecast_at": iso(t),
            }
        )
        snapshots.append(
            {
                "id": name,
                "probability": odds.price,
                "observed_at": iso(odds.observed_at),
                "known_at": iso(odds.known_at),
                "price_age": odds.price_age,
            }
        )
        endings.append(results.resolution_wire(resolution))
    write_jsonl(out / "events.jsonl", events)
    write_jsonl(out / "events_snapshots.jsonl", snapshots)
    write_jsonl(out / "resolutions.jsonl", endings)
    return {"events": len(events), **{f"left out: {k}": n for k, n in selection.left_out.items()}}


def predict(
    archive: Archive,
    events: Path,
    forecasters: str,
    out: Path,
    folder: RunFolder,
    progress: driver.Progress | None = None,
) -> dict[str, int]:
    """Forecast every event at its `forecast_at` (else its resolution date less its horizon)."""
    world = RecordedWorld(archive)
    gateway = Gateway(world)
    specs = [spec for _, spec in load_events(events)]
    predictors = sorted({f.predictor for f in world.all_forecasts()})
    documents = bool(archive.counts().get("document"))
    models = {m.name: m for m in choose(forecasters, documents=documents, predictors=predictors)}
    configs = [
        ExperimentConfig(
            market_id=gateway.hindsight().resolve_id(_market_of(spec)),
            start_time=(t := _forecast_at(spec)),
            end_time=t,
            interval_minutes=1,
            models=[f"baseline:{name}" for name in models],
            mode="baseline",
            search_config=SearchConfig(),
        )
        for spec in specs
    ]
    folder.create()
    plan = backtest.compile_plan(folder.run_id, configs)
    walker = backtest.Walker(gateway, folder, models, Evidence())
    steps = tuple(step for step in plan.steps if step.action != "score")
    driver.run(
        type(plan)(plan.run_id, steps), {"walk": walker.walk, "collect": walker.collect}, progress
    )
    own_id = {
        (config.market_id, iso(config.start_time)): spec.id
        for config, spec in zip(configs, specs, strict=True)
    }
    rows = list(results.read_jsonl(folder.path / "predictions.jsonl"))
    renamed = ({**r, "id": own_id[r["id"], r["metadata"]["timestamp"]]} for r in rows)
    write_jsonl(out, renamed)
    folder.seal(
        {
            "kind": "predict",
            "status": "success",
            "version": __version__,
            "archive_digest": archive.digest,
        }
    )
    return {"events": len(specs), "predictions": len(rows)}


def _market_of(spec: EventSpec) -> str:
    source = spec.source
    if ":" in spec.id or source is None or source.market_id is None:
        return spec.id
    return f"{source.type.upper()}:{source.market_id}"


def _forecast_at(spec: EventSpec) -> datetime:
    stated = (spec.model_extra or {}).get("forecast_at")
    if stated:
        return parse_instant(stated)
    if spec.resolution_date is None or spec.forecast_horizon_days is None:
        raise InputError(
            f"event {spec.id!r} does not say when to forecast: it needs forecast_at, or "
            "resolution_date and forecast_horizon_days"
        )
    return spec.resolution_date - timedelta(days=spec.forecast_horizon_days)


def load_events(path: Path) -> list[tuple[int, EventSpec]]:
    """(line, EventSpec) of every line; a bad one raises InputError with file, line and reason."""
    return [(n, _valid(path, n, line, EventSpec)) for n, line in read_lines(path)]


def _valid(path: Path, number: int, line: bytes, model: Any) -> Any:
    try:
        return model.model_validate_json(line)
    except ValueError as error:
        from beforehand.world.importers.lines import reason

        raise InputError(f"{path}:{number}: {reason(error)}") from None


@dataclass(frozen=True)
class Evaluation:
    """A scored benchmark with its evidence audit and counts of what did not fit."""

    result: Result
    audit: dict[str, Any]
    counts: dict[str, int]


def evaluate_files(
    events: Path, predictions: Path, resolutions: Path, settings: Settings
) -> Evaluation:
    """Pure scoring: three files in, verdicts out. The market is the predictor named `market`, or
    each event's baseline_probability."""
    specs = {spec.id: spec for _, spec in load_events(events)}
    endings = {
        record.id: record
        for record in (
            _valid(resolutions, n, line, ResolutionRecord) for n, line in read_lines(resolutions)
        )
    }
    rows, raw = _load_predictions(predictions)
    counts = {
        "predictions": len(rows),
        "events": len(specs),
        "predictions_of_unknown_events": sum(row.id not in specs for row in rows),
        "events_without_resolution": sum(name not in endings for name in specs),
        "events_without_prediction": len(specs.keys() - {row.id for row in rows}),
    }
    columns, repeated = _columns([row for row in rows if row.id in specs], specs)
    counts["predictions_replaced_by_a_later_line"] = repeated
    questions = [_question(spec, endings.get(name)) for name, spec in specs.items()]
    table = build_table(columns, questions)
    if not len(table.q):
        raise InputError(
            f"nothing to score: no prediction in {predictions} is for an event of {events} that "
            f"{resolutions} resolves"
        )
    facts = SetFacts(
        documents=0, unresolved=counts["events_without_resolution"], variants=len(table.forecasts)
    )
    total, passed, failures = audit_evidence(raw)
    audit = {"total": total, "passed": passed, "failures": failures[:200]}
    return Evaluation(evaluate(table, facts, settings), audit, counts)


def _load_predictions(path: Path) -> tuple[list[PredictionRow], list[dict[str, Any]]]:
    rows, raw = [], []
    for number, line in read_lines(path):
        try:
            rows.append(decode_prediction(line))
            raw.append(orjson.loads(line))
        except msgspec.ValidationError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        except (msgspec.DecodeError, orjson.JSONDecodeError) as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
    return rows, raw


def predictor_of(row: PredictionRow) -> str:
    """Who made a prediction: predictor_id, else the model's name."""
    if row.metadata is None:
        return "unnamed"
    return row.metadata.predictor_id or row.metadata.model.removeprefix("baseline:")


def _columns(rows: Iterable[PredictionRow], specs: Mapping[str, EventSpec]) -> tuple[Columns, int]:
    """One row per (event, instant); forecasters with a single prediction an event share a row."""
    by_predictor: dict[str, dict[tuple[str, int], float]] = {}
    instants: dict[tuple[str, str], set[int]] = {}
    repeated = 0
    for row in rows:
        name = predictor_of(row)
        t = to_us(row.metadata.timestamp) if row.metadata else 0
        said = by_predictor.setdefault(name, {})
        repeated += (row.id, t) in said
        said[row.id, t] = row.prediction.probability
        instants.setdefault((row.id, name), set()).add(t)
    single = all(len(times) == 1 for times in instants.values())
    cells: dict[tuple[str, int], dict[str, float]] = (
        {(name, 0): {} for name in specs} if single else {}
    )
    for name, said in by_predictor.items():
        for (event, t), p in said.items():
            cells.setdefault((event, 0 if single else t), {})[name] = p
    columns = Columns()
    for (event, t), forecasts in sorted(cells.items()):
        base = specs[event].baseline_probability
        price = forecasts.pop(MARKET, base)
        columns.id.append(event)
        columns.t.append(t)
        columns.market.append(math.nan if price is None else price)
        columns.price_age.append(0.0)
        columns.strict.append(True)
        columns.evidence.append(0)
        columns.bid.append(math.nan)
        columns.ask.append(math.nan)
        columns.forecasts.append(forecasts)
    return columns, repeated


def _question(spec: EventSpec, ending: ResolutionRecord | None) -> Question:
    event = spec.model_dump(mode="json", exclude_none=True)
    return results.question(event, ending.model_dump(mode="json") if ending else None)


def summary(evaluation: Evaluation, paths: Sequence[Path]) -> dict[str, Any]:
    """What `bench evaluate --json` prints."""
    return {
        "inputs": [str(path) for path in paths],
        "counts": evaluation.counts,
        "audit": evaluation.audit,
        "leaks": LeakReport(
            checked=evaluation.audit["total"],
            admitted_after_t=evaluation.audit["total"] - evaluation.audit["passed"],
        ).wire(),
        **evaluation.result.wire(),
    }
