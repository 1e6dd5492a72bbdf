"""The agents of the first document: the same keys, types and formats, on success and on failure;
and golden runs of each: every field of `documented.py` is there, in its form."""

import json
import math
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.agents.base import AgentContext, Ran, find_agent, load_agents, run_agent
from beforehand.agents.consumer import statistics
from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, SystemClock, parse_instant
from beforehand.config import Home
from beforehand.errors import InputError, NotFound, Refused
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.records.world import Market, MarketState, PricePoint
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.bus import Bus
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage
from documented import FIELDS, INDICES
from experiments import Out, told
from program import Program, run_program

NOW = parse_instant("2025-11-12T14:30:22Z")
T = parse_instant("2025-02-01T00:00:00Z")
OUTPUT = {"data", "metadata"}
METADATA = {"query", "timestamp", "row_count", "agent", "version", "_meta"}
LOG = {"run_id", "status", "timestamp", "duration_ms", "agent", "version", "_meta"}
STATISTICS = (
    "total_records records_with_bid records_with_ask bid_min bid_max bid_avg ask_min ask_max ask_avg"
).split()
MARKET = set(
    "market_id title description outcomes prices volume liquidity status url slug close_time".split()
)


class Desk:
    """A home with a simulated world, as of T."""

    def __init__(self, sim: Path, root: Path) -> None:
        self.root, self.clock = root, FrozenClock(NOW)
        self.bus = Bus(Home(root).bus, self.clock)
        gateway = Gateway(RecordedWorld(Archive(sim)), self.clock)
        load_tools()
        self.toolbox = Toolbox(gateway, Storage(Home(root)), T, bounded=False)

    def run(self, name: str, **inputs: object) -> Ran:
        found = find_agent(name)
        return run_agent(found, inputs, self.context)

    @property
    def context(self) -> AgentContext:
        return AgentContext(self.bus, self.toolbox, self.root, self.clock)

    def output(self, ran: Ran) -> dict[str, Any]:
        return json.loads(ran.path.read_text())  # type: ignore[no-any-return]

    def log(self, agent: str) -> dict[str, Any]:
        return json.loads(self.bus.agent(agent).logs()[-1].read_text())  # type: ignore[no-any-return]


@pytest.fixture
def desk(sim: Path, home: Path) -> Desk:
    return Desk(sim, Path(home))


def quotes_file(folder: Path) -> Path:
    """Two thousand five hundred quotes, in a file."""
    lines = ["symbol,bid,ask,timestamp"]
    lines += [
        f"XCME.OZN.AUG25.{100 + k % 50}.{'CP'[k % 2]},{k / 1000},{k / 1000 + 0.01},"
        f"2025-01-{1 + k % 28:02d}T12:00:00Z"
        for k in range(2500)
    ]
    path = folder / "quotes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def quotes(desk: Desk, tmp_path: Path) -> Path:
    """They are in the table."""
    assert cli(["world", "import", "market-data", str(quotes_file(tmp_path))]) == 0
    return tmp_path


def test_every_agent_of_the_document_is_there() -> None:
    names = {"market-data-agent", "consumer-agent", "polymarket-agent", "predictive-markets-agent"}
    assert names <= set(load_agents())
    with pytest.raises(NotFound, match="no agent is named 'x': there is"):
        find_agent("x")


