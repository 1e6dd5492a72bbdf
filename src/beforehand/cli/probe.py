"""`beforehand backtest probe`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.backtest import Every, MostShown
from beforehand.cli.output import ArchivePath, Json, TextGrade, archive_path, emit
from beforehand.errors import EXIT_FAILED, EXIT_OK
from beforehand.front.probe import probe as run_probe
from beforehand.front.world import World
from beforehand.jobs.probe.arms import restore
from beforehand.jobs.probe.probe import DRAWS


def probe(
    forecaster: Annotated[
        str,
        Parameter(
            help="python:module:name, python:./file.py:name, command:./program, or a baseline."
        ),
    ],
    /,
    *,
    n: Annotated[int, Parameter(help="Pairs of an instant and a market; ten markets each.")] = 200,
    every: Every = "7d",
    evidence: MostShown = 5,
    grade: TextGrade = "captured",
    draws: Annotated[
        int, Parameter(help="How often one with chance of its own is asked in each world.")
    ] = DRAWS,
    seed: Annotated[int, Parameter(help="Seed of instants, markets and the other future.")] = 0,
    timeout: Annotated[float, Parameter(help="Seconds that one process may take.")] = 300.0,
    swap: Annotated[
        bool, Parameter(negative="", help="Move the worlds to the archive's path, mount none.")
    ] = False,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Find out whether a forecaster's answers depend on anything after the instant asked about.

    It is begun anew in pairs of worlds that are the same until an instant and different after it.
    Exit code 1 if an answer depends on what came later.
    """
    path = archive_path(archive)
    restore(path)
    found = run_probe(
        forecaster,
        World(path),
        n,
        every=every,
        evidence=evidence,
        grade=grade,
        draws=draws,
        seed=seed,
        timeout=timeout,
        swap=swap,
    )
    if json:
        emit(found.wire())
    else:
        print(found)
    return EXIT_FAILED if found.peeked else EXIT_OK
