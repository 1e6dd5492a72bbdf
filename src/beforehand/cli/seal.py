"""`beforehand bench seal|verify`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, note
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, NotFound
from beforehand.store.seals import Seal, check, read_seals

Log = Annotated[Path, Parameter(help="The sealed log (JSONL).")]
MOST = 20


def seal(
    *,
    predictions: Annotated[Path, Parameter(help="PredictionRecord JSONL.")],
    log: Log,
    timestamp: Annotated[
        str | None,
        Parameter(
            help="An RFC 3161 service that stamps the log's last line [BEFOREHAND_TSA; none]."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Seal forecasts before the outcome: they are added to a log in which no line can be changed,
    dropped, moved or back-dated unseen.

    Sealing the same file again adds what is new. Publish the digest that is printed where others
    see when it was there (a commit, a post): `bench verify --head DIGEST` then knows a log that was
    made anew. `bench evaluate --sealed LOG` counts only what was sealed in time.
    """
    from beforehand.jobs.benchmark.sealed import records_of
    from beforehand.store import seals

    workspace = Workspace.from_environment()
    made = seals.seal(log, records_of(predictions), workspace.clock.now())
    lines = read_seals(log)
    found, stamped = check(lines), _stamped(workspace, timestamp, log, lines)
    if json:
        told = {"log": str(log), "sealed": len(made), "lines": found.n, "head": found.head}
        emit({**told, "stamp": stamped})
    else:
        print(f"{log}: {len(made):,} sealed, {found.n:,} in all")
        if stamped:
            print(f"stamped: {stamped}")
        print(f"publish this digest: {found.head}")
    return EXIT_OK


def _stamped(
    workspace: Workspace, service: str | None, log: Path, lines: Sequence[Seal]
) -> str | None:
    from beforehand.jobs.benchmark.stamps import SERVICE, stamp

    chosen = service or workspace.settings.get(SERVICE)
    return str(stamp(workspace, chosen, log, lines)) if chosen else None


def verify(
    *,
    log: Log,
    head: Annotated[
        list[str] | None, Parameter(help="A digest that was published. May be repeated.")
    ] = None,
    predictions: Annotated[
        Path | None, Parameter(help="PredictionRecord JSONL: is it what was sealed?")
    ] = None,
    roots: Annotated[
        Path | None,
        Parameter(
            name="--tsa-roots",
            help="The time stamp service's root certificates (PEM): are its stamps signed by it?",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Look whether a sealed log is what it was, and a file of forecasts what was sealed.

    Time stamps beside the log (`bench seal --timestamp`) are looked at as well.
    """
    from beforehand.jobs.benchmark.sealed import against
    from beforehand.jobs.benchmark.stamps import stamps_of

    if not log.is_file():
        raise NotFound(f"there is no log at {log}: `beforehand bench seal` makes one")
    lines = read_seals(log)
    found = check(lines, head or ())
    problems = [*found.problems, *([] if predictions is None else against(lines, predictions))]
    stamps = stamps_of(log, lines, roots)
    problems += [f"{one['file']}: {one['problem']}" for one in stamps if one["problem"]]
    if json:
        told = {"log": str(log), "lines": found.n, "head": found.head, "problems": problems}
        emit({**told, "stamps": stamps})
    else:
        anchored = head or any(one["signed"] for one in stamps)
        bare = "" if anchored else "; without --head a log that was made anew cannot be told"
        print(f"{log}: {found.n:,} lines, digest {found.head}{bare}")
        for one in stamps:
            if one["problem"] is None:
                how = "signed" if one["signed"] else "its signature unchecked: give --tsa-roots"
                print(f"stamped: lines 1 to {one['lines']:,} existed at {one['at']} ({how})")
        for text in problems[:MOST]:
            note(text)
        if len(problems) > MOST:
            note(f"… and {len(problems) - MOST:,} more (--json lists all)")
        print("NOT as sealed" if problems else "as sealed")
    return EXIT_FAILED if problems else EXIT_OK
