"""Do two sets of draws come from one distribution? A permutation test, and Holm's correction."""

from collections.abc import Sequence
from math import sqrt
from typing import TypedDict

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
PERMUTATIONS = 99_999
_AT_ONCE = 2_000
_SIMULATED, _LARGEST = 50_000, 1000
POWER = 0.8


def permutation_test(
    a: Floats, b: Floats, seed: int = 0, permutations: int = PERMUTATIONS
) -> float:
    """The p-value for draws `a` (n, k) and `b` (m, k) of k figures that belong together: the share
    of relabellings (the true one counts as one) whose sum over figures of squared standardized
    differences of means is at least the one seen. Phipson and Smyth (2010) on why the true one
    counts. A figure that never varies is left out."""
    both = np.concatenate([a, b])
    spread = both.std(axis=0)
    z = (both[:, spread > 0] - both[:, spread > 0].mean(axis=0)) / spread[spread > 0]
    n, total = len(a), len(both)
    if not z.shape[1]:
        return 1.0
    # The sum of the first group fixes that of the second: the means differ by it alone.
    seen = float((z[:n].sum(axis=0) ** 2).sum())
    rng, at_least = np.random.default_rng(seed), 0
    done = 0
    while done < permutations:
        size = min(_AT_ONCE, permutations - done)
        order = rng.random((size, total)).argsort(axis=1) < n
        sums = order.astype(np.float64) @ z
        at_least += int(((sums**2).sum(axis=1) >= seen - 1e-9).sum())
        done += size
    return (at_least + 1) / (permutations + 1)


def holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses are rejected when all must hold together at `level` (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    rejected = [False] * len(p_values)
    for rank, i in enumerate(order):
        if p_values[i] > level / (len(p_values) - rank):
            break
        rejected[i] = True
    return rejected


class Detectable(TypedDict):
    """The shifts in probability that are found with a power of 80 %: in `one` figure alone, and in
    `all` figures at once. None where so few draws find none, however large."""

    one: float | None
    all: float | None


def detectable(
    spread: float, draws: int, figures: int, tests: int, level: float, seed: int = 0
) -> Detectable:
    """The shifts between two sets of `draws` draws of `figures` figures, each with this standard
    deviation, that are found with a power of 80 % when the strictest of `tests` tests at `level`
    must find them. By simulation of what the statistic is made of, for normal draws: each figure's
    difference of means, and its sum of squares about its own means."""
    rng = np.random.default_rng(seed)
    apart = rng.standard_normal((_SIMULATED, figures))
    within = rng.chisquare(2 * draws - 2, (_SIMULATED, figures))

    def statistic(shift: Floats) -> Floats:
        squared = (apart + shift) ** 2
        found: Floats = (squared / (squared + within)).sum(axis=1)
        return found

    none = np.zeros(figures)
    critical = float(np.quantile(statistic(none), 1 - level / max(tests, 1)))

    def least(where: Floats) -> float | None:
        low, high = 0.0, 1.0
        while (statistic(high * where) > critical).mean() < POWER:
            low, high = high, 2 * high
            if high > _LARGEST:
                return None
        while high - low > 1e-2:
            middle = (low + high) / 2
            if (statistic(middle * where) > critical).mean() < POWER:
                low = middle
            else:
                high = middle
        return high * spread * sqrt(2 / draws)

    return {"one": least(np.eye(1, figures)[0]), "all": least(none + 1)}
