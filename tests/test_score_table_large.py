"""A table in parts, and with its rows on disk, is scored as one in memory."""

import math
import os
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.score import intervals, metrics
from beforehand.score.bets import (
    Kelly,
    Profit,
)
from beforehand.score.placebo import placebo
from beforehand.score.scoreboard import score
from beforehand.score.skill import Options
from beforehand.score.table import Disk, Table, picked, ranks
from beforehand.store import npy
from beforehand.world.simulate import SimConfig
from tables import on_disk, table


@pytest.fixture(scope="module")
def world() -> Table:
    return table(SimConfig(seed=2, dates=60))[0]


def test_metrics_in_parts_are_those_of_the_whole() -> None:
    """Of one part to the last digit; of several, but for the order of additions."""
    rng = np.random.default_rng(8)
    p, y, w = rng.random(900), (rng.random(900) < 0.4).astype(float), rng.random(900)
    y[:40] = 0.5
    plain = metrics.reliability(p, y, w), metrics.murphy(p, y, w), metrics.sharpness(p, w)
    for cuts in ([0, 900], [0, 1, 300, 300, 900]):
        found = metrics.in_parts(
            lambda cuts=cuts: [(p[i:j], y[i:j], w[i:j]) for i, j in pairwise(cuts)]
        )
        bins, murphy, sharpness = found
        exactly = {"rel": 0, "abs": 0 if len(cuts) == 2 else 1e-12}
        assert vars(murphy) == pytest.approx(vars(plain[1]), **exactly)
        assert sharpness == pytest.approx(plain[2], **exactly)
        for name, values in vars(plain[0]).items():
            np.testing.assert_allclose(vars(bins)[name], values, rtol=0, atol=exactly["abs"])
    nothing, unknown, _ = metrics.in_parts(lambda: [(p[:0], y[:0], w[:0])])
    assert nothing.total == 0
    assert math.isnan(unknown.reliability)


def test_ranks_and_picked_rows_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.score.table.BLOCK", 7)
    rng, disk = np.random.default_rng(5), Disk()
    for n in (0, 1, 6, 7, 60):
        places, mask = rng.integers(0, 9, n), rng.random(n) < 0.4
        for rows in (None, mask):
            there, rank = ranks(places, 9, rows)
            kept, expected = np.unique(
                places if rows is None else places[rows], return_inverse=True
            )
            assert there.tolist() == kept.tolist()
            assert rank[places if rows is None else places[rows]].tolist() == expected.tolist()
        for column in (rng.random(n), rng.random(n) < 0.5, rng.integers(0, 99, n)):
            for kept in (picked(column, mask, None), picked(column, mask, disk)):
                assert kept.dtype == column.dtype
                assert kept.tolist() == column[mask].tolist()
        one = picked(np.broadcast_to(np.nan, n), mask, disk)
        assert len(one) == mask.sum() * (n > 0)
        assert one.strides == (0,) or not n
    before = disk.keep([np.arange(5.0), np.arange(3.0)])
    disk.let_go()
    assert before.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        before[0] = 1


