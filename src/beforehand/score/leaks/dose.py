"""Leak dose-response: what if a share of the contexts had held a leak?

Leaks of four grades are injected into copies of a run's contexts, from one that states the outcome
with a date after t to one that only hints at it. Reported are the share that the detector finds, by
grade, and how much a forecaster that believes what it reads would gain in Brier by the leaks that
it misses. A detector that found nothing and one that found all give the two ends.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from beforehand.score.leaks.detector import flags

DOSES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
BELIEF = 0.9
"""How far a believing forecaster moves from the market's price to the leaked outcome."""
GRADES = {
    "stated, dated": (
        "{day}: it is over, and the question resolved {word}.",
        "{iso}: final, {word}.",
        "Result of {day}: {plain}.",
    ),
    "dated": (
        "Reported on {day}: the outcome was {plain}.",
        "({short}) It came out {plain}.",
        "According to papers of {iso}, people say {plain}.",
    ),
    "stated": (
        "In hindsight the answer was {plain}; the final result is in.",
        "The outcome is now official: {plain}.",
        "It ended {plain}, as the organisers told everyone afterwards.",
    ),
    "hinted": (
        "Nobody doubts any more that it was {plain}.",
        "Looking back, {plain} was always the likelier end.",
        "The celebrations after the {plain} verdict went on all night.",
    ),
}
"""What is injected, the wordings in turns; {day} lies a week after t, {short} has no year. Some are
out of the detector's reach on purpose: its share is worth as much as the leaks are varied."""


@dataclass(frozen=True)
class Case:
    """One context: when, the market's price, the outcome (0 to 1)."""

    t: datetime
    price: float
    outcome: float


@dataclass(frozen=True)
class Dose:
    """One line of the table. `brier` is that of the believing forecaster over all contexts,
    `brier_kept` over those without a flag (None if all have one); `flattery` is what the missed
    leaks gain."""

    grade: str
    share: float
    injected: int
    found: int
    brier: float
    brier_kept: float | None
    brier_clean: float
    flattery: float


def doses(cases: Sequence[Case], seed: int = 0) -> list[Dose]:
    """Every grade at every dose, over the same contexts; nothing over none."""
    table: list[Dose] = []
    if not cases:
        return table
    for grade, wordings in GRADES.items():
        order = list(range(len(cases)))
        random.Random(f"{seed}/{grade}").shuffle(order)
        texts = [_leak(wordings[i % len(wordings)], case) for i, case in enumerate(cases)]
        found = [bool(flags(text, case.t)) for text, case in zip(texts, cases, strict=True)]
        for share in DOSES:
            chosen = set(order[: round(share * len(cases))])
            table.append(_dose(grade, share, cases, chosen, found))
    return table


def wire(table: Sequence[Dose]) -> list[Mapping[str, Any]]:
    """JSON-ready."""
    return [asdict(row) for row in table]


def _dose(
    grade: str, share: float, cases: Sequence[Case], chosen: set[int], found: Sequence[bool]
) -> Dose:
    clean = [(case.price - case.outcome) ** 2 for case in cases]
    believed = [
        (case.price + BELIEF * (case.outcome - case.price) - case.outcome) ** 2
        if i in chosen
        else clean[i]
        for i, case in enumerate(cases)
    ]
    kept = [i for i in range(len(cases)) if not (i in chosen and found[i])]
    n = len(cases)
    return Dose(
        grade=grade,
        share=share,
        injected=len(chosen),
        found=sum(found[i] for i in chosen),
        brier=sum(believed) / n,
        brier_kept=sum(believed[i] for i in kept) / len(kept) if kept else None,
        brier_clean=sum(clean) / n,
        flattery=sum(clean[i] - believed[i] for i in kept) / len(kept) if kept else 0.0,
    )


def _leak(template: str, case: Case) -> str:
    later = case.t + timedelta(days=7)
    yes = case.outcome >= 0.5
    return template.format(
        day=f"{later:%B} {later.day}, {later.year}",
        iso=f"{later:%Y-%m-%d}",
        short=f"{later:%b} {later.day}",
        word="YES" if yes else "NO",
        plain="yes" if yes else "no",
    )
