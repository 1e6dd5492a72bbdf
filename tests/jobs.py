"""Small jobs for the engine, and a runtime over a home folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beforehand.config import Home
from beforehand.engine.plan import Action, Plan, Step
from beforehand.engine.runtime import Runtime, ThreadExecutor
from beforehand.errors import NotFound
from beforehand.store.database import Database
from beforehand.store.journal.calls import Calls
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import RunRow


@dataclass(frozen=True)
class Small:
    """A plan and its actions."""

    plan: Plan
    actions: Mapping[str, Action]

    def close(self) -> None:
        """Nothing was opened."""


def small(actions: Mapping[str, Action], *steps: Step, run_id: str = "r") -> Small:
    return Small(Plan(run_id, steps), actions)


def no_opener(row: RunRow) -> Small:
    raise NotFound(row.run_id)


def open_store(home: Path) -> tuple[Journal, Calls]:
    journal = Journal(Database(Home(home).journal))
    return journal, journal.calls


@contextmanager
def runtime(
    home: Path, run_id: str = "r", concurrency: int = 4, **limits: float
) -> Iterator[Runtime]:
    """A runtime of a run that the journal knows."""
    journal, calls = open_store(home)
    journal.enter(run_id, "small", {}, "f", str(home), limits=limits)
    made = Runtime(journal, no_opener, ThreadExecutor(concurrency), concurrency)
    with made:
        calls.release(run_id, made.worker_id)
        yield made
    journal.database.close()
