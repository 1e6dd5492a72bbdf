"""The recorded world as the gateway reads it: an archive held in memory, never written."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, TypeVar

from beforehand.clock import from_us
from beforehand.gateway.search import Grade, Hit, MarketIndex, Method, SearchIndex, domain_of
from beforehand.gateway.worlds import Listing
from beforehand.ids import split_market_id
from beforehand.lazy import lazy
from beforehand.records.world import (
    Document,
    Event,
    Market,
    MarketState,
    Observation,
    OrderBook,
    PricePoint,
    RecordedForecast,
    Resolution,
    currency_of,
)
from beforehand.store.archive.nearby import Nearby
from beforehand.store.archive.reader import Archive, Series

T = TypeVar("T")


class RecordedWorld:
    """Answers the gateway from an archive. `until` only saves work: the View checks all that is
    returned. Every lazily loaded part is read once."""

    def __init__(
        self,
        archive: Archive,
        grade: Grade = "captured",
        extra: Callable[[], Iterable[Observation]] = tuple,
    ) -> None:
        """`extra` gives observations that are stored beside the archive (a cache of threads)."""
        self.archive = archive
        self.grade: Grade = grade
        self.live = False
        self._extra = extra
        self._asked_last = "", list[Market]()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process loads what it needs itself."""
        return RecordedWorld, (self.archive, self.grade, self._extra)

    @lazy
    def _series(self) -> dict[str, Series]:
        return self.archive.series()

    @lazy
    def index(self) -> SearchIndex:
        """The search index over all documents."""
        return SearchIndex(self.archive.documents(), self.grade)

    @lazy
    def _versions(self) -> dict[str, list[Market]]:
        versions: dict[str, list[Market]] = defaultdict(list)
        for market in self.archive.records(Market):
            versions[market.id].append(market)
        if self.grade == "published":
            for found in versions.values():
                found += _as_listed(found)
        for name, series in self._series.items():
            if len(series):
                versions[name].append(_stub(name, from_us(series.known_at[0])))
        return dict(versions)

    def _of(self, market_id: str, part: str, alone: Callable[[str], T], nothing: T) -> T:
        """What a lazily loaded part holds of one market. Of a large archive a few segments are
        read, and only who asks here and there so often that it costs more than all loads all."""
        if part not in self.__dict__ and self.archive.by_market and self._nearby.pays:
            return alone(market_id)
        found: T = getattr(self, part).get(market_id, nothing)
        return found

    @lazy
    def _nearby(self) -> Nearby:
        return Nearby(self.archive)

    def forget(self) -> None:
        """Let go of what was read of the markets; whoever asks again reads it again."""
        self._asked_last = "", []
        parts = ("_series", "_versions", "_states", "_books", "_resolutions", "_forecasts")
        for part in (*parts, "_nearby", "_first"):
            self.__dict__.pop(part, None)

    def _versions_of(self, market_id: str) -> list[Market]:
        name, found = self._asked_last
        if name == market_id:  # A name is looked up, and then the market.
            return found
        found = self._nearby.records(Market, market_id)
        if self.grade == "published":
            found += _as_listed(found)
        if (first := self._first_of(market_id)) is not None:
            found.append(_stub(market_id, from_us(first)))
        self._asked_last = market_id, found
        return found

    @lazy
    def _first(self) -> dict[str, int]:
        return self.archive.first_known()

    def _first_of(self, market_id: str) -> int | None:
        """When the first price of a market became known."""
        if "_first" in self.__dict__:
            return self._first.get(market_id)
        series = self.series(market_id)
        return None if series is None or not len(series) else int(series.known_at[0])

    @lazy
    def _states(self) -> dict[str, list[MarketState]]:
        return _grouped(self.archive.records(MarketState))

    @lazy
    def _books(self) -> dict[str, list[OrderBook]]:
        return _grouped(self.archive.records(OrderBook))

    @lazy
    def _resolutions(self) -> dict[str, list[Resolution]]:
        return _grouped(self.archive.records(Resolution))

    @lazy
    def _forecasts(self) -> dict[str, list[RecordedForecast]]:
        return _grouped(self.archive.records(RecordedForecast))

    @lazy
    def _events(self) -> list[Event]:
        return self.archive.records(Event)

    @property
    def simulated(self) -> bool:
        """True where the archive holds a simulated world."""
        imports = getattr(self.archive, "manifest", {}).get("imports", ())
        return any(entry["importer"] == "simulate" for entry in imports)

    def reaches(self, t: datetime) -> bool:
        """True for an instant ahead of the clock that a simulated world holds records of."""
        return self.simulated and t <= self._end

    @lazy
    def _end(self) -> datetime:
        return self.archive.last_known()

    @lazy
    def market_index(self) -> MarketIndex:
        """The search index over all market texts."""
        return MarketIndex([v for versions in self._versions.values() for v in versions])

    @lazy
    def _observations(self) -> dict[tuple[str, str], list[Observation]]:
        groups: dict[tuple[str, str], list[Observation]] = defaultdict(list)
        for row in chain(self.archive.records(Observation), self._extra()):
            groups[row.source, row.kind].append(row)
        return dict(groups)

    def observations(
        self, source: str, kind: str, subject: str | None, until: int, live: bool = False
    ) -> Sequence[Observation]:
        """A vendor's rows, in stored order."""
        found = self._observations.get((source, kind), [])
        return found if subject is None else [row for row in found if row.subject == subject]

    def list_markets(self, listing: Listing, until: int) -> Sequence[Market]:
        """Every stored version; the View selects."""
        return self.market_versions(None, until)

    def find_markets(
        self,
        query: str,
        until: int,
        limit: int,
        venues: frozenset[str] | None,
        live: bool = False,
    ) -> tuple[list[Hit], Method]:
        """Ranked with what was known at `until`."""
        return self.market_index.search(query, until, limit, venues)

    def market_versions(self, market_id: str | None, until: int) -> Sequence[Market]:
        """Stored versions of one market, or of all; a market seen only by its prices is a stub."""
        if market_id is not None:
            return self._of(market_id, "_versions", self._versions_of, [])
        return [version for versions in self._versions.values() for version in versions]

    def states(self, market_id: str, until: int) -> Sequence[MarketState]:
        """Observed states."""
        return self._of(market_id, "_states", lambda m: self._nearby.records(MarketState, m), [])

    def books(self, market_id: str, until: int) -> Sequence[OrderBook]:
        """Recorded order books."""
        return self._of(market_id, "_books", lambda m: self._nearby.records(OrderBook, m), [])

    def resolutions(self, market_id: str | None, until: int) -> Iterable[Resolution]:
        """Resolutions of one market, or of all."""
        if market_id is not None:
            alone = self._nearby.records
            return self._of(market_id, "_resolutions", lambda m: alone(Resolution, m), [])
        if "_resolutions" not in self.__dict__ and self.archive.by_market:
            return self.archive.each(Resolution)  # They are many, and asked for once.
        return [record for records in self._resolutions.values() for record in records]

    def forecasts(self, market_id: str, until: int) -> Sequence[RecordedForecast]:
        """Forecasts that others made."""
        alone = self._nearby.records
        return self._of(market_id, "_forecasts", lambda m: alone(RecordedForecast, m), [])

    def all_forecasts(self) -> list[RecordedForecast]:
        """Every recorded forecast, to list who made them."""
        return [record for records in self._forecasts.values() for record in records]

    def events(self, event_id: str | None, until: int, venue: str | None = None) -> Sequence[Event]:
        """Stored versions of one event, or of all."""
        return [e for e in self._events if event_id is None or e.id == event_id]

    def prices(self, market_id: str, until: int) -> Sequence[PricePoint]:
        """Price points known until `until`, oldest knowledge first."""
        series = self.series(market_id)
        if series is None:
            return []
        prefix = series.until(until)
        return [point(prefix, i) for i in range(len(prefix))]

    def last_price(self, market_id: str, until: int, live: bool = False) -> Sequence[PricePoint]:
        """The price at `until`, as a sequence of at most one."""
        series = self.series(market_id)
        position = -1 if series is None else series.position(until)
        return [] if series is None or position < 0 else [point(series, position)]

    def first_prices(self, until: int) -> Iterable[tuple[str, int]]:
        """Markets with prices, and when the first one became known."""
        if "_series" not in self.__dict__ and self.archive.by_market:
            return self._first.items()
        known = ((name, one) for name, one in self._series.items() if len(one))
        return ((name, int(one.known_at[0])) for name, one in known)

    def series(self, market_id: str) -> Series | None:
        """The whole series, for bulk walks (the gateway checks what it takes from it)."""
        return self._of(market_id, "_series", self._nearby.series, None)

    def documents(self, until: int, since: int | None, limit: int) -> Sequence[Document]:
        """The newest documents in [since, until]."""
        n = self.index.count_until(until)
        first = 0 if since is None else self.index.count_until(since - 1)
        return [row.record() for row in reversed(self.index.rows[max(first, n - limit) : n])]

    def document(self, document_id: str, until: int) -> Sequence[Document]:
        """Every version of one document."""
        return [row.record() for row in self._by_id.get(document_id, [])]

    @lazy
    def _by_id(self) -> dict[str, list]:  # type: ignore[type-arg]
        rows = defaultdict(list)
        for row in self.index.rows:
            rows[row.id].append(row)
        return dict(rows)

    def search(
        self,
        query: str,
        until: int,
        limit: int,
        since: int | None,
        live: bool = False,
        domains: Sequence[str] = (),
    ) -> Sequence[Document]:
        """The best documents for a query, ranked with what was known at `until`. Their place in the
        ranking does not depend on `domains`: those of other domains are left out of it."""
        if not self.index.rows:
            return []
        if not domains:
            return [row.record() for row in self.index.search(query, until, limit, since)]
        found = self.index.search(query, until, len(self.index.rows), since)
        return [row.record() for row in found if domain_of(row.url, domains)][:limit]


