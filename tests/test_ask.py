"""The orchestrator without a model: plans that are checked, answers whose every figure is on record,
runs that are killed at every step, and nothing of the future in any byte."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock, parse_instant
from beforehand.errors import InputError, NotFound
from beforehand.jobs.ask import ask_job, rules, wording
from beforehand.jobs.ask.answer import cited
from beforehand.jobs.ask.tasks import Task, check
from beforehand.jobs.probe.redraw import OtherFuture, all_records
from beforehand.records.world import Market, PricePoint, Resolution
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.bus import Bus
from experiments import Out, told
from program import run_program
from proofs import some

T = "2025-02-20T00:00:00Z"


QUESTION = "How likely is it that the Jorvia reservoir index closes above 672, and how did it move "
QUESTION += "this month, and why?"


def asked(capsys: Out, sim: Path, question: str, *more: str, code: int = 0) -> dict[str, Any]:
    return told(capsys, "ask", question, "--archive", str(sim), *more, code=code)


def test_bad_plans_are_refused_before_anything_is_spent() -> None:
    good = Task("a", "polymarket-agent", "", {"query": "x"}, (), ("search_polymarket_markets",))
    read = {"input_path": {"task": "a"}}
    for tasks, said in (
        ([], "the plan has no task"),
        ([good, good], "two tasks of the plan have one id"),
        ([Task("answer", "consumer-agent", "")], "cannot be called 'answer'"),
        ([Task("a", "nobody", "")], "no agent is named 'nobody'"),
        ([Task("a", "polymarket-agent", "")], "task a: .*'query' is missing"),
        ([Task("a", "polymarket-agent", "", {"query": 5})], "task a: .*query"),
        ([Task("a", "polymarket-agent", "", {"query": "x"}, ("b",))], "'b', which is not in the"),
        ([Task("a", "polymarket-agent", "", {"query": "x"}, (), ("run_query",))], "may not use"),
        ([Task("a", "polymarket-agent", "", {"query": "x"})], "task a has no tool: polymarket-"),
        ([good, Task("c", "consumer-agent", "", read)], "must wait for it"),
        (
            [
                Task("a", "polymarket-agent", "", {"query": "x"}, ("b",), good.tools),
                Task("b", "polymarket-agent", "", {"query": "x"}, ("a",), good.tools),
            ],
            "wait for each other in a circle: a, b",
        ),
    ):
        with pytest.raises(InputError, match=said):
            check(tasks)
    check([good, Task("c", "consumer-agent", "", read, ("a",))])


def test_an_answer_with_citations(sim: Path, home: Path, capsys: Out) -> None:
    """Every citation resolves, and every figure is that of the View."""
    found = asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    assert found["as_of"] == T
    numbers = {one["n"] for one in found["citations"]}
    assert set(cited(found["answer"])) == numbers != set()
    view = bh.open_world(sim).at(T)
    kinds = {one["kind"] for one in found["citations"]}
    assert kinds >= {"market", "price history"}
    for one in found["citations"]:
        assert (Path(home) / one["file"]).is_file()
        if one["kind"] == "document":
            assert view._world.document(one["id"], view._at)
            continue
        market, odds = view.market(one["id"]), view.odds(one["id"])
        assert market.question == one["title"]
        line = next(text for text in found["answer"].splitlines() if f"[{one['n']}]" in text)
        assert f"{odds.price:g}" in line
        if one["kind"] == "price history":
            since = view.history(one["id"], start="2025-02-01")
            days = {point.observed_at.date(): point.price for point in since}
            assert f"low {min(days.values()):g}, high {max(days.values()):g}" in line
    assert cli(["runs", "verify", "r"]) == 0
    capsys.readouterr()
    assert cli(["bus", "verify"]) == 0
    capsys.readouterr()
    plan = asked(capsys, sim, QUESTION, "--as-of", T, "--plan")
    assert [task["id"] for task in plan["tasks"]] == [
        "markets", "markets-details", "sites", "markets-history", "documents",
    ]  # fmt: skip


def test_reports_are_those_of_the_topic(wide: Path, home: Path, capsys: Out) -> None:
    found = asked(capsys, wide, "What is reported about the Jorvia museum index?", "--as-of", T)
    reports = [one for one in found["citations"] if one["kind"] == "document"]
    assert reports
    view = bh.open_world(wide).at(T)
    for one in reports:
        title = view.document(one["id"]).title
        assert "Jorvia museum index" in title
        assert title in found["answer"]


def test_which_markets_come_first(tmp_path: Path, home: Path, capsys: Out) -> None:
    """Those that ask exactly this; the likeliest of "who", the winner of what has ended; near ones
    are called so, and a question's month and year are part of it."""
    at = parse_instant("2025-11-01T00:00:00Z")
    records: list[Any] = []
    for n, (name, price) in enumerate((("Ash", 0.1), ("Birch", 0.7), ("Cedar", 0.2))):
        known = at + timedelta(minutes=n)
        market = Market(
            id=f"POLYMARKET:m{n}", venue="POLYMARKET", native_id=f"m{n}", question=f"Will {name} win the Oslo race in 2025?",
            known_at=known, text_known_at=known,
        )  # fmt: skip
        price_at = PricePoint(market_id=market.id, price=price, observed_at=known, known_at=known)
        records += [market, price_at]
    records.append(
        Resolution(
            market_id="POLYMARKET:m2", status="resolved", payout=1.0,
            resolved_at=at + timedelta(days=9), known_at=at + timedelta(days=9),
        )
    )  # fmt: skip
    path = tmp_path / "race"
    ArchiveWriter(path).add(
        records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
    )
    early = asked(capsys, path, "Who will win the Oslo race?", "--as-of", "2025-11-05")
    titles = [one["title"] for one in early["citations"]]
    assert [title.split()[1] for title in titles] == ["Birch", "Cedar", "Ash"]
    assert "price of 2025-11-01" in early["answer"]
    assert "exactly" not in early["answer"]
    late = asked(capsys, path, "Oslo race in 2025", "--as-of", "2025-11-20")
    assert "Will Cedar win the Oslo race in 2025? ended Yes on 2025-11-10" in late["answer"]
    near = asked(capsys, path, "Will Birch win the Oslo race in December?", "--as-of", "2025-11-05")
    assert "No market asks exactly" in near["answer"]
    itself = asked(capsys, path, "Will Cedar win the Oslo race in 2025?", "--as-of", "2025-11-05")
    assert [one["title"] for one in itself["citations"]] == [
        "Will Cedar win the Oslo race in 2025?"
    ]
    none = asked(capsys, path, "Who will win the Oslo race in 2026?", "--as-of", "2025-11-05")
    assert none["citations"] == []


