"""`beforehand collect`: what an unmodified client of MCP forecasts, gathered into a file."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.backtest import End, Every, GridKind, MarketIds, Start, instant_of, markets_of
from beforehand.cli.output import ArchivePath, Json, TextGrade, archive_path, emit, note
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.front.progress import progress
from beforehand.jobs.backtest.grid import parse_interval
from beforehand.jobs.collect import Order
from beforehand.jobs.collect import collect as gather


def collect(
    *client: Annotated[str, Parameter(help="The client's command line, after --.")],
    out: Annotated[
        Path, Parameter(help="The file: CSV, or JSONL by its name. `beforehand score` reads it.")
    ] = Path("collected.csv"),
    name: Annotated[str, Parameter(help="What the forecaster is called.")] = "client",
    markets: MarketIds = "all",
    every: Every = "7d",
    grid: GridKind = "aligned",
    start: Start = None,
    end: End = None,
    timeout: Annotated[float, Parameter(help="Seconds that a client has at an instant.")] = 600.0,
    grade: TextGrade = "captured",
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Gather the forecasts of an unmodified MCP client into a file, instant after instant.

    At each instant the client is started with the questions (on standard input, and in the file
    BEFOREHAND_QUESTION), the address of our tools (BEFOREHAND_MCP_URL, or the file
    BEFOREHAND_MCP_CONFIG) and a token that is pinned to it (BEFOREHAND_TOKEN). It answers with the
    tool submit_forecasts. The same command goes on after a kill; what is done is not asked again.
    """
    if not client:
        raise InputError("name the client: beforehand collect --every 7d -- ./agent.sh")
    if not 0 < timeout < 10**7:
        raise InputError("--timeout must be above 0")
    if not out.name:
        raise InputError(f"--out {out}: name a file")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # The client is ended with us.
    workspace = Workspace.from_environment()
    order = Order(
        archive_path(archive).resolve(),
        out,
        shlex.join(client),
        markets_of(markets),
        parse_interval(every),
        grid,
        instant_of("start", start),
        instant_of("end", end),
        grade,
        timeout,
        name,
    )
    with progress("collect") as update:
        done = gather(order, workspace, update, note)
    if json:
        emit({"out": str(out), **vars(done)})
    else:
        before = f" ({done.known:,} were on record)" if done.known else ""
        print(
            f"{out}: {done.forecasts:,} forecasts, {done.unanswered:,} unanswered questions; "
            f"{done.instants:,} instants asked{before}"
        )
        for rule, n in sorted(done.odd.items()):
            print(f"  {n:,} × {rule}")
        print(f"next: beforehand score {out}")
    return EXIT_PARTIAL if done.failures else EXIT_OK
