"""run_query at 1 and 10 million generated rows, against bare SQLite with and without indexes, and
DuckDB. Run: python bench/query.py [rows …]  (10 million takes minutes to load, and about 4 GB)."""

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import msgspec
import orjson

from beforehand.store.market_data.load import load
from beforehand.store.market_data.table import MarketData
from beforehand.store.market_data.templates import COLUMNS

AT = datetime(2026, 1, 1, tzinfo=UTC)
DAY = "2025-03-14"
MAKE = """
SELECT i AS id, 'XCME.' || ['OZN', 'VY3', 'GY4', 'WY4', 'HY4'][1 + (i * 31) % 5] || '.AUG25.'
  || (100 + (i * 17) % 500) || '.' || CASE WHEN i % 2 = 0 THEN 'C' ELSE 'P' END AS symbol,
  CASE WHEN i % 50 = 0 THEN NULL ELSE round(((i * 7919) % 100003) / 100003.0, 6) END AS bid,
  round(((i * 7919) % 100003) / 100003.0 + 0.001 * (i % 13), 6) AS ask,
  NULL::DOUBLE AS price, i % 90 AS bid_quantity, i % 70 AS offer_quantity,
  strftime(TIMESTAMP '2025-01-01' + INTERVAL (i % 31536000) SECOND, '%Y-%m-%dT%H:%M:%SZ')
    AS timestamp,
  strftime(DATE '2025-01-01' + ((i * 13) % 365)::INTEGER, '%Y-%m-%d') AS file_date,
  'generated' AS data_source, CASE WHEN i % 20 = 0 THEN 0 ELSE 1 END AS is_valid,
  '2025-12-31T00:00:00Z' AS created_at
FROM range({rows}) t(i)
"""


def timed(job: Callable[[], Any], rounds: int = 7) -> float:
    """Median CPU seconds."""
    job()
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        job()
        spent.append(time.process_time() - start)
    return median(spent)


def line(what: str, ours: float, name: str, theirs: float, goal: str) -> None:
    """One ratio."""
    print(
        f"{what:34s} ours {ours * 1e3:9.3f} ms   {name:22s} {theirs * 1e3:10.3f} ms   "
        f"ours/theirs {ours / theirs:8.4f}   goal {goal}"
    )


