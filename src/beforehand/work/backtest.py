"""Backtests: experiments in, a Plan out, and the actions that the plan names.

The plan is `walk/{chunk}` over the markets, then `collect`, then `score`. The walk writes what
each forecaster saw and said (IntervalData); `score` reads those rows and the resolutions only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from beforehand.clock import from_us, iso, to_us
from beforehand.engine.plan import Plan, Step
from beforehand.errors import InputError
from beforehand.forecast.baselines import Baseline
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.gateway.panel import Evidence, Panel, PanelBuilder
from beforehand.ids import digest
from beforehand.records.backtest import ExperimentConfig, SearchConfig
from beforehand.records.world import Resolution
from beforehand.store.files import write_atomic
from beforehand.store.runs import RunFolder
from beforehand.work import grid

CHUNK = 25
PREVIOUS = 10


@dataclass
class Selection:
    """The markets of a run, and those left out with the reason, counted."""

    markets: dict[str, Resolution] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Count one market that is not walked."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def select(gateway: Gateway, world: RecordedWorld, wanted: Sequence[str] | None) -> Selection:
    """All settled markets with prices, or the named ones (an unknown one raises)."""
    final = {r.market_id: r for r in gateway.hindsight().resolutions()}
    selection = Selection()
    if wanted is None:
        names: list[str] = sorted(world.all_series.keys() | final.keys())
    else:
        view = gateway.hindsight()
        names = list(dict.fromkeys(view.resolve_id(name) for name in wanted))
    for name in names:
        resolution = final.get(name)
        if name not in world.all_series:
            selection.skip("without prices")
        elif resolution is None:
            selection.skip("unresolved")
        elif resolution.payout is None:
            selection.skip(resolution.status)
        else:
            selection.markets[name] = resolution
    return selection


def experiments(
    world: RecordedWorld,
    selection: Selection,
    *,
    every: timedelta,
    models: Sequence[Baseline],
    start: datetime | None,
    stop: datetime | None,
    max_results: int,
) -> list[ExperimentConfig]:
    """One ExperimentConfig a market, its range clamped to the market's life."""
    minutes = int(every.total_seconds() // 60)
    configs = []
    for name, resolution in selection.markets.items():
        t = grid.instants(world.all_series[name], grid.end_of(resolution), every, start, stop)
        if not len(t):
            selection.skip("no instant in range")
            continue
        configs.append(
            ExperimentConfig(
                market_id=name,
                start_time=from_us(t[0]),
                end_time=from_us(t[-1]),
                interval_minutes=minutes,
                models=[f"baseline:{model.name}" for model in models],
                mode="baseline",
                search_config=SearchConfig(max_results=max_results),
            )
        )
    return configs


def check(config: ExperimentConfig, world: RecordedWorld, resolution: Resolution | None) -> None:
    """Refuse an explicit range outside the market's life, and what this version cannot run, with
    the field, the value and what is allowed."""
    series = world.all_series.get(config.market_id)
    if series is None or not len(series):
        raise InputError(f"market_id: {config.market_id} has no recorded prices")
    first = from_us(series.known_at[0])
    if config.start_time < first:
        raise InputError(
            f"start_time: {iso(config.start_time)} lies before {config.market_id}'s first price, "
            f"known at {iso(first)}"
        )
    if resolution is not None and config.end_time >= grid.end_of(resolution):
        raise InputError(
            f"end_time: {iso(config.end_time)} does not lie before the end of {config.market_id} "
            f"({iso(grid.end_of(resolution))})"
        )
    if config.mode != "baseline":
        raise InputError(
            f"mode: {config.mode!r} needs a model; this version runs 'baseline' (models: "
            "baseline:NAME)"
        )
    if config.num_sims != 1:
        raise InputError(
            f"num_sims: {config.num_sims}: a baseline says the same every time; only 1 is allowed"
        )
    if config.search_config.query_mode != "template":
        raise InputError("search_config.query_mode: 'llm_generated' needs a model; use 'template'")


def compile_plan(run_id: str, configs: Sequence[ExperimentConfig]) -> Plan:
    """Walk the markets a chunk at a time, collect, score. A chunk shares its models and its
    search settings."""
    groups: dict[str, list[ExperimentConfig]] = {}
    for config in configs:
        groups.setdefault(f"{config.models} {config.search_config}", []).append(config)
    chunks = [
        group[i : i + CHUNK] for group in groups.values() for i in range(0, len(group), CHUNK)
    ]
    walks = [
        Step(
            f"walk/{number:04d}",
            "walk",
            {"part": number, "experiments": [c.wire() for c in chunk]},
        )
        for number, chunk in enumerate(chunks)
    ]
    names = tuple(step.id for step in walks)
    collect, score = Step("collect", "collect", {}, names), Step("score", "score", {}, ("collect",))
    return Plan(run_id, [*walks, collect, score])


class Walker:
    """The `walk` and `collect` actions of one run."""

    def __init__(self, gateway: Gateway, folder: RunFolder, models: Mapping[str, Baseline]) -> None:
        self._folder = folder
        self._models = models
        recorded = [n.removeprefix("recorded:") for n in models if n.startswith("recorded:")]
        self._builder = PanelBuilder(gateway, recorded)

    def walk(self, args: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
        """Forecast one chunk of markets; writes its intervals and predictions as parts."""
        configs = [ExperimentConfig.model_validate(raw) for raw in args["experiments"]]
        pairs = [(c.market_id, _instants(c)) for c in configs]
        panel = self._builder.build(pairs, Evidence(configs[0].search_config.max_results))
        names = [m.removeprefix("baseline:") for m in configs[0].models]
        forecasts = {name: self._models[name].forecast(panel) for name in names}
        intervals, predictions = list[bytes](), list[bytes]()
        ends = np.cumsum([len(t) for _, t in pairs])
        starts = {0, *ends.tolist()}
        previous: list[dict[str, Any]] = []
        for i in range(len(panel)):
            if i in starts:
                previous = []
            said = {name: float(values[i]) for name, values in forecasts.items()}
            interval = self._interval(panel, i, said, previous)
            intervals.append(orjson.dumps(interval))
            predictions.extend(
                orjson.dumps(row) for row in _predictions(panel, i, said, self._models)
            )
        base = self._folder.path / "parts"
        write_atomic(base / f"{args['part']:04d}.intervals", b"\n".join(intervals))
        write_atomic(base / f"{args['part']:04d}.predictions", b"\n".join(predictions))
        return {"part": args["part"], "intervals": len(intervals)}

    def collect(self, _: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Join the parts in order into intervals.jsonl and predictions.jsonl."""
        base = self._folder.path / "parts"
        numbers = sorted(output["part"] for output in outputs.values())
        for kind in ("intervals", "predictions"):
            parts = [base / f"{n:04d}.{kind}" for n in numbers]
            content = [data for part in parts if (data := part.read_bytes())]
            write_atomic(
                self._folder.path / f"{kind}.jsonl", b"\n".join(content) + b"\n" * bool(content)
            )
            for part in parts:
                part.unlink()
        base.rmdir()
        return {"intervals": sum(output["intervals"] for output in outputs.values())}

    def _interval(
        self, panel: Panel, i: int, said: dict[str, float], previous: list[dict[str, Any]]
    ) -> dict[str, Any]:
        at = iso(from_us(panel.t[i]))
        text = panel.text[i]
        market: dict[str, Any] = {
            "id": panel.market[i],
            "description": None if text is None else _description(text.question, text.rules),
            "odds": _known(panel.price[i]),
            "price_age": _known(panel.price_age[i]),
            "odds_known_at": iso(from_us(panel.known_at[i])) if panel.known_at[i] >= 0 else None,
            "text_known_at": None if text is None else iso(text.known_at),
            "bid": _known(panel.bid[i]),
            "ask": _known(panel.ask[i]),
        }
        decisions, failures = list[dict[str, Any]](), list[dict[str, Any]]()
        cited = [d.id for d in panel.documents[i]]
        for name, p in said.items():
            model = {"model_id": f"baseline:{name}", "simulation_index": 0}
            if p != p:
                failures.append({**model, "error": "no forecast known at t"})
                continue
            decisions.append(
                {
                    **model,
                    "mode": "baseline",
                    "decision": "YES" if p >= 0.5 else "NO",
                    "confidence": round(abs(p - 0.5) * 2, 12),
                    "probability": p,
                    "rationale": self._models[name].says,
                    "key_evidence_ids": cited if self._models[name].cites else [],
                    "created_at": at,
                }
            )
        spoken = [d["probability"] for d in decisions]
        mean = sum(spoken) / len(spoken) if spoken else None
        body: dict[str, Any] = {
            "market_id": panel.market[i],
            "time": at,
            "context": {
                "time": at,
                "market": market,
                "search_snippets": [
                    {"id": d.id, "text": d.title, "timestamp": iso(d.known_at)}
                    for d in panel.documents[i]
                ],
                "previous_intervals": previous[-PREVIOUS:],
            },
            "decisions": decisions,
            "failures": failures,
            "aggregate": {
                "method": "mean",
                "probability": mean,
                "decision": None if mean is None else ("YES" if mean >= 0.5 else "NO"),
                "n": len(spoken),
            },
        }
        if mean is not None:
            previous.append({"time": at, "aggregated_probability": mean})
        return {"run_id": self._folder.run_id, **body, "digest": digest(body)}


def _instants(config: ExperimentConfig) -> npt.NDArray[np.int64]:
    step = config.interval_minutes * 60_000_000
    return np.arange(to_us(config.start_time), to_us(config.end_time) + 1, step, dtype=np.int64)


def _description(question: str | None, rules: str | None) -> str:
    return "\n\n".join(part for part in (question, rules) if part)


def _known(value: float) -> float | None:
    return None if value != value else float(value)


def _predictions(
    panel: Panel, i: int, said: dict[str, float], models: Mapping[str, Baseline]
) -> list[dict[str, Any]]:
    at = iso(from_us(panel.t[i]))
    snapshot = {
        "type": "market_snapshot",
        "source": panel.market[i],
        "snippet": f"price {panel.price[i]:g}",
        "timestamp": iso(from_us(panel.known_at[i])),
    }
    snapshots = [snapshot] if panel.known_at[i] >= 0 else []
    documents = [
        {
            "type": "document",
            "source": d.url or d.id,
            "snippet": d.title,
            "timestamp": iso(d.known_at),
        }
        for d in panel.documents[i]
    ]
    return [
        {
            "id": panel.market[i],
            "prediction": {
                "probability": p,
                "rationale": [*snapshots, *(documents if models[name].cites else [])],
                "analysis": models[name].says,
            },
            "metadata": {
                "model": f"baseline:{name}",
                "timestamp": at,
                "version": models[name].version,
                "predictor_id": name,
            },
        }
        for name, p in said.items()
        if p == p
    ]
