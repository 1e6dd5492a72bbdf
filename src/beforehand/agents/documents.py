"""The producer over dated documents: evidence as of an instant."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.config import DEFAULT_SEARCH_RESULTS, MAX_SEARCH_RESULTS

NAME = "documents-agent"


@agent(NAME, tools=("search",), logged=("query",))
def documents(
    work: Work,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words to look for.")],
    limit: Annotated[
        int, Field(ge=1, le=MAX_SEARCH_RESULTS, description="Most documents.")
    ] = DEFAULT_SEARCH_RESULTS,
) -> Output:
    """Search dated documents, nothing known later than the instant of the work."""
    found = work.tool("search", query=query, limit=limit)
    log = {"result_count": len(found["results"])}
    return Output(found["results"], f"Document search: {query}", log=log)
