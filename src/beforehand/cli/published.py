"""`beforehand bench published`: other benchmarks' result files, scored again."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import BinningRule
from beforehand.cli.output import Json, emit
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, table
from beforehand.errors import EXIT_OK, InputError
from beforehand.jobs.benchmark.published import read


def published(
    files: Annotated[list[Path], Parameter(help="Result files, plain or .gz.")],
    /,
    *,
    binning: BinningRule = "float_edges",
    json: Json = False,
) -> int:
    """Score result files of KalshiBench and of consistency forecasting again, beside the figures
    that they state themselves."""
    if not files:
        raise InputError("name at least one result file")
    found = [read(path, binning) for path in files]
    if json:
        emit({"binning": binning, "files": found})
        return EXIT_OK
    rows = [
        [
            one["forecaster"],
            one["kind"],
            f"{one['n']:,}",
            name.replace("_", " "),
            figure(value, 4),
            "" if (said := one["stated"][name]) is None else figure(said, 4),
            "" if one["bins"] is None else f"{one['bins_agree']} of {one['bins']}",
        ]
        for one in found
        for name, value in one["ours"].items()
    ]
    columns = [("forecaster", "left"), ("file of", "left"), ("n", "right"), ("figure", "left")]
    columns += [("ours", "right"), ("stated", "right"), ("bins that agree", "right")]
    screen().print(table(f"binning: {binning}", columns, rows))
    return EXIT_OK
