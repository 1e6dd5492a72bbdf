"""The placebo: what a rule says of the same forecasters where prices are efficient.

Markets live again from their first prices. At each step a market moves as some market moved that
stood at about its price, and ends as that one ended; how often prices go up and down is set so that
the expected move is 0 from wherever the price stands. Moves of one step, and of one event, go
together as they did in the world. Each forecaster says there what it said beyond the price at about
that price. So nobody can gain, and all that a verdict may stumble over is left: who ends early,
what moves all prices, who sells long shots.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from beforehand.clock import DAY_US
from beforehand.score import positions, prices, verdict
from beforehand.score.skill import MIN_ANSWERED, Options
from beforehand.score.table import Floats, Ints, Marks, Table

BINS, LEAST = 16, 24
"""Moves are drawn from the nearest in price, in so many groups of at least so many."""
NEAR = 0.05
"""What is said at a price is drawn from this share of the forecasts, the nearest in price."""
MOST_MOVES, MOST_PRICES, MOST_CELLS, MOST_STEPS = 200_000, 10_000, 4_000_000, 1000
"""Of a larger table so many moves and forecasts are drawn from, and so many prices are drawn again,
by whole questions; and so many numbers are in memory at once."""
_NORMAL = NormalDist()
_PLACES, _POINTS = np.linspace(0.0005, 0.9995, 1000), np.linspace(-4.0, 4.0, 1601)
_DEVIATES = np.array([_NORMAL.inv_cdf(x) for x in _PLACES.tolist()])
_RANKS = np.array([_NORMAL.cdf(x) for x in _POINTS.tolist()])
"""The normal distribution, to three digits."""

Rule = Callable[[Table, Sequence[str], float], set[str]]
"""Who beats the market in a table, of some names, where intervals are widened by a factor."""


@dataclass(frozen=True)
class Placebo:
    """`any_share`: draws in which at least one forecaster "beats the market"."""

    draws: int
    any_share: float
    share_by: dict[str, float]


def by_profit(table: Table, names: Sequence[str], factor: float) -> set[str]:
    """Who beats the market by the rule of verdict.py."""
    found = positions.gains(table, {name: positions.AgainstMarket(name) for name in names})
    return {n for n, one in found.items() if verdict.evidence(table, one, factor).sign > 0}


def placebo(
    table: Table,
    options: Options,
    draws: int = 200,
    seed: int = 0,
    factor: float | None = None,
    rule: Rule = by_profit,
) -> Placebo:
    """Redraw `draws` times and count how often the verdict would be "beats the market". `factor`
    widens intervals for tries; as for so many independent ones, if None."""
    tested = options.under_test(table)
    names = [name for name in tested if name in table.forecasts and _answers(table, name)]
    table.let_go()
    factor = verdict.for_tries([], options.tests(table)) if factor is None else factor
    won = list[set[str]]()
    if names and (world := _World.of(table, names, seed)) is not None:
        won = [rule(drawn, names, factor) for drawn in world.drawn(draws, seed)]
    by = Counter(name for found in won for name in found)
    return Placebo(draws, sum(map(bool, won)) / draws, {n: by[n] / draws for n in tested})


def _answers(table: Table, name: str) -> bool:
    asked = table.asked.get(name, len(table.q))
    return 1 - table.missing(name, table.forecasts[name]) / asked >= MIN_ANSWERED


class _Moves:
    """The moves of prices, by where they began: as shares of the way that was left, down (below 0)
    or up, and whether the market ended with them. They lie in groups, those of a group by size."""

    def __init__(self, price: Floats, move: Floats, ended: np.ndarray) -> None:
        order = np.argsort(price, kind="stable")
        price, move, ended = price[order], move[order], ended[order]
        left = np.where(move > 0, 1 - price, price)
        share = np.where(move == 0, 0.0, move / np.where(left > 0, left, 1.0))
        n = max(1, min(BINS, len(price) // LEAST))
        self.ends = np.linspace(0, len(price), n + 1).round().astype(np.int64)
        self.tops = price[np.minimum(self.ends[1:-1], len(price) - 1)]
        self.bin = np.repeat(np.arange(n), np.diff(self.ends))
        # Within a group by size, so that a place in it is a rank.
        inside = np.lexsort((share, self.bin))
        self.share, self.ended = share[inside], ended[inside]
        below = np.bincount(self.bin, self.share < 0, n).astype(np.int64)
        above = np.bincount(self.bin, self.share > 0, n).astype(np.int64)
        self.down, self.up, self.flat = below, above, np.diff(self.ends) - below - above
        self.lost = np.bincount(self.bin, np.maximum(-self.share, 0.0), n)
        self.won = np.bincount(self.bin, np.maximum(self.share, 0.0), n)
        self._place = np.empty(len(price), dtype=np.int64)
        self._place[order[inside]] = np.arange(len(price))

    def scores(self) -> Floats:
        """Each move's rank among those of its group, as a normal deviate; moves as they came."""
        rank = self._place - self.ends[self.bin[self._place]] + 0.5
        at = rank / np.diff(self.ends)[self.bin[self._place]]
        return np.asarray(np.interp(at, _PLACES, _DEVIATES))

    def drawn(self, price: Floats, u: Floats) -> tuple[Floats, np.ndarray]:
        """Where prices stand after a move, u its place (0 to 1) from the lowest to the highest, and
        whether the market has ended. The expected move is 0."""
        k = np.searchsorted(self.tops, price, side="right")
        won, lost = self.won[k] * (1 - price), self.lost[k] * price
        still = (won <= 0) | (lost <= 0)  # It went one way alone: nothing fair can be drawn.
        tilt = np.sqrt(np.where(still, 1.0, lost / np.where(won > 0, won, 1.0)))
        below, above = self.down[k] / np.where(tilt > 0, tilt, 1.0), self.up[k] * tilt
        at = u * (below + self.flat[k] + above)
        goes_down, goes_up = at < below, at >= below + self.flat[k]
        place = np.where(
            goes_down,
            at * tilt,
            np.where(
                goes_up,
                self.down[k] + self.flat[k] + (at - below - self.flat[k]) / tilt,
                self.down[k] + at - below,
            ),
        )
        size = self.ends[k + 1] - self.ends[k]
        chosen = self.ends[k] + np.clip(place.astype(np.int64), 0, size - 1)
        share = np.where(still, 0.0, self.share[chosen])
        return price + share * np.where(share > 0, 1 - price, price), self.ended[chosen] & ~still


