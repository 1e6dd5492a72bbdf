"""Eight processes of four threads on one bus, some of them killed: no id twice, no file lost or torn,
and the manifests right afterwards. `make chaos-kills`: 5,000 writes."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from beforehand.store.bus import Bus, read_log, read_output
from program import Program
from proofs import FULL, count

WRITES, KILLS, AGENTS = (
    count("writes to the bus under kills", 400, 5_000),
    40 if FULL else 6,
    3 if FULL else 2,
)
PROCESSES, THREADS = 8, 4

WRITER = """
import sys, threading
from beforehand.clock import SystemClock
from beforehand.records.bus import EnvelopeMetadata, OutputEnvelope, RunLog
from beforehand.store.bus import Bus

root, agents, threads, turn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
bus, clock, saying = Bus(__import__("pathlib").Path(root)), SystemClock(), threading.Lock()

def work(k):
    name = f"agent-{k % agents}"
    agent, n = bus.agent(name), 0
    while True:
        n += 1
        mark, now = f"{turn}-{k}-{n}", clock.now()
        run = agent.begin()
        meta = EnvelopeMetadata(query=mark, timestamp=now, row_count=1, agent=name, version="1.0")
        path = agent.write(OutputEnvelope(data=[{"mark": mark, "pad": "x" * 2000}], metadata=meta))
        agent.log(RunLog(run_id=run, status="success", timestamp=now, duration_ms=1.0, agent=name,
                         version="1.0", output_path=str(path), mark=mark))
        with saying:  # What is said here is done: it may not be lost.
            sys.stdout.write(f"{name} {path.name} {run} {mark}\\n")
            sys.stdout.flush()

for k in range(threads):
    threading.Thread(target=work, args=(k,), daemon=True).start()
threading.Event().wait()
"""


def test_eight_processes_of_four_threads_with_kills(tmp_path: Path) -> None:
    root, script, said = tmp_path / "bus", tmp_path / "writer.py", tmp_path / "said"
    script.write_text(WRITER)
    said.mkdir()
    rng, turn, kills = random.Random(0), 0, 0

    def start() -> subprocess.Popen[bytes]:
        nonlocal turn
        turn += 1
        arguments = [str(root), str(AGENTS), str(THREADS), f"t{turn}"]
        with (said / f"{turn}.txt").open("wb") as out:
            return Program([sys.executable, str(script), *arguments], stdout=out)

    def done() -> int:
        return sum(path.read_bytes().count(b"\n") for path in said.iterdir())

    running = [start() for _ in range(PROCESSES)]
    began = time.monotonic()
    while done() < WRITES or kills < KILLS:
        time.sleep(rng.uniform(0.05, 0.3))
        if kills < KILLS and done() > WRITES * kills / KILLS / 2:
            victim = rng.randrange(PROCESSES)
            running[victim].send_signal(signal.SIGKILL)
            assert running[victim].wait() == -signal.SIGKILL
            running[victim], kills = start(), kills + 1
        assert time.monotonic() - began < 600
        assert all(one.poll() is None for one in running), "a writer ended by itself"
    for one in running:
        one.send_signal(signal.SIGKILL)
        one.wait()

    lines = [line.split() for path in said.iterdir() for line in path.read_text().splitlines()]
    named = {
        (agent, name): mark for agent, name, _, mark in (one for one in lines if len(one) == 4)
    }
    assert len(named) == len([one for one in lines if len(one) == 4]), "an id was given twice"
    runs = {(agent, run) for agent, _, run, _ in (one for one in lines if len(one) == 4)}
    assert len(runs) == len(named), "a run id was given twice"
    for (agent, name), mark in named.items():
        body = read_output(root / agent / "out" / name)  # Neither lost nor torn.
        assert body.data[0]["mark"] == mark, "another writer's file"
    for agent, run in runs:
        assert read_log(root / agent / "logs" / f"{run}.json").status == "success"
    bus = Bus(root)
    for name in bus.agents():
        agent = bus.agent(name)
        checked = agent.check(repair=True)
        assert checked.problems == []
        manifest = json.loads((root / name / "meta.json").read_text())
        claims = [int(p.name[1:-6]) for p in (root / name / "out").glob(".*.claim")]
        assert manifest["next_id"] == max(claims) + 1
        assert sorted(claims) == list(range(1, len(claims) + 1))
        assert manifest["total_runs"] == len(agent.logs())
        assert checked.gaps <= kills * THREADS + PROCESSES * THREADS
    leftovers = list(root.rglob("*.tmp"))
    assert leftovers == []
    print(
        f"{len(named):,} writes by {PROCESSES} processes of {THREADS} threads, {kills} kills: 0 ids "
        f"twice, 0 files lost, 0 torn, {sum(bus.agent(n).check().gaps for n in bus.agents())} gaps"
    )
