"""The prices at which the positions of a scored run stood, kept with it (marks.jsonl.gz): so a
comparison of its forecasters needs no archive.

A line a question: `id`; `scheduled`, how many instants were to be expected of it at its first one;
and its prices, each with how many microseconds it came after the one before.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from zlib import compressobj

import numpy as np
import orjson

from beforehand.score.table import Floats, Ints, Marks, Table, parts_of
from beforehand.store.files import read_lines, write_lines

MARKS = "marks.jsonl.gz"
AT_ONCE = 1_000
"""The memory of so many markets' prices is freed together."""
_GZIP = 31
"""What zlib calls its own header and end of gzip, which has no time in it."""


class Held(NamedTuple):
    """The prices of a question (microseconds, prices), and its instants to be expected (NaN where
    nothing said so)."""

    t: Ints
    price: Floats
    scheduled: float


def write_marks(folder: Path, table: Table) -> None:
    """Write those of a scored table, open questions too."""

    def packed() -> Iterator[bytes]:
        packer = compressobj(1, wbits=_GZIP)
        for one in (table, table.open):
            for line in _lines(one) if one is not None else ():
                yield packer.compress(line)
        yield packer.flush()

    write_lines(folder / MARKS, packed())


def _lines(table: Table) -> Iterator[bytes]:
    marks, scheduled = table.marks, table.scheduled
    counts = np.zeros(len(table.questions), dtype=np.int64)
    for part in parts_of(len(marks.q)):
        counts += np.bincount(marks.q[part], minlength=len(counts))
        table.let_go()
    bounds = [0, *np.cumsum(counts).tolist()]
    for i, name in enumerate(table.questions):
        mine = slice(bounds[i], bounds[i + 1])
        if mine.start == mine.stop and not len(scheduled):
            continue
        planned = float(scheduled[i]) if len(scheduled) else np.nan
        line = {
            "id": name,
            "scheduled": None if np.isnan(planned) else planned,
            "t": np.diff(marks.t[mine], prepend=0),
            "price": np.ascontiguousarray(marks.price[mine]),
        }
        yield orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
        if i % AT_ONCE == 0:
            table.let_go()


def read_marks(folder: Path, names: Iterable[str]) -> dict[str, Held]:
    """Those of some questions of a run; none of a run that keeps none."""
    path, wanted, found = folder / MARKS, set(names), dict[str, Held]()
    if not path.is_file():
        return found
    for _, line in read_lines(path):
        row = orjson.loads(line)
        if row["id"] in wanted:
            planned = np.nan if row["scheduled"] is None else row["scheduled"]
            t = np.cumsum(np.array(row["t"], dtype=np.int64))
            found[row["id"]] = Held(t, np.array(row["price"], dtype=np.float64), planned)
    return found


def with_marks(table: Table, folders: Iterable[Path]) -> Table:
    """A table of rows of these runs, with the prices that they keep; of a question that several
    keep, the most. What they do not agree on is not known."""
    every = [] if table.open is None else table.open.questions
    held = [read_marks(folder, [*table.questions, *every]) for folder in folders]
    still_open = None if table.open is None else _marked(table.open, held)
    return replace(_marked(table, held), open=still_open)


def _marked(table: Table, held: Iterable[Mapping[str, Held]]) -> Table:
    q, t, price = list[Ints](), list[Ints](), list[Floats]()
    scheduled, held = np.full(len(table.questions), np.nan), list(held)
    for i, name in enumerate(table.questions):
        known = [one[name] for one in held if name in one]
        if not known:
            continue
        most = max(known, key=lambda one: len(one.t))
        q.append(np.full(len(most.t), i))
        t.append(most.t)
        price.append(most.price)
        planned = {one.scheduled for one in known}
        scheduled[i] = planned.pop() if len(planned) == 1 else np.nan
    if not q:
        return table
    marks = Marks(np.concatenate(q), np.concatenate(t), np.concatenate(price))
    return replace(table, marks=marks, scheduled=scheduled)
