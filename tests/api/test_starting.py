"""Starting and stopping over HTTP: dry runs, keys, budgets, uploads, cancel, resume, fork."""

import csv
import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from apiserver import Api, api, pages
from serving import command
from test_refused import refused
from test_watching import told

from modelserver import model_server
from postgres import cluster

QUICK = {"every": "56d", "draws": 100, "placebo": 0, "archive": "sim"}
CSV = {"Content-Type": "text/csv"}


def test_a_dry_run_is_that_of_the_command_line(serving: Api) -> None:
    before = sorted(p.name for p in (serving.home / "data" / "runs").iterdir())
    body = {**QUICK, "forecasters": ["market", "drift", "scripted"]}
    mine = serving.post("/api/backtests?dry_run=true", body).json()
    done = command(
        serving.home, "backtest", "run", "--archive", "data/sim", "--every", "56d", "--forecasters",
        "market,drift,scripted", "--dry-run", "--json",
    )  # fmt: skip
    theirs = json.loads(done.stdout)
    assert mine == theirs
    assert mine["forecasts"] > 50
    assert mine["card"]["n_events"]["value"] > 20
    assert mine["lacks"] == []
    plan = serving.post("/api/asks?dry_run=true", {"question": "Merovia timber index?"}).json()
    assert plan["plan"]["tasks"]
    scout = serving.post("/api/scouts?dry_run=true", {"subject": "the Merovia timber index"}).json()
    assert scout["plan"]["dag"]["nodes"]
    assert sorted(p.name for p in (serving.home / "data" / "runs").iterdir()) == before


def test_the_documented_configuration_is_a_body_as_it_stands(serving: Api) -> None:
    """One ExperimentConfig, and a plain list: also of one market in several modes, each of which
    has a row of its own."""
    folder = serving.home / "data" / "runs" / "walk"
    walked = json.loads((folder / "config.json").read_text())["experiments"][0]
    documented = {
        "market_id": walked["market_id"], "start_time": walked["start_time"],
        "end_time": walked["start_time"], "interval_minutes": 1440, "num_sims": 1,
        "models": ["scripted"], "mode": "direct_llm",
        "search_config": {"max_results": 5, "query_mode": "template"},
    }  # fmt: skip
    one = serving.post("/api/backtests?dry_run=true", documented)
    assert one.status_code == 200, one.text
    body = [{**documented, "mode": mode} for mode in ("daytona_agent", "direct_llm", "hybrid")]
    three = serving.post("/api/backtests?dry_run=true", body)
    assert three.status_code == 200, three.text
    calls = [sum(row["calls"] for row in dry.json()["calls"]) for dry in (one, three)]
    assert calls == [1, 4], "of code, directly, and both"
    refused(
        serving.post("/api/backtests?dry_run=true", [documented] * 2), 422, "by two experiments"
    )


