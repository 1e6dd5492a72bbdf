"""What a run would ask and pay, from its plan and from what calls have cost so far."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from beforehand.clock import SystemClock
from beforehand.config import Home, database_url
from beforehand.forecast.external import parse_rate
from beforehand.llm.names import LOCAL, SCRIPTED
from beforehand.work import grid
from beforehand.work.jobs import PAID_AT_ONCE, open_journal
from beforehand.work.order import rounds
from beforehand.work.request import Request
from beforehand.work.run import BacktestJob
from beforehand.work.voices import remembers


def predicted(request: Request) -> dict[str, Any]:
    """Counts of markets, forecasts and steps; per forecaster the calls and, where it can be known,
    the tokens, the cost in US dollars and the seconds an answer takes, with what they are based on;
    and how long the order of questions makes the run at least. Writes nothing."""
    job = BacktestJob(request, "dry-run", SystemClock())
    home = Home(request.home)
    known = database_url() is not None or home.journal.is_file()
    calls = open_journal(home)[1] if known else None
    rows = []
    for address, n in job.paid.items():
        tokens, cost, took = (None, None, None) if calls is None else calls.usual(address)
        basis = "mean of its calls so far" if cost is not None else "no cost of it is on record"
        if address in (SCRIPTED, LOCAL):
            tokens, cost, basis = tokens or 0, 0.0, "it runs on this machine"
        if request.effort.cost_per_call is not None:
            cost, basis = request.effort.cost_per_call, "--cost-per-call"
        rows.append(
            {
                "provider": address,
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
        "limits": request.effort.limits,
    }


def in_order(
    job: BacktestJob, request: Request, calls: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """What waiting for each instant costs: the rounds of calls side by side (over the instants,
    calls / concurrency, rounded up), and the seconds they take at the slowest forecaster's mean
    latency so far (None: not on record). None where nobody waits for an instant."""
    per_instant = rounds(job.configs, job.replacement, dict.fromkeys(job.asked, 1))
    if not per_instant:
        return None
    side_by_side = request.effort.concurrency or PAID_AT_ONCE
    n = sum(ceil(one / side_by_side) for one in per_instant.values())
    took = [row["seconds_a_call"] for row in calls if remembers(row["provider"])]
    latency = max((s for s in took if s is not None), default=None)
    seconds = None if latency is None else n * latency
    if (limits := parse_rate(request.effort.rate)) and seconds is not None:
        most = max(row["calls"] for row in calls if remembers(row["provider"]))
        seconds = max(seconds, *(most / limit.calls * limit.seconds for limit in limits))
    return {
        "instants": len(per_instant),
        "rounds": n,
        "concurrency": side_by_side,
        "seconds_a_call": latency,
        "seconds": seconds,
    }
