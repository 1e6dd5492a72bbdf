"""The leaderboard: every forecaster on the same rows, with paired intervals and a verdict.

Scores are taken per question first (the mean over its instants), then with equal question
weights; their two intervals, resampling events and resampling resolution months, the wider one
leading, describe them. The verdict comes from the profit of positions alone (verdict.py), widened
for the number of variants tried on this set: on all rows, and, for "beats the market", again on the
rows whose price was fresh, because a stale price is easily beaten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import Literal

import numpy as np

from beforehand.errors import InputError
from beforehand.memory import trim
from beforehand.score import metrics, positions, prices, verdict
from beforehand.score.bets import Profit, in_effect, profit
from beforehand.score.intervals import Resampler
from beforehand.score.skill import (
    LEADING,
    MARKET,
    MIN_ANSWERED,
    Interval,
    Options,
    Skill,
    ratio,
    resamplers,
    skill_columns,
    skills,
    width,
)
from beforehand.score.table import STALE_DAYS, Disk, Floats, Table

Verdict = Literal[
    "beats the market", "not shown", "worse than the market", "is the market", "not ranked"
]
HELD = 1_000_000
"""Sums of questions that are kept in memory."""
_BASE = ("present", "brier", "log_loss", "paired", "els", "skill", "hit", "hit_n", "spread")


@dataclass(frozen=True)
class Kept:
    """How a forecaster was kept from the future. `isolation`: by construction, probed, or trusted.
    `order`: asked in order, (declared) memoryless, may remember, or not asked by us. `because`
    says why it may not be said to beat the market; None if it may."""

    isolation: str
    order: str
    because: str | None = None


@dataclass
class Row:
    """One forecaster's figures. `market_correlation` is Pearson's, of its forecasts with the price
    at the same instants (NaN where one of them never changes). `intervals` holds (low, high) of
    the wider clustering; `broken` says why an added metric has no value."""

    forecaster: str
    n: int
    n_questions: int
    missing: int
    brier: float
    log_loss: float
    els: float
    skill_vs_market: float
    accuracy: float
    ece: float
    murphy: metrics.Murphy
    sharpness: tuple[float, float]
    bins: metrics.Reliability
    worth: list[float]
    """How many independent questions each bin is worth."""
    market_correlation: float
    profit: Profit | str
    intervals: dict[str, Interval] = field(default_factory=dict)
    skill: "Skill | None" = None
    fresh: "Skill | None" = None
    evidence: "verdict.Estimate | None" = None
    fresh_evidence: "verdict.Estimate | None" = None
    """The same at prices that were at most a week old."""
    at_book: "verdict.Estimate | None" = None
    """The same against the price between bid and ask that lies nearest to the forecast, over the
    rows with a book; None without any."""
    course: "verdict.Course | None" = None
    verdict: Verdict = "not shown"
    reasons: list[str] = field(default_factory=list)
    kept: Kept | None = None
    added: dict[str, tuple[float, Interval]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def answered(self) -> float:
        """The share of the rows asked for that it answered, from 0 to 1."""
        asked = self.n + self.missing
        return self.n / asked if asked else 0.0


def score(table: Table, options: Options = Options(), judged: bool = True) -> list[Row]:
    """Every forecaster of the table, the most skilful first, the market pinned on top. Without
    `judged` nothing is said of who beats whom."""
    samplers = resamplers(table, options)
    overall = skills(table, samplers, options)
    newer = table.part(table.fresh)
    fresh = overall if newer is table else {}
    if newer is not table and len(newer.q):
        fresh = skills(newer, resamplers(newer, options), options)
    del newer
    table.give_back()
    rows = list[Row]()
    shown = _evidence(table, options) if judged else _Shown()
    bets = in_effect(table.whole, options.kelly) is not None
    counted = prices.counted_prices(table.whole) if bets else None
    for name in (MARKET, *table.forecasts):
        p = table.said(name)
        part, row = _columns(table, p)
        row.forecaster, row.missing = name, table.missing(name, p)
        table.give_back()
        row.intervals = _intervals(*part, samplers, options)
        row.skill, row.fresh = overall[name], fresh.get(name)
        if judged:
            row.evidence, row.at_book = shown.overall.get(name), shown.book.get(name)
            row.fresh_evidence = shown.fresh.get(name)
            row.course = shown.course.get(name)
            row.verdict, row.reasons = judge(row, options.margin)
        row.profit = _profit(table, name, samplers, options, counted)
        rows.append(row)
        table.give_back()
    for added, metric in metrics.added().items():
        _add(added, metric, rows, table, samplers, options)
    return sorted(rows, key=_rank)


@dataclass
class _Shown:
    """What each forecaster's profit shows, by name."""

    overall: dict[str, verdict.Estimate] = field(default_factory=dict)
    fresh: dict[str, verdict.Estimate] = field(default_factory=dict)
    book: dict[str, verdict.Estimate] = field(default_factory=dict)
    course: dict[str, verdict.Course] = field(default_factory=dict)


