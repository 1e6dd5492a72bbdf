"""`beforehand runs submission`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, note
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.runs import submissions as work
from beforehand.runs.query import open_sealed
from beforehand.store.files import write_json

MOST = 5


def submission(
    run_id: Annotated[str, Parameter(help="The run, or latest.")],
    /,
    *,
    to: Annotated[Literal["forecastbench", "metaculus"], Parameter(help="Whose form it has.")],
    out: Annotated[Path, Parameter(help="The JSON file.")],
    forecaster: Annotated[str | None, Parameter(help="Whose forecasts, where it has many.")] = None,
    questions: Annotated[Path | None, Parameter(help="ForecastBench: the question set.")] = None,
    organization: Annotated[str | None, Parameter(help="ForecastBench: your team.")] = None,
    ids: Annotated[
        Path | None,
        Parameter(help="Metaculus: a CSV with market_id and question, its number there."),
    ] = None,
    json: Json = False,
) -> int:
    """Write a run's forecasts in the form that ForecastBench or Metaculus takes. Nothing is sent.

    Of each question it is the last forecast, on ForecastBench the last by the end of the due date.
    What the set asks and the run did not forecast is counted, and the exit code is then 3.
    """
    folder = open_sealed(run_id, Workspace.from_environment())
    made = work.forecasts_of(folder, forecaster)
    if to == "metaculus":
        found = work.metaculus(made, ids)
    elif questions is None or organization is None:
        raise InputError("--to forecastbench needs --questions SET and --organization NAME")
    else:
        who = next(iter(made.values()))[0].metadata
        found = work.forecastbench(made, questions, organization, who.predictor_id or who.model)
    write_json(out, found.content)
    if json:
        emit({"out": str(out), "forecasts": found.forecasts, "missing": list(found.missing)})
    else:
        print(f"{out}: {found.forecasts:,} forecasts")
    if found.missing:
        few = [*found.missing[:MOST], *(["…"] if len(found.missing) > MOST else [])]
        note(f"without a forecast: {len(found.missing):,} ({', '.join(few)})")
        return EXIT_PARTIAL
    return EXIT_OK
