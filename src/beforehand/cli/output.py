"""What every command shares: one JSON document on stdout; progress and notes on stderr."""

import codecs
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import orjson
from cyclopts import Group, Parameter

from beforehand.config import Home
from beforehand.errors import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.records.text import clean

if TYPE_CHECKING:
    from beforehand.engine.runs import Finished
    from beforehand.score.summary import Summary

OUTPUT = Group("Output", sort_key=50)
Json = Annotated[
    bool,
    Parameter(name="--json", negative="", group=OUTPUT, help="Print one JSON document."),
]
Verbose = Annotated[
    bool,
    Parameter(
        negative="",
        group=OUTPUT,
        help="Print all of the validity card, the leak report, the bets, every pair.",
    ),
]
ArchivePath = Annotated[
    Path | None,
    Parameter(name="--archive", help="The archive's folder [data/archive under BEFOREHAND_HOME]."),
]
TextGrade = Annotated[
    Literal["captured", "published"],
    Parameter(help="captured: text stored by t (strict). published: dated by t."),
]


def archive_path(given: Path | None) -> Path:
    """The folder named by --archive, else the home's own."""
    return Home.from_environment().archive_at(given)


def emit(value: object) -> None:
    """One JSON document on stdout; in ASCII where that holds no other signs."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8" and not text.isascii():
        text = json.dumps(orjson.loads(text), indent=2)
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line for people, on stderr."""
    print(clean(text), file=sys.stderr)


def confirm(question: str) -> None:
    """Ask on a terminal; raises InputError for any answer but yes, and where nobody can answer."""
    if not sys.stdin.isatty():
        raise InputError(f"{question} Say so with --yes")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise InputError("nothing was changed")


def scores_of(finished: "Finished") -> "Summary":
    """The summary of a scored run. (The engine's own type covers every kind of run.)"""
    return cast("Summary", finished.summary)


def plain_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in aligned columns, for commands that need no more (and start sooner without it)."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def exit_code_of(found: "Summary") -> int:
    """Of a run that was carried out: failed where a record of the future was shown, partial where a
    forecaster never answered."""
    from beforehand.score.report.words import never_answered

    if found["leaks"]["admitted_after_t"]:
        return EXIT_FAILED
    if silent := never_answered(found):
        names = ", ".join(silent)
        note(f"no answer of {names} came about: `beforehand runs export` has the errors")
        return EXIT_PARTIAL
    return EXIT_OK
