"""A run for a paper: tables, a paragraph on methods, a picture; also of scored files."""

import csv
import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.store.archive.reader import Archive
from test_score_file import own_file

Out = pytest.CaptureFixture[str]


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def scored(tmp_path: Path, sim: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> Home:
    """A home with a scored file, of two forecasters."""
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    own_file(Archive(sim), tmp_path / "mine.csv")
    rows = table(tmp_path / "mine.csv")
    with (tmp_path / "two.csv").open("w") as file:
        out = csv.writer(file)
        out.writerow(["id", "time", "probability", "forecaster"])
        for row in rows:
            out.writerow([row["id"], row["time"], row["probability"], "same"])
            out.writerow([row["id"], row["time"], 0.9 * float(row["probability"]), "lower_9 & %"])
    order = ["--archive", str(sim), "--run-id", "s", "--draws", "200", "--placebo", "20"]
    assert cli(["score", str(tmp_path / "two.csv"), *order]) == 0
    shown = capsys.readouterr().out
    assert "on the rows that both answered" in shown  # One pair: it is shown at once.
    return Home(tmp_path)


def export(format: str, capsys: Out) -> Path:
    assert cli(["runs", "export", "s", "--format", format, "--json"]) == 0
    return Path(json.loads(capsys.readouterr().out)["out"])


def test_tables_and_methods(scored: Home, capsys: Out) -> None:
    board = json.loads((scored.runs / "s" / "scores.json").read_text())["leaderboard"]
    text = export("markdown", capsys).read_text()
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    table, after = cells[2 : 2 + len(board)], cells[2 + len(board) :]
    pairs, bets = after[:3], after[3:]
    assert pairs[2][:2] == ["same", r"lower\_9 & %"]
    assert [row[0] for row in table] == [r["forecaster"].replace("_", r"\_") for r in board]
    assert [row[cells[0].index("Brier ↓")] for row in table] == [f"{r['brier']:.4f}" for r in board]
    made = [r["kelly"] for r in board if isinstance(r["kelly"], dict) and r["kelly"]["bets"]]
    assert [row[bets[0].index("Wealth")] for row in bets[2:]] == [
        f"{kelly['final_wealth']:.3f}" for kelly in made
    ]
    assert made[0]["note"] in text
    assert "We scored forecasts at " in text
    assert "200 draws" in text
    tex = export("latex", capsys).read_text()
    assert tex.count(r" \\") == len(board) + len(made) + 1 + 3
    assert r"lower\_9 \& \% &" in tex
    assert not set("−–“”") & set(tex)  # What plain LaTeX would not print.


def test_pictures(scored: Home, capsys: Out) -> None:
    svg = export("svg", capsys).read_text()
    root = ElementTree.fromstring(svg)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "lower_9 & %" in texts
    assert "var(" not in svg  # Other programs do not know variables of CSS.
    pytest.importorskip("resvg_py")
    assert export("png", capsys).read_bytes().startswith(b"\x89PNG")


def test_a_scored_file_as_a_table(scored: Home, capsys: Out) -> None:
    rows = table(export("csv", capsys))
    stated = table(scored.root / "two.csv")
    mine = [row for row in rows if row["model_id"] in ("same", "lower_9 & %")]
    assert len(mine) == len(stated)
    yardsticks = {"market", "always:0.5", "base_rate", "shrunk"}
    assert {row["model_id"] for row in rows} == {"same", "lower_9 & %"} | yardsticks
    assert all(row["odds"] == row["probability"] for row in rows if row["model_id"] == "market")
    board = {row["forecaster"]: row for row in table(scored.runs / "s" / "leaderboard.csv")}
    counts = Counter(row["model_id"] for row in rows)
    assert {name: int(row["n"]) for name, row in board.items()} == counts
    assert all(0 <= float(row["outcome"]) <= 1 for row in rows)
    assert cli(["runs", "export", "s", "--format", "galileo"]) == 2
    assert "nobody was asked" in capsys.readouterr().err
    for made in ("pairs.csv", "bets.csv", "leaderboard.csv"):
        assert (scored.runs / "s" / made).is_file()
    (pair,) = table(scored.runs / "s" / "pairs.csv")
    assert {pair["a"], pair["b"]} == {"same", "lower_9 & %"}
    assert float(pair["low"]) <= float(pair["difference"]) <= float(pair["high"])


def test_two_scored_files_differ_in_what_was_said(scored: Home, sim: Path, capsys: Out) -> None:
    rows = table(scored.root / "two.csv")
    changed = [{**r, "probability": str(0.5 * float(r["probability"]))} for r in rows]
    with (scored.root / "other.csv").open("w") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(
            r if r["forecaster"] == "same" else c for r, c in zip(rows, changed, strict=True)
        )
    order = ["--archive", str(sim), "--run-id", "o", "--draws", "200", "--placebo", "0"]
    assert cli(["score", str(scored.root / "other.csv"), *order]) == 0
    capsys.readouterr()
    assert cli(["runs", "diff", "s", "o", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["intervals"]["both"] == len(rows)
    assert found["intervals"]["other_context"] == 0
    assert found["intervals"]["other_probability"] == found["intervals"]["different"]
    assert 0 < found["intervals"]["different"] <= len(rows) // 2
    board = {row["forecaster"]: row for row in found["leaderboard"]}
    same, other = board["same"]["paired"], board["lower_9 & %"]["paired"]
    assert (same["difference"], same["ci"]) == (0.0, [0.0, 0.0])
    low, high = other["ci"]
    assert low <= other["difference"] <= high
    assert other["difference"] == pytest.approx(other["brier_b"] - other["brier_a"])
