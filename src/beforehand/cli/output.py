"""What every command shares: one JSON document on stdout; progress and notes on stderr."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import orjson
from cyclopts import Parameter

from beforehand.config import Home

if TYPE_CHECKING:
    from beforehand.engine.runs import Finished, Reporter
    from beforehand.score.summary import Summary

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON document.")]
ArchivePath = Annotated[
    Path | None,
    Parameter(name="--archive", help="The archive's folder [data/archive under BEFOREHAND_HOME]."),
]


def archive_path(given: Path | None) -> Path:
    """The folder named by --archive, else the home's own. A relative name that is not in the
    current folder is looked for in the home as well."""
    home = Home.from_environment()
    if given is None:
        return home.archive
    if not given.exists() and (home.root / given / "archive.json").is_file():
        return home.root / given
    return given


def emit(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def note(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr for (step, done, total); nothing if stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def update(step: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what}: {step}", completed=done, total=total)

        yield update


@contextmanager
def reporting(what: str) -> Iterator["Reporter"]:
    """Progress, and the run's id on stderr as soon as it is known."""
    from beforehand.engine.runs import Reporter

    with progress(what) as update:
        yield Reporter(lambda run_id: note(f"run {run_id}"), update, note)


def scores_of(finished: "Finished") -> "Summary":
    """The summary of a scored run. (The engine's own type covers every kind of run.)"""
    return cast("Summary", finished.summary)


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in aligned columns, for commands that need no more (and start sooner without it)."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
