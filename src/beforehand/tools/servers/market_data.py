"""The `market-data` server: one tool over the documented table, by query template."""

from typing import Annotated, Any, cast

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import to_us
from beforehand.config import MAX_ROWS_PER_QUERY
from beforehand.store.market_data.templates import COLUMNS, signatures
from beforehand.tools.bounds import Rows
from beforehand.tools.registry import Call, Example, Row, server, tool


class QueryMetadata(TypedDict):
    query: str
    params: list[Any]
    row_count: int
    sample: list[Row]
    columns: str


class TableRows(TypedDict):
    data: list[Row]
    metadata: QueryMetadata


QUOTES = Example("recorded", "2024-05-09", "CME option quotes")
ROWS = Rows("data", 100, MAX_ROWS_PER_QUERY, ("metadata.row_count",), whole=True, counted=False)


SERVER = server("market-data", "The market-data table, by query template.")


@tool(SERVER, example=QUOTES, rows=ROWS)
def run_query(
    call: Call,
    *,
    template: Annotated[str, Field(description=f"One of, with its params: {signatures()}.")],
    columns: Annotated[
        list[str] | None, Field(description=f"Some of {', '.join(COLUMNS)}.")
    ] = None,
    params: Annotated[
        dict[str, object] | None,
        Field(description='The template\'s own, as {"symbol_pattern": "%.C"}.'),
    ] = None,
) -> TableRows:
    """Query the market-data table by template. In a pattern `%` is any run and `_` one character;
    letters match in either case. Under `as_of` only rows created by then are seen."""
    known = None if call.view.live else to_us(call.view.t)
    table = call.storage.table
    found = table.run(template, params, columns, call.wanted, known, call.skip)
    call.total = call.skip + len(found.rows) + found.more
    return cast(TableRows, found.wire())
