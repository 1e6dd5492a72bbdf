"""Runs from first step to seal, whatever their kind: start, resume, and open for a worker.

The journal knows of a run before anything else does, so a crash at any line leaves something to
go on from: starting the same run again *is* resuming it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from beforehand.clock import Clock, SystemClock, iso, parse_instant
from beforehand.config import Home, database_url
from beforehand.engine.driver import drive, raise_for
from beforehand.engine.plan import Action, Plan, Progress
from beforehand.engine.runtime import Opener, Runtime, Threads
from beforehand.errors import BeforehandError, Corrupt, InputError, NotConfigured, Unavailable
from beforehand.forecast.external import is_address
from beforehand.ids import new_run_id
from beforehand.store.calls import Calls
from beforehand.store.database import Database
from beforehand.store.files import file_digest, write_json
from beforehand.store.journal import Journal
from beforehand.store.journal_schema import RunRow
from beforehand.store.runs import LOG, RunFolder
from beforehand.work.request import Effort, Fork, Request
from beforehand.work.run import BacktestJob
from beforehand.work.stages import BenchmarkJob, BenchmarkRequest, PredictJob, PredictRequest

ORPHANS_S = 2.0
"""How often a worker looks for runs without a driver."""
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
    "benchmark": TypeAdapter(BenchmarkRequest),
}


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its summary."""

    folder: RunFolder
    summary: dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What a surface wants to hear: the run's id once it is known, progress, sentences."""

    started: Callable[[str], None] = lambda run_id: None
    progress: Progress = lambda step, done, total: None
    say: Callable[[str], None] = lambda text: None


QUIET = Told()


def open_journal(home: Home, clock: Clock | None = None) -> tuple[Journal, Calls]:
    """The journal of this home, or the one at `BEFOREHAND_DATABASE_URL`."""
    database = Database(database_url() or home.journal)
    return Journal(database, clock), Calls(database, clock)


@contextmanager
def opened_journal(home: Home, clock: Clock) -> Iterator[tuple[Journal, Calls]]:
    """The journal for the length of a run."""
    journal, calls = open_journal(home, clock)
    try:
        yield journal, calls
    finally:
        journal.database.close()


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
    request: Request | PredictRequest | BenchmarkRequest,
    run_id: str | None = None,
    clock: Clock | None = None,
    told: Told = QUIET,
    finished_too: bool = False,
) -> Finished:
    """Carry out what is asked, to the end. Raises before anything is written if the request is
    bad; an unfinished run of that id and the same request is gone on with, a finished one is
    refused, or returned as it is with `finished_too`."""
    clock = clock or SystemClock()
    home = Home(request.home)
    name = run_id or new_run_id(clock.now(), lambda n: (home.runs / n).exists())
    job = _job(request, name, clock)
    with opened_journal(home, clock) as (journal, calls):
        if (
            run_id is None and journal.run(name) is not None
        ):  # Begun a moment ago, without a folder.
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
        if row.fingerprint != job.fingerprint:
            raise _exists(name, home)
        if row.status == "success":
            if finished_too:
                return Finished(job.folder, job.summary())
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
    with opened_journal(home, clock) as (journal, calls):
        row = journal.known_run(run_id)
        if row.status == "success":
            raise InputError(f"run {run_id} is finished: `beforehand runs show {run_id}` shows it")
        effort = replace(_request(row).effort, **(changes or {}))
        return _carry_on(row, open_job(row, clock), effort, journal, calls, clock, told)


def keep_seal(home: Home, folder: RunFolder, kind: str, clock: Clock | None = None) -> None:
    """Enter a finished run that needed no plan, so that its `run.json` is vouched for as well."""
    clock = clock or SystemClock()
    seal = {"run.json": file_digest(folder.path / "run.json")}
    with opened_journal(home, clock) as (journal, _):
        journal.enter(folder.run_id, kind, {}, seal["run.json"], str(home.root))
        journal.mark(folder.run_id, "success", seal=seal)


def fork(
    home: Home,
    parent: str,
    at: datetime,
    models: Mapping[str, str],
    run_id: str | None = None,
    clock: Clock | None = None,
    told: Told = QUIET,
) -> Finished:
    """A new run that repeats `parent` up to `at` and has other models from there on. Whatever the
    parent was answered is taken from the journal."""
    row = open_journal(home, clock)[0].known_run(parent)
    request = _request(row)
    if not isinstance(request, Request):
        raise InputError(f"run {parent} is a {row.kind}: only backtests can be forked")
    if request.fork is not None:
        raise InputError(f"run {parent} is a fork itself: fork {request.fork.parent} instead")
    names = {_full(old): _full(new) for old, new in models.items()}
    return start(replace(request, fork=Fork(parent, at, names)), run_id, clock, told)


def _full(name: str) -> str:
    """A model id as it stands in the records."""
    return name if is_address(name) or name.startswith("baseline:") else f"baseline:{name}"


