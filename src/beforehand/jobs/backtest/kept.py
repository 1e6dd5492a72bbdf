"""What a backtest keeps of its intervals, and how that is scored: rows, or columns.

Rows of JSON are made where somebody was asked, and in small runs. A run of pure functions alone
with more than `MOST_ROWS` intervals keeps columns (`runs/interval_columns.py`): the same figures
and the same rows, made in bulk.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from beforehand.clock import to_us
from beforehand.engine.context import StepContext
from beforehand.errors import NotFound
from beforehand.forecast.aggregate import Method, aggregate
from beforehand.forecast.base import NO_FORECAST, Forecaster, PanelForecaster
from beforehand.gateway.panel import Panel
from beforehand.jobs import results
from beforehand.jobs.backtest.grid import count
from beforehand.jobs.backtest.order import NO_REPLACEMENT, Replacement
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.rows import IntervalRow, description, label
from beforehand.runs.columns import columns_of
from beforehand.runs.interval_columns import FORECASTS, HEAD, Head, IntervalColumns, write_columns
from beforehand.runs.leaks import recheck_run
from beforehand.runs.rows import (
    counts,
    counts_of_columns,
    questions_of,
    read_intervals,
    read_traces,
)
from beforehand.score.evaluate import Arrays, Question, Settings, build_table, table_of
from beforehand.score.leaks.report import Also, ForecastLeaks, LeakReport
from beforehand.score.skill import MARKET
from beforehand.score.summary import DecisionCounts, Few
from beforehand.score.table import Table

MOST_ROWS = 50_000
"""A run of more intervals keeps columns, if it asked nobody."""


def keeps_columns(
    configs: Sequence[ExperimentConfig],
    forecasters: Mapping[str, Forecaster],
    replacement: Replacement,
    method: Method,
    documents: bool,
) -> bool:
    """True for a large run of pure functions whose contexts hold no document. Forks, several
    experiments about one market, and weights from past scores stay in rows: few have them, and none
    is large."""
    if any(_same_everywhere(one) is None for one in forecasters.values()):
        return False
    if replacement is not NO_REPLACEMENT or method == "weighted":
        return False
    if documents and any(config.search_config.max_results for config in configs):
        return False
    if len({config.market_id for config in configs}) != len(configs):
        return False
    if len({tuple(config.models) for config in configs}) != 1:
        return False
    return sum(map(count, configs)) > MOST_ROWS


def _same_everywhere(one: Forecaster) -> str | None:
    """What a pure function's forecasts rest on, where that is the same in each row."""
    return one.rationale if isinstance(one, PanelForecaster) else None


def keep_columns(
    context: StepContext,
    panel: Panel,
    experiments: Sequence[int],
    entries: Sequence[str],
    known: Mapping[str, npt.NDArray[np.float64]],
    method: Method,
) -> None:
    """Keep a step's rows as columns; `experiments` has that of each row, `known` the forecasts of
    each entry."""
    said = np.stack([known[name] for name in entries])
    together = [aggregate(method, [p for p in row if p == p]) for row in said.T.tolist()]
    places: dict[int, int] = {}
    texts, text = list[tuple[bytes, int]](), np.full(len(panel), -1, dtype=np.int32)
    for k, version in enumerate(panel.text):
        if version is None:
            continue
        if id(version) not in places:
            whole = description(version.question, version.rules)
            places[id(version)] = len(texts)
            texts.append((whole.encode(), to_us(version.known_at)))
        text[k] = places[id(version)]
    made: dict[str, npt.NDArray[Any]] = {
        "experiment": np.array(experiments, dtype=np.int32),
        "t": panel.t,
        "odds": panel.price,
        "price_age": panel.price_age,
        "known_at": panel.known_at,
        "bid": panel.bid,
        "ask": panel.ask,
        "text": text,
        "aggregate": np.array([np.nan if p is None else p for p in together]),
        "said": said,
        "texts": np.frombuffer(b"".join(whole for whole, _ in texts), dtype=np.uint8),
        "sizes": np.array([len(whole) for whole, _ in texts], dtype=np.int64),
        "text_known_at": np.array([at for _, at in texts], dtype=np.int64),
    }
    written = BytesIO()
    np.savez(written, allow_pickle=False, **made)
    context.keep("columns", written.getvalue())


