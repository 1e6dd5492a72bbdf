"""The engine against its floor: asyncio and one committed SQLite row a step, in the same run.

Run: `make bench` (or `python bench/engine.py`). Each case runs in a process of its own.
"""

import asyncio
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

STEPS, HELD, HOLD_S, CAP = 1000, 1000, 0.05, 64


def floor(n: int) -> dict[str, float]:
    """asyncio, and one committed row a step."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "floor.db", isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("CREATE TABLE steps (id TEXT PRIMARY KEY, output TEXT)")

        async def step(i: int) -> None:
            await asyncio.sleep(0)
            db.execute("INSERT INTO steps VALUES (?, ?)", (f"a/{i}", "1"))

        async def all_steps() -> None:
            for i in range(n):
                await step(i)

        wall, cpu = time.perf_counter(), time.process_time()
        asyncio.run(all_steps())
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def ours(n: int, hold: float, cap: int, again: bool = False) -> dict[str, float]:
    """n steps of one node, driven; `again` measures the second drive, over what is on record."""
    from beforehand.config import Home
    from beforehand.engine.driver import drive
    from beforehand.engine.plan import Plan, Step
    from beforehand.engine.runtime import Runtime, ThreadExecutor
    from beforehand.store.database import Database
    from beforehand.store.journal.journal import Journal

    def act(args: Any, outputs: Any, context: Any) -> int:
        if hold:
            time.sleep(hold)
        return 1

    steps = [Step(f"a/{i}", "x", {"i": i}) for i in range(n)]
    job: Any = SimpleNamespace(plan=Plan("r", steps), actions={"x": act})
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        database = Database(home.journal)
        journal = Journal(database)
        journal.enter("r", "bench", {}, "f", folder)
        for _ in range(2 if again else 1):
            start = time.perf_counter()
            runtime = Runtime(journal, lambda row: job, ThreadExecutor(cap), cap)
            with runtime:
                found["launch"] = time.perf_counter() - start
                wall, cpu = time.perf_counter(), time.process_time()
                assert drive(job, runtime).status == "success"
                found["wall"] = time.perf_counter() - wall
                found["cpu"] = time.process_time() - cpu
    found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def chunks() -> dict[str, float]:
    """A walk with a baseline: what the engine adds to each chunk of it."""
    from beforehand.clock import SystemClock
    from beforehand.config import Home, Workspace
    from beforehand.engine.runs import Reporter, start
    from beforehand.jobs.backtest.backtest_job import BacktestRequest
    from beforehand.runs.query import need_journal
    from beforehand.score.evaluate import Settings
    from beforehand.store.archive.writer import ArchiveWriter
    from beforehand.world.render import records
    from beforehand.world.simulate import SimConfig

    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive"
        ArchiveWriter(archive).add(
            records(SimConfig(seed=1, dates=200)),
            importer="simulate",
            source="bench",
            source_digest="bench",
            recorded_at=SystemClock().now(),
        )
        times: dict[str, float] = {}

        def progress(step: str, done: int, total: int) -> None:
            times.setdefault("start" if step == "starting" else step, time.perf_counter())

        workspace = Workspace(Home(Path(folder)))
        asked = BacktestRequest(
            archive,
            forecasters="drift",
            every=timedelta(hours=4),
            max_results=0,
            settings=Settings(draws=100, placebo=0),
        )
        done = start(asked, workspace, "r", Reporter(progress=progress))
        journal = need_journal(workspace)
        walks = [t for t in journal.tasks("r") if t.task_id.startswith("walk/")]
        journal.database.close()
        wall = times["collect"] - times["start"]
        inside = sum(t.duration_ms or 0.0 for t in walks) / 1000
        points = done.summary["leaderboard"][0]["n"]
        return {"wall": wall, "inside": inside, "chunks": len(walks), "points": points}


CASES = {
    "floor": lambda: floor(STEPS),
    "steps": lambda: ours(STEPS, 0.0, 1),
    "side by side": lambda: ours(STEPS, 0.0, 8),
    "held": lambda: ours(HELD, HOLD_S, CAP),
    "chunks": chunks,
    "replay": lambda: ours(STEPS, 0.0, 8, again=True),
}


def run(case: str) -> dict[str, float]:
    """One case in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, case], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    best = {
        case: min((run(case) for _ in range(3)), key=lambda found: found["wall"]) for case in CASES
    }
    base = best["floor"]
    print(f"floor: asyncio and a committed SQLite row, {1e6 * base['wall'] / STEPS:.0f} µs a step")
    for case in ("steps", "side by side"):
        found = best[case]
        print(
            f"{case:14s} {1e3 * found['wall'] / STEPS:6.2f} ms a step   wall "
            f"{found['wall'] / base['wall']:6.1f} x floor (goal 100)   CPU "
            f"{found['cpu'] / base['cpu']:6.1f} x floor (goal 50)"
        )
    ideal = HELD * HOLD_S / CAP
    held = best["held"]
    print(
        f"{HELD} x {1e3 * HOLD_S:.0f} ms at cap {CAP}: {held['wall']:.2f} s, "
        f"{held['wall'] / ideal:.2f} x ideal (goal 4)"
    )
    again = best["replay"]
    print(f"replay {1e3 * again['wall'] / STEPS:.3f} ms a recorded step (goal 2)")
    walk = best["chunks"]
    print(
        f"walk of {walk['points']:,} points by a baseline in {walk['chunks']:.0f} chunks: "
        f"{walk['wall']:.2f} s, of it {1e3 * (walk['wall'] - walk['inside']) / walk['chunks']:.1f} "
        "ms a chunk for the engine and for storing its rows"
    )
    print(
        f"launch {best['steps']['launch']:.2f} s (goal 1)   RSS {held['rss_mb']:.0f} MB (goal 150)"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(CASES[sys.argv[1]]()))
    else:
        main()
