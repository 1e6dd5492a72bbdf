"""What is kept of models' decisions: paid once, resumed, forked, verified, exported."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.config import Home, Workspace
from beforehand.forecast.base import CallCounter, Context
from beforehand.forecast.code_mode import Agent, Asked
from beforehand.llm.ask import Models
from beforehand.llm.names import parse_model
from beforehand.records.rows import MarketSeen
from beforehand.runs.rows import read_jsonl
from beforehand.sandbox.engines import Sandbox
from experiments import Out, config, intervals, told
from modelserver import CODE, completion, model_server, sensible, wanted
from program import Program

MODEL = {"mode": "daytona_agent"}


def run(capsys: Out, path: Path, sim: Path, *more: str, code: int = 0) -> dict[str, Any]:
    arguments = ("backtest", "run", str(path), "--archive", str(sim), "--run-id", "r", *more)
    return told(capsys, *arguments, code=code)


def test_a_remote_run_is_paid_once(home: Path) -> None:
    """Daytona's runs pass the journal like any paid call."""
    used: list[str] = []

    class Recorder(CallCounter):
        def call(self, provider: str, *rest: Any, **more: Any) -> str:
            used.append(provider)
            return super().call(provider, *rest, **more)

    sandbox = Sandbox("jail")
    agent = Agent(Models([parse_model("scripted")], Workspace(Home(home))), sandbox)
    seen = Context("2025-01-01T00:00:00Z", MarketSeen("m", odds=0.4))
    asked = Asked("scripted", "scripted", seen, Recorder())
    (made,) = agent.attempts("code", asked, fallback=True)
    assert used == ["scripted"], "a local run is not paid for"
    assert made.answer is not None
    sandbox.engine = "daytona"
    sandbox._made["daytona"] = sandbox._get("jail")
    (again,) = agent.attempts("code", asked, fallback=True)
    assert used == ["scripted", "scripted", "daytona"]
    assert again.answer is not None
    assert again.trace.code == made.trace.code
    sandbox.close()


def test_killed_and_resumed_nothing_is_asked_twice(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """SIGKILL in the middle of a run with a model; the twin that was not killed is the same."""

    def slowly(body: dict[str, Any]) -> Any:
        time.sleep(0.15)
        return sensible(body)

    with model_server(slowly) as server:
        end = iso(market["first"] + timedelta(hours=40))
        path = config(home / "c.json", market, models=[server.model()], mode="hybrid", end_time=end)
        command = [sys.executable, "-m", "beforehand", "backtest", "run", str(path), "--archive"]
        command += [str(sim), "--run-id", "r", "--concurrency", "1"]
        started = Program(command, env={**os.environ}, stderr=subprocess.DEVNULL)
        while len(server.log) < 9:
            time.sleep(0.02)
        started.send_signal(signal.SIGKILL)
        started.wait()
        told(capsys, "runs", "resume", "r")
        assert 22 <= len(server.log) <= 24, "at most what was in flight is asked again"
        server.answer = sensible
        told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "twin")
    first, twin = (Home(home).runs / name for name in ("r", "twin"))
    for name in ("traces.jsonl", "predictions.jsonl", "resolutions.jsonl"):
        assert (first / name).read_bytes() == (twin / name).read_bytes()
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_a_fork_may_bring_a_model_in(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """A run of baselines, and from its middle on a model in the place of one."""
    models = ["baseline:market", "baseline:drift"]
    path = config(home / "c.json", market, models=models, mode="baseline")
    run(capsys, path, sim)
    at = iso(market["first"] + timedelta(hours=9))
    told(
        capsys,
        *("runs", "fork", "r", "--at", at, "--model", "drift=scripted", "--new-id", "f"),
    )
    rows = intervals(home, "f")
    spoke = [d["model_id"] for row in rows for d in row["decisions"]]
    assert spoke.count("scripted") == 3
    assert spoke.count("baseline:drift") == 3
    assert told(capsys, "runs", "verify", "f")["sound"]


def test_a_forged_trace_is_found(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["scripted"], **MODEL)
    run(capsys, path, sim)
    stored = Home(home).runs / "r" / "traces.jsonl"
    rows = list(read_jsonl(stored))
    rows[0]["code"] += "# and more\n"
    stored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = told(capsys, "runs", "verify", "r", code=1)
    (models,) = (check for check in found["checks"] if check["name"] == "models")
    assert models["wrong"] >= 1
    assert "no answer on record holds this code" in models["problems"][0]


def test_a_forged_output_is_found(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """Output and decisions changed alike, and sealed anew: the code, run again, says otherwise."""
    path = config(home / "c.json", market, models=["scripted"], **MODEL)
    run(capsys, path, sim)
    folder = Home(home).runs / "r"
    rows = list(read_jsonl(folder / "traces.jsonl"))
    for row in rows:
        row["output"] = '{"probability": 0.9999}'
    (folder / "traces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    decided = list(read_jsonl(folder / "intervals.jsonl"))
    for row in decided:
        row["decisions"][0]["probability"] = 0.9999
    (folder / "intervals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in decided))
    found = told(capsys, "runs", "verify", "r", code=1)
    (models,) = (check for check in found["checks"] if check["name"] == "models")
    assert models["wrong"] == 6
    assert "prints something else" in models["problems"][0]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"code": '{"probability": 0.3}'}),
        "```json\n" + json.dumps({"code": CODE}) + "\n```",
        json.dumps({"code": CODE, "probability": 0.9}),
    ],
    ids=["a value at the end", "a fence", "an extra key"],
)
def test_honest_runs_verify(
    content: str, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        return completion(content) if "code" in wanted(body) else sensible(body)

    with model_server(answer) as server:
        path = config(home / "c.json", market, models=[server.model()], mode="hybrid")
        run(capsys, path, sim)
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_the_export_knows_what_a_decision_cost(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """A fallback cost what the code before it did as well."""
    broken = completion(json.dumps({"code": "1/0"}))

    def answer(body: dict[str, Any]) -> Any:
        return broken if "code" in wanted(body) else sensible(body)

    with model_server(answer) as server:
        path = config(home / "c.json", market, models=[server.model()], **MODEL)
        run(capsys, path, sim, "--cost-per-call", "0.01")
    out = home / "rows.jsonl"
    told(capsys, "runs", "export", "r", "--format", "jsonl", "--out", str(out))
    rows = list(read_jsonl(out))
    assert [(row["tokens"], row["cost"]) for row in rows] == [(240, 0.02)] * 6
    assert all(row["latency_ms"] > 0 for row in rows)
    state = told(capsys, "runs", "show", "r")
    assert (state["calls"], state["tokens"]) == (12, 1440)
    assert state["cost"] == pytest.approx(0.12), "at the stated price, as nobody knows a better one"
    requests = told(capsys, "runs", "show", "r")["scores"]["decisions"]["models"]
    assert [model["requests"] for model in requests.values()] == [12]


def test_tokens_and_budget(market: dict[str, Any], sim: Path, home: Path, capsys: Out) -> None:
    with model_server() as server:
        path = config(home / "c.json", market, models=[server.model()], mode="direct_llm")
        assert cli(["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r",
                    "--max-calls", "4"]) == 3  # fmt: skip
        assert len(server.log) == 4
        capsys.readouterr()
        assert cli(["runs", "resume", "r", "--max-calls", "10"]) == 0
        assert len(server.log) == 6
    state = told(capsys, "runs", "show", "r")
    assert (state["calls"], state["tokens"]) == (6, 720)