@given(st.lists(st.integers(-50, 50)), st.integers(1, 20))
def test_spans_have_each_value_once(values: list[int], rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(npy, "SPAN", rows)
        column = np.array(values, dtype=np.int64)
        masks = [span(column) for span in npy.spans(column)]
    assert np.sum(masks, axis=0).tolist() == [1] * len(values) if values else not masks
    for low, high in pairwise(masks):
        if low.any() and high.any():
            assert column[low].max() < column[high].min()


def test_a_table_on_disk_is_sent_without_its_columns(world: Table) -> None:
    n = len(world.q)
    held = replace(on_disk(world), bid=np.broadcast_to(np.nan, n), evidence=np.arange(n))
    sent = pickle.dumps(held)
    assert len(sent) < len(pickle.dumps(world)) / 2
    there = pickle.loads(sent)
    for name in ("q", "t", "market", "price_age", "strict", "evidence", "bid", "ask", "event", "y"):
        np.testing.assert_array_equal(getattr(there, name), getattr(held, name), err_msg=name)
        assert getattr(there, name).dtype == getattr(held, name).dtype
    assert there.bid.strides == (0,)
    assert list(there.forecasts) == list(held.forecasts)
    for name, p in held.forecasts.items():
        np.testing.assert_array_equal(there.forecasts[name], p)
    there.let_go()
    assert there.market.tolist() == held.market.tolist()
    whole = pickle.loads(pickle.dumps(world))
    assert whole.market.tolist() == world.market.tolist()


def test_a_table_in_blocks_and_on_disk_is_the_same(
    world: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    some = np.where(rng.random(len(world.q)) < 0.2, np.nan, world.market * 0.9)
    whole = replace(world, forecasts={**world.forecasts, "some": some})
    options = Options(draws=300, kelly=Kelly(spread=0.02))
    expected, drawn = score(whole, options), placebo(whole, options, 20)
    held = on_disk(whole)
    assert list(held.forecasts) == list(whole.forecasts)
    monkeypatch.setattr("beforehand.score.table.BLOCK", 50)
    monkeypatch.setattr("beforehand.score.scoreboard.HELD", 0)
    blocks = list(held.blocks())
    assert len(blocks) > 5
    assert [r.start for r, _ in blocks[1:]] == [r.stop for r, _ in blocks[:-1]]
    assert sum(len(part.questions) for _, part in blocks) == len(world.questions)
    assert placebo(held, options, 20) == drawn
    for mine, theirs in zip(score(held, options), expected, strict=True):
        assert mine.skill == theirs.skill
        assert mine.fresh == theirs.fresh
        assert mine.verdict == theirs.verdict
        if theirs.evidence is not None:
            assert mine.evidence is not None
            assert mine.evidence.leading == theirs.evidence.leading
            assert mine.evidence.interval == pytest.approx(theirs.evidence.interval, rel=1e-12)
        assert (mine.brier, mine.ece) == pytest.approx((theirs.brier, theirs.ece), rel=1e-13)
        assert vars(mine.murphy) == pytest.approx(vars(theirs.murphy), rel=0, abs=1e-12)
        assert mine.sharpness == pytest.approx(theirs.sharpness, rel=0, abs=1e-12)
        assert mine.market_correlation == pytest.approx(theirs.market_correlation, nan_ok=True)
        assert mine.intervals == theirs.intervals
        assert isinstance(mine.profit, Profit)
        for name, value in vars(theirs.profit).items():
            np.testing.assert_equal(vars(mine.profit)[name], value)
    assert sum(row.profit.bets for row in expected if isinstance(row.profit, Profit)) > 100
    for late in (world.t > np.median(world.t), np.arange(len(world.q)) % 170 == 9):
        part = held.where(late)
        assert len(part.q) == late.sum() < len(world.q)
        for name, p in whole.forecasts.items():
            np.testing.assert_array_equal(part.forecasts[name], p[late])
            assert part.forecasts[name] is part.forecasts[name], "it is made once"
    shuffled = held.where(world.q > 3)
    shuffled = replace(shuffled, q=shuffled.q[::-1].copy())
    assert len(list(shuffled.blocks())) == 1, "only whole questions are cut apart"


def test_draws_that_are_cut_short_are_an_error() -> None:
    sampler = intervals.Resampler(np.arange(300), 40, cells=0)
    assert np.isfinite(sampler.totals(np.ones((300, 1)))).all()
    os.ftruncate(sampler._file.fileno(), 300 * 39)
    with pytest.raises(OSError, match="cut short"):
        sampler.totals(np.ones((300, 1)))


def test_draws_of_an_evaluation_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, real = [0], intervals.Resampler._on_disk

    def counted(self: intervals.Resampler, rng: np.random.Generator) -> intervals._File:
        made[0] += 1
        return real(self, rng)

    monkeypatch.setattr(intervals.Resampler, "_on_disk", counted)
    columns = np.ones((300, 2))

    def twice() -> None:
        for _ in range(2):
            total = intervals.Resampler(np.arange(300), 40, cells=0).totals(columns)
            assert total.tolist() == [[300.0, 300.0]] * 40

    twice()
    assert made == [2]
    with intervals.kept_draws():
        twice()
        assert made == [3]
        monkeypatch.setattr(intervals, "_SMALL_CELLS", 20_000)
        for size in (300, 301, 302):
            intervals.Resampler(np.arange(size), 40, cells=0).totals(np.ones((size, 1)))
        held = intervals._KEPT.get()
        assert held is not None
        assert len(held) == 1, "the draws that are kept have a bound"
