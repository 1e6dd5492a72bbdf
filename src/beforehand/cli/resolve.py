"""`beforehand bench resolve`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.config import Workspace, WorldMode
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.gateway.opening import connect

MOST = 8


def resolve(
    *,
    events: Annotated[Path, Parameter(help="EventSpec JSONL.")],
    out: Annotated[Path, Parameter(help="Where the ResolutionRecord JSONL goes.")],
    mode: Annotated[
        WorldMode,
        Parameter(help="replay: the archive. live: the venues now. record: live, and stored."),
    ] = "replay",
    manual: Annotated[
        Path | None, Parameter(help="JSONL of id, outcome, author, reason: stated by a person.")
    ] = None,
    prices: Annotated[
        Path | None, Parameter(help="CSV of id,time,price: for events that a price settles.")
    ] = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Write how events ended, with the source of each; resolve again at any time.

    Venues say how their markets ended; `resolves_by` of an event names an XBRL fact or a price that
    settles it. Two sources that disagree are listed, and nothing is written for that event. What
    changed since the last time is added to OUT_history.jsonl.
    """
    from beforehand.jobs.benchmark import resolve as work

    if out.resolve() in {p.resolve() for p in (events, manual, prices) if p is not None}:
        raise InputError(f"--out {out} is one of the files that are read: choose another")
    workspace, path = Workspace.from_environment(), archive_path(archive)
    connection = connect(workspace, mode, path)
    gateway = connection.gateway
    sources = work.Sources(
        gateway.full_view() if mode == "replay" else gateway.live(),
        {} if prices is None else work.load_prices(prices),
        {} if manual is None else work.load_manual(manual),
    )
    try:
        found = work.resolve(events, out, sources, workspace.clock.now())
    finally:
        connection.close()
    counts = dict(found.states.most_common())
    if json:
        emit(
            {
                "out": str(out),
                "events": sum(counts.values()),
                "states": counts,
                "early": found.early,
                "changed": found.changes,
                "conflicts": found.conflicts,
                "problems": found.problems,
            }
        )
    else:
        said = ", ".join(f"{n:,} {state}" for state, n in counts.items())
        early = f"; {found.early:,} ended before their date" if found.early else ""
        print(f"{out}: {sum(counts.values()):,} events: {said}{early}")
        print(f"changed since the last time: {len(found.changes):,} ({work.history_of(out)})")
    for text in [*work.conflict_lines(found.conflicts), *found.problems][:MOST]:
        note(text if text in found.problems else f"conflict: {text}")
    return EXIT_PARTIAL if found.conflicts or found.problems else EXIT_OK