def _evidence(table: Table, options: Options) -> _Shown:
    """What each forecaster's profit shows, widened for every variant tried on this set."""
    contests, shown = dict[tuple[str, str], positions.Contest](), _Shown()
    tables = (table,) if table.open is None else (table, table.open)
    stale = any(not one.fresh.all() for one in tables)
    booked = any(one.known(one.bid).any() for one in tables)
    for name in table.forecasts:
        contests[name, "all"] = positions.AgainstMarket(name)
        if stale:
            contests[name, "fresh"] = positions.AgainstMarket(name, only=positions.fresh)
        if booked:
            contests[name, "book"] = positions.AgainstMarket(name, book=True)
    found = positions.gains(table, contests)
    table.give_back()
    tested = [
        found[name, "all"].net for name in options.under_test(table) if name in table.forecasts
    ]
    factor = verdict.for_tries(tested, options.tests(table))
    for (name, of), one in found.items():
        estimate = verdict.evidence(table, one, factor)
        if of == "all":
            shown.overall[name], shown.course[name] = estimate, verdict.course(one, estimate)
            if not stale:
                shown.fresh[name] = estimate
        else:
            (shown.fresh if of == "fresh" else shown.book)[name] = estimate
    return shown


def _add(
    name: str,
    metric: metrics.Metric,
    rows: Sequence[Row],
    table: Table,
    samplers: dict[str, Resampler],
    options: Options,
) -> None:
    """Add a metric to every row. One that fails is unknown in each, and says why."""
    nothing = float("nan"), (float("nan"), float("nan"))
    try:
        found = [_added(table, table.said(r.forecaster), metric, samplers, options) for r in rows]
    except InputError as error:
        for row in rows:
            row.added[name], row.broken[name] = nothing, str(error)
        return
    if not any(np.isfinite(value) for value, _ in found):
        why = f"the metric {name} gave no number for any row"
        for row in rows:
            row.broken[name] = why
    for row, value in zip(rows, found, strict=True):
        row.added[name] = value


def _rank(row: Row) -> tuple[bool, bool, float, float, str]:
    """The market first, then by skill (the order of the Brier scores, where all share their rows),
    then by Brier. Who answered too few of the rows comes after those who did not: whoever answers
    only where it is sure looks better than it is."""
    skill = row.skill_vs_market
    return (
        row.forecaster != MARKET,
        row.forecaster != MARKET and row.answered < MIN_ANSWERED,
        -skill if np.isfinite(skill) else 0.0,
        row.brier,
        row.forecaster,
    )


