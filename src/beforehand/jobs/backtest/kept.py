"""How the intervals that a backtest kept are scored: rows of JSON, or the columns of a large run.
Both give the same figures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from beforehand.errors import NotFound
from beforehand.jobs import results
from beforehand.memory import trim
from beforehand.records.rows import (
    IntervalRow,
    label,
)
from beforehand.runs.columns import columns_of
from beforehand.runs.interval_columns import (
    HEAD,
    IntervalColumns,
)
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
from beforehand.score.table import Disk, Table, parts_of
from beforehand.store.npy import spans


class Intervals(Protocol):
    """The intervals of a walked run, for scoring. `apart` are the markets that are scored apart."""

    def table(self, questions: Iterable[Question], apart: set[str]) -> Table:
        """What is scored: the rows of all other markets."""
        ...

    def apart(self, questions: Iterable[Question], apart: set[str]) -> Table | None:
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
        self, questions: Callable[[], Iterable[Question]], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        """The scores with and without what rests on flagged documents; None where nothing does."""
        ...


def kept_at(path: Path, markets: Sequence[str] = ()) -> Intervals:
    """What a run at `path` keeps of its intervals. `markets` are its names, if they are in memory
    already."""
    return _Columns(path, markets) if (path / HEAD).is_file() else _Rows(path)


class _Rows:
    """Rows of JSON, held whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._intervals = list(read_intervals(path / "intervals.jsonl"))
        self._rows = list(questions_of(self._intervals))

    def table(self, questions: Iterable[Question], apart: set[str]) -> Table:
        return build_table(columns_of(r for r in self._rows if r.market_id not in apart), questions)

    def apart(self, questions: Iterable[Question], apart: set[str]) -> Table | None:
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
        self, questions: Callable[[], Iterable[Question]], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        return results.without_flagged(self._rows, [*questions()], settings)


Change = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


