"""Paired skill against the market: the estimate, its intervals, and when it is shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from beforehand.score.bets import Kelly
from beforehand.score.intervals import DRAWS, Resampler
from beforehand.score.table import MARKET as MARKET
from beforehand.score.table import Floats, Table
from beforehand.score.verdict import PRINTED

K = TypeVar("K")
LEADING = ("event", "period")
MIN_ANSWERED = 0.95
"""The share of the rows asked for that a forecaster must answer to be said to beat the market: as
ForecastBench, which ranks no set with more than 5 % imputed."""
AT_ONCE = 400_000
"""Numbers that are resampled at once."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Options:
    """`variants` is how many forecasters were tried on this set, here and before. `subjects` are
    the forecasters under test (all, if None); the others are yardsticks and are not counted."""

    draws: int = DRAWS
    seed: int = 0
    level: float = 0.95
    variants: int | None = None
    kelly: Kelly = Kelly()
    subjects: tuple[str, ...] | None = None
    margin: float = PRINTED
    """The difference in Brier score that was stated beforehand to be none."""

    def under_test(self, table: Table) -> tuple[str, ...]:
        """The forecasters under test."""
        return tuple(table.forecasts) if self.subjects is None else self.subjects

    def tests(self, table: Table) -> int:
        """How many comparisons a verdict must hold for."""
        return max(self.variants or 0, len(self.under_test(table)), 1)


@dataclass(frozen=True)
class Paired:
    """Paired skill against the market: mean over questions of the market's squared error minus
    the forecaster's. `ci` is the interval of the wider clustering (`leading`). It rests on the
    clusters in which the forecaster made forecasts, `n_events` of them by event. It describes: the
    verdict is that of verdict.py."""

    skill: float
    n_questions: int
    n_events: int
    leading: str
    ci: Interval
    ci_by: dict[str, Interval]
    effective_n: float | None
    ci_error: float
    """The standard error of the bounds of `ci` that comes of the number of draws."""


@dataclass(frozen=True)
class Skill(Paired):
    """The same with its number of forecasts, its Brier score on the rows that have a price, and
    whether all its forecasts equal the market's price."""

    n: int
    brier: float
    identical: bool

    @property
    def market_brier(self) -> float:
        """The market's Brier score on the same rows."""
        return self.brier + self.skill


def resamplers(table: Table, options: Options) -> dict[str, Resampler]:
    """The clusterings: by event, by resolution month, and (labelled, never leading) by question."""
    by_question = np.arange(len(table.questions), dtype=np.int64)
    return {
        "event": Resampler(table.event, options.draws, options.seed),
        "period": Resampler(table.period, options.draws, options.seed + 1),
        "question": Resampler(by_question, options.draws, options.seed + 2),
    }


def width(interval: Interval) -> float:
    """How wide an interval is; infinite where it is not known."""
    low, high = interval
    return high - low if np.isfinite(high - low) else float("inf")


def skill_columns(table: Table, p: Floats) -> tuple[Floats, Floats]:
    """(mean skill, 1.0 where present) per question.

    The factored form is exactly 0 where p equals the market, whatever the rounding.
    """
    made = [_gains(part, p[rows]) for rows, part in table.blocks()]
    gain, present = (np.concatenate(columns) for columns in zip(*made, strict=True))
    return gain, present


def _gains(table: Table, p: Floats) -> tuple[Floats, Floats]:
    valid = np.isfinite(p) & np.isfinite(table.market)
    # Where every row counts, nothing is copied.
    rows: npt.NDArray[np.intp] | slice = slice(None) if valid.all() else np.flatnonzero(valid)
    q, mine, market, n = table.q[rows], p[rows], table.market[rows], len(table.questions)
    counts = np.bincount(q, minlength=n)
    gain = (market - mine) * (market + mine - 2 * table.y[q])
    sums = np.bincount(q, weights=gain, minlength=n)
    return sums / np.maximum(counts, 1), (counts > 0).astype(np.float64)


