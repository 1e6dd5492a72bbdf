"""The sandbox's speed and memory, against starting a bare interpreter in the same run.

    python bench/sandbox.py

Medians of wall time. Goals: first run 6 x bare, next run 0.5 x, Monty 0.05 x, a tool call 0.5 ms,
N parallel tools about one wait; memory 21 MB for the server and 16 MB a run.
"""

import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from beforehand.sandbox.jail import Jail
from beforehand.sandbox.monty import Monty
from beforehand.sandbox.policy import CODE_MODULES, Policy

POLICY = Policy(modules=CODE_MODULES)
CALLS = 300
CALLING = f"""
total = 0
for i in range({CALLS}):
    total += await quick(x=i)
total
"""
PARALLEL = """
import asyncio
answers = await asyncio.gather(*[slow() for _ in range(10)])
len(answers)
"""
WAIT_S = 0.1


def took(function: Callable[[], Any], n: int) -> float:
    """The median of `n` calls, in milliseconds."""
    found = []
    for _ in range(n):
        started = time.perf_counter()
        function()
        found.append(1000 * (time.perf_counter() - started))
    return median(found)


def first(wrapped: bool) -> None:
    """A server, a run, the end."""
    jail = Jail(bubblewrap=wrapped)
    assert jail.run("print(1)").success
    jail.close()


def resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def calling(engine: Any) -> tuple[float, float]:
    """Milliseconds a tool call, and ten parallel waits as a multiple of one."""
    tools = {"quick": lambda x: x, "slow": lambda: time.sleep(WAIT_S)}

    def calls() -> None:
        assert engine.run(CALLING, {}, POLICY, tools).result == sum(range(CALLS))

    def parallel() -> None:
        assert engine.run(PARALLEL, {}, POLICY, tools).result == 10

    return took(calls, 5) / CALLS, took(parallel, 5) / 1000 / WAIT_S


def main() -> None:
    """Print the table."""
    bare = took(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 25)
    print(f"Python {platform.python_version()}, bare interpreter start {bare:.1f} ms")
    jail, monty = Jail(), Monty()
    layers = jail.run("1").layers
    print(f"jail: {', '.join(layers)}")
    rows = []
    if shutil.which("bwrap"):
        rows += [("jail, first run, bubblewrap", took(lambda: first(True), 9) / bare, 6.0)]
    else:
        print("jail with bubblewrap: not measured, bwrap is not installed")
    rows += [("jail, first run, without", took(lambda: first(False), 9) / bare, 6.0)]
    rows += [("jail, next run", took(lambda: jail.run("print(1)"), 200) / bare, 0.5)]
    monty.run("1")
    rows += [("monty, next run", took(lambda: monty.run("print(1)"), 500) / bare, 0.05)]
    for name, ratio, goal in rows:
        print(f"{name:32}{ratio:8.3f} x bare   goal {goal:g}")
    for engine in (jail, monty):
        call, waits = calling(engine)
        print(f"{engine.name}: a tool call {call:.3f} ms (goal 0.5), ten at once {waits:.2f} waits")
    plain = Jail(bubblewrap=False)
    peak = plain.run("print(1)").peak_mb or 0.0
    assert plain._process is not None
    print(
        f"jail: server {resident(plain._process.pid):.1f} MB, a run at most {peak:.1f} MB (21, 16)"
    )
    bomb = "l = []\nwhile True: l.append('x' * 1_000_000)"
    print(f"jail: peak of a memory bomb {jail.run(bomb).peak_mb:.0f} MB (limit 512 + 10 %)")
    for engine in (jail, monty, plain):
        engine.close()


if __name__ == "__main__":
    main()
