"""The orchestrator with a model: it plans in two stages, rates markets, writes code and checks the
answer, all through the run's journal; what it says wrongly is said to be so."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.llm.scripted_ask import answered
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal
from experiments import Out, told
from modelserver import ModelServer, completion, model_server
from program import run_program
from proofs import some
from test_ask import KILLED, T, asked

QUESTION = "Will the Jorvia pipeline index close above 772, and how did it move this month?"
Body = dict[str, Any]
Change = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]


def shown(body: Body) -> dict[str, Any]:
    """The JSON of a request's first user message."""
    text = next(m["content"] for m in body["messages"] if m["role"] == "user")
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return found


def says(change: Change = lambda said, seen: said) -> Callable[[Body], Any]:
    """A model behind HTTP that says what the scripted one does, changed as the test wants."""

    def answer(body: Body) -> Any:
        wanted = body["response_format"]["json_schema"]["schema"]["properties"]
        seen = shown(body)
        return completion(json.dumps(change(answered(wanted, seen) or {}, seen)))

    return answer


def calls(home: Path, run_id: str = "r") -> list[Mapping[str, Any]]:
    return list(Journal(Database(Home(home).journal)).calls.rows(run_id))


def test_a_model_plans_rates_and_writes_code(sim: Path, home: Path, capsys: Out) -> None:
    found = asked(
        capsys, sim, QUESTION, "--as-of", T, "--run-id", "r", "--model", "scripted", "--review"
    )
    assert found["planned_by"] == "scripted"
    assert found["model"] == {"id": "scripted", "note": "a path test, not a forecaster"}
    assert found["review"]["responds"] is True
    kinds = [one["kind"] for one in found["citations"]]
    assert set(kinds) == {"code", "market", "price history"}
    plan = json.loads((Home(home).runs / "r" / "plan.json").read_text())
    tools = {s["args"]["id"]: s["args"]["tools"] for s in plan["steps"] if s["args"]}
    assert tools == {
        "markets": ["search_polymarket_markets"],
        "pages": ["search_domains"],
        "looked-up": ["search_polymarket_markets"],
        "moves": ["get_market_price_range"],
    }
    output = json.loads((home / "workspace/agents/polymarket-agent/out/000001.json").read_text())
    (row,) = output["data"]
    assert (row["search_method"], row["llm_scoring_enabled"]) == ("hybrid_llm", True)
    scores = [market["relevance_score"] for market in row["markets"]]
    assert scores == sorted(scores, reverse=True)
    assert all(market["relevance_reason"] for market in row["markets"])
    (made,) = json.loads((home / "workspace/agents/code-agent/out/000001.json").read_text())["data"]
    assert made["tool_calls"][0]["tool"] == "search_polymarket_markets"
    assert row["markets"][0]["market_id"] in made["output"]
    providers = [call["provider"] for call in calls(home)]
    assert set(providers) == {"scripted", "tool:search_polymarket_markets"}
    assert all(call["state"] == "done" for call in calls(home))
    assert cli(["runs", "verify", "r"]) == 0


def test_a_plan_is_shown_and_then_carried_out(sim: Path, home: Path, capsys: Out) -> None:
    """What the plan cost is paid once: resuming the run carries the same plan out."""
    arguments = ("--as-of", T, "--run-id", "r")
    with model_server(says()) as server:
        model = ("--model", server.model())
        plan = asked(capsys, sim, QUESTION, *arguments, *model, "--plan")
        assert [task["id"] for task in plan["tasks"]] == ["markets", "pages", "looked-up", "moves"]
        assert len(server.log) == 5, "an outline, and one request for each of four tasks"
        again = asked(capsys, sim, QUESTION, *arguments, *model, "--plan")
        assert (again["tasks"], len(server.log)) == (plan["tasks"], 5), "shown again, and no more"
        seen = [shown(body) for body in server.log[1:]]
        for one in seen:
            own = {"price-history-agent": 1, "code-agent": 11}.get(one["agent"]["agent"], 1)
            assert len(one["tools"]) == own, "a task is shown the tools of its agent alone"
        assert not (home / "workspace/agents/polymarket-agent").exists()
        found = told(capsys, "runs", "resume", "r")
        assert found["planned_by"] == server.model()
        assert "is not known" in found["model"]["note"]
        asked_for = [json.dumps(body, sort_keys=True) for body in server.log]
        assert len(asked_for) == len(set(asked_for)), "nothing is asked twice"
    assert cli(["runs", "show", "r"]) == 0
    assert found["answer"] in capsys.readouterr().out


def test_a_stopped_run_is_not_finished_and_keeps_a_budget_it_can(
    sim: Path, home: Path, capsys: Out
) -> None:
    with model_server(says()) as server:
        model = ("--model", server.model())
        asked(capsys, sim, QUESTION, "--as-of", T, "--run-id", "r", *model, "--plan")
        assert cli(["runs", "verify", "r"]) == 1
        assert "run r: not finished yet; its calls are sound" in capsys.readouterr().out
        sent = len(server.log)
        assert cli(["runs", "resume", "r", "--max-cost", "1"]) == 2
        assert "state --cost-per-call" in capsys.readouterr().err
        assert len(server.log) == sent, "nothing is sent under a limit that nobody could keep"
        assert cli(["runs", "resume", "r", "--max-cost", "1", "--cost-per-call", "0.01"]) == 0


