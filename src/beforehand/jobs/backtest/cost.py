"""What a run would ask and pay, from its plan and from what calls have cost so far."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, cast

from typing_extensions import TypedDict

from beforehand.config import Workspace
from beforehand.engine.runs import PAID_AT_ONCE
from beforehand.forecast.schemes.http import parse_rate
from beforehand.gateway.panel import Evidence
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.backtest_job import BacktestJob, BacktestRequest
from beforehand.jobs.backtest.order import rounds
from beforehand.jobs.results import event_wire, resolution_wire
from beforehand.llm.names import LOCAL
from beforehand.runs.columns import question
from beforehand.score.evaluate import Columns, build_table
from beforehand.score.summary import CheckWire, check_wire
from beforehand.score.validity import Check, SetFacts, card, set_failures
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
    """What waiting for each instant costs the slowest `forecaster` (the others are asked beside
    it). `rounds` counts the rounds of calls side by side (the sum over the instants of calls /
    concurrency, rounded up); `seconds` is how long they take at its mean latency so far (null: not
    on record)."""

    forecaster: str
    instants: int
    rounds: int
    concurrency: int
    seconds_a_call: float | None
    seconds: float | None


class Predicted(TypedDict):
    """A run before it is started. `card` is the validity card as far as it is known before anybody
    was asked; `lacks` says which of its bounds are not met: with these, nothing can be said to beat
    the market."""

    markets: int
    forecasts: int
    instants: int
    short_markets: int
    steps: int
    left_out: dict[str, int]
    calls: list[AskedCost]
    in_order: OrderCost | None
    limits: dict[str, float]
    card: dict[str, CheckWire]
    lacks: list[str]


def stops_at(found: Predicted) -> list[str]:
    """What a run's own limits will not let it finish, one sentence each."""
    rows, limits, said = found["calls"], found["limits"], list[str]()
    for name, unit in (("calls", "calls"), ("tokens", "tokens"), ("cost", "US dollars")):
        needed = sum(float(cast(Any, row)[name] or 0) for row in rows)
        if name in limits and needed > limits[name]:
            flag = f"--max-{name}"
            said.append(
                f"it will stop at {flag} {limits[name]:,g} of the {needed:,.10g} {unit} that all "
                f"of it takes: give {flag} {ceil(needed):,} or more, or ask less"
            )
    return said


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
        if not one.counted:
            n, basis = 0, f"{basis}, and what it asks through its meter is counted as it is asked"
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
    checks = _card(job)
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
        "card": {one.field: check_wire(one) for one in checks},
        "lacks": [one.sentence for one in set_failures(checks)],
    }


def _card(job: BacktestJob) -> list[Check]:
    """The fields of the validity card that rest on markets and instants alone."""
    at = {config.market_id: grid.instants(config) for config in job.configs}
    markets = sorted(set(at) - set(job.selection.short))
    panel = job.gateway.panel([(name, at[name]) for name in markets], evidence=Evidence(0))
    n = len(panel)
    columns = Columns(
        id=panel.market,
        t=panel.t.tolist(),
        market=panel.price.tolist(),
        price_age=(panel.price_age / 86400).tolist(),
        strict=[text is not None for text in panel.text],
        evidence=[0] * n,
        bid=panel.bid.tolist(),
        ask=panel.ask.tolist(),
        forecasts=[{}] * n,
    )
    view = job.gateway.full_view()
    endings = [job.selection.markets.get(name) for name in markets]
    events = [
        event_wire(view.market(name), None if ending is None else ending.resolved_at)
        for name, ending in zip(markets, endings, strict=True)
    ]
    lines = [None if ending is None else resolution_wire(ending) for ending in endings]
    questions = [
        question(cast(Mapping[str, Any], event), line)
        for event, line in zip(events, lines, strict=True)
    ]
    known = {"n_questions", "n_forecasts", "n_events", "n_resolution_months"}
    known |= {"short_markets", "price_age_days_p50", "price_age_days_p90", "share_strict_text"}
    known |= {"share_price_older_than_7_days"}
    facts = SetFacts(documents=0, short=len(job.selection.short))
    return [one for one in card(build_table(columns, questions), [], facts) if one.field in known]


def in_order(
    job: BacktestJob, request: BacktestRequest, calls: Sequence[AskedCost]
) -> OrderCost | None:
    """What the order of questions costs; None if no forecaster has to wait for an instant."""
    found = list[OrderCost]()
    took = {row["provider"]: row["seconds_a_call"] for row in calls}
    for name, per_instant in rounds(job.configs, job.forecasters, job.replacement).items():
        one = job.forecasters[name]
        side_by_side = request.limits.concurrency or PAID_AT_ONCE
        if one.provider == LOCAL or one.stateful:
            side_by_side = 1  # The local model, and what remembers in this process, go one by one.
        n = sum(ceil(asked / side_by_side) for asked in per_instant.values())
        latency = took.get(name)
        seconds = None if latency is None else n * latency
        if (limits := parse_rate(request.limits.rate)) and seconds is not None:
            most = sum(per_instant.values())
            seconds = max(seconds, *(most / limit.calls * limit.seconds for limit in limits))
        found.append(
            {
                "forecaster": name,
                "instants": len(per_instant),
                "rounds": n,
                "concurrency": side_by_side,
                "seconds_a_call": latency,
                "seconds": seconds,
            }
        )
    return max(found, key=_slowness, default=None)


def _slowness(one: OrderCost) -> tuple[float, bool, int]:
    """By time, as far as it is known; without it those that are asked over a connection first."""
    return one["seconds"] or 0.0, one["forecaster"].startswith("http"), one["rounds"]
