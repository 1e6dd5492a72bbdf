"""Errors over HTTP, as problem details (RFC 9457): one sentence that says what to do."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import NotRequired

from starlette.responses import JSONResponse
from typing_extensions import TypedDict

from beforehand.errors import BeforehandError, Unavailable, http_status, kind_of

MEDIA = "application/problem+json"
LONGEST = 2000


class Problem(TypedDict):
    """Why a request was not answered. `error` names the kind of problem, `detail` says what to do;
    `field` is the parameter that is wrong, `allowed` its values."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    field: NotRequired[str]
    allowed: NotRequired[list[str]]
    retry_after: NotRequired[int]


def problem(
    status: int,
    error: str,
    detail: str,
    *,
    field: str | None = None,
    allowed: Iterable[str] = (),
    retry_after: float | None = None,
) -> JSONResponse:
    """An answer that says what is wrong. `retry_after` is in seconds."""
    # Half a character in a client's own text could not be sent back.
    said = detail.encode("utf-8", "replace").decode()[:LONGEST]
    body: Problem = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": said,
        "error": error,
    }
    if field is not None:
        body["field"] = field.encode("utf-8", "replace").decode()
    if allowed := list(allowed):
        body["allowed"] = allowed
    answer = JSONResponse(body, status, media_type=MEDIA)
    answer.headers["Cache-Control"] = "no-store"
    if retry_after is not None:
        seconds = max(1, -int(-retry_after // 1))
        answer.headers["Retry-After"] = str(seconds)
        body["retry_after"] = seconds
        answer.body = answer.render(body)
        answer.headers["content-length"] = str(len(answer.body))
    return answer


def problem_of(error: BeforehandError, hidden: Iterable[tuple[str, str]] = ()) -> JSONResponse:
    """One of our errors as an answer. `hidden` are paths of this machine, each with the text that
    is shown instead."""
    said = str(error)
    for place, instead in hidden:
        said = said.replace(place, instead)
    status = http_status(error)
    wait = error.retry_after if isinstance(error, Unavailable) else None
    if status in (429, 503) and wait is None:
        wait = 1.0
    return problem(status, kind_of(error), said, retry_after=wait)
