"""What the routers share: who asks, as of when, and from which workspace."""

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from typing_extensions import TypeAliasType

from beforehand.clock import iso
from beforehand.config import Workspace
from beforehand.errors import BeforehandError, CutoffViolation, NotFound, Refused
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.view import View
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import is_segment
from beforehand.jobs.checks import instant
from beforehand.lazy import lazy
from beforehand.runs.query import find_journal, find_run
from beforehand.serve.api.answers import Answers, Kept
from beforehand.serve.api.feed import Feeds
from beforehand.serve.auth import VISITOR, Visitor
from beforehand.serve.backend import Backend
from beforehand.serve.connections import Limits
from beforehand.serve.starter import Starter
from beforehand.store.archive.manifest import digest_of, need_manifest
from beforehand.store.archive.reader import Archive
from beforehand.store.journal.journal import Journal
from beforehand.store.run_folder import RunFolder, list_runs
from beforehand.store.run_folder import open_run as open_folder
from beforehand.tools.registry import close_to

MOST_WORLDS = 4
Json = TypeAliasType("Json", "str | int | float | bool | list[Json] | dict[str, Json] | None")
"""Any JSON value, where a tool, an agent or a plan decides the shape."""


class Opened:
    """An archive that is open: its world is loaded when it is first asked."""

    def __init__(self, name: str, path: Path, workspace: Workspace) -> None:
        self.name, self.path, self._workspace = name, path, workspace
        self.archive = Archive(path)

    @lazy
    def world(self) -> RecordedWorld:
        """Its records, in memory."""
        return RecordedWorld(self.archive)

    @lazy
    def last(self) -> datetime:
        """The last instant at which something became known."""
        return self.archive.last_known()

    @property
    def kind(self) -> str:
        """`simulated` or `recorded`."""
        return "simulated" if self.world.simulated else "recorded"

    def gateway(self) -> Gateway:
        """A gateway of one request: its trail ends with it."""
        return Gateway(self.world, self._workspace.clock)


@dataclass
class Worlds:
    """The archives of a home folder by name, the last ones asked kept open."""

    workspace: Workspace
    served: Path | None = None
    """One that lies elsewhere, by the name of its folder."""
    _open: "OrderedDict[tuple[str, int, int], Opened]" = field(default_factory=OrderedDict)
    _digests: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def paths(self) -> dict[str, Path]:
        """Where each archive lies."""
        folder = self.workspace.home.root / "data"
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        paths = [path for path in found if (path / "archive.json").is_file()]
        if self.served is not None:
            paths.append(self.served)
        return {path.name: path for path in paths if is_segment(path.name)}

    def default(self) -> str | None:
        """The name of the archive that is meant where none is named."""
        names = self.paths()
        for path in (self.served, self.workspace.home.archive):
            if path is not None and path.name in names:
                return path.name
        return next(iter(names), None)

    def open(self, name: str) -> Opened:
        """The archive of this name, as it is now. Raises NotFound."""
        paths = self.paths()
        if name not in paths:
            said = close_to(name, [*paths]) if paths else "there is none yet"
            raise NotFound(f"no archive is named {name[:100]!r}: {said}")
        state = (paths[name] / "archive.json").stat()
        key = (str(paths[name]), state.st_mtime_ns, state.st_size)
        with self._lock:
            if key not in self._open:
                self._open[key] = Opened(name, paths[name], self.workspace)
                while len(self._open) > MOST_WORLDS:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return self._open[key]

    def ready(self, name: str) -> bool:
        """True if the archive, as it is now, is open and in memory."""
        path = self.paths().get(name)
        if path is None:
            return False
        state = (path / "archive.json").stat()
        held = self._open.get((str(path), state.st_mtime_ns, state.st_size))
        return held is not None and {"world", "last"} <= held.__dict__.keys()

    def digest(self, name: str) -> str:
        """The identity of what an archive holds, without opening it. Raises what is wrong with
        it."""
        path = self.paths()[name]
        state = (path / "archive.json").stat()
        key = (str(path), state.st_mtime_ns, state.st_size)
        if key not in self._digests:
            self._digests[key] = digest_of(need_manifest(path)["segments"])
        return self._digests[key]

    def named(self, digest: str | None) -> str | None:
        """The name of the archive with this content, if it is here."""
        for name in self.paths() if digest is not None else ():
            with suppress(BeforehandError):  # One that is damaged is not this one.
                if self.digest(name) == digest:
                    return name
        return None


