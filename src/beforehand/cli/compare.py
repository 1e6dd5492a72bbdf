"""`beforehand runs compare`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import Draws, Seed
from beforehand.cli.output import Json, emit
from beforehand.cli.runs import opened
from beforehand.errors import EXIT_OK
from beforehand.jobs.checks import settings
from beforehand.runs.compare import compare_forecasters, subject_of
from beforehand.runs.query import find_run
from beforehand.score.skill import Options
from beforehand.store.run_folder import open_run

Compared = Annotated[
    str, Parameter(help="RUN:FORECASTER; RUN alone stands for its only forecaster under test.")
]


def compare(
    a: Compared,
    b: Compared,
    /,
    *,
    draws: Draws = 2000,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Two forecasters against each other, of one run or of two, on the rows that both forecast.

    The difference is b's Brier score minus a's, with its interval (as for skill against the
    market), and the difference that would have been found with a power of 80 %.
    """
    workspace, journal = opened()
    home, checked = workspace.home, settings(seed, draws, 0, mark="--")
    subjects = []
    for text in (a, b):
        name, _, forecaster = text.partition(":")
        folder = open_run(home.runs, find_run(name, home, journal))
        subjects.append(subject_of(folder, forecaster or None))
    options = Options(draws=checked.draws, seed=checked.seed)
    found = compare_forecasters(subjects[0], subjects[1], options)
    if json:
        emit(found.wire())
    else:
        print(found)
    return EXIT_OK
