"""Tables that pandas, polars, DuckDB and other Arrow tools read without a copy.

A Table hands its columns out by Arrow's PyCapsule interface
(https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html), so none of those
libraries is needed here: `polars.DataFrame(table)`, `duckdb.sql("FROM table")`.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from beforehand.clock import from_us, iso_us, to_us
from beforehand.errors import NotConfigured
from beforehand.lazy import lazy
from beforehand.records.spreadsheet import spreadsheet_cell

Kind = Literal["float", "int", "bool", "time", "text"]
SHOWN, WIDEST = 10, 40
NO_TIME = np.iinfo(np.int64).min
MOST_TEXT = 2**31 - 1
_KINDS: dict[str, Kind] = {
    "DOUBLE": "float",
    "INT64": "int",
    "BOOL": "bool",
    "TIMESTAMP": "time",
}
"""Kinds of columns by the names of Arrow's types."""


@dataclass(frozen=True)
class Column:
    """One column: `values` is an array of float64 (NaN: unknown), int64 or bool, microseconds since
    1970 for a time (NO_TIME: unknown), or a list of texts (None: unknown)."""

    kind: Kind
    values: Any

    @classmethod
    def of(cls, kind: Kind, values: Sequence[Any]) -> "Column":
        """A column of Python values; None is unknown. Times are microseconds since 1970."""
        if kind == "text":
            return cls(kind, list(values))
        if kind == "float":
            found = [np.nan if v is None else v for v in values]
            return cls(kind, np.array(found, dtype=np.float64))
        if kind == "time":
            found = [NO_TIME if v is None else v for v in values]
            return cls(kind, np.array(found, dtype=np.int64))
        return cls(kind, np.array(values, dtype=np.int64 if kind == "int" else np.bool_))

    def array(self) -> npt.NDArray[Any]:
        """The values as numpy has them: times are datetime64[us] in UTC, texts are objects."""
        if self.kind == "text":
            made = np.empty(len(self.values), dtype=object)
            made[:] = self.values
            return made
        found = self.values.view("datetime64[us]") if self.kind == "time" else self.values.view()
        found.setflags(write=False)  # It is the table's own memory.
        return np.asarray(found)

    def known(self) -> npt.NDArray[np.bool_] | None:
        """Which values are known; None where all are."""
        if self.kind == "float":
            found = ~np.isnan(self.values)
        elif self.kind == "time":
            found = self.values != NO_TIME
        elif self.kind == "text":
            found = np.array([v is not None for v in self.values], dtype=np.bool_)
        else:
            return None
        return None if found.all() else found

    def cell(self, i: int) -> object:
        """One value; None where it is unknown. Times are aware datetimes."""
        value = self.values[i]
        if self.kind == "text":
            return value
        if self.kind == "time":
            return None if value == NO_TIME else from_us(int(value))
        if self.kind == "float" and np.isnan(value):
            return None
        return value.item()

    def plain(self) -> Sequence[object]:
        """Every value as CSV and JSON have it: times are ISO 8601, None is unknown."""
        if self.kind == "text":
            return list(self.values)
        if self.kind == "time":
            return [None if v == NO_TIME else iso_us(v) for v in self.values.tolist()]
        found = self.values.tolist()
        if self.kind == "float":
            return [v if isfinite(v) else None for v in found]
        return list(found)

    def show(self, i: int) -> str:
        """One value for people."""
        value = self.values[i]
        if self.kind == "time":
            return "–" if value == NO_TIME else iso_us(int(value)).replace("T00:00:00Z", "")
        if value is None or (self.kind == "float" and np.isnan(value)):
            return "–"
        if self.kind == "float":
            return f"{value:.4f}"
        if self.kind == "int":
            return f"{value:,}"
        text = " ".join(str(value).split())
        return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


