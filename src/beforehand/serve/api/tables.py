"""A run's rows as tables: forecasts, intervals, evidence, failures, calls, rejected rows, traces.

A page is read from where the page before ended, so that the first one of a long run comes as
quickly as that of a short one. CSV and Arrow hold every row.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Annotated, Any, NotRequired

import msgspec
import orjson
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.clock import iso_us, to_us
from beforehand.errors import InputError, NotFound
from beforehand.front import tables
from beforehand.front.arrow import Column, Table
from beforehand.front.run import Run
from beforehand.jobs.checks import instant
from beforehand.records.backtest import IntervalData
from beforehand.records.rows import DecisionRow, IntervalRow, decode_interval, label
from beforehand.runs.interval_columns import HEAD, IntervalColumns
from beforehand.runs.rows import columns_at, has_intervals, read_jsonl, read_traces
from beforehand.serve.api.answers import (
    MEDIA,
    Cursor,
    Format,
    Limit,
    Listed,
    as_bytes,
    decode_cursor,
    encode_cursor,
    wanted,
)
from beforehand.serve.api.base import Api, ApiDep, Json, Unpinned
from beforehand.serve.api.runs import RunId
from beforehand.tools.registry import close_to

router = APIRouter(prefix="/api/runs/{run_id}", tags=["rows"], dependencies=[Unpinned])
Market = Annotated[str | None, Query(description="Of this market alone (VENUE:id).")]
Forecaster = Annotated[str | None, Query(description="Of this forecaster alone.")]
Since = Annotated[str | None, Query(description="At this instant or later (ISO 8601).")]
Until = Annotated[str | None, Query(description="At this instant or earlier (ISO 8601).")]
LARGEST = 2**31
BESIDE = (HEAD, "config.json", "predictions.jsonl", "traces.jsonl", "resolutions.jsonl")
"""Files on which the tables over intervals rest as well."""
FROM_HERE = "leave the cursor out to start again"


class ForecastRow(TypedDict):
    """A forecast. `market` is the price then, `price_age` its age in seconds; `outcome` is what the
    market settled at; `short` marks markets that are scored apart. Forecasts that came in a file
    have no simulation, confidence, short, mode and rationale."""

    market_id: str
    time: str
    forecaster: str | None
    probability: float
    outcome: float | None
    simulation: NotRequired[int]
    confidence: NotRequired[float]
    market: NotRequired[float | None]
    price_age: NotRequired[float | None]
    short: NotRequired[bool]
    mode: NotRequired[str]
    rationale: NotRequired[str]


class IntervalSummary(TypedDict):
    """A market at an instant of a run: what was shown, how many answered, how it ended."""

    market_id: str
    time: str
    question: str | None
    odds: float | None
    bid: float | None
    ask: float | None
    price_age: float | None
    documents: int
    decisions: int
    failures: int
    outcome: float | None


class EvidenceRow(TypedDict):
    """A document that was shown at an instant; `cited_by` names the forecasters that rest on it."""

    market_id: str
    time: str
    document_id: str
    known_at: str
    text: str
    cited_by: str | None


class FailureRow(TypedDict):
    """A forecast that did not come about; `traceback` is that of a callable."""

    market_id: str
    time: str
    forecaster: str
    simulation: int
    error: str
    traceback: str | None


class CallRow(TypedDict):
    """A call on record: what was asked, answered and paid. Wall-clock times; `cost` in US
    dollars."""

    provider: str
    question: str | None
    instant: str | None
    simulation: int
    state: str
    attempts: int
    tokens: float | None
    cost: float | None
    latency_ms: float | None
    sent_at: str
    answered_at: str | None
    error: str | None
    answer: str | None


class CostRow(TypedDict):
    """What a forecaster cost: `asked` of its `forecasts` rest on a call on record. `cost` is in US
    dollars, `latency_ms` the mean of a forecast; null where no call says it."""

    forecaster: str
    forecasts: int
    asked: int
    tokens: float | None
    cost: float | None
    latency_ms: float | None


class RejectedRow(TypedDict):
    """A row of a scored file that could not be scored, as it was stated, and why."""

    line: int
    id: str | None
    time: str | None
    probability: str | None
    reason: str


class TraceWire(TypedDict):
    """How a model came to a decision: its calls by their keys, the code and what it printed, or the
    direct answer, and why another way was taken."""

    market_id: str
    time: NotRequired[str]
    model_id: str
    simulation_index: NotRequired[int]
    arm: str
    calls: list[str]
    code: NotRequired[str]
    engine: NotRequired[str]
    layers: NotRequired[list[str]]
    output: NotRequired[str]
    result: NotRequired[Json]
    answer: NotRequired[Json]
    queries: NotRequired[list[str]]
    error: NotRequired[str]
    fallback_reason: NotRequired[str]


class WholeInterval(TypedDict):
    """A market at an instant of a run, whole: a row for each experiment that asked."""

    run_id: str
    market_id: str
    time: str
    rows: list[IntervalData]


@dataclass(frozen=True)
class Filter:
    """Which rows are wanted."""

    market: str | None = None
    forecaster: str | None = None
    since: int | None = None
    until: int | None = None

    def group(self, row: IntervalRow) -> bool:
        """True if the market and the instant of a row are wanted."""
        t = row.context.t
        return (
            self.market in (None, row.market_id)
            and (self.since is None or t >= self.since)
            and (self.until is None or t <= self.until)
        )

    def line(self) -> bytes | None:
        """What a line must hold to be of the market."""
        return None if self.market is None else b'"market_id":' + orjson.dumps(self.market)

    def said(self, row: IntervalRow) -> IntervalRow:
        """The row with the decisions and failures of the forecaster alone."""
        if self.forecaster is None:
            return row
        mine = self.forecaster
        return msgspec.structs.replace(
            row,
            decisions=[one for one in row.decisions if label(one.model_id) == mine],
            failures=[one for one in row.failures if label(one.model_id) == mine],
        )


async def _of_market(market_id: Market = None, since: Since = None, until: Until = None) -> Filter:
    """The filter of a table's query."""
    return Filter(market_id, None, _us("since", since), _us("until", until))


