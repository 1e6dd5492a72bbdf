"""The intervals of a large run as columns: the folder `intervals/` of a run.

A run over ten thousand markets has millions of forecasts of pure functions, and as JSON each takes
five hundred bytes. Here each takes eight. `intervals/` holds one `.npy` file a column (numpy's own
format, mapped and not read), in the order in which `intervals.jsonl` would have its lines; the
texts of the questions once each; and `head.json`, which says who forecast. Where somebody was
asked, `asked.jsonl` has a line for each row: what they said, and the documents that they were
shown. Every file is sealed in `run.json` as any other. The rows themselves, and the bytes of
`intervals.jsonl` and `predictions.jsonl`, are made from these when somebody asks for them.
"""

import mmap
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec
from msgspec import Struct

from beforehand.clock import iso_us
from beforehand.errors import InputError
from beforehand.forecast.aggregate import Method, aggregate, aggregates
from beforehand.records.rows import (
    AggregateRow,
    Context,
    DecisionRow,
    EvidenceLine,
    FailureRow,
    IntervalRow,
    MarketSeen,
    MetadataLine,
    PayloadLine,
    PredictionLine,
    Previous,
    Snippet,
    forecasts,
    label,
    sureness,
    yes_or_no,
)
from beforehand.store.files import read_json

if TYPE_CHECKING:  # numpy is loaded by those that have columns to read.
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]
    Places = npt.NDArray[np.int32]

FOLDER = "intervals"
HEAD = f"{FOLDER}/head.json"
PREVIOUS = 10
"""How many earlier aggregates of its experiment a context shows."""
FIRST_BLOCK, BLOCK, PART = 128, 4096, 16_384
"""Rows that are made at once: few for the first page, more for those who go on. And rows of which
columns are held in memory when all of them are read."""
COLUMNS = {
    "t": "int64",
    "market": "int32",
    "odds": "float64",
    "price_age": "float64",
    "known_at": "int64",
    "bid": "float64",
    "ask": "float64",
    "text": "int32",
    "aggregate": "float64",
    "before": "int32",
}
"""Microseconds, a market's place in `markets`, probabilities and seconds (NaN is unknown), from
when the price was known (-1: none is), the text's place (-1: none is known), the decisions brought
together, and the last row of the same market before this one that has such (-1: none has)."""
FORECASTS = "forecasts"
"""Of shape (forecasters, rows), probabilities; NaN where a forecaster has none. Of somebody who was
asked, the mean of its simulations."""
ASKED = f"{FOLDER}/asked.jsonl"
OF_ASKED = {
    "group": "int16",
    "asked_ends": "int64",
    "shown": "int32",
    "said": "int32",
    "cited": "int32",
    "failed": "int32",
}
"""Further columns where somebody was asked: who was, as a place in the head's `groups`; where each
line of `asked.jsonl` ends, in bytes (where the one before ends: there is none); how many documents
were shown; and of those who were asked, how many answers there are, how many of these cite
something, and how many failed."""


COUNTED = ("shown", "said", "cited", "failed")


class AskedLine(Struct, frozen=True, omit_defaults=True):
    """A line of `asked.jsonl`: what those who were asked said in a row, the documents of its
    context, and their lines of predictions.jsonl."""

    decisions: list[DecisionRow] = []
    failures: list[FailureRow] = []
    search_snippets: list[Snippet] = []
    predictions: list[PredictionLine] = []


_NOTHING = AskedLine()
_decode_asked = msgspec.json.Decoder(AskedLine).decode


class Answers(NamedTuple):
    """A line of asked.jsonl with its market and time."""

    market_id: str
    time: str
    line: AskedLine

    @property
    def decisions(self) -> list[DecisionRow]:
        """What was said."""
        return self.line.decisions

    @property
    def failures(self) -> list[FailureRow]:
        """What failed."""
        return self.line.failures


class Who(TypedDict):
    """A forecaster of a run of columns: its names and version, what its forecasts rest on, and what
    is said where it has none. Of one that was `asked`, each answer says these itself."""

    model_id: str
    name: str
    version: str
    rationale: str
    failure: str
    asked: bool


class Head(TypedDict):
    """`head.json`."""

    run_id: str
    rows: int
    asked: bool
    method: Method
    forecasters: list[Who]
    groups: list[list[int]]
    markets: list[str]


