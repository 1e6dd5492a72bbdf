"""Bringing decisions together: seven methods, and weights from what was known at t."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beforehand.config import Home
from beforehand.forecast.aggregate import METHODS, Method, Past, aggregate, aggregates
from beforehand.runs.rows import read_jsonl
from experiments import QUICK, Out, intervals, told
from proofs import some

MODEL = {"mode": "daytona_agent"}


@pytest.mark.parametrize(
    "method",
    some("ways to bring a run's decisions together", ("median", "extremised", "weighted"), METHODS),
)
def test_every_method_brings_decisions_together(
    method: str, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    arguments = ["--markets", market["id"], "--every", "2d", "--archive", str(sim)]
    arguments += ["--forecasters", "market,always:0.9,scripted", "--run-id", "r", *QUICK]
    told(capsys, "backtest", "run", *arguments, "--aggregate", method)
    for row in intervals(home, "r"):
        said = [d["probability"] for d in row["decisions"]]
        assert row["aggregate"]["method"] == method
        assert min(said) - 0.5 <= row["aggregate"]["probability"] <= 1
        assert row["aggregate"]["decision"] == (
            "YES" if row["aggregate"]["probability"] >= 0.5 else "NO"
        )
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_the_methods_by_hand() -> None:
    said = [0.1, 0.2, 0.3, 0.4, 0.9]
    assert aggregate("mean", said) == pytest.approx(0.38)
    assert aggregate("median", said) == 0.3
    assert aggregate("vote", said) == 0.2
    assert aggregate("trimmed", said) == pytest.approx(0.3)
    assert aggregate("logit_mean", [0.2, 0.8]) == pytest.approx(0.5)
    assert aggregate("extremised", [0.2, 0.2]) == pytest.approx(1 / (1 + 4**1.5))
    assert aggregate("weighted", [0.0, 1.0], [3.0, 1.0]) == 0.25
    assert all(aggregate(method, [0.37]) == pytest.approx(0.37) for method in ("mean", "median"))
    assert all(aggregate(method, []) is None for method in METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_columns_are_brought_together_as_rows_are(method: Method) -> None:
    """To the last digit, with and without forecasts that are missing."""
    rng = np.random.default_rng(4)
    for n in (1, 2, 5, 9):
        whole = rng.random((n, 300))
        some = np.where(rng.random((n, 300)) < 0.3, np.nan, whole)
        for said in (whole, some):
            rows = [[p for p in row if p == p] for row in said.T.tolist()]
            assert aggregates(method, said) == [aggregate(method, row) for row in rows]


def test_weights_come_from_what_was_known(sim: Path, home: Path, capsys: Out) -> None:
    """A fool's weight falls once answers are known, and not before."""
    past = Past()
    assert past.weights(["wise", "fool"]) == [4.0, 4.0]
    past.learn({"wise": 0.9, "fool": 0.1}, 1.0)
    wise, fool = past.weights(["wise", "fool"])
    assert wise > fool
    told(
        capsys,
        *("backtest", "run", "--forecasters", "market,always:0.99", "--archive", str(sim)),
        *("--run-id", "w", "--aggregate", "weighted", "--every", "14d", "--placebo", "0"),
    )
    rows = sorted(intervals(home, "w"), key=lambda row: row["time"])
    endings = list(read_jsonl(Home(home).runs / "w" / "resolutions.jsonl"))
    first = min(row["resolved_at"] for row in endings)

    def leans(row: dict[str, Any]) -> float:
        a, b = (d["probability"] for d in row["decisions"])
        return float((row["aggregate"]["probability"] - b) / (a - b))

    rows = [row for row in rows if abs(row["decisions"][0]["probability"] - 0.99) > 0.2]
    early = [leans(row) for row in rows if row["time"] < first]
    assert early
    assert all(share == pytest.approx(0.5) for share in early), "nothing was known: equal weights"
    assert leans(rows[-1]) > 0.6, "the market's own weight has grown"


@pytest.mark.parametrize("method", [one for one in METHODS if one not in ("extremised", "vote")])
@pytest.mark.parametrize("p", [0.007, 0.1, 1 / 3, 0.999, 0.0, 1.0])
def test_what_is_brought_together_lies_within(method: Method, p: float) -> None:
    """However the sum is rounded: 42 times 0.007 are no less than it."""
    for n in (2, 3, 7, 42):
        assert aggregate(method, [p] * n, [0.3] * n) == pytest.approx(p, abs=2e-4)
        found = aggregate(method, [p] * n, [0.3] * n)
        assert found == p
        assert aggregates(method, np.full((n, 2), p)) == [p, p]
