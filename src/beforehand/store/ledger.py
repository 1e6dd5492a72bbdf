"""What was asked of outside services, shared by every process of a home folder (SQLite).

Three small tables: the calls of the last minutes (for limits that hold in any rolling window),
the gates (a poll not before its next window, a service that asked for a pause, an open circuit),
and the failures in a row. Times are seconds since 1970; a clock that steps back shortens nothing
and lengthens no wait.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from beforehand.errors import Corrupt, Unavailable

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (bucket TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS calls_by_bucket ON calls (bucket, at);
CREATE TABLE IF NOT EXISTS gates (
  name TEXT PRIMARY KEY, made REAL NOT NULL, until REAL NOT NULL, reason TEXT
);
CREATE TABLE IF NOT EXISTS failures (
  provider TEXT PRIMARY KEY, in_a_row INTEGER NOT NULL, at REAL NOT NULL
);
"""
MARGIN = 0.1
"""Seconds added to each window: calls leave here evenly and may arrive bunched."""
FORGET = 600.0
"""Seconds after which a failure no longer counts towards those in a row."""


class Ledger:
    """Safe for threads and processes; each method is one short transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._transaction() as db:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{path} cannot be opened for writing: {error}") from None
        except sqlite3.DatabaseError as error:
            raise Corrupt(
                f"{path} is damaged ({error}): delete it, it holds counters of the last hours only"
            ) from None

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
                db.execute(
                    "REPLACE INTO gates VALUES (?, ?, ?, ?)", (name, now, now + seconds, reason)
                )
            return shut

    def shut(self, name: str, now: float, seconds: float, reason: str) -> None:
        """Keep a gate shut for so long at least."""
        with self._transaction() as db:
            held = _gate(db, name, now)
            if held is None or held[0] < seconds:
                db.execute(
                    "REPLACE INTO gates VALUES (?, ?, ?, ?)", (name, now, now + seconds, reason)
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
        """A call came back: the failures in a row start anew. Never fails: an answer that may
        have cost money is not thrown away for want of a counter."""
        with suppress(sqlite3.Error), self._transaction() as db:
            db.execute("DELETE FROM failures WHERE provider = ?", (provider,))

    def failed(self, provider: str, now: float) -> int:
        """A call failed; returns the failures in a row (old ones are forgotten)."""
        with self._transaction() as db:
            db.execute(
                "DELETE FROM failures WHERE provider = ? AND abs(at - ?) > ?",
                (provider, now, FORGET),
            )
            row = db.execute(
                "INSERT INTO failures VALUES (?, 1, ?) ON CONFLICT (provider) DO UPDATE SET "
                "in_a_row = in_a_row + 1, at = excluded.at RETURNING in_a_row",
                (provider, now),
            ).fetchone()
            return int(row[0])

    def failures(self, provider: str, now: float) -> int:
        """The failures in a row so far."""
        with self._transaction() as db:
            row = db.execute(
                "SELECT in_a_row FROM failures WHERE provider = ? AND abs(at - ?) <= ?",
                (provider, now, FORGET),
            ).fetchone()
            return 0 if row is None else int(row[0])

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
    row = db.execute("SELECT made, until, reason FROM gates WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    made, until, reason = row
    if now < made:  # The clock stepped back: the gate was shut no later than now.
        until = now + until - made
        db.execute("UPDATE gates SET made = ?, until = ? WHERE name = ?", (now, until, name))
    return None if until <= now else (until - now, reason or "")
