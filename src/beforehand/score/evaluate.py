"""From rows to a verdict: the table, the scores, the card, the placebo.

Backtests, the benchmark and `score FILE` all end here, so that their figures mean the same.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from sys import intern
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from beforehand.clock import iso, iso_us, to_us
from beforehand.memory import trim
from beforehand.score import validity, verdict
from beforehand.score.bets import Kelly
from beforehand.score.compare import Comparison, pairs
from beforehand.score.intervals import kept_draws
from beforehand.score.metrics import CLIP
from beforehand.score.placebo import Placebo, placebo
from beforehand.score.scoreboard import Row, score
from beforehand.score.skill import MARKET, MIN_ANSWERED, Options
from beforehand.score.slices import slices, with_money
from beforehand.score.summary import (
    PartWire,
    ResultWire,
    SliceWire,
    check_wire,
    number,
    pair,
    row_wire,
)
from beforehand.score.table import (
    Disk,
    Spool,
    Table,
    event_labels,
    of_rows,
    parts_of,
    picked,
    ranks,
    relabel,
)

Floats = npt.NDArray[np.float64]
T = TypeVar("T")
UNRANKED, PATH_TEST = ("scripted",), "a path test, not a forecaster"
"""Forecasters that are scored to test the path, and never ranked."""
FEES = {"POLYMARKET": 0.05, "KALSHI": 0.07, "SIMEX": 0.02, "SIMKET": 0.04}
"""Taker fee rate by venue, times price times (1 - price) a share: Polymarket's for most topics,
Kalshi's general schedule, and the simulated venues' own. Other venues charge nothing."""


class Beside(Protocol):
    """Begins work that may be done on another core; what it returns waits for the result."""

    def __call__(self, work: Callable[[], T]) -> Callable[[], T]: ...


def later(work: Callable[[], T]) -> Callable[[], T]:
    """Nobody else does it: it is done when its result is asked for."""
    return work


@dataclass(frozen=True, slots=True)
class Question:
    """What scoring needs to know of a question; `settled` is None for open, void and disputed.
    Settled questions without `resolved_at` share one month of their own: no date is made up.
    `known_at` is when the ending was known, which may lie before the date that the venue states."""

    id: str
    text: str | None
    event_id: str | None
    settled: float | None
    resolved_at: datetime | None
    play: bool
    fee: float
    category: str | None = None
    known_at: datetime | None = None


@dataclass
class Columns:
    """Forecast rows before they are joined to their questions."""

    id: list[str] = field(default_factory=list)
    t: list[int] = field(default_factory=list)
    market: list[float] = field(default_factory=list)
    price_age: list[float] = field(default_factory=list)
    strict: list[bool] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)
    bid: list[float] = field(default_factory=list)
    ask: list[float] = field(default_factory=list)
    forecasts: list[Mapping[str, float]] = field(default_factory=list)

    def with_others(self, others: "Columns") -> "Columns":
        """These rows, and then the others."""
        return Columns(**{name: [*rows, *vars(others)[name]] for name, rows in vars(self).items()})

    def by_market(self) -> "Columns":
        """The same rows, by market and then by time."""
        order = sorted(range(len(self.id)), key=lambda i: (self.id[i], self.t[i]))
        return Columns(**{name: [rows[i] for i in order] for name, rows in vars(self).items()})


@dataclass(frozen=True)
class Settings:
    """How to score. `variants` counts what was tried on this set before, and now."""

    seed: int = 0
    draws: int = 2000
    placebo: int = 200
    variants: int | None = None
    kelly: Kelly = Kelly()
    subjects: tuple[str, ...] | None = None
    unranked: tuple[str, ...] = UNRANKED
    margin: float = verdict.PRINTED
    """The difference in Brier score that is stated beforehand to be none."""


@dataclass(frozen=True)
class Result:
    """Everything a report shows."""

    table: Table
    rows: list[Row]
    checks: list[validity.Check]
    placebo: Placebo | None
    pairs: list[Comparison]
    common: PartWire | None
    slices: list[SliceWire]
    settings: str

    def wire(self) -> ResultWire:
        """JSON-ready: leaderboard, validity card, placebo."""
        drawn = self.placebo
        return {
            "leaderboard": [row_wire(row, self.table) for row in self.rows],
            "pairs": [found.wire() for found in self.pairs],
            "common": self.common,
            "slices": self.slices,
            "settings": self.settings,
            "validity": {check.field: check_wire(check) for check in self.checks},
            "placebo": None
            if drawn is None
            else {
                "draws": drawn.draws,
                "any_share": drawn.any_share,
                "share_by": drawn.share_by,
            },
            "log_loss_clip": CLIP,
        }


@dataclass(frozen=True)
class Arrays:
    """The same as `Columns`, as arrays of length n: `of` is a row's place in `ids`, and a forecast
    that is not there is NaN."""

    ids: Sequence[str]
    of: npt.NDArray[np.int64]
    t: npt.NDArray[np.int64]
    market: Floats
    price_age: Floats
    strict: npt.NDArray[np.bool_]
    evidence: npt.NDArray[np.int64]
    bid: Floats
    ask: Floats
    forecasts: Mapping[str, Floats]
    disk: Disk | None = None
    """Where the columns are, if not in memory."""


def build_table(columns: Columns, questions: Iterable[Question]) -> Table:
    """Join rows to questions: those of questions that are still open lie in a table of their own
    (`Table.open`)."""
    ids = list(dict.fromkeys(columns.id))
    place = {name: i for i, name in enumerate(ids)}
    names = {name for said in columns.forecasts for name in said}
    arrays = Arrays(
        ids=ids,
        of=np.array([place[name] for name in columns.id], dtype=np.int64),
        t=np.array(columns.t, dtype=np.int64),
        market=np.array(columns.market, dtype=np.float64),
        price_age=np.array(columns.price_age, dtype=np.float64),
        strict=np.array(columns.strict, dtype=np.bool_),
        evidence=np.array(columns.evidence, dtype=np.int64),
        bid=np.array(columns.bid, dtype=np.float64),
        ask=np.array(columns.ask, dtype=np.float64),
        forecasts={
            name: np.array([said.get(name, math.nan) for said in columns.forecasts])
            for name in names
        },
    )
    return table_of(arrays, questions)


def table_of(rows: Arrays, questions: Iterable[Question]) -> Table:
    """Join rows to questions: those of questions that are still open lie in a table of their own
    (`Table.open`). A forecaster without a forecast among its rows is not in a table."""
    disk, named = rows.disk, {name: name for name in rows.ids}
    # Of each question its fields: a hundred thousand of them whole take 40 MB.
    known, asked = dict[str, int](), _Asked(text=[] if disk is None else Spool())
    for one in questions:
        if one.id in named:
            known[one.id] = len(asked.id)
            asked.add(one, named[one.id])
    place = np.array([known.get(name, -1) for name in rows.ids], dtype=np.int64)
    used = np.unique(place[ranks(rows.of, len(rows.ids))[0]])
    used = used[used >= 0]
    asked, rank = asked.only(used), np.where(place >= 0, np.searchsorted(used, place), -1)
    del known, named
    if disk is not None:
        disk.let_go()
        trim()
    event = event_labels(asked.text, asked.day, asked.event_id)
    settled = np.isfinite(np.array(asked.y, dtype=np.float64))
    # Those of settled questions come first.
    last = ~np.isin(np.arange(len(event)), event[settled])
    event = np.argsort(np.argsort(last, kind="stable"), kind="stable")[event]
    made = _part(rows, asked, rank, event, settled)
    if settled.all():
        return made
    return replace(made, open=_part(rows, asked, rank, event, ~settled))


def _part(
    rows: Arrays,
    asked: "_Asked",
    rank: npt.NDArray[np.int64],
    event: npt.NDArray[np.int64],
    these: npt.NDArray[np.bool_],
) -> Table:
    """The table of `these` questions of those that were asked; `rank` is the place of each id among
    them, `event` their labels."""
    disk, every = rows.disk, bool(these.all())
    of_id = np.flatnonzero(these) if not every else np.arange(len(these))
    place = np.where(rank >= 0, (np.cumsum(these) - 1)[rank], -1).astype(np.int64)
    place[(rank < 0) | ~these[rank]] = -1
    chosen = (place >= 0)[rows.of]

    def kept(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if chosen.all() else picked(column, chosen, disk)  # All: nothing is copied.

    of, settled = kept(rows.of), asked if every else asked.only(of_id)
    return Table(
        questions=settled.id,
        q=place[of] if disk is None else disk.keep(place[of[part]] for part in parts_of(len(of))),
        **of_rows(rows, kept),
        y=np.array(settled.y, dtype=np.float64),
        event=event[of_id],
        period=relabel(np.array(settled.month, dtype=np.int64)),
        resolved_at=np.array(settled.resolved_at, dtype=np.int64),
        known_at=np.array(settled.known_at, dtype=np.int64),
        play=np.array(settled.play, dtype=np.bool_),
        fee=np.array(settled.fee, dtype=np.float64),
        category=settled.category,
        bare=np.array(
            [t is None and e is None for t, e in zip(settled.text, settled.event_id, strict=True)],
            dtype=np.bool_,
        ),
        forecasts={
            name: p
            for name, p in ((name, kept(rows.forecasts[name])) for name in sorted(rows.forecasts))
            if any(np.isfinite(p[part]).any() for part in parts_of(len(p)))
        },
        disk=disk,
    )


@dataclass
class _Asked:
    """The fields of questions, with `y` NaN where one is still open. `month` counts them from year
    0; it and `resolved_at` are 0 where there is no date."""

    id: list[str] = field(default_factory=list)
    text: list[str | None] | Spool = field(default_factory=list)
    event_id: list[str | None] = field(default_factory=list)
    day: list[str | None] = field(default_factory=list)
    category: list[str] = field(default_factory=list)
    y: Sequence[float] = field(default_factory=lambda: array("d"))
    month: Sequence[int] = field(default_factory=lambda: array("q"))
    resolved_at: Sequence[int] = field(default_factory=lambda: array("q"))
    play: Sequence[int] = field(default_factory=lambda: array("b"))
    fee: Sequence[float] = field(default_factory=lambda: array("d"))
    known_at: Sequence[int] = field(default_factory=lambda: array("q"))

    def add(self, one: Question, name: str) -> None:
        """Put a question at the end, under this very `name`: another string would hold on to the
        memory of all that was read beside it."""
        at, day = one.resolved_at, iso(one.resolved_at)[:10] if one.resolved_at else None
        month = int(day[:4]) * 12 + int(day[5:7]) if day else 0
        cells = (
            name,
            one.text,
            one.event_id,
            None if day is None else intern(day),
            intern(one.category or "none stated"),
            math.nan if one.settled is None else one.settled,
            month,
            to_us(at) if at else 0,
            one.play,
            one.fee,
            to_us(one.known_at) if one.known_at else 0,
        )
        for column, cell in zip(vars(self).values(), cells, strict=True):
            column.append(cell)

    def only(self, places: npt.NDArray[np.int64]) -> "_Asked":
        """Those at these places, in order."""
        if len(places) == len(self.id):
            return self
        columns, kept = map(list, vars(self).values()), places.tolist()
        return _Asked(*([column[k] for k in kept] for column in columns))


def score_only(table: Table, settings: Settings) -> list[Row]:
    """Scores without verdicts, card or placebo."""
    options = Options(draws=settings.draws, seed=settings.seed, kelly=settings.kelly)
    return score(table, options, judged=False)


def evaluate(
    table: Table, facts: validity.SetFacts, settings: Settings, beside: Beside = later
) -> Result:
    """Scores, verdicts, the validity card applied to them, and the placebo. `beside` may carry out
    parts of it on another core, with the same figures."""
    with kept_draws():
        return _evaluated(table, facts, settings, beside)


def _evaluated(
    table: Table, facts: validity.SetFacts, settings: Settings, beside: Beside
) -> Result:
    options = Options(
        draws=settings.draws,
        seed=settings.seed,
        variants=settings.variants,
        kelly=settings.kelly,
        subjects=settings.subjects,
        margin=settings.margin,
    )
    drawn, ended = None, facts.training_cutoff
    under_test = options.under_test(table)
    sliced = beside(partial(slices, table, options, ended))
    if settings.placebo and len(table.q) and under_test:
        drawn = beside(partial(placebo, table, options, settings.placebo, settings.seed))
    rows = score(table, options)
    ranked = [row for row in rows if row.forecaster not in settings.unranked]
    checks = validity.card(table, ranked, facts)
    validity.apply_card(ranked, checks)
    rows = [*ranked, *(_unranked(row) for row in rows if row.forecaster in settings.unranked)]
    validity.apply_kept(rows, facts.kept)
    table.let_go()
    tested = [row.forecaster for row in ranked if row.forecaster in under_test]
    compared, common = pairs(table, tested, options), _common(table, rows, settings)
    # If a bound of the card is not met, nothing can beat the market, with or without skill.
    possible, parts = not validity.set_failures(checks), sliced()
    _bind(parts, rows, checks)
    return Result(
        table=table,
        rows=rows,
        checks=checks,
        placebo=drawn() if drawn and possible else None,
        pairs=compared,
        common=common,
        slices=with_money(parts, table, rows, ended),
        settings=_stated(table, settings, bool(drawn and possible), rows),
    )


def _bind(parts: list[SliceWire], rows: Sequence[Row], checks: list[validity.Check]) -> None:
    """Bind what is said of parts of the rows as what is said of all: in none of them a forecaster
    beats the market that may not do so on any rows."""
    failed, of = validity.set_failures(checks), {row.forecaster: row for row in rows}
    for one in (one for part in parts for one in part["gains"]):
        row = of[one["forecaster"]]
        because = None if row.kept is None else row.kept.because
        if row.answered < MIN_ANSWERED:
            because = f"it answered {100 * row.answered:.0f} % of the forecasts asked for"
        one["verdict"], _ = validity.bound(one["verdict"], [], failed, because)


def _stated(table: Table, settings: Settings, drawn: bool, rows: Sequence[Row]) -> str:
    """When the forecasts were made, and how they were scored; `drawn`: with a placebo."""
    redraws = f"{settings.placebo:,} placebo redraws" if drawn else "no placebo"
    error = max((row.skill.ci_error for row in rows if row.skill is not None), default=0.0)
    exact = f" (bounds ± {error:.2g})" if error > 0 else ""
    said = f"seed {settings.seed}, {settings.draws:,} draws{exact}, {redraws}"
    if settings.margin != verdict.PRINTED:
        said += f", no difference within {settings.margin:g}"
    if not len(table.t):
        return said
    first, last = (iso_us(int(t))[:10] for t in (table.t.min(), table.t.max()))
    return f"forecasts of {first} to {last} · {said}"


def part_wire(table: Table, settings: Settings) -> PartWire:
    """The scores on a part of the rows, without verdicts."""
    return {
        "n_questions": len(table.questions),
        "n_forecasts": len(table.q),
        "leaderboard": [
            {
                "forecaster": row.forecaster,
                "n": row.n,
                "brier": number(row.brier),
                "market_brier": number(row.skill.market_brier) if row.skill else None,
                "skill_vs_market": number(row.skill_vs_market),
                "skill_ci": pair(row.skill.ci) if row.skill else [None, None],
            }
            for row in (score_only(table, settings) if len(table.q) else ())
        ],
    }


def _common(table: Table, rows: Sequence[Row], settings: Settings) -> PartWire | None:
    """The scores on the rows that every forecaster answered, where some left rows out. One without
    any answer counts for nothing here."""
    names = [row.forecaster for row in rows if row.forecaster != MARKET and row.n]
    if len(names) < 2:
        return None
    everyone = np.ones(len(table.q), dtype=bool)
    for name in names:
        everyone &= table.known(table.forecasts[name])
    if everyone.all():
        return None
    return part_wire(table.where(np.asarray(everyone)), settings)


def _unranked(row: Row) -> Row:
    row.verdict, row.reasons = "not ranked", [PATH_TEST]
    return row
