"""Questions that are still open when the record ends: they are asked like the others, have no score,
and their positions count at the last price. And comparisons of runs, which rest on the prices that
the runs keep."""

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from beforehand.clock import parse_instant, to_us
from beforehand.config import Home
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.world import Resolution
from beforehand.runs.marks import MARKS, read_marks
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.trials import read_trials
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig
from experiments import Out, told

UNTIL = parse_instant("2025-05-01T00:00:00Z")
FEW = ("--draws", "200", "--placebo", "0")


def until(t: int, config: SimConfig) -> Iterator[Any]:
    """The records of a world that were known by an instant."""
    for record in records(config):
        if isinstance(record, PriceSeriesRow):
            n = int(np.searchsorted(record.known_at, t, side="right"))
            columns = ("observed_at", "known_at", "price", "bid", "ask", "volume")
            kept = {name: column[:n] for name in columns if (column := getattr(record, name))}
            if n:
                yield msgspec.structs.replace(record, **kept)
        elif isinstance(record, Resolution):
            if to_us(record.known_at) <= t:
                yield record
        elif (known := getattr(record, "known_at", None)) is None or to_us(known) <= t:
            yield record


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of which the record ends while many markets are open."""
    path = tmp_path_factory.mktemp("half") / "archive"
    ArchiveWriter(path).add(
        until(to_us(UNTIL), SimConfig(seed=3, dates=24)),
        importer="simulate",
        source="test",
        source_digest="test",
        recorded_at=parse_instant("2026-11-01T00:00:00Z"),
    )
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_open_markets_are_asked_and_their_positions_count(
    half: Path, home: Path, capsys: Out
) -> None:
    names = "market,drift,always:0.5"
    here = ["backtest", "run", "--archive", str(half), "--every", "3d", "--forecasters", names]
    found = told(capsys, *here, "--run-id", "r", *FEW)
    folder = Home(home).runs / "r"
    ended = {row["id"] for row in lines(folder / "resolutions.jsonl")}
    events = {row["id"]: row for row in lines(folder / "events.jsonl")}
    asked = {row["market_id"] for row in lines(folder / "intervals.jsonl")}
    still_open = asked - ended
    assert len(still_open) > 5
    assert len(ended) > 5
    assert found["validity"]["unresolved"]["value"] == len(still_open - set(_short(folder)))
    scored = list(csv.DictReader((folder / "questions.csv").read_text().splitlines()))
    assert {row["market_id"] for row in scored} <= ended, "without an ending there is no score"
    last = Archive(half).series()
    for name in still_open:
        assert parse_instant(events[name]["forecast_until"]) <= UNTIL
        times = [
            row["time"] for row in lines(folder / "intervals.jsonl") if row["market_id"] == name
        ]
        assert max(to_us(parse_instant(t)) for t in times) <= int(last[name].known_at[-1])
    board = {row["forecaster"]: row for row in found["leaderboard"]}
    for name in ("drift", "always:0.5"):
        assert board[name]["evidence"]["unsettled"] > 0
    assert told(capsys, "runs", "verify", "r")["sound"]
    kept = read_marks(folder, still_open)
    assert {*kept} == still_open - set(_short(folder))
    assert all((np.diff(one.t) >= 0).all() for one in kept.values())


def _short(folder: Path) -> list[str]:
    found: list[str] = json.loads((folder / "config.json").read_text())["short"]
    return found


def test_rows_of_open_markets_in_a_file_count_without_a_score(
    half: Path, home: Path, capsys: Out
) -> None:
    here = ["backtest", "run", "--archive", str(half), "--every", "3d"]
    told(capsys, *here, "--forecasters", "market,shrunk", "--run-id", "r", *FEW)
    folder = Home(home).runs / "r"
    rows = ["id,time,probability"]
    for row in lines(folder / "intervals.jsonl"):
        said = {d["model_id"]: d["probability"] for d in row["decisions"]}
        rows.append(f"{row['market_id']},{row['time']},{said['baseline:shrunk']}")
    file = home / "mine.csv"
    file.write_text("\n".join(rows) + "\n")
    found = told(capsys, "score", str(file), "--archive", str(half), "--run-id", "s", *FEW, code=3)
    (left,) = found["rejected"].items()
    assert left[0] == "the market has no resolution yet"
    assert found["rows"]["scored"] + len(left[1]) == len(rows) - 1
    (mine,) = [row for row in found["leaderboard"] if row["forecaster"] == "mine"]
    assert mine["evidence"]["unsettled"] > 0
    assert mine["n"] == found["rows"]["scored"]
    ended = {row["id"] for row in lines(Home(home).runs / "s" / "resolutions.jsonl")}
    said = {row["id"] for row in lines(Home(home).runs / "s" / "predictions.jsonl")}
    assert said > ended


def test_a_comparison_rests_on_the_prices_that_runs_keep(
    sim: Path, home: Path, capsys: Out
) -> None:
    """The same figures as beside the leaderboard, without an archive; and others without them."""
    here = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,drift,shrunk"]
    found = told(capsys, *here, "--run-id", "r", *FEW)
    (pair,) = [p for p in found["pairs"] if {p["a"], p["b"]} == {"drift", "shrunk"}]
    alone = told(capsys, "runs", "compare", f"r:{pair['a']}", f"r:{pair['b']}", "--draws", "200")
    for name in ("gain", "effective_periods", "difference"):
        assert alone[name] == pytest.approx(pair[name])
    assert alone["gain_ci"] == pytest.approx(pair["gain_ci"])
    (row,) = [row for row in found["leaderboard"] if row["forecaster"] == "drift"]
    against = told(capsys, "runs", "compare", "r:drift", "r:market", "--draws", "200")
    assert against["gain"] == pytest.approx(row["evidence"]["mean"])
    marks = Home(home).runs / "r" / MARKS
    assert gzip.decompress(marks.read_bytes()).count(b"\n") > 50
    marks.unlink()
    without = told(capsys, "runs", "compare", "r:drift", "r:market", "--draws", "200")
    assert without["gain"] != pytest.approx(against["gain"])


def test_a_gate_fails_what_is_worse_and_counts_its_looks(
    sim: Path, home: Path, capsys: Out
) -> None:
    here = ["backtest", "run", "--archive", str(sim), "--every", "2d", "--forecasters"]
    told(capsys, *here, "market,drift,always:0.5", "--run-id", "r", *FEW)
    gate = ["runs", "compare", "--fail-if", "worse"]
    power = told(capsys, "runs", "compare", "r:always:0.5", "--fail-if", "worse")
    assert 0 <= power["power"] <= power["power_at_one_look"] <= 1
    found = told(capsys, *gate, "r:market", "r:always:0.5")
    assert (found["gate"]["failed"], found["gate"]["needed"]) == (False, 40.0)
    again = told(capsys, *gate, "r:market", "r:always:0.5")
    assert again["gate"]["candidates"] == 1, "a look at the same is no new one"
    found = told(capsys, *gate, "r:always:0.5", "r:market", code=1)
    assert found["gate"]["candidates"] == 2
    assert found["gate"]["e_value"] >= found["gate"]["needed"] == 80.0
    found = told(capsys, *gate, "r:drift", "r:market")
    assert not found["gate"]["failed"]
    strict = ["runs", "compare", "r:drift", "r:market", "--fail-if", "not-as-good", "--margin"]
    assert not told(capsys, *strict, "0.2")["gate"]["failed"]
    assert told(capsys, *strict, "0", code=1)["gate"]["failed"]
    looks = [one for one in read_trials(Home(home).trials) if one["family"] == "gate"]
    assert len(looks) == 3


def test_what_is_within_the_margin_is_the_market(sim: Path, home: Path, capsys: Out) -> None:
    here = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,drift", *FEW]
    (row,) = [r for r in told(capsys, *here)["leaderboard"] if r["forecaster"] == "drift"]
    assert row["verdict"] != "is the market"
    wide = told(capsys, *here, "--margin", "0.05")
    (row,) = [r for r in wide["leaderboard"] if r["forecaster"] == "drift"]
    assert row["verdict"] == "is the market"
    assert "within 0.05" in row["reasons"][0]
    assert "no difference within 0.05" in wide["settings"]
