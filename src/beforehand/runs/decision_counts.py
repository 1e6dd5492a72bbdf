"""How the decisions of a run came about, counted from its rows: by code, by fallback, directly, or
not at all, with the reasons."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from beforehand.records.rows import DecisionRow, IntervalRow, TraceRow

_ARM = re.compile(r"(?:^|; )(?:code|direct): ")
MARKS = ("unshown_evidence_ids", "flagged_evidence_ids", "answer_in_training")
KINDS = ("code", "fallback", "direct", "external", "baseline")


def counts(intervals: Iterable[IntervalRow], traces: Iterable[TraceRow]) -> dict[str, Any]:
    """Decisions by how they were made, failures, and why code did not decide; per model as well.

    `reasons` counts what kept code from deciding (and then the fallback was asked), `failures`
    what ended without any decision.
    """
    fallbacks = set[tuple[str, str, str, int]]()
    reasons, requests = Counter[str](), Counter[str]()
    for trace in traces:
        requests[trace.model_id] += len(trace.calls)
        if isinstance(trace.fallback_reason, str):
            time, index = str(trace.time), int(trace.simulation_index or 0)
            fallbacks.add((trace.market_id, time, trace.model_id, index))
            reasons[reason(trace.fallback_reason)] += 1
    total, failures = Counter[str](), Counter[str]()
    models: dict[str, Counter[str]] = {}
    for row in intervals:
        for decision in row.decisions:
            name, index = decision.model_id, decision.simulation_index
            kind = _kind(decision, (row.market_id, row.time, name, index) in fallbacks)
            mine = models.setdefault(name, Counter())
            for counted in (total, mine):
                counted[kind] += 1
                counted["made"] += 1
                for mark in MARKS:
                    counted[mark] += bool(getattr(decision, mark))
        for failure in row.failures:
            total["failed"] += 1
            models.setdefault(failure.model_id, Counter())["failed"] += 1
            failures[reason(failure.error)] += 1
    return {
        **_shown(total),
        "reasons": dict(sorted(reasons.items())),
        "failures": dict(sorted(failures.items())),
        "models": {
            name: {**_shown(found), "requests": requests[name]}
            for name, found in sorted(models.items())
        },
    }


def reason(text: str) -> str:
    """A reason without its particulars, so that it can be counted."""
    arms = [part for part in _ARM.split(text) if part]
    return "; ".join(part.partition(": ")[0].partition(" (")[0][:80] for part in arms)


def _kind(decision: DecisionRow, fallback: bool) -> str:
    if decision.mode == "direct_llm":
        return "fallback" if fallback else "direct"
    return "code" if decision.mode == "daytona_agent" else decision.mode


def _shown(found: Counter[str]) -> dict[str, int]:
    return {name: found[name] for name in ("made", *KINDS, "failed", *MARKS)}