def _us(name: str, text: str | None) -> int | None:
    return None if text is None else to_us(instant(name, text))


Chosen = Annotated[Filter, Depends(_of_market)]


Among = Callable[[IntervalColumns], Any]
"""Which rows of columns a table has any of, as a boolean array."""
Group = tuple[int, list[IntervalRow]]
"""Where the first row of a market and instant stands in the file, and all its rows."""


def groups(
    path: FilePath, chosen: Filter, start: int = 0, among: Among | None = None
) -> Iterator[Group]:
    """The rows of an intervals.jsonl from this place on (a byte, or of columns a row; of these
    only those `among` which a table has any). Raises InputError where no line begins there, or one
    is damaged."""
    if (columns := columns_at(path)) is not None:
        yield from _column_groups(columns, chosen, start, among)
        return
    needle, held, place = chosen.line(), list[IntervalRow](), start
    try:
        with path.open("rb") as lines:
            if start:
                size = path.stat().st_size
                lines.seek(min(start, size) - 1)
                if start > size or lines.read(1) != b"\n":
                    raise InputError(f"the cursor is not from this list: {FROM_HERE}")
            offset = start
            for line in lines:
                here, offset = offset, offset + len(line)
                if needle is not None and needle not in line:
                    continue
                row = decode_interval(line)
                if not chosen.group(row):
                    continue
                if held and (held[0].market_id, held[0].time) != (row.market_id, row.time):
                    yield place, held
                    held = []
                if not held:
                    place = here
                held.append(row)
        if held:
            yield place, held
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{path.name} is damaged ({error}): `beforehand runs verify` says what can be trusted"
        ) from None
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None


