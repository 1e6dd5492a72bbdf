"""The order of questions as users meet it: the grid, what waits for what, failures, memory."""

import json
import sqlite3
import threading
import time
from contextlib import closing
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from provider import Judge, Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import from_us, iso, parse_instant, to_us
from beforehand.config import Home
from beforehand.engine.context import Signals, StepContext
from beforehand.engine.plan import Plan
from beforehand.errors import Stopped, Unavailable
from beforehand.forecast import external
from beforehand.forecast.held import HELD
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.gateway.opening import open_traffic
from beforehand.llm.names import is_model
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.world import Market, PricePoint, Resolution
from beforehand.sources.address import service_of
from beforehand.store.archive import Archive
from beforehand.store.archive_writer import ArchiveWriter
from beforehand.store.calls import Calls, Usage
from beforehand.store.database import Database
from beforehand.store.memory import remembered
from beforehand.work import grid
from beforehand.work.order import Replacement, compile_plan
from experiments import Out, config, intervals, told
from jobs import open_store

MONDAY = parse_instant("2026-01-05T00:00:00Z")
QUICK = ("--draws", "100", "--placebo", "0")


def experiment(market: str, start: datetime, n: int, minutes: int, *models: str) -> Any:
    return ExperimentConfig(
        market_id=market,
        start_time=start,
        end_time=start + timedelta(minutes=minutes * (n - 1)),
        interval_minutes=minutes,
        models=list(models),
        mode="external",
    )


def waits_for(plan: Plan) -> dict[str, set[str]]:
    """Every step that must have ended before each one begins."""
    deps = {step.id: set(step.deps) for step in plan.steps}
    known: dict[str, set[str]] = {}
    for step in plan.ordered():
        known[step.id] = deps[step.id].union(*(known[dep] for dep in deps[step.id]))
    return known


DAY, A, B = 1440, "http://127.0.0.1:1/a", "http://127.0.0.1:2/b"


def test_in_the_plan_an_instant_waits_for_the_one_before() -> None:
    configs = [
        *(experiment(f"X:m{i:03d}", MONDAY, 5, DAY, A) for i in range(70)),
        experiment("X:m000", MONDAY + timedelta(hours=12), 4, DAY, B),
        experiment("X:m001", MONDAY, 3, 2 * DAY, "baseline:market", "baseline:drift"),
        experiment("X:m002", MONDAY, 3, DAY, "scripted"),
    ]
    plan = compile_plan("r", configs)
    waits = waits_for(plan)
    asked = [step for step in plan.steps if "time" in step.args]
    assert {step.args["time"] for step in asked} == {
        iso(MONDAY + timedelta(hours=12 * i)) for i in range(9)
    }
    for late in asked:
        early = {s.id for s in asked if s.args["time"] < late.args["time"]}
        assert early <= waits[late.id], "all earlier instants, of both forecasters"
        beside = {s.id for s in asked if s.args["time"] == late.args["time"]}
        assert not beside & waits[late.id], "within an instant nobody waits"
    assert max(len(step.args["experiments"]) for step in asked) <= 32
    free = [step for step in plan.steps if step.id.startswith("walk/")]
    assert [step.args["experiments"] for step in free] == [[71], [72]]
    assert all(not step.deps for step in free), "the memoryless wait for nobody"


def test_a_forks_models_are_waited_for_as_well() -> None:
    configs = [
        experiment("X:a", MONDAY, 3, DAY, "baseline:market"),
        experiment("X:b", MONDAY, 3, DAY, "baseline:market"),
    ]
    swap = Replacement(MONDAY + timedelta(days=1), {"baseline:market": A})
    assert not any("time" in step.args for step in compile_plan("r", configs).steps)
    assert sum("time" in step.args for step in compile_plan("r", configs, swap).steps) == 3


