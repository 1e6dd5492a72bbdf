"""The decision engine: code, fallback, direct, hybrid; what is kept, marked, counted, and resumed."""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.errors import BadAnswer
from beforehand.forecast.prompts import code_in, from_output
from beforehand.records.backtest import IntervalData
from beforehand.runs.rows import read_jsonl, reason
from experiments import Out, config, intervals, told
from modelserver import completion, model_server, sensible, wanted

MODEL = {"mode": "daytona_agent"}


def traces(home: Path, run_id: str = "r") -> list[dict[str, Any]]:
    return list(read_jsonl(Home(home).runs / run_id / "traces.jsonl"))


def run(capsys: Out, path: Path, sim: Path, *more: str, code: int = 0) -> dict[str, Any]:
    arguments = ("backtest", "run", str(path), "--archive", str(sim), "--run-id", "r", *more)
    return told(capsys, *arguments, code=code)


def test_scripted_decides_by_code(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["baseline:market", "scripted"], **MODEL)
    found = run(capsys, path, sim)
    rows = intervals(home, "r")
    assert len(rows) == 6
    for row in rows:
        IntervalData.model_validate(row)
        (decision,) = (d for d in row["decisions"] if d["model_id"] == "scripted")
        assert decision["mode"] == "daytona_agent"
        assert decision["created_at"] == row["time"]
        assert set(decision["key_evidence_ids"]) <= {
            s["id"] for s in row["context"]["search_snippets"]
        }
    kept = traces(home)
    assert len(kept) == 6
    assert all("import json" in t["code"] and t["output"] and t["layers"] for t in kept)
    made = found["decisions"]
    assert (made["code"], made["fallback"], made["failed"]) == (6, 0, 0)
    (row,) = (r for r in found["leaderboard"] if r["forecaster"] == "scripted")
    assert row["verdict"] == "not ranked"
    assert row["reasons"] == ["a path test, not a forecaster"]
    assert found["leaderboard"][-1] == row, "below everyone"
    assert found["validity"]["variants_tried"]["value"] == 0, "it is no trial of a forecaster"
    page = Path(found["report"]).read_text()
    assert "How the models decided" in page
    assert "a path test, not a forecaster" in page
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_what_code_cannot_do_the_direct_prompt_does(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """Six ways to fail, six fallbacks; the reason of each is kept and counted."""
    codes = cycle(
        [
            "import os",
            "1/0",
            "print('no decision here')",
            "print('{\"probability\": 1.7}')",
            'print(\'{"probability": 0.7, "decision": "NO"}\')',
            "def f(:",
        ]
    )

    def answer(body: dict[str, Any]) -> Any:
        if "code" in wanted(body):
            return completion(json.dumps({"code": next(codes)}))
        return sensible(body)

    with model_server(answer) as server:
        path = config(home / "c.json", market, models=[server.model()], **MODEL)
        found = run(capsys, path, sim)
        assert len(server.log) == 12
    made = found["decisions"]
    assert (made["code"], made["fallback"], made["failed"]) == (0, 6, 0)
    assert made["reasons"] == {
        "ImportError": 1,
        "SyntaxError": 1,
        "ZeroDivisionError": 1,
        "malformed decision": 2,
        "no decision in the output": 1,
    }
    assert {d["mode"] for row in intervals(home, "r") for d in row["decisions"]} == {"direct_llm"}
    kept = traces(home)
    assert [t["arm"] for t in kept] == ["code", "direct"] * 6
    assert all(
        t["fallback_reason"] == c["error"] for c, t in zip(kept[::2], kept[1::2], strict=True)
    )
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_hybrid_asks_both_arms(market: dict[str, Any], sim: Path, home: Path, capsys: Out) -> None:
    with model_server() as server:
        path = config(home / "c.json", market, models=[server.model()], mode="hybrid", num_sims=2)
        found = run(capsys, path, sim)
        assert len(server.log) == 6 * 2 * 2
    for row in intervals(home, "r"):
        assert [(d["mode"], d["simulation_index"], d["probability"]) for d in row["decisions"]] == [
            ("daytona_agent", 0, 0.25),
            ("direct_llm", 0, 0.7),
            ("daytona_agent", 1, 0.25),
            ("direct_llm", 1, 0.7),
        ]
        assert row["aggregate"]["probability"] == pytest.approx(0.475)
        unshown = [d.get("unshown_evidence_ids") for d in row["decisions"]]
        assert unshown == [["nowhere"], None] * 2, "cited, and not in the context"
        assert all(d["key_evidence_ids"] == [] for d in row["decisions"])
    made = found["decisions"]
    assert (made["code"], made["direct"], made["unshown_evidence_ids"]) == (12, 12, 12)


def test_a_model_that_refuses_ends_as_a_recorded_failure(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    with model_server(lambda body: completion(None, refusal="no")) as server:
        path = config(home / "c.json", market, models=["baseline:market", server.model()], **MODEL)
        found = run(capsys, path, sim, code=3)
        asked = len(server.log)
    made = found["decisions"]
    assert (made["code"], made["fallback"], made["failed"]) == (0, 0, 6)
    assert sum(made["failures"].values()) == 6
    assert asked <= 6 * 2 * 3
    assert all(len(row["failures"]) == 1 for row in intervals(home, "r"))


def test_what_a_model_is_shown_is_its_context(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """The prompt holds the stored context, and its own earlier words."""
    with model_server() as server:
        path = config(home / "c.json", market, models=[server.model()], mode="direct_llm")
        run(capsys, path, sim)
        prompts = [entry["messages"][-1]["content"] for entry in server.log]
    rows = intervals(home, "r")
    assert [json.loads(prompt) for prompt in prompts] == [row["context"] for row in rows]
    assert rows[-1]["context"]["previous_intervals"][-1]["aggregated_probability"] == 0.7


def test_queries_by_a_model(market: dict[str, Any], sim: Path, home: Path, capsys: Out) -> None:
    search = {"max_results": 5, "query_mode": "llm_generated"}
    with model_server() as server:
        path = config(
            home / "c.json", market, models=[server.model()], search_config=search, **MODEL
        )
        run(capsys, path, sim)
        asked = [body for body in server.log if "queries" in wanted(body)]
        assert len(asked) == 1, "once for a wording of the question"
    (trace,) = (t for t in traces(home) if t["arm"] == "queries")
    assert trace["queries"] == ["north harvest", "index"]
    for row in intervals(home, "r"):
        shown = [s["timestamp"] for s in row["context"]["search_snippets"]]
        assert all(stamp <= row["time"] for stamp in shown)


def test_code_runs_with_the_clock_at_t(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    source = (
        "import datetime, json\n"
        "assert datetime.datetime.now(datetime.UTC).isoformat()[:19] == time[:19]\n"
        'print(json.dumps({"probability": market["odds"], "key_evidence_ids": []}))'
    )
    answer = completion(json.dumps({"code": source}))
    with model_server(lambda body: answer) as server:
        path = config(home / "c.json", market, models=[server.model()], **MODEL)
        assert run(capsys, path, sim)["decisions"]["code"] == 6


def test_the_knowledge_guard(market: dict[str, Any], sim: Path, home: Path, capsys: Out) -> None:
    with model_server() as server:
        model = server.model()
        arguments = ["--markets", market["id"], "--forecasters", model, "--archive", str(sim)]
        arguments += ["--mode", "direct_llm", "--every", "3d"]
        late = told(capsys, "backtest", "run", *arguments, "--cutoff", f"{model}=2099-01-01")
        made = late["decisions"]
        assert made["answer_in_training"] == made["direct"] > 0
        share = late["validity"]["share_after_training_cutoff"]
        assert (share["value"], share["ok"]) == (0.0, False)
        before = len(server.log)
        refused = told(
            capsys,
            *("backtest", "run", *arguments, "--cutoff", f"{model}=2099-01-01"),
            *("--knowledge", "refuse"),
            code=3,
        )
        assert len(server.log) == before, "who is refused is not paid"
        assert refused["decisions"]["failed"] == made["direct"]
        assert list(refused["decisions"]["failures"]) == ["refused"]
        early = told(capsys, "backtest", "run", *arguments, "--cutoff", f"{model}=2000-01-01")
        assert early["validity"]["share_after_training_cutoff"]["value"] == 1.0
        assert early["decisions"]["answer_in_training"] == 0
        unknown = told(capsys, "backtest", "run", *arguments)
        share = unknown["validity"]["share_after_training_cutoff"]
        assert (share["value"], share["ok"]) == (None, False), "unknown is not fair"


def test_a_cutoff_by_the_name_of_ones_own(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    with model_server() as server:
        arguments = ["--markets", market["id"], "--forecasters", f"mine={server.model()}"]
        arguments += ["--archive", str(sim), "--mode", "direct_llm", "--every", "3d"]
        late = told(capsys, "backtest", "run", *arguments, "--cutoff", "mine=2099-01-01")
        assert late["validity"]["share_after_training_cutoff"]["value"] == 0.0
        assert cli(["backtest", "run", *arguments, "--cutoff", "theirs=2099-01-01"]) == 2
        assert "--cutoff theirs: no such model is asked in this run" in capsys.readouterr().err


def test_without_a_model_scripted_stands_in(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    """A mode of models and no model: the one that needs no key, and it is said."""
    arguments = ["--markets", market["id"], "--every", "7d", "--archive", str(sim)]
    capsys.readouterr()
    assert cli(["backtest", "run", *arguments, "--forecasters", "market", "--mode", "hybrid"]) == 0
    said = capsys.readouterr()
    assert "no model is named, so scripted is used (a path test, not a forecaster)" in said.err
    assert "not ranked" in said.out
    found = told(capsys, "backtest", "run", *arguments, "--forecasters", "market")
    assert "scripted" not in found["decisions"]["models"], "and only then"


@pytest.mark.parametrize(
    ("output", "result", "wrong"),
    [
        ("", None, "no decision"),
        ("[]", None, "no decision"),
        ('{"p": 1}', None, "probability"),
        ('{"probability": true}', None, "probability"),
        ('{"probability": NaN}', None, "malformed"),
        ('{"probability": 0.5}\n{"probability": NaN}', None, "malformed"),
        ('{"probability": 0.2, "key_evidence_ids": "a"}', None, "key_evidence_ids"),
        ('{"probability": 0.2, "decision": "MAYBE"}', None, "decision"),
    ],
)
def test_bad_output(output: str, result: Any, wrong: str) -> None:
    with pytest.raises(BadAnswer, match=wrong):
        from_output(output, result)


def test_good_output() -> None:
    assert from_output('noise\n{"probability": 0.2}\n', None).probability == 0.2
    assert from_output('{"probability": 0.1}\n{"probability": 0.2}', None).probability == 0.2
    assert from_output('{\n "probability": 0.3\n}', None).probability == 0.3
    assert from_output("", {"probability": 0.4}).probability == 0.4
    assert code_in("```python\nx = 1\n```") == "x = 1\n"
    assert code_in("x = 1") == "x = 1\n"
    assert code_in("  ") is None
    assert reason("code: NameError: x (line 2); direct: refused") == "NameError; refused"
    assert reason("code: SyntaxError: bad; worse (line 1); direct: refused to answer: no") == (
        "SyntaxError; refused to answer"
    )


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"mode": "daytona_agent"}, "needs a model"),
        ({"mode": "hybrid"}, "needs a model"),
        ({"mode": "external", "models": ["scripted"]}, "asks no language model"),
        ({"mode": "baseline", "models": ["scripted"]}, "asks no language model"),
        ({"mode": "daytona_agent", "models": ["openai:"]}, "has no name"),
        ({"models": ["clever"]}, "unknown forecaster"),
        ({"mode": "direct_llm", "models": ["openai:gpt-5"]}, "OPENAI_API_KEY"),
        ({"mode": "direct_llm", "models": ["openai:gpt-4o-search-preview"]}, "on its own"),
        (
            {"search_config": {"query_mode": "llm_generated"}, "mode": "baseline"},
            "needs a model",
        ),
    ],
)
def test_refusals_come_before_anything_is_asked(
    changes: dict[str, Any],
    wrong: str,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = config(home / "c.json", market, **changes)
    assert cli(["backtest", "run", str(path), "--archive", str(sim)]) in (1, 2)
    assert wrong in capsys.readouterr().err
    assert not Home(home).journal.exists()


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (("--max-cost", "1"), "the price of a call of"),
        (("--engine", "daytona"), "DAYTONA_API_KEY"),
        (("--cutoff", "scripted=2024-01-01"), "no such model is asked"),
        (("--cutoff", "x"), "write it as MODEL=2025-01-31"),
    ],
)
def test_options_are_refused_before_anything_is_paid(
    options: tuple[str, ...],
    wrong: str,
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    with model_server() as server:
        arguments = ["backtest", "run", "--forecasters", server.model(), "--archive", str(sim)]
        assert cli([*arguments, *options]) in (1, 2)
        assert wrong in capsys.readouterr().err
        assert not server.log


def test_who_is_refused_words_no_search(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    with model_server() as server:
        model = server.model()
        told(
            capsys,
            *("backtest", "run", "--markets", market["id"], "--forecasters", model),
            *("--archive", str(sim), "--queries", "llm_generated", "--knowledge", "refuse"),
            *("--cutoff", f"{model}=2099-01-01"),
            code=3,
        )
        assert not server.log


def test_a_model_in_the_benchmark_is_judged_by_its_training(
    sim: Path, home: Path, capsys: Out
) -> None:
    with model_server() as server:
        names = f"market,{server.model()}"
        found = told(
            capsys,
            *("bench", "run", "--forecasters", names, "--archive", str(sim), "--run-id", "b"),
        )
    share = found["validity"]["share_after_training_cutoff"]
    assert (share["value"], share["ok"]) == (None, False)
    assert cli(["runs", "leaks", "b"]) == 2
    assert "is a benchmark" in capsys.readouterr().err
