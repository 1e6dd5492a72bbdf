"""Two forecasters against each other: the paired difference, its interval, and the power.

The difference is the mean over questions of b's squared error minus a's, on the rows where both
gave a forecast: above 0, a is better. Its interval is the one of skill against the market, with b
in the market's place: resampled by events and by resolution months, the wider one leads.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import floor, isfinite, log10
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.records.rows import PairWire
from beforehand.score.intervals import t_quantile
from beforehand.score.metrics import brier
from beforehand.score.skill import (
    MIN_EVENTS,
    Interval,
    Options,
    Paired,
    every_paired,
    paired,
    resamplers,
    skill_columns,
)
from beforehand.score.summary import number
from beforehand.score.table import Floats, Table

_NORMAL = NormalDist()


@dataclass(frozen=True, repr=False)
class Comparison:
    """a against b over the `n` rows that both forecast. `difference` is b's Brier score minus
    a's (questions count alike), with `ci` at 95 %; `minimum_detectable_effect` is the difference
    that is found with a power of 80 %. `brier_a` and `brier_b` are over the same rows."""

    a: str
    b: str
    n: int
    n_questions: int
    n_events: int
    difference: float
    ci: Interval
    leading: str
    minimum_detectable_effect: float
    brier_a: float
    brier_b: float
    error: float
    clusters: int
    """The difference's standard error, and the clusters that it rests on."""
    pairs: int = 1
    corrected: bool = True
    """How many pairs were compared at once, and whether this difference is still told from 0 once
    that is corrected for (Holm 1979)."""
    skills: tuple[float, float] | None = None
    """Where the two never forecast at one instant: their skills against the market, each at its own
    instants. `difference` is then the first less the second."""

    @property
    def verdict(self) -> str:
        """What may be said: which one is better, or that no difference is shown."""
        low, high = self.ci
        if self.n_events >= MIN_EVENTS and not self.corrected and not low <= 0 <= high:
            return f"no difference is shown once {self.pairs:,} pairs are corrected for"
        if self.skills is not None and self.n_events >= MIN_EVENTS and not low <= 0 <= high:
            first, second = (self.a, self.b) if low > 0 else (self.b, self.a)
            return f"{first} stood better against the market of its hours than {second}"
        if self.brier_a == self.brier_b and self.error == 0:
            return f"{self.a} and {self.b} forecast alike"
        if self.n_events >= MIN_EVENTS and low > 0:
            return f"{self.a} is better than {self.b}"
        if self.n_events >= MIN_EVENTS and high < 0:
            return f"{self.b} is better than {self.a}"
        few = f" ({self.n_events} events: {MIN_EVENTS} are needed)"
        return "no difference is shown" + (few if self.n_events < MIN_EVENTS else "")

    def power(self, effect: float) -> float:
        """The probability, from 0 to 1, that a true difference of this size (in Brier score) is
        found with an interval of 95 %: normal approximation with the standard error seen here.
        Raises InputError for what is not a number."""
        if isinstance(effect, bool) or not isinstance(effect, Real) or not isfinite(effect):
            raise InputError(f"power of {effect!r}: give a difference in Brier score, such as 0.01")
        if self.clusters < 2:
            return float("nan")
        if self.error == 0:
            return 1.0 if effect else 0.0
        reach = t_quantile(0.975, self.clusters - 1)
        shift = abs(effect) / self.error
        return _NORMAL.cdf(shift - reach) + _NORMAL.cdf(-shift - reach)

    def __repr__(self) -> str:
        low, high = self.ci
        if self.error == 0 and self.brier_a == self.brier_b:
            return f"{self.verdict} over {self.n:,} forecasts of {self.n_questions:,} questions"
        digits = _digits(low, high)
        if self.skills is not None:
            skill_a, skill_b = self.skills
            return (
                f"{self.verdict}: they never forecast at the same instant, so each is held against "
                f"the market at its own, and the hours may make the difference; skill of {self.a} "
                f"{skill_a:.4f} (Brier {self.brier_a:.4f}), of {self.b} {skill_b:.4f} (Brier "
                f"{self.brier_b:.4f}), difference {self.difference:.{digits}f} [{low:.{digits}f}, "
                f"{high:.{digits}f}] over {self.n_questions:,} questions that both forecast; "
                f"{self.minimum_detectable_effect:.4f} is found with a power of 80 %"
            )
        return (
            f"{self.verdict}: {self.a} {self.brier_a:.4f}, {self.b} {self.brier_b:.4f}, difference "
            f"{self.difference:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] over {self.n:,} "
            f"forecasts of {self.n_questions:,} questions; "
            f"{self.minimum_detectable_effect:.4f} is found with a power of 80 %"
        )

    def wire(self) -> PairWire:
        """JSON-ready; null is unknown."""
        found: PairWire = {
            "a": self.a,
            "b": self.b,
            "n": self.n,
            "n_questions": self.n_questions,
            "n_events": self.n_events,
            "difference": number(self.difference),
            "ci": [number(bound) for bound in self.ci],
            "leading": self.leading,
            "minimum_detectable_effect": number(self.minimum_detectable_effect),
            "power_at_0_01": number(self.power(0.01)),
            "brier_a": self.brier_a,
            "brier_b": self.brier_b,
            "pairs": self.pairs,
            "corrected": self.corrected,
            "verdict": self.verdict,
        }
        if self.skills is not None:
            found["skills"] = [number(one) for one in self.skills]
        return found