def test_the_grid_is_clipped_and_never_shifted() -> None:
    first, end = to_us(MONDAY + timedelta(days=1, hours=8)), MONDAY + timedelta(days=40)
    week, start = timedelta(days=7), MONDAY + timedelta(days=16)
    whole = grid.life(first, end, week, "aligned")
    assert [from_us(t) for t in whole.t] == [MONDAY + week * k for k in range(1, 6)]
    clipped = grid.life(first, end, week, "aligned", start, MONDAY + week * 4)
    assert [from_us(t) for t in clipped.t] == [MONDAY + week * 3, MONDAY + week * 4]
    own = grid.life(first, end, week, "own", start)
    assert [from_us(t) for t in own.t] == [from_us(first) + week * k for k in range(3, 6)]
    assert not whole.short
    assert to_us(MONDAY) % grid.ORIGIN_US != 0
    exactly = grid.life(to_us(MONDAY), MONDAY + week, week, "aligned")
    assert [from_us(t) for t in exactly.t] == [MONDAY], "t0 counts, the end does not"
    brief = grid.life(first, MONDAY + timedelta(days=5), week, "aligned")
    assert (brief.t.tolist(), brief.short) == ([first], True)
    assert not len(grid.life(first, MONDAY + timedelta(days=5), week, "aligned", start).t)
    assert not len(grid.life(first, MONDAY, week, "own").t)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Three markets that hold Mondays, and two that end before the next one."""
    records: list[Any] = []
    for i, (day, life) in enumerate(((0, 30), (2, 30), (3, 30), (1, 4), (8, 3))):
        name, opened = f"KALSHI:m{i}", MONDAY + timedelta(days=day, hours=9)
        text = {"id": name, "venue": "KALSHI", "native_id": f"m{i}", "question": f"Question {i}?"}
        records.append(Market(**text, known_at=opened))  # type: ignore[arg-type]
        for k in range(life):
            at = opened + timedelta(days=k)
            p = 0.3 + 0.01 * k
            records.append(PricePoint(market_id=name, price=p, observed_at=at, known_at=at))
        end = opened + timedelta(days=life)
        records.append(
            Resolution(
                market_id=name, status="resolved", payout=float(i % 2), resolved_at=end,
                known_at=end + timedelta(hours=1),
            )
        )  # fmt: skip
    path = tmp_path / "made"
    ArchiveWriter(path).add(
        records, importer="t", source="t", source_digest="t", recorded_at=MONDAY
    )
    return path


def test_markets_too_short_for_the_grid_are_scored_apart(
    made: Path, home: Path, capsys: Out
) -> None:
    command = ("backtest", "run", "--archive", str(made), "--forecasters", "market,drift", *QUICK)
    found = told(capsys, *command, "--run-id", "r")
    assert found["validity"]["n_questions"]["value"] == 3
    assert found["validity"]["short_markets"]["value"] == 2
    short = found["short"]
    assert (short["n_questions"], short["n_forecasts"]) == (2, 2)
    assert {row["forecaster"]: row["n"] for row in short["leaderboard"]} == {
        "market": 2,
        "drift": 2,
    }
    asked = [r for r in intervals(home, "r") if r["market_id"] in ("KALSHI:m3", "KALSHI:m4")]
    assert [parse_instant(r["time"]) for r in asked] == [
        MONDAY + timedelta(days=1, hours=9),
        MONDAY + timedelta(days=8, hours=9),
    ], "once each, at the first price"
    own = told(capsys, *command, "--grid", "own", "--run-id", "o")
    assert own["validity"]["n_questions"]["value"] == 5
    assert own["short"] is None
    assert cli([*command]) == 0
    assert "2 markets hold no instant of the grid" in capsys.readouterr().out
    page = (Home(home).runs / "r" / "report.html").read_text()
    assert "Markets too short for the grid" in page


def test_a_world_with_nothing_on_the_grid_is_refused(
    made: Path, provider: Provider, home: Path, capsys: Out
) -> None:
    who = f"market,{provider.address()}"
    command = ["backtest", "run", "--archive", str(made), "--forecasters", who, "--every", "400d"]
    assert cli(command) == 2
    assert "ask more often (--every), or use --grid own" in capsys.readouterr().err
    assert provider.log == []


def test_what_is_shown_of_the_past_is_of_the_same_configuration(
    provider: Provider, made: Path, home: Path, capsys: Out
) -> None:
    """Other intervals in one run: each context shows its own market's aggregates, whatever the
    instants in between."""
    path = home / "c.json"
    start = MONDAY + timedelta(days=4)
    path.write_text(
        json.dumps(
            [
                experiment("KALSHI:m0", start, 8, DAY, provider.address()).wire(),
                experiment("KALSHI:m1", start, 3, 3 * DAY, provider.address()).wire(),
                experiment("KALSHI:m2", start, 15, DAY, provider.address()).wire(),
            ]
        )
    )
    told(capsys, "backtest", "run", str(path), "--archive", str(made), "--run-id", "r", *QUICK)
    past: dict[str, list[dict[str, Any]]] = {}
    for row in intervals(home, "r"):
        mine = past.setdefault(row["market_id"], [])
        assert row["context"]["previous_intervals"] == mine[-10:]
        together = row["aggregate"]["probability"]
        mine.append({"time": row["time"], "aggregated_probability": together})
    assert {name: len(rows) for name, rows in past.items()} == {
        "KALSHI:m0": 8,
        "KALSHI:m1": 3,
        "KALSHI:m2": 15,
    }
    twice = json.loads(path.read_text())
    path.write_text(json.dumps([*twice, twice[0]]))
    capsys.readouterr()
    assert cli(["backtest", "run", str(path), "--archive", str(made)]) == 2
    assert "is asked about KALSHI:m0 by two experiments" in capsys.readouterr().err


class Stuck(Provider):
    """Never answers one question in time; all others at once."""

    def __init__(self, market: str, time: str) -> None:
        super().__init__(latency=0.0)
        self.stuck, self.tried = (market, time), 0

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        asked = json.loads(body)
        if (asked["market"]["id"], asked["time"]) == self.stuck:
            self.tried += 1
            time.sleep(1.0)
        return super().answer(key, path, body, index)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses between attempts."""
    monkeypatch.setattr("beforehand.engine.execute.BACKOFF_S", 0.01)
    monkeypatch.setattr("beforehand.traffic.BACKOFF_S", 0.01)


