"""Answers recorded in batches, on SQLite and on Postgres; a run of them in a fresh database."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from beforehand.errors import Stopped, Unavailable
from beforehand.store.database import Database
from beforehand.store.journal.free import FreeAnswer
from beforehand.store.journal.journal import Journal
from program import run_program


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_batch_that_meets_other_answers_is_refused(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Two processes at one step: the first answers stand, and the other tries again."""
    address = tmp_path / "j.db" if kind == "sqlite" else request.getfixturevalue("url")
    with closing(Database(address)) as opened:
        journal = Journal(opened)
        journal.enter("r", "small", {}, "f", str(tmp_path))
        journal.begin("r", 1, "run begun")
        one, other = (FreeAnswer("k", "p", 0, "q", 1, answer) for answer in ("a", "b"))
        journal.free.record_all("r", "s", "me", [one])
        journal.free.record_all("r", "s", "you", [one])
        with pytest.raises(Unavailable, match="another process answered"):
            journal.free.record_all("r", "s", "you", [FreeAnswer("l", "p", 0, "q", 1, "c"), other])
        assert journal.free.answers("r", "s", ["k", "l"]) == {"k": "a", "l": "c"}
        journal.mark("r", "stopped", "enough")
        with pytest.raises(Stopped, match="enough"):
            journal.free.record_all("r", "s", "me", [FreeAnswer("m", "p", 0, "q", 1, "d")])


MINE = """
from beforehand import forecaster


@forecaster(free=True, memoryless=True)
def mine(context):
    return 0.5 * context.odds
"""


def test_a_run_on_postgres(sim: Path, tmp_path: Path, url: str) -> None:
    """The same forecasts as on SQLite, every answer on record, and sound."""
    (tmp_path / "mine.py").write_text(MINE)
    boards = []
    for name in ("sqlite", "postgres"):
        (tmp_path / name).mkdir()
        environment = {**os.environ, "BEFOREHAND_HOME": str(tmp_path / name)}
        environment.pop("BEFOREHAND_DATABASE_URL", None)
        if name == "postgres":
            environment["BEFOREHAND_DATABASE_URL"] = url

        def cli(*arguments: str, environment: dict[str, str] = environment) -> dict:  # type: ignore[type-arg]
            command = [sys.executable, "-m", "beforehand", *arguments, "--json"]
            done = run_program(command, env=environment, capture_output=True, check=True)
            return json.loads(done.stdout)  # type: ignore[no-any-return]

        asked = ["--archive", str(sim), "--every", "28d", "--draws", "100", "--placebo", "0"]
        names = f"python:{tmp_path / 'mine.py'}:mine"
        found = cli("backtest", "run", *asked, "--forecasters", names, "--run-id", "r")
        boards.append(found["leaderboard"])
        assert cli("runs", "verify", "r")["sound"]
    assert boards[0] == boards[1]
    with closing(Database(url)) as opened:
        recorded = Journal(opened).calls.rows("r")
    assert len(recorded) == (
        (tmp_path / "postgres/data/runs/r/intervals.jsonl").read_bytes().count(b"\n")
    )
    assert {row["state"] for row in recorded} == {"done"}
