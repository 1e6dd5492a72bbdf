"""A scored run as JSON: what `scores.json` holds.

Backtests, the benchmark and `score FILE` all write these; the report, the terminal and
`runs diff` read them. Probabilities and skills are fractions; an interval is `[low, high]`, with
nulls where it cannot be computed.
"""

import math
from dataclasses import asdict
from typing import Literal, NotRequired

import numpy as np
from typing_extensions import TypedDict

from beforehand.clock import iso_us
from beforehand.records.rows import PairWire
from beforehand.score.bets import LAST, Profit
from beforehand.score.leaks.report import LeaksWire
from beforehand.score.metrics import ADDED, Reliability
from beforehand.score.prices import MINUTE
from beforehand.score.scoreboard import Row, Verdict
from beforehand.score.skill import MARKET, Skill
from beforehand.score.table import Table
from beforehand.score.validity import Check
from beforehand.score.verdict import Estimate

PATH_POINTS, MOST_BETS = 100, 3
Pair = list[float | None]
"""An interval: low and high."""


class PluginFacts(TypedDict):
    """A plugin as a run records it: `digest` is the SHA-256 of the file that it is in."""

    group: str
    name: str
    package: str
    version: str
    digest: str | None


class SkillWire(TypedDict):
    """Paired skill against the market over one set of rows."""

    n: int
    n_questions: int
    n_events: int
    brier: float | None
    market_brier: float | None
    skill_vs_market: float | None
    skill_ci: Pair
    skill_ci_by: dict[str, Pair]
    leading: str
    effective_n: float | None


class BetWire(TypedDict):
    """A bet: `side` was bought at `price` after the spread, for `stake` and the `fee`; it won or
    lost `gain`, after fees, when the market `settled` at `outcome` (of YES). `forecast` is the
    forecaster's probability of YES, `market` the price of YES in the middle. Stake, fee and gain
    are in units of the wealth at the start. A bet on a question that is still open has not
    `settled`, and stands at its last price, its `outcome` until then."""

    market_id: str
    time: str
    side: Literal["YES", "NO"]
    forecast: float
    market: float
    price: float
    stake: float
    fee: float
    gain: float
    outcome: float
    settled: str | None


class WealthWire(TypedDict):
    """The wealth after a settlement; `time` is null where it is not on record."""

    time: str | None
    wealth: float


class ProfitWire(TypedDict):
    """What fractional Kelly bets on the forecasts would have won, from a wealth of `start`; what
    they `staked` in all, and the `fees`; `gain` is the wealth at the end less the start, `roi` the
    gain over what the bets cost with their fees, with its 95 % interval, `roi_equal` the same at
    equal stakes; `max_drawdown` is at settlements, with open bets at what they cost,
    `drawdown_at_prices` at every price on record, with open bets at it. `most_at_risk` is the
    largest share of the wealth that open bets cost, `most_on_event` that of one event.
    `fair_wealth` is what the bets come to if each is filled at the price of the midnight after it,
    `by_chance` the most that the probability of that can be where prices are right,
    `best_by_chance` the same for the best of the `tried` ways to bet, forecasters times stake
    rules. `unfunded` counts the questions with an
    edge for which there was never cash. `sharpe` is the mean return of a bet over its standard
    deviation, not for a year. `made` and `lost` are the bets that won and lost most, `path` the
    wealth from the first bet on, after each settlement, thinned; `cut` counts the bets that got
    less than they asked for, as the cash did not reach; all bets stand in bets.csv."""

    start: float
    bets: int
    staked: float
    fees: float
    unfunded: int
    final_wealth: float
    gain: float
    roi: float | None
    roi_ci: Pair
    sharpe: float | None
    max_drawdown: float
    drawdown_at_prices: NotRequired[float]
    most_at_risk: NotRequired[float]
    most_on_event: NotRequired[float]
    fair_wealth: NotRequired[float]
    by_chance: NotRequired[float | None]
    best_by_chance: NotRequired[float | None]
    tried: NotRequired[int]
    roi_equal: NotRequired[float | None]
    cut: NotRequired[int]
    fraction: float
    cap: float
    note: str
    made: list[BetWire]
    lost: list[BetWire]
    path: list[WealthWire]


