"""Calibration: of the forecasts near a value, how many came true, with an interval for each bin."""

from dataclasses import dataclass

import numpy as np

from beforehand.errors import InputError
from beforehand.score.metrics import (
    BINS,
    Binning,
    Murphy,
    bin_index,
    effective_n,
    murphy,
    sharpness,
    wilson,
)
from beforehand.score.table import MARKET, Floats, Table


@dataclass(frozen=True)
class Bin:
    """The forecasts in [low, high) (the last bin holds 1 too). Each question has one vote, shared
    by its forecasts: `weight` is the sum of these votes, `share` its part of all. `forecast` and
    `outcome` are means by that weight, `ci` the 95 % interval of `outcome` (Wilson's, of as many
    independent questions as the bin is worth); all are NaN where the bin is empty. `told`: the mean
    forecast lies outside of it, also once it is widened for the number of bins that one may pick
    from."""

    low: float
    high: float
    n: int
    n_questions: int
    weight: float
    share: float
    forecast: float
    outcome: float
    ci: tuple[float, float]
    told: bool


@dataclass(frozen=True)
class Calibration:
    """A forecaster's reliability diagram: its bins, the expected calibration error, Murphy's parts
    of the Brier score, and sharpness (the variance of the forecasts)."""

    forecaster: str
    n: int
    n_questions: int
    bins: list[Bin]
    ece: float
    murphy: Murphy
    sharpness: float


def calibration(
    table: Table,
    forecaster: str,
    bins: int = BINS,
    rule: Binning = "snapped",
) -> Calibration:
    """The calibration of one forecaster of the table, over its rows with a settled question.
    Raises InputError for a forecaster that it does not hold, or without a forecast."""
    p = column(table, forecaster)
    valid = np.isfinite(p)
    if not valid.any():
        raise InputError(f"{forecaster} made no forecast of a settled question")
    weights, y = table.row_weights(valid), table.y[table.q]
    index = bin_index(np.where(valid, p, 0.0), bins, rule)
    total, found = float(weights.sum()), list[Bin]()
    used = len(np.unique(index[valid & (index < bins)]))
    for k in range(bins):
        mine = valid & (index == k)
        weight = float(weights[mine].sum())
        n = worth(table, np.where(mine, weights, 0.0))
        forecast = float(np.dot(weights[mine], p[mine]) / weight) if weight else np.nan
        outcome = float(np.dot(weights[mine], y[mine]) / weight) if weight else np.nan
        low, high = wilson(outcome, n, used)
        found.append(
            Bin(
                low=k / bins,
                high=(k + 1) / bins,
                n=int(mine.sum()),
                n_questions=len(np.unique(table.q[mine])),
                weight=weight,
                share=weight / total,
                forecast=forecast,
                outcome=outcome,
                ci=wilson(outcome, n),
                told=bool(weight) and not low <= forecast <= high,
            )
        )
    w, pv, yv = weights[valid], p[valid], y[valid]
    gaps = [one.share * abs(one.forecast - one.outcome) for one in found if one.n]
    return Calibration(
        forecaster=forecaster,
        n=int(valid.sum()),
        n_questions=len(np.unique(table.q[valid])),
        bins=found,
        ece=float(sum(gaps)),
        murphy=murphy(pv, yv, w, bins),
        sharpness=sharpness(pv, w)[0],
    )


def column(table: Table, forecaster: str) -> Floats:
    """The forecasts of one forecaster, (n,); NaN where it made none. Raises InputError."""
    if forecaster == MARKET:
        return table.market
    if forecaster not in table.forecasts:
        known = ", ".join([MARKET, *table.forecasts])
        raise InputError(f"there is no forecaster {forecaster!r}: there are {known}")
    return table.forecasts[forecaster]


def worth(table: Table, weights: Floats) -> float:
    """How many independent questions the rows of a bin are worth, by their `weights` (n,): those of
    one event share their fate, (sum over events)^2 / sum of squares."""
    return effective_n(np.bincount(table.event[table.q], weights).astype(np.float64))
