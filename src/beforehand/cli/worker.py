"""`beforehand worker`."""

import os
import signal
import threading
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, note
from beforehand.config import Workspace
from beforehand.engine.runs import PAID_AT_ONCE
from beforehand.engine.worker import work
from beforehand.errors import EXIT_OK
from beforehand.jobs.checks import between


def worker(
    *,
    concurrency: Annotated[int, Parameter(help="Calls in flight at once.")] = PAID_AT_ONCE,
    archive: Annotated[
        str | None,
        Parameter(help="The archive's folder on this machine, or its URL [the run's own path]."),
    ] = None,
    json: Json = False,
) -> int:
    """Work on the runs of a shared Postgres (BEFOREHAND_DATABASE_URL) until stopped.

    SIGINT and SIGTERM end it cleanly: it waits for its calls in flight, and the other workers take
    over the work that it had started. A second signal ends it at once.
    """
    stop = threading.Event()

    def handle(number: int, _: object) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    workspace = Workspace.from_environment()
    done = work(workspace, between("concurrency", concurrency, 1, 256, "--"), archive, stop, note)
    if json:
        emit(done)
    else:
        print(f"worker {done['worker'][:12]}: {done['steps']:,} steps done")
    return EXIT_OK
