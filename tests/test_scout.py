"""Scout: plans that are read with every fault and its place, DAGs that end in four artifacts, runs
that are killed at every node, artifacts that are made again, and nothing of the future in any byte."""

import json
import os
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock, parse_instant
from beforehand.config import Home
from beforehand.errors import BadAnswer, InputError
from beforehand.gateway.opening import read_threads, write_threads
from beforehand.jobs.probe.redraw import OtherFuture, all_records
from beforehand.jobs.scout.drawing import drawn, picture
from beforehand.jobs.scout.planning import Planner, keywords_in
from beforehand.jobs.scout.reading import branches, read_plan
from beforehand.jobs.scout.scout_agent import ScoutAgent
from beforehand.llm.prompt import ModelClient
from beforehand.meter import CallCounter
from beforehand.runs.scouted import faults
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.database import Database
from beforehand.store.files import file_digest
from beforehand.store.journal.journal import Journal
from beforehand.store.run_folder import RunFolder
from experiments import Out, told
from test_ask import KILLED
from toolcalls import vendor_of_shapes
from vendor import serving

FULL = os.environ.get("BEFOREHAND_CHAOS") == "full"
GOLDEN = json.loads((Path(__file__).parent / "golden" / "scout_plan.json").read_text())
AT = "2025-06-25T00:00:00Z"
FILES = ("plan.json", "reddit_index.json", "scout_think.json", "scout_output.json")
EIGHT = ["rain", "snow", "hail", "fog", "frost", "flood", "storm", "wind"]


def thread(name: str, title: str, day: int, comments: int = 0) -> dict[str, Any]:
    """A raw Reddit answer with one post and a comment each day."""
    at = 1_750_000_000 + 86_400 * day
    post = {
        "id": name, "subreddit": "weather", "title": title, "selftext": f"About {title}.",
        "score": 3, "num_comments": 5, "created_utc": at, "permalink": f"/r/weather/{name}/",
    }  # fmt: skip
    replies = [
        {"kind": "t1", "data": {"id": f"{name}c{n}", "link_id": f"t3_{name}", "body": f"reply {n}",
                                "parent_id": f"t3_{name}", "created_utc": at + 86_400 * n}}
        for n in range(1, comments + 1)
    ]  # fmt: skip
    listing = [[{"kind": "t3", "data": post}], replies]
    return {
        "uri": f"/comments/{name}", "recorded_at": "2025-09-01T00:00:00",
        "body": [{"kind": "Listing", "data": {"children": part}} for part in listing],
    }  # fmt: skip


def write_cache(root: Path) -> None:
    folder = root / "data" / "reddit_cache" / "threads"
    folder.mkdir(parents=True)
    for n, word in enumerate([*EIGHT, "rain and snow"]):
        made = thread(f"t{n}", f"{word} tomorrow", n, comments=3)
        (folder / f"t{n}.json").write_text(json.dumps(made))


@pytest.fixture
def cache(home: Path) -> Path:
    """Nine threads in the cache, one of two keywords; there is no archive."""
    write_cache(home)
    return home


def plan(keywords: list[str] | None = None, **collect: Any) -> dict[str, Any]:
    """The golden plan over these keywords, with other fields of its collect node."""
    made = deepcopy(GOLDEN)
    made |= {"keywords": keywords or ["rain"], "time_window": "all", "subreddits": []}
    made["limits"] |= {"min_num_comments": 0}
    made["dag"]["nodes"][1] |= {"params": None, **collect}
    return made


def written(path: Path, made: object) -> str:
    path.write_text(json.dumps(made))
    return str(path)


def artifacts(root: Path, run: str) -> dict[str, bytes]:
    folder = root / "data" / "runs" / run
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("run.json", "log.json")
    }


def sent(root: Path, run: str) -> list[tuple[str, int]]:
    """Each call of a tool in a run, and how often it was sent."""
    rows = Journal(Database(Home(root).journal)).calls.rows(run)
    return sorted((row["call_key"], row["attempts"]) for row in rows)


