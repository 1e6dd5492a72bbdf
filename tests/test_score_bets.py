"""Bets: Kelly stakes by hand, the cash of an instant, and what chance gains."""

from dataclasses import replace

import numpy as np
import pytest

from beforehand.score.bets import (
    NO_BOOK,
    PLAY_MONEY,
    Kelly,
    Profit,
    _exposure,
    profit,
    score_bets,
)
from beforehand.score.prices import counted_prices
from beforehand.score.table import Marks, Table
from beforehand.world.simulate import SimConfig
from priced_worlds import unasked_at_last
from tables import table


@pytest.fixture(scope="module")
def world() -> Table:
    return table(SimConfig(seed=2, dates=60))[0]


def kelly_table(world: Table, bid: float, ask: float, y: float, fee: float = 0.0) -> Table:
    one = world.where(world.q == 0)
    one.bid[:], one.ask[:], one.y[:], one.fee[:] = bid, ask, y, fee
    return one


def test_kelly_by_hand(world: Table) -> None:
    one = kelly_table(world, 0.48, 0.52, 1.0, fee=0.05)
    got = profit(one, np.full(len(one.q), 0.7), Kelly(fraction=0.5, cap=1.0))
    assert isinstance(got, Profit)
    cost = 0.52 + 0.05 * 0.52 * 0.48  # A share with its fee.
    outlay = 0.5 * (0.7 - cost) / (1 - cost)
    assert (got.bets, got.final_wealth) == (1, pytest.approx(1 + outlay * (1 / cost - 1)))
    assert got.staked + got.fees == pytest.approx(outlay)
    no = profit(one, np.full(len(one.q), 0.3), Kelly(fraction=0.5, cap=1.0))
    assert isinstance(no, Profit)
    assert no.final_wealth == pytest.approx(1 - 0.5 * (0.7 - cost) / (1 - cost))
    inside = profit(one, np.full(len(one.q), 0.5))
    assert isinstance(inside, Profit)
    assert (inside.bets, inside.final_wealth) == (0, 1.0)
    free = kelly_table(world, 0.48, 0.52, 1.0)
    between = np.full(len(one.q), 0.525)  # An edge behind the spread, and none behind the fee.
    assert [profit(t, between).bets for t in (free, one)] == [1, 0]  # type: ignore[union-attr]


def test_kelly_says_why_it_cannot(world: Table) -> None:
    one = kelly_table(world, np.nan, np.nan, 1.0)
    p = np.full(len(one.q), 0.99)
    assert profit(one, p) == NO_BOOK
    assumed = profit(one, p, Kelly(spread=0.02))
    assert isinstance(assumed, Profit)
    assert assumed.note == "assumed spread 0.02; fee rates charged: 0 0"
    one.play[:] = True
    assert profit(one, p, Kelly(spread=0.02)) == PLAY_MONEY


def test_bets_by_hand() -> None:
    bets = [
        {"entry_price": 0.5, "won": False, "resolved_ts": 2, "side": "NO"},
        {"entry_price": 0.8, "won": True, "resolved_ts": 1, "side": "YES"},
    ]
    got = score_bets(bets, 2.0, 0.05, "file")
    lost, won = -2 - 2 * 0.05 * 0.5, 2 * (0.25 - 0.05 * 0.2)
    assert got.profit == pytest.approx(lost + won)
    assert got.max_drawdown == pytest.approx(-lost)
    assert score_bets(bets, 2.0, 0.05, "time").max_drawdown == pytest.approx(-lost)
    assert got.sides == {"NO": 1, "YES": 1}


def bets_at(opened: list[int], settled: list[int], y: list[float], p: float = 0.9) -> Table:
    """One question a bet, at 0.48 to 0.52, without fees."""
    n = len(opened)
    return Table(
        questions=[f"SIMEX:{i}" for i in range(n)],
        q=np.arange(n),
        t=np.array(opened),
        market=np.full(n, 0.5),
        price_age=np.zeros(n),
        strict=np.ones(n, dtype=bool),
        evidence=np.zeros(n, dtype=np.int64),
        bid=np.full(n, 0.48),
        ask=np.full(n, 0.52),
        y=np.array(y),
        event=np.arange(n),
        period=np.zeros(n, dtype=np.int64),
        resolved_at=np.array(settled),
        play=np.zeros(n, dtype=bool),
        fee=np.zeros(n),
        forecasts={"f": np.full(n, p)},
    )


def test_bets_share_the_cash_of_an_instant_and_wait_for_more() -> None:
    """Twenty bets of a tenth: each gets a twentieth, whatever its id; later ones find no cash."""
    rules = Kelly(fraction=1.0, cap=0.1)
    made = bets_at([5] * 20 + [7], [10] * 20 + [30], [0.0] * 21)
    got = profit(made, made.forecasts["f"], rules)
    assert isinstance(got, Profit)
    assert (got.bets, got.unfunded) == (20, 1)
    assert got.stake == pytest.approx(np.full(20, 0.05))
    assert (got.final_wealth, got.max_drawdown) == (pytest.approx(0.0), pytest.approx(1.0))
    assert (got.wealth >= 0).all()
    again = bets_at([5] * 20 + [7, 12], [10] * 20 + [30, 30], [1.0] * 22)
    again.q[-1], again.q[-2] = 20, 20  # The same question once more, after the others paid.
    got = profit(again, again.forecasts["f"], rules)
    assert isinstance(got, Profit)
    assert (got.bets, got.unfunded) == (21, 0)
    assert got.t.tolist()[-1] == 12