class BinsWire(TypedDict):
    """The bins of a reliability diagram; null where a bin is empty. `worth` is how many independent
    questions each is worth, as those of one event share their fate."""

    weight: list[float]
    worth: list[float]
    forecast: Pair
    outcome: Pair


class MetricWire(TypedDict):
    """An added metric: which direction is better, and what it is, in one line; `error` where it
    failed."""

    value: float | None
    ci: Pair
    better: str
    about: str
    error: NotRequired[str]


class PeriodWire(TypedDict):
    """A period, by its beginning, its share of the variance, and the market that gained or lost the
    most then, with what its price did."""

    time: str
    share: float
    market: str | None
    move: float


class CourseWire(TypedDict):
    """The gain until a time, per unit of the whole weight, and how far from 0 it may have come by
    chance (95 %)."""

    time: str
    gain: float | None
    band: float | None


class GainWire(TypedDict):
    """A mean gain in Brier score, its 95 % interval `ci`, the `bounds` that are widened for tries,
    and what it rests on."""

    mean: float | None
    ci: Pair
    bounds: Pair
    effective_periods: float


class EvidenceWire(GainWire):
    """What the profit of positions shows, marked at every price on record (docs/metrics.md): the
    `mean` gain in Brier score and its 95 % interval `ci`, which is `widened` so many times for
    tries, and is the `bounds` then; `leading` names the variance that decided. `effective_periods`
    must be 5, and so must `effective_windows` where questions had no price in between. `mean_cost`:
    so far below 0 lies who has no skill. `before_first_mark` is the share of the gain made before
    the first price after each forecast, `unsettled` that of questions still open. `heaviest` are
    the periods that make most of the variance; `late` is for how many periods of `period_minutes`
    prices stood. `fresh` is the same at prices that were at most a week old, where others were not;
    `at_book` against the price between bid and ask that lies nearest to the forecast. `course` is
    the gain over time. `counts_from` is when a position begins to count: `midnight` after the
    forecast, or `at once` where markets are asked on their last day as on any other."""

    widened: float
    leading: str
    effective_windows: float | None
    mean_cost: float | None
    before_first_mark: float
    unsettled: float
    heaviest: list[PeriodWire]
    late: int
    period_minutes: int
    counts_from: Literal["midnight", "at once"]
    fresh: GainWire | None
    at_book: GainWire | None
    course: list[CourseWire]


class BoardRow(SkillWire):
    """One row of the leaderboard."""

    forecaster: str
    missing: int
    answered: float
    log_loss: float | None
    els: float | None
    accuracy: float | None
    ece: float | None
    market_correlation: float | None
    sharpness_mean_p_1_p_ci: Pair
    sharpness_variance_ci: Pair
    brier_ci: Pair
    log_loss_ci: Pair
    els_ci: Pair
    accuracy_ci: Pair
    ece_ci: Pair
    reliability_ci: Pair
    resolution_ci: Pair
    murphy: dict[str, float | None]
    sharpness: dict[str, float | None]
    kelly: ProfitWire | str
    fresh: SkillWire | None
    evidence: NotRequired[EvidenceWire]
    verdict: str
    reasons: list[str]
    isolation: str | None
    order: str | None
    reliability_bins: BinsWire
    added: NotRequired[dict[str, MetricWire]]


class CheckWire(TypedDict):
    """A field of the validity card; `ok` is null where it carries no bound."""

    value: int | float | bool | str | None
    bound: str | None
    ok: bool | None


class PlaceboWire(TypedDict):
    """How often resampled scores alone would say "beats the market" where there is no skill."""

    draws: int
    any_share: float
    share_by: dict[str, float]


class PartRow(TypedDict):
    """A forecaster's scores on a part of the rows, with the market's Brier score on the same."""

    forecaster: str
    n: int
    brier: float | None
    market_brier: float | None
    skill_vs_market: float | None
    skill_ci: Pair


class PartWire(TypedDict):
    """The scores on a part of the rows."""

    n_questions: int
    n_forecasts: int
    leaderboard: list[PartRow]


