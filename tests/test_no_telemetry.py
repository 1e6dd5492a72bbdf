"""Nothing is sent anywhere that was not asked for: every connection and name lookup of the program
and of its libraries is counted by Python's own audit events."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOOK = """
import os, sys

def watch(event, args):
    if event == "socket.connect":
        where = args[1]
        if isinstance(where, tuple) and not str(where[0]).startswith(("127.", "::1")):
            note(f"connect {where}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        if args[0] not in (None, "", "localhost", "127.0.0.1", b"localhost", b"127.0.0.1"):
            note(f"lookup {args[0]}")

def note(text):
    with open(os.environ["WATCHED"], "a") as out:
        out.write(f"{text} {sys.argv}\\n")

sys.addaudithook(watch)
"""
COMMANDS = (
    ["world", "simulate", "--dates", "8", "--archive", "a"],
    [
        "backtest",
        "run",
        "--archive",
        "a",
        "--forecasters",
        "all,scripted",
        "--every",
        "56d",
        "--draws",
        "100",
    ],
    ["runs", "show", "latest"],
    ["bench", "ingest", "--archive", "a", "--out", "set"],
    ["ask", "How will the index close?", "--archive", "a"],
    ["tool", "list_markets", "--archive", "a"],
    ["run-code", "code.py"],
    ["backtest", "probe", "drift", "--archive", "a", "--n", "10"],
    ["doctor"],
    ["mcp"],
)


def watched(folder: Path, command: list[str]) -> tuple[int, list[str]]:
    (folder / "hook").mkdir(exist_ok=True)
    (folder / "hook" / "sitecustomize.py").write_text(HOOK)
    kept = ("PATH", "LANG", "TMPDIR")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env |= {"HOME": str(folder), "BEFOREHAND_HOME": str(folder), "PYTHONPATH": str(folder / "hook")}
    env |= {"WATCHED": str(folder / "watched")}
    done = subprocess.run(
        [sys.executable, "-m", "beforehand", *command], env=env, cwd=folder, capture_output=True
    )
    seen = folder / "watched"
    return done.returncode, seen.read_text().splitlines() if seen.exists() else []


def test_no_command_of_the_default_connects(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("print(1)\n")
    for command in COMMANDS:
        code, seen = watched(tmp_path, command)
        assert seen == [], command
        assert code in (0, 3), command


@pytest.mark.parametrize("command", [["world", "fetch", "kalshi", "--archive", "b"]])
def test_a_command_that_connects_is_seen(tmp_path: Path, command: list[str]) -> None:
    """The control: the same watch sees what is asked for."""
    os.environ.pop("BEFOREHAND_KALSHI_URL", None)
    code, seen = watched(tmp_path, command)
    assert code != 0
    assert any("kalshi" in line for line in seen)