def test_what_settles_together_is_one_step_of_the_wealth() -> None:
    rules = Kelly(fraction=1.0, cap=0.1)
    made = bets_at([5] * 4, [10] * 4, [0.0, 1.0, 0.0, 1.0])
    got = profit(made, made.forecasts["f"], rules)
    assert isinstance(got, Profit)
    assert got.settled.tolist() == [10]
    turned = bets_at([5] * 4, [10] * 4, [1.0, 1.0, 0.0, 0.0])
    other = profit(turned, turned.forecasts["f"], rules)
    assert isinstance(other, Profit)
    assert (got.final_wealth, got.max_drawdown) == (other.final_wealth, other.max_drawdown)
    undated = bets_at([5, 6], [0, 0], [1.0, 1.0])
    paid = profit(undated, undated.forecasts["f"], rules)
    assert isinstance(paid, Profit)
    assert paid.final_wealth > 1


def test_wealth_that_chance_reaches() -> None:
    """At fair prices a wealth of W is reached at most once in W worlds, whether all coins fall
    together or each alone; who won ten bets of half of what there is has reached it."""
    rules, rng = Kelly(fraction=1.0, cap=0.2, spread=0.0), np.random.default_rng(3)
    for joint in (False, True):
        shares = []
        for _ in range(400):
            coin = (rng.random(30) < 0.5).astype(float)
            made = bets_at(
                list(range(30)), [40] * 30, [float(coin[0])] * 30 if joint else list(coin)
            )
            fair = replace(
                made, market=np.full(30, 0.5), bid=np.full(30, 0.5), ask=np.full(30, 0.5)
            )
            got = profit(fair, np.full(30, 0.8), rules)
            assert isinstance(got, Profit)
            assert got.by_chance == min(1.0, 1 / max(got.final_wealth, 1e-300))
            shares.append(got.by_chance)
        for level in (0.05, 0.2, 0.5):
            reached = float(np.mean(np.array(shares) <= level))
            assert reached <= level + 3 * np.sqrt(level * (1 - level) / 400)
    assert replace(got, tried=10).best_by_chance == min(1.0, 10 * got.by_chance)
    nothing = profit(fair, np.full(30, 0.5), rules)
    assert isinstance(nothing, Profit)
    assert nothing.by_chance is None


def test_open_bets_stand_at_their_last_price() -> None:
    """What is left of a bettor whose markets are still open, and who would look rich on the others
    alone."""
    made, rules = bets_at([5], [10], [1.0]), Kelly(fraction=1.0, cap=0.5)
    waiting = bets_at([6], [0], [np.nan])
    waiting = replace(
        waiting, marks=Marks(np.array([0, 0]), np.array([7, 9]), np.array([0.9, 0.2]))
    )
    alone = profit(made, made.forecasts["f"], rules)
    both = replace(made, open=waiting).whole
    got = profit(both, both.said("f"), rules)
    assert isinstance(alone, Profit)
    assert isinstance(got, Profit)
    assert both.y.tolist() == [1.0, 0.2]
    assert (alone.bets, got.bets) == (1, 2)
    second = got.stake[1] / got.price[1] * (0.2 - got.price[1])
    assert got.gain[1] == pytest.approx(second)
    assert got.final_wealth == pytest.approx(1 + got.gain.sum())
    assert got.final_wealth < alone.final_wealth
    assert made.whole is made


def test_a_bet_pays_when_it_is_known_how_it_ended() -> None:
    """Not on a date that the venue states for later, unless that is asked for."""
    made = bets_at([5], [200], [1.0])
    known = replace(made, known_at=np.array([20]))
    for rules, at in ((Kelly(), 20), (Kelly(settle="stated"), 200)):
        got = profit(known, known.forecasts["f"], rules)
        assert isinstance(got, Profit)
        assert got.settled.tolist() == [at]
    assert known.settled_at.tolist() == [20]
    assert replace(made, known_at=np.array([0])).settled_at.tolist() == [200]


def test_what_open_bets_hold_at_most() -> None:
    """Three bets of .1, .2 and .3; the first settles as the third is made, and the second and the
    third are on one event."""
    event, t, settles = (np.array(x) for x in ([0, 1, 1], [0, 1, 5], [5, 9, 9]))
    outlay, before = np.array([0.1, 0.2, 0.3]), np.array([1.0, 1.0, 2.0])
    whole, single = _exposure(event, t, settles, outlay, before)
    assert whole == pytest.approx(max(0.1, 0.3, 0.5 / 2))
    assert single == pytest.approx(max(0.1, 0.2, 0.5 / 2))


def test_wealth_counts_from_midnight_on() -> None:
    """Markets of "will it happen by" are not asked on the day on which they end: whoever bets at
    half of a right price wins at the prices of the forecasts, and nothing at those of midnight."""
    won, fair = [], []
    for seed in range(60):
        world = unasked_at_last(np.random.default_rng(seed), 150, 10, 0.08)
        made = world.table()
        made = replace(made, bid=made.market.copy(), ask=made.market.copy())
        counted = counted_prices(made)
        got = profit(made, made.market / 2, Kelly(cap=0.02), counted)
        assert isinstance(got, Profit)
        assert got.by_chance == min(1.0, 1 / got.fair_wealth)
        won.append(got.final_wealth - 1)
        fair.append(got.fair_wealth - 1)
    error = float(np.std(fair)) / 60**0.5
    assert float(np.mean(won)) > 3 * error
    assert abs(float(np.mean(fair))) < 2 * error
    asked_at_last = replace(world, last_day=True).table()
    assert (counted_prices(asked_at_last) == asked_at_last.market).all()
