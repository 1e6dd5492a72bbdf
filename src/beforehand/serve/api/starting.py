"""Starting and stopping: backtests, questions, scouts; a CSV of probabilities and its verdict.

A run is entered in the journal, and a process of its own carries it out: it goes on when the server
ends. A request with an Idempotency-Key that is sent again starts nothing.
"""

import shutil
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import JSONResponse, Response
from starlette.types import Scope
from typing_extensions import TypedDict

from beforehand.engine.job import RunLimits, kind_named
from beforehand.engine.runs import check_name, keep_seal
from beforehand.errors import InputError, Unavailable
from beforehand.forecast.base import ModelOptions
from beforehand.forecast.files.forecast_file import Reading, read_file, reading
from beforehand.ids import check_segment, digest, new_run_id
from beforehand.jobs import score_file
from beforehand.jobs.ask.ask_job import AGENTS_AT_ONCE, AskJob, AskRequest
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.jobs.backtest.cost import Predicted, predicted
from beforehand.jobs.checks import (
    between,
    checked,
    folder_for,
    in_order,
    instant,
    interval,
    lookback,
    settings,
    stakes,
)
from beforehand.jobs.scout.reading import read_plan
from beforehand.jobs.scout.scout_agent import ScoutAgent
from beforehand.jobs.scout.scout_job import ScoutRequest
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.plan import Window
from beforehand.runs.query import is_driven, need_journal
from beforehand.score.evaluate import Settings
from beforehand.serve.api.answers import encode
from beforehand.serve.api.base import Api, ApiDep, Json, Unpinned, Who
from beforehand.serve.api.runs import RunId, RunWhole, whole
from beforehand.serve.auth import Visitor
from beforehand.serve.budgets import need_budget, need_limits, paid_by, paid_model
from beforehand.serve.guards import refuse_large
from beforehand.store.archive.reader import Archive
from beforehand.store.journal.schema import ASIDE
from beforehand.store.run_folder import SEAL, RunFolder

router = APIRouter(prefix="/api", tags=["starting"], dependencies=[Unpinned])
SCORES = "/api/scores"
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="Yours for this request: sent again with it, the request starts nothing.",
    ),
]
RunName = Annotated[str | None, Field(description="Name of the run [the time].", max_length=128)]
DryRun = Annotated[bool, Query(description="Say what would be asked and paid, and start nothing.")]
_SCORING = threading.BoundedSemaphore(2)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Limits(_Body):
    """What a run may spend, and how it asks. `max_calls`, `max_tokens` and `max_cost` (US dollars)
    stop it before more is spent; one of them is needed where a model is paid for."""

    concurrency: int | None = None
    rate: str | None = Field(default=None, description="Requests to each address: 10/s, 600/min.")
    timeout: float = 60.0
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    in_flight: Literal["resend", "skip", "stop"] = "resend"
    cost_per_call: float | None = None

    def checked(self) -> RunLimits:
        """As the engine has them. Raises InputError."""
        return checked(RunLimits(**self.model_dump()))


class Models(_Body):
    """How language models are used."""

    mode: Literal["daytona_agent", "direct_llm", "hybrid"] = "daytona_agent"
    query_mode: Literal["template", "llm_generated"] = "template"
    method: Literal["mean", "median", "logit", "vote", "weighted"] = "mean"
    engine: Literal["auto", "monty", "jail", "wasi", "daytona"] = "auto"
    knowledge: Literal["mark", "refuse"] = "mark"
    cutoffs: dict[str, date] = Field(default_factory=dict)

    def options(self) -> ModelOptions:
        """As the forecasters have them."""
        return ModelOptions(**self.model_dump())


