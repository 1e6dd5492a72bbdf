"""The web UI as it was built into this installation, the API's own page, and its OpenAPI
document."""

import os
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beforehand import __version__
from beforehand.serve.api.base import ApiDep

router = APIRouter(include_in_schema=False)
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}code{font-size:.9em}table{border-collapse:collapse}td{padding:"
    ".2rem .8rem .2rem 0;vertical-align:top}@media(prefers-color-scheme:dark){body{color:#e6e6e6;"
    "background:#161616}a{color:#8ab4f8}}"
)


BUILT = Path(str(files("beforehand"))) / "web"
"""Where `make ui` puts the static export, and the wheel carries it."""
FOREVER = "public, max-age=31536000, immutable"


class _Packed(StaticFiles):
    """Files with what `make ui` packed of them beside, for those who take gzip."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        plain = super().file_response(full_path, stat_result, scope, status_code)
        packed = f"{full_path}.gz"
        if not os.path.isfile(packed):
            return plain
        answer = plain
        if "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            answer = super().file_response(packed, os.stat(packed), scope, status_code)
            if isinstance(answer, FileResponse):  # And not "not modified".
                answer.headers["Content-Type"] = plain.headers["Content-Type"]
                answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Vary"] = "Accept-Encoding"
        return answer


def pages_built(built: Path = BUILT) -> bool:
    """True where the web UI is part of this installation."""
    return (built / "index.html").is_file()


class Pages:
    """The web UI: files that say nothing of the home folder, so that no token is needed."""

    def __init__(self, built: Path = BUILT) -> None:
        self._static: ASGIApp | None = None
        if (built / "index.html").is_file():
            self._static = _Packed(directory=built, html=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        hidden = any(part.startswith(".") for part in path.split("/"))
        if scope["method"] not in ("GET", "HEAD") or path.startswith("/api/") or hidden:
            raise HTTPException(404)
        if self._static is None:
            if path != "/":
                raise HTTPException(404)
            return await _not_built()(scope, receive, send)

        async def kept(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                hashed = path.startswith("/_next/static/")  # Their names hold their digests.
                MutableHeaders(scope=message)["Cache-Control"] = FOREVER if hashed else "no-cache"
            await send(message)

        return await self._static(scope, receive, kept)


def _not_built() -> Response:
    return _page(
        "beforehand",
        "<p>How good is this forecaster, really?</p><p>The web UI is not built into this "
        'installation: <code>make ui</code> builds it. <a href="/api">The API is here</a>; '
        "<code>beforehand --help</code> lists the commands.</p>",
    )


@router.api_route("/api", methods=["GET", "HEAD"])
def listing(request: Request, api: ApiDep) -> Response:
    """Every operation of the API."""
    document: dict[str, Any] = request.app.openapi()
    rows = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            about = escape(" ".join(operation.get("description", "").split()))
            name = f"<code>{method.upper()} {escape(path)}</code>"
            rows.append(f"<tr><td>{name}</td><td>{about}</td></tr>")
    token = ""
    if not api.local:
        token = "<p>Every call needs a token: <code>Authorization: Bearer bh_…</code></p>"
    return _page(
        f"The API of beforehand {__version__}",
        f'{token}<p><a href="/api/openapi.json">OpenAPI document</a></p><table>'
        f"<tbody>{''.join(rows)}</tbody></table>",
    )


@router.api_route("/api/openapi.json", methods=["GET", "HEAD"])
def openapi(request: Request, api: ApiDep) -> Response:
    """The OpenAPI document."""
    return api.answers.reply(request, lambda: orjson.dumps(request.app.openapi()), ("openapi",))


def _page(title: str, body: str) -> Response:
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1>{body}</body></html>"
    )
