"""A home with a world and runs of each kind: fixtures for tests/api and tests/web."""

import shutil
import sys
from pathlib import Path

import pytest
from serving import command, environment, must

from prepared import copy, prepared
from program import run_program


@pytest.fixture(scope="session")
def first_made(sim: Path) -> Path:
    """A home folder: the archive `sim`, a backtest with a model, a scored file, a question, a
    benchmark, a round; read only."""
    return prepared("home", lambda home: runs_of_each_kind(home, sim))


def runs_of_each_kind(home: Path, sim: Path) -> None:
    (home / "data").mkdir()
    shutil.copytree(sim, home / "data" / "sim")
    quick = ("--archive", "data/sim", "--draws", "200", "--placebo", "0")
    every = ("--every", "28d", "--forecasters", "all,scripted")
    must(command(home, "backtest", "run", *every, *quick, "--run-id", "walk"))
    must(command(home, "runs", "export", "walk", "--out", "walk.csv"))
    rows = (home / "walk.csv").read_text().splitlines()[1:]
    lines = [row.split(",") for row in rows]
    mine = [f"{c[1]},{c[2].replace(' ', 'T')},0.4" for c in lines if c[3] == "baseline:drift"][:200]
    fixed = [line if "Z" in line or "+" in line else line.replace(",0.4", "Z,0.4") for line in mine]
    (home / "mine.csv").write_text(
        "id,time,probability\n" + "\n".join(fixed) + "\nnope,2025-01-01,0.5\n"
    )
    must(command(home, "score", "mine.csv", *quick, "--run-id", "scored"), (0, 3))
    title = "Will the Merovia timber index close above 993?"
    must(command(home, "ask", title, "--archive", "data/sim", "--run-id", "asked"))
    must(command(home, "bench", "run", "--archive", "data/sim", "--forecasters", "market,drift", "--draws", "200", "--placebo", "0", "--run-id", "benched"))  # fmt: skip
    rounds(home)


ROUND_AT = "2025-04-07T16:00:00Z"
"""When the home's round was frozen and sealed."""


def rounds(home: Path) -> None:
    """A round of what was open then, answered by the forecasters of a backtest, sealed, and
    resolved since."""
    here, folder = ["--archive", "data/sim"], "data/rounds/2025-04-07"
    program = (
        "import sys, time_machine\nfrom beforehand.cli.app import run\n"
        f"with time_machine.travel({ROUND_AT!r}, tick=False):\n    sys.exit(run(sys.argv[1:]))"
    )
    few = ("--draws", "200", "--placebo", "0", "--every", "60d")
    named = ("--forecasters", "market,drift,extremised", "--run-id", "twin")
    must(command(home, "backtest", "run", *here, *named, *few))
    for order in (
        ("bench", "ingest", *here, "--open", "--out", folder),
        ("bench", "live", "twin", *here, "--round", folder),
    ):
        done = run_program(
            [sys.executable, "-c", program, *order], cwd=home, env=environment(home),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        must(done)
    ends = ("--events", f"{folder}/events.jsonl", "--out", f"{folder}/resolutions.jsonl")
    must(command(home, "bench", "resolve", *ends, *here))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, first_made: Path) -> Path:
    """A copy of it: tests start runs in it, and change files."""
    home = tmp_path_factory.mktemp("copy") / "home"
    return copy(first_made, home)