class Table:
    """Rows in named columns, read-only. `len(table)` counts rows, `table["name"]` is a column as a
    numpy array, `table.rows()` gives dicts."""

    def __init__(self, columns: Mapping[str, Column], name: str = "table") -> None:
        self._columns, self._name = dict(columns), name

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())).values) if self._columns else 0

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column as a numpy array of shape (n,): NaN and NaT are unknown. Raises KeyError."""
        return self.column(name).array()

    def column(self, name: str) -> Column:
        """The same with its kind. Raises KeyError."""
        if name not in self._columns:
            raise KeyError(f"{self._name} has no column {name!r}: it has {', '.join(self.columns)}")
        return self._columns[name]

    def take(self, rows: Sequence[int]) -> "Table":
        """Some of the rows, in this order."""
        columns = {}
        for name, column in self._columns.items():
            held = column.values
            picked = [held[i] for i in rows] if column.kind == "text" else held[list(rows)]
            columns[name] = Column(column.kind, picked)
        return Table(columns, self._name)

    def rows(self) -> Iterator[dict[str, object]]:
        """Each row as a dict; None is unknown, times are aware datetimes."""
        for i in range(len(self)):
            yield {name: column.cell(i) for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, object]]:
        return self.rows()

    def to_pandas(self) -> Any:
        """A pandas DataFrame. Numbers are shared with the table and read-only: `.copy()` it before
        you change any. Raises NotConfigured without pandas."""
        try:
            import pandas
        except ImportError:
            raise NotConfigured("to_pandas needs pandas: pip install pandas") from None
        found = {
            name: pandas.Series(column.array(), copy=False)
            if column.kind != "time"
            else pandas.Series(column.array(), copy=False).dt.tz_localize("UTC")
            for name, column in self._columns.items()
        }
        return pandas.DataFrame(found, copy=False)

    def to_polars(self) -> Any:
        """A polars DataFrame. Raises NotConfigured without polars."""
        try:
            import polars
        except ImportError:
            raise NotConfigured("to_polars needs polars: pip install polars") from None
        return polars.DataFrame(self)

    def to_csv(self) -> bytes:
        """The table as CSV: times are ISO 8601 in UTC, what is unknown is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        cells = [map(spreadsheet_cell, column.plain()) for column in self._columns.values()]
        writer.writerows(zip(*cells, strict=True))
        return out.getvalue().encode("utf-8", "replace")

    def to_ipc(self) -> bytes:
        """The table as a stream of Arrow's IPC format (one batch)."""
        import nanoarrow.ipc

        out = io.BytesIO()
        with nanoarrow.ipc.StreamWriter.from_writable(out) as writer:
            writer.write_stream(self)
        return out.getvalue()

    @classmethod
    def from_ipc(cls, data: bytes, name: str = "table") -> "Table":
        """A table from a stream of Arrow's IPC format, as `to_ipc` writes it."""
        import nanoarrow

        whole = nanoarrow.ArrayStream.from_readable(io.BytesIO(data)).read_all()
        columns = {}
        for i in range(whole.n_children):
            child = whole.child(i)
            kind = _KINDS.get(child.schema.type.name, "text")
            values = child.to_pylist()
            if kind == "time":
                values = [None if v is None else to_us(v) for v in values]
            columns[whole.schema.field(i).name] = Column.of(kind, values)
        return cls(columns, name)

    def __arrow_c_schema__(self) -> object:
        """Arrow's schema, as a PyCapsule."""
        return self._arrow.schema.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        """The whole table as one struct array, as PyCapsules."""
        return self._arrow.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of one batch, as a PyCapsule."""
        import nanoarrow

        return nanoarrow.ArrayStream(self._arrow).__arrow_c_stream__(requested_schema)

    @lazy
    def _arrow(self) -> Any:
        import nanoarrow

        made = {name: _arrow_of(column) for name, column in self._columns.items()}
        schema = nanoarrow.struct({name: kind for name, (kind, _) in made.items()})
        return nanoarrow.c_array_from_buffers(
            schema, len(self), [None], children=[array for _, array in made.values()]
        )

    def _cells(self, most: int) -> tuple[list[int], list[list[str]]]:
        """The rows that are shown (first and last ones of a long table), as texts."""
        n = len(self)
        which = list(range(n))
        if n > most:
            which = [*range(most - most // 3), *range(n - most // 3, n)]
        return which, [[column.show(i) for column in self._columns.values()] for i in which]

    def __repr__(self) -> str:
        which, cells = self._cells(SHOWN)
        lines = [self.columns, *cells]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        right = [column.kind in ("float", "int") for column in self._columns.values()]
        text = []
        for k, line in enumerate(lines):
            if k > 1 and which[k - 1] != which[k - 2] + 1:
                text.append("…")
            text.append(
                "  ".join(
                    cell.rjust(width) if r else cell.ljust(width)
                    for cell, width, r in zip(line, widths, right, strict=True)
                ).rstrip()
            )
        return "\n".join([*text, f"({len(self):,} rows)"])

    def _repr_html_(self) -> str:
        which, cells = self._cells(2 * SHOWN)
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        body = []
        for k, line in enumerate(cells):
            if k and which[k] != which[k - 1] + 1:
                body.append(f'<tr><td colspan="{len(line)}">…</td></tr>')
            body.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>")
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
            f"<p>{len(self):,} rows</p>"
        )


def _arrow_of(column: Column) -> tuple[Any, Any]:
    """Arrow's type of a column and its array; numbers keep their memory."""
    import nanoarrow as arrow

    values, n = column.values, len(column.values)
    known = column.known()
    bitmap = None if known is None else np.packbits(known, bitorder="little")
    if column.kind == "text":
        parts = [b"" if v is None else v.encode() for v in values]
        offsets = np.zeros(n + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        kind = arrow.large_string()
        if offsets[-1] <= MOST_TEXT:
            kind, offsets = arrow.string(), offsets.astype(np.int32)
        buffers = [bitmap, offsets, b"".join(parts)]
    elif column.kind == "bool":
        kind, buffers = arrow.bool_(), [bitmap, np.packbits(values, bitorder="little")]
    else:
        kind = {
            "float": arrow.float64(),
            "int": arrow.int64(),
            "time": arrow.timestamp("us", timezone="UTC"),
        }[column.kind]
        buffers = [bitmap, np.ascontiguousarray(values)]
    return kind, arrow.c_array_from_buffers(kind, n, buffers)
