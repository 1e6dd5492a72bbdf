"""`beforehand world import …`: one command per file format."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import AssumeUtc
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.clock import SystemClock, parse_instant
from beforehand.config import Home
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.records.record import Record
from beforehand.sources.catalogue import RECORDED
from beforehand.store.archive.writer import ImportReport
from beforehand.world.importers import Rejects
from beforehand.world.importers import forecastbench as read_forecastbench
from beforehand.world.importers import predictions as read_predictions
from beforehand.world.importers import prices as read_prices
from beforehand.world.importers import venues as read_venues
from beforehand.world.importers.named import OWN, Read, added, reader, store_files

Files = Annotated[list[Path], Parameter(help="Files to import, plain or .gz.")]
SkipBad = Annotated[
    bool,
    Parameter(
        name="--skip-bad",
        negative="",
        help="Leave bad lines out and write them beside the archive.",
    ),
]
Licence = Annotated[
    str | None,
    Parameter(
        help="Licence of what the files hold (SPDX: CC-BY-4.0); exports and reports state it."
    ),
]
Venue = Annotated[str, Parameter(help="The venue for ids that do not name one.")]
FetchedAt = Annotated[
    str | None, Parameter(help="When the response was fetched (ISO 8601 with zone) [now].")
]
MarketId = Annotated[
    str | None, Parameter(help="VENUE:id, for responses that do not name their market.")
]
Records = Iterator[Record]
FORECASTBENCH_LICENCE = "CC-BY-SA-4.0"
"""Of its published sets."""


def markets(
    files: Files,
    /,
    *,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import market histories (JSONL): texts, prices, resolutions."""
    return _import("markets", files, OWN["markets"], archive, skip_bad, json, licence)


