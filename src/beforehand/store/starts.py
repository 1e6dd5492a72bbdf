"""Runs that were started over HTTP, by the key that their client gave (Idempotency-Key): the same
request sent again starts nothing, also after a crash."""

from datetime import datetime
from pathlib import Path

from beforehand.clock import to_us
from beforehand.errors import InputError
from beforehand.store.database import Database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS starts (
  holder TEXT NOT NULL, start_key TEXT NOT NULL, digest TEXT NOT NULL, run_id TEXT NOT NULL,
  created_at BIGINT NOT NULL, PRIMARY KEY (holder, start_key)
)
"""


def started_by(database: Database) -> dict[str, str]:
    """Whose token started each run over HTTP, by the run's id. Only reads."""
    if "starts" not in database.tables():
        return {}
    with database.read() as db:
        rows = db.run("SELECT run_id, holder FROM starts WHERE holder <> ''")
    return {str(run): str(holder) for run, holder in rows}


class Starts:
    """Safe for threads and processes."""

    def __init__(self, address: Path | str) -> None:
        """`address` is a SQLite file or a `postgresql://` URL."""
        self._database = Database(address)
        self._database.create(_SCHEMA)

    def claim(
        self, holder: str, key: str, digest: str, run_id: str, now: datetime
    ) -> tuple[str, bool]:
        """The run that this key of this holder stands for (`run_id` if the key is new), and whether
        the key is new. Raises InputError for a key that stands for another request."""
        with self._database.write("starts") as db:
            made = db.run(
                "INSERT INTO starts VALUES (:holder, :key, :digest, :run_id, :now) "
                "ON CONFLICT (holder, start_key) DO NOTHING RETURNING run_id",
                holder=holder,
                key=key,
                digest=digest,
                run_id=run_id,
                now=to_us(now),
            )
            ((held, run),) = db.run(
                "SELECT digest, run_id FROM starts WHERE holder = :holder AND start_key = :key",
                holder=holder,
                key=key,
            )
        if held != digest:
            raise InputError(
                f"Idempotency-Key {key[:80]!r} was used for another request: each request has its "
                "own key"
            )
        return str(run), bool(made)

    def drop(self, holder: str, key: str) -> None:
        """Forget a key whose request was refused: it started nothing."""
        with self._database.write("starts") as db:
            db.run(
                "DELETE FROM starts WHERE holder = :holder AND start_key = :key",
                holder=holder,
                key=key,
            )

    def runs(self) -> list[str]:
        """Every run that was started, the last one first."""
        with self._database.read() as db:
            rows = db.run("SELECT run_id FROM starts ORDER BY created_at DESC")
        return [str(row[0]) for row in rows]

    def of(self, holder: str) -> list[str]:
        """The runs that this holder started."""
        with self._database.read() as db:
            rows = db.run("SELECT run_id FROM starts WHERE holder = :holder", holder=holder)
        return [str(row[0]) for row in rows]

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()