def test_what_agents_wrote_is_checked_again(sim: Path, home: Path, capsys: Out) -> None:
    found = asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    output = home / found["citations"][0]["file"]
    whole = output.read_bytes()
    output.write_bytes(whole + b"\n")
    assert cli(["runs", "verify", "r"]) == 1
    assert f"{output} is not what" in capsys.readouterr().out
    output.unlink()
    assert cli(["runs", "verify", "r"]) == 1
    assert "is missing" in capsys.readouterr().out
    output.write_bytes(whole)
    assert cli(["runs", "verify", "r"]) == 0
    for command in ("diff", "compare"):
        capsys.readouterr()
        assert cli(["runs", command, "r", "r"]) != 0
        assert "run r (ask) has no scores: `beforehand runs show r`" in capsys.readouterr().err
    with pytest.raises(NotFound, match="has no scores"):
        assert bh.open_run("r").summary


def test_what_stands_in_the_results_database(sim: Path, home: Path, capsys: Out) -> None:
    """`agent_name` is the agent, `output_file_path` its file on the bus."""
    asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    with sqlite3.connect(Path(home) / "workspace" / "orchestrator_results.db") as database:
        rows = database.execute(
            "SELECT task_id, agent_name, status, output_file_path FROM worker_runs WHERE "
            "run_id = 'r' ORDER BY task_id"
        ).fetchall()
    assert rows == [
        ("answer", "answer", "success", None),
        *(
            (task, agent, "success", f"workspace/agents/{agent}/out/000001.json")
            for task, agent in (
                ("documents", "documents-agent"),
                ("markets", "polymarket-agent"),
                ("markets-details", "market-details-agent"),
                ("markets-history", "price-history-agent"),
            )
        ),
        ("plan", "plan", "success", None),
        (
            "sites", "predictive-markets-agent", "success",
            "workspace/agents/predictive-markets-agent/out/000001.json",
        ),
    ]  # fmt: skip


