"""Two forecasters against each other: what one gained on the other, the verdict, and the power.

The difference is the mean over questions of b's squared error minus a's, on the rows where both
gave a forecast: above 0, a is better; its interval resamples events and resolution months. These
describe it. Which one is better is said by the profit of the positions that a takes against b
(verdict.py), marked at every price on record; where a market has no price, at its end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.records.rows import PairWire
from beforehand.score import positions, verdict
from beforehand.score.metrics import brier
from beforehand.score.report.words import digits_of
from beforehand.score.skill import (
    Interval,
    Options,
    Paired,
    every_paired,
    paired,
    resamplers,
    skill_columns,
)
from beforehand.score.summary import number, pair
from beforehand.score.table import Floats, Table


@dataclass(frozen=True, repr=False)
class Comparison:
    """a against b over the `n` rows that both forecast. `difference` is b's Brier score minus
    a's (questions count alike), with `ci` at 95 %. `brier_a` and `brier_b` are over the same rows.
    `gain` is what a gains on b where each forecast weighs as was known when it was made, and what
    the verdict rests on. `margin` was stated beforehand to be no difference."""

    a: str
    b: str
    n: int
    n_questions: int
    n_events: int
    difference: float
    ci: Interval
    leading: str
    brier_a: float
    brier_b: float
    gain: verdict.Estimate
    pairs: int = 1
    """How many pairs were compared at once: the gain's interval is widened for them."""
    skills: tuple[float, float] | None = None
    """Where the two never forecast at one instant: their skills against the market, each at its own
    instants. `difference` is then the first less the second."""
    margin: float = verdict.PRINTED

    @property
    def verdict(self) -> str:
        """What may be said: which one is better, that they are alike, or that no difference is
        shown."""
        if not self.gain.apart:
            return f"{self.a} and {self.b} forecast alike"
        if self.gain.within(self.margin):
            return f"{self.a} and {self.b} are equally good, within {self.margin:.4g}"
        if not self.gain.sign:
            return f"no difference is shown{self._why}"
        first, second = (self.a, self.b) if self.gain.sign > 0 else (self.b, self.a)
        if self.skills is not None:
            return f"{first} stood better against the market of its hours than {second}"
        return f"{first} is better than {second}"

    @property
    def _why(self) -> str:
        """Why none is, where the interval would show one."""
        low, high = self.gain.interval
        if not self.gain.enough:
            few = f"{self.gain.rests_on:.3g} effective periods"
            return f" ({few}: {verdict.LEAST_PERIODS:g} are needed)"
        if low <= 0 <= high:
            return ""
        if self.gain.unsettled > verdict.MOST_UNSETTLED:
            return f" ({100 * self.gain.unsettled:.0f} % of it rests on questions still open)"
        return f" once {self.pairs:,} pairs are corrected for" if self.pairs > 1 else ""

    def power(self, effect: float) -> float:
        """The probability, from 0 to 1, that a true difference of this size (in Brier score) is
        told from 0, with the error seen here. Raises InputError for what is not a number."""
        if isinstance(effect, bool) or not isinstance(effect, Real) or not isfinite(effect):
            raise InputError(f"power of {effect!r}: give a difference in Brier score, such as 0.01")
        return self.gain.power(float(effect))

    def __repr__(self) -> str:
        over = f"over {self.n:,} forecasts of {self.n_questions:,} questions"
        if not self.gain.apart:
            return f"{self.verdict} {over}"
        low, high = self.gain.bounds
        digits = digits_of((low, high))
        found = (
            f"{self.a} gains {self.gain.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] on "
            f"{self.b} a forecast, "
            f"and {self.gain.detectable:.4f} is found with a power of 80 %"
        )
        if self.skills is not None:
            skill_a, skill_b = self.skills
            return (
                f"{self.verdict}: they never forecast at the same instant, so each is held against "
                f"the market at its own, and the hours may make the difference; {found}; skill of "
                f"{self.a} {skill_a:.4f} (Brier {self.brier_a:.4f}), of {self.b} {skill_b:.4f} "
                f"(Brier {self.brier_b:.4f}) {over}"
            )
        return (
            f"{self.verdict}: {found}; Brier score of {self.a} {self.brier_a:.4f}, of {self.b} "
            f"{self.brier_b:.4f} {over}"
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
            "ci": pair(self.ci),
            "leading": self.leading,
            "gain": number(self.gain.mean),
            "gain_ci": pair(self.gain.interval),
            "gain_bounds": pair(self.gain.bounds),
            "effective_periods": number(self.gain.rests_on),
            "unsettled": number(self.gain.unsettled),
            "margin": self.margin,
            "minimum_detectable_effect": number(self.gain.detectable),
            "power_at_0_01": number(self.power(0.01)),
            "brier_a": self.brier_a,
            "brier_b": self.brier_b,
            "pairs": self.pairs,
            "verdict": self.verdict,
        }
        if self.skills is not None:
            found["skills"] = [number(one) for one in self.skills]
        return found


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
    shown = _gains(table, together, apart, options)
    found = _compared(table, together, known, shown, options)
    found |= {(a, b): _apart(table, a, b, shown[a, b], options) for a, b in apart}
    in_order = [found[pair] for pair in combinations(names, 2) if pair in found]
    return [replace(one, pairs=len(in_order)) for one in in_order]


