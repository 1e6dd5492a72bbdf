"""A crash at every write, commit and fsync of a small run: each state resumes to the same bytes.

A shim copies the run's home before each system call that changes it. Each copy is what a kill -9
at that moment leaves; each is put back and gone on with. A few of them in the tests, all of them
with `make chaos-boundaries`.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from provider import Provider, serving

from beforehand.clock import from_us
from beforehand.config import Home, Workspace
from beforehand.engine.runs import start
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.records.backtest import ExperimentConfig
from beforehand.score.evaluate import Settings
from beforehand.store.archive.reader import Archive
from proofs import COUNTS, FULL

SAMPLE = 10
"""How many boundaries the tests try, evenly spread and at odd places."""


def request(archive: Path, address: str) -> BacktestRequest:
    """Two markets, four intervals, a baseline and a paid forecaster asked twice."""
    world = RecordedWorld(Archive(archive))
    ends = [r for r in Gateway(world).full_view().resolutions() if r.payout is not None][:2]
    configs = []
    for record in ends:
        first = from_us(world.series(record.market_id).known_at[0])
        configs.append(
            ExperimentConfig(
                market_id=record.market_id,
                start_time=first,
                end_time=first + timedelta(hours=12),
                interval_minutes=240,
                num_sims=2,
                models=["baseline:market", address],
                mode="external",
            )
        )
    return BacktestRequest(archive, configs=configs, settings=Settings(draws=100, placebo=0))


def result(home: Path) -> dict[str, bytes]:
    """The run's files, but for the log, and what the journal says was done."""
    folder = Home(home).runs / "r"
    found = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "log.json"}
    with closing(sqlite3.connect(Home(home).journal)) as db:
        tasks = db.execute("SELECT task_id, output_data FROM task_outputs ORDER BY 1").fetchall()
        calls = db.execute("SELECT call_key, state, answer FROM calls ORDER BY 1").fetchall()
        states = db.execute("SELECT status FROM runs").fetchall()
    return found | {"journal": json.dumps([tasks, calls, states]).encode()}


def rows(home: Path, sql: str) -> list[tuple[str]]:
    """What the journal of a killed run says; nothing where there is none yet."""
    if not Home(home).journal.is_file():
        return []
    with closing(sqlite3.connect(Home(home).journal)) as db:
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError:  # Killed before the tables were made.
            return []


PROGRAM = """
import pickle, sys
from beforehand.config import Workspace
from beforehand.engine.runs import start
start(pickle.load(open(sys.argv[1], 'rb')), Workspace.from_environment(), 'r')
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail("no C compiler here: CI needs one (apt-get install gcc libc6-dev)")
        pytest.skip("no C compiler here: the crash test preloads a small shim")
    out = tmp_path_factory.mktemp("shim") / "boundary.so"
    source = Path(__file__).with_name("boundary.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", out, source, "-ldl", "-lpthread"], check=True
    )
    return out


def test_every_boundary_resumes_to_the_same_bytes(shim: Path, sim: Path, tmp_path: Path) -> None:
    import pickle

    home, copies = tmp_path / "crash", tmp_path / "copies"
    home.mkdir()
    copies.mkdir()
    with serving(Provider(latency=0.0)) as provider:
        asked = request(sim, provider.address())
        (tmp_path / "request").write_bytes(pickle.dumps(asked))
        env = {
            **os.environ,
            "LD_PRELOAD": str(shim),
            "BEFOREHAND_HOME": str(home),
            "BOUNDARY_HOME": str(home),
            "BOUNDARY_OUT": str(copies),
        }
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "request")],
            env=env,
            check=True,
            timeout=600,
        )
        expected = result(home)
        paid = len(provider.paid())
        states = sorted(p for p in copies.iterdir() if p.is_dir())
        kinds = Counter(p.read_text().strip() for p in copies.glob("*.what"))
        assert {"write", "pwrite", "rename", "fsync", "unlink"} <= kinds.keys()
        assert len(states) == sum(kinds.values()) > 200
        chosen = states if FULL else states[:: max(1, len(states) // SAMPLE)]
        COUNTS["states of a crashed run, each resumed"] = (len(chosen), len(states))
        repeated = 0
        for number, state in enumerate(chosen):
            shutil.rmtree(home)
            shutil.copytree(state, home, symlinks=True)
            # Looked up in the copy: opening a journal already mends it.
            before = {
                key for (key,) in rows(state, "SELECT call_key FROM calls WHERE state='done'")
            }
            mark = len(provider.log)
            if rows(state, "SELECT status FROM runs") != [("success",)]:
                start(asked, Workspace(Home(home)), "r")
            assert result(home) == expected, f"{state.name} of {len(states)}"
            again = {a.key for a in provider.log[mark:]}
            repeated += len(again & before)
            assert len(provider.log) - mark == paid - len(before)
            if FULL and number % 100 == 0:
                print(f"{number} of {len(chosen)}", flush=True)
        assert repeated == 0
        print(
            f"boundaries {len(states)} ({dict(kinds)}), tried {len(chosen)}: every one resumed to "
            f"the same bytes; finished paid calls repeated: {repeated}"
        )
