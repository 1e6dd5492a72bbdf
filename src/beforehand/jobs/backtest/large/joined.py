"""The intervals of a large run as columns (`runs/interval_columns.py`), from those of its steps.

Small runs keep rows of JSON. A run with more than `MOST_ROWS` intervals keeps columns, which give
the same figures and the same rows. Those of pure functions are made in bulk; where somebody is
asked, the steps keep rows, and these are divided at the end.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from beforehand.clock import parse_us, to_us
from beforehand.forecast.aggregate import Method, aggregates
from beforehand.forecast.base import NO_FORECAST, Forecaster, PanelForecaster
from beforehand.gateway.panel import Panel
from beforehand.jobs.backtest.order import Replacement
from beforehand.jobs.backtest.select import Experiments
from beforehand.memory import trim
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
    Who,
)
from beforehand.store.archive.ledger import Shelf
from beforehand.store.files import write_json, write_lines
from beforehand.store.npy import Pieces, save, spans

_FEW = 17
"""Of so many rows one is looked at, to divide them by time."""
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


def columns_of(
    panel: Panel,
    experiments: Sequence[int],
    forecasters: Sequence[PanelForecaster],
    method: Method,
) -> bytes:
    """A step's rows as columns (`Joined.add` reads them); `experiments` has that of each row."""
    said = np.stack([one.forecast(panel) for one in forecasters])
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
    packed = {name: (one.dtype.str, one.shape, one.tobytes()) for name, one in made.items()}
    return msgspec.msgpack.encode(packed)


_unpacked = msgspec.msgpack.Decoder(dict[str, tuple[str, tuple[int, ...], bytes]]).decode
"""A step's columns: the kind of number, the shape, and the numbers, by name."""
PARTS = 2
"""The form of these; a run that was begun in another one cannot go on."""


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
        columns: dict[str, Any] = {
            name: np.frombuffer(numbers, kind).reshape(shape)
            for name, (kind, shape, numbers) in _unpacked(part).items()
        }
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
        folder, found, sizes = self._path / FOLDER, self._found, np.array(self._sizes)
        order, lines = self._order(), self._lines is not None
        trim()
        folder.mkdir(exist_ok=True)

        def put(name: str, column: npt.NDArray[Any], at: npt.NDArray[Any] | None = order) -> None:
            """Write the column's places `at` [in the order of rows], a part at a time."""
            length = len(column) if at is None else len(at)
            parts = (slice(k, k + PART) for k in range(0, length, PART))
            made = (column[part] if at is None else column[at[part]] for part in parts)
            save(folder / f"{name}.npy", (COLUMNS | OF_ASKED).get(name, "int64"), (length,), made)

        experiment = found.take("experiment")[order]
        put("market", self._market_of, experiment)
        group = np.array(self._form.of, dtype=np.int16)
        if lines:
            put("group", group, experiment)
        group = group[experiment] if len(self._form.groups) > 1 else np.zeros(1, np.int16)
        del experiment
        trim()
        put("aggregate", found.take("aggregate"))
        group = np.broadcast_to(group, len(order))
        put("before", _before(self._written, group, len(self._markets)), None)
        trim()
        put("text_ends", np.cumsum(sizes, dtype=np.int64), None)
        put("text_known_at", np.array(self._known_at, dtype=np.int64), None)
        if lines:
            put("asked_ends", self._write_lines(order), None)
        done = (
            "market",
            "aggregate",
            "before",
            "text_ends",
            "text_known_at",
            "group",
            "asked_ends",
        )
        for name in COLUMNS | (OF_ASKED if lines else {}):
            if name not in done:
                put(name, found.take(name))
        texts = (self._texts[k] for k in range(len(self._texts)))
        save(folder / "texts.npy", "uint8", (sum(self._sizes),), texts)
        who = range(len(self._form.who))

        def said() -> Iterator[npt.NDArray[Any]]:
            for k in who:
                column = found.take(f"{FORECASTS} {k}")
                for start in range(0, len(order), PART):
                    yield column[order[start : start + PART]]
                del column

        save(folder / f"{FORECASTS}.npy", "float64", (len(who), len(order)), said())
        write_json(self._path / HEAD, self._head(run_id, len(order), method))
        names = [*COLUMNS, *(OF_ASKED if lines else ()), "text_ends", "text_known_at", "texts"]
        files = [HEAD, *(f"{FOLDER}/{name}.npy" for name in (*names, FORECASTS))]
        return [*files, ASKED] if lines else files

    def _order(self) -> npt.NDArray[np.int32]:
        """The places of the rows by time, market and experiment. They are sorted a span of time
        after the other: at once it would take the memory of five columns."""
        experiment, done = self._found.read("experiment"), 0
        found = np.empty(len(experiment), dtype=np.int32)
        times = partial(self._found.parts, "t", PART)
        for span in spans(np.concatenate([part[::_FEW] for part in times()]), len(found)):
            rows, at, start = list[npt.NDArray[Any]](), list[npt.NDArray[Any]](), 0
            for t in times():
                inside = np.flatnonzero(span(t))
                rows.append(inside + start)
                at.append(t[inside])
                start += len(t)
            mine = np.concatenate(rows)
            of = experiment[mine]
            mine = mine[np.lexsort((of, self._market_of[of], np.concatenate(at)))]
            found[done : done + len(mine)] = mine
            done += len(mine)
        return found

    def _written(self, name: str, rows: slice) -> npt.NDArray[Any]:
        """Rows of a column that is written already."""
        column = np.load(self._path / FOLDER / f"{name}.npy", mmap_mode="r")
        return np.array(column[rows])

    def _write_lines(self, order: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Write asked.jsonl in this order of rows; returns where the line of each ends. A row
        without a line (-1) ends where the one before does."""
        kept, sizes = self._lines, array("q")
        assert kept is not None
        places = self._found.take("line") if "line" in self._found else np.full(len(order), -1)

        def lines() -> Iterator[bytes]:
            for k in range(0, len(order), PART):
                for place in places[order[k : k + PART]].tolist():
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
    read: Callable[[str, slice], npt.NDArray[Any]], group: npt.NDArray[np.int16], markets: int
) -> npt.NDArray[np.int32]:
    """For each row, in order of time, the last one of its market and group before it that has an
    aggregate; -1 for none. `read` gives some rows of "market" and of "aggregate"."""
    found = np.full(len(group), -1, dtype=np.int32)
    groups = int(group.max(initial=0)) + 1
    last = np.full(markets * groups, -1, dtype=np.int32)
    for start in range(0, len(group), PART):
        rows = slice(start, min(start + PART, len(group)))
        whose = read("market", rows) * np.int64(groups) + group[rows]
        order = np.argsort(whose, kind="stable")
        whose, places = whose[order], np.arange(len(order))
        first = np.diff(whose, prepend=-1) != 0
        begins = np.maximum.accumulate(np.where(first, places, 0))
        has = np.isfinite(read("aggregate", rows))[order]
        latest = np.maximum.accumulate(np.where(has, places, -1))
        latest = np.concatenate([[-1], latest[:-1]])
        here = latest >= begins
        found[start + order] = np.where(here, start + order[np.where(here, latest, 0)], last[whose])
        np.maximum.at(last, whose[has], (start + order[has]).astype(np.int32))
    return found
