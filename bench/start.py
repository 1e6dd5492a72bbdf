"""Start-up against a bare interpreter and a bare FastAPI application, as ratios in one run: the
command line in CPU time, the server from its start until its first answer."""

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from statistics import median

COMMAND = str(Path(sys.executable).with_name("beforehand"))
JOBS = {
    "bare python": [sys.executable, "-c", "pass"],
    "--version": [COMMAND, "--version"],
    "--help": [COMMAND, "--help"],
    "runs list": [COMMAND, "runs", "list"],
}
BARE = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/api/health")
def health() -> dict[str, str]:
    return {"status": "ok"}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""
SERVERS = {
    "bare FastAPI": [sys.executable, "-c", BARE],
    "beforehand serve": [COMMAND, "serve", "--port"],
}


def cpu(command: list[str]) -> float:
    """CPU seconds of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_answer(command: list[str], home: str) -> float:
    """Seconds from the start of a server until it has answered GET /api/health."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, str(port)], env={**os.environ, "BEFOREHAND_HOME": home},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=30):
                    return time.perf_counter() - began
            except urllib.error.URLError:
                if process.poll() is not None:
                    raise
                time.sleep(0.005)
    finally:
        process.terminate()
        process.wait()


def shown(times: dict[str, list[float]]) -> None:
    base = median(next(iter(times.values())))
    for name, spent in times.items():
        print(f"{name:16s} {median(spent) * 1e3:8.1f} ms   x {median(spent) / base:5.1f}")


if __name__ == "__main__":
    times: dict[str, list[float]] = {name: [] for name in JOBS}
    for _ in range(15):
        for name, command in JOBS.items():
            times[name].append(cpu(command))
    shown(times)
    with tempfile.TemporaryDirectory() as home:
        waits: dict[str, list[float]] = {name: [] for name in SERVERS}
        for _ in range(5):
            for name, command in SERVERS.items():
                waits[name].append(first_answer(command, home))
    shown(waits)
