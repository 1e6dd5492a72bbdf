"""The driver: plain code that reads the plan and the journal, and has each step carried out.

It runs outside any workflow and keeps no state of its own: it may be killed at any line, and
starting it again resumes the run. A step that is done (its row says success, with the same inputs)
is skipped; every other step is started, attached to, or taken over.
"""

import heapq
import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Literal

from beforehand.clock import stopwatch
from beforehand.engine.execute import recorded_error
from beforehand.engine.job import Job
from beforehand.engine.plan import Step
from beforehand.engine.runtime import Runtime
from beforehand.errors import (
    BeforehandError,
    Corrupt,
    CutoffViolation,
    InputError,
    Interrupted,
    Stopped,
)
from beforehand.store.journal.events import What
from beforehand.store.journal.schema import Status, Task

POLL_S = 0.1
WINDOW = 256
"""How many steps of a run may run or wait in the queue at once, where processes share it."""
LOOK_S = 1.0
"""Seconds between checks for a cancellation, and for the work of other processes."""
ENDED = ("cancelling", "cancelled")
STOPPING = ("cancelled", "skipped", "Stopped")
PASSING = ("Unavailable", "RateLimited", *STOPPING)
"""First words of errors that may not occur again if the run is started again."""


Progress = Callable[[str, int, int], None]
"""Called as (step id, steps done, steps in all)."""


@dataclass(frozen=True)
class Outcome:
    """How a drive ended. `left` means that this process ends and other processes go on. `failed`
    are the tasks that did not succeed, `undone` counts the steps that were not begun."""

    status: Literal["success", "failed", "stopped", "cancelled", "left"]
    reason: str | None = None
    failed: list[Task] = field(default_factory=list)
    undone: int = 0
    signal: int | None = None


def drive(
    job: Job,
    runtime: Runtime,
    progress: Progress | None = None,
    *,
    say: Callable[[str], None] = lambda text: None,
    signals: bool = True,
    still: Callable[[], None] = lambda: None,
    what: What = "run begun",
) -> Outcome:
    """Carry out the job's plan; the caller holds the run's lock.

    Raises errors that must end a run at once: a broken invariant, or a bug. `progress(step id,
    done, total)` is called at the start, after each step, and once a second. SIGINT and SIGTERM end
    the run cleanly, unless `signals` is False; `say` gets the sentence for the user. `still` raises
    if the run's lock was lost; `what` is the event that a driver begins with.
    """
    drive = _Drive(job, runtime, progress or (lambda *_: None), still, what)
    if not signals or threading.current_thread() is not threading.main_thread():
        return drive.run()
    with _caught(runtime, job.plan.run_id, say):
        return drive.run()


def check(job: Job) -> list[Step]:
    """The plan's steps in order; InputError if it is not sound."""
    order = job.plan.ordered()
    unknown = sorted({step.action for step in order} - job.actions.keys())
    if unknown:
        raise InputError(f"the plan names the unknown action {unknown[0]!r}")
    return order


