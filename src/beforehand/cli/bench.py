"""`beforehand bench ingest|predict|evaluate|forecastbench`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.text import Text

from beforehand.cli.options import (
    AssumeUtc,
    BetFlags,
    Draws,
    Fresh,
    LimitFlags,
    Margin,
    PlaceboDraws,
    RunId,
    Seed,
    bet_rules,
    run_limits,
)
from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note, scores_of
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, print_evaluation, print_result, table
from beforehand.config import Workspace
from beforehand.engine.runs import start
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.front.reporting import reporting
from beforehand.jobs.backtest.grid import parse_interval
from beforehand.jobs.benchmark import evaluation
from beforehand.jobs.benchmark.benchmark_job import BenchmarkRequest, PredictRequest
from beforehand.jobs.benchmark.evaluation import load_bets, parse_terms
from beforehand.jobs.benchmark.sealed import SealedLog, open_log
from beforehand.jobs.benchmark.stored import open_records
from beforehand.jobs.checks import folder_for, settings
from beforehand.score import forecastbench as recipe
from beforehand.score.report.words import audit_lines
from beforehand.store.files import read_json, write_json

Records = Annotated[
    Path | None,
    Parameter(
        name="--archive",
        help="An archive: the audit looks every cited source up in it, and compares words and "
        "figures. Without one it checks their dates.",
    ),
]
AuditGrade = Annotated[
    Literal["captured", "published"],
    Parameter(
        help="With --archive: a document counts as known when its words were captured, or on its "
        "date."
    ),
]


Sealed = Annotated[
    Path | None,
    Parameter(
        help="A log of `bench seal`: only what it holds counts, as made when it was sealed, beside "
        "the market's price then (in --archive)."
    ),
]


def predict(
    *,
    events: Annotated[Path, Parameter(help="EventSpec JSONL.")],
    out: Annotated[Path, Parameter(help="Where the PredictionRecord JSONL goes.")],
    forecasters: Annotated[
        str, Parameter(help="all, or names and addresses separated by commas.")
    ] = "all",
    assume_utc: AssumeUtc = False,
    run_id: RunId = None,
    limit_flags: LimitFlags | None = None,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Forecast every event at its own instant, point in time."""
    request = PredictRequest(
        archive=archive_path(archive).resolve(),
        events=events.resolve(),
        forecasters=forecasters,
        out=out.resolve(),
        assume_utc=assume_utc,
        limits=run_limits(limit_flags),
        folder=folder_for(forecasters),
    )
    with reporting("predict") as report_to:
        finished = start(request, Workspace.from_environment(), run_id, report_to)
    counts = finished.summary
    if json:
        emit({"run_id": finished.folder.run_id, "out": str(out), "counts": counts})
    else:
        print(f"{out}: {counts['predictions']:,} predictions of {counts['events']:,} events")
        if n := counts["without_market"]:
            print(f"without a market in this archive, and so without a price: {n:,}")
        if names := counts["unanswered"]:
            more = f", … (all: {finished.folder.path / 'counts.json'})" if names[20:] else ""
            print(f"answered by nobody: {len(names):,} ({', '.join(names[:20])}{more})")
    return EXIT_OK


def run(
    *,
    forecasters: Annotated[
        str, Parameter(help="all, or names and addresses separated by commas.")
    ] = "all",
    horizon: Annotated[str, Parameter(help="How long before its end: 7d, 30d.")] = "7d",
    textless: Annotated[
        bool, Parameter(negative="", help="Keep markets whose wording was not on record by then.")
    ] = False,
    seed: Seed = 0,
    draws: Draws = 2000,
    placebo: PlaceboDraws = 200,
    margin: Margin = None,
    fresh: Fresh = False,
    run_id: RunId = None,
    archive: ArchivePath = None,
    limit_flags: LimitFlags | None = None,
    bet_flags: BetFlags | None = None,
    json: Json = False,
) -> int:
    """Ingest, predict and evaluate in one run that can be resumed."""
    request = BenchmarkRequest(
        archive=archive_path(archive).resolve(),
        forecasters=forecasters,
        horizon=parse_interval(horizon),
        textless=textless,
        settings=settings(seed, draws, placebo, bet_rules(bet_flags), "--", margin),
        limits=run_limits(limit_flags),
        fresh=fresh,
        folder=folder_for(forecasters),
    )
    with reporting("benchmark") as report_to:
        finished = start(request, Workspace.from_environment(), run_id, report_to)
    report = finished.folder.path / "report.html"
    if json:
        emit({"run_id": finished.folder.run_id, **finished.summary, "report": str(report)})
    else:
        print_result(scores_of(finished), report)
    return EXIT_OK


