"""What a user asks of a backtest, as values that the journal can keep.

What a run would ask and pay, from its plan and from what calls have cost so far.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

from beforehand.config import Workspace
from beforehand.engine.job import RunLimits
from beforehand.engine.runs import PAID_AT_ONCE
from beforehand.forecast.base import ModelOptions
from beforehand.forecast.schemes.http import parse_rate
from beforehand.gateway.search import Grade
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.backtest_job import BacktestJob
from beforehand.jobs.backtest.grid import Kind
from beforehand.jobs.backtest.order import rounds
from beforehand.records.backtest import ExperimentConfig
from beforehand.score.evaluate import Settings
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal


@dataclass(frozen=True)
class Fork:
    """A run that repeats `parent` up to `at`, and has other models from there on: each of `models`
    is OLD=NEW, the old one by its entry or its name."""

    parent: str
    at: datetime
    models: list[str]


@dataclass(frozen=True)
class BacktestRequest:
    """What a user asked for. `configs` replaces markets, interval, grid and forecasters; `fresh`
    states that the forecasters at addresses were restarted just before."""

    archive: Path
    markets: list[str] | None = None
    every: timedelta = timedelta(days=7)
    grid: Kind = "aligned"
    forecasters: str = "all"
    num_sims: int = 1
    start: datetime | None = None
    stop: datetime | None = None
    max_results: int = 5
    grade: Grade = "captured"
    configs: list[ExperimentConfig] | None = None
    settings: Settings = Settings()
    limits: RunLimits = field(default_factory=RunLimits)
    fork: Fork | None = None
    model_options: ModelOptions = field(default_factory=ModelOptions)
    fresh: bool = False


def predicted(request: BacktestRequest, workspace: Workspace) -> dict[str, Any]:
    """Counts of markets, forecasts and steps; per forecaster the calls and, where it can be known,
    the tokens, the cost in US dollars and the seconds an answer takes, with what they are based on;
    and how long the order of questions makes the run at least. Writes nothing."""
    job = BacktestJob(request, "dry-run", workspace)
    known = workspace.database is not None or workspace.home.journal.is_file()
    calls = Journal(Database(workspace.journal)).calls if known else None
    rows = []
    for entry, n in job.paid.items():
        one = job.forecasters[entry]
        tokens, cost, took = (None, None, None) if calls is None else calls.usual(one.provider)
        basis = "mean of its calls so far" if cost is not None else "no cost of it is on record"
        if one.free:
            tokens, cost, basis = tokens or 0, 0.0, "it runs on this machine"
        if request.limits.cost_per_call is not None:
            cost, basis = request.limits.cost_per_call, "--cost-per-call"
        rows.append(
            {
                "provider": entry,
                "calls": n,
                "tokens": None if tokens is None else round(tokens * n),
                "cost": None if cost is None else cost * n,
                "seconds_a_call": took,
                "basis": basis,
            }
        )
    questions = {
        (config.market_id, t) for config in job.configs for t in grid.instants(config).tolist()
    }
    return {
        "markets": len({config.market_id for config in job.configs}),
        "forecasts": len(questions),
        "instants": len({t for _, t in questions}),
        "short_markets": len(job.selection.short),
        "steps": len(job.plan.steps),
        "left_out": job.selection.left_out,
        "calls": rows,
        "in_order": in_order(job, request, rows),
        "limits": request.limits.budget,
    }


def in_order(
    job: BacktestJob, request: BacktestRequest, calls: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """What waiting for each instant costs: the rounds of calls side by side (over the instants,
    calls / concurrency, rounded up), and the seconds they take at the slowest forecaster's mean
    latency so far (None: not on record). None where nobody waits for an instant."""
    per_instant = rounds(job.configs, job.forecasters, job.replacement)
    if not per_instant:
        return None
    side_by_side = request.limits.concurrency or PAID_AT_ONCE
    n = sum(ceil(one / side_by_side) for one in per_instant.values())
    waited = [row for row in calls if not job.forecasters[row["provider"]].memoryless]
    took = [row["seconds_a_call"] for row in waited]
    latency = max((s for s in took if s is not None), default=None)
    seconds = None if latency is None else n * latency
    if (limits := parse_rate(request.limits.rate)) and seconds is not None:
        most = max(row["calls"] for row in waited)
        seconds = max(seconds, *(most / limit.calls * limit.seconds for limit in limits))
    return {
        "instants": len(per_instant),
        "rounds": n,
        "concurrency": side_by_side,
        "seconds_a_call": latency,
        "seconds": seconds,
    }
