"""Settled markets fetched from servers on loopback: resumable, and backtested to the same figures
as the world that the servers render."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from program import Program, run_program
from settled import vendor_of_settled
from vendor import Asked, Vendor, serving

Out = pytest.CaptureFixture[str]
CUTOFF = datetime(2025, 4, 1, tzinfo=UTC)
SINCE = ["--since", "2020-01-01"]


@pytest.fixture
def venue(
    sim_archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Vendor]:
    vendor = vendor_of_settled(sim_archive, CUTOFF, frozenset())
    with serving(vendor):
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
        yield vendor


def fetched(capsys: Out, *more: str) -> dict[str, object]:
    assert cli(["world", "fetch", *more, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", ["polymarket", "kalshi"])
def test_fetch_twice_is_one_archive(name: str, venue: Vendor, tmp_path: Path, capsys: Out) -> None:
    target = ["--archive", str(tmp_path / "a"), *SINCE, "--limit", "12"]
    target += ["--series", "KXSIM"] if name == "kalshi" else []
    first = fetched(capsys, name, *target)
    assert (first["new"], first["present"], first["more"]) == (12, 0, True)
    asked = len(venue.log)
    again = fetched(capsys, name, *target)
    assert (again["new"], again["present"]) == (0, 12)
    listing = {a.path for a in venue.log[asked:]}
    assert not any("history" in path or "candlesticks" in path for path in listing)
    assert len(list(Archive(tmp_path / "a").series())) == 12


def test_the_world_comes_back(
    venue: Vendor, sim_archive: Archive, tmp_path: Path, capsys: Out
) -> None:
    """Prices, endings and texts of the archive that was fetched are those of the world behind it;
    a text is known at its fetch, and under the grade `published` at its listing."""
    fetched(capsys, "polymarket", *SINCE, "--limit", "500", "--archive", str(tmp_path / "a"))
    truth = RecordedWorld(sim_archive)
    found = RecordedWorld(Archive(tmp_path / "a"))
    theirs, ours = Gateway(truth).full_view(), Gateway(found).full_view()
    by_question = {theirs.market(r.market_id).question: r for r in theirs.resolutions()}
    endings = [r for r in ours.resolutions() if r.payout is not None]
    ids = {r.market_id for r in endings}
    paid = {r.market_id: r.payout for r in theirs.resolutions() if r.payout is not None}
    halves = sum(payout == 0.5 for payout in paid.values())  # Polymarket calls these void.
    assert halves > 0
    assert len(ids) == len(paid) - halves
    for name in sorted(ids):
        ending = by_question[ours.market(name).question]
        mine = [r for r in endings if r.market_id == name]
        assert {(r.payout, r.resolved_at) for r in mine} == {(ending.payout, ending.resolved_at)}
        a, b = truth.series(ending.market_id), found.series(name)
        assert a is not None
        assert b is not None
        assert [round(float(p), 4) for p in a.price] == [float(p) for p in b.price]
    one = sorted(ids)[0]
    opened = min(v.known_at for v in found.market_versions(one, 0))
    assert Gateway(found).at(opened).market(one).question is None
    later = RecordedWorld(Archive(tmp_path / "a"), "published")
    shown = Gateway(later).at(opened).market(one)
    assert shown.question == ours.market(one).question
    assert shown.scheduled_close is None


def test_a_backtest_of_what_was_fetched(venue: Vendor, tmp_path: Path, capsys: Out) -> None:
    fetched(capsys, "kalshi", *SINCE, "--series", "KXSIM", "--archive", str(tmp_path / "a"))
    run = ["backtest", "run", "--archive", str(tmp_path / "a"), "--forecasters", "market,drift"]
    assert cli([*run, "--every", "28d", "--grade", "published", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    market = next(row for row in scores["leaderboard"] if row["forecaster"] == "market")
    assert market["skill_vs_market"] == 0.0


def test_kalshi_says_what_it_does_not_list(venue: Vendor, tmp_path: Path, capsys: Out) -> None:
    assert cli(["world", "fetch", "kalshi", *SINCE, "--archive", str(tmp_path / "a")]) == 0
    said = capsys.readouterr()
    assert f"before {iso(CUTOFF)} by series alone" in said.err
    assert "/historical/markets" not in {a.path for a in venue.log}


def test_one_market_that_cannot_be_read(
    sim_archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """It is named, left out, asked for again the next time; the others are there."""
    whole = vendor_of_settled(sim_archive, CUTOFF, frozenset())
    first = whole.answer("gamma", Asked("GET", "/markets/keyset", [], None, {}))["markets"][0]["id"]
    vendor = vendor_of_settled(sim_archive, CUTOFF, frozenset({first}))
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
    with serving(vendor):
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        command = ["world", "fetch", "polymarket", *SINCE, "--limit", "5"]
        command += ["--archive", str(tmp_path / "a"), "--json"]
        assert cli(command) == 3
        found = json.loads(capsys.readouterr().out)
        assert found["new"] == 5
        assert len(found["failures"]) == 1
        vendor.routes = whole.routes
        assert cli(command) == 0
        assert json.loads(capsys.readouterr().out)["new"] == 1


def test_killed_and_resumed(venue: Vendor, tmp_path: Path, capsys: Out) -> None:
    """After kill -9 at a random moment the same command ends with the same archive, and no history
    that was read to its end is asked for again."""
    target = ["polymarket", *SINCE, "--limit", "30", "--archive"]
    fetched(capsys, *target, str(tmp_path / "whole"))
    command = [sys.executable, "-m", "beforehand", "world", "fetch", *target, str(tmp_path / "cut")]
    env = {**os.environ, "BEFOREHAND_HOME": str(tmp_path / "other")}
    slow = venue.routes["polymarket-data", "/v2/prices-history"]

    def late(asked: Asked) -> object:
        time.sleep(0.05)
        return slow(asked)

    venue.routes["polymarket-data", "/v2/prices-history"] = late
    venue.log.clear()
    process = Program(command, env=env, stderr=subprocess.DEVNULL)
    while sum("history" in a.path for a in list(venue.log)) < 11:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    done = run_program([*command, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["present"] >= 9
    histories = sum("history" in a.path for a in venue.log)
    assert 30 <= histories <= 31
    whole, cut = Archive(tmp_path / "whole"), Archive(tmp_path / "cut")
    assert whole.counts()["price"] == cut.counts()["price"]
    assert set(whole.series()) == set(cut.series())


def test_the_nights_of_a_resolution_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Each night's price is known at that night's publication; a second call downloads nothing."""

    def night(price: float) -> bytes:
        row = {"id": "0xab", "source": "polymarket", "resolution_date": "2026-01-05"}
        row |= {"resolved_to": price, "resolved": False}  # type: ignore[dict-item]
        return json.dumps({"forecast_due_date": "2026-01-04", "resolutions": [row]}).encode()

    vendor = Vendor()
    days = {f"{i:040x}": 0.4 + i / 100 for i in range(1, 4)}
    name = "2026-01-04_resolution_set.json"
    for commit, price in days.items():
        path = f"/raw/{commit}/datasets/resolution_sets/{name}"
        vendor.route("download", path, lambda _, p=price: night(p))
    commits = [
        {"sha": commit, "commit": {"committer": {"date": f"2026-01-{7 + i:02d}T04:00:00Z"}}}
        for i, commit in enumerate(days)
    ]
    vendor.route("download", "/commits", lambda _: commits[::-1])
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
    with serving(vendor):
        base = f"http://127.0.0.1:{vendor.port}/download"
        command = ["forecastbench", "--nightly", "--due", "2026-01-04", "--since", "2026-01-01"]
        command += ["--base-url", f"{base}/raw/main/datasets", "--commits-url", f"{base}/commits"]
        command += ["--archive", str(tmp_path / "a"), "--out", str(tmp_path / "sets")]
        first = fetched(capsys, *command)
        assert (first["nights"], first["downloaded"], first["prices"]) == (3, 3, 3)
        again = fetched(capsys, *command)
        assert (again["nights"], again["downloaded"], again["prices"]) == (3, 0, 0)
        assert cli(["world", "fetch", *command[:-4], "--due", "2020-01-05"]) != 0
    world = RecordedWorld(Archive(tmp_path / "a"))
    at = datetime(2026, 1, 8, 12, tzinfo=UTC)
    odds = Gateway(world).at(at).odds("POLYMARKET:0xab")
    assert odds is not None
    assert round(odds.price, 4) == 0.42
