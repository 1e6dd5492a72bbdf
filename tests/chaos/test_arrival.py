"""Questions arrive in order of time, whatever happens: a server on loopback judges it."""

import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from crew import at_work, done, events, files, owners, program, workers
from provider import Judge, serving

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.errors import EXIT_OK
from experiments import Out, intervals, told


def backtest(archive: Path, judge: Judge, *more: str) -> list[str]:
    """Two addresses of one service, two simulations each: more than a thousand contexts."""
    both = f"{judge.address('/one')},{judge.address('/two')}"
    return [
        *("backtest", "run", "--archive", str(archive), "--run-id", "r", "--sims", "2"),
        *("--forecasters", f"market,drift,{both}", "--draws", "100", "--placebo", "0", *more),
    ]


def answered(home: Path) -> int:
    journal = Home(home).journal
    if not journal.is_file():
        return 0
    with closing(sqlite3.connect(journal, timeout=30)) as db:
        try:
            return int(db.execute("SELECT count(*) FROM calls WHERE state='done'").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


@pytest.mark.chaos
def test_in_order_after_kills_and_in_a_fork(sim: Path, tmp_path: Path) -> None:
    home, twin, chance = tmp_path / "home", tmp_path / "twin", random.Random(13)
    with serving(Judge(shaky=50)) as judge:
        command = backtest(sim, judge)
        whole = program(*command, home=twin, url=None)
        _, err = whole.communicate(timeout=300)
        assert whole.returncode == EXIT_OK, err.decode()
        calls = len(judge.paid())
        assert (judge.late, judge.early) == (0, 0)
        assert judge.judged >= 1000
        judge.judged = judge.early = 0
        judge.latest.clear()
        for point in sorted(chance.sample(range(20, calls - 20), KILLS)):
            process = program(*command, home=home, url=None)
            while answered(home) < point and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        last = program(*command, home=home, url=None)
        _, err = last.communicate(timeout=300)
        assert last.returncode == EXIT_OK, err.decode()
        assert judge.late == 0
        assert judge.judged >= 1000
        assert files(home) == files(twin)
        killed = judge.judged
        at = intervals(home, "r")[len(intervals(home, "r")) // 2]["time"]
        swap = f"{judge.address('/one')}={judge.address('/three')}"
        forked = program(
            "runs", "fork", "r", "--at", at, "--model", swap, "--new-id", "f", home=home, url=None
        )
        _, err = forked.communicate(timeout=300)
        assert forked.returncode == EXIT_OK, err.decode()
        assert judge.late == 0
        assert "f" in judge.latest
    print(f"out of order 0 of {killed} after {KILLS} kills, 0 of {judge.judged - killed} in a fork")


KILLS = 3


@pytest.mark.chaos
@pytest.mark.parametrize("n", [2, 4])
def test_in_order_over_workers(n: int, sim: Path, tmp_path: Path, url: str) -> None:
    with serving(Judge(latency=0.01)) as judge, workers(n, tmp_path, url) as crew:
        run = program(*backtest(sim, judge), home=tmp_path, url=url)
        busy: list[subprocess.Popen[bytes]] = []
        followed: list[int] = []
        while not busy and run.poll() is None:
            time.sleep(0.02)
            busy = at_work(url, crew) if done(url) > 200 else []
            followed += events(url, followed)
        busy[0].kill()
        _, err = run.communicate(timeout=500)
        assert run.returncode == EXIT_OK, err.decode()
        assert judge.late == 0
        assert judge.judged >= 1000
        # Whoever looks first takes what waits, so not every worker must have had a share.
        followed += events(url, followed)
        assert followed == list(range(1, len(followed) + 1)), "who follows misses no event"
        assert len(followed) > 2 * judge.judged, "every call begins and ends"
        assert owners(url) >= n // 2 + 1, "the one that was killed had a share, and others"
    print(f"{n} workers, one killed: out of order 0 of {judge.judged}")


def test_without_the_barrier_they_arrive_out_of_order(
    sim: Path, home: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: whoever can remember, walked like the memoryless."""
    monkeypatch.setattr("beforehand.jobs.backtest.order._memoryless", lambda cast: True)
    with serving(Judge()) as judge:
        assert cli(backtest(sim, judge, "--every", "28d")) == EXIT_OK
        assert judge.late > judge.judged / 10


def test_who_else_runs_changes_nobodys_context(sim: Path, home: Path, capsys: Out) -> None:
    """The same bodies alone and in company; what is shown of the past is one's own."""

    class Listener(Judge):
        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            self.bodies.setdefault((self.here.run, path), set()).add(body)
            return super().answer(key, path, body, index)

    with serving(Listener()) as judge:
        judge.bodies = {}  # type: ignore[attr-defined]
        common = ["backtest", "run", "--archive", str(sim), "--every", "21d", "--draws", "100"]
        common += ["--placebo", "0"]
        one, two = judge.address("/one"), judge.address("/two")
        for name, who in (("alone", one), ("company", f"drift,{two},market,{one},always:0.9")):
            told(capsys, *common, "--run-id", name, "--forecasters", who)
        bodies = judge.bodies  # type: ignore[attr-defined]
    assert bodies["alone", "/one"] == bodies["company", "/one"]
    for row in intervals(home, "company"):
        spoken = {d["model_id"] for d in row["decisions"]}
        assert spoken in (
            {one},
            {two},
            {f"baseline:{n}" for n in ("drift", "market", "always:0.9")},
        )
