"""`beforehand bench live|gap|rounds`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import Draws, LimitFlags, RunId, Seed, run_limits
from beforehand.cli.output import ArchivePath, Json, archive_path, emit
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, span, table
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, InputError
from beforehand.store.run_folder import RunFolder, open_run

Round = Annotated[list[Path], Parameter(help="The round's folder. May be repeated.")]
Log = Annotated[Path | None, Parameter(help="The sealed log [sealed.jsonl beside the rounds].")]
Like = Annotated[str, Parameter(help="The backtest whose configuration it is, or latest.")]


def live(
    run: Like,
    /,
    *,
    round: Round,
    log: Log = None,
    run_id: RunId = None,
    limit_flags: LimitFlags | None = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Let the forecasters of a backtest answer open events, and seal what they say.

    Models, mode, simulations and searches are those of the backtest. The forecasts go to
    predictions.jsonl in the round's folder and, sealed, to a log beside the rounds. Publish the
    digest that is printed. Once events end: `bench resolve`, then `bench gap`.
    """
    from beforehand.engine.runs import start
    from beforehand.front.reporting import reporting
    from beforehand.jobs.benchmark import live as work
    from beforehand.jobs.benchmark.benchmark_job import PredictRequest
    from beforehand.jobs.benchmark.sealed import records_of
    from beforehand.jobs.checks import folder_for
    from beforehand.store import seals

    if len(round) != 1:
        raise InputError("name one --round at a time")
    workspace = Workspace.from_environment()
    (folder,) = work.frozen(round)
    found = work.configuration_of(_run(run, workspace))
    made, sealed = folder / work.PREDICTIONS, log or folder.resolve().parent / work.LOG
    events, names = folder / "events.jsonl", ",".join(found.forecasters)
    request = PredictRequest(
        archive_path(archive).resolve(), events.resolve(), names, made.resolve(),
        run_limits(limit_flags), folder_for(names), asking=found.asking,
    )  # fmt: skip
    with reporting("live") as report_to:
        finished = start(request, workspace, run_id, report_to)
    lines = seals.seal(sealed, records_of(made), workspace.clock.now())
    checked = seals.check(seals.read_seals(sealed))
    counts = finished.summary
    if json:
        emit(
            {
                "run_id": finished.folder.run_id,
                "out": str(made),
                "counts": counts,
                "log": str(sealed),
                "sealed": len(lines),
                "head": checked.head,
            }
        )
    else:
        print(f"{made}: {counts['predictions']:,} forecasts of {counts['events']:,} events")
        print(f"{sealed}: {len(lines):,} sealed, {checked.n:,} in all")
        print(f"publish this digest: {checked.head}")
    return EXIT_OK


def gap(
    run: Like,
    /,
    *,
    round: Round,
    log: Log = None,
    seed: Seed = 0,
    draws: Draws = 2000,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """How much worse, or better, forecasters are live than in their backtest, with the interval.

    Skill against the market on both sides: live each forecast stands beside the price when it was
    sealed. Only what was sealed before the end counts.
    """
    from beforehand.jobs.benchmark import live as work
    from beforehand.jobs.benchmark.sealed import open_log
    from beforehand.jobs.checks import settings

    workspace = Workspace.from_environment()
    folders = list(work.frozen(round))
    chosen = settings(seed, draws, 0, mark="--")
    opened = open_log(log or folders[0].resolve().parent / work.LOG, archive_path(archive))
    before = work.of_backtest(_run(run, workspace))
    now, told = work.of_rounds(folders, opened, chosen)
    found = work.gaps(before, now, chosen)
    if not found:
        raise InputError(
            f"no forecaster of these rounds is in run {run}: live there are "
            f"{', '.join(now) or 'none'}, in the run {', '.join(before) or 'none'}"
        )
    if json:
        emit({"gaps": found, "rounds": told})
        return EXIT_OK
    names = ("live", "backtest", "gap", "95 %", "live n", "backtest n")
    header = [("forecaster", "left"), *((name, "right") for name in names), ("", "left")]
    rows = [
        [
            one["forecaster"],
            figure(one["live"]),
            figure(one["backtest"]),
            figure(one["gap"]),
            span(one["ci"]),
            f"{one['live_questions']:,}",
            f"{one['backtest_questions']:,}",
            ("worse live" if one["gap"] < 0 else "better live") if one["told"] else "no gap shown",
        ]
        for one in found
    ]
    out = screen()
    out.print(table("skill against the market", header, rows))
    out.print("(the market's Brier score less the forecaster's, a vote a question)")
    for one in told:
        if not one["scored"]:
            out.print(f"{one['round']}: nothing has resolved yet", soft_wrap=True)
    return EXIT_OK


def _run(name: str, workspace: Workspace) -> RunFolder:
    from beforehand.runs.query import find_journal, find_run

    home = workspace.home
    return open_run(home.runs, find_run(name, home, find_journal(workspace), scored=True))


def rounds(
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder of the rounds [data/rounds under BEFOREHAND_HOME].")
    ] = None,
    json: Json = False,
) -> int:
    """Every round: its events, what was sealed, what has resolved; and the log beside them."""
    from beforehand.cli.output import plain_table
    from beforehand.jobs.benchmark.standing import log_of, rounds_in

    folder = out or Workspace.from_environment().home.root / "data" / "rounds"
    found, (_, state) = rounds_in(folder), log_of(folder)
    if json:
        emit({"rounds": found, "log": state})
    elif not found:
        print(f"no rounds in {folder} yet: `beforehand bench crawl` makes one")
    else:
        header = ["round", "frozen", "events", "sealed", "resolved", "by", ""]
        rows = [
            [
                one["name"],
                (one["made_at"] or "")[:16].replace("T", " "),
                f"{one['events']:,}",
                f"{one['sealed']:,}",
                f"{one['resolved']:,}",
                ", ".join(one["predictors"]),
                one["problem"] or ("CHANGED AFTER IT WAS FROZEN" if one["changed"] else ""),
            ]
            for one in found
        ]
        print(plain_table([header, *rows]))
        head = state["head"] or "none"
        print(f"log: {state['lines']:,} sealed, digest {head}" if state["lines"] else "log: none")
        for problem in state["problems"][:5]:
            print(f"NOT AS SEALED: {problem}")
    sound = not state["problems"] and not any(one["changed"] or one["problem"] for one in found)
    return EXIT_OK if sound else EXIT_FAILED
