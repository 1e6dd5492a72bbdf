"""Runs from first step to seal, whatever their kind: start, resume, and open for a worker.

A run is entered in the journal before anything else happens. So after a crash at any line, starting
the same run again resumes it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from beforehand import __version__
from beforehand.clock import iso, parse_instant, stopwatch
from beforehand.config import Home, Workspace
from beforehand.engine.driver import Progress, drive, raise_for
from beforehand.engine.job import (
    Asking,
    Divided,
    Job,
    Kind,
    RunLimits,
    RunRequest,
    grown,
    kind_named,
    kind_of,
    kinds,
)
from beforehand.engine.plan import files_of
from beforehand.engine.runtime import Opener, Runtime, ThreadExecutor
from beforehand.errors import Corrupt, Held, InputError
from beforehand.ids import digest, new_run_id
from beforehand.store.files import file_digest, write_json
from beforehand.store.journal.events import What
from beforehand.store.journal.journal import Journal, opened_journal
from beforehand.store.journal.schema import ASIDE, RunRow
from beforehand.store.run_folder import FORM, LOG, RunFolder

HOLD_TRIES, REPORT_S = 5, 0.5
PAID_AT_ONCE = 8
"""Steps, and calls, in flight where forecasters are asked over the network."""


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its summary."""

    folder: RunFolder
    summary: dict[str, Any]


@dataclass(frozen=True)
class Allowed:
    """What a run may spend and do from now on: its limits, its policy for calls that were never
    answered, the steps and calls in flight, whether its forecasters were restarted just now, and
    what a call is expected to cost (None: as before)."""

    limits: dict[str, float]
    policy: str
    concurrency: int | None
    fresh: bool = False
    expected_cost: float | None = None


@dataclass(frozen=True)
class Reporter:
    """What a surface is told: the run's id once it is known, progress, sentences."""

    started: Callable[[str], None] = lambda run_id: None
    progress: Progress = lambda step, done, total: None
    say: Callable[[str], None] = lambda text: None


QUIET = Reporter()


def open_job(
    row: RunRow,
    workspace: Workspace,
    archive: Path | None = None,
    limits: RunLimits | None = None,
) -> Job:
    """The job of a recorded run. `archive` is given if its archive lies elsewhere on this machine,
    `limits` if they are others now. Raises InputError if the world is no longer the same, or a
    budget cannot be kept."""
    kind = kind_named(row.kind)
    request = kind.load(row)
    if limits is not None:
        request = replace(request, limits=limits)
    if archive is not None:
        request = replace(request, archive=archive)
    job = kind.job(request, row.run_id, workspace.at(Path(row.home)))
    if _fingerprint(kind, job) != row.fingerprint:
        raise InputError(
            f"run {row.run_id} was begun over another state of {request.archive}, or by another "
            "version of beforehand: begin a new run"
        )
    return job


def start(
    request: RunRequest,
    workspace: Workspace,
    run_id: str | None = None,
    report: Reporter = QUIET,
    finished_too: bool = False,
    plan_only: bool = False,
) -> Finished:
    """Carry out a request to its end. Raises before anything is written if the request is bad. An
    unfinished run with the same id and request is resumed; a finished one is refused, or with
    `finished_too` returned as it is (where its kind does, once files that were changed are made
    again). With `plan_only` the run stops once it has the plan that its first step makes, and the
    summary is that plan; resuming it carries the plan out."""
    limits, fresh = request.limits, bool(getattr(request, "fresh", False))
    opened = _opened(request, workspace, run_id)
    with opened_journal(workspace) as journal:
        row, job, new = _entered(request, workspace, run_id, opened, journal, finished_too)
        if _finished(row, workspace.home):
            return Finished(job.folder, job.summary())
        allowed = Allowed(limits.budget, limits.in_flight, limits.concurrency, fresh and not new)
        return carry_on(row, lambda: job, allowed, journal, workspace, report, plan_only=plan_only)


def enroll(
    request: RunRequest, workspace: Workspace, run_id: str | None = None
) -> tuple[RunRow, bool]:
    """Enter a run in the journal, and carry out nothing: `resume` does, in any process. Returns its
    row and whether it is new. Raises before anything is written if the request is bad, or the id is
    that of another run; the same request under the same id gives the run that exists."""
    opened = _opened(request, workspace, run_id)
    with opened_journal(workspace) as journal:
        row, job, new = _entered(request, workspace, run_id, opened, journal, finished_too=True)
        job.close()
        return row, new


def _opened(request: RunRequest, workspace: Workspace, run_id: str | None) -> tuple[str, Job]:
    """A run's name and its job; raises what is wrong with the request before anything is
    written."""
    check_name(run_id)
    runs, clock = workspace.home.runs, workspace.clock
    name = run_id or new_run_id(clock.now(), lambda n: (runs / n).exists())
    return name, kind_of(request).job(request, name, workspace)


