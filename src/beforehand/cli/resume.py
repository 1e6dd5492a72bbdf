"""`beforehand runs resume|fork`: continue a run, or branch off from it."""

from datetime import datetime
from typing import Annotated, Literal

from cyclopts import Parameter

from beforehand.cli.answers import print_answer
from beforehand.cli.options import Fresh, LimitFlags, RunId, run_limits
from beforehand.cli.output import Json, emit, exit_code_of, scores_of
from beforehand.cli.runs import Run, opened
from beforehand.clock import parse_instant
from beforehand.engine.runs import Finished
from beforehand.engine.runs import fork as fork_run
from beforehand.engine.runs import resume as resume_run
from beforehand.errors import EXIT_OK, InputError
from beforehand.front.reporting import reporting
from beforehand.runs.query import find_run


def resume(
    run_id: Run,
    /,
    *,
    max_calls: Annotated[int | None, Parameter(help="A new limit of paid calls.")] = None,
    max_tokens: Annotated[int | None, Parameter(help="A new limit of tokens.")] = None,
    max_cost: Annotated[float | None, Parameter(help="A new limit in US dollars.")] = None,
    cost_per_call: Annotated[
        float | None, Parameter(help="US dollars that a call is expected to cost.")
    ] = None,
    in_flight: Annotated[
        Literal["resend", "skip", "stop"] | None,
        Parameter(help="For calls whose answer never came: send again, give up, or stop."),
    ] = None,
    concurrency: Annotated[int | None, Parameter(help="Steps and calls in flight.")] = None,
    timeout: Annotated[
        float | None, Parameter(help="Seconds that one answer may take, from now on.")
    ] = None,
    rate: Annotated[
        str | None, Parameter(help="Most requests to each address, from now on: 10/s, 600/min.")
    ] = None,
    fresh: Fresh = False,
    json: Json = False,
) -> int:
    """Continue a run that was stopped, killed, cancelled or failed."""
    workspace, journal = opened()
    given = {
        "max_calls": max_calls,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "cost_per_call": cost_per_call,
        "in_flight": in_flight,
        "concurrency": concurrency,
        "timeout": timeout,
        "rate": rate,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    run_limits(LimitFlags(**changes))  # type: ignore[arg-type]  # The checks of a new run.
    name = find_run(run_id, workspace.home, journal)
    with reporting("resume") as report:
        finished = resume_run(workspace, name, changes, report=report, fresh=fresh)
    _print_finished(finished, json)
    return _ended(finished)


def fork(
    run_id: Run,
    /,
    *,
    at: Annotated[str, Parameter(help="From this instant on (ISO 8601).")],
    model: Annotated[
        list[str], Parameter(help="OLD=NEW: from there on, model NEW takes the place of OLD.")
    ],
    new_id: RunId = None,
    fresh: Fresh = False,
    json: Json = False,
) -> int:
    """Repeat a run up to an instant from its own answers, at no cost, and continue from there with
    another model."""
    workspace, journal = opened()
    name = find_run(run_id, workspace.home, journal)
    with reporting("fork") as report:
        moment = _instant("--at", at)
        finished = fork_run(workspace, name, moment, model, new_id, report=report, fresh=fresh)
    _print_finished(finished, json)
    return _ended(finished)


def _ended(finished: Finished) -> int:
    """As of a run that was never stopped."""
    return exit_code_of(scores_of(finished)) if "leaderboard" in finished.summary else EXIT_OK


def _print_finished(finished: Finished, json: bool) -> None:
    folder, summary = finished.folder, finished.summary
    report = folder.path / "report.html"
    if json:
        more = {"report": str(report)} if report.is_file() else {}
        emit({**summary, "run_id": folder.run_id, **more})
    elif "leaderboard" in summary:
        from beforehand.cli.tables import print_result

        print_result(scores_of(finished), report)
    elif "answer" in summary:
        print_answer(summary)
    elif "artifacts" in summary:
        from beforehand.cli.scout import print_run

        print_run(folder)
    else:
        print(f"run {folder.run_id}: {summary}")


def _instant(option: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
