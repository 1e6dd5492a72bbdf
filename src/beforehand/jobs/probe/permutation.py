"""Do two sets of draws come from one distribution? A permutation test, and Holm's correction."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
PERMUTATIONS = 99_999
_AT_ONCE = 2_000
_NORMAL = NormalDist()


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


def detectable(spread: float, draws: int, tests: int, level: float) -> float:
    """The difference between two means of `draws` draws each, with this standard deviation, that
    is found with a power of 80 % when the strictest of `tests` tests at `level` must find it."""
    reach = _NORMAL.inv_cdf(1 - level / (2 * max(tests, 1))) + _NORMAL.inv_cdf(0.8)
    return spread * sqrt(2 / draws) * reach
