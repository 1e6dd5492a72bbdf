"""`beforehand worker`."""

import signal
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import between
from beforehand.cli.output import Json, emit, note
from beforehand.config import Home
from beforehand.errors import EXIT_OK
from beforehand.work.jobs import PAID_AT_ONCE, work


def worker(
    *,
    concurrency: Annotated[int, Parameter(help="Steps and calls at once.")] = PAID_AT_ONCE,
    archive: Annotated[
        Path | None, Parameter(help="Where this machine keeps the archive [where the run has it].")
    ] = None,
    json: Json = False,
) -> int:
    """Work on the runs of a shared Postgres (BEFOREHAND_DATABASE_URL) until stopped.

    SIGINT and SIGTERM end it cleanly: calls in flight are waited for, and the other workers take
    over what it had begun.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    home = Home.from_environment()
    done = work(home, between("--concurrency", concurrency, 1, 256), archive, stop, note)
    if json:
        emit(done)
    else:
        print(f"worker {done['worker'][:12]}: {done['steps']:,} steps done")
    return EXIT_OK
