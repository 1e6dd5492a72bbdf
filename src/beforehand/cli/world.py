"""`beforehand world simulate|record|prune|compact|verify`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, confirm, emit, note
from beforehand.clock import SystemClock
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.front.progress import progress
from beforehand.jobs.checks import market_names
from beforehand.store.archive.reader import Archive
from beforehand.world.render import store_world
from beforehand.world.simulate import SimConfig

if TYPE_CHECKING:
    from beforehand.jobs.record import Order


def simulate(
    *,
    seed: Annotated[
        int, Parameter(help="Seed of the world; the same seed gives the same world.")
    ] = 0,
    dates: Annotated[int, Parameter(help="Resolution dates, a week apart.")] = 40,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Make a simulated world with known truth and store it as an archive."""
    if not 1 <= dates <= 5000:
        raise InputError(f"--dates must lie between 1 and 5000, not {dates}")
    if seed < 0:
        raise InputError(f"--seed must not be negative, not {seed}")
    config = replace(SimConfig(), seed=seed, dates=dates)
    report = store_world(config, archive_path(archive), SystemClock())
    if json:
        emit(report.wire())
    else:
        made = ", ".join(f"{n:,} {kind}" for kind, n in sorted(report.new.items()))
        print(f"{archive_path(archive)}: {made or 'this world is there already'}")
    return EXIT_OK


def record(
    *,
    markets: Annotated[
        str | None, Parameter(help="Market ids (VENUE:id), separated by commas, or a file of them.")
    ] = None,
    news: Annotated[
        list[str] | None,
        Parameter(negative="", help="A Google News search; EDITION|words for other editions."),
    ] = None,
    what: Annotated[
        str, Parameter(help="What to record: texts, prices, books, history (of markets), news.")
    ] = "texts,prices,books,history,news",
    every: Annotated[str, Parameter(help="Time between rounds: 1m, 10m, 1h.")] = "10m",
    rounds: Annotated[int | None, Parameter(help="Stop after this many [no limit].")] = None,
    max_mb: Annotated[int, Parameter(help="Stop when the archive has this size.")] = 1000,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Record chosen markets and news from the live services into the archive, at intervals.

    You can stop it with Ctrl-C and start it again at any time: nothing that was fetched is lost.
    """
    from beforehand.gateway.opening import connect
    from beforehand.jobs import record as work

    workspace, path = Workspace.from_environment(), archive_path(archive)
    order, done = _order(markets, news, what, every, rounds, max_mb), work.Recording()
    try:
        order.check()
        connection = connect(workspace, "record", path)
        with progress("record") as update:
            work.record(
                connection,
                order,
                workspace.home,
                path,
                workspace.clock,
                done,
                say=note,
                progress=update,
            )
    finally:
        if json:
            emit({"archive": str(path), **done.wire()})
        elif done.rounds or done.exchanges:
            print(
                f"{path}: {done.rounds} rounds, {done.exchanges} exchanges, "
                f"{len(done.failures)} failures; {done.stopped}"
            )
    if done.failures:
        return EXIT_PARTIAL if done.exchanges else EXIT_FAILED
    return EXIT_OK


def _order(
    markets: str | None,
    news: list[str] | None,
    what: str,
    every: str,
    rounds: int | None,
    max_mb: int,
) -> "Order":
    """What to record and how often; InputError names the flag that is wrong."""
    from beforehand.jobs.backtest.grid import parse_interval
    from beforehand.jobs.record import WHAT, Order
    from beforehand.sources.google_news import build

    names = market_names(markets) if markets else []
    feeds = []
    for text in news or ():
        edition, bar, words = text.rpartition("|")
        feeds.append(build(words, edition=edition if bar else "US"))
    chosen = frozenset(part.strip() for part in what.split(",") if part.strip())
    if unknown := sorted(chosen - set(WHAT)):
        raise InputError(f"--what {unknown[0]!r}: one or more of {', '.join(WHAT)}")
    if rounds is not None and rounds < 1:
        raise InputError(f"--rounds must be at least 1, not {rounds}")
    if max_mb < 1:
        raise InputError(f"--max-mb must be at least 1, not {max_mb}")
    interval = parse_interval(every)
    return Order(tuple(names), tuple(feeds), chosen, interval, rounds, max_mb * 1_000_000)


def prune(
    *,
    imports: Annotated[
        list[str] | None,
        Parameter(name="--import", negative="", help="Take this import out (see `world info`)."),
    ] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask.")] = False,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Delete files that no import lists, and take whole imports out of the archive.

    A run made on the archive as it was stays and can be verified, but it cannot be made again.
    """
    from beforehand.store.archive.manifest import need_manifest
    from beforehand.store.archive.writer import ArchiveWriter

    path = archive_path(archive)
    need_manifest(path)
    if imports and not yes:
        confirm(f"take {', '.join(imports)} out of {path}? There is no undo.")
    done = ArchiveWriter(path).prune(imports or ())
    if json:
        emit({"archive": str(path), **vars(done)})
    else:
        counts = ", ".join(f"{n:,} {kind}" for kind, n in done.records.items()) or "no records"
        print(
            f"{path}: {counts} taken out; files deleted: {done.files} ({done.bytes / 1e6:,.1f} MB)"
        )
    return EXIT_OK


def compact(*, archive: ArchivePath = None, json: Json = False) -> int:
    """Put what many small imports stored into few files, as after months of `world record`.

    The archive holds the same, byte for byte, and has the same digest: runs made on it can be
    verified and made again. The files of before are left to those who read them now: `world prune`
    deletes them.
    """
    from beforehand.store.archive.manifest import need_manifest
    from beforehand.store.archive.writer import ArchiveWriter

    path = archive_path(archive)
    need_manifest(path)
    done = ArchiveWriter(path).compact()
    if json:
        emit({"archive": str(path), **vars(done)})
    elif done.files == done.files_before:
        print(f"{path}: nothing to do; {done.segments:,} segments lie in {done.files:,} files")
    else:
        print(
            f"{path}: {done.segments:,} segments lie in {done.files:,} files now, before in "
            f"{done.files_before:,}. `beforehand world prune` deletes the files of before."
        )
    return EXIT_OK


def verify(*, archive: ArchivePath = None, json: Json = False) -> int:
    """Check every stored byte against its digest, and every record against its schema."""
    path = archive_path(archive)
    opened = Archive(path)
    problems = opened.verify()
    if json:
        emit(
            {
                "archive": str(path),
                "digest": opened.digest,
                "intact": not problems,
                "segments": len(opened.manifest["segments"]),
                "problems": problems,
                "strays": opened.strays(),
            }
        )
    else:
        for problem in problems:
            note(problem)
        for stray in opened.strays():
            note(f"segments/{stray}: in no import (harmless; `world prune` deletes it)")
        total = sum(opened.counts().values())
        print(
            f"{path}: {len(problems)} problems"
            if problems
            else f"{path}: intact, {len(opened.manifest['segments'])} segments, {total:,} records"
        )
    return EXIT_FAILED if problems else EXIT_OK
