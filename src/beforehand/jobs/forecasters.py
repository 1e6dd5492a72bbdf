"""Opening the forecasters of a run: one place for backtests and for the benchmark."""

from collections.abc import Iterable, Mapping

from beforehand.config import Workspace
from beforehand.engine.job import RunLimits
from beforehand.errors import InputError
from beforehand.forecast.base import Forecaster, ModelOptions, Opening
from beforehand.forecast.cutoff_guard import CutoffGuard
from beforehand.forecast.schemes.http import parse_rate
from beforehand.forecast.schemes.model import Model
from beforehand.gateway import RecordedWorld
from beforehand.records.world import Resolution
from beforehand.score.evaluate import UNRANKED
from beforehand.store.archive.reader import Archive


def opening_of(
    world: RecordedWorld,
    archive: Archive,
    workspace: Workspace,
    limits: RunLimits,
    options: ModelOptions,
    answers: Mapping[str, Resolution],
) -> Opening:
    """What the forecasters of a run are opened with. `answers` are for the guard alone."""
    known = {name: r.known_at for name, r in answers.items()}
    return Opening(
        workspace,
        documents=bool(archive.counts().get("document")),
        predictors=sorted({f.predictor for f in world.all_forecasts()}),
        limits=parse_rate(limits.rate),
        timeout=limits.timeout,
        cost_per_call=limits.cost_per_call,
        limited_cost=bool(limits.max_cost),
        models=options,
        guard=CutoffGuard(known, options.knowledge),
    )


def check_all(forecasters: Iterable[Forecaster], opening: Opening) -> None:
    """Raise what would fail for every question alike, before anything is asked: a missing key, an
    engine that cannot run here, a cutoff stated for nobody."""
    forecasters = list(forecasters)
    for one in forecasters:
        one.check()
    known = {name for one in models_of(forecasters) for name in (one.provider, one.name)}
    if unknown := [name for name in opening.models.cutoffs if name not in known]:
        raise InputError(f"--cutoff {unknown[0]}: no such model is asked in this run")


def unranked(forecasters: Iterable[Forecaster]) -> tuple[str, ...]:
    """The names of those that only prove that the path works, whatever they are called."""
    return tuple({*UNRANKED, *(one.name for one in forecasters if not one.ranked)})


def models_of(forecasters: Iterable[Forecaster]) -> list[Model]:
    """The language models among them."""
    return [one for one in forecasters if isinstance(one, Model)]
