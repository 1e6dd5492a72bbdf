"""The producer over the market-data table."""

from typing import Annotated, Any

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.config import MAX_ROWS_PER_QUERY
from beforehand.store.market_data.templates import signatures

NAME = "market-data-agent"


@agent(NAME, tools=("run_query",), logged=("params",))
def market_data(
    work: Work,
    *,
    template: Annotated[str, Field(description=f"One of, with its params: {signatures()}.")],
    params: Annotated[
        dict[str, Any] | None, Field(description='Query parameters, {"symbol_pattern": "%.C"}.')
    ] = None,
    columns: Annotated[list[str] | None, Field(description="Columns to select.")] = None,
    limit: Annotated[
        int | None, Field(ge=1, le=MAX_ROWS_PER_QUERY, description="Most rows [100].")
    ] = None,
) -> Output:
    """Query the market-data table by template; all rows that were asked for are written."""
    found = work.tool("run_query", template=template, params=params, columns=columns, limit=limit)
    sql, rows = found["metadata"]["query"], found["data"]
    log = {"sql": sql, "params": params or {}, "row_count": len(rows)}
    return Output(rows, sql, log=log)
