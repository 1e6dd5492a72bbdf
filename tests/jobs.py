"""Small jobs for the engine, and a runtime over a home folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beforehand.config import Home
from beforehand.engine.plan import Action, Plan, Step
from beforehand.engine.runtime import Runtime
from beforehand.errors import NotFound
from beforehand.store.calls import Calls
from beforehand.store.database import Database
from beforehand.store.journal import Journal, RunRow


@dataclass(frozen=True)
class Small:
    """A plan and its actions."""

    plan: Plan
    actions: Mapping[str, Action]


def small(actions: Mapping[str, Action], *steps: Step, run_id: str = "r") -> Small:
    return Small(Plan(run_id, steps), actions)


def no_opener(row: RunRow) -> Small:
    raise NotFound(row.run_id)


def open_store(home: Path, url: str | None = None) -> tuple[Journal, Calls]:
    database = Database(url or Home(home).journal)
    return Journal(database), Calls(database)


@contextmanager
def runtime(
    home: Path, run_id: str = "r", concurrency: int = 4, url: str | None = None, **limits: float
) -> Iterator[Runtime]:
    """A runtime of a run that the journal knows, embedded unless an address is given."""
    journal, calls = open_store(home, url)
    journal.enter(run_id, "small", {}, "f", str(home), limits=limits)
    made = Runtime(
        journal,
        calls,
        no_opener,
        home=Home(home),
        database_url=url,
        name=run_id,
        concurrency=concurrency,
    )
    with made:
        calls.release(run_id, made.worker_id)
        yield made
    journal.database.close()
