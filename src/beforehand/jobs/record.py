"""Record chosen markets and feeds at intervals, for later backtests.

Texts as they stood, books and headlines are lost to every later backtest if they are not recorded.
A round asks for each market's text and state, its price and its book, and for each feed its items.
Every answer is on disk before the next question is sent. The rounds lie on a grid, which a restart
continues. The size of the archive is bounded.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from beforehand.clock import Clock, iso, parse_instant
from beforehand.config import Home
from beforehand.errors import BeforehandError, InputError
from beforehand.gateway.opening import Connection
from beforehand.gateway.view import View
from beforehand.ids import digest, split_market_id
from beforehand.sources import google_news, kalshi, polymarket
from beforehand.store.files import exclusive, read_json, write_json
from beforehand.traffic import Polled

WHAT = ("texts", "prices", "books", "history", "news")
VENUES = (polymarket.VENUE, kalshi.VENUE)
FLUSH_BYTES = 4 * 2**20
Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """What to record. With `rounds` None, recording continues until it is stopped."""

    markets: tuple[str, ...]
    feeds: tuple[google_news.Feed, ...] = ()
    what: frozenset[str] = frozenset(WHAT)
    every: timedelta = timedelta(minutes=10)
    rounds: int | None = None
    max_bytes: int = 1_000_000_000

    def key(self, archive: Path) -> str:
        """Names the file of the grid: the same order into the same archive has the same key."""
        feeds = sorted(feed.query_key for feed in self.feeds)
        parts = [sorted(self.markets), feeds, sorted(self.what), str(archive.resolve())]
        return digest(parts)[:16]

    def check(self) -> None:
        """Raise InputError if nothing would be recorded, or a market's venue cannot be recorded."""
        for name in self.markets:
            if split_market_id(name)[0] not in VENUES:
                raise InputError(
                    f"--markets: {name!r} names no venue that can be recorded: write "
                    f"{' or '.join(f'{venue}:id' for venue in VENUES)}, or a file of such ids"
                )
        asked = bool(self.feeds) and "news" in self.what
        if not asked and not (self.markets and self.what - {"news"}):
            raise InputError("nothing to record: name --markets or --news, and what to record")


@dataclass
class Recording:
    """The results of recording."""

    rounds: int = 0
    exchanges: int = 0
    failures: list[str] = field(default_factory=list)
    stopped: str = "stopped"

    def wire(self) -> Mapping[str, object]:
        """JSON-ready."""
        return {
            "rounds": self.rounds,
            "exchanges": self.exchanges,
            "failures": len(self.failures),
            "last_failures": self.failures[-10:],
            "stopped": self.stopped,
        }


class _Grid:
    """The time of the last round, and the markets that have their history on record. It is kept in
    the home folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            kept = read_json(path)
            self.last: datetime | None = parse_instant(str(kept["last_round"]))
            self.backfilled = {str(name) for name in kept["backfilled"]}
        except (InputError, KeyError, TypeError, ValueError):
            self.last, self.backfilled = None, set()

    def due(self, every: timedelta, now: datetime) -> datetime:
        """When the next round is due; after a clock is set back, at most one interval from now."""
        return now if self.last is None else min(self.last + every, now + every)

    def save(self, at: datetime) -> None:
        """Remember a round."""
        self.last = at
        facts = {"last_round": iso(at), "backfilled": sorted(self.backfilled)}
        write_json(self._path, facts)


def record(
    connection: Connection,
    order: Order,
    home: Home,
    archive: Path,
    clock: Clock,
    done: Recording | None = None,
    sleep: Callable[[float], None] = time.sleep,
    say: Say = lambda _: None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Recording:
    """Record until the rounds are done, the archive has its largest size, or it is interrupted.
    Everything that was fetched by then is in the archive, and `done` counts it. One market's
    failure does not stop the others. Raises Unavailable if the same order is being recorded
    already."""
    order.check()
    done = done if done is not None else Recording()
    path = home.recording / f"{order.key(archive)}.json"
    with exclusive(path.with_suffix(".lock")):
        grid = _Grid(path)
        try:
            done.exchanges += connection.close()  # What an earlier run left behind.
            while True:
                if size(archive) + _waiting(connection) >= order.max_bytes:
                    done.stopped = f"the archive has reached {order.max_bytes / 1e6:,.0f} MB"
                    return done
                if order.rounds != 1:
                    _wait_until(grid.due(order.every, clock.now()), clock, sleep, say)
                began, before = clock.now(), len(done.failures)
                _round(connection.gateway.live(), order, done, grid, progress)
                grid.save(began)
                done.rounds += 1
                for failure in done.failures[before:][:5]:
                    say(failure)
                if len(done.failures) > before:
                    say(f"round {done.rounds}: {len(done.failures) - before} failures")
                if _waiting(connection) >= FLUSH_BYTES:
                    done.exchanges += connection.close()
                if order.rounds is not None and done.rounds >= order.rounds:
                    done.stopped = "the rounds are done"
                    return done
        finally:
            done.exchanges += connection.close()


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _waiting(connection: Connection) -> int:
    return 0 if connection.spool is None else connection.spool.size


def _wait_until(due: datetime, clock: Clock, sleep: Callable[[float], None], say: Say) -> None:
    if (due - clock.now()).total_seconds() > 1:
        say(f"next round at {iso(due.replace(microsecond=0))}")
    while (left := (due - clock.now()).total_seconds()) > 0:
        sleep(min(left, 5.0))


def _round(
    view: View,
    order: Order,
    done: Recording,
    grid: _Grid,
    progress: Callable[[str, int, int], None],
) -> None:
    feeds = order.feeds if "news" in order.what else ()
    markets = dict.fromkeys(order.markets if order.what - {"news"} else ())
    total = len(markets) + len(feeds)
    for i, name in enumerate(markets):
        progress(name, i, total)
        for what in WHAT[:-1]:
            if what not in order.what or (what == "history" and name in grid.backfilled):
                continue
            went = _try(done, f"{name}: {what}", partial(_ask, view, name, what))
            if went and what == "history":
                grid.backfilled.add(name)
            if not went and what == "texts":
                break  # The venue does not answer, or has no such market: skip the rest.
    for i, feed in enumerate(feeds):
        progress(feed.q, len(markets) + i, total)
        read = partial(view.snapshot, google_news.SOURCE, "feed", feed.subject)
        _try(done, f"feed {feed.q}", read)
    progress("", total, total)


def _ask(view: View, name: str, what: str) -> object:
    market = view.market(name)  # Text and state come along.
    if what == "prices":
        return view.odds(market.id)
    if what == "books":
        return view.book(market.id)
    if what == "history":
        return view.history(market.id)
    return view.state(market.id)


def _try(done: Recording, what: str, ask: Callable[[], object]) -> bool:
    try:
        ask()
    except Polled:
        return True  # A feed within its window was recorded by its last poll.
    except BeforehandError as error:
        done.failures.append(f"{what}: {error}")
        return False
    return True
