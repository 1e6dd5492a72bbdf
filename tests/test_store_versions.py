"""Files of another version are refused with the sentence that says what to do; nothing is paid
again."""

from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.engine import runs as engine_runs
from beforehand.errors import InputError
from beforehand.store.archive import manifest as manifests
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_json, write_json
from beforehand.store.run_folder import FORM
from experiments import Out, told


def test_an_archive_of_another_form_is_refused(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    made = read_json(sim / "archive.json")
    other = tmp_path / "other"
    other.mkdir()
    write_json(other / "archive.json", {**made, "format": "beforehand-archive/2"})
    with pytest.raises(InputError, match="of the form beforehand-archive/2"):
        Archive(other)
    assert cli(["world", "info", "--archive", str(other)]) == 2
    assert "import its sources into a new archive" in capsys.readouterr().err
    monkeypatch.setattr(manifests, "FORMAT", "beforehand-archive/2")
    with pytest.raises(InputError, match="reads beforehand-archive/2"):
        Archive(sim)


@pytest.mark.parametrize("form", [None, FORM + 1])
def test_a_finished_run_of_another_form_is_refused(
    form: int | None, sim: Path, home: Path, tmp_path: Path, capsys: Out
) -> None:
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market", "--run-id", "r"]
    told(capsys, *command, "--every", "28d", "--draws", "100", "--placebo", "0")
    place = Home(home).runs / "r" / "run.json"
    sealed = read_json(place)
    assert sealed["form"] == FORM
    write_json(
        place,
        {**sealed, "form": form} if form else {k: sealed[k] for k in sealed.keys() - {"form"}},
    )
    for read in (
        ["show", "r"],
        ["verify", "r"],
        ["leaks", "r"],
        ["diff", "r", "r"],
        ["export", "r", "--format", "csv", "--out", str(tmp_path / "r.csv")],
    ):
        assert cli(["runs", *read]) == 2, read
        said = capsys.readouterr().err
        assert f"run r has files of the form {form or 0}" in said
        assert "make the run again" in said
    assert [run["run_id"] for run in told(capsys, "runs", "list")["runs"]] == ["r"]


def test_an_unfinished_run_of_another_form_is_not_paid_again(
    sim: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "scripted"]
    command += ["--mode", "direct_llm", "--every", "28d", "--draws", "100", "--placebo", "0"]
    assert cli([*command, "--run-id", "r", "--max-calls", "2"]) == 3
    paid = told(capsys, "runs", "show", "r")["calls"]
    with monkeypatch.context() as patch:
        patch.setattr(engine_runs, "FORM", FORM + 1)
        assert cli(["runs", "resume", "r", "--max-calls", "99999"]) == 2
        assert "another version of beforehand" in capsys.readouterr().err
        assert cli([*command, "--run-id", "r"]) == 2
    assert told(capsys, "runs", "show", "r")["calls"] == paid == 2
    assert cli(["runs", "resume", "r", "--max-calls", "4"]) == 3, "of the same form it goes on"
    assert told(capsys, "runs", "show", "r")["calls"] == 4