class IntervalColumns:
    """The columns of one run. Raises InputError where a file is damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._columns: dict[str, Any] = {}
        try:
            self.head: Head = read_json(folder / "head.json")
            self.run_id, self.method = self.head["run_id"], self.head["method"]
            self.who, self.markets = self.head["forecasters"], self.head["markets"]
            self._n = int(self.head["rows"])
            self.asked: bool = self.head.get("asked", False)
            """True where there is an asked.jsonl."""
            self.groups: list[list[int]] = self.head.get("groups", [[*range(len(self.who))]])
            """Who was asked together, as places in `who`."""
            for one in self.who:  # A run of before that kept no lines does not say it.
                one.setdefault("asked", False)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(folder / "head.json", error) from None

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[IntervalRow]:
        return self.rows()

    def column(self, name: str) -> Any:
        """A column of COLUMNS, mapped. Raises InputError where it has another length or kind."""
        if (found := self._columns.get(name)) is None:
            found = self._mapped(name)
            if found.shape != (self._n,) or found.dtype != (COLUMNS | OF_ASKED)[name]:
                raise _damaged(self.folder / f"{name}.npy", f"{found.dtype} of {found.shape}")
            self._columns[name] = found  # Not before: who asks again is refused again.
        return found

    def failed(self) -> "npt.NDArray[np.bool_]":
        """Rows in which an answer failed, or a pure function had no forecast."""
        import numpy as np

        missing = np.zeros(self._n, dtype=bool)
        group = self.column("group") if self.asked else np.zeros(self._n, dtype=np.int16)
        for k, (one, said) in enumerate(zip(self.who, self.forecasts, strict=True)):
            if not one["asked"]:
                mine = [number for number, places in enumerate(self.groups) if k in places]
                missing |= np.isnan(said) & np.isin(group, mine)
        if self.asked:
            missing |= self.column("failed") > 0
        return missing

    def whole_instants(self, rows: "npt.NDArray[np.bool_]") -> "npt.NDArray[np.bool_]":
        """These rows, and all others of their market and instant: several experiments may have
        asked the same."""
        import numpy as np

        if not self.asked or not self._n:
            return rows
        first, t, market = np.ones(self._n, dtype=bool), self.column("t"), self.column("market")
        first[1:] = (t[1:] != t[:-1]) | (market[1:] != market[:-1])
        whole = np.maximum.reduceat(rows, np.flatnonzero(first))
        return np.asarray(whole[np.cumsum(first) - 1])

    def rows_of(self, place: int) -> int:
        """How many rows there are of a forecaster, by its place in `who`."""
        import numpy as np

        if not self.asked:
            return self._n
        mine = [number for number, places in enumerate(self.groups) if place in places]
        return int(np.isin(self.column("group"), mine).sum())

    def shown(self) -> "Places":
        """How many documents each row's context has."""
        import numpy as np

        if not self.asked:
            return np.zeros(self._n, dtype=np.int32)
        found: Places = self.column("shown")
        return found

    def release(self) -> None:
        """Let go of what is mapped, and so of the memory of what was read; whoever asks again maps
        it again."""
        self._columns.clear()
        for name in ("forecasts", "text_known_at", "_ends", "_texts", "_asked_bytes"):
            self.__dict__.pop(name, None)

    def parts(self) -> Iterator[slice]:
        """All rows, a part at a time; what was read of a part is let go of."""
        for start in range(0, self._n, PART):
            yield slice(start, min(start + PART, self._n))
            self.release()

    @cached_property
    def forecasts(self) -> "Floats":
        """Every forecast, of shape (forecasters, rows)."""
        found = self._mapped(FORECASTS)
        if found.shape != (len(self.who), self._n) or found.dtype != "float64":
            raise _damaged(self.folder / f"{FORECASTS}.npy", f"{found.dtype} of {found.shape}")
        forecasts: Floats = found
        return forecasts

    @cached_property
    def text_known_at(self) -> "Ints":
        """From when each text was known, in microseconds."""
        found: Ints = self._mapped("text_known_at")
        return found

    def text(self, place: int) -> str:
        """A question's text, with its rules."""
        start = int(self._ends[place - 1]) if place else 0
        return bytes(self._texts[start : int(self._ends[place])]).decode()

    def problems(self) -> Iterator[str]:
        """What cannot be as it stands: places that are not there, an order that is none, values
        that are no probabilities, aggregates that are not those of their forecasts."""
        for part in self.parts():
            if found := list(self._problems_in(part)):
                yield from found
                return
        if self.asked and (said := self._said_otherwise()) is not None:
            yield said

    def _problems_in(self, part: slice) -> Iterator[str]:
        import numpy as np

        t, market, before = (self.column(name) for name in ("t", "market", "before"))
        group = self.column("group") if self.asked else np.zeros(1, dtype=np.int16)
        group = group if self.asked else np.broadcast_to(group, self._n)
        since = slice(max(part.start - 1, 0), part.stop)  # The row before it as well.
        apart, other, on = np.diff(market[since]), np.diff(group[since]) != 0, np.diff(t[since])
        later = (on > 0) | ((on == 0) & ((apart > 0) | ((apart == 0) & other)))
        if not later.all():
            at = since.start + 1 + int(np.argmin(later))
            yield f"row {at:,} is not in the order of time and market"
        for name, column, low, high in (
            ("market", market, 0, len(self.markets)),
            ("text", self.column("text"), -1, len(self.text_known_at)),
            ("before", before, -1, self._n),
            ("group", group, 0, len(self.groups)),
        ):
            wrong = (column[part] < low) | (column[part] >= high)
            if wrong.any():
                at = part.start + int(np.argmax(wrong))
                yield f"row {at:,} names a {name} that is not there"
                return
        has = part.start + np.flatnonzero(before[part] >= 0)
        alike = (market[before[has]] == market[has]) & (group[before[has]] == group[has])
        if not alike.all() or (before[has] >= has).any():
            yield "a row names one before it that is of another market, or not before it"
        every = {name: self.column(name) for name in ("odds", "bid", "ask", "aggregate")}
        every |= {f"forecast of {w['name']}": self.forecasts[k] for k, w in enumerate(self.who)}
        for name, column in every.items():
            outside = (column[part] < 0.0) | (column[part] > 1.0) | np.isinf(column[part])
            if outside.any():
                at = part.start + int(np.argmax(outside))
                yield f"row {at:,} has a {name} outside of 0 to 1"
        if not self.asked:
            found = aggregates(self.method, self.forecasts[:, part])
            kept = map(_known, self.column("aggregate")[part].tolist())
            if wrong := [k for k, (a, b) in enumerate(zip(found, kept, strict=True)) if a != b]:
                yield f"row {part.start + wrong[0]:,}{_OTHER_AGGREGATE}"

    def _said_otherwise(self) -> str | None:
        """The first row of which a column is not what its line of asked.jsonl gives."""
        names = [label(one["model_id"]) if one["asked"] else None for one in self.who]
        counted = zip(*(self.column(name) for name in COUNTED), strict=True)
        rows = zip(self.rows(), self.forecasts.T, counted, strict=True)
        for k, (row, kept, counts) in enumerate(rows):
            said, context = forecasts(row.decisions), row.context
            for name, p in zip(names, kept.tolist(), strict=True):
                if name is not None and said.get(name) != _known(p):
                    return f"row {k:,} has a forecast of {name} that is not what it said"
            mine = [one for one in row.decisions if label(one.model_id) in names]
            failed = [one for one in row.failures if label(one.model_id) in names]
            cited = sum(bool(one.key_evidence_ids) for one in mine)
            if (len(context.search_snippets), len(mine), cited, len(failed)) != counts:
                return f"row {k:,} counts other documents or answers than it has"
            if _together(self.method, row) != row.aggregate.probability:
                return f"row {k:,}{_OTHER_AGGREGATE}"
        return None

    def places(self, market: str | None, since: int | None, until: int | None) -> "Ints":
        """The rows of a market (None: of each) from `since` to `until` (microseconds)."""
        import numpy as np

        t = self.column("t")
        low = 0 if since is None else int(np.searchsorted(t, since, side="left"))
        high = self._n if until is None else int(np.searchsorted(t, until, side="right"))
        if market is None:
            return np.arange(low, max(low, high))
        if market not in self.markets:
            return np.zeros(0, dtype=np.int64)
        place, of = self.markets.index(market), self.column("market")
        parts = (slice(k, min(k + PART, high)) for k in range(low, high, PART))
        found = [part.start + np.flatnonzero(of[part] == place) for part in parts]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def rows(self, places: "Ints | None" = None, let_go: bool = False) -> Iterator[IntervalRow]:
        """The rows at these places [each row], as an intervals.jsonl has them; `let_go` maps one
        column at a time."""
        for seen, brought, said, asked in self._blocks(places, let_go):
            for context, together, column, (group, line) in zip(
                seen, brought, said, asked, strict=True
            ):
                time = context.time
                made = [one for k in group for one in _said(self.who[k], column[k], line, time)]
                decisions = [one for one in made if isinstance(one, DecisionRow)]
                p = _known(together)
                verdict = None if p is None else yes_or_no(p)
                yield IntervalRow(
                    run_id=self.run_id,
                    market_id=context.market.id,
                    time=time,
                    context=context,
                    decisions=decisions,
                    failures=[one for one in made if isinstance(one, FailureRow)],
                    aggregate=AggregateRow(self.method, p, verdict, len(decisions)),
                )

    def predictions(self) -> Iterator[PredictionLine]:
        """The rows of the run's predictions.jsonl."""
        for seen, _, said, asked in self._blocks(None, False):
            for context, column, (group, line) in zip(seen, said, asked, strict=True):
                market, time = context.market, context.time
                cited = []
                if market.odds_known_at is not None and market.odds is not None:
                    price = f"price {market.odds:g}"
                    kind = "market_snapshot"
                    cited = [EvidenceLine(kind, market.id, price, market.odds_known_at)]
                for one, p in ((self.who[k], column[k]) for k in group):
                    if one["asked"]:
                        mine = one["model_id"]
                        yield from (x for x in line.predictions if x.metadata.model == mine)
                    elif p == p:
                        yield PredictionLine(
                            market.id,
                            PayloadLine(p, cited, one["rationale"]),
                            MetadataLine(one["model_id"], time, one["version"], one["name"]),
                        )

    @cached_property
    def _ends(self) -> "Ints":
        """Where each text ends, in bytes."""
        found: Ints = self._mapped("text_ends")
        return found

    @cached_property
    def _texts(self) -> Any:
        """Every text, one after the other, in UTF-8."""
        return self._mapped("texts")

    def _mapped(self, name: str) -> Any:
        import numpy as np

        path = self.folder / f"{name}.npy"
        try:
            # As a plain array: a place in one is read ten times faster than in a `memmap`.
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(path, error) from None

    def answers(self, rows: "npt.NDArray[np.bool_] | None" = None) -> Iterator[Answers]:
        """What those said who were asked in these rows [all], without the contexts."""
        import numpy as np

        there = self.column("said") + self.column("failed") > 0 if rows is None else rows
        t, market = self.column("t"), self.column("market")
        every = np.flatnonzero(there)
        for start in range(0, len(every), BLOCK):
            at = every[start : start + BLOCK]
            when, which = t[at].tolist(), market[at].tolist()
            for at_us, name, (_, line) in zip(when, which, self._asked(at), strict=True):
                yield Answers(self.markets[name], iso_us(at_us), line)

    def flagged(self) -> bool:
        """True if an answer rests on a document that the leak detector flags: only then the line
        has this key."""
        return self.asked and int(self._asked_bytes.find(b'"flagged_evidence_ids":[')) >= 0

    def _blocks(
        self, places: "Ints | None", let_go: bool
    ) -> Iterator[
        tuple[
            list[Context],
            list[float],
            list[tuple[float, ...]],
            list[tuple[Sequence[int], AskedLine]],
        ]
    ]:
        """Contexts, aggregates, forecasts, and who was asked with the lines of asked.jsonl, a few
        thousand rows at a time."""
        import numpy as np

        length, start, size = self._n if places is None else len(places), 0, FIRST_BLOCK
        while start < length:
            end = min(start + size, length)
            at = np.arange(start, end) if places is None else places[start:end]
            if start // PART != (start + size) // PART:
                self.release()
            start, size = start + size, min(2 * size, BLOCK)
            now = dict[str, list[Any]]()
            for name in COLUMNS:
                now[name] = self.column(name)[at].tolist()
                if let_go:  # A system maps much around each row.
                    self.release()
            earlier = self._earlier(at, self.column("before"))
            each = list[list[float]]()
            for k in range(len(self.who)):
                each.append(self.forecasts[k][at].tolist())
                if let_go:
                    self.release()
            said = list(zip(*each, strict=True)) or [()] * len(at)
            asked = self._asked(at)
            contexts = [
                self._context(*cells)
                for cells in zip(
                    now["t"],
                    now["market"],
                    now["odds"],
                    now["price_age"],
                    now["known_at"],
                    now["bid"],
                    now["ask"],
                    now["text"],
                    earlier,
                    (line.search_snippets for _, line in asked),
                    strict=True,
                )
            ]
            yield contexts, now["aggregate"], said, asked

    def _asked(self, at: "Ints") -> list[tuple[Sequence[int], AskedLine]]:
        """Who was asked in these rows, as places in `who`, and their lines of asked.jsonl."""
        import numpy as np

        if not self.asked:
            return [(self.groups[0], _NOTHING)] * len(at)
        ends, group = self.column("asked_ends"), self.column("group")[at].tolist()
        starts = np.where(at > 0, ends[at - 1], 0).tolist()
        try:
            return [
                (
                    self.groups[g],
                    _decode_asked(self._asked_bytes[start:end]) if end > start else _NOTHING,
                )
                for g, start, end in zip(group, starts, ends[at].tolist(), strict=True)
            ]
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
            raise _damaged(self.folder / Path(ASKED).name, error) from None

    @cached_property
    def _asked_bytes(self) -> Any:
        """`asked.jsonl`, mapped."""
        path = self.folder / Path(ASKED).name
        try:
            if not path.stat().st_size:  # It cannot be mapped.
                return b""
            with path.open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from None

    def _earlier(self, at: "Ints", before: "Places") -> list[list[Previous]]:
        """For each row, the last aggregates of its market before it, oldest first."""
        import numpy as np

        t, aggregate, row = self.column("t"), self.column("aggregate"), before[at].astype(np.int64)
        found: list[list[Previous]] = [[] for _ in at]
        for _ in range(PREVIOUS):
            there = np.flatnonzero(row >= 0)
            if not len(there):
                break
            chosen = row[there]
            if chosen.max() >= self._n:
                raise _damaged(self.folder / "before.npy", "it names a row that is not there")
            for k, when, p in zip(
                there.tolist(), t[chosen].tolist(), aggregate[chosen].tolist(), strict=True
            ):
                found[k].append(Previous(iso_us(when), p))
            row[there] = before[chosen]
        for rows in found:
            rows.reverse()
        return found

    def _context(
        self,
        t: int,
        market: int,
        odds: float,
        price_age: float,
        known_at: int,
        bid: float,
        ask: float,
        text: int,
        earlier: list[Previous],
        snippets: list[Snippet],
    ) -> Context:
        try:
            seen = MarketSeen(
                self.markets[market],
                None if text < 0 else self.text(text),
                _known(odds),
                _known(price_age),
                None if known_at < 0 else iso_us(known_at),
                None if text < 0 else iso_us(int(self.text_known_at[text])),
                _known(bid),
                _known(ask),
            )
            return Context(iso_us(t), seen, snippets, earlier)
        except (IndexError, OverflowError, UnicodeDecodeError) as error:
            raise _damaged(self.folder, error) from None


_OTHER_AGGREGATE = " has an aggregate that is not that of its forecasts"


def _decision(one: Who, p: float, time: str) -> DecisionRow | FailureRow:
    """What a pure function said in a row."""
    if p != p:
        return FailureRow(one["model_id"], 0, one["failure"])
    says = one["rationale"]
    return DecisionRow(one["model_id"], 0, "baseline", yes_or_no(p), sureness(p), p, says, [], time)


def _said(who: Who, p: float, line: AskedLine, time: str) -> list[DecisionRow | FailureRow]:
    """What a forecaster said in a row: a pure function once, others once a simulation."""
    if not who["asked"]:
        return [_decision(who, p, time)]
    said: list[DecisionRow | FailureRow] = [*line.decisions, *line.failures]
    return [one for one in said if one.model_id == who["model_id"]]


def _together(method: Method, row: IntervalRow) -> float | None:
    return aggregate(method, [one.probability for one in row.decisions])


def _known(value: float) -> float | None:
    return None if value != value else value


def _damaged(path: Path, why: object) -> InputError:
    return InputError(
        f"{path} is damaged ({why}): `beforehand runs verify` says what of the run can be trusted"
    )
