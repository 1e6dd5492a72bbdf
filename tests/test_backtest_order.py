"""The order of questions as users meet it: the grid, what waits for what, what is shown of the past."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from provider import Judge, Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import EPOCH, from_us, iso, parse_instant, to_us
from beforehand.config import Home
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.order import Replacement, compile_plan
from beforehand.jobs.backtest.select import Experiments
from experiments import (
    DAY,
    MONDAY,
    QUICK,
    Out,
    cast_of,
    config,
    experiment,
    intervals,
    told,
    waits_for,
)

A, B = "http://127.0.0.1:1/a", "http://127.0.0.1:2/b"


def test_in_the_plan_an_instant_waits_for_the_one_before() -> None:
    configs = [
        *(experiment(f"X:m{i:03d}", MONDAY, 5, DAY, A) for i in range(70)),
        experiment("X:m000", MONDAY + timedelta(hours=12), 4, DAY, B),
        experiment("X:m001", MONDAY, 3, 2 * DAY, "baseline:market", "baseline:drift"),
        experiment("X:m002", MONDAY, 3, DAY, "scripted"),
    ]
    plan = compile_plan("r", configs, cast_of(configs))
    waits = waits_for(plan)
    asked = [step for step in plan.steps if "time" in step.args]
    assert {step.args["time"] for step in asked} == {
        iso(MONDAY + timedelta(hours=12 * i)) for i in range(9)
    }
    for late in asked:
        early = {s.id for s in asked if s.args["time"] < late.args["time"]}
        assert early <= waits[late.id], "all earlier instants, of both forecasters"
        beside = {s.id for s in asked if s.args["time"] == late.args["time"]}
        assert not beside & waits[late.id], "within an instant nobody waits"
    assert max(len(step.args["experiments"]) for step in asked) <= 32
    free = [step for step in plan.steps if step.id.startswith("walk/")]
    assert [step.args["experiments"] for step in free] == [[71], [72]]
    assert all(not step.deps for step in free), "the memoryless wait for nobody"


def test_experiments_are_made_as_they_were_given() -> None:
    given = [
        experiment("X:a", MONDAY, 5, DAY, A),
        experiment("X:b", MONDAY + timedelta(microseconds=1), 3, DAY, "scripted", B),
        experiment("X:a", MONDAY, 1, 2 * DAY, "baseline:market"),
    ]
    kept = Experiments.of(given)
    assert [*kept] == given == kept[:] == [kept[k - 3] for k in range(3)]
    assert kept[1:] == given[1:]
    assert [kept.count(k) for k in range(3)] == [grid.count(one) for one in given] == [5, 3, 1]
    assert kept.markets == ["X:a", "X:b", "X:a"]
    assert Experiments.of(kept) is kept
    with pytest.raises(IndexError):
        _ = kept[3]
    assert not Experiments()


def test_a_forks_models_are_waited_for_as_well() -> None:
    configs = [
        experiment("X:a", MONDAY, 3, DAY, "baseline:market"),
        experiment("X:b", MONDAY, 3, DAY, "baseline:market"),
    ]
    swap = Replacement(MONDAY + timedelta(days=1), {"baseline:market": A})
    assert not any(
        "time" in step.args for step in compile_plan("r", configs, cast_of(configs)).steps
    )
    assert (
        sum(
            "time" in step.args
            for step in compile_plan(
                "r", configs, cast_of(configs, *swap.models.values()), swap
            ).steps
        )
        == 3
    )


def test_the_grid_is_clipped_and_never_shifted() -> None:
    first, end = to_us(MONDAY + timedelta(days=1, hours=8)), MONDAY + timedelta(days=40)
    week, start = timedelta(days=7), MONDAY + timedelta(days=16)
    whole = grid.life(first, end, week, "aligned")
    assert [from_us(t) for t in whole.t] == [MONDAY + week * k for k in range(1, 6)]
    clipped = grid.life(first, end, week, "aligned", start, MONDAY + week * 4)
    assert [from_us(t) for t in clipped.t] == [MONDAY + week * 3, MONDAY + week * 4]
    own = grid.life(first, end, week, "own", start)
    assert [from_us(t) for t in own.t] == [from_us(first) + week * k for k in range(3, 6)]
    assert not whole.short
    assert (to_us(MONDAY) - grid.ORIGIN_US) % to_us(EPOCH + week) == 0
    exactly = grid.life(to_us(MONDAY), MONDAY + week, week, "aligned")
    assert [from_us(t) for t in exactly.t] == [MONDAY], "t0 counts, the end does not"
    brief = grid.life(first, MONDAY + timedelta(days=5), week, "aligned")
    assert (brief.t.tolist(), brief.short) == ([first], True)
    assert not len(grid.life(first, MONDAY + timedelta(days=5), week, "aligned", start).t)
    assert not len(grid.life(first, MONDAY, week, "own").t)


def test_markets_too_short_for_the_grid_are_scored_apart(
    made: Path, home: Path, capsys: Out
) -> None:
    command = ("backtest", "run", "--archive", str(made), "--forecasters", "market,drift", *QUICK)
    found = told(capsys, *command, "--run-id", "r")
    assert found["validity"]["n_questions"]["value"] == 3
    assert found["validity"]["short_markets"]["value"] == 2
    short = found["short"]
    assert (short["n_questions"], short["n_forecasts"]) == (2, 2)
    assert {row["forecaster"]: row["n"] for row in short["leaderboard"]} == {
        "market": 2,
        "drift": 2,
    }
    asked = [r for r in intervals(home, "r") if r["market_id"] in ("KALSHI:m3", "KALSHI:m4")]
    assert [parse_instant(r["time"]) for r in asked] == [
        MONDAY + timedelta(days=1, hours=9),
        MONDAY + timedelta(days=8, hours=9),
    ], "once each, at the first price"
    own = told(capsys, *command, "--grid", "own", "--run-id", "o")
    assert own["validity"]["n_questions"]["value"] == 5
    assert own["short"] is None
    assert cli([*command]) == 0
    assert "2 markets hold no instant of the grid" in capsys.readouterr().out
    page = (Home(home).runs / "r" / "report.html").read_text()
    assert "Markets too short for the grid" in page


def test_a_world_with_nothing_on_the_grid_is_refused(
    made: Path, provider: Provider, home: Path, capsys: Out
) -> None:
    who = f"market,{provider.address()}"
    command = ["backtest", "run", "--archive", str(made), "--forecasters", who, "--every", "400d"]
    assert cli(command) == 2
    assert "ask more often (--every), or use --grid own" in capsys.readouterr().err
    assert provider.log == []


def test_what_is_shown_of_the_past_is_of_the_same_configuration(
    provider: Provider, made: Path, home: Path, capsys: Out
) -> None:
    """Other intervals in one run: each context shows its own market's aggregates, whatever the
    instants in between."""
    path = home / "c.json"
    start = MONDAY + timedelta(days=4)
    path.write_text(
        json.dumps(
            [
                experiment("KALSHI:m0", start, 8, DAY, provider.address()).wire(),
                experiment("KALSHI:m1", start, 3, 3 * DAY, provider.address()).wire(),
                experiment("KALSHI:m2", start, 15, DAY, provider.address()).wire(),
            ]
        )
    )
    told(capsys, "backtest", "run", str(path), "--archive", str(made), "--run-id", "r", *QUICK)
    past: dict[str, list[dict[str, Any]]] = {}
    for row in intervals(home, "r"):
        mine = past.setdefault(row["market_id"], [])
        assert row["context"]["previous_intervals"] == mine[-10:]
        together = row["aggregate"]["probability"]
        mine.append({"time": row["time"], "aggregated_probability": together})
    assert {name: len(rows) for name, rows in past.items()} == {
        "KALSHI:m0": 8,
        "KALSHI:m1": 3,
        "KALSHI:m2": 15,
    }
    twice = json.loads(path.read_text())
    path.write_text(json.dumps([*twice, twice[0]]))
    capsys.readouterr()
    assert cli(["backtest", "run", str(path), "--archive", str(made)]) == 2
    assert "is asked about KALSHI:m0 by two experiments" in capsys.readouterr().err


def test_a_journal_of_another_version_is_refused(home: Path, sim: Path, capsys: Out) -> None:
    path = Home(home).journal
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE runs (run_id TEXT PRIMARY KEY)")
    assert cli(["backtest", "run", "--archive", str(sim), "--forecasters", "market"]) == 2
    err = capsys.readouterr().err
    assert "a journal of version 1" in err
    assert "move it away" in err


def test_simulations_of_one_instant_go_side_by_side(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    with serving(Judge(latency=0.05)) as judge:
        path = config(home / "c.json", market, models=[judge.address()], num_sims=8)
        told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
        assert judge.most == 8
        assert (judge.late, judge.early, judge.judged) == (0, 0, 48)