class MoneyWire(TypedDict):
    """A forecaster's Kelly bets of one part of the rows: how many, the share that gained, and what
    was staked and gained, in units of the wealth at the start."""

    forecaster: str
    bets: int
    won: float
    staked: float
    gain: float


class PartGain(GainWire):
    """What a forecaster under test gains with the positions that it takes in one part of the rows,
    its bounds widened for the number of parts, and what may be said of it."""

    forecaster: str
    verdict: Verdict


class SliceWire(PartWire):
    """The scores on the rows of one `name` by days to close or end, price, venue, category or year,
    and the bets made on them. `gains` is empty where a row is known to belong to the part only
    afterwards."""

    by: str
    name: str
    n_events: int
    gains: list[PartGain]
    money: list[MoneyWire]


class ResultWire(TypedDict):
    """What scoring finds. `pairs` has every two forecasters under test; `common` the scores on the
    rows that all of them forecast, where that is not all; `slices` those by days, price, venue
    and category; `settings` says how it was scored."""

    leaderboard: list[BoardRow]
    pairs: list[PairWire]
    common: PartWire | None
    slices: list[SliceWire]
    settings: str
    validity: dict[str, CheckWire]
    placebo: PlaceboWire | None
    log_loss_clip: float


class WayCounts(TypedDict):
    """Decisions by how they were made, failures, and decisions with a mark."""

    made: int
    code: int
    fallback: int
    direct: int
    external: int
    baseline: int
    failed: int
    unshown_evidence_ids: int
    flagged_evidence_ids: int
    answer_in_training: int


class ModelCounts(WayCounts):
    """The counts of one model."""

    requests: int


class DecisionCounts(WayCounts):
    """The counts of a run; what kept code from deciding, and what ended without any decision."""

    reasons: dict[str, int]
    failures: dict[str, int]
    models: dict[str, ModelCounts]


class Few(TypedDict):
    """A forecaster's first figures."""

    n: int
    brier: float | None
    skill_vs_market: float | None


class Pictured(TypedDict):
    """The market that the report draws, and why this one."""

    why: str
    id: str
    question: str | None
    settled: float | None


class EvidenceAudit(TypedDict):
    """How many forecasts passed the audit, and the first that failed. `citing` of them cite
    anything; of the `items`, `levels` counts how far each is supported and `faults` what is wrong,
    and `precision` is the share that holds of those that claim something. `leakage_passed`
    forecasts have no fault by which something from after t may have come in. `against_records` says
    that the sources were looked up. `without_failing` has the scores with all forecasts, with all
    on the rows where one is left (`same_rows`), and without those that fail (`kept`)."""

    total: int
    passed: int
    failures: list[str]
    citing: int
    items: int
    levels: dict[str, int]
    faults: dict[str, int]
    precision: float | None
    leakage_passed: int
    against_records: bool
    without_failing: dict[str, dict[str, Few]] | None


class VenueWire(TypedDict):
    """How many of the questions are of a venue, and whether its money is play money."""

    venue: str
    n_questions: int
    play_money: bool


class About(TypedDict):
    """What a report says besides the figures: which world, what was asked, what was left out."""

    title: str
    version: str
    world_kind: str
    subtitle: str
    grid: str
    left_out: str
    leak_note: str
    run_id: NotRequired[str]
    subjects: NotRequired[list[str]]
    rows: NotRequired[dict[str, int]]
    leave_out: NotRequired[dict[str, int]]
    hints: NotRequired[list[str]]
    baselines: NotRequired[dict[str, str]]
    rejected: NotRequired[dict[str, list[int]]]
    decisions: NotRequired[DecisionCounts]
    answers: NotRequired[dict[str, dict[str, int]]]
    """By forecaster: how many answers were read by which rule, or were none."""
    without_flagged: NotRequired[dict[str, dict[str, Few]] | None]
    short: NotRequired[PartWire | None]
    pictured: NotRequired[Pictured]
    audit: NotRequired[EvidenceAudit]
    plugins: NotRequired[list[PluginFacts]]
    inputs: NotRequired[list[str]]
    counts: NotRequired[dict[str, int]]
    licences: NotRequired[list[str]]
    venues: NotRequired[list[VenueWire]]
    training_ends: NotRequired[dict[str, str]]


class Summary(About, ResultWire):
    """scores.json, whole."""

    leaks: LeaksWire