def test_the_market_data_agent(desk: Desk, quotes: Path, capsys: Out) -> None:
    desk.toolbox.pinned = None  # These quotes became known when they were loaded.
    ran = desk.run("market-data-agent", template="by_symbol", params={"symbol_pattern": "%.C"})
    body = desk.output(ran)
    assert body.keys() == OUTPUT
    assert body["metadata"].keys() == METADATA
    assert body["metadata"]["query"].startswith("SELECT")
    assert body["metadata"]["row_count"] == len(body["data"]) == 100, "without a limit: 100"
    assert body["metadata"]["timestamp"] == "2025-11-12T14:30:22Z"
    assert (body["metadata"]["agent"], body["metadata"]["version"]) == ("market-data-agent", "1.0")
    assert {"symbol", "bid", "ask"} <= body["data"][0].keys()
    log = desk.log("market-data-agent")
    assert log.keys() == LOG | {"sql", "params", "output_path", "row_count"}
    assert log["params"] == {"symbol_pattern": "%.C"}
    assert log["output_path"] == "workspace/agents/market-data-agent/out/000001.json"
    assert re.fullmatch(r"\d{8}_\d{6}(_\d+)?", log["run_id"])
    assert (log["status"], log["row_count"]) == ("success", 100)
    ran = desk.run("market-data-agent", template="all_valid", limit=2000, columns=["symbol", "bid"])
    assert len(desk.output(ran)["data"]) == 2000, "all the rows that were asked for"
    assert desk.output(ran)["data"][0].keys() == {"symbol", "bid"}
    with pytest.raises(InputError, match="10000"):
        desk.run("market-data-agent", template="all_valid", limit=10_001)
    with pytest.raises(InputError, match="xyz"):
        desk.run("market-data-agent", template="xyz")
    log = desk.log("market-data-agent")
    assert log.keys() == LOG | {"error"}
    assert log["status"] == "failed"
    assert "xyz" in log["error"]
    assert Bus(desk.bus.root).agent("market-data-agent").manifest.read().total_runs == 4
    assert desk.bus.agent("market-data-agent").manifest.read().next_id == 3, "no output, no id"


def test_the_consumer_agent(desk: Desk, quotes: Path) -> None:
    desk.toolbox.pinned = None
    made = desk.run("market-data-agent", template="by_symbol", params={"symbol_pattern": "%.P"})
    path = "workspace/agents/market-data-agent/out/000001.json"
    ran = desk.run("consumer-agent", input_path=path)
    body = desk.output(ran)
    assert body["metadata"]["query"] == f"Processed from {path}"
    (row,) = body["data"]
    assert row.keys() == {"source", "source_query", "source_row_count", "timestamp", "statistics"}
    assert (row["source"], row["source_row_count"]) == ("market-data-agent", 100)
    assert row["source_query"] == made.output.metadata.query
    assert row["timestamp"] == "2025-11-12T14:30:22Z"
    assert list(row["statistics"]) == sorted(STATISTICS)
    bids = [one["bid"] for one in made.output.data]
    assert row["statistics"]["bid_avg"] == math.fsum(bids) / 100
    assert row["statistics"]["bid_min"] == min(bids)
    log = desk.log("consumer-agent")
    assert log.keys() == LOG | {"input_path", "output_path"}
    assert log["input_path"] == path
    for wrong in ("nothing.json", str(Path(path).parent), "../meta.json"):
        with pytest.raises(InputError):
            desk.run("consumer-agent", input_path=wrong)
        assert desk.log("consumer-agent")["input_path"] == wrong


def test_exact_statistics() -> None:
    """Empty, all null, partly null; sums without rounding; nothing that is no number."""
    nothing = dict.fromkeys(STATISTICS[3:])
    assert statistics([]) == {
        "total_records": 0, "records_with_bid": 0, "records_with_ask": 0, **nothing,
    }  # fmt: skip
    assert statistics([{"bid": None}, {}]) == {
        "total_records": 2, "records_with_bid": 0, "records_with_ask": 0, **nothing,
    }  # fmt: skip
    found = statistics([{"bid": 1e16, "ask": 2}, {"bid": 1.0}, {"bid": -1e16, "ask": None}])
    assert (found["records_with_bid"], found["records_with_ask"]) == (3, 1)
    assert found["bid_avg"] == 1 / 3, "a running sum gives 0"
    assert (found["ask_min"], found["ask_max"], found["ask_avg"]) == (2, 2, 2)
    for value in ("7", True, float("nan"), float("inf"), [1]):
        with pytest.raises(InputError, match="row 1 of the input: bid is"):
            statistics([{"bid": value}])