def _column_groups(
    columns: IntervalColumns, chosen: Filter, start: int, among: Among | None
) -> Iterator[Group]:
    if start > len(columns):
        raise InputError(f"the cursor is not from this list: {FROM_HERE}")
    places = columns.places(chosen.market, chosen.since, chosen.until)
    places = places[places.searchsorted(start) :]
    if among is not None:
        places = places[columns.whole_instants(among(columns))[places]]
    held, first = list[IntervalRow](), 0
    # One number at a time: a list of all of them takes longer than a page.
    for place, row in zip(map(int, places), columns.rows(places), strict=False):
        if held and (held[0].market_id, held[0].time) != (row.market_id, row.time):
            yield first, held
            held = []
        if not held:
            first = place
        held.append(row)
    if held:
        yield first, held


@dataclass(frozen=True)
class Kind:
    """A table over intervals: its rows, how many a group has, and of columns those that have any
    [each]."""

    name: str
    make: Callable[[Run, list[IntervalRow]], Table]
    count: Callable[[list[IntervalRow]], int]
    among: Among | None = None


def _decided(rows: Sequence[IntervalRow]) -> list[DecisionRow]:
    return [one for row in rows for one in row.decisions]


FORECASTS = Kind(
    "forecasts",
    lambda run, rows: tables.forecasts(rows, run.outcomes, run.apart),
    lambda rows: len(_decided(rows)),
)
INTERVALS = Kind(
    "intervals", lambda run, rows: tables.intervals(rows, run.outcomes), lambda rows: 1
)
EVIDENCE = Kind(
    "evidence",
    lambda run, rows: tables.evidence(rows),
    lambda rows: max(len(row.context.search_snippets) for row in rows),
    lambda columns: columns.shown() > 0,
)


def _failures(run: Run, rows: list[IntervalRow]) -> Table:
    """Failures with tracebacks that name files without their folders: these are the machine's."""
    made = tables.failures(rows, read_traces(run.path / "traces.jsonl"))
    column = made.column("traceback")
    bare = [None if v is None else _FOLDERS.sub('File "', v) for v in column.values]
    columns = {name: made.column(name) for name in made.columns}
    return Table({**columns, "traceback": Column("text", bare)}, "failures")


_FOLDERS = re.compile(r'File "[^"]*/')
FAILURES = Kind(
    "failures",
    _failures,
    lambda rows: sum(len(row.failures) for row in rows),
    lambda columns: columns.failed(),
)


@dataclass(frozen=True)
class Asked:
    """What a request for a table asks for: which page, in which form."""

    request: Request
    api: Api
    run_id: str
    limit: int
    cursor: str | None
    format: str | None


async def _asked(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    limit: Limit = 100,
    cursor: Cursor = None,
    format: Format = None,
) -> Asked:
    return Asked(request, api, run_id, limit, cursor, format)


Page = Annotated[Asked, Depends(_asked)]


