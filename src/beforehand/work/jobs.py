"""Runs from first step to seal, whatever their kind: start, resume, and open for a worker.

The journal knows of a run before anything else does, so a crash at any line leaves something to
go on from: starting the same run again *is* resuming it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from beforehand.clock import Clock, SystemClock, iso, parse_instant
from beforehand.config import Home, database_url
from beforehand.engine.plan import Action, Plan, Progress
from beforehand.errors import Corrupt, InputError, Unavailable
from beforehand.ids import new_run_id
from beforehand.store.calls import Calls
from beforehand.store.database import Database
from beforehand.store.files import write_json
from beforehand.store.journal import Journal, RunRow
from beforehand.store.runs import LOG, RunFolder
from beforehand.work.benchmark import PredictJob, PredictRequest
from beforehand.work.request import Effort, Request
from beforehand.work.run import BacktestJob

PAID_AT_ONCE = 8
"""Steps, and calls, in flight where forecasters are asked over the network."""


class RunJob(Protocol):
    """What every kind of run offers."""

    kind: str
    folder: RunFolder
    plan: Plan
    actions: Mapping[str, Action]

    @property
    def fingerprint(self) -> str: ...
    @property
    def paid(self) -> dict[str, int]: ...
    def prepare(self) -> None: ...
    def seal(self) -> dict[str, str]: ...
    def summary(self) -> dict[str, Any]: ...


_REQUESTS: dict[str, TypeAdapter[Any]] = {
    "backtest": TypeAdapter(Request),
    "predict": TypeAdapter(PredictRequest),
}


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its summary."""

    folder: RunFolder
    summary: dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What a surface wants to hear: the run's id once it is known, and progress."""

    started: Callable[[str], None] = lambda run_id: None
    progress: Progress = lambda step, done, total: None


QUIET = Told()


def open_journal(home: Home, clock: Clock | None = None) -> tuple[Journal, Calls]:
    """The journal of this home, or the one at `BEFOREHAND_DATABASE_URL`."""
    database = Database(database_url() or home.journal)
    return Journal(database, clock), Calls(database, clock)


def open_job(row: RunRow, clock: Clock | None = None, archive: Path | None = None) -> RunJob:
    """The job of a run on record. Raises InputError if the world is no longer the same."""
    request = _request(row)
    if archive is not None:
        request = replace(request, archive=archive)
    job = _job(request, row.run_id, clock or SystemClock())
    if job.fingerprint != row.fingerprint:
        raise InputError(
            f"run {row.run_id} was begun over another state of {request.archive}, or by another "
            "version of beforehand: begin a new run"
        )
    return job


def start(
    request: Request | PredictRequest,
    run_id: str | None = None,
    clock: Clock | None = None,
    told: Told = QUIET,
) -> Finished:
    """Carry out what is asked, to the end. Raises before anything is written if the request is
    bad; an unfinished run of that id and the same request is gone on with."""
    clock = clock or SystemClock()
    home = Home(request.home)
    name = run_id or new_run_id(clock.now(), lambda n: (home.runs / n).exists())
    job = _job(request, name, clock)
    journal, calls = open_journal(home, clock)
    if run_id is None and journal.run(name) is not None:  # Begun a moment ago, without a folder.
        name = new_run_id(clock.now(), lambda n: journal.run(n) is not None)
        job = _job(request, name, clock)
    if (home.runs / name).exists() and journal.run(name) is None:
        raise _exists(name, home)
    effort = request.effort
    row = journal.enter(
        name,
        job.kind,
        _REQUESTS[job.kind].dump_python(request, mode="json"),
        job.fingerprint,
        str(home.root),
        parent=request.fork.parent if isinstance(request, Request) and request.fork else None,
        limits=effort.limits,
        policy=effort.in_flight,
        most_cost=effort.cost_per_call or 0.0,
    )
    if row.fingerprint != job.fingerprint or row.status == "success":
        raise _exists(name, home)
    return _carry_on(row, job, effort, journal, calls, clock, told)


def resume(
    home: Home,
    run_id: str,
    changes: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    told: Told = QUIET,
) -> Finished:
    """Go on with an unfinished run; `changes` replaces fields of its Effort."""
    clock = clock or SystemClock()
    journal, calls = open_journal(home, clock)
    row = journal.known_run(run_id)
    if row.status == "success":
        raise InputError(f"run {run_id} is finished: `beforehand runs show {run_id}` shows it")
    effort = replace(_request(row).effort, **(changes or {}))
    return _carry_on(row, open_job(row, clock), effort, journal, calls, clock, told)


def _carry_on(
    row: RunRow,
    job: RunJob,
    effort: Effort,
    journal: Journal,
    calls: Calls,
    clock: Clock,
    told: Told,
) -> Finished:
    home, url = Home(Path(row.home)), database_url()
    lock = home.engine / f"{row.run_id}.lock"
    try:
        held = journal.database.hold(f"drive:{row.run_id}", lock)
        held.__enter__()
    except Unavailable:
        raise Unavailable(
            f"run {row.run_id} is being carried out by another process: `beforehand runs watch "
            f"{row.run_id}` follows it"
        ) from None
    try:
        told.started(row.run_id)
        journal.allow(row.run_id, effort.limits, effort.in_flight)
        job.prepare()
        concurrency = effort.concurrency or (PAID_AT_ONCE if url or any(job.paid.values()) else 1)
        _drive(row, job, journal, calls, clock, told, concurrency)
        ended = clock.now()
        write_json(
            job.folder.path / LOG,
            {
                "started_at": row.created_at,
                "finished_at": iso(ended),
                "duration_s": round((ended - parse_instant(row.created_at)).total_seconds(), 3),
            },
        )
        journal.mark(row.run_id, "success", seal=job.seal())
    finally:
        held.__exit__(None, None, None)
    lock.unlink(missing_ok=True)
    return Finished(job.folder, job.summary())


def _drive(
    row: RunRow,
    job: RunJob,
    journal: Journal,
    calls: Calls,
    clock: Clock,
    told: Told,
    concurrency: int,
) -> None:
    """Drive the plan to its end; a run that does not get there is marked, and raises."""
    # Imported here: it takes a second, and listing runs does without.
    from beforehand.engine.driver import drive, raise_for
    from beforehand.engine.runtime import Runtime

    runtime = Runtime(
        journal,
        calls,
        lambda found: open_job(found, clock),
        home=Home(Path(row.home)),
        database_url=database_url(),
        name=row.run_id,
        concurrency=concurrency,
    )
    try:
        with runtime:
            if runtime.embedded:  # We hold the lock: whoever held these leases is dead.
                calls.release(row.run_id, runtime.worker_id)
            outcome = drive(job, runtime, told.progress)
    except BaseException as error:
        journal.mark(row.run_id, "failed", f"{type(error).__name__}: {error}")
        raise
    if outcome.status != "success":
        journal.mark(row.run_id, outcome.status, outcome.reason)
        raise_for(outcome, row.run_id)


def _job(request: Any, run_id: str, clock: Clock) -> RunJob:
    if isinstance(request, PredictRequest):
        return PredictJob(request, run_id, clock)
    return BacktestJob(request, run_id, clock)


def _request(row: RunRow) -> Any:
    try:
        return _REQUESTS[row.kind].validate_python(row.request)
    except (KeyError, ValidationError) as error:
        raise Corrupt(
            f"the journal's request of run {row.run_id} cannot be read: {error}"
        ) from None


def _exists(run_id: str, home: Home) -> InputError:
    return InputError(
        f"run {run_id!r} exists already at {home.runs / run_id}: choose another --run-id"
    )
