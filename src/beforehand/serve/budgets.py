"""What runs may spend that are started over HTTP: their own limits, and the budget of a token's
user."""

from contextlib import closing

from beforehand.config import Workspace
from beforehand.engine.job import RunLimits
from beforehand.errors import InputError
from beforehand.jobs.backtest.backtest_job import BacktestJob, BacktestRequest
from beforehand.runs.query import find_journal
from beforehand.serve.auth import Visitor
from beforehand.store.database import Database
from beforehand.store.journal.calls import ROUNDING
from beforehand.store.journal.schema import RunRow
from beforehand.store.starts import Starts, started_by
from beforehand.store.tokens import BUDGET, CENT, Tokens

OVER = ("success", "cancelled", "failed", "stopped")


def need_limits(limits: RunLimits, models: list[str]) -> None:
    """Raises InputError where a model is paid for without a limit."""
    if models and not limits.budget:
        raise InputError(
            f"{', '.join(models)} cost money: set limits.max_cost, limits.max_calls or "
            "limits.max_tokens; the run stops before it spends more"
        )


def budget_of(workspace: Workspace, user: str) -> float | None:
    """What all runs of a user may cost together, in US dollars: what the newest of its valid tokens
    with a budget states. None without one."""
    now = workspace.clock.now()
    with closing(Tokens(workspace.access)) as tokens:
        for token in tokens.all(user):
            if token.state(now) == "valid" and BUDGET in dict(token.quotas):
                return dict(token.quotas)[BUDGET] / CENT
    return None


def need_budget(
    workspace: Workspace,
    who: Visitor,
    limits: RunLimits,
    paid: list[str],
    row: RunRow | None = None,
) -> None:
    """Raises InputError where the user's budget does not cover what a run may spend in all, its
    max_cost (that of `row`, a run that is resumed, unless it is set anew). A run that somebody else
    resumes is still its starter's to pay. `paid` names what costs money."""
    payer = who.user
    if row is not None:
        payer = started_by(Database(workspace.access)).get(row.run_id, payer)
    budget = None if payer is None else budget_of(workspace, payer)
    if budget is None or payer is None or not paid:
        return
    left = budget - spoken_for(workspace, payer, row)
    stated = limits.max_cost
    if stated is None and row is not None:
        stated = row.limits.get("cost")
    told = f"the budget of {payer} is ${budget:,.2f}, ${max(left, 0):,.2f} of it are left"
    name, whole = "limits.max_cost", ""
    if row is not None:
        told = f"the budget of {payer}, who started run {row.run_id}, is ${budget:,.2f}"
        whole = f": the run may cost ${max(left, 0):,.2f} in all (it has spent ${row.cost:,.2f})"
        name = "max_cost"
    if stated is None:
        raise InputError(f"{told}{whole}: {', '.join(paid)} may cost money, so set {name}")
    if stated > left + ROUNDING:
        raise InputError(f"{told}{whole}: set {name} to that or less")


def left_of(workspace: Workspace, who: Visitor) -> dict[str, float] | None:
    """A user's budget and what is left of it; None where there is none."""
    budget = None if who.user is None else budget_of(workspace, who.user)
    if budget is None or who.user is None:
        return None
    left = budget - spoken_for(workspace, who.user)
    return {"of": budget, "left": round(max(left, 0.0), 6)}


def spoken_for(workspace: Workspace, user: str, but: RunRow | None = None) -> float:
    """US dollars that the user's runs have spent, and that those under way may still spend."""
    journal = find_journal(workspace)
    if journal is None:
        return 0.0
    with closing(Starts(workspace.access)) as starts:
        mine = set(starts.of(user))
    found = 0.0
    for row in journal.runs():
        if row.run_id in mine and (but is None or row.run_id != but.run_id):
            found += row.cost
            if row.status not in OVER:
                found += max(row.limits.get("cost", 0.0) - row.cost, 0.0)
    return found


def payers_of(workspace: Workspace) -> list[str]:
    """Whose runs have cost something."""
    journal = find_journal(workspace)
    if journal is None:
        return []
    by = started_by(Database(workspace.access))
    return sorted({by[row.run_id] for row in journal.runs() if row.cost and row.run_id in by})


def paid_by(workspace: Workspace, request: BacktestRequest) -> tuple[list[str], list[str]]:
    """The models of a backtest that cost money, and all its forecasters that may: addresses too.
    Raises whatever is wrong with the request."""
    with closing(BacktestJob(request, "dry-run", workspace)) as job:
        asked = {name: job.forecasters[name] for name in job.paid}
        may = [name for name, one in asked.items() if not one.free]
        return [name for name in may if asked[name].kind == "model"], may


def paid_model(name: str | None) -> list[str]:
    """The model, where asking it costs money."""
    return [] if name is None or name in ("scripted", "local") else [name]
