"""Runs: all of them, one whole, its steps, its files, what differs between two, and whether it is
sound."""

from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.errors import NotFound
from beforehand.front.run import COMPARED
from beforehand.ids import digest, is_segment
from beforehand.runs.diff import RunDiff, differences
from beforehand.runs.query import all_runs, shown
from beforehand.runs.verify import sound, verify
from beforehand.score.report.words import (
    TILES,
    card_value,
    headline,
    kept_from_the_future,
    warnings,
)
from beforehand.score.summary import Summary
from beforehand.serve.api.answers import Cursor, Descending, Limit, Listed, page
from beforehand.serve.api.base import Api, ApiDep, Json, Unpinned
from beforehand.store.files import file_digest, read_json
from beforehand.store.run_folder import STEPS, RunFolder

router = APIRouter(prefix="/api/runs", tags=["runs"], dependencies=[Unpinned])
RunId = Annotated[str, Path(description="A run's id; `latest` is the one started last.")]
TYPES = {
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".html": "text/html; charset=utf-8",
}
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "sandbox allow-scripts; frame-ancestors 'self'"
)
"""For HTML that a run wrote: it may draw, and reach nothing."""


class RunRow(TypedDict):
    """A run in a list. `status` is running, success, stopped, cancelled, failed, unfinished (no
    process carries it out) or damaged; `cost` is in US dollars. `subject` is what it was about
    (forecasters, a file, a question), `headline` its verdict in one sentence, `valid` whether every
    bound of its validity card is met; null before it is finished. `started_by` is whose token
    started it over HTTP (null: nobody's)."""

    run_id: str
    kind: str
    status: str
    reason: str | None
    done: int | None
    failed: int | None
    running: int | None
    total: int | None
    calls: int | None
    tokens: int | None
    cost: float | None
    parent: str | None
    created_at: str | None
    updated_at: str | None
    archive_digest: str | None
    subject: str | None
    headline: str | None
    valid: bool | None
    started_by: str | None


class Citation(TypedDict):
    """A record that an answer rests on: `file` is the bus file that has it."""

    n: int
    kind: str
    id: str
    file: str
    url: NotRequired[str | None]
    title: NotRequired[str | None]
    start: NotRequired[str | None]
    end: NotRequired[str | None]


class AnswerWire(TypedDict):
    """What a question was answered with. `planned_by` is `rules` or a model."""

    run_id: str
    question: str
    as_of: str
    answer: str
    citations: list[Citation]
    not_found: list[str]
    planned_by: str
    note: NotRequired[str]
    model: NotRequired[Json]
    review: NotRequired[Json]


class CardRow(TypedDict):
    """A fact of the validity card: its label, its value also as people read it (`text`), what it
    is, and whether its bound is met (null: it has none, or that does not apply)."""

    name: str
    label: str
    about: str
    value: int | float | bool | str | None
    text: str
    bound: str | None
    ok: bool | None


class RunWhole(TypedDict):
    """A run: how it stands, what its `run.json` says once it is finished, its scores (null where it
    has none), and the answer of a question. `headline` is the verdict in one sentence, `warnings`
    what has to be said beside it, `card` the validity card in reading order, `kept` how each
    forecaster was kept from the future; `started_by` is whose token started it over HTTP; `archive`
    is the name of its world, if it is here still. `changed` names files that were changed after the
    run, which takes the scores away; `tried_since` counts variants tried on such a set since."""

    run_id: str
    status: str
    kind: NotRequired[str]
    version: NotRequired[str]
    form: NotRequired[int]
    archive_digest: NotRequired[str]
    files: NotRequired[dict[str, str]]
    reason: NotRequired[str | None]
    done: NotRequired[int]
    failed: NotRequired[int]
    running: NotRequired[int]
    total: NotRequired[int]
    calls: NotRequired[int]
    tokens: NotRequired[int]
    cost: NotRequired[float]
    limits: NotRequired[dict[str, float]]
    parent: NotRequired[str | None]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    started_by: str | None
    changed: list[str]
    tried_since: NotRequired[int]
    scores: Summary | None
    answer: NotRequired[AnswerWire]
    headline: str | None
    warnings: list[str]
    card: list[CardRow] | None
    kept: list[str]
    archive: str | None


class StepRow(TypedDict):
    """A step of a run's plan. `status` is waiting, running, success or failed; `deps` are the steps
    that it waits for: these are the edges of the graph."""

    id: str
    place: int
    action: str
    deps: list[str]
    status: str
    started_at: str | None
    completed_at: str | None
    duration_ms: float | None
    error: str | None