def documents(
    files: Files,
    /,
    *,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import dated documents (JSONL), known at captured_at."""
    return _import("documents", files, OWN["documents"], archive, skip_bad, json, licence)


def prophet(
    files: Files,
    /,
    *,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import Prophet Arena's dataset (events.jsonl, or the tar.gz): a market for each outcome, its
    crowd prices, its sources as documents, and how it ended."""
    return _import("prophet", files, OWN["prophet"], archive, skip_bad, json, licence)


def futuresim(
    files: Files,
    /,
    *,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import FutureSim's custom data (JSONL): questions with `qid`, and a day's articles."""
    return _import("futuresim", files, OWN["futuresim"], archive, skip_bad, json, licence)


def forecastbench(
    files: Files,
    /,
    *,
    published_at: Annotated[
        str | None,
        Parameter(help="When the resolution set was published (ISO 8601 with zone) [now]."),
    ] = None,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import ForecastBench question sets and resolution sets (JSON)."""
    at = _instant("--published-at", published_at)

    def reader(path: Path, rejects: Rejects, notes: dict[str, int], now: datetime) -> Records:
        return read_forecastbench.read(path, rejects, notes, at or now)

    return _import(
        "forecastbench", files, reader, archive, skip_bad, json, licence or FORECASTBENCH_LICENCE
    )


def polymarket(
    files: Files,
    /,
    *,
    fetched_at: FetchedAt = None,
    market: MarketId = None,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import recorded Polymarket responses: markets, events, books, price histories (JSON)."""
    read = _venue_reader("polymarket", fetched_at, market)
    return _import("polymarket", files, read, archive, skip_bad, json, licence)


def kalshi(
    files: Files,
    /,
    *,
    fetched_at: FetchedAt = None,
    market: MarketId = None,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import recorded Kalshi responses: markets, events, order books, candles (JSON)."""
    read = _venue_reader("kalshi", fetched_at, market)
    return _import("kalshi", files, read, archive, skip_bad, json, licence)


def prices(
    files: Files,
    /,
    *,
    venue: Venue = "LOCAL",
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import prices from CSV with the columns id,time,price (bid, ask, volume, known_at)."""
    return _import(
        "prices",
        files,
        lambda path, rejects, *_: read_prices.read(path, rejects, venue),
        archive,
        skip_bad,
        json,
        licence,
    )


def predictions(
    files: Files,
    /,
    *,
    venue: Venue = "LOCAL",
    assume_utc: AssumeUtc = False,
    archive: ArchivePath = None,
    skip_bad: SkipBad = False,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import PredictionRecord and ResolutionRecord JSONL; forecasts replay as recorded:NAME."""
    return _import(
        "predictions",
        files,
        lambda path, rejects, *_: read_predictions.read(path, rejects, venue, assume_utc),
        archive,
        skip_bad,
        json,
        licence,
    )


def _recorded(service: str) -> Callable[..., int]:
    """The import command of a service; its recorded answers name their own subject."""

    def read(
        files: Files,
        /,
        *,
        fetched_at: FetchedAt = None,
        archive: ArchivePath = None,
        skip_bad: SkipBad = False,
        licence: Licence = None,
        json: Json = False,
    ) -> int:
        """Import recorded answers of the service (JSON)."""
        reader = _venue_reader(service, fetched_at, None)
        return _import(service, files, reader, archive, skip_bad, json, licence)

    return read


def _added(name: str) -> Callable[..., int]:
    """The import command of another package."""

    def read(
        files: Files,
        /,
        *,
        archive: ArchivePath = None,
        skip_bad: SkipBad = False,
        licence: Licence = None,
        json: Json = False,
    ) -> int:
        """Import files of another package's format."""
        return _import(name, files, reader(name), archive, skip_bad, json, licence)

    return read


def __getattr__(name: str) -> Callable[..., int]:
    """`world import NAME`, for every source that reads its recorded answers, and for every importer
    of another package."""
    if name in RECORDED:
        return _recorded(name)
    if name in added():
        return _added(name)
    raise AttributeError(name)


def _venue_reader(venue: str, fetched_at: str | None, market: str | None) -> Read:
    at = _instant("--fetched-at", fetched_at)
    return lambda path, rejects, _, now: read_venues.read(venue, path, rejects, at or now, market)


def _instant(option: str, text: str | None) -> datetime | None:
    try:
        return parse_instant(text) if text else None
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _import(
    importer: str,
    files: list[Path],
    read: Read,
    archive: Path | None,
    skip_bad: bool,
    json: bool,
    licence: str | None,
) -> int:
    target = archive_path(archive)
    reports: list[ImportReport] = []
    try:
        for report in store_files(importer, files, read, target, SystemClock(), skip_bad, licence):
            reports.append(report)
            if not json:
                _say(report, licence)
    except InputError:
        if reports:
            note(f"stored before this: {', '.join(r.source for r in reports)}")
        raise
    if json:
        emit({"archive": str(target), "imports": [report.wire() for report in reports]})
    partial = any(report.rejects or report.conflicts for report in reports)
    return EXIT_PARTIAL if partial else EXIT_OK


def _say(report: ImportReport, licence: str | None) -> None:
    new = ", ".join(f"{n:,} {kind}" for kind, n in sorted(report.new.items())) or "nothing new"
    print(f"{report.source}: {new}")
    if licence is not None and not report.new:
        print(f"  the licence of before stays ({licence} is not kept): `world prune` takes it out")
    if report.same:
        print("  already there: " + ", ".join(f"{n:,} {k}" for k, n in sorted(report.same.items())))
    for name, n in report.notes.items():
        print(f"  {name.replace('_', ' ')}: {n:,}")
    for conflict in report.conflicts[:5]:
        note(f"  {conflict}")
    if report.rejects:
        note(f"  {len(report.rejects):,} lines rejected, listed in {report.rejects_file}")
        for reject in report.rejects[:3]:
            note(f"    {reject.sentence()}")


def dump(
    files: Annotated[
        list[Path], Parameter(help="Parquet files, or folders of them: all of one dump together.")
    ],
    /,
    *,
    every: Annotated[
        str, Parameter(help="At most one price of a market in this time: 1m, 1h, 1d.")
    ] = "1h",
    gap: Annotated[
        str, Parameter(help="A time of this length without any row of a venue is a gap.")
    ] = "1h",
    venue: Venue = "LOCAL",
    timezone: Annotated[
        str | None, Parameter(help="That of times that state none, such as America/New_York.")
    ] = None,
    archive: ArchivePath = None,
    licence: Licence = None,
    json: Json = False,
) -> int:
    """Import a dump of a venue: Kalshi's or Polymarket's trades and markets, order books, or trades
    and quotes with an id, a time and a price. What a file holds is told by its columns."""
    from beforehand.front.progress import progress
    from beforehand.jobs.backtest.grid import parse_interval
    from beforehand.world.importers.dumps import Order, store_dump

    order = Order(parse_interval(every), parse_interval(gap), venue, timezone)
    target = archive_path(archive)
    with progress("dump") as update:
        report = store_dump(
            files, target, SystemClock(), order, licence, lambda step: update(step, 0, 0)
        )
    if json:
        emit({"archive": str(target), "imports": [report.wire()]})
    else:
        _say(report, licence)
        for one in report.coverage:
            gaps = f"{len(one['gaps']):,} gaps" if one["gaps"] else "no gap"
            print(f"  {one['venue']}: {one['first']} to {one['last']}, {gaps} of {gap} or more")
    return EXIT_PARTIAL if report.conflicts else EXIT_OK


def market_data(
    files: Annotated[list[Path], Parameter(help="CSV or Parquet with symbol and timestamp.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Load quotes into the market-data table of this home (tool run_query). Rejected rows are
    listed; the exit code is then 3."""
    from beforehand.store.market_data.load import load

    home = Home.from_environment()
    reports = [load(home.market_data, file, SystemClock().now()) for file in files]
    if json:
        emit({"table": str(home.market_data), "loads": [report.wire() for report in reports]})
    for report in reports if not json else ():
        said = "loaded before" if report.already else f"{report.loaded:,} rows loaded"
        same = f", {report.same:,} were there already" if report.same else ""
        print(f"{report.source}: {said}{same}, {report.rejected:,} rejected")
        if report.undated:
            note(
                f"{report.undated:,} rows have no created_at: they count as created now, and no "
                "earlier --as-of sees them"
            )
        if report.ignored:
            note(f"unknown columns were ignored: {', '.join(report.ignored)}")
        for reject in report.rejects[:10]:
            note(reject.sentence())
        if report.rejects_file:
            note(f"rejected rows: {report.rejects_file}")
    return EXIT_PARTIAL if any(report.rejected for report in reports) else EXIT_OK
