"""Markets as they stood at an instant: prices, texts, endings, and a forecaster's context."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import anyio.to_thread
import numpy as np
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.clock import iso, iso_us, to_us
from beforehand.errors import InputError, NotFound
from beforehand.front.arrow import Column, Table
from beforehand.gateway.panel import Evidence
from beforehand.gateway.view import View
from beforehand.ids import digest
from beforehand.jobs.backtest.walk import context_of
from beforehand.jobs.checks import instant
from beforehand.records.record import Record
from beforehand.records.world import (
    Market,
    MarketState,
    Odds,
    OrderBook,
    RecordedForecast,
    Resolution,
)
from beforehand.serve.api.answers import MEDIA as MEDIA_OF
from beforehand.serve.api.answers import (
    Cursor,
    Descending,
    Format,
    Limit,
    Listed,
    as_bytes,
    page,
    wanted,
)
from beforehand.serve.api.base import (
    Api,
    ApiDep,
    Instant,
    Opened,
    Who,
    json_ready,
    view_of,
)
from beforehand.serve.api.thinning import METHOD, thinned
from beforehand.serve.auth import Visitor

router = APIRouter(prefix="/api/archives", tags=["worlds"])
ArchiveName = Annotated[str, Path(description="An archive's name, from /api/archives.")]
MarketId = Annotated[str, Path(description="VENUE:id, or the bare id where that is clear.")]
MOST_FOUND, MOST_DRAWN = 200, 1000


class MarketRow(TypedDict):
    """A market in a list, as it stood at t. `status` is `ended` once its resolution was known;
    `payout` is what it settled at; `price_age` is in seconds."""

    id: str
    venue: str
    question: str | None
    domain: str | None
    event_id: str | None
    currency: str
    scheduled_close: str | None
    known_at: str
    text_known_at: str | None
    status: Literal["open", "ended"]
    price: float | None
    price_known_at: str | None
    price_age: float | None
    payout: float | None


class Provenance(TypedDict):
    """Where a record that is shown comes from: the source that said it, from when it was known,
    and the digest of the record as shown."""

    kind: str
    id: str
    source: str
    known_at: str
    digest: str


class SeenMarket(TypedDict):
    """The market in a forecaster's context."""

    id: str
    description: str | None
    odds: float | None
    price_age: float | None
    odds_known_at: str | None
    text_known_at: str | None
    bid: float | None
    ask: float | None


class SeenSnippet(TypedDict):
    """A document in a forecaster's context, with the instant from which it was known."""

    id: str
    text: str
    timestamp: str


class SeenPrevious(TypedDict):
    """What was decided at an earlier instant."""

    time: str
    aggregated_probability: float


class SeenContext(TypedDict):
    """Everything that a forecaster is shown at `time`: the documented IntervalContext."""

    time: str
    market: SeenMarket
    search_snippets: list[SeenSnippet]
    previous_intervals: list[SeenPrevious]


class MarketAt(TypedDict):
    """A market at t: its records as they were known then, and the context that a forecaster is
    given (without earlier decisions, which belong to a run). `price_first` and `price_n` say since
    when, and how often, a price was recorded by t; `wordings` are the versions of its text, oldest
    first."""

    archive: str
    world: Literal["recorded", "simulated"]
    t: str
    market: Market
    wordings: list[Market]
    odds: Odds | None
    state: MarketState | None
    book: OrderBook | None
    resolution: Resolution | None
    forecasts: list[RecordedForecast]
    context: SeenContext
    price_first: str | None
    price_n: int
    provenance: list[Provenance]


class SeriesColumns(TypedDict):
    """A market's prices known at t, as columns of equal length, ordered by when they were observed.
    Times are microseconds since 1970. `n` counts the points on record, `method` says how they were
    thinned (null: all are here)."""

    archive: str
    market_id: str
    t: str
    n: int
    method: str | None
    observed_at: list[int]
    known_at: list[int]
    price: list[float]
    bid: list[float | None]
    ask: list[float | None]
    volume: list[float | None]


MarketSort = Literal["id", "price", "scheduled_close", "price_known_at"]


