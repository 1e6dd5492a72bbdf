"""`beforehand backtest run|ab`."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from beforehand.cli.fetching import fetched
from beforehand.cli.options import (
    BetFlags,
    Draws,
    Fresh,
    LimitFlags,
    Margin,
    ModelFlags,
    PlaceboDraws,
    RunId,
    Seed,
    bet_rules,
    model_options,
    run_limits,
    with_model,
)
from beforehand.cli.output import (
    ArchivePath,
    Json,
    TextGrade,
    Verbose,
    archive_path,
    emit,
    exit_code_of,
    note,
    scores_of,
)
from beforehand.cli.screen import screen
from beforehand.cli.tables import duration, figure, print_result, span, table
from beforehand.config import Workspace
from beforehand.engine.runs import start as start_run
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, InputError
from beforehand.forecast.mapping import with_options
from beforehand.front.reporting import reporting
from beforehand.ids import check_segment, new_run_id
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.jobs.backtest.grid import parse_interval
from beforehand.jobs.checks import (
    between,
    folder_for,
    in_order,
    instant,
    lookback,
    market_names,
    settings,
)
from beforehand.records.backtest import ExperimentConfig
from beforehand.store.files import read_json

if TYPE_CHECKING:
    from beforehand.jobs.backtest.compare_configs import Arm
    from beforehand.jobs.backtest.cost import OrderCost


ARM = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")

ConfigFile = Annotated[
    Path | None, Parameter(help="ExperimentConfig JSON, one or a list; replaces the flags.")
]
MarketIds = Annotated[
    str, Parameter(help="all, ids separated by commas, or a file with one id per line.")
]
Every = Annotated[str, Parameter(help="Interval between forecasts: 6h, 1d, 7d, 2w.")]
GridKind = Annotated[
    Literal["aligned", "own"],
    Parameter(
        help="aligned: all markets at the same instants (weekly: Mondays 00:00 UTC). own: each "
        "market from its first price on."
    ),
]
ForecasterNames = Annotated[
    str,
    Parameter(
        help="all (baselines), or names separated by commas: market, always:0.3, drift, "
        "python:./mine.py:name, command:./bot.sh, http://host:port/path, a2a:URL, mcp:CLIENT, "
        "file:PATH, scripted, local, openai:NAME, anthropic:NAME, NAME@http://host:port/v1. Write "
        "MINE= before any of them to name it MINE, and options after # (docs/forecasters.md)."
    ),
]
Sims = Annotated[int, Parameter(help="How often to ask each model or address the same question.")]
Start = Annotated[str | None, Parameter(help="Leave out the instants before (ISO 8601).")]
End = Annotated[str | None, Parameter(help="Leave out the instants after (ISO 8601).")]
MostShown = Annotated[int, Parameter(help="Documents shown per forecast, at most 20.")]
Lookback = Annotated[
    int | None,
    Parameter(help="Show only documents known in so many days before t [any known by t]."),
]
DryRun = Annotated[
    bool, Parameter(negative="", help="Say what would be asked and paid; do nothing.")
]

Fetch = Annotated[
    bool,
    Parameter(
        negative="",
        help="First fetch the named markets into the archive: texts, prices, endings and, with "
        "EXA_API_KEY, the pages that a search would have found at each instant.",
    ),
]
Try = Annotated[
    int | None,
    Parameter(
        name="--try",
        help="Ask about so many questions only (1 to 10) and show the answers: no score, no run, "
        "no variant counted.",
    ),
]


@Parameter(name="*")
@dataclass
class Asked:
    """Who forecasts, and how those that were made elsewhere are asked."""

    forecasters: ForecasterNames = "all"
    protocol: Annotated[
        Literal["prophet"] | None,
        Parameter(help="What the addresses speak [our JSON]: prophet is Prophet Arena's /predict."),
    ] = None
    python: Annotated[
        Path | None,
        Parameter(help="The interpreter of another environment, for the python: forecasters."),
    ] = None


def named(asked: Asked | None) -> str:
    """The forecasters, with the options that were stated for all of them."""
    given = asked or Asked()
    options = {"protocol": given.protocol, "python": given.python}
    return with_options(given.forecasters, {k: str(v) for k, v in options.items() if v is not None})


def run(
    config: ConfigFile = None,
    /,
    *,
    markets: MarketIds = "all",
    every: Every = "7d",
    grid: GridKind = "aligned",
    asked: Asked | None = None,
    sims: Sims = 1,
    start: Start = None,
    end: End = None,
    fresh: Fresh = False,
    seed: Seed = 0,
    draws: Draws = 2000,
    placebo: PlaceboDraws = 200,
    margin: Margin = None,
    evidence: MostShown = 5,
    lookback_days: Lookback = None,
    grade: TextGrade = "captured",
    run_id: RunId = None,
    archive: ArchivePath = None,
    fetch: Fetch = False,
    limit_flags: LimitFlags | None = None,
    model_flags: ModelFlags | None = None,
    bet_flags: BetFlags | None = None,
    dry_run: DryRun = False,
    trial: Try = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Backtest forecasters point in time over the archive's markets, and score them."""
    workspace = Workspace.from_environment()
    request = BacktestRequest(
        archive=archive_path(archive).resolve(),
        markets=markets_of(markets),
        every=parse_interval(every),
        grid=grid,
        forecasters=with_model(named(asked), model_flags),
        num_sims=between("sims", sims, 1, 1000, "--"),
        start=instant_of("start", start),
        stop=instant_of("end", end),
        max_results=between("evidence", evidence, 0, 20, "--"),
        lookback_days=lookback(lookback_days, "--lookback-days"),
        grade=grade,
        configs=load_configs(config) if config else None,
        settings=settings(seed, draws, placebo, bet_rules(bet_flags), "--", margin),
        limits=run_limits(limit_flags),
        model_options=model_options(model_flags),
        fresh=fresh,
        folder=folder_for(named(asked)),
    )
    in_order(request.start, request.stop, "--")
    request = fetched(request, workspace, ask=not dry_run) if fetch else request
    if dry_run:
        return _dry_run(request, workspace, json, fetch)
    if trial is not None:
        return _trial(request, workspace, trial, json)
    with reporting("backtest") as report_to:
        finished = start_run(request, workspace, run_id, report_to)
    found, report = scores_of(finished), finished.folder.path / "report.html"
    emit({**found, "report": str(report)}) if json else print_result(found, report, verbose)
    return exit_code_of(found)


