"""What happened in a run, in order: one table of the journal, which `runs watch` follows.

Every event is written in the same transaction as the change it reports. Its number counts up by one
within a run, and no event appears after one with a higher number: on Postgres the run's lock
ensures this.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson

from beforehand.ids import canonical
from beforehand.store.database import Database, Transaction

What = Literal[
    "run begun",
    "run resumed",
    "run taken over",
    "resume asked",
    "run cancelled",
    "run ended",
    "step begun",
    "step ended",
    "call sent",
    "call ended",
]


@dataclass(frozen=True)
class RunEvent:
    """One event: its number in the run, when it happened, the step if it concerns one, and details
    (the status of what ended, the provider of a call, its key)."""

    run_id: str
    number: int
    at: str
    what: What
    task_id: str | None
    detail: dict[str, object]

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def add_event(
    tx: Transaction, run_id: str, at: str, what: What, task_id: str | None = None, **detail: Any
) -> None:
    """Write one event down; on Postgres the transaction holds the run's lock."""
    tx.run(
        "INSERT INTO events SELECT :run_id, COALESCE(MAX(number), 0) + 1, :at, :what, :task_id, "
        ":detail FROM events WHERE run_id = :run_id",
        run_id=run_id,
        at=at,
        what=what,
        task_id=task_id,
        detail=canonical(detail).decode(),
    )


def events_after(database: Database, run_id: str, number: int, most: int = 1000) -> list[RunEvent]:
    """The events of a run after this number, in order, at most `most`."""
    with database.read() as tx:
        rows = tx.run(
            "SELECT run_id, number, at, what, task_id, detail FROM events "
            "WHERE run_id = :run_id AND number > :number ORDER BY number LIMIT :most",
            run_id=run_id,
            number=number,
            most=most,
        )
    return [
        RunEvent(run, number, at, what, task, orjson.loads(detail))
        for run, number, at, what, task, detail in rows
    ]


def was_resumed(database: Database, run_id: str) -> bool:
    """True if somebody has continued this run since it was begun."""
    with database.read() as tx:
        found = tx.run(
            "SELECT 1 FROM events WHERE run_id = :run_id AND what = 'run resumed' LIMIT 1",
            run_id=run_id,
        )
    return bool(found)


def last_number(database: Database, run_id: str) -> int:
    """The number of a run's last event; 0 where it has none."""
    with database.read() as tx:
        ((found,),) = tx.run(
            "SELECT COALESCE(MAX(number), 0) FROM events WHERE run_id = :run_id", run_id=run_id
        )
    return int(found)


def run_lock(run_id: str) -> str:
    """The name of the lock under which a run's events are written."""
    return f"run:{run_id}"
