"""Markets that an agent searches, and those that it follows: told to it, or found by another."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field

from beforehand.agents.base import Output, Work
from beforehand.errors import InputError, NotFound

SOURCE = Annotated[str | None, Field(description="An output with markets: those are followed.")]
MARKET_IDS = Annotated[list[str] | None, Field(max_length=50, description="Markets to follow.")]
VENUES = {"polymarket-agent": "POLYMARKET", "kalshi-agent": "KALSHI"}
"""Where the markets of an agent's output are traded, for ids that do not say it."""


@dataclass(frozen=True)
class Followed:
    """Markets by their ids, and the venue of ids that do not name one."""

    work: Work
    names: Sequence[str]
    venue: str = ""

    @classmethod
    def of(
        cls,
        work: Work,
        agent: str,
        input_path: str | None,
        market_ids: list[str] | None,
        limit: int,
    ) -> Self:
        """The first markets of an output or of a list. Raises InputError for both or neither."""
        if (input_path is None) == (market_ids is None):
            raise InputError(f"{agent} takes either input_path or market_ids")
        names, venue = market_ids or [], ""
        if input_path is not None:
            source = work.read(input_path)
            names, venue = list(_ids(source.data)), VENUES.get(source.metadata.agent, "")
        return cls(work, list(dict.fromkeys(names))[:limit], venue)

    def ask(self, tool: str, argument: str, name: str, **more: object) -> dict[str, Any]:
        """What a tool answers about a market, asked for at the venue that it was found at: another
        venue may have its bare id too. A simulated market has a venue of its own. Raises
        NotFound."""
        if self.venue and ":" not in name:
            with suppress(NotFound):
                return self.work.tool(tool, **{argument: f"{self.venue}:{name}"}, **more)
        return self.work.tool(tool, **{argument: name}, **more)


def searched(
    work: Work, tool: str, title: str, query: str, session_id: str | None, **arguments: object
) -> Output:
    """A search of markets as an output: one row with what was found."""
    session = work.session(session_id, query)
    found = work.tool(tool, query=query, **arguments)
    row = {
        "query": query,
        "session_id": session,
        "search_method": found["search_method"],
        "llm_scoring_enabled": found["llm_scoring_enabled"],
        "markets": found["markets"],
        "result_count": len(found["markets"]),
    }
    log = {"session_id": session, "result_count": len(found["markets"])}
    metadata = {"search_method": found["search_method"]}
    return Output([row], f"{title}: {query}", metadata, log)


def _ids(data: Any) -> Iterator[str]:
    """The ids of the markets in an output of a search."""
    for row in data:
        for market in row.get("markets", ()):
            yield market.get("id") or market["market_id"]