def _columns(table: Table, p: Floats) -> tuple[tuple[Floats, Disk | None], Row]:
    """Per question: the linear sums from which every statistic of a resample follows, and the disk
    that they are on, where they are many."""
    shape, done, n = (len(table.questions), len(_BASE) + 3 * metrics.BINS), 0, 0
    disk = None if table.disk is None or shape[0] * shape[1] <= HELD else Disk()
    stacked, sums = np.empty(shape) if disk is None else disk.room(*shape), np.zeros((1, shape[1]))
    for rows, part in table.blocks():
        found = _of_questions(part, p[rows])
        stacked[done : done + len(found)] = found
        sums += found.sum(axis=0)
        done, n = done + len(found), n + int(np.isfinite(p[rows]).sum())
        if disk is not None:
            disk.let_go()

    def parts() -> Iterator[tuple[Floats, Floats, Floats]]:
        for rows, part in table.blocks():
            mine, y = p[rows], part.y[part.q]
            valid = np.isfinite(mine)
            w = part.row_weights(valid)
            yield (mine, y, w) if valid.all() else (mine[valid], y[valid], w[valid])

    bins, murphy, sharpness = metrics.in_parts(parts)
    worth = list[float]()
    for k in range(len(_BASE), len(_BASE) + metrics.BINS):
        of_event = np.bincount(table.event, stacked[:, k], 1).astype(np.float64)
        worth.append(metrics.effective_n(of_event))
        if disk is not None:
            disk.let_go()
    total = _statistics(sums)
    row = Row(
        forecaster="",
        n=n,
        n_questions=int(stacked[:, 0].sum()),
        missing=0,
        brier=float(total["brier"][0]),
        log_loss=float(total["log_loss"][0]),
        els=float(total["els"][0]),
        accuracy=float(total["accuracy"][0]),
        ece=float(total["ece"][0]),
        skill_vs_market=float(total["skill"][0]),
        murphy=murphy,
        sharpness=sharpness,
        bins=bins,
        worth=worth,
        market_correlation=_with_market(table, p),
        profit="",
    )
    if disk is not None:
        trim()
    return (stacked, disk), row


def _of_questions(table: Table, p: Floats) -> Floats:
    """The columns of these questions."""
    valid = np.isfinite(p)
    paired = valid & np.isfinite(table.market)
    q, y_row = table.q, table.y[table.q]
    safe, market = np.where(valid, p, 0.5), np.where(paired, table.market, 0.5)
    losses = metrics.log_losses(safe, y_row)
    squared = (safe - y_row) ** 2
    hit = metrics.hits(safe, y_row)
    errors, present = table.question_means(squared, valid)
    columns = [present, errors]
    columns.append(table.question_means(losses, valid)[0])
    gained = metrics.excess_log_scores(safe, market, y_row)
    columns.extend(reversed(table.question_means(gained, paired)))
    columns.append(skill_columns(table, p)[0])
    sure = valid & np.isfinite(hit)
    columns.extend(table.question_means(hit, sure))
    columns.append(table.question_means(safe * (1 - safe), valid)[0])
    weights = table.row_weights(valid)
    cell = q * metrics.BINS + metrics.bin_index(safe)
    shape, size = (len(table.questions), metrics.BINS), len(table.questions) * metrics.BINS
    for values in (weights, weights * safe, weights * y_row):
        columns.extend(np.bincount(cell, weights=values, minlength=size).reshape(shape).T)
    return np.stack(columns, axis=1)


def _with_market(table: Table, p: Floats) -> float:
    """Pearson's correlation over the rows that have both."""

    def both() -> Iterator[tuple[Floats, Floats]]:
        for rows, part in table.blocks():
            mine, paired = p[rows], np.isfinite(p[rows]) & np.isfinite(part.market)
            yield (mine, part.market) if paired.all() else (mine[paired], part.market[paired])

    n, sums, squares = 0, np.zeros(2), np.zeros(3)
    for a, b in both():
        n += len(a)
        sums += a.sum(), b.sum()
    if n < 2:
        return float("nan")
    for a, b in both():
        a, b = a - sums[0] / n, b - sums[1] / n
        squares += [a @ a, b @ b, a @ b]
    aa, bb, ab = squares
    spread = float(np.sqrt(aa * bb))
    return float(ab) / spread if spread > 0 else float("nan")


