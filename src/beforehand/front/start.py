"""Start runs: a backtest of forecasters, and the scoring of forecasts made elsewhere."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from beforehand.config import Workspace
from beforehand.engine.job import RunLimits
from beforehand.engine.runs import keep_seal
from beforehand.engine.runs import start as begin
from beforehand.errors import InputError
from beforehand.forecast.base import ModelOptions, split_entry
from beforehand.forecast.callables import entry_of
from beforehand.forecast.files import forecast_file
from beforehand.front.reporting import reporting, told_in_python
from beforehand.front.run import Run, workspace_of
from beforehand.front.world import World, need_world
from beforehand.gateway.search import Grade
from beforehand.jobs import score_file
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.jobs.backtest.grid import Kind as Grid
from beforehand.jobs.checks import (
    Fees,
    between,
    checked,
    flag,
    folder_for,
    in_order,
    instant,
    interval,
    lookback,
    market_names,
    one_of,
    settings,
    stakes,
)
from beforehand.records.backtest import ExperimentConfig

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
Named = str | Callable[..., Any]
"""A forecaster: a name as on the command line, or a callable."""


class Limits(TypedDict, total=False):
    """What a run may spend, and how it asks: `max_calls`, `max_tokens`, `max_cost` (US dollars)
    stop it before more is spent; `concurrency` is how many calls are in flight; `rate` ("10/s")
    limits the requests to each address; `timeout` is in seconds; `in_flight` says what happens to
    a call whose answer never came; `cost_per_call` (US dollars) is what one is expected to cost."""

    concurrency: int | None
    rate: str | None
    timeout: float
    max_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    in_flight: Literal["resend", "skip", "stop"]
    cost_per_call: float | None


def backtest(
    world: World,
    forecasters: Named | Sequence[Named] | Mapping[str, Named] = "all",
    *,
    every: str | timedelta = "7d",
    markets: str | Sequence[str] = "all",
    grid: Grid = "aligned",
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    sims: int = 1,
    evidence: int = 5,
    lookback_days: int | None = None,
    grade: Grade = "captured",
    configs: Sequence[ExperimentConfig] | None = None,
    models: ModelOptions | None = None,
    seed: int = 0,
    draws: int = 2000,
    placebo: int = 200,
    margin: float | None = None,
    spread: float | None = None,
    fees: Fees = None,
    kelly: float = 0.25,
    cap: float = 0.1,
    settle: Literal["known", "stated"] = "known",
    run_id: str | None = None,
    fresh: bool = False,
    home: str | Path | None = None,
    progress: bool = True,
    **limits: Unpack[Limits],
) -> Run:
    """Ask forecasters about a world's markets, through time, and score them: `beforehand backtest
    run` from Python, with the same options, giving the same files.

    `forecasters` are callables of a Context, and names as on the command line ("market", "drift",
    an address, a model); a mapping gives them names of your own. `every` is the time between two
    forecasts ("6h", "7d"), `evidence` the most documents shown (known by then, or in the last
    `lookback_days`), `grade` which texts count as known;
    `margin` is a difference in Brier score that is stated beforehand to be none; `spread`, `fees`,
    `kelly`, `cap` and `settle` (when a bet pays: once the ending is "known", or on the venue's
    "stated" date) are for the bets. The run's folder lies in `data/runs` of
    `home`, else of BEFOREHAND_HOME, else of here. An unfinished run of the same request goes on.

    Raises InputError before anything is asked; Interrupted or Stopped for a run that ended early,
    which `open_run(...).resume()` continues.
    """
    _check(grid, grade, limits, models, configs)
    entries = _entries(forecasters)
    bets = stakes(spread, fees, kelly, cap, settle=settle)
    request = BacktestRequest(
        archive=need_world(world).path.resolve(),
        markets=_markets(markets),
        every=interval("every", every),
        grid=grid,
        forecasters=",".join(entries),
        num_sims=between("sims", sims, 1, 1000),
        start=None if start is None else instant("start", start),
        stop=None if end is None else instant("end", end),
        max_results=between("evidence", evidence, 0, 20),
        lookback_days=lookback(lookback_days),
        grade=grade,
        configs=None if configs is None else list(configs),
        settings=settings(seed, draws, placebo, bets, margin=margin),
        limits=checked(RunLimits(**limits)),
        model_options=models or ModelOptions(),
        fresh=flag("fresh", fresh),
        folder=folder_for(",".join(entries)),
    )
    return _carried_out(request, workspace_of(home), run_id, progress)


def _carried_out(
    request: BacktestRequest, workspace: Workspace, run_id: str | None, progress: bool
) -> Run:
    """The finished run. Where it was stopped, the error says how it goes on: with a callable of
    no module (`python:NAME`) from this program alone."""
    in_order(request.start, request.stop)
    names = [split_entry(entry)[1] for entry in request.forecasters.split(",")]
    alone = any(name.startswith("python:") and name.count(":") == 1 for name in names)
    with told_in_python(run_id, alone), reporting("backtest", progress) as report:
        finished = begin(request, workspace, run_id, report)
    return Run(finished.folder, workspace)


def score_forecasts(
    forecasts: object,
    world: World,
    *,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    percent: bool = False,
    dates: Literal["day-first", "month-first"] | None = None,
    training_cutoff: datetime | str | None = None,
    leave_out: Sequence[str] = (),
    seed: int = 0,
    draws: int = 2000,
    placebo: int = 200,
    margin: float | None = None,
    spread: float | None = None,
    fees: Fees = None,
    kelly: float = 0.25,
    cap: float = 0.1,
    settle: Literal["known", "stated"] = "known",
    run_id: str | None = None,
    home: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """A verdict on probabilities that were made elsewhere: `beforehand score` from Python.

    `forecasts` is the path of a CSV or JSONL file, or a table: a DataFrame of pandas or polars,
    anything else that speaks Arrow, a mapping of columns, or rows as dicts. Its columns are `id`,
    `time` (with a time zone, or Unix seconds; a date stands for its end), `probability`, and
    `forecaster` where it holds several; their usual other names are known, and `columns` states
    others (`{"id": "contract"}`). `timezone` is that of times that state none; `percent` says that
    the probabilities lie between 0 and 100, `dates` what comes first in dates such as 05.01.2026.
    `name` is the forecaster's of rows that name none.
    `training_cutoff` is when the model's training ended. `leave_out` has rules for rows that are
    not looked at, such as `["venue=KALSHI", "before=2026-01-01"]`: what is left is a variant of its
    own, and without rows that were chosen by name nothing is said to beat the market. `margin` is a
    difference in Brier score that is stated beforehand to be none. Rows that cannot be scored are
    in `run.rejected`, with the reason.

    Raises InputError if no row can be scored.
    """
    cutoff = None if training_cutoff is None else instant("training_cutoff", training_cutoff)
    if run_id == "latest":
        raise InputError('run_id "latest" stands for the newest run: choose another')
    how = forecast_file.reading(columns, timezone, flag("percent", percent), "", dates)
    if isinstance(forecasts, (str, Path)):
        stated = forecast_file.read_file(Path(forecasts), name, how)
    else:
        stated = forecast_file.read_rows(rows_of(forecasts), name or "forecasts", how)
    workspace, bets = workspace_of(home), stakes(spread, fees, kelly, cap, settle=settle)
    scored = score_file.run(
        stated,
        need_world(world).archive,
        workspace.home.runs,
        workspace.home.trials,
        run_id=run_id,
        settings=settings(seed, draws, placebo, bets, margin=margin),
        training_cutoff=cutoff,
        leave_out=leave_out,
    )
    keep_seal(workspace, scored.folder, "score")
    return Run(scored.folder, workspace)


def _check(
    grid: str, grade: str, limits: Limits, models: object, configs: Iterable[object] | None
) -> None:
    """Raises InputError for a word or a limit that there is not, and options of another type."""
    one_of("grid", grid, ("aligned", "own"))
    one_of("grade", grade, ("captured", "published"))
    if unknown := limits.keys() - Limits.__annotations__.keys():
        raise InputError(f"backtest takes no {sorted(unknown)[0]!r}: see help(beforehand.backtest)")
    if models is not None and not isinstance(models, ModelOptions):
        raise InputError(f"models is a ModelOptions, not {models!r}")
    if configs is not None and not all(isinstance(one, ExperimentConfig) for one in configs):
        raise InputError("configs are ExperimentConfigs: `beforehand backtest run --help`")


def _entries(given: Named | Sequence[Named] | Mapping[str, Named]) -> list[str]:
    """Names as on the command line, callables marked on the way. Raises InputError."""
    if isinstance(given, str) or callable(given) or not isinstance(given, Iterable):
        given = [given]
    pairs: list[tuple[str | None, Named]] = [(None, one) for one in given]
    if isinstance(given, Mapping):
        pairs = list(given.items())
    found, held = list[str](), dict[str, Named]()
    for name, one in pairs:
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            raise InputError(
                f"{name!r} cannot be a forecaster's name: a letter, then a-z, 0-9, _ . -"
            )
        entry = one if isinstance(one, str) else entry_of(one, name)
        if name == entry:  # A baseline under its own name.
            name = None
        if held.setdefault(entry, one) is not one and not isinstance(one, str):
            called = entry.rpartition(":")[2]
            raise InputError(f"two callables are called {called}: name them ({{NAME: callable}})")
        found.append(entry if name is None else f"{name}={entry}")
    return found


def _markets(given: str | Sequence[str]) -> list[str] | None:
    if isinstance(given, str) and given == "all":
        return None
    if not isinstance(given, Iterable):
        raise InputError(f"markets is a list of ids, not {given!r}")
    names = market_names(given) if isinstance(given, str) else list(given)
    if not names:
        raise InputError("markets names no market: leave it out for all of them")
    return names


def rows_of(table: Any) -> Iterable[Mapping[str, object]]:
    """The rows of whatever table this is, with times as ISO 8601. Raises InputError."""
    if isinstance(table, Mapping):
        if any(isinstance(v, str) or not isinstance(v, Iterable) for v in table.values()):
            raise InputError("a mapping of forecasts holds columns: give a list of one row instead")
        columns = {name: list(values) for name, values in table.items()}
        if len({len(values) for values in columns.values()}) > 1:
            raise InputError("the columns of the forecasts are of unequal length")
        rows: Any = (
            dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
        )
    elif (library := type(table).__module__.partition(".")[0]) == "pandas":
        if not getattr(table, "columns", table.index).is_unique:
            raise InputError("two columns of the forecasts have one name")
        rows = table.to_dict("records") if hasattr(table, "iloc") and table.ndim == 2 else table
    elif library == "polars":  # nanoarrow 0.9 crashes on the text views that polars hands out.
        rows = table.to_dicts() if hasattr(table, "to_dicts") else table.collect().to_dicts()
    elif hasattr(table, "__arrow_c_stream__"):
        import nanoarrow

        try:
            rows = [*nanoarrow.ArrayStream(table).iter_py()]
        except (KeyError, NotImplementedError, ValueError) as error:
            why = str(error).splitlines()[0].strip("'\"")
            raise InputError(
                f"a column of the table cannot be read ({why}): give plain columns of texts, "
                "numbers and times"
            ) from None
    else:
        rows = table
    if not isinstance(rows, Iterable):
        raise InputError(
            f"{type(table).__name__} is not a table of forecasts: give a path, a DataFrame, a "
            "mapping of columns, or rows as dicts"
        )
    return _checked(list(rows))


def _checked(rows: Sequence[Any]) -> Iterator[Mapping[str, object]]:
    """Rows as a file would have them. Raises InputError."""
    if not all(isinstance(row, Mapping) for row in rows):
        raise InputError("each row of the forecasts is a mapping: id, time, probability")
    for number, row in enumerate(rows, start=1):
        found = {str(name): _plain(value) for name, value in row.items()}
        one, other = found.get("id"), found.get("market_id")
        if one is not None and other is not None and one != other:
            raise InputError(
                f"row {number} of the forecasts has the id {one!r} and the market_id {other!r}: "
                "these are two names of one column, keep one of them"
            )
        yield found if one is None else {**found, "id": one}


def _plain(value: Any) -> object:
    """A cell as a file would hold it."""
    if isinstance(value, float) and math.isnan(value):  # How pandas writes that there is none.
        return None
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):  # numpy's numbers and times
        return _plain(value.item()) if value.shape == () else value
    return value