def test_a_plan_that_cannot_be_carried_out(sim: Path, home: Path, capsys: Out) -> None:
    """The model is asked once more with the reason, and then the rules plan."""

    def circle(said: dict[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
        for task in said.get("tasks", ()):
            task["after"] = ["markets"] if task["id"] == "pages" else ["pages"]
        return said

    def mended(said: dict[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
        return said if "the_last_plan_failed" in seen else circle(said, seen)

    for number, (change, by) in enumerate(((circle, "rules"), (mended, "model"))):
        with model_server(says(change)) as server:
            model = ("--model", server.model(), "--as-of", T, "--run-id", f"r{number}")
            found = asked(capsys, sim, QUESTION, *model, "--plan")
            reasons = [shown(body).get("the_last_plan_failed") for body in server.log]
            assert [reason for reason in reasons if reason] == [
                "tasks wait for each other in a circle: looked-up, markets, moves, pages"
            ]
            assert found["planned_by"] == (by if by == "rules" else server.model())
            assert ("rules planned" in found.get("note", "")) == (by == "rules")
    with model_server(lambda body: completion("I would rather not.")) as server:
        found = asked(capsys, sim, QUESTION, "--model", server.model(), "--as-of", T, "--plan")
        assert found["planned_by"] == "rules"
        assert "cannot be carried out" in found["note"]


def test_what_a_model_says_wrongly_is_said(sim: Path, home: Path, capsys: Out) -> None:
    """No ratings, no code, no review: the answer stands on what was found, and says the rest."""

    def broken(said: dict[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
        if "code" in said:
            return {"code": "raise ValueError('as ever')"}
        return {} if "market_1" in said or "responds" in said else said

    with model_server(says(broken)) as server:
        model = ("--model", server.model(), "--as-of", T, "--run-id", "r", "--review")
        found = asked(capsys, sim, QUESTION, *model)
    assert any("code-agent on" in text and "as ever" in text for text in found["not_found"])
    assert "error" in found["review"]
    output = json.loads((home / "workspace/agents/polymarket-agent/out/000001.json").read_text())
    assert output["data"][0]["llm_scoring_enabled"] is False
    assert any("the model's rating failed" in note for note in output["metadata"]["_meta"]["notes"])
    failed = [c for c in calls(home) if c["provider"].startswith("tool:")]
    assert failed == [], "code that raises at once calls nothing"


def test_what_is_refused_before_it_begins(sim: Path, home: Path, capsys: Out) -> None:
    for more, said in (
        (["--review"], "name one with --model"),
        (["--model", "openai:gpt-4o"], "needs OPENAI_API_KEY"),
        (["--model", "nothing"], "there is no model 'nothing'"),
        (["--model", "m@http://127.0.0.1:1/v1", "--max-cost", "1"], "state --cost-per-call"),
    ):
        assert cli(["ask", QUESTION, "--archive", str(sim), *more]) != 0
        assert said in capsys.readouterr().err
    assert not Home(home).journal.exists()


def test_within_a_budget(sim: Path, home: Path, capsys: Out) -> None:
    arguments = ["ask", QUESTION, "--as-of", T, "--archive", str(sim), "--run-id", "r"]
    with model_server(says()) as server:
        assert cli([*arguments, "--model", server.model(), "--max-calls", "6"]) == 3
        assert "--max-calls N` goes on from here" in capsys.readouterr().err
        assert len(server.log) <= 6
        assert cli(["runs", "resume", "r", "--max-calls", "60"]) == 0
        asked_for = [json.dumps(body, sort_keys=True) for body in server.log]
        assert len(asked_for) == len(set(asked_for)), "nothing is asked twice"


def test_killed_at_every_step_no_call_is_paid_twice(sim: Path, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)

    def call(root: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
        root.mkdir(exist_ok=True)
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        return run_program(command, env=environment, capture_output=True, check=False)

    def carried_out(server: ModelServer, root: Path, *how: str) -> tuple[str, list[str]]:
        server.log.clear()
        arguments = ["ask", QUESTION, "--as-of", T, "--archive", str(sim), "--run-id", "r"]
        more = ["--model", server.model(), "--review", "--concurrency", "1"]
        done = call(root, sys.executable, *how, *arguments, *more)
        assert done.returncode == (0 if how[0] == "-m" else 9), done.stderr
        if done.returncode:
            resumed = call(root, sys.executable, "-m", "beforehand", "runs", "resume", "r")
            assert resumed.returncode == 0, resumed.stderr
        answer = json.loads((root / "data/runs/r/answer.json").read_text())
        return answer["answer"], sorted(json.dumps(b, sort_keys=True) for b in server.log)

    with model_server(says()) as server:
        wanted = carried_out(server, tmp_path / "whole", "-m", "beforehand")
        assert len(wanted[1]) == len(set(wanted[1])) > 8
        places = [(step, when) for step in range(1, 7) for when in ("before", "after")]
        for step, when in some("kills of an ask with a model", places[5:6], places):
            root = tmp_path / f"{step}-{when}"
            found = carried_out(server, root, str(script), str(step), when)
            assert found == wanted, (step, when)
