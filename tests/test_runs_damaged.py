"""A run whose files were changed after it ended is refused by name, not shown."""

from pathlib import Path

import orjson
import pytest

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.errors import Corrupt, InputError
from beforehand.runs.query import all_runs, find_journal, shown
from beforehand.runs.spent import providers
from beforehand.store.run_folder import RunFolder

FEW = {"every": "28d", "draws": 200, "placebo": 0, "progress": False}


@pytest.fixture
def world(sim: Path, home: Path) -> bh.World:
    return bh.open_world(sim)


def test_a_damaged_run_says_so(world: bh.World) -> None:
    run = bh.backtest(world, "drift", **FEW)
    rows, scores = run.path / "intervals.jsonl", run.path / "scores.json"
    text, figures = rows.read_text(), scores.read_text()
    rows.write_text(text[: len(text) // 2])
    damaged = bh.open_run(run.id)
    with pytest.raises(Corrupt, match=r"intervals.jsonl was changed or removed after"):
        _ = damaged.forecasts
    assert not damaged.verify().sound
    rows.write_text(text)
    rows.unlink()
    gone = bh.open_run(run.id)
    for read in (lambda: gone.intervals, lambda: gone.plot("market"), lambda: bh.compare(
        gone["drift"], gone["market"])):  # fmt: skip
        with pytest.raises(Corrupt, match=r"intervals\.jsonl was changed or removed after"):
            read()
    rows.write_text(text)
    better = figures.replace("not shown", "beats the market")
    for broken in (figures[:99], "{}", better):
        scores.write_text(broken)
        with pytest.raises(Corrupt, match=r"scores\.json was changed or removed after"):
            _ = bh.open_run(run.id).leaderboard
        assert not bh.open_run(run.id).verify().sound
    scores.write_text(figures)
    report = run.path / "report.html"
    page = report.read_text()
    report.write_text(page.replace("not shown", "beats the market"))
    with pytest.raises(Corrupt, match=r"report\.html was changed or removed after"):
        bh.open_run(run.id).report()
    report.write_text(page)
    assert bh.open_run(run.id).report() == report


@pytest.mark.parametrize(
    "config",
    [
        b'{"experiments":[{"models":["\xff"]}]}',
        b'{"experiments":[{"models":[1e999]}]}',
        b'{"experiments":[{"models":[%s]}]}' % (b"[" * 3000 + b"]" * 3000),
        b'{"experiments":[{"models":["a", 3]}]}',
        b'{"experiments":[{}]}',
        b"[]",
        b"",
    ],
)
def test_a_configuration_that_is_none(config: bytes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "r")
    folder.path.mkdir()
    (folder.path / "config.json").write_bytes(config)
    with pytest.raises(InputError, match=r"config\.json is not a run's configuration"):
        providers(folder)


def test_a_redone_seal_is_seen_against_the_journal(world: bh.World) -> None:
    """`run.json` written anew, its digests right: only the journal's digest tells."""
    run = bh.backtest(world, "drift", **FEW)
    seal = run.path / "run.json"
    facts = orjson.loads(seal.read_bytes())
    seal.write_bytes(orjson.dumps({**facts, "headline": "drift beats the market"}))
    with pytest.raises(Corrupt, match=r"run\.json was changed or removed after"):
        _ = bh.open_run(run.id).leaderboard
    workspace = run._workspace
    journal = find_journal(workspace)
    listed = {each["run_id"]: each for each in all_runs(workspace.home, journal)}
    assert str(listed[run.id]["headline"]).startswith("CHANGED AFTER THE RUN: run.json")
    assert shown(run.id, workspace, journal)["changed"] == ["run.json"]


def test_a_damaged_run_is_not_exported(
    world: bh.World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bh.backtest(world, "drift", **FEW)
    arguments = ["runs", "export", run.id, "--out", str(tmp_path / "r.csv")]
    assert cli(arguments) == 0
    (tmp_path / "r.csv").unlink()
    rows = run.path / "intervals.jsonl"
    rows.write_text(rows.read_text().replace("0.5", "0.6", 1))
    capsys.readouterr()
    assert cli(arguments) == 2
    assert "intervals.jsonl was changed or removed after" in capsys.readouterr().err
    assert not (tmp_path / "r.csv").exists()
