"""DBOS beneath a run: it starts, spreads and takes over steps. Its tables are disposable.

Each step is one top-level workflow with the id `run_id/node/key`, and holds no DBOS step: look up,
run, record is done by our journal, which is the only truth about what was done (this halves the
cost, and DBOS' own record comes after the fact, which is too late for what was paid).

Embedded, a run has an engine file of its own. Whoever holds the run's lock knows that every
earlier owner is dead, so the file is made anew at each start. On Postgres several processes share
the queue; each beats its heart, and the driver of a run takes its steps over from the dead.
`executor_id` is new at every start: DBOS re-runs the pending work of its own id on launch.
"""

import logging
import os
import platform
import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos._serialization import DBOSPortableJSONSerializer

from beforehand.clock import stopwatch
from beforehand.config import Home
from beforehand.engine.context import Signals
from beforehand.engine.execute import execute
from beforehand.engine.plan import Job, Step
from beforehand.errors import BeforehandError
from beforehand.store.calls import Calls
from beforehand.store.database import postgres_engine, sqlite_engine
from beforehand.store.journal import Journal, RunRow
from beforehand.store.workers import Workers

# DBOS logs to the stderr that it found on import; what went wrong stands in our journal.
logging.getLogger("dbos").handlers[:] = [logging.NullHandler()]

QUEUE = "beforehand"
APPLICATION_VERSION = "1"
BEAT_S, STALE_S = 1.0, 5.0
POLL_S = 0.1
Opener = Callable[[RunRow], Job]


class Runtime:
    """This process's part in running steps. One at a time in a process (DBOS is global)."""

    def __init__(
        self,
        journal: Journal,
        calls: Calls,
        opener: Opener,
        *,
        home: Home,
        database_url: str | None,
        name: str,
        concurrency: int,
    ) -> None:
        """`name` names the engine's file when embedded. `concurrency` caps the steps, and the
        calls, that this process has in flight."""
        self.journal, self.calls, self._opener = journal, calls, opener
        self._workers = Workers(journal.database)
        self.worker_id = uuid.uuid4().hex
        self.embedded = database_url is None
        self.concurrency = concurrency
        self._slots = threading.Semaphore(concurrency)
        self._signals: dict[str, Signals] = {}
        self._leaving = ""
        self.ended: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self.errors: dict[tuple[str, str], BaseException] = {}
        self._busy = self.ran = 0
        self._jobs: dict[str, tuple[Job, dict[str, Step]]] = {}
        self._opening, self._counting = threading.Lock(), threading.Lock()
        self._file = home.engine / f"{name}.db"
        self._url = database_url
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "Runtime":
        global _current
        if self.embedded:
            remove_engine(self._file)
            engine = sqlite_engine(self._file, durable=False, own_begin=False)
        else:
            engine = postgres_engine(self._url or "")
        config: DBOSConfig = {
            "name": "beforehand",
            "system_database_url": self._url or f"sqlite:///{self._file}",
            "system_database_engine": engine,
            "executor_id": self.worker_id,
            "application_version": APPLICATION_VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
            "max_executor_threads": self.concurrency + 8,
            "notification_listener_polling_interval_sec": POLL_S,
        }
        self._engine = engine
        _current = self
        self._workers.beat(self.worker_id, platform.node(), os.getpid())
        self._heart.start()
        DBOS(config=config)
        if self.embedded:
            DBOS.listen_queues([])
        DBOS.launch()
        if not self.embedded:
            DBOS.register_queue(
                QUEUE,
                worker_concurrency=self.concurrency,
                polling_interval_sec=POLL_S,
                on_conflict="always_update",
            )
        return self

    def __exit__(self, *_: object) -> None:
        global _current
        self._closing.set()
        DBOS.destroy()
        self._engine.dispose()
        self._heart.join()
        self._workers.rest(self.worker_id)
        _current = None
        if self.embedded:
            remove_engine(self._file)

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
        """A job opened in this process already."""
        self._jobs[job.plan.run_id] = job, {step.id: step for step in job.plan.steps}

    def forget(self, run_id: str) -> None:
        """A run ended: its job and its signals are no longer kept."""
        self._jobs.pop(run_id, None)
        with self._counting:
            self._signals.pop(run_id, None)

    def ensure(self, run_id: str, steps: Sequence[tuple[str, str]]) -> None:
        """See to it that each (step id, digest of its inputs) is under way: attach to what a live
        process is at, take over from a dead one, start what nobody has begun."""
        if self.embedded:
            for step_id, inputs in steps:
                with SetWorkflowID(f"{run_id}/{step_id}"):
                    DBOS.start_workflow(_step, run_id, step_id, inputs)
            return
        wanted = {f"{run_id}/{step_id}": (step_id, inputs) for step_id, inputs in steps}
        known = {
            found.workflow_id: found
            for found in DBOS.list_workflows(
                workflow_ids=list(wanted), load_input=False, load_output=False
            )
        }
        living = self._workers.living(STALE_S) if known else set()
        for workflow, (step_id, inputs) in wanted.items():
            found = known.get(workflow)
            if found is not None and found.status in ("ENQUEUED", "DELAYED"):
                continue
            if found is not None and found.status == "PENDING":
                if found.executor_id not in living:
                    DBOS.resume_workflow(workflow, queue_name=QUEUE)
                continue
            if found is not None:  # It ended, and the journal has no success: begin anew.
                if self.journal.settled(run_id, step_id):
                    continue
                DBOS.delete_workflow(workflow)
            with SetWorkflowID(workflow):
                DBOS.enqueue_workflow(QUEUE, _step, run_id, step_id, inputs)

    def withdraw(self, run_id: str, steps: Sequence[str]) -> None:
        """Take back what is still waiting in the shared queue."""
        if self.embedded or not steps:
            return
        names = [f"{run_id}/{step_id}" for step_id in steps]
        waiting = DBOS.list_workflows(
            workflow_ids=names, status="ENQUEUED", load_input=False, load_output=False
        )
        if waiting:
            DBOS.cancel_workflows([found.workflow_id for found in waiting])

    def run(self, run_id: str, step_id: str, inputs: str) -> None:
        """Run one step here and now; its error, if one must end the run, is in `errors`."""
        self._count(1)
        try:
            job, steps = self._job(run_id)
            execute(
                job,
                steps[step_id],
                inputs,
                owner=self.worker_id,
                journal=self.journal,
                calls=self.calls,
                signals=self.signals(run_id),
            )
        except BaseException as error:  # The driver raises it; a worker has it in the journal.
            self.errors[run_id, step_id] = error
        finally:
            self._count(-1)
            self.ran += 1
            self.ended.put((run_id, step_id))

    @property
    def busy(self) -> int:
        """How many steps this process is at."""
        return self._busy

    def _count(self, change: int) -> None:
        with self._counting:
            self._busy += change

    def _job(self, run_id: str) -> tuple[Job, dict[str, Step]]:
        with self._opening:
            if run_id not in self._jobs:
                self.keep(self._opener(self.journal.known_run(run_id)))
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


_current: Runtime | None = None


@DBOS.workflow(name="beforehand.step")
def _step(run_id: str, step_id: str, inputs: str) -> bool:
    """One step of one run, as DBOS knows it. It never fails: how the step ended is in the
    journal."""
    if _current is None:
        return False
    _current.run(run_id, step_id, inputs)
    return True


def remove_engine(path: Path) -> None:
    """Delete a disposable engine file."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