class Backtest(_Body):
    """A backtest: the options of `beforehand backtest run`. `configs` (ExperimentConfigs) replaces
    markets, interval, grid and forecasters."""

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, said: object) -> object:
        """An ExperimentConfig as the document has it, or a plain list of them."""
        if isinstance(said, dict) and "market_id" in said:
            said = [said]
        return {"configs": said} if isinstance(said, list) else said

    archive: str | None = Field(default=None, description="An archive's name [the default one].")
    forecasters: list[str] = Field(
        default=["all"], min_length=1, max_length=100, examples=[["market", "drift"]]
    )
    markets: list[str] | None = Field(default=None, description="Ids [all].")
    every: str = Field(default="7d", examples=["7d", "6h"])
    grid: Literal["aligned", "own"] = "aligned"
    start: str | None = Field(default=None, description="Leave out the instants before.")
    end: str | None = Field(default=None, description="Leave out the instants after.")
    sims: int = Field(default=1, ge=1, le=1000)
    evidence: int = Field(default=5, ge=0, le=20)
    lookback_days: int | None = Field(
        default=None, ge=1, description="Documents of the last days alone [any known by t]."
    )
    grade: Literal["captured", "published"] = "captured"
    configs: list[ExperimentConfig] | None = None
    models: Models = Field(default_factory=Models)
    seed: int = 0
    draws: int = 2000
    placebo: int = 200
    margin: float | None = Field(
        default=None, ge=0, le=1, description="Stated to be no difference."
    )
    spread: float | None = Field(default=None, description="Where no book was recorded.")
    fee: list[str] = Field(
        default=[], max_length=100, description="Taker fee rates.", examples=[["KALSHI=0.07"]]
    )
    kelly: float = Field(default=0.25, description="The part of Kelly's stake that is bet.")
    cap: float = Field(default=0.1, description="The most of the wealth on one bet.")
    settle: Literal["known", "stated"] = Field(default="known", description="When a bet pays.")
    fresh: bool = Field(default=False, description="The forecasters were restarted just now.")
    limits: Limits = Field(default_factory=Limits)
    run_id: RunName = None


class Ask(_Body):
    """A question, as of an instant [the last one on record]."""

    question: str = Field(min_length=1, max_length=2000, examples=["Bitcoin predictions"])
    archive: str | None = None
    as_of: str | None = None
    model: str | None = None
    review: bool = False
    limits: Limits = Field(default_factory=Limits)
    run_id: RunName = None


class Scout(_Body):
    """A subject to plan for, or a plan (scout_plan_v1) to carry out."""

    subject: str | None = Field(default=None, max_length=2000)
    plan: dict[str, Json] | None = None
    keywords: list[str] = Field(default_factory=list, max_length=100)
    subreddits: list[str] = Field(default_factory=list, max_length=100)
    time_window: Window | None = None
    archive: str | None = None
    as_of: str | None = None
    model: str | None = None
    limits: Limits = Field(default_factory=Limits)
    run_id: RunName = None


class Resume(_Body):
    """New limits of a run that goes on; what is left out stays as it was."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    cost_per_call: float | None = None
    in_flight: Literal["resend", "skip", "stop"] | None = None
    concurrency: int | None = None
    timeout: float | None = None
    rate: str | None = None
    fresh: bool = False


class Fork(_Body):
    """A new run that repeats another up to an instant at no cost, and goes on with other models."""

    at: str = Field(description="From this instant on (ISO 8601).")
    models: list[str] = Field(min_length=1, description="OLD=NEW for each model.")
    fresh: bool = False
    run_id: RunName = None


class Started(TypedDict):
    """A run that was started, or that the same request had started before (`new` is false)."""

    run_id: str
    kind: str
    status: str
    new: bool
    url: str
    events: str


class Changed(TypedDict):
    """How a run stands now."""

    run_id: str
    status: str


class AskPlan(TypedDict):
    """A question's plan: what each agent would do."""

    plan: Json


STARTED: dict[int | str, dict[str, Any]] = {
    202: {"description": "It is under way: `url` shows how it stands.", "model": Started},
}


def is_upload(scope: Scope) -> bool:
    """True for a request whose body is a file of forecasts."""
    return bool(scope["path"] == SCORES)


def _started(
    api: Api,
    who: Visitor,
    request: Any,
    body: BaseModel,
    key: str | None,
    run_id: str | None,
    paid: list[str],
    asked: object = None,
) -> Response:
    """Start a run, unless the key's request has; `paid` names what costs money in it."""
    asked = asked or [type(body).__name__, body.model_dump(mode="json")]
    afford = partial(need_budget, api.workspace, who, request.limits, paid)
    row, new = api.starter.begin(request, asked, who.user or "", key, run_id, afford)
    if new:
        api.starter.tell(f"{who.user or 'anybody'} started run {row.run_id} ({row.kind})")
    url = f"/api/runs/{row.run_id}"
    found: Started = {
        "run_id": row.run_id,
        "kind": row.kind,
        "status": row.status,
        "new": new,
        "url": url,
        "events": f"{url}/events",
    }
    return JSONResponse(found, 202, {"Location": url, "Cache-Control": "no-store"})


def _paid(api: Api, request: BacktestRequest) -> tuple[list[str], list[str]]:
    with api.answers.slot():
        return paid_by(api.workspace, request)


