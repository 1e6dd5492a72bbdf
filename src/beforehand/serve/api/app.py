"""The API as an application: its routers, its OpenAPI document, and what stands before every
route: tokens, rates, safe headers, and errors as problem details."""

import errno
import re
import secrets
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio.to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beforehand import __version__
from beforehand.clock import stopwatch
from beforehand.errors import BeforehandError, InputError
from beforehand.serve.api import (
    about,
    bus,
    live,
    markets,
    pages,
    rounds,
    runs,
    scores,
    starting,
    tables,
    tools,
    trace,
    worlds,
)
from beforehand.serve.api.answers import ARROW, CSV
from beforehand.serve.api.base import Api
from beforehand.serve.auth import Verifier
from beforehand.serve.connections import Limits
from beforehand.serve.guards import Body, InFlight, LocalOnly, TokenGuard, caller, watches
from beforehand.serve.problems import MEDIA, Problem, problem, problem_of

ROUTERS = (
    worlds, markets, runs, tables, trace, scores, rounds, live, starting, bus, tools, about, pages,
)  # fmt: skip
ABOUT = "How good is this forecaster, really? Every object and every run of a beforehand home."
_FULL = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
OPEN = ("/api", "/api/openapi.json", "/api/health")
"""What says nothing of the home, so that no token is needed: these, and the pages' files."""
SAFE = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src "
    "'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action "
    "'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SAID = {
    400: "The request is not HTTP as it should be.",
    401: "A token is missing, unknown, expired or revoked.",
    403: "It is not allowed with this token, or not at all.",
    404: "There is nothing of that name; where some are near, the sentence has them.",
    405: "The path has other methods.",
    408: "The request did not arrive in time.",
    409: "It cannot be done as things stand: another process does it, or something is missing.",
    413: "The body is too long.",
    421: "The server has another name.",
    422: "A parameter is wrong: `field` names it, `allowed` its values.",
    429: "Too many requests: wait for `retry_after` seconds.",
    503: "The server is busy or stopping: try again after `retry_after` seconds.",
}
MOST_CALLERS = 10_000
_JSON = {"$ref": "#/components/schemas/Json"}


def _of(*arrays: str) -> list[dict[str, str]]:
    """The schemas of a JSON value whose arrays are these."""
    plain = [{"type": name} for name in ("string", "number", "boolean", "null")]
    return [*plain, *({"$ref": f"#/components/schemas/{n}"} for n in ("JsonObject", *arrays))]


JSON_SCHEMAS: dict[str, Any] = {
    "Json": {"description": "Any JSON value.", "anyOf": _of("JsonArray")},
    "JsonObject": {"type": "object", "additionalProperties": _JSON},
    "JsonArray": {"type": "array", "items": {"anyOf": _of("JsonArrays")}},
    "JsonArrays": {"type": "array", "items": {"anyOf": _of("JsonMatrix")}},
    "JsonMatrix": {"type": "array", "items": {"anyOf": _of()}},
}
"""TypeScript cannot name a type that refers to itself through arrays alone, so that arrays directly
within arrays end at the third."""


