"""Answers that were made in this process and cost nothing, recorded in batches.

A commit for each answer takes many times as long as a plain function. So the answers of one step
are kept here and committed together: at the end of the step, and whenever 100 ms have passed since
the last commit. A crash loses at most those that were not committed: they are made again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beforehand.clock import stopwatch
from beforehand.store.journal.free import FreeAnswer

if TYPE_CHECKING:
    from beforehand.engine.context import StepContext

COMMIT_S = 0.1
AT_ONCE = 500


class FreeAnswers:
    """The free answers of one attempt at a step. Not safe for threads."""

    def __init__(self, context: "StepContext") -> None:
        self._context, self._waiting = context, list[FreeAnswer]()
        self._committed = stopwatch()
        self._again = context.journal.begun_before(context.run_id, context.task_id)

    def known(self, keys: Sequence[str]) -> dict[str, str]:
        """The answers on record, by key: of an earlier attempt at this step, or of a fork's
        parent."""
        context, found = self._context, dict[str, str]()
        if self._again or context.attempt > 1:
            for k in range(0, len(keys), AT_ONCE):
                part = keys[k : k + AT_ONCE]
                found |= context.journal.free.answers(context.run_id, context.task_id, part)
        return found

    def add(self, answer: FreeAnswer) -> None:
        """Keep one answer; it is committed soon."""
        self._waiting.append(answer)
        if stopwatch() - self._committed > COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Write down what is waiting. Raises Stopped if the run was stopped, and Unavailable, after
        which the step is tried again, if another process answered meanwhile."""
        if self._waiting:
            context = self._context
            context.check()
            context.journal.free.record_all(
                context.run_id, context.task_id, context.owner, self._waiting
            )
            self._waiting = []
        self._committed = stopwatch()
