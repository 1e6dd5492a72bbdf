"""The producer over Polymarket's markets."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import SESSION, Output, Work, agent
from beforehand.config import DEFAULT_POLYMARKET_RESULTS, MAX_POLYMARKET_RESULTS

NAME = "polymarket-agent"


@agent(NAME, tools=("search_polymarket_markets",), logged=("query",))
def polymarket(
    work: Work,
    *,
    query: Annotated[
        str, Field(min_length=1, max_length=400, description="Natural language search query.")
    ],
    session_id: SESSION = None,
    limit: Annotated[
        int, Field(ge=1, le=MAX_POLYMARKET_RESULTS, description="Most results.")
    ] = DEFAULT_POLYMARKET_RESULTS,
) -> Output:
    """Search Polymarket's markets: what each asks, its prices and its page."""
    session = work.session(session_id, query)
    found = work.tool("search_polymarket_markets", query=query, session_id=session, limit=limit)
    method, markets = found["metadata"]["search_method"], found["markets"]
    row = {
        "query": query,
        "session_id": session,
        "search_method": method,
        "llm_scoring_enabled": found["metadata"]["llm_scoring_enabled"],
        "markets": markets,
        "result_count": len(markets),
    }
    log = {"session_id": session, "result_count": len(markets)}
    return Output([row], f"Polymarket search: {query}", {"search_method": method}, log)