def test_outputs_in_the_results_database_are_the_documented_content(
    sim: Path, home: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL over it answers: the output's data and metadata; of a large one, which file has them."""
    query = (
        "SELECT agent_name, output_data, metadata FROM task_outputs WHERE run_id = ? AND "
        "agent_name LIKE '%-agent' ORDER BY task_id"
    )
    asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r")
    with closing(sqlite3.connect(home / "workspace" / "orchestrator_results.db")) as database:
        rows = database.execute(query, ("r",)).fetchall()
        (first,) = database.execute(
            "SELECT json_extract(output_data, '$.data[0].markets[0].market_id') FROM task_outputs "
            "WHERE run_id = 'r' AND agent_name = 'polymarket-agent'"
        ).fetchone()
    assert len(rows) == 5
    assert first
    for agent, said, about in rows:
        output, metadata = json.loads(said), json.loads(about)
        written = json.loads((home / output["output_file_path"]).read_text())
        assert output["data"] == written["data"]
        assert {k: v for k, v in metadata.items() if k not in ("inputs", "digest")} == written[
            "metadata"
        ]
        assert metadata["agent"] == agent
    monkeypatch.setattr(ask_job, "LARGEST_KEPT", 10)
    asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "large")
    with closing(sqlite3.connect(home / "workspace" / "orchestrator_results.db")) as database:
        for _, said, _ in database.execute(query, ("large",)):
            output = json.loads(said)
            assert "data" not in output
            assert "they are in output_file_path" in output["left_out"]
    assert cli(["runs", "verify", "large"]) == 0


def test_markets_named_by_their_ids(sim: Path, home: Path, capsys: Out) -> None:
    """A market's id is a topic of its own: its price, how old it is, and how it ended; one that
    came later is not known, and an id is no word to search for."""
    view = bh.open_world(sim).at("2026-01-01")
    ended = next(one for one in view.resolutions() if one.status == "resolved")
    name = ended.market_id.partition(":")[2]
    found = asked(capsys, sim, f"How did {name} move?", "--as-of", "2026-01-01T00:00:00Z")
    (line,) = [text for text in found["answer"].splitlines() if "ended" in text]
    outcome = "Yes" if ended.payout else "No"
    assert f"ended {outcome} on {ended.resolved_at:%Y-%m-%d}; Yes was last at" in line
    assert "closes" not in line
    assert next(one["id"] for one in found["citations"]) == name
    before = ended.known_at - timedelta(days=1)
    found = asked(capsys, sim, f"{name}?", "--as-of", f"{before:%Y-%m-%dT%H:%M:%SZ}")
    assert "ended" not in found["answer"]
    assert view.market(name).question in found["answer"]
    found = asked(capsys, sim, "SIM:nothing", "--as-of", T)
    assert found["not_found"][0] == "no market SIM:nothing was known then"
    at = parse_instant(T)
    unknown = rules.plan("m9999 rain", at, wording.Known(ids=frozenset({"m1"})))
    assert unknown[0].inputs["query"] == "m9999 rain"
    assert wording.read("39314 rain", at, wording.Known(ids=frozenset({"39314"}))).ids == ()


def test_every_venue_is_searched() -> None:
    """A venue that has markets is searched; simulated ones belong to every server."""
    known = wording.Known(frozenset({"POLYMARKET", "KALSHI", "MANIFOLD", "METACULUS", "SIM"}))
    tasks = rules.plan("Will it rain?", parse_instant(T), known)
    check(tasks)
    others = {task.id: task.inputs.get("venues") for task in tasks}
    assert others["venues"] == ["MANIFOLD", "METACULUS"]
    assert {"markets-details", "kalshi-details", "venues-details"} <= others.keys()


