"""Rounds from venues on loopback, day after day: each market once, killed and resumed."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.store.archive.reader import Archive
from experiments import Out
from opened import condition, ticker, vendor_of_open
from program import Program
from vendor import Vendor, serving

DAY = timedelta(days=1)


@pytest.fixture
def dead() -> set[str]:
    return set()


@pytest.fixture
def venue(
    sim_archive: Archive, home: Path, dead: set[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Vendor]:
    vendor = vendor_of_open(sim_archive, dead)
    with serving(vendor):
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        yield vendor


@pytest.fixture
def first_day(sim_archive: Archive) -> datetime:
    """A day in the middle of the world, at noon."""
    ends = sorted(r.known_at for r in Gateway(RecordedWorld(sim_archive)).full_view().resolutions())
    return ends[len(ends) // 3].replace(hour=12, minute=0, second=0, microsecond=0)


def crawled(capsys: Out, *more: str, code: int = 0) -> list[dict[str, Any]]:
    assert cli(["bench", "crawl", "--json", *more]) == code
    text = capsys.readouterr().out
    return json.loads(text)["rounds"] if text else []


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_three_days_and_each_question_once(
    venue: Vendor, home: Path, first_day: datetime, capsys: Out, sim_archive: Archive
) -> None:
    seen = dict[str, str]()
    for n in range(3):
        with time_machine.travel(first_day + n * DAY, tick=True):
            (made,) = crawled(capsys, *(["--limit", "8"] if n == 0 else []))
            assert made["new"]
            folder = Path(made["out"])
            assert folder.name == f"{first_day + n * DAY:%Y-%m-%d}"
            events, left = lines(folder / "events.jsonl"), lines(folder / "left_out.jsonl")
            assert made["round"]["digest"] == digest((folder / "events.jsonl").read_bytes())
            for event in events:
                assert event["id"] not in seen, "no event is in two rounds"
                seen[event["id"]] = folder.name
                assert 0 <= event["baseline_probability"] <= 1
            held = {m.id for m in Gateway(RecordedWorld(Archive(home / "data" / "archive"))).at(first_day + n * DAY + timedelta(hours=1)).markets()}  # fmt: skip
            assert {e["id"] for e in events} | {one["id"] for one in left} == held
            asked = len(venue.log)
            (again,) = crawled(capsys)
            assert not again["new"]
            assert again["round"] == made["round"]
            assert len(venue.log) == asked, "a frozen round asks nobody"
            if n == 0:
                assert len(events) == 8
                twice = [one for one in left if one["reason"] == "asked twice"]
                assert twice, "every tenth market is on both venues"
                pairs = {condition(m.id): ticker(m.id) for m in _every(sim_archive)}
                for one in twice:
                    a, b = (name.partition(":")[2] for name in (one["id"], one["same_as"]))
                    assert pairs.get(a) == b or pairs.get(b) == a
    assert len(set(seen.values())) >= 2, "the second day takes what the first one left"


def _every(archive: Archive) -> Any:
    return Gateway(RecordedWorld(archive)).full_view().markets()


def test_a_venue_that_is_down_loses_nothing(
    venue: Vendor, dead: set[str], home: Path, first_day: datetime, capsys: Out
) -> None:
    dead.add("kalshi")
    with time_machine.travel(first_day, tick=True):
        crawled(capsys, code=1)
        polymarket = sum("keyset" in one.path for one in venue.log)
        assert polymarket > 1
        assert not list((home / "data" / "rounds").glob("*/round.json"))
        dead.clear()
        (made,) = crawled(capsys)
    assert made["new"]
    assert sum("keyset" in one.path for one in venue.log) == polymarket, "it is not listed again"
    events = lines(Path(made["out"]) / "events.jsonl")
    assert {e["id"].partition(":")[0] for e in events} == {"POLYMARKET", "KALSHI"}


def test_a_schedule_goes_on(venue: Vendor, home: Path, first_day: datetime, capsys: Out) -> None:
    """Two rounds, a minute apart, each with its own name; the second has nothing that the first
    has."""
    with time_machine.travel(first_day + timedelta(seconds=57), tick=True):
        made = crawled(capsys, "--every", "1m", "--times", "2", "--limit", "5")
    assert [one["new"] for one in made] == [True, True]
    one, other = (lines(Path(each["out"]) / "events.jsonl") for each in made)
    assert not {e["id"] for e in one} & {e["id"] for e in other}
    names = [Path(each["out"]).name for each in made]
    assert names == [f"{first_day:%Y-%m-%d}T1200", f"{first_day:%Y-%m-%d}T1201"]


def test_kill_9_while_crawling(venue: Vendor, home: Path, first_day: datetime, capsys: Out) -> None:
    """Killed three times at different moments, and then left alone: one whole round, and the venue
    that had been listed is not listed again."""
    program = (
        "import sys, time_machine\nfrom beforehand.cli.app import run\n"
        f"with time_machine.travel('{iso(first_day)}', tick=True):\n"
        "    sys.exit(run(['bench', 'crawl', '--json']))"
    )
    with time_machine.travel(first_day, tick=True):
        for wait in (1, 5, 8):
            before = len(venue.log)
            with Program([sys.executable, "-c", program], stdout=subprocess.DEVNULL) as one:
                while len(venue.log) < before + wait and one.poll() is None:
                    time.sleep(0.005)
                one.send_signal(signal.SIGKILL)
        (made,) = crawled(capsys)
    events = lines(Path(made["out"]) / "events.jsonl")
    assert len(events) == len({e["id"] for e in events}) == made["round"]["events"] > 10


def test_orders_that_give_nothing(venue: Vendor, home: Path, capsys: Out) -> None:
    for more, said in (
        (["--venue", "manifold"], "open markets are listed by polymarket, kalshi"),
        (["--times", "2"], "--times must be at least 1, and goes with --every"),
        (["--every", "1s"], "is not an interval"),
        (["--limit", "0"], "a limit must be at least 1"),
    ):
        assert cli(["bench", "crawl", *more]) == 2
        assert said in capsys.readouterr().err
    assert not venue.log


def test_a_cursor_that_comes_again_ends_the_list(
    venue: Vendor, home: Path, first_day: datetime, capsys: Out
) -> None:
    venue.route("kalshi", "/events", {"events": [], "cursor": "same"})
    with time_machine.travel(first_day, tick=True):
        (made,) = crawled(capsys)
    assert made["new"]
    assert sum(one.path == "/events" for one in venue.log) == 2


def test_events_have_the_category_and_the_labels_of_their_venue(
    venue: Vendor, home: Path, first_day: datetime, capsys: Out
) -> None:
    with time_machine.travel(first_day, tick=True):
        (made,) = crawled(capsys, "--category", "economics")
    events = lines(Path(made["out"]) / "events.jsonl")
    assert events
    assert {one["source"]["type"] for one in events} == {"Polymarket"}
    assert {(one["domain"], *one["tags"]) for one in events} == {("Economics", "Indices")}
    assert made["round"]["left_out"]["another category"] > 0


def test_damaged_rounds_are_named(
    venue: Vendor, home: Path, first_day: datetime, capsys: Out
) -> None:
    """One sentence each; a schedule says it and goes on."""
    with time_machine.travel(first_day, tick=True):
        (made,) = crawled(capsys, "--limit", "3")
        assert cli(["bench", "crawl", "--limit", "4"]) == 0
        assert "under other bounds" in capsys.readouterr().out
    folder = Path(made["out"])
    events, frozen = folder / "events.jsonl", folder / "round.json"
    whole, seal = events.read_text(), frozen.read_text()
    broken = [
        '{"id": "x"',
        "[1]",
        '"x"',
        "{}",
        '{"id": 1, "question": "?", "resolution_date": 5}',
        "\xff",
    ]
    with time_machine.travel(first_day + DAY, tick=True):
        for text in broken:
            events.write_bytes(text.encode("latin-1") + b"\n")
            assert cli(["bench", "crawl"]) in (1, 2), text
            assert capsys.readouterr().err.strip().count("\n") == 0
        events.write_text(whole)
    with time_machine.travel(first_day, tick=True):
        for text in ("[]", "{}", "7"):
            frozen.write_text(text)
            assert cli(["bench", "crawl"]) == 1
            assert "is not what freezes a round" in capsys.readouterr().err
        frozen.write_text(seal)
        events.write_text(whole + whole)
        assert cli(["bench", "crawl"]) == 1
        assert "was changed after the round was frozen" in capsys.readouterr().err
