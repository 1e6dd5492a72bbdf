"""DBOS on Postgres: it spreads a run's steps over processes, and passes on those of dead processes.

Each step is one top-level workflow with the id `run_id/node/key`, and contains no DBOS step: our
journal looks steps up and records them (DBOS records a step after it has run, which is too late for
a paid call). DBOS' tables are disposable and never read for results. Its open edition takes no work
over by itself: each process writes a heartbeat to the journal, and the driver of a run resumes the
workflows of processes that stopped. `executor_id` is new at every start, since DBOS re-runs the
pending work of its own id on launch.
"""

import logging
from collections.abc import Sequence

from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos._serialization import DBOSPortableJSONSerializer

from beforehand.engine.runtime import Begin
from beforehand.store.journal.journal import Journal, Workers
from beforehand.store.postgres import postgres_engine

# DBOS logs to the stderr that it found on import; our journal has the errors.
logging.getLogger("dbos").handlers[:] = [logging.NullHandler()]

QUEUE = "beforehand"
APPLICATION_VERSION = "1"
"""Set by hand: the default is a hash of the source, and an upgrade would strand pending work."""
STEPS_AT_ONCE = 8
"""How many steps one process takes at once. This is a setting of the queue, so it is the same for
all processes; a process's own concurrency limits its calls."""
STALE_S = 5.0
POLL_S = 0.1


class SharedQueue:
    """This process's connection to the shared queue. Only one at a time: DBOS is global in a
    process."""

    alone = False

    def __init__(self, url: str, journal: Journal) -> None:
        self._url, self._journal = url, journal
        self._workers = Workers(journal.database)

    def open(self, worker_id: str, begin: Begin) -> None:
        """Launch DBOS, and begin to take steps from the queue."""
        global _begin
        _begin = begin
        self._engine = postgres_engine(self._url)
        config: DBOSConfig = {
            "name": "beforehand",
            "system_database_url": self._url,
            "system_database_engine": self._engine,
            "executor_id": worker_id,
            "application_version": APPLICATION_VERSION,
            "serializer": DBOSPortableJSONSerializer(),  # The default is pickle.
            "log_level": "CRITICAL",
            "max_executor_threads": STEPS_AT_ONCE + 8,
        }
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue(
            QUEUE,
            worker_concurrency=STEPS_AT_ONCE,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )

    def ensure(self, run_id: str, steps: Sequence[tuple[str, str]]) -> None:
        """Make sure that each (step id, digest of its inputs) is running: attach to steps of a live
        process, take over those of a dead one, start those that were not begun."""
        wanted = {f"{run_id}/{step_id}": (step_id, inputs) for step_id, inputs in steps}
        if not wanted:
            return
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
            if found is not None:  # It ended, and the journal has no success: begin again.
                if self._journal.settled(run_id, step_id):
                    continue
                DBOS.delete_workflow(workflow)
            with SetWorkflowID(workflow):
                DBOS.enqueue_workflow(QUEUE, _step, run_id, step_id, inputs)

    def withdraw(self, run_id: str, steps: Sequence[str]) -> None:
        """Take back what is still waiting in the queue."""
        if not steps:
            return
        waiting = DBOS.list_workflows(
            workflow_ids=[f"{run_id}/{step_id}" for step_id in steps],
            status="ENQUEUED",
            load_input=False,
            load_output=False,
        )
        if waiting:
            DBOS.cancel_workflows([found.workflow_id for found in waiting])

    def close(self) -> None:
        """Leave the queue."""
        global _begin
        DBOS.destroy()
        self._engine.dispose()
        _begin = None


_begin: Begin | None = None


@DBOS.workflow(name="beforehand.step")
def _step(run_id: str, step_id: str, inputs: str) -> bool:
    """One step of one run, as DBOS knows it. It never fails: how the step ended is in the
    journal."""
    if _begin is None:
        return False
    _begin(run_id, step_id, inputs)
    return True
