"""The market-data table: documented columns and query templates, parameters only, never SQL from
outside.

    workspace/market_data.db        SQLite: rows and indexes, for the templates that return rows
    workspace/market_data/*.duckdb  the same rows as columns, one file a load, for the templates
                                    that return statistics (DuckDB, opened read-only)

A load is visible once its SQLite transaction is committed; a file that no load lists is ignored.
LIKE has one rule everywhere: `%` is any run, `_` one character, letters of ASCII match in either
case, nothing is escaped. Patterns are matched against the list of symbols once, by SQLite, and both
engines are then given the symbols themselves.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from queue import LifoQueue
from typing import Any

import msgspec

from beforehand.config import MAX_ROWS_PER_QUERY
from beforehand.errors import Corrupt, InputError, NotConfigured, Unavailable
from beforehand.store.market_data.templates import (
    COLUMNS,
    TEMPLATES,
    QueryPlan,
    Template,
    Values,
    check_params,
)

SAMPLE, READERS = 5, 4
SCHEMA = """
CREATE TABLE IF NOT EXISTS market_data (
  id INTEGER PRIMARY KEY, symbol TEXT NOT NULL, bid REAL, ask REAL, price REAL,
  bid_quantity REAL, offer_quantity REAL, timestamp TEXT NOT NULL, file_date TEXT NOT NULL,
  data_source TEXT, is_valid INTEGER NOT NULL, created_at TEXT NOT NULL,
  created_us INTEGER NOT NULL, timestamp_us INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS symbols (symbol TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS symbols_any_case ON symbols (symbol COLLATE NOCASE);
CREATE TABLE IF NOT EXISTS loads (
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, columns TEXT,
  rows INTEGER NOT NULL, same INTEGER NOT NULL, rejected INTEGER NOT NULL, rejects TEXT,
  loaded_at TEXT NOT NULL
);
"""
INDEXES = {
    "by_date": "market_data (file_date, id)",
    "by_symbol_date": "market_data (symbol, file_date, id)",
    "by_symbol_time": "market_data (symbol, timestamp_us, id)",
    "by_value": "market_data (coalesce(price, (bid + ask) / 2))",
    "by_spread": "market_data (ask - bid) WHERE bid IS NOT NULL AND ask IS NOT NULL",
}


def connect(path: Path) -> sqlite3.Connection:
    """The database with its schema, made if need be. Raises Unavailable and Corrupt."""
    with _mapped(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.executescript(SCHEMA)
    return db


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    """Database errors as ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(f"{path} cannot be used: {error}") from None
    except sqlite3.DatabaseError as error:
        raise Corrupt(f"{path} is damaged ({error}): delete it and load the files again") from None


@dataclass(frozen=True)
class QueryResult:
    """Rows of a query: `rows` are structs named by `columns`; whether there are `more`."""

    rows: list[Any]
    columns: tuple[str, ...]
    query: str
    params: list[Any]
    more: bool = False

    def wire(self) -> dict[str, object]:
        """The documented answer."""
        return {
            "data": self.rows,
            "metadata": {
                "query": self.query,
                "params": self.params,
                "row_count": len(self.rows),
                "sample": self.rows[:SAMPLE],
                "columns": ", ".join(self.columns),
            },
        }


class MarketData:
    """Read-only queries by template. Safe for threads: READERS queries go side by side."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise NotConfigured(
                f"there is no market-data table at {path}: load one with `beforehand world import "
                "market-data FILE` (CSV or Parquet)"
            )
        self.path = path
        self._idle: LifoQueue[_Reader | None] = LifoQueue()
        for reader in (*[None] * (READERS - 1), _Reader(path)):  # The others: when needed.
            self._idle.put(reader)

    @contextmanager
    def _reader(self) -> Iterator["_Reader"]:
        reader = self._idle.get()
        try:
            with _mapped(self.path):
                reader = reader or _Reader(self.path)
                yield reader
        finally:
            self._idle.put(reader)

    def run(
        self,
        template: str,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        limit: int = 100,
        as_of_us: int | None = None,
        offset: int = 0,
    ) -> QueryResult:
        """Rows of a template. `as_of_us` leaves out rows created later (microseconds).

        Raises InputError naming what is allowed on an unknown template, column or parameter.
        """
        if template not in TEMPLATES:
            raise InputError(f"unknown template {template!r}: one of {', '.join(TEMPLATES)}")
        if not 1 <= limit <= MAX_ROWS_PER_QUERY:
            raise InputError(f"limit must lie between 1 and {MAX_ROWS_PER_QUERY:,}, not {limit:,}")
        spec = TEMPLATES[template]
        values = check_params(template, params or {})
        names = _columns(template, columns)
        with self._reader() as reader:
            return reader.run(spec, values, names, limit, as_of_us, offset)

    def symbols(self, pattern: str) -> list[str]:
        """Every symbol that matches, by the one LIKE rule."""
        with self._reader() as reader:
            return reader.symbols(pattern)

    def count(self) -> int:
        """Rows stored."""
        with self._reader() as reader:
            return reader.count()


def _filled(query: str, n: int, ours: Sequence[int]) -> str:
    """The statement with our own numbers (the latest time, the limit, the offset) in place of the
    marks after the first `n`: with its params it can be carried out as it stands."""
    if "?1" in query:  # Its marks are numbered, as some are used twice.

        def number(mark: re.Match[str]) -> str:
            place = int(mark[1]) - n
            return str(ours[place - 1]) if place > 0 else mark[0]

        return re.sub(r"\?(\d+)", number, query)
    parts = query.split("?")
    marks = ["?"] * n + [str(number) for number in ours]
    return "".join(part + mark for part, mark in zip(parts, [*marks, ""], strict=True))


class _Reader:
    """The connections of one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = connect(path)
        for pragma in ("query_only=ON", "mmap_size=4294967296", "cache_size=-65536"):
            self._db.execute(f"PRAGMA {pragma}")
        self._duck: Any = None
        self._attached: set[str] = set()

    def run(
        self,
        spec: Template,
        values: Values,
        names: tuple[str, ...],
        limit: int,
        as_of_us: int | None,
        offset: int,
    ) -> QueryResult:
        plan = spec.plan(values)
        known = 2**62 if as_of_us is None else as_of_us
        if spec.statistics:
            rows, query, used = self._statistics(plan, known, limit + 1, offset)
        else:
            query, used = plan.sql(names), [*plan.values, known, limit + 1, offset]
            rows = self._db.execute(query, used).fetchall()
        made, n = _struct(names), len(plan.values)
        stated = _filled(query, n, (known, limit, offset))
        shown = [made(*row) for row in rows[:limit]]  # The one after them says that there are more.
        return QueryResult(shown, names, stated, used[:n], len(rows) > limit)

    def symbols(self, pattern: str) -> list[str]:
        """Every symbol that matches, by the one LIKE rule."""
        found = self._db.execute(
            "SELECT symbol FROM symbols WHERE symbol LIKE ? ORDER BY symbol", (pattern,)
        )
        return [row[0] for row in found]

    def count(self) -> int:
        """Rows stored."""
        return int(self._db.execute("SELECT coalesce(sum(rows), 0) FROM loads").fetchone()[0])

    def _statistics(
        self, plan: QueryPlan, known: int, limit: int, offset: int
    ) -> tuple[list[Any], str, list[Any]]:
        values: list[Any] = [
            self.symbols(value) if is_pattern else value
            for value, is_pattern in zip(plan.values, plan.patterns, strict=True)
        ]
        source = self._columns_of_all_loads()
        if source is None:
            return [], plan.text, [*plan.values]
        query = plan.text.replace("FROM market_data", f"FROM {source}")
        rows = self._duck.execute(query, [*values, known, limit, offset]).fetchall()
        return rows, plan.text, [*plan.values]

    def _columns_of_all_loads(self) -> str | None:
        """What to select from: the columns of every committed load, attached read-only."""
        import duckdb

        if self._duck is None:
            self._duck = duckdb.connect()
        loads = self._db.execute("SELECT id, columns FROM loads WHERE rows > 0 ORDER BY id")
        names = []
        for number, file in loads.fetchall():
            name = f"load_{number}"
            if name not in self._attached:
                path = str(self._path.with_suffix("") / file).replace("'", "''")
                try:
                    self._duck.execute(f"ATTACH '{path}' AS {name} (READ_ONLY)")
                except duckdb.Error:
                    raise Corrupt(
                        f"{file} beside {self._path} is missing or damaged: delete the table and "
                        "load the files again"
                    ) from None
                self._attached.add(name)
            names.append(f"{name}.market_data")
        if len(names) < 2:
            return names[0] if names else None
        return "(" + " UNION ALL ".join(f"SELECT * FROM {name}" for name in names) + ")"


def _columns(template: str, columns: Sequence[str] | None) -> tuple[str, ...]:
    own = TEMPLATES[template].columns
    if columns is None:
        return own
    if own != COLUMNS:
        raise InputError(f"{template} has its own columns ({', '.join(own)}): leave out `columns`")
    if not columns:
        raise InputError("`columns` is empty: name some, or leave it out for all")
    if unknown := [name for name in columns if name not in COLUMNS]:
        raise InputError(f"unknown column {unknown[0]!r}: allowed are {', '.join(COLUMNS)}")
    if len(set(columns)) != len(columns):
        raise InputError("a column is named twice")
    return tuple(columns)


@lru_cache(maxsize=256)
def _struct(names: tuple[str, ...]) -> type[msgspec.Struct]:
    """A struct type for these columns: rows become JSON three times faster than as dicts."""
    return msgspec.defstruct("Row", [(name, Any) for name in names], gc=False)
