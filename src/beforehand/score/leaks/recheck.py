"""The leak report: the same predicate again, from a run's own rows alone."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from beforehand.clock import from_us, iso, parse_us, to_us
from beforehand.records.bulk import PredictionRow
from beforehand.records.cutoff import visible, visible_us
from beforehand.records.rows import IntervalRow
from beforehand.score.leaks.detector import flags

CANARY = "canary-"


@dataclass
class LeakReport:
    """`checked` and `refused` come from the gateway's trail; the rest is counted here.

    `rechecked` timestamps were read back from the stored rows, `admitted_after_t` of them lay
    after their instant, each listed in `found`. `documents` is how many the world holds: with
    none of them "0 leaks" says nothing about evidence, and the report says "untested".
    `documents_flagged` of the showings speak of a time after t in the detector's eyes, and
    `decisions_flagged` of the decisions cite such a document.
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
            f"{self.decisions_flagged:,} of {self.decisions_citing:,} citing decisions rest on one"
        )

    def wire(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **asdict(self),
            "evidence": self.evidence,
            "canaries": self.canaries,
            "detector": self.detector,
        }


def recheck(
    report: LeakReport,
    intervals: Iterable[IntervalRow],
    planted: Mapping[str, datetime] | None = None,
) -> list[dict[str, Any]]:
    """Put every timestamp of the stored contexts and decisions to the predicate again, and every
    text to the detector. Returns a report for each forecast that was shown a document.

    `planted` gives the canaries' own times, from the world and not from the rows: a canary is
    seen if it stands in a context of an earlier instant, whatever the row says of its time.
    """
    planted = planted or {}
    reports = list[dict[str, Any]]()
    for row in intervals:
        t, context = row.context.t, row.context
        market, snippets = context.market, context.search_snippets
        where = f"{row.market_id} at {row.time}"
        stamps = [("odds", market.odds_known_at), ("text", market.text_known_at)]
        stamps += [(f"document {s.id}", s.timestamp) for s in snippets]
        stamps += [("previous interval", p.time) for p in context.previous_intervals]
        shown, after = {s.id for s in snippets}, 0
        for what, stamp in stamps:
            if stamp is None:
                continue
            report.rechecked += 1
            if not visible_us(parse_us(stamp), t):
                after += 1
                report.admitted_after_t += 1
                report.found.append(f"{where}: {what} known at {stamp}")
        before = report.admitted_after_t
        at = from_us(t)
        flagged = {s.id: found for s in snippets if (found := flags(s.text, at))}
        report.documents_flagged += len(flagged)
        tainted = list[str]()
        for decision in row.decisions:
            report.decisions += 1
            report.decisions_citing += bool(decision.key_evidence_ids)
            if flagged.keys() & set(decision.key_evidence_ids):
                report.decisions_flagged += 1
                tainted.append(decision.model_id)
            for cited in decision.key_evidence_ids:
                if cited not in shown:
                    report.admitted_after_t += 1
                    report.found.append(
                        f"{where}: {decision.model_id} cites {cited}, which it was not shown"
                    )
        report.documents_shown += len(snippets)
        early = [s.id for s in snippets if s.id in planted]
        early = [name for name in early if not visible_us(to_us(planted[name]), t)]
        report.canaries_seen += len(early)
        if snippets:
            reports.append(
                {
                    "market_id": row.market_id,
                    "time": row.time,
                    "documents": len(snippets),
                    "after_t": after + report.admitted_after_t - before,
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
