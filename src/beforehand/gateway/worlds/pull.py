"""Asking the services: one place that fetches, keeps on record, parses and remembers.

A fresh answer is used instead of a new call; a feed that may not be polled again is answered with
its last copy; what was fetched is kept before it is read, so that an answer which cannot be parsed
today is not lost. It also holds the venues' listings: what to ask for, and how to read a page.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from pydantic import ValidationError

from beforehand.clock import Clock
from beforehand.errors import BadAnswer, BeforehandError, InputError
from beforehand.gateway.worlds import Listing
from beforehand.records.record import Record
from beforehand.records.world import Exchange, Market
from beforehand.sources import kalshi, polymarket
from beforehand.sources.base import Request
from beforehand.sources.fields import answer, decode_json, mapping, noting
from beforehand.sources.fields import rows as field_rows
from beforehand.store.files import read_json, write_json
from beforehand.traffic import Polled, Traffic, spent

Read = Callable[[Mapping[str, object], datetime], Iterable[Any]]
R = TypeVar("R", bound=Record)
Keep = Callable[[Exchange, Sequence[Record]], None]
FRESH = timedelta(seconds=30)
"""For this long an answer is used instead of a new call."""
KEPT, NAMES = 60, 20_000
"""How many versions of a record are kept, and how many names of a kind. Beyond that the oldest is
dropped, so a recorder or a server that runs for weeks does not grow."""


@dataclass(frozen=True)
class Skipped:
    """A row of a page that could not be read, and why."""

    reason: str


def _readable(read: Read, row: object, at: datetime) -> list[Any]:
    """What one row of a page gives. A row that cannot be read (an unknown version, a price above
    one) is left out and counted; the rest of the page is still read."""
    guarded = answer("a row of a page")(lambda: list(read(mapping(row, "a row of a page"), at)))
    try:
        return guarded()
    except BadAnswer as error:
        return [Skipped(str(error))]


def gamma_markets(body: Any, at: datetime) -> list[Any]:
    """The records of a page of Gamma markets (binary ones alone), then the next cursor."""
    rows, cursor = polymarket.page(body, "markets") if isinstance(body, dict) else (body, None)
    return [*(record for row in rows for record in _readable(_gamma_market, row, at)), cursor]


def _gamma_market(row: Mapping[str, object], at: datetime) -> Iterator[Any]:
    if polymarket.is_binary(row):
        yield from polymarket.parse_market(row, at)
        yield from _if_any(polymarket.listed(row))


def gamma_events(body: Any, at: datetime) -> list[Any]:
    """The records of a page of Gamma events, or of a search."""
    rows, _ = polymarket.page(body, "events")
    return [record for row in rows for record in _readable(_gamma_event, row, at)]


def _gamma_event(row: Mapping[str, object], at: datetime) -> list[Any]:
    return _event(row, at, _gamma_market, polymarket.parse_event, polymarket.listed)


def _event(
    row: Mapping[str, object],
    at: datetime,
    read: Read,
    parse: Callable[[Mapping[str, object], datetime], list[Any]],
    listed: Callable[[Mapping[str, object]], Market | None],
) -> list[Any]:
    """An event with its markets; a market that cannot be read is named, and left out of it."""
    found, children = list[Any](), list[object]()
    for child in field_rows(row.get("markets"), "an event's markets"):
        skipped = [r for r in _readable(read, child, at) if isinstance(r, Skipped)]
        found += skipped
        children += [] if skipped else [child]
    found += parse({**row, "markets": children}, at)
    for child in children:
        found += _if_any(listed(mapping(child, "a market")))
    return found


def kalshi_events(body: Any, at: datetime) -> list[Any]:
    """The records of a page of Kalshi events, then the next cursor."""
    rows, cursor = kalshi.page(body, "events")
    return [*(r for row in rows for r in _readable(_kalshi_event, row, at)), cursor]


def _kalshi_event(row: Mapping[str, object], at: datetime) -> list[Any]:
    return _event(row, at, _kalshi_market, kalshi.parse_event, kalshi.listed)


def kalshi_markets(body: Any, at: datetime) -> list[Any]:
    """The records of one Kalshi market or of a page, then the next cursor."""
    rows, cursor = ([body["market"]], None) if "market" in body else kalshi.page(body, "markets")
    return [*(r for row in rows for r in _readable(_kalshi_market, row, at)), cursor]


def _kalshi_market(row: Mapping[str, object], at: datetime) -> Iterator[Any]:
    yield from kalshi.parse_market(row, at)
    yield from _if_any(kalshi.listed(row))


def _if_any(market: Market | None) -> list[Market]:
    return [] if market is None else [market]


def page_request(venue: str, listing: Listing, cursor: str | None) -> Request:
    """The next page of a venue's listing."""
    if venue == kalshi.VENUE:
        status = {"active": "open", "closed": "closed", "resolved": "settled"}.get(
            listing.status or ""
        )
        return kalshi.markets_request(status=status, cursor=cursor, limit=1000)
    closed = None if listing.status is None else listing.status != "active"
    return polymarket.markets_request(
        closed=closed,
        order=listing.order,
        ascending=listing.ascending,
        limit=min(listing.limit, polymarket.MAX_PAGE),
        cursor=cursor,
    )