def join_columns(
    path: Path,
    run_id: str,
    parts: Iterable[bytes],
    configs: Sequence[ExperimentConfig],
    forecasters: Sequence[Forecaster],
    method: Method,
) -> list[str]:
    """Write the columns of a run from those of its steps, by time and market; returns the names of
    the files."""
    markets = sorted({config.market_id for config in configs}, key=str.encode)
    place = {name: i for i, name in enumerate(markets)}
    market_of = np.array([place[config.market_id] for config in configs], dtype=np.int32)
    found: dict[str, list[Any]] = {}
    texts = list[tuple[str, int]]()
    for part in parts:
        with np.load(BytesIO(part), allow_pickle=False) as kept:
            columns = {name: kept[name] for name in kept.files}
        blob, end = columns.pop("texts").tobytes(), 0
        known, shift = columns.pop("text_known_at").tolist(), len(texts)
        for size, at in zip(columns.pop("sizes").tolist(), known, strict=True):
            texts.append((blob[end : end + size].decode(), at))
            end += size
        columns["text"] = np.where(columns["text"] < 0, -1, columns["text"] + shift)
        for name, column in columns.items():
            found.setdefault(name, []).append(column)
    market = market_of[np.concatenate(found.pop("experiment"))]
    t = np.concatenate(found.pop("t"))
    order = np.lexsort((market, t))
    market, t = market[order], t[order]

    def made() -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """One column after the other, each let go of once it is written."""
        yield "market", market
        yield "t", t
        yield "before", _before(market, t, np.concatenate(found["aggregate"])[order])
        for name in list(found):
            parts_of = found.pop(name)
            yield FORECASTS if name == "said" else name, np.concatenate(parts_of, -1)[..., order]

    head: Head = {
        "run_id": run_id,
        "rows": len(order),
        "method": method,
        "forecasters": [
            {
                "model_id": one.model_id,
                "name": one.name,
                "version": one.version,
                "rationale": _same_everywhere(one) or "",
                "failure": NO_FORECAST,
            }
            for one in forecasters
        ],
        "markets": markets,
    }
    return write_columns(path, head, made(), texts)


def _before(
    market: npt.NDArray[Any], t: npt.NDArray[np.int64], together: npt.NDArray[np.float64]
) -> npt.NDArray[np.int32]:
    """For each row the last one of its market before it that has an aggregate; -1 for none."""
    order = np.lexsort((t, market))
    rows, n = np.arange(len(order)), len(order)
    first = np.ones(n, dtype=bool)
    first[1:] = market[order][1:] != market[order][:-1]
    begins = np.maximum.accumulate(np.where(first, rows, 0))
    has = np.where(np.isfinite(together[order]), rows, -1)
    latest = np.concatenate([[-1], np.maximum.accumulate(has)[:-1]]) if n else rows
    found = np.full(n, -1, dtype=np.int32)
    there = latest >= begins
    found[order[there]] = order[latest[there]]
    return found


