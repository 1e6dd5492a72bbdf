"""Questions without an answer, and processes that slept: what is asked again, and what is final."""

import json
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.config import Home, Workspace
from beforehand.engine.context import Signals, StepContext
from beforehand.errors import Refused, Stopped, Unavailable
from beforehand.forecast.schemes import http
from beforehand.gateway.opening import open_traffic
from beforehand.store.database import Database
from beforehand.store.journal.calls import Calls, Usage
from experiments import MONDAY, QUICK, Out, intervals, told
from jobs import open_store


class Stuck(Provider):
    """Never answers one question in time; all others at once."""

    def __init__(self, market: str, time: str, wait: float = 1.0) -> None:
        super().__init__(latency=0.0)
        self.stuck, self.tried, self.wait = (market, time), 0, wait

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        asked = json.loads(body)
        if (asked["market"]["id"], asked["time"]) == self.stuck:
            self.tried += 1
            time.sleep(self.wait)
        return super().answer(key, path, body, index)


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
        assert stuck.tried == 4, "once beside others that were answered, then three times alone"
        assert told(capsys, "runs", "show", "r")["status"] == "stopped"
        told(capsys, "runs", "resume", "r")
        assert stuck.tried == 5, "the fifth attempt is the last"
    rows = intervals(home, "r")
    failed = [(r["market_id"], r["time"], f["error"]) for r in rows for f in r["failures"]]
    assert [(market, time) for market, time, _ in failed] == [("KALSHI:m1", at)]
    assert "no whole answer" in failed[0][2]
    assert len(rows) == 14, "the others went on"
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_answers_that_state_no_cost_count_as_what_a_call_is_expected_to_cost(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    """Also those that are no JSON: a service may bill for them. The budget stops the run."""

    class Free(Provider):
        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            _, said = super().answer(key, path, body, index)
            p = json.loads(said)["probability"]
            garbage = len(self.log) % 3 == 2
            return 200, b'{"probability": NaN}' if garbage else b'{"probability": %a}' % p

    with serving(Free(latency=0.0)) as free:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", free.address()]
        limit = ["--max-cost", "0.05", "--cost-per-call", "0.01"]
        assert cli([*command, *limit, "--run-id", "r", "--concurrency", "1", *QUICK]) == 3
        assert "the budget of 0.05 USD" in capsys.readouterr().err
        assert len(free.log) == 5
        assert cli([*command, "--run-id", "all", *QUICK]) in (0, 3)
        assert len(free.log) > 10, "the control: without a price the budget is not used up"
    errors = [f["error"] for row in intervals(home, "all") for f in row["failures"]]
    assert errors
    assert all("JSON has no NaN" in said for said in errors)
    assert told(capsys, "runs", "verify", "all")["sound"]


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
    # On a busy machine an answer may take a second: then another question would be the first.
    with serving(Stuck("KALSHI:m1", at, wait=6.0)) as stuck:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", stuck.address()]
        command += ["--timeout", "5", "--run-id", "r", "--in-flight", "stop"]
        assert cli(command) == 3
        err = capsys.readouterr().err
        assert f"KALSHI:m1 at {at}, {stuck.address()}, simulation 0" in err
        assert "--in-flight resend or --in-flight skip" in err
        assert stuck.tried == 1
        told(capsys, "runs", "resume", "r", "--in-flight", "skip")
        assert stuck.tried == 1
    assert sum(len(row["failures"]) for row in intervals(home, "r")) == 1


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


SAY = {"task_id": "t", "provider": "p", "index": 0}


def test_who_slept_through_a_lease_sends_no_earlier_context(
    provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each attempt it is asked whether the call is still held: a process that was suspended,
    or cut off from the journal, might send a context of an instant that others have left."""
    journal, calls = open_store(home)
    asked = http.request(provider.address(), {"time": "x"}, 0, "key", "r")
    providers = {provider.address(): http.provider(provider.address())}
    traffic = open_traffic(Workspace(Home(home)), providers)
    asleep = [True, False]
    real = calls.holds
    monkeypatch.setattr(calls, "holds", lambda *call: not asleep.pop(0) and real(*call))
    journal.enter("r", "small", {}, "f", str(home))
    context = StepContext("r", "t", "me", journal, Signals(threading.Semaphore(1)))
    keys: list[str] = []

    def send(key: str) -> str:
        keys.append(key)
        return traffic.fetch(asked, still=lambda: calls.holds("r", key)).text

    answer = context.call("p", {"time": "x"}, send)
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


def test_a_free_answer_is_recorded_once_and_counts_for_nothing(tmp_path: Path) -> None:
    """Beside rows of every state: the first answer stands, a refusal stays one, and what was sent
    without an answer is answered now."""
    journal, calls = open_store(tmp_path)
    journal.enter("r", "small", {}, "f", str(tmp_path), limits={"calls": 9.0})
    free = {**SAY, "owner": "a"}
    assert journal.free.record("r", "new", "first", **free) == "first"  # type: ignore[arg-type]
    assert journal.free.record("r", "new", "second", **free) == "first"  # type: ignore[arg-type]
    assert calls.claim("r", "sent", owner="a", **SAY).state == "ask"  # type: ignore[arg-type]
    assert journal.free.record("r", "sent", "now", **free) == "now"  # type: ignore[arg-type]
    assert calls.claim("r", "no", owner="a", **SAY).state == "ask"  # type: ignore[arg-type]
    calls.refused("r", "no", "a", "never")
    with pytest.raises(Refused, match="never"):
        journal.free.record("r", "no", "yes", **free)  # type: ignore[arg-type]
    row = journal.known_run("r")
    assert (row.calls, row.cost) == (2, 0.0), "only the two that were claimed"
    journal.stop("r", "enough")
    with pytest.raises(Stopped, match="enough"):
        journal.free.record("r", "late", "x", **free)  # type: ignore[arg-type]
    assert journal.free.record("r", "new", "third", **free) == "first"  # type: ignore[arg-type]
    journal.database.close()


class Failing(Provider):
    """Answers so many questions, then says a status to all others, until it is mended."""

    def __init__(self, after: int, status: int) -> None:
        super().__init__(latency=0.005)
        self.after, self.status, self.refused = after, status, list[str]()

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        if len(self.paid()) >= self.after and self.status != 200:
            self.refused.append(key)
            return self.status, b'{"error": "out of order"}'
        return super().answer(key, path, body, index)


@pytest.mark.parametrize(("status", "most"), [(402, 0), (401, 0), (500, 2), (403, 4)])
def test_an_outage_in_the_middle_costs_next_to_no_question(
    made: Path, home: Path, capsys: Out, hurried: None, status: int, most: int
) -> None:
    """It stops after a few, and the resume asks them again. Two that fail (500) use up their five
    attempts where fewer than three are asked at once, and some 403 are taken as said."""
    with serving(Failing(6, status)) as service:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", service.address()]
        command += ["--run-id", "r", "--concurrency", "8", *QUICK]
        assert cli(command) == 3
        assert "runs resume r" in capsys.readouterr().err
        assert len(set(service.refused)) <= 8
        service.status = 200
        told(capsys, "runs", "resume", "r")
        asked = service.paid()
        assert all(n == 1 for n in asked.values()), "nothing was paid twice"
    lost = [f for row in intervals(home, "r") for f in row["failures"]]
    assert len(lost) <= most


def test_questions_that_break_a_living_service_do_not_stop_it(
    made: Path, home: Path, capsys: Out, hurried: None
) -> None:
    """More than three that fail, each beside others that are answered: five attempts each."""

    class Odd(Provider):
        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            if json.loads(body)["market"]["id"] == "KALSHI:m2":
                return 500, b"oops"
            return super().answer(key, path, body, index)

    with serving(Odd(latency=0.0)) as service:
        command = ["backtest", "run", "--archive", str(made), "--forecasters", service.address()]
        codes = [cli([*command, "--run-id", "r", "--concurrency", "1", *QUICK])]
        assert codes == [0], capsys.readouterr().err
    lost = [f for row in intervals(home, "r") for f in row["failures"]]
    assert len(lost) > 3