def number(value: float | None) -> float | None:
    """NaN and infinities become null on the wire."""
    return None if value is None or not math.isfinite(value) else value


def pair(interval: tuple[float, float]) -> Pair:
    """An interval as JSON."""
    return [number(interval[0]), number(interval[1])]


def check_wire(check: Check) -> CheckWire:
    """A field of the card as JSON."""
    value = number(check.value) if isinstance(check.value, float) else check.value
    return {"value": value, "bound": check.bound, "ok": check.ok}


def skill_wire(skill: Skill) -> SkillWire:
    """Paired skill over one set of rows as JSON."""
    return {
        "n": skill.n,
        "n_questions": skill.n_questions,
        "n_events": skill.n_events,
        "brier": number(skill.brier),
        "market_brier": number(skill.market_brier),
        "skill_vs_market": number(skill.skill),
        "skill_ci": pair(skill.ci),
        "skill_ci_by": {kind: pair(ci) for kind, ci in skill.ci_by.items()},
        "leading": skill.leading,
        "effective_n": number(skill.effective_n),
    }


def bet_wire(result: Profit, i: int, table: Table, name: str) -> BetWire:
    """One bet of a forecaster as JSON."""
    row, question = int(result.row[i]), int(result.question[i])
    said = table.market if name == MARKET else table.forecasts[name]
    ended = int(table.settled_at[question])
    return {
        "market_id": table.questions[question],
        "time": iso_us(int(result.t[i])),
        "side": "YES" if result.yes[i] else "NO",
        "forecast": float(said[row]),
        "market": float(table.market[row]),
        "price": float(result.price[i]),
        "stake": float(result.stake[i]),
        "fee": float(result.stake[i] * result.fee[i] / result.price[i]),
        "gain": float(result.gain[i]),
        "outcome": float(table.y[question]),
        "settled": iso_us(ended) if ended else None,
    }


def profit_wire(result: Profit | str, table: Table, name: str) -> ProfitWire | str:
    """Kelly figures as JSON, or why there are none."""
    if isinstance(result, str):
        return result
    by_gain = sorted(range(result.bets), key=lambda i: float(result.gain[i]))
    told = [i for i in by_gain if result.gain[i]]
    n = len(result.wealth)
    shown = np.unique(np.linspace(0, n - 1, min(n, PATH_POINTS)).round().astype(int))
    path = list[WealthWire]()
    if result.bets:
        path.append({"time": iso_us(int(result.t.min())), "wealth": 1.0})
    for i in shown:
        at = iso_us(int(result.settled[i])) if result.settled[i] < LAST else None
        path.append({"time": at, "wealth": float(result.wealth[i])})
    return {
        "start": 1.0,
        "bets": result.bets,
        "staked": result.staked,
        "fees": result.fees,
        "unfunded": result.unfunded,
        "final_wealth": result.final_wealth,
        "gain": result.final_wealth - 1.0,
        "roi": result.roi,
        "roi_ci": pair(result.roi_ci),
        "sharpe": result.sharpe,
        "max_drawdown": result.max_drawdown,
        "drawdown_at_prices": result.drawdown_at_prices,
        "most_at_risk": result.most_at_risk,
        "most_on_event": result.most_on_event,
        "fair_wealth": result.fair_wealth,
        "by_chance": result.by_chance,
        "best_by_chance": result.best_by_chance,
        "tried": result.tried,
        "roi_equal": result.roi_equal,
        "cut": result.cut,
        "fraction": result.rules.fraction,
        "cap": result.rules.cap,
        "note": result.note,
        "made": [
            bet_wire(result, i, table, name)
            for i in told[: -MOST_BETS - 1 : -1]
            if result.gain[i] > 0
        ],
        "lost": [bet_wire(result, i, table, name) for i in told[:MOST_BETS] if result.gain[i] < 0],
        "path": path,
    }


def _bins(bins: Reliability, worth: list[float]) -> BinsWire:
    return {
        "weight": bins.weight.tolist(),
        "worth": worth,
        "forecast": [number(v) for v in bins.forecast.tolist()],
        "outcome": [number(v) for v in bins.outcome.tolist()],
    }


