"""A run's events as they happen, over server-sent events."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Annotated

import anyio.to_thread
import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from beforehand.errors import InputError, NotFound
from beforehand.serve.api.answers import Cursor, Limit, Listed, decode_cursor, encode_cursor
from beforehand.serve.api.base import ApiDep, Json, Unpinned
from beforehand.serve.api.feed import ENDED
from beforehand.serve.api.runs import RunId
from beforehand.store.journal.events import events_after

router = APIRouter(prefix="/api/runs/{run_id}", tags=["live"], dependencies=[Unpinned])
LARGEST = 2**62
MESSAGE = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The event's number."},
        "event": {"const": "run"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/EventRow"},
        },
        "retry": {"type": "integer"},
    },
}


class EventRow(TypedDict):
    """One event of a run: its number in the run (from 1, without gaps), when it happened, what, the
    step if it concerns one, and details."""

    run_id: str
    number: int
    at: str
    what: str
    task_id: str | None
    detail: dict[str, Json]


@router.get("/log", response_model=Listed[EventRow])
def log(
    request: Request, api: ApiDep, run_id: RunId, limit: Limit = 200, cursor: Cursor = None
) -> Response:
    """The events of a run so far, in order: steps, calls with their cost, resumes, takeovers,
    cancellation."""
    name = api.run_name(run_id)

    def made() -> object:
        journal, number = api.journal(), 0
        if cursor is not None:
            _, number = decode_cursor(cursor, "log", 2)
            if type(number) is not int or not 0 <= number < LARGEST:
                raise InputError("the cursor is not from this list: leave it out to start again")
        found = [] if journal is None else events_after(journal.database, name, number, limit + 1)
        shown, more = found[:limit], len(found) > limit
        return {
            "items": [event.wire() for event in shown],
            "next": encode_cursor("log", shown[-1].number) if more else None,
            "total": None,
        }

    return api.answers.reply(request, made)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Each event is one message: `id` is its number, `event` is `run`, and "
            "`data` an EventRow. A comment is a heartbeat.",
            "content": {"text/event-stream": {"schema": MESSAGE}},
        },
        204: {"description": "The run has ended, and you have all its events: ask no more."},
    },
)
async def events(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    last_event_id: Annotated[
        str | None, Header(description="The number of the last event that you have.")
    ] = None,
    after: Annotated[
        int, Query(ge=0, le=LARGEST, description="The same, where no header can be sent.")
    ] = 0,
) -> Response:
    """Follow a run: every event from the first (or after the one that you have), and each new one
    as it happens, until the run has ended. A client that connects again with Last-Event-ID misses
    none and gets none twice, also after the server was restarted."""
    number = after
    if last_event_id is not None:
        if not re.fullmatch(r"[0-9]{1,18}", last_event_id):
            raise InputError(f"Last-Event-ID {last_event_id[:40]!r} is not the number of an event")
        number = int(last_event_id)
    name = await anyio.to_thread.run_sync(api.run_name, run_id)
    journal = api.journal()
    row = None if journal is None else await anyio.to_thread.run_sync(journal.run, name)
    if row is None or journal is None:
        raise NotFound(f"run {name} was made without a journal: it has no events")
    if row.status in ENDED:
        rest = await anyio.to_thread.run_sync(events_after, journal.database, name, number, 1)
        if not rest:
            return Response(status_code=204)

    async def told() -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        try:
            async for event in api.feeds.follow(name, number):
                if event is None:
                    yield b": \n\n"
                else:
                    body = orjson.dumps(event.wire())
                    yield b"id: %d\nevent: run\ndata: %s\n\n" % (event.number, body)
        except asyncio.CancelledError:
            return

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told(), 200, headers, media_type="text/event-stream")
