"""What the runs of a token's user may cost, all together, and who started which run."""

import json
import time
from pathlib import Path
from typing import Any

from apiserver import Api, api
from provider import Provider
from serving import command
from test_refused import refused

QUICK = {"every": "28d", "draws": 100, "placebo": 0, "archive": "sim"}
SCOPES = ("--scopes", "read,start")


def issue(home: Path, user: str, *more: str) -> str:
    done = command(home, "token", "issue", "--user", user, *SCOPES, *more, "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])


def ended(served: Api, run_id: str, token: str) -> Any:
    for _ in range(300):
        found = served.get(f"/api/runs/{run_id}", token).json()
        if found["status"] not in ("running", "unfinished"):
            return found
        time.sleep(0.2)
    raise AssertionError(f"{run_id} did not end")


def spent(home: Path, user: str | None, of: str | None = None) -> dict[str, Any]:
    """A user's line of dollars: with `user` None, from the list of all."""
    who = [] if user is None else ["--user", user]
    done = command(home, "token", "usage", *who, "--json")
    rows = [r for r in json.loads(done.stdout)["usage"] if r["limit"] == "US dollars for runs"]
    (row,) = (r for r in rows if r["user"] == (user or of))
    return dict(row)


def test_a_token_has_a_budget_for_all_its_runs(made: Path, provider: Provider) -> None:
    """Each answer costs 0.01: a run of .2 dollars stops there, and what is left is counted."""
    ann, bob = issue(made, "ann", "--budget", "0.5"), issue(made, "bob")
    body = {**QUICK, "forecasters": [provider.address()]}
    with api(made, "--archive", "data/sim", "--auth", "token") as guarded:
        unlimited = guarded.post("/api/backtests", body, ann)
        refused(unlimited, 422, "may cost money, so set limits.max_cost")
        much = {**body, "limits": {"max_cost": 0.6}}
        refused(guarded.post("/api/backtests", much, ann), 422, "$0.50 of it are left")
        some = {**body, "run_id": "anns", "limits": {"max_cost": 0.205, "concurrency": 1}}
        key = {"Idempotency-Key": "anns-key"}
        assert guarded.post("/api/backtests", some, ann, **key).status_code == 202
        found = ended(guarded, "anns", ann)
        assert found["started_by"] == "ann"
        assert (found["status"], round(found["cost"], 2)) == ("stopped", 0.2)
        # What is spent is taken: .3 are left, for a new run and for going on alike.
        more = {**body, "limits": {"max_cost": 0.31}}
        refused(guarded.post("/api/backtests", more, ann), 422, "$0.30 of it are left")
        again = guarded.post("/api/backtests", some, ann, **key).json()
        assert (again["run_id"], again["new"]) == ("anns", False), "the same request is no new one"
        refused(guarded.post("/api/runs/anns/resume", {"max_cost": 0.7}, ann), 422, "cost $0.50")
        # A colleague who resumes it does not pay, and gets around nothing.
        taken = guarded.post("/api/runs/anns/resume", {"max_cost": 0.7}, bob)
        refused(taken, 422, "the budget of ann, who started run anns, is $0.50")
        assert guarded.post("/api/runs/anns/resume", {"max_cost": 0.3}, ann).status_code == 202
        assert 0.28 < ended(guarded, "anns", ann)["cost"] <= 0.3
        # A run that was cancelled before it spent anything reserves nothing, and is no way around.
        idle = {**body, "run_id": "idle", "limits": {"max_cost": 0.15, "max_calls": 1}}
        assert guarded.post("/api/backtests", idle, ann).status_code == 202
        assert ended(guarded, "idle", ann)["status"] == "stopped"
        again = guarded.post("/api/runs/idle/resume", {"max_calls": 900, "max_cost": 0.25}, ann)
        refused(again, 422, "may cost $")
        # Baselines cost nothing, and another user has no budget.
        free = {**QUICK, "forecasters": ["drift"], "run_id": "frees"}
        assert guarded.post("/api/backtests", free, ann).status_code == 202
        assert ended(guarded, "frees", ann)["status"] == "success"
        other = {**body, "run_id": "bobs", "limits": {"max_cost": 0.6}}
        assert guarded.post("/api/backtests", other, bob).status_code == 202
        assert ended(guarded, "bobs", bob)["started_by"] == "bob"
        listed = {r["run_id"]: r for r in guarded.get("/api/runs", ann, limit=1000).json()["items"]}
        assert (listed["anns"]["started_by"], listed["walk"]["started_by"]) == ("ann", None)
    row = spent(made, "ann")
    assert row["of"] == 0.5
    assert 0.29 < row["used"] <= 0.32
    assert round(row["used"] + row["left"], 6) == 0.5
    assert "ann" in command(made, "runs", "list").stdout
    assert "started by ann" in command(made, "runs", "show", "anns").stdout
    assert "resumed by ann" in command(made, "runs", "show", "anns").stdout
    # The budget that was stated last holds, and what was spent stays in sight without a token.
    issue(made, "ann", "--budget", "2")
    assert spent(made, "ann")["of"] == 2.0
    issue(made, "ann", "--budget", "0.4")
    assert spent(made, "ann")["of"] == 0.4
    for user in ("ann", "bob"):
        assert command(made, "token", "revoke", "--user", user).returncode == 0
        used, whole = spent(made, user)["used"], spent(made, None, user)
        assert used > 0.25
        assert (whole["used"], whole["of"], whole["left"]) == (used, None, None)
    done = command(made, "token", "issue", "--user", "x", "--budget", "-1")
    assert (done.returncode, "between 0 and" in done.stderr) == (2, True)
