"""Skill and bets on parts of the rows: by horizon, price, venue, category, year and training end.

Slices are for looking where skill comes from. Each has its own interval, which is not widened for
the number of slices that are looked at: one of twenty excludes 0 by chance.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt

from beforehand.clock import iso_us, to_us
from beforehand.score.bets import Profit
from beforehand.score.scoreboard import Row
from beforehand.score.skill import LEADING, Options, resamplers, skills
from beforehand.score.summary import MoneyWire, PartWire, SliceWire, number, pair
from beforehand.score.table import Floats, Table, parts_of

DAY = 86_400_000_000
HORIZONS = (("under a day", 1), ("1 to 7 days", 7), ("7 to 30 days", 30), ("30 to 90 days", 90))
PRICES = (("0 to 10 %", 0.1), ("10 to 30 %", 0.3), ("30 to 70 %", 0.7), ("70 to 90 %", 0.9))
MOST_CATEGORIES, DRAWS = 8, 500

Mask = npt.NDArray[np.bool_]


def slices(
    table: Table, options: Options, rows: Sequence[Row], training: datetime | None = None
) -> list[SliceWire]:
    """Every forecaster's skill and bets on each part, where a division has more than one part;
    `training` is when the models' training ended."""
    fast = Options(draws=min(options.draws, DRAWS), seed=options.seed, subjects=options.subjects)
    found = list[SliceWire]()
    for by, parts in _divisions(table, training):
        held = [(name, mask) for name, mask in parts if mask.any()]
        if len(held) > 1:
            found += [
                {**_slice(by, name, table.where(mask), fast), "money": _money(rows, mask, by, name)}
                for name, mask in held
            ]
    return found


def _divisions(
    table: Table, training: datetime | None
) -> Iterator[tuple[str, list[tuple[str, Mask]]]]:
    """(what rows are divided by, the parts with their rows)."""

    def days(rows: slice) -> Floats:
        resolved = table.resolved_at[table.q[rows]]
        return np.where(resolved > 0, (resolved - table.t[rows]) / DAY, np.nan)

    yield "horizon", _bands_of(table, days, HORIZONS, "over 90 days")
    yield "price", _bands_of(table, lambda rows: table.market[rows], PRICES, "90 to 100 %")
    venues = [name.rpartition(":")[0].partition(":")[0] for name in table.questions]
    yield "venue", _groups(table, venues, len(venues))
    yield "category", _groups(table, table.category, MOST_CATEGORIES)
    years = [iso_us(int(at))[:4] if at else "unknown" for at in table.resolved_at]
    yield "resolved in", sorted(_groups(table, years, len(set(years))))
    if training is not None:
        ended = to_us(training)
        made, after = table.t >= ended, (table.resolved_at > ended)[table.q]
        yield (
            "training",
            [
                ("resolved before its end", ~after),
                ("forecast before it, resolved after", after & ~made),
                ("forecast after it", made & after),
            ],
        )


def _bands_of(
    table: Table,
    values: Callable[[slice], Floats],
    bands: tuple[tuple[str, float], ...],
    last: str,
) -> list[tuple[str, Mask]]:
    """`_bands` of all rows, from the values of some."""
    found: dict[str, list[Mask]] = {}
    for part in parts_of(len(table.q)):
        for name, mask in _bands(values(part), bands, last):
            found.setdefault(name, []).append(mask)
        table.let_go()
    return [(name, np.concatenate(masks)) for name, masks in found.items()]


def _bands(
    values: npt.NDArray[np.float64], bands: tuple[tuple[str, float], ...], last: str
) -> list[tuple[str, Mask]]:
    """Rows by the first band that they lie below; unknown values are in none."""
    place = np.searchsorted([top for _, top in bands], values, side="right")
    names = [*(name for name, _ in bands), last]
    return [(name, (place == i) & np.isfinite(values)) for i, name in enumerate(names)]


def _groups(table: Table, of_question: list[str], most: int) -> list[tuple[str, Mask]]:
    """Rows by what their question has, the most frequent first, the rest together. A table may not
    say it."""
    if not of_question:
        return []
    kept = [name for name, _ in Counter(of_question).most_common(most)]
    names = np.array([name if name in kept else "others" for name in of_question])
    # Compared by question, and not by row: rows of text take eight times the memory.
    found = [(name, (names == name)[table.q]) for name in [*kept, "others"]]
    table.let_go()
    return found


def _money(rows: Sequence[Row], mask: Mask, by: str, name: str) -> list[MoneyWire]:
    """The bets that were made on these rows; by price, those at a price paid in this band."""
    found = list[MoneyWire]()
    for row in rows:
        if not isinstance(made := row.profit, Profit):
            continue
        here = mask[made.row]
        if by == "price":
            here = dict(_bands(made.price, PRICES, "90 to 100 %"))[name]
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