def page_parser(venue: str) -> Callable[[Any, datetime], list[Any]]:
    """How to read a page of a venue's listing."""
    return kalshi_markets if venue == kalshi.VENUE else gamma_markets


class Puller:
    """Asks, parses, remembers for a moment. `keep` is given every exchange with its records. Safe
    for threads: if two ask for the same thing at once, it is sent, and paid for, once."""

    def __init__(
        self,
        traffic: Traffic,
        clock: Clock,
        keep: Keep | None = None,
        feeds: Path | None = None,
    ) -> None:
        """`feeds` is the folder for copies of polls that may not be repeated at once."""
        self._traffic, self._clock, self._keep, self._feeds = traffic, clock, keep, feeds
        self._answers: dict[str, tuple[datetime, list[Any]]] = {}
        self._asking: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
        self._guard = threading.RLock()
        self._seen: dict[type[Record], dict[str, list[Any]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def pull(self, request: Request, parse: Callable[[Any, datetime], list[Any]]) -> list[Any]:
        """The records in the answer to a request; a fresh answer is not asked for again."""
        with self._guard:
            turn = self._asking.setdefault(request.key, _Turn())
        waited = not turn.lock.acquire(blocking=False)
        if waited:
            turn.lock.acquire()
        try:
            if waited and turn.failure is not None:
                raise turn.failure  # A thread that waited for it need not wait for the same again.
            records = self._pull(request, parse)
            turn.failure = None
            return records
        except BeforehandError as error:
            turn.failure = error
            raise
        finally:
            turn.lock.release()

    def _pull(self, request: Request, parse: Callable[[Any, datetime], list[Any]]) -> list[Any]:
        now = self._clock.now()
        held = self._answers.get(request.key)
        if held is not None and now - held[0] < FRESH:
            return held[1]
        try:
            exchange = self._ask(request)
        except Polled:
            held_poll = self._poll(request)
            if held_poll is None:
                raise
            exchange = held_poll
        if self._keep is not None:
            self._keep(exchange, [])
        body: Any = exchange.body
        if request.provider != "google-news":
            body = decode_json(body, request.path)
        with noting() as left_out:
            records = answer(f"the answer of {request.path}")(parse)(body, exchange.known_at)
        spent().unread += len(left_out)
        with self._guard:
            if len(self._answers) > KEPT * 10:
                self._answers = {k: a for k, a in self._answers.items() if now - a[0] < FRESH}
            self._answers[request.key] = (exchange.known_at, records)
        found = [r for r in records if isinstance(r, Record)]
        spent().unread += sum(isinstance(r, Skipped) for r in records)
        if self._keep is not None:
            self._keep(exchange, found)
        with self._guard:
            for record in found:
                self._index(record)
        return records

    def _ask(self, request: Request) -> Exchange:
        reply = self._traffic.fetch(request)
        exchange = request.exchange(reply.url, reply.text, self._clock.now())
        if request.window is not None and self._feeds is not None:
            write_json(self._feeds / f"{request.key}.json", exchange.wire())
        return exchange

    def _poll(self, request: Request) -> Exchange | None:
        """The copy of the last poll of a feed."""
        if request.window is None or self._feeds is None:
            return None
        try:
            return Exchange.model_validate(read_json(self._feeds / f"{request.key}.json"))
        except (InputError, ValidationError):
            return None  # There is no copy, or it is damaged.

    def _index(self, record: Record) -> None:
        name = str(getattr(record, "market_id", None) or getattr(record, "id", ""))
        names = self._seen[type(record)]
        if name not in names and len(names) >= NAMES:
            del names[next(iter(names))]
        group = names[name]
        if record not in group:
            group.append(record)
            del group[:-KEPT]

    def held(self, model: type[R], name: str) -> list[R]:
        """What was fetched of one name, oldest first."""
        with self._guard:
            return list(self._seen[model].get(name, ()))

    def seen(self, model: type[R]) -> list[R]:
        """Every record of a kind that was fetched in this session."""
        with self._guard:
            return [record for group in self._seen[model].values() for record in group]


class _Turn:
    """A lock for asking for one thing, and the failure of the last thread that asked, if any."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failure: BeforehandError | None = None
