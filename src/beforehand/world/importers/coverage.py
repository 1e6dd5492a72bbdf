"""What the rows of a Parquet file say of time: when each was, and what all of them cover."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import duckdb
import numpy as np

from beforehand.clock import from_us, iso
from beforehand.store.archive.manifest import Coverage

MINUTE_US = 60_000_000
Values = Mapping[str, Sequence[str]]
"""What the names in a query stand for: lists of files."""


def micros(db: duckdb.DuckDBPyConnection, files: Sequence[str], column: str) -> str:
    """SQL for a column of times in microseconds since 1970: of timestamps (UTC where they state no
    zone), of texts, or of Unix seconds, milliseconds or microseconds."""
    name = f'"{column}"'
    sql = f"SELECT typeof({name}), CAST(max({name}) AS VARCHAR) FROM read_parquet"
    found = db.execute(f"{sql}(?, union_by_name = true) GROUP BY 1", [list(files)]).fetchone()
    kind, largest = found or ("", None)
    if kind.startswith("TIMESTAMP"):  # A cast takes 2.1 s of 20 million rows, this 0.1.
        return f"epoch_us({name})"
    if not ("INT" in kind or kind in ("DOUBLE", "FLOAT")):
        return f"epoch_us(CAST({name} AS TIMESTAMPTZ))"
    size = float(largest or 0)
    scale = 1_000_000 if size < 1e11 else 1000 if size < 1e14 else 1
    return f"CAST({name} * {scale} AS BIGINT)"


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