def _added(
    table: Table,
    p: Floats,
    metric: metrics.Metric,
    samplers: dict[str, Resampler],
    options: Options,
) -> tuple[float, Interval]:
    """An added metric over the rows where it has a value, with its wider interval."""
    valid = np.isfinite(p)
    values = metric.values(np.where(valid, p, np.nan), table.market, table.y[table.q])
    if endless := int(np.isinf(values[valid]).sum()):
        raise InputError(
            f"the metric {metric.name} is infinite for {endless:,} of {int(valid.sum()):,} "
            "forecasts: without them it would look better; bound it, or give nan where it has none"
        )
    known = valid & np.isfinite(values)
    columns = np.stack(table.question_means(np.where(known, values, 0.0), known), axis=1)
    mine = [samplers[kind].holding(columns[:, 1]) for kind in LEADING]
    found = [one.interval(ratio(one.totals(columns)), options.level) for one in mine]
    total, n = columns.sum(axis=0)
    return float(total / n) if n else float("nan"), max(found, key=width)


def _profit(
    table: Table,
    name: str,
    samplers: dict[str, Resampler],
    options: Options,
    counted: Floats | None,
) -> Profit | str:
    """Kelly figures, with bets on open questions at their last price, and an interval of the return
    on what was staked; the bets that ended are resampled as they were made, with their stakes. (The
    wealth has none: it grew bet upon bet.)"""
    p, whole = table.said(name), table.whole
    result = profit(whole, whole.said(name), options.kelly, counted)
    if isinstance(result, str):
        return result
    columns = np.zeros((len(whole.questions), 2))
    columns[result.question, 0] = result.gain
    columns[result.question, 1] = result.paid
    columns = columns[: len(table.questions)]
    present = np.bincount(table.q[np.isfinite(p)], minlength=len(table.questions)).astype(float)
    mine = [samplers[kind].holding(present) for kind in LEADING]
    found = [one.interval(ratio(one.totals(columns)), options.level) for one in mine]
    tried = options.tests(table) * max(options.kelly.tried, 1)
    known = [one for one in found if all(map(isfinite, one))] or found
    around = min(low for low, _ in known), max(high for _, high in known)
    return replace(result, roi_ci=around, tried=tried)


def _statistics(sums: Floats) -> dict[str, Floats]:
    """(draws, K) column totals to the statistics, each of shape (draws,)."""
    base = dict(zip(_BASE, sums.T, strict=False))
    start, bins = len(_BASE), metrics.BINS
    weight, forecast, outcome = (
        sums[:, start + i * bins : start + (i + 1) * bins] for i in range(3)
    )
    n = base["present"]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = weight / n[:, None]
        gap = np.where(weight > 0, (forecast - outcome) / weight, 0.0)
        rate = outcome.sum(axis=1) / n
        spread = np.where(weight > 0, outcome / weight - rate[:, None], 0.0)
        middle, level = base["spread"] / n, forecast.sum(axis=1) / n
        return {
            "sharpness_mean_p_1_p": middle,
            "sharpness_variance": level - middle - level**2,
            **{key: base[key] / n for key in ("brier", "log_loss")},
            **{key: base[key] / base["paired"] for key in ("els", "skill")},
            "accuracy": base["hit"] / base["hit_n"],
            "ece": (share * np.abs(gap)).sum(axis=1),
            "reliability": (share * gap**2).sum(axis=1),
            "resolution": (share * spread**2).sum(axis=1),
        }


def _intervals(
    columns: Floats, disk: Disk | None, samplers: dict[str, Resampler], options: Options
) -> dict[str, Interval]:
    """Per statistic, the wider of the two intervals, over the clusters with a forecast."""
    mine = [samplers[kind].holding(columns[:, 0]) for kind in LEADING]
    let_go = None if disk is None else disk.let_go
    drawn = [_statistics(one.totals(columns, let_go)) for one in mine]
    return {
        key: max(
            (
                one.interval(stats[key], options.level)
                for one, stats in zip(mine, drawn, strict=True)
            ),
            key=width,
        )
        for key in drawn[0]
    }


