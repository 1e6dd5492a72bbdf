"""Backtests: what a user asks for in, experiments and a Plan out.

The plan is `walk/{chunk}` over the markets, then `collect`, then `score`. The walk keeps what
each forecaster saw and said (IntervalData); `score` reads those rows and the resolutions only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from beforehand.clock import from_us, iso
from beforehand.engine.plan import Plan, Step
from beforehand.errors import InputError
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.llm.names import is_model
from beforehand.records.backtest import ExperimentConfig, SearchConfig
from beforehand.records.world import Resolution
from beforehand.work import grid
from beforehand.work.request import Minds
from beforehand.work.voices import is_asked, mode_of

DEFAULT_MINDS = Minds()
CHUNK = 25
CHUNK_INTERVALS = 2000
"""A chunk ends at so many markets or forecasts: one row of the journal for what costs nothing."""


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
    models: Sequence[str],
    start: datetime | None,
    stop: datetime | None,
    max_results: int,
    num_sims: int = 1,
    minds: Minds = DEFAULT_MINDS,
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
                num_sims=num_sims,
                models=list(models),
                mode=mode_of(models, minds.mode),
                search_config=SearchConfig(
                    max_results=max_results,
                    query_mode=minds.query_mode if any(map(is_model, models)) else "template",
                ),
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
            f"known at {iso(first)}: start there or later"
        )
    if resolution is not None and config.end_time >= grid.end_of(resolution):
        raise InputError(
            f"end_time: {iso(config.end_time)} does not lie before the end of {config.market_id} "
            f"({iso(grid.end_of(resolution))}): end earlier"
        )
    model = any(map(is_model, config.models))
    if config.mode in ("baseline", "external") and model:
        raise InputError(
            f"mode: {config.mode!r} asks no language model, and models names "
            f"{next(filter(is_model, config.models))}: use daytona_agent, direct_llm or hybrid"
        )
    if config.mode not in ("baseline", "external") and not model:
        raise InputError(
            f"mode: {config.mode!r} needs a model: name scripted, local, openai:NAME, "
            "anthropic:NAME or NAME@http://host:port/v1; baselines run with mode baseline, "
            "addresses with external"
        )
    if config.num_sims != 1 and not any(map(is_asked, config.models)):
        raise InputError(
            f"num_sims: {config.num_sims}: a baseline says the same every time; only 1 is allowed "
            "without a model or a forecaster at an address"
        )
    if config.search_config.query_mode != "template" and not model:
        raise InputError("search_config.query_mode: 'llm_generated' needs a model; use 'template'")


def compile_plan(
    run_id: str,
    configs: Sequence[ExperimentConfig],
    score: bool = True,
    later: Mapping[str, str] | None = None,
) -> Plan:
    """Walk the markets a chunk at a time, collect, score. A chunk shares its models and its
    search settings; a market that somebody is asked about, now or once a fork's `later` models
    stand in, is a chunk of its own."""
    stands_in = later or {}
    groups: dict[str, list[ExperimentConfig]] = {}
    for config in configs:
        groups.setdefault(f"{config.models} {config.mode} {config.search_config}", []).append(
            config
        )
    chunks = [chunk for group in groups.values() for chunk in _chunks(group, stands_in)]
    walks = [
        Step(
            f"walk/{number:04d}",
            "walk",
            {"part": number, "experiments": [c.wire() for c in chunk]},
        )
        for number, chunk in enumerate(chunks)
    ]
    steps = [*walks, Step("collect", "collect", {}, tuple(s.id for s in walks), here=True)]
    if score:
        steps.append(Step("score", "score", {}, ("collect",), here=True))
    return Plan(run_id, steps)


def _chunks(
    group: Sequence[ExperimentConfig], stands_in: Mapping[str, str]
) -> list[list[ExperimentConfig]]:
    names = [*group[0].models, *(stands_in.get(name, name) for name in group[0].models)]
    if any(map(is_asked, names)):
        return [[config] for config in group]
    chunks: list[list[ExperimentConfig]] = [[]]
    size = 0
    for config in group:
        n = count(config)
        if chunks[-1] and (len(chunks[-1]) == CHUNK or size + n > CHUNK_INTERVALS):
            chunks.append([])
            size = 0
        chunks[-1].append(config)
        size += n
    return chunks


def count(config: ExperimentConfig) -> int:
    """How many instants an experiment has."""
    span = config.end_time - config.start_time
    return int(span / timedelta(minutes=config.interval_minutes)) + 1