def bare(file: Path, path: Path, indexed: bool) -> sqlite3.Connection:
    """The same rows in a bare SQLite table."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous=OFF")
    db.execute(f"CREATE TABLE m ({', '.join(COLUMNS)})")
    rows = duckdb.connect().execute(f"SELECT {', '.join(COLUMNS)} FROM '{file}' ORDER BY id")
    marks = ", ".join("?" * len(COLUMNS))
    while chunk := rows.fetchmany(50_000):
        db.executemany(f"INSERT INTO m VALUES ({marks})", chunk)
    if indexed:
        for name, columns in (
            ("d", "file_date, id"),
            ("s", "symbol COLLATE NOCASE, file_date, id"),
            ("x", "symbol, file_date, id"),
            ("t", "symbol, timestamp"),
            ("v", "coalesce(price, (bid + ask) / 2)"),
            ("w", "ask - bid"),
        ):
            db.execute(f"CREATE INDEX {name} ON m ({columns})")
    db.commit()
    return db


FLOORS: dict[str, tuple[dict[str, Any], str, tuple[Any, ...]]] = {
    "by_symbol": (
        {"symbol_pattern": "XCME.OZN.AUG25.11%"},
        "SELECT * FROM m WHERE symbol LIKE ? ORDER BY symbol COLLATE NOCASE, file_date, id "
        "LIMIT 100",
        ("XCME.OZN.AUG25.11%",),
    ),
    "by_date": (
        {"file_date": DAY},
        "SELECT * FROM m WHERE file_date = ? ORDER BY id LIMIT 100",
        (DAY,),
    ),
    "by_symbol_and_date": (
        {"symbol_pattern": "XCME.OZN.AUG25.%", "file_date": DAY},
        "SELECT * FROM m WHERE symbol LIKE ? AND file_date = ? "
        "ORDER BY symbol COLLATE NOCASE, id LIMIT 100",
        ("XCME.OZN.AUG25.%", DAY),
    ),
    "all_valid": ({}, "SELECT * FROM m WHERE is_valid = 1 LIMIT 100", ()),
    "by_symbol_and_timerange": (
        {
            "symbol_pattern": "XCME.OZN.AUG25.110.C",
            "start": "2025-03-01T00:00:00Z",
            "end": "2025-09-01T00:00:00Z",
        },
        "SELECT * FROM m WHERE symbol = ? AND timestamp >= ? AND timestamp <= ? "
        "ORDER BY timestamp LIMIT 100",
        ("XCME.OZN.AUG25.110.C", "2025-03-01T00:00:00Z", "2025-09-01T00:00:00Z"),
    ),
    "by_price_range": (
        {"min_price": 0.4, "max_price": 0.41},
        "SELECT * FROM m WHERE coalesce(price, (bid + ask) / 2) >= ? AND "
        "coalesce(price, (bid + ask) / 2) <= ? ORDER BY coalesce(price, (bid + ask) / 2) LIMIT 100",
        (0.4, 0.41),
    ),
    "widest_spread": ({}, "SELECT * FROM m ORDER BY ask - bid DESC LIMIT 100", ()),
    "narrowest_spread": (
        {},
        "SELECT * FROM m WHERE ask - bid IS NOT NULL ORDER BY ask - bid LIMIT 100",
        (),
    ),
    "latest_per_symbol": (
        {"symbol_pattern": "XCME.OZN.AUG25.11%"},
        "SELECT *, max(timestamp) FROM m WHERE symbol LIKE ? GROUP BY symbol LIMIT 100",
        ("XCME.OZN.AUG25.11%",),
    ),
    "two_symbols_at_time": (
        {
            "symbol_a": "XCME.OZN.AUG25.110.C",
            "symbol_b": "XCME.OZN.AUG25.115.P",
            "timestamp": "2025-06-01T00:00:00Z",
        },
        "SELECT *, max(timestamp) FROM m WHERE symbol IN (?, ?) AND timestamp <= ? GROUP BY symbol",
        ("XCME.OZN.AUG25.110.C", "XCME.OZN.AUG25.115.P", "2025-06-01T00:00:00Z"),
    ),
}


def measure(rows: int) -> None:
    """All ratios at so many rows."""
    print(f"-- {rows:,} rows")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        file = root / "rows.parquet"
        duck = duckdb.connect()
        duck.execute(f"COPY ({MAKE.format(rows=rows)}) TO '{file}' (FORMAT parquet)")
        start = time.perf_counter()
        load(root / "market_data.db", file, AT)
        print(f"loaded in {time.perf_counter() - start:.0f} s")
        table = MarketData(root / "market_data.db")
        indexed = bare(file, root / "indexed.db", True)
        plain = bare(file, root / "plain.db", False)
        for name, (params, query, values) in FLOORS.items():
            ours = timed(lambda n=name, p=params: table.run(n, p))  # type: ignore[misc]
            floor = timed(lambda q=query, v=values: indexed.execute(q, v).fetchall())  # type: ignore[misc]
            line(f"{name} LIMIT 100", ours, "SQLite indexed", floor, "<= 1.5")
            if name in ("by_date", "by_symbol_and_date"):
                slow = timed(lambda q=query, v=values: plain.execute(q, v).fetchall(), 3)  # type: ignore[misc]
                line(f"{name} LIMIT 100", ours, "SQLite plain", slow, "<= 0.0033")
        rare = {"symbol_pattern": "%.599.P"}
        ours = timed(lambda: table.run("by_symbol", rare))
        slow = timed(
            lambda: plain.execute(
                "SELECT * FROM m WHERE symbol LIKE '%.599.P' LIMIT 100"
            ).fetchall()
        )
        line("rare suffix LIMIT 100", ours, "SQLite plain", slow, "(anchor 2.1 against 170 ms)")
        _table_to_json(table, duck, file, plain)
        _statistics(table, duck, file, plain)


def _table_to_json(table: MarketData, duck: Any, file: Path, plain: sqlite3.Connection) -> None:
    query = f"SELECT * FROM '{file}' WHERE file_date >= '2025-03' LIMIT 10000"

    def ours() -> bytes:
        found = table.run("all_valid", {}, limit=10_000)
        return msgspec.json.encode(found.wire())

    def by_dicts() -> str:
        cursor = plain.execute("SELECT * FROM m WHERE is_valid = 1 LIMIT 10000")
        return json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in cursor])

    mine = timed(ours)
    line("10,000 rows to JSON", mine, "dicts, json.dumps", timed(by_dicts), "<= 0.25")
    try:
        import polars
    except ImportError:
        print("polars is not installed: `make bench` installs it")
        return

    duck.execute(f"CREATE OR REPLACE TABLE m AS SELECT * FROM '{file}'")
    query = "SELECT * FROM m WHERE is_valid = 1 LIMIT 10000"

    def arrow() -> str:
        return str(polars.from_arrow(duck.sql(query).to_arrow_table()).write_json())

    assert len(orjson.loads(arrow())) == 10_000
    line("10,000 rows to JSON", mine, "DuckDB arrow, polars", timed(arrow), "<= 1.3")


def _statistics(table: MarketData, duck: Any, file: Path, plain: sqlite3.Connection) -> None:
    query = (
        "SELECT count(*), count(bid), count(ask), min(bid), max(bid), avg(bid), min(ask), "
        "max(ask), avg(ask) FROM m"
    )
    duck.execute(f"CREATE OR REPLACE TABLE m AS SELECT * FROM '{file}'")
    mine = timed(lambda: table.run("statistics", {}))
    line(
        "statistics", mine, "DuckDB table", timed(lambda: duck.execute(query).fetchall()), "<= 1.2"
    )
    line("statistics", mine, "SQLite", timed(lambda: plain.execute(query).fetchall(), 1), "")
    theirs = duck.execute(query).fetchone()
    found = table.run("statistics", {}).rows[0]
    assert abs(found.bid_avg - theirs[5]) < 1e-6
    assert found.records == theirs[0]


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["1000000", "10000000"]:
        measure(int(argument))
