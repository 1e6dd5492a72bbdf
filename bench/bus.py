"""The file bus under 1 and 8 processes, against its floor: the same number of fsynced files (an
output, a log, a manifest) written bare by the same number of processes. Writes a second, one run.
"""

import multiprocessing
import os
import tempfile
from pathlib import Path

from beforehand.clock import SystemClock, stopwatch
from beforehand.records.bus import EnvelopeMetadata, OutputEnvelope, RunLog
from beforehand.store.bus import Bus

WRITES, ROUNDS = 400, 9
ROW = {"symbol": "XCME.OZN.AUG25.113.C", "bid": 0.007, "ask": 0.015625, "pad": "x" * 1000}


def fsynced(path: Path, data: bytes) -> None:
    """Temp, fsync, rename."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def bare(root: Path, n: int) -> None:
    """n times three files, names of one's own."""
    for k in range(n):
        for kind in ("out", "log", "meta"):
            fsynced(root / f"{kind}-{os.getpid()}-{k}.json", b"x" * 1100)


def bus(root: Path, n: int) -> None:
    """n runs of one agent."""
    clock = SystemClock()
    agent = Bus(root, clock).agent("a")
    for _ in range(n):
        now, run = clock.now(), agent.begin()
        meta = EnvelopeMetadata(query="q", timestamp=now, row_count=1, agent="a", version="1.0")
        path = agent.write(OutputEnvelope(data=[ROW], metadata=meta))
        body = {"run_id": run, "status": "success", "timestamp": now, "duration_ms": 1.0}
        agent.log(RunLog.model_validate({**body, "agent": "a", "version": "1.0", "p": str(path)}))


def per_second(work: object, processes: int) -> float:
    """Writes a second of this many processes together."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (Path(folder), WRITES // processes)
        made = [multiprocessing.Process(target=work, args=arguments) for _ in range(processes)]  # type: ignore[arg-type]
        started = stopwatch()
        for one in made:
            one.start()
        for one in made:
            one.join()
        return WRITES / (stopwatch() - started)


if __name__ == "__main__":
    for processes in (1, 8):
        rounds = [(per_second(bare, processes), per_second(bus, processes)) for _ in range(ROUNDS)]
        floor, ours = (sorted(column)[ROUNDS // 2] for column in zip(*rounds, strict=True))
        print(
            f"bus, {processes} processes: {ours:,.0f} writes a second, bare {floor:,.0f}: "
            f"{ours / floor:.2f} of it [0.8]"
        )