class FileRow(TypedDict):
    """A file of a run. `sealed` is true where its bytes are those that the run's seal names."""

    name: str
    bytes: int
    digest: str
    sealed: bool


class CheckRow(TypedDict):
    """One check of a run."""

    name: str
    what: str
    n: int
    wrong: int
    problems: list[str]


class Verified(TypedDict):
    """A run checked again from its records alone."""

    run_id: str
    sound: bool
    checks: list[CheckRow]


class ConfigWire(TypedDict):
    """What a run was begun with, as it is kept."""

    run_id: str
    config: Json


RunSort = Literal["created_at", "updated_at", "run_id", "kind", "status", "cost", "calls"]


@router.get("", response_model=Listed[RunRow])
def runs(
    request: Request,
    api: ApiDep,
    kind: Annotated[
        str | None, Query(description="Of this kind: backtest, score, benchmark, ask, scout…")
    ] = None,
    status: Annotated[str | None, Query(description="In this status.")] = None,
    archive: Annotated[str | None, Query(description="Over this archive, by its name.")] = None,
    sort: Annotated[RunSort, Query(description="The column to sort by.")] = "created_at",
    descending: Descending = True,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Every run of the home folder, newest first."""
    world = None if archive is None else api.worlds.open(archive).archive.digest

    def made() -> object:
        found = [_row(run) for run in all_runs(api.workspace.home, api.journal())]
        chosen = [
            row
            for row in found
            if kind in (None, row["kind"])
            and status in (None, row["status"])
            and world in (None, row["archive_digest"])
        ]
        return page(chosen, "runs", cursor, limit, sort, "run_id", descending)

    return api.answers.reply(request, made)


def _row(run: Any) -> dict[str, Any]:
    return {name: run.get(name) for name in RunRow.__annotations__} | {
        "kind": run.get("kind") or "",
        "status": run["status"],
    }


@router.get("/{run_id}", response_model=RunWhole)
def run(request: Request, api: ApiDep, run_id: RunId) -> Response:
    """One run, whole: what `beforehand runs show --json` gives."""
    return api.answers.reply(request, lambda: whole(api, run_id))


def whole(api: Api, run_id: str) -> dict[str, Any]:
    """Everything of a run."""
    found = shown(api.run_name(run_id), api.workspace, api.journal())
    scores, told, said = found["scores"], None, list[str]()
    if scores is not None:
        told, said = headline(scores), warnings(scores)
    if since := found.get("tried_since"):
        said.append(
            f"{since:,} more tried on such a set since: the bounds here do not count them (score "
            "again for bounds that do)"
        )
    if changed := found["changed"]:
        files = ", ".join(changed)
        told = f"CHANGED AFTER THE RUN: {files}. Its figures are not shown."
        said = [f"`beforehand runs verify {found['run_id']}` says what of it can be trusted"]
        scores = None
    return {
        **found,
        "scores": scores,
        "headline": told,
        "warnings": said,
        "card": None if scores is None else card(scores),
        "kept": [] if scores is None else kept_from_the_future(scores["leaderboard"]),
        "archive": api.worlds.named(found.get("archive_digest")),
    }


def card(scores: Summary) -> list[CardRow]:
    """The validity card as people read it."""
    return [
        {
            "name": name,
            "label": TILES[name][0],
            "about": TILES[name][1],
            "text": card_value(check["value"], name),
            **check,
        }
        for name in TILES
        if (check := scores["validity"].get(name)) is not None
    ]


@router.get("/{run_id}/config", response_model=ConfigWire)
def config(request: Request, api: ApiDep, run_id: RunId) -> Response:
    """What a run was begun with: its markets, instants, forecasters and settings."""
    folder = api.folder(run_id)
    path = folder.path / "config.json"

    def made() -> object:
        if not path.is_file():
            raise NotFound(f"run {folder.run_id} keeps no configuration")
        return {"run_id": folder.run_id, "config": read_json(path)}

    return api.answers.reply(request, made)


@router.get("/{run_id}/steps", response_model=Listed[StepRow])
def steps(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    status: Annotated[
        Literal["waiting", "running", "success", "failed"] | None,
        Query(description="In this status."),
    ] = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Response:
    """The steps of a run's plan in order, each with what it waits for and how it stands: the
    graph."""
    folder = api.folder(run_id)

    def made() -> object:
        rows = [row for row in _steps(api, folder) if status in (None, row["status"])]
        return page(rows, "steps", cursor, limit, "place", "id")

    return api.answers.reply(request, made)


def _steps(api: Api, folder: RunFolder) -> list[dict[str, Any]]:
    journal = api.journal()
    paths = (folder.path / name for name in (STEPS, "plan.json"))
    plan: Any = next((read_json(path) for path in paths if path.is_file()), {})
    planned = plan.get("steps", []) if isinstance(plan, dict) else []
    tasks = {} if journal is None else {t.task_id: t for t in journal.tasks(folder.run_id)}
    spans = {} if journal is None else {s["task_id"]: s for s in journal.spans(folder.run_id)}
    known = {str(step["id"]) for step in planned}
    planned = [*planned, *({"id": n, "action": n} for n in tasks if n not in known)]
    rows = []
    for place, step in enumerate(planned):
        name = str(step["id"])
        task, span = tasks.get(name), spans.get(name)
        rows.append(
            {
                "id": name,
                "place": place,
                "action": str(step["action"]),
                "deps": list(step.get("deps", ())),
                "status": "waiting" if task is None else task.status,
                "started_at": None if span is None else span["started_at"],
                "completed_at": None if span is None else span["completed_at"],
                "duration_ms": None if task is None else task.duration_ms,
                "error": None if task is None else task.error,
            }
        )
    return rows


@router.get("/{run_id}/files", response_model=Listed[FileRow])
def files(
    request: Request, api: ApiDep, run_id: RunId, limit: Limit = 200, cursor: Cursor = None
) -> Response:
    """The files of a run, each with its digest; a scout run's artifacts are among them."""
    folder = api.folder(run_id)

    def made() -> object:
        sealed = folder.facts().get("files", {})
        rows = []
        for name, path in _files(folder):
            found = file_digest(path)
            rows.append(
                {
                    "name": name,
                    "bytes": path.stat().st_size,
                    "digest": found,
                    "sealed": sealed.get(name) == found,
                }
            )
        return page(rows, "files", cursor, limit, id="name")

    return api.answers.reply(request, made)


def _files(folder: RunFolder) -> list[tuple[str, FilePath]]:
    """The plain files of a run's folder; links are left out."""
    found = []
    for path in sorted(folder.path.rglob("*")) if folder.path.is_dir() else ():
        parts = path.relative_to(folder.path).parts
        linked = any(p.is_symlink() for p in (path, *path.parents) if p != folder.path.parent)
        if path.is_file() and not linked and all(is_segment(part) for part in parts):
            found.append(("/".join(parts), path))
    return found


@router.get(
    "/{run_id}/files/{name:path}",
    response_class=Response,
    responses={
        200: {
            "description": "The file.",
            "content": {
                media.partition(";")[0]: {
                    "schema": {"$ref": "#/components/schemas/Json"}
                    if media == "application/json"
                    else {"type": "string"}
                }
                for media in ("text/plain", *TYPES.values())
            },
        }
    },
)
def file(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    name: Annotated[str, Path(description="A name from the list of files.")],
) -> Response:
    """One file of a run. One that was changed after the run is refused (409)."""
    folder = api.folder(run_id)
    path = dict(_files(folder)).get(name)
    if path is None:
        raise NotFound(f"run {folder.run_id} has no file {name[:100]!r}: see /files")
    journal = api.journal()
    row = journal.run(folder.run_id) if journal else None
    folder.check_file(name, row.seal if row else None)
    media = TYPES.get(path.suffix, "text/plain; charset=utf-8")
    answer = api.answers.reply(request, path.read_bytes, media=media)
    if path.suffix == ".html":
        answer.headers["Content-Security-Policy"] = PAGE_POLICY
        answer.headers["X-Frame-Options"] = "SAMEORIGIN"
    return answer


@router.get("/{run_id}/verify", response_model=Verified)
def verified(request: Request, api: ApiDep, run_id: RunId) -> Response:
    """Check a run again from its records alone: digests, manifests, the cutoff, the journal."""
    folder = api.folder(run_id)

    def made() -> object:
        checks = verify(folder, api.journal())
        return {
            "run_id": folder.run_id,
            "sound": sound(checks),
            "checks": [
                {**asdict(check), "problems": [api.hide(text) for text in check.problems]}
                for check in checks
            ],
        }

    return api.answers.reply(request, made, heavy=True)


@router.get("/{run_id}/diff", response_model=RunDiff)
def diff(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    other: Annotated[str, Query(description="The run to compare with.")],
) -> Response:
    """What differs between this run and another one: configuration, forecasts, results."""
    folders = api.folder(run_id), api.folder(other)
    seals = [api.seal(folder, *COMPARED) for folder in folders]
    key = ("diff", digest(seals)) if all(seals) else None
    return api.answers.reply(request, lambda: differences(*folders), key, heavy=True)
