"""`beforehand scout plan|run|resume|show`: a subject becomes a plan, the plan a DAG, four files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from beforehand.cli.aside import Model
from beforehand.cli.options import LimitFlags, RunId, run_limits
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.cli.resume import resume as resume_any
from beforehand.cli.runs import Run, opened
from beforehand.config import Home, Workspace, WorldMode
from beforehand.engine.runs import check_name, start
from beforehand.errors import EXIT_OK, InputError
from beforehand.front.reporting import reporting
from beforehand.ids import new_run_id
from beforehand.jobs.checks import instant
from beforehand.jobs.scout.drawing import drawn
from beforehand.jobs.scout.reading import REPORT, read_plan
from beforehand.jobs.scout.scout_agent import ScoutAgent
from beforehand.jobs.scout.scout_job import ScoutRequest
from beforehand.records.plan import PLAN_FILE, ScoutPlan, Window
from beforehand.runs.query import find_run
from beforehand.runs.scouted import unchanged
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_json, write_json
from beforehand.store.run_folder import RunFolder, open_run


@Parameter(name="*")
@dataclass
class ScoutFlags:
    """What is scouted, as of when, in which world, and by which model."""

    keyword: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A keyword to search for; may be repeated [from the words]."),
    ] = ()
    subreddit: Annotated[
        tuple[str, ...], Parameter(negative="", help="Only this subreddit; may be repeated [all].")
    ] = ()
    window: Annotated[
        Window | None, Parameter(help="How far to look back [12m; with a model: its].")
    ] = None
    as_of: Annotated[
        str | None,
        Parameter(help="As of this instant [replay: the archive's last one; else now]."),
    ] = None
    mode: Annotated[
        WorldMode,
        Parameter(help="replay: archive and cache. live: the services. record: live, and stored."),
    ] = "replay"
    archive: ArchivePath = None
    model: Model = None


def plan(
    subject: Annotated[str, Parameter(help="A question, or what is to be scouted.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Write the plan to this file.")] = None,
    flags: ScoutFlags | None = None,
    limits: LimitFlags | None = None,
    run_id: RunId = None,
    json: Json = False,
) -> int:
    """Make a plan (`scout_plan_v1`) and carry nothing out.

    By rules it is made at once. With --model it is the first step of a run, which `scout resume`
    carries out; `scout run` takes a file.
    """
    if out is not None and out.exists():
        raise InputError(f"--out {out} exists already: name another file")
    workspace = Workspace.from_environment()
    request = _request(subject, flags or ScoutFlags(), limits)
    if request.model is None:
        found = _by_rules(request, _name(workspace, run_id), workspace).wire()
    else:
        with reporting("scout") as report:
            finished = start(request, workspace, run_id, report, plan_only=True)
        found = finished.summary["plan"]
        note(f"`beforehand scout resume {finished.folder.run_id}` carries it out")
    if json:
        emit(found)
    else:
        print(drawn(read_plan(found)))
    if out is not None:
        write_json(out, found)
        note(f"{out}: `beforehand scout run {out}` carries it out")
    return EXIT_OK


def run(
    plan: Annotated[str, Parameter(help="A plan's file (.json), or a subject to plan for.")],
    /,
    *,
    flags: ScoutFlags | None = None,
    limits: LimitFlags | None = None,
    run_id: RunId = None,
    json: Json = False,
) -> int:
    """Carry out a plan: its artifacts go to data/runs/RUN/.

    The run's name is the plan's `dag.run_id`. Run again, it calls no tool again, and makes anew
    what was changed or deleted.
    """
    workspace = Workspace.from_environment()
    request = _request(plan, flags or ScoutFlags(), limits)
    made: ScoutPlan | None = None
    if plan.endswith(".json") or ("/" in plan and " " not in plan):
        if request.keywords or request.subreddits or request.time_window:
            raise InputError("a plan's file has its own keywords, subreddits and time window")
        made = read_plan(Path(plan))
        name = run_id or made.dag.run_id
    else:
        name = _name(workspace, run_id)
        if request.model is None:
            made = _by_rules(request, name, workspace)
    if made is not None:
        request = replace(
            request, plan=made.wire(), subject=None, time_window=None, keywords=(), subreddits=()
        )
    with reporting("scout", not json) as report:
        finished = start(request, workspace, name, report, finished_too=True)
    _show(finished.summary, finished.folder, json)
    return EXIT_OK


def resume(run_id: Run, /, *, json: Json = False) -> int:
    """Continue a run, or make anew what was changed or deleted in a finished one; no tool is called
    twice. (`runs resume` does the same, and takes new limits.)"""
    return resume_any(run_id, json=json)


def show(
    run_id: Annotated[str, Parameter(help="The run, latest, or a plan's file (.json).")] = "latest",
    /,
    *,
    json: Json = False,
) -> int:
    """The DAG of a run with what its nodes made, or of a plan's file, which is checked."""
    if run_id.endswith(".json"):
        checked = read_plan(Path(run_id))
        if json:
            emit(checked.wire())
        else:
            print(drawn(checked))
        return EXIT_OK
    workspace, journal = opened()
    folder = open_run(workspace.home.runs, find_run(run_id, workspace.home, journal))
    print_run(folder, json)
    return EXIT_OK


