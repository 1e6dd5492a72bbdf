"""The detector's rule for results that nobody else reports, on made worlds and on real leaks."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from beforehand.clock import iso, parse_instant
from beforehand.gateway.search import SearchIndex
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.unwitnessed import Unwitnessed
from beforehand.records.bulk import DocumentRow
from beforehand.records.rows import Context, MarketSeen, Snippet
from beforehand.runs.rows import read_intervals
from beforehand.score.leaks.detector import UNWITNESSED, flags
from beforehand.score.leaks.report import MEASURED, REAL_LEAKS, REAL_SHOWINGS, on_record
from beforehand.store.archive.reader import Archive
from experiments import Out, told

T = datetime(2026, 1, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)
QUESTION = "Will Anna Berg win the mayoral election in Harborville?"
LEAK = "Anna Berg wins the mayoral election in Harborville"


def rule(*others: tuple[str, timedelta]) -> Unwitnessed:
    rows = [
        DocumentRow(f"d{k}", title, T + after, text_known_at=T + after)
        for k, (title, after) in enumerate(others)
    ]
    return Unwitnessed(lambda: SearchIndex(rows, "captured"))


def shown(text: str, question: str | None = QUESTION, t: datetime = T) -> tuple[Context, Snippet]:
    snippet = Snippet("leak", text, iso(T - timedelta(hours=6)))
    return Context(iso(t), MarketSeen("X:1", question), [snippet]), snippet


def test_a_result_that_nobody_else_reports_is_flagged() -> None:
    flag = rule(("Weather turns cold in Harborville", -DAY))(*shown(LEAK))
    assert flag is not None
    assert (flag.kind, flag.text) == (UNWITNESSED, "wins")


@pytest.mark.parametrize(
    ("others", "text", "question"),
    [
        ((("Harborville mayoral election: Anna Berg wins by a wide margin", -DAY / 8),), LEAK, QUESTION),
        ((), "Anna Berg leads in polls for mayor of Harborville", QUESTION),
        ((), "A tennis player wins in Melbourne", QUESTION),
        ((), LEAK, None),
    ],
)  # fmt: skip
def test_what_is_witnessed_no_result_or_about_something_else_is_not(
    others: tuple[tuple[str, timedelta], ...], text: str, question: str | None
) -> None:
    assert rule(*others)(*shown(text, question)) is None


def test_a_copy_is_no_witness_and_neither_is_what_comes_after_t() -> None:
    assert rule((f"{LEAK}!", -DAY / 8))(*shown(LEAK)) is not None
    later = ("Harborville mayoral election: Anna Berg wins by a wide margin", DAY)
    assert rule(later)(*shown(LEAK)) is not None, "known a day after t"
    assert rule(later)(*shown(LEAK, t=T + 2 * DAY)) is None, "at a later t it is known"


def test_findings_on_record_are_taken_as_they_stand() -> None:
    context, snippet = shown(LEAK)
    flag = {"document": "leak", "kind": UNWITNESSED, "text": "wins"}
    kept = on_record([{"market_id": "X:1", "time": context.time, "flags": [flag]}])
    assert kept(context, snippet) is not None
    assert kept(context, Snippet("other", LEAK, snippet.timestamp)) is None


@dataclass(frozen=True)
class Pair:
    """A real leak: a headline that states a market's outcome, re-dated before it happened."""

    event: str
    question: str
    document: str
    captured: datetime


@pytest.mark.chaos
@pytest.mark.real_data
def test_real_leaks(data: Path, real: Path, home: Path, capsys: Out) -> None:
    """Recall on real headlines re-dated twelve days early, and false alarms on what a backtest
    over the real archive was shown: the figures of docs/point-in-time.md."""
    lines = (data / "leaks" / "labelled.jsonl").read_text().splitlines()
    pairs = [
        Pair(r["event_group"], r["question"], r["document"], parse_instant(r["captured_at"]))
        for r in map(json.loads, lines)
    ]
    world = RecordedWorld(Archive(real), "published")
    texts = {row.id: f"{row.title} {row.text}".strip() for row in world.index.rows}
    unwitnessed = Unwitnessed(lambda: world.index)
    found = Counter[str]()
    for pair in pairs:
        early = pair.captured - 12 * DAY
        text = texts[pair.document]
        snippet = Snippet(pair.document, text, iso(early))
        context = Context(iso(early + DAY), MarketSeen("m", pair.question), [snippet])
        dated = bool(flags(text, early + DAY))
        alone = unwitnessed(context, snippet) is not None
        found.update({"text alone": dated, "unwitnessed": alone, "either": dated or alone})
    command = ["backtest", "run", "--archive", str(real), "--forecasters", "news_tilt"]
    told(
        capsys, *command, "--every", "7d", "--grade", "published", "--placebo", "0", "--run-id", "r"
    )
    false, showings = Counter[str](), 0
    for row in read_intervals(home / "data" / "runs" / "r" / "intervals.jsonl"):
        for snippet in row.context.search_snippets:
            showings += 1
            dated = bool(flags(snippet.text, parse_instant(row.time)))
            alone = unwitnessed(row.context, snippet) is not None
            false.update({"text alone": dated, "unwitnessed": alone, "either": dated or alone})
    assert found["unwitnessed"] / len(pairs) > 0.3
    assert false["unwitnessed"] / showings < 0.02
    assert found["either"] > max(found["text alone"], found["unwitnessed"])
    assert told(capsys, "runs", "verify", "r")["sound"], "findings on record are taken as they are"
    assert (len(pairs), showings) == (REAL_LEAKS, REAL_SHOWINGS)
    assert {name: (n, false[name]) for name, n in found.items()} == MEASURED, "docs and reports say"
