"""How good: leaderboards, calibration, and one forecaster against another."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.errors import InputError
from beforehand.front import tables
from beforehand.front.run import COMPARED, Run
from beforehand.jobs.checks import settings
from beforehand.runs.calibration import (
    BinQuestion,
    CalibrationWire,
    calibration_of,
    questions_of_bin,
)
from beforehand.runs.compare import Subject, compare_forecasters, subject_of
from beforehand.score.metrics import BINS
from beforehand.score.skill import Options
from beforehand.score.summary import BoardRow, Pair
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
Draws = Annotated[int, Query(ge=100, le=20_000, description="Bootstrap draws.")]
Seed = Annotated[int, Query(ge=0, le=2**31, description="Of the resampling.")]


class PlacedRow(BoardRow):
    """A row of the leaderboard with its place: 0 is the first."""

    place: int


class ComparisonWire(TypedDict):
    """a against b on the rows that both forecast: `difference` is b's Brier score minus a's (above
    0, a is better), `ci` its 95 % interval, `minimum_detectable_effect` the difference that is
    found with a power of 80 %."""

    a: str
    b: str
    n: int
    n_questions: int
    n_events: int
    difference: float | None
    ci: Pair
    leading: str
    minimum_detectable_effect: float | None
    brier_a: float | None
    brier_b: float | None
    verdict: str


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
    draws: Draws = 2000,
    seed: Seed = 0,
) -> Response:
    """Of a forecaster's forecasts near a value, how many came true, with an interval for each bin;
    Murphy's parts of the Brier score."""
    one = _subject(api, run_id, forecaster)
    checked = settings(seed, draws, 0)
    options = Options(draws=checked.draws, seed=checked.seed)
    seal = api.seal(one.folder, *COMPARED)
    key = ("calibration", *seal, one.name, bins, draws, seed) if seal else None
    return api.answers.reply(request, lambda: calibration_of(one, options, bins), key, heavy=True)


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


@router.get("/comparisons", response_model=ComparisonWire)
def comparison(
    request: Request,
    api: ApiDep,
    a: Annotated[str, Query(description="RUN:FORECASTER; RUN alone: its only one under test.")],
    b: Annotated[str, Query(description="The other one.")],
    draws: Draws = 2000,
    seed: Seed = 0,
) -> Response:
    """Two forecasters against each other, of one run or of two, on the rows that both forecast: the
    paired difference, its interval, and what could have been found."""
    subjects = []
    for name, text in (("a", a), ("b", b)):
        run_id, _, forecaster = text.partition(":")
        if not run_id:
            raise InputError(f"{name} is RUN:FORECASTER, not {text[:100]!r}")
        subjects.append(_subject(api, run_id, forecaster or None))
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
