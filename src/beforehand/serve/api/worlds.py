"""Archives, and what each of them knew of events and documents at an instant."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.clock import iso, iso_us, parse_instant
from beforehand.errors import BeforehandError, InputError
from beforehand.gateway.view import View
from beforehand.jobs.checks import instant
from beforehand.records.world import (
    Document,
    Event,
)
from beforehand.serve.api.answers import (
    Cursor,
    Limit,
    Listed,
    decode_cursor,
    encode_cursor,
    page,
)
from beforehand.serve.api.base import (
    Api,
    ApiDep,
    Instant,
    Unpinned,
    Who,
    json_ready,
    view_of,
)
from beforehand.serve.api.markets import ArchiveName, MarketRow, Provenance, market_rows, provenance
from beforehand.store.archive.manifest import counts_of, digest_of, need_manifest

router = APIRouter(prefix="/api/archives", tags=["worlds"])


class ArchiveRow(TypedDict):
    """An archive: its name here, what it holds, and the digest of that. `problem` says why it
    cannot be read (null: it can)."""

    name: str
    kind: Literal["recorded", "simulated"] | None
    digest: str | None
    problem: str | None
    counts: dict[str, int]
    imports: int
    default: bool


class Coverage(ArchiveRow):
    """An archive with the span of time that it covers: when its first price became known, and when
    anything became known last. `markets` counts those that have a price."""

    first_price: str | None
    last_known: str | None
    markets: int


class EventAt(TypedDict):
    """An event at t, with its markets, highest price first."""

    archive: str
    t: str
    event: Event
    markets: list[MarketRow]


class DocumentAt(TypedDict):
    """A document at t."""

    archive: str
    t: str
    document: Document
    provenance: Provenance


@router.get("", response_model=Listed[ArchiveRow], dependencies=[Unpinned])
def archives(request: Request, api: ApiDep, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Every archive of the home folder: what it holds, and the digest that identifies it."""

    def rows() -> Mapping[str, Any]:
        found = [_listed(api, name) for name in api.archives()]
        return page(found, "archives", cursor, limit, id="name")

    return api.answers.reply(request, rows)


def _listed(api: Api, name: str) -> dict[str, Any]:
    """A row of the list, also for an archive that is damaged."""
    try:
        return _archive_row(api, name)
    except BeforehandError as error:
        nothing: dict[str, Any] = {"kind": None, "digest": None, "counts": {}, "imports": 0}
        default = name == api.worlds.default()
        return {"name": name, **nothing, "default": default, "problem": api.hide(str(error))}


def _archive_row(api: Api, name: str) -> dict[str, Any]:
    manifest = need_manifest(api.archives()[name])
    simulated = any(entry["importer"] == "simulate" for entry in manifest["imports"])
    return {
        "name": name,
        "kind": "simulated" if simulated else "recorded",
        "digest": digest_of(manifest["segments"]),
        "problem": None,
        "counts": counts_of(manifest["segments"]),
        "imports": len(manifest["imports"]),
        "default": name == api.worlds.default(),
    }


@router.get("/{archive}", response_model=Coverage, dependencies=[Unpinned])
def archive(request: Request, api: ApiDep, archive: ArchiveName) -> Response:
    """One archive, with the time that it covers."""
    opened = api.worlds.open(archive)

    def made() -> Mapping[str, Any]:
        first = opened.gateway().full_view().first_prices()
        return {
            **_archive_row(api, archive),
            "first_price": iso_us(min(first.values())) if first else None,
            "last_known": iso(opened.last) if opened.archive.counts() else None,
            "markets": len(first),
        }

    return api.answers.reply(request, made, ("archive", archive, opened.archive.digest))


@router.get("/{archive}/events", response_model=Listed[Event])
def events(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    t: Instant = None,
    venue: Annotated[str | None, Query(description="Of this venue alone.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Every event that was known at t, in its latest version then."""
    opened, view = view_of(api, who, archive, t)
    wanted_venue = None if venue is None else venue.upper()

    def made() -> object:
        found = [json_ready(event) for event in view.events(wanted_venue)]
        return page(found, f"events/{iso(view.t)}", cursor, limit)

    key = ("events", archive, opened.archive.digest, view.t, wanted_venue, limit, cursor)
    return api.answers.reply(request, made, key)


@router.get("/{archive}/events/{event_id:path}", response_model=EventAt)
def event(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    event_id: Annotated[str, Path(description="The event's id or slug.")],
    t: Instant = None,
) -> Response:
    """An event at t with its markets, highest price first."""
    opened, view = view_of(api, who, archive, t)

    def made() -> object:
        found = view.event(event_id)
        rows = {row["id"]: row for row in market_rows(api, opened, view)}
        mine = [row for row in rows.values() if row["event_id"] == found.id]
        mine += [rows[name] for name in found.market_ids if name in rows and rows[name] not in mine]
        mine.sort(key=lambda row: (-(row["price"] or 0.0), row["id"]))
        return {
            "archive": archive,
            "t": iso(view.t),
            "event": json_ready(found),
            "markets": mine,
        }

    return api.answers.reply(
        request, made, ("event", archive, opened.archive.digest, event_id, view.t)
    )


@router.get("/{archive}/documents", response_model=Listed[Document])
def documents(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    t: Instant = None,
    q: Annotated[
        str | None, Query(max_length=500, description="The best documents for these words.")
    ] = None,
    since: Annotated[
        str | None, Query(description="Known at this instant or later (ISO 8601).")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Documents that were known at t, newest first; with `q` the best ones for these words, on one
    page."""
    opened, view = view_of(api, who, archive, t)
    first = None if since is None else instant("since", since)

    def made() -> object:
        if q is None:
            return _newest(view, first, limit, cursor)
        found = view.search(q, limit, first)
        return {"items": [json_ready(one) for one in found], "next": None, "total": None}

    key = ("documents", archive, opened.archive.digest, view.t, q, first, limit, cursor)
    return api.answers.reply(request, made, key)


def _newest(view: View, since: datetime | None, limit: int, cursor: str | None) -> dict[str, Any]:
    """A page of documents, newest first: by the instant from which each was known, then by id."""
    last, tag = None, f"documents/{iso(view.t)}"
    if cursor is not None:
        _, known_at, name = decode_cursor(cursor, tag, 3)
        try:
            last = (parse_instant(str(known_at)), str(name))
            view = view.narrow(last[0])
        except (ValueError, BeforehandError):
            raise InputError("the cursor is not from this list: leave it out") from None
    asked = limit + 1
    while True:  # Several documents may have become known at one instant.
        found = view.documents(since, min(asked, 10_000))
        rest = [d for d in found if last is None or (d.known_at, d.id) < last]
        if len(rest) > limit or len(found) < asked or asked >= 10_000:
            break
        asked *= 2
    shown = rest[:limit]
    more = len(rest) > limit and shown
    return {
        "items": [json_ready(one) for one in shown],
        "next": encode_cursor(tag, iso(shown[-1].known_at), shown[-1].id) if more else None,
        "total": None,
    }


@router.get("/{archive}/documents/{document_id:path}", response_model=DocumentAt)
def document(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    document_id: Annotated[str, Path(description="The document's id.")],
    t: Instant = None,
) -> Response:
    """The latest version of a document that was known at t."""
    opened, view = view_of(api, who, archive, t)

    def made() -> object:
        found = view.document(document_id)
        return {
            "archive": archive,
            "t": iso(view.t),
            "document": json_ready(found),
            "provenance": provenance("document", found.id, found.source or found.url or "", found),
        }

    key = ("document", archive, opened.archive.digest, document_id, view.t)
    return api.answers.reply(request, made, key)