def ab(
    configs: Annotated[
        list[Path] | None,
        Parameter(help="ExperimentConfig JSON, one file per arm; the first is the base."),
    ] = None,
    /,
    *,
    a: Annotated[
        str | None, Parameter(help="Instead of files: the forecaster to compare with.")
    ] = None,
    b: Annotated[
        str | None, Parameter(help="The forecaster that is compared; write MINE= to name it.")
    ] = None,
    markets: MarketIds = "all",
    every: Every = "7d",
    grid: GridKind = "aligned",
    start: Start = None,
    end: End = None,
    seed: Seed = 0,
    draws: Draws = 2000,
    run_id: RunId = None,
    archive: ArchivePath = None,
    limit_flags: LimitFlags | None = None,
    bet_flags: BetFlags | None = None,
    json: Json = False,
) -> int:
    """Compare configurations, or two forecasters, on the same markets and instants: accuracy beside
    cost.

    Each arm is a run of its own, {run-id}-{arm}, with the limits given here; one that is finished
    is not run again.
    """
    from beforehand.jobs.backtest.compare_configs import compare

    workspace = Workspace.from_environment()
    common = BacktestRequest(
        archive=archive_path(archive).resolve(),
        markets=markets_of(markets),
        every=parse_interval(every),
        grid=grid,
        start=instant_of("start", start),
        stop=instant_of("end", end),
        settings=settings(seed, draws, 0, bet_rules(bet_flags), "--"),
        limits=run_limits(limit_flags),
    )
    in_order(common.start, common.stop, "--")
    arms = _arms(common, configs or [], a, b)
    runs, now = workspace.home.runs, workspace.clock.now()
    name = run_id or new_run_id(now, lambda n: any(runs.glob(f"{n}-*")))
    with reporting("ab") as report_to:
        found = compare(arms, workspace, name, report_to)
    if json:
        emit(found)
    else:
        _print_arms(found["first"], found["arms"])
    return EXIT_OK


