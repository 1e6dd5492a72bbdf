"""`beforehand bench live|gap|rounds`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from beforehand.cli.options import LimitFlags, run_limits
from beforehand.cli.output import ArchivePath, Json, archive_path, emit
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, span, table
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, InputError
from beforehand.store.run_folder import RunFolder

if TYPE_CHECKING:
    from beforehand.jobs.benchmark.live import Counted, GapWire

Round = Annotated[list[Path], Parameter(help="The round's folder. May be repeated.")]
Log = Annotated[Path | None, Parameter(help="The sealed log [sealed.jsonl beside the rounds].")]
Like = Annotated[str, Parameter(help="The backtest whose configuration it is, or latest.")]


def live(
    run: Like,
    /,
    *,
    round: Round,
    log: Log = None,
    limit_flags: LimitFlags | None = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Let the forecasters of a backtest answer open events, and seal what they say.

    Models, mode, simulations and searches are those of the backtest. The forecasts go to the
    round's folder and, sealed, to a log beside the rounds. Each is asked once: the same command
    goes on where it was stopped, and where all is answered it asks nobody. Publish the digest that
    is printed. Once events end: `bench resolve`, then `bench gap`.
    """
    from beforehand.jobs.benchmark import live as work
    from beforehand.jobs.benchmark.rounds import frozen_round
    from beforehand.jobs.benchmark.sealed import records_of
    from beforehand.store import seals

    if len(round) != 1:
        raise InputError("name one --round at a time")
    workspace, folder = Workspace.from_environment(), round[0]
    frozen_round(folder)
    like = _run(run, workspace)
    made, sealed = folder / work.predictions_of(like.run_id), log or _log(folder)
    new = not made.is_file()
    counts = _answer(like, folder, made, archive, limit_flags, workspace) if new else {}
    lines = seals.seal(sealed, records_of(made), workspace.clock.now())
    checked = seals.check(seals.read_seals(sealed))
    if json:
        told = {"out": str(made), "counts": counts, "log": str(sealed), "sealed": len(lines)}
        emit({**told, "new": new, "head": checked.head})
        return EXIT_OK
    if new:
        print(f"{made}: {counts['predictions']:,} forecasts of {counts['events']:,} events")
    else:
        print(f"{made}: answered before; nobody was asked")
    print(f"{sealed}: {len(lines):,} sealed, {checked.n:,} in all")
    print(f"publish this digest: {checked.head}")
    return EXIT_OK


def _answer(
    like: RunFolder,
    folder: Path,
    made: Path,
    archive: Path | None,
    limit_flags: LimitFlags | None,
    workspace: Workspace,
) -> dict[str, Any]:
    """Ask, as a run of its own that can be resumed; how many forecasts there are."""
    from beforehand.engine.runs import resume, start
    from beforehand.front.reporting import reporting
    from beforehand.ids import check_segment, digest
    from beforehand.jobs.benchmark.benchmark_job import PredictRequest
    from beforehand.jobs.benchmark.live import configuration_of
    from beforehand.jobs.checks import folder_for
    from beforehand.runs.query import find_journal

    found, limits = configuration_of(like), run_limits(limit_flags)
    place = digest(str(folder.resolve()).encode())[:8]
    run_id = check_segment(f"live-{like.run_id}-{folder.resolve().name}-{place}"[:100])
    journal = find_journal(workspace)
    with reporting("live") as report_to:
        if journal is not None and journal.run(run_id) is not None:
            return dict(resume(workspace, run_id, limits.budget, report_to).summary)
        names = ",".join(found.forecasters)
        request = PredictRequest(
            archive_path(archive).resolve(), (folder / "events.jsonl").resolve(), names,
            made.resolve(), limits, folder_for(names), asking=found.asking,
        )  # fmt: skip
        return dict(start(request, workspace, run_id, report_to).summary)


def gap(
    run: Like,
    /,
    *,
    round: Round,
    log: Log = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """How much worse, or better, forecasters are live than in their backtest, with the interval.

    The gain on the market on both sides: live, every forecast in the sealed log stands beside the
    price when it was sealed, and open events count at their last price. Only what was sealed before
    the end counts. Whether a forecaster beats the market live may be looked at every day: the
    evidence (e-value) that it needs is stated, and the chance that it is ever reached without skill
    is 2.5 %.
    """
    from beforehand.gateway.gateway import Gateway
    from beforehand.gateway.worlds.recorded import RecordedWorld
    from beforehand.jobs.benchmark import live as work
    from beforehand.jobs.benchmark.sealed import whole_log
    from beforehand.store.archive.reader import Archive

    workspace = Workspace.from_environment()
    lines = whole_log(log or _log(round[0]))
    before = work.of_backtest(_run(run, workspace))
    gateway = Gateway(RecordedWorld(Archive(archive_path(archive))))
    now, told = work.of_rounds(round, lines, gateway)
    found = work.gaps(before, now)
    if not found:
        raise InputError(
            f"no forecaster of these rounds is in run {run}: live there are "
            f"{', '.join(now) or 'none'}, in the run {', '.join(before) or 'none'}"
        )
    if json:
        emit({"gaps": found, "rounds": told})
    else:
        _print_gaps(found, told)
    return EXIT_OK


def _print_gaps(found: Sequence["GapWire"], told: Sequence["Counted"]) -> None:
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
            one["too_few"]
            or (
                ("worse live" if one["gap"] < 0 else "better live")
                if one["told"]
                else "no gap shown"
            ),
        ]
        for one in found
    ]
    out = screen()
    out.print(table("gain on the market", header, rows))
    out.print("(the gain in Brier score on the market's price, marked at every price on record)")
    for row in found:
        said = "beats the market live" if row["beats_live"] else "is not shown to beat it live"
        out.print(
            f"{row['forecaster']} {said}: evidence {row['e_value']:.3g} of the "
            f"{row['e_value_needed']:g} that it needs, however often one looks", soft_wrap=True,
        )  # fmt: skip
    for one in told:
        late = f", {one['too_late']:,} sealed too late" if one["too_late"] else ""
        bare = f", {one['without_price']:,} without a price then" if one["without_price"] else ""
        out.print(
            f"{one['round']}: {one['scored']:,} sealed forecasts count; {one['resolved']:,} of "
            f"{one['events']:,} events have resolved{late}{bare}", soft_wrap=True,
        )  # fmt: skip


def _log(folder: Path) -> Path:
    from beforehand.jobs.benchmark.live import LOG

    return folder.resolve().parent / LOG


def _run(name: str, workspace: Workspace) -> RunFolder:
    from beforehand.runs.query import open_sealed

    return open_sealed(name, workspace)


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
