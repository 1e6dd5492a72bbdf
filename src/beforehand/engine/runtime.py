"""How one process runs steps: the jobs it has open, its heartbeat, what carries steps out.

Only the journal decides what was done, so this code can be simple. In a single process, steps run
on threads (`ThreadExecutor`): the process that holds a run's lock knows that every earlier process
is dead, and begins every step that is not done in the journal. With Postgres there is a queue that
several processes share (`engine/shared.py`).
"""

import os
import platform
import queue
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from beforehand.clock import stopwatch
from beforehand.engine.context import Signals
from beforehand.engine.execute import execute
from beforehand.engine.job import Job, grown
from beforehand.engine.plan import Step
from beforehand.errors import BeforehandError
from beforehand.store.journal.journal import Journal, Workers
from beforehand.store.journal.schema import RunRow

BEAT_S = 1.0
Opener = Callable[[RunRow], Job]
Begin = Callable[[str, str, str], None]
"""Runs a step here: (run id, step id, digest of its inputs)."""


class StepExecutor(Protocol):
    """What carries steps out."""

    alone: bool

    def open(self, worker_id: str, begin: Begin) -> None: ...
    def ensure(self, run_id: str, steps: Sequence[tuple[str, str]]) -> None: ...
    def withdraw(self, run_id: str, steps: Sequence[str]) -> None: ...
    def close(self) -> None: ...


class ThreadExecutor:
    """The steps of one process, in its own threads."""

    alone = True

    def __init__(self, concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="step")

    def open(self, worker_id: str, begin: Begin) -> None:
        """Take note of how a step is run."""
        self._begin = begin

    def ensure(self, run_id: str, steps: Sequence[tuple[str, str]]) -> None:
        """Start the steps: no other process can be running them."""
        for step_id, inputs in steps:
            self._pool.submit(self._begin, run_id, step_id, inputs)

    def withdraw(self, run_id: str, steps: Sequence[str]) -> None:
        """Do nothing: no step waits, since the driver starts no more steps than there are
        threads."""

    def close(self) -> None:
        """Wait for the threads."""
        self._pool.shutdown()


class Runtime:
    """Runs steps of any number of runs in this process."""

    def __init__(
        self, journal: Journal, opener: Opener, executor: StepExecutor, concurrency: int
    ) -> None:
        """`concurrency` caps the steps, and the calls, that this process has in flight."""
        self.journal, self.calls, self._opener = journal, journal.calls, opener
        self._workers = Workers(journal.database)
        self._executor = executor
        self.alone, self.concurrency = executor.alone, concurrency
        self.ensure, self.withdraw = executor.ensure, executor.withdraw
        self.worker_id = uuid.uuid4().hex  # New at every start: it tells live processes from dead.
        self.errors: dict[tuple[str, str], BaseException] = {}
        self.ran = 0
        self.broken: BaseException | None = None
        """Why this process cannot open a run although it got one of its steps; it then has to
        end."""
        self._ended: dict[str, queue.SimpleQueue[str]] = {}
        self._busy: Counter[str] = Counter()
        self._slots = threading.Semaphore(concurrency)
        self._signals: dict[str, Signals] = {}
        self._leaving = ""
        self._jobs: dict[str, tuple[Job, dict[str, Step]]] = {}
        self._opening, self._counting = threading.Lock(), threading.Lock()
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "Runtime":
        self._workers.beat(self.worker_id, platform.node(), os.getpid())
        self._heart.start()
        self._executor.open(self.worker_id, self.run)
        return self

    def __exit__(self, *_: object) -> None:
        while self.busy():  # The heartbeat goes on until the last answer is recorded.
            self._closing.wait(0.02)
        self._executor.close()
        self._closing.set()
        self._heart.join()
        self._workers.rest(self.worker_id)

    def signals(self, run_id: str) -> Signals:
        """How the steps of this run are told to end, in this process."""
        with self._counting:
            if run_id not in self._signals:
                found = self._signals[run_id] = Signals(self._slots)
                if self._leaving:
                    found.end(self._leaving, leaving=True)
            return self._signals[run_id]

    def leave(self, reason: str) -> None:
        """This process ends: its steps stop at their next call, and others take them over."""
        with self._counting:
            self._leaving = reason
            for found in self._signals.values():
                found.end(reason, leaving=True)

    def keep(self, job: Job) -> None:
        """Add a job that is open in this process already."""
        self._jobs[job.plan.run_id] = job, {step.id: step for step in job.plan.steps}

    def follow(self, run_id: str) -> "queue.SimpleQueue[str]":
        """The ids of steps of a run that end in this process, from now on."""
        self.errors = {key: error for key, error in self.errors.items() if key[0] != run_id}
        return self._ended.setdefault(run_id, queue.SimpleQueue())

    def forget(self, run_id: str) -> None:
        """Drop everything about a run that has ended."""
        job, _ = self._jobs.pop(run_id, (None, {}))
        if job is not None:
            job.close()
        self._ended.pop(run_id, None)
        with self._counting:
            self._signals.pop(run_id, None)

    def forget_but(self, running: Collection[str]) -> None:
        """Forget every run that is not running any more."""
        for run_id in set(self._jobs) - set(running):
            if not self.busy(run_id):
                self.forget(run_id)

    def run(self, run_id: str, step_id: str, inputs: str) -> None:
        """Run one step in this process. An error that must end the run is kept for its driver, if
        the driver is in this process; it is in the journal as well."""
        self._count(run_id, 1)
        try:
            try:
                job, steps = self._job(run_id, step_id)
            except BaseException as error:
                self.broken = error
                raise
            execute(
                job,
                steps[step_id],
                inputs,
                owner=self.worker_id,
                journal=self.journal,
                signals=self.signals(run_id),
            )
        except BaseException as error:
            if run_id in self._ended:
                self.errors[run_id, step_id] = error
        finally:
            self._count(run_id, -1)
            if (followed := self._ended.get(run_id)) is not None:
                followed.put(step_id)

    def busy(self, run_id: str | None = None) -> int:
        """How many steps (of a run) this process is running."""
        with self._counting:
            return self._busy.total() if run_id is None else self._busy[run_id]

    def _count(self, run_id: str, change: int) -> None:
        with self._counting:
            self._busy[run_id] += change
            self.ran += change > 0

    def _job(self, run_id: str, step_id: str) -> tuple[Job, dict[str, Step]]:
        with self._opening:
            if run_id not in self._jobs:
                self.keep(self._opener(self.journal.known_run(run_id)))
            job, steps = self._jobs[run_id]
            if step_id not in steps:  # The plan has grown since.
                grown(job, self.journal)
                self.keep(job)
            return self._jobs[run_id]

    def _beat(self) -> None:
        last = stopwatch()
        while not self._closing.wait(max(0.0, BEAT_S - (stopwatch() - last))):
            last = stopwatch()
            try:
                self._workers.beat(self.worker_id, platform.node(), os.getpid())
                self.calls.renew(self.worker_id)
            except BeforehandError:
                continue  # The database is away or locked: the next beat may get through.
