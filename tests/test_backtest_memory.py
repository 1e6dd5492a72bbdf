"""Who may remember what came later, and forecasters that keep something between two questions."""

import json
import threading
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.config import Home
from beforehand.forecast.base import class_of
from beforehand.forecast.schemes.held import HELD
from beforehand.forecast.schemes.http import Address
from beforehand.forecast.schemes.model import Model
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.order import compile_plan
from beforehand.llm.names import service_of
from beforehand.store.archive.reader import Archive
from beforehand.store.journal.calls import Calls
from beforehand.store.journal.memory import remembered
from experiments import (
    DAY,
    MONDAY,
    QUICK,
    Out,
    cast_of,
    config,
    experiment,
    intervals,
    told,
    waits_for,
)
from jobs import open_store
from proofs import some


class Prophet(Provider):
    """Knows how everything ends, and says a third of it, with noise."""

    def __init__(self, archive: Path) -> None:
        super().__init__(latency=0.0)
        ends = Gateway(RecordedWorld(Archive(archive))).full_view().resolutions()
        self.ends = {r.market_id: r.payout or 0.0 for r in ends}

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        super().answer(key, path, body, index)
        market = json.loads(body)["market"]
        noise = (sum(map(ord, market["id"] + json.loads(body)["time"])) % 25 - 12) / 60
        p = min(max(0.7 * market["odds"] + 0.3 * self.ends[market["id"]] + noise, 0.01), 0.99)
        return 200, json.dumps({"probability": p}).encode()


def test_who_was_asked_about_later_instants_before_may_remember(
    sim: Path, home: Path, capsys: Out
) -> None:
    def verdict(found: dict[str, Any]) -> tuple[str, str]:
        row = next(r for r in found["leaderboard"] if r["forecaster"] == prophet.address())
        return row["verdict"], row["order"]

    with serving(Prophet(sim)) as prophet:
        command = ["backtest", "run", "--archive", str(sim), "--forecasters", prophet.address()]
        command += [*QUICK, "--every", "14d"]
        first = told(capsys, *command, "--run-id", "first")
        assert verdict(first) == ("beats the market", "asked in order")
        again = told(capsys, *command, "--run-id", "again")
        assert verdict(again) == ("not shown", "may remember")
        row = next(r for r in again["leaderboard"] if r["forecaster"] == prophet.address())
        assert "asked about later instants (run first)" in row["reasons"][0]
        assert "--fresh" in row["reasons"][0]
        assert cli(["runs", "show", "again"]) == 0
        assert "may remember" in capsys.readouterr().out
        fresh = told(capsys, *command, "--run-id", "fresh", "--fresh")
        assert verdict(fresh) == ("beats the market", "asked in order, stated as restarted")


