"""Questions of other benchmarks and of EDGAR as events: what each reader takes, and what it leaves."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import end_of_day
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs.benchmark.events import load_events
from beforehand.records.world import Observation
from beforehand.sources.base import fetch_mark
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from experiments import Out, told

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def made(capsys: Out, out: Path, *order: str) -> list[dict[str, Any]]:
    found = told(capsys, "bench", "questions", *order, "--out", str(out))
    events = (out / "events.jsonl").read_bytes()
    assert found["round"]["digest"] == digest(events)
    assert found["round"]["events"] == len(load_events(out / "events.jsonl"))
    return lines(out / "events.jsonl")


def test_a_real_question_set(data: Path, tmp_path: Path, capsys: Out) -> None:
    """Every market question, and every date of every dataset question; the market's value at the
    freeze is the baseline, and its age is kept."""
    path = data / "forecastbench" / "question_sets" / "2025-10-26-llm.json"
    asked = json.loads(path.read_text())["questions"]
    events = made(capsys, tmp_path / "q", "forecastbench", str(path))
    markets = [q for q in asked if q["source"] in ("polymarket", "manifold", "metaculus", "infer")]
    dated = [d for q in asked if q not in markets for d in q["resolution_dates"]]
    assert len(events) == len(markets) + len(dated)
    by = {event["id"]: event for event in events}
    one = next(q for q in markets if q["source"] == "polymarket")
    event = by[f"POLYMARKET:{one['id']}"]
    assert event["baseline_probability"] == float(one["freeze_datetime_value"])
    assert event["forecast_at"].startswith("2025-10-26T23:59:59")
    assert event["licence"] == "CC-BY-SA-4.0"
    assert not any(
        "{resolution_date}" in e["question"] or "{forecast" in e["question"] for e in events
    )
    ages = {row["id"]: row["price_age"] for row in lines(tmp_path / "q" / "events_snapshots.jsonl")}
    assert 9 < ages[event["id"]] / 86400 < 12


def test_metaculus_needs_its_permission(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps([
        {"question_id": 7, "question_text": "Rain?", "page_url": "https://m/7", "close_time": "2026-12-01T00:00:00Z"},
        {"question_id": 8, "question_text": "How much?", "question_type": "numeric"},
        {"question_id": 0, "question_text": "The end?"},
        {"question_id": 7, "question_text": "Rain again?"},
        "x",
    ]))  # fmt: skip
    order = ["bench", "questions", "metaculus", str(path), "--out", str(tmp_path / "q")]
    assert cli(order) == 2
    assert "allows no evaluation of models on its questions" in capsys.readouterr().err
    assert not (tmp_path / "q").exists()
    (event,) = made(capsys, tmp_path / "q", "metaculus", str(path), "--with-permission")
    assert event["id"] == "METACULUS:7"
    assert event["licence"].startswith("Metaculus: no evaluation of models without")
    reasons = sorted(row["reason"] for row in lines(tmp_path / "q" / "left_out.jsonl"))
    assert reasons == ["a numeric question: only binary ones are events", "listed twice", "no id or no text", "no object"]  # fmt: skip


@pytest.mark.parametrize("form", ["list", "lines"])
def test_prophet_events(form: str, tmp_path: Path, capsys: Out) -> None:
    rows = [
        {"event_ticker": "KXRAIN", "market_ticker": "KXRAIN-1", "title": "Rain in March?", "subtitle": "Above 5",
         "category": "Weather", "close_time": "2026-03-31T00:00:00Z", "rules": "…"},
        {"event_ticker": "KXRAIN", "title": "No market"},
    ]  # fmt: skip
    path = tmp_path / "p.jsonl"
    text = json.dumps(rows) if form == "list" else "\n".join(map(json.dumps, rows))
    path.write_text(text)
    (event,) = made(capsys, tmp_path / "q", "prophet", str(path))
    assert (event["id"], event["question"]) == ("KALSHI:KXRAIN-1", "Rain in March? — Above 5")
    assert (event["domain"], event["event_id"]) == ("Weather", "KXRAIN")


def filings(path: Path, growth: float = 1.1, quarters: int = 12) -> date:
    """A company that files each quarter five weeks after its end; the day of the last one."""
    rows: list[Observation] = []
    ends = [
        date(2023 + i // 4, (3, 6, 9, 12)[i % 4], (31, 30, 30, 31)[i % 4]) for i in range(quarters)
    ]
    for i, end in enumerate(ends):
        filed = end_of_day(datetime.combine(end, datetime.min.time(), UTC) + timedelta(days=35))
        spans = {"Revenues": (end - timedelta(days=90)).isoformat(), "Assets": None}
        spans["Year"] = (end - timedelta(days=364)).isoformat()
        for concept, start in spans.items():
            values = {"concept": f"us-gaap:{concept}", "unit": "USD", "value": 100 * growth ** (i / 4),
                      "start": start, "end": end.isoformat(), "accession": f"a-{i}", "filed": "x"}  # fmt: skip
            rows.append(
                Observation(source="edgar", kind="fact", subject="0000000320", id=f"{concept}/{i}", data=values, known_at=filed)
            )  # fmt: skip
    first = fetch_mark("edgar", "fact", "0000000320", 0, datetime(2023, 1, 1, tzinfo=UTC))
    ArchiveWriter(path).add(
        [first, *rows], importer="t", source="t", source_digest="t", recorded_at=NOW
    )
    return ends[-1]


def test_a_question_from_edgar_is_resolved_by_edgar(
    tmp_path: Path, home: Path, capsys: Out
) -> None:
    """As of a day in the past: it asks for the next quarter, knows nothing of it, and the filing
    that came later settles it."""
    filings(tmp_path / "a")
    order = ["edgar", "--cik", "320", "--archive", str(tmp_path / "a"), "--as-of"]
    events = made(capsys, tmp_path / "q", *order, "2025-02-20")
    assert [e["resolves_by"]["concept"] for e in events] == ["us-gaap:Assets", "us-gaap:Revenues"]
    for event in events:
        assert event["resolves_by"]["period"] == "2025-03-31"
        assert event["resolves_by"]["above"] == pytest.approx(100 * 1.1)
        assert event["resolution_date"] > event["forecast_at"]
    view = Gateway(RecordedWorld(Archive(tmp_path / "a"))).at(datetime(2025, 2, 20, tzinfo=UTC))
    known = {
        r.data["end"] for r in view.observations("edgar", "fact", "0000000320") if not r.snapshot
    }
    assert "2025-03-31" not in known, "nobody knew it then"
    left = {row["id"]: row["reason"] for row in lines(tmp_path / "q" / "left_out.jsonl")}
    assert left == {}
    told(capsys, "bench", "resolve", "--events", str(tmp_path / "q" / "events.jsonl"), "--out",
         str(tmp_path / "r.jsonl"), "--archive", str(tmp_path / "a"))  # fmt: skip
    for row in lines(tmp_path / "r.jsonl"):
        assert row["outcome"] == 1
        assert row["verified_value"] == pytest.approx(100 * 1.1**2)
        assert row["verified_source"] == "edgar:0000000320/a-8"
    few = made(capsys, tmp_path / "few", *order, "2025-02-20", "--concept", "Revenues")
    assert [e["resolves_by"]["concept"] for e in few] == ["us-gaap:Revenues"]
    for wrong, why in (
        (["edgar", "--cik", "x"], "a CIK is a number"),
        (["edgar"], "needs --cik"),
        (["edgar", "--cik", "999"], "no filing on record"),
        (["edgar", "--cik", "320", "--as-of", "2023-09-01"], "fewer than 5 quarterly values"),
        (["edgar", "--cik", "320", "--as-of", "2026-12-01"], "overdue"),
        (["prophet"], "prophet needs a file"),
    ):
        assert cli(["bench", "questions", *wrong, "--archive", str(tmp_path / "a"), "--out", str(tmp_path / "no")]) == 2  # fmt: skip
        assert why in capsys.readouterr().err, wrong


@pytest.mark.parametrize("kind", ["forecastbench", "metaculus", "prophet"])
@pytest.mark.parametrize("text", ["", "{}", "[]", "7", "null", "not json", '{"questions": 5}', '[{"question_id": {}}]', '[[[]]]'])  # fmt: skip
def test_files_that_are_none(kind: str, text: str, tmp_path: Path, capsys: Out) -> None:
    """One sentence and exit code 2."""
    path = tmp_path / "file.json"
    path.write_text(text)
    order = [
        "bench",
        "questions",
        kind,
        str(path),
        "--out",
        str(tmp_path / "q"),
        "--with-permission",
    ]
    assert cli(order) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "Traceback" not in said