def test_the_documents_own_dag(cache: Path, capsys: Out) -> None:
    """Its four artifacts, under the plan's own run id; every document by path, known by then."""
    file = written(cache / "p.json", plan(["rain", "snow"]))
    found = told(capsys, "scout", "run", file, "--as-of", AT)
    folder = cache / "data" / "runs" / "20260105_120000"
    made = {name: json.loads((folder / name).read_text()) for name in FILES}
    assert made["plan.json"]["schema"] == "scout_plan_v1"
    assert made["plan.json"]["dag"]["nodes"][1]["code"] == "collect()", "kept, and never run"
    index = made["reddit_index.json"]
    assert {one["id"] for one in index["threads"]} == {"t0", "t1", "t8"}
    assert [call["value"] for call in index["calls"]] == ["rain", "snow"]
    both = next(one for one in index["threads"] if one["id"] == "t8")
    assert both["found_by"] == ["rain", "snow"]
    assert all("selftext" not in one and "text" not in one for one in index["threads"])
    for one in index["threads"]:
        kept = json.loads((cache / one["path"]).read_text())
        assert kept["id"] == one["id"]
        assert one["known_at"] <= AT
        assert all(comment["known_at"] <= AT for comment in kept["comments"])
    assert made["scout_think.json"]["found_by"] == {"rain": 2, "snow": 2}
    output = made["scout_output.json"]
    ids = {one["id"] for one in output["evidence"]}
    assert {name for one in output["sentences"] for name in one["documents"]} <= ids
    assert found["artifacts"]["act"] == output
    for one in output["evidence"]:
        assert one["quote"] in (cache / one["path"]).read_text()
    checks = told(capsys, "runs", "verify", "20260105_120000")
    assert checks["sound"]
    assert cli(["scout", "show", "latest"]) == 0
    out = capsys.readouterr().out
    assert (
        "collect: reddit_search_and_fetch_threads × 2 by keyword → reddit_index.json, made" in out
    )


def test_a_fan_out_over_eight(cache: Path, capsys: Out) -> None:
    """Each keyword by itself, whatever the concurrency; run again, no tool is called again."""
    file = written(cache / "p.json", plan(EIGHT))
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "a", "--concurrency", "4")
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "b", "--concurrency", "1")
    index = json.loads(artifacts(cache, "a")["reddit_index.json"])
    assert [call["value"] for call in index["calls"]] == EIGHT
    assert len(index["threads"]) == 9
    one, other = (
        {
            n: c.replace(b'"b"', b'"a"').replace(b"runs/b/", b"runs/a/").replace(b"run b", b"run a")
            for n, c in made.items()
        }
        for made in (artifacts(cache, "a"), artifacts(cache, "b"))
    )
    digests = (b'"digest"', b'"path"')  # Digests cover the paths, which name the run.
    for name in one:
        lines = [
            [line for line in made[name].splitlines() if not any(d in line for d in digests)]
            for made in (one, other)
        ]
        assert lines[0] == lines[1], name
    calls = sent(cache, "a")
    assert len(calls) == 8
    before = artifacts(cache, "a")
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "a", "--concurrency", "4")
    assert artifacts(cache, "a") == before
    assert sent(cache, "a") == calls


