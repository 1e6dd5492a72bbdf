"""Open the forecasters of a run, for backtests and for the benchmark, and say on the card how each
was kept from the future."""

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from beforehand.clock import parse_instant, to_us
from beforehand.config import Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.job import RunLimits
from beforehand.errors import InputError
from beforehand.forecast.base import Forecaster, ModelOptions, Opening
from beforehand.forecast.cutoff_guard import CutoffGuard
from beforehand.forecast.schemes.http import parse_rate
from beforehand.forecast.schemes.model import Model
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.llm.names import service_of
from beforehand.records.world import Resolution
from beforehand.score.evaluate import UNRANKED
from beforehand.score.scoreboard import Kept
from beforehand.store.archive.reader import Archive
from beforehand.store.journal.memory import remembered

MAY_REMEMBER, NOT_AGAIN = "may remember", "not reproducible"
MOST_RUNS = 3
CHANGED = "its code changed while the run was under way: its answers are of two forecasters"
STATED_REMEMBERING = (
    "it may remember: its predictions say that it was asked about later instants before"
)


def opening_of(
    world: RecordedWorld,
    archive: Archive,
    workspace: Workspace,
    limits: RunLimits,
    options: ModelOptions,
    answers: Mapping[str, Resolution],
    still_open: Mapping[str, int] = MappingProxyType({}),
) -> Opening:
    """What the forecasters of a run are opened with. `answers`, and which markets are `still_open`
    until when, are only for the cutoff guard."""
    return Opening(
        workspace,
        documents=bool(archive.counts().get("document")),
        predictors=sorted({f.predictor for f in world.all_forecasts()}),
        limits=parse_rate(limits.rate),
        timeout=limits.timeout,
        cost_per_call=limits.cost_per_call,
        limited_cost=bool(limits.max_cost),
        models=options,
        guard=CutoffGuard(answers, options.knowledge, still_open),
        world=world,
    )


def check_all(forecasters: Iterable[Forecaster], opening: Opening) -> None:
    """Raise errors that would fail every question, before anything is asked: a missing key, an
    engine that cannot run here, a cutoff for a model that is not in the run."""
    forecasters = list(forecasters)
    for one in forecasters:
        one.check()
    known = {name for one in models_of(forecasters) for name in (one.provider, one.name)}
    if unknown := [name for name in opening.models.cutoffs if name not in known]:
        raise InputError(f"--cutoff {unknown[0]}: no such model is asked in this run")


def unranked(forecasters: Iterable[Forecaster]) -> tuple[str, ...]:
    """The names of the forecasters that only test the path, whatever they are called."""
    return tuple({*UNRANKED, *(one.name for one in forecasters if not one.ranked)})


def models_of(forecasters: Iterable[Forecaster]) -> list[Model]:
    """The language models among them."""
    return [one for one in forecasters if isinstance(one, Model)]


def how_kept(
    forecasters: Iterable[Forecaster],
    differs: Mapping[str, int],
    context: StepContext,
    codes: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Kept]:
    """How each forecaster of a run was kept from the future, by its name on the leaderboard.
    `differs` counts answers that were not the ones on record when a past was shown again, `codes`
    the versions of the code of those whose code changed while the run was under way."""
    restarts = list[str]()
    run_id: str | None = context.run_id
    while run_id is not None and (row := context.journal.run(run_id)) is not None:
        restarts += row.restarts  # Also those of the runs that a fork inherits answers from.
        run_id = row.parent
    database, found = context.journal.database, dict[str, Kept]()
    for one in forecasters:
        if one.name in codes:
            found[one.name] = Kept("trusted", f"{one.kept().order}; its code changed", CHANGED)
            continue
        later: tuple[int, Sequence[str]] = (0, ())
        anew, newest = one.memoryless or one.started_anew, one.newest_file()
        if newest is not None or not anew:
            later = remembered(database, context.run_id, one.provider, restarts, service_of)
        if anew and newest is not None:
            # What it reads can hold what a run showed it if it was written since.
            n, runs = later
            runs = [name for name in runs if _begun(name, context) <= newest[0]]
            if runs:
                found[one.name] = Kept(
                    one.isolation,
                    MAY_REMEMBER,
                    one.caught
                    or f"it may remember: {n:,} of its answers came after it was asked about later "
                    f"instants ({_named(runs)}), and it reads {os.path.basename(newest[1])}, which "
                    "was written since; let it begin without that file",
                )
                continue
            later = 0, ()
        if one.memoryless:
            found[one.name] = one.kept()
            continue
        found[one.name] = kept(one, *later, differs.get(one.name, 0), bool(restarts))
    return found


def _begun(run_id: str, context: StepContext) -> float:
    """When a run began, in seconds since 1970; one that is gone never ended."""
    row = context.journal.run(run_id)
    return 0.0 if row is None else to_us(parse_instant(row.created_at)) / 1e6


def _named(runs: Sequence[str]) -> str:
    """The first runs by name."""
    return f"run {', '.join(runs[:MOST_RUNS])}{', …' if len(runs) > MOST_RUNS else ''}"


def kept(one: Forecaster, n: int, runs: Sequence[str], differs: int, restarted: bool) -> Kept:
    """The same for one forecaster that is not memoryless. `n` of its answers came after `runs` had
    asked it about later instants; `differs` of its answers changed when it was shown its past
    again."""
    order = one.order + (", stated as restarted" if restarted else "")
    if differs:
        order += f"; {NOT_AGAIN} ({differs:,} answers differ when asked again)"
    if not n:
        again = f"it is {NOT_AGAIN}: {differs:,} answers differ when asked again"
        return Kept(one.isolation, order, one.caught or (again if differs else None))
    return Kept(
        one.isolation,
        MAY_REMEMBER + (f"; {NOT_AGAIN} ({differs:,} answers)" if differs else ""),
        one.caught
        or f"it may remember: {n:,} of its answers came after it was asked about later instants "
        f"({_named(runs)}); restart it, and run again with --fresh",
    )
