"""The leak report, the leak detector, and the dose-response of leaks.

The report applies the same predicate again, from a run's own rows alone.

The detector finds what in a text speaks of a time after t. It reads the text alone and knows no
outcome: dates after t (written in the common ways), a year after t's beside a word of the past,
words that say a correction was made, and words that report an ending. A further rule, where the
archive is at hand, flags a result that no other document speaks of (`backtest/unwitnessed.py`).
“Live updates” in a headline is no mark: of 206 flags on real headlines 157 were such, and none of
them a leak. A flag is a reason to look, not a proof; the report gives counts with their
denominators, and scores are shown with and without the decisions that rest on a flagged document.

The dose-response says what would happen if a share of the contexts held a leak. Leaks of four
grades are injected into copies of a run's contexts, from one that states the outcome with a date
after t to one that only hints at it. It reports, by grade, the share that the detector finds, and
how much a forecaster that believes what it reads would gain in Brier by the leaks that the detector
misses. A detector that found nothing and one that found all give the two ends.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from beforehand.clock import from_us, iso, parse_us, to_us
from beforehand.records.bulk import PredictionRow
from beforehand.records.cutoff import visible, visible_us
from beforehand.records.rows import Context, IntervalRow, Snippet

UNWITNESSED: Final = "unwitnessed result"
Kind = Literal[
    "date after t", "year after t", "update marker", "outcome word", "unwitnessed result"
]
_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_MONTH = "|".join(f"{m}|{m[:3]}" for m in _MONTHS)
_DATES = (
    re.compile(r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)\b"),
    re.compile(
        rf"\b(?P<n>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>(?:19|20)\d\d)\b", re.I
    ),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)? (?P<n>{_MONTH})\.?,? (?P<y>(?:19|20)\d\d)\b", re.I
    ),
)
_YEAR = re.compile(
    r"\b(?:was|were|had|won|lost|died|resigned|became|elected|signed|passed|ended|happened|occurred|"
    r"defeated|announced|reported|since)\b[^.;!?]{0,60}?\b(?:in|of|since|during|after) (20\d\d)\b",
    re.I,
)
_UPDATE = re.compile(
    r"(?:\(updated\)|\bcorrection:|\beditor'?s note|\bthis (?:article|story) (?:was|has been) "
    r"updated)",
    re.I,
)
_OUTCOME = re.compile(
    r"\b(?:resolve[sd]? (?:to )?(?:yes|no)\b|was (?:later )?(?:confirmed|announced) as the winner|"
    r"final (?:result|results|score|tally)|officially (?:won|lost|ended|declared)|in hindsight|"
    r"as it turned out|has since (?:been|become|died|resigned|won|lost))",
    re.I,
)
PLANNED = re.compile(
    r"\b(?:by|before|until|through|scheduled|expected|due|will|plan(?:s|ned)?|"
    r"set (?:for|to)|upcoming|ahead of|next|deadline|on or before|no later than)\b",
    re.I,
)
"""Words that make a later date a plan: what is announced beforehand is no leak."""
CANARY = "canary-"
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
class Flag:
    """One thing in a text that speaks of a time after t."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class _Reading:
    """What a text holds, independent of t."""

    dates: tuple[tuple[date, str, bool], ...]
    years: tuple[tuple[int, str, bool], ...]
    marks: tuple[Flag, ...]


def flags(text: str, t: datetime) -> list[Flag]:
    """What in `text` speaks of a time after `t` (an instant with a zone)."""
    found = _read(text)
    day = t.astimezone(UTC).date()
    late = [
        Flag("date after t", said)
        for when, said, planned in found.dates
        if when > day + timedelta(days=1) and not planned
    ]
    late += [
        Flag("year after t", said)
        for year, said, planned in found.years
        if year > day.year and not planned
    ]
    return [*late, *found.marks]


@lru_cache(maxsize=100_000)
def _read(text: str) -> _Reading:
    dates = []
    for pattern in _DATES:
        for match in pattern.finditer(text):
            if (when := _date(match)) is not None:
                dates.append((when, match.group(), _planned(text, match.start())))
    years = [(int(m.group(1)), m.group(), _planned(text, m.start())) for m in _YEAR.finditer(text)]
    marks = [Flag("update marker", m.group()) for m in _UPDATE.finditer(text)]
    marks += [Flag("outcome word", m.group()) for m in _OUTCOME.finditer(text)]
    return _Reading(tuple(dates), tuple(years), tuple(marks))


def _date(match: re.Match[str]) -> date | None:
    groups = match.groupdict()
    name = groups.get("n")
    month = int(groups["m"]) if name is None else 1 + _month(name)
    try:
        return date(int(groups["y"]), month, int(groups["d"]))
    except ValueError:
        return None


def _month(name: str) -> int:
    return next(i for i, month in enumerate(_MONTHS) if month.startswith(name.lower()[:3]))