def test_who_was_asked_meanwhile_may_remember(sim: Path, home: Path, capsys: Out) -> None:
    """In a fork, under another name of the service, and by a run in between."""

    def order(found: dict[str, Any]) -> str:
        row = next(r for r in found["leaderboard"] if r["forecaster"] == prophet.address())
        return str(row["order"])

    with serving(Prophet(sim)) as prophet:
        command = ["backtest", "run", "--archive", str(sim), "--forecasters", prophet.address()]
        command += [*QUICK, "--every", "56d"]
        told(capsys, *command, "--run-id", "fresh")
        middle = intervals(home, "fresh")[len(intervals(home, "fresh")) // 2]["time"]
        forked = told(
            capsys, "runs", "fork", "fresh", "--at", middle, "--new-id", "f", "--model",
            f"{prophet.address()}={prophet.address('/other')}",
        )  # fmt: skip
        rows = {r["forecaster"]: r["order"] for r in forked["leaderboard"]}
        assert rows[prophet.address("/other")] == "may remember", "the same service"
        # Stopped in the middle, another run meanwhile, then resumed.
        assert cli([*command, "--run-id", "late", "--fresh", "--max-calls", "20"]) == 3
        told(capsys, *command, "--run-id", "other", "--fresh")
        done = told(capsys, "runs", "resume", "late", "--max-calls", "100000")
        assert order(done) == "may remember"
        assert cli([*command, "--run-id", "last", "--fresh", "--max-calls", "20"]) == 3
        told(capsys, *command, "--run-id", "more", "--fresh")
        done = told(capsys, "runs", "resume", "last", "--max-calls", "100000", "--fresh")
        assert order(done) == "asked in order, stated as restarted"


def test_a_forecaster_asked_before_a_fork_may_remember(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """In the fork another baseline changes the contexts, so the address is asked anew."""
    path = config(home / "c.json", market, models=["baseline:market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    at = intervals(home, "r")[3]["time"]
    fork = ("runs", "fork", "r", "--at", at, "--model", "market=always:0.9", "--new-id")
    orders = []
    for name, more in (("f", ()), ("g", ("--fresh",))):
        found = told(capsys, *fork, name, *more)
        row = next(r for r in found["leaderboard"] if r["forecaster"] == provider.address())
        orders.append(row["order"])
    assert orders == ["may remember", "asked in order, stated as restarted"]


def test_what_may_be_remembered_is_not_lost_on_the_way(sim: Path, home: Path, capsys: Out) -> None:
    """A fork inherits it with the answers, other spellings of an address do not hide it, and neither
    does a file of predictions."""
    with serving(Prophet(sim)) as prophet:
        who = prophet.address()
        common = ["backtest", "run", "--archive", str(sim), "--every", "28d", *QUICK]
        for name in ("first", "again"):
            told(capsys, *common, "--forecasters", f"drift,{who}", "--run-id", name)
        middle = intervals(home, "again")[30]["time"]
        swap = ("--model", "drift=always:0.9", "--new-id", "f")
        calls = len(prophet.log)
        forked = told(capsys, "runs", "fork", "again", "--at", middle, *swap)
        assert len(prophet.log) == calls, "every answer is inherited"
        alias = who.replace("127.0.0.1", "LOCALHOST") + "?v=2"
        other = told(capsys, *common, "--forecasters", alias, "--run-id", "alias")
        for found, name in ((forked, who), (other, alias)):
            row = next(r for r in found["leaderboard"] if r["forecaster"] == name)
            assert (row["verdict"], row["order"]) == ("not shown", "may remember")
        bench = home / "bench"
        told(capsys, "bench", "ingest", "--archive", str(sim), "--out", str(bench))
        said, events = home / "p.jsonl", str(bench / "events.jsonl")
        told(
            capsys, "bench", "predict", "--archive", str(sim), "--events", events, "--out",
            str(said), "--forecasters", f"market,{who}",
        )  # fmt: skip
        found = told(
            capsys, "bench", "evaluate", "--events", events, "--predictions", str(said),
            "--resolutions", str(bench / "resolutions.jsonl"), "--placebo", "0",
        )  # fmt: skip
        row = next(r for r in found["leaderboard"] if r["forecaster"] == who)
        assert (row["verdict"], row["order"]) == ("not shown", "may remember")


def test_a_refused_resume_records_no_restart(
    made: Path, provider: Provider, home: Path, capsys: Out
) -> None:
    who = ["--forecasters", provider.address(), "--run-id", "r", "--max-calls", "2"]
    assert cli(["backtest", "run", "--archive", str(made), *who]) == 3
    journal, _ = open_store(home)
    with journal.database.hold("drive:r", Home(home).engine / "r.lock"):
        assert cli(["runs", "resume", "r", "--fresh"]) == 1
    row = journal.run("r")
    assert row is not None
    assert row.restarts == []


def test_services_and_names() -> None:
    same = (
        "http://127.0.0.1:80/f",
        "http://localhost/g?x=1",
        "HTTP://LOCALHOST:80",
        "http://[::1]/",
        "http://127.1",
        "http://127.0.0.2/f",
        "http://0x7f.1:80",
        "http://2130706433/",
        "http://0177.0.0.1",
        "http://[::ffff:127.0.0.1]",
        "http://localhost.:80/x",
        "http://mine.localhost",
        "http://0.0.0.0",
    )
    assert {service_of(address) for address in same} == {"localhost:80"}
    assert service_of("https://Example.org./x") == "example.org:443"
    for other in (
        "http://128.0.0.1",
        "http://127.0.0.1.example.org",
        "http://1.2.3.4.5",
        "http://127",
    ):
        assert not service_of(other).startswith("localhost"), other
    assert service_of("held:x") == "held:x"
    assert class_of("http://h/f?x=@http://other:1") is Address
    assert class_of("name@http://h:1/v1") is Model


class Moving:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = MONDAY

    def now(self) -> datetime:
        return self.at

    def step(self) -> None:
        self.at += timedelta(seconds=1)


SAY = {"task_id": "t", "provider": "p", "index": 0}


def test_what_a_service_may_remember_by_the_clock(home: Path) -> None:
    """A restart forgets; what is asked again after it may be known again; what never arrived was
    never shown."""
    journal, _ = open_store(home)
    clock = Moving()
    calls = Calls(journal.database, clock)

    def asked(run: str, key: str, instant: int) -> None:
        clock.step()
        calls.claim(run, key, owner="a", instant=instant, **SAY)  # type: ignore[arg-type]

    def told(*restarts: str) -> tuple[int, list[str]]:
        return remembered(journal.database, "mine", "p", restarts)

    asked("other", "k1", 100)
    restart = iso(clock.now() + timedelta(seconds=1))
    clock.step()
    clock.step()
    asked("mine", "m1", 50)
    assert told() == (1, ["other"])
    assert told(restart) == (0, [])
    calls.unknown("other", "k1", "a", "no answer")
    asked("other", "k1", 100)
    asked("mine", "m2", 60)
    assert told(restart) == (1, ["other"]), "m2 came after it was asked again"
    asked("third", "k3", 900)
    calls.lost("third", "k3", "a", "no connection", arrived=False)
    asked("mine", "m3", 200)
    assert told(restart) == (1, ["other"]), "what never arrived does not count"
    asked("third", "k3", 900)
    asked("mine", "m4", 200)
    assert told(restart) == (2, ["other", "third"])


class Counting:
    """A forecaster with state: it answers by how much it has seen."""

    made = count()

    def __init__(self, honest: bool = True) -> None:
        self.seen, self.shift = 0.0, 0.0 if honest else 0.01 * next(Counting.made)
        self.order: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    def __call__(self, context: dict[str, Any], index: int) -> dict[str, float]:
        assert self.lock.acquire(blocking=False), "one question at a time"
        self.order.append((context["time"], context["market"]["id"]))
        self.seen += context["market"]["odds"]
        context["market"]["odds"] = 0.99  # Its own copy: nobody else sees that.
        self.lock.release()
        return {"probability": (self.seen + self.shift) % 1.0}


@pytest.mark.parametrize("honest", [True, False])
def test_a_forecaster_with_state_is_shown_its_past_again(
    honest: bool, sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """After a stop and a resume, and in a fork: the same answers as in one go, or it is marked."""
    made: list[Counting] = []

    def make() -> Counting:
        made.append(Counting(honest))
        return made[-1]

    monkeypatch.setitem(HELD, "held:counting", make)
    monkeypatch.setattr(Counting, "made", count())
    with serving(Provider(latency=0.0)) as provider:
        address = provider.address()
        command = ["backtest", "run", "--archive", str(sim), "--forecasters"]
        # Its answers cost nothing: what the address is paid stops the run.
        command += [f"market,held:counting,{address}", *QUICK, "--every", "42d", "--run-id", "r"]
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "twin"))
        twin = told(capsys, *command)
        order = made[0].order
        assert order == sorted(order)
        monkeypatch.setattr(Counting, "made", count())
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
        for calls in ("25", "45"):
            assert cli([*command[:-2], "--run-id", "r", "--max-calls", calls]) == 3
        done = told(capsys, "runs", "resume", "r", "--max-calls", "100000")
        assert len(made) == 4
        assert made[-1].order == order, "all contexts, in order, each once"
        row = next(r for r in done["leaderboard"] if r["forecaster"] == "held:counting")
        if honest:
            assert row["order"] == "asked in order"
            same = [
                [d["probability"] for r in intervals(tmp_path / h, "r") for d in r["decisions"]]
                for h in ("home", "twin")
            ]
            assert same[0] == same[1]
            assert done["leaderboard"] == twin["leaderboard"]
        else:
            assert "not reproducible" in row["order"]
        assert told(capsys, "runs", "verify", "r")["sound"], "the journal's answers stand"
        assert twin["leaderboard"][0]["brier"] < 0.3, "the price is the world's"
        at = order[len(order) // 2][0]
        told(capsys, "runs", "fork", "r", "--at", at, "--model", "market=drift", "--new-id", "f")
        assert made[-1].order == order, "a fork shows it everything, from the start"


def test_one_held_forecaster_in_two_kinds_of_experiments(
    made: Path, home: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its questions of one instant go one after the other, whatever step they stand in; one that
    raises is a failure, and is not asked twice."""

    class Fragile(Counting):
        def __call__(self, context: dict[str, Any], index: int) -> dict[str, float]:
            said = super().__call__(context, index)
            if context["market"]["id"] == "KALSHI:m2":
                raise TypeError("cannot")
            return said

    one = Fragile()
    monkeypatch.setitem(HELD, "held:one", lambda: one)
    start, path = MONDAY + timedelta(days=4), home / "c.json"
    kinds = [
        experiment(f"KALSHI:m{i}", start, 6, DAY, "held:one").model_copy(update={"num_sims": n})
        for i, n in enumerate((1, 3, 2))
    ]
    path.write_text(json.dumps([kind.wire() for kind in kinds]))
    plan = compile_plan("r", kinds, cast_of(kinds))
    waits, held = waits_for(plan), [s.id for s in plan.steps if s.id.startswith("ask/")]
    assert all(a in waits[b] for i, b in enumerate(held) for a in held[:i]), "one chain"
    told(capsys, "backtest", "run", str(path), "--archive", str(made), "--run-id", "r", *QUICK)
    assert len(one.order) == 6 * 6
    assert [t for t, _ in one.order] == sorted(t for t, _ in one.order)
    failures = [f for row in intervals(home, "r") for f in row["failures"]]
    assert len(failures) == 12
    assert all("raised TypeError: cannot" in f["error"] for f in failures)


KEEPS = """
import os, pathlib
import beforehand as bh

SHOWN = pathlib.Path({folder!r})


class Keeps:
    def __init__(self):
        self.before = {begin}

    def __call__(self, context):
        {each}
        return min(0.9, max(0.1, context.odds + 0.01))
"""
FORMS = {
    "a file": ('(SHOWN / "seen.txt").read_text() if (SHOWN / "seen.txt").exists() else ""',
               'with open(SHOWN / "seen.txt", "a") as out: out.write("x")'),
    "a file that is gone when it has been read": (
        'SHOWN.joinpath("seen.txt").exists() and (SHOWN / "seen.txt").read_text() '
        'and os.unlink(SHOWN / "seen.txt")',
        'if len(list(SHOWN.glob("home*/data/runs/*"))) < 2:\n'
        '            with open(SHOWN / "seen.txt", "a") as out: out.write("x")',
    ),
    "a file of its own run": ('""',
        'name = SHOWN / f"{id(self)}.txt"; name.exists() and name.read_text(); name.write_text("x")'),
    "a log that is only written": ('""', 'with open(SHOWN / "log.txt", "a") as out: out.write("x")'),
    "weights that were there before": ('(SHOWN / "weights.txt").read_text()', "pass"),
    "a database": ('""',
                   'import sqlite3; sqlite3.connect(SHOWN / "seen.db").execute('
                   '"CREATE TABLE IF NOT EXISTS t (x)").connection.close()'),
}  # fmt: skip


@pytest.mark.parametrize(
    "form",
    some(
        "ways to keep a file", ("a file", "a log that is only written", "a database"), list(FORMS)
    ),
)
def test_a_class_that_keeps_a_file_may_remember(
    sim: Path, home: Path, capsys: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A new object begins each run, and a file that it reads may tell it what an earlier run was
    shown, if it was written since then."""
    (tmp_path / "weights.txt").write_text("1")
    begin, each = FORMS[form]
    code = KEEPS.format(folder=str(tmp_path), begin=begin, each=each)
    module = f"keeps_{len(form)}"
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", f"python:{module}:Keeps"]
    command += [*QUICK, "--every", "56d"]
    found = [told(capsys, *command, "--run-id", name) for name in ("one", "two")]
    rows = [next(r for r in f["leaderboard"] if r["forecaster"] == "Keeps") for f in found]
    remembers = form in ("a file", "a file that is gone when it has been read", "a database")
    assert rows[0]["order"] == "asked in order"
    assert rows[1]["order"] == ("may remember" if remembers else "asked in order")
    assert any("written since" in why for why in rows[1]["reasons"]) == remembers
