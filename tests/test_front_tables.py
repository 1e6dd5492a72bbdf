"""Tables that pandas, polars and DuckDB read, and what they share with them."""

from datetime import UTC, datetime

import numpy as np
import pytest

import beforehand as bh
from beforehand.front.arrow import Column


def test_tables_in_other_peoples_hands() -> None:
    """Unknown values, empty tables and shared memory, in pandas, polars and DuckDB."""
    import duckdb
    import pandas
    import polars

    shares = np.array([0.25, np.nan])
    table = bh.Table(
        {
            "share": Column("float", shares),
            "time": Column.of("time", [None, 5]),
            "text": Column.of("text", [None, "x\ny"]),
            "count": Column.of("int", [1, 2]),
            "flag": Column.of("bool", [True, False]),
        }
    )
    one, two = table.rows()
    assert one == {"share": 0.25, "time": None, "text": None, "count": 1, "flag": True}
    assert two["time"] == datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert two["share"] is None
    frame, other = table.to_pandas(), table.to_polars()
    assert np.shares_memory(frame["share"].to_numpy(), shares)
    assert frame["time"].isna().tolist() == [True, False]
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    assert other.to_dicts() == [one, two]
    assert np.shares_memory(polars.DataFrame(table)["count"].to_numpy(), table["count"])
    said = table  # noqa: F841 (DuckDB finds it by its name)
    rows = duckdb.sql("SELECT share, text, count, flag, epoch_us(time) FROM said").fetchall()
    assert rows == [(0.25, None, 1, True, None), (None, "x\ny", 2, False, 5)]
    empty = bh.Table({"share": Column.of("float", []), "text": Column.of("text", [])})
    assert (len(empty), list(empty), empty.to_pandas().shape) == (0, [], (0, 2))
    assert polars.DataFrame(empty).shape == (0, 2)
    assert "(0 rows)" in repr(empty)
    with pytest.raises(KeyError, match="table has no column 'nothing'"):
        table["nothing"]
    assert isinstance(frame, pandas.DataFrame)
    assert "<td>x y</td>" in table._repr_html_()
    long = bh.Table({"n": Column.of("int", list(range(100)))})
    assert "…" in repr(long)
    assert "(100 rows)" in repr(long)