def test_what_was_not_found_is_said(sim: Path, home: Path, capsys: Out) -> None:
    found = asked(capsys, sim, "Will the moon be sold to Liechtenstein?")
    assert "Nothing was found" in found["answer"]
    assert found["as_of_stated"] is False
    assert "the last instant on record, because none was named" in found["answer"]
    assert any("nothing fits" in text for text in found["not_found"])
    found = asked(capsys, sim, "quotes of XCME.OZN on 2025-07-21", "--as-of", T)
    assert any("there is no market-data table" in text for text in found["not_found"])
    assert any("skipped" in text or "quotes failed" in text for text in found["not_found"])
    asked_for = ["ask", "?", "--archive", str(sim)]
    assert cli(asked_for) == 2
    assert "does not say what it is about" in capsys.readouterr().err
    with pytest.raises(NotFound):
        bh.open_run("20990101_000000")


KILLED = """
import os, sys
from pathlib import Path
from beforehand.cli.app import run
from beforehand.store.journal.journal import Journal

number, when, left = int(sys.argv[1]), sys.argv[2], [int(sys.argv[1])]
real = Journal.finished

def finished(self, *arguments, **more):
    left[0] -= 1
    if left[0] == 0 and when == "before":
        os._exit(9)
    real(self, *arguments, **more)
    if left[0] == 0:
        os._exit(9)

Journal.finished = finished
sys.exit(run(sys.argv[3:]))
"""


def test_killed_at_every_step_and_resumed(sim: Path, tmp_path: Path) -> None:
    """Before a step is on record and after it: the same answer, one output a task, sound."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    arguments = ["ask", QUESTION, "--as-of", T, "--archive", str(sim), "--run-id", "r", "--json"]
    arguments += ["--concurrency", "1"]  # Steps that end together are one call.

    def files(root: Path) -> Mapping[str, bytes]:
        found = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("out/*.json")}
        return {**found, "answer": (root / "data/runs/r/answer.json").read_bytes()}

    def call(root: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        return run_program(command, env=environment, capture_output=True, check=False)

    whole = tmp_path / "whole"
    whole.mkdir()
    assert call(whole, sys.executable, "-m", "beforehand", *arguments).returncode == 0
    wanted = files(whole)
    assert len(wanted) == 6
    places = [(step, when) for step in range(1, 8) for when in ("before", "after")]
    places = some("kills of an ask, before and after each step", places[5:7], places)
    for step, when in places:
        root = tmp_path / f"{step}-{when}"
        root.mkdir()
        done = call(root, sys.executable, str(script), str(step), when, *arguments)
        assert done.returncode == 9, (step, when, done.stderr)
        resumed = call(root, sys.executable, "-m", "beforehand", "runs", "resume", "r")
        assert resumed.returncode == 0, (step, when, resumed.stderr)
        assert files(root) == wanted, (step, when)
        checked = call(root, sys.executable, "-m", "beforehand", "runs", "verify", "r")
        assert checked.returncode == 0, (step, when, checked.stdout)
        assert Bus(root / "workspace" / "agents").agent("polymarket-agent").check().problems == []


def test_nothing_of_the_future_in_any_byte(sim: Path, tmp_path: Path) -> None:
    """Two worlds that differ after T alone: the same answers and the same files on the bus."""
    kept, said = all_records(Archive(sim)), []
    other = OtherFuture(kept, parse_instant(T))
    everything = (record for records in kept.values() for record in records)
    for name, records in (("a", everything), ("b", other.records())):
        root = tmp_path / name
        ArchiveWriter(root / "world").add(
            records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
        )
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        scripted = ["--model", "scripted", "--review", "--concurrency", "1"]
        for number, (question, model) in enumerate(
            ((QUESTION, []), ("Will the Avaria index close above 700?", []), (QUESTION, scripted))
        ):
            command = [sys.executable, "-m", "beforehand", "ask", question, "--as-of", T, *model]
            more = ["--archive", str(root / "world"), "--run-id", f"r{number}"]
            run_program([*command, *more], env=environment, capture_output=True, check=True)
        found = {p.relative_to(root).as_posix(): p for p in root.rglob("out/*.json")}
        found |= {p.relative_to(root).as_posix(): p for p in root.rglob("answer.json")}
        said.append({place: json.loads(path.read_text()) for place, path in found.items()})
    assert other.changes, "the worlds do differ"
    assert said[0] == said[1]
    assert len(said[0]) == 16
