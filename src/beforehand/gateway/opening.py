"""Opening the connection: the recorded world, or the live services, with or without a recording.

replay   the archive answers; what it does not hold is an error, never a live call
live     the services answer
record   the services answer, and every exchange is kept

It also reads and writes Reddit threads on disk, one file each:
`data/reddit_cache/threads/{id}.json`.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.clock import Clock, parse_instant
from beforehand.config import Home, Workspace, WorldMode
from beforehand.errors import BeforehandError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.search import Grade
from beforehand.gateway.transport import HttpTransport
from beforehand.gateway.worlds.live import LiveWorld
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import is_segment
from beforehand.lazy import lazy
from beforehand.records.world import Observation
from beforehand.sources import reddit
from beforehand.sources.base import Provider
from beforehand.sources.catalogue import PROVIDERS
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import Spool
from beforehand.store.files import read_json, write_json
from beforehand.store.ledger import Ledger
from beforehand.traffic import Traffic

LOG = logging.getLogger(__name__)


def read_threads(folder: Path, now: datetime) -> Iterator[Observation]:
    """Posts and comments of every thread file. A raw Reddit answer counts as fetched at its
    `recorded_at`, else now; a file that is not a thread is left out, with a warning."""
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            raw = read_json(path)
            yield from reddit.parse_thread_file(raw, _stored_at(raw, now))
        except BeforehandError as error:
            LOG.warning("%s is left out, it is not a Reddit thread: %s", path, error)


def _stored_at(raw: object, now: datetime) -> datetime:
    stamp = raw.get("recorded_at") if isinstance(raw, dict) else None
    try:
        return parse_instant(f"{stamp}Z" if stamp and len(str(stamp)) == 19 else str(stamp))
    except ValueError:
        return now


def write_threads(folder: Path, records: Iterable[Observation]) -> int:
    """Store posts with their comments, a file a thread; returns how many threads."""
    posts: dict[str, Observation] = {}
    comments: dict[str, list[Observation]] = defaultdict(list)
    for record in records:
        if record.source == reddit.SOURCE and record.kind == "post":
            posts[record.id] = record
        elif record.source == reddit.SOURCE and record.kind == "comment" and not record.snapshot:
            comments[record.subject].append(record)
    for name, post in posts.items():
        if is_segment(name):
            write_json(folder / f"{name}.json", reddit.thread_file(post, comments[name]))
    return len(posts)


@dataclass
class Connection:
    """An opened gateway, and what stands behind it."""

    gateway: Gateway
    mode: WorldMode
    traffic: Traffic | None = None
    live: LiveWorld | None = None
    spool: Spool | None = None

    def close(self) -> int:
        """Move what was recorded into the archive; returns how many exchanges were new."""
        return 0 if self.spool is None else self.spool.flush(self.gateway.clock.now())


class _Later:
    """The archive, opened when first asked: tools that need no archive work without one."""

    def __init__(self, path: Path, grade: Grade, home: Home, clock: Clock) -> None:
        self._path, self.grade, self._home, self._clock = path, grade, home, clock
        self.live = False

    @lazy
    def _world(self) -> RecordedWorld:
        return RecordedWorld(
            Archive(self._path),
            self.grade,
            lambda: read_threads(self._home.reddit_cache, self._clock.now()),
        )

    @lazy
    def _threads(self) -> list[Observation]:
        return list(read_threads(self._home.reddit_cache, self._clock.now()))

    def observations(
        self, source: str, kind: str, subject: str | None, until: int, live: bool = False
    ) -> Sequence[Observation]:
        """The archive's rows; without an archive the threads of the cache."""
        if source != reddit.SOURCE or self._path.exists():
            found: Sequence[Observation] = self._world.observations(source, kind, subject, until)
            return found
        rows = [row for row in self._threads if row.kind == kind]
        return rows if subject is None else [row for row in rows if row.subject == subject]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (name == "simulated" and "_world" not in self.__dict__):
            raise AttributeError(name)
        return getattr(self._world, name)


def open_traffic(workspace: Workspace, providers: dict[str, Provider] = PROVIDERS) -> Traffic:
    """The Traffic of outside calls, with the ledger of this home folder, or of all machines of one
    database."""
    transport = HttpTransport(workspace.settings, providers)
    return Traffic(Ledger(workspace.traffic), transport.send, workspace.clock, providers)


def connect(
    workspace: Workspace, mode: WorldMode, archive: Path, grade: Grade = "captured"
) -> Connection:
    """A gateway in this mode. Nothing is read or sent before the first question."""
    home, clock = workspace.home, workspace.clock
    if mode == "replay":
        world: Any = _Later(archive, grade, home, clock)
        return Connection(Gateway(world, clock), mode)
    traffic = open_traffic(workspace)
    spool = Spool(home.recording, archive) if mode == "record" else None
    live = LiveWorld(
        traffic,
        clock,
        grade,
        keep=None if spool is None else spool.keep,
        extra=lambda: read_threads(home.reddit_cache, clock.now()),
        feeds=home.feeds,
    )
    return Connection(Gateway(live, clock), mode, traffic, live, spool)
