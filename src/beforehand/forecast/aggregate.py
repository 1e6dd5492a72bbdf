"""Combine several probabilities of one question into one.

mean        the arithmetic mean
median      the middle one
vote        the share that says YES (from a half up)
logit_mean  the mean in log odds (Satopää et al. 2014)
extremised  the mean in log odds, pushed out by 1.5 (Baron et al. 2014)
trimmed     the mean without the lowest and highest fifth on either side
weighted    the mean, weighted by each model's past score known at t
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from beforehand.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Method = Literal["mean", "median", "vote", "logit_mean", "extremised", "trimmed", "weighted"]
METHODS: tuple[Method, ...] = (
    "mean",
    "median",
    "vote",
    "logit_mean",
    "extremised",
    "trimmed",
    "weighted",
)
EDGE = 1e-4
PUSH = 1.5
TRIM = 0.2
PRIOR_BRIER, PRIOR_N = 0.25, 2
"""A model without a past counts as one that said 0.5 twice."""


def aggregate(
    method: Method, said: Sequence[float], weights: Sequence[float] | None = None
) -> float | None:
    """One probability from those in `said` (each in [0, 1]); None if there are none. `weights`, one
    for each, are used by `weighted`; without them, all weights are equal."""
    if not said:
        return None
    if method == "median":
        return median(said)
    if method == "vote":
        return sum(p >= 0.5 for p in said) / len(said)
    if method == "extremised":
        return _expit(PUSH * fmean(map(_logit, said)))
    # The mean of 42 times 0.007 may come out below it.
    return min(max(_mean(method, said, weights), min(said)), max(said))


def _mean(method: Method, said: Sequence[float], weights: Sequence[float] | None) -> float:
    if method == "logit_mean":
        return _expit(fmean(map(_logit, said)))
    if method == "trimmed":
        cut = int(len(said) * TRIM)
        return fmean(sorted(said)[cut : len(said) - cut])
    if method == "weighted" and weights is not None:
        return fmean(said, weights)
    if method in ("mean", "weighted"):
        return said[0] if len(said) == 1 else sum(said) / len(said)
    raise InputError(f"no method {method!r}: there are {', '.join(METHODS)}")


def aggregates(method: Method, said: "npt.NDArray[np.float64]") -> list[float | None]:
    """`aggregate` of each row; `said` is of shape (forecasters, rows), NaN where there is none."""
    if method == "mean" and len(said) > 1 and not (said != said).any():
        means = [total / len(said) for total in map(sum, zip(*said.tolist(), strict=True))]
        return [
            min(max(mean, low), high)
            for mean, low, high in zip(
                means, said.min(axis=0).tolist(), said.max(axis=0).tolist(), strict=True
            )
        ]
    return [aggregate(method, [p for p in row if p == p]) for row in said.T.tolist()]


class Past:
    """Each model's Brier score on the questions whose answer is known, as it becomes known."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def learn(self, said: Mapping[str, float], answer: float) -> None:
        """An answer became known: each model's forecast of it counts from now on."""
        for name, p in said.items():
            total, n = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + (p - answer) ** 2, n + 1)

    def weights(self, names: Sequence[str]) -> list[float]:
        """The weight of each name: one over its Brier score so far, shrunk to that of 0.5."""
        return [1.0 / max(self._score(name), 1e-3) for name in names]

    def _score(self, name: str) -> float:
        total, n = self._sums.get(name, (0.0, 0))
        return (total + PRIOR_BRIER * PRIOR_N) / (n + PRIOR_N)


def _logit(p: float) -> float:
    q = min(max(p, EDGE), 1 - EDGE)
    return math.log(q / (1 - q))


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x))
