"""What a View reads from: a recorded world, or the live services.

`until` (microseconds since 1970) lets a world save work, and nothing relies on it. `live` says that
no instant is pinned: a service may then be asked what it shows now. (A View pinned to this very
second still counts as pinned: what a service answers a moment later would be refused, and may have
cost money.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

from beforehand.clock import to_us
from beforehand.gateway.search import Grade, Hit, Method
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
)
from beforehand.store.archive.reader import Series

FOREVER = to_us(datetime.max.replace(tzinfo=UTC))
Order = Literal["volume", "liquidity", "close_time", "id"]


@dataclass(frozen=True)
class Listing:
    """Which markets to list: of these venues, in this status, at most so many."""

    venues: frozenset[str] | None = None
    status: str | None = None
    order: Order = "volume"
    ascending: bool = False
    limit: int = 100


class World(Protocol):
    """What a View reads from. `until` lets a world save work; nothing relies on it."""

    grade: Grade
    live: bool

    def reaches(self, t: datetime) -> bool:
        """True for an instant ahead of the clock that may be asked about all the same."""

    def market_versions(self, market_id: str | None, until: int) -> Sequence[Market]: ...
    def states(self, market_id: str, until: int) -> Sequence[MarketState]: ...
    def books(self, market_id: str, until: int) -> Sequence[OrderBook]: ...
    def resolutions(self, market_id: str | None, until: int) -> Iterable[Resolution]: ...
    def forecasts(self, market_id: str, until: int) -> Sequence[RecordedForecast]: ...
    def events(
        self, event_id: str | None, until: int, venue: str | None = None
    ) -> Sequence[Event]: ...
    def prices(self, market_id: str, until: int) -> Sequence[PricePoint]: ...
    def last_price(
        self, market_id: str, until: int, live: bool = False
    ) -> Sequence[PricePoint]: ...
    def first_prices(self, until: int) -> Iterable[tuple[str, int]]: ...
    def observations(
        self, source: str, kind: str, subject: str | None, until: int, live: bool = False
    ) -> Sequence[Observation]: ...
    def list_markets(self, listing: Listing, until: int) -> Sequence[Market]: ...
    def find_markets(
        self,
        query: str,
        until: int,
        limit: int,
        venues: frozenset[str] | None,
        live: bool = False,
    ) -> tuple[list[Hit], Method]: ...
    def series(self, market_id: str) -> Series | None: ...
    def document(self, document_id: str, until: int) -> Sequence[Document]: ...
    def documents(self, until: int, since: int | None, limit: int) -> Sequence[Document]: ...
    def search(
        self,
        query: str,
        until: int,
        limit: int,
        since: int | None,
        live: bool = False,
        domains: Sequence[str] = (),
    ) -> Sequence[Document]: ...
