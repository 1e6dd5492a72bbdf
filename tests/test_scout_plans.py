"""Scout plans: read with every fault and its place, made by rules and by models, drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import parse_instant
from beforehand.errors import BadAnswer, InputError
from beforehand.jobs.scout.drawing import drawn, picture
from beforehand.jobs.scout.planning import Planner, keywords_in
from beforehand.jobs.scout.reading import branches, read_plan
from beforehand.jobs.scout.scout_agent import ScoutAgent
from beforehand.llm.prompt import ModelClient
from beforehand.meter import CallCounter
from experiments import Out, told
from scouting import (
    AT,
    cache,
    plan,
    written,
)

__all__ = ["cache"]


def test_planned_by_rules_and_by_a_model(cache: Path, capsys: Out) -> None:
    assert keywords_in("Will it rain or snow in Oslo tomorrow?")[0] == "rain snow oslo tomorrow"
    made = told(capsys, "scout", "plan", "Will it rain tomorrow?", "--keyword", "rain")
    assert made["keywords"] == ["rain"]
    assert [node["id"] for node in made["dag"]["nodes"]] == ["plan", "collect", "think", "act"]
    read_plan(made)
    assert not (cache / "data" / "runs").exists(), "a plan by rules begins no run"
    found = told(capsys, "scout", "run", "Will it rain tomorrow?", "--window", "all", "--as-of", AT)
    assert found["artifacts"]["act"]["evidence"]
    planned = told(
        capsys, "scout", "plan", "rain tomorrow", "--model", "scripted", "--run-id", "m",
        "--as-of", AT,
    )  # fmt: skip
    assert planned["dag"]["run_id"] == "m"
    assert not (cache / "data/runs/m/scout_output.json").exists()
    assert cli(["scout", "resume", "m"]) == 0
    out = json.loads((cache / "data/runs/m/scout_output.json").read_text())
    assert out["remarks"]["by"] == out["rated_by"] == "scripted"
    assert any("not a forecaster" in note for note in out["notes"])
    assert told(capsys, "runs", "verify", "m")["sound"]


class Says:
    """A model that answers the same each time, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def ask(self, name: str, prompt: Any, meter: Any, calls: Any = None) -> Any:
        self.asked.append(prompt.text)
        said = self.answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return prompt.output.model_validate(said)

    def close(self) -> None:
        """Nothing is open."""


def test_a_models_plan_is_asked_for_again_then_refused() -> None:
    at = parse_instant(AT)
    good = {
        "keywords": ["rain"],
        "time_window": "all",
        "tools": ["reddit_search_and_fetch_threads"],
    }
    bad = {**good, "tools": ["get_odds_at"]}
    call = {"id": "m", "time": "never"}
    model = Says(bad, BadAnswer("not JSON"), good)
    client = ModelClient(model, "one", CallCounter())
    assert Planner(client, "rain", at).plan("r", None, (), ()).keywords == ["rain"]
    assert "the_last_plan_failed" in model.asked[-1]
    assert "reddit_search_and_fetch_threads" in model.asked[0], "the registry's tools are listed"
    client = ModelClient(
        Says(bad, BadAnswer("no"), bad, BadAnswer("no more")), "two", CallCounter()
    )
    with pytest.raises(InputError, match=r"the plan of two cannot be carried out \(no more\)"):
        ScoutAgent(client).plan("rain", at=at, run_id="r")
    assert call