class _Columns:
    """Columns, mapped."""

    def __init__(self, path: Path, markets: Sequence[str]) -> None:
        self._path, self._kept = path, IntervalColumns((path / HEAD).parent)
        if self._kept.markets == markets:  # Not twice.
            self._kept.markets = self._kept.head["markets"] = list(markets)

    @property
    def _of(self) -> npt.NDArray[np.int32]:
        """The market of each row, mapped."""
        found: npt.NDArray[np.int32] = self._kept.column("market")
        return found

    @contextmanager
    def _columns(self) -> Iterator[IntervalColumns]:
        """The columns; what is read of them is let go of at the end."""
        try:
            yield self._kept
        finally:
            self._kept.release()

    def table(self, questions: Iterable[Question], apart: set[str]) -> Table:
        made = table_of(self._arrays(~self._among(apart)), questions)
        made.let_go()
        return made

    def apart(self, questions: Iterable[Question], apart: set[str]) -> Table | None:
        mask = self._among(apart)
        return table_of(self._arrays(mask), questions) if mask.any() else None

    def leaks(
        self, report: LeakReport, planted: Mapping[str, Any], also: Also
    ) -> list[ForecastLeaks]:
        with self._columns() as columns:
            return recheck_run(report, columns, planted, also)

    def counts(self) -> DecisionCounts:
        with self._columns() as columns:
            answered = None
            if columns.asked:
                answered = counts(columns.answers(), read_traces(self._path / "traces.jsonl"))
            return counts_of_columns(columns, answered)

    def drawn(self) -> str:
        with self._columns() as columns:
            return self._drawn(columns)

    def _drawn(self, columns: IntervalColumns) -> str:
        n = len(columns.markets)
        low, high, many = np.full(n, np.inf), np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
        for part in columns.parts():
            odds, of = columns.column("odds")[part], self._of[part]
            known = np.isfinite(odds)
            np.minimum.at(low, of[known], odds[known])
            np.maximum.at(high, of[known], odds[known])
            many += np.bincount(of[known], minlength=n)
        if not many.any():
            raise NotFound("the run has no interval to draw")
        # The same interest as in `results.pictured`.
        seen: dict[str, set[str]] = {}
        for row in columns.answers(columns.shown() > 0) if columns.asked else ():
            seen.setdefault(row.market_id, set()).update(s.id for s in row.line.search_snippets)
        documents = np.array([min(len(seen.get(m, ())), 12) for m in columns.markets])
        moved = (1 + documents) * np.where(many > 0, (high - low) * np.minimum(many, 12), -1.0)
        name: str = max(zip(moved.tolist(), columns.markets, strict=True))[1]
        return name

    def of(self, market: str) -> list[IntervalRow]:
        with self._columns() as columns:
            return list(questions_of(columns.rows(columns.places(market, None, None), let_go=True)))

    def without_flagged(
        self, questions: Callable[[], Iterable[Question]], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        with self._columns() as columns:
            if not columns.flagged():
                return None
            return results.without_flagged(list(questions_of(columns)), [*questions()], settings)

    def _among(self, markets: set[str]) -> npt.NDArray[np.bool_]:
        wanted = np.array([name in markets for name in self._kept.markets], dtype=bool)
        return np.asarray(wanted[self._of])

    def _arrays(self, mask: npt.NDArray[np.bool_]) -> Arrays:
        """The rows of a mask, by market and then by time. Where several experiments asked, one row
        has the forecasts of all, with the context that shows the most."""
        with self._columns() as columns:
            return self._arrays_of(mask, columns)

    def _arrays_of(self, mask: npt.NDArray[np.bool_], columns: IntervalColumns) -> Arrays:
        disk, rows = Disk(), self._by_market(mask, columns)
        # Rows of one market are in order of time: those of several experiments follow each other.
        first = np.ones(len(rows), dtype=bool)
        for part in parts_of(len(rows) - 1):
            now, after = rows[part], rows[part.start + 1 : part.stop + 1]
            other = columns.column("t")[now] != columns.column("t")[after]
            first[part.start + 1 : part.stop + 1] = other | (self._of[now] != self._of[after])
        columns.release()
        trim()
        of_all, rows = rows, rows if first.all() else rows[first]

        def keep(name: str, change: Change = lambda column: column) -> npt.NDArray[Any]:
            made = disk.keep(change(columns.column(name)[rows[p]]) for p in parts_of(len(rows)))
            columns.release()
            return made

        said = dict[str, npt.NDArray[np.float64]]()
        for k, one in enumerate(columns.who):
            if (name := label(one["model_id"])) != MARKET:
                every = (columns.forecasts[k][of_all[p]] for p in parts_of(len(of_all)))
                if first.all():
                    said[name] = disk.keep(every)
                else:
                    said[name] = disk.keep([_one_each(np.concatenate([*every]), first)])
                columns.release()
        nothing = np.broadcast_to(0, len(rows))
        shown = keep("shown", lambda column: column.astype(np.int64)) if columns.asked else nothing
        found = Arrays(
            ids=columns.markets,
            of=disk.keep(self._of[rows[p]] for p in parts_of(len(rows))),
            t=keep("t"),
            market=keep("odds"),
            price_age=keep("price_age", lambda column: column / 86400),
            strict=keep("text", lambda column: column >= 0),
            evidence=shown if shown.any() else nothing,
            bid=_known_ones(keep("bid"), disk),
            ask=_known_ones(keep("ask"), disk),
            forecasts=said,
            disk=disk,
        )
        disk.let_go()
        return found

    def _by_market(
        self, mask: npt.NDArray[np.bool_], columns: IntervalColumns
    ) -> npt.NDArray[np.int32]:
        """The rows of a mask by market, time and how much they show, the most first."""
        found, done = np.empty(int(mask.sum()), dtype=np.int32), 0
        for span in spans(self._of):
            mine = np.flatnonzero(span(self._of) & mask)
            shown, t = columns.shown()[mine], columns.column("t")[mine]
            mine = mine[np.lexsort((-shown, t, self._of[mine]))]
            found[done : done + len(mine)] = mine
            done += len(mine)
            columns.release()
        return found


def _one_each(p: npt.NDArray[np.float64], first: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """The forecast in each group of rows, of which `first` has the first ones; NaN where none has
    one."""
    if first.all():
        return p
    found = np.full(int(first.sum()), np.nan)
    there = np.isfinite(p)
    found[(np.cumsum(first) - 1)[there]] = p[there]
    return found


def _known_ones(column: npt.NDArray[np.float64], disk: Disk) -> npt.NDArray[np.float64]:
    """A column on a disk; one in which nothing is known takes no memory."""
    for part in parts_of(len(column)):
        known = np.isfinite(column[part]).any()
        disk.let_go()
        if known:
            return column
    return np.broadcast_to(np.nan, len(column))
