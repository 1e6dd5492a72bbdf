"""`backtest run --fetch`: named markets from vendors on loopback, fetched and backtested; the second
time without a request, and nothing paid twice whatever stopped the first."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso, parse_instant
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.manifest import digest_of, need_manifest
from beforehand.store.archive.reader import Archive
from experiments import Out, told
from program import Program
from settled import _condition as condition
from settled import _ticker as ticker
from settled import vendor_of_settled
from vendor import Asked, Vendor, serving

FEW = ("--draws", "100", "--placebo", "0", "--grid", "own", "--every", "14d")
PRICE = 0.007


@pytest.fixture
def venue(
    sim_archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Vendor]:
    """Both venues, and Exa, which dates a page before each bound and one after it."""
    vendor = vendor_of_settled(sim_archive, datetime(2025, 4, 1, tzinfo=UTC), frozenset())

    def exa(asked: Asked) -> Any:
        bound = asked.body["endPublishedDate"]
        before = iso(parse_instant(bound) - timedelta(days=3))
        early = {"url": f"https://example.org/{bound}", "title": f"Talk surges: {asked.body['query']}", "publishedDate": before, "text": "News.", "snapshotAt": bound}  # fmt: skip
        late = {**early, "url": f"https://example.org/late/{bound}", "publishedDate": "2027-01-01T00:00:00Z", "snapshotAt": "2027-01-01T00:00:00Z"}  # fmt: skip
        return {"results": [early, late], "costDollars": {"total": PRICE}}

    listed = vendor.routes["kalshi", "/markets"]

    def kalshi(asked: Asked) -> Any:
        name = asked.path.partition("/markets")[2].strip("/")
        if not name:
            return listed(asked)
        whole, first = list[Any](), "0"
        while first:
            page = listed(Asked("GET", "/markets", [("cursor", first)], None, {}))
            whole, first = whole + page["markets"], page["cursor"]
        return next(({"market": row} for row in whole if row["ticker"] == name), 404)

    old = vendor.routes["kalshi", "/historical/markets"]
    vendor.route("kalshi", "/markets", kalshi)
    vendor.route(
        "kalshi", "/historical/markets", lambda a: old(a) if "candlesticks" in a.path else kalshi(a)
    )
    vendor.route("exa", "/search", exa)
    with serving(vendor):
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        yield vendor


def names(archive: Archive, n: int) -> list[str]:
    """Some settled markets under the ids that the venues give them, half of each."""
    view = Gateway(RecordedWorld(archive)).full_view()
    ids = [r.market_id for r in view.resolutions() if r.payout in (0.0, 1.0)][:n]
    recent = [
        r.market_id for r in view.resolutions() if r.resolved_at > datetime(2025, 4, 2, tzinfo=UTC)
    ]
    return [f"POLYMARKET:{condition(i)}" for i in ids] + [f"KALSHI:{ticker(i)}" for i in recent[:n]]


def searches(venue: Vendor) -> list[Any]:
    return [json.dumps(one.body, sort_keys=True) for one in venue.log if one.path == "/search"]


def state(home: Path) -> str:
    return digest_of(need_manifest(home / "data" / "archive")["segments"])


def test_fetch_twice_is_one_archive(
    venue: Vendor, home: Path, capsys: Out, sim_archive: Archive
) -> None:
    order = ["backtest", "run", "--markets", ",".join(names(sim_archive, 3)), "--fetch", "--forecasters", "market,news_tilt", *FEW]  # fmt: skip
    first = told(capsys, *order, "--run-id", "one")
    paid, archive, asked = searches(venue), state(home), len(venue.log)
    assert len(paid) == len(set(paid)) > 6
    again = told(capsys, *order, "--run-id", "two")
    assert len(venue.log) == asked, "not a request"
    assert state(home) == archive
    assert again["leaderboard"] == first["leaderboard"]
    rows = [
        json.loads(line)
        for line in (home / "data" / "runs" / "one" / "intervals.jsonl").read_text().splitlines()
    ]
    shown = [s for row in rows for s in row["context"]["search_snippets"]]
    assert shown, "pages that were stored by then"
    assert first["leaks"]["documents_nominated"] == first["leaks"]["documents_shown"] == len(shown)
    assert first["validity"]["share_nominated"]["value"] == 1, "which ones is today's knowledge"
    assert all(
        s["timestamp"] <= row["context"]["time"]
        for row in rows
        for s in row["context"]["search_snippets"]
    )
    assert "example.org/late" not in json.dumps(rows)
    markets = {row["market_id"] for row in rows}
    assert {m.partition(":")[0] for m in markets} == {"POLYMARKET", "KALSHI"}
    told(capsys, *order, "--run-id", "three", "--evidence", "4")
    assert len(searches(venue)) == 2 * len(paid), "another number of pages is another search"


def test_what_it_costs_is_said_before(
    venue: Vendor, home: Path, capsys: Out, sim_archive: Archive
) -> None:
    order = ["backtest", "run", "--markets", ",".join(names(sim_archive, 2)), "--fetch", "--forecasters", "market", *FEW]  # fmt: skip
    assert cli([*order, "--dry-run"]) == 0
    said = capsys.readouterr().err
    assert "searches with Exa, one for each market and instant, cost about $" in said
    assert not searches(venue), "a dry run pays nothing"
    assert cli([*order, "--max-cost", "0.01"]) == 2
    assert "and the limit is $0.01" in capsys.readouterr().err
    assert not searches(venue)
    assert cli([*order, "--max-cost", "5"]) in (0, 3)
    assert f"(${PRICE * len(searches(venue)):.2f})" in capsys.readouterr().err
    assert cli([*order, "--evidence", "0"]) in (0, 3)
    assert "searches" not in capsys.readouterr().err


def test_without_a_key_and_without_markets(
    venue: Vendor, home: Path, capsys: Out, sim_archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXA_API_KEY")
    order = ["backtest", "run", "--fetch", "--forecasters", "market", *FEW]
    good = names(sim_archive, 2)
    assert cli([*order, "--markets", ",".join([*good, "KALSHI:NOBODY"])]) in (0, 3)
    said = capsys.readouterr().err
    assert "EXA_API_KEY is not set" in said
    assert "KALSHI:NOBODY: " in said
    for more, why in (
        ([], "--fetch needs --markets"),
        (["--markets", "SIMEX:m0001"], "names no venue that can be asked"),
        (["--markets", "KALSHI:NOBODY"], "no market can be had"),
    ):
        assert cli([*order, *more]) == 2
        assert why in capsys.readouterr().err


def test_one_wording_is_searched_once_and_a_limit_holds(
    venue: Vendor, home: Path, capsys: Out, sim_archive: Archive
) -> None:
    """Markets that share their words share their searches; what Exa states counts against the
    limit, whatever a list says; an answer that cannot be read is paid once and named."""
    gamma = venue.routes["gamma", "/markets/keyset"]

    def same(asked: Asked) -> Any:
        found = gamma(asked)
        return {
            **found,
            "markets": [{**row, "question": "Will it rain?"} for row in found["markets"]],
        }

    venue.route("gamma", "/markets/keyset", same)
    mine = ",".join(name for name in names(sim_archive, 4) if "POLY" in name)
    order = ["backtest", "run", "--markets", mine, "--fetch", "--forecasters", "market", *FEW]
    assert cli(order) in (0, 3)
    capsys.readouterr()
    asked = searches(venue)
    assert len(asked) == len(set(asked))
    assert len(asked) > 3
    venue.route("exa", "/search", lambda _: {"results": [], "costDollars": {"total": 1.0}})
    dear = [*order, "--evidence", "3", "--max-cost", "2.5"]
    assert cli(dear) == 3
    assert "by what Exa states, and the limit is $2.5" in capsys.readouterr().err
    assert len(searches(venue)) - len(asked) == 2, "stopped before it would be more"
    venue.route("exa", "/search", b"not json")
    bad = [*order, "--evidence", "2"]
    cli(bad)
    first, said = len(searches(venue)), capsys.readouterr().err
    assert "JSON" in said, said
    cli(bad)
    assert "an answer on record cannot be read, and stays" in capsys.readouterr().err
    assert len(searches(venue)) == first


def test_kill_9_pays_nothing_twice(
    venue: Vendor, home: Path, capsys: Out, sim_archive: Archive
) -> None:
    """Killed at four moments of the fetch: whatever was answered is on record, and is not asked
    again. (A search that was under way when the process died may be asked once more: each kill at
    most one.)"""
    order = ["backtest", "run", "--markets", ",".join(names(sim_archive, 3)), "--fetch", "--forecasters", "market", *FEW]  # fmt: skip
    kills = 0
    for wait in (4, 14, 20, 26):
        with Program([sys.executable, "-m", "beforehand", *order], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:  # fmt: skip
            while len(venue.log) < wait and one.poll() is None:
                time.sleep(0.002)
            kills += one.poll() is None
            one.kill()
    done = told(capsys, *order, "--run-id", "end")
    assert done["leaderboard"][0]["n"] > 5
    asked = searches(venue)
    assert len(asked) - len(set(asked)) <= kills