@router.get("/{archive}/markets", response_model=Listed[MarketRow])
def markets(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    t: Instant = None,
    q: Annotated[
        str | None,
        Query(
            max_length=500,
            description="The best markets for these words, after those whose id holds them.",
        ),
    ] = None,
    venue: Annotated[str | None, Query(description="Of this venue alone.")] = None,
    status: Annotated[Literal["open", "ended"] | None, Query(description="As known at t.")] = None,
    sort: Annotated[MarketSort, Query(description="The column to sort by.")] = "id",
    descending: Descending = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    format: Format = None,
) -> Response:
    """Every market that was known at t, as it stood then: its price, and its ending once that was
    known. With `q` the best ones for these words, ranked with what was known at t, on one page."""
    opened, view = view_of(api, who, archive, t)
    kind = wanted(request, format)

    def chosen() -> list[dict[str, Any]]:
        rows = market_rows(api, opened, view)
        if q is not None:
            if not q.strip():
                raise InputError("q names no word: leave it out to list all markets")
            hits, _ = view.find_markets(q, MOST_FOUND)
            by_id = {row["id"]: row for row in rows}
            named = [row["id"] for row in rows if q.strip().lower() in row["id"].lower()]
            found = dict.fromkeys([*named[:MOST_FOUND], *(hit.market.id for hit in hits)])
            rows = [by_id[name] for name in found][:MOST_FOUND]
        if venue is not None:
            rows = [row for row in rows if row["venue"] == venue.upper()]
        return [row for row in rows if status in (None, row["status"])]

    def made() -> object:
        rows = chosen()
        if kind != "json":
            return as_bytes(_market_table(rows), kind)
        if q is not None:
            return {"items": rows[:limit], "next": None, "total": len(rows)}
        return page(rows, f"markets/{iso(view.t)}", cursor, limit, sort, descending=descending)

    key = ("markets", archive, opened.archive.digest, view.t, q, venue, status, sort)
    return api.answers.reply(request, made, (*key, descending, limit, cursor), MEDIA_OF[kind])


def market_rows(api: Api, opened: Opened, view: View) -> list[dict[str, Any]]:
    """A row for every market known at the View's instant, by id; the last ones are kept."""
    return api.rows.held(
        ("markets", opened.path, opened.archive.digest, view.t), lambda: _market_rows(view)
    )


def _market_rows(view: View) -> list[dict[str, Any]]:
    ended = view.endings()
    return [_market_row(view, market, ended.get(market.id)) for market in view.markets()]


def _market_row(view: View, market: Market, ending: Resolution | None) -> dict[str, Any]:
    price, known_at, age = last_price(view, market.id)
    return {
        "id": market.id,
        "venue": market.venue,
        "question": market.question,
        "domain": market.domain,
        "event_id": market.event_id,
        "currency": market.currency,
        "scheduled_close": _iso(market.scheduled_close),
        "known_at": iso(market.known_at),
        "text_known_at": _iso(market.text_known_at),
        "status": "open" if ending is None else "ended",
        "price": price,
        "price_known_at": known_at,
        "price_age": age,
        "payout": None if ending is None else ending.payout,
    }


def last_price(view: View, market_id: str) -> tuple[float | None, str | None, float | None]:
    """The last price at the View's instant, when it became known, and its age in seconds."""
    series = view.series(market_id)
    if not len(series):
        return None, None, None
    i = int(series.latest[-1])
    age = (to_us(view.t) - int(series.observed_at[i])) / 1e6
    return float(series.price[i]), iso_us(int(series.known_at[i])), age


def _market_table(rows: list[dict[str, Any]]) -> Table:
    numbers = {"price", "price_age", "payout"}
    columns = {
        name: Column.of("float" if name in numbers else "text", [row[name] for row in rows])
        for name in MarketRow.__annotations__
    }
    return Table(columns, "markets")


@router.get("/{archive}/markets/{market_id:path}", response_model=MarketAt)
def market(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    market_id: MarketId,
    t: Instant = None,
    evidence: Annotated[
        int, Query(ge=0, le=20, description="The most documents that a forecaster is shown.")
    ] = 5,
) -> Response:
    """A market at t: exactly what a forecaster could see then, with each record's source, the
    instant from which it was known, and its digest."""
    opened, view = view_of(api, who, archive, t)
    name = view.resolve_id(market_id)
    key = ("market", archive, opened.archive.digest, name, view.t, evidence)
    return api.answers.reply(request, lambda: market_at(opened, view, name, evidence), key)


