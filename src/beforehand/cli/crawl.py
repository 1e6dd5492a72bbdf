"""`beforehand bench crawl`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.ingest import Filters
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, InputError
from beforehand.front.progress import progress
from beforehand.gateway.opening import Connection, connect
from beforehand.gateway.worlds.settled import VENUES
from beforehand.jobs.backtest.grid import parse_interval
from beforehand.jobs.benchmark import crawl as work


def crawl(
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder of the rounds [data/rounds under BEFOREHAND_HOME].")
    ] = None,
    every: Annotated[
        str | None,
        Parameter(help="Go on: a round at the beginning of each interval (1d, 6h) [one round]."),
    ] = None,
    times: Annotated[
        int | None, Parameter(help="With --every: stop after so many [no limit].")
    ] = None,
    textless: Annotated[
        bool, Parameter(negative="", help="Keep markets without a text on record.")
    ] = False,
    filters: Filters | None = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """List every open market of Polymarket and Kalshi, keep it on record, and freeze a round.

    A round of today has the name of the day. A market of an earlier round is not asked again, nor
    is its question in other words. No key is needed. You can stop it at any time: the same command
    goes on, and where today's round is frozen it says so and asks nobody. For a round a day, let it
    run with --every 1d, or give cron this line:

        0 6 * * *  cd HOME && beforehand bench crawl
    """
    chosen = filters or Filters()
    if times is not None and (times < 1 or every is None):
        raise InputError("--times must be at least 1, and goes with --every")
    workspace, path = Workspace.from_environment(), archive_path(archive)
    interval = parse_interval(every or "1d")
    folder = out or workspace.home.root / "data" / "rounds"
    order = work.Order(_venues(chosen), folder, chosen.wanted(), textless, interval)
    order.check()

    def opened() -> Connection:
        return connect(workspace, "record", path)

    made = []
    with progress("crawl") as update:
        for found in work.repeatedly(
            opened,
            order,
            workspace.home,
            path,
            workspace.clock,
            times if every else 1,
            note,
            update,
        ):
            made.append(found)
            if not json:
                print(_said(found))
    if json:
        emit({"rounds": [one.wire() for one in made]})
    return EXIT_OK


def _venues(chosen: Filters) -> tuple[str, ...]:
    found = [VENUES.get(name.lower(), "") for name in chosen.venue or VENUES]
    if "" in found:
        raise InputError(f"--venue: open markets are listed by {', '.join(VENUES)}")
    return tuple(found)


def _said(found: work.Crawled) -> str:
    frozen = found.round
    if not found.new:
        other = ", under other bounds" if found.differs else ""
        made = f"{frozen['made_at']}, {frozen['events']:,} events{other}"
        return f"{found.folder}: frozen already at {made}; --out names another folder"
    left = ", ".join(f"{n:,} {why}" for why, n in frozen["left_out"].items())
    return (
        f"{found.folder}: {frozen['events']:,} events of {found.listed:,} open markets; left out: "
        f"{left or 'none'}\nfrozen: {frozen['digest']}"
    )