def _entered(
    request: RunRequest,
    workspace: Workspace,
    run_id: str | None,
    opened: tuple[str, Job],
    journal: Journal,
    finished_too: bool,
) -> tuple[RunRow, Job, bool]:
    """A run in the journal with its job, and whether it is new there."""
    home, clock, kind = workspace.home, workspace.clock, kind_of(request)
    name, job = opened
    limits, fresh = request.limits, bool(getattr(request, "fresh", False))
    if (home.runs / name).exists() and journal.run(name) is None:
        raise _exists(name, home)
    if isinstance(job, Asking) and journal.run(name) is None:
        job.ready()
    while True:
        row, new = journal.enter(
            name,
            kind.name,
            kind.wire(request),
            _fingerprint(kind, job),
            str(home.root),
            parent=getattr(job, "parent", None),
            limits=limits.budget,
            policy=limits.in_flight,
            expected_cost=limits.cost_per_call or 0.0,
            fresh=fresh,
        )
        if new or run_id is not None:
            break
        # Another process has begun a run in this very second.
        name = new_run_id(clock.now(), lambda n: journal.run(n) is not None)
        job = kind.job(request, name, workspace)
    if row.fingerprint != _fingerprint(kind, job):
        raise _exists(name, home)
    if not new and limits.cost_per_call is not None:
        journal.allow(name, None, None, limits.cost_per_call)
    if row.status == "success" and not finished_too:
        raise _exists(name, home)
    return row, job, new


def check_name(run_id: str | None) -> None:
    """Raises InputError for a name that stands for something else."""
    if run_id in ("latest", ASIDE):
        stands = "the newest run" if run_id == "latest" else "calls outside of runs"
        raise InputError(f"--run-id {run_id}: that name stands for {stands}; choose another")


def resume(
    workspace: Workspace,
    run_id: str,
    changes: Mapping[str, Any] | None = None,
    report: Reporter = QUIET,
    fresh: bool = False,
) -> Finished:
    """Resume an unfinished run, or make files of a finished one again that were changed or removed
    (where its kind does). `changes` replaces fields of its RunLimits, `fresh` states that its
    forecasters were restarted."""
    with opened_journal(workspace) as journal:
        row = journal.known_run(run_id)
        if _finished(row, workspace.home):
            raise InputError(f"run {run_id} is finished: `beforehand runs show {run_id}` shows it")
        if Path(row.home) != workspace.home.root:
            raise InputError(
                f"run {run_id} was begun in {row.home}: set BEFOREHAND_HOME to it, or begin a new "
                "run here"
            )
        given = replace(RunLimits(), **(changes or {}))
        before: RunLimits = kind_named(row.kind).load(row).limits
        now = replace(before, **(changes or {}))
        allowed = Allowed(
            {**row.limits, **given.budget},
            given.in_flight if "in_flight" in (changes or {}) else row.policy,
            now.concurrency,
            fresh,
            given.cost_per_call,
        )
        opener = partial(open_job, row, workspace, limits=now)
        return carry_on(row, opener, allowed, journal, workspace, report)


def keep_seal(workspace: Workspace, folder: RunFolder, kind: str) -> None:
    """Enter a finished run that needed no plan, so that the journal has the digest of its
    `run.json`."""
    seal = {"run.json": file_digest(folder.path / "run.json")}
    with opened_journal(workspace) as journal:
        home = str(workspace.home.root)
        journal.enter(folder.run_id, kind, {}, seal["run.json"], home)
        journal.mark(folder.run_id, "success", seal=seal)


def fork(
    workspace: Workspace,
    parent: str,
    at: datetime,
    models: Sequence[str],
    run_id: str | None = None,
    report: Reporter = QUIET,
    fresh: bool = False,
) -> Finished:
    """A new run that repeats `parent` up to `at` and has other models from there on. Answers that
    the parent got are taken from the journal."""
    with opened_journal(workspace) as journal:
        row = journal.known_run(parent)
    kind = kind_named(row.kind)
    forked = kind.forked(kind.load(row), parent, at, models, fresh)
    return start(forked, workspace, run_id, report)


def carry_on(
    row: RunRow,
    opener: Callable[[], Job],
    allowed: Allowed,
    journal: Journal,
    workspace: Workspace,
    report: Reporter,
    runtime: Runtime | None = None,
    *,
    plan_only: bool = False,
) -> Finished:
    """Hold the run's lock and carry the run out, with a runtime of its own or a given one."""
    home = Home(Path(row.home))
    lock = home.engine / f"{row.run_id}.lock"
    with ExitStack() as held:
        still = _hold(held, journal, row.run_id, lock, patient=runtime is None)
        job = opener()
        held.callback(job.close)
        row = journal.known_run(row.run_id)
        if _finished(row, home):  # Another driver finished it meanwhile.
            return Finished(job.folder, job.summary())
        report.started(row.run_id)
        journal.allow(row.run_id, allowed.limits, allowed.policy, allowed.expected_cost)
        if allowed.fresh:
            journal.restarted(row.run_id)
        grown(job, journal)
        job.prepare()
        for text in getattr(job, "warnings", ()):
            report.say(text)
        journal.discard(row.run_id, _undone(job, journal))
        first = job.plan.steps[0].id
        if not (plan_only and journal.done(row.run_id, [first])):
            _drive(row, job, allowed, journal, workspace, report, runtime, still)
        if plan_only:
            journal.mark(row.run_id, "stopped", "planned: resuming it carries the plan out")
            return Finished(job.folder, journal.output(row.run_id, first))
        while grown(job, journal):
            job.prepare()
            _drive(row, job, allowed, journal, workspace, report, runtime, still)
        ended = workspace.clock.now()
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
                f"the files of {', '.join(changed)} were changed while run {row.run_id} was "
                f"running: `beforehand runs resume {row.run_id}` writes them again"
            )
        journal.mark(row.run_id, "success", seal=job.seal())
    lock.unlink(missing_ok=True)
    return Finished(job.folder, job.summary())


