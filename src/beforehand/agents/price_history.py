"""The agent that follows markets through time: how the prices that another agent found moved."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.agents.followed import MARKET_IDS, SOURCE, Followed
from beforehand.errors import NotFound

NAME = "price-history-agent"
MOST = 5
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="A day, YYYY-MM-DD.")]


@agent(NAME, tools=("get_market_price_range",), logged=("input_path",))
def price_history(
    work: Work,
    *,
    start_date: Day,
    end_date: Day,
    input_path: SOURCE = None,
    market_ids: MARKET_IDS = None,
    limit: Annotated[int, Field(ge=1, le=50, description="Most markets.")] = MOST,
) -> Output:
    """Follow markets from day to day: the first, last, lowest and highest price of each."""
    followed = Followed.of(work, NAME, input_path, market_ids, limit)
    rows = list(_moves(followed, start_date, end_date))
    asked = f"Price history of {len(followed.names)} markets, {start_date} to {end_date}"
    return Output(rows, asked, log={"row_count": len(rows)})


def _moves(followed: Followed, start: str, end: str) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = {"start_date": start, "end_date": end, "limit": 5000}
    notes = followed.work.notes
    for name in followed.names:
        try:
            found = followed.ask("get_market_price_range", "market_id", name, **asked)
        except NotFound as error:
            notes.append(str(error))
            continue
        prices = found["prices"]
        if not prices:
            notes.append(f"{name} has no price from {start} to {end}")
            continue
        yes = [point["yes"] for point in prices]
        yield {
            "market_id": found["market_id"],
            "first": prices[0],
            "last": prices[-1],
            "low": min(yes),
            "high": max(yes),
            "change": found["price_change"]["yes"],
            "days": len(prices),
        }
