"""The View: the world as it stood at t.

Whatever a world returns, each record is put to the one predicate before it is shown; refusals
are kept. A View can only be narrowed. Its answers, counts, orderings and error texts depend on
records known at t alone.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from beforehand.clock import Clock, SystemClock, iso, to_us
from beforehand.errors import CutoffViolation, InputError, NotFound
from beforehand.gateway.audit import Audit
from beforehand.gateway.search import Grade
from beforehand.ids import split_market_id
from beforehand.records.base import Record
from beforehand.records.cutoff import document_known_at, visible
from beforehand.records.world import (
    BookLevel,
    Document,
    Event,
    Market,
    MarketState,
    Odds,
    OrderBook,
    PricePoint,
    RecordedForecast,
    Resolution,
)
from beforehand.store.series import Rows, Series

R = TypeVar("R", bound=Record)
MAX_LIMIT = 10_000
FOREVER = datetime.max.replace(tzinfo=UTC)


class World(Protocol):
    """What a View reads from. `until` lets a world save work; nothing relies on it."""

    grade: Grade

    def market_versions(self, market_id: str | None, until: datetime) -> Sequence[Market]: ...
    def states(self, market_id: str, until: datetime) -> Sequence[MarketState]: ...
    def books(self, market_id: str, until: datetime) -> Sequence[OrderBook]: ...
    def resolutions(self, market_id: str | None, until: datetime) -> Sequence[Resolution]: ...
    def forecasts(self, market_id: str, until: datetime) -> Sequence[RecordedForecast]: ...
    def events(self, until: datetime) -> Sequence[Event]: ...
    def prices(self, market_id: str, until: datetime) -> Sequence[PricePoint]: ...
    def last_price(self, market_id: str, until: datetime) -> Sequence[PricePoint]: ...
    def series(self, market_id: str) -> Series | None: ...
    def document(self, document_id: str, until: datetime) -> Sequence[Document]: ...
    def documents(
        self, until: datetime, since: datetime | None, limit: int
    ) -> Sequence[Document]: ...
    def search(
        self, query: str, until: datetime, limit: int, since: datetime | None
    ) -> Sequence[Document]: ...


class Gateway:
    """Hands out Views over one world and keeps the audit trail of all of them."""

    def __init__(self, world: World, clock: Clock | None = None) -> None:
        self.world = world
        self.clock = clock or SystemClock()
        self.audit = Audit()
        self._rows: dict[str, Rows] = {}

    def at(self, t: datetime) -> "View":
        """The world at `t` (an aware datetime)."""
        if t.tzinfo is None:
            raise InputError("the instant of a View needs a time zone")
        return View(self, t)

    def live(self) -> "View":
        """The world now."""
        return self.at(self.clock.now())

    def hindsight(self) -> "View":
        """Everything the world holds: for naming markets and scoring them, never for forecasting.

        Not the same as `live`: an ending may be recorded with a date that still lies ahead, and
        a score must not depend on the day it is computed.
        """
        return self.at(FOREVER)

    def lookup(self, market_id: str, t: int) -> tuple[float, int, int] | None:
        """(price, observed_at, known_at) at `t` in microseconds, guarded; None before the first.

        The one-at-a-time path for loops: plain lists and a bisection. No record is built and no
        trail is kept; the comparison is `visible_us` written out, as the call would cost as much
        as the lookup.
        """
        known_at, price, observed_at, known = self._rows.get(market_id) or self._list(market_id)
        i = bisect_right(known_at, t) - 1
        if i < 0:
            return None
        if known[i] > t:
            raise CutoffViolation(f"{market_id}: a price known after t was looked up")
        return price[i], observed_at[i], known[i]

    def _list(self, market_id: str) -> Rows:
        series = self.world.series(market_id) or Series.empty(market_id)
        rows = self._rows[market_id] = series.rows()
        return rows

    def replay(self, market_id: str, chunk: int = 65_536) -> Iterator[tuple[int, float]]:
        """(t, price at t) for each instant at which a price became known, a chunk at a time."""
        series = self.world.series(market_id) or Series.empty(market_id)
        if not series.distinct:  # Several became known at once: the last stands.
            return self.walk(market_id, np.unique(series.known_at), chunk)
        instants, prices, _, _ = self._rows.get(market_id) or self._list(market_id)

        def chunks() -> Iterator[Iterator[tuple[int, float]]]:
            for start in range(0, len(instants), chunk):
                part = slice(start, start + chunk)
                known, t = series.known_at[series.latest[part]], series.known_at[part]
                if not self.audit.chunk("replay", market_id, known, t).all():
                    raise CutoffViolation(f"{market_id}: a price known after t was replayed")
                yield zip(instants[part], prices[part], strict=True)

        return chain.from_iterable(chunks())

    def take(
        self, market_id: str, t: npt.NDArray[np.int64], method: str = "odds"
    ) -> tuple[Series, npt.NDArray[np.int64]]:
        """A series and the row in it for each instant (-1 where none), the chunk audited.

        Raises CutoffViolation if the world handed out anything known after its instant.
        """
        # A market without prices answers like one whose first price is still to come.
        series = self.world.series(market_id) or Series.empty(market_id)
        rows = series.positions(t)
        if len(rows) and rows.min() >= 0:
            known, at = series.known_at[rows], t
        else:
            known, at = series.known_at[rows[rows >= 0]], t[rows >= 0]
        if len(at) and not self.audit.chunk(method, market_id, known, at).all():
            raise CutoffViolation(f"{market_id}: the world returned prices known after t")
        return series, rows

    def walk(
        self, market_id: str, t: npt.NDArray[np.int64], chunk: int = 16384
    ) -> Iterator[tuple[int, float]]:
        """(t, price) for each instant that has a price, guarded a chunk at a time."""

        def chunks() -> Iterator[Iterator[tuple[int, float]]]:
            for start in range(0, len(t), chunk):
                part = t[start : start + chunk]
                series, rows = self.take(market_id, part, "walk")
                if len(rows) and rows.min() < 0:
                    part, rows = part[rows >= 0], rows[rows >= 0]
                yield zip(part.tolist(), series.price[rows].tolist(), strict=True)

        return chain.from_iterable(chunks())


class View:
    """The world at `t`. Every method returns only records known at `t`."""

    def __init__(self, gateway: Gateway, t: datetime) -> None:
        self._gateway = gateway
        self._world = gateway.world
        self.t = t

    def narrow(self, t: datetime) -> "View":
        """A View at an earlier instant; a later one raises CutoffViolation."""
        if t > self.t:
            raise CutoffViolation(
                f"{iso(t)} lies after this View's instant {iso(self.t)}: "
                "a View can only be narrowed"
            )
        return self._gateway.at(t)

    def market(self, market_id: str) -> Market:
        """The market with its text as of the version known at t (None where none is that old)."""
        name = self.resolve_id(market_id)
        return _merge(self._admit("market", self._world.market_versions(name, self.t)))

    def markets(self) -> list[Market]:
        """Every market known at t, by id."""
        groups: dict[str, list[Market]] = {}
        for version in self._admit("market", self._world.market_versions(None, self.t)):
            groups.setdefault(version.id, []).append(version)
        return [_merge(groups[name]) for name in sorted(groups)]

    def resolve_id(self, market_id: str) -> str:
        """`VENUE:native` for an id as a user wrote it; a bare id must be unambiguous at t."""
        venue, native = split_market_id(market_id)
        if venue is not None:
            name = f"{venue}:{native}"
            if any(visible(v.known_at, self.t) for v in self._world.market_versions(name, self.t)):
                return name
        names = sorted(
            {
                v.id
                for v in self._world.market_versions(None, self.t)
                if v.native_id == market_id and visible(v.known_at, self.t)
            }
        )
        if len(names) == 1:
            return names[0]
        if names:
            raise InputError(f"{market_id!r} is ambiguous: write one of {', '.join(names)}")
        when = "in this world" if self.t == FOREVER else f"known at {iso(self.t)}"
        raise NotFound(f"no market {market_id!r} is {when}")

    def odds(self, market_id: str) -> Odds:
        """The market's price at t with its age in seconds; NotFound before the first price."""
        name = self.resolve_id(market_id)
        points = self._admit("odds", self._world.last_price(name, self.t))
        if not points:
            raise NotFound(f"{name} has no price known at {iso(self.t)}")
        last = max(points, key=lambda p: (p.observed_at, p.known_at))
        age = (self.t - last.observed_at).total_seconds()
        return Odds(**dict(last), price_age=age)

    def history(
        self, market_id: str, start: datetime | None = None, limit: int | None = None
    ) -> list[PricePoint]:
        """Prices known at t and observed at or after `start`, oldest first; `limit` keeps the
        newest."""
        name = self.resolve_id(market_id)
        points = self._admit("history", self._world.prices(name, self.t))
        if start is not None:
            points = [p for p in points if p.observed_at >= start]
        points.sort(key=lambda p: (p.observed_at, p.known_at))
        return points if limit is None else points[-_bounded(limit) :]

    def state(self, market_id: str) -> MarketState | None:
        """The last state observed until t."""
        name = self.resolve_id(market_id)
        return _last(self._admit("state", self._world.states(name, self.t)))

    def book(self, market_id: str) -> OrderBook | None:
        """The last order book recorded until t, seen from YES; None where a book names its token
        and it is not known by t which side that is."""
        name = self.resolve_id(market_id)
        book = _last(self._admit("book", self._world.books(name, self.t)))
        tokens = self.market(name).tokens
        if book is None or book.token_id is None or book.token_id in tokens[:1]:
            return book
        if book.token_id not in tokens:
            return None
        return book.model_copy(
            update={
                "token_id": tokens[0],
                "bids": tuple(_mirrored(level) for level in book.asks),
                "asks": tuple(_mirrored(level) for level in book.bids),
            }
        )

    def events(self) -> list[Event]:
        """Every event known at t in its latest version, by id."""
        latest: dict[str, Event] = {}
        for event in self._admit("event", self._world.events(self.t)):
            if event.id not in latest or latest[event.id].known_at <= event.known_at:
                latest[event.id] = event
        return [latest[name] for name in sorted(latest)]

    def event(self, event_id: str) -> Event:
        """One event; NotFound if none by that id is known at t."""
        for event in self.events():
            if event.id == event_id:
                return event
        raise NotFound(f"no event {event_id!r} is known at {iso(self.t)}")

    def resolution(self, market_id: str) -> Resolution | None:
        """How the market ended, once that is known."""
        name = self.resolve_id(market_id)
        return _last(self._admit("resolution", self._world.resolutions(name, self.t)))

    def resolutions(self) -> list[Resolution]:
        """Every market's latest known resolution, by market id."""
        latest: dict[str, Resolution] = {}
        for record in self._admit("resolution", self._world.resolutions(None, self.t)):
            if (
                record.market_id not in latest
                or latest[record.market_id].known_at <= record.known_at
            ):
                latest[record.market_id] = record
        return [latest[name] for name in sorted(latest)]

    def forecasts(self, market_id: str) -> list[RecordedForecast]:
        """What others had forecast by t, oldest first."""
        name = self.resolve_id(market_id)
        records = self._admit("forecast", self._world.forecasts(name, self.t))
        return sorted(records, key=lambda r: (r.known_at, r.predictor))

    def document(self, document_id: str) -> Document:
        """The latest version of a document known at t."""
        found = _last(self._admit_documents(self._world.document(document_id, self.t)))
        if found is None:
            raise NotFound(f"no document {document_id!r} is known at {iso(self.t)}")
        return found

    def documents(self, since: datetime | None = None, limit: int = 100) -> list[Document]:
        """Documents known at t (and not before `since`), newest first."""
        records = self._world.documents(self.t, since, _bounded(limit))
        admitted = self._admit_documents(records)
        if since is not None:
            admitted = [d for d in admitted if d.known_at >= since]
        return sorted(admitted, key=lambda d: (d.known_at, d.id), reverse=True)[:limit]

    def search(self, query: str, limit: int = 10, since: datetime | None = None) -> list[Document]:
        """The best documents for a query, ranked with what was known at t."""
        return self._admit_documents(self._world.search(query, self.t, _bounded(limit), since))[
            :limit
        ]

    def _admit(self, method: str, records: Iterable[R]) -> list[R]:
        """The wall: what is not known at t is refused and written down."""
        return [r for r in records if self._pass(method, r, getattr(r, "known_at", None))]

    def _admit_documents(self, records: Iterable[Document]) -> list[Document]:
        """The wall for documents. What leaves it carries the run's grade in `known_at`, so that
        whoever stores or checks the document again works with the same date."""
        admitted = []
        for document in records:
            known_at = document_known_at(
                document.known_at, document.text_known_at, self._world.grade
            )
            if self._pass("document", document, known_at):
                admitted.append(document.model_copy(update={"known_at": known_at}))
        return admitted

    def _pass(self, method: str, record: Record, known_at: datetime | None) -> bool:
        if visible(known_at, self.t):
            assert known_at is not None
            self._gateway.audit.admit(method, to_us(known_at), to_us(self.t))
            return True
        name = getattr(record, "id", None) or getattr(record, "market_id", "?")
        self._gateway.audit.refuse(method, str(name), known_at, self.t)
        return False


def _mirrored(level: BookLevel) -> BookLevel:
    """A level of the NO side, seen from YES."""
    return level.model_copy(update={"price": round(1.0 - level.price, 9)})


def _last(records: list[R]) -> R | None:
    """The one known last; of several known at one instant, the one stored last."""
    return max(reversed(records), key=lambda r: r.known_at, default=None)  # type: ignore[attr-defined]


def _merge(versions: list[Market]) -> Market:
    """The latest visible text, known since the earliest visible version."""
    if not versions:
        raise NotFound("no version of this market is known yet")
    texts = [v for v in versions if v.question is not None]
    latest = _last(texts or versions)
    assert latest is not None
    return latest.model_copy(
        update={
            "known_at": min(v.known_at for v in versions),
            "text_known_at": latest.known_at if texts else None,
        }
    )


def _bounded(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit must lie between 1 and {MAX_LIMIT:,}, not {limit}")
    return limit
