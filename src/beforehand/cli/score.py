"""`beforehand score FILE`: a verdict on your own forecasts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from beforehand.cli.options import BetFlags, Draws, Margin, PlaceboDraws, RunId, Seed, bet_rules
from beforehand.cli.output import ArchivePath, Json, Verbose, archive_path, emit, note
from beforehand.cli.tables import print_result
from beforehand.clock import parse_instant
from beforehand.config import Workspace
from beforehand.engine.runs import keep_seal
from beforehand.errors import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.forecast.files import forecast_file
from beforehand.jobs import score_file
from beforehand.jobs.checks import settings
from beforehand.store.archive.reader import Archive


@Parameter(name="*")
@dataclass
class Reading:
    """How the file is to be read, and whether to score it."""

    columns: Annotated[
        str | None, Parameter(help="The file's own names: id=market_id,time=when,probability=p.")
    ] = None
    timezone: Annotated[
        str | None, Parameter(help="The zone of times that state none: Europe/Berlin.")
    ] = None
    percent: Annotated[
        bool, Parameter(negative="", help="The probabilities are in percent, from 0 to 100.")
    ] = False
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        Parameter(help="What comes first in dates such as 05.01.2026."),
    ] = None
    leave_out: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=False,
            help="Rows not to look at; what is left is a variant of its own: venue=, "
            "category=, event=, id=, before=DATE or after=DATE (of the forecast). May be repeated: "
            "--leave-out A --leave-out B. Without what event= or id= names, nothing is said to "
            "beat the market.",
        ),
    ] = ()
    check: Annotated[
        bool,
        Parameter(
            negative="",
            help="Only say which rows can be scored: no score, no run, no variant counted.",
        ),
    ] = False


def score(
    file: Annotated[
        Path, Parameter(help="CSV with id,time,probability (forecaster), or JSONL; .gz too.")
    ],
    /,
    *,
    archive: ArchivePath = None,
    name: Annotated[str | None, Parameter(help="The forecaster's name [the file's].")] = None,
    training_cutoff: Annotated[
        str | None, Parameter(help="When the model's training ended (ISO 8601).")
    ] = None,
    reading: Reading | None = None,
    seed: Seed = 0,
    draws: Draws = 2000,
    placebo: PlaceboDraws = 200,
    margin: Margin = None,
    run_id: RunId = None,
    bet_flags: BetFlags | None = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Score your own probabilities against the market, at the times you state.

    Rows that cannot be scored are counted and listed with the reason (exit code 3).
    """
    workspace = Workspace.from_environment()
    try:
        cutoff = parse_instant(training_cutoff) if training_cutoff else None
    except ValueError as error:
        raise InputError(f"--training-cutoff: {error}") from None
    world = Archive(archive_path(archive))
    how = reading or Reading()
    how_read = forecast_file.reading(how.columns, how.timezone, how.percent, "--", how.dates)
    stated = forecast_file.read_file(file, name, how_read)
    rules = bet_rules(bet_flags)
    if how.check:
        return _check(stated, world, json)
    scored = score_file.run(
        stated,
        world,
        workspace.home.runs,
        workspace.home.trials,
        run_id=run_id,
        settings=settings(seed, draws, placebo, rules, "--", margin),
        training_cutoff=cutoff,
        leave_out=how.leave_out,
    )
    keep_seal(workspace, scored.folder, "score")
    report = scored.folder.path / "report.html"
    if json:
        emit({**scored.summary, "report": str(report)})
    else:
        print(f"run {scored.folder.run_id}")
        print_result(scored.summary, report, verbose)
    _notes(stated)
    if scored.summary["leaks"]["admitted_after_t"]:
        return EXIT_FAILED
    return EXIT_PARTIAL if scored.rejected.count else EXIT_OK


def _check(stated: forecast_file.Stated, archive: Archive, json: bool) -> int:
    """Say which rows of a file can be scored, and nothing of how good they are."""
    if not stated.rows:
        raise InputError(f"{stated.name} has a header and no rows: nothing can be scored")
    found = score_file.check(stated, archive)
    if json:
        emit(found)
    else:
        left = stated.rows - found["scored"]
        print(f"{found['scored']:,} of {stated.rows:,} rows can be scored, {left:,} cannot")
        read = (
            "no row"
            if not found["columns"]
            else ", ".join(f"{theirs!r} as {ours}" for ours, theirs in found["columns"].items())
        )
        print(f"read {read}")
        for name, row in found["forecasters"].items():
            print(f"{name}: {row['n']:,} of {row['asked']:,} forecasts, {row['markets']:,} markets")
        for one in found["examples"]:
            print(
                f"line {one['line']}: {one['forecaster']} said {one['probability']:g} of "
                f"{one['id']} at {one['time']}, when the market stood at {one['market']:g}"
            )
        print("nothing was scored, nothing was written, no variant was counted")
    _notes(stated)
    return EXIT_PARTIAL if stated.rejected.count else EXIT_OK


def _notes(stated: forecast_file.Stated) -> None:
    """Say which rows were left out, and why, and how times without a time of day were read."""
    rejected, bare = stated.rejected, stated.bare_dates
    for reason, lines in sorted(rejected.reasons.items()):
        first = ", ".join(str(n) for n in lines[:8])
        more = "…" if len(lines) > 8 else ""
        note(f"not scored: {len(lines):,} × {reason} (lines {first}{more})")
    for text in rejected.unknown_ids:
        note(text)
    for text in stated.remarks:
        note(text)
    if stated.unread:
        note(f"columns that were not read: {', '.join(stated.unread)}")
    if bare:
        note(
            f"{bare:,} times are dates without a time of day: each was taken as the end of that "
            "day (UTC), with that day's price as the market's. State times where you know them"
        )