def build(api: Api, verifier: Verifier | None, log: Callable[[str], None]) -> ASGIApp:
    """The application. Without a verifier only programs on this machine are let in."""
    app = routed()
    app.state.api = api
    hidden = api.backend.hidden

    @app.exception_handler(BeforehandError)
    async def refused(_: Request, error: BeforehandError) -> Response:
        return problem_of(error, hidden)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return wrong_parameter(error)

    @app.exception_handler(HTTPException)
    async def not_here(request: Request, error: HTTPException) -> Response:
        return no_such_path(request, error)

    @app.exception_handler(OSError)
    async def unwritten(request: Request, error: OSError) -> Response:
        mine = str(error.filename or "").startswith(str(api.workspace.home.root))
        if error.errno not in _FULL and not (mine and isinstance(error, PermissionError)):
            return await failed(request, error)
        said = f"the server cannot use its home folder: {error.strerror}"
        return problem(503, "unavailable", said)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        found = await anyio.to_thread.run_sync(
            damaged, api, request.url.path, dict(request.query_params)
        )
        if found is not None:
            return found
        mark = secrets.token_hex(4)
        trace = "".join(traceback.format_exception(error))
        log(f"{request.method} {ascii(request.url.path)[1:-1]} failed ({mark})\n{trace}")
        said = f"it failed inside the server, whose log has the reason ({mark})"
        return problem(500, "internal", said)

    read: ASGIApp = Body(Rates(app, api.limits), api.limits, starting.is_upload)
    guarded: ASGIApp = InFlight(read, api.limits)
    if verifier is not None:
        guarded = TokenGuard(guarded, verifier, log, needs=scope_of)
    else:
        guarded = LocalOnly(guarded)
    return Outermost(guarded)


def routed() -> FastAPI:
    """Every route, and the OpenAPI document; no home folder is needed."""
    app = FastAPI(
        title="beforehand",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: f"{(route.tags or ['page'])[0]}_{route.name}",
        dependencies=[Depends(only_known)],
    )
    for module in ROUTERS:
        app.include_router(module.router)
    app.router.default = pages.Pages()  # What no route has.
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    return app


async def only_known(request: Request) -> None:
    """Raises InputError for a parameter that the operation does not have: a mistyped filter must
    not give everything, nor a mistyped instant the present."""
    known = _parameters(request.scope["route"])
    if unknown := [name for name in request.query_params if name not in known]:
        raise InputError(
            f"there is no parameter {unknown[0][:80]!r} here: "
            + (f"there is {', '.join(known)}" if known else "there is none")
        )


def _parameters(route: Any) -> tuple[str, ...]:
    """The names of an operation's query parameters."""
    names, waiting = set[str](), [route.dependant]
    while waiting:
        one = waiting.pop()
        names |= {parameter.alias for parameter in one.query_params}
        waiting += one.dependencies
    return tuple(sorted(names))


def scope_of(scope: Scope) -> str | None:
    """What a token must allow for this request; None where no token is needed."""
    path, method = scope["path"], scope["method"]
    if method in ("GET", "HEAD") and (path in OPEN or not path.startswith("/api/")):
        return None
    if path.startswith("/api/tools/") and method == "POST":
        return "tools"
    return "read" if method in ("GET", "HEAD") else "start"


def wrong_parameter(error: RequestValidationError) -> Response:
    """The first parameter that is wrong, with what is allowed."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        why = first.get("ctx", {}).get("error", "")
        at = first["loc"][-1]
        said = f"the body is not JSON ({str(why).lower()} at character {at})"
        return problem(422, "input_error", said, field="body")
    if isinstance(first.get("input"), bytes):
        said = "the body is not read as JSON: send it with Content-Type: application/json"
        return problem(422, "input_error", said, field="body")
    where = [str(part) for part in first["loc"] if part not in ("query", "path", "body", "header")]
    name = ".".join(where) or "body"
    allowed = str(first.get("ctx", {}).get("expected", ""))
    values = [part.strip(" '") for part in allowed.replace(" or ", ", ").split(",") if part]
    said = first["msg"].removeprefix("Value error, ")
    given = "" if first["type"] == "missing" else f" (given {repr(first.get('input'))[:80]})"
    return problem(
        422,
        "input_error",
        f"{name}: {said[0].lower()}{said[1:]}{given}",
        field=name,
        allowed=values,
    )


def no_such_path(request: Request, error: HTTPException) -> Response:
    """A path or a method that there is not."""
    if error.status_code == 405:
        answer = problem(405, "method_not_allowed", f"{request.method} is not for this path")
        answer.headers.update(error.headers or {})
        return answer
    if error.status_code == 400:
        return problem(400, "input_error", "the body cannot be read: send JSON, in UTF-8")
    if error.status_code != 404:
        return problem(error.status_code, "refused", str(error.detail))
    return problem(404, "not_found", "there is no such path: /api lists them all")


class Rates:
    """Bounds what one caller, and all together, may ask. A token bucket for each user; without
    users for each address."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if (wait := self._take(caller(scope))) > 0:
            rate = f"{self._limits.rate:g}"
            said = f"more than {rate} requests a second: wait a moment, or serve with --rate"
            return await problem(429, "rate_limited", said, retry_after=wait)(scope, receive, send)
        if watches(scope):
            return await self._app(scope, receive, send)  # Watchers wait; they do not work.
        if self._now >= self._limits.at_once:
            said = f"{self._now} requests are in progress: ask again in a moment"
            return await problem(503, "busy", said, retry_after=1)(scope, receive, send)
        self._now += 1
        try:
            return await self._app(scope, receive, send)
        finally:
            self._now -= 1

    def _take(self, who: str) -> float:
        """Take a request from the caller's bucket; else the seconds until there is one."""
        rate, now = self._limits.rate, stopwatch()
        most = max(1.0, 2 * rate)
        left, last = self._buckets.pop(who, (most, now))
        left = min(most, left + (now - last) * rate)
        self._buckets[who] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / rate


