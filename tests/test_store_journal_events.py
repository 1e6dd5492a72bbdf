"""The events of a run, in order, in one table."""

import json
from collections import Counter
from pathlib import Path

from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.config import Home, Workspace
from beforehand.runs.query import need_journal
from beforehand.store.journal.events import RunEvent, events_after
from experiments import QUICK, Out, told


def events(home: Path, run_id: str) -> list[RunEvent]:
    journal = need_journal(Workspace(Home(home)))
    try:
        return events_after(journal.database, run_id, 0, most=100_000)
    finally:
        journal.database.close()


def test_what_happened_in_order(sim: Path, home: Path, capsys: Out) -> None:
    """A run that is stopped by its budget and resumed: steps and calls begin before they end, the
    numbers have no gap, and `runs watch` prints the same."""
    with serving(Provider()) as provider:
        command = ["backtest", "run", "--archive", str(sim), "--every", "28d", "--run-id", "r"]
        command += ["--forecasters", f"market,{provider.address()}", *QUICK]
        assert cli([*command, "--max-calls", "30"]) == 3
        told(capsys, "runs", "resume", "r", "--max-calls", "100000")
        paid = len(provider.log)
    found = events(home, "r")
    assert [e.number for e in found] == list(range(1, len(found) + 1))
    counted = Counter(e.what for e in found)
    assert counted["run begun"] == counted["run resumed"] == 1
    assert counted["call sent"] == counted["call ended"] == paid
    runs = [(e.what, e.detail.get("status")) for e in found if e.what.startswith("run ")]
    assert runs[0] == ("run begun", None)
    assert runs[-1] == ("run ended", "success")
    assert runs.count(("run ended", "stopped")) == 1
    begun: set[str] = set()
    for event in found:
        if event.what == "step begun":
            begun.add(str(event.task_id))
        elif event.what == "step ended":
            assert event.task_id in begun
    open_calls = Counter[str]()
    for event in found:
        if event.what.startswith("call "):
            open_calls[event.detail["key"]] += 1 if event.what == "call sent" else -1
            assert min(open_calls.values()) >= 0
    capsys.readouterr()
    assert cli(["runs", "watch", "r", "--events"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [e.wire() for e in found]


def test_a_cancelled_run_says_so_once(sim: Path, home: Path, capsys: Out) -> None:
    command = ["backtest", "run", "--archive", str(sim), "--every", "28d", "--run-id", "r"]
    with serving(Provider()) as provider:
        command += ["--forecasters", provider.address(), "--max-calls", "5", *QUICK]
        assert cli(command) == 3
    told(capsys, "runs", "cancel", "r")
    assert [e.what for e in events(home, "r")][-1] == "run cancelled"
    assert cli(["runs", "cancel", "r"]) == 2
    assert sum(e.what == "run cancelled" for e in events(home, "r")) == 1
