"""Metrics over arrays: p forecast, m market at the same instant, y settled value in [0, 1].

Every function takes optional row weights `w` (any positive scale); without them rows count
equally. All arrays are float64 of one shape (n,). Formulas and conventions: docs/metrics.md.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.plugins import PLUGINS, Plugin

Floats = npt.NDArray[np.float64]
CLIP = 1e-6
BINS = 10
BUILT_IN = ("brier", "log_loss", "els", "accuracy", "ece", "skill_vs_market", "n", "missing")


RowMetric = Callable[[Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class Metric:
    """An added figure of the leaderboard: the mean of `rows` per question, then over questions,
    with the same clustered interval as all others. `better` is lower or higher; `about` is one
    line that says what it is."""

    name: str
    better: Literal["lower", "higher"]
    about: str
    rows: RowMetric

    def values(self, p: Floats, m: Floats, y: Floats) -> Floats:
        """One value a row. Raises InputError naming the metric where it gives anything else."""
        try:
            found = np.asarray(self.rows(p.copy(), m.copy(), y.copy()), dtype=np.float64)
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}"
            raise InputError(f"the metric {self.name} failed: {said}") from error
        if found.shape != p.shape:
            raise InputError(
                f"the metric {self.name} gave values of shape {found.shape}: one for each of "
                f"{len(p):,} rows is needed"
            )
        return found


ADDED: dict[str, Metric] = {}
"""Metrics beyond those that every leaderboard has."""


def added() -> Mapping[str, Metric]:
    """Every added metric, those of other packages as well."""
    for _ in PLUGINS.load("metrics", _enter):  # Importing a module enters what it decorates.
        pass
    broken = {one.value.partition(":")[0] for one in PLUGINS.broken if one.group == "metrics"}
    for name in [n for n, metric in ADDED.items() if metric.rows.__module__ in broken]:
        del ADDED[name]
    return ADDED


def _enter(plugin: Plugin, found: object) -> None:
    if not any(metric.rows is found for metric in ADDED.values()):
        raise TypeError(f"{plugin.value} is not a metric: decorate it with @metric(NAME, BETTER)")


def metric(name: str, better: Literal["lower", "higher"]) -> Callable[[RowMetric], RowMetric]:
    """Add a metric: a function of arrays (p forecast, m market's price or NaN, y settled value) to
    one value per row, NaN where it has none. Its docstring's first line says what it is.

    Raises ValueError for a name that is taken or is not an identifier.
    """

    def add(rows: RowMetric) -> RowMetric:
        if better not in ("lower", "higher"):
            raise ValueError(f"the metric {name}: better is lower or higher, not {better!r}")
        from beforehand.score.report.spreadsheets import CSV_COLUMNS  # It imports this module.

        taken = {name, f"{name}_low", f"{name}_high"}.intersection((*CSV_COLUMNS, *BUILT_IN))
        if not name.isidentifier() or name in ADDED or taken:
            raise ValueError(
                f"a metric cannot be called {name!r}: the name is taken or is not an identifier"
            )
        about = (rows.__doc__ or name).strip().splitlines()[0]
        ADDED[name] = Metric(name, better, about, rows)
        return rows

    return add


def mean(x: Floats, w: Floats | None = None) -> float:
    """Weighted mean; NaN where there is nothing."""
    if not len(x):
        return float("nan")
    return float(x.mean()) if w is None else float(np.dot(x, w) / w.sum())


def brier(p: Floats, y: Floats, w: Floats | None = None) -> float:
    """Mean squared error (Brier 1950), 0 best, 0.25 for always 0.5; lower is better."""
    d = p - y
    return float(np.dot(d, d) / len(d)) if w is None else mean(d * d, w)


def log_losses(p: Floats, y: Floats, clip: float = CLIP) -> Floats:
    """-[y ln p + (1-y) ln(1-p)] per row, in nats, with p clipped to [clip, 1-clip]."""
    q = np.clip(p, clip, 1 - clip)
    return np.asarray(-(y * np.log(q) + (1 - y) * np.log1p(-q)))


def log_loss(p: Floats, y: Floats, w: Floats | None = None, clip: float = CLIP) -> float:
    """Mean log loss in nats; lower is better."""
    if w is None and np.all((y == 0.0) | (y == 1.0)):
        # One logarithm a row instead of two: the probability given to what happened.
        right = np.where(y == 1.0, p, 1.0 - p)
        np.clip(right, clip, 1 - clip, out=right)
        return -float(np.log(right, out=right).mean())
    return mean(log_losses(p, y, clip), w)


def excess_log_scores(p: Floats, m: Floats, y: Floats, clip: float = CLIP) -> Floats:
    """y ln(p/m) + (1-y) ln((1-p)/(1-m)) per row: log score gained over the market, in nats."""
    return log_losses(m, y, clip) - log_losses(p, y, clip)


def hits(p: Floats, y: Floats) -> Floats:
    """1 where (p >= 0.5) agrees with the outcome (0.5 counts as YES); NaN for partial payouts."""
    right = ((p >= 0.5) == (y >= 0.5)).astype(np.float64)
    return np.where((y == 0.0) | (y == 1.0), right, np.nan)


Binning = Literal["snapped", "float_edges"]


def bin_index(p: Floats, bins: int = BINS, rule: Binning = "snapped") -> npt.NDArray[np.intp]:
    """Uniform bins [i/bins, (i+1)/bins).

    `snapped`, ours: 0.3 falls in [0.3, 0.4) although 0.3 * 10 is a hair below 3 for some floats,
    and 1.0 falls in the last bin. `float_edges`, as KalshiBench has it: edges are the floats
    0.1 * i, and 1.0 falls in no bin (index `bins`).
    """
    if rule == "float_edges":
        edges = np.arange(bins + 1) * (1 / bins)
        return np.searchsorted(edges, p, side="right") - 1
    index = (p * bins + 1e-9).astype(np.intp)
    return np.minimum(index, bins - 1, out=index)


@dataclass(frozen=True)
class Reliability:
    """Per bin: weight, mean forecast, mean outcome (NaN where empty); arrays of shape (bins,).
    `total` is the weight of all rows, binned or not."""

    weight: Floats
    forecast: Floats
    outcome: Floats
    total: float

    @property
    def ece(self) -> float:
        """Expected calibration error: sum of weight share times |mean forecast - mean outcome|."""
        used = self.weight > 0
        gaps = np.abs(self.forecast[used] - self.outcome[used])
        return float(np.dot(self.weight[used], gaps) / self.total)


def reliability(
    p: Floats,
    y: Floats,
    w: Floats | None = None,
    bins: int = BINS,
    rule: Binning = "snapped",
) -> Reliability:
    """The reliability diagram's numbers."""
    index = bin_index(p, bins, rule)
    weight = np.bincount(index, weights=w, minlength=bins)[:bins].astype(np.float64)
    forecast = np.bincount(index, weights=p if w is None else w * p, minlength=bins)[:bins]
    outcome = np.bincount(index, weights=y if w is None else w * y, minlength=bins)[:bins]
    total = float(len(p)) if w is None else float(w.sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return Reliability(weight, forecast / weight, outcome / weight, total)


def ece(p: Floats, y: Floats, w: Floats | None = None, bins: int = BINS) -> float:
    """Expected calibration error over uniform bins (Naeini et al. 2015)."""
    return reliability(p, y, w, bins).ece


def effective_n(weights: Floats) -> float:
    """How many equal weights would count as much: (sum)^2 / sum of squares (Kish 1965)."""
    squares = float((weights * weights).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def wilson(share: float, n: float, of: int = 1) -> tuple[float, float]:
    """The 95 % interval of a share among n independent ones (Wilson 1927), which holds for the one
    that is picked `of` so many (Bonferroni); NaN where n is 0."""
    if not n > 0:
        return float("nan"), float("nan")
    z = NormalDist().inv_cdf(1 - 0.025 / max(of, 1))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * float(share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(frozen=True)
class Murphy:
    """Brier = reliability - resolution + uncertainty + residual (Murphy 1973; the residual is
    the spread of forecasts inside a bin, after Stephenson et al. 2008)."""

    reliability: float
    resolution: float
    uncertainty: float
    residual: float


def murphy(p: Floats, y: Floats, w: Floats | None = None, bins: int = BINS) -> Murphy:
    """The decomposition; for partial payouts the uncertainty is the variance of y."""
    rate = mean(y, w)
    uncertainty = mean((y - rate) ** 2, w)
    return _murphy(reliability(p, y, w, bins), rate, uncertainty, brier(p, y, w))


def _murphy(table: Reliability, rate: float, uncertainty: float, whole: float) -> Murphy:
    used = table.weight > 0
    share = table.weight[used] / table.weight.sum()
    calibration = float(np.dot(share, (table.forecast[used] - table.outcome[used]) ** 2))
    resolution = float(np.dot(share, (table.outcome[used] - rate) ** 2))
    residual = whole - (calibration - resolution + uncertainty)
    return Murphy(calibration, resolution, uncertainty, residual)


def sharpness(p: Floats, w: Floats | None = None) -> tuple[float, float]:
    """(variance of p, mean of p(1-p)): how far the forecasts leave the middle."""
    centre = mean(p, w)
    return mean((p - centre) ** 2, w), mean(p * (1 - p), w)


Parts = Callable[[], Iterable[tuple[Floats, Floats, Floats]]]
"""Rows in parts (p, y, w); each call gives all of them."""


def in_parts(parts: Parts) -> tuple[Reliability, Murphy, tuple[float, float]]:
    """`reliability`, `murphy` and `sharpness` of rows in parts, in the memory of one of them. Of
    one part they are the same to the last digit; NaN where there is nothing."""
    bins, sums = np.zeros((3, BINS)), np.zeros(5)
    for p, y, w in parts():
        index = bin_index(p)
        bins += [np.bincount(index, weights=v, minlength=BINS)[:BINS] for v in (w, w * p, w * y)]
        d = p - y
        sums += [w.sum(), np.dot(y, w), np.dot(p, w), np.dot(d * d, w), np.dot(p * (1 - p), w)]
    total = float(sums[0])
    if not total:
        nothing = np.full(BINS, np.nan)
        unknown = Murphy(*[float("nan")] * 4), (float("nan"), float("nan"))
        return Reliability(np.zeros(BINS), nothing, nothing, 0.0), *unknown
    rate, centre, whole, middle = (float(one) / total for one in sums[1:])
    around = np.zeros(2)
    for p, y, w in parts():
        around += [np.dot((y - rate) ** 2, w), np.dot((p - centre) ** 2, w)]
    uncertainty, variance = (float(one) / total for one in around)
    with np.errstate(invalid="ignore", divide="ignore"):
        table = Reliability(bins[0], bins[1] / bins[0], bins[2] / bins[0], total)
    return table, _murphy(table, rate, uncertainty, whole), (variance, middle)


def adaptive_ece(p: Floats, y: Floats, bins: int = BINS) -> float:
    """ECE over bins of (nearly) equal count, in the order of p (Nixon et al. 2019)."""
    order = np.argsort(p, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    gaps = [len(part) * abs(p[part].mean() - y[part].mean()) for part in parts]
    return float(sum(gaps) / len(p))