def work(
    home: Home,
    concurrency: int,
    archive: Path | None,
    stop: threading.Event,
    told: Callable[[str], None],
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Take part in every run of the shared database until `stop` is set: steps from the queue,
    and runs whose driver died. Returns the worker's id and how many steps it ran. Raises
    NotConfigured without `BEFOREHAND_DATABASE_URL`."""
    url, clock = database_url(), clock or SystemClock()
    if url is None:
        raise NotConfigured(
            "a worker needs BEFOREHAND_DATABASE_URL (postgresql://user:password@host:5432/name); "
            "without it a run works in its own process, with SQLite files in the home folder"
        )
    pause = threading.Event()
    journal, calls = open_journal(home, clock)
    runtime = _runtime(journal, calls, concurrency, lambda row: open_job(row, clock, archive))

    def leave() -> None:
        stop.wait()
        runtime.leave("cancelled: the worker is shutting down")

    with runtime:
        threading.Thread(target=leave, daemon=True).start()
        told(f"worker {runtime.worker_id[:12]}: {concurrency} steps at once")
        while not stop.wait(ORPHANS_S):
            for row in journal.runs():
                if row.status == "running" and Path(row.home) == home.root and not stop.is_set():
                    _adopt(row, journal, calls, clock, runtime, told, archive)
        while runtime.busy:
            pause.wait(0.05)
    return {"worker": runtime.worker_id, "steps": runtime.ran}


def _adopt(
    row: RunRow,
    journal: Journal,
    calls: Calls,
    clock: Clock,
    runtime: Runtime,
    told: Callable[[str], None],
    archive: Path | None,
) -> None:
    """Drive a run that nobody drives; one that is being driven is left alone."""
    effort = _request(row).effort
    begun = Told(lambda run_id: told(f"run {run_id}: its driver is gone, taken over"))
    try:
        _carry_on(row, open_job(row, clock, archive), effort, journal, calls, clock, begun, runtime)
    except BeforehandError as error:
        if not isinstance(error, Unavailable) or "another process" not in str(error):
            told(str(error))


def _carry_on(
    row: RunRow,
    job: RunJob,
    effort: Effort,
    journal: Journal,
    calls: Calls,
    clock: Clock,
    told: Told,
    runtime: Runtime | None = None,
) -> Finished:
    """Hold the run's lock and see the run through, with a runtime of its own or a given one."""
    home = Home(Path(row.home))
    lock = home.engine / f"{row.run_id}.lock"
    with ExitStack() as held:
        try:
            held.enter_context(journal.database.hold(f"drive:{row.run_id}", lock))
        except Unavailable:
            raise Unavailable(
                f"run {row.run_id} is being carried out by another process: `beforehand runs "
                f"watch {row.run_id}` follows it"
            ) from None
        row = journal.known_run(row.run_id)
        if row.status == "success":  # Another driver saw it through meanwhile.
            return Finished(job.folder, job.summary())
        told.started(row.run_id)
        if runtime is None:
            journal.allow(row.run_id, effort.limits, effort.in_flight)
        job.prepare()
        _drive(row, job, effort, journal, calls, clock, told, runtime)
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
    lock.unlink(missing_ok=True)
    return Finished(job.folder, job.summary())


def _drive(
    row: RunRow,
    job: RunJob,
    effort: Effort,
    journal: Journal,
    calls: Calls,
    clock: Clock,
    told: Told,
    given: Runtime | None,
) -> None:
    """Drive the plan to its end; a run that does not get there is marked, and raises."""
    usual = PAID_AT_ONCE if database_url() or any(job.paid.values()) else 1
    concurrency = effort.concurrency or usual
    runtime = given or _runtime(journal, calls, concurrency, lambda found: open_job(found, clock))
    try:
        with nullcontext() if given else runtime:
            if runtime.alone:  # We hold the lock: whoever held these leases is dead.
                calls.release(row.run_id, runtime.worker_id)
            progress = _counting(job, calls, told.progress)
            outcome = drive(job, runtime, progress, say=told.say, signals=given is None)
    except BaseException as error:
        journal.mark(row.run_id, "failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        runtime.forget(row.run_id)
    if outcome.status in ("stopped", "failed", "cancelled"):
        journal.mark(row.run_id, outcome.status, outcome.reason)
    raise_for(outcome, row.run_id)


def _counting(job: RunJob, calls: Calls, progress: Progress) -> Progress:
    """Progress in paid calls, where a run makes any: its steps are few and long."""
    expected = sum(job.paid.values())
    if not expected:
        return progress

    def counted(step: str, done: int, total: int) -> None:
        answered = calls.settled(job.plan.run_id)
        progress(f"{step}, {done} of {total} steps; calls", answered, max(expected, answered))

    return counted


def _runtime(journal: Journal, calls: Calls, concurrency: int, opener: Opener) -> Runtime:
    """Threads of this process, or its place at the shared queue."""
    url = database_url()
    if url is None:
        return Runtime(journal, calls, opener, Threads(concurrency), concurrency)
    from beforehand.engine.shared import SharedQueue  # DBOS takes a second to load.

    queue = SharedQueue(url, journal, concurrency)
    return Runtime(journal, calls, opener, queue, concurrency)


def _job(request: Any, run_id: str, clock: Clock) -> RunJob:
    if isinstance(request, PredictRequest):
        return PredictJob(request, run_id, clock)
    if isinstance(request, BenchmarkRequest):
        return BenchmarkJob(request, run_id, clock)
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
