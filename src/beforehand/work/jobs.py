"""Runs from first step to seal, whatever their kind: start, resume, and open for a worker.

The journal knows of a run before anything else does, so a crash at any line leaves something to
go on from: starting the same run again *is* resuming it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from beforehand import __version__
from beforehand.clock import Clock, SystemClock, iso, parse_instant, stopwatch
from beforehand.config import Home, database_url
from beforehand.engine.driver import drive, raise_for
from beforehand.engine.plan import Action, Plan, Progress
from beforehand.engine.runtime import Opener, Runtime, Threads
from beforehand.errors import Corrupt, Held, InputError
from beforehand.ids import digest, new_run_id
from beforehand.store.calls import Calls
from beforehand.store.database import Database
from beforehand.store.files import file_digest, write_json
from beforehand.store.journal import Journal
from beforehand.store.journal_schema import RunRow
from beforehand.store.runs import LOG, RunFolder
from beforehand.work.request import Effort, Fork, Request
from beforehand.work.run import BacktestJob
from beforehand.work.stages import BenchmarkJob, BenchmarkRequest, PredictJob, PredictRequest
from beforehand.work.voices import is_asked

HOLD_TRIES, TELL_S = 5, 0.5
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
    def close(self) -> None: ...


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
class Allowed:
    """What a run may spend and do from now on: its limits, its policy for calls whose answer never
    came, the steps and calls in flight, and whether its forecasters were restarted just now."""

    limits: dict[str, float]
    policy: str
    concurrency: int | None
    fresh: bool = False


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
    if _fingerprint(job) != row.fingerprint:
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
    if run_id == "latest":
        raise InputError("--run-id latest: that name stands for the newest run; choose another")
    name = run_id or new_run_id(clock.now(), lambda n: (home.runs / n).exists())
    job = _job(request, name, clock)
    effort, fresh = request.effort, getattr(request, "fresh", False)
    with opened_journal(home, clock) as (journal, calls):
        if (home.runs / name).exists() and journal.run(name) is None:
            raise _exists(name, home)
        while True:
            row, new = journal.enter(
                name,
                job.kind,
                _REQUESTS[job.kind].dump_python(request, mode="json"),
                _fingerprint(job),
                str(home.root),
                parent=request.fork.parent
                if isinstance(request, Request) and request.fork
                else None,
                limits=effort.limits,
                policy=effort.in_flight,
                expected_cost=effort.cost_per_call or 0.0,
                fresh=fresh,
            )
            if new or run_id is not None:
                break
            # Another process has begun a run in this very second.
            name = new_run_id(clock.now(), lambda n: journal.run(n) is not None)
            job = _job(request, name, clock)
        if row.fingerprint != _fingerprint(job):
            raise _exists(name, home)
        if row.status == "success":
            if finished_too:
                return Finished(job.folder, job.summary())
            raise _exists(name, home)
        allowed = Allowed(effort.limits, effort.in_flight, effort.concurrency, fresh and not new)
        return carry_on(row, lambda: job, allowed, journal, calls, clock, told)


def resume(
    home: Home,
    run_id: str,
    changes: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    told: Told = QUIET,
    fresh: bool = False,
) -> Finished:
    """Go on with an unfinished run; `changes` replaces fields of its Effort, `fresh` states that
    its forecasters were restarted."""
    clock = clock or SystemClock()
    with opened_journal(home, clock) as (journal, calls):
        row = journal.known_run(run_id)
        if row.status == "success":
            raise InputError(f"run {run_id} is finished: `beforehand runs show {run_id}` shows it")
        if Path(row.home) != home.root:
            raise InputError(
                f"run {run_id} was begun in {row.home}: set BEFOREHAND_HOME to it, or begin a new "
                "run here"
            )
        given = replace(Effort(), **(changes or {}))
        allowed = Allowed(
            {**row.limits, **given.limits},
            given.in_flight if "in_flight" in (changes or {}) else row.policy,
            given.concurrency or _request(row).effort.concurrency,
            fresh,
        )
        return carry_on(row, lambda: open_job(row, clock), allowed, journal, calls, clock, told)


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
    fresh: bool = False,
) -> Finished:
    """A new run that repeats `parent` up to `at` and has other models from there on. Whatever the
    parent was answered is taken from the journal."""
    with opened_journal(home, clock or SystemClock()) as (journal, _):
        row = journal.known_run(parent)
    request = _request(row)
    if not isinstance(request, Request):
        raise InputError(f"run {parent} is a {row.kind}: only backtests can be forked")
    if request.fork is not None:
        raise InputError(f"run {parent} is a fork itself: fork {request.fork.parent} instead")
    names = {_full(old): _full(new) for old, new in models.items()}
    forked = replace(request, fork=Fork(parent, at, names), fresh=fresh)
    return start(forked, run_id, clock, told)


def _full(name: str) -> str:
    """A model id as it stands in the records."""
    return name if is_asked(name) or name.startswith("baseline:") else f"baseline:{name}"


def carry_on(
    row: RunRow,
    opener: Callable[[], RunJob],
    allowed: Allowed,
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
        still = _hold(held, journal, row.run_id, lock, patient=runtime is None)
        job = opener()
        held.callback(job.close)
        row = journal.known_run(row.run_id)
        if row.status == "success":  # Another driver saw it through meanwhile.
            return Finished(job.folder, job.summary())
        told.started(row.run_id)
        journal.allow(row.run_id, allowed.limits, allowed.policy)
        if allowed.fresh:
            journal.restarted(row.run_id)
        job.prepare()
        journal.discard(row.run_id, _undone(job, journal))
        _drive(row, job, allowed, journal, calls, clock, told, runtime, still)
        ended = clock.now()
        write_json(
            job.folder.path / LOG,
            {
                "started_at": row.created_at,
                "finished_at": iso(ended),
                "duration_s": round((ended - parse_instant(row.created_at)).total_seconds(), 3),
            },
        )
        if changed := _undone(job, journal):
            raise Corrupt(
                f"the files of {', '.join(changed)} were changed while run {row.run_id} was at "
                f"work: `beforehand runs resume {row.run_id}` writes them anew"
            )
        journal.mark(row.run_id, "success", seal=job.seal())
    lock.unlink(missing_ok=True)
    return Finished(job.folder, job.summary())


def _undone(job: RunJob, journal: Journal) -> list[str]:
    """The steps that the journal has as done, and whose files are gone or changed."""
    done = journal.done(job.plan.run_id)
    return [
        step.id
        for step in job.plan.steps
        if step.here and step.id in done
        if job.folder.differing(journal.output(job.plan.run_id, step.id).get("files", {}))
    ]


def _hold(
    held: ExitStack, journal: Journal, run_id: str, lock: Path, patient: bool
) -> Callable[[], None]:
    """The run's lock; Held if another process keeps it. A look at a run takes it for a moment, so
    a `patient` caller tries for a second."""
    for _ in range(HOLD_TRIES if patient else 1):
        try:
            return held.enter_context(journal.database.hold(f"drive:{run_id}", lock))
        except Held:
            time.sleep(0.2)
    raise Held(
        f"run {run_id} is being carried out by another process: `beforehand runs watch {run_id}` "
        "follows it"
    )


def _drive(
    row: RunRow,
    job: RunJob,
    allowed: Allowed,
    journal: Journal,
    calls: Calls,
    clock: Clock,
    told: Told,
    given: Runtime | None,
    still: Callable[[], None],
) -> None:
    """Drive the plan to its end; a run that does not get there is marked, and raises."""
    usual = PAID_AT_ONCE if database_url() or any(job.paid.values()) else 1
    concurrency = allowed.concurrency or usual
    runtime = given or new_runtime(
        journal, calls, concurrency, lambda found: open_job(found, clock)
    )
    try:
        with nullcontext() if given else runtime:
            if runtime.alone:  # We hold the lock: whoever held these leases is dead.
                calls.release(row.run_id, runtime.worker_id)
            progress = _counting(job, calls, told.progress)
            outcome = drive(
                job, runtime, progress, say=told.say, signals=given is None, still=still
            )
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

    told = 0.0

    def counted(step: str, done: int, total: int) -> None:
        nonlocal told
        if stopwatch() - told < TELL_S and done < total:
            return
        told = stopwatch()  # Counting costs: it is not done after each of many short steps.
        answered = calls.settled(job.plan.run_id)
        progress(f"{step}, {done} of {total} steps; calls", answered, max(expected, answered))

    return counted


def new_runtime(journal: Journal, calls: Calls, concurrency: int, opener: Opener) -> Runtime:
    """Threads of this process, or its place at the shared queue."""
    url = database_url()
    if url is None:
        return Runtime(journal, calls, opener, Threads(concurrency), concurrency)
    from beforehand.engine.shared import SharedQueue  # DBOS takes a second to load.

    queue = SharedQueue(url, journal)
    return Runtime(journal, calls, opener, queue, concurrency)


def _fingerprint(job: RunJob) -> str:
    """What makes a run this run: what it does, over which world, by which version."""
    return digest([__version__, job.kind, job.fingerprint])


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
