"""`beforehand bench seal|verify`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, note
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, NotFound
from beforehand.store.seals import check, read_seals

Log = Annotated[Path, Parameter(help="The sealed log (JSONL).")]
MOST = 20


def seal(
    *,
    predictions: Annotated[Path, Parameter(help="PredictionRecord JSONL.")],
    log: Log,
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

    now = Workspace.from_environment().clock.now()
    made = seals.seal(log, records_of(predictions), now)
    found = check(read_seals(log))
    if json:
        emit({"log": str(log), "sealed": len(made), "lines": found.n, "head": found.head})
    else:
        print(f"{log}: {len(made):,} sealed, {found.n:,} in all")
        print(f"publish this digest: {found.head}")
    return EXIT_OK


def verify(
    *,
    log: Log,
    head: Annotated[
        list[str] | None, Parameter(help="A digest that was published. May be repeated.")
    ] = None,
    predictions: Annotated[
        Path | None, Parameter(help="PredictionRecord JSONL: is it what was sealed?")
    ] = None,
    json: Json = False,
) -> int:
    """Look whether a sealed log is what it was, and a file of forecasts what was sealed."""
    from beforehand.jobs.benchmark.sealed import against

    if not log.is_file():
        raise NotFound(f"there is no log at {log}: `beforehand bench seal` makes one")
    lines = read_seals(log)
    found = check(lines, head or ())
    problems = [*found.problems, *([] if predictions is None else against(lines, predictions))]
    if json:
        emit({"log": str(log), "lines": found.n, "head": found.head, "problems": problems})
    else:
        anchored = "" if head else "; without --head a log that was made anew cannot be told"
        print(f"{log}: {found.n:,} lines, digest {found.head}{anchored}")
        for text in problems[:MOST]:
            note(text)
        if len(problems) > MOST:
            note(f"… and {len(problems) - MOST:,} more (--json lists all)")
        print("NOT as sealed" if problems else "as sealed")
    return EXIT_FAILED if problems else EXIT_OK
