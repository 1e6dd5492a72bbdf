"""The validity card: what the verdict rests on, and which bound it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beforehand.score.scoreboard import Kept, Row
from beforehand.score.skill import MARKET, MIN_EFFECTIVE, MIN_EVENTS
from beforehand.score.table import STALE_DAYS, Table

MAX_STALE, MIN_AFTER_TRAINING = 0.25, 0.95


@dataclass(frozen=True)
class Check:
    """One field of the card; `ok` is None where it carries no bound."""

    field: str
    value: int | float | bool | str | None
    bound: str | None = None
    ok: bool | None = None


MARKET_KEPT = Kept("by construction", "memoryless")
STATED = Kept("trusted", "not asked (times as stated)")
"""For forecasts that came in a file."""


@dataclass(frozen=True)
class SetFacts:
    """What the scorer cannot see in the table.

    `documents` are those in reach; `void` and `unresolved` count endings left out. `models` says
    whether language models made forecasts, `share_after_training_cutoff` for which share of their
    questions the answer came after their training (None if a cutoff is unknown). `variants` were
    tried on this set. `texts_known` says whether the texts shown are on record at all. `subjects`
    are the forecasters under test (all, if None). `short` markets are scored apart because their
    life held no instant of the grid. `kept` says how each forecaster was kept from the future; the
    forecasts of those not named came in a file.
    """

    documents: int
    void: int = 0
    unresolved: int = 0
    models: bool = False
    share_after_training_cutoff: float | None = None
    variants: int = 0
    admitted_after_t: int = 0
    undated: int = 0
    texts_known: bool = True
    subjects: tuple[str, ...] | None = None
    short: int = 0
    kept: Mapping[str, Kept] = field(default_factory=dict)


def card(table: Table, rows: list[Row], facts: SetFacts) -> list[Check]:
    """The fields in the order in which a reader questions them. Effective n and the detectable
    effect are those of the best-ranked forecaster under test; the bound holds for each on its
    own."""
    n_events = int(table.event.max()) + 1 if len(table.event) else 0
    others = [
        r.skill
        for r in rows
        if r.forecaster != MARKET
        and r.skill is not None
        and (facts.subjects is None or r.forecaster in facts.subjects)
    ]
    best = others[0] if others else None
    effective = best.effective_n if best else None
    ages = table.price_age[np.isfinite(table.price_age)]
    p50, p90 = np.quantile(ages, [0.5, 0.9]) if len(ages) else (np.nan, np.nan)
    stale = float((ages > STALE_DAYS).mean()) if len(ages) else None
    with_documents = float((table.evidence > 0).mean()) if len(table.q) else float("nan")
    return [
        Check("n_questions", len(table.questions)),
        Check("n_forecasts", len(table.q)),
        Check("short_markets", facts.short),
        Check("n_events", n_events, f"at least {MIN_EVENTS}", n_events >= MIN_EVENTS),
        Check("n_resolution_months", int(table.period.max()) + 1 if len(table.period) else 0),
        Check(
            "effective_n",
            effective,
            f"at least {MIN_EFFECTIVE:g}",
            None if best is None or best.identical else _enough(effective),
        ),
        Check("price_age_days_p50", float(p50)),
        Check("price_age_days_p90", float(p90)),
        Check(
            "share_price_older_than_7_days",
            stale,
            f"at most {MAX_STALE:g}",
            None if stale is None else stale <= MAX_STALE,
        ),
        Check("share_strict_text", float(table.strict.mean()) if facts.texts_known else None),
        _after_training(facts),
        Check("evidence_documents", facts.documents),
        Check("share_with_a_document", with_documents if facts.documents else None),
        Check("variants_tried", facts.variants),
        Check(
            "minimum_detectable_effect",
            None if best is None or best.identical else best.minimum_detectable_effect,
        ),
        Check("void_excluded", facts.void),
        Check("unresolved", facts.unresolved),
        Check("undated_forecasts", facts.undated, "0", facts.undated == 0),
        Check("admitted_after_t", facts.admitted_after_t, "0", facts.admitted_after_t == 0),
    ]


def _after_training(facts: SetFacts) -> Check:
    name, bound = "share_after_training_cutoff", f"at least {MIN_AFTER_TRAINING:g}"
    share = facts.share_after_training_cutoff
    if not facts.models and share is None:
        return Check(name, None)
    return Check(name, share, bound, share is not None and share >= MIN_AFTER_TRAINING)


def apply_card(rows: list[Row], checks: list[Check]) -> None:
    """Any failed bound of the set turns "beats the market" into "not shown", in the rows
    themselves. (A row's own events and effective n are part of its verdict already.)"""
    failed = set_failures(checks)
    for row in rows:
        if row.verdict == "beats the market" and failed:
            row.verdict = "not shown"
            row.reasons = [f"{c.field} is {_show(c.value)}, must be {c.bound}" for c in failed]


def apply_kept(rows: list[Row], kept: Mapping[str, Kept]) -> None:
    """Store in each row how its forecaster was kept from the future. A forecaster that may remember
    it never gets the verdict "beats the market"."""
    for row in rows:
        default = MARKET_KEPT if row.forecaster == MARKET else STATED
        row.kept = kept.get(row.forecaster, default)
        if row.kept.because is not None and row.verdict == "beats the market":
            row.verdict, row.reasons = "not shown", [row.kept.because]


def set_failures(checks: list[Check]) -> list[Check]:
    """The bounds that the set fails for everyone; effective n is each forecaster's own."""
    return [c for c in checks if c.ok is False and c.field != "effective_n"]


def _enough(effective: float | None) -> bool:
    return effective is not None and effective >= MIN_EFFECTIVE


def _show(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
