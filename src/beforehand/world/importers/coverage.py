"""What the rows of a Parquet file say of time: when each was, and what all of them cover."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import duckdb
import numpy as np

from beforehand.clock import DAY_US, from_us, iso
from beforehand.errors import InputError
from beforehand.store.archive.manifest import Coverage

MINUTE_US = 60_000_000
Values = Mapping[str, Sequence[str]]
"""What the names in a query stand for: lists of files."""


@dataclass(frozen=True)
class Times:
    """How times are read that state no zone: in `zone`, where one is stated; `by_default`, where
    whoever wrote the files is known to write it."""

    zone: str | None = None
    by_default: str | None = None


def micros(
    db: duckdb.DuckDBPyConnection, files: Sequence[str], column: str, times: Times = Times()
) -> str:
    """SQL for a column of times in microseconds since 1970: of timestamps, of dates (the end of the
    day), of texts, or of Unix seconds, milli-, micro- or nanoseconds. Raises InputError for times
    without a zone where none is stated."""
    name, zone = f'"{column}"', times.zone or times.by_default
    sql = f"SELECT typeof({name}), CAST(max({name}) AS VARCHAR) FROM read_parquet"
    found = db.execute(
        f"{sql}(?, union_by_name = true) WHERE {name} IS NOT NULL GROUP BY 1", [list(files)]
    ).fetchone()
    kind, largest = found or ("", None)
    if "INT" in kind or kind in ("DOUBLE", "FLOAT"):
        size = float(largest or 0)
        if size >= 1e17:
            return f"CAST({name} // 1000 AS BIGINT)"
        scale = 1_000_000 if size < 1e11 else 1000 if size < 1e14 else 1
        wide = f"CAST({name} AS BIGINT)" if "INT" in kind else name
        return f"CAST({wide} * {scale} AS BIGINT)"
    if kind == "DATE":
        return _end_of_day(f"CAST({name} AS TIMESTAMP)")
    if kind.startswith("TIMESTAMP"):  # A cast takes 2.1 s of 20 million rows, this 0.1.
        if "TIME ZONE" in kind or zone in ("UTC", "Etc/UTC"):
            return f"epoch_us({name})"
        return _in_zone(name, _stated(zone, column, files, str(largest)))
    text = f"trim(CAST({name} AS VARCHAR))"
    day, whole = f"regexp_full_match({text}, '{_DAY}')", f"regexp_matches({text}, '{_ZONE}')"
    (naive,) = db.execute(
        f"SELECT any_value({text}) FROM read_parquet(?, union_by_name = true) "
        f"WHERE {name} IS NOT NULL AND NOT {day} AND NOT {whole}",
        [list(files)],
    ).fetchone() or (None,)
    other = "NULL" if naive is None else _in_zone(text, _stated(zone, column, files, naive))
    return (
        f"CASE WHEN {day} THEN {_end_of_day(f'CAST({text} AS TIMESTAMP)')} "
        f"WHEN {whole} THEN epoch_us(CAST({text} AS TIMESTAMPTZ)) ELSE {other} END"
    )


_DAY, _ZONE = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}.*([zZ]|[+-]\d{2}(:?\d{2})?)$"
"""A date alone; a time of day that ends with its offset."""


def _end_of_day(sql: str) -> str:
    return f"epoch_us({sql}) + {DAY_US - 1}"


def _in_zone(sql: str, zone: str) -> str:
    """A time of a zone; of an hour that comes twice DuckDB takes the later one."""
    return f"epoch_us(CAST({sql} AS TIMESTAMP) AT TIME ZONE '{zone}')"


def _stated(zone: str | None, column: str, files: Sequence[str], example: str) -> str:
    if zone is None:
        raise InputError(
            f"{', '.join(files)[:300]}: the column {column} has times without a zone ({example}), "
            "and a wrong guess of it would show a backtest the future: state it, as in --timezone "
            "UTC or --timezone America/New_York"
        )
    return zone


def covered(
    db: duckdb.DuckDBPyConnection, times: str, values: Values, venue: str, gap: timedelta
) -> Coverage:
    """The span of the rows of a query that has their times as `t` (microseconds), and every time in
    it of at least `gap` without a row."""
    rows = db.execute(
        f"SELECT min(t) AS low, max(t) AS high FROM ({times}) WHERE t IS NOT NULL "
        f"GROUP BY t // {MINUTE_US} ORDER BY low",
        {name: list(value) for name, value in values.items()},
    ).fetchnumpy()
    low, high = (np.asarray(rows[name], dtype=np.int64) for name in ("low", "high"))
    wide = np.flatnonzero(low[1:] - high[:-1] >= int(gap.total_seconds() * 1e6))
    return {
        "venue": venue,
        "first": iso(from_us(int(low[0]))) if len(low) else None,
        "last": iso(from_us(int(high[-1]))) if len(low) else None,
        "gap_s": gap.total_seconds(),
        "gaps": [[iso(from_us(int(high[i]))), iso(from_us(int(low[i + 1])))] for i in wide],
    }