def _backtest(api: Api, body: Backtest) -> BacktestRequest:
    """The request of a backtest. Raises InputError."""
    configs = body.configs
    names = ",".join(body.forecasters)
    named = [name for config in configs or () for name in config.models] or names.split(",")
    request = BacktestRequest(
        archive=api.archive(body.archive),
        markets=body.markets,
        every=interval("every", body.every),
        grid=body.grid,
        forecasters=names,
        num_sims=between("sims", body.sims, 1, 1000),
        start=None if body.start is None else instant("start", body.start),
        stop=None if body.end is None else instant("end", body.end),
        max_results=body.evidence,
        lookback_days=lookback(body.lookback_days),
        grade=body.grade,
        configs=configs,
        settings=settings(
            body.seed,
            body.draws,
            body.placebo,
            stakes(body.spread, body.fee, body.kelly, body.cap, settle=body.settle),
            margin=body.margin,
        ),
        limits=body.limits.checked(),
        model_options=body.models.options(),
        fresh=body.fresh,
        folder=folder_for(",".join(named)),
    )
    in_order(request.start, request.stop)
    return request


@router.post("/backtests", response_model=Predicted, responses=STARTED)
def start_backtest(
    request: Request,
    api: ApiDep,
    who: Who,
    body: Backtest,
    dry_run: DryRun = False,
    key: Key = None,
) -> Response:
    """Start a backtest; with `dry_run` say what it would ask and cost, and what its validity card
    would lack."""
    asked = _backtest(api, body)
    if body.run_id is not None:
        check_name(check_segment(body.run_id))
    if dry_run:
        return api.answers.reply(request, lambda: predicted(asked, api.workspace), heavy=True)
    models, paid = _paid(api, asked)
    need_limits(asked.limits, models)
    return _started(api, who, asked, body, key, body.run_id, paid)


@router.post("/asks", response_model=AskPlan, responses=STARTED)
def start_ask(
    request: Request, api: ApiDep, who: Who, body: Ask, dry_run: DryRun = False, key: Key = None
) -> Response:
    """Ask a question: agents answer it from what was known at an instant. With `dry_run` the plan
    that rules make."""
    limits = body.limits.checked()
    asked = AskRequest(
        body.question,
        api.archive(body.archive),
        _past(api, body.as_of),
        limits=_side_by_side(limits),
        model=body.model,
        review=body.review,
    )
    if dry_run:
        by_rules = AskRequest(asked.question, asked.archive, asked.as_of)
        planned = AskJob(by_rules, "plan", api.workspace)
        return api.answers.reply(request, lambda: {"plan": planned.planned()})
    paid = paid_model(body.model)
    need_limits(limits, paid)
    return _started(api, who, asked, body, key, body.run_id, paid)


@router.post("/scouts", response_model=AskPlan, responses=STARTED)
def start_scout(
    request: Request, api: ApiDep, who: Who, body: Scout, dry_run: DryRun = False, key: Key = None
) -> Response:
    """Scout a subject: plan, collect, think, act. With `dry_run` the plan that rules make, or the
    given plan once it is checked."""
    if (body.subject is None) == (body.plan is None):
        raise InputError("give a subject or a plan, one of the two")
    archive, limits = api.archive(body.archive), body.limits.checked()
    at = _past(api, body.as_of) or Archive(archive).last_known()
    plan, name = body.plan, body.run_id
    if plan is None and body.model is None:
        name = name or new_run_id(
            api.workspace.clock.now(), lambda n: (api.workspace.home.runs / n).exists()
        )
        made = ScoutAgent().plan(
            body.subject or "",
            at=at,
            run_id=name,
            time_window=body.time_window,
            keywords=tuple(body.keywords),
            subreddits=tuple(body.subreddits),
        )
        plan = made.wire()
    elif plan is not None:
        if body.keywords or body.subreddits or body.time_window:
            raise InputError("a plan has its own keywords, subreddits and time window")
        checked_plan = read_plan(plan)
        name = name or checked_plan.dag.run_id
    if dry_run:
        if plan is None:
            raise InputError("a model's plan is the first step of a run: leave dry_run out")
        return api.answers.reply(request, lambda: {"plan": plan})
    given = plan is not None
    asked = ScoutRequest(
        archive,
        plan,
        None if given else body.subject,
        None if given else body.time_window,
        () if given else tuple(body.keywords),
        () if given else tuple(body.subreddits),
        at,
        limits=limits,
        model=body.model,
    )
    paid = paid_model(body.model)
    need_limits(limits, paid)
    return _started(api, who, asked, body, key, name, paid)


