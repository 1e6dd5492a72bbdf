"""Skill and bets on parts of the rows: by horizon, price, venue, category, year and training end.

Slices are for looking where skill comes from. Each has its own interval, which is not widened for
the number of slices that are looked at: one of twenty excludes 0 by chance.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from sys import intern
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US, iso_us, to_us
from beforehand.score.bets import Profit
from beforehand.score.scoreboard import Row
from beforehand.score.skill import LEADING, Options, resamplers, skills
from beforehand.score.summary import MoneyWire, PartWire, SliceWire, number, pair
from beforehand.score.table import Floats, Table, parts_of

HORIZONS = (("under a day", 1), ("1 to 7 days", 7), ("7 to 30 days", 30), ("30 to 90 days", 90))
PRICES = (("0 to 10 %", 0.1), ("10 to 30 %", 0.3), ("30 to 70 %", 0.7), ("70 to 90 %", 0.9))
MOST_CATEGORIES, DRAWS = 8, 500

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int16]


def slices(table: Table, options: Options, training: datetime | None = None) -> list[SliceWire]:
    """Every forecaster's skill on each part, where a division has more than one part; `training` is
    when the models' training ended. The bets are added by `with_money`."""
    fast = Options(draws=min(options.draws, DRAWS), seed=options.seed, subjects=options.subjects)
    found = list[SliceWire]()
    for by, name, _, mask in _parts(table, training):
        found.append({**_slice(by, name, table.where(mask), fast), "money": []})
        table.give_back()
    return found


def with_money(
    found: Sequence[SliceWire], table: Table, rows: Sequence[Row], training: datetime | None = None
) -> list[SliceWire]:
    """The slices of a table with every forecaster's bets on each part."""
    if not any(isinstance(row.profit, Profit) for row in rows):
        return [*found]
    return [
        {**one, "money": _money(rows, mask, k if by == "price" else None)}
        for one, (by, _, k, mask) in zip(found, _parts(table, training), strict=True)
    ]


def _parts(table: Table, training: datetime | None) -> Iterator[tuple[str, str, int, Mask]]:
    """Each part: what it was divided by, its name, its place among those, and its rows."""
    for by, names, place in _divisions(table, training):
        several = (np.unique(place[part]).tolist() for part in parts_of(len(place)))
        there = sorted({k for some in several for k in some if k >= 0})
        for k in there if len(there) > 1 else ():
            yield by, names[k], k, place == k


def _divisions(table: Table, training: datetime | None) -> Iterator[tuple[str, list[str], Places]]:
    """What rows are divided by, the names of the parts, and the part of each row, -1 for none."""

    def days(rows: slice) -> Floats:
        resolved = table.resolved_at[table.q[rows]]
        return np.where(resolved > 0, (resolved - table.t[rows]) / DAY_US, np.nan)

    yield "horizon", *_bands_of(table, days, HORIZONS, "over 90 days")
    yield "price", *_bands_of(table, lambda rows: table.market[rows], PRICES, "90 to 100 %")
    venues = [intern(name.rpartition(":")[0].partition(":")[0]) for name in table.questions]
    yield "venue", *_groups(table, venues, [name for name, _ in Counter(venues).most_common()])
    kept = [name for name, _ in Counter(table.category).most_common(MOST_CATEGORIES)]
    yield "category", *_groups(table, table.category, [*kept, "others"])
    years = [intern(iso_us(int(at))[:4]) if at else "unknown" for at in table.resolved_at]
    yield "resolved in", *_groups(table, years, sorted({*years}))
    if training is not None:
        ended = to_us(training)
        made, after = table.t >= ended, _of_rows(table, table.resolved_at > ended)
        names = [
            "resolved before its end",
            "forecast before it, resolved after",
            "forecast after it",
        ]
        yield "training", names, np.where(after, np.where(made, 2, 1), 0).astype(np.int16)


def _bands_of(
    table: Table,
    values: Callable[[slice], Floats],
    bands: tuple[tuple[str, float], ...],
    last: str,
) -> tuple[list[str], Places]:
    """`_bands` of all rows, from the values of some."""
    found = np.empty(len(table.q), dtype=np.int16)
    for part in parts_of(len(table.q)):
        found[part] = _bands(values(part), bands)
        table.let_go()
    return [*(name for name, _ in bands), last], found


def _bands(values: Floats, bands: tuple[tuple[str, float], ...]) -> Places:
    """For each value the first band that it lies below, the one after all where there is none; -1
    where it is unknown."""
    place = np.searchsorted([top for _, top in bands], values, side="right")
    return np.where(np.isfinite(values), place, -1).astype(np.int16)


def _groups(table: Table, of_question: list[str], names: list[str]) -> tuple[list[str], Places]:
    """Rows by what their question has, in the last part where it is none of the names. A table may
    not say it."""
    if not of_question:
        return [], np.full(len(table.q), -1, dtype=np.int16)
    place = {name: k for k, name in enumerate(names)}
    # By question first: rows of text take eight times the memory.
    found = np.array([place.get(name, len(names) - 1) for name in of_question], dtype=np.int16)
    return names, _of_rows(table, found)


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
