"""The same run as rows and as columns, for tests/test_columns.py and tests/api."""

from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home
from beforehand.jobs.backtest import kept
from beforehand.records.world import Document
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

QUICK = ("--draws", "200", "--placebo", "20", "--every", "14d")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated world without documents; read only."""
    path = tmp_path_factory.mktemp("bare") / "archive"
    ArchiveWriter(path).add(
        (one for one in records(SimConfig(seed=5, dates=12)) if not isinstance(one, Document)),
        importer="simulate",
        source="test",
        source_digest="test",
        recorded_at=FrozenClock(parse_instant("2026-11-01T00:00:00Z")).now(),
    )
    return path


def walked(archive: Path, home: Path, *more: str) -> Path:
    """A run called `r` in a home of its own; returns its folder."""
    home.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEFOREHAND_HOME", str(home))
        here = ("--archive", str(archive), "--run-id", "r")
        assert cli(["backtest", "run", *here, *QUICK, *more]) in (0, 3)
    return Home(home).runs / "r"


@pytest.fixture(scope="module")
def both(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run as rows and as columns."""
    homes = tmp_path_factory.mktemp("homes")
    rows = walked(bare, homes / "rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "MOST_ROWS", 10)
        return rows, walked(bare, homes / "columns")