def market_at(opened: Opened, view: View, name: str, evidence: int) -> dict[str, Any]:
    """A market's records at the View's instant, and a forecaster's context."""
    at = to_us(view.t)
    pairs = [(name, np.array([at], dtype=np.int64))]
    panel = opened.gateway().panel(pairs, (), Evidence(evidence))
    context = context_of(panel, 0, [])
    try:
        odds = view.odds(name)
    except NotFound:
        odds = None
    market, state, book = view.market(name), view.state(name), view.book(name)
    resolution, said = view.resolution(name), view.forecasts(name)
    shown: list[tuple[str, str, str, Record]] = [("market", name, market.venue, market)]
    for kind, record in (("price", odds), ("state", state), ("book", book)):
        if record is not None:
            shown.append((kind, name, market.venue, record))
    if resolution is not None:
        shown.append(("resolution", name, market.venue, resolution))
    shown += [("forecast", name, one.predictor, one) for one in said]
    documents = (view.document(snippet.id) for snippet in context.search_snippets)
    shown += [("document", one.id, one.source or one.url or "", one) for one in documents]
    series = view.series(name)
    return {
        "archive": opened.name,
        "world": opened.kind,
        "t": iso(view.t),
        "market": json_ready(market),
        "wordings": [json_ready(version) for version in view.wordings(name)],
        "odds": json_ready(odds),
        "state": json_ready(state),
        "book": json_ready(book),
        "resolution": json_ready(resolution),
        "forecasts": [json_ready(one) for one in said],
        "context": context.wire(),
        "price_first": iso_us(int(series.observed_at.min())) if len(series) else None,
        "price_n": len(series),
        "provenance": [provenance(*one) for one in shown],
    }


def provenance(kind: str, id: str, source: str, record: Any) -> dict[str, Any]:
    """Where a record comes from."""
    return {
        "kind": kind,
        "id": id,
        "source": source,
        "known_at": iso(record.known_at),
        "digest": digest(record.model_dump(mode="json")),
    }


@router.get("/{archive}/series/{market_id:path}", response_model=SeriesColumns)
async def series(
    request: Request,
    api: ApiDep,
    who: Who,
    archive: ArchiveName,
    market_id: MarketId,
    t: Instant = None,
    points: Annotated[
        int, Query(ge=10, le=100_000, description="The most points, but for those that are kept.")
    ] = 1000,
    keep: Annotated[
        list[str] | None,
        Query(description="Instants (ISO 8601) whose last price is kept in any case."),
    ] = None,
    format: Format = None,
) -> Response:
    """A market's prices that were known at t, thinned to what a chart can show by LTTB (Steinarsson
    2013). The first and the last point stay, and the price that stood at each instant of `keep`:
    name the times of decisions and of evidence there."""
    asked = Series(archive, market_id, t, points, tuple(keep or ()), wanted(request, format))
    work = partial(_series, request, api, who, asked)
    if asked in api.drawn and api.worlds.ready(archive):
        return work()  # It is held, and needs no thread.
    answer = await anyio.to_thread.run_sync(work)
    api.drawn[asked] = None
    if len(api.drawn) > MOST_DRAWN:
        api.drawn.pop(next(iter(api.drawn)), None)
    return answer


class Series(NamedTuple):
    """What is asked of a series."""

    archive: str
    market_id: str
    t: str | None
    points: int
    keep: tuple[str, ...]
    kind: str


def _series(request: Request, api: Api, who: Visitor, asked: Series) -> Response:
    archive, market_id, t, points, keep, kind = asked
    opened, view = view_of(api, who, archive, t)
    name = view.resolve_id(market_id)
    if len(keep) > 1000:
        raise InputError("keep names more than 1,000 instants: name the most important ones")
    marks = tuple(sorted({to_us(instant("keep", text)) for text in keep}))

    def made() -> object:
        found = view.series(name)
        order = np.argsort(found.observed_at, kind="stable")
        times = found.observed_at[order]
        rows = np.arange(len(times))
        if kind == "json":
            rows = thinned(times, found.price[order], points, marks)
        picked = order[rows]
        columns = {
            "observed_at": found.observed_at[picked],
            "known_at": found.known_at[picked],
            **{c: getattr(found, c)[picked] for c in ("price", "bid", "ask", "volume")},
        }
        if kind != "json":
            times_of = ("observed_at", "known_at")
            made = {c: Column("time" if c in times_of else "float", v) for c, v in columns.items()}
            return as_bytes(Table(made, "series"), kind)
        return {
            "archive": archive,
            "market_id": name,
            "t": iso(view.t),
            "n": len(times),
            "method": METHOD if len(rows) < len(times) else None,
            **columns,
        }

    key = ("series", archive, opened.archive.digest, name, view.t, points, marks)
    return api.answers.reply(request, made, key, MEDIA_OF[kind])


def _iso(value: datetime | None) -> str | None:
    return None if value is None else iso(value)
