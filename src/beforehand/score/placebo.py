"""The placebo: what the same rules say when there is no skill.

Outcomes are redrawn from the market's own prices. Each event has one uniform U; its market j
settles YES, as seen from instant t, if U falls in the arc of length m_j(t) that starts at j's
place on a circle. So every forecast faces an outcome of exactly the probability the market
gave it (no forecaster can have positive expected skill), the instants of a question share one
draw, and the markets of one event exclude each other where their prices sum to at most 1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beforehand.score.intervals import Resampler
from beforehand.score.skill import LEADING, Options, beats, paired, resamplers, skill_columns
from beforehand.score.table import Floats, Table


@dataclass(frozen=True)
class Placebo:
    """`any_share`: draws in which at least one forecaster "beats the market"."""

    draws: int
    any_share: float
    share_by: dict[str, float]


def placebo(table: Table, options: Options, draws: int = 200, seed: int = 0) -> Placebo:
    """Redraw `draws` times and count how often the verdict would be "beats the market"."""
    rng = np.random.default_rng([seed, 2])
    starts = _arcs(table)
    tests, names = options.tests(table), options.under_test(table)
    fast = Options(draws=min(options.draws, 500), seed=options.seed, level=options.level)
    fresh = table.fresh
    sets = [(np.ones(len(table.q), dtype=bool), table), (fresh, table.where(fresh))]
    prepared = [(mask, part, resamplers(part, fast)) for mask, part in sets if len(part.q)]
    wins = dict.fromkeys(names, 0)
    any_wins = 0
    for _ in range(draws):
        y = _redraw(table, table.market, starts, rng)
        won = [
            name
            for name in names
            if len(prepared) == len(sets) and _wins(name, y, prepared, tests, options.level)
        ]
        for name in won:
            wins[name] += 1
        any_wins += bool(won)
    return Placebo(draws, any_wins / draws, {name: n / draws for name, n in wins.items()})


def _redraw(table: Table, price: Floats, starts: Floats, rng: np.random.Generator) -> Floats:
    """An outcome per row: 1 with probability `price`, by one uniform per event."""
    u = rng.random(int(table.event.max()) + 1)
    arc = (u[table.event] - starts)[table.q] % 1.0
    return (arc < price).astype(np.float64)


def _arcs(table: Table) -> Floats:
    """Each question's place on its event's circle: after the mean prices of those before it."""
    mean_price, _ = table.question_means(table.market, np.isfinite(table.market))
    starts = np.zeros(len(table.questions))
    for event in range(int(table.event.max()) + 1):
        members = np.flatnonzero(table.event == event)
        starts[members] = np.concatenate([[0.0], np.cumsum(mean_price[members])[:-1]])
    return starts % 1.0


def _wins(
    name: str,
    y: Floats,
    prepared: list[tuple[npt.NDArray[np.bool_], Table, dict[str, Resampler]]],
    tests: int,
    level: float,
) -> bool:
    """The verdict's own rule on redrawn outcomes; cheap where the skill is not even positive."""
    found = []
    for mask, part, samplers in prepared:
        gain, present = skill_columns(part, part.forecasts[name], y[mask])
        if gain.sum() <= 0:
            return False
        leading = {kind: samplers[kind] for kind in LEADING}
        found.append(paired(gain, present, leading, tests, level))
    return beats(found[0], found[1])
