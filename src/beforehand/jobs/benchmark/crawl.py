"""Rounds from the venues, day after day: list what is open, keep it on record, freeze the events.

Every page of a listing is on disk before the next one is asked for. A round has its folder, named
after its time; it counts once it is frozen, so whatever a crawl was doing when it was killed, the
same command goes on: a venue that was listed is not asked again, and no event is in two rounds.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from beforehand.clock import Clock, iso, parse_instant
from beforehand.config import Home
from beforehand.errors import BeforehandError, InputError
from beforehand.gateway.opening import Connection
from beforehand.ids import digest
from beforehand.jobs.benchmark import events, rounds
from beforehand.store.archive.reader import Archive
from beforehand.store.files import exclusive, read_json, write_json, write_jsonl

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]
DAY, LISTED = timedelta(days=1), timedelta(hours=1)
"""A listing that was cut short goes on for so long; after that the venues are asked anew."""


@dataclass(frozen=True)
class Order:
    """What to crawl: all open markets of these `venues`, of which those that are `wanted` become
    events, in a new folder of `out` each time."""

    venues: tuple[str, ...]
    out: Path
    wanted: rounds.Wanted
    textless: bool = False
    every: timedelta = DAY

    def check(self) -> None:
        """Raises InputError for an order that gives no rounds."""
        self.wanted.check()
        if not self.venues:
            raise InputError("name a --venue to crawl: polymarket, kalshi")
        if self.every < timedelta(minutes=1):
            raise InputError("--every must be at least 1m")

    def slot(self, now: datetime) -> datetime:
        """The time that the round of this moment is named after: whole intervals since 1970."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + (now - epoch) // self.every * self.every

    def folder(self, now: datetime) -> Path:
        """The folder of the round of this moment."""
        form = "%Y-%m-%d" if self.every % DAY == timedelta(0) else "%Y-%m-%dT%H%M"
        return self.out / f"{self.slot(now):{form}}"


@dataclass(frozen=True)
class Crawled:
    """A round of a crawl. `new` is False where it was frozen before; `differs` says that it was
    frozen under other bounds then."""

    folder: Path
    round: rounds.Round
    new: bool
    listed: int = 0
    exchanges: int = 0
    differs: bool = False

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        facts = {"listed": self.listed, "exchanges": self.exchanges, "differs": self.differs}
        return {"out": str(self.folder), "new": self.new, **facts, "round": self.round}


def crawl(
    connection: Connection,
    order: Order,
    home: Home,
    archive: Path,
    clock: Clock,
    progress: Progress = lambda *_: None,
) -> Crawled:
    """The round of this moment: frozen now, or found where it was frozen before. `connection` is
    opened in the mode `record`. Raises NothingNew where no market becomes an event, Unavailable
    where the same rounds are being crawled already, and the errors of `Traffic`: what was listed by
    then is kept."""
    order.check()
    out = order.folder(clock.now())
    key = digest([str(order.out.resolve()), str(archive.resolve())])[:16]
    with exclusive(home.recording / f"crawl-{key}.lock"):
        exchanges = connection.close()  # What an earlier call left behind.
        if (out / rounds.FROZEN).is_file():
            held = rounds.frozen_round(out)
            asked = rounds.asked_for(replace(order.wanted, venues=order.venues))
            return Crawled(out, held, False, 0, exchanges, _as_json(asked) != held["wanted"])
        listed = _Listed(home.recording / f"crawl-{key}.json", out, clock.now())
        try:
            for venue in order.venues:
                if venue not in listed.venues:
                    listed.add(venue, _list(connection, venue, progress))
        finally:
            exchanges += connection.close()
        try:
            made = _freeze(order, out, archive, clock.now())
        finally:
            listed.forget()
        return Crawled(out, made, True, sum(listed.venues.values()), exchanges)


def _list(connection: Connection, venue: str, progress: Progress) -> int:
    live, n = connection.live, 0
    assert live is not None
    for found in live.opened(venue):
        n += found
        progress(f"{venue} {n:,}", 0, 1)
    return n


def _freeze(order: Order, out: Path, path: Path, now: datetime) -> rounds.Round:
    earlier = [one for one in frozen_in(order.out) if one != out]
    wanted = replace(order.wanted, venues=order.venues, seen=rounds.seen_in(earlier))
    archive = Archive(path)
    made = events.ingest(archive, DAY, order.textless, wanted, now)
    if not made.events:
        raise NothingNew(f"no open market becomes an event: {made.why()}")
    made.write(out)
    write_jsonl(out / "left_out.jsonl", made.left)
    return rounds.freeze(out, archive.digest, now, wanted, made.left)


def _as_json(value: object) -> object:
    return orjson.loads(orjson.dumps(value))


def frozen_in(folder: Path) -> list[Path]:
    """The folders of the rounds that are frozen, oldest first."""
    return sorted(path.parent for path in folder.glob(f"*/{rounds.FROZEN}"))


class NothingNew(InputError):
    """No open market becomes an event: none is new, or none is wanted."""


class _Listed:
    """Which venues were listed whole lately for a round that is not frozen yet, and how many
    markets."""

    def __init__(self, path: Path, out: Path, now: datetime) -> None:
        self._path, self._out = path, str(out.resolve())
        try:
            kept = read_json(path)
            there = kept["out"] == self._out and now - parse_instant(kept["at"]) < LISTED
            self.venues = {str(k): int(n) for k, n in kept["venues"].items()} if there else {}
            self._at = kept["at"] if there else iso(now)
        except (InputError, KeyError, TypeError, ValueError, AttributeError):
            self.venues, self._at = {}, iso(now)

    def forget(self) -> None:
        """List all of them again next time."""
        self._path.unlink(missing_ok=True)

    def add(self, venue: str, n: int) -> None:
        """Remember a venue."""
        self.venues[venue] = n
        write_json(self._path, {"out": self._out, "at": self._at, "venues": self.venues})


def repeatedly(
    connect: Callable[[], Connection],
    order: Order,
    home: Home,
    archive: Path,
    clock: Clock,
    times: int | None,
    say: Say = lambda _: None,
    progress: Progress = lambda *_: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Crawled]:
    """A round now, and one at the beginning of each interval; `times` of them, or until it is
    stopped. A round that fails is said and left to the next interval, which goes on from it. After
    a restart the round that is frozen already is not made again."""
    n = 0
    while True:
        n += 1
        try:
            yield crawl(connect(), order, home, archive, clock, progress)
        except BeforehandError as error:
            if times == 1:
                raise
            say(f"no round now: {error}")
        if times is not None and n >= times:
            return
        due = order.slot(clock.now()) + order.every
        say(f"next round at {iso(due)}")
        while (left := (due - clock.now()).total_seconds()) > 0:
            sleep(min(left, 5.0))
