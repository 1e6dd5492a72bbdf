"""Other benchmarks' files by command: figures that they state, computed again."""

import json
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from experiments import Out


def answer(capsys: Out, *command: str) -> Any:
    assert cli([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_kalshibench(data: Path, capsys: Out) -> None:
    """Every bin of the real files agrees under KalshiBench's rule, and not under ours."""
    files = [str(path) for path in sorted((data / "kalshibench").glob("*.json"))]
    assert len(files) == 2
    for one in answer(capsys, "bench", "published", *files)["files"]:
        assert one["bins_agree"] == one["bins"] == 10
        assert one["ours"]["ece"] == pytest.approx(one["stated"]["ece"], abs=1e-12)
    ours = answer(capsys, "bench", "published", *files, "--binning", "snapped")["files"]
    assert any(one["bins_agree"] < 10 for one in ours)
    assert cli(["bench", "published", *files]) == 0
    assert "10 of 10" in capsys.readouterr().out


def test_consistency(tmp_path: Path, capsys: Out) -> None:
    lines = [
        {"prob": 0.4, "resolution": True, "brier_score": 0.36, "log_score": 1.3219},
        {"prob": 0.0, "resolution": False, "brier_score": 0.0, "log_score": 0.0},
        {"prob": 0.0, "resolution": True, "brier_score": 1.0, "log_score": 26.5754},
    ]
    path = tmp_path / "Basic" / "ground_truth_results.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(json.dumps(line) for line in lines))
    (one,) = answer(capsys, "bench", "published", str(path))["files"]
    assert (one["forecaster"], one["n"]) == ("Basic", 3)
    assert one["ours"]["brier"] == pytest.approx(one["stated"]["brier"])
    assert one["ours"]["log_score"] == pytest.approx(one["stated"]["log_score"], abs=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no forecasts"),
        ("[1, 2]", ":1: neither a KalshiBench result"),
        ('{"predictions": [{"predicted_probability": 1.5}], "reliability_diagram": []}', "1.5"),
        ('{"prob": 0.4, "resolution": 1, "brier_score": 0, "log_score": 0}', "true or false"),
    ],
)
def test_what_is_neither(tmp_path: Path, capsys: Out, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert cli(["bench", "published", str(tmp_path / "x.json")]) == 2
    assert said in capsys.readouterr().err


SET: dict[str, Any] = {
    "questions": [
        {"id": "a", "source": "manifold"},
        {"id": "b", "source": "manifold"},
        {"id": "s", "source": "fred"},
    ]
}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "source": "manifold", "resolution_date": day, "resolved_to": 1, "resolved": True}
    for day in ("2025-01-01", "2025-02-01", "2025-03-01")
]
ROWS += [
    {"id": "s", "source": "fred", "resolution_date": day, "resolved_to": 0, "resolved": True}
    for day in ("2025-01-01", "2025-02-01")
]
PAIR = {
    "id": ["b", "a"],
    "source": "manifold",
    "resolution_date": "2025-01-01",
    "direction": [1, 1],
}


def forecastbench(folder: Path, forecasts: list[Any] | None = None) -> list[str]:
    pair = {**PAIR, "resolved_to": 1, "resolved": True}
    (folder / "q.json").write_text(json.dumps(SET))
    (folder / "r.json").write_text(json.dumps({"resolutions": [*ROWS, pair]}))
    command = ["bench", "forecastbench", "--questions", str(folder / "q.json")]
    command += ["--resolutions", str(folder / "r.json")]
    if forecasts is not None:
        (folder / "f.json").write_text(json.dumps({"forecasts": forecasts}))
        command += ["--forecasts", str(folder / "f.json")]
    return command


def test_n_counts_questions_and_combinations_are_formed(tmp_path: Path, capsys: Out) -> None:
    found = answer(capsys, *forecastbench(tmp_path))
    assert found["n"] == {"dataset": 2, "market_resolved": 1, "market_unresolved": 0}
    assert found["left_out"] == {"combination questions": 1}
    formed = answer(capsys, *forecastbench(tmp_path), "--combinations")
    assert formed["n"]["market_resolved"] == 2
    SET["questions"].append({"id": ["a", "z"], "source": "manifold"})
    try:  # A set that lists combinations has those alone.
        listed = answer(capsys, *forecastbench(tmp_path), "--combinations")
    finally:
        SET["questions"].pop()
    assert listed["n"]["market_resolved"] == 1


def test_missing_forecasts_are_shown_and_not_ranked(tmp_path: Path, capsys: Out) -> None:
    command = forecastbench(tmp_path, [{"id": "a", "source": "manifold", "forecast": 0.9}])
    found = answer(capsys, *command)
    assert found["missing"]["f.json"] == 2
    assert found["unranked"] == ["f.json"]
    assert cli(command) == 0
    said = capsys.readouterr().out
    assert "missing" in said
    assert "f.json: not ranked, 2 of 5 forecasts are missing (more than 5 %)" in said
    assert cli(forecastbench(tmp_path, [])) == 2
    assert "answers none of the 5 scored rows" in capsys.readouterr().err