def point(series: Series, i: int) -> PricePoint:
    """One row of a series as a record."""

    def value(column: object) -> float | None:
        number = float(column[i])  # type: ignore[index]
        return None if number != number else number

    return PricePoint(
        market_id=series.market_id,
        price=float(series.price[i]),
        observed_at=from_us(series.observed_at[i]),
        known_at=from_us(series.known_at[i]),
        bid=value(series.bid),
        ask=value(series.ask),
        volume=value(series.volume),
    )


def _stub(name: str, known_at: datetime) -> Market:
    venue, native = split_market_id(name)
    return Market(
        id=name,
        venue=venue or "",
        native_id=native,
        currency=currency_of(venue or ""),
        known_at=known_at,
    )


def _as_listed(versions: list[Market]) -> list[Market]:
    """For the grade `published`: the first text that was stored of a market, dated by its listing.
    It may have been edited in between. Its scheduled close is left out: venues move it."""
    texts = [v for v in versions if v.question is not None]
    listings = [v.known_at for v in versions if v.question is None]
    if not texts or not listings:
        return []
    first = min(texts, key=lambda v: v.known_at)
    since = min(listings)
    if since >= first.known_at:
        return []
    update = {"known_at": since, "scheduled_close": None, "text_captured_at": first.known_at}
    return [first.model_copy(update=update)]


def _grouped(records: list) -> dict:  # type: ignore[type-arg]
    groups = defaultdict(list)
    for record in records:
        groups[record.market_id].append(record)
    return dict(groups)
