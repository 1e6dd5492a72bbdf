"""The market-data table: loading with rejects, templates, the one LIKE rule, what is refused."""

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beforehand.cli.app import run as cli
from beforehand.clock import to_us
from beforehand.config import MAX_ROWS_PER_QUERY, Home
from beforehand.errors import InputError, NotConfigured
from beforehand.store.market_data.load import load
from beforehand.store.market_data.table import MarketData, connect
from beforehand.store.market_data.templates import COLUMNS, TEMPLATES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = ("2025-07-21", "2025-07-22")
HEADER = "symbol,bid,ask,price,timestamp,file_date,is_valid,created_at\n"


def rows() -> list[str]:
    """Two products, two days, four quotes each; some invalid, some without a side."""
    made = []
    for i in range(32):
        product, side = ("OZN", "VY3")[i % 2], "CP"[i // 2 % 2]
        day = DAYS[i // 16]
        bid = "" if i == 5 else f"{0.1 + i / 100:.3f}"
        ask = f"{0.15 + i / 90:.3f}"
        price = "0.5" if i == 7 else ""
        made.append(
            f"XCME.{product}.AUG25.11{i % 4}.{side},{bid},{ask},{price},{day}T10:{i:02d}:00Z,{day},"
            f"{int(i % 8 != 3)},{day}T23:00:00Z"
        )
    return made


@pytest.fixture
def table(tmp_path: Path) -> MarketData:
    file = tmp_path / "a.csv"
    file.write_text(HEADER + "\n".join(rows()) + "\n")
    report = load(tmp_path / "market_data.db", file, NOW)
    assert (report.loaded, report.rejected) == (32, 0)
    return MarketData(tmp_path / "market_data.db")


def found(
    table: MarketData, template: str, params: Any = None, **more: Any
) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    result = table.run(template, params, **more)
    return list(msgspec.to_builtins(result.rows))


def test_the_documented_answer(table: MarketData) -> None:
    raw = msgspec.json.encode(
        table.run("by_symbol", {"symbol_pattern": "%.C"}, ["symbol", "bid", "ask"], 7).wire()
    )
    answer = json.loads(raw)
    assert set(answer) == {"data", "metadata"}
    assert set(answer["metadata"]) == {"query", "params", "row_count", "sample", "columns"}
    assert answer["metadata"]["row_count"] == len(answer["data"]) == 7
    assert answer["metadata"]["sample"] == answer["data"][:5]
    assert answer["metadata"]["columns"] == "symbol, bid, ask"
    assert answer["metadata"]["params"] == ["%.C"]
    assert "?" in answer["metadata"]["query"]
    assert "%.C" not in answer["metadata"]["query"], "parameters only"
    assert list(answer["data"][0]) == ["symbol", "bid", "ask"]


def test_a_query_can_be_carried_out_as_it_is_reported(table: MarketData, tmp_path: Path) -> None:
    plain = sqlite3.connect(tmp_path / "market_data.db")
    for template, params in (
        ("by_symbol", {"symbol_pattern": "%.C"}),
        ("by_symbol", {"symbol_pattern": "%"}),
        ("all_valid", {}),
        ("cross_product_spread_candidates", {"left_pattern": "%.C", "right_pattern": "%.P"}),
    ):
        names = ["symbol", "bid", "ask"] if "symbol_pattern" in params or not params else None
        result = table.run(template, params, names, 5)
        again = plain.execute(result.query, result.params).fetchall()
        assert again == [tuple(getattr(row, n) for n in result.columns) for row in result.rows]
        assert again, template
    plain.close()


def test_the_four_templates(table: MarketData) -> None:
    every = found(table, "by_symbol", {"symbol_pattern": "%"})
    assert len(every) == 32
    assert len(found(table, "all_valid")) == 28
    assert {r["file_date"] for r in found(table, "by_date", {"file_date": DAYS[0]})} == {DAYS[0]}
    both = found(table, "by_symbol_and_date", {"symbol_pattern": "%.C", "file_date": DAYS[1]})
    expected = [r for r in every if r["symbol"].endswith(".C") and r["file_date"] == DAYS[1]]
    assert sorted(r["id"] for r in both) == sorted(r["id"] for r in expected)


def test_the_templates_users_asked_for(table: MarketData) -> None:
    every = found(table, "by_symbol", {"symbol_pattern": "%"})
    symbols = {r["symbol"] for r in every}
    latest = found(table, "latest_per_symbol")
    assert [r["symbol"] for r in latest] == sorted(symbols)
    for row in latest:
        assert row["timestamp"] == max(
            r["timestamp"] for r in every if r["symbol"] == row["symbol"]
        )
    span = {"symbol_pattern": "%", "start": "2025-07-21T10:03:00Z", "end": "2025-07-21T10:05:00Z"}
    assert len(found(table, "by_symbol_and_timerange", span)) == 3

    def value(r: dict[str, Any]) -> float | None:
        if r["price"] is not None:
            return float(r["price"])
        return None if r["bid"] is None else (r["bid"] + r["ask"]) / 2

    ranged = found(table, "by_price_range", {"min_price": 0.2, "max_price": 0.3})
    assert len(ranged) == sum(v is not None and 0.2 <= v <= 0.3 for v in map(value, every))
    spreads = [r["ask"] - r["bid"] for r in every if r["bid"] is not None]
    wide, narrow = found(table, "widest_spread", limit=1), found(table, "narrowest_spread", limit=1)
    assert wide[0]["ask"] - wide[0]["bid"] == max(spreads)
    assert narrow[0]["ask"] - narrow[0]["bid"] == min(spreads)
    pair = {"symbol_a": "XCME.OZN.AUG25.110.C", "symbol_b": "XCME.VY3.AUG25.111.C"}
    two = found(table, "two_symbols_at_time", {**pair, "timestamp": "2025-07-21T10:06:00Z"})
    assert [r["timestamp"] for r in two] == ["2025-07-21T10:04:00Z", "2025-07-21T10:05:00Z"]
    crossed = found(
        table,
        "cross_product_spread_candidates",
        {"left_pattern": "%OZN%", "right_pattern": "%VY3%"},
    )
    gaps = [abs(r["difference"]) for r in crossed]
    assert gaps == sorted(gaps)
    assert crossed[0]["left_symbol"].split(".")[1] == "OZN"
    candles = found(table, "daily_ohlc_mid", {"symbol_pattern": "XCME.OZN.AUG25.110.C"})
    mine = [r for r in every if r["symbol"] == "XCME.OZN.AUG25.110.C" and r["file_date"] == DAYS[0]]
    mids = [(r["bid"] + r["ask"]) / 2 for r in sorted(mine, key=lambda r: r["timestamp"])]
    assert candles[0]["open"] == pytest.approx(mids[0])
    assert candles[0]["close"] == pytest.approx(mids[-1])
    assert candles[0]["high"] == pytest.approx(max(mids))
    grouped = found(table, "aggregate_by_symbol_and_date", {"file_date": DAYS[0]})
    assert sum(r["records"] for r in grouped) == 16
    total = found(table, "statistics")[0]
    assert (total["records"], total["records_with_bid"]) == (32, 31)
    assert total["bid_min"] == 0.1


PATTERNS = st.text(alphabet="XCME.OZNVY3AUG251cp%_", min_size=1, max_size=12)


@settings(max_examples=120)
@given(PATTERNS)
def test_one_like_rule_on_every_path(pattern: str) -> None:
    """SQLite's rows, DuckDB's statistics and a plain reading of the rule agree."""
    table = _shared()
    import re

    wanted = re.compile(
        "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern),
        re.IGNORECASE | re.ASCII | re.DOTALL,
    )
    symbols = {r["symbol"] for r in found(table, "by_symbol", {"symbol_pattern": "%"})}
    expected = {s for s in symbols if wanted.fullmatch(s)}
    by_rows = {
        r["symbol"] for r in found(table, "by_symbol", {"symbol_pattern": pattern}, limit=1000)
    }
    by_groups = {
        r["symbol"]
        for r in found(
            table, "aggregate_by_symbol_and_date", {"symbol_pattern": pattern}, limit=1000
        )
    }
    newest = {r["symbol"] for r in found(table, "latest_per_symbol", {"symbol_pattern": pattern})}
    assert by_rows == by_groups == newest == expected


_TABLE: list[MarketData] = []


def _shared() -> MarketData:
    if not _TABLE:
        import tempfile

        folder = Path(tempfile.mkdtemp())
        (folder / "a.csv").write_text(HEADER + "\n".join(rows()) + "\n")
        load(folder / "market_data.db", folder / "a.csv", NOW)
        _TABLE.append(MarketData(folder / "market_data.db"))
    return _TABLE[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"template": "xyz"}, "unknown template 'xyz': one of by_symbol"),
        ({"template": "by_symbol"}, "needs the parameter 'symbol_pattern'"),
        (
            {"template": "by_symbol", "params": {"symbol_pattern": "%", "x": 1}},
            "unknown parameter 'x'",
        ),
        ({"template": "all_valid", "params": {"x": 1}}, "takes no parameters"),
        ({"template": "by_date", "params": {"file_date": "21 July"}}, "must be a day"),
        ({"template": "by_date", "params": {"file_date": 5}}, "must be a text"),
        ({"template": "all_valid", "columns": ["id", "created_us"]}, "unknown column 'created_us'"),
        ({"template": "all_valid", "columns": ["id; DROP TABLE market_data"]}, "unknown column"),
        ({"template": "all_valid", "columns": []}, "is empty"),
        ({"template": "all_valid", "columns": ["id", "id"]}, "named twice"),
        ({"template": "statistics", "columns": ["id"]}, "has its own columns"),
        ({"template": "all_valid", "limit": 0}, "between 1 and 10,000"),
        ({"template": "all_valid", "limit": MAX_ROWS_PER_QUERY + 1}, "between 1 and 10,000"),
        ({"template": "by_price_range", "params": {"min_price": "a", "max_price": 1}}, "a number"),
    ],
)
def test_what_is_refused(table: MarketData, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        table.run(**arguments)


def test_hostile_texts_stay_parameters(table: MarketData) -> None:
    for text in ("'; DROP TABLE market_data; --", "\\", "%' OR '1'='1", "\x00", "é%"):
        assert found(table, "by_symbol", {"symbol_pattern": text}) == []
        assert found(table, "statistics", {"symbol_pattern": text})[0]["records"] == 0
    assert len(found(table, "by_symbol", {"symbol_pattern": "%"})) == 32
    with table._reader() as reader, pytest.raises(sqlite3.OperationalError):
        reader._db.execute("DELETE FROM market_data")


def test_the_cutoff_and_pages(table: MarketData) -> None:
    first_day = to_us(datetime(2025, 7, 21, 23, tzinfo=UTC))
    for template, spec in TEMPLATES.items():
        if spec.required == () and not spec.statistics:
            shown = found(table, template, as_of_us=first_day)
            assert all(r["created_at"] <= "2025-07-21T23:00:00Z" for r in shown), template
            assert shown
            assert found(table, template, as_of_us=first_day - 1) == []
    assert found(table, "statistics", as_of_us=first_day)[0]["records"] == 16
    whole = found(table, "all_valid", limit=28)
    pages = [row for i in range(0, 28, 10) for row in found(table, "all_valid", limit=10, offset=i)]
    assert pages == whole


def test_rejects_are_reported_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(
        HEADER
        + "A,1,2,,2025-07-21T10:00:00Z,2025-07-21,1,\n"
        + ",1,2,,2025-07-21T10:00:00Z,2025-07-21,1,\n"
        + "A,one,2,,2025-07-21T10:00:00Z,2025-07-21,1,\n"
        + "A,1\n"
        + "A,1,inf,,2025-07-21T10:00:00Z,2025-07-21,1,\n"
        + "A,1,2,,yesterday,2025-07-21,1,\n"
        + "A,1,2,,2025-07-21T10:00:00Z,July,1,\n"
        + "A,1,2,,2025-07-21T10:00:00Z,2025-07-21,perhaps,\n"
        + "A,1,2,,2025-07-21T10:00:00Z,2025-07-21,1,soon\n"
        + "B,1,2,,2025-07-21T11:00:00+01:00,2025-07-21,false,\n"
    )
    report = load(tmp_path / "t.db", file, NOW)
    assert (report.loaded, report.rejected) == (2, 8)
    said = {(r.line, r.reason) for r in report.rejects}
    assert {line for line, _ in said} == {3, 4, 5, 6, 7, 8, 9, 10}
    assert (4, "bid is not a number") in said
    assert (6, "ask is not a finite number") in said
    assert Path(str(report.rejects_file)).is_file()
    (a, b) = found(MarketData(tmp_path / "t.db"), "by_symbol", {"symbol_pattern": "%"})
    assert b["timestamp"] == "2025-07-21T10:00:00Z"
    assert (a["is_valid"], b["is_valid"]) == (1, 0)
    assert a["created_at"] == "2026-01-01T00:00:00Z", "else the load time"


def test_loads_are_whole_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, file = tmp_path / "t.db", tmp_path / "a.csv"
    file.write_text(HEADER + "\n".join(rows()) + "\n")
    from beforehand.store.market_data import load as market_data_load

    real = market_data_load._store

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(market_data_load, "_store", dies)
    with pytest.raises(KeyboardInterrupt):
        load(path, file, NOW)
    assert found(MarketData(path), "all_valid") == []
    assert found(MarketData(path), "statistics") == []
    monkeypatch.setattr(market_data_load, "_store", real)
    assert load(path, file, NOW).loaded == 32
    again = load(path, file, NOW)
    assert again.already
    assert MarketData(path).count() == 32
    other = tmp_path / "b.csv"
    other.write_text("id,symbol,timestamp\n1,A,2025-01-01\n99,B,2025-01-01\n99,C,2025-01-01\n")
    report = load(path, other, NOW)
    assert (report.loaded, report.rejected) == (0, 3)
    assert {r.reason for r in report.rejects} == {
        "id is taken by an earlier load",
        "id occurs twice in the file",
    }


def test_a_corrected_file_loads_only_what_is_new(tmp_path: Path) -> None:
    path, file = tmp_path / "t.db", tmp_path / "a.csv"
    good = "A,1,2,2025-07-21T10:00:00Z\n"
    file.write_text(f"symbol,bid,ask,timestamp\n{good}B,one,2,2025-07-21T10:00:00Z\n")
    assert (load(path, file, NOW).loaded, load(path, file, NOW).rejected) == (1, 1)
    file.write_text(f"symbol,bid,ask,timestamp,typo\n{good[:-1]},\nB,1,2,2025-07-21T10:00:00Z,\n")
    report = load(path, file, NOW)
    assert (report.loaded, report.same, report.undated) == (1, 1, 2)
    assert report.ignored == ["typo"]
    assert len(found(MarketData(path), "all_valid")) == 2
    assert found(MarketData(path), "statistics")[0]["records"] == 2


def test_fractions_of_a_second_are_in_order(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        "symbol,bid,ask,timestamp\nA,1,2,2026-01-01T10:00:00Z\nA,3,4,2026-01-01T10:00:00.5Z\n"
    )
    load(tmp_path / "t.db", file, NOW)
    table = MarketData(tmp_path / "t.db")
    assert found(table, "latest_per_symbol")[0]["bid"] == 3
    candle = found(table, "daily_ohlc_mid")[0]
    assert (candle["open"], candle["close"]) == (1.5, 3.5)
    at = {"symbol_a": "A", "symbol_b": "B", "timestamp": "2026-01-01T10:00:00Z"}
    assert [r["bid"] for r in found(table, "two_symbols_at_time", at)] == [1]


@pytest.mark.parametrize("ids", [("1", "01"), ("1.5", "2"), ("1e3", "5"), ("9" * 20, "6")])
def test_odd_ids_are_rejected_not_renamed(tmp_path: Path, ids: tuple[str, str]) -> None:
    file = tmp_path / "a.csv"
    rows_ = "".join(f"{i},A,2025-01-01\n" for i in ids)
    file.write_text(f"id,symbol,timestamp\n{rows_}-5,B,2025-01-01\n,C,2025-01-01\n")
    report = load(tmp_path / "t.db", file, NOW)
    assert report.rejected >= 1
    kept = {r["symbol"] for r in found(MarketData(tmp_path / "t.db"), "all_valid")}
    assert {"B", "C"} <= kept


def test_a_file_name_is_no_pattern(tmp_path: Path) -> None:
    for name, symbol in (("a1.csv", "OTHER"), ("a[1].csv", "MINE"), ("q*.csv", "STAR")):
        (tmp_path / name).write_text(f"symbol,timestamp\n{symbol},2025-01-01\n")
    hive = tmp_path / "symbol=HIVE"
    hive.mkdir()
    (hive / "o'x.csv").write_text("symbol,timestamp\nREAL,2025-01-01\n")
    for file in (tmp_path / "a[1].csv", tmp_path / "q*.csv", hive / "o'x.csv"):
        load(tmp_path / "t.db", file, NOW)
    shown = {r["symbol"] for r in found(MarketData(tmp_path / "t.db"), "all_valid")}
    assert shown == {"MINE", "STAR", "REAL"}


def test_times_out_of_the_years_we_know(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    bad = ("infinity", "-infinity", "12026-03-15", "0043-03-15 (BC)", "epoch")
    file.write_text("symbol,timestamp\n" + "".join(f"A,{t}\n" for t in bad))
    assert load(tmp_path / "t.db", file, NOW).loaded == 0


def test_parquet_and_the_documented_schema(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    duckdb.sql(
        "SELECT 7 AS id, 'A.C' AS raw_symbol, 1.5 AS bid, NULL::DOUBLE AS ask, 2.0 AS last_price, "
        "TIMESTAMPTZ '2025-07-21 10:00:00+00' AS timestamp"
    ).write_parquet(str(file))
    assert load(tmp_path / "t.db", file, NOW).loaded == 1
    (row,) = found(MarketData(tmp_path / "t.db"), "by_symbol", {"symbol_pattern": "a.c"})
    assert list(row) == list(COLUMNS)
    assert (row["id"], row["symbol"], row["price"], row["file_date"]) == (
        7,
        "A.C",
        2.0,
        "2025-07-21",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"bid,ask\n1,2\n", "lacks the column 'symbol'"),
        (b"\xff\xfe\x00bad", "is UTF-16: save it as UTF-8"),
        (b"  \n", "is empty"),
        (b"symbol,Symbol,timestamp\nA,B,2025-01-01\n", "the column 'symbol' twice"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        load(tmp_path / "t.db", file, NOW)
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "t.db", tmp_path / "none.csv", NOW)


@pytest.mark.real_data
def test_recorded_quotes(data: Path, tmp_path: Path) -> None:
    report = load(tmp_path / "t.db", data / "_look_only/options/cme_glbx_bbo1m_rows.csv", NOW)
    assert (report.loaded, report.rejected) == (48, 0)
    assert len(MarketData(tmp_path / "t.db").symbols("%")) == 28 or report.loaded == 48


def test_no_table_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="world import market-data"):
        MarketData(tmp_path / "none.db")
    connect(tmp_path / "empty.db").close()
    assert found(MarketData(tmp_path / "empty.db"), "all_valid") == []


def test_the_commands(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    file.write_text(HEADER + "\n".join(rows()) + "\n,,,,,,,\n")
    assert cli(["world", "import", "market-data", str(file)]) == 3
    said = capsys.readouterr()
    assert "32 rows loaded, 1 rejected" in said.out
    assert "no symbol" in said.err
    assert Home(home).market_data.is_file()
    call: Callable[..., int] = lambda *a: cli(["tool", "run_query", *a, "--json"])  # noqa: E731
    assert call("--arg", "template=by_symbol", "--arg", 'params={"symbol_pattern": "%.P"}') == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["metadata"]["row_count"] == 16
    assert (
        call("--arg", "template=all_valid", "--arg", "columns=id,symbol", "--arg", "limit=3") == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["metadata"]["row_count"] == 3
    assert answer["_meta"]["cut"]["next_cursor"]
    assert call("--arg", "template=nope") == 2
    assert call("--arg", "template=all_valid", "--as-of", "2025-07-21") == 0
    assert json.loads(capsys.readouterr().out)["data"] == []