def damaged(api: Api, path: str, query: Mapping[str, str]) -> Response | None:
    """Why a run that a request names cannot be read, where that lies in its files: they were
    changed or removed after the run wrote them. None where it does not."""
    found = re.match(r"/api/runs/([^/]+)", path)
    names = [found[1]] if found else []
    names += [query[key].partition(":")[0] for key in ("a", "b", "other") if key in query]
    for name in names:
        try:
            folder = api.folder(name)
            facts = folder.facts()
            changed = facts["status"] == "damaged" or folder.differing(facts.get("files", {}))
        except BeforehandError as error:
            return problem_of(error, api.backend.hidden)
        except Exception:  # Nothing about it can be read.
            changed = True
        if changed:
            said = (
                f"a file of run {name[:100]} was changed or removed after the run wrote it: "
                f"`beforehand runs verify {name[:100]}` says what can be trusted"
            )
            return problem(409, "corrupt", said)
    return None


class Outermost:
    """Safe headers on every answer. (What fails has been answered and logged below.)"""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        with suppress(Exception):  # Starlette raises again what it has answered.
            await self._app(scope, receive, safe)


def _any_json(schema: Any) -> None:
    """Name every value of any shape `Json`, so that no type is unknown to a client generator."""
    if isinstance(schema, dict):
        if schema.get("additionalProperties") is True:
            schema["additionalProperties"] = _JSON
        if schema.get("items") == {}:
            schema["items"] = _JSON
        for value in schema.values():
            _any_json(value)
    elif isinstance(schema, list):
        for value in schema:
            _any_json(value)


def openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: every operation with the problems that it may answer."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            summary=ABOUT,
            routes=app.routes,
            separate_input_output_schemas=False,
        )
        schemas = made["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        schemas["Problem"] = TypeAdapter(Problem).json_schema()
        content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for operations in made["paths"].values():
            for operation in operations.values():
                for status, said in SAID.items():
                    operation["responses"][str(status)] = {"description": said, "content": content}
                names = {one["name"] for one in operation.get("parameters", ())}
                if "format" in names:
                    content_of = operation["responses"]["200"]["content"]
                    content_of[CSV] = {"schema": {"type": "string"}}
                    content_of[ARROW] = {"schema": {"type": "string", "format": "binary"}}
                if operation is operations.get("get"):
                    operation["responses"].setdefault(
                        "304", {"description": "It has not changed since (If-None-Match)."}
                    )
        schemas |= JSON_SCHEMAS
        _any_json(made)
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}, {}]
        app.openapi_schema = made
    return app.openapi_schema
