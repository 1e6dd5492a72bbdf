"""Rows in are rows scored and rows listed: the evaluator of the benchmark."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.jobs.benchmark import evaluation, events
from beforehand.store.archive.reader import Archive


@pytest.fixture
def made(sim: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Events in files, and a good prediction of each."""
    events.ingest(Archive(sim), timedelta(days=7)).write(tmp_path)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    return [
        {
            "id": event["id"],
            "prediction": {"probability": 0.4},
            "metadata": {"model": "mine", "timestamp": event["forecast_at"]},
        }
        for event in map(json.loads, lines)
    ]


def evaluate(folder: Path, rows: list[dict[str, Any]]) -> int:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    names = ("events", "resolutions")
    paths = [part for name in names for part in (f"--{name}", str(folder / f"{name}.jsonl"))]
    more = ["--predictions", str(path), "--out", str(folder / "out"), "--draws", "200", "--json"]
    return cli(["bench", "evaluate", *paths, *more, "--placebo", "0"])


def test_each_row_is_scored_or_listed_with_its_line(
    made: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path, made) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["unscored"] == []
    odd = json.loads(json.dumps(made))
    odd[1]["id"] = "SIMEX:nothing"
    odd[2]["metadata"]["timestamp"] = "2030-01-01T00:00:00Z"
    odd[3]["metadata"]["timestamp"] = odd[3]["metadata"]["timestamp"][:17] + "01Z"
    odd.append({**odd[4], "prediction": {"probability": 0.9}})
    odd.append({**odd[5], "metadata": {"model": "mine", "timestamp": "2024-01-01T00:00:00Z"}})
    assert evaluate(tmp_path, odd) == 3
    found = json.loads(capsys.readouterr().out)
    listed = Counter(one["reason"] for one in found["unscored"])
    assert listed == {
        evaluation.UNKNOWN: 1,
        evaluation.TOO_LATE: 1,
        evaluation.AFTER_PRICE: 1,
        evaluation.SECOND: 1,
        evaluation.SUPERSEDED: 1,
    }
    (mine,) = (row for row in found["leaderboard"] if row["forecaster"] == "mine")
    assert mine["n"] + len(found["unscored"]) == len(odd), "nothing vanishes"
    lines = {one["reason"]: one["line"] for one in found["unscored"]}
    assert lines[evaluation.UNKNOWN] == 2
    assert lines[evaluation.SECOND] == len(made) + 1, "the first one counts"
    kept = [json.loads(x) for x in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert kept == found["unscored"]


def test_a_forecast_may_be_brought_up_to_date(
    made: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    early = {**made[0], "metadata": {"model": "mine", "timestamp": "2024-01-01T00:00:00Z"}}
    assert evaluate(tmp_path, [early, *made]) == 0, "listed, and no fault"
    assert [one["line"] for one in json.loads(capsys.readouterr().out)["unscored"]] == [1]


def test_a_file_that_meets_nothing_is_an_error(
    made: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path, [{**row, "id": f"{row['id']}x"} for row in made]) == 2
    assert f"{len(made)} × {evaluation.UNKNOWN}" in capsys.readouterr().err


def test_bets_go_where_they_are_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "bets.json", tmp_path / "scored"
    path.write_text(json.dumps([{"entry_price": 0.5, "won": True}]))
    assert cli(["bench", "evaluate", "--bets", str(path), "--out", str(out)]) == 0
    assert json.loads((out / "scores.json").read_text())["profit"] == 1.0
