"""Paid calls outside of runs: the ratings of a search, the code of a single agent.

They pass the journal like others, as the calls of one standing run, `aside`. So what was asked once
is never paid for again, whichever process asks, and one budget holds over all of them. The run has
no plan and no folder: it is not listed, and `beforehand runs show aside` says what it has spent.
Only what is asked of models goes here: its key holds all that it depends on, which that of a tool's
answer (an archive, an instant) does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from beforehand.config import Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.job import Job, RunLimits
from beforehand.engine.runs import PAID_AT_ONCE
from beforehand.engine.runtime import Runtime, ThreadExecutor
from beforehand.errors import InputError
from beforehand.store.journal.journal import opened_journal
from beforehand.store.journal.schema import ASIDE, RunRow


@contextmanager
def aside(
    workspace: Workspace, limits: RunLimits, what: str, name: str = ASIDE
) -> Iterator[StepContext]:
    """The meter for calls outside of runs; `what` names them for people. Limits that are given hold
    from now on, for every process. Another `name` has calls and a budget of its own."""
    with opened_journal(workspace) as journal:
        row, new = journal.enter(
            name,
            ASIDE,
            {},
            name,
            str(workspace.home.root),
            limits=limits.budget,
            policy=limits.in_flight,
            expected_cost=limits.cost_per_call or 0.0,
        )
        if not new:
            merged = {**row.limits, **limits.budget}
            journal.allow(name, merged, None, limits.cost_per_call)
            journal.calls.forget_failed(name)
        if row.status != "running":
            journal.begin(name, 0, "run resumed")
        executor = ThreadExecutor(1)
        with Runtime(journal, _unopened, executor, limits.concurrency or PAID_AT_ONCE) as runtime:
            owner, signals = runtime.worker_id, runtime.signals(name)
            yield StepContext(name, what, owner, journal, signals)


def _unopened(row: RunRow) -> Job:
    raise InputError(f"{row.run_id} holds calls made outside of runs: it has no steps")