def _past(api: Api, as_of: str | None) -> Any:
    """An instant that does not lie ahead. Raises InputError."""
    pinned = None if as_of is None else instant("as_of", as_of)
    if pinned is not None and pinned > api.workspace.clock.now():
        raise InputError(f"as_of {as_of} lies in the future")
    return pinned


def _side_by_side(limits: RunLimits) -> RunLimits:
    return replace(limits, concurrency=limits.concurrency or AGENTS_AT_ONCE)


@router.post(
    "/scores",
    response_model=RunWhole,
    status_code=201,
    responses={200: {"description": "The same request had made it before.", "model": RunWhole}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "Columns id, time, probability (forecaster), as CSV or JSONL.",
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        }
    },
)
async def score(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: Annotated[str | None, Query(description="An archive [the default one].")] = None,
    name: Annotated[
        str | None, Query(description="The forecaster's name, where no row has one.", max_length=64)
    ] = None,
    training_cutoff: Annotated[
        str | None, Query(description="When the model's training ended (ISO 8601).")
    ] = None,
    columns: Annotated[
        str | None,
        Query(max_length=500, description="The file's own names: id=contract,probability=p."),
    ] = None,
    timezone: Annotated[
        str | None, Query(max_length=64, description="The zone of times that state none.")
    ] = None,
    percent: Annotated[bool, Query(description="The probabilities are in percent.")] = False,
    dates: Annotated[
        Literal["day-first", "month-first"] | None, Query(description="First in 05.01.2026.")
    ] = None,
    seed: Annotated[int, Query(ge=0, le=2**31, description="Of the resampling.")] = 0,
    draws: Annotated[int, Query(ge=100, le=20_000, description="Bootstrap draws.")] = 2000,
    placebo: Annotated[int, Query(ge=0, le=1000, description="Placebo redraws; 0: none.")] = 200,
    margin: Annotated[
        float | None, Query(ge=0, le=1, description="Stated beforehand to be no difference.")
    ] = None,
    spread: Annotated[
        float | None, Query(ge=0, lt=1, description="For Kelly, where no book was recorded.")
    ] = None,
    fee: Annotated[
        list[str] | None, Query(max_length=100, description="Taker fee rates: KALSHI=0.07.")
    ] = None,
    kelly: Annotated[float, Query(description="The part of Kelly's stake that is bet.")] = 0.25,
    cap: Annotated[float, Query(description="The most of the wealth on one bet.")] = 0.1,
    settle: Annotated[Literal["known", "stated"], Query(description="When a bet pays.")] = "known",
    run_id: Annotated[
        str | None, Query(max_length=128, description="Name of the run [the time].")
    ] = None,
    key: Key = None,
) -> Response:
    """A verdict on probabilities that were made elsewhere: upload a CSV or JSONL of id, time,
    probability (and forecaster). Rows that cannot be scored are listed with the reason."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    endings = {"text/csv": ".csv", "application/x-ndjson": ".jsonl", "application/jsonl": ".jsonl"}
    if media not in endings:
        known = "text/csv or application/x-ndjson"
        raise InputError(f"Content-Type {media[:80]!r} is not known here: send {known}")
    how = settings(
        seed, draws, placebo, stakes(spread, fee, kelly, cap, settle=settle), margin=margin
    )
    read_as = reading(columns, timezone, percent, "", dates)
    asked: list[object] = [archive, name, training_cutoff, asdict(how), run_id, columns]
    asked += [timezone, percent, dates]
    told = archive, name, training_cutoff, run_id, read_as
    upload = Upload(await request.body(), endings[media], *told)
    found, new = await anyio.to_thread.run_sync(_score, api, who, upload, how, asked, key)
    headers = {"Location": f"/api/runs/{found['run_id']}", "Cache-Control": "no-store"}
    return Response(encode(found), 201 if new else 200, headers, media_type="application/json")


@dataclass(frozen=True)
class Upload:
    """A file of forecasts as it was sent, and what was said of it."""

    content: bytes
    ending: str
    archive: str | None
    name: str | None
    training_cutoff: str | None
    run_id: str | None
    how: Reading


def _score(
    api: Api, who: Visitor, upload: Upload, how: Settings, asked: list[object], key: str | None
) -> tuple[dict[str, Any], bool]:
    """Score an upload; the run, and False where the key's request had made it before."""
    if upload.name is not None and not upload.name.isprintable():
        raise InputError("name is a line of text, without control characters")
    cutoff = upload.training_cutoff
    ended = None if cutoff is None else instant("training_cutoff", cutoff)
    check_name(upload.run_id)
    refuse_large(upload.content, api.limits.largest_upload)
    archive = Archive(api.archive(upload.archive))
    if not _SCORING.acquire(blocking=False):
        raise Unavailable("two files are being scored: send yours again in a moment", 2.0)
    try:
        sent = [*asked, digest(upload.content)]
        with api.starter.once(who.user or "", key, sent, upload.run_id) as start:
            new = start.claimed or not start.made
            if not start.claimed and not start.made:  # The server was killed while it scored.
                _remove_unsealed(api, start.run_id)
            if new:
                _scored(api, upload, archive, how, ended, start.run_id)
        return whole(api, start.run_id), new
    finally:
        _SCORING.release()