def test_any_tool_is_a_node(sim: Path, home: Path, capsys: Out) -> None:
    """Markets and documents of the archive, under a pin, with a branch's value in a parameter."""
    made = plan(["Avaria", "Jorvia"])
    think, act = made["dag"]["nodes"][2:]
    nodes = [
        made["dag"]["nodes"][0],
        {"id": "markets", "type": "tool", "tool": "search_all_markets", "deps": ["plan"],
         "params": {"query": "{keyword} index", "limit": 5}, "parallelize_by": "keyword",
         "code": "raise SystemExit(9)"},
        {"id": "papers", "type": "tool", "tool": "search", "deps": ["plan"],
         "inputs": {"plan": "plan.json", "query": "Jorvia reservoir"}},
        {"id": "one", "type": "tool", "tool": "get_market", "deps": ["markets"],
         "params": {"id": ["m0026", "m0003"]}, "parallelize_by": "id"},
        {**think, "deps": ["markets", "papers", "one"]},
        act,
    ]  # fmt: skip
    made["dag"]["nodes"] = nodes
    at = "2025-02-20T00:00:00Z"
    found = told(
        capsys, "scout", "run", written(home / "p.json", made), "--as-of", at,
        "--archive", str(sim),
    )  # fmt: skip
    assert found["artifacts"]["think"]["documents"] > 0
    folder = home / "data" / "runs" / "20260105_120000"
    markets = json.loads((folder / "markets.json").read_text())
    assert [call["arguments"]["query"] for call in markets["calls"]] == [
        "Avaria index", "Jorvia index",
    ]  # fmt: skip
    for one in found["artifacts"]["act"]["evidence"]:
        assert one["known_at"] <= at
        assert (home / one["path"]).is_file()
    assert told(capsys, "runs", "verify", "latest")["sound"]


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


def test_unknown_fields_are_kept(cache: Path, capsys: Out) -> None:
    made = plan(["rain"], colour="red")
    made |= {"mood": {"a": [1]}, "version": "1.1"}
    told(capsys, "scout", "run", written(cache / "p.json", made), "--as-of", AT)
    kept = json.loads((cache / "data/runs/20260105_120000/plan.json").read_text())
    assert (kept["mood"], kept["dag"]["nodes"][1]["colour"]) == ({"a": [1]}, "red")


def test_nothing_is_written_through_a_link(cache: Path, capsys: Out, tmp_path: Path) -> None:
    file = written(cache / "p.json", plan(["rain"]))
    aside = tmp_path / "aside"
    aside.mkdir()
    (cache / "data" / "runs").mkdir(parents=True)
    (cache / "data" / "runs" / "r").symlink_to(aside)
    assert cli(["scout", "run", file, "--as-of", AT, "--run-id", "r"]) == 2
    assert cli(["scout", "run", file, "--as-of", AT, "--run-id", "s"]) == 0
    shutil.rmtree(cache / "data" / "runs" / "s" / "collected")
    (cache / "data" / "runs" / "s" / "collected").symlink_to(aside)
    capsys.readouterr()
    assert cli(["scout", "resume", "s"]) == 2
    assert "is a link" in capsys.readouterr().err
    assert not list(aside.iterdir())


DAMAGE = (*FILES, "steps.json", "collected/collect/t0.json")


@pytest.mark.parametrize("how", ["deleted", "truncated", "edited", "linked"])
def test_what_was_changed_is_made_again(cache: Path, capsys: Out, how: str) -> None:
    """With what depends on it, and no tool is called again."""
    file = written(cache / "p.json", plan(["rain", "snow"]))
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "r")
    folder, before = cache / "data" / "runs" / "r", artifacts(cache, "r")
    calls = sent(cache, "r")
    for name in DAMAGE:
        path = folder / name
        whole = path.read_bytes()
        if how in ("deleted", "linked"):
            path.unlink()
        elif how == "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        else:
            path.write_bytes(whole.replace(b"a", b"b"))
        if how == "linked":
            (cache / "copy").write_bytes(whole)
            path.symlink_to(cache / "copy")
        if how != "linked":
            assert cli(["runs", "verify", "r"]) == 1, name
        assert cli(["scout", "resume", "r"]) == 0, name
        capsys.readouterr()
        assert artifacts(cache, "r") == before, name
        assert not path.is_symlink()
        assert told(capsys, "runs", "verify", "r")["sound"], name
    assert sent(cache, "r") == calls
    assert cli(["scout", "resume", "r"]) == 2
    assert "is finished" in capsys.readouterr().err


