"""`backtest run --fetch`: named markets that the archive does not hold yet, fetched into it before
the run: their texts, prices and endings, and for each instant pages that Exa names today, each as
it was stored by the instant. What they say is of that time; that these were named, and no others,
is chosen by an engine that may know how it ended, whatever their date. So the card says which share
of the documents shown was nominated by today's search.

The run itself reads the recording, so it can be repeated without a request. An answer that is on
record is never asked for again, whatever stopped an earlier call.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from beforehand.clock import from_us
from beforehand.config import Home
from beforehand.errors import (
    BadAnswer,
    BeforehandError,
    InputError,
    NotFound,
    RateLimited,
    Stopped,
    Unauthorized,
    Unavailable,
)
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.opening import Connection
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.gateway.worlds.settled import Ended
from beforehand.ids import digest, split_market_id
from beforehand.jobs.backtest import grid
from beforehand.jobs.record import VENUES
from beforehand.records.world import Exchange, Market
from beforehand.sources import exa
from beforehand.sources.fields import decode_json
from beforehand.store.archive.reader import Archive
from beforehand.store.files import exclusive, read_json, write_json
from beforehand.traffic import spent

SEARCH_USD, PAGE_USD = 0.005, 0.001
"""Exa's list price of a search, and of the text of each page; what is charged is what it states."""
OPENED = timedelta(days=365)
Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Wanted:
    """Which markets, at which instants, and how many pages at each (0: no search)."""

    markets: tuple[str, ...]
    every: timedelta
    kind: grid.Kind = "aligned"
    pages: int = 5
    start: datetime | None = None
    stop: datetime | None = None

    def check(self) -> None:
        """Raises InputError for a market of another venue."""
        for name in self.markets:
            if split_market_id(name)[0] not in VENUES:
                raise InputError(
                    f"--fetch: {name!r} names no venue that can be asked: write "
                    f"{' or '.join(f'{venue}:id' for venue in VENUES)}"
                )


@dataclass
class Fetched:
    """What is there now: the markets by their whole ids, how many were new, what searches were made
    and what they cost (US dollars), and what could not be had."""

    markets: list[str] = field(default_factory=list)
    new: int = 0
    searches: int = 0
    present: int = 0
    usd: float = 0.0
    exchanges: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Search:
    """One search: the question of a market as of an instant (microseconds)."""

    market: str
    query: str
    t: int


def fetch_named(
    connection: Connection,
    wanted: Wanted,
    home: Home,
    archive: Path,
    most_usd: float | None = None,
    ask: bool = True,
    say: Say = lambda _: None,
    progress: Progress = lambda *_: None,
) -> Fetched:
    """Fetch what is missing. `connection` is opened in the mode `record`; with `ask` False nothing
    that costs money is asked, only counted. Raises InputError where no market can be had, and where
    the searches would cost more than `most_usd`; Stopped where they did, by what the service
    states; the errors of `Traffic` where one cannot be reached: what was fetched is kept."""
    wanted.check()
    done, key = Fetched(), digest(str(archive.resolve()).encode())[:16]
    with exclusive(home.recording / f"named-{key}.lock"):
        done.exchanges += connection.close()  # What an earlier call left behind.
        known = _Known(home.recording / f"named-{key}.json", archive)
        try:
            for n, name in enumerate(wanted.markets):
                progress(name, n, len(wanted.markets))
                _market(connection, name, known, done)
        finally:
            done.exchanges += connection.close()
        if not done.markets:
            raise InputError(f"--fetch: no market can be had: {'; '.join(done.failures[:3])}")
        if wanted.pages:
            try:
                _evidence(connection, wanted, archive, done, most_usd, ask, say, progress)
            finally:
                done.exchanges += connection.close()
    return done


class _Known:
    """The markets that were fetched whole, under the names that they were asked for by."""

    def __init__(self, path: Path, archive: Path) -> None:
        self._path = path
        try:
            kept = {str(k): str(v) for k, v in read_json(path)["markets"].items()}
        except (InputError, KeyError, TypeError, AttributeError):
            kept = {}
        there = (
            {m.id for m in Archive(archive).records(Market)} if kept and archive.exists() else set()
        )
        self.markets = {name: market for name, market in kept.items() if market in there}

    def add(self, name: str, market: str) -> None:
        """Remember a market."""
        self.markets[name] = market
        write_json(self._path, {"markets": self.markets})


