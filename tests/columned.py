"""The same run as rows and as columns, for tests/test_runs_columns.py and tests/api: one of pure
functions, whole and divided as one of millions of rows is, and one in which others were asked."""

from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home
from beforehand.jobs.backtest import backtest_job
from beforehand.jobs.backtest.large import joined
from beforehand.jobs.backtest.order import CHUNK
from beforehand.records.world import Document
from beforehand.runs import interval_columns
from beforehand.score import table
from beforehand.store import npy
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig
from proofs import some

QUICK = ("--draws", "200", "--placebo", "20", "--every", "14d")
MINE = """
def mine(context):
    'Fails now and then, cites what it saw, and is never the market.'
    from beforehand import Decision
    if context.odds is None or context.t.day % 7 == 0:
        raise ValueError("nothing to go by")
    cited = [one.id for one in context.documents[:1]]
    return Decision(min(1.0, context.odds * 0.9 + 0.01), rationale="a bit less", evidence_ids=cited)
"""


def made(path: Path, documents: bool, dates: int = 12) -> Path:
    """A simulated world; read only."""
    kinds = (one for one in records(SimConfig(seed=5, dates=dates)))
    ArchiveWriter(path).add(
        (one for one in kinds if documents or not isinstance(one, Document)),
        importer="simulate",
        source="test",
        source_digest="test",
        recorded_at=FrozenClock(parse_instant("2026-11-01T00:00:00Z")).now(),
    )
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated world without documents."""
    return made(tmp_path_factory.mktemp("bare") / "archive", documents=False)


def walked(archive: Path, home: Path, *more: str) -> Path:
    """A run called `r` in a home of its own; returns its folder."""
    home.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEFOREHAND_HOME", str(home))
        here = ("--archive", str(archive), "--run-id", "r")
        assert cli(["backtest", "run", *here, *QUICK, *more]) in (0, 3)
    return Home(home).runs / "r"


KINDS = ["mixed", "pure", "parts"]


@pytest.fixture(scope="module", params=some("kinds of runs in columns", KINDS[:2], KINDS))
def both(
    request: pytest.FixtureRequest, bare: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The same run as rows and as columns."""
    homes = tmp_path_factory.mktemp("homes")
    archive, more = bare, list[str]()
    if request.param == "mixed":
        archive = made(homes / "archive", documents=True, dates=5)
        (homes / "mine.py").write_text(MINE)
        who = f"market,drift,python:{homes / 'mine.py'}:mine,news_tilt,scripted"
        more = ["--forecasters", who, "--sims", "2", "--mode", "direct_llm"]
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "parts":  # As a run of millions of rows is divided.
            for module, name in ((npy, "SPAN"), (table, "BLOCK"), (joined, "PART")):
                patch.setattr(module, name, 64)
            patch.setattr(interval_columns, "PART", 100)
        rows = walked(archive, homes / "rows", *more)
        patch.setattr(joined, "MOST_ROWS", 10)
        # The plan names the steps.
        patch.setattr(backtest_job, "LARGE_CHUNK", CHUNK)
        return rows, walked(archive, homes / "columns", *more)
