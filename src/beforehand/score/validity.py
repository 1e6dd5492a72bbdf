"""The validity card: what the verdict rests on, and which bound it fails."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from beforehand.clock import iso_us
from beforehand.score.report.words import OWN, shortfall
from beforehand.score.scoreboard import LED, Kept, Row, Verdict
from beforehand.score.skill import MARKET, MIN_ANSWERED
from beforehand.score.table import STALE_DAYS, Floats, Table, parts_of
from beforehand.score.verdict import LEAST_PERIODS, MOST_UNSETTLED, Estimate

MAX_STALE, MIN_AFTER_TRAINING = 0.25, 0.95
MADE_AFTER = "share_made_after_training"
SCORED, MIN_SCORED = "share_of_rows_scored", 0.5
OVER_A_GAP, DAY_US = "share_price_from_before_a_gap", 86_400_000_000
PERIODS, UNSETTLED = "effective_periods", "share_of_gain_unsettled"


@dataclass(frozen=True)
class Check:
    """One field of the card; `ok` is None where it carries no bound."""

    field: str
    value: int | float | bool | str | None
    bound: str | None = None
    ok: bool | None = None

    @property
    def sentence(self) -> str:
        """Why the bound is not met."""
        return shortfall(self.field, self.value, self.bound)


MARKET_KEPT = Kept("by construction", "memoryless")
STATED = Kept("trusted", "not asked (times as stated)")
"""For forecasts that came in a file."""


@dataclass(frozen=True)
class SetFacts:
    """What the scorer cannot see in the table.

    `documents` are those in reach; of the showings of them (`shown`) so many were `nominated` by a
    search of today; `void` and `unresolved` count endings left out. `models` says
    whether language models made forecasts, `share_after_training_cutoff` for which share of their
    questions the answer came after their training (None if a cutoff is unknown),
    `share_made_after_training` which share of them was made after it, `training_cutoff`
    when it ended where one instant stands for all. `variants` were
    tried on this set. `texts_known` says whether the texts shown are on record at all. `subjects`
    are the forecasters under test (all, if None). `short` markets are scored apart because their
    life held no instant of the grid. `share_scored` is the share of a file's rows that was scored.
    `kept` says how each forecaster was kept from the future; the forecasts of those not named came
    in a file. `gaps` are times without a row in what was recorded of a venue (its name, begin and
    end in microseconds); None where no dump says what it covers.
    """

    documents: int
    nominated: int = 0
    shown: int = 0
    void: int = 0
    unresolved: int = 0
    models: bool = False
    share_after_training_cutoff: float | None = None
    share_made_after_training: float | None = None
    training_cutoff: datetime | None = None
    variants: int = 0
    admitted_after_t: int = 0
    undated: int = 0
    texts_known: bool = True
    subjects: tuple[str, ...] | None = None
    short: int = 0
    share_scored: float | None = None
    kept: Mapping[str, Kept] = field(default_factory=dict)
    gaps: Sequence[tuple[str, int, int]] | None = None


def _known_ages(table: Table) -> Floats:
    """How old prices are, in days, where that is known."""
    found, n = np.empty(len(table.q)), 0
    for part in parts_of(len(table.q)):
        known = table.price_age[part]
        known = known[np.isfinite(known)]
        found[n : n + len(known)] = known
        n += len(known)
        table.let_go()
    return found[:n]


def card(table: Table, rows: list[Row], facts: SetFacts) -> list[Check]:
    """The fields in the order in which a reader questions them. What the verdict rests on,
    effective n and the detectable effect are those of the best-ranked forecaster under test, the
    share answered is the least of all of them; these bounds hold for each on its own."""
    n_events = int(table.event.max()) + 1 if len(table.event) else 0
    tested = [
        r
        for r in rows
        if r.forecaster != MARKET
        and r.skill is not None
        and (facts.subjects is None or r.forecaster in facts.subjects)
    ]
    best = tested[0] if tested else None
    ages = _known_ages(table)
    stale = float((ages > STALE_DAYS).mean()) if len(ages) else None
    p50 = p90 = np.nan
    if len(ages):  # Nothing needs their order any more.
        p50, p90 = np.quantile(ages, [0.5, 0.9], overwrite_input=True)
    with_documents = float((table.evidence > 0).mean()) if len(table.q) else float("nan")
    return [
        Check("n_questions", len(table.questions)),
        Check("n_forecasts", len(table.q)),
        Check("short_markets", facts.short),
        Check("n_events", n_events),
        Check("n_resolution_months", int(table.period.max()) + 1 if len(table.period) else 0),
        Check("effective_n", best.skill.effective_n if best and best.skill else None),
        *_rests_on(best, table),
        *_shares(tested, facts),
        Check("price_age_days_p50", float(p50)),
        Check("price_age_days_p90", float(p90)),
        Check(
            "share_price_older_than_7_days",
            stale,
            f"at most {MAX_STALE:g}",
            None if stale is None else stale <= MAX_STALE,
        ),
        *_over_gaps(table, facts.gaps),
        Check("share_strict_text", float(table.strict.mean()) if facts.texts_known else None),
        *_after_training(facts),
        Check("evidence_documents", facts.documents),
        Check("share_with_a_document", with_documents if facts.documents else None),
        *_nominated(facts),
        Check("variants_tried", facts.variants),
        Check("minimum_detectable_effect", _detectable(best)),
        Check("void_excluded", facts.void),
        Check("unresolved", facts.unresolved),
        Check("undated_forecasts", facts.undated, "0", facts.undated == 0),
        Check("admitted_after_t", facts.admitted_after_t, "0", facts.admitted_after_t == 0),
    ]


def _nominated(facts: SetFacts) -> Iterator[Check]:
    """Which share of the documents shown a search of today named, where it named any."""
    if facts.nominated:
        yield Check("share_nominated", facts.nominated / facts.shown)


def _told(best: Row | None) -> Estimate | None:
    """What the profit of a forecaster shows, where it takes any position."""
    evidence = None if best is None else best.evidence
    return None if evidence is None or not evidence.apart else evidence


def _detectable(best: Row | None) -> float | None:
    evidence = _told(best)
    return None if evidence is None else evidence.detectable


def _rests_on(best: Row | None, table: Table) -> Iterator[Check]:
    """What the verdict on the best-ranked forecaster rests on."""
    evidence, least, most = (
        _told(best),
        f"at least {LEAST_PERIODS:g}",
        f"at most {MOST_UNSETTLED:g}",
    )
    if evidence is None:
        yield Check(PERIODS, None, least)
        yield Check(UNSETTLED, None, most)
        return
    yield Check(PERIODS, evidence.rests_on, least, evidence.enough)
    yield Check("leading_variance", LED[evidence.leading])
    yield Check("heaviest_periods", _heaviest(evidence, table) or None)
    yield Check("share_of_gain_before_first_price", evidence.at_once)
    yield Check(UNSETTLED, evidence.unsettled, most, evidence.unsettled <= MOST_UNSETTLED)
    if evidence.windows is not None:
        yield Check("assumption", ASSUMED)


ASSUMED = (
    "there were no prices in between: it holds if its events have nothing to do with each other"
)


def _heaviest(evidence: Estimate, table: Table) -> str:
    """The periods that make most of the variance, and the market that moved most then."""
    said = list[str]()
    for one in evidence.heaviest:
        name = f", {table.name(one.question)} {one.move:+.3f}" if one.question >= 0 else ""
        said.append(f"{iso_us(one.at)[:10]} ({100 * one.share:.0f} %{name})")
    return "; ".join(said)


def _over_gaps(table: Table, gaps: Sequence[tuple[str, int, int]] | None) -> Iterator[Check]:
    """The share of forecasts at a price from before a gap of the record that began by t."""
    if gaps is None:
        return
    venues = np.array([name.partition(":")[0] for name in table.questions], dtype=str)[table.q]
    # To a millisecond: days do not hold a microsecond.
    observed = table.t - table.price_age * DAY_US - 1000
    old = np.zeros(len(table.q), dtype=np.bool_)
    for venue in {venue for venue, _, _ in gaps}:
        begins = np.array(sorted(begin for of, begin, _ in gaps if of == venue))
        since = np.searchsorted(begins, table.t) > np.searchsorted(begins, observed)
        old |= (venues == venue) & since
    yield Check(OVER_A_GAP, float(old.mean()) if len(old) else None)


def _shares(tested: list[Row], facts: SetFacts) -> list[Check]:
    """How much of what was asked was answered, and of what came in a file was scored."""
    answered = min((row.answered for row in tested), default=None)
    return [
        Check(
            "share_answered",
            answered,
            f"at least {MIN_ANSWERED:g}",
            None if answered is None else answered >= MIN_ANSWERED,
        ),
        Check(
            SCORED,
            facts.share_scored,
            f"at least {MIN_SCORED:g}",
            None if facts.share_scored is None else facts.share_scored >= MIN_SCORED,
        ),
    ]


def _after_training(facts: SetFacts) -> Iterator[Check]:
    """Answers that a model may remember, and forecasts at an instant whose news it may."""
    bound = f"at least {MIN_AFTER_TRAINING:g}"
    shares = {
        "share_after_training_cutoff": facts.share_after_training_cutoff,
        MADE_AFTER: facts.share_made_after_training,
    }
    for name, share in shares.items():
        if share is None and (name == MADE_AFTER or not facts.models):
            yield Check(name, None)
        else:
            yield Check(name, share, bound, share is not None and share >= MIN_AFTER_TRAINING)


def apply_card(rows: list[Row], checks: list[Check]) -> None:
    """Bind the verdicts of rows, in the rows themselves, by the bounds of the set. (A row's own
    events and effective n are part of its verdict already.)"""
    failed = set_failures(checks)
    for row in rows:
        row.verdict, row.reasons = bound(row.verdict, row.reasons, failed)


def apply_kept(rows: list[Row], kept: Mapping[str, Kept]) -> None:
    """Store in each row how its forecaster was kept from the future, and bind its verdict by it."""
    for row in rows:
        default = MARKET_KEPT if row.forecaster == MARKET else STATED
        row.kept = kept.get(row.forecaster, default)
        because = row.kept.because
        if because is not None and row.verdict == "not shown":
            row.reasons = [because, *row.reasons]
        row.verdict, row.reasons = bound(row.verdict, row.reasons, because=because)


def bound(
    said: Verdict, reasons: list[str], failed: Sequence[Check] = (), because: str | None = None
) -> tuple[Verdict, list[str]]:
    """What is left of a verdict, and the reasons. Any failed bound of the set, or that a forecaster
    may not (`because`), turns "beats the market" into "not shown"; where most rows of a file were
    left out, every verdict."""
    refused = [c.sentence for c in failed if c.field == SCORED]
    if refused and said not in ("is the market", "not ranked"):
        return "not shown", refused
    if said == "beats the market" and (failed or because is not None):
        return "not shown", [c.sentence for c in failed] or [str(because)]
    return said, reasons


def set_failures(checks: list[Check]) -> list[Check]:
    """The bounds that the set fails for everyone."""
    return [c for c in checks if c.ok is False and c.field not in OWN]
