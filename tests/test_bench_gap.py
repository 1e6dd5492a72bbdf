"""The configuration of a backtest on open events: sealed, resolved, and the gap between the two."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import time_machine

from beforehand.cli.app import run as cli
from beforehand.clock import iso, parse_instant
from beforehand.config import Home
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs.benchmark.live import Side, configuration_of, gaps
from beforehand.store.archive.reader import Archive
from beforehand.store.run_folder import open_run
from experiments import Out, told

FEW = ("--draws", "300", "--placebo", "0")


@pytest.fixture
def middle(sim: Path) -> str:
    """An instant at which a third of the markets have ended."""
    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    ends = sorted(r.known_at for r in view.resolutions())
    return iso(ends[len(ends) // 3] - timedelta(hours=1))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ingested(sim: Path, home: Path, capsys: Out, now: str, name: str = "one") -> Path:
    """A round of what is open then."""
    folder = home / "rounds" / name
    with time_machine.travel(parse_instant(now), tick=False):
        told(capsys, "bench", "ingest", "--archive", str(sim), "--out", str(folder), "--open")
    return folder


def resolved(folder: Path, sim: Path, capsys: Out) -> dict[str, float]:
    out = folder / "resolutions.jsonl"
    told(capsys, "bench", "resolve", "--events", str(folder / "events.jsonl"), "--out", str(out), "--archive", str(sim))  # fmt: skip
    return {e["id"]: e.get("payout", e["outcome"]) for e in lines(out)}


def test_a_backtest_goes_live(sim: Path, home: Path, capsys: Out, middle: str) -> None:
    """Backtested, sealed on open events, resolved, and compared; asked once; what is done to the
    file afterwards changes nothing, and is named."""
    here = ["--archive", str(sim)]
    names = "market,drift,agent:purple,extremised"
    told(capsys, "backtest", "run", *here, "--forecasters", names, "--run-id", "r", *FEW)
    now, folder = parse_instant(middle), ingested(sim, home, capsys, middle)
    live = ["bench", "live", "r", *here, "--round", str(folder)]
    with time_machine.travel(now, tick=False):
        made = told(capsys, *live)
    events = lines(folder / "events.jsonl")
    assert made["counts"] == {
        "events": len(events), "predictions": 4 * len(events), "missing": 0,
        "without_market": 0, "unanswered": [],
    }  # fmt: skip
    assert (made["sealed"], made["new"]) == (4 * len(events), True)
    assert Path(made["log"]) == folder.parent / "sealed.jsonl"
    gap = ["bench", "gap", "r", *here, "--round", str(folder)]
    assert cli(gap) == 2, "nothing has resolved yet"
    assert "resolve" in capsys.readouterr().err
    with time_machine.travel(now + timedelta(hours=2), tick=False):
        again = told(capsys, *live)
    assert (again["new"], again["sealed"], again["head"]) == (False, 0, made["head"])
    ended = resolved(folder, sim, capsys)
    found = told(capsys, *gap)
    by = {one["forecaster"]: one for one in found["gaps"]}
    assert set(by) == {"drift", "agent:purple", "extremised"}
    (counted,) = found["rounds"]
    assert counted["scored"] == 3 * len(ended)
    assert (counted["too_late"], counted["without_price"]) == (0, 0)
    view = Gateway(RecordedWorld(Archive(sim))).at(now)
    file = folder / "predictions.r.jsonl"
    said = {
        r["id"]: r["prediction"]["probability"]
        for r in lines(file)
        if r["metadata"]["predictor_id"] == "drift"
    }
    gateway = Gateway(RecordedWorld(Archive(sim)))
    midnight = gateway.at(now.replace(hour=0, minute=0, second=0) + timedelta(days=1))
    gained = [
        2 * (said[m] - view.odds(m).price) * (y - midnight.odds(m).price)
        - (said[m] - view.odds(m).price) ** 2
        for m, y in ended.items()
    ]
    assert by["drift"]["live"] == pytest.approx(np.mean(gained))
    scores = json.loads((home / "data" / "runs" / "r" / "scores.json").read_text())
    (row,) = [r for r in scores["leaderboard"] if r["forecaster"] == "drift"]
    assert by["drift"]["backtest"] == row["evidence"]["mean"]
    low, high = by["drift"]["ci"]
    assert low < by["drift"]["gap"] < high
    kept = [row for row in lines(file) if row["id"] != events[0]["id"]]
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))
    assert told(capsys, *gap)["gaps"] == found["gaps"], "the log is what counts"
    log = [
        "bench",
        "verify",
        "--log",
        str(folder.parent / "sealed.jsonl"),
        "--predictions",
        str(file),
    ]
    assert cli(log) == 1
    assert f"{events[0]['id']}, drift" in capsys.readouterr().err


def test_who_seals_two_has_both_counted(sim: Path, home: Path, capsys: Out, middle: str) -> None:
    """Once nearly no, once nearly yes about everything: the right one cannot be picked afterwards,
    neither in the gap nor in the evaluation of a file with the right ones alone."""
    here = ["--archive", str(sim)]
    told(capsys, "backtest", "run", *here, "--forecasters", "market,drift", "--run-id", "r", *FEW)
    now, folder = parse_instant(middle), ingested(sim, home, capsys, middle)
    log, made = folder.parent / "sealed.jsonl", dict[float, list[dict[str, Any]]]()
    for hour, p in enumerate((0.02, 0.98)):
        made[p] = [
            {"id": e["id"], "prediction": {"probability": p},
             "metadata": {"model": "drift", "predictor_id": "drift", "timestamp": iso(now + timedelta(hours=hour))}}
            for e in lines(folder / "events.jsonl")
        ]  # fmt: skip
        file = home / f"{p}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in made[p]))
        with time_machine.travel(now + timedelta(hours=hour), tick=False):
            told(capsys, "bench", "seal", "--predictions", str(file), "--log", str(log))
    ended = resolved(folder, sim, capsys)
    (one,) = told(capsys, "bench", "gap", "r", *here, "--round", str(folder))["gaps"]
    assert one["live"] < -0.05, "both count"
    right = [row for p, rows in made.items() for row in rows if ended.get(row["id"]) == round(p)]
    picked = home / "picked.jsonl"
    picked.write_text("".join(json.dumps(row) + "\n" for row in right))
    score = [
        "bench",
        "evaluate",
        "--events",
        str(folder / "events.jsonl"),
        "--predictions",
        str(picked),
        *FEW,
    ]
    score += ["--resolutions", str(folder / "resolutions.jsonl"), "--sealed", str(log), *here]
    board = {r["forecaster"]: r for r in told(capsys, *score)["leaderboard"]}
    assert board["drift"]["brier"] < 0.001
    assert board["drift"]["verdict"] == "not shown"
    assert board["drift"]["answered"] < 0.6


def test_a_round_that_was_changed_is_refused(
    sim: Path, home: Path, capsys: Out, middle: str
) -> None:
    """Events that were lost after the outcome, a round named twice, a folder that is none."""
    here = ["--archive", str(sim)]
    told(capsys, "backtest", "run", *here, "--forecasters", "market,drift", "--run-id", "r", *FEW)
    folder = ingested(sim, home, capsys, middle)
    with time_machine.travel(parse_instant(middle), tick=False):
        told(capsys, "bench", "live", "r", *here, "--round", str(folder))
    resolved(folder, sim, capsys)
    gap = ["bench", "gap", "r", *here]
    assert cli([*gap, "--round", str(folder), "--round", str(folder)]) == 2
    assert "named twice" in capsys.readouterr().err
    assert cli([*gap, "--round", str(home)]) == 2
    whole = (folder / "events.jsonl").read_text()
    (folder / "events.jsonl").write_text("\n".join(whole.splitlines()[3:]) + "\n")
    for order in (gap, ["bench", "live", "r", *here]):
        assert cli([*order, "--round", str(folder)]) == 1
        assert "was changed after the round was frozen" in capsys.readouterr().err
    (folder / "events.jsonl").write_text(whole)
    questions = home / "data" / "runs" / "r" / "questions.csv"
    questions.write_text(questions.read_text().replace(",-0.0", ",0.5"))
    seal = json.loads((home / "data" / "runs" / "r" / "run.json").read_text())
    seal["files"]["questions.csv"] = digest(questions.read_bytes())
    (home / "data" / "runs" / "r" / "run.json").write_text(json.dumps(seal))
    assert cli([*gap, "--round", str(folder)]) == 1
    assert "run.json was changed or removed" in capsys.readouterr().err


def test_the_configuration_is_the_whole_one(
    sim: Path, home: Path, capsys: Out, middle: str
) -> None:
    """Mode, simulations and searches of a model, not the usual ones."""
    told(
        capsys, "backtest", "run", "--archive", str(sim), "--forecasters", "scripted,drift", "--every", "120d",
        "--mode", "direct_llm", "--sims", "2", "--run-id", "m", *FEW,
    )  # fmt: skip
    found = configuration_of(open_run(Home(home).runs, "m"))
    assert set(found.forecasters) == {"market", "scripted", "drift"}
    assert (found.asking.options.mode, found.asking.sims) == ("direct_llm", 2)
    told(
        capsys,
        "bench",
        "run",
        "--archive",
        str(sim),
        "--forecasters",
        "drift",
        "--run-id",
        "b",
        *FEW,
    )
    here = ["--archive", str(sim)]
    assert cli(["bench", "live", "b", "--round", str(home), *here]) == 2
    assert "there is no frozen round at" in capsys.readouterr().err
    folder = ingested(sim, home, capsys, middle)
    assert cli(["bench", "live", "b", "--round", str(folder), *here]) == 2
    assert "is no finished backtest" in capsys.readouterr().err


def _side(draw: np.random.Generator, mean: float, error: float) -> dict[str, Side]:
    """A side whose mean is drawn with this standard error, which is stated."""
    found = float(draw.normal(mean, error))
    return {"a": Side(found, 1.96 * error, periods=40.0, questions=100, events=80)}


def test_the_interval_holds_the_true_gap() -> None:
    """Of 1,000 pairs of sides some 95 % hold the planted gap; a gap of five errors is told in
    nearly all, and where there is none, in some 5 %."""
    draw, held, told_none = np.random.default_rng(4), 0, 0
    for i in range(1000):
        gap = 0.01 if i % 2 else 0.0
        (one,) = gaps(_side(draw, 0.02, 0.004), _side(draw, 0.02 + gap, 0.006))
        low, high = one["ci"]
        assert low is not None
        assert high is not None
        held += low <= gap <= high
        told_none += one["told"] and not gap
    assert 0.93 <= held / 1000 <= 0.97
    assert told_none / 500 < 0.08
    wide = [gaps(_side(draw, 0.02, 0.004), _side(draw, -0.03, 0.006))[0] for _ in range(100)]
    assert sum(one["told"] and one["gap"] < 0 for one in wide) > 90


def test_few_periods_tell_nothing() -> None:
    """However far the two lie apart."""
    before = Side(0.02, 0.001, periods=3.2, questions=100, events=80)
    (one,) = gaps({"a": before}, {"a": Side(-0.5, 0.001, 40.0, 100, 80)})
    assert not one["told"]
    assert one["too_few"] == "the backtest: 3.2 effective periods, and 5 are needed"


def test_who_looks_every_day_needs_more() -> None:
    """The evidence that is needed grows with the forecasters in the log."""
    side = Side(0.02, 0.001, 40.0, 100, 80, e_value=60.0, looked=40.0)
    (one,) = gaps({"a": side}, {"a": side})
    assert one["beats_live"]
    (one,) = gaps({"a": side}, {"a": Side(0.02, 0.001, 40.0, 100, 80, e_value=60.0, looked=80.0)})
    assert not one["beats_live"]