def _digits(low: float, high: float) -> int:
    """How many decimals show that an interval does not reach 0."""
    nearest = min(abs(low), abs(high))
    if low <= 0 <= high or not isfinite(nearest) or not nearest:
        return 4
    return max(4, 1 - floor(log10(nearest)))


Pair = tuple[str, str]


def pairs(table: Table, names: Sequence[str], options: Options = Options()) -> list[Comparison]:
    """Every two of the named forecasters that share a row, or else a question that has a price at
    the instants of both (`compare_apart`), in the order of the names, corrected for their
    number."""
    known = _known(table, names)
    priced = np.packbits(table.known(table.market))
    together, apart = list[Pair](), list[Pair]()

    def questions(name: str) -> npt.NDArray[np.int64]:
        return table.q[_rows(table, known[name] & priced)]

    for a, b in combinations(names, 2):
        if (known[a] & known[b]).any():
            together.append((a, b))
        elif np.intersect1d(questions(a), questions(b)).size:
            apart.append((a, b))
    found = _compared(table, together, known, options)
    found |= {(a, b): compare_apart(table, a, b, options) for a, b in apart}
    in_order = [found[pair] for pair in combinations(names, 2) if pair in found]
    return _corrected(in_order, 1 - options.level)


def _corrected(found: Sequence[Comparison], alpha: float) -> list[Comparison]:
    """Comparisons made at once, with the word whether each is still told from 0: Holm's steps, by
    Student's t with each one's clusters (as the deflated bound of skill)."""
    if len(found) < 2:
        return list(found)
    left, told = list(range(len(found))), set[int]()
    while True:
        now = [k for k in left if _beyond(found[k], alpha / len(left))]
        if not now:
            break
        told.update(now)
        left = [k for k in left if k not in told]
    return [replace(one, pairs=len(found), corrected=k in told) for k, one in enumerate(found)]


def _beyond(one: Comparison, alpha: float) -> bool:
    if one.clusters < 2:
        return False
    return abs(one.difference) > t_quantile(1 - alpha / 2, one.clusters - 1) * one.error


def compare(table: Table, a: str, b: str, options: Options = Options()) -> Comparison:
    """The paired comparison of two forecasters of a table (`market` is one of them). Raises
    InputError if the two share no row."""
    known = _known(table, (a, b))
    if not (known[a] & known[b]).any():
        raise InputError(f"{a} and {b} have no market and instant in common: nothing can be paired")
    return _compared(table, [(a, b)], known, options)[a, b]


Known = dict[str, npt.NDArray[np.uint8]]
"""The rows that each forecaster forecast, a bit each."""


