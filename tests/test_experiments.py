"""Experiments as people run them: forecasters at addresses, simulations, budgets, forks, A/B, and
what can be done with a run."""

import csv
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import from_us, iso
from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.forecast import external
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.store.archive import Archive
from beforehand.work.results import read_jsonl

Out = pytest.CaptureFixture[str]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider(latency=0.0)) as made:
        yield made


@pytest.fixture
def market(sim_archive: Archive) -> dict[str, Any]:
    """A settled market of the simulated world: its id, first price and end."""
    world = RecordedWorld(sim_archive)
    record = next(r for r in Gateway(world).hindsight().resolutions() if r.payout is not None)
    first = from_us(world.all_series[record.market_id].known_at[0])
    return {"id": record.market_id, "first": first, "end": record.resolved_at}


def config(path: Path, market: dict[str, Any], **changes: Any) -> Path:
    body = {
        "market_id": market["id"],
        "start_time": iso(market["first"]),
        "end_time": iso(market["first"] + timedelta(hours=20)),
        "interval_minutes": 240,
        "num_sims": 1,
        "models": ["baseline:market"],
        "mode": "external",
        "search_config": {"max_results": 5, "query_mode": "template"},
    }
    path.write_text(json.dumps({**body, **changes}))
    return path


def told(capsys: Out, *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert cli([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def intervals(home: Path, run_id: str) -> list[dict[str, Any]]:
    return list(read_jsonl(Home(home).runs / run_id / "intervals.jsonl"))


def test_a_forecaster_at_an_address(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(
        home / "c.json", market, models=["baseline:market", provider.address()], num_sims=3
    )
    found = told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    rows = intervals(home, "r")
    assert len(rows) == 6
    for row in rows:
        said = [(d["model_id"], d["simulation_index"], d["mode"]) for d in row["decisions"]]
        assert said == [
            ("baseline:market", 0, "baseline"),
            *((provider.address(), i, "external") for i in range(3)),
        ]
        spoken = [d["probability"] for d in row["decisions"]]
        assert row["aggregate"]["probability"] == pytest.approx(sum(spoken) / 4)
    for before, after in pairwise(rows):
        last = after["context"]["previous_intervals"][-1]
        assert last["aggregated_probability"] == before["aggregate"]["probability"]
    assert len(provider.log) == 18
    assert {row["forecaster"] for row in found["leaderboard"]} == {"market", provider.address()}
    drawn = re.findall(r'class="forecast"[^>]*points="([^"]*)"', Path(found["report"]).read_text())
    assert [len(line.split()) for line in drawn] == [6], "its line, a point an interval"
    state = told(capsys, "runs", "show", "r")
    assert (state["calls"], state["tokens"], state["cost"]) == (18, 126, 0.18)
    assert told(capsys, "runs", "verify", "r")["sound"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("[]", "JSON object"),
        ("not json", "JSON object"),
        ('{"probability": 1.5}', "from 0 to 1"),
        ('{"probability": "0.5"}', "from 0 to 1"),
        ('{"probability": true}', "from 0 to 1"),
        ('{"probability": NaN}', "JSON object"),
        ('{"p": 0.5}', "from 0 to 1"),
        ('{"probability": 0.5, "rationale": 3}', "no text"),
        ('{"probability": 0.5, "evidence_ids": "x"}', "no list"),
    ],
)
def test_answers_that_cannot_be_used(answer: str, reason: str) -> None:
    with pytest.raises(external.BadAnswer, match=reason):
        external.parse("http://x/y", answer)


def test_what_an_answer_may_hold() -> None:
    said = external.parse(
        "http://x", '{"probability": 0, "rationale": "r", "evidence_ids": ["a", 7]}'
    )
    assert (said.probability, said.rationale, said.evidence_ids) == (0.0, "r", ["a", "7"])
    assert external.usage('{"tokens": {"in": 3, "out": 4}, "cost": 0.5}') == (7, 0.5)
    assert external.usage('{"tokens": -3, "cost": "much"}') == (None, None)
    assert external.usage("broken") == (None, None)


def test_a_forecaster_that_errs_costs_its_row_and_not_the_run(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    class Odd(Provider):
        """Refuses one simulation, answers nonsense to another, cites what it never saw."""

        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            super().answer(key, path, body, index)
            if index == "0":
                return 400, b'{"error": "no"}'
            if index == "1":
                return 200, b'{"probability": 7}'
            return 200, b'{"probability": 0.4, "evidence_ids": ["never-shown"]}'

    with serving(Odd(latency=0.0)) as odd:
        path = config(home / "c.json", market, models=["market", odd.address()], num_sims=3)
        found = told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    for row in intervals(home, "r"):
        assert len(row["failures"]) == 2
        assert "refused" in row["failures"][0]["error"]
        assert "from 0 to 1" in row["failures"][1]["error"]
        said = row["decisions"][-1]
        assert said["probability"] == 0.4
        assert said["key_evidence_ids"] == []
        assert said["unshown_evidence_ids"] == ["never-shown"]
    assert found["leaks"]["admitted_after_t"] == 0
    assert told(capsys, "runs", "verify", "r")["sound"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"end_time": "2001-01-01T00:00:00Z"}, "end_time .* lies before start_time"),
        ({"interval_minutes": 0}, "interval_minutes.*greater than 0.*given 0"),
        ({"interval_minutes": "often"}, "interval_minutes.*given 'often'"),
        ({"num_sims": 0}, "num_sims.*given 0"),
        ({"models": []}, r"models.*at least 1.*given \[\]"),
        ({"models": ["gpt-9"]}, "models: unknown forecaster 'gpt-9': choose from"),
        ({"models": ["ftp://x/y"]}, "models: unknown forecaster"),
        ({"models": ["http://"]}, "names no host"),
        ({"models": ["http://me:secret@h/p"]}, "must hold no user"),
        ({"mode": "psychic"}, "mode.*'daytona_agent', 'direct_llm'.*given 'psychic'"),
        ({"mode": "hybrid"}, "mode: 'hybrid' needs a model"),
        ({"market_id": "SIMEX:none"}, "SIMEX:none"),
        ({"start_time": "2001-01-01T00:00:00Z"}, "start_time: .* before .*first price"),
        ({"end_time": "2090-01-01T00:00:00Z"}, "end_time: .* does not lie before the end"),
        ({"start_time": "yesterday"}, "start_time.*given 'yesterday'"),
        ({"search_config": {"max_results": 99}}, "max_results.*20.*given 99"),
    ],
)
def test_bad_configurations_are_refused_before_anything_is_spent(
    provider: Provider,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    change: dict[str, Any],
    says: str,
) -> None:
    path = config(home / "c.json", market, **{"models": ["market", provider.address()], **change})
    capsys.readouterr()
    assert cli(["backtest", "run", str(path), "--archive", str(sim)]) == 2
    err = capsys.readouterr().err
    assert re.search(says, err), err
    assert len(err.strip().splitlines()) == 1
    assert provider.log == []
    assert not (home / "data" / "runs").exists()


def test_a_dry_run_says_what_it_would_cost_and_asks_nothing(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=3)
    command = ["backtest", "run", str(path), "--archive", str(sim)]
    found = told(capsys, *command, "--dry-run")
    assert found["calls"] == [
        {
            "provider": provider.address(),
            "calls": 18,
            "tokens": None,
            "cost": None,
            "basis": "no cost of it is on record",
        }
    ]
    assert provider.log == []
    assert not (home / "workspace").exists()
    told(capsys, *command, "--run-id", "r")
    assert len(provider.log) == 18, "the prediction was right"
    again = told(capsys, *command, "--dry-run")["calls"][0]
    assert again["cost"] == pytest.approx(0.18)
    assert again["tokens"] == 126


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
    path = config(home / "c.json", market, models=["market", "http://127.0.0.1:9/none"])
    assert cli(["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r"]) == 3
    err = capsys.readouterr().err
    assert "no connection" in err
    assert "once it answers" in err
    assert "runs resume r" in err
    assert cli(["runs", "list"]) == 0
    assert "stopped" in capsys.readouterr().out


def test_a_fork_replays_its_prefix_for_free(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    one, two = provider.address("/one"), provider.address("/two")
    path = config(home / "c.json", market, models=["market", one], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    parent = intervals(home, "r")
    assert len(provider.log) == 12
    at = parent[4]["time"]
    told(capsys, "runs", "fork", "r", "--at", at, "--model", f"{one}={two}", "--new-id", "f")
    child = intervals(home, "f")
    assert len(provider.log) == 12 + 2 * 2, "the last two intervals, two simulations each"
    assert {asked.path for asked in provider.log[12:]} == {"/two"}
    for mine, theirs in zip(parent[:4], child[:4], strict=True):
        assert mine["digest"] == theirs["digest"]
    for row in child[4:]:
        assert {d["model_id"] for d in row["decisions"]} == {"baseline:market", two}
    state = told(capsys, "runs", "show", "f")
    assert (state["calls"], state["parent"]) == (4, "r")
    found = told(capsys, "runs", "diff", "r", "f")
    assert found["intervals"]["different"] == 2
    assert found["intervals"]["first"]["time"] == at
    assert told(capsys, "runs", "verify", "f")["sound"]
    for wrong, says in (
        (["--at", "1999-01-01", "--model", f"{one}={two}"], "outside the run"),
        (["--at", at, "--model", "baseline:drift=market"], "no such model"),
        (["--at", at, "--model", "x"], "OLD=NEW"),
        (["--at", "later", "--model", f"{one}={two}"], "--at"),
    ):
        assert cli(["runs", "fork", "r", *wrong]) == 2
        assert says in capsys.readouterr().err


def test_a_b_pairs_accuracy_with_cost(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    a = config(home / "free.json", market, models=["market"], mode="baseline")
    b = config(home / "paid.json", market, models=["market", provider.address()], num_sims=2)
    command = ["backtest", "ab", str(a), str(b), "--archive", str(sim), "--draws", "100"]
    found = told(capsys, *command, "--run-id", "x")
    free, paid = found["arms"]
    assert (found["shared"], found["first"]) == (6, "free")
    assert (free["calls"], free["difference"]) == (0, 0.0)
    assert paid["calls"] == 12
    assert paid["cost_per_forecast"] == pytest.approx(0.02)
    assert paid["difference"] == pytest.approx(free["brier"] - paid["brier"])
    assert free["skill_vs_market"] == 0.0
    told(capsys, *command, "--run-id", "x")
    assert len(provider.log) == 12, "finished arms are not run again"
    assert cli(command) == 0
    assert "better than free by" in capsys.readouterr().out
    trials = (home / "data" / "trials.jsonl").read_text().splitlines()
    assert len(trials) == 1, "one variant besides the market was tried, however often"
    assert cli(["backtest", "ab", str(a), "--archive", str(sim)]) == 2


def test_verify_finds_a_single_flipped_byte_in_every_file(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    assert cli(["runs", "verify", "r"]) == 0
    files = sorted(p for p in (Home(home).runs / "r").iterdir())
    assert len(files) == 12
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
    from beforehand.store.runs import open_run
    from beforehand.work.jobs import open_journal
    from beforehand.work.verify import sound, verify

    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    folder, stores = open_run(Home(home).runs, "r"), open_journal(Home(home))
    assert sound(verify(folder, *stores))
    chance = random.Random(0)
    for name in ("intervals.jsonl", "predictions.jsonl", "plan.json", "run.json", "events.jsonl"):
        file = folder.path / name
        data = file.read_bytes()
        for place in chance.sample(range(len(data)), 40):
            flipped = data[place] ^ (1 << chance.randrange(8))
            file.write_bytes(data[:place] + bytes([flipped]) + data[place + 1 :])
            assert not sound(verify(folder, *stores)), (name, place)
        file.write_bytes(data)
    assert sound(verify(folder, *stores))
    stores[0].database.close()


def test_files_lost_before_the_seal_are_written_anew(
    provider: Provider,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from beforehand.work.run import BacktestJob

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


def test_a_b_checks_every_arm_before_the_first_is_paid(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    good = config(home / "good.json", market, models=["market", provider.address()])
    begin = iso(market["first"] + timedelta(hours=21))
    bad = {
        "model": {"models": ["nobody"]},
        "market": {"market_id": "SIMEX:none"},
        "elsewhere": {"start_time": begin, "end_time": begin},
    }
    for name, change in bad.items():
        other = config(home / f"{name}.json", market, **change)
        capsys.readouterr()
        assert cli(["backtest", "ab", str(good), str(other), "--archive", str(sim)]) == 2, name
    assert cli(["backtest", "ab", str(good), str(good), "--archive", str(sim)]) == 2
    assert provider.log == []


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


def test_addresses_with_a_query_can_be_forked(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    one, two = provider.address("/f?a=1"), provider.address("/f?a=2")
    path = config(home / "c.json", market, models=["market", one])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    at = intervals(home, "r")[3]["time"]
    told(capsys, "runs", "fork", "r", "--at", at, "--model", f"{one}={two}", "--new-id", "f")
    assert len(provider.log) == 6 + 3
    found = told(capsys, "runs", "export", "f", "--format", "jsonl", "--out", str(home / "f"))
    rows = [json.loads(line) for line in (home / "f").read_text().splitlines()]
    assert found["rows"] == len(rows)
    assert sum(row["cost"] or 0 for row in rows) == pytest.approx(0.03), "what it paid itself"


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
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", "http://127.0.0.1:9/x"])
    command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r"]
    assert cli([*command, "--max-calls", "0"]) == 3
    config(path, market, models=["market"], mode="baseline")
    capsys.readouterr()
    assert cli(command) == 2
    assert "exists already" in capsys.readouterr().err


def test_tables_of_a_run(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    counted = {}
    for kind in ("csv", "jsonl", "parquet"):
        found = told(
            capsys, "runs", "export", "r", "--format", kind, "--out", str(home / f"t.{kind}")
        )
        counted[kind] = found["rows"]
    assert counted == {"csv": 18, "jsonl": 18, "parquet": 18}
    with (home / "t.csv").open() as file:
        from_csv = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (home / "t.jsonl").read_text().splitlines()]
    with duckdb.connect() as db:
        parquet = db.execute("SELECT * FROM read_parquet(?)", [str(home / "t.parquet")]).fetchall()
    assert [float(r["probability"]) for r in from_csv] == [r["probability"] for r in lines]
    assert [r[6] for r in parquet] == [r["probability"] for r in lines]
    assert sum(float(r["cost"] or 0) for r in from_csv) == pytest.approx(0.12)
    assert {r["outcome"] for r in lines} <= {0.0, 1.0}
    inside = Home(home).runs / "r" / "x.csv"
    assert cli(["runs", "export", "r", "--out", str(inside)]) == 2
    assert cli(["runs", "verify", "r"]) == 0


def needs(module: str) -> None:
    """The peers of the exports are an extra: CI has it."""
    try:
        __import__(module)
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail(f"{module} is not installed: CI needs the extra `exports`")
        pytest.skip(f"{module} is not installed: uv pip install -e '.[exports]'")


@pytest.mark.filterwarnings("ignore")
def test_galileo_traces_are_what_its_sdk_sends(
    provider: Provider,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs("galileo")
    from galileo import GalileoLogger
    from galileo.schema.trace import TracesIngestRequest

    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    out = home / "traces.json"
    assert (
        told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))["rows"] == 6
    )
    first = out.read_bytes()
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    assert out.read_bytes() == first, "the same run, the same bytes"
    body = json.loads(first)
    parsed = TracesIngestRequest.model_validate(body)
    assert [len(t.spans) for t in parsed.traces] == [4] * 6
    kinds = [span.type.value for span in parsed.traces[0].spans]
    assert kinds == ["retriever", "tool", "llm", "llm"]
    assert parsed.traces[0].spans[2].metrics.num_total_tokens == 7
    # The same traces through the SDK's own logger, with its hook instead of its network.
    monkeypatch.setenv("GALILEO_API_KEY", "none")
    received: list[TracesIngestRequest] = []
    logger = GalileoLogger(ingestion_hook=received.append, mode="batch")
    for trace in parsed.traces:
        logger.traces.append(trace)
    logger.flush()
    assert [t.name for t in received[0].traces] == [t["name"] for t in body["traces"]]


def test_galileo_traces_have_the_recorded_shape(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out, data: Path
) -> None:
    golden = json.loads((data / "galileo" / "traces_ingest_request.json").read_text())
    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    out = home / "traces.json"
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    mine = json.loads(out.read_text())
    assert mine.keys() == golden.keys()
    assert mine["traces"][0].keys() == golden["traces"][0].keys()
    theirs = {span["type"]: span for span in golden["traces"][0]["spans"]}
    for span in mine["traces"][0]["spans"]:
        assert span.keys() == theirs[span["type"]].keys(), span["type"]
    for kind in ("input", "output"):
        model = next(s for s in mine["traces"][0]["spans"] if s["type"] == "llm")
        assert type(model[kind]) is type(theirs["llm"][kind])


def test_spans_and_metrics_reach_a_collector(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    needs("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")

    class Collector(Provider):
        """Takes whatever is posted."""

        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            self.bodies[path] = body
            return 200, b""

    with serving(Collector()) as collector:
        collector.bodies = {}
        address = collector.address("")
        found = told(capsys, "runs", "export", "r", "--format", "otlp", "--out", address)
        bodies = collector.bodies
    spans = ExportTraceServiceRequest.FromString(bodies["/v1/traces"]).resource_spans[0]
    names = [span.name for span in spans.scope_spans[0].spans]
    assert len(names) == found["rows"]
    assert names.count("call") == 12
    assert {"run", "step walk", "step collect", "step score"} <= set(names)
    for span in spans.scope_spans[0].spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    metrics = ExportMetricsServiceRequest.FromString(bodies["/v1/metrics"]).resource_metrics[0]
    values = {
        m.name: m.sum.data_points[0].as_double or m.sum.data_points[0].as_int
        for m in metrics.scope_metrics[0].metrics
        if m.HasField("sum")
    }
    assert values["beforehand.calls"] == 12
    assert values["beforehand.cost"] == pytest.approx(0.12)
    assert cli(["runs", "export", "r", "--format", "otlp"]) == 2
    assert cli(["runs", "export", "r", "--format", "otlp", "--out", address]) == 1
    assert "is it up?" in capsys.readouterr().err


def test_the_forecaster_of_the_documents_is_the_market(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    page = (Path(__file__).parents[1] / "docs" / "durability.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", code.replace("8000", str(port))], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        address = f"http://127.0.0.1:{port}/forecast"
        path = config(home / "c.json", market, models=["market", address], num_sims=2)
        found = told(capsys, "backtest", "run", str(path), "--archive", str(sim))
    finally:
        process.kill()
        process.wait()
    rows = {row["forecaster"]: row for row in found["leaderboard"]}
    assert rows[address]["skill_vs_market"] == 0.0
    assert rows[address]["brier"] == rows["market"]["brier"]


def test_addresses() -> None:
    assert external.parse_rate("10/s")[0].calls == 10
    for bad in ("10", "x/s", "0/s", "10/day", "-1/s"):
        with pytest.raises(InputError, match="--rate"):
            external.parse_rate(bad)