def test_a_timed_out_answer_is_a_failure_after_five_attempts_over_all_resumes(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    at = iso(MONDAY + timedelta(days=14))
    with serving(Stuck("KALSHI:m1", at)) as stuck:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", stuck.address()]
        command += ["--timeout", "0.3", "--run-id", "r", *QUICK]
        assert cli(command) == 3
        err = capsys.readouterr().err
        assert "3 calls in a row without an answer" in err
        assert "runs resume r" in err
        assert stuck.tried == 3
        assert told(capsys, "runs", "show", "r")["status"] == "stopped"
        told(capsys, "runs", "resume", "r")
        assert stuck.tried == 5, "the fifth attempt is the last"
    rows = intervals(home, "r")
    failed = [(r["market_id"], r["time"], f["error"]) for r in rows for f in r["failures"]]
    assert [(market, time) for market, time, _ in failed] == [("KALSHI:m1", at)]
    assert "no whole answer" in failed[0][2]
    assert len(rows) == 14, "the others went on"
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_a_silent_service_stops_the_run_after_three_calls(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    with serving(Provider(latency=1.0)) as slow:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", slow.address()]
        assert cli([*command, "--timeout", "0.2", "--concurrency", "1", "--run-id", "r"]) == 3
        assert "3 calls in a row without an answer" in capsys.readouterr().err
        assert len(slow.log) == 3, "and not one for every question"
        slow.latency = 0.0
        told(capsys, "runs", "resume", "r")
    assert not [f for row in intervals(home, "r") for f in row["failures"]]


def test_a_question_that_breaks_its_service_is_a_failure_after_five_attempts(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    class Broken(Provider):
        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            if json.loads(body)["market"]["id"] == "KALSHI:m2":
                return 500, b"oops"
            return super().answer(key, path, body, index)

    with serving(Broken(latency=0.0)) as broken:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", broken.address()]
        command += ["--run-id", "r", "--markets", "m0,m2", "--end", "2026-01-20", *QUICK]
        codes = [cli(command)]
        while codes[-1] == 3 and len(codes) < 9:
            codes.append(cli(command))
        assert codes[-1] == 0, capsys.readouterr().err
    failed = [f["error"] for row in intervals(home, "r") for f in row["failures"]]
    assert len(failed) == 2
    assert all("500" in error for error in failed)


def test_the_policy_stop_names_the_one_question_that_blocks(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    at = iso(MONDAY + timedelta(days=14))
    with serving(Stuck("KALSHI:m1", at)) as stuck:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", stuck.address()]
        command += ["--timeout", "0.3", "--run-id", "r", "--in-flight", "stop"]
        assert cli(command) == 3
        err = capsys.readouterr().err
        assert f"KALSHI:m1 at {at}, {stuck.address()}, simulation 0" in err
        assert "--in-flight resend or --in-flight skip" in err
        assert stuck.tried == 1
        told(capsys, "runs", "resume", "r", "--in-flight", "skip")
        assert stuck.tried == 1
    assert sum(len(row["failures"]) for row in intervals(home, "r")) == 1


class Prophet(Provider):
    """Knows how everything ends."""

    def __init__(self, archive: Path) -> None:
        super().__init__(latency=0.0)
        ends = Gateway(RecordedWorld(Archive(archive))).hindsight().resolutions()
        self.ends = {r.market_id: r.payout or 0.0 for r in ends}

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        super().answer(key, path, body, index)
        end = self.ends[json.loads(body)["market"]["id"]]
        return 200, json.dumps({"probability": 0.1 + 0.8 * end}).encode()


def test_who_was_asked_about_later_instants_before_may_remember(
    sim: Path, home: Path, capsys: Out
) -> None:
    def verdict(found: dict[str, Any]) -> tuple[str, str]:
        row = next(r for r in found["leaderboard"] if r["forecaster"] == prophet.address())
        return row["verdict"], row["order"]

    with serving(Prophet(sim)) as prophet:
        command = ["backtest", "run", "--archive", str(sim), "--forecasters", prophet.address()]
        command += [*QUICK, "--every", "21d"]
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
        middle = intervals(home, "first")[len(intervals(home, "first")) // 2]["time"]
        forked = told(
            capsys, "runs", "fork", "fresh", "--at", middle, "--new-id", "f", "--model",
            f"{prophet.address()}={prophet.address('/other')}",
        )  # fmt: skip
        rows = {r["forecaster"]: r["order"] for r in forked["leaderboard"]}
        assert rows[prophet.address("/other")] == "may remember", "the same service"
        # Stopped in the middle, another run meanwhile, then resumed.
        assert cli([*command, "--run-id", "late", "--fresh", "--max-calls", "40"]) == 3
        told(capsys, *command, "--run-id", "other", "--fresh")
        done = told(capsys, "runs", "resume", "late", "--max-calls", "100000")
        assert verdict(done)[1] == "may remember"
        assert cli([*command, "--run-id", "last", "--fresh", "--max-calls", "40"]) == 3
        told(capsys, *command, "--run-id", "more", "--fresh")
        done = told(capsys, "runs", "resume", "last", "--max-calls", "100000", "--fresh")
        assert verdict(done)[1] == "asked in order, stated as restarted"


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
    )
    assert {service_of(address) for address in same} == {"localhost:80"}
    assert service_of("https://Example.org./x") == "example.org:443"
    assert service_of("held:x") == "held:x"
    assert not is_model("http://h/f?x=@http://other:1")
    assert is_model("name@http://h:1/v1")


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
    command = ["backtest", "run", "--archive", str(sim), "--forecasters", "market,held:counting"]
    command += [*QUICK, "--every", "21d", "--run-id", "r"]
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "twin"))
    twin = told(capsys, *command)
    order = made[0].order
    assert order == sorted(order)
    monkeypatch.setattr(Counting, "made", count())
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
    for calls in ("50", "90"):
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


def test_a_journal_of_another_version_is_refused(home: Path, sim: Path, capsys: Out) -> None:
    path = Home(home).journal
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE runs (run_id TEXT PRIMARY KEY)")
    assert cli(["backtest", "run", "--archive", str(sim), "--forecasters", "market"]) == 2
    err = capsys.readouterr().err
    assert "a journal of version 1" in err
    assert "move it away" in err


def test_simulations_of_one_instant_go_side_by_side(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    with serving(Judge(latency=0.05)) as judge:
        path = config(home / "c.json", market, models=[judge.address()], num_sims=8)
        told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
        assert judge.most == 8
        assert (judge.late, judge.early, judge.judged) == (0, 0, 48)


SAY = {"task_id": "t", "provider": "p", "index": 0}


def test_who_slept_through_a_lease_sends_no_earlier_context(
    provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each attempt it is asked whether the call is still held: a process that was suspended,
    or cut off from the journal, might send a context of an instant that others have left."""
    journal, calls = open_store(home)
    asked = external.request(provider.address(), {"time": "x"}, 0, "key", "r")
    providers = {provider.address(): external.provider(provider.address())}
    traffic = open_traffic(Home(home), providers=providers)
    asleep = [True, False]
    real = calls.holds
    monkeypatch.setattr(calls, "holds", lambda *call: not asleep.pop(0) and real(*call))
    journal.enter("r", "small", {}, "f", str(home))
    context = StepContext("r", "t", "me", journal, calls, Signals(threading.Semaphore(1)))
    keys: list[str] = []

    def send(key: str) -> str:
        keys.append(key)
        return traffic.fetch(asked, still=lambda: calls.holds("r", key)).text

    answer = context.call("p", {"time": "x"}, 0, send)
    assert json.loads(answer)["probability"]
    assert len(keys) == 2, "it looked again"
    assert len(provider.log) == 1, "and sent it once"
    state = journal.run("r")
    assert state is not None
    assert state.status == "running", "nobody is stopped by it"


def test_a_lapsed_lease_does_not_come_back(home: Path) -> None:
    """A slept, B took the call over and answered: A's heartbeat gives A nothing back."""
    journal, mine = open_store(home)
    theirs = Calls(Database(Home(home).journal))
    assert mine.claim("r", "key", owner="a", **SAY).state == "ask"  # type: ignore[arg-type]
    assert mine.holds("r", "key")
    mine.renew("a")
    assert mine.holds("r", "key")
    theirs.release("r", "b")
    assert theirs.claim("r", "key", owner="b", **SAY).state == "ask"  # type: ignore[arg-type]
    mine.renew("a")
    assert not mine.holds("r", "key")
    assert theirs.holds("r", "key")
    assert mine.claim("s", "key", owner="a", **SAY).state == "ask"  # type: ignore[arg-type]
    theirs.answered("r", "key", "x", Usage(), 1.0)
    assert mine.holds("s", "key"), "another run's call of the same key is its own"
    journal.database.close()


def test_a_full_disk_undoes_all_that_waited_together(home: Path) -> None:
    """SQLite then undoes the whole transaction: nobody is told that their work is stored."""
    database = Database(Home(home).journal)
    database.create("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)")
    database.together("l", lambda tx: tx.run("INSERT INTO t VALUES (0, 'first')"))
    with database.write() as tx:
        pages = tx.run("PRAGMA page_count")[0][0]
        tx.run(f"PRAGMA max_page_count = {pages + 3}")
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        with database.write():
            begun.set()
            go.wait()

    ended: dict[str, str] = {}

    def work(name: str, n: int, size: int) -> None:
        try:
            database.together(
                "l", lambda tx: tx.run("INSERT INTO t VALUES (:n, :x)", n=n, x="x" * size)
            )
            ended[name] = "stored"
        except Unavailable as error:
            ended[name] = str(error)

    jobs = [("small", 1, 10), ("big", 2, 200_000), ("later", 3, 10)]
    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    threads = []
    for job in jobs:
        threads.append(threading.Thread(target=work, args=job))
        threads[-1].start()
        time.sleep(0.05)  # In this order, all behind the one that holds the writer.
    go.set()
    for thread in (holder, *threads):
        thread.join()
    with database.read() as tx:
        stored = {n for (n,) in tx.run("SELECT n FROM t")}
    assert {n for name, n, _ in jobs if ended[name] == "stored"} == stored - {0}
    assert "full" in ended["big"]
    assert all(said == "stored" or "full" in said for said in ended.values())


def test_what_waits_together_fails_alone(home: Path) -> None:
    database = Database(Home(home).journal)
    database.create("CREATE TABLE t (n INTEGER PRIMARY KEY)")

    def bad(tx: Any) -> None:
        tx.run("INSERT INTO t VALUES (1)")
        raise Stopped("no more")

    with pytest.raises(Stopped):
        database.together("l", bad)
    database.together("l", lambda tx: tx.run("INSERT INTO t VALUES (2)"))
    with database.read() as tx:
        assert tx.run("SELECT n FROM t WHERE n IN :some", some=[1, 2, 3]) == [(2,)]
        assert tx.run("SELECT n FROM t WHERE n IN :some", some=[]) == []


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


class Moving:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = MONDAY

    def now(self) -> datetime:
        return self.at

    def step(self) -> None:
        self.at += timedelta(seconds=1)


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
    plan = compile_plan("r", kinds)
    waits, held = waits_for(plan), [s.id for s in plan.steps if s.id.startswith("ask/")]
    assert all(a in waits[b] for i, b in enumerate(held) for a in held[:i]), "one chain"
    told(capsys, "backtest", "run", str(path), "--archive", str(made), "--run-id", "r", *QUICK)
    assert len(one.order) == 6 * 6
    assert [t for t, _ in one.order] == sorted(t for t, _ in one.order)
    failures = [f for row in intervals(home, "r") for f in row["failures"]]
    assert len(failures) == 12
    assert all("raised TypeError: cannot" in f["error"] for f in failures)


def test_a_gateways_error_is_not_repeated_where_the_policy_says_stop(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    class Tired(Provider):
        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            super().answer(key, path, body, index)
            return 504, b"{}"

    with serving(Tired(latency=0.0)) as tired:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", tired.address()]
        assert cli([*command, "--in-flight", "stop", "--concurrency", "1"]) == 3
        assert max(n for n in tired.paid().values()) == 1
    assert "the policy is to stop" in capsys.readouterr().err
