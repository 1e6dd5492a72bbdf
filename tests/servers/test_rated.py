"""A model that rates searches outside of runs: on the command line, for an agent, and behind an MCP
server. What it was asked once is never paid for again, and one budget holds over all of them."""

import json
from pathlib import Path
from typing import Any

import anyio
from serving import over_stdio

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal
from experiments import Out, told
from modelserver import model_server
from test_ask_model import says, shown

SEARCH = ("query=Jorvia pipeline", "session_id=s", "limit=5")
AT = ("--as-of", "2025-02-20")


def searched(capsys: Out, sim: Path, *more: str) -> dict[str, Any]:
    arguments = [part for text in SEARCH for part in ("--arg", text)]
    place = ("--archive", str(sim), *AT)
    return told(capsys, "tool", "search_polymarket_markets", *arguments, *place, *more)


def test_ratings_are_paid_once_whoever_asks(sim: Path, home: Path, capsys: Out) -> None:
    plain = searched(capsys, sim)
    assert plain["metadata"]["llm_scoring_enabled"] is False
    assert "relevance_score" not in plain["markets"][0]
    with model_server(says()) as server:
        model = ("--model", server.model())
        rated = searched(capsys, sim, *model)
        assert rated["metadata"]["search_method"] == "hybrid_llm"
        assert rated["metadata"]["llm_scoring_enabled"] is True
        first = rated["markets"][0]
        assert first["relevance_score"] == max(m["relevance_score"] for m in rated["markets"])
        assert first["relevance_reason"]
        paid = len(server.log)
        assert paid >= 1
        assert searched(capsys, sim, *model)["markets"] == rated["markets"]

        async def over_mcp() -> Any:
            more = ("--archive", str(sim), *AT, *model)
            async with over_stdio(home, "polymarket-agent", *more) as client:
                given = {"query": "Jorvia pipeline", "session_id": "s", "limit": 5}
                return await client.call_tool("search_polymarket_markets", given)

        answer = json.loads(anyio.run(over_mcp).content[0].text)
        assert answer["markets"] == rated["markets"]
        agent = ("agent", "polymarket-agent", "--arg", "query=Jorvia pipeline", "--arg", "limit=5")
        written = told(capsys, *agent, "--archive", str(sim), *AT, *model)
        assert written["data"][0]["search_method"] == "hybrid_llm"
        assert written["data"][0]["llm_scoring_enabled"] is True
        assert len(server.log) == paid, "the same markets and the same words: nothing is asked"
        for body in server.log:
            assert set(shown(body)) == {"query", "markets"}
    journal = Journal(Database(Home(home).journal))
    row = journal.known_run("aside")
    assert row.calls == paid == row.tokens / 120
    assert journal.runs() == [], "it is no run that is listed"
    assert told(capsys, "runs", "show", "aside")["status"] == "standing"
    assert cli(["runs", "resume", "aside"]) == 2
    assert cli(["runs", "show", "latest"]) == 2
    assert cli(["runs", "cancel", "aside"]) == 2
    assert "it cannot be cancelled" in capsys.readouterr().err
    more = ("--archive", str(sim), "--model", "scripted", "--max-calls", "3")
    assert cli(["mcp", "polymarket", "--config", "claude-code", *more]) == 0
    assert " --model scripted --max-calls 3 " in capsys.readouterr().out


def test_within_a_budget_and_without_an_answer(sim: Path, home: Path, capsys: Out) -> None:
    """The search goes on without ratings, and says why."""
    with model_server(says()) as server:
        model = ("--model", server.model(), "--max-calls", "1")
        whole = searched(capsys, sim, *model)
        assert len(server.log) == 1, "one call of several is allowed"
        assert whole["metadata"]["llm_scoring_enabled"] is False
        (note,) = [n for n in whole["_meta"]["notes"] if "rating failed" in n]
        assert "the budget of 1 calls allows no further call" in note
        assert "a command with a larger --max-calls raises it" in note
        assert searched(capsys, sim, "--model", server.model())["metadata"]["search_method"] != (
            "hybrid_llm"
        ), "a budget holds until another one is set"
        raised = searched(capsys, sim, "--model", server.model(), "--max-calls", "100")
        assert raised["metadata"]["search_method"] == "hybrid_llm"
        assert len({json.dumps(body, sort_keys=True) for body in server.log}) == len(server.log)
    gone = searched(capsys, sim, "--model", "m@http://127.0.0.1:1/v1")
    assert gone["metadata"]["llm_scoring_enabled"] is False
    assert cli(["agent", "code-agent", "--arg", "question=x", "--archive", str(sim)]) == 1
    assert "name one with --model" in capsys.readouterr().err
