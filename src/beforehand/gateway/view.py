"""The View: the world as it stood at t.

Each record that a world returns is checked by the gateway's guard before it is shown; refusals are
kept. A View can only be narrowed. Its answers, counts, orderings and error texts depend on records
known at t alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import numpy as np

from beforehand.clock import from_us, iso, parse_instant, to_us
from beforehand.errors import (
    BeforehandError,
    CutoffViolation,
    InputError,
    NotFound,
    ReplayMiss,
)
from beforehand.gateway.search import Hit, Method
from beforehand.gateway.worlds import FOREVER, Listing
from beforehand.ids import split_market_id
from beforehand.records.cutoff import document_known_at, visible_us
from beforehand.records.record import Record
from beforehand.records.world import (
    BookLevel,
    Document,
    Event,
    Market,
    MarketState,
    Observation,
    Odds,
    OrderBook,
    PricePoint,
    RecordedForecast,
    Resolution,
)
from beforehand.store.archive.endings import Endings, ending_of
from beforehand.store.archive.reader import Series

if TYPE_CHECKING:
    from beforehand.gateway.gateway import Gateway

R = TypeVar("R", bound=Record)
MAX_LIMIT = 10_000


class View:
    """The world at `t` (microseconds since 1970; None: now, whenever that is). Every method
    returns only records known at `t`."""

    def __init__(self, gateway: "Gateway", t: int | None) -> None:
        self._gateway = gateway
        self._world = gateway.world
        self._t = t

    @property
    def t(self) -> datetime:
        """The instant of this View; of a live one, the clock's."""
        return from_us(self._at)

    @property
    def _at(self) -> int:
        return to_us(self._gateway.clock.now()) if self._t is None else self._t

    @property
    def live(self) -> bool:
        """True where no instant is pinned."""
        return self._t is None

    def narrow(self, t: datetime | str) -> "View":
        """A View at an earlier instant (an aware datetime, or ISO 8601 with a zone); a later one
        raises CutoffViolation. One that is not pinned goes up to now, in a simulated world up to
        its end. Raises InputError for what is no instant."""
        t = _instant("t", t)
        if self._t is None and t > self.t and not self._world.reaches(t):
            raise CutoffViolation(f"{iso(t)} lies in the future: ask for an instant up to now")
        if self._t is not None and t > self.t:
            raise CutoffViolation(
                f"{iso(t)} lies after the instant to which this is pinned, {iso(self.t)}: it can "
                "only be narrowed, so leave as_of out, or give an earlier one"
            )
        return self._gateway.at(t)

    def market(self, market_id: str) -> Market:
        """The market with its text as of the version known at t (None where none is that old)."""
        name = self.resolve_id(market_id)
        return _merge(self._admit("market", self._world.market_versions(name, self._at)))

    def wordings(self, market_id: str) -> list[Market]:
        """Every stored version of the market's text that was known at t, oldest first: how its
        rules changed."""
        name = self.resolve_id(market_id)
        found = self._admit("market", self._world.market_versions(name, self._at))
        return sorted(found, key=lambda version: version.known_at)

    def markets(self) -> list[Market]:
        """Every market known at t, ordered by id; also those that have ended (`resolution(id)` says
        so; `bh.toolbox(view).list_markets(status="active")` lists the others)."""
        groups: dict[str, list[Market]] = {}
        for version in self._admit("market", self._world.market_versions(None, self._at)):
            groups.setdefault(version.id, []).append(version)
        return [_merge(groups[name]) for name in sorted(groups)]

    def resolve_id(self, market_id: str) -> str:
        """`VENUE:native` for an id as a user wrote it: also a bare native id, a slug, a Gamma
        number, the id of one of its tokens, or the address of its page, as long as it is
        unambiguous at t."""
        if not isinstance(market_id, str):
            raise InputError(f"a market's id is text, not {market_id!r}")
        venue, native = split_market_id(_last_part(market_id))
        if venue is not None:
            name = f"{venue}:{native}"
            known = [
                version.id
                for version in self._world.market_versions(name, self._at)
                if self._known(version.known_at)
            ]
            if known:  # A service may list others beside the one that it was asked for.
                return name if name in known else known[0]
        found = [
            v
            for v in self._world.market_versions(None, self._at)
            if _names_it(native, v) and venue in (None, v.venue) and self._known(v.known_at)
        ]
        names = {v.id for v in found}
        if len(names) == 1:
            return names.pop()
        if names:
            raise InputError(f"{market_id!r} is ambiguous: write one of {_names(found)}")
        when = "in this world" if self._t == FOREVER else f"known at {iso(self.t)}"
        same = {
            v.id
            for v in (self._world.market_versions(None, self._at) if venue else ())
            if _names_it(native, v) and self._known(v.known_at)
        }
        there = f": there is {', '.join(sorted(same)[:3])}" if same else ""
        raise NotFound(f"no market {market_id!r} is {when}{there}")

    def odds(self, market_id: str) -> Odds:
        """The market's last price at t: `price` of YES in [0, 1], `bid`, `ask`, `volume`,
        `observed_at`, `known_at`, and `price_age` in seconds. Raises NotFound before the first."""
        name = self.resolve_id(market_id)
        points = self._admit("odds", self._world.last_price(name, self._at, self.live))
        if not points:
            raise NotFound(f"{name} has no price known at {iso(self.t)}")
        last = max(points, key=lambda p: (p.observed_at, p.known_at))
        age = (self.t - last.observed_at).total_seconds()
        return Odds(**dict(last), price_age=age)

    def history(
        self, market_id: str, start: datetime | str | None = None, limit: int | None = None
    ) -> list[PricePoint]:
        """Prices known at t and observed at or after `start`, oldest first; `limit` keeps the
        newest."""
        since = None if start is None else _instant("start", start)
        name = self.resolve_id(market_id)
        points = self._admit("history", self._world.prices(name, self._at))
        if since is not None:
            points = [p for p in points if p.observed_at >= since]
        points.sort(key=lambda p: (p.observed_at, p.known_at))
        return points if limit is None else points[-_bounded(limit) :]

    def series(self, market_id: str) -> Series:
        """The same prices as columns, in the order in which they became known."""
        name = self.resolve_id(market_id)
        found = (self._world.series(name) or Series.empty(name)).until(self._at)
        self._gateway.guard.all(
            "history", name, found.known_at, np.full(len(found), self._at, dtype=np.int64)
        )
        return found

    def first_prices(self) -> dict[str, int]:
        """When the first price of each market became known (microseconds), of those known at t."""
        found = {name: int(known_at) for name, known_at in self._world.first_prices(self._at)}
        guard = self._gateway.guard
        return {n: known for n, known in found.items() if guard.one("odds", n, known, self._at)}

    def state(self, market_id: str) -> MarketState | None:
        """The last state observed until t."""
        name = self.resolve_id(market_id)
        return _last(self._admit("state", self._world.states(name, self._at)))

    def book(self, market_id: str) -> OrderBook | None:
        """The last order book recorded until t, seen from YES; None where a book names its token
        and it is not known by t which side that is."""
        name = self.resolve_id(market_id)
        book = _last(self._admit("book", self._world.books(name, self._at)))
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

    def events(self, venue: str | None = None) -> list[Event]:
        """Every event known at t (of one venue) in its latest version, by id."""
        found = self._latest_events(self._world.events(None, self._at, venue))
        return [event for event in found if venue in (None, event.venue)]

    def event(self, event_id: str) -> Event:
        """One event by its id or slug; NotFound if none by that name is known at t."""
        _, native = split_market_id(event_id)
        for world in (event_id, None):
            found = self._latest_events(self._world.events(world, self._at))
            if exact := [event for event in found if event.id == event_id]:
                return exact[0]
            named = [e for e in found if native in (e.id.partition(":")[2], _extra(e, "slug"))]
            if named:
                break
        if len(named) == 1:
            return named[0]
        if named:
            raise InputError(f"{event_id!r} is ambiguous: write one of {_names(named)}")
        raise NotFound(f"no event {event_id!r} is known at {iso(self.t)}")

    def _latest_events(self, versions: Iterable[Event]) -> list[Event]:
        latest: dict[str, Event] = {}
        for event in self._admit("event", versions):
            if event.id not in latest or latest[event.id].known_at <= event.known_at:
                latest[event.id] = event
        return [latest[name] for name in sorted(latest)]

    def resolution(self, market_id: str) -> Resolution | None:
        """How the market ended, once that is known."""
        name = self.resolve_id(market_id)
        return ending_of(self._admit("resolution", self._world.resolutions(name, self._at)))

    def resolutions(self) -> list[Resolution]:
        """Every market's latest known resolution, a list ordered by market id. Two outcomes that
        disagree are a dispute."""
        return list(self.endings().values())

    def endings(self) -> Endings:
        """The same by market id, in its order, in the memory of numbers: a record is made when it
        is read."""
        found = Endings(self._admitted("resolution", self._world.resolutions(None, self._at)))
        # The order of a world may tell of what it stored of a market's future.
        return found.only(sorted(found))

    def forecasts(self, market_id: str) -> list[RecordedForecast]:
        """What others had forecast by t, oldest first."""
        name = self.resolve_id(market_id)
        records = self._admit("forecast", self._world.forecasts(name, self._at))
        return sorted(records, key=lambda r: (r.known_at, r.predictor))

    def document(self, document_id: str) -> Document:
        """The latest version of a document known at t."""
        found = _last(self._admit_documents(self._world.document(document_id, self._at)))
        if found is None:
            raise NotFound(f"no document {document_id!r} is known at {iso(self.t)}")
        return found

    def documents(self, since: datetime | str | None = None, limit: int = 100) -> list[Document]:
        """Documents known at t (and not before `since`), newest first."""
        first = None if since is None else _instant("since", since)
        start = None if first is None else to_us(first)
        records = self._world.documents(self._at, start, _bounded(limit))
        admitted = self._admit_documents(records)
        if first is not None:
            admitted = [d for d in admitted if d.known_at >= first]
        return sorted(admitted, key=lambda d: (d.known_at, d.id), reverse=True)[:limit]

    def search(
        self,
        query: str,
        limit: int = 10,
        since: datetime | str | None = None,
        domains: Sequence[str] = (),
    ) -> list[Document]:
        """The best documents for a query, ranked with what was known at t; with `domains`
        ("kalshi.com") only those that lie there."""
        if not isinstance(query, str):
            raise InputError(f"a query is text, not {query!r}")
        start = None if since is None else to_us(_instant("since", since))
        found = self._world.search(query, self._at, _bounded(limit), start, self.live, domains)
        return self._admit_documents(found)[:limit]

    def observations(self, source: str, kind: str, subject: str | None) -> list[Observation]:
        """A vendor's rows about a subject (None: about any), newest first, the latest version of
        each; NOW-valued fields only where they were seen by t. ReplayMiss where neither a row
        nor a fetch is on record by t."""
        found = self._world.observations(source, kind, subject, self._at, self.live)
        admitted = self._admit("observation", found)
        if not admitted:
            raise self._miss(source, kind, subject)
        latest: dict[tuple[str, str], Observation] = {}
        for row in admitted:
            held = latest.get((row.subject, row.id))
            if not row.snapshot and (held is None or self._replaces(row, held)):
                latest[row.subject, row.id] = row
        ordered = sorted(latest.values(), key=lambda r: (r.known_at, r.id), reverse=True)
        return [self._strip(row) for row in ordered]

    def _replaces(self, row: Observation, held: Observation) -> bool:
        """True if `row` replaces `held`, another version of the same row. The one known later wins.
        If both became known at the same time, the one fetched last by t wins; if neither was
        fetched by t, the one fetched first."""
        if row.known_at != held.known_at:
            return row.known_at > held.known_at
        mine, theirs = (self._fetched(version) for version in (row, held))
        if mine is None or theirs is None:
            if mine is None and theirs is None:
                return _or_never(row.now_known_at) < _or_never(held.now_known_at)
            return theirs is None
        return mine >= theirs

    def _fetched(self, row: Observation) -> datetime | None:
        """When this version was fetched, if that was by t; else None."""
        return row.now_known_at if self._known(row.now_known_at) else None

    def snapshot(self, source: str, kind: str, subject: str) -> Observation:
        """The last fetch of a vendor's snapshot until t; ReplayMiss where there is none."""
        found = self._world.observations(source, kind, subject, self._at, self.live)
        admitted = [r for r in self._admit("observation", found) if r.snapshot]
        last = _last(admitted)
        if last is None:
            raise self._miss(source, kind, subject)
        return self._strip(last)

    def _strip(self, row: Observation) -> Observation:
        if self._known(row.now_known_at):
            return row
        return row.model_copy(update={"now": {}, "now_known_at": None})

    def _miss(self, source: str, kind: str, subject: str | None) -> BeforehandError:
        about = "" if subject is None else f" of {subject}"
        if self._world.live:
            return NotFound(f"{source} gave no {kind}{about} that was known at {iso(self.t)}")
        return ReplayMiss(
            f"no {source} {kind}{about} is on record at {iso(self.t)}: record it while it can be "
            "fetched (--mode record)"
        )

    def list_markets(self, listing: Listing) -> list[Market]:
        """The markets of a listing known at t, ordered by id (filter and sort by what moves with
        `state`)."""
        groups: dict[str, list[Market]] = {}
        for version in self._admit("market", self._world.list_markets(listing, self._at)):
            if listing.venues is None or version.venue in listing.venues:
                groups.setdefault(version.id, []).append(version)
        return [_merge(groups[name]) for name in sorted(groups)]

    def find_markets(
        self, query: str, limit: int, venues: frozenset[str] | None = None
    ) -> tuple[list[Hit], Method]:
        """The best markets for a query with their scores, ranked with what was known at t."""
        hits, method = self._world.find_markets(query, self._at, _bounded(limit), venues, self.live)
        passed = {id(m) for m in self._admit("market", [hit.market for hit in hits])}
        return [hit for hit in hits if id(hit.market) in passed][:limit], method

    def _admit(self, method: str, records: Iterable[R]) -> list[R]:
        """The check of every record: what is not known at t is refused, and the refusal is kept."""
        return list(self._admitted(method, records))

    def _admitted(self, method: str, records: Iterable[R]) -> Iterator[R]:
        return (r for r in records if self._pass(method, r, getattr(r, "known_at", None)))

    def _admit_documents(self, records: Iterable[Document]) -> list[Document]:
        """The check of documents. Their `known_at` is set to the date of the run's grade, so that
        code that stores or checks a document again uses the same date."""
        admitted = []
        for document in records:
            known_at = document_known_at(
                document.known_at, document.text_known_at, self._world.grade
            )
            if self._pass("document", document, known_at):
                admitted.append(document.model_copy(update={"known_at": known_at}))
        return admitted

    def _pass(self, method: str, record: Record, known_at: datetime | None) -> bool:
        name = getattr(record, "id", None) or getattr(record, "market_id", "?")
        known = None if known_at is None else to_us(known_at)
        return self._gateway.guard.one(method, str(name), known, self._at)

    def _known(self, known_at: datetime | None) -> bool:
        """Whether something is known at t, where nothing is shown yet."""
        return known_at is not None and bool(visible_us(to_us(known_at), self._at))


