"""The log of market searches: table `prediction_queries` in `polymarket_markets.db` (SQLite)."""

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

from orjson import dumps, loads

from beforehand.clock import iso
from beforehand.records.bus import PredictionQuery

SCHEMA = """
CREATE TABLE IF NOT EXISTS prediction_queries (
  id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, user_query TEXT NOT NULL,
  expanded_keywords TEXT NOT NULL, timestamp TEXT NOT NULL, results TEXT NOT NULL,
  platform TEXT DEFAULT 'polymarket', market_ids TEXT, avg_probability REAL,
  total_volume INTEGER, result_count INTEGER NOT NULL, created_at TEXT NOT NULL
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


class Queries:
    """Adds a row for each search and lists them, newest first."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(SCHEMA)

    def add(self, query: PredictionQuery) -> int:
        """Store a search; returns its id."""
        row = {
            **query.model_dump(exclude={"id"}),
            "expanded_keywords": dumps(query.expanded_keywords).decode(),
            "results": dumps(query.results).decode(),
            "market_ids": dumps(query.market_ids).decode(),
            "timestamp": _stamp(query.timestamp),
            "created_at": _stamp(query.created_at),
        }
        made = self._db.execute(
            f"INSERT INTO prediction_queries ({', '.join(COLUMNS)}) "
            f"VALUES ({', '.join('?' * len(COLUMNS))})",
            [row[name] for name in COLUMNS],
        )
        return int(made.lastrowid or 0)

    def history(
        self,
        until: datetime,
        session_id: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = 10,
        platform: str = "polymarket",
    ) -> list[PredictionQuery]:
        """Searches made by `until`, newest first."""
        where, values = ["timestamp <= ?", "platform = ?"], [_stamp(until), platform]
        for condition, value in (
            ("session_id = ?", session_id),
            ("timestamp >= ?", None if start is None else _stamp(start)),
            ("timestamp <= ?", None if end is None else _stamp(end)),
        ):
            if value is not None:
                where.append(condition)
                values.append(value)
        rows = self._db.execute(
            f"SELECT id, {', '.join(COLUMNS)} FROM prediction_queries WHERE {' AND '.join(where)} "
            "ORDER BY timestamp DESC, id DESC LIMIT ?",
            [*values, limit],
        )
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
