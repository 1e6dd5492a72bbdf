"""Worlds in which it is known who beats the market: efficient ones, in which nobody does, and
honest ones with skill of a known size. Prices are daily, forecasts weekly, unless stated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt

from beforehand.score.table import Marks, Table

DAY = 86_400_000_000
WEEK = 7
Array = npt.NDArray[np.float64]
_erfc = np.vectorize(erfc, otypes=[np.float64])


def ndtr(z: Array) -> Array:
    """The normal distribution function."""
    return np.asarray(_erfc(-z / sqrt(2)) / 2)


def expit(x: Array) -> Array:
    """The inverse of log odds."""
    return np.asarray(1 / (1 + np.exp(-x)))


def log_odds(m: Array) -> Array:
    """Of prices, kept off 0 and 1."""
    safe = np.clip(m, 0.002, 0.998)
    return np.asarray(np.log(safe) - np.log1p(-safe))


@dataclass
class World:
    """Prices m (n, days), NaN outside a market's life; forecasts p, NaN where none is made; the
    payout y, NaN where the market is open; `planned` is how many forecasts were scheduled."""

    m: Array
    p: Array
    y: Array
    planned: Array
    event: npt.NDArray[np.int64] | None = None
    marks: bool = True
    old: Array | None = None
    """For how many days each price has stood (n, days); 0 everywhere, if None."""
    last_day: bool = True
    """Whether a market is asked on the day on which it ends, at midnight; else it ends before."""
    others: dict[str, Array] = field(default_factory=dict)
    """Forecasts of more forecasters, at the same instants."""
    ends: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        there = np.isfinite(self.m)
        self.ends = self.m.shape[1] - np.argmax(there[:, ::-1], axis=1)

    def table(self) -> Table:
        """As it is scored."""
        n = len(self.y)
        asked = np.isfinite(self.p) & np.isfinite(self.m)
        ended = self.ends * DAY
        if not self.last_day:
            asked &= np.arange(self.m.shape[1])[None, :] < self.ends[:, None] - 1
            ended -= DAY // 4
        q, t = np.nonzero(asked)
        old = np.zeros(self.m.shape) if self.old is None else self.old
        mq, mt = np.nonzero(np.isfinite(self.m) & (old == 0))
        if not self.marks:
            mq, mt = mq[:0], mt[:0]
        event = np.arange(n) if self.event is None else self.event
        return Table(
            questions=[f"W:{i}" for i in range(n)],
            q=q,
            t=t * DAY,
            market=self.m[q, t],
            price_age=old[q, t],
            strict=np.ones(len(q), dtype=bool),
            evidence=np.zeros(len(q), dtype=np.int64),
            bid=np.full(len(q), np.nan),
            ask=np.full(len(q), np.nan),
            y=self.y,
            event=np.unique(event, return_inverse=True)[1],
            period=np.unique(self.ends // 30, return_inverse=True)[1],
            resolved_at=ended,
            play=np.zeros(n, dtype=bool),
            fee=np.zeros(n),
            forecasts={"f": self.p[q, t], **{k: p[q, t] for k, p in self.others.items()}},
            marks=Marks(mq, mt * DAY, self.m[mq, mt]),
            scheduled=self.planned,
        )


def every(m: Array, step: int = WEEK, offset: int = 0) -> npt.NDArray[np.bool_]:
    """The cells at which forecasts are made."""
    days = np.arange(m.shape[1])
    return np.isfinite(m) & ((days % step) == offset)[None, :]


def shifted(m: Array, by: float, at: npt.NDArray[np.bool_]) -> Array:
    """The price and a constant, where forecasts are made."""
    return np.where(at, np.clip(m + by, 0.005, 0.995), np.nan)


def early_yes(
    rng: np.random.Generator, n: int, life: int, hazard: float, by: float, gap: int = 2
) -> World:
    """ "Will it happen by day N?": it may happen on any day with the same probability; a market
    every `gap` days."""
    days = n * gap + life
    m, y = np.full((n, days), np.nan), np.zeros(n)
    for i in range(n):
        start = i * gap
        when = int(rng.geometric(hazard))
        y[i] = when <= life
        alive = min(when, life)
        left = life - np.arange(alive)
        m[i, start : start + alive] = 1 - (1 - hazard) ** left
    return World(m, shifted(m, by, every(m)), y, np.full(n, float(-(-life // WEEK))))


def unasked_at_last(rng: np.random.Generator, n: int, life: int, hazard: float) -> World:
    """The same, asked every day but the one on which it happens, a little below the price."""
    world = early_yes(rng, n, life, hazard, 0.0)
    p = shifted(world.m, -hazard / 2, every(world.m, 1))
    return World(world.m, p, world.y, np.full(n, float(life)), last_day=False)


def walks(
    rng: np.random.Generator, n: int, common: float, starts: Array, lives: Array
) -> tuple[Array, Array]:
    """Prices of "is the walk above 0 at the end?", with a share of common steps; and how they
    end."""
    starts, lives = starts.astype(int), lives.astype(int)
    days = int((starts + lives).max()) + 1
    shared = rng.normal(0, 1, days)
    m, y = np.full((n, days), np.nan), np.zeros(n)
    for i in range(n):
        life = lives[i]
        steps = np.sqrt(common) * shared[starts[i] : starts[i] + life]
        steps = steps + np.sqrt(1 - common) * rng.normal(0, 1, life)
        at = np.concatenate([[0.0], np.cumsum(steps)])
        m[i, starts[i] : starts[i] + life] = ndtr(at[:-1] / np.sqrt(life - np.arange(life)))
        y[i] = float(at[-1] > 0)
    return m, y


def common_walk(rng: np.random.Generator, share: float = 0.9, by: float = 0.05) -> World:
    """Sixty markets of one factor."""
    n = 60
    m, y = walks(rng, n, share, np.full(n, 5), 35 + 10 * np.arange(n))
    return World(m, shifted(m, by, every(m)), y, np.ceil((35 + 10.0 * np.arange(n)) / WEEK))


def long_shots(rng: np.random.Generator, how: str, n: int = 200, rate: float = 0.02) -> World:
    """Markets at about 2 %, each of which may jump to YES on any day of its life."""
    life, gap = 60, 3
    days = n * gap + life
    m, y = np.full((n, days), np.nan), np.zeros(n)
    for i in range(n):
        hazard = -np.expm1(np.log1p(-rate * rng.uniform(0.5, 1.5)) / life)
        when = int(rng.geometric(hazard))
        y[i] = when <= life
        alive = min(when, life)
        m[i, i * gap : i * gap + alive] = -np.expm1((life - np.arange(alive)) * np.log1p(-hazard))
    at = every(m)
    said = {"sold": 0.3 * m, "bought": m + 0.03, "sharpened": m**2 / (m**2 + (1 - m) ** 2)}[how]
    return World(m, np.where(at, said, np.nan), y, np.full(n, np.ceil(life / WEEK)))


def hidden_crash(rng: np.random.Generator, n: int = 100) -> World:
    """One thing that happens to all in one of ten worlds, and that prices know of; each market has
    its own noise besides."""
    starts, lives = rng.integers(0, 200, n), np.full(n, 60)
    m, y = walks(rng, n, 0.0, starts, lives)
    crash = 0.1
    at = int(rng.integers(60, 260)) if rng.random() < crash else None
    days = m.shape[1]
    hazard = -np.expm1(np.log1p(-crash) / 200)
    for i in range(n):
        life = np.flatnonzero(np.isfinite(m[i]))
        ahead = np.clip(260 - np.maximum(life, 60), 0, None) - np.clip(
            260 - np.maximum(life[-1] + 1, 60), 0, None
        )
        safe = (1 - hazard) ** np.maximum(ahead, 0)
        m[i, life] *= safe
        if at is not None and life[0] <= at <= life[-1]:
            m[i, at:days] = np.nan
            y[i] = 0.0
        elif at is not None and life[0] > at:
            m[i, life] /= safe  # It cannot come again.
    return World(m, shifted(m, 0.05, every(m)), y, np.full(n, np.ceil(60 / WEEK)))


def few_weeks(rng: np.random.Generator, weeks: int, by: float = 0.05) -> World:
    """Sixty independent-looking markets of one factor, over a few weeks."""
    n, life = 60, weeks * WEEK
    m, y = walks(rng, n, 0.5, np.zeros(n), np.full(n, life))
    return World(m, shifted(m, by, every(m)), y, np.full(n, float(weeks)))


def stale(rng: np.random.Generator, late: int = 5, share: float = 0.8) -> World:
    """One factor, and prices that stand for up to some days: what moved some moves others later."""
    n, life = 80, 150
    m, y = walks(rng, n, share, rng.integers(0, 100, n), np.full(n, life))
    old = np.zeros(m.shape)
    for i in range(n):
        life_i = np.flatnonzero(np.isfinite(m[i]))
        seen = np.zeros(len(life_i), dtype=int)
        k = 0
        while k < len(life_i):
            step = int(rng.integers(1, late + 2))
            seen[k : k + step] = k
            k += step
        m[i, life_i] = m[i, life_i[seen]]
        old[i, life_i] = np.arange(len(life_i)) - seen
    planned = np.full(n, np.ceil(life / WEEK))
    return World(m, shifted(m, 0.05, every(m)), y, planned, old=old)


def partly_stale(rng: np.random.Generator, part: float = 0.1, late: int = 25) -> World:
    """One factor, and one market of ten whose price stands for weeks."""
    n, life = 80, 150
    m, y = walks(rng, n, 0.8, rng.integers(0, 100, n), np.full(n, life))
    old = np.zeros(m.shape)
    for i in range(int(part * n)):
        there = np.flatnonzero(np.isfinite(m[i]))
        k = 0
        while k < len(there):
            stands = there[k : k + int(rng.integers(1, late + 2))]
            m[i, stands], old[i, stands] = m[i, stands[0]], np.arange(len(stands))
            k += len(stands)
    planned = np.full(n, np.ceil(life / WEEK))
    return World(m, shifted(m, 0.05, every(m)), y, planned, old=old)


def bursts(rng: np.random.Generator) -> World:
    """Prices that stand still but for a few days on which all of them move."""
    n, life = 80, 120
    days = 160
    size = np.where(rng.random(days) < 0.05, 1.0, 0.02)
    starts = rng.integers(0, 40, n)
    m, y = np.full((n, days), np.nan), np.zeros(n)
    shared = rng.normal(0, 1, days) * size
    for i in range(n):
        own = rng.normal(0, 1, days) * size
        steps = (np.sqrt(0.5) * shared + np.sqrt(0.5) * own)[starts[i] : starts[i] + life]
        at = np.concatenate([[0.0], np.cumsum(steps)])
        left = np.cumsum((size[starts[i] : starts[i] + life] ** 2)[::-1])[::-1]
        m[i, starts[i] : starts[i] + life] = ndtr(at[:-1] / np.sqrt(left))
        y[i] = float(at[-1] > 0)
    return World(m, shifted(m, 0.05, every(m)), y, np.full(n, np.ceil(life / WEEK)))


def one_big_event(rng: np.random.Generator) -> World:
    """Forty strikes of one price, and forty markets of their own."""
    n, life = 80, 120
    starts = np.concatenate([np.full(40, 10), rng.integers(0, 60, 40)])
    m, y = walks(rng, n, 0.0, starts, np.full(n, life))
    walk = np.concatenate([[0.0], np.cumsum(rng.normal(0, 1, life))])
    for i, strike in enumerate(np.linspace(-8, 8, 40)):
        left = np.sqrt(life - np.arange(life))
        m[i, 10 : 10 + life] = ndtr((walk[:-1] - strike) / left)
        y[i] = float(walk[-1] > strike)
    event = np.concatenate([np.zeros(40, dtype=int), np.arange(1, 41)])
    return World(m, shifted(m, 0.05, every(m)), y, np.full(n, np.ceil(life / WEEK)), event)


def concentrated(rng: np.random.Generator) -> World:
    """Large positions in a few markets, next to none in the others."""
    n, life = 100, 90
    m, y = walks(rng, n, 0.3, rng.integers(0, 200, n), np.full(n, life))
    size = np.where(np.arange(n) < 5, 0.3, 0.01)
    at = every(m)
    p = np.where(at, np.clip(m + size[:, None], 0.005, 0.995), np.nan)
    return World(m, p, y, np.full(n, np.ceil(life / WEEK)))


def selected(rng: np.random.Generator) -> World:
    """Forecasts where the price has just risen alone."""
    n, life = 150, 90
    m, y = walks(rng, n, 0.5, rng.integers(0, 200, n), np.full(n, life))
    before = np.full_like(m, np.nan)
    before[:, WEEK:] = m[:, :-WEEK]
    at = every(m) & (m > before + 0.02)
    return World(m, shifted(m, 0.05, at), y, np.full(n, np.nan))


def adaptive(rng: np.random.Generator) -> World:
    """Whoever lost so far bets twice as much, whoever won bets nothing more (a martingale)."""
    n, life = 120, 60
    m, y = walks(rng, n, 0.3, rng.integers(0, 240, n), np.full(n, life))
    at, p = every(m), np.full_like(m, np.nan)
    held, won, size = np.zeros(n), 0.0, 0.02
    for day in range(m.shape[1]):
        price = m[:, day]
        if day:
            last = m[:, day - 1]
            there = np.isfinite(last)
            following = np.where(np.isfinite(price), price, y)
            won += float((held[there] * (following - last)[there]).sum())
            held[there & ~np.isfinite(price)] = 0.0
        now = at[:, day]
        if now.any():
            size = 0.01 if won > 0 else min(2 * size, 0.3)
            said = np.clip(price + size, 0.005, 0.995)
            p[now, day] = said[now]
            held[now] += 2 * (said - price)[now]
    return World(m, p, y, np.full(n, np.nan))


def unmarked(rng: np.random.Generator, spread: bool) -> World:
    """One forecast a market and no price afterwards, under one factor."""
    n, life = 200, 60
    starts = rng.integers(0, 400, n) if spread else np.zeros(n)
    m, y = walks(rng, n, 0.5, starts, np.full(n, life))
    p = np.full_like(m, np.nan)
    days = starts.astype(int)
    p[np.arange(n), days] = np.clip(m[np.arange(n), days] + 0.05, 0.005, 0.995)
    return World(m, p, y, np.ones(n), marks=False)


def voided(rng: np.random.Generator) -> World:
    """Half common; one market of ten is void, and its rows are gone."""
    n = 80
    m, y = walks(rng, n, 0.5, rng.integers(0, 100, n), np.full(n, 90))
    m[rng.random(n) < 0.1] = np.nan
    there = np.isfinite(m).any(axis=1)
    m, y = m[there], y[there]
    return World(m, shifted(m, 0.05, every(m)), y, np.full(len(y), np.ceil(90 / WEEK)))


def partial(rng: np.random.Generator) -> World:
    """Markets that pay one half where the walk ends near 0, by one factor."""
    n, life, near = 80, 90, 4.0
    starts = rng.integers(0, 100, n)
    shared = rng.normal(0, 1, 200)
    m, y = np.full((n, 200), np.nan), np.zeros(n)
    for i, start in enumerate(starts.tolist()):
        steps = (shared[start : start + life] + rng.normal(0, 1, life)) / np.sqrt(2)
        at = np.concatenate([[0.0], np.cumsum(steps)])
        left = np.sqrt(life - np.arange(life))
        m[i, start : start + life] = (
            ndtr((at[:-1] - near) / left) + ndtr((at[:-1] + near) / left)
        ) / 2
        y[i] = (float(at[-1] > near) + float(at[-1] > -near)) / 2
    return World(m, shifted(m, 0.05, every(m)), y, np.full(n, np.ceil(life / WEEK)))


def hedged(rng: np.random.Generator, by: float = 0.05) -> World:
    """Five outcomes that exclude each other, in twenty events: what one position loses the others
    gain. Prices are what signals of all five make of an even start."""
    events, many, life, days = 20, 5, 80, 200
    m, y = np.full((events * many, days), np.nan), np.zeros(events * many)
    for e in range(events):
        start, winner = int(rng.integers(0, days - life)), int(rng.integers(many))
        drift = 0.25 * (np.arange(many) == winner)
        signals = np.cumsum(drift + rng.normal(0, 1, (life, many)), axis=0)
        signals = np.concatenate([np.zeros((1, many)), signals[:-1]])
        odds = np.exp(0.25 * (signals - signals.max(axis=1, keepdims=True)))
        rows = slice(e * many, (e + 1) * many)
        m[rows, start : start + life] = (odds / odds.sum(axis=1, keepdims=True)).T
        y[rows] = np.arange(many) == winner
    event = np.repeat(np.arange(events), many)
    planned = np.full(len(y), np.ceil(life / WEEK))
    return World(m, shifted(m, by, every(m)), y, planned, event)


def bouncing(rng: np.random.Generator) -> World:
    """The last trade is at the bid or at the ask, two cents from what is fair."""
    n, life = 80, 90
    m, y = walks(rng, n, 0.5, rng.integers(0, 100, n), np.full(n, life))
    quoted = np.clip(m + 0.02 * rng.choice([-1.0, 1.0], m.shape), 0.001, 0.999)
    fair = (m >= 0.03) & (m <= 0.97)
    quoted = np.where(fair, quoted, m)
    return World(quoted, shifted(quoted, 0.05, every(m)), y, np.full(n, np.ceil(life / WEEK)))


def twins(rng: np.random.Generator) -> World:
    """Every market is listed twice, and nothing says so."""
    n, life = 60, 90
    m, y = walks(rng, n, 0.2, rng.integers(0, 200, n), np.full(n, life))
    m, y = np.concatenate([m, m]), np.concatenate([y, y])
    return World(m, shifted(m, 0.05, every(m)), y, np.full(2 * n, np.ceil(life / WEEK)))


def momentum(rng: np.random.Generator) -> World:
    """Whoever takes the last week's move for the next one's."""
    n, life = 100, 90
    m, y = walks(rng, n, 0.5, rng.integers(0, 150, n), np.full(n, life))
    before = np.concatenate([np.full((n, WEEK), np.nan), m[:, :-WEEK]], axis=1)
    moved = np.where(np.isfinite(before), m - before, 0.0)
    said = np.where(every(m), np.clip(m + moved, 0.005, 0.995), np.nan)
    return World(m, said, y, np.full(n, np.ceil(life / WEEK)))


def all_at_the_end(rng: np.random.Generator) -> World:
    """Prices stand still; all that is ever learned comes with the outcome, on one of ten days, of
    which each has a factor."""
    n, life = 120, 70
    day = np.arange(n) % 10
    days = life + 10
    factor = rng.normal(0, 1, 10)
    m, y = np.full((n, days), np.nan), np.zeros(n)
    for i in range(n):
        level = rng.normal()
        m[i, : life + day[i]] = ndtr(np.array([level / np.sqrt(2)]))[0]
        y[i] = float(level + factor[day[i]] + rng.normal() > 0)
    return World(m, shifted(m, 0.05, every(m)), y, np.full(n, np.ceil(life / WEEK)))


def many_tries(rng: np.random.Generator, tries: int = 20, alike: float = 0.5) -> World:
    """Twenty forecasters who add noise to the price, half of it the same, and the best is shown."""
    n, life = 80, 90
    m, y = walks(rng, n, 0.3, rng.integers(0, 150, n), np.full(n, life))
    at = every(m)
    shared = rng.normal(0, 1, m.shape)

    def noisy() -> Array:
        noise = np.sqrt(alike) * shared + np.sqrt(1 - alike) * rng.normal(0, 1, m.shape)
        return np.where(at, np.clip(m + 0.05 * noise, 0.005, 0.995), np.nan)

    others = {f"f{k}": noisy() for k in range(tries - 1)}
    return World(m, noisy(), y, np.full(n, np.ceil(life / WEEK)), others=others)


def a_board(rng: np.random.Generator) -> World:
    """Eight kinds of forecasters over one market."""
    world = common_walk(rng, 0.5, 0.05)
    m, at = world.m, every(world.m)
    before = np.concatenate([np.full((len(m), WEEK), np.nan), m[:, :-WEEK]], axis=1)
    moved = np.where(np.isfinite(before), m - before, 0.0)
    said = {
        "below": m - 0.05, "half": 0.5 + 0 * m, "shrunk": 0.8 * m + 0.1, "with": m + moved,
        "against": m - moved, "sharpened": m**2 / (m**2 + (1 - m) ** 2),
        "noisy": m + rng.normal(0, 0.05, m.shape),
    }  # fmt: skip
    world.others = {k: np.where(at, np.clip(p, 0.005, 0.995), np.nan) for k, p in said.items()}
    return world


NULL: dict[str, Callable[[np.random.Generator], World]] = {
    "early YES": lambda rng: early_yes(rng, 300, 40, 0.03, 0.10),
    "early YES, sooner": lambda rng: early_yes(rng, 300, 20, 0.08, 0.07),
    "no forecast on its last day": lambda rng: unasked_at_last(rng, 600, 10, 0.1),
    "one common walk, above": lambda rng: common_walk(rng),
    "one common walk, below": lambda rng: common_walk(rng, by=-0.05),
    "half common": lambda rng: common_walk(rng, 0.5, 0.02),
    "long shots sold": lambda rng: long_shots(rng, "sold"),
    "long shots bought": lambda rng: long_shots(rng, "bought"),
    "long shots sharpened": lambda rng: long_shots(rng, "sharpened"),
    "hidden crash": hidden_crash,
    "5 weeks": lambda rng: few_weeks(rng, 5),
    "12 weeks": lambda rng: few_weeks(rng, 12),
    "20 weeks": lambda rng: few_weeks(rng, 20),
    "stale marks": stale,
    "a few stale marks": partly_stale,
    "bursts": bursts,
    "one big event": one_big_event,
    "concentration": concentrated,
    "selection": selected,
    "adaptive positions": adaptive,
    "voids": voided,
    "partial payouts": partial,
    "hedged markets of one event": hedged,
    "bounce of bid and ask": bouncing,
    "twins": twins,
    "momentum": momentum,
    "all at the end": all_at_the_end,
    "many tries": many_tries,
    "a board": a_board,
    "no marks, spread windows": lambda rng: unmarked(rng, True),
    "no marks, the same window": lambda rng: unmarked(rng, False),
}


def biased(
    rng: np.random.Generator,
    n: int,
    edge: float,
    *,
    noise: float = 0.6,
    lives: Array | None = None,
    span: int = 500,
    common: float = 0.0,
    events: int | None = None,
    once: bool = False,
) -> World:
    """Markets that are wrong by a constant in log odds each, of which the forecaster knows a part:
    with `common`, part of the steps is shared; with `events`, groups have one walk; `once` has one
    forecast each, at one instant."""
    lives = np.full(n, 120) if lives is None else lives
    starts = np.zeros(n) if once else rng.integers(0, span, n).astype(float)
    group = None if events is None else np.arange(n) % events
    if group is not None:
        starts, lives = starts[group], lives[group]
        m, y = np.full((n, int((starts + lives).max()) + 1), np.nan), np.zeros(n)
        for g in range(events or 0):
            mine = np.flatnonzero(group == g)
            begin, life = int(starts[mine[0]]), int(lives[mine[0]])
            walk = np.concatenate([[0.0], np.cumsum(rng.normal(0, 1, life))])
            left = np.sqrt(life - np.arange(life))
            for i, strike in zip(mine, np.linspace(-1, 1, len(mine)) * sqrt(life), strict=True):
                m[i, begin : begin + life] = ndtr((walk[:-1] - strike) / left)
                y[i] = float(walk[-1] > strike)
    else:
        m, y = walks(rng, n, common, starts, lives)
    odds = log_odds(m)
    wrong = rng.normal(0, noise, n)[:, None]
    priced, said = expit(odds + wrong), expit(odds + wrong * (1 - edge))
    at = every(m, offset=0)
    if once:
        at = np.isfinite(m) & (np.arange(m.shape[1]) == 0)[None, :]
    planned = np.ones(n) if once else np.ceil(lives / WEEK)
    event = None if group is None else group
    return World(priced, np.where(at, said, np.nan), y, planned, event)


def long_shot_bias(rng: np.random.Generator, n: int, kept: float) -> World:
    """Prices that lie nearer to one half than they should, at a share of the log odds: who knows it
    sharpens them."""
    m, y = walks(rng, n, 0.0, rng.integers(0, 400, n).astype(float), np.full(n, 90))
    priced = expit(kept * log_odds(m))
    return World(priced, np.where(every(m), m, np.nan), y, np.full(n, np.ceil(90 / WEEK)))


def within(rng: np.random.Generator, weeks: int, noise: float) -> World:
    """Three hundred markets that live some of these weeks."""
    span = (weeks - 4) * WEEK // 2
    lives = rng.integers(14, weeks * WEEK - span, 300)
    return biased(rng, 300, 0.35, noise=noise, lives=lives, span=span)


SKILL: dict[str, Callable[[np.random.Generator], World]] = {
    "300 independent": lambda rng: biased(rng, 300, 0.35, noise=0.535),
    "100 independent": lambda rng: biased(rng, 100, 0.35, noise=0.499),
    "600 weak": lambda rng: biased(rng, 600, 0.15),
    "mixed lives": lambda rng: biased(
        rng, 300, 0.35, noise=0.535, lives=rng.integers(20, 240, 300)
    ),
    "half of the variance common": lambda rng: biased(rng, 300, 0.35, noise=0.535, common=0.5),
    "60 events of 5": lambda rng: biased(rng, 300, 0.35, noise=0.463, events=60),
    "one instant": lambda rng: biased(rng, 300, 0.35, once=True),
    "long-shot bias, 400": lambda rng: long_shot_bias(rng, 400, 0.741),
    "long-shot bias, 1,500": lambda rng: long_shot_bias(rng, 1_500, 0.77),
    "12 weeks of skill": lambda rng: within(rng, 12, 0.571),
    "20 weeks of skill": lambda rng: within(rng, 20, 0.895),
}