def _finished(row: RunRow, home: Home) -> bool:
    """True for a run that has nothing left to do. A kind that `mends` makes files again that were
    changed or removed: all that its steps need is on record."""
    if row.status != "success":
        return False
    mends = row.kind in kinds() and getattr(kind_named(row.kind).job, "mends", False)
    folder = RunFolder(home.runs, row.run_id)
    return not mends or (folder.whole() and not folder.differing(row.seal or {}))


def _undone(job: Job, journal: Journal) -> list[str]:
    """The steps that are done in the journal, but have files that are gone or changed."""
    done = journal.done(job.plan.run_id)
    return [
        step.id
        for step in job.plan.steps
        if step.here and step.id in done
        if job.folder.differing(files_of(journal.output(job.plan.run_id, step.id)))
    ]


def _hold(
    held: ExitStack, journal: Journal, run_id: str, lock: Path, patient: bool
) -> Callable[[], None]:
    """Take the run's lock; raises Held if another process has it. Code that only looks at a run
    takes the lock for a moment, so a `patient` caller tries for a second."""
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
    job: Job,
    allowed: Allowed,
    journal: Journal,
    workspace: Workspace,
    report: Reporter,
    given: Runtime | None,
    still: Callable[[], None],
) -> None:
    """Drive the plan to its end. A run that does not reach it is marked, and an error is raised."""
    usual = job.at_once if isinstance(job, Divided) else 1
    if workspace.database or any(job.paid.values()):
        usual = PAID_AT_ONCE
    concurrency = allowed.concurrency or usual
    opener = partial(open_job, workspace=workspace)
    runtime = given or new_runtime(journal, workspace, concurrency, opener)
    try:
        with nullcontext() if given else runtime:
            if runtime.alone:  # We hold the lock: the owners of these leases are dead.
                waiting = journal.calls.release(row.run_id, runtime.worker_id)
                if waiting and allowed.policy == "resend":
                    report.say(
                        f"{waiting:,} without an answer when the run stopped: sent again under the "
                        "same Idempotency-Key (--in-flight skip gives up on them)"
                    )
            progress = _counting(job, journal, report.progress)
            what: What = "run taken over" if given else "run resumed" if row.total else "run begun"
            outcome = drive(
                job,
                runtime,
                progress,
                say=report.say,
                signals=given is None,
                still=still,
                what=what,
            )
    except BaseException as error:
        journal.mark(row.run_id, "failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        runtime.forget(row.run_id)
    if outcome.status in ("stopped", "failed", "cancelled"):
        journal.mark(row.run_id, outcome.status, outcome.reason)
    raise_for(outcome, row.run_id)


def _counting(job: Job, journal: Journal, progress: Progress) -> Progress:
    """Progress in paid calls if a run makes any, because its steps are few and long."""
    expected = sum(job.paid.values())
    if not expected:
        return progress

    last = 0.0

    def counted(step: str, done: int, total: int) -> None:
        nonlocal last
        if stopwatch() - last < REPORT_S and done < total:
            return
        last = stopwatch()  # Counting takes time: not after each of many short steps.
        answered = journal.calls.settled(job.plan.run_id)
        progress(f"{step}, {done} of {total} steps; calls", answered, max(expected, answered))

    return counted


def new_runtime(
    journal: Journal, workspace: Workspace, concurrency: int, opener: Opener
) -> Runtime:
    """A runtime on threads of this process, or on the shared queue."""
    if workspace.database is None:
        return Runtime(journal, opener, ThreadExecutor(concurrency), concurrency)
    from beforehand.engine.shared import SharedQueue  # DBOS takes a second to load.

    return Runtime(journal, opener, SharedQueue(workspace.database, journal), concurrency)


def _fingerprint(kind: Kind, job: Job) -> str:
    """The identity of a run: what it does, over which world, by which version, in which form.
    Contexts of another form would be other questions, and paid calls would be paid for again."""
    return digest([__version__, FORM, kind.name, job.fingerprint])


def _exists(run_id: str, home: Home) -> InputError:
    return InputError(
        f"run {run_id!r} exists already at {home.runs / run_id}: choose another --run-id"
    )
