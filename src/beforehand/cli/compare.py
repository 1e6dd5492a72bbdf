"""`beforehand runs compare`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import Draws, Seed
from beforehand.cli.output import Json, emit
from beforehand.cli.runs import opened
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, table
from beforehand.errors import EXIT_OK
from beforehand.jobs.checks import between, settings
from beforehand.runs.compare import compare_forecasters, compare_questions, subject_of
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
    questions: Annotated[
        int | None, Parameter(help="List the questions instead on which they differ most.")
    ] = None,
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
        folder = open_run(home.runs, find_run(name, home, journal, scored=True))
        subjects.append(subject_of(folder, forecaster or None))
    if questions is not None:
        most = between("questions", questions, 1, 1_000_000, "--")
        rows = compare_questions(subjects[0], subjects[1])
        if json:
            emit({"a": a, "b": b, "total": len(rows), "questions": rows[:most]})
            return EXIT_OK
        head = [("market", "left"), ("outcome", "right"), ("forecasts", "right")]
        head += [("error of a", "right"), ("error of b", "right"), ("b - a", "right")]
        cells = [
            [row["market_id"], f"{row['outcome']:g}", f"{row['n']:,}"]
            + [figure(row[name]) for name in ("a", "b", "difference")]
            for row in rows[:most]
        ]
        screen().print(table(f"a = {a}, b = {b}: mean squared errors", head, cells))
        print(f"{len(cells):,} of {len(rows):,} questions; above 0, a is better")
        return EXIT_OK
    options = Options(draws=checked.draws, seed=checked.seed)
    found = compare_forecasters(subjects[0], subjects[1], options)
    if json:
        emit(found.wire())
    else:
        print(found)
    return EXIT_OK