@dataclass
class Api:
    """What every router works with. `local` is true where no token is needed: then the caller is
    the user of this machine. `programs` says whether runs may be started that execute programs of
    this machine (`python:`, commands)."""

    workspace: Workspace
    backend: Backend
    worlds: Worlds
    limits: Limits
    local: bool
    programs: bool
    starter: Starter
    answers: Answers = field(default_factory=Answers)
    rows: Kept = field(default_factory=Kept)
    drawn: dict[object, None] = field(default_factory=dict)
    """What was asked of series lately: asked again, they are held."""

    def __post_init__(self) -> None:
        self.feeds = Feeds(self.journal)

    @property
    def pinned(self) -> datetime | None:
        """The instant that the whole server is pinned to."""
        return self.backend.pinned

    def journal(self) -> Journal | None:
        """The journal, if any run was started."""
        with self._opening:
            if self._journal is None:
                self._journal = find_journal(self.workspace)
            return self._journal

    _journal: Journal | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def run_name(self, run_id: str) -> str:
        """A run's id (`latest` is the one started last). Raises NotFound, which names near ones."""
        journal = self.journal()
        name = find_run(run_id, self.workspace.home, journal)
        if journal is not None and journal.run(name) is not None:
            return name
        if is_segment(name) and RunFolder(self.workspace.home.runs, name).path.is_dir():
            return name
        known = [run.run_id for run in list_runs(self.workspace.home.runs)]
        said = close_to(name, known) if known else "there are none yet"
        raise NotFound(f"no run is named {name[:100]!r}: {said}")

    def folder(self, run_id: str) -> RunFolder:
        """A run's folder. Raises NotFound."""
        name, journal = self.run_name(run_id), self.journal()
        _no_links(self.workspace.home.runs / name)
        if journal is not None and journal.run(name) is not None:
            folder = RunFolder(self.workspace.home.runs, name)
            folder.check_form()
            return folder
        return open_folder(self.workspace.home.runs, name)

    def seal(self, folder: RunFolder, *names: str) -> tuple[object, ...]:
        """What identifies the state of these files of a finished run; nothing for a run that is not
        finished."""
        found: list[object] = [folder.run_id]
        for name in ("run.json", *names):
            try:
                state = (folder.path / name).stat()
            except OSError:
                if name == "run.json":
                    return ()
                continue
            found.append((name, state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino))
        return tuple(found)

    def hide(self, text: str) -> str:
        """A sentence without the paths of this machine."""
        for place, instead in self.backend.hidden:
            text = text.replace(place, instead).replace(place.rstrip("/"), instead or ".")
        return text

    def archives(self) -> Mapping[str, Path]:
        """Where each archive lies, by name."""
        return self.worlds.paths()

    def archive(self, name: str | None) -> Path:
        """Where an archive lies; without a name the default one. Raises NotFound."""
        wanted = name if name is not None else self.worlds.default()
        if wanted is None:
            raise NotFound("there is no archive yet: `beforehand world simulate` makes one")
        path = self.worlds.open(wanted).path
        need_manifest(path)
        return path.resolve()


def _no_links(folder: Path) -> None:
    """Raises Refused for a run's folder that is a link, or holds one: what it points to is none of
    the run."""
    linked = [folder] if folder.is_symlink() else []
    if not linked and folder.is_dir():
        with os.scandir(folder) as entries:
            linked = [Path(entry.name) for entry in entries if entry.is_symlink()]
    if linked:
        raise Refused(
            f"{linked[0].name} is a link: a run's files lie in its own folder, remove the link"
        )


async def api_of(request: Request) -> Api:
    """The application's own Api. (Asynchronous, as the next two: none needs a thread.)"""
    found: Api = request.app.state.api
    return found


ApiDep = Annotated[Api, Depends(api_of)]


async def who_asks(request: Request, api: ApiDep) -> Visitor:
    """The caller, as its token names it."""
    found = request.scope.get(VISITOR)
    return found if isinstance(found, Visitor) else api.backend.local or Visitor()


Who = Annotated[Visitor, Depends(who_asks)]


def pin_of(api: Api, who: Visitor) -> datetime | None:
    """The latest instant that this caller may see; None where it may see all."""
    pins = [at for at in (api.pinned, who.as_of) if at is not None]
    return min(pins) if pins else None


async def unpinned(api: ApiDep, who: Who) -> None:
    """Raises Refused for a caller who is pinned to an instant: runs, scores and an archive's counts
    tell what came later."""
    if (pin := pin_of(api, who)) is not None:
        raise Refused(
            f"you see the world as of {iso(pin)}: markets, events, documents and tools answer as "
            "of then, and what was forecast, scored or stored tells what came later"
        )


Unpinned = Depends(unpinned)
Instant = Annotated[
    str | None,
    Query(
        description="As of this instant (ISO 8601 with a zone; a date is its start in UTC) [the "
        "last one on record].",
        examples=["2026-01-05T00:00:00Z"],
    ),
]


def view_of(api: Api, who: Visitor, archive: str, t: str | None) -> tuple[Opened, View]:
    """An archive's View at an instant, which is the last one that this caller may see where none is
    given. Raises CutoffViolation for a later one."""
    opened, pin = api.worlds.open(archive), pin_of(api, who)
    if t is None:
        at = opened.last if pin is None else pin
    else:
        at = instant("t", t)
        if pin is not None and at > pin:
            raise CutoffViolation(
                f"t {t} lies after {iso(pin)}, the instant that you are pinned to"
            )
    return opened, opened.gateway().at(at)


def json_ready(value: Any) -> Any:
    """A record as the wire has it."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
