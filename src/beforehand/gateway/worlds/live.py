"""The live services as the gateway reads them: ask, parse, remember for a moment, keep on record.

Every answer passes the traffic rules on its way in and the View's check on its way out. What was
fetched is known since the fetch; what a service dates itself (a trade, a candle, a filing) is known
since then, so that a pinned View can be served prices and rows from a live service, and never
today's texts.

Kalshi has two tiers: what was settled or traded before its cutoff is in the historical tier alone,
and the live tier would answer with nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

from beforehand.clock import Clock, from_us, to_us
from beforehand.errors import InputError, NotFound
from beforehand.gateway.search import Grade, Hit, MarketIndex, Method
from beforehand.gateway.worlds import Listing
from beforehand.gateway.worlds.pull import (
    FRESH,
    Keep,
    Puller,
    R,
    gamma_events,
    gamma_markets,
    kalshi_events,
    kalshi_markets,
    page_parser,
    page_request,
)
from beforehand.gateway.worlds.settled import Ended, LeftOut, Settled, listed, opened, out_of_reach
from beforehand.ids import split_market_id
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
from beforehand.sources import (
    exa,
    kalshi,
    polymarket,
    polymarket_data,
)
from beforehand.sources.base import Further
from beforehand.sources.catalogue import ANSWERS
from beforehand.store.archive.reader import Series
from beforehand.traffic import Traffic, spent

BLIND = frozenset({("google-news", "feed"), ("openai", "answer"), ("reddit", "search")})
"""Observations without a past: fetched now, they would be refused at an instant in the past."""
SEARCH_PAGES, LIST_PAGES, EVENT_PAGES, CANDLES = 3, 20, 10, 1000


class KalshiTiers:
    """Candles and trades from the tier that holds them. `once` asks for a market unless a fresh
    state of it is at hand."""

    def __init__(self, puller: Puller, once: Callable[[str], None]) -> None:
        self._puller, self._once = puller, once

    def candles(
        self,
        ticker: str,
        start: datetime,
        end: datetime,
        minutes: int,
        settled_at: datetime | None = None,
    ) -> list[Any]:
        """Candles from the tier that holds them: a market settled before the cutoff is in the
        historical tier alone, and the live tier would answer with nothing."""
        name = f"{kalshi.VENUE}:{ticker}"
        if settled_at is None:
            self._once(name)
            endings = self._puller.held(Resolution, name)
            settled = [r.resolved_at for r in endings if r.status == "resolved"]
            settled_at = settled[-1] if settled else None
        cutoff, _ = self._cutoff()
        historical = settled_at is not None and settled_at < cutoff
        found: list[Any] = []
        for low, high in kalshi.candle_windows(start, end, minutes):
            request = kalshi.candles_request(ticker, low, high, minutes, historical)

            def read(body: Any, at: datetime) -> list[Any]:
                return [
                    *kalshi.parse(body, at, name),
                    *kalshi.candle_rows(body, ticker, minutes, at),
                ]

            found += self._puller.pull(request, read)
        return found

    def _cutoff(self) -> tuple[datetime, datetime]:
        """(markets settled before, trades made before) are in Kalshi's historical tier."""
        settled, traded = self._puller.pull(
            kalshi.cutoff_request(), lambda b, _: list(kalshi.parse_cutoff(b))
        )
        return settled, traded

    def trades(self, ticker: str, until: datetime, live: bool) -> list[Observation]:
        """The newest trades until an instant: those made before the cutoff are in the historical
        tier, the live one would answer with nothing."""
        end = None if live else until
        tiers = [True] if until < self._cutoff()[1] else [False, True]
        found: list[Observation] = []
        for historical in tiers:
            request = kalshi.trades_request(ticker, 1000, historical, end)
            found = list(
                self._puller.pull(
                    request, lambda body, at: list(kalshi.parse_trades(body, at, ticker))
                )
            )
            if len(found) > 1:  # More than the mark of the fetch.
                break
        return found


class _PriceWindow(TypedDict, total=False):
    """Which prices of a token are asked for (`polymarket_data.history_request`); all, if empty."""

    start: datetime
    end: datetime
    as_of: datetime
    bucket_seconds: int


