"""`beforehand world fetch`: settled markets of a venue, and public data sets."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.imports import FORECASTBENCH_LICENCE
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.clock import SystemClock, parse_instant
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.front.progress import progress
from beforehand.jobs import public_sets
from beforehand.store.archive.manifest import digest_of, need_manifest

WHAT = ("polymarket", "kalshi", "forecastbench")


def fetch(
    what: Annotated[str, Parameter(help="What to fetch: polymarket, kalshi, or forecastbench.")],
    /,
    *,
    resolved: Annotated[
        bool, Parameter(negative="", help="Settled markets (the only kind that is fetched).")
    ] = True,
    since: Annotated[
        str | None, Parameter(help="The first day that counts: YYYY-MM-DD [30 days ago].")
    ] = None,
    until: Annotated[str | None, Parameter(help="Up to this day, not included [now].")] = None,
    limit: Annotated[int, Parameter(help="At most so many markets.")] = 100,
    min_volume: Annotated[
        float, Parameter(help="Smallest volume: dollars on Polymarket, contracts on Kalshi.")
    ] = 1000.0,
    series: Annotated[
        str | None, Parameter(help="Kalshi: markets of this series alone (KXFED).")
    ] = None,
    archive: ArchivePath = None,
    due: Annotated[
        str, Parameter(help="ForecastBench: forecast due date, YYYY-MM-DD.")
    ] = "2025-10-26",
    nightly: Annotated[
        bool,
        Parameter(
            negative="",
            help="ForecastBench: every night's version of the resolution set from --since to "
            "--until, imported as a price history.",
        ),
    ] = False,
    kind: Annotated[str, Parameter(help="ForecastBench: question set, llm or human.")] = "llm",
    out: Annotated[Path | None, Parameter(help="ForecastBench: folder [data/downloads].")] = None,
    base_url: Annotated[
        str | None, Parameter(help="ForecastBench: a mirror of the datasets folder.")
    ] = None,
    commits_url: Annotated[
        str | None, Parameter(help="ForecastBench: a mirror of the list of commits.")
    ] = None,
    sha256: Annotated[
        list[str] | None,
        Parameter(help="ForecastBench: expected digests (question set, resolution set)."),
    ] = None,
    json: Json = False,
) -> int:
    """Fetch settled markets (texts, price histories, endings) from Polymarket or Kalshi into the
    archive, or ForecastBench's public sets.

    No key is needed. You can stop it at any time: the same command goes on where it stopped.
    """
    if what not in WHAT:
        raise InputError(f"{what!r} cannot be fetched: choose {', '.join(WHAT)}")
    if what == "forecastbench":
        if nightly:
            return _nights(due, since, until, out, base_url, commits_url, archive, json)
        return _sets(due, kind, out, base_url, sha256 or (), json)
    if nightly:
        raise InputError("--nightly is ForecastBench's")
    return _settled(what, since, until, limit, min_volume, series, archive, json)


def _settled(
    what: str,
    since: str | None,
    until: str | None,
    limit: int,
    min_volume: float,
    series: str | None,
    archive: Path | None,
    json: bool,
) -> int:
    from beforehand.gateway.opening import connect
    from beforehand.gateway.worlds.settled import VENUES, Settled
    from beforehand.jobs.fetch import fetch as work

    if limit < 1:
        raise InputError(f"--limit must be at least 1, not {limit}")
    workspace, path = Workspace.from_environment(), archive_path(archive)
    now = workspace.clock.now()
    first, last = _span(since, until, now)
    wanted = Settled(VENUES[what], first, last, min_volume, series)
    wanted.check()
    connection = connect(workspace, "record", path)
    with progress("fetch") as update:
        done = work(connection, wanted, limit, workspace.home, path, note, update)
    held = need_manifest(path)["segments"] if path.exists() else ()
    if json:
        emit({"archive": str(path), "digest": digest_of(held), **done.wire()})
    else:
        total = done.new + done.present
        print(
            f"{path}: {_count(total, 'settled market')} ({done.new} new), "
            f"{_count(done.prices, 'new price')}, {done.void} void, "
            f"{done.without_prices} without prices; digest {digest_of(held)[:16]}"
        )
        if done.more:
            note(f"there are more: raise --limit {limit}, or move --since")
        if total:
            print(
                f"backtest them with: beforehand backtest run --archive {path} "
                "--forecasters market,drift --grade published"
            )
        elif not done.failures:
            note("none was found: lower --min-volume, or begin earlier with --since")
    left = done.left_out
    if left.unread:
        note(f"{_count(len(left.unread), 'listed market')} could not be read, and left out:")
    if left.without_result:
        named = ", ".join(left.without_result[:3])
        note(f"{_count(len(left.without_result), 'listed market')} without a result: {named}")
    for failure in [*left.unread[:5], *done.failures[:5]]:
        note(f"  {failure}" if failure in left.unread else failure)
    if done.failures or left.unread:
        return EXIT_PARTIAL if done.new + done.present else EXIT_FAILED
    return EXIT_OK


def _span(since: str | None, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    def instant(option: str, text: str | None, default: datetime) -> datetime:
        try:
            return parse_instant(text) if text else default
        except ValueError as error:
            raise InputError(f"{option}: {error}") from None

    last = min(instant("--until", until, now), now)
    first = instant("--since", since, last - timedelta(days=30))
    if first >= last:
        raise InputError("--since must lie before --until, and in the past")
    return first, last


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _folder(workspace: Workspace, out: Path | None) -> Path:
    return out or workspace.home.root / "data" / "downloads"


def _sets(
    due: str, kind: str, out: Path | None, base_url: str | None, sha256: Sequence[str], json: bool
) -> int:
    from beforehand.gateway.opening import open_traffic

    if kind not in ("llm", "human"):
        raise InputError(f"--kind must be llm or human, not {kind!r}")
    workspace = Workspace.from_environment()
    traffic, folder = open_traffic(workspace), _folder(workspace, out)
    base = base_url or public_sets.FORECASTBENCH
    found = public_sets.forecastbench(traffic, due, folder, base, kind, sha256)
    if json:
        emit({"files": found})
    else:
        for item in found:
            print(f"{item['path']}  sha256 {item['sha256']}")
        print(
            "import them with: beforehand world import forecastbench "
            + " ".join(item["path"] for item in found)
        )
    return EXIT_OK


def _nights(
    due: str,
    since: str | None,
    until: str | None,
    out: Path | None,
    base_url: str | None,
    commits_url: str | None,
    archive: Path | None,
    json: bool,
) -> int:
    from beforehand.gateway.opening import open_traffic
    from beforehand.world.importers import forecastbench as reader
    from beforehand.world.importers.named import store_files

    workspace, path = Workspace.from_environment(), archive_path(archive)
    first, last = _span(since, until, workspace.clock.now())
    with progress("nights") as update:
        found = public_sets.nights(
            open_traffic(workspace),
            due,
            _folder(workspace, out),
            first,
            last,
            base_url or public_sets.FORECASTBENCH,
            commits_url or public_sets.COMMITS,
            update,
        )
    if not found:
        raise InputError(
            f"no version of the resolution set of {due} was published in this time: check --due, "
            "--since and --until"
        )
    published = {night.path: night.published_at for night in found}
    reports = list(
        store_files(
            "forecastbench",
            [night.path for night in found],
            lambda file, rejects, notes, _: reader.read(file, rejects, notes, published[file]),
            path,
            SystemClock(),
            licence=FORECASTBENCH_LICENCE,
        )
    )
    stored = {
        "archive": str(path),
        "digest": digest_of(need_manifest(path)["segments"]),
        "nights": len(found),
        "downloaded": sum(night.new for night in found),
        "prices": sum(report.new.get("price", 0) for report in reports),
        "resolutions": sum(report.new.get("resolution", 0) for report in reports),
    }
    if json:
        emit(stored)
    else:
        print(
            "{archive}: {nights:,} nights ({downloaded:,} downloaded), {prices:,} new prices, "
            "{resolutions:,} new resolutions; digest {digest:.16}".format_map(stored)
        )
    return EXIT_OK
