"""Fetch settled markets of a venue into an archive: texts, price histories, endings.

Every answer is on disk before the next question is sent, and a market that is complete is not asked
for again: after a stop, the same command goes on where it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from beforehand.clock import iso
from beforehand.config import Home
from beforehand.errors import (
    BeforehandError,
    InputError,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from beforehand.gateway.opening import Connection
from beforehand.gateway.worlds.live import LiveWorld
from beforehand.gateway.worlds.settled import Ended, LeftOut, Settled
from beforehand.ids import digest
from beforehand.records.world import Market
from beforehand.store.archive.reader import Archive
from beforehand.store.files import exclusive, read_json, write_json

SAVE_EVERY_BYTES = 4 * 2**20
Say = Callable[[str], None]


@dataclass
class Fetched:
    """The results of fetching. `present`: complete since an earlier call. `without_prices`: settled
    markets for which the venue has no price. `left_out` is what the listing named and did not
    give."""

    new: int = 0
    present: int = 0
    prices: int = 0
    void: int = 0
    without_prices: int = 0
    exchanges: int = 0
    failures: list[str] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    more: bool = False

    def wire(self) -> Mapping[str, object]:
        """JSON-ready."""
        return {
            "markets": self.new + self.present,
            "new": self.new,
            "present": self.present,
            "prices": self.prices,
            "void": self.void,
            "without_prices": self.without_prices,
            "exchanges": self.exchanges,
            "failures": [*self.failures, *self.left_out.unread],
            "unread": len(self.left_out.unread),
            "without_result": self.left_out.without_result,
            "more": self.more,
        }


class _Complete:
    """The markets that were fetched whole into one archive, remembered in the home folder."""

    def __init__(self, path: Path, archive: Path) -> None:
        self._path = path
        try:
            kept = set(map(str, read_json(path)["markets"]))
        except (InputError, KeyError, TypeError):
            kept = set()
        # The archive may have been deleted since.
        there = bool(kept) and archive.exists()
        held = {m.id for m in Archive(archive).records(Market)} if there else set()
        self.ids = kept & held

    def add(self, market: str) -> None:
        """Remember a market."""
        self.ids.add(market)
        write_json(self._path, {"markets": sorted(self.ids)})


def fetch(
    connection: Connection,
    wanted: Settled,
    limit: int,
    home: Home,
    archive: Path,
    say: Say = lambda _: None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Fetched:
    """Fetch up to `limit` settled markets. `connection` is opened in the mode `record`. A market
    that cannot be read is listed and left out; where the service cannot be reached, the call ends
    with its error, and what was fetched is kept.

    Raises InputError for an order that cannot be answered, Unavailable if the same archive is being
    filled already, and the errors of `Traffic`.
    """
    wanted.check()
    live = connection.live
    assert live is not None
    done = Fetched()
    key = digest([str(archive.resolve())])[:16]
    with exclusive(home.recording / f"fetch-{key}.lock"):
        done.exchanges += connection.close()  # What an earlier call left behind.
        complete = _Complete(home.recording / f"fetch-{key}.json", archive)
        try:
            if (until := live.unlisted_until(wanted)) is not None:
                say(
                    f"Kalshi lists what was settled before {iso(until)} by series alone: name one "
                    "with --series to get those as well"
                )
            for market in live.settled(wanted, done.left_out):
                if done.new + done.present >= limit:
                    done.more = True
                    break
                progress(market.id, done.new + done.present, limit)
                if market.id in complete.ids:
                    done.present += 1
                    continue
                if _take(live, market, done):
                    complete.add(market.id)
                if connection.spool is not None and connection.spool.size >= SAVE_EVERY_BYTES:
                    done.exchanges += connection.close()
            progress("", limit, limit)
        finally:
            done.exchanges += connection.close()
    return done


def _take(live: LiveWorld, market: Ended, done: Fetched) -> bool:
    try:
        prices = live.lifetime(market)
        live.ending(market.id)
    except (RateLimited, Unauthorized, Unavailable):
        raise
    except BeforehandError as error:
        done.failures.append(f"{market.id}: {error}")
        return False
    done.new += 1
    done.prices += len(prices)
    done.void += market.status == "void"
    done.without_prices += not prices
    return True
