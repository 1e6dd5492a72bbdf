"""A run's leak report, from its records alone: what was shown when, what the detector flags, and
how much the leaks that it misses could improve a score."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from beforehand.clock import from_us
from beforehand.errors import InputError
from beforehand.gateway.search import words
from beforehand.records.cutoff import visible_us
from beforehand.records.rows import IntervalRow
from beforehand.runs.interval_columns import PREVIOUS, IntervalColumns
from beforehand.runs.rows import columns_at, has_intervals, read_intervals, read_jsonl
from beforehand.score.leaks.doses import Case, DoseWire, doses, wire
from beforehand.score.leaks.report import (
    Also,
    ForecastLeaks,
    LeakReport,
    LeaksWire,
    on_record,
    recheck,
)
from beforehand.score.summary import Few
from beforehand.store.files import read_json
from beforehand.store.run_folder import RunFolder

RELEVANT = 3


def recheck_run(
    report: LeakReport,
    rows: Iterable[IntervalRow] | IntervalColumns,
    planted: Mapping[str, datetime] | None = None,
    also: Also | None = None,
) -> list[ForecastLeaks]:
    """`recheck` of a run's rows or columns. The times of columns are compared in bulk, and only
    rows with a time after t, a document or a citation are read one by one."""
    if not isinstance(rows, IntervalColumns):
        return recheck(report, rows, planted, also)
    pure = [k for k, one in enumerate(rows.who) if not one["asked"]]
    text_known_at, alone = np.append(rows.text_known_at, -1), list[npt.NDArray[np.intp]]()
    for part in rows.parts():
        try:
            late, n = _late(rows, part, text_known_at)
        except IndexError as error:
            raise InputError(f"{rows.folder} is damaged: {error}") from None
        if rows.asked:
            late |= (rows.shown()[part] > 0) | (rows.column("cited")[part] > 0)
        alone.append(part.start + np.flatnonzero(late))
        report.rechecked += int(n[~late].sum())
        said = rows.forecasts[:, part]
        report.decisions += sum(int(np.isfinite(said[k][~late]).sum()) for k in pure)
        report.decisions += int(rows.column("said")[part][~late].sum()) if rows.asked else 0
    places = np.concatenate([np.zeros(0, dtype=np.int64), *alone])
    return recheck(report, rows.rows(places), planted, also)


def _late(
    rows: IntervalColumns, part: slice, text_known_at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int8]]:
    """Which rows of a part show anything from after their t, and how many times each has;
    `text_known_at` ends with -1, for a row without a text."""
    every_t, before = rows.column("t"), rows.column("before")
    t, text, known_at = every_t[part], rows.column("text")[part], rows.column("known_at")[part]
    late = ~visible_us(known_at, t) & (known_at >= 0)
    late |= ~visible_us(text_known_at[text], t) & (text >= 0)
    n = (known_at >= 0).astype(np.int8) + (text >= 0)
    earlier = before[part]
    for _ in range(PREVIOUS):
        there = earlier >= 0
        n += there
        late |= there & ~visible_us(every_t[earlier], t)
        earlier = np.where(there, before[earlier], -1)
    return late, n


class Coverage(TypedDict):
    """Contexts: all, with a text of the question, with any document, with a relevant one."""

    contexts: int
    with_text: int
    with_document: int
    with_relevant: int


class MarketCoverage(Coverage):
    """The coverage of one market."""

    market_id: str


class RunLeaks(LeaksWire):
    """A run's leak report as JSON."""

    run_id: str
    forecasts_with_documents: int
    forecasts_flagged: int
    suspicious: list[ForecastLeaks]
    coverage: list[MarketCoverage]
    coverage_total: Coverage
    without_flagged: dict[str, dict[str, Few]] | None
    dose_response: list[DoseWire]


def leak_report(folder: RunFolder, seed: int = 0) -> RunLeaks:
    """The counts with their denominators, the suspicious forecasts, the scores with and without
    flagged decisions, and the dose-response over the run's own contexts."""
    kind, rows = folder.facts().get("kind"), folder.path / "intervals.jsonl"
    if kind != "backtest" or not has_intervals(rows):
        raise InputError(
            f"run {folder.run_id} is {f'a {kind}' if kind else 'unfinished'}: only "
            "finished backtests have a leak report"
        )
    report = LeakReport()
    stored = folder.path / "leaks.jsonl"
    also = on_record(read_jsonl(stored)) if stored.is_file() else None
    forecasts = recheck_run(report, columns_at(rows) or read_intervals(rows), also=also)
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
        "coverage_total": _total(covered),
        "without_flagged": kept.get("without_flagged"),
        "dose_response": wire(doses(_cases(folder), seed)),
    }


def coverage(folder: RunFolder) -> list[MarketCoverage]:
    """For each market: its contexts, those with a question text, those with any document, and those
    with a relevant document. A relevant document shares three content words with the question, or
    all of them if the question has fewer."""
    found: dict[str, Counter[str]] = {}
    for row in read_intervals(folder.path / "intervals.jsonl"):
        text, mine = row.context.market.description, found.setdefault(row.market_id, Counter())
        asked = set(words((text or "").split("\n")[0]))
        shown = [set(words(s.text)) for s in row.context.search_snippets]
        mine["contexts"] += 1
        mine["with_text"] += text is not None
        mine["with_document"] += bool(shown)
        mine["with_relevant"] += any(len(asked & w) >= min(RELEVANT, len(asked)) for w in shown)
    return [{"market_id": name, **_coverage(counts)} for name, counts in sorted(found.items())]


def _coverage(counts: Counter[str]) -> Coverage:
    return {
        "contexts": counts["contexts"],
        "with_text": counts["with_text"],
        "with_document": counts["with_document"],
        "with_relevant": counts["with_relevant"],
    }


def _total(covered: Sequence[MarketCoverage]) -> Coverage:
    return {
        "contexts": sum(row["contexts"] for row in covered),
        "with_text": sum(row["with_text"] for row in covered),
        "with_document": sum(row["with_document"] for row in covered),
        "with_relevant": sum(row["with_relevant"] for row in covered),
    }


def _cases(folder: RunFolder) -> list[Case]:
    """The run's contexts on settled questions, with the price and the outcome."""
    outcomes = {
        row["id"]: float(row.get("payout", row["outcome"]))
        for row in read_jsonl(folder.path / "resolutions.jsonl")
    }
    return [
        Case(from_us(row.context.t), odds, outcomes[name], name)
        for row in read_intervals(folder.path / "intervals.jsonl")
        if (name := row.market_id) in outcomes and (odds := row.context.odds) is not None
    ]