class LiveWorld:
    """Answers the gateway from the services. `extra` gives observations stored on this machine."""

    def __init__(
        self,
        traffic: Traffic,
        clock: Clock,
        grade: Grade = "captured",
        keep: Keep | None = None,
        extra: Callable[[], Iterable[Observation]] = tuple,
        feeds: Path | None = None,
    ) -> None:
        self._puller, self._clock = Puller(traffic, clock, keep, feeds), clock
        self._kalshi = KalshiTiers(self._puller, self._once)
        self.grade: Grade = grade
        self.live = True
        self._extra = extra
        self._singled: set[str] = set()

    def reaches(self, t: datetime) -> bool:
        """False: nobody answers about the future."""
        return False

    def seen(self, model: type[R]) -> list[R]:
        """Every record of a kind that was fetched in this session."""
        return self._puller.seen(model)

    def _pull_market(self, market_id: str) -> list[Any]:
        """The records of one market as its venue shows it now, and that it was listed."""
        venue, native = split_market_id(market_id)
        self._singled.add(market_id)
        try:
            if venue == polymarket.VENUE:
                if native.startswith("0x"):
                    request = polymarket.markets_request(condition_ids=[native])
                elif polymarket.is_token(native):
                    request = polymarket.markets_request(tokens=[native])
                elif native.isdigit():
                    request = polymarket.markets_request(ids=[native])
                else:
                    request = polymarket.markets_request(slugs=[native])
                return self._puller.pull(request, gamma_markets)
            if venue == kalshi.VENUE:
                try:
                    return self._puller.pull(kalshi.market_request(native), kalshi_markets)
                except NotFound:
                    return self._puller.pull(kalshi.market_request(native, True), kalshi_markets)
        except NotFound:
            return []
        return []

    def market_versions(self, market_id: str | None, until: int) -> Sequence[Market]:
        """One market as it is shown now; of all, those seen in this session."""
        if market_id is None:
            return self._puller.seen(Market)
        if self._fresh(market_id):
            return self._puller.held(Market, market_id)
        return [r for r in self._pull_market(market_id) if isinstance(r, Market)]

    def states(self, market_id: str, until: int) -> Sequence[MarketState]:
        """The state as it is shown now."""
        self._once(market_id)
        return self._puller.held(MarketState, market_id)

    def _once(self, market_id: str) -> None:
        """Ask for a market unless a fresh state of it is at hand."""
        if not self._fresh(market_id):
            self._pull_market(market_id)

    def _fresh(self, market_id: str) -> bool:
        """True where a listing or a question has just shown this market."""
        held = self._puller.held(MarketState, market_id)
        return bool(held) and bool(self._clock.now() - held[-1].known_at < FRESH)

    def _tokens(self, market_id: str) -> tuple[str, ...]:
        self._once(market_id)
        return self._held_tokens(market_id)

    def _held_tokens(self, market_id: str) -> tuple[str, ...]:
        known = [m.tokens for m in self._puller.held(Market, market_id) if m.tokens]
        return known[-1] if known else ()

    def books(self, market_id: str, until: int) -> Sequence[OrderBook]:
        """The order book as it stands now."""
        venue, native = split_market_id(market_id)
        if venue == kalshi.VENUE:

            def read(body: Any, at: datetime) -> list[Any]:
                return [kalshi.parse_book(body, market_id, at)]

            self._puller.pull(kalshi.book_request(native), read)
        elif tokens := self._tokens(market_id):
            self._puller.pull(
                polymarket.books_request(tokens[:1]),
                lambda body, at: polymarket.parse(body, at, market_id),
            )
        return self._puller.held(OrderBook, market_id)

    def resolutions(self, market_id: str | None, until: int) -> Sequence[Resolution]:
        """How a market ended, as its venue says now."""
        if market_id is None:
            return self._puller.seen(Resolution)
        self._once(market_id)
        state = next(iter(self._puller.held(MarketState, market_id)[-1:]), None)
        venue, _ = split_market_id(market_id)
        closed = state is not None and state.status == "closed"
        if venue == polymarket.VENUE and closed and market_id in self._singled:
            # Asked for by itself, not as part of a listing: this is worth another call.
            self.ending(market_id)
        return self._puller.held(Resolution, market_id)

    def ending(self, market_id: str) -> None:
        """Ask Polymarket how a market that was fetched ended, and when: its listing says neither
        for sure. Kalshi's listing says both."""
        venue, native = split_market_id(market_id)
        if venue != polymarket.VENUE:
            return
        turned = any(
            (m.model_extra or {}).get("turned") for m in self._puller.held(Market, market_id)
        )
        self._puller.pull(
            polymarket_data.resolutions_request(native),
            lambda body, at: polymarket_data.parse_resolutions(body, at, turned),
        )

    def prices(self, market_id: str, until: int) -> Sequence[PricePoint]:
        """The whole history, coarse, and the last fourteen days before `until` by the hour."""
        end = min(from_us(until), self._clock.now())
        venue, native = split_market_id(market_id)
        found = list(self._puller.held(PricePoint, market_id))
        if venue == kalshi.VENUE:
            found += _points(self._kalshi.candles(native, end - timedelta(days=180), end, 60))
        for token in self._tokens(market_id)[:1]:
            start = end - timedelta(days=14)
            fine: _PriceWindow = {"start": start, "end": end, "bucket_seconds": 3600}
            for window in (_PriceWindow(), fine):
                found += self._history(market_id, token, window)
        return list({(p.observed_at, p.known_at, p.price): p for p in found}.values())

    def settled(self, wanted: Settled, left: LeftOut) -> Iterator[Ended]:
        """The settled markets of a venue, listed as they are asked for."""
        return listed(self._puller, wanted, left)

    def opened(self, venue: str) -> Iterator[int]:
        """Every open market of a venue, page by page; yields how many a page had."""
        return opened(self._puller, venue)

    def unlisted_until(self, wanted: Settled) -> datetime | None:
        """What was settled before this, Kalshi lists by series alone."""
        return out_of_reach(self._puller, wanted)

    def lifetime(self, market: Ended) -> list[PricePoint]:
        """The prices of a settled market from its opening to its end: every three hours on
        Polymarket (the finest that it keeps for good), every hour on Kalshi."""
        venue, native = split_market_id(market.id)
        if venue == kalshi.VENUE:
            start, end = market.opened, market.ended
            return _points(self._kalshi.candles(native, start, end, 60, settled_at=end))
        found: list[PricePoint] = []
        for token in self._held_tokens(market.id)[:1]:
            found += self._history(market.id, token, {"bucket_seconds": 10_800})
        return found

    def _history(self, market_id: str, token: str, window: _PriceWindow) -> list[PricePoint]:
        found: list[PricePoint] = []
        cursor: str | None = None
        for _ in range(LIST_PAGES):
            request = polymarket_data.history_request(token, cursor=cursor, **window)

            def read(body: Any, at: datetime) -> list[Any]:
                points, following = polymarket_data.parse_history(body, market_id, at)
                return [*points, following]

            *points, cursor = self._puller.pull(request, read)
            found += points
            if cursor is None:
                break
        return found

    def last_price(self, market_id: str, until: int, live: bool = False) -> Sequence[PricePoint]:
        """The price now, or (not `live`) the last one at or before an instant."""
        venue, native = split_market_id(market_id)
        if live:
            self._once(market_id)
            held = self._puller.held(PricePoint, market_id)
            if held and self._clock.now() - held[-1].known_at < FRESH:
                return held
        if venue == kalshi.VENUE:
            for days, minutes in ((2, 1), (150, 60)):
                at = from_us(until)
                found = self._kalshi.candles(native, at - timedelta(days=days), at, minutes)
                if points := _points(found):
                    return points
            return []
        for token in self._tokens(market_id)[:1]:
            if live:

                def read(body: Any, at: datetime, token: str = token) -> list[Any]:
                    return list(polymarket.parse_quotes(body, token, market_id, at))

                self._puller.pull(polymarket.prices_request([token]), read)
                return self._puller.held(PricePoint, market_id)
            for earlier in (timedelta(0), timedelta(hours=3), timedelta(hours=12)):
                # The last bucket may end after t; the one before it has ended.
                points = self._history(market_id, token, {"as_of": from_us(until) - earlier})
                if any(to_us(point.known_at) <= until for point in points):
                    return points
        return []

    def first_prices(self, until: int) -> Sequence[tuple[str, int]]:
        """Planning a run needs a recorded world."""
        raise InputError("a run reads a recorded archive: use --mode replay")

    def series(self, market_id: str) -> Series | None:
        """Bulk walks need a recorded world."""
        raise InputError("bulk walks read a recorded archive: use --mode replay")

    def forecasts(self, market_id: str, until: int) -> Sequence[RecordedForecast]:
        """No service gives other people's forecasts."""
        return []

    def events(self, event_id: str | None, until: int, venue: str | None = None) -> Sequence[Event]:
        """One event as it is shown now; of all, a page of the venue and those seen before."""
        if event_id is None:
            if venue == kalshi.VENUE:
                self._puller.pull(kalshi.events_request(200, status="open"), kalshi_events)
            elif venue == polymarket.VENUE:
                self._puller.pull(polymarket.events_request(closed=False), gamma_events)
            return self._puller.seen(Event)
        venue, native = split_market_id(event_id)
        try:
            if venue == kalshi.VENUE:
                found = self._puller.pull(kalshi.event_request(native), kalshi.parse)
            elif venue == polymarket.VENUE:
                number = native.isdigit()
                request = polymarket.events_request(
                    ids=[native] if number else (), slugs=() if number else [native]
                )
                found = self._puller.pull(request, gamma_events)
            else:
                return []
        except NotFound:
            return []
        return [r for r in found if isinstance(r, Event)]

    def list_markets(self, listing: Listing, until: int) -> Sequence[Market]:
        """Pages of the venues' listings until `limit` markets were seen."""
        found: list[Market] = []
        for venue in sorted(listing.venues or ()):
            if venue not in (polymarket.VENUE, kalshi.VENUE):
                continue
            cursor: str | None = None
            seen: set[str] = set()
            for _ in range(LIST_PAGES):
                records = self._puller.pull(
                    page_request(venue, listing, cursor), page_parser(venue)
                )
                *records, cursor = records
                markets = [r for r in records if isinstance(r, Market)]
                found += markets
                seen |= {m.id for m in markets}
                if cursor is None or len(seen) >= listing.limit:
                    break
        return found

    def find_markets(
        self,
        query: str,
        until: int,
        limit: int,
        venues: frozenset[str] | None,
        live: bool = False,
    ) -> tuple[list[Hit], Method]:
        """Polymarket's own search, Kalshi's open events (it has no search); ranked here."""
        found: list[Any] = []
        if venues is None or polymarket.VENUE in venues:
            for page in range(1, SEARCH_PAGES + 1):
                records = self._puller.pull(polymarket.search_request(query, page), gamma_events)
                found += records
                if len([r for r in found if isinstance(r, Market)]) >= 2 * limit or not records:
                    break
        if venues is not None and kalshi.VENUE in venues:
            cursor: str | None = None
            for _ in range(EVENT_PAGES):
                request = kalshi.events_request(200, cursor, "open")
                *records, cursor = self._puller.pull(request, kalshi_events)
                found += records
                if cursor is None:
                    break
        markets = [r for r in found if isinstance(r, Market)]
        # A live question is answered with the texts that came in since it was asked.
        t = to_us(self._clock.now()) if live else until
        return MarketIndex(markets).search(query, t, limit, venues)

    def observations(
        self, source: str, kind: str, subject: str | None, until: int, live: bool = False
    ) -> Sequence[Observation]:
        """A vendor's rows about a subject, as it answers now."""
        stored = [
            row
            for row in self._extra()
            if (row.source, row.kind) == (source, kind) and subject in (None, row.subject)
        ]
        if (source, kind) == ("kalshi", "candle") and subject is not None:
            ticker, _, minutes = subject.partition("|")
            ended = self._puller.held(Resolution, f"{kalshi.VENUE}:{ticker}")
            end = min([from_us(until), *(r.resolved_at for r in ended)])
            start = end - timedelta(minutes=int(minutes) * CANDLES)
            rows = self._kalshi.candles(ticker, start, end, int(minutes))
            return [*stored, *(row for row in rows if isinstance(row, Observation))]
        if (source, kind) == ("kalshi", "trade") and subject is not None:
            return [*stored, *self._kalshi.trades(subject, from_us(until), live)]
        ask = ANSWERS.get((source, kind))
        if ask is None or subject is None or ((source, kind) in BLIND and not live):
            return stored
        try:
            wanted = ask(subject, from_us(until), live)
            for request, parse in wanted:
                found = self._puller.pull(request, parse)
                stored += [r for r in found if isinstance(r, Observation) and r.kind == kind]
                wanted += [(r.request, r.parse) for r in found if isinstance(r, Further)]
        except NotFound:
            return stored
        return stored

    def document(self, document_id: str, until: int) -> Sequence[Document]:
        """A document seen in this session."""
        return self._puller.held(Document, document_id)

    def documents(self, until: int, since: int | None, limit: int) -> Sequence[Document]:
        """Documents seen in this session."""
        return sorted(self._puller.seen(Document), key=lambda d: d.known_at)[-limit:]

    def search(
        self,
        query: str,
        until: int,
        limit: int,
        since: int | None,
        live: bool = False,
        domains: Sequence[str] = (),
    ) -> Sequence[Document]:
        """Exa, asked for the pages as they were stored by `until`."""

        def read(body: Any, at: datetime) -> list[Any]:
            documents, dollars = exa.parse(body, at, live)
            spent().usd += dollars
            return documents

        request = exa.search_request(query, None if live else from_us(until), limit, domains)
        return list(self._puller.pull(request, read))


def _points(records: Sequence[Any]) -> list[PricePoint]:
    return [record for record in records if isinstance(record, PricePoint)]
