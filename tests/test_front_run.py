"""What can be done with a run: resume, cancel, watch, verify; and what it survives."""

import random
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from provider import Provider

from beforehand.cli.app import run as cli
from beforehand.config import Home, Workspace
from experiments import Out, config, intervals, told


def test_a_budget_stops_with_3_and_is_raised_on_resume(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id"]
    assert cli([*command, "r", "--max-calls", "5"]) == 3
    err = capsys.readouterr().err
    assert "budget of 5 calls" in err
    assert "runs resume r" in err
    assert len(provider.log) == 5
    state = told(capsys, "runs", "show", "r")
    assert state["status"] == "stopped"
    assert cli(["runs", "resume", "r"]) == 3, "the same budget stops it again"
    assert len(provider.log) == 5
    told(capsys, "runs", "resume", "r", "--max-calls", "100")
    assert len(provider.log) == 12
    assert max(provider.paid().values()) == 1
    assert cli(["runs", "resume", "r"]) == 2
    assert "is finished" in capsys.readouterr().err
    assert cli([*command, "again"]) == 0
    files = [
        {
            p.name: p.read_bytes().replace(b'"again"', b'"r"')
            for p in (Home(home).runs / name).iterdir()
            if p.suffix == ".jsonl"
        }
        for name in ("r", "again")
    ]
    assert files[0] == files[1], "stopped and resumed equals the twin"


def test_a_provider_that_is_away_stops_the_run_and_it_resumes(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.traffic.CIRCUIT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/none"

        def once() -> None:
            """Take the connection that is tried before a run, and go away."""
            server.accept()[0].close()
            server.close()

        gone = threading.Thread(target=once)
        gone.start()
        path = config(home / "c.json", market, models=["market", address])
        assert cli(["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r"]) == 3
        gone.join()
    err = capsys.readouterr().err
    assert "no connection" in err
    assert "once it answers" in err
    assert "runs resume r" in err
    assert cli(["runs", "list"]) == 0
    assert "stopped" in capsys.readouterr().out


def test_verify_finds_a_single_flipped_byte_in_every_file(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    assert cli(["runs", "verify", "r"]) == 0
    files = sorted(p for p in (Home(home).runs / "r").iterdir())
    assert len(files) == 16
    for file in files:
        data = file.read_bytes()
        for place in (0, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            capsys.readouterr()
            assert cli(["runs", "verify", "r"]) == 1, f"{file.name}, byte {place}"
            assert "NOT sound" in capsys.readouterr().out
        file.write_bytes(data)
    (Home(home).runs / "r" / "extra.txt").write_text("x")
    assert cli(["runs", "verify", "r"]) == 1
    (Home(home).runs / "r" / "extra.txt").unlink()
    assert cli(["runs", "verify", "r"]) == 0


def test_verify_says_not_sound_wherever_a_byte_is_flipped(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    from beforehand.runs.query import need_journal
    from beforehand.runs.verify import sound, verify
    from beforehand.store.run_folder import open_run

    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    folder, journal = open_run(Home(home).runs, "r"), need_journal(Workspace(Home(home)))
    assert sound(verify(folder, journal))
    chance = random.Random(0)
    for name in ("intervals.jsonl", "predictions.jsonl", "plan.json", "run.json", "events.jsonl"):
        file = folder.path / name
        data = file.read_bytes()
        for place in chance.sample(range(len(data)), 40):
            flipped = data[place] ^ (1 << chance.randrange(8))
            file.write_bytes(data[:place] + bytes([flipped]) + data[place + 1 :])
            assert not sound(verify(folder, journal)), (name, place)
        file.write_bytes(data)
    assert sound(verify(folder, journal))
    journal.database.close()


def test_files_lost_before_the_seal_are_written_anew(
    provider: Provider,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from beforehand.jobs.backtest.backtest_job import BacktestJob

    path = config(home / "c.json", market, models=["market", provider.address()])
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id"]
    told(capsys, *command, "twin")
    real, paid = BacktestJob.seal, len(provider.log)
    for number, lost in enumerate((["scores.json"], ["intervals.jsonl", "report.html"], None)):
        name = f"r{number}"

        def die(self: BacktestJob) -> dict[str, str]:
            raise KeyboardInterrupt

        monkeypatch.setattr(BacktestJob, "seal", die)
        assert cli([*command, name]) == 130
        monkeypatch.setattr(BacktestJob, "seal", real)
        folder = Home(home).runs / name
        for file in lost or [p.name for p in folder.iterdir()]:
            (folder / file).unlink()
        told(capsys, "runs", "resume", name)
        mine = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix == ".jsonl"}
        twin = {
            p.name: p.read_bytes().replace(b'"twin"', b'"%s"' % name.encode())
            for p in (Home(home).runs / "twin").iterdir()
            if p.suffix == ".jsonl"
        }
        assert mine == twin
        assert (folder / "report.html").is_file()
        assert told(capsys, "runs", "verify", name)["sound"]
        assert len(provider.log) == paid * (number + 2)


def test_a_run_is_gone_on_with_in_its_own_home(
    provider: Provider,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import shutil

    path = config(home / "c.json", market, models=["market", provider.address()])
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id"]
    assert cli([*command, "r", "--max-calls", "1"]) == 3
    copy = home.with_name("copy")
    shutil.copytree(home, copy)
    monkeypatch.setenv("BEFOREHAND_HOME", str(copy))
    capsys.readouterr()
    assert cli(["runs", "resume", "r"]) == 2
    assert str(home) in capsys.readouterr().err
    assert cli([*command, "latest"]) == 2


def test_verify_finds_costs_that_were_changed(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    import sqlite3

    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    for change in (
        "UPDATE calls SET cost = cost + 9",
        "UPDATE calls SET tokens = 1",
        "UPDATE runs SET cost = 0",
        "UPDATE runs SET status = 'failed'",
        "UPDATE runs SET run_id = 'x'",
        "UPDATE task_outputs SET metadata = 'x'",
    ):
        journal = Home(home).journal
        kept = journal.read_bytes()
        db = sqlite3.connect(journal)
        db.execute(change)
        db.commit()
        db.close()
        assert not told(capsys, "runs", "verify", "r", code=1)["sound"], change
        for end in ("", "-wal", "-shm"):
            journal.with_name(journal.name + end).unlink(missing_ok=True)
        journal.write_bytes(kept)
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_limits_given_on_resume_stand_until_others_are_given(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()])
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r"]
    assert cli([*command, "--max-calls", "1"]) == 3
    assert cli(["runs", "resume", "r", "--max-calls", "3", "--in-flight", "skip"]) == 3
    assert len(provider.log) == 3
    assert cli(["runs", "resume", "r"]) == 3
    assert len(provider.log) == 3
    state = told(capsys, "runs", "show", "r")
    assert state["limits"] == {"calls": 3}
    for bad in (["--max-cost", "nan"], ["--concurrency", "0"], ["--max-calls", "-1"]):
        assert cli(["runs", "resume", "r", *bad]) == 2


def test_verify_finds_what_was_forged_with_its_digests(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """Who rewrites a row, its digest and the manifest still has the journal against him."""
    import sqlite3

    from beforehand.ids import digest
    from beforehand.store.files import file_digest, read_json, write_json, write_jsonl

    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    folder = Home(home).runs / "r"
    rows = intervals(home, "r")
    rows[0]["decisions"][1]["probability"] = 0.987
    body = {k: v for k, v in rows[0].items() if k not in ("run_id", "digest")}
    rows[0]["digest"] = digest(body)
    write_jsonl(folder / "intervals.jsonl", rows)
    sealed = read_json(folder / "run.json")
    sealed["files"]["intervals.jsonl"] = file_digest(folder / "intervals.jsonl")
    write_json(folder / "run.json", sealed)
    found = told(capsys, "runs", "verify", "r", code=1)
    problems = {c["name"]: c["problems"] for c in found["checks"] if c["wrong"]}
    assert "answered" in problems["calls"][0]
    assert "run.json" in problems["files"][0]
    db = sqlite3.connect(Home(home).journal)
    db.execute("UPDATE calls SET answer = replace(answer, '0.', '1.')")
    db.commit()
    db.close()
    found = told(capsys, "runs", "verify", "r", code=1)
    assert any("does not have its digest" in p for c in found["checks"] for p in c["problems"])


def test_runs_are_cancelled_watched_and_taken_up_again(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()])
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r"]
    assert cli([*command, "--max-calls", "2"]) == 3
    assert told(capsys, "runs", "cancel", "r")["status"] == "cancelled"
    assert told(capsys, "runs", "watch", "r", code=3)["status"] == "cancelled"
    assert cli(["runs", "cancel", "r"]) == 2
    told(capsys, "runs", "resume", "r", "--max-calls", "99")
    assert told(capsys, "runs", "watch", "r")["status"] == "success"
    assert len(provider.log) == 6
    for verb in ("resume", "cancel", "verify", "watch", "show", "export"):
        assert cli(["runs", verb, "nothing"]) == 2, verb


def test_the_same_id_with_another_request_is_another_run(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()])
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r"]
    assert cli([*command, "--max-calls", "0"]) == 3
    config(path, market, models=["market"], mode="baseline")
    capsys.readouterr()
    assert cli(command) == 2
    assert "exists already" in capsys.readouterr().err
