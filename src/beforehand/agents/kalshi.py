"""The producer over Kalshi's markets."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import SESSION, Output, Work, agent

NAME = "kalshi-agent"


@agent(NAME, tools=("search_kalshi_markets",), logged=("query",))
def kalshi(
    work: Work,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Search query.")],
    session_id: SESSION = None,
    limit: Annotated[int, Field(ge=1, le=50, description="Most results.")] = 10,
) -> Output:
    """Search Kalshi's markets: what each asks, its prices and its page."""
    session = work.session(session_id, query)
    found = work.tool("search_kalshi_markets", query=query, limit=limit)
    row = {
        "query": query,
        "session_id": session,
        "search_method": found["search_method"],
        "llm_scoring_enabled": found["llm_scoring_enabled"],
        "markets": found["markets"],
        "result_count": len(found["markets"]),
    }
    log = {"session_id": session, "result_count": len(found["markets"])}
    return Output([row], f"Kalshi search: {query}", {"search_method": found["search_method"]}, log)