def _remove_unsealed(api: Api, run_id: str) -> None:
    """Delete the folder of a run that was not finished and is not on record."""
    folder = RunFolder(api.workspace.home.runs, run_id)
    if folder.path.is_dir() and not (folder.path / SEAL).exists():
        shutil.rmtree(folder.path)


def _scored(
    api: Api,
    upload: Upload,
    archive: Archive,
    how: Settings,
    ended: datetime | None,
    run_id: str,
) -> None:
    home = api.workspace.home
    uploads = api.starter.uploads
    uploads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=uploads) as folder:
        path = FilePath(folder) / f"upload{upload.ending}"  # No name of the caller's in a path.
        path.write_bytes(upload.content)
        try:
            stated = read_file(path, upload.name or "forecasts", upload.how)
            stated = replace(stated, name=upload.name or "the upload")
            scored = score_file.run(
                stated,
                archive,
                home.runs,
                home.trials,
                run_id=run_id,
                settings=how,
                training_cutoff=ended,
            )
        except InputError as error:
            raise InputError(str(error).replace(str(path), "the file")) from None
    keep_seal(api.workspace, scored.folder, "score")


@router.post("/runs/{run_id}/cancel", response_model=Changed)
def cancel(api: ApiDep, who: Who, run_id: RunId) -> Response:
    """Ask a run to end: no new calls are made, those in flight are recorded. It can be resumed."""
    journal = need_journal(api.workspace)
    row = journal.known_run(api.run_name(run_id))
    if row.run_id == ASIDE or row.status in ("success", "cancelled"):
        raise InputError(f"run {row.run_id} has ended already ({row.status})")
    by = who.user or "the user"
    journal.cancel(row.run_id, is_driven(row, api.workspace.home, journal), by)
    api.starter.tell(f"{by} cancelled run {row.run_id}")
    return _changed(journal.known_run(row.run_id).status, row.run_id)


def _changed(status: str, run_id: str, code: int = 200) -> Response:
    found: Changed = {"run_id": run_id, "status": status}
    return JSONResponse(found, code, {"Cache-Control": "no-store"})


@router.post("/runs/{run_id}/resume", response_model=Changed, status_code=202)
def resume(api: ApiDep, who: Who, run_id: RunId, body: Resume | None = None) -> Response:
    """Carry on with a run that was stopped, killed, cancelled or failed; nothing is paid twice."""
    given = body or Resume()
    journal = need_journal(api.workspace)
    row = journal.known_run(api.run_name(run_id))
    changes = given.model_dump(exclude_none=True, exclude={"fresh"})
    checked(RunLimits(**changes))
    kind_named(row.kind)
    if not changes and row.status == "stopped" and "allows no further call" in (row.reason or ""):
        raise InputError(
            f"run {row.run_id} has spent its budget: set max_calls, max_tokens or max_cost"
        )
    need_budget(api.workspace, who, RunLimits(**changes), [row.run_id], row)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]
    by = who.user or "anybody"
    api.starter.resume(row, [*options, *(["--fresh"] if given.fresh else [])])
    journal.resume_asked(row.run_id, by)
    api.starter.tell(f"{by} resumed run {row.run_id}")
    return _changed("running", row.run_id, 202)


@router.post("/runs/{run_id}/fork", response_model=Started, status_code=202)
def fork(api: ApiDep, who: Who, run_id: RunId, body: Fork, key: Key = None) -> Response:
    """Branch off: repeat a run up to an instant from its own answers, at no cost, and go on from
    there with other models."""
    row = need_journal(api.workspace).known_run(api.run_name(run_id))
    kind = kind_named(row.kind)
    at = instant("at", body.at)
    forked = kind.forked(kind.load(row), row.run_id, at, body.models, body.fresh)
    models, paid = _paid(api, forked)
    need_limits(forked.limits, models)
    asked = ["fork", row.run_id, body.model_dump(mode="json")]
    return _started(api, who, forked, body, key, body.run_id, paid, asked)
