"""`beforehand runs rm|restore`: runs out of the list, and back."""

import shutil
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, confirm, emit, note
from beforehand.config import Home, Workspace
from beforehand.errors import EXIT_OK, InputError, NotFound
from beforehand.runs.query import PURGED, find_journal, find_run, is_driven, removed
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import ASIDE
from beforehand.store.run_folder import RunFolder

Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask.")]
Purge = Annotated[
    bool,
    Parameter(negative="", help="Delete the files and the answers for good: there is no undo."),
]


def rm(
    runs: Annotated[list[str], Parameter(help="Runs, or latest.")],
    /,
    *,
    purge: Purge = False,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Remove runs: they leave every list, and their files move to data/removed.

    `runs restore` brings them back. With --purge their files and answers are deleted, also of runs
    that were removed before. What was spent, how many variants were tried on a set, and what a
    forecaster was shown stay on record in any case: verdicts rest on these.
    """
    workspace = Workspace.from_environment()
    home, journal = workspace.home, find_journal(workspace)
    gone = removed(home)
    names = [n if purge and n in gone else find_run(n, home, journal) for n in dict.fromkeys(runs)]
    for name in names:
        _check(name, home, journal, gone)
    size = sum(_size(home, name) for name in names)
    if purge and not yes:
        confirm(f"delete {', '.join(names)} ({size / 1e6:,.1f} MB) for good?")
    for name in names:
        if purge and journal is not None and journal.run(name) is not None:
            journal.purge(name)
        _move(RunFolder(home.runs, name).path, home.removed / name)
        if purge:
            _empty(home.removed / name)
    if json:
        emit({"removed": names, "purged": purge, "bytes": size})
    else:
        how = "deleted" if purge else f"moved to {home.removed}"
        print(f"{', '.join(names)}: {how} ({size / 1e6:,.1f} MB)")
        if not purge:
            note(f"undo: beforehand runs restore {' '.join(names)}")
    return EXIT_OK


def restore(
    runs: Annotated[list[str], Parameter(help="Runs that were removed.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Bring back runs that were removed."""
    workspace = Workspace.from_environment()
    home, gone = workspace.home, removed(workspace.home)
    for name in runs:
        if name not in gone:
            kept = [one for one in sorted(gone) if not (home.removed / one / PURGED).exists()]
            hint = f"these are: {', '.join(kept[:5])}" if kept else "none is"
            raise NotFound(f"run {name!r} is not removed: {hint}")
        if (home.removed / name / PURGED).exists():
            raise InputError(f"run {name} was deleted for good: make it again")
        if (home.runs / name).exists():
            raise InputError(f"{home.runs / name} exists: move it away first")
    for name in runs:
        if any((home.removed / name).iterdir()):
            _move(home.removed / name, home.runs / name)
        else:  # A run without files.
            (home.removed / name).rmdir()
    if json:
        emit({"restored": runs})
    else:
        print(f"restored: {', '.join(runs)}")
    return EXIT_OK


def _check(name: str, home: Home, journal: Journal | None, gone: set[str]) -> None:
    row = journal.run(name) if journal else None
    if name == ASIDE:
        raise InputError(f"{ASIDE} is no run but the calls made outside of runs: it stays")
    if row is None and name not in gone and not RunFolder(home.runs, name).path.is_dir():
        raise NotFound(f"there is no run {name!r}: `beforehand runs list` has all")
    if row is not None and journal is not None and is_driven(row, home, journal):
        raise InputError(f"run {name} is running: `beforehand runs cancel {name}` ends it")


def _size(home: Home, name: str) -> int:
    folders = (home.runs / name, home.removed / name)
    return sum(p.stat().st_size for f in folders for p in f.rglob("*") if p.is_file())


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        source.replace(target)
    else:
        target.mkdir(exist_ok=True)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (folder / PURGED).touch()