def evaluate(
    *,
    events: Annotated[Path | None, Parameter(help="EventSpec JSONL.")] = None,
    predictions: Annotated[Path | None, Parameter(help="PredictionRecord JSONL.")] = None,
    resolutions: Annotated[Path | None, Parameter(help="ResolutionRecord JSONL.")] = None,
    bets: Annotated[
        Path | None, Parameter(help="Bets (JSON or JSONL) instead of forecasts.")
    ] = None,
    stake: Annotated[str, Parameter(help="For bets: flat:AMOUNT.")] = "flat:1",
    fill: Annotated[
        Literal["entry"], Parameter(help="For bets: filled at the entry price.")
    ] = "entry",
    fee: Annotated[str, Parameter(help="For bets: none, or rate:R (R·p·(1−p) a share).")] = "none",
    order: Annotated[
        Literal["file", "time"],
        Parameter(help="For bets: the order in which the drawdown is taken."),
    ] = "file",
    out: Annotated[
        Path | None,
        Parameter(
            help="Folder for scores.json, leaderboard.csv and report.html (of bets, scores.json)."
        ),
    ] = None,
    records: Records = None,
    grade: AuditGrade = "captured",
    sealed: Sealed = None,
    assume_utc: AssumeUtc = False,
    seed: Seed = 0,
    draws: Draws = 2000,
    placebo: PlaceboDraws = 200,
    margin: Margin = None,
    spread: Annotated[
        float | None, Parameter(help="Spread to assume where no book is on record [none].")
    ] = None,
    json: Json = False,
) -> int:
    """Score predictions against resolutions, with an evidence audit; or score bets."""
    if bets is not None and (events or predictions or resolutions):
        raise InputError(
            "--bets excludes --events, --predictions and --resolutions: leave them out"
        )
    if bets is not None:
        return _evaluate_bets(bets, stake, fee, order, out, json)
    if events is None or predictions is None or resolutions is None:
        raise InputError("name --events, --predictions and --resolutions (or --bets)")
    stored = None if records is None else open_records(records, grade)
    done = evaluation.evaluate_files(
        events,
        predictions,
        resolutions,
        settings(seed, draws, placebo, bet_rules(BetFlags(spread=spread)), "--", margin),
        assume_utc=assume_utc,
        stored=stored,
        sealed=None if sealed is None else _opened_log(sealed, records),
        gateway=None if stored is None else stored.gateway,
    )
    paths = (events, predictions, resolutions)
    found = evaluation.summary(done, paths)
    report = evaluation.store(done, paths, out) if out else None
    if json:
        emit({**found, "report": str(report) if report else None})
    else:
        _print_evaluation(done, found, report)
    faults = [one for one in done.unscored if one["reason"] not in evaluation.NO_FAULT]
    return EXIT_PARTIAL if faults else EXIT_OK


def _opened_log(path: Path, archive: Path | None) -> SealedLog:
    if archive is None:
        raise InputError(
            "--sealed needs --archive: each forecast stands beside the market's price when it was "
            "sealed"
        )
    return open_log(path, archive)


def _print_evaluation(
    done: evaluation.Evaluation, found: evaluation.EvaluationWire, report: Path | None
) -> None:
    """The table, what did not fit, the evidence audit, and what was not scored."""
    print_evaluation(found)
    out = screen()
    out.print(f"\n{evaluation.counted(done.counts)}", soft_wrap=True)
    for told in audit_lines(done.audit):
        out.print(Text(told), soft_wrap=True)
    for failure in done.audit["failures"][:5]:
        out.print(Text(f"  {failure}"), soft_wrap=True)
    if (hidden := len(done.audit["failures"]) - 5) > 0:
        out.print(f"  … and {hidden:,} more (--json lists up to {evaluation.MOST_FAILURES})")
    if report:
        out.print(Text(f"report: {report}"), soft_wrap=True)
    by_reason = dict[str, list[str]]()
    for one in done.unscored:
        by_reason.setdefault(one["reason"], []).append(f"{one['line']}")
    for reason, lines in by_reason.items():
        more = "…" if len(lines) > 8 else ""
        note(f"not scored: {len(lines):,} × {reason} (lines {', '.join(lines[:8])}{more})")


