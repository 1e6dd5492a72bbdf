"""The Reddit tools take a scout plan's own parameters, and the cache answers without an archive."""

import inspect
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from beforehand.cli.app import run as cli
from beforehand.records.plan import ScoutLimits, ScoutPlan
from beforehand.tools.discovery import load_tools
from experiments import Out, told

TOOLS = ("reddit_search_and_fetch_threads", "reddit_api_search_and_fetch_threads")
PLAN = json.loads((Path(__file__).parent / "contracts" / "records" / "scout_plan.json").read_text())


def thread(name: str, title: str, day: int, score: int = 1, comments: int = 0) -> dict[str, Any]:
    """A raw Reddit answer with one post."""
    data = {
        "id": name, "subreddit": "weather", "title": title, "selftext": "", "score": score,
        "num_comments": comments, "created_utc": 1_750_000_000 + 86_400 * day,
    }  # fmt: skip
    return {"kind": "Listing", "data": {"children": [{"kind": "t3", "data": data}]}}


@pytest.fixture
def cache(home: Path) -> Path:
    """Eight threads on rain and three on snow; one has many comments. There is no archive."""
    folder = home / "data" / "reddit_cache" / "threads"
    folder.mkdir(parents=True)
    made = [thread(f"r{n}", f"rain again {n}", n, score=n, comments=9 * (n == 3)) for n in range(8)]
    made += [thread(f"s{n}", f"snow {n}", 20 + n) for n in range(3)]
    for n, one in enumerate(made):
        (folder / f"{n}.json").write_text(json.dumps(one))
    assert not (home / "data" / "archive").exists()
    return folder


def ids(capsys: Out, **arguments: object) -> list[str]:
    given = [part for k, v in arguments.items() for part in ("--arg", f"{k}={v}")]
    found = told(capsys, "tool", TOOLS[0], *given)
    assert found["thread_count"] == len(found["threads"])
    return [row["id"] for row in found["threads"]]


def test_the_cache_answers_without_an_archive(cache: Path, capsys: Out) -> None:
    assert ids(capsys, keyword="rain") == [f"r{n}" for n in range(7, -1, -1)]
    assert len(ids(capsys, keywords='["rain", "snow"]')) == 11
    assert ids(capsys, keyword="rain", min_num_comments=5) == ["r3"]
    assert cli(["tool", "list_markets"]) != 0, "markets need an archive all the same"
    assert "there is no archive" in capsys.readouterr().err


def test_the_limit_counts_for_each_keyword(cache: Path, capsys: Out) -> None:
    both = ids(capsys, keywords='["rain", "snow"]', per_query_limit=2)
    assert both == ["s2", "s1", "r7", "r6"]
    assert ids(capsys, keywords='["rain", "again"]', per_query_limit=2) == ["r7", "r6"]
    assert ids(capsys, keyword="rain", min_score=6, per_query_limit=1) == ["r7"]


def test_what_is_refused(cache: Path, capsys: Out) -> None:
    for given, said in (
        ((), "name a keyword"),
        (("keyword=rain", "per_query_limit=0"), "per_query_limit"),
        (("keyword=rain", "per_query_limit=101"), "per_query_limit"),
        (("keyword=rain", "comment_depth=-1"), "comment_depth"),
        (("keyword=rain", "time_window=1m"), "time_window"),
    ):
        arguments = [part for one in given for part in ("--arg", one)]
        assert cli(["tool", TOOLS[0], *arguments]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", TOOLS)
def test_plan_and_tools_have_one_set_of_limits(name: str) -> None:
    """The same names, defaults and bounds."""
    tool = load_tools()[name]
    defaults = inspect.signature(tool.function).parameters
    schema = tool.model.model_json_schema()["properties"]
    bounds = ScoutLimits.model_json_schema()["properties"]
    for field, info in ScoutLimits.model_fields.items():
        assert defaults[field].default == info.default
        for bound in ("minimum", "maximum"):
            assert schema[field].get(bound) == bounds[field].get(bound)


def changed(*path: object, value: object) -> dict[str, Any]:
    plan = deepcopy(PLAN)
    place: Any = plan
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return plan


@pytest.mark.parametrize(
    ("plan", "place"),
    [
        (
            changed("dag", "nodes", 1, "deps", value=["nobody"]),
            "nodes[1].deps[0]: there is no node",
        ),
        (changed("dag", "nodes", 0, "deps", value=["act"]), "nodes[0].deps: nodes wait for each"),
        (changed("dag", "nodes", 2, "id", value="collect"), "nodes[2].id: nodes[1] is 'collect'"),
        (changed("dag", "nodes", 2, "id", value="../x"), "nodes[2].id: '../x' must be one plain"),
        (changed("dag", "nodes", 1, "outputs", value=["/etc/x"]), "nodes[1].outputs[0]: '/etc/x'"),
        (changed("dag", "nodes", 1, "outputs", value=["plan.json"]), "nodes[0] writes 'plan.json'"),
        (changed("dag", "nodes", 1, "tool", value=None), "nodes[1].tool: a tool node names"),
        (changed("dag", "nodes", 0, "agent", value=None), "nodes[0].agent: an agent node names"),
        (changed("dag", "nodes", 0, "agent", value="who"), "nodes[0].agent: there is no agent"),
        (changed("dag", "nodes", 0, "stage", value=None), "nodes[0].stage: an agent node has"),
        (changed("dag", "run_id", value="../out"), "run_id: run id '../out' must be"),
    ],
)
def test_a_fault_of_a_plan_is_told_with_its_place(plan: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as raised:
        ScoutPlan.model_validate(plan)
    assert place in str(raised.value)


def test_a_newer_plan_with_more_fields_is_kept() -> None:
    plan = changed("dag", "nodes", 1, "colour", value="blue") | {"note": "new", "version": "1.1"}
    kept = ScoutPlan.model_validate(plan).wire()
    assert kept["note"] == "new"
    assert kept["dag"]["nodes"][1]["colour"] == "blue"


def test_the_window_is_that_of_writing(home: Path, capsys: Out) -> None:
    """A thread that was edited yesterday is known since then, and as old as it is."""
    folder = home / "data" / "reddit_cache" / "threads"
    folder.mkdir(parents=True)
    old = thread("old", "rain once", 0)
    old["data"]["children"][0]["data"]["edited"] = 1_750_000_000 + 86_400 * 300
    new = thread("new", "rain again", 290)
    for name, made in (("old", old), ("new", new)):
        (folder / f"{name}.json").write_text(json.dumps(made))
    assert ids(capsys, keyword="rain") == ["old", "new"], "the one that was edited last first"
    at = "2026-04-20T00:00:00Z"
    assert ids(capsys, keyword="rain", time_window="6m", as_of=at) == ["new"]
    assert ids(capsys, keyword="rain", time_window="12m", as_of=at) == ["old", "new"]
    assert ids(capsys, keyword="rain", as_of="2026-04-05T00:00:00Z") == ["new"]