def _planned(text: str, start: int) -> bool:
    """Whether the words before a date (in its sentence) make it a plan."""
    before = text[max(0, start - 60) : start]
    return PLANNED.search(re.split(r"[.;!?]\s", before)[-1]) is not None


class LeaksWire(TypedDict):
    """A LeakReport as JSON; the three texts say what was tested, with the denominators."""

    checked: int
    refused: int
    rechecked: int
    admitted_after_t: int
    documents: int
    documents_shown: int
    canaries_planted: int
    canaries_seen: int
    documents_flagged: int
    decisions: int
    decisions_citing: int
    decisions_flagged: int
    found: list[str]
    from_file: bool
    evidence: str
    canaries: str
    detector: str


@dataclass
class LeakReport:
    """`checked` and `refused` come from the gateway's trail; the rest is counted here.

    `rechecked` timestamps were read back from the stored rows, `admitted_after_t` of them lay
    after their instant, each listed in `found`. `documents` is how many the world holds: with
    none of them "0 leaks" says nothing about evidence, and the report says "untested".
    The detector flags `documents_flagged` of the showings, and `decisions_flagged` of the decisions
    cite such a document.
    """

    checked: int = 0
    refused: int = 0
    rechecked: int = 0
    admitted_after_t: int = 0
    documents: int = 0
    documents_shown: int = 0
    canaries_planted: int = 0
    canaries_seen: int = 0
    documents_flagged: int = 0
    decisions: int = 0
    decisions_citing: int = 0
    decisions_flagged: int = 0
    found: list[str] = field(default_factory=list)
    from_file: bool = False

    @property
    def evidence(self) -> str:
        """`untested`, or what the evidence layer was tested with."""
        if self.from_file:
            return "not applicable: the forecasts come from a file"
        if not self.documents:
            return "untested: no evidence layer"
        if not self.documents_shown:
            return f"untested: none of {self.documents:,} documents was shown"
        return f"{self.documents_shown:,} showings out of {self.documents:,} documents"

    @property
    def canaries(self) -> str:
        """How many planted records were seen, or that none was planted."""
        if self.from_file:
            return "not applicable: the forecasts come from a file"
        if not self.canaries_planted:
            return "untested: none planted in this world"
        return f"{self.canaries_seen} of {self.canaries_planted} seen before their time"

    @property
    def detector(self) -> str:
        """What the detector found, with the denominators."""
        if self.from_file or not self.documents_shown:
            return "untested: no document was shown"
        return (
            f"{self.documents_flagged:,} of {self.documents_shown:,} showings flagged; "
            f"{self.decisions_flagged:,} of {self.decisions_citing:,} citing decisions rest on "
            f"one. Of {REAL_LEAKS} real headlines that tell an outcome and were re-dated, the "
            f"dates and words of the text alone find {MEASURED['text alone'][0]}, a result that "
            f"nobody else reports {MEASURED['unwitnessed'][0]}, either {MEASURED['either'][0]}; of "
            f"{REAL_SHOWINGS:,} showings of real documents {MEASURED['either'][1]} are flagged"
        )

    def wire(self) -> LeaksWire:
        """JSON-ready."""
        return {
            "checked": self.checked,
            "refused": self.refused,
            "rechecked": self.rechecked,
            "admitted_after_t": self.admitted_after_t,
            "documents": self.documents,
            "documents_shown": self.documents_shown,
            "canaries_planted": self.canaries_planted,
            "canaries_seen": self.canaries_seen,
            "documents_flagged": self.documents_flagged,
            "decisions": self.decisions,
            "decisions_citing": self.decisions_citing,
            "decisions_flagged": self.decisions_flagged,
            "found": self.found,
            "from_file": self.from_file,
            "evidence": self.evidence,
            "canaries": self.canaries,
            "detector": self.detector,
        }


class FlagWire(TypedDict):
    """A flag of the detector: in which document, of which kind, on which words."""

    document: str
    kind: str
    text: str


MEASURED = {"text alone": (8, 40), "unwitnessed": (36, 107), "either": (44, 145)}
REAL_LEAKS, REAL_SHOWINGS = 93, 11_925
"""Of so many real headlines that tell an outcome, re-dated twelve days before they were written,
and of so many showings of a backtest over recorded markets: how many each rule flags
(tests/test_unwitnessed.py measures them, and fails where they are others)."""
Also = Callable[[Context, Snippet], Flag | None]
"""A rule of the detector besides those for the text alone."""


def flagged_in(context: Context, also: Also | None = None) -> dict[str, list[Flag]]:
    """The flags of the documents of a context, by their ids."""
    at, found = from_us(context.t), dict[str, list[Flag]]()
    for snippet in context.search_snippets:
        said = flags(snippet.text, at)
        if not said and also is not None and (one := also(context, snippet)) is not None:
            said = [one]
        if said:
            found[snippet.id] = said
    return found


