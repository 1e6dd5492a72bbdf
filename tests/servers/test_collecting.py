"""Forecasts of unmodified MCP clients: gathered by `collect`, asked in a backtest, FutureSim's days."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from serving import command, environment, over_http, served, token

from beforehand.forecast.programs import can_hide
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from program import Program

AGENT = Path(__file__).parent / "mcp_agent.py"
FEW = ("--every", "30d", "--markets", "SIMEX:m0000,SIMEX:m0001,SIMEX:m0003")


def collected(home: Path, sim: Path, *more: str, client: str = f"{sys.executable} {AGENT}") -> Any:
    out = () if "--out" in more else ("--out", "c.csv")
    words = ["collect", "--archive", str(sim), *FEW, *out, *more, "--", *client.split()]
    return command(home, *words)


def rows_of(home: Path, name: str = "c.csv") -> list[dict[str, str]]:
    with (home / name).open() as lines:
        return list(csv.DictReader(lines))


def test_a_client_that_copies_the_price_is_the_market(tmp_path: Path, sim: Path) -> None:
    done = collected(tmp_path, sim)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    assert len(rows) >= 5
    assert all(row["probability"] for row in rows)
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    again = collected(tmp_path, sim)
    assert "0 instants asked" in again.stdout
    other = collected(tmp_path, sim, "--name", "other")
    assert other.returncode == 2
    assert "begun with another name" in other.stderr
    scored = command(tmp_path, "score", "c.csv", "--archive", str(sim), "--draws", "100", "--placebo", "0", "--json")  # fmt: skip
    board = {row["forecaster"]: row for row in json.loads(scored.stdout)["leaderboard"]}
    assert board["client"]["brier"] == board["market"]["brier"]
    assert board["client"]["verdict"] == "is the market"


def test_killed_and_resumed(tmp_path: Path, sim: Path) -> None:
    """What is on record is not asked again; killed in the middle of an instant, that one is."""
    slow = tmp_path / "slow.sh"
    slow.write_text(
        f"#!/bin/sh\necho $BEFOREHAND_AS_OF >> {tmp_path}/asked\n{sys.executable} {AGENT}\n"
    )
    slow.chmod(0o755)
    words = ["collect", "--archive", str(sim), *FEW, "--out", "c.csv", "--", str(slow)]
    started = Program(
        [sys.executable, "-m", "beforehand", *words],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    asked = tmp_path / "asked"
    while not asked.is_file() or len(asked.read_text().split()) < 2:
        assert started.poll() is None, "it ended before it was killed"
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    done = collected(tmp_path, sim, client=str(slow))
    assert done.returncode == 0, done.stderr
    times = asked.read_text().split()
    twice = {one for one in times if times.count(one) > 1}
    assert len(twice) <= 1
    assert {row["time"] for row in rows_of(tmp_path)} == set(times)


def test_a_client_that_fails_is_named(tmp_path: Path, sim: Path) -> None:
    done = collected(tmp_path, sim, client="false")
    assert done.returncode == 1
    assert "failed at 3 instants in a row" in done.stderr
    silent = collected(tmp_path, sim, "--out", "d.csv", client="true")
    assert silent.returncode == 0, silent.stderr
    assert "0 forecasts" in silent.stdout
    assert not any(row["probability"] for row in rows_of(tmp_path, "d.csv"))


@pytest.mark.skipif(not can_hide(), reason="bubblewrap does not work here")
def test_a_client_sees_its_own_question_alone(tmp_path: Path, sim: Path) -> None:
    """In a home that had nothing yet: not the server's log, nor what others were handed."""
    other = "client-other/mcp.json"
    look = tmp_path / "look.sh"
    look.write_text(f"#!/bin/sh\ncat $BEFOREHAND_QUESTION >> asked\nfind {tmp_path}/data >> seen\n")
    look.chmod(0o755)
    assert not (tmp_path / "data").exists()
    assert collected(tmp_path, sim, client=str(look)).returncode == 0
    (desk,) = (tmp_path / "data" / "collecting").iterdir()
    assert (desk / "server.log").is_file(), "there is something to be seen"
    (tmp_path / "data" / "collecting" / other).parent.mkdir()
    (tmp_path / "data" / "collecting" / other).write_text("{}")
    assert collected(tmp_path, sim, "--out", "d.csv", client=str(look)).returncode == 0
    files = {Path(line).name for line in (tmp_path / "seen").read_text().split() if "." in line}
    assert files == {"question.json", "mcp.json"}
    seen = (tmp_path / "seen").read_text()
    assert "client-other" not in seen
    assert "archive" not in seen
    assert '"markets"' in (tmp_path / "asked").read_text()