def test_a_run_is_the_one_of_the_command_line(serving: Api) -> None:
    """Started over HTTP it writes the same bytes as from the command line."""
    body = {**QUICK, "forecasters": ["market", "drift"], "run_id": "over_http", "seed": 5}
    answer = serving.post("/api/backtests", body)
    assert answer.status_code == 202
    assert answer.headers["location"] == "/api/runs/over_http"
    assert serving.ended("over_http")["status"] == "success"
    done = command(
        serving.home, "backtest", "run", "--archive", "data/sim", "--every", "56d", "--forecasters",
        "market,drift", "--draws", "100", "--placebo", "0", "--seed", "5", "--run-id", "by_hand",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder = serving.home / "data" / "runs"
    for name in ("intervals.jsonl", "predictions.jsonl", "leaderboard.csv", "config.json"):
        one = (folder / "over_http" / name).read_bytes().replace(b"over_http", b"RUN")
        other = (folder / "by_hand" / name).read_bytes().replace(b"by_hand", b"RUN")
        assert one == other, name
    assert serving.json("/api/runs/over_http/verify")["sound"]


def test_the_same_request_starts_once(serving: Api) -> None:
    """Twelve clients at once with one key, then again: one run. Another request under that key, or
    another request for that run's name, is refused."""
    body = {**QUICK, "forecasters": ["market"]}
    key = {"Idempotency-Key": "the-key-1"}
    with ThreadPoolExecutor(12) as pool:
        answers = [
            f.result()
            for f in [pool.submit(serving.post, "/api/backtests", body, **key) for _ in range(12)]
        ]
    names = {answer.json()["run_id"] for answer in answers if answer.status_code == 202}
    assert len(names) == 1, [a.text for a in answers]
    assert {answer.status_code for answer in answers} <= {202, 409, 503}
    (name,) = names
    assert serving.ended(name)["status"] == "success"
    again = serving.post("/api/backtests", body, **key).json()
    assert (again["run_id"], again["new"], again["status"]) == (name, False, "success")
    other = {**body, "forecasters": ["drift"]}
    refused(serving.post("/api/backtests", other, **key), 422, "was used for another request")
    refused(serving.post("/api/backtests", {**other, "run_id": name}), 422, "exists already")
    same = serving.post("/api/backtests", {**body, "run_id": name}).json()
    assert (same["run_id"], same["new"]) == (name, False)
    wrong = {"Idempotency-Key": "the-key-2"}
    refused(serving.post("/api/backtests", {**body, "every": "x"}, **wrong), 422)
    assert serving.post("/api/backtests", body, **wrong).json()["new"], (
        "what was refused took no key"
    )
    refused(serving.post("/api/backtests", {**body, "run_id": "latest"}), 422, "stands for")
    refused(serving.post("/api/backtests", {**body, "run_id": "../x"}), 422, "plain path segment")


def test_a_model_needs_a_budget(serving: Api) -> None:
    with model_server() as model:
        body = {**QUICK, "forecasters": [model.model()], "models": {"mode": "direct_llm"}}
        refused(serving.post("/api/backtests", body), 422, "limits.max_cost")
        assert not model.log
        dry = serving.post("/api/backtests?dry_run=true", body).json()
        assert dry["calls"][0]["calls"] > 20
        started = serving.post("/api/backtests", {**body, "limits": {"max_calls": 5}}).json()
        stopped = serving.ended(started["run_id"])
        assert (stopped["status"], stopped["calls"]) == ("stopped", 5)
        assert len(model.log) == 5
        again = serving.post(f"/api/runs/{started['run_id']}/resume", {"max_calls": 9})
        assert again.status_code == 202
        more = serving.ended(started["run_id"])
        assert (more["status"], more["calls"], len(model.log)) == ("stopped", 9, 9)


def test_cancel_resume_and_fork(serving: Api) -> None:
    with model_server(lambda body: 0.05) as model:
        body = {
            **QUICK, "forecasters": ["market", model.model()], "models": {"mode": "direct_llm"},
            "markets": [row["id"] for row in pages(serving, "/api/archives/sim/markets", 100)[:45]],
            "limits": {"max_calls": 10_000, "concurrency": 2}, "run_id": "slow",
        }  # fmt: skip
        assert serving.post("/api/backtests", body).status_code == 202
        while serving.json("/api/runs/slow")["calls"] < 4:
            time.sleep(0.1)
        refused(serving.post("/api/runs/slow/resume", {}), 409, "carried out")
        assert serving.post("/api/runs/slow/cancel", {}).json()["status"] in (
            "cancelling",
            "cancelled",
        )
        held = serving.ended("slow")
        assert held["status"] == "cancelled"
        sent = len(model.log)
        time.sleep(0.5)
        assert len(model.log) == sent, "no call is made after the cancellation"
        refused(serving.post("/api/runs/slow/cancel", {}), 422, "ended already")
        assert serving.post("/api/runs/slow/resume", {}).status_code == 202
        whole = serving.ended("slow")
        assert whole["status"] == "success"
        calls = pages(serving, "/api/runs/slow/calls", 500)
        assert len(model.log) == len(calls) == whole["calls"], "nothing was paid twice"
        costs = {row["forecaster"]: row for row in pages(serving, "/api/runs/slow/costs", 1)}
        assert set(costs) == {"market", model.model()}
        assert costs["market"] | {"forecasts": 0} == {"forecaster": "market", "forecasts": 0, "asked": 0, "tokens": 0, "cost": 0, "latency_ms": None}  # fmt: skip
        mine = costs[model.model()]
        assert (mine["asked"], mine["tokens"]) == (len(calls), sum(row["tokens"] for row in calls))
        assert mine["cost"] is None, "its price is not on record, which is not 0"
        assert mine["latency_ms"] > 0
        refused(serving.post("/api/runs/slow/resume", {}), 422, "finished")
        times = sorted(row["time"] for row in pages(serving, "/api/runs/slow/intervals", 500))
        fork = {"at": times[len(times) // 2], "models": [f"{model.model()}=scripted"]}
        refused(
            serving.post("/api/runs/slow/fork", {**fork, "at": "1999-01-01"}), 422, "lies outside"
        )
        made = serving.post("/api/runs/slow/fork", fork, **{"Idempotency-Key": "fork-1"})
        assert made.status_code == 202, made.text
        again = serving.post("/api/runs/slow/fork", fork, **{"Idempotency-Key": "fork-1"}).json()
        assert again["run_id"] == made.json()["run_id"]
        done = serving.ended(made.json()["run_id"])
        assert (done["status"], done["parent"]) == ("success", "slow")
        assert len(model.log) == len(calls), "a fork repeats at no cost"
        refused(serving.post("/api/runs/asked/fork", fork), 422, "cannot be forked")


def test_ask_and_scout(serving: Api) -> None:
    asked = serving.post("/api/asks", {"question": "Merovia timber index?", "run_id": "q1"})
    assert asked.status_code == 202
    found = serving.ended("q1")
    assert found["answer"]["question"] == "Merovia timber index?"
    graph = serving.json("/api/runs/q1/steps")["items"]
    assert graph[0]["id"] == "plan"
    assert any("plan" in step["deps"] for step in graph)
    assert {step["status"] for step in graph} == {"success"}
    scouted = serving.post("/api/scouts", {"subject": "the Merovia timber index", "run_id": "s1"})
    assert scouted.status_code == 202, scouted.text
    assert serving.ended("s1")["status"] == "success"
    names = {row["name"] for row in serving.json("/api/runs/s1/files", limit=1000)["items"]}
    plan = json.loads(serving.get("/api/runs/s1/files/plan.json").content)
    assert len(plan["dag"]["nodes"]) >= 4
    assert len([name for name in names if name.endswith(".json")]) > len(plan["dag"]["nodes"])
    assert serving.json("/api/runs/s1/steps")["items"]
    refused(serving.post("/api/asks", {"question": "?"}), 422)
    refused(serving.post("/api/asks", {"question": "x", "as_of": "2999-01-01"}), 422, "future")
    refused(serving.post("/api/scouts", {}), 422, "a subject or a plan")
    refused(serving.post("/api/scouts", {"plan": {"x": 1}}), 422)
    refused(
        serving.post("/api/asks", {"question": "Merovia?", "model": "openai:x"}), 422, "cost money"
    )


def test_a_csv_and_its_verdict(serving: Api) -> None:
    """The golden path over HTTP: the verdict is the command line's, the rows that cannot be scored
    are listed, the same upload scores once."""
    content = (serving.home / "mine.csv").read_bytes()
    answer = serving.post("/api/scores?archive=sim&name=mine&draws=200&placebo=0&run_id=up", content, **CSV, **{"Idempotency-Key": "u1"})  # fmt: skip
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/api/runs/up"
    found, held = answer.json(), serving.json("/api/runs/scored")
    assert found["headline"] == held["headline"]
    for mine, theirs in zip(
        found["scores"]["leaderboard"], held["scores"]["leaderboard"], strict=True
    ):
        same = {
            k
            for k in mine
            if k not in ("forecaster", "skill_ci_by", "deflated_lower", "deflated_upper")
        }
        assert {k: mine[k] for k in same} == {k: theirs[k] for k in same}
    rejected = pages(serving, "/api/runs/up/rejected", 10)
    assert rejected == pages(serving, "/api/runs/scored/rejected", 10)
    total = len(list(csv.reader(io.StringIO(content.decode())))) - 1
    assert found["scores"]["rows"]["scored"] + found["scores"]["rows"]["not_scored"] == total
    again = serving.post("/api/scores?archive=sim&name=mine&draws=200&placebo=0&run_id=up", content, **CSV, **{"Idempotency-Key": "u1"})  # fmt: skip
    assert (again.status_code, again.json()["run_id"]) == (200, "up")
    refused(
        serving.post("/api/scores?archive=sim&run_id=up", content, **CSV), 422, "exists already"
    )
    refused(
        serving.post("/api/scores?archive=sim&run_id=walk", content, **CSV), 422, "exists already"
    )
    rows = [dict(zip(("id", "time", "probability"), line.split(","), strict=True)) for line in content.decode().splitlines()[1:]]  # fmt: skip
    lines = b"\n".join(
        json.dumps({**r, "probability": float(r["probability"])}).encode() for r in rows
    )
    jsonl = serving.post("/api/scores?archive=sim&draws=200&placebo=0", lines, **{"Content-Type": "application/x-ndjson"})  # fmt: skip
    assert jsonl.status_code == 201, jsonl.text
    assert jsonl.json()["scores"]["rows"] == found["scores"]["rows"]
    refused(serving.post("/api/scores?archive=sim", b"id,time,probability\nx,y,z\n", **CSV), 422)
    refused(serving.post("/api/scores?archive=sim", b"\x00\xff" * 50, **CSV), 422)
    assert not list(Path("/tmp").glob("beforehand-upload-*"))


def test_a_busy_server_says_when(serving: Api) -> None:
    """No more runs at once than allowed: the next one is told to wait."""
    with model_server(lambda body: 0.3) as model:
        body: dict[str, Any] = {
            **QUICK, "forecasters": [model.model()], "models": {"mode": "direct_llm"},
            "limits": {"max_calls": 10_000, "concurrency": 1},
        }  # fmt: skip
        names, answers = list[str](), list[Any]()

        def start(i: int) -> None:
            answers.append(serving.post("/api/backtests", {**body, "run_id": f"busy{i}"}))

        threads = [threading.Thread(target=start, args=(i,)) for i in range(7)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        names = [a.json()["run_id"] for a in answers if a.status_code == 202]
        late = [a for a in answers if a.status_code == 503]
        assert 1 <= len(names) <= 4
        assert late
        assert all(refused(one, 503)["retry_after"] >= 1 for one in late)
        for i in range(7, 12):  # One after the other, until there is no more room.
            more = serving.post("/api/backtests", {**body, "run_id": f"busy{i}"})
            if more.status_code != 202:
                break
            names.append(more.json()["run_id"])
        refused(more, 503, "the most at once")
        for name in names:
            serving.post(f"/api/runs/{name}/cancel", {})
        for name in names:
            assert serving.ended(name)["status"] == "cancelled"


def test_with_postgres(tmp_path: Path, sim: Path) -> None:
    """Tokens, keys, runs and events in one Postgres: the same behaviour."""
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / "sim").symlink_to(sim)
    with cluster() as url:
        more = {"BEFOREHAND_DATABASE_URL": url}
        with api(home, "--archive", "data/sim", more=more) as served:
            body = {**QUICK, "forecasters": ["market", "drift"]}
            key = {"Idempotency-Key": "k"}
            first = served.post("/api/backtests", body, **key)
            assert first.status_code == 202, first.text
            name = first.json()["run_id"]
            assert served.ended(name)["status"] == "success"
            again = served.post("/api/backtests", body, **key).json()
            assert (again["run_id"], again["new"]) == (name, False)
            every = pages(served, f"/api/runs/{name}/log", 100)
            assert [event["number"] for event in every] == list(range(1, len(every) + 1))
            assert told(served.url, name) == every
            assert served.json(f"/api/runs/{name}/verify")["sound"]
    assert not (home / "workspace" / "access.db").exists()
