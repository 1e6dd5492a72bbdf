"""Golden runs of every documented agent: each field of `documented.py` is there, in its form."""

import json
import re
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock, parse_instant
from beforehand.records.world import Market, MarketState, PricePoint
from beforehand.store.archive.writer import ArchiveWriter
from documented import FIELDS, INDICES
from experiments import Out, told
from test_agents_documented_keys import quotes_file

NOW = parse_instant("2025-11-13T14:30:22Z")
AT = ("--as-of", "2025-11-13T14:30:22Z")
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
        about = {"market_id": market, "known_at": NOW - timedelta(hours=1)}
        records += [
            Market(
                id=market, venue="POLYMARKET", native_id=name, question=question,
                rules=f"Resolves YES if so: {question}", known_at=NOW - timedelta(days=300),
                url=f"https://polymarket.com/event/{slug}", text_known_at=NOW - timedelta(days=300),
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
        place = ["--archive", str(world), *AT]
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
        yield {**_files(root), **_rows(root)}


def _files(root: Path) -> dict[str, list[Any]]:
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


def _rows(root: Path) -> dict[str, list[Any]]:
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
    place = ("--archive", str(world), *AT, "--model", "scripted")
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
