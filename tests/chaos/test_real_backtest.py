"""All real markets, all baselines, two forecasters at addresses, three simulations: killed,
resumed, and equal to its twin."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from provider import Provider, serving

from beforehand.config import Home
from program import Program

pytestmark = pytest.mark.chaos

KILLS = 5


def run(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return Program(
        [sys.executable, "-m", "beforehand", *arguments],
        env={**os.environ, "BEFOREHAND_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end(process: subprocess.Popen[bytes]) -> bytes:
    out, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err.decode()
    return out


def done(home: Path) -> set[str]:
    if not Home(home).journal.is_file():
        return set()
    with closing(sqlite3.connect(Home(home).journal, timeout=30)) as db:
        try:
            return {k for (k,) in db.execute("SELECT call_key FROM calls WHERE state = 'done'")}
        except sqlite3.OperationalError:
            return set()


def files(home: Path) -> dict[str, bytes]:
    folder = Home(home).runs / "r"
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "log.json"}


@pytest.mark.real_data
def test_a_killed_backtest_over_real_markets_equals_its_twin(data: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for kind, source in (
        ("markets", data / "forecastbench" / "markets_resolved.jsonl"),
        ("documents", data / "evidence" / "top_news_urls"),
    ):
        paths = [source] if source.is_file() else sorted(source.glob("*.jsonl*"))
        for path in paths:
            end(run(tmp_path, "world", "import", kind, str(path), "--archive", str(archive)))
    with serving(Provider(latency=0.0, shaky=97)) as provider:
        addresses = f"{provider.address('/one')},{provider.address('/two')}"
        command = ["backtest", "run", "--archive", str(archive), "--run-id", "r"]
        command += ["--forecasters", f"all,{addresses}", "--sims", "3", "--json"]
        command += ["--every", "14d", "--draws", "200", "--placebo", "0"]
        twin = tmp_path / "twin"
        found = json.loads(end(run(twin, *command)))
        paid = len(provider.paid())
        home, chance = tmp_path / "home", random.Random(1)
        provider.log.clear()
        marks: list[tuple[int, set[str]]] = []
        for point in sorted(chance.sample(range(1, paid - 50), KILLS)):
            process = run(home, *command)
            while len(done(home)) < point and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            time.sleep(0.1)
            marks.append((len(provider.log), done(home)))
        end(run(home, *command))
        assert files(home) == files(twin)
        repeated = sum(
            len({asked.key for asked in provider.log[mark:]} & known) for mark, known in marks
        )
        assert repeated == 0
        end(run(home, "runs", "verify", "r"))
    names = [row["forecaster"] for row in found["leaderboard"]]
    assert len(names) == 10
    assert found["leaks"]["admitted_after_t"] == 0
    print(
        f"markets {found['validity']['n_questions']['value']}, forecasters {len(names)}, calls "
        f"{paid}, kills {KILLS}: equal to the twin; finished paid calls repeated {repeated}"
    )