def _request(asked: str, flags: ScoutFlags, limits: LimitFlags | None) -> ScoutRequest:
    if not asked.strip():
        raise InputError("name what is to be scouted, such as: Will it rain in Oslo?")
    pinned = None if flags.as_of is None else instant("as-of", flags.as_of, "--")
    if pinned is not None and pinned > Workspace.from_environment().clock.now():
        raise InputError(f"--as-of {flags.as_of} lies in the future")
    path = archive_path(flags.archive).resolve()
    if flags.archive is not None and not path.exists():
        raise InputError(f"--archive {flags.archive} does not exist")
    if pinned is None and flags.mode == "replay" and path.exists():
        pinned = Archive(path).last_known()
    return ScoutRequest(
        path, None, asked, flags.window, flags.keyword, flags.subreddit, pinned, flags.mode,
        run_limits(limits), flags.model,
    )  # fmt: skip


def _by_rules(request: ScoutRequest, name: str, workspace: Workspace) -> ScoutPlan:
    return ScoutAgent().plan(
        request.subject or "",
        at=request.as_of or workspace.clock.now(),
        run_id=name,
        time_window=request.time_window,
        keywords=request.keywords,
        subreddits=request.subreddits,
    )


def _name(workspace: Workspace, run_id: str | None) -> str:
    check_name(run_id)
    runs = workspace.home.runs
    return run_id or new_run_id(workspace.clock.now(), lambda n: (runs / n).exists())


def print_run(folder: RunFolder, json: bool = False) -> None:
    """A run's DAG, and what its nodes have made so far."""
    unchanged(folder)
    path = folder.path / PLAN_FILE
    if not path.is_file():
        raise InputError(f"run {folder.run_id} has no plan yet: `beforehand runs show` has more")
    plan = read_plan(path)
    made = {
        node.id: read_json(folder.path / node.artifact)
        for node in plan.dag.nodes
        if (folder.path / node.artifact).is_file()
    }
    _show({"run_id": folder.run_id, "plan": plan.wire(), "artifacts": made}, folder, json)


def _show(found: Mapping[str, Any], folder: RunFolder, json: bool) -> None:
    if json:
        emit(found)
        return
    plan = read_plan(found["plan"])
    print(drawn(plan, folder.path))
    for node in plan.dag.nodes:
        made = found["artifacts"].get(node.id)
        if node.stage == "act" and made is not None:
            _tell(made)
    print(f"files in {_short(folder.path)}")
    if (folder.path / REPORT).is_file():
        print(f"page: {_short(folder.path / REPORT)}")


def _tell(made: Mapping[str, Any]) -> None:
    numbers = {one["id"]: n for n, one in enumerate(made["evidence"], start=1)}
    print(f"\nAs of {made['as_of']}: {made['target_market']}")
    for one in made["sentences"]:
        marks = "".join(f" [{numbers[name]}]" for name in one["documents"])
        print(f"- {one['text']}{marks}")
    if "remarks" in made:
        print(f"Remarks by {made['remarks']['by']}, which are not on record:")
        for one in made["remarks"].get("remarks", ()):
            marks = "".join(f" [{numbers[name]}]" for name in one["documents"])
            print(f"- {one['text']}{marks}")
        if "error" in made["remarks"]:
            print(f"- none: {made['remarks']['error']}")
    for text in made["notes"]:
        print(f"note: {text}")
    print()


def _short(path: Path) -> str:
    root = Home.from_environment().root
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
