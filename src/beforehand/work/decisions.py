"""How the decisions of a run came about, counted from its rows: by code, by fallback, directly, or
not at all, with the reasons."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_ARM = re.compile(r"(?:^|; )(?:code|direct): ")
KINDS = ("code", "fallback", "direct", "external", "baseline")


def counts(
    intervals: Iterable[Mapping[str, Any]], traces: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Decisions by how they were made, failures, and why code did not decide; per model as well.

    `reasons` counts what kept code from deciding (and then the fallback was asked), `failures`
    what ended without any decision.
    """
    fallbacks = set[tuple[str, str, str, int]]()
    reasons, requests = Counter[str](), Counter[str]()
    for trace in traces:
        requests[trace["model_id"]] += len(trace["calls"])
        if "fallback_reason" in trace:
            fallbacks.add(_key(trace, trace["market_id"], trace["time"]))
            reasons[reason(trace["fallback_reason"])] += 1
    total, failures = Counter[str](), Counter[str]()
    models: dict[str, Counter[str]] = {}
    for row in intervals:
        for decision in row["decisions"]:
            kind = _kind(decision, _key(decision, row["market_id"], row["time"]) in fallbacks)
            mine = models.setdefault(decision["model_id"], Counter())
            for counted in (total, mine):
                counted[kind] += 1
                counted["made"] += 1
                for mark in ("unshown_evidence_ids", "flagged_evidence_ids", "answer_in_training"):
                    counted[mark] += mark in decision
        for failure in row["failures"]:
            total["failed"] += 1
            models.setdefault(failure["model_id"], Counter())["failed"] += 1
            failures[reason(failure["error"])] += 1
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


def _kind(decision: Mapping[str, Any], fallback: bool) -> str:
    mode = decision["mode"]
    if mode == "direct_llm":
        return "fallback" if fallback else "direct"
    return "code" if mode == "daytona_agent" else str(mode)


def _key(row: Mapping[str, Any], market: str, time: str) -> tuple[str, str, str, int]:
    return market, time, row["model_id"], row["simulation_index"]


def _shown(found: Counter[str]) -> dict[str, int]:
    names = ("made", *KINDS, "failed")
    marks = ("unshown_evidence_ids", "flagged_evidence_ids", "answer_in_training")
    return {name: found[name] for name in (*names, *marks)}
