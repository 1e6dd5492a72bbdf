"""What was asked of outside services, shared by every process of a home folder (SQLite), or of
several machines (Postgres).

Three small tables: the calls of the last minutes (for limits that hold in any rolling window),
the gates (a poll not before its next window, a service that asked for a pause, an open circuit),
and the failures in a row. Times are seconds since 1970; if the clock steps back, no wait gets
shorter or longer.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from beforehand.errors import BeforehandError, Corrupt
from beforehand.store.database import Database, Transaction

_SCHEMA = """
CREATE TABLE IF NOT EXISTS traffic_calls (bucket TEXT NOT NULL, at DOUBLE PRECISION NOT NULL);
CREATE INDEX IF NOT EXISTS traffic_calls_by_bucket ON traffic_calls (bucket, at);
CREATE TABLE IF NOT EXISTS traffic_gates (
  name TEXT PRIMARY KEY, made DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION NOT NULL,
  reason TEXT
);
CREATE TABLE IF NOT EXISTS traffic_failures (
  provider TEXT PRIMARY KEY, in_a_row INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL
);
"""
_NEWEST = """
SELECT max(at), min(at), (
  SELECT at FROM traffic_calls WHERE bucket = :bucket ORDER BY at DESC LIMIT 1 OFFSET :skip
) FROM traffic_calls WHERE bucket = :bucket
"""
MARGIN = 0.25
"""Seconds added to each window: calls leave here evenly and may arrive bunched."""
FORGET = 600.0
"""Seconds after which a failure no longer counts towards those in a row."""


Shut = tuple[float, str] | None
"""(seconds left, reason) of a gate that is shut."""


class Ledger:
    """Safe for threads and processes; each method is one short transaction."""

    def __init__(self, address: Path | str) -> None:
        """`address` is a SQLite file or a `postgresql://` URL."""
        self._database, self._made = Database(address, durable=False), False

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def take(self, limits: Sequence[tuple[str, int, float]], now: float) -> float:
        """Claim one call in every (bucket, calls, seconds) and return 0.0; or claim nothing and
        return how many seconds to wait."""
        with self._transaction() as db:
            now = db.epoch(now)
            wait = 0.0
            for bucket, calls, seconds in limits:
                window = seconds + MARGIN
                gone = now - window
                newest, oldest, last_but = db.run(_NEWEST, bucket=bucket, skip=calls - 1)[0]
                if newest is not None and newest > now:
                    # After a clock that stepped back, calls "from the future" count as made now.
                    db.run(
                        "UPDATE traffic_calls SET at = :now WHERE bucket = :bucket AND at > :now",
                        now=now,
                        bucket=bucket,
                    )
                    last_but = None if last_but is None else min(last_but, now)
                if oldest is not None and oldest <= gone:
                    db.run(
                        "DELETE FROM traffic_calls WHERE bucket = :bucket AND at <= :gone",
                        bucket=bucket,
                        gone=gone,
                    )
                if last_but is not None and last_but > gone:
                    wait = max(wait, last_but + window - now)
            if wait <= 0.0:
                db.many(
                    "INSERT INTO traffic_calls VALUES (:bucket, :at)",
                    [{"bucket": bucket, "at": now} for bucket, _, _ in limits],
                )
            return max(wait, 0.0)

    def count(self, bucket: str, seconds: float, now: float) -> int:
        """How many calls of a bucket lie in the last `seconds`."""
        with self._transaction() as db:
            gone = db.epoch(now) - seconds - MARGIN
            found = db.run(
                "SELECT count(*) FROM traffic_calls WHERE bucket = :bucket AND at > :gone",
                bucket=bucket,
                gone=gone,
            )
        return int(found[0][0])

    def claim(self, name: str, now: float, seconds: float, reason: str) -> tuple[float, str] | None:
        """Shut a gate for `seconds` and return None; if it is shut already, return (seconds left,
        reason)."""
        with self._transaction() as db:
            now = db.epoch(now)
            shut = _gate(db, name, now)
            if shut is None:
                _put_gate(db, name, now, seconds, reason)
            return shut

    def shut(self, name: str, now: float, seconds: float, reason: str) -> None:
        """Keep a gate shut for at least `seconds`."""
        with self._transaction() as db:
            now = db.epoch(now)
            held = _gate(db, name, now)
            if held is None or held[0] < seconds:
                _put_gate(db, name, now, seconds, reason)

    def open(self, name: str) -> None:
        """Open a gate again: the call that it was shut for did not happen."""
        with self._transaction() as db:
            db.run("DELETE FROM traffic_gates WHERE name = :name", name=name)

    def gate(self, name: str, now: float) -> tuple[float, str] | None:
        """(seconds left, reason) of a gate that is shut."""
        with self._transaction() as db:
            return _gate(db, name, db.epoch(now))

    def standing(self, provider: str, now: float) -> tuple[Shut, Shut, int]:
        """(the pause it asked for, its open circuit, its failures in a row), in one look. A gate is
        (seconds left, reason), or None where it is open."""
        names = [f"pause/{provider}", f"circuit/{provider}"]
        with self._there().read() as db:
            now = db.epoch(now)
            gates = db.run(
                "SELECT name, made, until, reason FROM traffic_gates WHERE name IN :names",
                names=names,
            )
            rows = db.run(
                "SELECT in_a_row FROM traffic_failures WHERE provider = :name "
                "AND abs(at - :now) <= :forget",
                name=provider,
                now=now,
                forget=FORGET,
            )
        failures = int(rows[0][0]) if rows else 0
        if any(now < made for _, made, _, _ in gates):  # The clock stepped back: set it right.
            pause, circuit = (self.gate(name, now) for name in names)
            return pause, circuit, failures
        left = {
            name: (until - now, reason or "") for name, _, until, reason in gates if until > now
        }
        return left.get(names[0]), left.get(names[1]), failures

    def succeeded(self, provider: str) -> None:
        """A call was answered: the count of failures in a row starts again. Never raises: an answer
        that may have cost money is not thrown away because a counter cannot be written."""
        with suppress(BeforehandError), self._transaction() as db:
            db.run("DELETE FROM traffic_failures WHERE provider = :name", name=provider)

    def failed(self, provider: str, now: float) -> int:
        """A call failed; returns the failures in a row (old ones are forgotten)."""
        with self._transaction() as db:
            now = db.epoch(now)
            db.run(
                "DELETE FROM traffic_failures WHERE provider = :name AND abs(at - :now) > :forget",
                name=provider,
                now=now,
                forget=FORGET,
            )
            rows = db.run(
                "INSERT INTO traffic_failures VALUES (:name, 1, :now) ON CONFLICT (provider) "
                "DO UPDATE SET in_a_row = traffic_failures.in_a_row + 1, at = excluded.at "
                "RETURNING in_a_row",
                name=provider,
                now=now,
            )
            return int(rows[0][0])

    def _transaction(self) -> AbstractContextManager[Transaction]:
        return self._there().write("traffic")

    def _there(self) -> Database:
        """The database with its tables: who only reads a home that is read-only counts nothing."""
        if not self._made:
            try:
                self._database.create(_SCHEMA)
            except Corrupt as error:
                raise Corrupt(
                    f"{error}: delete it, it holds counters of the last hours only"
                ) from None
            self._made = True
        return self._database


def _gate(db: Transaction, name: str, now: float) -> tuple[float, str] | None:
    rows = db.run("SELECT made, until, reason FROM traffic_gates WHERE name = :name", name=name)
    if not rows:
        return None
    made, until, reason = rows[0]
    if now < made:  # The clock stepped back: the gate was shut no later than now.
        until = now + until - made
        db.run(
            "UPDATE traffic_gates SET made = :now, until = :until WHERE name = :name",
            now=now,
            until=until,
            name=name,
        )
    return None if until <= now else (until - now, reason or "")


def _put_gate(db: Transaction, name: str, now: float, seconds: float, reason: str) -> None:
    db.run(
        "INSERT INTO traffic_gates VALUES (:name, :now, :until, :reason) ON CONFLICT (name) "
        "DO UPDATE SET made = excluded.made, until = excluded.until, reason = excluded.reason",
        name=name,
        now=now,
        until=now + seconds,
        reason=reason,
    )
