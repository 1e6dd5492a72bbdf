"""What a run would ask and pay, from its plan and from what calls have cost so far."""

from typing import Any

from beforehand.clock import SystemClock
from beforehand.config import Home, database_url
from beforehand.llm.names import LOCAL, SCRIPTED
from beforehand.work import backtest
from beforehand.work.jobs import open_journal
from beforehand.work.request import Request
from beforehand.work.run import BacktestJob


def predicted(request: Request) -> dict[str, Any]:
    """Counts of markets, forecasts and steps; per address the calls and, where it can be known,
    the tokens and the cost in US dollars, with what they are based on. Writes nothing."""
    job = BacktestJob(request, "dry-run", SystemClock())
    home = Home(request.home)
    known = database_url() is not None or home.journal.is_file()
    calls = open_journal(home)[1] if known else None
    rows = []
    for address, n in job.paid.items():
        tokens, cost = calls.usual(address) if calls is not None else (None, None)
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
                "basis": basis,
            }
        )
    return {
        "markets": len(job.configs),
        "forecasts": sum(backtest.count(config) for config in job.configs),
        "steps": len(job.plan.steps),
        "left_out": job.selection.left_out,
        "calls": rows,
        "limits": request.effort.limits,
    }
