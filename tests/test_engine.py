"""Plans, and the driver over the real engine and a real journal."""

import sqlite3
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.clock import FrozenClock, SystemClock
from beforehand.config import Home
from beforehand.engine.driver import Outcome, drive
from beforehand.engine.plan import Plan, Step
from beforehand.engine.runtime import Runtime, ThreadExecutor
from beforehand.errors import (
    BadAnswer,
    Corrupt,
    InputError,
    NotFound,
    Refused,
    Unauthorized,
    Unavailable,
)
from beforehand.store.database import Database
from beforehand.store.journal.calls import Calls, Usage
from beforehand.store.journal.journal import Journal
from jobs import Small, no_opener, open_store, runtime, small


def run(home: Path, job: Small, **options: Any) -> tuple[Outcome, dict[str, Any]]:
    """Drive a job; returns how it ended, and the outputs on record."""
    with runtime(home, job.plan.run_id, **options) as engine:
        outcome = drive(job, engine)
        done = engine.journal.done(job.plan.run_id)
        return outcome, {name: engine.journal.output(job.plan.run_id, name) for name in done}


def test_steps_run_once_after_what_they_depend_on(home: Path) -> None:
    ran: list[str] = []

    def one(args: Any, outputs: Any, context: Any) -> Any:
        ran.append(context.task_id)
        return args["x"] * 10

    job = small(
        {"one": one, "join": lambda args, outputs, context: sum(outputs.values())},
        Step("c", "join", {}, ("a/1", "a/2")),
        Step("a/1", "one", {"x": 1}),
        Step("a/2", "one", {"x": 2}),
    )
    seen: list[tuple[str, int, int]] = []
    with runtime(home) as engine:
        assert drive(job, engine, lambda *state: seen.append(state)).status == "success"
        assert engine.journal.output("r", "c") == 30
    assert [s[1] for s in seen] == sorted(s[1] for s in seen)
    assert seen[-1] == ("c", 3, 3)
    again, outputs = run(home, job)
    assert again.status == "success"
    assert outputs == {"a/1": 10, "a/2": 20, "c": 30}
    assert sorted(ran) == ["a/1", "a/2"], "what is on record is not done again"


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Step("a", "x", {}, ("b",)), Step("b", "x", {}, ("a",))], "circle"),
        ([Step("a", "x", {}, ("z",))], "not in the plan"),
        ([Step("a", "x"), Step("a", "x")], "share an id"),
        ([Step("a", "unheard-of")], "unknown action"),
    ],
)
def test_bad_plans_are_refused_before_anything_runs(
    home: Path, steps: list[Step], reason: str
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it ran")

    with runtime(home) as engine, pytest.raises(InputError, match=reason):
        drive(small({"x": fail}, *steps), engine)


def test_a_bug_ends_the_run_with_its_own_exception(home: Path) -> None:
    def fail(*_: object) -> None:
        raise ValueError("its own")

    with runtime(home) as engine:
        with pytest.raises(ValueError, match="its own"):
            drive(small({"x": fail}, Step("a", "x")), engine)
        assert engine.journal.tasks("r")[0].error == "ValueError: its own"


def test_a_broken_invariant_ends_the_run(home: Path) -> None:
    def fail(*_: object) -> None:
        raise Corrupt("bytes differ")

    with runtime(home) as engine, pytest.raises(Corrupt, match="bytes differ"):
        drive(small({"x": fail}, Step("a", "x")), engine)


def test_one_bad_item_does_not_end_the_others(home: Path) -> None:
    def item(args: Any, *_: Any) -> Any:
        if args["x"] == 2:
            raise InputError("two is bad")
        return args["x"]

    steps = [Step(f"a/{x}", "item", {"x": x}) for x in range(5)]
    join = Step("join", "item", {"x": 9}, tuple(s.id for s in steps))
    outcome, outputs = run(home, small({"item": item}, *steps, join))
    assert outcome.status == "failed"
    assert [task.task_id for task in outcome.failed] == ["a/2"]
    assert "two is bad" in (outcome.failed[0].error or "")
    assert outcome.undone == 1
    assert sorted(outputs) == ["a/0", "a/1", "a/3", "a/4"]


def test_what_may_pass_is_tried_again_and_what_may_not_is_not(home: Path) -> None:
    tries: dict[str, int] = {}

    def shaky(args: Any, outputs: Any, context: Any) -> Any:
        tries[context.task_id] = tries.get(context.task_id, 0) + 1
        if context.task_id == "refused":
            raise Refused("never")
        if tries[context.task_id] < 3:
            raise Unavailable("later", retry_after=0.01)
        return "at last"

    outcome, outputs = run(
        home,
        small(
            {"s": shaky}, Step("shaky", "s"), Step("refused", "s"), Step("once", "s", attempts=1)
        ),
    )
    assert outputs == {"shaky": "at last"}
    assert tries == {"shaky": 3, "refused": 1, "once": 1}
    assert outcome.status == "failed"


def test_a_changed_plan_runs_anew_what_changed_and_what_follows(home: Path) -> None:
    def actions(ran: list[str]) -> dict[str, Any]:
        def add(args: Any, outputs: Any, context: Any) -> Any:
            ran.append(context.task_id)
            return args["x"] + sum(outputs.values())

        return {"add": add}

    def plan(x: int) -> list[Step]:
        return [
            Step("a", "add", {"x": x}),
            Step("b", "add", {"x": 1}),
            Step("c", "add", {"x": 0}, ("a",)),
        ]

    first: list[str] = []
    run(home, small(actions(first), *plan(1)))
    assert sorted(first) == ["a", "b", "c"]
    second: list[str] = []
    outcome, outputs = run(home, small(actions(second), *plan(5)))
    assert second == ["a", "c"]
    assert outputs == {"a": 5, "b": 1, "c": 5}
    third: list[str] = []
    assert run(home, small(actions(third), *plan(5)))[0].status == "success"
    assert third == []


def paid(asked: list[str], answer: str = "yes", cost: float = 1.0, hold: float = 0.0) -> Any:
    """An action that makes one paid call."""

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def send(key: str) -> str:
            asked.append(key)
            time.sleep(hold)
            return f"{answer} {args['x']}"

        return context.call("p", {"x": args["x"]}, send, lambda text: Usage(10, cost))

    return action


def test_an_answer_is_asked_for_once(home: Path) -> None:
    asked: list[str] = []
    steps = [Step(f"a/{i}", "p", {"x": i % 3}) for i in range(9)]
    outcome, outputs = run(home, small({"p": paid(asked, hold=0.05)}, *steps), concurrency=9)
    assert outcome.status == "success"
    assert len(asked) == len(set(asked)) == 3, "equal questions share an answer, even at once"
    assert outputs["a/4"] == "yes 1"
    row = open_store(home)[0].known_run("r")
    assert (row.calls, row.tokens, row.cost) == (3, 30, 3.0)


@pytest.mark.parametrize(
    ("limits", "most"), [({"calls": 4}, 4), ({"tokens": 45}, 4), ({"cost": 4.5}, 4)]
)
def test_a_budget_stops_the_run_and_a_larger_one_goes_on(
    home: Path, limits: dict[str, float], most: int
) -> None:
    asked: list[str] = []
    steps = [Step(f"a/{i}", "p", {"x": i}) for i in range(10)]
    job = small({"p": paid(asked)}, *steps)
    outcome, outputs = run(home, job, concurrency=1, **limits)
    assert outcome.status == "stopped"
    assert "budget" in (outcome.reason or "")
    assert len(asked) == len(outputs) == most
    journal, _ = open_store(home)
    assert journal.counts("r")["failed"] == 1
    assert (journal.tasks("r", ["a/4"])[0].error or "").startswith("skipped")
    journal.allow("r", dict.fromkeys(limits, 1000.0), None)
    outcome, outputs = run(home, job)
    assert outcome.status == "success"
    assert len(asked) == len(set(asked)) == len(outputs) == 10


def test_a_cancelled_run_makes_no_more_calls(home: Path) -> None:
    asked: list[str] = []
    steps = [Step(f"a/{i}", "p", {"x": i}) for i in range(200)]
    job = small({"p": paid(asked, hold=0.02)}, *steps)
    journal, _ = open_store(home)
    with runtime(home, concurrency=2) as engine:
        threading.Timer(0.3, lambda: journal.cancel("r", driven=True)).start()
        outcome = drive(job, engine)
    assert outcome.status == "cancelled"
    assert 0 < len(asked) < 200
    assert len(journal.done("r")) == len(asked)


@pytest.mark.parametrize("policy", ["resend", "skip", "stop"])
def test_a_call_without_an_answer_is_a_visible_third_state(home: Path, policy: str) -> None:
    asked: list[str] = []

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def send(key: str) -> str:
            asked.append(key)
            if len(asked) == 1:
                raise Unavailable("no whole answer", uncertain=True)
            return "yes"

        return context.call("p", {}, send)

    journal, calls = open_store(home)
    job = small({"p": action}, Step("a", "p", attempts=1))
    with runtime(home) as engine:
        drive(job, engine)
    assert [row["state"] for row in calls.rows("r")] == ["sent"]
    journal.allow("r", None, policy)
    outcome, outputs = run(home, job)
    assert outcome.status == {"resend": "success", "skip": "failed", "stop": "stopped"}[policy]
    assert len(set(asked)) == 1, "the same idempotency key"
    assert len(asked) == (2 if policy == "resend" else 1)
    states = {"resend": "done", "skip": "failed", "stop": "sent"}
    assert [row["state"] for row in calls.rows("r")] == [states[policy]]


def test_an_uncertain_call_is_asked_again_by_the_same_process(home: Path) -> None:
    """Its lease ends with it: the heartbeat must not keep it alive against its own owner."""
    asked: list[str] = []

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def send(key: str) -> str:
            asked.append(key)
            if len(asked) == 1:
                raise Unavailable("no whole answer", retry_after=1.6, uncertain=True)
            return "yes"

        return context.call("p", {}, send)

    outcome, outputs = run(home, small({"p": action}, Step("a", "p", attempts=3)))
    assert outcome.status == "success"
    assert outputs == {"a": "yes"}
    assert len(asked) == 2
    assert len(set(asked)) == 1


def test_an_answer_that_cannot_be_written_down_at_once_is_not_lost(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = Calls.answered, iter([True, True])

    def answered(self: Calls, *arguments: Any) -> str:
        if next(failures, False):
            raise Unavailable("the database is locked")
        return real(self, *arguments)

    monkeypatch.setattr(Calls, "answered", answered)
    asked: list[str] = []
    outcome, outputs = run(home, small({"p": paid(asked)}, Step("a", "p", {"x": 1})))
    assert outcome.status == "success"
    assert outputs == {"a": "yes 1"}
    assert len(asked) == 1


def test_a_missing_key_stops_the_run_and_spends_no_question(home: Path) -> None:
    asked: list[str] = []
    keyed: list[bool] = []

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def send(key: str) -> str:
            asked.append(key)
            if not keyed:
                raise Unauthorized("it needs a key")
            return "yes"

        return context.call("p", args, send)

    def plan() -> Any:
        return small({"p": action}, *(Step(f"a/{i}", "p", {"x": i}) for i in range(5)))

    outcome, _ = run(home, plan(), concurrency=1)
    assert (outcome.status, len(asked)) == ("stopped", 1)
    keyed.append(True)
    outcome, outputs = run(home, plan(), concurrency=1)
    assert (outcome.status, set(outputs.values())) == ("success", {"yes"})


def test_one_question_that_a_service_fails_at_does_not_end_the_run(home: Path) -> None:
    """It is asked five times, given up, and the others are asked."""
    asked: list[int] = []

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def send(key: str) -> str:
            asked.append(args["x"])
            if args["x"] == 2:
                error = Unavailable("it answered 500")
                error.status = 500
                raise error
            return "yes"

        try:
            return context.call("p", args, send)
        except Refused as refused:
            return f"failed: {refused}"

    steps = [Step(f"a/{i}", "p", {"x": i}) for i in range(5)]
    outcome, outputs = run(home, small({"p": action}, *steps), concurrency=1)
    assert outcome.status == "success"
    assert [outputs[f"a/{i}"] for i in (1, 2, 3)] == ["yes", "failed: it answered 500", "yes"]
    assert asked.count(2) == 5


@pytest.mark.parametrize("error", [Refused, NotFound, BadAnswer])
def test_every_refusal_is_final(home: Path, error: type[Exception]) -> None:
    asked: list[str] = []

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def send(key: str) -> str:
            asked.append(key)
            raise error("no")

        try:
            return context.call("p", {}, send)
        except Refused as refused:
            return f"failed: {refused}"

    for _ in range(2):
        _, outputs = run(home, small({"p": action}, Step("a", "p"), Step("b", "p")))
        assert outputs == {"a": "failed: no", "b": "failed: no"}
    assert len(asked) == 1


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize(
    ("limits", "most"), [({"cost": 2.0}, 2), ({"tokens": 35}, 3), ({"calls": 5}, 5)]
)
def test_a_budget_is_not_exceeded_by_what_is_in_flight(
    home: Path, concurrency: int, limits: dict[str, float], most: int
) -> None:
    asked: list[str] = []
    steps = [Step(f"a/{i}", "p", {"x": i}) for i in range(24)]
    job = small({"p": paid(asked, hold=0.03)}, *steps)
    outcome, _ = run(home, job, concurrency=concurrency, **limits)
    assert outcome.status == "stopped"
    assert len(asked) == most
    row = open_store(home)[0].known_run("r")
    assert row.calls <= limits.get("calls", 24)
    assert row.tokens <= limits.get("tokens", 1000)
    assert row.cost <= limits.get("cost", 1000)


def test_who_slept_through_a_lease_may_not_undo_what_its_successor_did(home: Path) -> None:
    journal, calls = open_store(home)
    journal.enter("r", "small", {}, "f", str(home))
    facts: dict[str, Any] = {"task_id": "a", "provider": "p", "index": 0}
    assert calls.claim("r", "k", owner="one", **facts).state == "ask"
    calls.release("r", "two")
    assert calls.claim("r", "k", owner="two", **facts).state == "ask"
    for late in (calls.lost, calls.unknown, calls.refused):
        late("r", "k", "one", "late")
        assert calls.claim("r", "k", owner="three", **facts).state == "wait"
    assert calls.answered("r", "k", "yes", Usage(), 1.0) == "yes"
    calls.refused("r", "k", "two", "no")
    assert calls.claim("r", "k", owner="three", **facts).answer == "yes"


def test_a_rate_limit_is_waited_for_before_the_intent_and_ends_with_the_run(home: Path) -> None:
    """What waits for its turn has not been sent: no row says so, and a stop does not send it."""
    asked: list[str] = []

    def action(args: Any, outputs: Any, context: Any) -> Any:
        def turn(stop: threading.Event) -> None:
            stop.wait(30 if asked else 0)

        def send(key: str) -> str:
            asked.append(key)
            return "yes"

        return context.call("p", args, send, turn=turn)

    journal, calls = open_store(home)
    job = small({"p": action}, Step("a", "p", {"x": 1}), Step("b", "p", {"x": 2}, ("a",)))
    with runtime(home) as engine:
        threading.Timer(0.5, lambda: journal.cancel("r", driven=True)).start()
        assert drive(job, engine).status == "cancelled"
    assert len(asked) == 1
    assert [row["state"] for row in calls.rows("r")] == ["done"]
    again: list[str] = []
    asked.clear()
    journal.mark("r", "running")
    assert run(home, small({"p": action}, Step("a", "p", {"x": 1})))[0].status == "success"
    assert again == asked == []


def test_a_lease_keeps_others_away_until_it_lapses(home: Path) -> None:
    journal, calls = open_store(home)
    journal.enter("r", "small", {}, "f", str(home))

    def claim(owner: str) -> str:
        return calls.claim("r", "k", task_id="a", provider="p", index=0, owner=owner).state

    assert claim("one") == "ask"
    assert claim("two") == "wait"
    assert calls.release("r", "one") == 0
    assert claim("two") == "wait"
    assert calls.release("r", "two") == 1
    assert claim("two") == "ask"
    assert calls.answered("r", "k", "late", Usage(), 1.0) == "late"
    assert calls.answered("r", "k", "second", Usage(), 1.0) == "late", "the first answer stands"
    assert claim("three") == "done"


class SteppingBack:
    """A clock that is an hour slow from the 40th look on."""

    def __init__(self) -> None:
        self.looks = 0

    def now(self) -> datetime:
        self.looks += 1
        return SystemClock().now() - timedelta(hours=1 if self.looks > 40 else 0)


def test_a_clock_that_steps_back_loses_nothing(home: Path) -> None:
    clock = SteppingBack()
    database = Database(Home(home).journal)
    journal = Journal(database, clock)
    journal.enter("r", "small", {}, "f", str(home))
    asked: list[str] = []
    job = small({"p": paid(asked, hold=0.002)}, *(Step(f"a/{i}", "p", {"x": i}) for i in range(60)))
    with Runtime(journal, no_opener, ThreadExecutor(4), 4) as engine:
        assert drive(job, engine).status == "success"
    assert clock.looks > 40
    assert len(asked) == len(set(asked)) == 60
    assert len(journal.done("r")) == 60


def test_a_lease_from_the_future_does_not_bind(home: Path) -> None:
    """What was claimed before the clock stepped back an hour is free after it."""
    database = Database(Home(home).journal)
    ahead = FrozenClock(SystemClock().now() + timedelta(hours=1))
    Journal(database).enter("r", "small", {}, "f", str(home))
    facts = {"task_id": "a", "provider": "p", "index": 0}
    assert Calls(database, ahead).claim("r", "k", owner="dead", **facts).state == "ask"
    assert Calls(database).claim("r", "k", owner="alive", **facts).state == "ask"


def test_the_documented_tables(home: Path) -> None:
    run(home, small({"x": lambda *_: {"n": 1}}, Step("a/1", "x")))
    db = sqlite3.connect(Home(home).journal)
    columns = {
        table: [(row[1], row[2], row[3]) for row in db.execute(f"PRAGMA table_info({table})")]
        for table in ("worker_runs", "task_outputs")
    }
    assert columns["worker_runs"] == [
        ("run_id", "TEXT", 1),
        ("task_id", "TEXT", 1),
        ("agent_name", "TEXT", 1),
        ("status", "TEXT", 1),
        ("started_at", "TEXT", 1),
        ("completed_at", "TEXT", 0),
        ("duration_ms", "REAL", 0),
        ("error", "TEXT", 0),
        ("output_file_path", "TEXT", 0),
        ("created_at", "TEXT", 0),
    ]
    assert columns["task_outputs"] == [
        ("id", "INTEGER", 0),
        ("run_id", "TEXT", 1),
        ("task_id", "TEXT", 1),
        ("agent_name", "TEXT", 1),
        ("output_data", "TEXT", 1),
        ("metadata", "TEXT", 1),
        ("created_at", "TEXT", 0),
    ]
    indices = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='index'")}
    assert indices >= {
        "idx_worker_run_id",
        "idx_worker_task_id",
        "idx_run_id",
        "idx_task_id",
        "idx_agent",
    }
    foreign = db.execute("PRAGMA foreign_key_list(task_outputs)").fetchall()
    assert {row[2] for row in foreign} == {"worker_runs"}
    assert db.execute("SELECT output_data FROM task_outputs").fetchone() == ('{"n":1}',)
    db.close()
    assert Plan("r", [Step("a", "x")]).wire()["steps"][0]["id"] == "a"


def test_a_flipped_byte_in_the_journal_is_found(home: Path) -> None:
    run(home, small({"x": lambda *_: {"n": 1}}, Step("a", "x")))
    db = sqlite3.connect(Home(home).journal)
    db.execute("""UPDATE task_outputs SET output_data = '{"n":2}'""")
    db.commit()
    db.close()
    with pytest.raises(Corrupt, match="digest"):
        open_store(home)[0].output("r", "a")


def test_a_tolerant_step_runs_when_all_before_it_have_ended(home: Path) -> None:
    """It gets what succeeded; what waited for a failure is recorded as skipped; the run succeeds.
    Run again, the failures are tried again, and it as well."""
    broken = {"b"}

    def item(args: Any, outputs: Any, context: Any) -> Any:
        if context.task_id in broken:
            raise InputError(f"{context.task_id} is bad")
        return {"said": context.task_id, "given": sorted(outputs)}

    steps = [
        Step("a", "item"),
        Step("b", "item"),
        Step("after b", "item", {}, ("b",)),
        Step("after that", "item", {}, ("after b", "a")),
    ]
    answer = Step("answer", "item", {}, ("a", "b", "after b", "after that"), tolerant=True)
    last = Step("last", "item", {}, ("answer",))
    outcome, outputs = run(home, small({"item": item}, *steps, answer, last))
    assert outcome.status == "success"
    assert [task.task_id for task in outcome.failed] == ["b", "after b", "after that"]
    assert outputs["answer"] == {"said": "answer", "given": ["a"]}
    assert "last" in outputs
    with runtime(home) as engine:
        told = {task.task_id: (task.status, task.error) for task in engine.journal.tasks("r")}
    assert told["b"] == ("failed", "InputError: b is bad")
    assert told["after b"] == ("failed", "skipped: b failed")
    assert told["after that"] == ("failed", "skipped: after b failed")
    broken.clear()
    again, outputs = run(home, small({"item": item}, *steps, answer, last))
    assert again.status == "success"
    assert again.failed == []
    assert outputs["answer"]["given"] == ["a", "after b", "after that", "b"]


def test_without_one_a_failure_leaves_the_rest_undone(home: Path) -> None:
    def fail(args: Any, outputs: Any, context: Any) -> Any:
        raise InputError("bad")

    outcome, _ = run(home, small({"x": fail}, Step("a", "x"), Step("b", "x", {}, ("a",))))
    assert (outcome.status, outcome.undone) == ("failed", 1)


def test_a_step_says_where_it_wrote(home: Path) -> None:
    path = "workspace/agents/a/out/000001.json"
    outcome, _ = run(home, small({"x": lambda *_: {"output_file_path": path}}, Step("a", "x")))
    assert outcome.status == "success"
    with sqlite3.connect(Home(home).journal) as database:
        rows = database.execute("SELECT agent_name, output_file_path FROM worker_runs").fetchall()
    assert rows == [("x", path)]
