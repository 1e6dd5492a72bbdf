"""The dose-response of leaks: what would happen if a share of the contexts held one.

Leaks of four grades are injected into copies of a run's contexts, from one that states the outcome
with a date after t to one that only hints at it. It reports, by grade, the share that the detector
finds, and how much a forecaster that believes what it reads would gain in Brier by the leaks that
the detector misses. A detector that found nothing and one that found all give the two ends.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from typing_extensions import TypedDict

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
"""The leaks that are injected, each wording in turn; {day} lies a week after t, {short} has no
year. Some are out of the detector's reach on purpose: the share that it finds means more, the more
varied the leaks are."""


@dataclass(frozen=True)
class Case:
    """One context: when, the market's price, the outcome (0 to 1), and which question it is about:
    questions count alike, as on the leaderboard."""

    t: datetime
    price: float
    outcome: float
    question: str = ""


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


class DoseWire(TypedDict):
    """A Dose as JSON."""

    grade: str
    share: float
    injected: int
    found: int
    brier: float
    brier_kept: float | None
    brier_clean: float
    flattery: float


def wire(table: Sequence[Dose]) -> list[DoseWire]:
    """JSON-ready."""
    return [
        {
            "grade": row.grade,
            "share": row.share,
            "injected": row.injected,
            "found": row.found,
            "brier": row.brier,
            "brier_kept": row.brier_kept,
            "brier_clean": row.brier_clean,
            "flattery": row.flattery,
        }
        for row in table
    ]


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
    everyone = range(len(cases))
    gained = [clean[i] - believed[i] for i in everyone]
    return Dose(
        grade=grade,
        share=share,
        injected=len(chosen),
        found=sum(found[i] for i in chosen),
        brier=_by_question(believed, cases, everyone),
        brier_kept=_by_question(believed, cases, kept) if kept else None,
        brier_clean=_by_question(clean, cases, everyone),
        flattery=_by_question(gained, cases, kept) if kept else 0.0,
    )


def _by_question(values: Sequence[float], cases: Sequence[Case], at: Sequence[int]) -> float:
    """The mean of the values at these places, first of each question, then over the questions."""
    sums, counts = defaultdict[str, float](float), Counter[str]()
    for i in at:
        sums[cases[i].question] += values[i]
        counts[cases[i].question] += 1
    return sum(total / counts[name] for name, total in sums.items()) / len(sums)


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