def compare(table: Table, a: str, b: str, options: Options = Options()) -> Comparison:
    """The paired comparison of two forecasters of a table (`market` is one of them). Raises
    InputError if the two share no row."""
    known = _known(table, (a, b))
    if not (known[a] & known[b]).any():
        raise InputError(f"{a} and {b} have no market and instant in common: nothing can be paired")
    shown = _gains(table, [(a, b)], (), options)
    return _compared(table, [(a, b)], known, shown, options)[a, b]


def _gains(
    table: Table, together: Iterable[Pair], apart: Iterable[Pair], options: Options
) -> dict[Pair, verdict.Estimate]:
    """What each pair's positions show, widened for the number of pairs."""
    contests = dict[Pair, positions.Contest]()
    contests |= {(a, b): positions.AgainstEachOther(a, b) for a, b in together}
    contests |= {(a, b): positions.AgainstEachOther(a, b, apart=True) for a, b in apart}
    found = positions.gains(table, contests)
    factor = verdict.for_tries([one.net for one in found.values()], len(found))
    return {names: verdict.evidence(table, one, factor) for names, one in found.items()}


Known = dict[str, npt.NDArray[np.uint8]]
"""The rows that each forecaster forecast, a bit each."""


def _known(table: Table, names: Iterable[str]) -> Known:
    return {name: np.packbits(table.known(_column(table, name))) for name in names}


def _rows(table: Table, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return np.unpackbits(packed, count=len(table.q)).astype(bool)


Shown = dict[Pair, verdict.Estimate]
"""What the positions of each pair show."""


def _compared(
    table: Table, names: Iterable[Pair], known: Known, shown: Shown, options: Options
) -> dict[Pair, Comparison]:
    """The comparison of each two. Those that share the same rows are resampled at once."""
    same: dict[bytes, list[Pair]] = {}
    for a, b in names:
        same.setdefault((known[a] & known[b]).tobytes(), []).append((a, b))
    found = dict[Pair, Comparison]()
    for packed, those in same.items():
        rows = _rows(table, np.frombuffer(packed, np.uint8))
        found |= _on(table, rows, those, shown, options)
    return found


def _on(
    table: Table,
    both: npt.NDArray[np.bool_],
    names: Sequence[Pair],
    shown: Shown,
    options: Options,
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

    for (a, b), one in every_paired(columns(), resamplers(shared, options), options.level):
        yield (
            (a, b),
            Comparison(
                a=a,
                b=b,
                n=n,
                **_found(one),
                brier_a=scores[a],
                brier_b=scores[b],
                gain=shown[a, b],
                margin=options.margin,
            ),
        )


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
    return _apart(table, a, b, _gains(table, (), [(a, b)], options)[a, b], options)


def _apart(table: Table, a: str, b: str, gain: verdict.Estimate, options: Options) -> Comparison:
    p, q = _column(table, a), _column(table, b)
    (gain_a, in_a), (gain_b, in_b) = skill_columns(table, p), skill_columns(table, q)
    both = in_a * in_b
    n = float(both.sum())
    if not n:
        raise InputError(
            f"{a} and {b} have no question in common at which the market had a price: nothing can "
            "be paired"
        )
    found = paired((gain_a - gain_b) * both, both, resamplers(table, options), options.level)
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
        gain=gain,
        skills=(float((gain_a * both).sum()) / n, float((gain_b * both).sum()) / n),
        margin=options.margin,
    )


def _found(found: Paired) -> dict[str, Any]:
    """What a paired difference says, as fields of a Comparison."""
    return {
        "n_questions": found.n_questions,
        "n_events": found.n_events,
        "difference": found.skill,
        "ci": found.ci,
        "leading": found.leading,
    }


def _column(table: Table, name: str) -> Floats:
    if name == "market":
        return table.market
    if name not in table.forecasts:
        known = ", ".join(["market", *table.forecasts])
        raise InputError(f"no forecaster {name!r}: there are {known}")
    return table.forecasts[name]
