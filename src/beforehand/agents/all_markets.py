"""The producer over the markets of every venue on record."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import SESSION, Output, Work, agent
from beforehand.agents.followed import searched

NAME = "all-markets-agent"


@agent(NAME, tools=("search_all_markets",), logged=("query",))
def all_markets(
    work: Work,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words or a question.")],
    venues: Annotated[
        list[str] | None, Field(max_length=50, description="Venues to search [all].")
    ] = None,
    session_id: SESSION = None,
    limit: Annotated[int, Field(ge=1, le=50, description="Most results.")] = 10,
) -> Output:
    """Search the markets of every venue, or of some: what each asks, its prices and its page."""
    return searched(
        work, "search_all_markets", "Market search", query, session_id, venues=venues, limit=limit
    )