def _arms(
    common: BacktestRequest, configs: list[Path], a: str | None, b: str | None
) -> dict[str, BacktestRequest]:
    """The arms by name: one per file, or the two forecasters. Raises InputError."""
    if configs:
        if a or b:
            raise InputError("give configuration files, or --a and --b, not both")
        names = [check_segment(path.stem, "the name of the configuration") for path in configs]
        if len(set(names)) < len(names):
            raise InputError("two configurations have the same file name: arms are named by it")
        return {
            name: replace(common, configs=load_configs(path))
            for name, path in zip(names, configs, strict=True)
        }
    if not (a and b):
        raise InputError("name two forecasters (--a drift --b extremised), or two files or more")
    found = dict[str, BacktestRequest]()
    for letter, forecaster in (("a", a), ("b", b)):
        named, mark, rest = forecaster.partition("=")
        name = named if mark else rest or forecaster
        if not ARM.fullmatch(name):
            name = letter
        if name in found:
            raise InputError(f"both arms are called {name}: write --b OTHER={forecaster}")
        found[name] = replace(common, forecasters=forecaster, folder=folder_for(forecaster))
    return found


def _print_arms(first: str, arms: "Sequence[Arm]") -> None:
    """The arms as a table, and which of their forecasters may remember."""
    columns = [("arm", "left"), ("n", "right"), ("Brier ↓", "right"), ("skill ↑", "right")]
    columns += [(f"better than {first} by", "right"), ("95 %", "right")]
    columns += [("verdict", "left")]
    columns += [("wealth", "right"), ("calls", "right"), ("cost", "right")]
    columns += [("a forecast", "right")]
    rows = [
        [
            arm["arm"],
            f"{arm['n']:,}",
            figure(arm["brier"]),
            figure(arm["skill_vs_market"]),
            figure(arm["difference"]),
            span(arm["difference_ci"]),
            arm["verdict"],
            "–" if isinstance(arm["kelly"], str) else figure(arm["kelly"]["final_wealth"], 2),
            f"{arm['calls']:,}",
            f"${arm['cost']:,.2f}",
            f"${arm['cost_per_forecast']:,.4f}",
        ]
        for arm in arms
    ]
    screen().print(table("", columns, rows))
    for why in {kelly if isinstance(kelly := arm["kelly"], str) else kelly["note"] for arm in arms}:
        print(f"wealth: what Kelly bets made of 1 ({why})")
    for arm in arms:
        for name in arm["may_remember"]:
            print(
                f"{arm['arm']}: {name} may remember: an earlier arm or another run asked it about "
                "later instants before. Give each arm its own service"
            )


def _dry_run(request: BacktestRequest, workspace: Workspace, json: bool, fetched: bool) -> int:
    """Print what a run of this request would do and spend."""
    from beforehand.jobs.backtest.cost import predicted, stops_at

    found = predicted(request, workspace)
    if json:
        emit(found)
        return EXIT_OK
    print(
        f"{found['markets']:,} markets, {found['forecasts']:,} forecasts at {found['instants']:,} "
        f"instants, {found['steps']:,} steps"
    )
    if found["short_markets"]:
        print(f"scored apart: {found['short_markets']:,} markets too short for the grid")
    for name, n in found["left_out"].items():
        print(f"left out: {n:,} {name}")
    for row in found["calls"]:
        cost = "cost unknown" if row["cost"] is None else f"about ${row['cost']:,.2f}"
        print(f"{row['provider']}: {row['calls']:,} calls, {cost} ({row['basis']})")
    for text in stops_at(found):
        print(text)
    if waits := found["in_order"]:
        print(_waiting(waits))
    for text in found["lacks"]:
        print(f"the validity card will lack: {text}")
    archived = "; what was fetched is in the archive" if fetched else ", nothing was written"
    print(f"no forecaster was asked{archived}")
    return EXIT_OK


