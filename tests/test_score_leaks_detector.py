"""The leak detector, the dose-response, and scores with and without flagged decisions."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.clock import iso
from beforehand.records.world import Document
from beforehand.score.leaks.detector import flags
from beforehand.score.leaks.doses import DOSES, GRADES, Case, doses
from beforehand.store.archive.writer import ArchiveWriter
from experiments import Out, config, intervals, told

T = datetime(2026, 1, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The vote was held on 2026-02-03.", "date after t"),
        ("Results were read on February 3, 2026.", "date after t"),
        ("It ended on 3rd Feb. 2026", "date after t"),
        ("She won the seat in 2027.", "year after t"),
        ("Correction: the strike is over", "update marker"),
        ("This article was updated after the vote", "update marker"),
        ("The final score was 3 to 1", "outcome word"),
        ("In hindsight the odds were wrong", "outcome word"),
        ("the market resolved YES", "outcome word"),
    ],
)
def test_what_speaks_of_later_is_flagged(text: str, kind: str) -> None:
    assert [flag.kind for flag in flags(text, T)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "The vote was held on 2026-01-03.",
        "The vote is due on February 3, 2026.",
        "Parliament will vote by 2026-02-03",
        "A deadline of 3 February 2026 was set",
        "Elections are scheduled for March 1, 2026",
        "Spending plans in 2027",
        "He leads in the polls",
        "Live updates: the vote in parliament",
        "Update: polls open",
        "99-99-9999 and 2026-13-45 are no dates",
        "",
    ],
)
def test_what_was_known_is_not(text: str) -> None:
    assert flags(text, T) == []


def test_a_date_is_late_only_after_t() -> None:
    text = "The vote was held on 2026-01-20."
    assert flags(text, T)
    assert not flags(text, T + timedelta(days=20))


def test_dose_response() -> None:
    assert doses([]) == []
    cases = [Case(T + timedelta(days=i), 0.3 + 0.004 * i, float(i % 2)) for i in range(100)]
    table = doses(cases)
    assert len(table) == len(GRADES) * len(DOSES)
    assert table == doses(cases), "the seed decides"
    by = {(row.grade, row.share): row for row in table}
    for grade in GRADES:
        none, full = by[grade, 0.0], by[grade, 1.0]
        assert (none.injected, none.found, none.flattery) == (0, 0, 0.0), "no dose, no effect"
        assert none.brier == none.brier_kept == none.brier_clean
        assert full.injected == 100
        assert full.brier < 0.02, "who believes a leak is nearly always right"
    assert by["stated, dated", 1.0].found == 100
    assert by["hinted", 1.0].found == 0, "a hint is out of its reach: the control"
    assert by["hinted", 0.5].flattery == pytest.approx(
        by["hinted", 0.5].brier_clean - by["hinted", 0.5].brier
    )
    grades = [by[grade, 1.0].found for grade in GRADES]
    assert grades == sorted(grades, reverse=True)


def test_the_report_of_a_run(sim: Path, home: Path, capsys: Out) -> None:
    names = ("--forecasters", "market,news_tilt", "--archive", str(sim), "--run-id", "r")
    told(capsys, "backtest", "run", *names, "--placebo", "0", "--every", "14d")
    found = told(capsys, "runs", "leaks", "latest")
    assert told(capsys, "runs", "leaks", "r") == found == told(capsys, "runs", "leaks")
    rows = intervals(home, "r")
    assert found["coverage_total"]["contexts"] == len(rows)
    with_documents = sum(bool(row["context"]["search_snippets"]) for row in rows)
    assert found["coverage_total"]["with_document"] == with_documents
    assert found["forecasts_with_documents"] == with_documents
    assert 0 < found["coverage_total"]["with_relevant"] <= with_documents
    assert found["admitted_after_t"] == 0
    assert "seen before their time" in found["canaries"]
    assert len(found["dose_response"]) == 24


def test_a_flagged_document_taints_who_cites_it(
    sim: Path, market: dict[str, Any], home: Path, capsys: Out, tmp_path: Path
) -> None:
    """A document that says how it ended, though it is known before t: the decision that cites it is
    marked, and the score without it stands beside the score with it."""
    import shutil

    world = tmp_path / "archive"
    shutil.copytree(sim, world)
    question = market["question"]
    known = market["first"] - timedelta(hours=1)
    leak = Document(
        id="leaked",
        title=f"{question} Reported on December 1, 2031: final result, yes",
        text="",
        source="test",
        known_at=known,
        text_known_at=known,
    )
    ArchiveWriter(world).add(
        [leak], importer="test", source="leak", source_digest="leak", recorded_at=T
    )
    path = config(
        home / "c.json",
        market,
        models=["baseline:market", "baseline:news_tilt"],
        mode="baseline",
        search_config={"max_results": 5},
    )
    found = told(capsys, "backtest", "run", str(path), "--archive", str(world), "--run-id", "r")
    tainted = [
        d for row in intervals(home, "r") for d in row["decisions"] if "flagged_evidence_ids" in d
    ]
    assert len(tainted) == 6
    assert all(d["flagged_evidence_ids"] == ["leaked"] for d in tainted)
    assert found["leaks"]["decisions_flagged"] == 6
    assert found["decisions"]["flagged_evidence_ids"] == 6
    both = found["without_flagged"]
    assert both["all"]["news_tilt"]["n"] == 6
    assert "news_tilt" not in both["kept"]
    assert both["kept"]["market"] == both["all"]["market"]
    report = told(capsys, "runs", "leaks", "r")
    assert len(report["suspicious"]) == 6
    assert report["suspicious"][0]["flagged_decisions"] == ["baseline:news_tilt"]
    assert told(capsys, "runs", "verify", "r")["sound"]
    assert iso(known) < intervals(home, "r")[0]["time"]


def test_the_baseline_of_the_doses_is_that_of_the_leaderboard(
    sim: Path, home: Path, capsys: Out
) -> None:
    """Questions count alike, however many contexts each has."""
    command = ["backtest", "run", "--forecasters", "market", "--archive", str(sim)]
    scores = told(capsys, *command, "--placebo", "0", "--every", "14d", "--run-id", "r")
    clean = {row["brier_clean"] for row in told(capsys, "runs", "leaks", "r")["dose_response"]}
    assert len(clean) == 1
    assert clean.pop() == pytest.approx(scores["leaderboard"][0]["brier"])
    alike = [Case(T, 0.5, 1.0, "a")] * 9 + [Case(T, 0.9, 1.0, "b")]
    assert doses(alike)[0].brier_clean == pytest.approx((0.25 + 0.01) / 2)
