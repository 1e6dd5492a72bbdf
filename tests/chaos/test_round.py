"""A round from the crawl to the gap against vendors on loopback, killed -9 in every stage: nothing
lost, nothing paid twice, no event in two rounds, and every log as sealed."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from beforehand.cli.app import run as cli
from beforehand.clock import iso, parse_instant
from beforehand.config import Home
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from experiments import Out, told
from opened import vendor_of_open
from program import Program, run_program
from proofs import count
from test_a2a import Stranger, message
from vendor import Vendor, serving

DAYS, DAY, MINUTE = 3, timedelta(days=1), timedelta(minutes=1)
KILLS = count("kills of each stage of a round", 1, 4)
"""Kills of each stage."""
Check = Callable[[], None]


@pytest.fixture
def venue(sim_archive: Archive, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    vendor = vendor_of_open(sim_archive)
    with serving(vendor):
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        yield vendor


@pytest.fixture
def start(sim_archive: Archive) -> datetime:
    ends = sorted(r.known_at for r in Gateway(RecordedWorld(sim_archive)).full_view().resolutions())
    return ends[len(ends) // 3].replace(hour=12, minute=0, second=0, microsecond=0)


def at(instant: datetime, *order: str) -> list[str]:
    """A command that runs at an instant."""
    program = (
        "import sys, time_machine\nfrom beforehand.cli.app import run\n"
        f"with time_machine.travel({iso(instant)!r}, tick=True):\n    sys.exit(run(sys.argv[1:]))"
    )
    return [sys.executable, "-c", program, *order]


def in_flight(home: Path) -> set[tuple[str, int]]:
    """The calls that were sent and have no answer on record: their key, and which attempt it is."""
    with closing(sqlite3.connect(Home(home).journal, timeout=30)) as db:
        rows = db.execute("SELECT call_key, attempts FROM calls WHERE state = 'sent'")
        return set(rows.fetchall())


def killed(
    now: datetime,
    order: tuple[str, ...],
    codes: tuple[int, ...] = (0,),
    after: Check = lambda: None,
) -> int:
    """Run it, kill it after ever longer, and let it end, a minute later each time (a clock does not
    go back); how often it was still running. `after` is called after each kill."""
    hit = 0
    for n in range(KILLS):
        with Program(
            at(now + n * MINUTE, *order), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as one:
            time.sleep(0.6 + 0.45 * n)
            hit += one.poll() is None
            one.send_signal(signal.SIGKILL)
        after()
    last = at(now + KILLS * MINUTE, *order)
    done = run_program(last, capture_output=True, text=True, check=False)
    assert done.returncode in codes, done.stderr
    return hit


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_three_days_killed_in_every_stage(
    venue: Vendor, home: Path, sim: Path, start: datetime, capsys: Out
) -> None:
    asked = Counter[str]()

    def forecast(params: Any) -> Any:
        data = next(part["data"] for part in params["message"]["parts"] if "data" in part)
        event = data["event"]
        asked[f"{event['id']} {event['forecast_at']}"] += 1
        time.sleep(0.02)
        p = 0.9 * event.get("baseline_probability", 0.5) + 0.05
        return message({"data": {"probability": p, "analysis": "A little nearer to a half."}})

    stranger, hit, seen = Stranger(SendMessage=forecast), 0, dict[str, str]()
    cut = set[tuple[str, int]]()
    with serving(stranger.vendor):
        names = f"market,drift,agent:purple,scripted,far=a2a:{stranger.url}"
        told(
            capsys, "backtest", "run", "--archive", str(sim), "--forecasters", names, "--every", "90d",
            "--mode", "direct_llm", "--draws", "100", "--placebo", "0", "--run-id", "r",
        )  # fmt: skip
        asked.clear()
        rounds = list[Path]()
        for day in range(DAYS):
            now = start + day * DAY
            limit = ["--limit", "12"] if day == 0 else []
            # The vendors live in this process, so its clock is the world's.
            with time_machine.travel(now, tick=True):
                hit += killed(now, ("bench", "crawl", *limit), (0, 2))
                folder = home / "data" / "rounds" / f"{now:%Y-%m-%d}"
                if not (folder / "round.json").is_file():
                    continue  # Nothing new was open that day.
                rounds.append(folder)
                for event in lines(folder / "events.jsonl"):
                    assert event["id"] not in seen, "no event is in two rounds"
                    seen[event["id"]] = folder.name
                later = now + timedelta(hours=1)
                live = ("bench", "live", "r", "--round", str(folder))
                hit += killed(later, live, after=lambda: cut.update(in_flight(home)))
        assert len(rounds) >= 2
        sealed = lines(home / "data" / "rounds" / "sealed.jsonl")
        about = Counter((line["id"], line["predictor"]) for line in sealed)
        assert set(about.values()) == {1}, "each was sealed once"
        assert set(about) == {
            (name, who) for name in seen
            for who in ("market", "drift", "agent:purple", "scripted", "far")
        }, "and none was lost"  # fmt: skip
        paid = sum(asked.values())
        with capsys.disabled():
            print(f"\n{len(asked)} questions, {paid} calls, {len(cut)} in flight at a kill")
        assert len(asked) == len(seen)
        assert paid - len(asked) <= len(cut), "a call in flight at a kill is sent again, no other"
    end = start + timedelta(days=400)
    with time_machine.travel(end, tick=True):
        for folder in rounds:
            out = str(folder / "resolutions.jsonl")
            order = (
                "bench",
                "resolve",
                "--mode",
                "record",
                "--events",
                str(folder / "events.jsonl"),
                "--out",
                out,
            )
            hit += killed(end, order, (0, 3))
            assert len(lines(Path(out))) > 0.9 * sum(name == folder.name for name in seen.values())
    each = [part for folder in rounds for part in ("--round", str(folder))]
    found = told(capsys, "bench", "gap", "r", *each)
    assert {one["forecaster"] for one in found["gaps"]} >= {"drift", "agent:purple", "far"}
    scored = sum(one["scored"] for one in found["rounds"])
    assert scored > 0.8 * 4 * len(seen)
    log = str(home / "data" / "rounds" / "sealed.jsonl")
    for folder in rounds:
        made = str(folder / "predictions.r.jsonl")
        score = [
            "bench",
            "evaluate",
            "--events",
            str(folder / "events.jsonl"),
            "--predictions",
            made,
            "--sealed",
            log,
        ]
        score += [
            "--resolutions",
            str(folder / "resolutions.jsonl"),
            "--archive",
            str(home / "data" / "archive"),
        ]
        assert cli([*score, "--draws", "100", "--placebo", "0", "--json"]) in (0, 3)
        done = json.loads(capsys.readouterr().out)
        assert done["audit"]["leakage_passed"] == done["audit"]["total"]
    assert cli(["bench", "verify", "--log", log]) == 0
    assert cli(["bench", "rounds"]) == 0
    assert hit >= KILLS, "some kills came in time"
    assert parse_instant(sealed[0]["sealed_at"]) < end