def _trial(request: BacktestRequest, workspace: Workspace, n: int, json: bool) -> int:
    """Ask a few questions of a run of this request, and print the answers."""
    from beforehand.jobs.backtest.trial import trial

    tried = trial(request, workspace, n)
    failed = [one for one in tried.answers if one.error is not None and not one.abstained]
    if json:
        emit(asdict(tried))
        return EXIT_PARTIAL if failed else EXIT_OK
    columns = [("forecaster", "left"), ("market", "left"), ("at", "left"), ("price", "right")]
    columns += [("answer", "right")]
    rows = [
        [
            one.forecaster,
            one.market_id,
            one.time[:16].replace("T", " "),
            "–" if one.market is None else figure(one.market),
            "–" if one.probability is None else figure(one.probability),
        ]
        for one in tried.answers
    ]
    screen().print(table("", columns, rows))
    for one in tried.answers:
        said = one.error or one.rationale
        if said:
            print(f"{one.forecaster} on {one.market_id}: {said}")
    print(
        f"{n:,} of {tried.questions:,} questions asked, {len(tried.answers):,} answers, "
        f"{len(failed):,} of them failures; {tried.calls:,} paid calls, ${tried.cost:,.4f}. "
        "Nothing was scored, no variant was counted"
    )
    return EXIT_PARTIAL if failed else EXIT_OK


def _waiting(found: "OrderCost") -> str:
    """How long asking in order of time takes."""
    text = (
        f"in order of time: {found['instants']:,} instants wait for each other, "
        f"{found['rounds']:,} rounds of at most {found['concurrency']} calls of "
        f"{found['forecaster']} side by side; in one process, "
    )
    if found["seconds"] is None:
        return text + f"{found['rounds']:,} s if an answer takes 1 s (no latency is on record)"
    return text + (
        f"at least {duration(found['seconds'])} at {found['seconds_a_call']:.2g} s an answer (its "
        "mean so far)"
    )


def load_configs(path: Path) -> list[ExperimentConfig]:
    """One ExperimentConfig or a list of them; a bad field is named with its value."""
    body: Any = read_json(path)
    items = body if isinstance(body, list) else [body]
    configs = []
    for number, item in enumerate(items, start=1):
        try:
            configs.append(ExperimentConfig.model_validate(item))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            given = f" (given {first['input']!r})" if field else ""
            said = first["msg"].removeprefix("Value error, ")
            raise InputError(
                f"{path}: experiment {number}: {field + ': ' if field else ''}{said}{given}"
            ) from None
        _unused(configs[-1], f"{path}: experiment {number}")
    if not configs:
        raise InputError(f"{path} holds no experiment")
    return configs


def _unused(config: ExperimentConfig, where: str) -> None:
    """Name the fields that nobody reads. Raises InputError for one that looks mistyped."""
    fields = type(config).model_fields
    for name in config.model_extra or {}:
        if close := get_close_matches(name, fields, 1, 0.8):
            raise InputError(f"{where}: there is no field {name!r}: is {close[0]!r} meant?")
        note(f"{where}: the field {name!r} is not used")


def markets_of(text: str) -> list[str] | None:
    return None if text.strip() == "all" else market_names(text)


def instant_of(option: str, text: str | None) -> datetime | None:
    return instant(option, text, "--") if text else None