def gateway_of(view: View) -> "Gateway":
    """What a View belongs to. Only for code that serves a View to others: a gateway hands out
    later instants as well."""
    return view._gateway


def _or_never(instant: datetime | None) -> int:
    return FOREVER if instant is None else to_us(instant)


def _last_part(identifier: str) -> str:
    """The id in the address of a market's page: the number before its slug, else the last part of
    its path. Others as they are."""
    if not identifier.lower().startswith(("https://", "http://")):
        return identifier
    try:
        parts = [part for part in urlsplit(identifier).path.split("/") if part]
    except ValueError:  # No address.
        return identifier
    if len(parts) > 1 and parts[-2].isdecimal():
        return parts[-2]
    return parts[-1] if parts else identifier


def _names_it(text: str, market: Market) -> bool:
    """True if a user may call the market so. Venues write tickers in capitals, addresses not."""
    if text in (market.native_id, _extra(market, "slug"), _extra(market, "gamma_id")):
        return True
    if text in market.tokens or (market.url and text == _last_part(market.url)):
        return True
    return text.lower() == market.native_id.lower()


def _extra(record: Record, name: str) -> object:
    """A venue's own field that a record keeps, if it has it."""
    return (record.model_extra or {}).get(name)


def _names(records: Iterable[Market | Event]) -> str:
    return ", ".join(sorted({record.id for record in records}))


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
    # A version with fewer fields (prices alone) does not remove those of another one.
    newest = sorted(versions, key=lambda v: v.known_at, reverse=True)
    return latest.model_copy(
        update={
            "event_id": latest.event_id or next((v.event_id for v in newest if v.event_id), None),
            "tokens": latest.tokens or next((v.tokens for v in newest if v.tokens), ()),
            "known_at": min(v.known_at for v in versions),
            "text_known_at": latest.known_at if texts else None,
        }
    )


def _instant(name: str, given: datetime | str) -> datetime:
    """An aware datetime, or ISO 8601 with a zone. Raises InputError."""
    if isinstance(given, str):
        try:
            return parse_instant(given)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise InputError(f"{name} is an aware datetime, or ISO 8601 with a zone, not {given!r}")
    return given


def _bounded(limit: int) -> int:
    if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit must lie between 1 and {MAX_LIMIT:,}, not {limit}")
    return limit