def ratio(totals: Floats) -> Floats:
    """Each draw's total skill over its number of questions."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[:, 0] / totals[:, 1])


def paired(gain: Floats, present: Floats, samplers: dict[str, Resampler], level: float) -> Paired:
    """The paired skill of one forecaster from its per-question columns (`skill_columns`)."""
    ((_, found),) = every_paired([("", (gain, present))], samplers, level)
    return found


def every_paired(
    columns: Iterable[tuple[K, tuple[Floats, Floats]]],
    samplers: dict[str, Resampler],
    level: float,
) -> Iterator[tuple[K, Paired]]:
    """`paired` of each, in their order. Those with the same questions are resampled at once: the
    draws are read once for all of them, and each figure is the same as alone, but for the last
    digit where there are so many clusters that the draws are not held in memory."""
    names, gains, shared = list[K](), list[Floats](), np.zeros(0)
    for name, (gain, present) in columns:
        full = len(gains) * len(gain) >= AT_ONCE
        if gains and (full or not np.array_equal(present, shared)):
            yield from zip(names, _resampled(gains, shared, samplers, level), strict=True)
            names, gains = [], []
        shared = present
        names.append(name)
        gains.append(gain)
    yield from zip(names, _resampled(gains, shared, samplers, level), strict=True)


def _resampled(
    gains: Sequence[Floats],
    present: Floats,
    samplers: dict[str, Resampler],
    level: float,
) -> Iterator[Paired]:
    if not gains:
        return
    columns, drawn = np.stack([*gains, present], axis=1), dict[str, tuple[Resampler, Floats]]()
    for kind, everyone in samplers.items():
        sampler = everyone.holding(present)
        drawn[kind] = sampler, sampler.totals(columns)
    del columns
    for k, gain in enumerate(gains):
        mine = {kind: (one, ratio(t[:, [k, -1]])) for kind, (one, t) in drawn.items()}
        yield _paired(gain, present, mine, level)


def _paired(
    gain: Floats,
    present: Floats,
    drawn: Mapping[str, tuple[Resampler, Floats]],
    level: float,
) -> Paired:
    count = float(present.sum())
    estimate = float(gain.sum()) / count if count else float("nan")
    ci = {kind: sampler.interval(draws, level) for kind, (sampler, draws) in drawn.items()}
    leading = max(LEADING, key=lambda kind: width(ci[kind]))
    sampler, draws = drawn[leading]
    error, effective = sampler.standard_error(draws), None
    if sampler.size > 1 and error > 0 and count > 1:
        effective = min(float(np.var(gain[present > 0], ddof=1)) / error**2, count)
    return Paired(
        skill=estimate,
        n_questions=int(count),
        n_events=drawn["event"][0].size,
        leading=leading,
        ci=ci[leading],
        ci_by=ci,
        effective_n=effective,
        ci_error=sampler.error(draws, level),
    )


def skills(table: Table, samplers: dict[str, Resampler], options: Options) -> dict[str, Skill]:
    """Every forecaster's paired skill over the rows of a table."""
    seen = dict[str, tuple[int, float, bool]]()

    def columns() -> Iterator[tuple[str, tuple[Floats, Floats]]]:
        for name in (MARKET, *table.forecasts):
            p, n, identical, squared = table.said(name), 0, True, list[Floats]()
            for rows, part in table.blocks():
                mine = p[rows]
                valid = np.isfinite(mine) & np.isfinite(part.market)
                n += int(valid.sum())
                identical &= bool((mine[valid] == part.market[valid]).all())
                squared.append(_squared(part, mine))
            gain, present = skill_columns(table, p)
            brier = float(np.concatenate(squared).sum()) / max(float(present.sum()), 1.0)
            seen[name] = n, brier, identical and n > 0
            yield name, (gain, present)

    found, out = every_paired(columns(), samplers, options.level), {}
    for name, one in found:
        n, brier, identical = seen[name]
        out[name] = Skill(**vars(one), n=n, brier=brier, identical=identical)
    return out


def _squared(table: Table, p: Floats) -> Floats:
    """Each question's Brier score, over the rows that have a price."""
    valid = np.isfinite(p) & np.isfinite(table.market)
    squared = np.where(valid, (p - table.y[table.q]) ** 2, 0.0)
    return table.question_means(squared, valid)[0]