def test_killed_at_every_node_and_resumed(tmp_path: Path) -> None:
    """Before a step is on record and after it: the same bytes, and each tool called once."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    file = written(tmp_path / "p.json", plan(["rain", "snow", "hail"]))
    arguments = ["scout", "run", file, "--as-of", AT, "--run-id", "r", "--concurrency", "1"]

    def call(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    whole = tmp_path / "whole"
    write_cache(whole)
    program = (sys.executable, "-m", "beforehand")
    assert call(whole, *program, *arguments).returncode == 0
    wanted = artifacts(whole, "r")
    assert set(FILES) <= wanted.keys()
    shown = json.loads(call(whole, *program, "runs", "show", "r", "--json").stdout)
    places = [(step, when) for step in range(1, shown["total"] + 1) for when in ("before", "after")]
    for step, when in places if FULL else places[::3]:
        root = tmp_path / f"{step}-{when}"
        write_cache(root)
        done = call(root, sys.executable, str(script), str(step), when, *arguments)
        assert done.returncode == 9, (step, when, done.stderr)
        for stored in (root / "data" / "reddit_cache" / "threads").glob("*.json"):
            if (step, when) == places[-1]:
                stored.unlink()  # Everything is on record: nothing is read again.
        resumed = call(root, *program, "scout", "resume", "r")
        assert resumed.returncode == 0, (step, when, resumed.stderr)
        assert artifacts(root, "r") == wanted, (step, when)
        assert [n for _, n in sent(root, "r")] == [1, 1, 1], (step, when)


def test_nothing_of_the_future_in_any_byte(sim: Path, tmp_path: Path) -> None:
    """Two worlds that differ after T alone: byte-identical artifacts."""
    at = "2025-02-20T00:00:00Z"
    kept, said = all_records(Archive(sim)), []
    other = OtherFuture(kept, parse_instant(at))
    everything = (record for records in kept.values() for record in records)
    made = plan(["Avaria", "Jorvia"], tool="search_all_markets", params={"query": "{keyword}"})
    made["dag"]["nodes"].insert(
        2, {"id": "papers", "type": "tool", "tool": "search", "params": {"query": "reservoir"}}
    )
    made["dag"]["nodes"][3]["deps"].append("papers")
    for name, records in (("a", everything), ("b", other.records())):
        root = tmp_path / name
        ArchiveWriter(root / "world").add(
            records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
        )
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        for run, model in (("r", []), ("m", ["--model", "scripted", "--concurrency", "1"])):
            command = ["scout", "run", written(root / "p.json", made), "--as-of", at, *model]
            command += ["--archive", str(root / "world"), "--run-id", run]
            subprocess.run(
                [sys.executable, "-m", "beforehand", *command], env=environment, check=True,
                capture_output=True,
            )  # fmt: skip
        said.append(
            {**artifacts(root, "r"), **{f"m/{n}": c for n, c in artifacts(root, "m").items()}}
        )
    assert other.changes, "the worlds do differ"
    assert len(said[0]) == 20
    assert said[0] == said[1]


def test_the_dag_drawn() -> None:
    made = read_plan(plan(["rain"]))
    text = drawn(made)
    assert [line.split("─ ")[-1].split(":")[0] for line in text.splitlines()[1:]] == [
        "plan", "collect", "think", "act",
    ]  # fmt: skip
    svg = picture(made)
    assert svg.count("<rect") == 4
    assert svg.count('class="edge"') == 3


def test_the_page_of_a_run(cache: Path, capsys: Out) -> None:
    """It needs nothing from outside, and what people wrote is text in it."""
    folder = cache / "data" / "reddit_cache" / "threads"
    made = thread("t9", "rain <script>alert(1)</script>", 1)
    (folder / "t9.json").write_text(json.dumps(made))
    told(capsys, "scout", "run", written(cache / "p.json", plan(["rain"])), "--as-of", AT)
    page = (cache / "data/runs/20260105_120000/report.html").read_text()
    assert "<svg" in page
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "src=" not in page


def test_exported(cache: Path, capsys: Out, tmp_path: Path) -> None:
    """Documents as `world import documents` reads them, and one trace."""
    told(capsys, "scout", "run", written(cache / "p.json", plan(EIGHT)), "--as-of", AT)
    out = tmp_path / "documents.jsonl"
    found = told(capsys, "runs", "export", "latest", "--format", "jsonl", "--out", str(out))
    assert (found["rows"], found["what"]) == (9, "documents")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert all(row["captured_at"] <= AT and row["text"] for row in rows)
    archive = tmp_path / "world"
    assert cli(["world", "import", "documents", str(out), "--archive", str(archive)]) == 0
    capsys.readouterr()
    (hit,) = told(
        capsys, "tool", "search", "--arg", "query=hail", "--archive", str(archive), "--as-of", AT
    )["results"]
    assert hit["id"] == "reddit:t2"
    assert hit["timestamp"] == next(r for r in rows if r["id"] == hit["id"])["captured_at"]
    out = tmp_path / "trace.json"
    told(capsys, "runs", "export", "latest", "--format", "galileo", "--out", str(out))
    (trace,) = json.loads(out.read_text())["traces"]
    assert [len(span["spans"]) for span in trace["spans"]] == [0, 8, 0, 0]


def test_artifacts_are_checked_against_their_files(cache: Path, capsys: Out) -> None:
    """Beside the digests: a run that sealed something untrue is not sound."""
    told(capsys, "scout", "run", written(cache / "p.json", plan(["rain"])), "--as-of", AT)
    folder = RunFolder(cache / "data" / "runs", "20260105_120000")
    assert faults(folder) == (2, [])
    for name, old, new, said in (
        ("scout_output.json", "About rain tomorrow.", "About snow.", "is not in its text"),
        ("reddit_index.json", '"known_at": "2025-06', '"known_at": "2026-06', "was known at 2026"),
        ("reddit_index.json", '"path": "data/', '"path": "../data/', "lies outside of the run"),
        ("scout_output.json", '"documents": [\n        "t0"', '"documents": [\n        "t7"', "t7"),
        ("scout_output.json", '"sentences"', '"phrases"', "cannot be read"),
    ):
        path = folder.path / name
        whole = path.read_text()
        assert old in whole, old
        path.write_text(whole.replace(old, new))
        _, wrong = faults(folder)
        assert any(said in text for text in wrong), (said, wrong)
        path.write_text(whole)


def test_what_was_changed_is_not_shown_as_the_runs(cache: Path, capsys: Out) -> None:
    told(capsys, "scout", "run", written(cache / "p.json", plan(["rain"])), "--as-of", AT)
    folder = cache / "data" / "runs" / "20260105_120000"
    output, seal = folder / "scout_output.json", folder / "run.json"
    before, old = output.read_bytes(), file_digest(output)
    output.write_text("[]")
    for command in (("scout", "show"), ("runs", "show"), ("runs", "export")):
        assert cli([*command, "20260105_120000"]) == 2, command
        assert "scout_output.json was changed or removed after" in capsys.readouterr().err
    seal.write_text(seal.read_text().replace(old, file_digest(output)))  # The seal made to agree.
    assert cli(["runs", "verify", "20260105_120000"]) == 1
    assert cli(["scout", "resume", "20260105_120000"]) == 0
    capsys.readouterr()
    assert output.read_bytes() == before
    assert told(capsys, "runs", "verify", "20260105_120000")["sound"]
    (cache / "mine.json").write_text("{}")
    assert cli(["scout", "plan", "rain", "--out", str(cache / "mine.json")]) == 2
    assert cli(["scout", "run", "nowhere/p"]) == 2


def test_a_stored_thread_has_its_digest(cache: Path, capsys: Out) -> None:
    folder = cache / "data" / "reddit_cache" / "threads"
    records = list(read_threads(folder, parse_instant(AT)))
    assert write_threads(folder, records) == 9
    file = folder / "t0.json"
    assert json.loads(file.read_text())["digest"]
    assert len([r for r in read_threads(folder, parse_instant(AT)) if r.kind == "post"]) == 9
    file.write_text(file.read_text().replace("rain tomorrow", "snow tomorrow"))
    assert len([r for r in read_threads(folder, parse_instant(AT)) if r.kind == "post"]) == 8


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


def test_over_recorded_threads(data: Path, home: Path, capsys: Out) -> None:
    """Real listings and comments, from a file, by rules and by `scripted`."""
    for file in sorted((data / "reddit").glob("*.json")):
        when = json.loads(file.read_text())["recorded_at"] + "Z"
        assert cli(["world", "import", "reddit", str(file), "--fetched-at", when]) == 0
    capsys.readouterr()
    words = ["help", "people", "friends", "girlfriend", "school", "christmas", "money", "food"]
    made = plan(words, tool="reddit_search_and_fetch_threads")
    file = Path(written(home / "p.json", made))
    at = "2016-08-01T00:00:00Z"
    found = told(capsys, "scout", "run", str(file), "--as-of", at, "--run-id", "f")
    index = json.loads((home / "data/runs/f/reddit_index.json").read_text())
    assert len(index["calls"]) == 8
    assert sum(call["rows"] for call in index["calls"]) >= len(index["threads"]) > 20
    assert all(one["known_at"] <= at for one in index["threads"])
    assert found["artifacts"]["act"]["evidence"]
    for run, more in (("rules", ()), ("scripted", ("--model", "scripted"))):
        asked = ("scout", "run", "Will people help their friends?", "--window", "all", *more)
        found = told(capsys, *asked, "--as-of", at, "--run-id", run)
        assert found["artifacts"]["act"]["evidence"], run
        assert told(capsys, "runs", "verify", run)["sound"]
    early = told(
        capsys, "scout", "run", str(file), "--as-of", "2006-01-01T00:00:00Z", "--run-id", "e"
    )
    assert early["artifacts"]["act"]["evidence"] == []
    assert "Nothing was found" in early["artifacts"]["act"]["sentences"][0]["text"]


def test_live_threads_are_recorded_and_asked_for_once(tmp_path: Path) -> None:
    """Killed and resumed, no request to the vendor is repeated; what it showed is in the cache, each
    thread with its digest, and without credentials the cache answers."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    made = plan(["rain"], tool="reddit_api_search_and_fetch_threads")
    file = written(tmp_path / "p.json", made)
    program = [sys.executable, "-m", "beforehand"]
    with serving(vendor_of_shapes()) as vendor:
        environment = {**os.environ, **vendor.environment, "BEFOREHAND_HOME": str(tmp_path / "h")}

        def call(*command: str, env: dict[str, str] = environment) -> Any:
            return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

        live = ["scout", "run", file, "--mode", "record", "--run-id", "r", "--concurrency", "1"]
        died = call(sys.executable, str(script), "3", "before", *live)
        assert died.returncode == 9, died.stderr
        asked = vendor.counts()
        assert any("search" in path for path in asked), asked
        assert call(*program, "scout", "resume", "r").returncode == 0
        assert vendor.counts() == asked
        index = json.loads((tmp_path / "h/data/runs/r/reddit_index.json").read_text())
        assert index["threads"]
        assert index["world"] == "record"
        cached = list((tmp_path / "h/data/reddit_cache/threads").glob("*.json"))
        assert cached
        assert all(json.loads(one.read_text())["digest"] for one in cached)
        assert call(*program, "runs", "verify", "r").returncode == 0
        without = {k: v for k, v in environment.items() if not k.startswith("REDDIT_")}
        stored = plan(["rain"], tool="reddit_search_and_fetch_threads")
        again = call(
            *program, "scout", "run", written(tmp_path / "s.json", stored), "--run-id", "s",
            "--json", env=without,
        )  # fmt: skip
        assert again.returncode == 0, again.stderr
        assert vendor.counts() == asked
        api = call(
            *program, "scout", "run", file, "--mode", "live", "--run-id", "w", "--json", env=without
        )
        assert api.returncode == 0, api.stderr
        think = json.loads(api.stdout)["artifacts"]["think"]
        assert think["documents"]
        assert any(
            "stored threads: " in note and "REDDIT_CLIENT_ID" in note for note in think["notes"]
        )
        assert vendor.counts() == asked