class ForecastLeaks(TypedDict):
    """A line of leaks.jsonl: one forecast that was shown documents."""

    market_id: str
    time: str
    documents: int
    after_t: int
    canaries: list[str]
    flags: list[FlagWire]
    flagged_decisions: list[str]


def recheck(
    report: LeakReport,
    intervals: Iterable[IntervalRow],
    planted: Mapping[str, datetime] | None = None,
    also: Also | None = None,
) -> list[ForecastLeaks]:
    """Check every timestamp of the stored contexts and decisions again with the predicate, and
    every text with the detector. Returns a report for each forecast that was shown a document.

    `planted` gives the canaries' own times, from the world and not from the rows: a canary is
    seen if it is in a context of an earlier instant, whatever time the row gives for it. `also` is
    the rule that needs the archive's other documents, or its findings on record.
    """
    reports = list[ForecastLeaks]()
    for row in intervals:
        before, snippets, at = report.admitted_after_t, row.context.search_snippets, row.context.t
        _check_times(report, row)
        flagged = flagged_in(row.context, also)
        tainted = _check_citations(report, row, flagged.keys())
        early = [
            s.id
            for s in snippets
            if planted and s.id in planted and not visible_us(to_us(planted[s.id]), at)
        ]
        report.documents_shown += len(snippets)
        report.documents_flagged += len(flagged)
        report.canaries_seen += len(early)
        if snippets:
            reports.append(
                {
                    "market_id": row.market_id,
                    "time": row.time,
                    "documents": len(snippets),
                    "after_t": report.admitted_after_t - before,
                    "canaries": early,
                    "flags": [
                        {"document": name, "kind": flag.kind, "text": flag.text}
                        for name, found in flagged.items()
                        for flag in found
                    ],
                    "flagged_decisions": tainted,
                }
            )
    return reports


def on_record(lines: Iterable[Mapping[str, Any]]) -> Also:
    """The unwitnessed results that a run's leaks.jsonl has: rows alone do not give them anew."""
    kept = {
        (line["market_id"], line["time"], flag["document"]): Flag(UNWITNESSED, flag["text"])
        for line in lines
        for flag in line["flags"]
        if flag["kind"] == UNWITNESSED
    }
    return lambda context, snippet: kept.get((context.market.id, context.time, snippet.id))


def _check_times(report: LeakReport, row: IntervalRow) -> None:
    """Check each time of the context with the predicate."""
    context = row.context
    stamps = [("odds", context.market.odds_known_at), ("text", context.market.text_known_at)]
    stamps += [(f"document {s.id}", s.timestamp) for s in context.search_snippets]
    stamps += [("previous interval", p.time) for p in context.previous_intervals]
    for what, stamp in stamps:
        if stamp is None:
            continue
        report.rechecked += 1
        if not visible_us(parse_us(stamp), context.t):
            report.admitted_after_t += 1
            report.found.append(f"{row.market_id} at {row.time}: {what} known at {stamp}")


def _check_citations(report: LeakReport, row: IntervalRow, flagged: Set[str]) -> list[str]:
    """What decisions cite must have been shown to them; returns who cites a flagged document."""
    shown, tainted = {s.id for s in row.context.search_snippets}, list[str]()
    for decision in row.decisions:
        report.decisions += 1
        report.decisions_citing += bool(decision.key_evidence_ids)
        if flagged & set(decision.key_evidence_ids):
            report.decisions_flagged += 1
            tainted.append(decision.model_id)
        for cited in decision.key_evidence_ids:
            if cited not in shown:
                report.admitted_after_t += 1
                report.found.append(
                    f"{row.market_id} at {row.time}: {decision.model_id} cites {cited}, which it "
                    "was not shown"
                )
    return tainted


def audit_evidence(predictions: Iterable[PredictionRow]) -> tuple[int, int, list[str]]:
    """(forecasts, those whose evidence passes, the failures in words).

    Evidence passes if each item carries a timestamp that is no later than the prediction's own;
    a prediction that cites evidence and has no time of its own fails.
    """
    total, failures = 0, list[str]()
    for record in predictions:
        total += 1
        at = record.metadata.timestamp if record.metadata else None
        for item in record.prediction.rationale or ():
            if item.timestamp is None:
                failures.append(f"{record.id}: evidence {item.source!r} has no timestamp")
            elif at is None:
                failures.append(f"{record.id}: the prediction that cites it has no timestamp")
            elif not visible(item.timestamp, at):
                failures.append(
                    f"{record.id}: evidence {item.source!r} is dated {iso(item.timestamp)}, after "
                    f"the prediction at {iso(at)}"
                )
            else:
                continue
            break
    return total, total - len(failures), failures


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