def _market(connection: Connection, name: str, known: _Known, done: Fetched) -> None:
    if name in known.markets:
        done.markets.append(known.markets[name])
        return
    live = connection.live
    assert live is not None
    try:
        market = connection.gateway.live().market(name).id
        versions = live.market_versions(market, 0)
        live.ending(market)
        endings = live.resolutions(market, 0)
        if not endings:
            raise InputError("it has not ended, and a backtest needs its end")
        end = endings[-1]
        opened = [v.known_at for v in versions] + [v.opened_at for v in versions if v.opened_at]
        first = min(opened, default=end.resolved_at - OPENED)
        if not live.lifetime(Ended(market, first, end.resolved_at, end.status)):
            raise NotFound("the venue has no price of it")
    except (RateLimited, Unauthorized, Unavailable):
        raise
    except BeforehandError as error:
        done.failures.append(f"{name}: {error}")
        return
    done.new += 1
    done.markets.append(market)
    known.add(name, market)


def _evidence(
    connection: Connection,
    wanted: Wanted,
    archive: Path,
    done: Fetched,
    most_usd: float | None,
    ask: bool,
    say: Say,
    progress: Progress,
) -> None:
    """Search for what was known at each instant, unless that is on record."""
    made = {one.key: one for one in Archive(archive).records(Exchange) if one.provider == "exa"}
    searches = _searches(wanted, archive, done.markets)
    every = {_key(one, wanted.pages): one for one in searches}  # Markets may share their words.
    missing = [one for key, one in every.items() if key not in made]
    done.present = len(every) - len(missing)
    _unreadable([made[key] for key in every if key in made], done)
    about = len(missing) * (SEARCH_USD + PAGE_USD * wanted.pages)
    if missing:
        say(
            f"{len(missing):,} searches with Exa, one for each market and instant, cost about "
            f"${about:,.2f} ({done.present:,} are on record); which pages it names is today's "
            "knowledge, and the card will say so"
        )
    if most_usd is not None and about > most_usd:
        raise InputError(
            f"the searches would cost about ${about:,.2f}, and the limit is ${most_usd:g}: raise "
            "--max-cost, or lower --evidence (0: no search)"
        )
    live, before = connection.live, spent().usd
    assert live is not None
    for n, one in enumerate(missing if ask else ()):
        each = max(about / len(missing), done.usd / n if n else 0.0)
        if most_usd is not None and done.usd + each > most_usd:
            raise Stopped(
                f"{done.searches:,} of {len(missing):,} searches cost ${done.usd:,.2f} by what Exa "
                f"states, and the limit is ${most_usd:g}: the same command with a higher "
                "--max-cost goes on"
            )
        progress(f"evidence {one.market}", n, len(missing))
        try:
            live.search(one.query, one.t, wanted.pages, None)
        except BadAnswer as error:  # It is on record, and paid.
            done.failures.append(f"{one.market}: {error}")
        done.searches += 1
        done.usd = spent().usd - before


def _unreadable(exchanges: Sequence[Exchange], done: Fetched) -> None:
    """Name answers on record that cannot be read: they were paid, and are not asked for again."""
    for one in exchanges:
        try:
            exa.parse(decode_json(str(one.body), "an Exa answer"), one.known_at, False)
        except BadAnswer as error:
            done.failures.append(f"an answer on record cannot be read, and stays: {error}")


def _key(one: Search, pages: int) -> str:
    return exa.search_request(one.query, from_us(one.t), pages).key


def _searches(wanted: Wanted, archive: Path, markets: Sequence[str]) -> Iterator[Search]:
    """A search for each instant of the grid at which a market is asked, in the wording of then."""
    world = RecordedWorld(Archive(archive), "published")
    gateway = Gateway(world)
    for name in dict.fromkeys(markets):
        ending, series = gateway.full_view().resolution(name), world.series(name)
        if ending is None or series is None or not len(series):
            continue
        life = grid.life(
            int(series.known_at[0]), grid.end_of(ending), wanted.every, wanted.kind, wanted.start,
            wanted.stop,
        )  # fmt: skip
        for t in life.t.tolist():
            try:
                market = gateway.at(from_us(t)).market(name)
            except NotFound:
                continue
            if market.question:
                yield Search(name, market.question, t)