def _evaluate_bets(
    path: Path, stake: str, fee: str, order: str, out: Path | None, json: bool
) -> int:
    from beforehand.score.bets import score_bets

    amount, rate = parse_terms(stake, fee)
    scored = score_bets(load_bets(path, order), amount, rate, order)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "scores.json", {"bets": str(path), **asdict(scored)})
    if json:
        emit(asdict(scored))
    else:
        for name, value in asdict(scored).items():
            print(f"{name:14s} {value}")
    return EXIT_OK


def forecastbench(
    *,
    questions: Annotated[Path, Parameter(help="A ForecastBench question set.")],
    resolutions: Annotated[Path, Parameter(help="Its resolution set; .gz too.")],
    forecasts: Annotated[
        list[Path] | None, Parameter(help="Forecast sets to score beside the constants.")
    ] = None,
    combinations: Annotated[
        bool, Parameter(negative="", help="Include combination questions.")
    ] = False,
    json: Json = False,
) -> int:
    """ForecastBench's leaderboard columns for the constant forecasters and for forecast sets."""
    groups = _grouped(questions, resolutions, combinations)
    rows, missing = dict[str, list[float | None]](), dict[str, int]()
    for name, p in (("Always 0", 0.0), ("Always 0.5", 0.5), ("Always 1", 1.0)):
        rows[name], missing[name] = recipe.scores(groups, _constant(p))
    for path in forecasts or []:
        forecast = _forecasts(path)
        name = str(path) if path.name in rows else path.name
        rows[name], missing[name] = recipe.scores(groups, forecast)
        if missing[name] == groups.size:
            raise InputError(
                f"{path} answers none of the {groups.size:,} scored rows: is it of the same due "
                "date as the question set?"
            )
    most = recipe.MOST_MISSING * groups.size
    unranked = [name for name, n in missing.items() if n > most]
    if json:
        emit(
            {
                "columns": list(recipe.COLUMNS),
                "n": groups.n,
                "rows": rows,
                "missing": missing,
                "unranked": unranked,
                "left_out": groups.left_out,
                "whole": groups.whole,
            }
        )
        return EXIT_OK if groups.whole else EXIT_PARTIAL
    columns = [("forecaster", "left"), *((c.replace("_", "\n"), "right") for c in recipe.COLUMNS)]
    columns.append(("missing", "right"))
    out = screen()
    out.print(
        table(
            "Brier ↓",
            columns,
            [[n, *(figure(v, 3) for v in vs), f"{missing[n]:,}"] for n, vs in rows.items()],
        )
    )
    for name in unranked:
        out.print(
            f"{name}: not ranked, {missing[name]:,} of {groups.size:,} forecasts are missing (more "
            f"than {100 * recipe.MOST_MISSING:.0f} %), and each counts as {recipe.MISSING}"
        )
    out.print("N: " + ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in groups.n.items()))
    if groups.left_out:
        out.print("left out: " + ", ".join(f"{n:,} {w}" for w, n in groups.left_out.items()))
    if not groups.whole:
        note("so these are not the leaderboard's figures: a newer beforehand may know that source")
        return EXIT_PARTIAL
    return EXIT_OK


def _grouped(questions: Path, resolutions: Path, combinations: bool) -> recipe.Groups:
    """The rows of two sets. Raises InputError, which names the file."""
    try:
        return recipe.group(read_json(questions), read_json(resolutions), combinations)
    except InputError as error:
        which = questions if str(error).startswith("question ") else resolutions
        named = str(error).startswith(("question ", "resolution "))
        raise InputError(f"{which}: {error}" if named else str(error)) from None


def _forecasts(path: Path) -> recipe.Forecast:
    """The forecasts of a set. Raises InputError, which names the file."""
    try:
        return recipe.from_set(read_json(path))
    except InputError as error:
        named = str(error).startswith(str(path))
        raise InputError(str(error) if named else f"{path}: {error}") from None


def _constant(p: float) -> recipe.Forecast:
    return lambda row: p
