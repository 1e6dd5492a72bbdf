"""Names and texts of strangers on a terminal and in a spreadsheet: shown, not obeyed."""

import csv
import io
import json
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.cli.clean import CleanStream, clean
from beforehand.front.arrow import Column, Table
from beforehand.records.spreadsheet import spreadsheet_cell
from experiments import Out

EVIL = "a\x1b]0;owned\x07b\x1b[2J\u202egnp\r\x9b1m"
STATED = "id,time,probability,forecaster\n"


def test_clean() -> None:
    assert clean("plain é 中 –\n\ttext") == "plain é 中 –\n\ttext"
    shown = clean(EVIL)
    assert shown.isprintable()
    assert "\\x1b]0;owned\\x07" in shown
    assert "\\u202e" in shown


def test_colours_stay_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    CleanStream(out).write("\x1b[1;32mgreen\x1b[0m\x1b[2J")
    assert out.getvalue() == "\x1b[1;32mgreen\x1b[0m\\x1b[2J"
    plain = io.StringIO()
    CleanStream(plain).write("\x1b[1mx")
    assert plain.getvalue() == "\\x1b[1mx"


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
