"""Questions and agents from Python: the same files as from the command line."""

import json
from pathlib import Path

import pytest

import beforehand as bh
from beforehand.errors import InputError, NotConfigured, NotFound, Refused
from experiments import Out
from test_ask import asked

AT = "2025-02-20"
QUESTION = "Will the Jorvia pipeline index close above 772, and how did it move this month?"


def test_a_question_in_python(sim: Path, home: Path, capsys: Out) -> None:
    world = bh.open_world(sim)
    plain = bh.ask(QUESTION, world, as_of=AT, run_id="p", progress=False)
    assert (plain.planned_by, plain.notes, plain.review) == ("rules", [], None)
    assert repr(plain) == plain.text
    assert {one["kind"] for one in plain.citations} == {"market", "price history"}
    shell = asked(capsys, sim, QUESTION, "--as-of", AT, "--run-id", "c")
    assert shell["answer"].replace("000002.json", "000001.json") == plain.text
    files = [json.loads((home / f"data/runs/{run}/answer.json").read_text()) for run in "pc"]
    assert [{**body, "run_id": ""}["not_found"] for body in files] == [plain.not_found] * 2
    helped = bh.ask(QUESTION, world, as_of=AT, model="scripted", review=True, progress=False)
    assert helped.planned_by == "scripted"
    assert helped.review is not None
    assert helped.review["responds"] is True
    assert helped.notes == ["scripted: a path test, not a forecaster"]
    assert bh.open_run(plain.run_id).verify().sound


def test_an_agent_in_python(sim: Path, home: Path) -> None:
    view = bh.open_world(sim).at(AT)
    ran = bh.run_agent("polymarket-agent", view, query="Jorvia pipeline", limit=3)
    assert ran.path == home / "workspace/agents/polymarket-agent/out/000001.json"
    assert json.loads(ran.path.read_text()) == {"data": ran.data, "metadata": ran.metadata}
    assert ran.metadata["timestamp"] == f"{AT}T00:00:00Z"
    coded = bh.run_agent("code-agent", view, question="Jorvia pipeline", model="scripted")
    assert "Jorvia pipeline" in coded.data[0]["output"]
    with pytest.raises(Refused, match="a larger --max-calls raises it"):
        bh.run_agent("code-agent", view, question="Avaria", model="scripted", max_calls=1)


def test_what_is_refused(sim: Path, home: Path) -> None:
    world = bh.open_world(sim)
    view = world.at(AT)
    for call, kind, said in (
        (lambda: bh.ask(5, world), InputError, "a question is a text"),  # type: ignore[arg-type]
        (lambda: bh.ask("x", world, nothing=1), InputError, "takes no argument 'nothing'"),  # type: ignore[call-arg]
        (lambda: bh.ask("?", world), InputError, "does not say what it is about"),
        (lambda: bh.ask("Jorvia", world, as_of="x"), InputError, "as_of: 'x' is not"),
        (lambda: bh.ask("Jorvia", world, review=True), InputError, "name one with model="),
        (lambda: bh.ask("Jorvia", "sim"), InputError, "is not a world"),  # type: ignore[arg-type]
        (lambda: bh.run_agent("nobody", view), NotFound, "no agent is named 'nobody'"),
        (lambda: bh.run_agent("polymarket-agent", view, q=1), InputError, "no input 'q'"),
        (lambda: bh.run_agent("polymarket-agent", world), InputError, "is not a View"),  # type: ignore[arg-type]
        (lambda: bh.run_agent("code-agent", view, question="x"), NotConfigured, "needs a model"),
    ):
        with pytest.raises(kind, match=said):
            call()  # type: ignore[no-untyped-call]