def judge(row: Row, margin: float = verdict.PRINTED) -> tuple[Verdict, list[str]]:
    """The verdict that the profit of its positions allows, and the reasons why it is not a better
    one. `margin` is the difference in Brier score that was stated beforehand to be none."""
    overall, evidence = row.skill, row.evidence
    assert overall is not None
    if overall.identical and (evidence is None or not evidence.apart):
        return "is the market", []
    if evidence is None or not evidence.rests_on:
        return "not shown", ["there is no market price to compare with"]
    if evidence.within(margin):
        return "is the market", [f"its gain is shown to lie within {margin:.4g} of the market's"]
    if evidence.sign < 0:
        return "worse than the market", _contradicted(overall, evidence)
    if evidence.sign > 0 and row.answered < MIN_ANSWERED:
        return "not shown", [too_few(row)]
    if evidence.sign <= 0:
        return "not shown", [unshown(evidence), *_contradicted(overall, evidence)]
    if row.fresh_evidence is None or row.fresh_evidence.sign <= 0:
        return "not shown", [_stale(row.fresh_evidence)]
    return "beats the market", _contradicted(overall, evidence)


LED = {
    "periods": "by how it varied from period to period",
    "implied": "by what the prices said could happen",
    "late marks": "by how it varied, as prices came late",
    "events": "by how it varied from event to event",
    "windows": "with questions that were open together taken to go together",
}


def unshown(evidence: verdict.Estimate) -> str:
    """Why the profit of its positions does not show it."""
    low, high = evidence.bounds
    if not evidence.enough:
        return (
            f"marked at every price on record, its gain rests on {evidence.rests_on:.3g} effective "
            f"periods, and {verdict.LEAST_PERIODS:g} are needed"
        )
    if low <= 0 <= high:
        tried = "" if evidence.factor == 1 else ", widened for what was tried"
        return (
            f"marked at every price on record, its gain lies between {low:.4f} and {high:.4f} "
            f"({LED[evidence.leading]}{tried})"
        )
    if abs(evidence.mean) < verdict.PRINTED:
        return f"its gain, {evidence.mean:.1g}, is printed as 0.0000, which is no difference"
    return (
        f"{100 * evidence.unsettled:.0f} % of its gain rests on questions that are still open, at "
        f"their last price, and at most {100 * verdict.MOST_UNSETTLED:g} % may"
    )


def _contradicted(overall: Skill, evidence: verdict.Estimate) -> list[str]:
    """Why the mean of the Brier scores says the opposite of the profit, where it does."""
    both = min(abs(overall.skill), abs(evidence.mean))
    if not both >= verdict.PRINTED or (overall.skill > 0) == (evidence.mean > 0):
        return []
    return [
        f"the mean over questions says the opposite ({overall.skill:+.4f}): there a question that "
        "ends early has few forecasts, and each of them counts for more, which nobody could know "
        f"when it was made; weighed by what was known then, the gain is {evidence.mean:+.4f}"
    ]


def _stale(evidence: verdict.Estimate | None) -> str:
    """Why a gain at old prices is none."""
    if evidence is None or isnan(evidence.mean):
        return "the age of the market's prices is not on record, or all are old"
    if not evidence.apart:
        return f"at prices that were at most {STALE_DAYS:g} days old it said what the market said"
    return (
        f"of the forecasts whose price was at most {STALE_DAYS:g} days old alone: "
        f"{unshown(evidence)}"
    )


def too_few(row: Row) -> str:
    """Why a forecaster that left rows out is not said to beat the market."""
    return (
        f"it answered {row.n:,} of {row.n + row.missing:,} ({100 * row.answered:.1f} %), and "
        f"{100 * MIN_ANSWERED:g} % is needed"
    )
