"""Experiments as people run them: forecasters at addresses, simulations, forks, A/B, refusals."""

import json
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.errors import InputError
from beforehand.forecast.schemes import http
from beforehand.store.journal.calls import Usage
from beforehand.store.trials import read_trials
from experiments import Out, config, intervals, told
from program import Program


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
        ('{"probability": "5 or 6"}', "from 0 to 1"),
        ('{"probability": true}', "from 0 to 1"),
        ('{"probability": NaN}', "JSON object"),
        ('{"p": 0.5}', "without a field `probability`: it has p"),
        ('{"probability": 0.5, "rationale": 3}', "not text"),
        ('{"probability": 0.5, "evidence_ids": "x"}', "not a list"),
    ],
)
def test_answers_that_cannot_be_used(answer: str, reason: str) -> None:
    with pytest.raises(http.BadAnswer, match=reason):
        http.parse("http://x/y", answer)


def test_what_an_answer_may_hold() -> None:
    said = http.parse("http://x", '{"probability": 0, "rationale": "r", "evidence_ids": ["a", 7]}')
    assert (said.probability, said.rationale, said.evidence_ids) == (0.0, "r", ["a", "7"])
    assert http.Address.usage('{"tokens": {"in": 3, "out": 4}, "cost": 0.5}') == Usage(7, 0.5)
    assert http.Address.usage('{"tokens": -3, "cost": "much"}') == Usage(None, None)
    assert http.Address.usage("broken") == Usage(None, None)


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
        ({"models": ["gpt-9"]}, "forecasters: unknown forecaster 'gpt-9': choose from"),
        ({"models": ["ftp://x/y"]}, "forecasters: unknown forecaster"),
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


def test_one_market_in_several_modes_is_a_plain_list(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """Each mode is a row of its own, in the same run."""
    modes = ("daytona_agent", "direct_llm", "hybrid")
    whole = [
        json.loads(config(home / "c.json", market, models=["scripted"], mode=mode).read_text())
        for mode in modes
    ]
    (home / "c.json").write_text(json.dumps(whole))
    made = told(
        capsys, "backtest", "run", str(home / "c.json"), "--archive", str(sim), "--run-id", "r"
    )
    assert {row["forecaster"] for row in made["leaderboard"]} >= {f"scripted-{m}" for m in modes}
    said = {(d["model_id"], d["mode"]) for row in intervals(home, "r") for d in row["decisions"]}
    assert ("scripted-direct_llm", "direct_llm") in said
    assert said >= {("scripted-hybrid", "daytona_agent"), ("scripted-hybrid", "direct_llm")}
    assert told(capsys, "runs", "verify", "r")["sound"]


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
            "seconds_a_call": None,
            "basis": "no cost of it is on record",
        }
    ]
    assert (found["markets"], found["forecasts"], found["instants"]) == (1, 6, 6)
    waits = found["in_order"]
    assert (waits["instants"], waits["rounds"], waits["seconds"]) == (6, 6, None)
    narrow = told(capsys, *command, "--dry-run", "--concurrency", "2")["in_order"]
    assert narrow["rounds"] == 12, "three simulations, two at a time: two rounds an instant"
    assert provider.log == []
    assert not (home / "workspace").exists()
    told(capsys, *command, "--run-id", "r")
    assert len(provider.log) == 18, "the prediction was right"
    again = told(capsys, *command, "--dry-run")["calls"][0]
    assert again["cost"] == pytest.approx(0.18)
    assert again["tokens"] == 126
    waits = told(capsys, *command, "--dry-run")["in_order"]
    assert waits["seconds"] == pytest.approx(6 * again["seconds_a_call"])
    limited = told(capsys, *command, "--dry-run", "--rate", "1/s")["in_order"]
    assert limited["seconds"] == 18.0, "the limit costs more than the order"
    assert cli([*command, "--dry-run"]) == 0
    assert "6 instants wait for each other, 6 rounds" in capsys.readouterr().out
    assert cli([*command, "--dry-run", "--max-calls", "10", "--max-cost", "1"]) == 0
    said = capsys.readouterr().out
    assert "it will stop at --max-calls 10 of the 18 calls that all of it takes" in said
    assert "--max-cost 1 of" not in said, "the costs of its calls so far come to 0.18"


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
    said = capsys.readouterr().out
    assert "better than free by" in said
    assert f"paid: {provider.address()} may remember" in said, "it was asked by the run before"
    assert not any(arm["may_remember"] for arm in found["arms"])
    trials = read_trials(home / "data" / "trials.jsonl")
    assert len([one for one in trials if one["family"] == "backtest"]) == 1, (
        "one variant besides the market was tried, however often"
    )
    assert cli(["backtest", "ab", str(a), "--archive", str(sim)]) == 2


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


def test_the_forecaster_of_the_documents_is_the_market(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    page = (Path(__file__).parents[1] / "docs" / "durability.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = Program(
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
    assert http.parse_rate("10/s")[0].calls == 10
    for bad in ("10", "x/s", "0/s", "10/day", "-1/s"):
        with pytest.raises(InputError, match="--rate"):
            http.parse_rate(bad)
