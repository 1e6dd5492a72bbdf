"""A run's leak report, from its records alone: what was shown when, what the detector flags, and
how much leaks that it misses could flatter a score."""

from collections import Counter
from typing import Any

from beforehand.clock import from_us
from beforehand.errors import InputError
from beforehand.gateway.search import words
from beforehand.runs.rows import read_intervals, read_jsonl
from beforehand.score.leaks import Case, LeakReport, doses, recheck, wire
from beforehand.store.files import read_json
from beforehand.store.run_folder import RunFolder

COVERED = ("contexts", "with_text", "with_document", "with_relevant")
RELEVANT = 3


def leak_report(folder: RunFolder, seed: int = 0) -> dict[str, Any]:
    """The counts with their denominators, the forecasts with something to look at, the scores with
    and without flagged decisions, and the dose-response over the run's own contexts."""
    kind, rows = folder.facts().get("kind"), folder.path / "intervals.jsonl"
    if kind != "backtest" or not rows.is_file():
        raise InputError(
            f"run {folder.run_id} is {f'a {kind}' if kind else 'unfinished'}: leak reports are of "
            "finished backtests"
        )
    report = LeakReport()
    forecasts = recheck(report, read_intervals(rows))
    kept = read_json(folder.path / "scores.json")
    report.documents = kept["leaks"]["documents"]
    report.canaries_planted = kept["leaks"]["canaries_planted"]
    report.canaries_seen = kept["leaks"]["canaries_seen"]
    covered = coverage(folder)
    suspicious = [row for row in forecasts if row["flags"] or row["after_t"]]
    return {
        "run_id": folder.run_id,
        **report.wire(),
        "forecasts_with_documents": len(forecasts),
        "forecasts_flagged": sum(bool(row["flags"]) for row in forecasts),
        "suspicious": suspicious,
        "coverage": covered,
        "coverage_total": {kind: sum(row[kind] for row in covered) for kind in COVERED},
        "without_flagged": kept.get("without_flagged"),
        "dose_response": wire(doses(_cases(folder), seed)),
    }


def coverage(folder: RunFolder) -> list[dict[str, Any]]:
    """For each market: its contexts, those whose question had a text, those that were shown any
    document, and those that were shown a relevant one (three content words shared with the
    question, or all of a shorter one's)."""
    found: dict[str, Counter[str]] = {}
    for row in read_intervals(folder.path / "intervals.jsonl"):
        text, mine = row.context.market.description, found.setdefault(row.market_id, Counter())
        asked = set(words((text or "").split("\n")[0]))
        shown = [set(words(s.text)) for s in row.context.search_snippets]
        mine["contexts"] += 1
        mine["with_text"] += text is not None
        mine["with_document"] += bool(shown)
        mine["with_relevant"] += any(len(asked & w) >= min(RELEVANT, len(asked)) for w in shown)
    return [
        {"market_id": name, **{kind: counts[kind] for kind in COVERED}}
        for name, counts in sorted(found.items())
    ]


def _cases(folder: RunFolder) -> list[Case]:
    """The run's contexts on settled questions, with the price and the outcome."""
    outcomes = {
        row["id"]: float(row.get("payout", row["outcome"]))
        for row in read_jsonl(folder.path / "resolutions.jsonl")
    }
    return [
        Case(from_us(row.context.t), odds, outcomes[name])
        for row in read_intervals(folder.path / "intervals.jsonl")
        if (name := row.market_id) in outcomes and (odds := row.context.odds) is not None
    ]