def test_the_polymarket_agent(desk: Desk) -> None:
    ran = desk.run("polymarket-agent", query="rain index", limit=5)
    body = desk.output(ran)
    assert body["metadata"].keys() == METADATA | {"search_method"}
    assert body["metadata"]["query"] == "Polymarket search: rain index"
    assert body["metadata"]["timestamp"] == "2025-02-01T00:00:00Z"
    (row,) = body["data"]
    assert row.keys() == {
        "query", "session_id", "search_method", "llm_scoring_enabled", "markets", "result_count",
    }  # fmt: skip
    assert row["result_count"] == len(row["markets"]) == 5
    assert all(market.keys() == MARKET for market in row["markets"])
    assert re.fullmatch(r"20250201000000_[0-9a-f]{6}", row["session_id"])
    assert desk.log("polymarket-agent").keys() == LOG | {
        "query", "session_id", "output_path", "result_count",
    }  # fmt: skip
    again = desk.run("polymarket-agent", query="rain index", limit=5)
    assert again.path.name == "000002.json"
    assert again.path.read_bytes() == ran.path.read_bytes(), "the same question, the same bytes"
    mine = desk.run("polymarket-agent", query="rain index", session_id="20251113143022_a3f2e9")
    assert desk.output(mine)["data"][0]["session_id"] == "20251113143022_a3f2e9"
    with pytest.raises(InputError, match="less than or equal to 50"):
        desk.run("polymarket-agent", query="rain", limit=51)
    with pytest.raises(InputError, match="no input 'limits'"):
        desk.run("polymarket-agent", query="rain", limits=5)


def test_the_predictive_markets_agent(desk: Desk) -> None:
    ran = desk.run("predictive-markets-agent", query="rain index", domains=["kalshi.com"])
    body = desk.output(ran)
    (row,) = body["data"]
    assert row.keys() == {"query", "session_id", "results", "result_count", "domains_searched"}
    assert row["domains_searched"] == "kalshi.com"
    assert body["metadata"]["_meta"]["notes"] == ["searched by: recorded archive"]
    assert desk.log("predictive-markets-agent").keys() == LOG | {
        "query", "session_id", "output_path", "result_count",
    }  # fmt: skip
    for more, said in (
        ({"max_results": 21}, "less than or equal to 20"),
        ({"domains": ["example.com"]}, "'example.com' is no domain to search"),
    ):
        with pytest.raises(InputError, match=said):
            desk.run("predictive-markets-agent", query="rain", **more)


def test_an_agent_reads_the_bus_and_nothing_later(desk: Desk, quotes: Path) -> None:
    """An output of a later instant, or of no instant, knows too much; other files are not read."""
    ran = desk.run("market-data-agent", template="all_valid", limit=3)
    later = ran.path.with_name("000009.json")
    body = json.loads(ran.path.read_text())
    body["metadata"]["timestamp"] = "2025-02-01T00:00:01Z"
    later.write_text(json.dumps(body))
    with pytest.raises(Refused, match="is of 2025-02-01T00:00:01Z, after 2025-02-01T00:00:00Z"):
        desk.run("consumer-agent", input_path=str(later))
    outside = quotes / "outside.json"
    outside.write_text(ran.path.read_text())
    for path in (str(outside), "/etc/passwd", "../../x", "a\0b", "x" * 5000, str(quotes)):
        with pytest.raises(InputError, match="is no output on the bus"):
            desk.run("consumer-agent", input_path=path)
    for inputs in ({"query": "\ud800"}, {"query": "x", "limit": 10**30}):
        with pytest.raises(InputError, match="cannot be stored as JSON"):
            desk.run("polymarket-agent", **inputs)
        assert desk.log("polymarket-agent")["status"] == "failed"


def test_an_agent_has_its_own_tools_alone(desk: Desk) -> None:
    found = find_agent("polymarket-agent")
    with pytest.raises(Refused, match="may not use search_polymarket_markets"):
        run_agent(found, {"query": "rain"}, desk.context, tools=["get_market_price_range"])
    assert desk.log("polymarket-agent")["status"] == "failed"