@dataclass(frozen=True)
class _World:
    """What is drawn from: of questions (Q,) the first price, the step of it, how many steps they
    may live, the event; the moves; of forecasts, in order of price, that price and what each
    forecaster said beyond it, as a share of the way left. A forecast is made every `rows` steps."""

    price: Floats
    begin: Ints
    life: Ints
    event: Ints
    scheduled: np.ndarray
    moves: _Moves
    alike: tuple[float, float]
    at: Floats
    said: dict[str, Floats]
    rows: int
    step: int
    like: Table

    @classmethod
    def of(cls, table: Table, names: Sequence[str], seed: int) -> "_World | None":
        """That of a table; None where no price ever moved."""
        on = prices.periods(table)
        found = prices.moves(table, _pool(table, seed), on)
        if not len(found.q) or not found.move.any():
            return None
        kept = _some(found.q, seed)
        gap = max(1, round(float(np.median(found.length))))
        moves = _Moves(found.price, found.move, found.ended)
        questions, first = np.unique(found.q, return_index=True)
        chosen = np.isin(questions, kept)
        first = first[chosen]
        last = np.append(np.flatnonzero(np.diff(found.q)), len(found.q) - 1)[chosen]
        begin = found.begun[first] // gap
        lived = (found.begun[last] + found.length[last] - found.begun[first]) // gap + 1
        apart = _apart(table) // (on.step * gap)
        rows = max(1, round(float(np.median(apart)))) if len(apart) else 1
        settled = questions[chosen] < len(table.questions)
        planned = np.full(len(first), np.nan)
        if len(table.scheduled):
            planned[settled] = table.scheduled[questions[chosen][settled]]
        life = np.where(np.isfinite(planned), planned * rows, 2 * lived.max())
        order = np.flatnonzero(table.known(table.market))
        order = order[_drawn(len(order), seed, 5)]
        order = order[np.argsort(table.market[order], kind="stable")]
        at = table.market[order]
        said = dict[str, Floats]()
        for name in names:
            beyond = table.forecasts[name][order] - at
            left = np.where(beyond > 0, 1 - at, at)
            said[name] = np.where(left > 0, beyond / np.where(left > 0, left, 1.0), 0.0)
            table.let_go()
        return cls(
            price=found.price[first],
            begin=begin - begin.min(),
            life=np.clip(life, 1, MOST_STEPS).astype(np.int64),
            event=np.unique(table.events[questions[chosen]], return_inverse=True)[1],
            scheduled=planned,
            moves=moves,
            alike=_together(moves.scores(), found.ends // gap, table.events[found.q]),
            at=at,
            said=said,
            rows=rows,
            step=on.step * gap,
            like=table,
        )

    def drawn(self, draws: int, seed: int) -> Iterator[Table]:
        """So many worlds."""
        rng, n = np.random.default_rng([seed, 2]), len(self.price)
        steps = int(self.life.max())
        several = max(1, MOST_CELLS // (n * steps))
        for begin in range(0, draws, several):
            many = min(several, draws - begin)
            paths, lives, paid = self._lived(rng, many)
            for k in range(many):
                mine = slice(k * n, (k + 1) * n)
                yield self._table(rng, paths[:, mine], lives[mine], paid[mine])

    def _lived(self, rng: np.random.Generator, many: int) -> tuple[Floats, Ints, Floats]:
        """Prices by step of a market's life, how many steps it lives, and what it pays, of all
        markets of so many worlds."""
        n, steps = len(self.price), int(self.life.max())
        price = np.tile(self.price, many)
        begin, life = np.tile(self.begin, many), np.tile(self.life, many)
        world = np.repeat(np.arange(many), n)
        event = np.tile(self.event, many) + world * (int(self.event.max()) + 1)
        common, shared = self.alike
        calendar = int((begin + life).max()) + 1
        of_all = rng.standard_normal((calendar, many), dtype=np.float32)
        paths = np.full((steps, n * many), np.nan)
        lives, paid = life.copy(), np.full(n * many, np.nan)
        alive = np.ones(n * many, dtype=np.bool_)
        for k in range(steps):
            paths[k, alive] = price[alive]
            own = rng.standard_normal(n * many, dtype=np.float32)
            of_event = rng.standard_normal(int(event.max()) + 1, dtype=np.float32)[event]
            z = np.sqrt(common) * of_all[begin + np.minimum(k, life), world]
            z = z + np.sqrt(shared) * of_event + np.sqrt(1 - common - shared) * own
            here = np.flatnonzero(alive)
            after, over = self.moves.drawn(price[here], np.interp(z[here], _POINTS, _RANKS))
            ends = over | (k + 1 >= life[here])
            # Whoever has lived out what was scheduled ends at its price.
            flip = np.where(rng.random(len(here)) < after, 1.0, 0.0)
            paid[here[ends]] = np.where(over, after, flip)[ends]
            lives[here[ends]] = k + 1
            price[here] = after
            alive[here[ends]] = False
            if not alive.any():
                break
        return paths, lives, paid

    def _table(self, rng: np.random.Generator, paths: Floats, lives: Ints, paid: Floats) -> Table:
        n = len(lives)
        q = np.repeat(np.arange(n), lives)
        k = np.arange(len(q)) - np.repeat(np.cumsum(lives) - lives, lives)
        price, t = paths[k, q], (self.begin[q] + k) * self.step
        row = k % self.rows == 0
        market, near = price[row], max(1, round(NEAR * len(self.at)))
        at = np.searchsorted(self.at, market) + rng.integers(-near, near + 1, n)[q[row]]
        at = np.clip(at, 0, len(self.at) - 1)
        forecasts = dict[str, Floats]()
        for name, said in self.said.items():
            share = said[at]
            forecasts[name] = market + share * np.where(share > 0, 1 - market, market)
        rows = int(row.sum())
        ended = (self.begin + lives) * self.step
        return replace(
            self.like,
            questions=[""] * n,
            q=q[row],
            t=t[row],
            market=market,
            price_age=np.zeros(rows),
            strict=np.ones(rows, dtype=np.bool_),
            evidence=np.zeros(rows, dtype=np.int64),
            bid=np.full(rows, np.nan),
            ask=np.full(rows, np.nan),
            y=paid,
            event=self.event,
            period=np.unique(ended // (30 * DAY_US), return_inverse=True)[1],
            resolved_at=np.maximum(ended, 1),
            known_at=np.zeros(0, dtype=np.int64),
            play=np.zeros(n, dtype=np.bool_),
            fee=np.zeros(n),
            forecasts=forecasts,
            category=[],
            asked={},
            bare=np.zeros(0, dtype=np.bool_),
            marks=Marks(q[~row], t[~row], price[~row]),
            scheduled=self.scheduled,
            open=None,
            disk=None,
        )


def _apart(table: Table) -> Ints:
    """How long after the one before it each row comes, of the rows of one question."""
    found = list[Ints]()
    for _, part in table.blocks():
        found.append(np.diff(part.t)[np.diff(part.q) == 0])
    return np.concatenate(found)


def _drawn(n: int, seed: int, stream: int) -> np.ndarray:
    """Which of n are drawn from: of more than `MOST_MOVES`, about so many."""
    if n <= MOST_MOVES:
        return np.ones(n, dtype=np.bool_)
    return np.random.default_rng([seed, stream]).random(n) < MOST_MOVES / n


def _pool(table: Table, seed: int) -> np.ndarray:
    """The questions from which moves are drawn: of a large table some, with about so many
    prices."""
    there = [one for one in (table, table.open) if one is not None]
    prices = sum(len(one.q) + len(one.marks.q) for one in there)
    chance = MOST_MOVES / max(prices, 1)
    return np.random.default_rng([seed, 4]).random(len(table.events)) < chance


def _some(q: Ints, seed: int) -> Ints:
    """Questions with at most `MOST_PRICES` prices in all."""
    there, sizes = np.unique(q, return_counts=True)
    order = np.random.default_rng([seed, 3]).permutation(len(there))
    within = np.cumsum(sizes[order]) <= MOST_PRICES
    return np.sort(there[order[within]]) if within.any() else there[order[:1]]


def _together(z: Floats, step: Ints, event: Ints) -> tuple[float, float]:
    """How far moves of one step go together, and how much more those of one event, from the mean
    product of every two: each from 0 to 0.95."""

    def mean_product(group: Ints) -> float:
        _, label, n = np.unique(group, return_inverse=True, return_counts=True)
        sums = np.bincount(label, z) ** 2 - np.bincount(label, z * z)
        pairs = float((n * (n - 1.0)).sum())
        return float(sums.sum()) / pairs / scale if pairs else 0.0

    z = z - z.mean()
    scale = float((z * z).mean()) or 1.0
    common = min(max(mean_product(step), 0.0), 0.95)
    within = mean_product(step * (int(event.max()) + 1) + event)
    return common, min(max(within - common, 0.0), 0.95 - common)
