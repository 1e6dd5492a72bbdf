"""The recorder: chosen markets and feeds, asked at intervals, kept for the backtests to come.

What nobody records is lost to every later backtest: texts as they stood, books, headlines. A round
asks for each market's text and state, its price and its book, and for each feed its items. Every
answer is on disk before the next question; the rounds lie on a grid that a restart takes up again;
the size of the archive is bounded.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from beforehand.clock import Clock, iso, parse_instant
from beforehand.config import Home
from beforehand.errors import BeforehandError, InputError, RateLimited
from beforehand.gateway.opening import Door
from beforehand.gateway.view import View
from beforehand.ids import digest
from beforehand.sources import google_news
from beforehand.store.files import read_json, write_json

WHAT = ("texts", "prices", "books", "history", "news")
FLUSH_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Order:
    """What to record. `rounds` None goes on until it is stopped."""

    markets: tuple[str, ...]
    feeds: tuple[google_news.Feed, ...] = ()
    what: frozenset[str] = frozenset({"texts", "prices", "books", "history", "news"})
    every: timedelta = timedelta(minutes=10)
    rounds: int | None = None
    max_bytes: int = 1_000_000_000

    def key(self) -> str:
        """The same for the same order: where its grid is kept."""
        feeds = sorted(feed.query_key for feed in self.feeds)
        return digest([sorted(self.markets), feeds, sorted(self.what)])[:16]


@dataclass
class Recorded:
    """What came of it."""

    rounds: int = 0
    exchanges: int = 0
    failures: list[str] = field(default_factory=list)
    stopped: str = ""

    def wire(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "rounds": self.rounds,
            "exchanges": self.exchanges,
            "failures": len(self.failures),
            "last_failures": self.failures[-10:],
            "stopped": self.stopped,
        }


def record(
    door: Door,
    order: Order,
    home: Home,
    archive: Path,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Recorded:
    """Record until the rounds are done, the bound is met or it is interrupted; whatever was
    fetched by then is in the archive. One market's failure does not stop the others."""
    if not order.markets and not order.feeds:
        raise InputError("nothing to record: name --markets or --news")
    state = home.recording / f"{order.key()}.json"
    done = Recorded()
    done.exchanges += door.close(archive, clock)  # What an earlier run left behind.
    backfill = not state.is_file()
    try:
        while True:
            if size(archive) + _waiting(door) >= order.max_bytes:
                done.stopped = f"the archive has reached {order.max_bytes / 1e6:,.0f} MB"
                return done
            _wait_until(_due(state, order.every), clock, sleep)
            write_json(state, {"last_round": iso(clock.now())})
            _round(door.gateway.live(), order, done, backfill, progress)
            backfill = False
            done.rounds += 1
            if _waiting(door) >= FLUSH_BYTES:
                done.exchanges += door.close(archive, clock)
            if order.rounds is not None and done.rounds >= order.rounds:
                done.stopped = "the rounds are done"
                return done
    finally:
        done.exchanges += door.close(archive, clock)


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _waiting(door: Door) -> int:
    return 0 if door.spool is None else door.spool.size


def _due(state: Path, every: timedelta) -> datetime | None:
    if not state.is_file():
        return None
    return parse_instant(str(read_json(state)["last_round"])) + every


def _wait_until(due: datetime | None, clock: Clock, sleep: Callable[[float], None]) -> None:
    while due is not None and (left := (due - clock.now()).total_seconds()) > 0:
        sleep(min(left, 5.0))


def _round(
    view: View,
    order: Order,
    done: Recorded,
    backfill: bool,
    progress: Callable[[str, int, int], None],
) -> None:
    total = len(order.markets) + len(order.feeds)
    for i, name in enumerate(order.markets):
        progress(name, i, total)
        for what in _asked(order.what, backfill):
            _try(done, f"{name}: {what}", partial(_ask, view, name, what))
    for i, feed in enumerate(order.feeds if "news" in order.what else ()):
        progress(feed.q, len(order.markets) + i, total)
        _try(
            done,
            f"feed {feed.q}",
            partial(view.snapshot, google_news.SOURCE, "feed", feed.subject),
        )
    progress("", total, total)


def _asked(what: frozenset[str], backfill: bool) -> Sequence[str]:
    """Of a market, in this order; the whole history once."""
    return [
        w
        for w in ("texts", "prices", "books", "history")
        if w in what and (w != "history" or backfill)
    ]


def _ask(view: View, name: str, what: str) -> object:
    market = view.market(name)  # Text and state come along.
    if what == "prices":
        return view.odds(market.id)
    if what == "books":
        return view.book(market.id)
    if what == "history":
        return view.history(market.id)
    return view.state(market.id)


def _try(done: Recorded, what: str, ask: Callable[[], object]) -> None:
    try:
        ask()
    except RateLimited as error:
        if "polled" not in str(error):  # A feed within its window was recorded by its last poll.
            done.failures.append(f"{what}: {error}")
    except BeforehandError as error:
        done.failures.append(f"{what}: {error}")
