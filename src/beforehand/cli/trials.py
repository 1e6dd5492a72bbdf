"""`beforehand runs trials`."""

from beforehand.cli.output import Json, emit, plain_table
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK
from beforehand.store.trials import read_trials

WHAT = {
    "file": "forecasters of scored files",
    "backtest": "forecasters of backtests",
    "stakes": "stake rules",
    "gate": "comparisons that may fail a build",
    "leave-out": "rows left out on request, as earlier versions noted it",
}


def trials(*, json: Json = False) -> int:
    """What was tried on which markets: what the validity card counts as variants.

    A variant of a file is its forecasts, one of a backtest is a forecaster with its version and how
    it was run, from its first answer on, also where the run was stopped. An earlier one counts for
    a later run if it covered a tenth of that run's markets; each kind is counted apart. What
    `score --leave-out` leaves of a file is a variant of its own. A trial (`--try`, `--check`)
    counts nothing.
    """
    path = Workspace.from_environment().home.trials
    found = read_trials(path)
    if json:
        emit({"ledger": str(path), "trials": found})
        return EXIT_OK
    if not found:
        print(f"nothing was tried yet: {path} is empty")
        return EXIT_OK
    rows = [["tried", "of", "first in run", "at", "markets", "archive"]]
    rows += [
        [
            WHAT.get(row["family"], row["family"]),
            row.get("name", "(noted by an earlier version)"),
            row.get("run_id", ""),
            row.get("at", "")[:16].replace("T", " "),
            f"{len(row['markets']):,}",
            row.get("archive", "")[:8],
        ]
        for row in found
    ]
    print(plain_table(rows))
    print(f"{len(found):,} lines in {path}")
    return EXIT_OK
