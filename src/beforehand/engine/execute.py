"""One step: look up, run, record. Failures that may pass are tried again; the rest is recorded."""

import random

from beforehand import errors
from beforehand.clock import stopwatch
from beforehand.engine.context import Signals, StepContext
from beforehand.engine.job import Job
from beforehand.engine.plan import Step, bus_file_of
from beforehand.errors import BeforehandError, Corrupt, CutoffViolation, Stopped, Unavailable
from beforehand.store.journal.journal import Journal

BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 60.0


def execute(
    job: Job,
    step: Step,
    inputs: str,
    *,
    owner: str,
    journal: Journal,
    signals: Signals,
) -> None:
    """Run a step and write down how it ended. Returns normally in either case.

    Raises only errors that must end this process's work on the run: a broken invariant, or an
    exception that is not ours (a bug). Both are recorded as well.
    """
    if signals.stop.is_set() and signals.leaving:
        return
    run_id, started = job.plan.run_id, stopwatch()

    def failed(error: BaseException) -> None:
        took = 1000 * (stopwatch() - started)
        journal.failed(run_id, step.id, step.action, _as_recorded(error), took)

    there = journal.done(run_id, list(step.deps)) if step.tolerant else step.deps
    outputs = {dep: journal.output(run_id, dep) for dep in step.deps if dep in there}
    for attempt in range(1, step.attempts + 1):
        context = StepContext(run_id, step.id, owner, journal, signals, attempt=attempt)
        try:
            output = job.actions[step.action](step.args, outputs, context)
            context.commit()
        except Stopped as error:
            if not signals.leaving:  # Else it stays recorded as begun, and is taken over.
                failed(error)
            return
        except Unavailable as error:
            pause = _pause(error, attempt)
            if attempt < step.attempts and not signals.stop.wait(pause):
                continue
            if not signals.leaving:
                failed(error)
            return
        except BeforehandError as error:
            failed(error)
            if isinstance(error, (Corrupt, CutoffViolation)):
                raise
            return
        except BaseException as error:
            failed(error)
            raise
        else:
            journal.finished(
                run_id,
                step.id,
                step.action,
                output,
                inputs=inputs,
                duration_ms=1000 * (stopwatch() - started),
                parts=context.parts,
                output_file_path=bus_file_of(output),
            )
            return


def _pause(error: Unavailable, attempt: int) -> float:
    """Seconds to wait before the next attempt: what the service asks for, else longer each time."""
    wait = error.retry_after or random.uniform(0.5, 1.0) * BACKOFF_S * 2 ** (attempt - 1)
    return min(wait, LONGEST_BACKOFF_S)


def _as_recorded(error: BaseException) -> str:
    """The text that a failed task keeps of an error; `recorded_error` reads it."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, Stopped):  # Its first word is the documented reason.
        text = str(error) if str(error).startswith(("cancelled", "skipped")) else text
    return text


def recorded_error(text: str) -> BeforehandError:
    """The error that a failed task's text stands for."""
    name, _, message = text.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, BeforehandError):
        return kind(message)
    return BeforehandError(text)
