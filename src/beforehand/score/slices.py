"""Skill, gain and bets on parts of the rows: by days to close or end, price, venue, category, year.

Parts are for looking where skill comes from. The skill on each has its own interval, which
describes it: one of twenty excludes 0 by chance. What may be said of a part is said by the gain of
the positions that were taken in it (verdict.py), marked at every later price, and widened for the
number of parts that are looked at. A part to which a row belongs only by what became known after it
has no gain: who is asked shortly before the end that came is asked because it came.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US, iso_us, to_us
from beforehand.score import positions, verdict
from beforehand.score.bets import Profit
from beforehand.score.scoreboard import Row, Verdict
from beforehand.score.skill import LEADING, Options, resamplers, skills
from beforehand.score.summary import (
    MoneyWire,
    PartGain,
    PartWire,
    SliceWire,
    gain_wire,
    number,
    pair,
)
from beforehand.score.table import Floats, Table, parts_of

HORIZONS = (("under a day", 1), ("1 to 7 days", 7), ("7 to 30 days", 30), ("30 to 90 days", 90))
PRICES = (("0 to 10 %", 0.1), ("10 to 30 %", 0.3), ("30 to 70 %", 0.7), ("70 to 90 %", 0.9))
MOST_CATEGORIES, DRAWS = 8, 500
CELLS = 8_000_000
"""The gains of questions that are in memory at once."""
OTHERS = "others"
"""The part of what is in no other one."""

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int16]


class Division(NamedTuple):
    """What rows are divided by, the names of the parts, the part of each row (-1 for none), of the
    settled questions and of the open ones, and the parts (by place) to which a row is known to
    belong when it is forecast."""

    by: str
    names: Sequence[str]
    place: Places
    place_open: Places | None
    known: frozenset[int]

    @property
    def parts(self) -> list[int]:
        """The places of the parts that have a row; none where there is only one."""
        several = (np.unique(self.place[part]).tolist() for part in parts_of(len(self.place)))
        there = sorted({k for some in several for k in some if k >= 0})
        return there if len(there) > 1 else []


@dataclass(frozen=True)
class _In:
    """The rows of one part of a division, with a fresh price if that is asked for."""

    division: Division
    k: int
    fresh: bool = False

    def __call__(self, part: Table, of: Table, rows: slice) -> Mask:
        place = self.division.place
        if of.open is None and self.division.place_open is not None:
            place = self.division.place_open
        inside = place[rows] == self.k
        return np.asarray(inside & positions.fresh(part, of, rows) if self.fresh else inside)


def slices(table: Table, options: Options, training: datetime | None = None) -> list[SliceWire]:
    """Every forecaster's skill on each part, where a division has more than one part, and the gain
    of those under test; `training` is when the models' training ended. The bets are added by
    `with_money`."""
    fast = Options(draws=min(options.draws, DRAWS), seed=options.seed, subjects=options.subjects)
    found, divided = list[SliceWire](), [*_divisions(table, training)]
    gains = _gains(table, divided, options)
    for one in divided:
        for k in one.parts:
            part = _slice(one.by, one.names[k], table.where(one.place == k), fast)
            found.append({**part, "gains": gains.get((one.by, k), []), "money": []})
            table.give_back()
    return found


def with_money(
    found: Sequence[SliceWire], table: Table, rows: Sequence[Row], training: datetime | None = None
) -> list[SliceWire]:
    """The slices of a table with every forecaster's bets on each part."""
    if not any(isinstance(row.profit, Profit) for row in rows):
        return [*found]
    parts = ((one, k) for one in _divisions(table, training) for k in one.parts)
    return [
        {**wire, "money": _money(rows, one.place == k, k if one.by == "price" else None)}
        for wire, (one, k) in zip(found, parts, strict=True)
    ]