def _table(asked: Asked, kind: Kind, chosen: Filter) -> Response:
    """A page of a table over intervals, or all of it as CSV or Arrow."""
    api, folder = asked.api, asked.api.folder(asked.run_id)
    path, form = folder.path / "intervals.jsonl", wanted(asked.request, asked.format)
    seal = api.seal(folder, path.name, *BESIDE)
    run = Run(folder, api.workspace)
    if seal:  # Its outcomes are read once for all pages.
        run = api.rows.held(("run", *seal), lambda: run)
    chosen = there(run, chosen)

    def rows(found: list[IntervalRow]) -> list[IntervalRow]:
        return [chosen.said(row) for row in found]

    def made() -> object:
        if not folder.wrote(path.name):
            _ = run.summary  # Of a run that is not finished there are no rows yet.
            table = _stated(run, kind, chosen)
            return _paged(table, kind.name, asked, form)
        if form != "json":
            every = [row for _, group in groups(path, chosen, 0, kind.among) for row in rows(group)]
            return as_bytes(kind.make(run, every), form)
        start, skip = 0, 0
        if asked.cursor is not None:
            _, start, skip = decode_cursor(asked.cursor, kind.name, 3)
            if not (type(start) is int and type(skip) is int and start >= 0 <= skip < LARGEST):
                raise InputError(f"the cursor is not from this list: {FROM_HERE}")
        picked, n, next_page = list[IntervalRow](), 0, None
        for place, group in groups(path, chosen, start, kind.among):
            if n - skip >= asked.limit:
                next_page = encode_cursor(kind.name, place, 0)
                break
            mine = rows(group)
            before, n = n, n + kind.count(mine)
            picked += mine
            if n - skip > asked.limit:  # The page ends inside this group.
                within = skip + asked.limit - before
                next_page = encode_cursor(kind.name, place, within)
                break
        items = plain(kind.make(run, picked))[skip : skip + asked.limit]
        return {"items": items, "next": next_page, "total": None}

    key = (kind.name, *seal, chosen, asked.limit, asked.cursor) if seal else None
    return api.answers.reply(asked.request, made, key, MEDIA[form], heavy=form != "json")


def there(run: Run, chosen: Filter) -> Filter:
    """The filter with the market's whole id. Raises NotFound for a market or a forecaster that the
    run does not have: an empty table would say that it forecast nothing."""
    market, known = chosen.market, run.markets
    if market is not None and market not in known:
        named = [name for name in known if name.partition(":")[2] == market]
        if len(named) != 1:
            raise NotFound(
                f"run {run.id} has no market {market[:100]!r}: {close_to(market, known)}"
            )
        chosen = replace(chosen, market=named[0])
    if chosen.forecaster is not None and chosen.forecaster not in run.asked:
        raise NotFound(
            f"run {run.id} has no forecaster {chosen.forecaster[:100]!r}: it has "
            f"{', '.join(run.asked)}"
        )
    if chosen.since is not None and chosen.until is not None and chosen.until < chosen.since:
        raise InputError("until lies before since: the range must not be reversed")
    return chosen


def _stated(run: Run, kind: Kind, chosen: Filter) -> Table:
    """The same of a run that scored a file, which keeps no intervals."""
    if kind is not FORECASTS:
        return kind.make(run, [])
    table = run.forecasts
    rows = [
        i
        for i in range(len(table))
        if chosen.market in (None, table.column("market_id").values[i])
        and chosen.forecaster in (None, table.column("forecaster").values[i])
        and (chosen.since is None or table.column("time").values[i] >= chosen.since)
        and (chosen.until is None or table.column("time").values[i] <= chosen.until)
    ]
    return table.take(rows)


