"""`beforehand bench questions`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit
from beforehand.clock import parse_instant
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, InputError
from beforehand.ids import digest
from beforehand.jobs.benchmark import questions as work
from beforehand.jobs.benchmark import rounds
from beforehand.store.files import write_jsonl


def questions(
    kind: Annotated[
        Literal["forecastbench", "metaculus", "prophet", "edgar"],
        Parameter(help="Whose questions: a file's, or born from EDGAR's facts in the archive."),
    ],
    file: Annotated[Path | None, Parameter(help="The file (not for edgar).")] = None,
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder for the round.")],
    cik: Annotated[
        list[str] | None, Parameter(help="edgar: a company's number. May be repeated.")
    ] = None,
    concept: Annotated[
        list[str] | None, Parameter(help="edgar: only this concept (Revenues) [all]. Repeat.")
    ] = None,
    as_of: Annotated[
        str | None, Parameter(help="edgar: as it was asked then (ISO 8601) [now].")
    ] = None,
    with_permission: Annotated[
        bool,
        Parameter(negative="", help="metaculus: I have its permission to evaluate models on them."),
    ] = False,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Make a round of questions that others ask, or of the next values of EDGAR's facts: events,
    what was left out with its reason, and round.json with the digest.

    Whatever answers events.jsonl can be sealed, resolved and scored like any round. A question from
    EDGAR asks whether the next quarterly value exceeds that of a year before; `bench resolve` finds
    the first filing of it.
    """
    now = Workspace.from_environment().clock.now()
    rounds.refuse_frozen(out)
    if kind == "edgar":
        if file is not None or not cik:
            raise InputError("edgar takes no file, and needs --cik (a company's number)")
        found, source = _edgar(cik, concept or [], as_of, archive)
    else:
        if file is None or cik or concept or as_of:
            raise InputError(f"{kind} needs a file, and none of --cik, --concept, --as-of")
        found, source = work.read(kind, file, with_permission), digest(file.read_bytes())
    out.mkdir(parents=True, exist_ok=True)
    write_jsonl(out / "events.jsonl", found.events)
    write_jsonl(out / "events_snapshots.jsonl", found.snapshots)
    write_jsonl(out / "left_out.jsonl", found.left)
    frozen = rounds.freeze(out, source, now, rounds.EVERY, found.left)
    if json:
        emit({"out": str(out), "round": frozen})
    else:
        left = ", ".join(f"{n:,} {why}" for why, n in frozen["left_out"].items())
        print(f"{out}: {frozen['events']:,} events; left out: {left or 'none'}")
        print(f"frozen: {frozen['digest']}")
    return EXIT_OK


def _edgar(
    cik: list[str], concept: list[str], as_of: str | None, archive: Path | None
) -> tuple[work.Read, str]:
    from beforehand.gateway.gateway import Gateway
    from beforehand.gateway.worlds.recorded import RecordedWorld
    from beforehand.store.archive.reader import Archive

    opened = Archive(archive_path(archive))
    clock = Workspace.from_environment().clock
    try:
        t = clock.now() if as_of is None else parse_instant(as_of)
    except ValueError as error:
        raise InputError(f"--as-of: {error}") from None
    found = work.from_edgar(Gateway(RecordedWorld(opened), clock).at(t), cik, concept)
    if not found.events:
        why = {one["reason"] for one in found.left} or {"no such concept"}
        raise InputError(f"no question is born from these filings ({'; '.join(sorted(why))})")
    return found, opened.digest
