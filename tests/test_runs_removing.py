"""Runs out of the list and back, and archives without what is not needed."""

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home, Workspace
from beforehand.runs.query import need_journal
from beforehand.store.archive.manifest import licences_of
from beforehand.store.archive.reader import Archive
from experiments import QUICK, Out


def listed(capsys: Out) -> list[str]:
    assert cli(["runs", "list", "--json"]) == 0
    return [run["run_id"] for run in json.loads(capsys.readouterr().out)["runs"]]


@pytest.fixture
def two(sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> Home:
    """A home with the runs a (older) and b, in which a forecaster was asked."""
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,scripted,drift"]
    for name in ("a", "b"):
        assert cli([*command, *QUICK, "--every", "112d", "--run-id", name]) == 0
    capsys.readouterr()
    return Home(tmp_path)


def test_removed_and_restored(two: Home, capsys: Out) -> None:
    before = {p.name: p.read_bytes() for p in (two.runs / "b").iterdir()}
    assert cli(["runs", "rm", "latest"]) == 0
    assert "undo: beforehand runs restore b" in capsys.readouterr().err
    assert listed(capsys) == ["a"]
    assert cli(["runs", "show", "b"]) == 2
    assert "`beforehand runs restore b` brings it back" in capsys.readouterr().err
    assert cli(["runs", "resume", "b"]) == 2
    assert cli(["runs", "rm", "b"]) == 2
    capsys.readouterr()
    assert cli(["runs", "restore", "b"]) == 0
    capsys.readouterr()
    assert sorted(listed(capsys)) == ["a", "b"]
    assert {p.name: p.read_bytes() for p in (two.runs / "b").iterdir()} == before
    assert cli(["runs", "verify", "b"]) == 0


def test_purged(two: Home, capsys: Out) -> None:
    """Files and answers are gone; what was spent and what was shown stay on record."""
    journal = need_journal(Workspace(two))
    spent = journal.known_run("a").calls
    shown = [(call["call_key"], call["instant"]) for call in journal.calls.rows("a")]
    trials = two.trials.read_bytes()
    assert spent > 0
    assert cli(["runs", "rm", "a", "--purge"]) == 2
    assert "Say so with --yes" in capsys.readouterr().err
    assert (two.runs / "a").is_dir()
    assert cli(["runs", "rm", "a", "--purge", "--yes"]) == 0
    capsys.readouterr()
    assert listed(capsys) == ["b"]
    assert not (two.runs / "a").exists()
    calls = journal.calls.rows("a")
    assert [(call["call_key"], call["instant"]) for call in calls] == shown
    assert all(call["answer"] is None for call in calls)
    assert journal.known_run("a").calls == spent
    assert two.trials.read_bytes() == trials
    assert cli(["runs", "restore", "a"]) == 2
    assert "deleted for good" in capsys.readouterr().err
    assert cli(["runs", "verify", "b"]) == 0


def test_what_cannot_be_removed(two: Home, capsys: Out) -> None:
    assert cli(["runs", "rm", "nothing"]) == 2
    assert "there is no run 'nothing'" in capsys.readouterr().err
    assert cli(["runs", "restore", "a"]) == 2
    assert "is not removed" in capsys.readouterr().err
    journal, workspace = need_journal(Workspace(two)), Workspace(two)
    with journal.database.hold("drive:a", workspace.home.engine / "a.lock"):
        journal.mark("a", "running", None)
        assert cli(["runs", "rm", "a"]) == 2
    assert "is running" in capsys.readouterr().err


def test_an_import_taken_out(sim: Path, tmp_path: Path, capsys: Out) -> None:
    """After an import is taken out the archive is the one without it; strays go as well."""
    path, more = tmp_path / "a", tmp_path / "prices.csv"
    shutil.copytree(sim, path)
    before = Archive(path).digest
    more.write_text("id,time,price\nX:1,2025-01-01T00:00:00Z,0.4\n")
    add = ["world", "import", "prices", str(more), "--archive", str(path)]
    assert cli([*add, "--licence", "CC-BY-4.0"]) == 0
    (path / "segments" / "price-0000.jsonl.gz").write_bytes(b"left behind")
    name = Archive(path).manifest["imports"][-1]["name"]
    assert licences_of(Archive(path).manifest) == ["CC-BY-4.0", "not stated"]
    prune = ["world", "prune", "--archive", str(path)]
    assert cli([*prune, "--import", name]) == 2
    assert "Say so with --yes" in capsys.readouterr().err
    assert cli(prune) == 0
    assert "files deleted: 1 (" in capsys.readouterr().out
    assert Archive(path).digest != before
    assert cli([*prune, "--import", name, "--yes"]) == 0
    assert Archive(path).digest == before
    assert Archive(path).verify() == []
    assert Archive(path).strays() == []
    assert cli([*prune, "--import", "0009-none", "--yes"]) == 2
    assert cli(add) == 0  # It can be imported again.
    assert Archive(path).verify() == []


def test_a_licence_is_carried_into_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    archive = str(tmp_path / "a")
    assert cli(["world", "simulate", "--dates", "8", "--archive", archive]) == 0
    run = ["backtest", "run", "--archive", archive, "--forecasters", "market,drift"]
    assert cli([*run, "--every", "56d", "--run-id", "r"]) == 0
    folder = Home(tmp_path).runs / "r"
    assert json.loads((folder / "scores.json").read_text())["licences"] == ["CC0-1.0"]
    assert "data: CC0-1.0" in (folder / "report.html").read_text()
    capsys.readouterr()
    assert (
        cli(["runs", "export", "r", "--format", "markdown", "--out", str(tmp_path / "m.md")]) == 0
    )
    assert "Licences of the data: CC0-1.0." in (tmp_path / "m.md").read_text()
    table = str(tmp_path / "t.parquet")
    assert cli(["runs", "export", "r", "--format", "parquet", "--out", table]) == 0
    assert "data: CC0-1.0" in capsys.readouterr().out
    found = duckdb.sql(f"SELECT key, value FROM parquet_kv_metadata('{table}')").fetchall()
    assert (b"data_licences", b"CC0-1.0") in found
