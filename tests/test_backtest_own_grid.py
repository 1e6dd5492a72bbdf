"""Two forecasters that never forecast at the same instant, and dates as people write them."""

import json
from pathlib import Path

import numpy as np
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import from_us, iso_us, to_us
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.grid import end_of
from beforehand.store.archive.reader import Archive

DAY = 86_400_000_000


@pytest.fixture
def rows(sim_archive: Archive) -> list[tuple[str, int, float]]:
    """Market, instant and price on two days of each of many markets."""
    world = RecordedWorld(sim_archive)
    view, found = Gateway(world).full_view(), list[tuple[str, int, float]]()
    for ending in view.resolutions():
        if ending.payout is None:
            continue
        prices = world.series(ending.market_id)
        for t, p in zip(prices.known_at[:40:10], prices.price[:40:10], strict=True):
            if int(t) + 1 < to_us(end_of(ending)):
                found.append((ending.market_id, int(t) + 1, float(p)))
    return found


def write(path: Path, rows: list[tuple[str, int, float]]) -> Path:
    lines = [f"{name},{iso_us(t)},{p:.4f}" for name, t, p in rows]
    path.write_text("\n".join(["id,time,probability", *lines]) + "\n")
    return path


def score(path: Path, sim: Path, *more: str) -> int:
    return cli(
        ["score", str(path), "--archive", str(sim), "--draws", "300", "--placebo", "0", *more]
    )


