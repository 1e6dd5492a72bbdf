"""What a run would ask and pay, from its plan and from what calls have cost so far."""

from collections.abc import Sequence
from math import ceil
from typing import TypedDict

from beforehand.config import Workspace
from beforehand.engine.runs import PAID_AT_ONCE
from beforehand.forecast.schemes.http import parse_rate
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.backtest_job import BacktestJob, BacktestRequest
from beforehand.jobs.backtest.order import rounds
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal


class AskedCost(TypedDict):
    """What asking one forecaster would cost; null where it is not on record."""

    provider: str
    calls: int
    tokens: int | None
    cost: float | None
    seconds_a_call: float | None
    basis: str


class OrderCost(TypedDict):
    """What waiting for each instant costs. `rounds` counts the rounds of calls side by side (the
    sum over the instants of calls / concurrency, rounded up); `seconds` is how long they take at
    the slowest forecaster's mean latency so far (null: not on record)."""

    instants: int
    rounds: int
    concurrency: int
    seconds_a_call: float | None
    seconds: float | None


class Predicted(TypedDict):
    """A run before it is started."""

    markets: int
    forecasts: int
    instants: int
    short_markets: int
    steps: int
    left_out: dict[str, int]
    calls: list[AskedCost]
    in_order: OrderCost | None
    limits: dict[str, float]


def predicted(request: BacktestRequest, workspace: Workspace) -> Predicted:
    """What a run would do: counts of markets, forecasts and steps; for each forecaster the calls
    and, if known, the tokens, the cost in US dollars and the seconds per answer, with what they are
    based on; and the shortest time that the order of questions allows. Writes nothing."""
    job = BacktestJob(request, "dry-run", workspace)
    known = workspace.database is not None or workspace.home.journal.is_file()
    calls = Journal(Database(workspace.journal)).calls if known else None
    rows = list[AskedCost]()
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
    job: BacktestJob, request: BacktestRequest, calls: Sequence[AskedCost]
) -> OrderCost | None:
    """What the order of questions costs; None if no forecaster has to wait for an instant."""
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
