"""The log of market searches: table `prediction_queries` in `polymarket_markets.db` (SQLite)."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from orjson import dumps, loads

from beforehand.clock import iso
from beforehand.errors import Unavailable
from beforehand.records.bus import PredictionQuery

SCHEMA = """
CREATE TABLE IF NOT EXISTS prediction_queries (
  id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, user_query TEXT NOT NULL,
  expanded_keywords TEXT NOT NULL, timestamp TEXT NOT NULL, results TEXT NOT NULL,
  platform TEXT DEFAULT 'polymarket', market_ids TEXT, avg_probability REAL,
  total_volume INTEGER, result_count INTEGER NOT NULL, created_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS query_holders (
  query_id INTEGER PRIMARY KEY REFERENCES prediction_queries (id), holder TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_session_id ON prediction_queries (session_id);
CREATE INDEX IF NOT EXISTS idx_timestamp ON prediction_queries (timestamp);
CREATE INDEX IF NOT EXISTS idx_platform ON prediction_queries (platform);
"""
COLUMNS = (
    "session_id",
    "user_query",
    "expanded_keywords",
    "timestamp",
    "results",
    "platform",
    "market_ids",
    "avg_probability",
    "total_volume",
    "result_count",
    "created_at",
)


BUSY_S = 5.0
MOST_KEPT, LOOK_EACH = 10_000, 100
"""Searches kept of each holder, the newest ones; looked at after each so many."""
_OLD = """
SELECT id FROM (
  SELECT id, row_number() OVER (PARTITION BY holder ORDER BY id DESC) AS n
  FROM prediction_queries LEFT JOIN query_holders ON query_id = id
) WHERE n > :most
"""


class QueryLog:
    """Adds a row for each search and lists them, newest first. Safe for threads. A user of a server
    (`holder`) sees only that user's rows; the owner of this machine, who has no holder name, sees
    only rows without one. The newest 10,000 of each are kept. Raises Unavailable where the file is
    locked or cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path, self._writing = path, threading.Lock()
        with self._mapped():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer, self._reader = (self._connect() for _ in range(2))
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.executescript(SCHEMA)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise Unavailable(
                f"the log of searches, {self._path}, cannot be used: {error}"
            ) from None

    def add(self, query: PredictionQuery, holder: str | None = None) -> int:
        """Store a search; returns its id."""
        row = {
            **query.model_dump(exclude={"id"}),
            "expanded_keywords": dumps(query.expanded_keywords).decode(),
            "results": dumps(query.results).decode(),
            "market_ids": dumps(query.market_ids).decode(),
            "timestamp": _stamp(query.timestamp),
            "created_at": _stamp(query.created_at),
        }
        with self._mapped(), self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                made = self._writer.execute(
                    f"INSERT INTO prediction_queries ({', '.join(COLUMNS)}) "
                    f"VALUES ({', '.join('?' * len(COLUMNS))})",
                    [row[name] for name in COLUMNS],
                )
                if holder is not None:
                    values = (made.lastrowid, holder)
                    self._writer.execute("INSERT INTO query_holders VALUES (?, ?)", values)
                if made.lastrowid and made.lastrowid % LOOK_EACH == 0:
                    self._forget_old()
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")
        return int(made.lastrowid or 0)

    def _forget_old(self) -> None:
        old = self._writer.execute(_OLD, {"most": MOST_KEPT}).fetchall()
        self._writer.executemany("DELETE FROM query_holders WHERE query_id = ?", old)
        self._writer.executemany("DELETE FROM prediction_queries WHERE id = ?", old)

    def history(
        self,
        until: datetime,
        session_id: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = 10,
        platform: str = "polymarket",
        holder: str | None = None,
        pinned: bool = False,
    ) -> list[PredictionQuery]:
        """Searches as of `until` or earlier, by authors who could see no later than `until`, newest
        first. The owner of this machine gets the ids of the rows, as the table has them. Where it
        is `pinned` to an instant, and for a holder, ids number the visible rows only: those of the
        table would show how many searches came later, or were other people's."""
        where = ["timestamp <= ?"]
        values: list[Any] = [_stamp(until), platform, holder, _stamp(until)]
        for condition, value in (
            ("session_id = ?", session_id),
            ("timestamp >= ?", None if start is None else _stamp(start)),
            ("timestamp <= ?", None if end is None else _stamp(end)),
        ):
            if value is not None:
                where.append(condition)
                values.append(value)
        number = "id" if holder is None and not pinned else "n"
        with self._mapped():
            rows = self._reader.execute(
                f"SELECT {number}, {', '.join(COLUMNS)} FROM (SELECT *, row_number() OVER "
                "(ORDER BY created_at, timestamp, id) AS n "
                "FROM prediction_queries LEFT JOIN query_holders "
                "ON query_id = id WHERE created_at <= ? AND platform = ? AND holder IS ?) "
                f"WHERE {' AND '.join(where)} ORDER BY timestamp DESC, n DESC LIMIT ?",
                [*values, limit],
            ).fetchall()
        return [_row(("id", *COLUMNS), row) for row in rows]


def _stamp(instant: datetime) -> str:
    """ISO 8601 of one length, so that text order is time order."""
    text = iso(instant)
    return text if "." in text else text.replace("Z", ".000000Z")


def _row(names: tuple[str, ...], row: tuple[Any, ...]) -> PredictionQuery:
    values = dict(zip(names, row, strict=True))
    for name in ("expanded_keywords", "results", "market_ids"):
        values[name] = loads(values[name] or "[]")
    return PredictionQuery.model_validate(values)
