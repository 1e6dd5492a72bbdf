"""Tools of the `polymarket` server that put several reads together, and the price of Bitcoin."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso
from beforehand.errors import NotFound, ReplayMiss
from beforehand.sources import btc
from beforehand.sources.polymarket import VENUE
from beforehand.tools.bounds import Rows
from beforehand.tools.markets import ListedMarket, Missing, describe, lookup, odds
from beforehand.tools.registry import Call, Example, Row, tool
from beforehand.tools.servers.polymarket import (
    GAMMA,
    SERVER,
    SOURCE,
    Id,
    Ids,
    change,
    comment_subject,
    event_markets,
    find_event,
    found_markets,
)


class Bitcoin(TypedDict):
    price: float
    source: str
    observed_at: str


class Snapshot(TypedDict):
    market: ListedMarket
    bid: float | None
    ask: float | None
    age_seconds: float | None
    change_day: float | None
    change_week: float | None
    top_holders: list[Row] | None
    comments: int | None


class Ranked(TypedDict):
    market_id: str
    title: str | None
    yes: float | None
    status: str
    volume: float | None


class Overview(TypedDict):
    event_id: str
    title: str | None
    mutually_exclusive: bool | None
    sum_of_yes: float | None
    markets: list[Ranked]


class Compared(TypedDict):
    market_id: str
    title: str | None
    yes: float | None
    spread: float | None
    volume: float | None
    change_day: float | None
    change_week: float | None


class Comparison(TypedDict):
    markets: list[Compared]
    missing: list[Missing]


COINBASE = Example(
    "simulated", "2026-11-01", "Coinbase Exchange documentation (shape, not recorded)"
)
COMPOSED = ("gamma", "clob", "polymarket-data")


@tool(SERVER, example=COINBASE, services=("coinbase",), probe="coinbase ticker")
def get_btc_price(call: Call) -> Bitcoin:
    """Get the price of Bitcoin in US dollars."""
    rows = call.view.observations(btc.SOURCE, "price", btc.SUBJECT)
    if not rows:
        raise NotFound(f"no price of Bitcoin is known at {iso(call.at)}")
    return {
        "price": rows[0].data["price"],
        "source": rows[0].data.get("source", btc.SOURCE),
        "observed_at": rows[0].data["observed_at"],
    }


@tool(SERVER, example=GAMMA, services=COMPOSED)
def get_market_snapshot(call: Call, *, id: Id) -> Snapshot:
    """Get a market at a glance: best quotes, how far it moved in a day and a week, its largest
    holders, how many comments."""
    market = lookup(call.view, VENUE, id)
    price = odds(call.view, market.id)
    return {
        "market": describe(call.view, market),
        "bid": None if price is None else price.bid,
        "ask": None if price is None else price.ask,
        "age_seconds": None if price is None else round(price.price_age, 3),
        "change_day": change(call, market.id, 1),
        "change_week": change(call, market.id, 7),
        "top_holders": _holders(call, market.native_id),
        "comments": _comments(call, id),
    }


def _holders(call: Call, native_id: str) -> list[Row] | None:
    try:
        found = call.view.snapshot(SOURCE, "holders", native_id).data["rows"]
    except (ReplayMiss, NotFound):
        call.note("no holders are on record for this market")
        return None
    return sorted(found, key=lambda row: -float(row.get("amount") or 0))[:5]


def _comments(call: Call, name: str) -> int | None:
    try:
        return len(call.view.observations(SOURCE, "comment", comment_subject(call, name)))
    except (ReplayMiss, NotFound):
        call.note("no comments are on record for this market")
        return None


@tool(
    SERVER,
    example=GAMMA,
    rows=Rows("markets", default=20, maximum=200),
    services=COMPOSED,
)
def get_event_overview(
    call: Call, *, id: Annotated[str, Field(min_length=1, description="Event id or slug.")]
) -> Overview:
    """Get an event with its markets ranked by the price of YES."""
    event = find_event(call, id)
    rows = list[Ranked]()
    for row in event_markets(call, event):
        yes = next(iter(row["prices"].values()), None)
        rows.append(
            {
                "market_id": row["market_id"],
                "title": row["title"],
                "yes": yes,
                "status": row["status"],
                "volume": row["volume"],
            }
        )
    rows.sort(key=lambda row: (row["yes"] is None, -float(row["yes"] or 0), row["market_id"]))
    known = [row["yes"] for row in rows if row["yes"] is not None]
    return {
        "event_id": event.id.partition(":")[2],
        "title": event.title,
        "mutually_exclusive": event.mutually_exclusive,
        "sum_of_yes": round(sum(known), 6) if known else None,
        "markets": rows,
    }


@tool(
    SERVER,
    example=GAMMA,
    rows=Rows("markets", 20, 20),
    services=COMPOSED,
)
def compare_markets(call: Call, *, ids: Ids) -> Comparison:
    """Compare markets side by side: price, spread, volume, how far each moved. An id that is not
    known stands under `missing`."""
    markets, missing = found_markets(call, ids)
    rows = list[Compared]()
    for market in markets:
        price, state = odds(call.view, market.id), call.view.state(market.id)
        quoted = price is not None and price.bid is not None and price.ask is not None
        rows.append(
            {
                "market_id": market.native_id,
                "title": market.question,
                "yes": None if price is None else price.price,
                "spread": round(price.ask - price.bid, 9) if quoted else None,  # type: ignore[union-attr,operator]
                "volume": None if state is None else state.volume,
                "change_day": change(call, market.id, 1),
                "change_week": change(call, market.id, 7),
            }
        )
    return {"markets": rows, "missing": missing}