class Intervals(Protocol):
    """The intervals of a walked run, for scoring. `apart` are the markets that are scored apart."""

    def table(self, questions: Sequence[Question], apart: set[str]) -> Table:
        """What is scored: the rows of all other markets."""
        ...

    def apart(self, questions: Sequence[Question], apart: set[str]) -> Table | None:
        """The rows of the markets that are scored apart; None without any."""
        ...

    def leaks(
        self, report: LeakReport, planted: Mapping[str, Any], also: Also
    ) -> list[ForecastLeaks]:
        """Check each time again; a report for each forecast that was shown a document."""
        ...

    def counts(self) -> DecisionCounts:
        """How the decisions were made."""
        ...

    def drawn(self) -> str:
        """The market that the report draws. Raises NotFound where no price is known."""
        ...

    def of(self, market: str) -> list[IntervalRow]:
        """The rows of a market, one an instant."""
        ...

    def without_flagged(
        self, questions: list[Question], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        """The scores with and without what rests on flagged documents; None where nothing does."""
        ...


def kept_at(path: Path) -> Intervals:
    """What a run at `path` keeps of its intervals."""
    return _Columns(path) if (path / HEAD).is_file() else _Rows(path)


class _Rows:
    """Rows of JSON, held whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._intervals = list(read_intervals(path / "intervals.jsonl"))
        self._rows = list(questions_of(self._intervals))

    def table(self, questions: Sequence[Question], apart: set[str]) -> Table:
        return build_table(columns_of(r for r in self._rows if r.market_id not in apart), questions)

    def apart(self, questions: Sequence[Question], apart: set[str]) -> Table | None:
        rows = [row for row in self._rows if row.market_id in apart]
        return build_table(columns_of(rows), questions) if rows else None

    def leaks(
        self, report: LeakReport, planted: Mapping[str, Any], also: Also
    ) -> list[ForecastLeaks]:
        return recheck_run(report, self._intervals, planted, also)

    def counts(self) -> DecisionCounts:
        return counts(self._intervals, read_traces(self._path / "traces.jsonl"))

    def drawn(self) -> str:
        return results.pictured(self._intervals)

    def of(self, market: str) -> list[IntervalRow]:
        return [row for row in self._rows if row.market_id == market]

    def without_flagged(
        self, questions: list[Question], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        return results.without_flagged(self._rows, questions, settings)


class _Columns:
    """Columns, mapped."""

    def __init__(self, path: Path) -> None:
        self._columns = IntervalColumns((path / HEAD).parent)
        self._of = np.array(self._columns.column("market"))

    def table(self, questions: Sequence[Question], apart: set[str]) -> Table:
        return table_of(self._arrays(~self._among(apart)), questions)

    def apart(self, questions: Sequence[Question], apart: set[str]) -> Table | None:
        mask = self._among(apart)
        return table_of(self._arrays(mask), questions) if mask.any() else None

    def leaks(
        self, report: LeakReport, planted: Mapping[str, Any], also: Also
    ) -> list[ForecastLeaks]:
        return recheck_run(report, self._columns, planted, also)

    def counts(self) -> DecisionCounts:
        return counts_of_columns(self._columns)

    def drawn(self) -> str:
        odds = np.array(self._columns.column("odds"))
        known, n = np.isfinite(odds), len(self._columns.markets)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, self._of[known], odds[known])
        np.maximum.at(high, self._of[known], odds[known])
        many = np.bincount(self._of[known], minlength=n)
        if not many.any():
            raise NotFound("the run has no interval to draw")
        # The same interest as `results.pictured`, where no document came in.
        moved = np.where(many > 0, (high - low) * np.minimum(many, 12), -1.0).tolist()
        name: str = max(zip(moved, self._columns.markets, strict=True))[1]
        return name

    def of(self, market: str) -> list[IntervalRow]:
        return list(self._columns.rows(self._columns.places(market, None, None)))

    def without_flagged(
        self, questions: list[Question], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        return None  # No document was shown.

    def _among(self, markets: set[str]) -> npt.NDArray[np.bool_]:
        wanted = np.array([name in markets for name in self._columns.markets], dtype=bool)
        return np.asarray(wanted[self._of])

    def _arrays(self, mask: npt.NDArray[np.bool_]) -> Arrays:
        """The rows of a mask, by market and then by time."""
        mine, columns = np.flatnonzero(mask), self._columns
        mine = mine[np.lexsort((columns.column("t")[mine], self._of[mine]))]
        names = [label(one["model_id"]) for one in columns.who]
        return Arrays(
            ids=columns.markets,
            of=self._of[mine].astype(np.int64),
            t=columns.column("t")[mine],
            market=columns.column("odds")[mine],
            price_age=columns.column("price_age")[mine] / 86400,
            strict=columns.column("text")[mine] >= 0,
            evidence=np.zeros(len(mine), dtype=np.int64),
            bid=columns.column("bid")[mine],
            ask=columns.column("ask")[mine],
            forecasts={
                name: columns.forecasts[k][mine] for k, name in enumerate(names) if name != MARKET
            },
        )
