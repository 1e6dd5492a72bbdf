"""The agents' four tools: exact outputs, the log of searches, ratings by a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from beforehand.agents.base import AgentContext, find_agent, run_agent
from beforehand.clock import SystemClock, parse_instant
from beforehand.config import Home
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from beforehand.store.bus import Bus
from beforehand.store.market_data.load import load
from beforehand.tools.bounds import MAX_TOKENS
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage

load_tools()


@pytest.fixture(scope="module")
def box(sim_archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    home = Home(tmp_path_factory.mktemp("home"))
    return Toolbox(Gateway(RecordedWorld(sim_archive)), Storage(home))


def test_searches_are_logged_as_documented(box: Toolbox) -> None:
    import sqlite3

    box.call("search_polymarket_markets", {"query": "lighthouse", "session_id": "abc", "limit": 2})
    made = box.call("search_polymarket_markets", {"query": "zzzz qqqq"}).content
    assert made["metadata"]["search_method"] == "top_volume"
    assert made["markets"], "always at least one"
    assert len(made["metadata"]["session_id"].split("_")[1]) == 6
    history = box.call("get_polymarket_history", {"session_id": "abc"}).content
    assert history["metadata"]["count"] == 1
    row = history["history"][0]
    assert set(row) == {
        "id",
        "session_id",
        "user_query",
        "timestamp",
        "results",
        "platform",
        "market_ids",
        "avg_probability",
        "total_volume",
        "result_count",
        "created_at",
    }
    assert 0 <= row["avg_probability"] <= 100
    db = sqlite3.connect(box.storage.home.queries)
    columns = [r[1] for r in db.execute("PRAGMA table_info(prediction_queries)")]
    assert columns[:5] == ["id", "session_id", "user_query", "expanded_keywords", "timestamp"]
    indices = {r[1] for r in db.execute("PRAGMA index_list(prediction_queries)")}
    assert {"idx_session_id", "idx_timestamp", "idx_platform"} <= indices
    assert db.execute("SELECT expanded_keywords FROM prediction_queries").fetchone() == ("[]",)
    db.close()


def test_results_are_shortened_before_a_search_is_left_out(
    sim_archive: Archive, tmp_path: Path
) -> None:
    """Twenty searches are twenty rows; how much of their lists is missing is said."""
    box = Toolbox(Gateway(RecordedWorld(sim_archive)), Storage(Home(tmp_path)))
    for n in range(20):
        asked = {"query": f"index {n}", "session_id": "long", "limit": 50}
        box.call("search_polymarket_markets", {**asked, "max_tokens": 100_000})
    found = box.call("get_polymarket_history", {"session_id": "long", "limit": 20}).content
    assert len(found["history"]) == found["metadata"]["count"] == 20
    cut = found["_meta"]["cut"]
    assert cut["lists_shortened"] > 0
    assert "next_cursor" not in cut
    assert found["_meta"]["tokens_estimated"] <= MAX_TOKENS
    assert all(row["result_count"] > len(row["results"]) > 0 for row in found["history"])
    whole = Toolbox(Gateway(RecordedWorld(sim_archive)), Storage(Home(tmp_path)), bounded=False)
    rows = whole.call("get_polymarket_history", {"session_id": "long", "limit": 20}).content[
        "history"
    ]
    assert all(row["result_count"] == len(row["results"]) for row in rows), (
        "on the bus they are whole"
    )


def test_a_table_says_whether_there_is_more(tmp_path: Path, sim_archive: Archive) -> None:
    """Three rows match: with a limit of three nothing is cut, with two the next page has one."""
    home, quotes = Home(tmp_path), tmp_path / "q.csv"
    quotes.write_text(
        "symbol,bid,ask,timestamp,file_date,created_at\n"
        + "".join(
            f"XX.{k}.C,0.1,0.2,2026-01-01T10:00:00Z,2026-01-01,2026-01-01T12:00:00Z\n"
            for k in "ABC"
        )
    )
    load(home.market_data, quotes, parse_instant("2026-01-02T00:00:00Z"))
    box = Toolbox(Gateway(RecordedWorld(sim_archive)), Storage(home))
    asked = {"template": "by_symbol", "params": {"symbol_pattern": "XX.%"}}
    all_of_them = box.call("run_query", {**asked, "limit": 3}).content
    assert "cut" not in all_of_them["_meta"]
    assert all_of_them["metadata"]["query"].rstrip().endswith("LIMIT 3 OFFSET 0"), "as it was asked"
    two = box.call("run_query", {**asked, "limit": 2}).content
    assert len(two["data"]) == 2
    last = box.call(
        "run_query", {**asked, "limit": 2, "cursor": two["_meta"]["cut"]["next_cursor"]}
    ).content
    assert len(last["data"]) == 1
    assert "cut" not in last["_meta"]
    assert (
        len(box.call("run_query", {**asked, "limit": None, "columns": None}).content["data"]) == 3
    )
    unbounded = Toolbox(box.gateway, box.storage, bounded=False)
    context = AgentContext(Bus(home.bus), unbounded, home.root, SystemClock())
    few = run_agent(find_agent("market-data-agent"), {**asked, "limit": 2}, context)
    notes = json.loads(few.path.read_text())["metadata"]["_meta"]["notes"]
    assert notes == ["run_query gave 2 rows, and there are more"]


def test_the_exact_outputs_of_the_agents_tools(box: Toolbox) -> None:
    found = box.call("search_polymarket_markets", {"query": "index"}).content
    assert set(found) == {"markets", "metadata", "_meta"}
    assert set(found["markets"][0]) == {
        "market_id",
        "title",
        "description",
        "outcomes",
        "prices",
        "volume",
        "liquidity",
        "status",
        "url",
        "slug",
        "close_time",
    }
    assert set(found["metadata"]) == {
        "query",
        "search_method",
        "llm_scoring_enabled",
        "session_id",
        "result_count",
        "platform",
        "timestamp",
    }
    around = box.call(
        "get_market_price_history", {"market_id": "m0001", "date": "2025-01-20"}
    ).content
    assert set(around) == {
        "market_id",
        "date",
        "price",
        "data_points",
        "data_source",
        "note",
        "_meta",
    }
    assert around["price"]["yes"] + around["price"]["no"] == pytest.approx(1)
    ranged = box.call(
        "get_market_price_range",
        {"market_id": "m0001", "start_date": "2025-01-13", "end_date": "2025-02-12"},
    ).content
    assert set(ranged) == {
        "market_id",
        "start_date",
        "end_date",
        "prices",
        "data_points",
        "price_change",
        "note",
        "_meta",
    }
    assert ranged["data_points"] == len(ranged["prices"]) > 10
    moved = ranged["prices"][-1]["yes"] - ranged["prices"][0]["yes"]
    assert ranged["price_change"]["yes"] == pytest.approx(moved)


def test_a_scorer_rates_and_its_failure_falls_back(sim_archive: Archive, tmp_path: Path) -> None:
    from beforehand.errors import Unavailable

    def rate(query: str, markets: Any) -> list[tuple[float, str]]:
        return [(i / 10, f"about {query}") for i, _ in enumerate(markets)]

    def fail(query: str, markets: Any) -> list[tuple[float, str]]:
        raise Unavailable("the model is away")

    gateway = Gateway(RecordedWorld(sim_archive))
    rated = Toolbox(gateway, Storage(Home(tmp_path), scorer=rate))
    content = rated.call("search_polymarket_markets", {"query": "index", "limit": 5}).content
    assert content["metadata"]["search_method"] == "hybrid_llm"
    assert content["metadata"]["llm_scoring_enabled"] is True
    scores = [m["relevance_score"] for m in content["markets"]]
    assert scores == sorted(scores, reverse=True)
    failed = Toolbox(gateway, Storage(Home(tmp_path), scorer=fail))
    content = failed.call("search_polymarket_markets", {"query": "index"}).content
    assert content["metadata"]["search_method"] == "hybrid"
    assert "the model is away" in content["_meta"]["notes"][0]
