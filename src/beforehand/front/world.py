"""Worlds as objects: an archive on disk, seen as of any instant; and its tools as methods."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from beforehand.config import Home, Workspace
from beforehand.errors import InputError
from beforehand.front.paths import need_path
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.view import View, gateway_of
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.checks import between, instant
from beforehand.lazy import lazy
from beforehand.store.archive.reader import Archive
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox as Tools
from beforehand.tools.storage import Storage
from beforehand.world.importers.named import reader, store_files
from beforehand.world.render import store_world
from beforehand.world.simulate import DEMO_DATES, SimConfig


class World:
    """An archive of recorded or simulated records in the folder `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = Archive(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process opens the archive itself."""
        return World, (self.path,)

    @property
    def digest(self) -> str:
        """The identity of what the archive holds (SHA-256, hex)."""
        return self.archive.digest

    @property
    def counts(self) -> dict[str, int]:
        """How many records of each kind it holds."""
        return dict(self.archive.counts())

    @lazy
    def markets(self) -> list[str]:
        """The ids of all markets that ever had a price, sorted."""
        return sorted(self._gateway.full_view().first_prices())

    def at(self, t: datetime | str) -> View:
        """The world as it was at `t`: an aware datetime, or ISO 8601 with a zone (a bare date is
        00:00 UTC). The View shows only records known at t. Raises InputError for a time without
        a zone."""
        return self._gateway.at(instant("t", t))

    @lazy
    def _gateway(self) -> Gateway:
        return Gateway(RecordedWorld(self.archive))

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {kind}" for kind, n in self.counts.items())
        return f"World({str(self.path)!r}: {counts})"


def need_world(given: object) -> World:
    """The world itself. Raises InputError for anything else."""
    if isinstance(given, View):
        raise InputError("a View has one instant: pass the world itself, and the instant as as_of")
    if not isinstance(given, World):
        raise InputError(
            f"{given!r} is not a world: bh.open_world(PATH) or bh.simulate() gives one"
        )
    return given


def open_world(path: str | Path | None = None) -> World:
    """The archive in the folder `path` (a relative one is also looked for in the home folder);
    without a path, the home's own, `data/archive`. The home folder is BEFOREHAND_HOME, else the
    current one. Raises NotConfigured where there is no archive."""
    home = Home.from_environment()
    return World(home.archive_at(None if path is None else need_path("path", path)))


def simulate(seed: int = 0, path: str | Path | None = None, *, dates: int = DEMO_DATES) -> World:
    """A simulated world with known truth: the same seed gives the same world, byte for byte.

    It is stored in `path`, else in `data/demo-world-SEED` of the home folder, where `beforehand
    demo` has it too, and opened if it is there already. `dates` counts the dates on which markets
    resolve, a week apart. Raises InputError for a folder that holds another world.
    """
    between("seed", seed, 0, 2**31)
    between("dates", dates, 1, 5000)
    workspace = Workspace.from_environment()
    name = f"demo-world-{seed}" + ("" if dates == DEMO_DATES else f"-{dates}")
    folder = workspace.home.root / "data" / name if path is None else need_path("path", path)
    store_world(replace(SimConfig(), seed=seed, dates=dates), folder, workspace.clock)
    return World(folder)


def import_files(
    importer: str,
    files: str | Path | Sequence[str | Path],
    path: str | Path | None = None,
    *,
    skip_bad: bool = False,
) -> World:
    """Read files into an archive: `beforehand world import` from Python. `importer` is its name
    there (markets, documents, prices, predictions, forecastbench, a service, one of another
    package), `path` the archive's folder, else the home's own. A line that cannot be read ends the
    import with InputError; with `skip_bad` it is listed in `rejects/` of the archive instead."""
    workspace = Workspace.from_environment()
    target = workspace.home.archive_at(None if path is None else need_path("path", path))
    names = [files] if isinstance(files, (str, Path)) or not isinstance(files, Sequence) else files
    paths = [need_path("files", name) for name in names]
    for _ in store_files(importer, paths, reader(importer), target, workspace.clock, skip_bad):
        pass
    return World(target)


class Toolbox:
    """Every tool as a method with keyword arguments: it returns the answer as a dict, as of the
    View's instant. The names are those of `beforehand tool list`, with underscores; `help` of a
    method shows its arguments."""

    def __init__(self, view: View) -> None:
        if not isinstance(view, View):
            raise InputError(f"{view!r} is not a View: world.at(TIME) gives one")
        self._names = {name.replace("-", "_"): name for name in load_tools()}
        pinned = None if view.live else view.t
        storage = Storage(Home.from_environment())
        self._tools = Tools(gateway_of(view), storage, pinned, bounded=False)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"no tool is named {name!r}: `dir(toolbox)` lists them")
        tool = load_tools()[self._names[name]]
        call = partial(self._call, tool.name)
        call.__doc__ = f"{tool.description}\n\nArguments: {', '.join(tool.arguments)}"
        return call

    def _call(self, tool: str, /, *unnamed: object, **arguments: object) -> dict[str, Any]:
        if unnamed:
            known = ", ".join(load_tools()[tool].arguments)
            raise InputError(f"{tool} takes its arguments by name: {known}")
        return dict(self._tools.call(tool, arguments).content)

    def __dir__(self) -> list[str]:
        return sorted(self._names)


def toolbox(view: View) -> Toolbox:
    """The tools, pinned to what a View shows: `toolbox(world.at(t)).get_market(id="m0003")`. A call
    raises InputError, NotFound or ReplayMiss as the tool's page says."""
    return Toolbox(view)
