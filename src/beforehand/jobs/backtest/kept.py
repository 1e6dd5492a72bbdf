"""What a backtest keeps of its intervals, and how that is scored: rows, or columns.

Small runs keep rows of JSON. A run with more than `MOST_ROWS` intervals keeps columns
(`runs/interval_columns.py`), which give the same figures and the same rows. Those of pure functions
are made in bulk; where somebody is asked, the steps keep rows, and these are divided at the end.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import nan
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from beforehand.clock import parse_us, to_us
from beforehand.engine.context import StepContext
from beforehand.errors import NotFound
from beforehand.forecast.aggregate import Method, aggregates
from beforehand.forecast.base import NO_FORECAST, Forecaster, PanelForecaster
from beforehand.gateway.panel import Panel
from beforehand.jobs import results
from beforehand.jobs.backtest.order import Replacement
from beforehand.jobs.backtest.select import Experiments
from beforehand.records.rows import (
    IntervalRow,
    PredictionLine,
    decode_interval,
    decode_line,
    description,
    encode,
    forecasts,
    label,
)
from beforehand.runs.columns import columns_of
from beforehand.runs.interval_columns import (
    ASKED,
    COLUMNS,
    COUNTED,
    FOLDER,
    FORECASTS,
    HEAD,
    OF_ASKED,
    PART,
    AskedLine,
    Head,
    IntervalColumns,
    Who,
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
from beforehand.score.table import OnDisk, Table
from beforehand.store.archive.ledger import Shelf
from beforehand.store.files import write_json, write_lines
from beforehand.store.npy import Pieces, save

MOST_ROWS = 50_000
"""A run of more intervals keeps columns."""


@dataclass(frozen=True)
class Form:
    """How a run of columns keeps its rows. `who` forecasts; `groups` has, for each kind of
    experiment, their places in it, in the order of a row; `of` the group of each experiment. Those
    of the model ids in `asked` are kept as lines, and so are documents that are `shown`."""

    who: Sequence[Forecaster]
    groups: Sequence[Sequence[int]]
    of: Sequence[int]
    asked: frozenset[str]
    shown: bool

    @property
    def lines(self) -> bool:
        """True for a run with an asked.jsonl."""
        return self.shown or bool(self.asked) or len(self.groups) > 1

    def in_bulk(self, experiment: int) -> bool:
        """True where only pure functions are asked, and no document is shown."""
        mine = (self.who[k].model_id for k in self.groups[self.of[experiment]])
        return not self.shown and self.asked.isdisjoint(mine)


def form_of(
    configs: Experiments,
    forecasters: Mapping[str, Forecaster],
    replacement: Replacement,
    method: Method,
    documents: bool,
) -> Form | None:
    """The form of a large run; None where it keeps rows. With weights from past scores it does, for
    these are computed over all of them."""
    if sum(map(configs.count, range(len(configs)))) <= MOST_ROWS or method == "weighted":
        return None
    instead = replacement.models
    kinds = dict.fromkeys(tuple(config.models) for config in configs.kinds)
    lists = [[e for m in kind for e in (m, instead.get(m)) if e is not None] for kind in kinds]
    entries = list(dict.fromkeys(entry for mine in lists for entry in mine))
    who = [forecasters[entry] for entry in entries]
    if any(len({*mine}) != len(mine) for mine in lists):  # One stands in for two.
        return None
    if len({one.model_id for one in who}) != len(who):
        return None
    number = {kind: k for k, kind in enumerate(kinds)}
    number_of = [number[tuple(config.models)] for config in configs.kinds]
    of = [number_of[kind] for kind in configs.kind_of]
    if len({*zip(configs.markets, of, strict=True)}) != len(configs):
        return None
    # A pure function that is replaced, or replaces another, has no forecast in every row.
    partly = {*instead, *instead.values()}
    asked = {
        one.model_id
        for entry, one in zip(entries, who, strict=True)
        if _same_everywhere(one) is None or entry in partly
    }
    place = {entry: k for k, entry in enumerate(entries)}
    groups = [[place[entry] for entry in mine] for mine in lists]
    shown = documents and any(config.search_config.max_results for config in configs.kinds)
    return Form(who, groups, of, frozenset(asked), shown)


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
    together = aggregates(method, said)
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


class Joined:
    """The columns of a run from those of its steps, and from the rows of others, by time, market
    and experiment. Lines of asked.jsonl wait in a file."""

    def __init__(self, path: Path, configs: Experiments, form: Form) -> None:
        self._path, self._form = path, form
        self._markets = sorted({*configs.markets}, key=str.encode)
        place = {name: i for i, name in enumerate(self._markets)}
        self._market_of = np.array([place[name] for name in configs.markets], dtype=np.int32)
        self._found = Pieces(path)
        self._texts, self._sizes, self._known_at = Shelf(path), array("q"), array("q")
        self._place_of: dict[tuple[str, int], int] = {}
        self._lines = Shelf(path) if form.lines else None

    def add(self, part: bytes) -> None:
        """Take in the columns of a step."""
        with np.load(BytesIO(part), allow_pickle=False) as kept:
            columns = {name: kept[name] for name in kept.files}
        blob, end = columns.pop("texts").tobytes(), 0
        known, shift = columns.pop("text_known_at").tolist(), len(self._texts)
        for size, at in zip(columns.pop("sizes").tolist(), known, strict=True):
            self._keep_text(blob[end : end + size], at)
            end += size
        columns["text"] = np.where(columns["text"] < 0, -1, columns["text"] + shift)
        if self._lines is not None:
            mine = self._form.groups[self._form.of[int(columns["experiment"][0])]]
            columns[FORECASTS] = np.full((len(self._form.who), len(columns["t"])), np.nan)
            columns[FORECASTS][mine] = columns.pop("said")
            nothing = np.full(len(columns["t"]), -1, dtype=np.int64)
            columns |= {"line": nothing, **dict.fromkeys(COUNTED, nothing + 1)}
        else:
            columns[FORECASTS] = columns.pop("said")
        self._take(columns)

    def add_rows(self, rows: Iterable[bytes], predictions: Iterable[bytes]) -> None:
        """Take in the lines of a step: those of its intervals, and of its predictions."""
        said: dict[bytes, list[PredictionLine]] = {}
        for line in predictions:
            key, _, body = line.partition(b"\0")
            made = decode_line(body)
            if made.metadata.model in self._form.asked:
                said.setdefault(key.rpartition(b"\t")[0], []).append(made)
        cells: dict[str, list[Any]] = {}
        for line in rows:
            key, _, body = line.partition(b"\0")
            where = key.rpartition(b"\t")[0]
            made_of = self._cells(decode_interval(body), said.get(where, []))
            made_of["experiment"] = int(where.rpartition(b"\t")[2])
            for name, cell in made_of.items():
                cells.setdefault(name, []).append(cell)
        if cells:
            columns = {name: np.array(column) for name, column in cells.items()}
            columns[FORECASTS] = columns[FORECASTS].T
            self._take(columns)

    def _cells(self, row: IntervalRow, predictions: list[PredictionLine]) -> dict[str, Any]:
        """A row's cells; its line is put down."""
        assert self._lines is not None
        market, text, asked = row.context.market, -1, self._form.asked
        if market.description is not None and market.text_known_at is not None:
            whole = market.description, parse_us(market.text_known_at)
            if (text := self._place_of.setdefault(whole, len(self._texts))) == len(self._texts):
                self._keep_text(market.description.encode(), whole[1])
        mine = [one for one in row.decisions if one.model_id in asked]
        failed = [one for one in row.failures if one.model_id in asked]
        snippets, said = row.context.search_snippets, forecasts(row.decisions)
        line = AskedLine(mine, failed, snippets, predictions)
        return {
            "t": row.context.t,
            "odds": _nan(market.odds),
            "price_age": _nan(market.price_age),
            "known_at": -1 if market.odds_known_at is None else parse_us(market.odds_known_at),
            "bid": _nan(market.bid),
            "ask": _nan(market.ask),
            "text": text,
            "aggregate": _nan(row.aggregate.probability),
            "shown": len(snippets),
            "said": len(mine),
            "cited": sum(bool(one.key_evidence_ids) for one in mine),
            "failed": len(failed),
            "line": self._lines.keep(encode(line) + b"\n"),
            FORECASTS: [_nan(said.get(label(one.model_id))) for one in self._form.who],
        }

    def _keep_text(self, text: bytes, known_at: int) -> None:
        self._texts.keep(text)
        self._sizes.append(len(text))
        self._known_at.append(known_at)

    def _take(self, columns: Mapping[str, Any]) -> None:
        for name, column in columns.items():
            if name != FORECASTS:
                self._found.add(name, column)
        for k, said in enumerate(columns[FORECASTS]):
            self._found.add(f"{FORECASTS} {k}", said)

    def write(self, run_id: str, method: Method) -> list[str]:
        """Write them; returns the names of the files."""
        folder, take, sizes = self._path / FOLDER, self._found.take, np.array(self._sizes)
        experiment, t = take("experiment"), take("t")
        market = self._market_of[experiment]
        order = np.lexsort((experiment, market, t))
        group = np.array(self._form.of, dtype=np.int16)[experiment][order]
        market, t, n, aggregate = market[order], t[order], len(order), take("aggregate")[order]
        del experiment
        made: dict[str, Callable[[], npt.NDArray[Any]]] = {
            "market": lambda: market,
            "t": lambda: t,
            "aggregate": lambda: aggregate,
            "before": lambda: _before(market, group, aggregate),
            "text_ends": lambda: np.cumsum(sizes, dtype=np.int64),
            "text_known_at": lambda: np.array(self._known_at, dtype=np.int64),
        }
        folder.mkdir(exist_ok=True)
        if self._lines is not None:
            lines = take("line")[order] if "line" in self._found else np.full(n, -1)
            made["asked_ends"] = lambda: self._write_lines(lines.tolist())
            made["group"] = lambda: group
        for name in COLUMNS | (OF_ASKED if self._lines is not None else {}):
            made.setdefault(name, lambda name=name: take(name)[order])  # type: ignore[misc]
        for name, make in made.items():  # One after the other, each let go of once it is written.
            column = make()
            save(
                folder / f"{name}.npy",
                (COLUMNS | OF_ASKED).get(name, "int64"),
                column.shape,
                [column],
            )
        texts = (self._texts[k] for k in range(len(self._texts)))
        save(folder / "texts.npy", "uint8", (sum(self._sizes),), texts)
        said = (take(f"{FORECASTS} {k}")[order] for k in range(len(self._form.who)))
        save(folder / f"{FORECASTS}.npy", "float64", (len(self._form.who), n), said)
        write_json(self._path / HEAD, self._head(run_id, n, method))
        files = [HEAD, *(f"{FOLDER}/{name}.npy" for name in (*made, "texts", FORECASTS))]
        return [*files, ASKED] if self._lines is not None else files

    def _write_lines(self, places: Sequence[int]) -> npt.NDArray[np.int64]:
        """Write asked.jsonl, the lines at these places (-1: the row has none); returns where each
        ends."""
        kept, sizes = self._lines, array("q")
        assert kept is not None

        def lines() -> Iterator[bytes]:
            for place in places:
                line = kept[place] if place >= 0 else b""
                sizes.append(len(line))
                yield line

        write_lines(self._path / ASKED, lines())
        return np.cumsum(np.frombuffer(sizes, np.int64))

    def _head(self, run_id: str, rows: int, method: Method) -> Head:
        form = self._form
        who: list[Who] = [
            {
                "model_id": one.model_id,
                "name": one.name,
                "version": one.version,
                "rationale": _same_everywhere(one) or "",
                "failure": NO_FORECAST,
                "asked": one.model_id in form.asked,
            }
            for one in form.who
        ]
        return {
            "run_id": run_id,
            "rows": rows,
            "asked": form.lines,
            "method": method,
            "forecasters": who,
            "groups": [list(group) for group in form.groups],
            "markets": self._markets,
        }


