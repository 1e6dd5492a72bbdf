"""The home folder itself: what is here, who may ask, who can forecast, and what works."""

from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand import __version__
from beforehand.clock import iso
from beforehand.forecast.base import load_schemes
from beforehand.forecast.schemes.baselines import BASELINES
from beforehand.jobs.health import Check, checks
from beforehand.runs.query import all_runs
from beforehand.serve.api.answers import Cursor, Limit, Listed, page
from beforehand.serve.api.base import ApiDep, Unpinned, Who, pin_of
from beforehand.serve.auth import open_tokens
from beforehand.serve.budgets import left_of
from beforehand.store.tokens import Token

router = APIRouter(prefix="/api", tags=["workspace"])


class Health(TypedDict):
    """The server answers."""

    name: str
    version: str


class Workspace(TypedDict):
    """What a home folder holds. `mode` says where tools' answers come from; `as_of` is the instant
    that you are pinned to (null: none); `may` lists what you may do; `budget` is what your runs may
    cost in US dollars (`of`), and what is `left` of it (null: no limit)."""

    version: str
    mode: str
    as_of: str | None
    user: str | None
    may: list[str]
    programs: bool
    archives: list[str]
    default_archive: str | None
    runs: dict[str, int] | None
    budget: dict[str, float] | None


class TokenRow(TypedDict):
    """A token that was issued; never its text."""

    id: str
    user: str
    scopes: list[str]
    servers: list[str] | None
    as_of: str | None
    created_at: str
    expires_at: str
    state: Literal["valid", "expired", "revoked"]


class ForecasterRow(TypedDict):
    """A way to name a forecaster. `kind` is baseline, external or model; `isolation` says how it is
    kept from the future."""

    scheme: str
    kind: str
    isolation: str | None
    about: str


class DoctorWire(TypedDict):
    """What works here; `ok` is null for what is not there and not needed."""

    ok: bool
    checks: list[Check]


@router.get("/health", response_model=Health)
async def health(request: Request, api: ApiDep) -> Response:
    """The server answers, and which version it is. (It needs no thread, however busy they are.)"""
    return api.answers.reply(request, lambda: {"name": "beforehand", "version": __version__})


@router.get("/workspace", response_model=Workspace)
def workspace(request: Request, api: ApiDep, who: Who) -> Response:
    """What is in this home folder, and what you may do with it."""
    pin = pin_of(api, who)

    def made() -> object:
        counts: dict[str, int] = {}
        for run in all_runs(api.workspace.home, api.journal()) if pin is None else ():
            counts[run["status"]] = counts.get(run["status"], 0) + 1
        return {
            "version": __version__,
            "mode": api.backend.storage.mode,
            "as_of": None if pin is None else iso(pin),
            "user": who.user,
            "may": sorted(who.scopes),
            "programs": api.programs,
            "archives": sorted(api.archives()),
            "default_archive": api.worlds.default(),
            "runs": counts if pin is None else None,
            "budget": left_of(api.workspace, who),
        }

    return api.answers.reply(request, made)


@router.get("/tokens", response_model=Listed[TokenRow], dependencies=[Unpinned])
def tokens(
    request: Request, api: ApiDep, who: Who, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """The tokens that were issued: on this machine all, else your own. Never their text."""

    def made() -> object:
        now = api.workspace.clock.now()
        found: list[Token] = []
        if api.workspace.database or api.workspace.home.access.exists():  # Reading makes none.
            with open_tokens(api.workspace) as held:
                found = held.all(None if api.local else who.user)
        rows = [
            {
                "id": token.id,
                "user": token.user,
                "scopes": sorted(token.scopes),
                "servers": None if token.servers is None else sorted(token.servers),
                "as_of": None if token.as_of is None else iso(token.as_of),
                "created_at": iso(token.created_at),
                "expires_at": iso(token.expires_at),
                "state": token.state(now),
            }
            for token in found
        ]
        return page(rows, "tokens", cursor, limit, "created_at", "id", True)

    return api.answers.reply(request, made)


@router.get("/forecasters", response_model=Listed[ForecasterRow])
def forecasters(
    request: Request, api: ApiDep, limit: Limit = 200, cursor: Cursor = None
) -> Response:
    """Every way to name a forecaster here: baselines, models, addresses, those of plugins."""

    def made() -> object:
        rows = []
        for scheme, found in load_schemes().items():
            about = " ".join((found.__doc__ or "").split("\n\n")[0].split())
            if scheme in BASELINES:  # One class has them all.
                about = BASELINES[scheme].says
            rows.append(
                {
                    "scheme": "NAME@http://host:port/v1" if scheme == "@" else scheme,
                    "kind": getattr(found, "kind", "baseline"),
                    "isolation": _stated(found),
                    "about": about,
                }
            )
        return page(rows, "forecasters", cursor, limit, id="scheme")

    return api.answers.reply(request, made)


def _stated(found: type) -> str | None:
    given = getattr(found, "isolation", "by construction")
    return given if isinstance(given, str) else None


@router.get("/doctor", response_model=DoctorWire, dependencies=[Unpinned])
def doctor(
    request: Request,
    api: ApiDep,
) -> Response:
    """Check the installation, the home folder, the archive, the tools, the sandboxes, the keys.
    Nothing outside is asked."""

    def made() -> object:
        found = checks(api.workspace)
        rows = [{**row, "detail": api.hide(row["detail"])} for row in found]
        return {"ok": all(row["ok"] is not False for row in found), "checks": rows}

    return api.answers.reply(request, made, heavy=True)