def _gains(
    table: Table, divided: Sequence[Division], options: Options
) -> Mapping[tuple[str, int], list[PartGain]]:
    """What the forecasters under test gain in each part, by the division and the place of it."""
    parts = [(one, k) for one in divided for k in one.parts if k in one.known]
    names = [name for name in options.under_test(table) if name in table.forecasts]
    factor = verdict.for_tries([], options.tests(table) * max(len(parts), 1))
    found = dict[tuple[str, int], list[PartGain]]()

    def estimates(of: Sequence[tuple[Division, int, str]], fresh: bool) -> list[verdict.Estimate]:
        several = max(1, CELLS // max(len(table.events), 1))
        found = list[verdict.Estimate]()
        for begin in range(0, len(of), several):
            contests = {
                j: positions.AgainstMarket(name, only=_In(one, k, fresh))
                for j, (one, k, name) in enumerate(of[begin : begin + several])
            }
            gained = positions.gains(table, contests).values()
            found.extend(verdict.evidence(table, one, factor) for one in gained)
            table.give_back()
        return found

    every = [(one, k, name) for one, k in parts for name in names]
    shown = estimates(every, fresh=False)
    better, again = [j for j, one in enumerate(shown) if one.sign > 0], dict(enumerate(shown))
    if better and not all(one.fresh.all() for one in (table, table.open) if one is not None):
        newer = estimates([every[j] for j in better], fresh=True)
        again.update(zip(better, newer, strict=True))
    for j, ((one, k, name), estimate) in enumerate(zip(every, shown, strict=True)):
        if np.isnan(estimate.mean):  # It said nothing here.
            continue
        found.setdefault((one.by, k), []).append(
            {
                "forecaster": name,
                **gain_wire(estimate),
                "verdict": _said(estimate, again[j], options.margin),
            }
        )
    return found


def _said(estimate: verdict.Estimate, fresh: verdict.Estimate, margin: float) -> Verdict:
    """What may be said of a part, as `judge` says it of all rows."""
    if estimate.within(margin):
        return "is the market"
    if estimate.sign < 0:
        return "worse than the market"
    return "beats the market" if fresh.sign > 0 else "not shown"


def _divisions(table: Table, training: datetime | None) -> Iterator[Division]:
    """What rows are divided by."""
    still, closes = table.open, table.closes

    def to_close(of: Table, rows: slice) -> Floats:
        close = of.closes[of.q[rows]]
        return np.where(close > of.t[rows], (close - of.t[rows]) / DAY_US, np.nan)

    def to_end(of: Table, rows: slice) -> Floats:
        ended = of.resolved_at[of.q[rows]]
        return np.where(ended > 0, (ended - of.t[rows]) / DAY_US, np.nan)

    def bands(
        by: str,
        values: Callable[[Table, slice], Floats],
        tops: tuple[tuple[str, float], ...],
        last: str,
        known: bool = True,
    ) -> Division:
        names = [*(name for name, _ in tops), last]
        others = _bands_of(still, values, tops) if known and still is not None else None
        every = frozenset(range(len(names)) if known else ())
        return Division(by, names, _bands_of(table, values, tops), others, every)

    def groups(by: str, of: Callable[[Table], list[str]], names: list[str]) -> Division:
        others = None if still is None else _groups(still, of(still), names)
        every = frozenset(range(len(names)))
        return Division(by, names, _groups(table, of(table), names), others, every)

    if (closes > 0).any():
        yield bands("days to close", to_close, HORIZONS, "over 90 days")
    yield bands("days to end", to_end, HORIZONS, "over 90 days", known=False)
    yield bands("price", lambda of, rows: of.market[rows], PRICES, "90 to 100 %")
    yield groups("venue", _venues, [name for name, _ in Counter(_venues(table)).most_common()])
    kept = [name for name, _ in Counter(table.category).most_common(MOST_CATEGORIES)]
    yield groups("category", lambda of: of.category, [*kept, OTHERS])
    years = [intern(iso_us(int(at))[:4]) if at else "unknown" for at in table.resolved_at]
    names = sorted({*years})
    yield Division("resolved in", names, _groups(table, years, names), None, frozenset())
    if training is not None:
        ended = to_us(training)
        made, after = table.t >= ended, _of_rows(table, table.resolved_at > ended)
        names = [
            "resolved before its end",
            "forecast before it, resolved after",
            "forecast after it",
        ]
        place = np.where(after, np.where(made, 2, 1), 0).astype(np.int16)
        later = None if still is None else np.where(still.t >= ended, 2, 1).astype(np.int16)
        yield Division("training", names, place, later, frozenset({2}))


def _venues(table: Table) -> list[str]:
    return [intern(name.rpartition(":")[0].partition(":")[0]) for name in table.questions]


def _bands_of(
    table: Table, values: Callable[[Table, slice], Floats], bands: tuple[tuple[str, float], ...]
) -> Places:
    """`_bands` of all rows, from the values of some."""
    found = np.empty(len(table.q), dtype=np.int16)
    for part in parts_of(len(table.q)):
        found[part] = _bands(values(table, part), bands)
        table.let_go()
    return found


def _bands(values: Floats, bands: tuple[tuple[str, float], ...]) -> Places:
    """For each value the first band that it lies below, the one after all where there is none; -1
    where it is unknown."""
    place = np.searchsorted([top for _, top in bands], values, side="right")
    return np.where(np.isfinite(values), place, -1).astype(np.int16)


def _groups(table: Table, of_question: list[str], names: list[str]) -> Places:
    """Rows by what their question has: in the part of others where it is none of the names, if
    there is one. A table may not say it."""
    if not of_question:
        return np.full(len(table.q), -1, dtype=np.int16)
    place = {name: k for k, name in enumerate(names)}
    # By question first: rows of text take eight times the memory.
    other = place.get(OTHERS, -1)
    return _of_rows(table, np.array([place.get(n, other) for n in of_question], dtype=np.int16))


def _of_rows(table: Table, of_question: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What each row's question has."""
    found = np.empty(len(table.q), dtype=of_question.dtype)
    for part in parts_of(len(found)):
        found[part] = of_question[table.q[part]]
        table.let_go()
    return found


def _money(rows: Sequence[Row], mask: Mask, band: int | None) -> list[MoneyWire]:
    """The bets that were made on these rows, or at a price paid in this band."""
    found = list[MoneyWire]()
    for row in rows:
        if not isinstance(made := row.profit, Profit):
            continue
        ended = made.row < len(mask)  # The others are bets on questions that are still open.
        here = ended.copy() if band is None else ended & (_bands(made.price, PRICES) == band)
        if band is None:
            here[ended] = mask[made.row[ended]]
        if here.any():
            gain = made.gain[here]
            found.append(
                {
                    "forecaster": row.forecaster,
                    "bets": len(gain),
                    "won": float((gain > 0).mean()),
                    "staked": float(made.paid[here].sum()),
                    "gain": float(gain.sum()),
                }
            )
    return found


class _Skills(PartWire):
    by: str
    name: str
    n_events: int


def _slice(by: str, name: str, part: Table, options: Options) -> _Skills:
    samplers = {k: one for k, one in resamplers(part, options).items() if k in LEADING}
    found = skills(part, samplers, options)
    return {
        "by": by,
        "name": name,
        "n_questions": len(part.questions),
        "n_forecasts": len(part.q),
        "n_events": int(part.event.max()) + 1,
        "leaderboard": [
            {
                "forecaster": who,
                "n": skill.n,
                "brier": number(skill.brier) if skill.n else None,
                "market_brier": number(skill.market_brier) if skill.n else None,
                "skill_vs_market": number(skill.skill),
                "skill_ci": pair(skill.ci),
            }
            for who, skill in found.items()
        ],
    }