FAULTS: list[tuple[str, Any, str]] = [
    ("schema", "scout_plan_v2", "schema: "),
    ("schema", None, "schema: "),
    ("target_market", "", "target_market: "),
    ("target_market", 7, "target_market: "),
    ("time_window", "1m", "time_window: "),
    ("time_window", 3, "time_window: "),
    ("sources", "reddit", "sources: "),
    ("keywords", "rain", "keywords: "),
    ("keywords", [1], "keywords[0]: "),
    ("keywords", [], "dag.nodes[1].parallelize_by: the plan has no keywords"),
    ("subreddits", "weather", "subreddits: "),
    ("subreddits", ["we ather"], "dag.nodes[1].params: "),
    ("version", 1.1, "version: "),
    ("limits", [], "limits: "),
    ("limits.per_query_limit", 0, "limits.per_query_limit: "),
    ("limits.per_query_limit", 101, "limits.per_query_limit: "),
    ("limits.per_query_limit", "many", "limits.per_query_limit: "),
    ("limits.comment_depth", -1, "limits.comment_depth: "),
    ("limits.comment_limit", 501, "limits.comment_limit: "),
    ("limits.min_num_comments", -1, "limits.min_num_comments: "),
    ("limits.min_score", "x", "limits.min_score: "),
    ("dag", [], "dag: "),
    ("dag.run_id", "../x", "dag.run_id: "),
    ("dag.run_id", "/tmp/x", "dag.run_id: "),
    ("dag.run_id", "", "dag.run_id: "),
    ("dag.run_id", None, "dag.run_id: "),
    ("dag.nodes", [], "dag.nodes: "),
    ("dag.nodes", {}, "dag.nodes: "),
    ("dag.nodes.0.id", "", "dag.nodes[0].id: "),
    ("dag.nodes.0.id", "../x", "dag.nodes[0].id: "),
    ("dag.nodes.1.id", "a/b", "dag.nodes[1].id: "),
    ("dag.nodes.1.id", "plan", "dag.nodes[1].id: nodes[0] is 'plan' already"),
    ("dag.nodes.0.type", "human", "dag.nodes[0].type: "),
    ("dag.nodes.0.agent", None, "dag.nodes[0].agent: "),
    ("dag.nodes.0.agent", "spy", "dag.nodes[0].agent: there is no agent 'spy'"),
    ("dag.nodes.0.stage", None, "dag.nodes[0].stage: "),
    ("dag.nodes.0.stage", "dream", "dag.nodes[0].stage: "),
    ("dag.nodes.2.stage", "plan", "dag.nodes: one node at most has the stage plan"),
    ("dag.nodes.1.tool", None, "dag.nodes[1].tool: "),
    ("dag.nodes.1.tool", "reddit_search", "dag.nodes[1].tool: there is no tool 'reddit_search'"),
    ("dag.nodes.1.params", [], "dag.nodes[1].params: "),
    ("dag.nodes.1.params", {"nothing": 1}, "dag.nodes[1].params: unknown argument 'nothing'"),
    ("dag.nodes.1.params", {"per_query_limit": 0}, "dag.nodes[1].params: "),
    ("dag.nodes.1.params", {"time_window": "1d"}, "dag.nodes[1].params: "),
    ("dag.nodes.1.params", {"comment_depth": "deep"}, "dag.nodes[1].params: "),
    ("dag.nodes.1.parallelize_by", "colour", "dag.nodes[1].parallelize_by: 'colour' is none of"),
    ("dag.nodes.1.parallelize_by", 3, "dag.nodes[1].parallelize_by: "),
    ("dag.nodes.1.parallelize_by", "subreddit", "dag.nodes[1].parallelize_by: the plan has no"),
    ("dag.nodes.2.parallelize_by", "keyword", "dag.nodes[2].parallelize_by: an agent reads"),
    ("dag.nodes.1.inputs", [], "dag.nodes[1].inputs: "),
    ("dag.nodes.1.inputs", {"colour": "red"}, "dag.nodes[1].inputs.colour: "),
    ("dag.nodes.2.inputs", {"index": "gone.json"}, "dag.nodes[2].inputs.index: no node writes"),
    ("dag.nodes.2.inputs", {"index": "../x/y"}, "dag.nodes[2].inputs.index: no node writes"),
    ("dag.nodes.1.inputs", {"last": "scout_think.json"}, "dag.nodes[1].inputs.last: "),
    ("dag.nodes.1.outputs", ["../x.json"], "dag.nodes[1].outputs[0]: "),
    ("dag.nodes.1.outputs", ["/tmp/x.json"], "dag.nodes[1].outputs[0]: "),
    ("dag.nodes.1.outputs", ["a/b.json"], "dag.nodes[1].outputs[0]: "),
    ("dag.nodes.1.outputs", ["run.json"], "dag.nodes[1].outputs[0]: "),
    ("dag.nodes.1.outputs", ["plan.json"], "dag.nodes[1].outputs[0]: nodes[0] writes 'plan.json'"),
    ("dag.nodes.1.outputs", ["a.json", "b.json"], "dag.nodes[1].outputs: a node writes one"),
    ("dag.nodes.2.outputs", ["reddit_index.json"], "dag.nodes[2].outputs[0]: "),
    ("dag.nodes.0.outputs", ["mine.json"], "dag.nodes[0].outputs[0]: plan.json is the output"),
    ("dag.nodes.1.deps", ["nobody"], "dag.nodes[1].deps[0]: there is no node 'nobody'"),
    ("dag.nodes.1.deps", "plan", "dag.nodes[1].deps: "),
    ("dag.nodes.1.deps", ["act"], "deps: nodes wait for each other in a circle"),
    ("dag.nodes.0.deps", ["plan"], "deps: nodes wait for each other in a circle"),
]


