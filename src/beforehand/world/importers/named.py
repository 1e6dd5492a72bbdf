"""Importers by name, those of other packages as well, and the storing of what they read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from beforehand.clock import Clock
from beforehand.errors import InputError
from beforehand.plugins import PLUGINS, Plugin
from beforehand.records.record import Record
from beforehand.sources.catalogue import RECORDED
from beforehand.store.archive.manifest import stored_at
from beforehand.store.archive.writer import ArchiveWriter, ImportReport
from beforehand.store.files import file_digest, read_parts
from beforehand.world.importers import (
    datasets,
    documents,
    forecastbench,
    markets,
    predictions,
    prices,
    venues,
)
from beforehand.world.importers.lines import Rejects, Stored

Read = Callable[[Path, Rejects, dict[str, int], datetime], Iterator[Stored]]
"""(file, what is rejected, notes, when the file was first imported) to records."""
OWN: Mapping[str, Read] = {
    "markets": lambda path, rejects, notes, _: markets.read(path, rejects, notes),
    "documents": lambda path, rejects, notes, _: documents.read(path, rejects, notes),
    "forecastbench": forecastbench.read,
    "prices": lambda path, rejects, *_: prices.read(path, rejects, "LOCAL"),
    "prophet": lambda path, rejects, notes, _: datasets.prophet(path, rejects, notes),
    "futuresim": lambda path, rejects, notes, _: datasets.futuresim(path, rejects, notes),
    "predictions": lambda path, rejects, *_: predictions.read(path, rejects, "LOCAL"),
    "polymarket": lambda path, rejects, _, now: venues.read("polymarket", path, rejects, now, None),
    "kalshi": lambda path, rejects, _, now: venues.read("kalshi", path, rejects, now, None),
}


def added() -> dict[str, Callable[[Path, Rejects], Iterator[Record]]]:
    """The importers of other packages: `read(path, rejects)` yields records."""
    found: dict[str, Callable[[Path, Rejects], Iterator[Record]]] = {}
    for plugin, read in PLUGINS.load("importers", _enter):
        found[plugin.name] = read  # type: ignore[assignment]
    return found


def _enter(plugin: Plugin, found: object) -> None:
    if not callable(found):
        raise TypeError(f"{plugin.value} cannot be called: read(path, rejects) yields records")
    if plugin.name in OWN or plugin.name in RECORDED:
        raise ValueError(f"an importer is called {plugin.name} already")


def reader(name: str) -> Read:
    """The importer with this name. Raises InputError, which names those that there are."""
    if name in OWN:
        return OWN[name]
    if name in RECORDED:
        return partial(_of_service, name)
    theirs = added()
    if name in theirs:
        return lambda path, rejects, *_: theirs[name](path, rejects)
    raise InputError(f"no importer is called {name!r}: there are {', '.join(all_names())}")


def all_names() -> list[str]:
    """The names of all importers."""
    return [*OWN, *sorted({*RECORDED} - {*OWN}), *added()]


def _of_service(
    name: str, path: Path, rejects: Rejects, notes: dict[str, int], now: datetime
) -> Iterator[Record]:
    return venues.read(name, path, rejects, now, None)


def store_files(
    importer: str,
    files: Sequence[Path],
    read: Read,
    target: Path,
    clock: Clock,
    skip_bad: bool = False,
    licence: str | None = None,
) -> Iterator[ImportReport]:
    """Store files in an archive, one after the other, and report on each. Raises InputError for a
    file that cannot be read, before the first one is stored; and for a bad line, unless they are
    left out with `skip_bad`."""
    if not files:
        raise InputError("name at least one file to import")
    for path in files:
        for _ in read_parts(path):
            pass
    for path in files:
        rejects, notes, mark = Rejects(skip_bad), dict[str, int](), file_digest(path)
        now = clock.now()
        # A file keeps the time of its first import: importing it twice changes nothing.
        first_seen = stored_at(target, importer, mark) or now
        yield ArchiveWriter(target).add(
            read(path, rejects, notes, first_seen),
            importer=importer,
            source=path.name,
            source_digest=mark,
            recorded_at=now,
            rejects=rejects,
            notes=notes,
            licence=licence,
        )
