"""Names and texts of strangers on a terminal and in a spreadsheet: shown, not obeyed."""

import csv
import io
import json
import re
import xml.dom.minidom
from pathlib import Path

import pytest
from rich.text import Text

from beforehand.cli.app import run as cli
from beforehand.cli.clean import CleanStream
from beforehand.cli.screen import Screen
from beforehand.front.arrow import Column, Table
from beforehand.records.spreadsheet import spreadsheet_cell
from beforehand.records.text import clean, one_line, straight
from experiments import Out

EVIL = "a\x1b]0;owned\x07b\x1b[2J\u202egnp\r\x9b1m"
STATED = "id,time,probability,forecaster\n"


def test_clean() -> None:
    assert clean("plain é 中 –\n\ttext") == "plain é 中 –\n\ttext"
    shown = clean(EVIL)
    assert shown.isprintable()
    assert "\\u001b]0;owned\\u0007" in shown
    mangled = "Trump\x92s"
    assert json.loads(clean(f'"{mangled}"')) == mangled, "what is JSON stays JSON"
    assert one_line("a\nb\tc\x00") == "a\\u000ab\\u0009c\\u0000"
    assert straight("a\u202eb") == "ab"
    assert "\\u202e" in shown


def test_only_our_own_colours_reach_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A colour in a name (here one that conceals what follows) is text; a table's own stay."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", CleanStream(out))
    Screen(width=80).print(Text("bold", style="bold"), Text("name\x1b[8m\rx"))
    shown = out.getvalue()
    assert "\x1b[1mbold\x1b[0m" in shown
    assert "name\\u001b[8m" in shown
    assert "\x1b[8m" not in shown
    print("\x1b[1mplain\x1b[8m")
    assert out.getvalue().endswith("\\u001b[1mplain\\u001b[8m\n")


@pytest.fixture
def evil(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, market: dict[str, object]
) -> Path:
    """A home with an archive whose documents and market texts, and a file of forecasts whose
    forecasters, have hostile names."""
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    line = {"source": "evil", "id": "m1", "question": EVIL, "rounds": ["2025-01-01"]}
    line |= {"history": [["2025-01-01", 0.5, 1.736e9]]}
    (tmp_path / "m.jsonl").write_text(json.dumps(line))
    document = {"id": "d", "title": EVIL, "text": EVIL, "captured_at": "2025-01-01T00:00:00Z"}
    (tmp_path / "d.jsonl").write_text(json.dumps(document))
    return tmp_path


def test_every_door_to_a_terminal(evil: Path, sim: Path, capsys: Out) -> None:
    """Commands that print a stranger's words: none prints a control character."""
    archive = ["--archive", str(evil / "a")]
    assert cli(["world", "import", "markets", str(evil / "m.jsonl"), *archive]) == 0
    assert cli(["world", "import", "documents", str(evil / "d.jsonl"), *archive]) == 0
    stated = evil / "f.csv"
    stated.write_text(STATED + f"{EVIL},2025-01-20T12:00:00Z,0.4,{EVIL}\n", newline="")
    commands = [
        ["world", "list", *archive],
        ["world", "info", *archive],
        ["tool", "list_markets", "--arg", "status=all", *archive],
        ["tool", "get_market", "--arg", "id=EVIL:m1", *archive],
        ["tool", "search_news", "--arg", "query=owned", *archive],
        ["tool", "get_market", "--arg", f"id={EVIL}", *archive],
        ["score", str(stated), *archive],
        ["score", str(evil / f"no{EVIL}.csv"), *archive],
        ["runs", "show", EVIL],
        ["backtest", "run", "--forecasters", f"market,{EVIL}", *archive],
        ["ask", "owned?", *archive],
        ["bench", "published", str(stated)],
        ["agent", "search-agent", "--arg", "query=owned", *archive],
    ]
    capsys.readouterr()
    for command in commands:
        cli(command)
        said = capsys.readouterr()
        text = said.out + said.err
        assert text, command
        left = {mark for mark in text if not mark.isprintable() and mark not in "\n\t"}
        assert not left, (command, left)


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1+1", "-x", "@SUM(A1)"])
def test_a_formula_is_text(name: str) -> None:
    assert spreadsheet_cell(name) == "'" + name
    table = Table({"forecaster": Column.of("text", [name]), "p": Column.of("float", [-0.5])})
    (_, row) = csv.reader(io.StringIO(table.to_csv().decode()))
    assert row == ["'" + name, "-0.5"]


def test_numbers_stay_numbers() -> None:
    for value in (-0.5, 3, None, "-0.5", "+3e4", "plain", ""):
        assert spreadsheet_cell(value) == value


NAMES = (
    "mine beats the market.\x1b[8m",
    "mine\r=HYPERLINK(1)\r=cmd|'/C calc'!A0",
    "mine beats the market over 314 questions.\n\nNote",
    "mine.\u202e(stneve 732) snoitseuq 413 revo",
    "[v2] mine",
    "*star",
    "x<script>alert(1)</script>[l](http://evil)",
    "a\x00b\ufffe",
)


def test_hostile_names_in_everything_that_a_run_shows(
    sim: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    market: dict[str, object],
    capsys: Out,
) -> None:
    """Each as the one forecaster of a file: CSV keeps its rows, Markdown has no link and no HTML,
    LaTeX no stray argument, SVG is well-formed, nothing is turned round or put on a line of its
    own, and what is printed as JSON is JSON."""
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    for k, name in enumerate(NAMES):
        path, run = tmp_path / f"f{k}.jsonl", f"r{k}"
        rows = [
            {
                "id": market["id"],
                "time": f"2025-01-{20 + d}T12:00:00Z",
                "probability": 0.4,
                "forecaster": name,
            }
            for d in range(3)
        ]
        path.write_text("\n".join(map(json.dumps, rows)))
        capsys.readouterr()
        order = ["score", str(path), "--archive", str(sim), "--placebo", "0", "--draws", "100"]
        assert cli([*order, "--run-id", run, "--json"]) in (0, 3)
        board = json.loads(capsys.readouterr().out)["leaderboard"]
        (said,) = (r["forecaster"] for r in board if r["forecaster"][:3] == one_line(name)[:3])
        assert said.isprintable()
        folder = tmp_path / "data" / "runs" / run
        for csv_file in ("leaderboard.csv", "bets.csv"):
            text = (folder / csv_file).read_bytes().decode()
            assert "\r" not in text
            assert all(
                row[0][:1] not in "=+@" for row in csv.reader(io.StringIO(text, newline="")) if row
            )
        made = {}
        for kind in ("markdown", "latex", "svg"):
            out = tmp_path / f"{run}.{kind}"
            assert cli(["runs", "export", run, "--format", kind, "--out", str(out)]) == 0
            made[kind] = out.read_text()
        assert "<script" not in made["markdown"] + (folder / "report.html").read_text()
        assert not re.search(r"(?<!\\)\]\(http", made["markdown"])
        assert not re.search(r"^[\[*]", made["latex"], re.MULTILINE)
        xml.dom.minidom.parseString(made["svg"])
        assert "\u202e" not in "".join(made.values()) + (folder / "report.html").read_text()
        capsys.readouterr()
        cli(["runs", "show", run])
        assert "\nNote" not in capsys.readouterr().out
