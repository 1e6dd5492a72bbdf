"""A scored run as JSON: what `scores.json` holds, and `leaderboard.csv`.

Backtests, the benchmark and `score FILE` all write these; the report, the terminal and
`runs diff` read them. Probabilities and skills are fractions; an interval is `[low, high]`, with
nulls where it cannot be computed.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NotRequired, cast

from typing_extensions import TypedDict

from beforehand.score.bets import Profit
from beforehand.score.leaks import LeaksWire
from beforehand.score.metrics import ADDED
from beforehand.score.scoreboard import Row
from beforehand.score.skill import Skill
from beforehand.score.validity import Check

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
    skill_vs_market: float | None
    skill_ci: Pair
    skill_ci_by: dict[str, Pair]
    leading: str
    deflated_lower: float | None
    deflated_upper: float | None
    effective_n: float | None
    minimum_detectable_effect: float | None


class ProfitWire(TypedDict):
    """What fractional Kelly bets on the forecasts would have won."""

    bets: int
    final_wealth: float
    mean_return: float
    sharpe: float | None
    max_drawdown: float
    note: str
    mean_return_ci: Pair


class BinsWire(TypedDict):
    """The bins of a reliability diagram; null where a bin is empty."""

    weight: list[float]
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


class BoardRow(SkillWire):
    """One row of the leaderboard."""

    forecaster: str
    missing: int
    log_loss: float | None
    els: float | None
    accuracy: float | None
    ece: float | None
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
    """How often the rules say "beats the market" where there is no skill."""

    draws: int
    any_share: float
    share_by: dict[str, float]


class ResultWire(TypedDict):
    """What scoring finds."""

    leaderboard: list[BoardRow]
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


class ShortRow(TypedDict):
    """A forecaster's scores on the markets that are scored apart."""

    forecaster: str
    n: int
    brier: float | None
    skill_vs_market: float | None
    skill_ci: Pair


class ShortWire(TypedDict):
    """Markets that hold no instant of the grid."""

    n_questions: int
    n_forecasts: int
    leaderboard: list[ShortRow]


class Few(TypedDict):
    """A forecaster's first figures."""

    n: int
    brier: float | None
    skill_vs_market: float | None


class Pictured(TypedDict):
    """The market that the report draws."""

    id: str
    question: str | None
    settled: float | None


class EvidenceAudit(TypedDict):
    """How many evidence items passed the audit, and the first that failed."""

    total: int
    passed: int
    failures: list[str]


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
    rejected: NotRequired[dict[str, list[int]]]
    decisions: NotRequired[DecisionCounts]
    without_flagged: NotRequired[dict[str, dict[str, Few]] | None]
    short: NotRequired[ShortWire | None]
    pictured: NotRequired[Pictured]
    audit: NotRequired[EvidenceAudit]
    plugins: NotRequired[list[PluginFacts]]
    inputs: NotRequired[list[str]]
    counts: NotRequired[dict[str, int]]


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
        "skill_vs_market": number(skill.skill),
        "skill_ci": pair(skill.ci),
        "skill_ci_by": {kind: pair(ci) for kind, ci in skill.ci_by.items()},
        "leading": skill.leading,
        "deflated_lower": number(skill.lower),
        "deflated_upper": number(skill.upper),
        "effective_n": number(skill.effective_n),
        "minimum_detectable_effect": number(skill.minimum_detectable_effect),
    }


def profit_wire(result: Profit | str) -> ProfitWire | str:
    """Kelly figures as JSON, or why there are none."""
    if isinstance(result, str):
        return result
    return {
        "bets": result.bets,
        "final_wealth": result.final_wealth,
        "mean_return": result.mean_return,
        "sharpe": result.sharpe,
        "max_drawdown": result.max_drawdown,
        "note": result.note,
        "mean_return_ci": pair(result.mean_return_ci),
    }


def row_wire(row: Row) -> BoardRow:
    """One leaderboard row as JSON. Its skill is over the rows where the market has a price too;
    `n`, `n_questions` and `brier` are over all of its own."""
    assert row.skill is not None  # Every scored row has one.
    skill, ci, bins = skill_wire(row.skill), row.intervals, row.bins
    wire: BoardRow = {
        "forecaster": row.forecaster,
        "n": row.n,
        "n_questions": row.n_questions,
        "missing": row.missing,
        "brier": number(row.brier),
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
        "deflated_lower": skill["deflated_lower"],
        "deflated_upper": skill["deflated_upper"],
        "effective_n": skill["effective_n"],
        "minimum_detectable_effect": skill["minimum_detectable_effect"],
        "murphy": {key: number(value) for key, value in asdict(row.murphy).items()},
        "sharpness": {"variance": number(row.sharpness[0]), "mean_p_1_p": number(row.sharpness[1])},
        "kelly": profit_wire(row.profit),
        "fresh": None if row.fresh is None else skill_wire(row.fresh),
        "verdict": row.verdict,
        "reasons": row.reasons,
        "isolation": row.kept.isolation if row.kept else None,
        "order": row.kept.order if row.kept else None,
        "reliability_bins": {
            "weight": bins.weight.tolist(),
            "forecast": [number(v) for v in bins.forecast.tolist()],
            "outcome": [number(v) for v in bins.outcome.tolist()],
        },
    }
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


CSV_COLUMNS = (
    "forecaster",
    "n",
    "n_questions",
    "missing",
    "brier",
    "brier_low",
    "brier_high",
    "log_loss",
    "els",
    "skill_vs_market",
    "skill_low",
    "skill_high",
    "leading",
    "accuracy",
    "ece",
    "effective_n",
    "kelly_final_wealth",
    "verdict",
    "isolation",
    "order",
)


def leaderboard_csv(board: Sequence[BoardRow]) -> bytes:
    """The leaderboard as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    added = [name + end for name in board[0].get("added", {}) for end in ("", "_low", "_high")]
    columns = [*CSV_COLUMNS, *added]
    writer.writerow(columns)
    for row in board:
        cells = csv_cells(row)
        writer.writerow([cells[name] for name in columns])
    return out.getvalue().encode()


def csv_cells(row: BoardRow) -> dict[str, object]:
    """One row of the leaderboard by the columns of the CSV: those of `CSV_COLUMNS`, then those of
    added metrics."""
    nested, whole = _flat(row), cast(Mapping[str, object], row)
    cells = {name: nested.get(name, whole.get(name)) for name in CSV_COLUMNS}
    return {**cells, **{name: cell for name, cell in nested.items() if name not in cells}}


def _flat(row: BoardRow) -> dict[str, object]:
    """The columns that JSON nests."""
    kelly = row["kelly"]
    (brier_low, brier_high), (skill_low, skill_high) = row["brier_ci"], row["skill_ci"]
    added = dict[str, object]()
    for name, metric in row.get("added", {}).items():
        added[name] = metric["value"]
        added[f"{name}_low"], added[f"{name}_high"] = metric["ci"]
    return {
        **added,
        "brier_low": brier_low,
        "brier_high": brier_high,
        "skill_low": skill_low,
        "skill_high": skill_high,
        "kelly_final_wealth": kelly if isinstance(kelly, str) else kelly["final_wealth"],
    }
