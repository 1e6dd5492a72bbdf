"""A run's forecasts as files for other benchmarks: nothing is sent, what is missing is counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.errors import InputError
from beforehand.forecast.files.forecast_file import read_file
from beforehand.records.rows import MetadataLine, PayloadLine, PredictionLine
from beforehand.runs.submissions import forecastbench, metaculus
from experiments import Out, told


def line(market: str, time: str, p: float) -> PredictionLine:
    return PredictionLine(market, PayloadLine(p, [], f"Because {p}."), MetadataLine("m", time))


def question(source: str, native: Any, *dates: str) -> dict[str, Any]:
    return {
        "id": native,
        "source": source,
        "question": "?",
        "resolution_dates": list(dates) or "N/A",
    }


MADE = {
    "POLYMARKET:0xa": [
        line("POLYMARKET:0xa", "2025-10-20T00:00:00Z", 0.2),
        line("POLYMARKET:0xa", "2025-10-26T23:00:00Z", 0.3),
        line("POLYMARKET:0xa", "2025-10-27T00:00:01Z", 0.9),
    ],
    "FRED:DAAA@2025-11-02": [line("FRED:DAAA@2025-11-02", "2025-10-26T00:00:00Z", 0.6)],
    "METACULUS:123": [line("METACULUS:123", "2025-11-01T00:00:00Z", 1.0)],
    "METACULUS:abc": [line("METACULUS:abc", "2025-10-01T00:00:00Z", 0.0)],
}


def test_a_forecast_set(tmp_path: Path) -> None:
    """The last forecast by the end of the due date, a row for each date of a dataset question, none
    for a combination; what was not forecast by then is named."""
    asked = [
        question("polymarket", "0xa"),
        question("fred", "DAAA", "2025-11-02", "2025-11-25"),
        question("metaculus", "123"),
        question("metaculus", ["123", "124"]),
    ]
    path = tmp_path / "set.json"
    path.write_text(json.dumps({
        "forecast_due_date": "2025-10-26", "question_set": "2025-10-26-llm.json", "questions": asked,
    }))  # fmt: skip
    found = forecastbench(MADE, path, "us", "mine")
    assert found.content == {
        "organization": "us", "model": "mine", "model_organization": "us",
        "question_set": "2025-10-26-llm.json", "forecast_due_date": "2025-10-26",
        "forecasts": [
            {"id": "0xa", "source": "polymarket", "forecast": 0.3, "resolution_date": None, "reasoning": "Because 0.3."},
            {"id": "DAAA", "source": "fred", "forecast": 0.6, "resolution_date": "2025-11-02", "reasoning": "Because 0.6."},
        ],
    }  # fmt: skip
    assert found.missing == ("FRED:DAAA@2025-11-25", "METACULUS:123")
    written = tmp_path / "written.json"
    written.write_text(json.dumps(found.content))
    back = read_file(written)
    assert [(one.id, one.probability) for one in back.lines] == [("POLYMARKET:0xa", 0.3)]
    assert back.rejected.count == 1, "the question of a dataset"
    path.write_text('{"forecast_due_date": "2025-10-26"}')
    with pytest.raises(InputError, match="is no question set of ForecastBench"):
        forecastbench(MADE, path, "us", "mine")


def test_our_own_reader_takes_it(data: Path, tmp_path: Path, capsys: Out) -> None:
    """A set for the real questions of a round, written here and scored by the leaderboard's rule:
    every forecast is read."""
    sets = data / "forecastbench"
    questions = sets / "question_sets" / "2025-10-26-llm.json"
    body = json.loads(questions.read_text())
    made = {
        f"{q['source'].upper()}:{q['id']}": [line("x", "2025-10-26T12:00:00Z", 0.4)]
        for q in body["questions"]
        if q["source"] in ("polymarket", "manifold", "metaculus", "infer")
    }
    found = forecastbench(made, questions, "us", "mine")
    out = tmp_path / "mine.json"
    out.write_text(json.dumps(found.content))
    resolutions = next((sets / "resolution_sets").glob("2025-10-26*"))
    scored = told(
        capsys, "bench", "forecastbench", "--questions", str(questions), "--resolutions",
        str(resolutions), "--forecasts", str(out),
    )  # fmt: skip
    assert found.forecasts == len(made)
    assert "mine" in json.dumps(scored)


def test_what_metaculus_takes(tmp_path: Path) -> None:
    found = metaculus(MADE)
    assert found.missing == ("METACULUS:abc",)
    assert found.content == [
        {"question": 123, "source": "api", "probability_yes": 0.999,
         "probability_yes_per_category": None, "continuous_cdf": None},
    ]  # fmt: skip
    ids = tmp_path / "ids.csv"
    ids.write_text("market_id,question\nPOLYMARKET:0xa,77\nMETACULUS:abc,78\n")
    rows = {row["question"]: row["probability_yes"] for row in metaculus(MADE, ids).content}
    assert rows == {77: 0.9, 78: 0.001}
    for text in ("POLYMARKET:0xa,77\nMETACULUS:123,77", "METACULUS:123,7\nMETACULUS:123,8"):
        ids.write_text(f"market_id,question\n{text}\n")
        with pytest.raises(InputError, match="stands there twice"):
            metaculus(MADE, ids)
    for text in ("²", "9" * 5000, "-1", "x"):
        ids.write_text(f"market_id,question\nPOLYMARKET:0xa,{text}\n")
        with pytest.raises(InputError, match="no market of the run"):
            metaculus(MADE, ids)
    with pytest.raises(InputError, match="no market of the run is a question of Metaculus"):
        metaculus({"POLYMARKET:0xa": MADE["POLYMARKET:0xa"]})


def test_from_a_run(sim: Path, home: Path, tmp_path: Path, capsys: Out) -> None:
    told(
        capsys, "backtest", "run", "--archive", str(sim), "--forecasters", "drift,shrunk", "--every", "60d",
        "--draws", "100", "--placebo", "0", "--run-id", "r",
    )  # fmt: skip
    ids, out = tmp_path / "ids.csv", tmp_path / "out.json"
    ids.write_text("market_id,question\nSIMEX:m0003,5\n")
    order = ["runs", "submission", "r", "--to", "metaculus", "--ids", str(ids), "--out", str(out)]
    assert cli(order) == 2
    assert "name a --forecaster: run r has " in capsys.readouterr().err
    assert cli([*order, "--forecaster", "drift"]) == 0
    (row,) = json.loads(out.read_text())
    assert row["question"] == 5
    assert 0.001 <= row["probability_yes"] <= 0.999
    assert cli([*order, "--forecaster", "nobody"]) == 2
    assert "has no forecaster 'nobody'" in capsys.readouterr().err
    other = ["runs", "submission", "r", "--to", "forecastbench", "--out", str(out)]
    assert cli([*other, "--forecaster", "drift"]) == 2
    assert "needs --questions SET" in capsys.readouterr().err
    predictions = home / "data" / "runs" / "r" / "predictions.jsonl"
    predictions.write_text(predictions.read_text().replace("0.", "0.9", 1))
    assert cli([*order, "--forecaster", "drift"]) == 1
    assert "was changed or removed" in capsys.readouterr().err
