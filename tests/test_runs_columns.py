"""A large run that asked nobody keeps columns: the same figures and the same rows as in JSON."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.jobs.backtest.large import joined
from beforehand.runs.interval_columns import COLUMNS, FOLDER, IntervalColumns
from columned import bare, both, walked
from experiments import Out, told

ROWS = {"intervals.jsonl", "predictions.jsonl"}
__all__ = ["bare", "both"]


@pytest.fixture
def columns(both: tuple[Path, Path], home: Path) -> Path:
    """A copy of the run of columns in the home of the test."""
    shutil.copytree(both[1].parents[1].parent, home, dirs_exist_ok=True)
    return Home(home).runs / "r"


def counted(audit: Path) -> object:
    """What an audit says, without the digests: those of a large run are over many markets each."""
    found = json.loads(audit.read_bytes())
    for tally in found["methods"].values():
        del tally["digest"]
    return found


def test_every_file_is_the_same_but_for_the_rows(both: tuple[Path, Path]) -> None:
    rows, columns = (
        {p.relative_to(one).as_posix(): p for p in one.rglob("*") if p.is_file()} for one in both
    )
    differing = rows.keys() ^ columns.keys()
    assert {name for name in differing if not name.startswith(FOLDER + "/")} == ROWS
    assert {name for name in differing if name.startswith(FOLDER + "/")}
    apart = {"run.json", "log.json"}
    for name in rows.keys() & columns.keys() - apart:
        if name == "audit.json":
            assert counted(rows[name]) == counted(columns[name])
        else:
            assert rows[name].read_bytes() == columns[name].read_bytes(), name
    sealed = json.loads((both[1] / "run.json").read_bytes())["files"]
    assert {f"{FOLDER}/{name}.npy" for name in COLUMNS} <= sealed.keys()


@pytest.mark.parametrize("kind", ["intervals", "predictions"])
def test_an_export_gives_the_bytes_that_rows_would_have(
    kind: str, both: tuple[Path, Path], columns: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "out.jsonl"
    found = told(capsys, "runs", "export", "r", "--format", kind, "--out", str(out))
    expected = (both[0] / f"{kind}.jsonl").read_bytes()
    assert out.read_bytes() == expected
    assert found["rows"] == expected.count(b"\n") > 100


def test_tables_are_the_same(both: tuple[Path, Path], tmp_path: Path) -> None:
    made = []
    for folder in both:
        out = tmp_path / f"{len(made)}.csv"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BEFOREHAND_HOME", str(folder.parents[2]))
            assert cli(["runs", "export", "r", "--out", str(out)]) == 0
        made.append(out.read_bytes())
    # The last column says how long an answer took.
    rows, columns = ([line.rpartition(b",")[0] for line in one.splitlines()] for one in made)
    assert rows == columns
    assert len(rows) > 300


def test_commands_over_a_run_read_columns(
    both: tuple[Path, Path], columns: Path, capsys: Out
) -> None:
    assert cli(["runs", "verify", "r"]) == 0
    said = capsys.readouterr().out
    assert "sound" in said
    assert "columns against each other" in said
    leaks = told(capsys, "runs", "leaks", "r")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEFOREHAND_HOME", str(both[0].parents[2]))
        assert told(capsys, "runs", "leaks", "r") == leaks
    assert leaks["rechecked"] > 300
    assert leaks["admitted_after_t"] == 0
    row = json.loads((both[0] / "intervals.jsonl").read_text().splitlines()[-1])
    traced = told(capsys, "runs", "trace", "r", row["market_id"], "--at", row["time"])
    found = [(one["decisions"], one["context"]) for one in traced["intervals"]]
    assert (row["decisions"], row["context"]) in found
    shutil.copytree(both[0], columns.with_name("other"))
    diff = told(capsys, "runs", "diff", "r", "r")
    assert diff["intervals"]["both"] > 100
    assert diff["intervals"]["different"] == 0
    costs = cli(["runs", "costs", "r"])
    assert costs in (0, 1, 2)
    fork = ("runs", "fork", "r", "--at", row["time"], "--model", "drift=always:0.3")
    told(capsys, *fork, "--new-id", "f")
    assert (columns.with_name("f") / "intervals.jsonl").is_file()
    assert told(capsys, "runs", "verify", "f")["sound"]
    changed = told(capsys, "runs", "diff", "r", "f")["intervals"]
    assert changed["both"] == diff["intervals"]["both"]
    assert 0 < changed["different"] < changed["both"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined, "MOST_ROWS", 10)
        told(capsys, *fork, "--new-id", "g")
    assert (columns.with_name("g") / FOLDER / "asked.jsonl").is_file()
    assert told(capsys, "runs", "verify", "g")["sound"]
    assert told(capsys, "runs", "diff", "f", "g")["intervals"]["different"] == 0


def edit(folder: Path, name: str, row: int, value: Any) -> None:
    path = folder / FOLDER / f"{name}.npy"
    column = np.array(np.load(path))
    column[..., row] = value
    np.save(path, column)


@pytest.mark.parametrize(
    ("name", "row", "value", "says"),
    [
        ("forecasts", 7, 0.123, "digest"),
        ("forecasts", 7, 1.5, "outside of 0 to 1"),
        ("aggregate", 7, 0.123, "not that of its forecasts"),
        ("market", 7, 10_000, "names a market that is not there"),
        ("before", -1, 10_000_000, "names a before that is not there"),
        ("t", 7, 0, "not in the order"),
        ("known_at", 7, 2**51, "odds known at"),
        ("known_at", 7, 2**60, "is damaged"),
    ],
)
def test_what_was_changed_afterwards_is_named(
    name: str, row: int, value: Any, says: str, columns: Path, capsys: Out
) -> None:
    edit(columns, name, row, value)
    assert cli(["runs", "verify", "r"]) == 1
    said = capsys.readouterr().out
    assert says in said
    assert f"{FOLDER}/{name}.npy" in said
    assert cli(["runs", "export", "r", "--format", "intervals"]) != 0


@pytest.mark.parametrize("both", ["mixed"], indirect=True)
@pytest.mark.parametrize(
    ("name", "row", "value", "says"),
    [
        ("shown", 7, 9, "counts other documents"),
        ("failed", 7, 9, "counts other documents"),
        ("group", 7, 9, "names a group that is not there"),
        ("group", slice(None), 0, "is not in the order"),
        ("asked_ends", 7, 3, "asked.jsonl is damaged"),
        ("asked_ends", -1, 0, "is not what it said"),
    ],
)
def test_a_changed_column_of_those_who_were_asked_is_named(
    name: str, row: Any, value: Any, says: str, columns: Path, capsys: Out
) -> None:
    edit(columns, name, row, value)
    assert cli(["runs", "verify", "r"]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize("both", ["mixed"], indirect=True)
@pytest.mark.parametrize("name", ["odds", "t", "group"])
@pytest.mark.parametrize("cut", [slice(1, None), slice(-1), slice(None, None, -1)])
def test_a_column_of_another_length_is_refused_each_time(
    name: str, cut: slice, columns: Path, capsys: Out
) -> None:
    path = columns / FOLDER / f"{name}.npy"
    column = np.load(path)
    np.save(path, column[cut] if cut.step is None else np.append(column, column[:1])[cut])
    for _ in range(2):
        assert cli(["runs", "verify", "r"]) == 1
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        kept = IntervalColumns(columns / FOLDER)
        for _ in range(2):
            with pytest.raises(InputError, match=rf"{name}\.npy is damaged"):
                list(kept.rows())
            with pytest.raises(InputError, match=rf"{name}\.npy is damaged"):
                kept.column(name)


@pytest.mark.parametrize("both", ["mixed"], indirect=True)
def test_an_answer_of_the_same_length_is_compared_too(columns: Path, capsys: Out) -> None:
    path = columns / FOLDER / "asked.jsonl"
    content = path.read_bytes()
    at = content.index(b'"probability":0.', content.index(b'"scripted"')) + len(b'"probability":0.')
    other = b"9" if content[at : at + 1] != b"9" else b"1"
    path.write_bytes(content[:at] + other + content[at + 1 :])
    assert cli(["runs", "verify", "r"]) == 1
    out = capsys.readouterr().out
    assert "asked.jsonl does not have the digest" in out
    assert "is not what it said" in out
    assert "in its trace" in out
    opened = IntervalColumns(columns / FOLDER)
    assert len(list(opened.rows())) == len(opened)


def test_a_missing_or_cut_column_is_one_sentence(columns: Path, capsys: Out) -> None:
    path = columns / FOLDER / "odds.npy"
    whole = path.read_bytes()
    for broken in (whole[:100], whole[: len(whole) // 2], b"", b"no column"):
        path.write_bytes(broken)
        assert cli(["runs", "verify", "r"]) == 1
        assert "odds.npy" in capsys.readouterr().out
    path.unlink()
    assert cli(["runs", "verify", "r"]) == 1
    said = capsys.readouterr()
    assert "odds.npy" in said.out
    assert "Traceback" not in said.err


def test_pages_of_rows_begin_anywhere(columns: Path) -> None:
    opened = IntervalColumns(columns / FOLDER)
    every = list(opened.rows())
    assert len(every) == len(opened) > 100
    some = np.array([0, 5, len(every) - 1])
    assert list(opened.rows(some)) == [every[k] for k in some]
    market, t = every[-1].market_id, every[-1].context.t
    mine = opened.places(market, None, None)
    assert [every[k].market_id for k in mine] == [market] * len(mine)
    assert [every[k].time for k in opened.places(market, t, t)] == [every[-1].time] * len(
        opened.groups
    )
    assert not len(opened.places("SIMEX:none", None, None))


def test_small_runs_and_weights_from_past_scores_keep_rows(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = walked(bare, tmp_path / "small")
    monkeypatch.setattr(joined, "MOST_ROWS", 10)
    asked = ("--forecasters", "market,scripted")
    weighted = walked(bare, tmp_path / "weighted", *asked, "--aggregate", "weighted")
    for folder in (small, weighted):
        assert (folder / "intervals.jsonl").is_file()
        assert not (folder / FOLDER).exists()


def test_tables_in_python_are_the_same(both: tuple[Path, Path]) -> None:
    import beforehand as bh

    made, drawn = [], []
    for folder in both:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BEFOREHAND_HOME", str(folder.parents[2]))
            run = bh.open_run("r")
            tables = [run.forecasts, run.intervals, run.evidence, run.failures, run.bets]
            made.append([_cells(table) for table in tables])
            assert len(run.forecasts) > 300
            drawn.append(run.plot("market")._repr_html_())
    assert drawn[0] == drawn[1]
    assert made[0] == made[1]


def _cells(table: Any) -> list[tuple[str, str, list[Any]]]:
    columns = ((name, table.column(name)) for name in table.columns)
    return [(name, column.kind, column.plain()) for name, column in columns]


@pytest.mark.parametrize("part", [1, 7, 1000])
def test_the_row_before_is_found_part_by_part(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(part)
    n = 300
    market = rng.integers(0, 9, n).astype(np.int32)
    group = rng.integers(0, 2, n).astype(np.int16)
    together = np.where(rng.random(n) < 0.4, np.nan, rng.random(n))
    monkeypatch.setattr(joined, "PART", part)
    last: dict[tuple[int, int], int] = {}

    def read(name: str, rows: slice) -> np.ndarray:
        return {"market": market, "aggregate": together}[name][rows]

    for k, found in enumerate(joined._before(read, group, 9).tolist()):
        mine = int(market[k]), int(group[k])
        assert found == last.get(mine, -1)
        if math.isfinite(together[k]):
            last[mine] = k
    assert not len(joined._before(read, group[:0], 0))
