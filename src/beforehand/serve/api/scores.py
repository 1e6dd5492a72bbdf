"""How good: leaderboards, calibration, and one forecaster against another."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.errors import InputError
from beforehand.front import tables
from beforehand.front.run import COMPARED, Run
from beforehand.ids import digest
from beforehand.records.rows import PairWire
from beforehand.runs.calibration import (
    BinQuestion,
    CalibrationWire,
    calibration_of,
    questions_of_bin,
)
from beforehand.runs.compare import (
    QuestionWire,
    Subject,
    compare_forecasters,
    compare_questions,
    subject_of,
)
from beforehand.score.metrics import BINS
from beforehand.score.skill import Options
from beforehand.score.summary import BoardRow
from beforehand.serve.api.answers import (
    MEDIA,
    Cursor,
    Descending,
    Format,
    Limit,
    Listed,
    as_bytes,
    page,
    wanted,
)
from beforehand.serve.api.base import Api, ApiDep, Unpinned
from beforehand.serve.api.runs import RunId

router = APIRouter(prefix="/api", tags=["scores"], dependencies=[Unpinned])
Named = Annotated[
    str | None, Query(description="A forecaster [the only one under test].", max_length=200)
]
Bins = Annotated[int, Query(ge=2, le=50, description="Bins of equal width.")]
BoardSort = Literal[
    "place", "forecaster", "n", "brier", "log_loss", "els", "skill_vs_market", "accuracy", "ece"
]
QuestionSort = Literal[
    "apart", "difference", "a", "b", "n", "time", "outcome", "forecast_a", "market_id"
]
Compared = Annotated[
    str, Query(description="RUN:FORECASTER; RUN alone: its only one under test.", max_length=400)
]
Draws = Annotated[int, Query(ge=100, le=20_000, description="Bootstrap draws.")]
Seed = Annotated[int, Query(ge=0, le=2**31, description="Of the resampling.")]


class PlacedRow(BoardRow):
    """A row of the leaderboard with its place: 0 is the first."""

    place: int


class ComparedQuestions(TypedDict):
    """A page of questions (as every list). `venues` and `outcomes` count all of them, whatever is
    filtered."""

    items: list[QuestionWire]
    next: str | None
    total: int | None
    venues: dict[str, int]
    outcomes: dict[str, int]


@router.get("/runs/{run_id}/leaderboard", response_model=Listed[PlacedRow])
def leaderboard(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    sort: Annotated[BoardSort, Query(description="The column to sort by.")] = "place",
    descending: Descending = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    format: Format = None,
) -> Response:
    """Every forecaster of a run with its figures and intervals, best first."""
    folder, form = api.folder(run_id), wanted(request, format)

    def made() -> object:
        run = Run(folder, api.workspace)
        board = run.summary["leaderboard"]
        if form != "json":
            return as_bytes(tables.leaderboard(board), form)
        rows: list[dict[str, Any]] = [{**row, "place": n} for n, row in enumerate(board)]
        return page(rows, "leaderboard", cursor, limit, sort, "forecaster", descending)

    return api.answers.reply(request, made, media=MEDIA[form])


def _subject(api: Api, run_id: str, forecaster: str | None) -> Subject:
    return subject_of(api.folder(run_id), forecaster)


@router.get("/runs/{run_id}/calibration", response_model=CalibrationWire)
def calibration(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    forecaster: Named = None,
    bins: Bins = BINS,
) -> Response:
    """Of a forecaster's forecasts near a value, how many came true, with an interval for each bin;
    Murphy's parts of the Brier score."""
    one = _subject(api, run_id, forecaster)
    seal = api.seal(one.folder, *COMPARED)
    key = ("calibration", *seal, one.name, bins) if seal else None
    return api.answers.reply(request, lambda: calibration_of(one, bins), key, heavy=True)


@router.get("/runs/{run_id}/calibration/questions", response_model=Listed[BinQuestion])
def bin_questions(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    bin: Annotated[int, Query(ge=0, description="The bin; 0 is the lowest.")],
    forecaster: Named = None,
    bins: Bins = BINS,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The forecasts of one bin, and how their questions ended."""
    one = _subject(api, run_id, forecaster)

    def made() -> object:
        rows: list[dict[str, Any]] = [
            {**row, "id": f"{row['market_id']} {row['time']}"}
            for row in questions_of_bin(one, bin, bins)
        ]
        found = page(rows, f"bin/{bin}/{bins}", cursor, limit)
        for row in found["items"]:
            del row["id"]
        return found

    return api.answers.reply(request, made, heavy=True)


@router.get("/comparisons/questions", response_model=ComparedQuestions)
def compared_questions(
    request: Request,
    api: ApiDep,
    a: Compared,
    b: Compared,
    sort: Annotated[QuestionSort, Query(description="The column to sort by.")] = "apart",
    descending: Descending = True,
    prices: Annotated[int, Query(ge=0, le=100, description="Prices of each question.")] = 0,
    q: Annotated[
        str | None, Query(max_length=200, description="With this text in the question or id.")
    ] = None,
    venue: Annotated[str | None, Query(description="Of this venue alone.")] = None,
    outcome: Annotated[float | None, Query(ge=0, le=1, description="That ended so.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    format: Format = None,
) -> Response:
    """Two forecasters on each question that both forecast, those first on which they differ
    most."""
    subjects, form = [_compared(api, "a", a), _compared(api, "b", b)], wanted(request, format)
    seals = [api.seal(one.folder, *COMPARED) for one in subjects]
    names = tuple(one.name for one in subjects)

    def rows() -> list[dict[str, Any]]:
        return [dict(row) for row in compare_questions(subjects[0], subjects[1], prices)]

    def made() -> object:
        key = ("questions", *seals, names, prices)  # Computed once for all pages.
        every = api.rows.held(key, rows) if all(seals) else rows()
        chosen = [
            row
            for row in every
            if (q is None or q.lower() in f"{row['question']} {row['market_id']}".lower())
            and venue in (None, _venue(row))
            and outcome in (None, row["outcome"])
        ]
        if form != "json":
            return as_bytes(tables.compared(chosen), form)
        name = f"questions/{digest([a, b, prices])[:12]}"
        return {
            **page(chosen, name, cursor, limit, sort, "market_id", descending),
            "venues": Counter(_venue(row) for row in every),
            "outcomes": Counter(f"{row['outcome']:g}" for row in every),
        }

    return api.answers.reply(request, made, media=MEDIA[form], heavy=True)


def _venue(row: Mapping[str, Any]) -> str:
    return str(row["market_id"]).partition(":")[0]


def _compared(api: Api, name: str, text: str) -> Subject:
    run_id, _, forecaster = text.partition(":")
    if not run_id:
        raise InputError(f"{name} is RUN:FORECASTER, not {text[:100]!r}")
    return _subject(api, run_id, forecaster or None)


@router.get("/comparisons", response_model=PairWire)
def comparison(
    request: Request,
    api: ApiDep,
    a: Compared,
    b: Compared,
    draws: Draws = 2000,
    seed: Seed = 0,
) -> Response:
    """Two forecasters against each other, of one run or of two, on the rows that both forecast: the
    paired difference, its interval, and what could have been found."""
    subjects = [_compared(api, "a", a), _compared(api, "b", b)]
    options = Options(draws=draws, seed=seed)
    seals = [api.seal(one.folder, *COMPARED) for one in subjects]
    names = tuple(one.name for one in subjects)
    key = ("comparison", *seals, names, draws, seed) if all(seals) else None
    return api.answers.reply(
        request,
        lambda: compare_forecasters(subjects[0], subjects[1], options).wire(),
        key,
        heavy=True,
    )
