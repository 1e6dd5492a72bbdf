"""Heartbeats: which processes are at work, so that the work of the dead can be taken over."""

from beforehand.clock import Clock, SystemClock, epoch, iso
from beforehand.store.database import Database


class Workers:
    """The journal's table of processes. Safe for threads and processes."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database, self._clock = database, clock or SystemClock()

    def beat(self, worker_id: str, host: str, pid: int) -> None:
        """A worker's heartbeat."""
        with self._database.write() as tx:
            tx.run(
                "INSERT INTO workers VALUES (:id, :host, :pid, :now, :at) ON CONFLICT (worker_id) "
                "DO UPDATE SET beat_at = excluded.beat_at",
                id=worker_id,
                host=host,
                pid=pid,
                now=iso(self._clock.now()),
                at=tx.epoch(epoch(self._clock.now())),
            )

    def rest(self, worker_id: str) -> None:
        """A worker ends of its own will."""
        with self._database.write() as tx:
            tx.run("DELETE FROM workers WHERE worker_id = :id", id=worker_id)

    def living(self, stale: float) -> set[str]:
        """The workers whose last beat is no older than `stale` seconds; the long dead are
        forgotten."""
        with self._database.write() as tx:
            now = tx.epoch(epoch(self._clock.now()))
            tx.run("DELETE FROM workers WHERE beat_at < :gone", gone=now - 3600.0)
            rows = tx.run("SELECT worker_id FROM workers WHERE beat_at >= :at", at=now - stale)
        return {row[0] for row in rows}
