"""Small print of the documents, each sentence with the call that holds it."""

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from beforehand.cli.app import run as cli
from beforehand.errors import InputError
from beforehand.jobs.benchmark.events import BenchmarkEvent
from beforehand.records.backtest import DecisionResult
from beforehand.records.benchmark import EventSpec, PredictionMetadata, ResolutionRecord, zoned
from beforehand.records.rows import DecisionRow, MarketSeen
from beforehand.runs.rows import EventLine, ResolutionLine
from beforehand.serve.http import places
from beforehand.sources import google_news
from beforehand.tools.bounds import thin

Out = pytest.CaptureFixture[str]


LINES = {
    "events": '{"id": "e", "question": "Q?", "resolution_date": "2025-02-08", "forecast_horizon_days": 7, "baseline_probability": 0.5}',
    "predictions": '{"id": "e", "prediction": {"probability": 0.4}, "metadata": {"model": "m", "timestamp": "2025-02-01T00:00:00"}}',
    "resolutions": '{"id": "e", "outcome": 1, "resolved_at": "2025-02-08"}',
}  # fmt: skip


def test_times_without_a_zone(tmp_path: Path, capsys: Out) -> None:
    """A bare date is the day itself for a resolution_date, else its end; a naive time is refused
    with its line and the remedy, or is UTC where that is said."""
    command = ["bench", "evaluate", "--json"]
    for name, line in LINES.items():
        (tmp_path / f"{name}.jsonl").write_text(line + "\n")
        command += [f"--{name}", str(tmp_path / f"{name}.jsonl")]
    assert cli(command) == 2
    said = capsys.readouterr().err
    assert "predictions.jsonl:1: timestamp: '2025-02-01T00:00:00' has no time zone" in said
    assert "--assume-utc" in said
    assert cli([*command, "--assume-utc"]) == 0
    capsys.readouterr()
    assert zoned(LINES["events"].encode()).count(b'"2025-02-08T00:00:00Z"') == 1
    assert b"2025-02-08T23:59:59.999999Z" in zoned(LINES["resolutions"].encode())
    quoted = rb'{"snippet": "\"timestamp\": \"2025-02-01T00:00:00\""}'
    assert zoned(quoted) == quoted
    zone = b'{"timestamp": "2025-02-01T00:00:00+02:00"}'
    assert zoned(zone) == zone


def test_a_decision_does_not_contradict_its_probability() -> None:
    said = {
        "model_id": "m",
        "simulation_index": 0,
        "mode": "direct_llm",
        "confidence": 0.5,
        "rationale": "",
        "created_at": "2025-01-01T00:00:00Z",
    }
    assert DecisionResult.model_validate({**said, "decision": "YES", "probability": 0.6})
    assert DecisionResult.model_validate({**said, "decision": "NO", "probability": 0.5})
    for decision, p in (("YES", 0.4), ("NO", 0.6)):
        with pytest.raises(ValidationError, match="contradicts"):
            DecisionResult.model_validate({**said, "decision": decision, "probability": p})


def test_null_tags_are_none() -> None:
    assert EventSpec.model_validate({"id": "a", "question": "?", "tags": None}).tags == []


def test_a_series_has_as_many_points_as_were_asked_for() -> None:
    rows = [{"p": i % 7} for i in range(50)]
    for keep in (1, 2, 3, 4, 5, 20):
        kept = thin(rows, keep, (("p",), ("p",)))
        assert len(kept) <= keep
        assert kept[-1] is rows[-1]
        assert keep == 1 or kept[0] is rows[0]


def test_a_feed_by_its_query_key() -> None:
    feed = google_news.build('fed  "rate cut"  -crypto when:7d', edition="gb")
    assert google_news.of_key(feed.query_key) == feed
    assert google_news.build(feed.q, edition="GB").query_key == feed.query_key
    with pytest.raises(InputError, match="none that build_search_feed gave"):
        google_news.of_key("0123456789abcdef")


def test_the_documented_name_of_the_polymarket_server_answers_over_http() -> None:
    known = {place.path: place.name for place in places("all")}
    assert known["/polymarket-read/mcp"] == known["/polymarket/mcp"] == "polymarket"
    assert "/polymarket-read/mcp" in {place.path for place in places("polymarket")}
    assert "/polymarket-read/mcp" not in {place.path for place in places("kalshi")}


def test_history_rows_have_the_documented_keys(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    asked = ["--archive", str(sim), "--json"]
    assert cli(["tool", "search_polymarket_markets", "--arg", "query=index", *asked]) == 0
    capsys.readouterr()
    assert cli(["tool", "get_polymarket_history", *asked]) == 0
    (row,) = json.loads(capsys.readouterr().out)["history"]
    day = row["timestamp"][:10]
    for first, last, n in ((day, day, 1), ("2001-01-01", "2001-01-02", 0)):
        ranged = ["--arg", f"start_date={first}", "--arg", f"end_date={last}"]
        assert cli(["tool", "get_polymarket_history", *asked, *ranged]) == 0
        said = json.loads(capsys.readouterr().out)
        assert len(said["history"]) == n, "both days are in it"
        assert said["metadata"]["filters"]["end_date"] == last
    assert list(row) == [
        "id",
        "session_id",
        "user_query",
        "timestamp",
        "results",
        "platform",
        "market_ids",
        "avg_probability",
        "total_volume",
        "result_count",
        "created_at",
    ]


def test_a_search_that_found_nothing_says_so(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    asked = ["tool", "search_markets", "--archive", str(sim), "--json", "--arg"]
    assert cli([*asked, "query=zzz qqq"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "nothing fits 'zzz qqq'" in json.dumps(answer["_meta"], ensure_ascii=False)
    assert cli([*asked, "query=index"]) == 0
    assert "nothing fits" not in capsys.readouterr().out


DOCUMENTED = {
    "EventSpec": "id question domain resolution_date source ground_truth_source tags "
    "forecast_horizon_days baseline_probability",
    "ResolutionRecord": "id outcome verified_value verified_source resolved_at",
    "PredictionMetadata": "model timestamp version predictor_id",
    "IntervalContext: market": "id description odds",
    "DecisionResult": "model_id simulation_index mode decision confidence probability rationale "
    "key_evidence_ids created_at",
}


def test_our_keys_in_documented_records_are_listed() -> None:
    """docs/records.md names each key that our records have beyond the documents'."""
    made: dict[str, set[str]] = {
        "EventSpec": set(BenchmarkEvent.__annotations__) | set(EventLine.__annotations__),
        "ResolutionRecord": set(ResolutionLine.__annotations__) | {*ResolutionRecord.model_fields},
        "PredictionMetadata": set(PredictionMetadata.model_fields),
        "IntervalContext: market": set(MarketSeen.__struct_fields__),
        "DecisionResult": set(DecisionRow.__struct_fields__),
    }
    text = (Path(__file__).parent.parent / "docs" / "records.md").read_text()
    for name, keys in made.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        listed = set(re.findall(r"`([a-z_]+)`", row)) - {"mode", "baseline", "external"}
        assert listed == keys - set(DOCUMENTED[name].split()), name