def _known(table: Table, names: Iterable[str]) -> Known:
    return {name: np.packbits(table.known(_column(table, name))) for name in names}


def _rows(table: Table, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return np.unpackbits(packed, count=len(table.q)).astype(bool)


def _compared(
    table: Table, names: Iterable[Pair], known: Known, options: Options
) -> dict[Pair, Comparison]:
    """The comparison of each two. Those that share the same rows are resampled at once."""
    same: dict[bytes, list[Pair]] = {}
    for a, b in names:
        same.setdefault((known[a] & known[b]).tobytes(), []).append((a, b))
    found = dict[Pair, Comparison]()
    for packed, those in same.items():
        found |= _on(table, _rows(table, np.frombuffer(packed, np.uint8)), those, options)
    return found


def _on(
    table: Table, both: npt.NDArray[np.bool_], names: Sequence[Pair], options: Options
) -> Iterator[tuple[Pair, Comparison]]:
    """The comparisons over these rows, which each two of the names share."""
    shared, n, scores = table.part(both), int(both.sum()), dict[str, float]()

    def said(name: str) -> Floats:
        p = _column(table, name)
        return p if n == len(both) else p[both]  # Of all rows, nothing is copied.

    def columns() -> Iterator[tuple[Pair, tuple[Floats, Floats]]]:
        for a, b in names:
            p, q = said(a), said(b)
            yield (a, b), skill_columns(replace(shared, market=q), p)
            for name, mine in ((a, p), (b, q)):
                if name not in scores:
                    scores[name] = _brier(shared, mine)

    for (a, b), one in every_paired(columns(), resamplers(shared, options), 1, options.level):
        yield (a, b), Comparison(a=a, b=b, n=n, **_found(one), brier_a=scores[a], brier_b=scores[b])


def _brier(table: Table, p: Floats) -> float:
    """The Brier score of forecasts for every row; questions count alike."""
    squared = whole = 0.0
    for rows, part in table.blocks():
        d = p[rows] - part.y[part.q]
        weights = part.row_weights(np.ones(len(d), dtype=bool))
        squared, whole = squared + np.dot(d * d, weights), whole + weights.sum()
    return float(squared / whole)


def compare_apart(table: Table, a: str, b: str, options: Options = Options()) -> Comparison:
    """Two forecasters that share questions and no instant: each one's skill against the market at
    its own instants, and their difference per question. Raises InputError where no question has
    both."""
    p, q = _column(table, a), _column(table, b)
    (gain_a, in_a), (gain_b, in_b) = skill_columns(table, p), skill_columns(table, q)
    both = in_a * in_b
    n = float(both.sum())
    if not n:
        raise InputError(
            f"{a} and {b} have no question in common at which the market had a price: nothing can "
            "be paired"
        )
    found = paired((gain_a - gain_b) * both, both, resamplers(table, options), 1, options.level)
    on = both[table.q] > 0
    scores = []
    for said in (p, q):
        mine = on & np.isfinite(said) & np.isfinite(table.market)
        scores.append(brier(said[mine], table.y[table.q][mine], table.row_weights(mine)[mine]))
    return Comparison(
        a=a,
        b=b,
        n=int((on & (np.isfinite(p) | np.isfinite(q))).sum()),
        **_found(found),
        brier_a=scores[0],
        brier_b=scores[1],
        skills=(float((gain_a * both).sum()) / n, float((gain_b * both).sum()) / n),
    )


def _found(found: Paired) -> dict[str, Any]:
    """What a paired difference says, as fields of a Comparison."""
    return {
        "n_questions": found.n_questions,
        "n_events": found.n_events,
        "difference": found.skill,
        "ci": found.ci,
        "leading": found.leading,
        "minimum_detectable_effect": found.minimum_detectable_effect,
        "error": found.error,
        "clusters": found.clusters,
    }


def _column(table: Table, name: str) -> Floats:
    if name == "market":
        return table.market
    if name not in table.forecasts:
        known = ", ".join(["market", *table.forecasts])
        raise InputError(f"no forecaster {name!r}: there are {known}")
    return table.forecasts[name]
