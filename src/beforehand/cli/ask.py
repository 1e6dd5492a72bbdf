"""`beforehand ask`: a question, its plan, and one answer with citations."""

from typing import Annotated, Any

from cyclopts import Parameter

from beforehand.cli.options import RunId
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, plain_table
from beforehand.config import Workspace, WorldMode
from beforehand.engine.job import RunLimits
from beforehand.engine.runs import start
from beforehand.errors import EXIT_OK, InputError
from beforehand.front.reporting import reporting
from beforehand.jobs.ask.ask_job import AskJob, AskRequest
from beforehand.jobs.checks import checked, instant


def ask(
    question: Annotated[str, Parameter(help="What you want to know, in your own words.")],
    /,
    *,
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
    concurrency: Annotated[int, Parameter(help="Agents at work at once.")] = 4,
    run_id: RunId = None,
    json: Json = False,
) -> int:
    """Answer a question from what was known at an instant: agents search the markets, their pages
    and documents, follow prices and quotes, and write what they find to the file bus.

    The plan is made by rules. Every sentence of the answer names the record that it rests on; what
    was not found is said.
    """
    workspace = Workspace.from_environment()
    pinned = None if as_of is None else instant("as-of", as_of, "--")
    if pinned is not None and pinned > workspace.clock.now():
        raise InputError(f"--as-of {as_of} lies in the future")
    limits = checked(RunLimits(concurrency=concurrency), "--")
    request = AskRequest(question, archive_path(archive).resolve(), pinned, mode, limits)
    if plan:
        _show_plan(AskJob(request, "plan", workspace).planned(), json)
        return EXIT_OK
    with reporting("ask", not json) as report:
        finished = start(request, workspace, run_id, report)
    found = finished.summary
    if json:
        emit(found)
    else:
        _print(found)
    return EXIT_OK


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


def _print(found: dict[str, Any]) -> None:
    print(found["answer"])
    if found["not_found"]:
        print("\nNot found:")
        for text in found["not_found"]:
            print(f"- {text}")
    if found["citations"]:
        print()
    for one in found["citations"]:
        place = one.get("url") or one["file"]
        where = "" if place == one["id"] else f", {place}"
        print(f"[{one['n']}] {one['kind']} {one['id']}{where}")
