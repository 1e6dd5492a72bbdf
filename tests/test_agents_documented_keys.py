"""The agents of the first document: the same keys, types and formats, on success and on failure."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beforehand.agents.base import AgentContext, Ran, find_agent, load_agents, run_agent
from beforehand.agents.consumer import statistics
from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home
from beforehand.errors import InputError, NotFound, Refused
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from beforehand.store.bus import Bus
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage
from experiments import Out
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
