"""The producer over Kalshi's markets."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import SESSION, Output, Work, agent
from beforehand.agents.followed import searched

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
    return searched(work, "search_kalshi_markets", "Kalshi search", query, session_id, limit=limit)