def test_in_a_backtest(tmp_path: Path, sim: Path) -> None:
    entry = f"market,mine=mcp:{sys.executable} {AGENT} 0.1"
    run = ("backtest", "run", "--archive", str(sim), *FEW, "--draws", "100", "--placebo", "0")
    done = command(tmp_path, *run, "--forecasters", entry, "--run-id", "r")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "data/runs/r/predictions.jsonl").read_text().splitlines()
    said = [json.loads(line) for line in lines]
    by = {name: {} for name in ("market", "mine")}  # type: dict[str, dict[Any, float]]
    for one in said:
        name = one["metadata"]["predictor_id"].rpartition(":")[2]
        by[name][one["id"], one["metadata"]["timestamp"]] = one["prediction"]["probability"]
    assert by["mine"]
    for key, p in by["mine"].items():
        assert p == pytest.approx(min(by["market"][key] + 0.1, 1.0))
    assert command(tmp_path, "runs", "verify", "r").returncode == 0


def test_futuresim(tmp_path: Path, sim: Path, sim_archive: Archive) -> None:
    """Three tools; a day at a time; nothing from after today; what ended is told once it is known."""
    days = "2025-03-01T00:00:00Z..2025-03-20T00:00:00Z"
    full = Gateway(RecordedWorld(sim_archive)).full_view()
    ends = {r.market_id: r for r in full.resolutions()}

    async def play(url: str, text: str) -> list[Any]:
        seen = list[Any]()
        async with over_http(url, text) as client:
            tools = (await client.list_tools()).tools
            assert {t.name for t in tools} == {"search_news", "submit_forecasts", "next_day"}

            async def call(name: str, **given: Any) -> Any:
                answer = await client.call_tool(name, given)
                assert not answer.is_error, answer.content[0].text
                return json.loads(answer.content[0].text)

            sent = await call(
                "submit_forecasts", forecasts=[{"qid": name, "answer": "60%"} for name in ends]
            )
            assert sent["as_of"] == "2025-03-01T00:00:00Z"
            known = {name for name, r in ends.items() if r.known_at.isoformat() <= "2025-03-01"}
            assert {one["id"] for one in sent["refused"]} >= known
            for _ in range(25):
                news = await call("search_news", query="index", max_results=20)
                assert all(one["date"] <= news["date"] for one in news["articles"])
                moved = await call("next_day")
                for one in moved["resolved"]:
                    assert ends[one["id"]].known_at.isoformat()[:10] <= moved["date"][:10]
                seen.append(moved)
                if moved["done"]:
                    break
        return seen

    answers = tmp_path / "answers.jsonl"
    with served(tmp_path, "--archive", str(sim), "--answers", str(answers), "--days", days) as one:
        text = token(tmp_path, "--user", "ann", "--servers", "all")
        seen = anyio.run(play, one.url, text)
        assert len(seen) == 19
        assert any(day["resolved"] for day in seen)
        anyio.run(_outside, one.url, text)
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert {line["time"] for line in lines if "id" in line} == {"2025-03-01T00:00:00Z"}
    assert {line["user"] for line in lines} == {"ann"}
    with served(tmp_path, "--archive", str(sim), "--answers", str(answers), "--days", days) as one:
        (last,) = anyio.run(_once, one.url, text)
        assert last["done"], "the day is known after a restart"


async def _outside(url: str, text: str) -> None:
    async with over_http(url, text) as client:
        with pytest.raises(Exception, match="Unknown tool"):
            await client.call_tool("get_prices", {"ids": ["SIMEX:m0000"]})


async def _once(url: str, text: str) -> list[Any]:
    async with over_http(url, text) as client:
        answer = await client.call_tool("next_day", {})
        return [json.loads(answer.content[0].text)]