def test_from_the_command_line(sim: Path, home: Path, capsys: Out) -> None:
    pinned = ["--archive", str(sim), "--as-of", "2025-02-01"]
    assert cli(["agent", "polymarket-agent", "--arg", "query=rain index", *pinned]) == 0
    assert "polymarket-agent/out/000001.json: 1 row" in capsys.readouterr().out
    assert cli(["agent", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["agents"]
    assert {one["agent"] for one in listed} == set(load_agents())
    assert cli(["agent", "nobody"]) != 0
    assert "no agent is named" in capsys.readouterr().err
    assert cli(["agent", "polymarket-agent", *pinned]) == 2
    assert "the argument 'query' is missing" in capsys.readouterr().err
    assert cli(["bus", "list"]) == 0
    assert "polymarket-agent" in capsys.readouterr().out
    assert cli(["bus", "show", "polymarket-agent", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["agent"] == "polymarket-agent"
    assert cli(["bus", "show", "polymarket-agent", "--log", "last"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "failed"
    assert cli(["bus", "tail", "-n", "1"]) == 0
    assert "failed" in capsys.readouterr().out
    assert cli(["bus", "verify"]) == 0
    (Path(home) / "workspace/agents/polymarket-agent/meta.json").write_text("{}")
    assert cli(["bus", "verify"]) == 1
    assert "lags behind" in capsys.readouterr().out
    assert cli(["bus", "verify", "--repair"]) == 0
    assert cli(["bus", "verify"]) == 0


def test_following_the_bus(sim: Path, home: Path) -> None:
    """`bus tail --follow` shows a run of another process as it ends."""
    command = [sys.executable, "-m", "beforehand"]
    follower = [*command, "bus", "tail", "--follow"]
    asked = ["agent", "polymarket-agent", "--arg", "query=rain", "--archive", str(sim)]
    with Program(follower, stdout=subprocess.PIPE, text=True, env=os.environ) as running:
        try:
            run_program([*command, *asked], check=True, capture_output=True)
            assert running.stdout is not None
            assert "polymarket-agent" in running.stdout.readline()
        finally:
            running.terminate()


RAN_AT = parse_instant("2025-11-13T14:30:22Z")
AS_OF = ("--as-of", "2025-11-13T14:30:22Z")
MARKETS = (
    ("0x123", "bitcoin-100k-2025", "Bitcoin to reach $100,000 by end of 2025?", 0.65),
    ("0x124", "bitcoin-150k-2025", "Bitcoin to reach $150,000 by end of 2025?", 0.08),
    ("0x456", "trump-win-2024", "Will Trump win the 2024 election?", 0.99),
)
TOOL = "search_polymarket_markets"
WRITTEN = [row for row in FIELDS if row[0] != TOOL]
TYPES = {
    "number": (int, float),
    "integer": int,
    "list": list,
    "text": str,
    "true": bool,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world in which the documents' own questions have answers."""
    path, records = tmp_path_factory.mktemp("documented") / "archive", list[Any]()
    for name, slug, question, price in MARKETS:
        market = f"POLYMARKET:{name}"
        about = {"market_id": market, "known_at": RAN_AT - timedelta(hours=1)}
        records += [
            Market(
                id=market, venue="POLYMARKET", native_id=name, question=question,
                rules=f"Resolves YES if so: {question}", known_at=RAN_AT - timedelta(days=300),
                url=f"https://polymarket.com/event/{slug}", text_known_at=RAN_AT - timedelta(days=300),
                scheduled_close=parse_instant("2025-12-31T23:59:59Z"),
            ),
            PricePoint(price=price, observed_at=about["known_at"], **about),
            MarketState(status="active", volume=1250000, liquidity=85000, **about),
        ]  # fmt: skip
    ArchiveWriter(path).add(
        records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
    )
    return path


@pytest.fixture(scope="module")
def golden(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Any]]]:
    """The documents' own examples; every file and row by its name."""
    root = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEFOREHAND_HOME", str(root))
        patch.chdir(root)
        assert cli(["world", "import", "market-data", str(quotes_file(root))]) == 0
        place = ["--archive", str(world), *AS_OF]
        model = ["--model", "scripted"]
        first = "workspace/agents/market-data-agent/out/000001.json"
        params = 'params={"symbol_pattern":"%.C"}'
        at_once = ["--archive", str(world)]  # Quotes without created_at are known from now on.
        rows = ["--arg", "template=by_symbol", "--arg", params, "--arg", "limit=100"]
        assert cli(["agent", "market-data-agent", *rows, *at_once]) == 0
        read = ["--arg", f"input_path={first}"]
        assert cli(["agent", "consumer-agent", *read, *at_once]) == 0
        for agent, given, more in (
            ("predictive-markets-agent", ["query=Will Trump win 2024?"], []),
            ("polymarket-agent", ["query=Will Bitcoin reach $100k?"], model),
        ):
            pairs = [part for text in given for part in ("--arg", text)]
            assert cli(["agent", agent, *pairs, *place, *more]) == 0, agent
        assert cli(["agent", "market-data-agent", "--arg", "template=xyz", *place]) != 0
        asked = ["--arg", "query=Bitcoin predictions", "--arg", "session_id=20251113143022_a3f2e9"]
        searched = ["tool", "search_polymarket_markets", *asked, *place, *model]
        assert cli(searched) == 0
        assert cli(["ask", "Will Bitcoin reach $100k?", *place]) == 0
        yield {**_files_of(root), **_rows_of(root)}


def _files_of(root: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for path in sorted((root / "workspace/agents").rglob("*.json")):
        agent, *kind = path.relative_to(root / "workspace/agents").parts
        body = json.loads(path.read_text())
        name = f"{agent}/{kind[0]}"
        if kind[0] == "logs" and body["status"] == "failed":
            name = "failed/logs"
        if kind[0] == "meta.json" or name not in found or kind[0] == "logs":
            found.setdefault(name, []).append(body)
    # Only what the documents' own runs wrote: `ask` writes outputs and logs of its own.
    return {name: rows[:1] for name, rows in found.items()}


def _rows_of(root: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for file, table in (
        ("workspace/orchestrator_results.db", "worker_runs"),
        ("workspace/orchestrator_results.db", "task_outputs"),
        ("polymarket_markets.db", "prediction_queries"),
    ):
        with sqlite3.connect(root / file) as database:
            database.row_factory = sqlite3.Row
            rows = [dict(row) for row in database.execute(f"SELECT * FROM {table}")]
            listed = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?", (table,)
            )
            assert INDICES[table] <= {row["name"] for row in listed}
        found[table] = rows
    last = found["prediction_queries"][-1]
    assert last["user_query"]
    return found


def values(body: Any, path: str) -> Iterator[Any]:
    """What stands at a dotted path, for every element of each list on the way."""
    head, _, rest = path.partition(".")
    name = head.removesuffix("[]")
    assert name in body, f"{name} is missing in {sorted(body)}"
    inner = body[name] if head.endswith("[]") else [body[name]]
    assert not head.endswith("[]") or inner, f"{name} is empty"
    for one in inner:
        if rest:
            yield from values(one, rest)
        else:
            yield one


def fits(value: Any, form: str) -> bool:
    """True for a value of this form."""
    kind = form.removesuffix("?") if form.removesuffix("?") in TYPES else None
    if kind is None:
        return isinstance(value, str) and re.fullmatch(form, value, re.DOTALL) is not None
    if value is None:
        return form.endswith("?")
    if isinstance(value, bool):
        return kind == "true" and value
    return kind != "true" and isinstance(value, TYPES[kind])  # type: ignore[arg-type]


@pytest.mark.parametrize(("file", "field", "form"), WRITTEN, ids=lambda text: text[:40])
def test_every_documented_field(
    golden: dict[str, list[Any]], file: str, field: str, form: str
) -> None:
    found = [value for body in golden[file] for value in values(body, field)]
    assert found
    assert all(fits(value, form) for value in found), found[:3]


def test_the_tool_as_documented(world: Path, home: Path, capsys: Out) -> None:
    asked = ("--arg", "query=Bitcoin predictions", "--arg", "session_id=20251113143022_a3f2e9")
    place = ("--archive", str(world), *AS_OF, "--model", "scripted")
    found = told(capsys, "tool", "search_polymarket_markets", *asked, *place)
    mine = [row for row in FIELDS if row[0] == TOOL]
    assert len(mine) == 21
    for _, field, form in mine:
        assert all(fits(value, form) for value in values(found, field)), field


def test_the_table_can_fail() -> None:
    """Control: a missing field, a wrong type and a wrong format are seen."""
    assert not fits("1", "integer")
    assert not fits(True, "integer")
    assert not fits(None, "number")
    assert fits(None, "number?")
    assert not fits("2025-11-11 12:00:00", r"\d{4}-\d{2}-\d{2}T.*Z")
    with pytest.raises(AssertionError, match="agent is missing"):
        list(values({"metadata": {}}, "metadata.agent"))
    with pytest.raises(AssertionError, match="data is empty"):
        list(values({"data": []}, "data[].symbol"))
