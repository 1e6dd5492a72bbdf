"""The audit's score for documents that others confirm only later, on made worlds and real leaks."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from beforehand.clock import parse_instant, parse_us, to_us
from beforehand.gateway.search import SearchIndex
from beforehand.jobs.backtest.aftermath import (
    MEASURED,
    REAL_DOCUMENTS,
    REAL_LEAKS,
    REAL_PAIRS,
    Aftermath,
    Showing,
    threshold,
)
from beforehand.records.bulk import DocumentRow
from beforehand.runs.rows import read_intervals
from beforehand.store.archive.reader import Archive
from experiments import Out, told

DAY = timedelta(days=1)
T = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUESTION = "Will Anna Berg win the mayoral election in Harborville?"
LEAK = "Anna Berg wins the mayoral election in Harborville"


def judge(*others: tuple[str, float]) -> Aftermath:
    """An archive of small news every day, and `others` (title, days after T)."""
    rows = [
        DocumentRow(
            f"x{k}", f"Weather report number {k} for the coast", T + k % 80 * DAY - 20 * DAY
        )
        for k in range(800)
    ]
    rows += [DocumentRow(f"d{k}", title, T + days * DAY) for k, (title, days) in enumerate(others)]
    return Aftermath(SearchIndex(rows, "published"))


def showing(text: str = LEAK) -> Showing:
    return Showing("leak", text, to_us(T), QUESTION, to_us(T + DAY))


LATER = tuple(
    (f"Berg, the winner in Harborville, {what}", 12 + k % 3)
    for k, what in enumerate(("thanks voters", "names a team", "takes office", "meets the council"))
)


def test_what_others_say_only_later_stands_above_what_they_say_then() -> None:
    late, then = judge(*LATER), judge(*((title, days - 12) for title, days in LATER))
    nobody = judge()
    assert late.score(showing()) > nobody.score(showing()) > then.score(showing())
    assert late.features(showing())["later"] > 0 > then.features(showing())["later"]
    plan = showing("Anna Berg could win the mayoral election in Harborville, polls say")
    assert late.score(plan) < late.score(showing())


def test_itself_and_its_copies_are_no_witnesses() -> None:
    alone, copied = judge(), judge((f"{LEAK}!", 0.2), (LEAK, 12))
    assert copied.features(showing())["near"] == pytest.approx(
        alone.features(showing())["near"], abs=0.05
    )
    mine = DocumentRow("leak", LEAK, T + 12 * DAY)
    again = Aftermath(SearchIndex([mine, *judge()._index.rows], "published"))
    assert again.features(showing())["later"] == pytest.approx(
        alone.features(showing())["later"], abs=0.05
    )


@pytest.mark.real_data
@pytest.mark.chaos
def test_real_leaks(data: Path, real: Path, home: Path, capsys: Out) -> None:
    """Recall on real headlines re-dated twelve days early, at the top of what a backtest over the
    real archive showed: the figures of docs/point-in-time.md."""
    command = ["backtest", "run", "--archive", str(real), "--forecasters", "news_tilt"]
    command += ["--every", "7d", "--grade", "published", "--placebo", "0", "--draws", "200"]
    told(capsys, *command, "--run-id", "r")
    archive = Archive(real)
    aftermath = Aftermath(SearchIndex(archive.documents(), "published"))
    texts = {row.id: f"{row.title} {row.text}".strip() for row in aftermath._index.rows}
    leaks = list[float]()
    for line in (data / "leaks" / "labelled.jsonl").read_text().splitlines():
        row = json.loads(line)
        early = parse_instant(row["captured_at"]) - 12 * DAY
        one = Showing(
            row["document"],
            texts[row["document"]],
            to_us(early),
            row["question"],
            to_us(early + 2 * DAY),
        )
        leaks.append(aftermath.score(one))
    shown = dict[tuple[str, str], float]()
    for row in read_intervals(home / "data" / "runs" / "r" / "intervals.jsonl"):
        question = (row.context.market.description or "").split("\n")[0]
        for one in row.context.search_snippets if question else ():
            if (row.market_id, one.id) not in shown:
                seen = Showing(one.id, one.text, parse_us(one.timestamp), question, row.context.t)
                shown[row.market_id, one.id] = aftermath.score(seen)
    assert (len(leaks), len(aftermath._index.rows), len(shown)) == (
        REAL_LEAKS,
        REAL_DOCUMENTS,
        REAL_PAIRS,
    )
    found = {
        name: int((np.array(leaks) > threshold(shown.values(), top)).sum())
        for name, top in (("top 1 %", 0.01), ("top 5 %", 0.05))
    }
    assert found == MEASURED, "docs and reports say"
    assert found["top 1 %"] > 44, "more than both rules at decision time find together"
    listed = told(capsys, "runs", "leaks", "r", "--archive", str(real))["in_hindsight"]
    assert listed["documents"] == REAL_PAIRS
    assert 50 < len(listed["suspects"]) < 60
    scores = [one["score"] for one in listed["suspects"]]
    assert scores == sorted(scores, reverse=True)