def _short(value: float) -> float | None:
    """A figure of a picture: six decimals are more than can be seen."""
    return None if not math.isfinite(value) else round(value, 6)


def gain_wire(found: Estimate) -> GainWire:
    return {
        "mean": number(found.mean),
        "ci": pair(found.interval),
        "bounds": pair(found.bounds),
        "effective_periods": found.rests_on,
    }


def _evidence(row: Row, found: Estimate, table: Table) -> EvidenceWire:
    fresh, book, course = row.fresh_evidence, row.at_book, row.course
    stale = fresh is not None and fresh is not found
    times, gains, bands = ([], [], []) if course is None else (x.tolist() for x in course)
    return {
        **gain_wire(found),
        "widened": found.factor,
        "leading": found.leading,
        "effective_windows": found.windows,
        "mean_cost": number(found.cost),
        "before_first_mark": found.at_once,
        "unsettled": found.unsettled,
        "heaviest": [
            {
                "time": iso_us(one.at),
                "share": one.share,
                "market": table.name(one.question) if one.question >= 0 else None,
                "move": one.move,
            }
            for one in found.heaviest
        ],
        "late": found.age,
        "period_minutes": found.step // MINUTE,
        "counts_from": "at once" if found.last_day else "midnight",
        "fresh": gain_wire(fresh) if stale and fresh is not None else None,
        "at_book": None if book is None else gain_wire(book),
        "course": [
            {"time": iso_us(at), "gain": _short(gain), "band": _short(band)}
            for at, gain, band in zip(times, gains, bands, strict=True)
        ],
    }


def row_wire(row: Row, table: Table) -> BoardRow:
    """One leaderboard row as JSON. `n`, `n_questions` and `brier` are over all of its own rows; its
    skill is over those where the market has a price too."""
    assert row.skill is not None  # Every scored row has one.
    skill, ci = skill_wire(row.skill), row.intervals
    wire: BoardRow = {
        "forecaster": row.forecaster,
        "n": row.n,
        "n_questions": row.n_questions,
        "missing": row.missing,
        "answered": row.answered,
        "brier": number(row.brier),
        "market_brier": skill["market_brier"],
        "log_loss": number(row.log_loss),
        "els": number(row.els),
        "accuracy": number(row.accuracy),
        "ece": number(row.ece),
        "sharpness_mean_p_1_p_ci": pair(ci["sharpness_mean_p_1_p"]),
        "sharpness_variance_ci": pair(ci["sharpness_variance"]),
        "brier_ci": pair(ci["brier"]),
        "log_loss_ci": pair(ci["log_loss"]),
        "els_ci": pair(ci["els"]),
        "accuracy_ci": pair(ci["accuracy"]),
        "ece_ci": pair(ci["ece"]),
        "reliability_ci": pair(ci["reliability"]),
        "resolution_ci": pair(ci["resolution"]),
        "n_events": skill["n_events"],
        "skill_vs_market": skill["skill_vs_market"],
        "skill_ci": skill["skill_ci"],
        "skill_ci_by": skill["skill_ci_by"],
        "leading": skill["leading"],
        "effective_n": skill["effective_n"],
        "murphy": {key: number(value) for key, value in asdict(row.murphy).items()},
        "market_correlation": number(row.market_correlation),
        "sharpness": {"variance": number(row.sharpness[0]), "mean_p_1_p": number(row.sharpness[1])},
        "kelly": profit_wire(row.profit, table.whole, row.forecaster),
        "fresh": None if row.fresh is None else skill_wire(row.fresh),
        "verdict": row.verdict,
        "reasons": row.reasons,
        "isolation": row.kept.isolation if row.kept else None,
        "order": row.kept.order if row.kept else None,
        "reliability_bins": _bins(row.bins, row.worth),
    }
    if row.evidence is not None:
        wire["evidence"] = _evidence(row, row.evidence, table)
    for name, (value, interval) in row.added.items():
        metric: MetricWire = {
            "value": number(value),
            "ci": pair(interval),
            "better": ADDED[name].better,
            "about": ADDED[name].about,
        }
        if name in row.broken:
            metric["error"] = row.broken[name]
        wire.setdefault("added", {})[name] = metric
    return wire
