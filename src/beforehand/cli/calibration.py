"""`beforehand runs calibration`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import BinningRule
from beforehand.cli.output import Json, emit
from beforehand.cli.runs import Run, opened
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, span, table
from beforehand.errors import EXIT_OK
from beforehand.jobs.checks import between
from beforehand.runs.calibration import calibration_of, questions_of_bin
from beforehand.runs.compare import subject_of
from beforehand.runs.query import find_run
from beforehand.score.metrics import BINS
from beforehand.store.run_folder import open_run


def calibration(
    run_id: Run,
    /,
    *,
    forecaster: Annotated[
        str | None, Parameter(help="A forecaster [the only one under test].")
    ] = None,
    bins: Annotated[int, Parameter(help="Bins of equal width.")] = BINS,
    bin: Annotated[
        int | None, Parameter(help="Show the forecasts of this bin instead; 0 is the lowest.")
    ] = None,
    binning: BinningRule = "snapped",
    json: Json = False,
) -> int:
    """Of a forecaster's forecasts near a value, how many came true: with an interval for each bin,
    and the questions behind it."""
    workspace, journal = opened()
    between("bins", bins, 2, 50, "--")
    folder = open_run(workspace.home.runs, find_run(run_id, workspace.home, journal, scored=True))
    one = subject_of(folder, forecaster)
    if bin is not None:
        rows = questions_of_bin(one, bin, bins, binning)
        if json:
            emit({"run_id": folder.run_id, "forecaster": one.name, "bin": bin, "questions": rows})
            return EXIT_OK
        head = [("market", "left"), ("time", "left"), ("forecast", "right"), ("outcome", "right")]
        cells = [
            [row["market_id"], row["time"], figure(row["probability"]), f"{row['outcome']:g}"]
            for row in rows
        ]
        screen().print(table(f"{one.name}, bin {bin} of {bins}", head, cells))
        return EXIT_OK
    found = calibration_of(one, bins, binning)
    if json:
        emit(found)
        return EXIT_OK
    columns = [("forecasts", "left"), ("n", "right"), ("questions", "right"), ("share", "right")]
    columns += [("mean forecast", "right"), ("came true", "right"), ("95 %", "right")]
    lines = [
        [
            f"{row['low']:.2g} to {row['high']:.2g}",
            f"{row['n']:,}",
            f"{row['n_questions']:,}",
            f"{row['share']:.1%}",
            figure(row["forecast"]),
            figure(row["outcome"]),
            span(row["ci"]),
        ]
        for row in found["bins"]
    ]
    screen().print(table(f"{found['forecaster']} in run {folder.run_id}", columns, lines))
    print(
        f"calibration error {figure(found['ece'])} (lower is better) over {found['n']:,} forecasts "
        f"of {found['n_questions']:,} questions, each with one vote"
    )
    return EXIT_OK
