"""Start-up of the command line against a bare interpreter, as ratios of CPU time in one run."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

COMMAND = str(Path(sys.executable).with_name("beforehand"))
JOBS = {
    "bare python": [sys.executable, "-c", "pass"],
    "--version": [COMMAND, "--version"],
    "--help": [COMMAND, "--help"],
    "runs list": [COMMAND, "runs", "list"],
}


def cpu(command: list[str]) -> float:
    """CPU seconds of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    times: dict[str, list[float]] = {name: [] for name in JOBS}
    for _ in range(15):
        for name, command in JOBS.items():
            times[name].append(cpu(command))
    bare = median(times["bare python"])
    for name, spent in times.items():
        print(f"{name:12s} {median(spent) * 1e3:8.1f} ms   x {median(spent) / bare:5.1f}")
