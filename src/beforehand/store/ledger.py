"""What was asked of outside services, shared by every process of a home folder (SQLite).

Three small tables: the calls of the last minutes (for limits that hold in any rolling window),
the gates (a poll not before its next window, a service that asked for a pause, an open circuit),
and the failures in a row. Times are seconds since 1970.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (bucket TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS calls_by_bucket ON calls (bucket, at);
CREATE TABLE IF NOT EXISTS gates (name TEXT PRIMARY KEY, until REAL NOT NULL, reason TEXT);
CREATE TABLE IF NOT EXISTS failures (provider TEXT PRIMARY KEY, in_a_row INTEGER NOT NULL);
"""
MARGIN = 0.1
"""Seconds added to each window: calls leave here evenly and may arrive bunched."""


class Ledger:
    """Safe for threads and processes; each method is one short transaction."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._local = threading.local()
        with self._transaction() as db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)

    def take(self, limits: Sequence[tuple[str, int, float]], now: float) -> float:
        """Claim one call in every (bucket, calls, seconds) and return 0.0; or claim nothing and
        return how many seconds to wait."""
        with self._transaction() as db:
            wait = 0.0
            for bucket, calls, seconds in limits:
                window = seconds + MARGIN
                # After a clock that stepped back, calls "from the future" count as made now.
                db.execute(
                    "UPDATE calls SET at = ? WHERE bucket = ? AND at > ?", (now, bucket, now)
                )
                db.execute("DELETE FROM calls WHERE bucket = ? AND at <= ?", (bucket, now - window))
                row = db.execute(
                    "SELECT at FROM calls WHERE bucket = ? ORDER BY at DESC LIMIT 1 OFFSET ?",
                    (bucket, calls - 1),
                ).fetchone()
                if row is not None:
                    wait = max(wait, row[0] + window - now)
            if wait <= 0.0:
                db.executemany(
                    "INSERT INTO calls VALUES (?, ?)", [(bucket, now) for bucket, _, _ in limits]
                )
            return max(wait, 0.0)

    def claim(self, name: str, now: float, seconds: float, reason: str) -> tuple[float, str] | None:
        """Shut a gate for so long and return None; or, where it is shut, (seconds left, why)."""
        with self._transaction() as db:
            shut = _gate(db, name, now)
            if shut is None:
                db.execute("REPLACE INTO gates VALUES (?, ?, ?)", (name, now + seconds, reason))
            return shut

    def shut(self, name: str, until: float, reason: str) -> None:
        """Keep a gate shut until then at least."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO gates VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "reason = CASE WHEN excluded.until > until THEN excluded.reason ELSE reason END, "
                "until = max(until, excluded.until)",
                (name, until, reason),
            )

    def open(self, name: str) -> None:
        """Open a gate again: what it guarded did not happen."""
        with self._transaction() as db:
            db.execute("DELETE FROM gates WHERE name = ?", (name,))

    def gate(self, name: str, now: float) -> tuple[float, str] | None:
        """(seconds left, reason) of a gate that is shut."""
        with self._transaction() as db:
            return _gate(db, name, now)

    def succeeded(self, provider: str) -> None:
        """A call came back: the failures in a row start anew."""
        with self._transaction() as db:
            db.execute("DELETE FROM failures WHERE provider = ?", (provider,))

    def failed(self, provider: str) -> int:
        """A call failed; returns the failures in a row."""
        with self._transaction() as db:
            row = db.execute(
                "INSERT INTO failures VALUES (?, 1) ON CONFLICT (provider) DO UPDATE SET "
                "in_a_row = in_a_row + 1 RETURNING in_a_row",
                (provider,),
            ).fetchone()
            return int(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def _gate(db: sqlite3.Connection, name: str, now: float) -> tuple[float, str] | None:
    row = db.execute("SELECT until, reason FROM gates WHERE name = ?", (name,)).fetchone()
    if row is None or row[0] <= now:
        return None
    return row[0] - now, row[1] or ""
