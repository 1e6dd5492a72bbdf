"""A run's events over SSE: every one once and in order, for many watchers, over restarts of the
server and of the run."""

import json
import os
import signal
import socket
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from apiserver import Api, api, pages
from serving import command

from modelserver import model_server
from proofs import FULL, count

# How many watch, and after how many events those leave that come back: clients and server share
# the machine's cores.
WATCHERS, STAY = (count("watchers of one run", 6, 200), 60 if FULL else 2)


def told(url: str, run_id: str, after: int = 0, most: int = 10**9) -> list[dict[str, Any]]:
    """What one connection is told, until it ends or has `most`."""
    found: list[dict[str, Any]] = []
    headers = {"Last-Event-ID": str(after)}
    with httpx2.stream(
        "GET", f"{url}/api/runs/{run_id}/events", headers=headers, timeout=60
    ) as answer:
        if answer.status_code == 204:
            return found
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        number = None
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
                assert found[-1]["number"] == number
                if len(found) >= most:
                    break
    return found


def test_the_events_of_a_finished_run(serving: Api) -> None:
    every = pages(serving, "/api/runs/walk/log", 50)
    assert [event["number"] for event in every] == list(range(1, len(every) + 1))
    assert told(serving.url, "walk") == every
    assert told(serving.url, "walk", 7) == every[7:]
    assert told(serving.url, "walk", len(every)) == [], "204: there is no more to come"
    assert {"run begun", "step begun", "step ended", "call sent", "call ended", "run ended"} <= {e["what"] for e in every}  # fmt: skip
    watched = command(serving.home, "runs", "watch", "walk", "--events")
    assert [json.loads(line) for line in watched.stdout.splitlines()] == every
    calls = [e["detail"] for e in every if e["what"] == "call ended"]
    assert calls
    assert all("cost" in one or "state" in one or one for one in calls)
    for bad in ("x", "-1", str(2**70)):
        answer = httpx2.get(f"{serving.url}/api/runs/walk/events", headers={"Last-Event-ID": bad})
        assert answer.status_code == 422
    assert serving.get("/api/runs/nope/events").status_code == 404


def test_watchers_of_a_running_run(serving: Api, sim: Path) -> None:
    """Many watchers from the start, some that leave and come back: each event once, in order."""
    body = {"forecasters": ["drift", "scripted"], "every": "56d", "draws": 100, "placebo": 0, "archive": "sim"}  # fmt: skip
    started = serving.post("/api/backtests", body).json()
    run_id = started["run_id"]
    found: list[list[dict[str, Any]]] = [[] for _ in range(WATCHERS)]

    def watch(i: int) -> None:
        while True:
            more = told(serving.url, run_id, len(found[i]), 10**9 if i % 3 else STAY)
            found[i] += more
            if not more:
                return

    threads = [threading.Thread(target=watch, args=(i,)) for i in range(WATCHERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(150)
    assert serving.ended(run_id)["status"] == "success"
    every = pages(serving, f"/api/runs/{run_id}/log", 200)
    assert len(every) > 20
    for mine in found:
        assert [e["number"] for e in mine] == list(range(1, len(every) + 1))
        assert mine == every


def test_a_long_run_is_told_to_its_end(made: Path) -> None:
    """Two and a half thousand events of a finished run, on one connection."""
    journal = made / "workspace" / "orchestrator_results.db"
    with sqlite3.connect(journal) as db:
        db.execute("DELETE FROM events WHERE run_id = 'benched'")
        db.executemany(
            "INSERT INTO events VALUES ('benched', ?, '2026-01-01T00:00:00Z', 'step begun', 's', '{}')",
            [(n,) for n in range(1, 2501)],
        )
    db.close()
    with api(made, "--archive", "data/sim") as served:
        for _ in range(3):
            assert [e["number"] for e in told(served.url, "benched")] == list(range(1, 2501))
        assert [e["number"] for e in told(served.url, "benched", 1999)] == list(range(2000, 2501))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_restart_loses_and_repeats_nothing(tmp_path: Path, sim: Path) -> None:
    """The server is killed twice while a run is under way, and the run's own process once: it goes
    on, its watcher gets every event once, and no call is sent twice."""
    with model_server(lambda body: 0.05) as model:
        model_name = model.model()
        home, port = tmp_path / "home", _free_port()
        (home / "data").mkdir(parents=True)
        (home / "data" / "sim").symlink_to(sim)
        seen: list[dict[str, Any]] = []
        stop = threading.Event()

        def watch(run_id: str) -> None:
            while not stop.is_set():
                try:
                    more = told(f"http://127.0.0.1:{port}", run_id, len(seen), 3)
                    seen.extend(more)
                    if not more and seen and seen[-1]["what"] == "run ended":
                        return
                except (httpx2.HTTPError, AssertionError):
                    time.sleep(0.05)

        body = {
            "forecasters": [model_name], "every": "56d", "draws": 100, "placebo": 0, "run_id": "long",
            "models": {"mode": "direct_llm"}, "limits": {"max_calls": 100_000, "concurrency": 2},
        }  # fmt: skip
        watcher = threading.Thread(target=watch, args=("long",))
        for turn in range(3):
            with api(home, "--archive", "data/sim", port=port) as served:
                if turn == 0:
                    assert served.post("/api/backtests", body).status_code == 202
                    watcher.start()
                else:  # Sent again while its process is under way, it starts nothing.
                    again = served.post("/api/backtests", body)
                    assert (again.status_code, again.json()["new"]) == (202, False), again.text
                if turn == 2:
                    break
                before = len(seen)
                end = time.monotonic() + 60
                while len(seen) < before + 12 and time.monotonic() < end:
                    time.sleep(0.05)
                if turn == 1:
                    _kill_run("long")
                served.kill()
        with api(home, "--archive", "data/sim", port=port) as served:
            assert served.ended("long", 120)["status"] == "success"
            watcher.join(60)
            stop.set()
            every = pages(served, "/api/runs/long/log", 500)
            calls = pages(served, "/api/runs/long/calls", 500)
        assert [e["number"] for e in seen] == list(range(1, len(every) + 1))
        assert seen == every
        assert any(e["what"] == "run resumed" for e in every), "the killed one was carried on"
        assert len(calls) == len({(c["question"], c["instant"], c["simulation"]) for c in calls})
        assert {c["state"] for c in calls} == {"done"}
        paid = sum(1 for e in every if e["what"] == "call ended" and e["detail"].get("state", "done") == "done")  # fmt: skip
        assert paid == len(calls), "each call was answered once"
        assert len(model.log) <= len(calls) + 2, "those in flight at the kill alone are sent again"


def _kill_run(run_id: str) -> None:
    """End the process that carries out a run."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"resume" in line and run_id.encode() in line:
                os.kill(int(entry.name), signal.SIGKILL)
                return
    pytest.fail("no process carries out the run")
