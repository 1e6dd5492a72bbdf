"""A process that takes part in the runs of a shared database."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypedDict

from beforehand.config import Workspace
from beforehand.engine.job import Job
from beforehand.engine.runs import Allowed, Reporter, carry_on, new_runtime, open_job
from beforehand.engine.runtime import Opener, Runtime
from beforehand.errors import Held, NotConfigured
from beforehand.store.archive.remote import fetch, is_url
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import RunRow

ORPHANS_S = 2.0
"""How often a worker looks for runs without a driver."""


class Worked(TypedDict):
    """A worker's id, and how many steps it ran."""

    worker: str
    steps: int


def work(
    workspace: Workspace,
    concurrency: int,
    archive: str | None,
    stop: threading.Event,
    say: Callable[[str], None],
) -> Worked:
    """Take part in every run of the shared database until `stop` is set: steps from the queue,
    and runs whose driver died. `archive` is a folder of this machine, or a URL, which is looked at
    again whenever a run is opened. Returns the worker's id and how many steps it ran. Raises
    NotConfigured without `BEFOREHAND_DATABASE_URL`, and what `fetch` raises."""
    if workspace.database is None:
        raise NotConfigured(
            "a worker needs BEFOREHAND_DATABASE_URL (postgresql://user:password@host:5432/name); "
            "without it a run works in its own process, with SQLite files in the home folder"
        )
    _found(archive, workspace, say)  # A URL that does not answer is told at once.
    pause = threading.Event()
    journal = Journal(Database(workspace.journal), workspace.clock)

    def opener(row: RunRow) -> Job:
        return open_job(row, workspace, _found(archive, workspace, say))

    runtime = new_runtime(journal, workspace, concurrency, opener)

    def leave() -> None:
        stop.wait()
        runtime.leave("cancelled: the worker is shutting down")

    complaints: set[str] = set()
    with runtime:
        threading.Thread(target=leave, daemon=True).start()
        say(f"worker {runtime.worker_id[:12]}: {concurrency} calls at once")
        while not stop.wait(ORPHANS_S):
            if runtime.broken is not None:
                stop.set()
                break
            try:
                rows = journal.runs("running")
                runtime.forget_but([row.run_id for row in rows])
                for row in rows:
                    folder = workspace.home.runs / row.run_id
                    here = Path(row.home) == workspace.home.root
                    ours = here and (folder / "plan.json").is_file()
                    if ours and not stop.is_set():
                        _adopt(row, journal, workspace, runtime, say, opener)
            except Exception as error:  # One bad run, or a moment without a database.
                if str(error) not in complaints:
                    say(f"{type(error).__name__}: {error}")
                complaints.add(str(error))
        while runtime.busy():
            pause.wait(0.05)
    journal.database.close()
    if runtime.broken is not None:
        raise NotConfigured(
            f"this worker cannot open a run although it got one of its steps: {runtime.broken}. "
            "Other workers can take the step. Every worker needs the archive (or --archive), and "
            "the events of a `bench predict`, at the same path as the run"
        )
    return {"worker": runtime.worker_id, "steps": runtime.ran}


def _found(archive: str | None, workspace: Workspace, say: Callable[[str], None]) -> Path | None:
    """The folder of the archive that the user named."""
    if archive is None:
        return None
    return fetch(archive, workspace.home.fetched, say) if is_url(archive) else Path(archive)


def _adopt(
    row: RunRow,
    journal: Journal,
    workspace: Workspace,
    runtime: Runtime,
    say: Callable[[str], None],
    opener: Opener,
) -> None:
    """Drive a run that has no driver; a run that has one is left alone."""
    report = Reporter(lambda run_id: say(f"run {run_id}: its driver ended, this worker takes over"))
    allowed = Allowed(row.limits, row.policy, None)
    try:
        carry_on(row, partial(opener, row), allowed, journal, workspace, report, runtime)
    except Held:
        return