def plain(table: Table) -> list[dict[str, Any]]:
    """Rows as JSON has them."""
    names = table.columns
    cells = [table.column(name).plain() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


def _paged(table: Table, name: str, asked: Asked, form: str) -> object:
    """A page of a table that is read whole, by the place of its rows."""
    if form != "json":
        return as_bytes(table, form)
    start = 0
    if asked.cursor is not None:
        _, start, _ = decode_cursor(asked.cursor, name, 3)
        if type(start) is not int or start < 0:
            raise InputError(f"the cursor is not from this list: {FROM_HERE}")
    end = start + asked.limit
    more = end < len(table)
    rows = table.take(range(start, min(end, len(table))))
    return {
        "items": plain(rows),
        "next": encode_cursor(name, end, 0) if more else None,
        "total": len(table),
    }


@router.get("/forecasts", response_model=Listed[ForecastRow])
def forecasts(asked: Page, chosen: Chosen, forecaster: Forecaster = None) -> Response:
    """Every forecast of a run, by time and market."""
    return _table(asked, FORECASTS, replace(chosen, forecaster=forecaster))


@router.get("/intervals", response_model=Listed[IntervalSummary])
def intervals(asked: Page, chosen: Chosen) -> Response:
    """Every market and instant of a run."""
    return _table(asked, INTERVALS, chosen)


@router.get("/evidence", response_model=Listed[EvidenceRow])
def evidence(asked: Page, chosen: Chosen) -> Response:
    """Every document that was shown, with the instant from which it was known, and who cited it."""
    return _table(asked, EVIDENCE, chosen)


@router.get("/failures", response_model=Listed[FailureRow])
def failures(asked: Page, chosen: Chosen, forecaster: Forecaster = None) -> Response:
    """Every forecast that did not come about, and why."""
    return _table(asked, FAILURES, replace(chosen, forecaster=forecaster))


@router.get("/calls", response_model=Listed[CallRow])
def calls(asked: Page) -> Response:
    """Every call on record, in the order sent: what was asked, answered and paid."""
    return _whole(asked, "calls", lambda run: run.calls)


@router.get("/costs", response_model=Listed[CostRow])
def costs(asked: Page) -> Response:
    """What each forecaster of a run cost: tokens, US dollars, mean latency of a forecast."""
    return _whole(asked, "costs", lambda run: run.costs)


@router.get("/rejected", response_model=Listed[RejectedRow])
def rejected(asked: Page) -> Response:
    """The rows of a scored file that could not be scored, each with the reason."""
    return _whole(asked, "rejected", lambda run: run.rejected)


def _whole(asked: Asked, name: str, make: Callable[[Run], Table]) -> Response:
    """A page of a table that is made whole."""
    run = Run(asked.api.folder(asked.run_id), asked.api.workspace)
    form = wanted(asked.request, asked.format)
    return asked.api.answers.reply(
        asked.request, lambda: _paged(make(run), name, asked, form), media=MEDIA[form]
    )


@router.get("/interval", response_model=WholeInterval)
def interval(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    market_id: Annotated[str, Query(description="The market (VENUE:id).")],
    time: Annotated[str, Query(description="The instant (ISO 8601).")],
) -> Response:
    """One market at one instant, whole: what was shown, what each forecaster said and why."""
    folder, at = api.folder(run_id), to_us(instant("time", time))

    def made() -> object:
        path = folder.path / "intervals.jsonl"
        chosen = there(Run(folder, api.workspace), Filter(market_id, None, at, at))
        found = groups(path, chosen) if has_intervals(path) else ()
        rows = [msgspec.to_builtins(row) for _, group in found for row in group]
        if not rows:
            raise NotFound(f"run {folder.run_id} did not ask about {chosen.market} at {iso_us(at)}")
        return {
            "run_id": folder.run_id,
            "market_id": chosen.market,
            "time": iso_us(at),
            "rows": rows,
        }

    return api.answers.reply(request, made)


@router.get("/traces", response_model=Listed[TraceWire])
def traces(
    request: Request,
    api: ApiDep,
    run_id: RunId,
    market_id: Market = None,
    forecaster: Forecaster = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """How models came to their decisions: prompts by their calls, code, output, fallback."""
    folder = api.folder(run_id)

    def made() -> object:
        path, start = folder.path / "traces.jsonl", 0
        if cursor is not None:
            _, start = decode_cursor(cursor, "traces", 2)
        if type(start) is not int or start < 0:
            raise InputError(f"the cursor is not from this list: {FROM_HERE}")
        shown, next_page = list[Any](), None
        for n, row in enumerate(read_jsonl(path) if path.is_file() else ()):
            if n < start or market_id not in (None, row["market_id"]):
                continue
            if forecaster not in (None, label(row["model_id"])):
                continue
            if len(shown) == limit:
                next_page = encode_cursor("traces", n)
                break
            shown.append(row)
        return {"items": shown, "next": next_page, "total": None}

    return api.answers.reply(request, made)