class _Drive:
    def __init__(
        self,
        job: Job,
        runtime: Runtime,
        progress: Progress,
        still: Callable[[], None],
        what: What,
    ) -> None:
        self._what: What = what
        self._runtime, self._journal, self._still = runtime, runtime.journal, still
        self._run_id, self._progress = job.plan.run_id, progress
        self._plan, self._order = job.plan, check(job)
        self._steps = {step.id: step for step in self._order}
        runtime.keep(job)
        self._signals = runtime.signals(self._run_id)
        self._outputs: dict[str, str] = {}
        self._inputs: dict[str, str] = {}
        self._flying: dict[str, Step] = {}
        self._failed: dict[str, Task] = {}
        self._tolerant = any(step.tolerant for step in self._order)
        self._skipped: list[str] = []
        self._here: list[threading.Thread] = []
        self._looked = stopwatch()
        self._cancelled = self._told_others = False
        self._cancelled_by = "cancelled by the user"
        self._ended_here = runtime.follow(self._run_id)
        # Other processes take steps as well, and a step that waits in the queue costs nothing.
        self._window = runtime.concurrency if runtime.alone else WINDOW

    def run(self) -> Outcome:
        try:
            return self._run()
        except BaseException as error:
            self._signals.end("cancelled: another step failed")
            self._stop_others("failed", f"{type(error).__name__}: {error}")
            while self._runtime.busy(self._run_id):  # Calls may be paid for.
                time.sleep(0.02)
            raise

    def _run(self) -> Outcome:
        total = len(self._order)
        self._journal.begin(self._run_id, total, self._what)
        on_record = self._journal.done(self._run_id)
        for step in self._order:
            found = on_record.get(step.id)
            if found is not None and all(dep in self._outputs for dep in step.deps):
                self._inputs[step.id] = step.inputs(self._outputs)
                if found.inputs == self._inputs[step.id]:
                    self._outputs[step.id] = found.output
        self._journal.discard(self._run_id, [n for n in on_record if n not in self._outputs])
        waiting = {
            step.id: {dep for dep in step.deps if dep not in self._outputs}
            for step in self._order
            if step.id not in self._outputs
        }
        followers: dict[str, list[str]] = {}
        for name, deps in waiting.items():
            for dep in deps:
                followers.setdefault(dep, []).append(name)
        place = {step.id: i for i, step in enumerate(self._plan.steps)}
        # In the plan's own order: a long chain that the plan names first does not wait for other
        # steps that are ready too.
        ready = [(place[name], name) for name, deps in waiting.items() if not deps]
        heapq.heapify(ready)
        self._progress("starting", len(self._outputs), total)
        while ready or self._flying or self._skipped:
            self._launch(ready)
            for name in self._settle():
                self._progress(name, len(self._outputs), total)
                for follower in self._freed(name, followers):
                    waiting[follower].discard(name)
                    if not waiting[follower]:
                        heapq.heappush(ready, (place[follower], follower))
            if self._may_leave():
                break
        return self._outcome(total)

    def _freed(self, name: str, followers: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """The steps that wait no longer for this one, which has ended. Where it failed, those that
        tolerate it go on, and those before them that do not are recorded as skipped."""
        for follower in followers.get(name, ()):
            if name in self._outputs or self._steps[follower].tolerant:
                yield follower
            elif self._tolerant and follower not in self._failed:
                step = self._steps[follower]
                said = f"skipped: {name} failed"
                self._journal.failed(self._run_id, follower, step.action, said)
                self._failed[follower] = Task(follower, step.action, "failed", said, None)
                self._skipped.append(follower)

    def _may_leave(self) -> bool:
        """True once the run is to stop and none of its steps runs in this process. Other processes
        finish their steps, and a later driver finds these in the journal."""
        if not self._signals.stop.is_set():
            return False
        if not self._told_others and not self._signals.leaving:
            self._told_others = True
            self._stop_others("stopped", self._signals.reason)
        if self._runtime.alone:
            return not self._flying
        return not (self._runtime.busy(self._run_id) or any(t.is_alive() for t in self._here))

    def _stop_others(self, status: Status, reason: str) -> None:
        """Other processes make no more calls for the run, and take no more steps of it."""
        if self._runtime.alone:
            return
        with suppress(BeforehandError):
            if not self._cancelled:
                self._journal.mark(self._run_id, status, reason)
            self._runtime.withdraw(self._run_id, list(self._flying))

    def _launch(self, ready: list[tuple[int, str]]) -> None:
        """Start steps up to the cap; those that stay here get a thread of this process."""
        batch: list[Step] = []
        while (
            ready
            and len(self._flying) + len(batch) < self._window
            and not self._signals.stop.is_set()
        ):
            step = self._steps[heapq.heappop(ready)[1]]
            self._inputs[step.id] = step.inputs(self._outputs)
            batch.append(step)
        if not batch:
            return
        self._journal.started(self._run_id, [(step.id, step.action) for step in batch])
        self._flying |= {step.id: step for step in batch}
        away = [(step.id, self._inputs[step.id]) for step in batch if not step.here]
        self._runtime.ensure(self._run_id, away)
        for step in batch:
            if step.here:
                self._progress(step.id, len(self._outputs), len(self._order))
                inputs = self._inputs[step.id]
                # On a thread, so that the driver still sees a cancellation and other processes.
                thread = threading.Thread(
                    target=self._runtime.run, args=(self._run_id, step.id, inputs), name="step"
                )
                self._here = [t for t in self._here if t.is_alive()] + [thread]
                thread.start()

    def _settle(self) -> list[str]:
        """Wait a moment; returns the steps that have succeeded meanwhile, and where the plan has
        steps that tolerate it, those that have not."""
        if self._skipped:
            found, self._skipped = self._skipped, []
            return found
        ended = set(self._ended())
        if not self._runtime.alone and stopwatch() - self._looked > LOOK_S:
            away = [(n, self._inputs[n]) for n, s in self._flying.items() if not s.here]
            self._runtime.ensure(self._run_id, away)
        if stopwatch() - self._looked > LOOK_S:
            self._looked = stopwatch()
            self._still()
            self._look_for_cancellation()
            self._progress(next(iter(self._flying), ""), len(self._outputs), len(self._order))
        names = list(self._flying) if not self._runtime.alone else sorted(ended)
        if not names:
            return []
        succeeded = []
        tasks = {
            task.task_id: task
            for task in self._journal.tasks(self._run_id, names)
            if task.status != "running"
        }
        if any(task.status == "success" for task in tasks.values()):
            done = self._journal.done(self._run_id, list(tasks))
        for name in names:
            error = self._runtime.errors.pop((self._run_id, name), None)
            if error is not None:
                raise error
            task = tasks.get(name)
            if task is None or name not in self._flying:
                continue
            del self._flying[name]
            if task.status == "success":
                self._outputs[name] = done[name].output
                succeeded.append(name)
            else:
                self._failed[name] = task
                error = recorded_error(task.error or "")
                if (task.error or "").startswith(STOPPING):
                    self._signals.end((task.error or "").removeprefix("Stopped: "))
                elif isinstance(error, (Corrupt, CutoffViolation)):  # In another process.
                    raise error
                elif self._tolerant:
                    succeeded.append(name)
        return succeeded

    def _ended(self) -> Iterator[str]:
        """The ids of steps that ended in this process, after waiting a moment for one."""
        try:
            yield self._ended_here.get(timeout=POLL_S)
            while True:
                yield self._ended_here.get_nowait()
        except queue.Empty:
            return

    def _look_for_cancellation(self) -> None:
        found = self._journal.run(self._run_id)
        if found is not None and found.status in ENDED and not self._cancelled:
            self._cancelled, self._cancelled_by = True, found.reason or "cancelled by the user"
            self._signals.end("cancelled: the run was cancelled")

    def _tolerated(self) -> bool:
        """True if every step that did not succeed leads to one that tolerates it and succeeded."""
        covered = set[str]()
        for step in reversed(self._order):
            if (step.id in self._outputs and step.tolerant) or (
                step.id not in self._outputs and step.id in covered
            ):
                covered |= set(step.deps)
        return all(s.id in self._outputs or s.id in covered for s in self._order)

    def _outcome(self, total: int) -> Outcome:
        undone = total - len(self._outputs) - len(self._failed)
        failed = list(self._failed.values())
        complete = len(self._outputs) == total or self._tolerated()
        # The first step of a plan that grows is not its end: others follow, and would be begun.
        stopped = self._signals.stop.is_set() and all(step.grows for step in self._order)
        if complete and not stopped:
            return Outcome("success", failed=failed)
        self._look_for_cancellation()
        if self._cancelled:
            return Outcome("cancelled", self._cancelled_by, failed, undone)
        if self._signals.leaving:
            return Outcome("left", self._signals.reason, failed, undone)
        if self._signals.stop.is_set():
            number = self._signals.number
            return Outcome("stopped", self._signals.reason, failed, undone, number)
        first = failed[0]
        reason = f"{first.task_id}: {first.error}"
        passing = all((task.error or "").startswith(PASSING) for task in failed)
        return Outcome("stopped" if passing else "failed", reason, failed, undone)


@contextmanager
def _caught(runtime: Runtime, run_id: str, say: Callable[[str], None]) -> Iterator[None]:
    """On SIGINT or SIGTERM make no new calls, and wait for those in flight. A second signal ends
    the process at once, which loses no more than a kill does."""
    signals = runtime.signals(run_id)

    def handle(number: int, _: FrameType | None) -> None:
        if signals.number is not None:
            os._exit(128 + number)
        signals.number = number
        signals.end(f"cancelled: stopped by {signal.Signals(number).name}")
        say(
            f"run {run_id}: stopping; {runtime.busy(run_id)} steps still wait for their answers "
            "(a second signal stops at once)"
        )

    before = {name: signal.signal(name, handle) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)


def raise_for(outcome: Outcome, run_id: str) -> None:
    """Raise an error that tells the user how an unfinished run ended, and how to resume it."""
    if outcome.status == "success":
        return
    n, left = len(outcome.failed), outcome.undone + len(outcome.failed)
    steps = f"{left:,} step{'' if left == 1 else 's'} left"
    if outcome.status == "failed":
        steps = f"{n:,} step{'' if n == 1 else 's'} failed, {outcome.undone:,} not begun"
    spent = re.search(r": resume with a larger (--max-\w+) to go on", outcome.reason or "")
    more = f" {spent[1]} N" if spent else ""
    reason = (outcome.reason or "").removeprefix("skipped: ").replace(spent[0] if spent else "", "")
    text = (
        f"run {run_id} {_ENDED[outcome.status]}: {reason} ({steps}); `beforehand runs resume "
        f"{run_id}{more}` goes on from here"
    )
    if outcome.signal is not None:
        raise Interrupted(text, outcome.signal)
    if outcome.status == "failed":
        raise type(recorded_error(outcome.failed[0].error or ""))(text)
    raise Stopped(text)


_ENDED = {
    "stopped": "stopped",
    "cancelled": "was cancelled",
    "failed": "failed",
    "left": "was left to other processes",
}