def test_sixty_malformed_plans(cache: Path, capsys: Out) -> None:
    """Each is refused with its place before anything is written or called."""
    assert len(FAULTS) >= 60
    before = sorted(p.as_posix() for p in cache.rglob("*"))
    for place, value, said in FAULTS:
        made = plan(["rain"])
        parent: Any = made
        *way, last = place.split(".")
        for step in way:
            parent = parent[int(step)] if step.isdigit() else parent[step]
        key: Any = int(last) if last.isdigit() else last
        if value is None:
            del parent[key]
        else:
            parent[key] = value
        file = cache.parent / "bad.json"
        file.write_text(json.dumps(made))
        assert cli(["scout", "run", str(file)]) == 2, place
        text = capsys.readouterr().err
        assert f"{file}: " in text, place
        assert said in text, (place, value, text)
        assert text.count("\n") == 1, "one sentence"
    for content in ("", "[", "[]", "7", '"scout_plan_v1"', "null", '{"schema":' + "[" * 5000):
        file.write_text(content)
        assert cli(["scout", "run", str(file)]) == 2, content[:20]
        assert str(file) in capsys.readouterr().err
    assert cli(["scout", "run", str(cache / "gone.json")]) == 2
    assert "gone.json" in capsys.readouterr().err
    assert sorted(p.as_posix() for p in cache.rglob("*")) == before


def test_no_node_looks_past_the_run(cache: Path, capsys: Out) -> None:
    for asked, said in (
        ("2030-01-01T00:00:00Z", f"lies after {AT}, as of which the run answers"),
        ("yesterday", "dag.nodes[1].params: as_of: "),
    ):
        file = written(cache / "p.json", plan(["rain"], params={"as_of": asked}))
        assert cli(["scout", "run", file, "--as-of", AT]) == 2
        text = capsys.readouterr().err
        assert said in text
        assert "dag.nodes[1].params" in text
    assert not (cache / "data" / "runs").exists()
    early = plan(["rain"], params={"as_of": "2025-06-01T00:00:00Z"})
    file = written(cache / "p.json", early)
    found = told(capsys, "scout", "run", file, "--as-of", AT)
    assert found["artifacts"]["act"]["evidence"] == []


def test_unknown_fields_are_kept(cache: Path, capsys: Out) -> None:
    made = plan(["rain"], colour="red")
    made |= {"mood": {"a": [1]}, "version": "1.1"}
    told(capsys, "scout", "run", written(cache / "p.json", made), "--as-of", AT)
    kept = json.loads((cache / "data/runs/20260105_120000/plan.json").read_text())
    assert (kept["mood"], kept["dag"]["nodes"][1]["colour"]) == ({"a": [1]}, "red")


def test_the_dag_drawn() -> None:
    made = read_plan(plan(["rain"]))
    text = drawn(made)
    assert [line.split("─ ")[-1].split(":")[0] for line in text.splitlines()[1:]] == [
        "plan", "collect", "think", "act",
    ]  # fmt: skip
    svg = picture(made)
    assert svg.count("<rect") == 4
    assert svg.count('class="edge"') == 3


def test_branches() -> None:
    made = read_plan(plan(["rain", "snow", "rain"]))
    node = made.dag.nodes[1]
    assert [one.arguments["keyword"] for one in branches(made, node)] == ["rain", "snow"]
    assert all("keywords" not in one.arguments for one in branches(made, node))
    whole = read_plan(plan(["rain", "snow"], parallelize_by=None))
    (one,) = branches(whole, whole.dag.nodes[1])
    assert one.arguments["keywords"] == ["rain", "snow"]
    assert one.arguments["per_query_limit"] == 10
    with pytest.raises(InputError, match="101 branches, at most 100"):
        read_plan(plan([f"k{n}" for n in range(101)]))
