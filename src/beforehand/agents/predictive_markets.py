"""The producer over the sites of prediction markets."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import SESSION, Output, Work, agent
from beforehand.config import DEFAULT_SEARCH_RESULTS, MAX_SEARCH_RESULTS

NAME = "predictive-markets-agent"


@agent(NAME, tools=("search_domains",), logged=("query",))
def predictive_markets(
    work: Work,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="User search query.")],
    session_id: SESSION = None,
    domains: Annotated[list[str] | None, Field(description="Domains to search [all].")] = None,
    max_results: Annotated[
        int, Field(ge=1, le=MAX_SEARCH_RESULTS, description="Most results.")
    ] = DEFAULT_SEARCH_RESULTS,
) -> Output:
    """Search the sites of prediction markets, and no others."""
    session = work.session(session_id, query)
    found = work.tool("search_domains", query=query, domains=domains, limit=max_results)
    row = {
        "query": query,
        "session_id": session,
        "results": found["results"],
        "result_count": len(found["results"]),
        "domains_searched": found["domains_searched"],
    }
    work.notes.append(f"searched by: {found['searched_by']}")
    log = {"session_id": session, "result_count": len(found["results"])}
    # The document's own words, for both agents.
    return Output([row], f"Polymarket search: {query}", log=log)
