"""A metric is one function: it stands in every leaderboard, with an interval, and in no verdict."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.score import metrics
from beforehand.score.metrics import Floats, brier, metric
from experiments import QUICK, Out, told


@pytest.fixture
def added() -> Iterator[None]:
    """Metrics that only this test has."""

    @metric("twice", "lower")
    def twice(p: Floats, m: Floats, y: Floats) -> Floats:
        """Twice the Brier score."""
        return 2 * (p - y) ** 2

    @metric("closer", "higher")
    def closer(p: Floats, m: Floats, y: Floats) -> Floats:
        """Share of forecasts nearer to the outcome than the market."""
        return np.where(p == m, np.nan, np.abs(p - y) < np.abs(m - y))

    yield
    del metrics.ADDED["twice"], metrics.ADDED["closer"]


def test_an_added_metric_stands_everywhere(sim: Path, home: Path, capsys: Out, added: None) -> None:
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,drift", *QUICK]
    found = told(capsys, *command, "--every", "28d", "--run-id", "r")
    by = {row["forecaster"]: row for row in found["leaderboard"]}
    for row in by.values():
        value = row["added"]["twice"]
        assert value["value"] == pytest.approx(2 * row["brier"], rel=1e-12)
        assert value["ci"] == pytest.approx([2 * end for end in row["brier_ci"]], rel=1e-9)
        assert (value["better"], value["about"]) == ("lower", "Twice the Brier score.")
    assert by["market"]["added"]["closer"]["value"] is None, "the market is never off itself"
    assert 0 < by["drift"]["added"]["closer"]["value"] < 1
    folder = Home(home).runs / "r"
    rows = list(csv.DictReader((folder / "leaderboard.csv").read_text().splitlines()))
    assert float(rows[1]["twice"]) == by[rows[1]["forecaster"]]["added"]["twice"]["value"]
    assert rows[0]["closer_low"] == ""
    page = (folder / "report.html").read_text()
    assert 'title="Twice the Brier score.">twice ↓' in page
    assert cli(["runs", "show", "r"]) == 0
    assert "closer ↑" in capsys.readouterr().out


def test_what_is_infinite_has_no_mean(sim: Path, home: Path, capsys: Out) -> None:
    """Left out silently, the worst forecasts would make it look better."""

    @metric("endless", "lower")
    def endless(p: Floats, m: Floats, y: Floats) -> Floats:
        """Infinite for the first five."""
        return np.where(np.arange(len(p)) < 5, np.inf, (p - y) ** 2)

    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market", *QUICK]
    try:
        found = told(capsys, *command, "--every", "28d", "--run-id", "r")
    finally:
        del metrics.ADDED["endless"]
    row = found["leaderboard"][0]["added"]["endless"]
    assert row["value"] is None
    assert f"infinite for 5 of {found['leaderboard'][0]['n']:,} forecasts" in row["error"]


def test_without_it_nothing_is_there(sim: Path, home: Path, capsys: Out) -> None:
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,drift", *QUICK]
    found = told(capsys, *command, "--every", "28d", "--run-id", "r")
    assert all("twice" not in row.get("added", {}) for row in found["leaderboard"])
    assert "twice" not in (Home(home).runs / "r" / "leaderboard.csv").read_text()


def test_a_name_that_is_taken_is_refused(added: None) -> None:
    for name in ("brier", "twice", "no name", "verdict", "forecaster", "isolation", "skill"):
        with pytest.raises(ValueError, match="taken or is not an identifier"):
            metric(name, "lower")(lambda p, m, y: p)
    assert brier(np.array([1.0]), np.array([1.0])) == 0
