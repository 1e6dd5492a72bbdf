"""A few questions to the forecasters of a backtest, before it: what they answer, and nothing else.

Nothing is scored and no outcome is used, so nothing counts as tried. What is paid for is on record
in the journal, under a name of its own. The earliest questions of the grid are asked: a service
that keeps what it is shown has then seen nothing that the run asks about later.
"""

from dataclasses import dataclass, replace

import numpy as np

from beforehand.config import Workspace
from beforehand.engine.aside import aside
from beforehand.engine.context import StepContext
from beforehand.errors import InputError
from beforehand.forecast.base import NONE_HERE, PanelForecaster
from beforehand.gateway.panel import Evidence
from beforehand.ids import new_session_id
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.ask import Asker, Interval
from beforehand.jobs.backtest.backtest_job import BacktestJob, BacktestRequest
from beforehand.jobs.backtest.walk import context_of
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.rows import Context

MOST_TRIED = 10


@dataclass(frozen=True)
class Answer:
    """What a forecaster answered about a market at an instant: a probability of YES, or an error.
    `market` is the price then, None where none was known; `abstained` where it said that it has no
    forecast."""

    forecaster: str
    market_id: str
    time: str
    market: float | None
    probability: float | None
    rationale: str
    error: str | None
    abstained: bool = False


@dataclass(frozen=True)
class Tried:
    """The answers, the number of questions of the whole run, the calls that were paid for, their
    cost in US dollars, and the name that they stand under in the journal."""

    answers: list[Answer]
    questions: int
    calls: int
    cost: float
    name: str


def trial(request: BacktestRequest, workspace: Workspace, n: int) -> Tried:
    """Ask the forecasters about the `n` earliest questions of a run. Raises InputError for an `n`
    that is not from 1 to 10, or where every forecaster is a baseline, which nobody asks."""
    if not 1 <= n <= MOST_TRIED:
        raise InputError(f"a trial asks 1 to {MOST_TRIED} questions, not {n}")
    job = BacktestJob(replace(request, num_sims=1), "trial", workspace)
    asked = job.asked
    if not asked:
        raise InputError(
            "a trial is for forecasters that are asked: these are all computed from prices, and "
            "`backtest run` takes a second for them"
        )
    job.ready()
    entries = {one.entry for one in asked}
    every: dict[tuple[int, str], list[ExperimentConfig]] = {}
    for config in job.configs:
        if entries & set(config.models):
            for t in grid.instants(config).tolist():
                every.setdefault((t, config.market_id), []).append(config)
    # Another one may begin in this very second.
    name = f"trial-{new_session_id(workspace.clock.now())}"
    found, asker = list[Answer](), Asker()
    try:
        with aside(workspace, request.limits, "trial", name) as meter:
            for t, market in sorted(every)[:n]:
                for config in every[t, market]:
                    panel = job.gateway.panel(
                        [(market, np.array([t], dtype=np.int64))],
                        evidence=Evidence(
                            config.search_config.max_results, config.search_config.lookback_days
                        ),
                    )
                    found += _ask(job, config, context_of(panel, 0, []), asker, meter)
            meter.commit()
            row = meter.journal.known_run(name)
            meter.journal.mark(name, "success", None)
    finally:
        asker.close()
        job.close()
    return Tried(found, len(every), row.calls, row.cost, name)


def _ask(
    job: BacktestJob, config: ExperimentConfig, shown: Context, asker: Asker, meter: StepContext
) -> list[Answer]:
    """What the forecasters of an experiment that are asked say to one context."""
    mine = [job.forecasters[one] for one in config.models]
    mine = [one for one in mine if not isinstance(one, PanelForecaster)]
    (answers,) = asker.ask([Interval(mine, {}, shown.t, shown, config.mode, 1)], meter)
    found = list[Answer]()
    for one in mine:
        place = (one.name, config.market_id, shown.time, shown.odds)
        said, failed = answers[one.entry].decisions, answers[one.entry].failures
        found += [Answer(*place, row.probability, row.rationale, None) for row in said]
        for row in failed:
            none = row.error.endswith(NONE_HERE)
            found.append(Answer(*place, None, "", row.error, none))
    return found
