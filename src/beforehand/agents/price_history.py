"""The agent that follows markets through time: how the prices that another agent found moved."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.errors import InputError, NotFound

NAME = "price-history-agent"
MOST = 5
VENUES = {"polymarket-agent": "POLYMARKET", "kalshi-agent": "KALSHI"}
"""Where the markets of an agent's output are traded."""
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="A day, YYYY-MM-DD.")]


@agent(NAME, tools=("get_market_price_range",), logged=("input_path",))
def price_history(
    work: Work,
    *,
    start_date: Day,
    end_date: Day,
    input_path: Annotated[
        str | None, Field(description="An output with markets: those are followed.")
    ] = None,
    market_ids: Annotated[
        list[str] | None, Field(max_length=50, description="Markets to follow.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=50, description="Most markets.")] = MOST,
) -> Output:
    """Follow markets from day to day: the first, last, lowest and highest price of each."""
    if (input_path is None) == (market_ids is None):
        raise InputError("price-history-agent takes either input_path or market_ids")
    names, venue = market_ids or [], ""
    if input_path is not None:
        source = work.read(input_path)
        names, venue = list(_markets(source.data)), VENUES.get(source.metadata.agent, "")
    followed = list(dict.fromkeys(names))[:limit]
    rows = list(_moves(work, followed, venue, start_date, end_date))
    asked = f"Price history of {len(followed)} markets, {start_date} to {end_date}"
    return Output(rows, asked, log={"row_count": len(rows)})


def _markets(data: Any) -> Iterator[str]:
    """The ids of the markets in an output of a search."""
    for row in data:
        for market in row.get("markets", ()):
            yield market["market_id"]


def _found(work: Work, name: str, venue: str, start: str, end: str) -> dict[str, Any]:
    """A market's prices. Its bare id says enough where the market is known; one that was found by
    another process is asked for by its venue."""
    asked: dict[str, Any] = {"start_date": start, "end_date": end, "limit": 5000}
    try:
        return work.tool("get_market_price_range", market_id=name, **asked)
    except NotFound:
        if not venue or ":" in name:
            raise
    return work.tool("get_market_price_range", market_id=f"{venue}:{name}", **asked)


def _moves(
    work: Work, names: list[str], venue: str, start: str, end: str
) -> Iterator[dict[str, Any]]:
    for name in names:
        try:
            found = _found(work, name, venue, start, end)
        except NotFound as error:
            work.notes.append(str(error))
            continue
        prices = found["prices"]
        if not prices:
            work.notes.append(f"{name} has no price from {start} to {end}")
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
