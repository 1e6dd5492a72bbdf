"""Parts of the rows: what a forecaster gains in each, and where it may be said."""

from dataclasses import replace

import numpy as np
import pytest

from beforehand.score.evaluate import Settings, evaluate
from beforehand.score.positions import AgainstMarket, gains
from beforehand.score.skill import Options
from beforehand.score.slices import slices
from beforehand.score.summary import SliceWire
from beforehand.score.table import Table
from beforehand.score.validity import SetFacts
from beforehand.score.verdict import for_tries
from priced_worlds import World, early_yes, every, expit, log_odds, walks

FAST = Options(draws=200, subjects=("f",))


def in_categories(world: World) -> Table:
    """Every second question is of category b; half of them state when they close."""
    made = world.table()
    n = len(made.questions)
    closes = np.where(np.arange(n) % 4 < 2, made.resolved_at.max(), 0)
    return replace(made, category=["a", "b"] * (n // 2), closes=closes)


def said(parts: list[SliceWire], by: str) -> dict[str, str]:
    return {
        one["name"]: gain["verdict"] for one in parts if one["by"] == by for gain in one["gains"]
    }


def known_walks(seed: int, open_too: bool = False) -> Table:
    """Walks of which the forecaster knows more than the price in category b alone."""
    rng, n = np.random.default_rng(seed), 400
    m, y = walks(rng, n, 0.0, rng.integers(0, 200, n), np.full(n, 70))
    p = np.where(every(m), expit(log_odds(m) + np.where(y > 0.5, 0.7, -0.7)[:, None]), np.nan)
    p[::2] = np.where(np.isfinite(p[::2]), m[::2] * 0.98, np.nan)
    return in_categories(World(m, p, y, np.full(n, 10.0)))


def test_skill_is_told_in_the_part_that_has_it() -> None:
    parts = slices(known_walks(1), FAST)
    found = said(parts, "category")
    assert found["b"] == "beats the market"
    assert found["a"] != "beats the market"
    gains = [gain for one in parts for gain in one["gains"]]
    factor = for_tries([], len(gains))
    assert factor > 1.3
    for gain in gains:
        (low, high), (lower, higher) = gain["ci"], gain["bounds"]
        assert None not in (low, high, lower, higher)
        assert higher - lower == pytest.approx(factor * (high - low))  # type: ignore[operator]


def test_the_gains_of_parts_add_up_to_that_of_all() -> None:
    made = known_walks(2)
    whole = gains(made, {"f": AgainstMarket("f")})["f"]
    parts = slices(made, FAST)
    for by in ("price", "category"):
        mine = [one for one in parts if one["by"] == by]
        assert len(mine) > 1
        # Each question was to be asked ten times, so that each forecast weighs a tenth.
        summed = sum(g["mean"] * one["n_forecasts"] / 10 for one in mine for g in one["gains"])  # type: ignore[operator]
        assert summed == pytest.approx(whole.total, abs=1e-9)


def test_parts_are_the_same_however_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = known_walks(2)
    together = slices(made, FAST)
    monkeypatch.setattr("beforehand.score.slices.CELLS", 1_000)
    assert slices(made, FAST) == together


def test_a_part_known_afterwards_has_no_gain() -> None:
    """By when a market did end, whoever says more than the price "has skill" shortly before; the
    days to the close that was stated do not say whether it ends."""
    made, outside, beats = 20, 0, 0
    for seed in range(made):
        parts = slices(
            in_categories(early_yes(np.random.default_rng(seed), 300, 60, 0.03, 0.1)), FAST
        )
        assert {one["by"] for one in parts if not one["gains"]} <= {"days to end", "resolved in"}
        by_end = [one for one in parts if one["by"] == "days to end"]
        assert by_end
        assert not any(one["gains"] for one in by_end)
        assert said(parts, "days to close")
        for one in by_end:
            low = next(r for r in one["leaderboard"] if r["forecaster"] == "f")["skill_ci"][0]
            outside += low is not None and low > 0
        beats += sum(
            "beats the market" in said(parts, by).values()
            for by in ("price", "category", "days to close")
        )
    assert outside > made / 2, "the control: the description says it"
    assert beats <= 1


def test_open_positions_count_in_their_part() -> None:
    """Half of the questions are open: their positions count at the last price."""
    made = known_walks(3)
    late = np.arange(len(made.questions)) % 4 == 1
    still = made.where(late[made.q])
    settled = made.where(~late[made.q])
    still.y[:] = np.nan
    both = replace(settled, open=replace(still, event=still.event + settled.event.max() + 1))
    alone, together = slices(settled, FAST), slices(both, FAST)
    for one, other in zip(alone, together, strict=True):
        if one["by"] == "category":
            mine, theirs = (part["gains"][0]["mean"] for part in (one, other))
            assert mine is not None
            assert theirs is not None
            assert (abs(mine - theirs) < 1e-12) == (one["name"] == "a")


def test_a_part_is_bound_by_what_binds_all() -> None:
    """A forecaster that may not be said to beat the market on all rows does so on no part."""
    made = known_walks(1)
    facts = SetFacts(documents=0, subjects=("f",))
    settings = Settings(draws=200, placebo=0, subjects=("f",))
    free = evaluate(made, facts, settings)
    assert said(free.slices, "category")["b"] == "beats the market"
    bound = evaluate(made, replace(facts, undated=1), settings)
    assert "beats the market" not in said(bound.slices, "category").values()
    bad = replace(made, forecasts={"f": 1 - made.forecasts["f"]})
    assert "worse than the market" in said(evaluate(bad, facts, settings).slices, "price").values()
    most_left_out = evaluate(bad, replace(facts, share_scored=0.4), settings)
    assert {*said(most_left_out.slices, "price").values()} == {"not shown"}
    few = replace(made, forecasts={"f": np.where(made.t % 9 == 0, np.nan, made.forecasts["f"])})
    left_out = evaluate(few, facts, settings)
    row = next(row for row in left_out.rows if row.forecaster == "f")
    assert row.answered < 0.95
    assert "beats the market" not in said(left_out.slices, "category").values()


def test_a_gain_at_old_prices_is_none_in_a_part_either() -> None:
    made = known_walks(1)
    stale = replace(made, price_age=np.where(made.q % 2 == 1, 30.0, 0.0))
    part = next(one for one in slices(stale, FAST) if one["name"] == "b")
    (gain,) = part["gains"]
    assert gain["bounds"][0] is not None
    assert gain["bounds"][0] > 0, "the control: it gains on all rows"
    assert gain["verdict"] == "not shown"