def test_each_is_held_against_the_market_at_its_own_instants(
    rows: list[tuple[str, int, float]],
    sim: Path,
    sim_archive: Archive,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The difference is that of two skills, by hand; the market's copier against itself is 0."""
    ends = {
        r.market_id: r.payout
        for r in Gateway(RecordedWorld(sim_archive)).full_view().resolutions()
        if r.payout is not None
    }
    mine = [(m, t, min(0.99, max(0.01, p + 0.1))) for m, t, p in rows[::2]]
    theirs = [(m, t, min(0.99, max(0.01, p - 0.05))) for m, t, p in rows[1::2]]
    for name, said in (("mine", mine), ("theirs", theirs)):
        score(write(tmp_path / f"{name}.csv", said), sim, "--run-id", name)
    capsys.readouterr()
    assert cli(["runs", "compare", "mine", "theirs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    prices = {(m, t): p for m, t, p in rows}

    def skills(said: list[tuple[str, int, float]]) -> dict[str, float]:
        by_market = dict[str, list[float]]()
        for m, t, p in said:
            y, p = ends[m], round(p, 4)
            by_market.setdefault(m, []).append((prices[m, t] - y) ** 2 - (p - y) ** 2)
        return {m: float(np.mean(gains)) for m, gains in by_market.items()}

    a, b = skills(mine), skills(theirs)
    shared = a.keys() & b.keys()
    assert found["n_questions"] == len(shared) > 50
    assert found["difference"] == pytest.approx(np.mean([a[m] - b[m] for m in shared]))
    assert found["skills"][0] == pytest.approx(np.mean([a[m] for m in shared]))
    low, high = found["ci"]
    assert low < found["difference"] < high
    assert cli(["runs", "compare", "mine", "theirs"]) == 0
    assert "never forecast at the same instant" in capsys.readouterr().out
    for name, said in (("copy1", rows[::2]), ("copy2", rows[1::2])):
        score(write(tmp_path / f"{name}.csv", said), sim, "--run-id", name)
    capsys.readouterr()
    assert cli(["runs", "compare", "copy1", "copy2", "--json"]) == 0
    copies = json.loads(capsys.readouterr().out)
    assert abs(copies["difference"]) < 1e-4, "prices in four decimals"
    assert cli(["runs", "compare", "mine", "theirs:market"]) == 2, "no instant is shared"
    assert "nothing can be paired" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "dates", "read"),
    [
        ("{d:02}.{m:02}.{y} {h}:30", "day-first", True),
        ("{m}/{d}/{y}", "month-first", True),
        ("{d}-{m}-{y} {h}:30:00", "day-first", True),
        ("{d:02}.{m:02}.{y}", None, False),
        ("45.13.{y}", "day-first", False),
    ],
)
def test_dates_as_people_write_them(
    rows: list[tuple[str, int, float]],
    sim: Path,
    tmp_path: Path,
    written: str,
    dates: str | None,
    read: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "mine.csv"
    lines = ["id,time,probability"]
    for m, t, p in rows[:20:4]:
        at = from_us(t + DAY)
        lines.append(f"{m},{written.format(d=at.day, m=at.month, y=at.year, h=12)},{p}")
    path.write_text("\n".join(lines) + "\n")
    more = [] if dates is None else ["--dates", dates]
    code = score(path, sim, "--check", "--timezone", "UTC", "--json", *more)
    found = json.loads(capsys.readouterr().out)
    if not read:
        assert (code, found["scored"]) == (3, 0)
        (why,) = found["not_scored"]
        assert ("--dates day-first" in why) == (dates is None)
        return
    assert (code, found["scored"]) == (0, 5)
    at = from_us(rows[0][1] + DAY)
    assert any(one["time"][:10] == f"{at:%Y-%m-%d}" for one in found["examples"])


def test_files_that_are_none(sim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.csv"
    for content, why in (
        (b"id,time,probability\n", "has a header and no rows"),
        (b"PK\x03\x04....", "is a workbook (xlsx) or a zip: export it as CSV"),
        ("id,time,probability\nÄ,2026-01-01,.5\n".encode("cp1252"), "save it as UTF-8"),
    ):
        path.write_bytes(content)
        assert score(path, sim, "--check") == 2
        assert why in capsys.readouterr().err


def test_a_scored_file_has_its_prices_in_python(
    rows: list[tuple[str, int, float]], sim: Path, tmp_path: Path
) -> None:
    import beforehand as bh

    path = write(tmp_path / "mine.csv", [(m, t, 0.5) for m, t, _ in rows])
    run = bh.score_forecasts(path, bh.World(sim), draws=200, placebo=0, progress=False)
    table = run.forecasts
    prices = {(m, t): p for m, t, p in rows}
    assert len(table) == len(rows)
    got = zip(*(table.column(n).values for n in ("market_id", "time", "market")), strict=True)
    assert all(price == pytest.approx(prices[m, int(t)]) for m, t, price in got)


def figures(value: object) -> list[float]:
    """All numbers of a JSON value, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for one in value for number in figures(one)]
    return [float(value)] if isinstance(value, int | float) else []


def test_figures_do_not_depend_on_who_else_is_scored(
    rows: list[tuple[str, int, float]],
    sim: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Alone, and beside one with other markets and instants: the same board row and slices."""
    mine = [(m, t, min(0.99, max(0.01, p + 0.1))) for m, t, p in rows[: len(rows) // 2 : 2]]
    theirs = [(m, t, min(0.99, max(0.01, p - 0.05))) for m, t, p in rows[1::2]]
    found = []
    for files in ([mine], [mine, theirs]):
        path = tmp_path / "both.csv"
        lines = [
            f"{name},{m},{iso_us(t)},{p:.4f}"
            for name, part in zip(("alpha", "beta"), files, strict=False)
            for m, t, p in part
        ]
        path.write_text("\n".join(["forecaster,id,time,probability", *lines]) + "\n")
        more = ["--archive", str(sim), "--draws", "300", "--placebo", "0", "--json"]
        assert cli(["score", str(path), *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    alone, beside = (next(r for r in s["leaderboard"] if r["forecaster"] == "alpha") for s in found)
    # What counts the others by design: coverage, and what is deflated for the number tried.
    others = {"answered", "missing", "verdict", "reasons", "fresh", "kelly"}
    assert alone.keys() == beside.keys()
    assert alone["evidence"]["widened"] < beside["evidence"]["widened"]
    # What is widened for the number tried.
    others |= {"minimum_detectable_effect", "evidence"}
    for key in ("mean", "ci", "effective_periods", "mean_cost", "leading", "heaviest"):
        there = figures(beside["evidence"][key])
        assert figures(alone["evidence"][key]) == pytest.approx(there, abs=1e-12), key
    for key in alone.keys() - others:
        assert figures(alone[key]) == pytest.approx(figures(beside[key]), abs=1e-12), key
    # The drawdown at prices is better known where there are more instants with a price.
    counted = {"best_by_chance", "tried", "note", "drawdown_at_prices"}
    for key in alone["kelly"].keys() - counted:
        there = figures(beside["kelly"][key])
        assert figures(alone["kelly"][key]) == pytest.approx(there, abs=1e-12), key
    parts = [
        {
            (part["by"], part["name"]): row
            for part in one["slices"]
            for row in part["leaderboard"]
            if row["forecaster"] == "alpha" and row["n"]
        }
        for one in found
    ]
    shared = parts[0].keys() & parts[1].keys()
    assert len(shared) > 5
    for key in shared - {k for k in shared if k[0] == "category"}:
        there = figures(parts[1][key])
        assert figures(parts[0][key]) == pytest.approx(there, abs=1e-12), key
