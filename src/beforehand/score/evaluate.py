"""From rows to a verdict: the table, the scores, the card, the files and the report.

Backtests, the benchmark and `score FILE` all end here, so that their figures mean the same.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.clock import iso, to_us
from beforehand.score import placebo as placebos
from beforehand.score import validity
from beforehand.score.bets import Kelly, Profit
from beforehand.score.metrics import CLIP
from beforehand.score.scoreboard import Row, score
from beforehand.score.skill import Options, Skill
from beforehand.score.table import Table, event_labels, relabel

Floats = npt.NDArray[np.float64]
UNRANKED, PATH_TEST = ("scripted",), "a path test, not a forecaster"
"""What is scored to show that the path works, and never ranked."""
FEES = {"POLYMARKET": 0.05, "KALSHI": 0.07, "SIMEX": 0.02, "SIMKET": 0.04}
"""Taker fee rate by venue, times price times (1 - price) a share: Polymarket's for most topics,
Kalshi's general schedule, and the simulated venues' own. Other venues charge nothing."""


@dataclass(frozen=True)
class Question:
    """What scoring needs to know of a question; `settled` is None for open, void and disputed.
    Settled questions without `resolved_at` share one month of their own: no date is made up."""

    id: str
    text: str | None
    event_id: str | None
    settled: float | None
    resolved_at: datetime | None
    play: bool
    fee: float


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


@dataclass(frozen=True)
class Result:
    """Everything a report shows."""

    table: Table
    rows: list[Row]
    checks: list[validity.Check]
    placebo: placebos.Placebo | None

    def wire(self) -> dict[str, Any]:
        """JSON-ready: leaderboard, validity card, placebo."""
        return {
            "leaderboard": [row_wire(row) for row in self.rows],
            "validity": {check.field: check_wire(check) for check in self.checks},
            "placebo": asdict(self.placebo) if self.placebo else None,
            "log_loss_clip": CLIP,
        }


def build_table(columns: Columns, questions: Sequence[Question]) -> Table:
    """Join rows to settled questions; rows of unsettled ones are left out (counted elsewhere)."""
    settled = [q for q in questions if q.settled is not None]
    place = {q.id: i for i, q in enumerate(settled)}
    keep = [i for i, name in enumerate(columns.id) if name in place]
    used = sorted({place[columns.id[i]] for i in keep})
    settled = [settled[i] for i in used]
    place = {q.id: i for i, q in enumerate(settled)}
    days = [iso(q.resolved_at)[:10] if q.resolved_at else None for q in settled]
    names = sorted({name for i in keep for name in columns.forecasts[i]})

    def column(values: Sequence[Any], kind: Any) -> Any:
        return np.array([values[i] for i in keep], dtype=kind)

    months = np.array(
        [int(day[:4]) * 12 + int(day[5:7]) if day else 0 for day in days], dtype=np.int64
    )
    return Table(
        questions=[q.id for q in settled],
        q=np.array([place[columns.id[i]] for i in keep], dtype=np.int64),
        t=column(columns.t, np.int64),
        market=column(columns.market, np.float64),
        price_age=column(columns.price_age, np.float64),
        strict=column(columns.strict, np.bool_),
        evidence=column(columns.evidence, np.int64),
        bid=column(columns.bid, np.float64),
        ask=column(columns.ask, np.float64),
        y=np.array([q.settled for q in settled], dtype=np.float64),
        event=event_labels([q.text for q in settled], days, [q.event_id for q in settled]),
        period=relabel(months),
        resolved_at=np.array(
            [to_us(q.resolved_at) if q.resolved_at else 0 for q in settled], dtype=np.int64
        ),
        play=np.array([q.play for q in settled], dtype=np.bool_),
        fee=np.array([q.fee for q in settled], dtype=np.float64),
        forecasts={
            name: np.array(
                [columns.forecasts[i].get(name, math.nan) for i in keep], dtype=np.float64
            )
            for name in names
        },
    )


def score_only(table: Table, settings: Settings) -> list[Row]:
    """Scores without verdicts, card or placebo."""
    return score(table, Options(draws=settings.draws, seed=settings.seed, kelly=settings.kelly))


def evaluate(table: Table, facts: validity.SetFacts, settings: Settings) -> Result:
    """Scores, verdicts, the validity card applied to them, and the placebo."""
    options = Options(
        draws=settings.draws,
        seed=settings.seed,
        variants=settings.variants,
        kelly=settings.kelly,
        subjects=settings.subjects,
    )
    rows = score(table, options)
    ranked = [row for row in rows if row.forecaster not in settings.unranked]
    checks = validity.card(table, ranked, facts)
    validity.apply_card(ranked, checks)
    rows = [*ranked, *(_unranked(row) for row in rows if row.forecaster in settings.unranked)]
    validity.apply_kept(rows, facts.kept)
    drawn = None
    # Where a bound of the card is not met nothing can beat the market, with or without skill.
    possible = not validity.set_failures(checks)
    if settings.placebo and possible and len(table.q) and options.under_test(table):
        drawn = placebos.placebo(table, options, settings.placebo, settings.seed)
    return Result(table, rows, checks, drawn)


def _unranked(row: Row) -> Row:
    row.verdict, row.reasons = "not ranked", [PATH_TEST]
    return row


def number(value: float | None) -> float | None:
    """NaN and infinities become null on the wire."""
    return None if value is None or not math.isfinite(value) else value


def pair(interval: tuple[float, float]) -> list[float | None]:
    """An interval as JSON."""
    return [number(interval[0]), number(interval[1])]


def check_wire(check: validity.Check) -> dict[str, Any]:
    """A field of the card as JSON."""
    value = number(check.value) if isinstance(check.value, float) else check.value
    return {"value": value, "bound": check.bound, "ok": check.ok}


def skill_wire(skill: Skill | None) -> dict[str, Any] | None:
    """Paired skill over one set of rows as JSON."""
    if skill is None:
        return None
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


def profit_wire(result: Profit | str) -> dict[str, Any] | str:
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


def row_wire(row: Row) -> dict[str, Any]:
    """One leaderboard row as JSON."""
    ci = {f"{key}_ci": pair(value) for key, value in row.intervals.items() if key != "skill"}
    bins = row.bins
    return {
        "forecaster": row.forecaster,
        "n": row.n,
        "n_questions": row.n_questions,
        "missing": row.missing,
        "brier": number(row.brier),
        "log_loss": number(row.log_loss),
        "els": number(row.els),
        "accuracy": number(row.accuracy),
        "ece": number(row.ece),
        **ci,
        **{
            k: v
            for k, v in (skill_wire(row.skill) or {}).items()
            if k not in ("n", "n_questions", "brier")
        },
        "murphy": {key: number(value) for key, value in asdict(row.murphy).items()},
        "sharpness": {"variance": number(row.sharpness[0]), "mean_p_1_p": number(row.sharpness[1])},
        "kelly": profit_wire(row.profit),
        "fresh": skill_wire(row.fresh),
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


def leaderboard_csv(rows: Sequence[Row]) -> bytes:
    """The leaderboard as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in rows:
        wire = row_wire(row)
        wire["brier_low"], wire["brier_high"] = wire["brier_ci"]
        wire["skill_low"], wire["skill_high"] = wire["skill_ci"]
        kelly = wire["kelly"]
        wire["kelly_final_wealth"] = kelly if isinstance(kelly, str) else kelly["final_wealth"]
        writer.writerow([wire[name] for name in CSV_COLUMNS])
    return out.getvalue().encode()
