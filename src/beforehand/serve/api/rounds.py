"""Rounds of open events, and the log of sealed forecasts beside them."""

from pathlib import Path as Place
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from beforehand.jobs.benchmark.standing import (
    LogState,
    RoundEvent,
    RoundRow,
    events_of,
    log_of,
    rounds_in,
)
from beforehand.serve.api.answers import Cursor, Limit, Listed, page
from beforehand.serve.api.base import Api, ApiDep, Unpinned

router = APIRouter(prefix="/api/rounds", tags=["rounds"], dependencies=[Unpinned])


def _folder(api: Api) -> Place:
    return api.workspace.home.root / "data" / "rounds"


@router.get("", response_model=Listed[RoundRow])
def rounds(request: Request, api: ApiDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every round of the home folder, newest first: events, what was sealed, what has resolved."""

    def made() -> object:
        rows = [{**row, "problem": _hidden(api, row["problem"])} for row in rounds_in(_folder(api))]
        return page(rows, "rounds", cursor, limit, id="name", descending=True)

    return api.answers.reply(request, made)


@router.get("/log", response_model=LogState)
def log(request: Request, api: ApiDep) -> Response:
    """The sealed log: its lines, its last digest, and what is not as sealed."""

    def made() -> object:
        _, state = log_of(_folder(api))
        return {**state, "problems": [api.hide(text) for text in state["problems"]]}

    return api.answers.reply(request, made)


@router.get("/{name}/events", response_model=Listed[RoundEvent])
def events(
    request: Request,
    api: ApiDep,
    name: Annotated[str, Path(max_length=200, description="The round, as the list names it.")],
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The events of a round, each with what was sealed about it and how it ended."""

    def made() -> object:
        return page(events_of(_folder(api), name), "events", cursor, limit)

    return api.answers.reply(request, made)


def _hidden(api: Api, text: str | None) -> str | None:
    return None if text is None else api.hide(text)
