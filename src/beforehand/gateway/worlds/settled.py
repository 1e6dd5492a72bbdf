"""Lists of a venue's settled markets, page by page, and of those that are open."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from beforehand.errors import InputError
from beforehand.gateway.worlds.pull import (
    Puller,
    Skipped,
    gamma_markets,
    kalshi_events,
    kalshi_markets,
)
from beforehand.records.world import Market, MarketState, Resolution
from beforehand.sources import kalshi, polymarket
from beforehand.sources.base import Request

VENUES = {"polymarket": polymarket.VENUE, "kalshi": kalshi.VENUE}


@dataclass(frozen=True)
class Settled:
    """Which settled markets to list: those that ended in [since, until), with at least this volume
    (dollars on Polymarket, contracts on Kalshi). `series` is a Kalshi series."""

    venue: str
    since: datetime
    until: datetime
    min_volume: float = 0.0
    series: str | None = None

    def check(self) -> None:
        """Raises InputError for an order that no venue can answer."""
        if self.venue not in VENUES.values():
            raise InputError(f"{self.venue}: settled markets are listed by {', '.join(VENUES)}")
        if self.since >= self.until:
            raise InputError("--since must lie before --until")
        if self.series is not None and self.venue != kalshi.VENUE:
            raise InputError("--series is Kalshi's: leave it out for Polymarket")


@dataclass(frozen=True)
class Ended:
    """A settled market of a listing: from when to when it has prices, and how it ended."""

    id: str
    opened: datetime
    ended: datetime
    status: str


@dataclass
class LeftOut:
    """What a listing named and did not give: rows that could not be read, and why; markets that
    are over and have no result."""

    unread: list[str] = field(default_factory=list)
    without_result: list[str] = field(default_factory=list)


def listed(puller: Puller, wanted: Settled, left: LeftOut) -> Iterator[Ended]:
    """Settled markets in the venue's order: Polymarket by scheduled close, Kalshi as it lists them,
    its historical tier (which is listed by series alone) after the live one. What is left out is
    added to `left`."""
    seen: set[str] = set()
    for first, historical in _tiers(puller, wanted):
        cursor: str | None = None
        asked = set[str | None]()
        while cursor not in asked:  # A cursor that comes again would never end.
            asked.add(cursor)
            *records, cursor = puller.pull(
                _page(wanted, cursor, historical),
                gamma_markets if wanted.venue == polymarket.VENUE else kalshi_markets,
            )
            _note(records, left)
            for one in _ended(records, wanted, first):
                if one.id not in seen:
                    seen.add(one.id)
                    yield one
            if cursor is None:  # A page may be empty and still have a next one.
                break


def opened(puller: Puller, venue: str) -> Iterator[int]:
    """Ask a venue for all its open markets, a page at a time; yields how many a page had. Raises
    InputError for a venue that lists none."""
    if venue not in VENUES.values():
        raise InputError(f"{venue}: open markets are listed by {', '.join(VENUES)}")
    cursor: str | None = None
    seen = set[str | None]()
    while cursor not in seen:  # A cursor that comes again would never end.
        seen.add(cursor)
        if venue == kalshi.VENUE:  # By events: its markets alone name no category.
            request = kalshi.events_request(kalshi.MOST_EVENTS, cursor, "open")
            *records, cursor = puller.pull(request, kalshi_events)
        else:
            request = polymarket.markets_request(closed=False, cursor=cursor, tags=True)
            *records, cursor = puller.pull(request, gamma_markets)
        yield len({one.id for one in records if isinstance(one, Market)})
        if cursor is None:  # A page may be empty and still have a next one.
            break


def out_of_reach(puller: Puller, wanted: Settled) -> datetime | None:
    """Until when Kalshi lists what was settled by series alone, where that concerns this order."""
    if wanted.venue != kalshi.VENUE or wanted.series is not None:
        return None
    cutoff = _cutoff(puller)
    return cutoff if wanted.since < cutoff else None


def _cutoff(puller: Puller) -> datetime:
    settled: datetime = puller.pull(
        kalshi.cutoff_request(), lambda body, _: list(kalshi.parse_cutoff(body))
    )[0]
    return settled


def _tiers(puller: Puller, wanted: Settled) -> list[tuple[datetime, bool]]:
    """(the first instant that the tier covers, whether it is the historical one)."""
    if wanted.venue == polymarket.VENUE:
        return [(wanted.since, False)]
    cutoff = _cutoff(puller)
    live = [(max(wanted.since, cutoff), False)] if wanted.until > cutoff else []
    old = [(wanted.since, True)] if wanted.since < cutoff and wanted.series else []
    return [*live, *old]


def _page(wanted: Settled, cursor: str | None, historical: bool) -> Request:
    if wanted.venue == polymarket.VENUE:
        return polymarket.settled_request(wanted.since, wanted.min_volume, cursor)
    return kalshi.settled_request(wanted.since, wanted.until, wanted.series, cursor, historical)


def _note(records: list[Any], left: LeftOut) -> None:
    """What of a page is left out."""
    ended = {r.market_id for r in records if isinstance(r, Resolution)}
    left.unread += [one.reason for one in records if isinstance(one, Skipped)]
    left.without_result += [
        state.market_id
        for state in records
        if isinstance(state, MarketState)
        and state.status in (*kalshi.ENDED, "closed")
        and state.market_id not in ended
    ]


def _ended(records: list[Any], wanted: Settled, first: datetime) -> Iterator[Ended]:
    """The markets of a page that the order is about."""
    markets: dict[str, list[Market]] = {}
    for market in (r for r in records if isinstance(r, Market)):
        markets.setdefault(market.id, []).append(market)
    states = {r.market_id: r for r in records if isinstance(r, MarketState)}
    for ending in (r for r in records if isinstance(r, Resolution)):
        versions, state = markets.get(ending.market_id, []), states.get(ending.market_id)
        if ending.status == "disputed" or not first <= ending.resolved_at < wanted.until:
            continue
        if state is not None and (state.volume or 0.0) < wanted.min_volume:
            continue
        known = [v.known_at for v in versions] + [v.opened_at for v in versions if v.opened_at]
        opened = min(known, default=ending.resolved_at - timedelta(days=365))
        yield Ended(ending.market_id, opened, ending.resolved_at, ending.status)
