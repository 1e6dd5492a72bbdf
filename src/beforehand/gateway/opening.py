"""Opening the door: the recorded world, or the live services, with or without a recording.

replay   the archive answers; what it does not hold is an error, never a live call
live     the services answer
record   the services answer, and every exchange is kept
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from beforehand.clock import Clock
from beforehand.config import Home, Workspace
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.search import Grade
from beforehand.gateway.threads import read_threads
from beforehand.gateway.transport import HttpTransport
from beforehand.gateway.worlds.live import LiveWorld
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.lazy import lazy
from beforehand.sources.base import Provider
from beforehand.sources.catalogue import PROVIDERS
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.spool import Spool
from beforehand.store.ledger import Ledger
from beforehand.traffic import Traffic

Mode = Literal["replay", "live", "record"]


@dataclass
class Door:
    """An opened gateway, and what stands behind it."""

    gateway: Gateway
    mode: Mode
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (name == "simulated" and "_world" not in self.__dict__):
            raise AttributeError(name)
        return getattr(self._world, name)


def open_traffic(workspace: Workspace, providers: dict[str, Provider] = PROVIDERS) -> Traffic:
    """The way out, with the ledger of this home folder, or of all machines of one database."""
    transport = HttpTransport(workspace.settings, providers)
    return Traffic(Ledger(workspace.traffic), transport.send, workspace.clock, providers)


def open_door(workspace: Workspace, mode: Mode, archive: Path, grade: Grade = "captured") -> Door:
    """A gateway in this mode. Nothing is read or sent before the first question."""
    home, clock = workspace.home, workspace.clock
    if mode == "replay":
        world: Any = _Later(archive, grade, home, clock)
        return Door(Gateway(world, clock), mode)
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
    return Door(Gateway(live, clock), mode, traffic, live, spool)
