"""The agent that reads markets in full: how old their prices are, and how they ended."""

from typing import Annotated

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.agents.followed import MARKET_IDS, SOURCE, Followed
from beforehand.errors import NotFound

NAME = "market-details-agent"


@agent(NAME, tools=("get_market",), logged=("input_path",))
def market_details(
    work: Work,
    *,
    input_path: SOURCE = None,
    market_ids: MARKET_IDS = None,
    limit: Annotated[int, Field(ge=1, le=50, description="Most markets.")] = 10,
) -> Output:
    """Read markets in full: text, status, price with its age, and how they ended once known."""
    followed, rows = Followed.of(work, NAME, input_path, market_ids, limit), []
    for name in followed.names:
        try:
            rows.append(followed.ask("get_market", "id", name))
        except NotFound as error:
            work.notes.append(str(error))
    asked = f"Details of {len(followed.names)} markets"
    return Output(rows, asked, log={"row_count": len(rows)})