def _nan(value: float | None) -> float:
    return nan if value is None else value


def _before(
    market: npt.NDArray[np.int32], group: npt.NDArray[np.int16], together: npt.NDArray[np.float64]
) -> npt.NDArray[np.int32]:
    """For each row, in order of time, the last one of its market and group before it that has an
    aggregate; -1 for none."""
    found = np.full(len(market), -1, dtype=np.int32)
    groups = int(group.max(initial=0)) + 1
    last = np.full((int(market.max(initial=0)) + 1) * groups, -1, dtype=np.int32)
    for start in range(0, len(market), PART):
        rows = slice(start, start + PART)
        whose = market[rows] * np.int64(groups) + group[rows]
        order = np.argsort(whose, kind="stable")
        whose, places = whose[order], np.arange(len(order))
        first = np.diff(whose, prepend=-1) != 0
        begins = np.maximum.accumulate(np.where(first, places, 0))
        has = np.isfinite(together[rows])[order]
        latest = np.maximum.accumulate(np.where(has, places, -1))
        latest = np.concatenate([[-1], latest[:-1]])
        here = latest >= begins
        found[start + order] = np.where(here, start + order[np.where(here, latest, 0)], last[whose])
        np.maximum.at(last, whose[has], (start + order[has]).astype(np.int32))
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
        self._path, self._kept = path, IntervalColumns((path / HEAD).parent)
        with self._columns() as columns:
            self._of = np.array(columns.column("market"))

    @contextmanager
    def _columns(self) -> Iterator[IntervalColumns]:
        """The columns; what is read of them is let go of at the end."""
        try:
            yield self._kept
        finally:
            self._kept.release()

    def table(self, questions: Sequence[Question], apart: set[str]) -> Table:
        return table_of(self._arrays(~self._among(apart)), questions)

    def apart(self, questions: Sequence[Question], apart: set[str]) -> Table | None:
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
        odds = columns.column("odds")
        known, n = np.isfinite(odds), len(columns.markets)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, self._of[known], odds[known])
        np.maximum.at(high, self._of[known], odds[known])
        many = np.bincount(self._of[known], minlength=n)
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
        self, questions: list[Question], settings: Settings
    ) -> dict[str, dict[str, Few]] | None:
        with self._columns() as columns:
            if not columns.flagged():
                return None
            return results.without_flagged(list(questions_of(columns)), questions, settings)

    def _among(self, markets: set[str]) -> npt.NDArray[np.bool_]:
        wanted = np.array([name in markets for name in self._kept.markets], dtype=bool)
        return np.asarray(wanted[self._of])

    def _arrays(self, mask: npt.NDArray[np.bool_]) -> Arrays:
        """The rows of a mask, by market and then by time. Where several experiments asked, one row
        has the forecasts of all, with the context that shows the most."""
        with self._columns() as columns:
            return self._arrays_of(mask, columns)

    def _arrays_of(self, mask: npt.NDArray[np.bool_], columns: IntervalColumns) -> Arrays:
        mine, shown = np.flatnonzero(mask), columns.shown()
        mine = mine[np.lexsort((-shown[mine], columns.column("t")[mine], self._of[mine]))]
        first = np.ones(len(mine), dtype=bool)
        first[1:] = (np.diff(columns.column("t")[mine]) != 0) | (np.diff(self._of[mine]) != 0)
        names = [label(one["model_id"]) for one in columns.who]
        said = OnDisk(
            (name, _one_each(_forecasts(columns, k, mine), first))
            for k, name in enumerate(names)
            if name != MARKET
        )
        mine = mine[first]
        shown = columns.shown()[mine]
        return Arrays(
            ids=columns.markets,
            of=self._of[mine].astype(np.int64),
            t=columns.column("t")[mine],
            market=columns.column("odds")[mine],
            price_age=columns.column("price_age")[mine] / 86400,
            strict=columns.column("text")[mine] >= 0,
            evidence=shown.astype(np.int64) if shown.any() else np.broadcast_to(0, len(mine)),
            bid=_known_ones(columns.column("bid")[mine]),
            ask=_known_ones(columns.column("ask")[mine]),
            forecasts=said,
            held=OnDisk,
        )


def _forecasts(
    columns: IntervalColumns, k: int, rows: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    """A forecaster's forecasts in these rows; of its column nothing stays mapped."""
    found: npt.NDArray[np.float64] = columns.forecasts[k][rows]
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


def _known_ones(column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A column; one in which nothing is known takes no memory."""
    return np.broadcast_to(np.nan, len(column)) if np.isnan(column).all() else column
