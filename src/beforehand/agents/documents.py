"""The producer over dated documents: evidence as of an instant."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.clock import iso, parse_instant
from beforehand.config import DEFAULT_SEARCH_RESULTS, MAX_SEARCH_RESULTS

NAME = "documents-agent"
DAY = r"^\d{4}-\d{2}-\d{2}$"


@agent(NAME, tools=("search",), logged=("query",))
def documents(
    work: Work,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words to look for.")],
    start_date: Annotated[
        str | None,
        Field(pattern=DAY, description="Nothing known before this day, YYYY-MM-DD [all]."),
    ] = None,
    end_date: Annotated[
        str | None,
        Field(pattern=DAY, description="Nothing known after this day, YYYY-MM-DD [all]."),
    ] = None,
    limit: Annotated[
        int, Field(ge=1, le=MAX_SEARCH_RESULTS, description="Most documents.")
    ] = DEFAULT_SEARCH_RESULTS,
) -> Output:
    """Search dated documents, nothing known later than the instant of the work."""
    since = None if start_date is None else f"{start_date}T00:00:00Z"
    until = None
    if end_date is not None:
        until = iso(min(parse_instant(f"{end_date}T23:59:59Z"), work.at))
    between = {"time_lower_bound": since, "time_upper_bound": until}
    found = work.tool("search", query=query, limit=limit, **between)
    longest = max(query.split(), key=len, default=query)
    if not found["results"] and longest != query:  # A document must hold two words of several.
        found = work.tool("search", query=longest, limit=limit, **between)
        work.notes.append(f"nothing holds two of the words: searched for {longest!r}")
    log = {"result_count": len(found["results"])}
    return Output(found["results"], f"Document search: {query}", log=log)
