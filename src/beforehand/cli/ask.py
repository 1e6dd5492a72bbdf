"""`beforehand ask`: a question, its plan, and one answer with citations."""

from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

from beforehand.cli.answers import print_answer
from beforehand.cli.aside import Model
from beforehand.cli.options import LimitFlags, RunId, run_limits
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note, plain_table
from beforehand.config import Workspace, WorldMode
from beforehand.engine.runs import start
from beforehand.errors import EXIT_OK, InputError
from beforehand.front.reporting import reporting
from beforehand.jobs.ask.ask_job import AGENTS_AT_ONCE, AskJob, AskRequest
from beforehand.jobs.checks import instant


def ask(
    *question: Annotated[str, Parameter(help="What you want to know, in your own words.")],
    plan: Annotated[
        bool, Parameter(negative="", help="Show the plan and do nothing: no agent is run.")
    ] = False,
    as_of: Annotated[
        str | None,
        Parameter(help="Answer as of this instant [replay: the archive's last one; live: now]."),
    ] = None,
    mode: Annotated[
        WorldMode,
        Parameter(help="replay: the archive. live: the services. record: live, and stored."),
    ] = "replay",
    archive: ArchivePath = None,
    model: Model = None,
    review: Annotated[
        bool, Parameter(negative="", help="Let the model check the finished answer.")
    ] = False,
    limits: LimitFlags | None = None,
    run_id: RunId = None,
    json: Json = False,
) -> int:
    """Answer a question from what was known at an instant: agents search the markets, their pages
    and documents, follow prices and quotes, and write what they find to the file bus.

    The plan is made by rules, or by a model with --model, which then also rates how well markets
    fit and writes code. Every sentence of the answer names the record that it rests on; what was
    not found is said.
    """
    workspace = Workspace.from_environment()
    pinned = None if as_of is None else instant("as-of", as_of, "--")
    if pinned is not None and pinned > workspace.clock.now():
        raise InputError(f"--as-of {as_of} lies in the future")
    found = run_limits(limits)
    allowed = replace(found, concurrency=found.concurrency or AGENTS_AT_ONCE)
    path = archive_path(archive).resolve()
    request = AskRequest(" ".join(question), path, pinned, mode, allowed, model, review)
    if plan and model is None:  # Rules cost nothing: no run is begun.
        _show_plan(AskJob(request, "plan", workspace).planned(), json)
        return EXIT_OK
    with reporting("ask", not json) as report:
        finished = start(request, workspace, run_id, report, plan_only=plan)
    if plan:
        _show_plan({**finished.summary, "run_id": finished.folder.run_id}, json)
        return EXIT_OK
    _show(finished.summary, json)
    return EXIT_OK


def _show(found: dict[str, Any], json: bool) -> None:
    if json:
        emit(found)
    else:
        print_answer(found)


def _show_plan(found: dict[str, Any], json: bool) -> None:
    if json:
        emit(found)
        return
    print(f"as of {found['as_of']}, planned by {found['planned_by']}")
    head = ("task", "agent", "after", "tools", "why")
    rows = [
        (
            task["id"],
            task["agent"],
            ", ".join(task["deps"]),
            ", ".join(task["tools"]),
            task["why"],
        )
        for task in found["tasks"]
    ]
    print(plain_table([head, *rows]))
    if "note" in found:
        note(found["note"])
    if "run_id" in found:
        print(f"`beforehand runs resume {found['run_id']}` carries it out")
