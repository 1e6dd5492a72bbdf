"""What other people's packages add: found by their entry points, loaded when they are needed.

    [project.entry-points."beforehand.forecasters"]
    calm = "their_package.forecasters:Calm"

The groups are forecasters, metrics, importers, sources and tools. A plugin that cannot be loaded is
named in a warning, once, and stops nothing else.
"""

import hashlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Group = Literal["forecasters", "metrics", "importers", "sources", "tools"]
GROUPS: tuple[Group, ...] = ("forecasters", "metrics", "importers", "sources", "tools")
LOG = logging.getLogger(__name__)
_MARK = b"[beforehand."


@dataclass(frozen=True)
class Plugin:
    """One entry point: its group, its name, where it is (`module:name`), and whose it is."""

    group: Group
    name: str
    value: str
    package: str
    version: str

    def facts(self) -> dict[str, str | None]:
        """What a run records."""
        return {
            "group": self.group,
            "name": self.name,
            "package": self.package,
            "version": self.version,
            "digest": _file_digest(self.value.partition(":")[0]),
        }

    def __str__(self) -> str:
        return f"{self.name} of {self.package} {self.version}"


def _file_digest(module: str) -> str | None:
    path = getattr(sys.modules.get(module), "__file__", None)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else None


def _there_may_be_some() -> bool:
    """False where no installed package has an entry point of ours: `importlib.metadata` itself
    takes longer to load than a short command runs."""
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    text = Path(folder, name, "entry_points.txt").read_bytes()
                except OSError:
                    continue
                if _MARK in text:
                    return True
    return False


class Plugins:
    """The plugins of this environment, each loaded once. `broken` says why some were left out."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._found: list[Plugin] | None = None
        self._loaded: dict[Plugin, object] = {}
        self.broken: dict[Plugin, str] = {}

    def found(self, group: Group | None = None) -> list[Plugin]:
        """What is installed, by group and name; nothing is loaded."""
        with self._lock:
            if self._found is None:
                self._found = sorted(_listed(), key=lambda one: (one.group, one.name, one.package))
                first: dict[tuple[str, str], Plugin] = {}
                for one in self._found:
                    other = first.setdefault((one.group, one.name), one)
                    if other is not one:
                        self.leave_out(one, f"{other.package} has one of that name")
        return [one for one in self._found if group in (None, one.group)]

    def load(
        self, group: Group, enter: Callable[[Plugin, object], None] = lambda plugin, found: None
    ) -> Iterator[tuple[Plugin, object]]:
        """Each plugin of a group with its object. `enter` is called once for each, and raises where
        the object is not what the group needs."""
        for plugin in self.found(group):
            with self._lock:
                if plugin not in self._loaded and plugin not in self.broken:
                    try:
                        with redirect_stdout(sys.stderr):  # Its words are no answer of ours.
                            found = _load(plugin)
                        enter(plugin, found)
                        self._loaded[plugin] = found
                    except (Exception, SystemExit) as error:
                        self.leave_out(plugin, f"{type(error).__name__}: {error}")
            if plugin in self._loaded:
                yield plugin, self._loaded[plugin]

    def leave_out(self, plugin: Plugin, why: str) -> None:
        """Note that a plugin cannot be used; it is said once."""
        self.broken[plugin] = why
        LOG.warning("the plugin %s (%s) was left out: %s", plugin, plugin.value, why)


def _listed() -> Iterator[Plugin]:
    if not _there_may_be_some():
        return
    from importlib.metadata import entry_points

    for group in GROUPS:
        seen = set[tuple[str, str]]()
        for point in entry_points(group=f"beforehand.{group}"):
            package, version = (point.dist.name, point.dist.version) if point.dist else ("?", "?")
            if (point.name, package) not in seen:  # A package may be in two folders of the path.
                seen.add((point.name, package))
                yield Plugin(group, point.name, point.value, package, version)


def _load(plugin: Plugin) -> object:
    from importlib import import_module

    module, _, path = plugin.value.partition(":")
    found: object = import_module(module.strip())
    for name in filter(None, path.strip().split(".")):
        found = getattr(found, name)
    return found


PLUGINS = Plugins()
"""Those of this process."""
