"""Bins of a reliability diagram: one interval everywhere, which is honest with few questions, and
nothing more than chance in the bin that was picked."""

from dataclasses import replace

import numpy as np
import pytest

from beforehand.score.calibration import calibration
from beforehand.score.evaluate import Settings, evaluate
from beforehand.score.metrics import wilson
from beforehand.score.summary import row_wire
from beforehand.score.table import Table
from beforehand.score.validity import SetFacts
from beforehand.world.simulate import SimConfig
from tables import table


@pytest.fixture(scope="module")
def world() -> Table:
    return table(SimConfig(seed=2, dates=60))[0]


def test_where_all_came_true_the_interval_is_wide(world: Table) -> None:
    """42 of 42 at 98 % happen with a probability of .43: within chance, picked or not."""
    rows = np.unique(world.q, return_index=True)[1][:42]
    alone = world.where(np.isin(np.arange(len(world.q)), rows))
    alone = replace(alone, y=np.ones(42), event=np.arange(42))
    alone = replace(alone, forecasts={"f": np.full(42, 0.98)})
    (last,) = [one for one in calibration(alone, "f").bins if one.n]
    assert last.outcome == 1.0
    assert 0.9 < last.ci[0] < 0.98
    assert last.ci[1] == pytest.approx(1.0)
    assert not last.told
    together = replace(alone, event=np.zeros(42, dtype=np.int64))
    (last,) = [one for one in calibration(together, "f").bins if one.n]
    assert last.ci[0] < 0.25, "of one event, it is worth one question"
    far = replace(alone, forecasts={"f": np.full(42, 0.6)})
    assert [one.told for one in calibration(far, "f").bins if one.n] == [True]


def test_the_worst_of_many_bins_is_not_told_by_chance() -> None:
    """A calibrated forecaster: some bin often lies outside of its own interval, hardly ever once
    that is widened for the number of bins."""
    rng, plain, told = np.random.default_rng(0), 0, 0
    for _ in range(200):
        p, outside, widened = rng.random(500), False, False
        y = rng.random(500) < p
        for k in range(10):
            mine = (p >= k / 10) & (p < (k + 1) / 10)
            share, said = float(y[mine].mean()), float(p[mine].mean())
            low, high = wilson(share, int(mine.sum()))
            outside |= not low <= said <= high
            low, high = wilson(share, int(mine.sum()), of=10)
            widened |= not low <= said <= high
        plain, told = plain + outside, told + widened
    assert plain > 50
    assert told <= 20


def test_the_report_has_the_same_intervals(world: Table) -> None:
    result = evaluate(world, SetFacts(documents=0), Settings(draws=100, placebo=0))
    row = next(one for one in result.rows if one.forecaster == "truth")
    bins = row_wire(row, world)["reliability_bins"]
    for k, one in enumerate(calibration(world, "truth").bins):
        if one.n:
            outcome = bins["outcome"][k]
            assert outcome is not None
            assert wilson(outcome, bins["worth"][k]) == pytest.approx(one.ci)
