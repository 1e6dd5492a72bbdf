"""The leak report: the predicate applied again, from a run's own rows alone, and what the detector
flags. The report gives counts with their denominators; scores are shown with and without the
decisions that rest on a flagged document.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from typing_extensions import TypedDict

from beforehand.clock import from_us, parse_us, to_us
from beforehand.records.cutoff import visible_us
from beforehand.records.rows import Context, IntervalRow, Snippet
from beforehand.records.world import NOMINATED
from beforehand.score.leaks.detector import UNWITNESSED, Flag, flags

CANARY = "canary-"


class LeaksWire(TypedDict):
    """A LeakReport as JSON; the three texts say what was tested, with the denominators."""

    checked: int
    refused: int
    rechecked: int
    admitted_after_t: int
    documents: int
    documents_shown: int
    documents_nominated: int
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
    none of them "0 leaks" says nothing about evidence, and the report says "untested". Of the
    `documents_shown`, `documents_nominated` are known from a search that was made with today's
    knowledge: no date and no guard tells what it left out.
    The detector flags `documents_flagged` of the showings, and `decisions_flagged` of the decisions
    cite such a document.
    """

    checked: int = 0
    refused: int = 0
    rechecked: int = 0
    admitted_after_t: int = 0
    documents: int = 0
    documents_shown: int = 0
    documents_nominated: int = 0
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
        said = f"{self.documents_shown:,} showings out of {self.documents:,} documents"
        if not self.documents_nominated:
            return said
        return (
            f"{said}; {self.documents_nominated:,} of the showings were nominated by today's search"
        )

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
            "documents_nominated": self.documents_nominated,
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


MEASURED = {"text alone": (8, 97), "unwitnessed": (36, 355), "either": (44, 450)}
REAL_LEAKS, REAL_SHOWINGS = 93, 20_093
"""Of so many real headlines that tell an outcome, re-dated twelve days before they were written,
and of so many showings of a backtest over recorded markets: how many each rule flags
(tests/test_score_leaks_unwitnessed.py measures them, and fails where they are others)."""
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
        report.documents_nominated += sum(s.id.startswith(NOMINATED) for s in snippets)
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
