"""The agents' four tools over Polymarket, with their documented outputs, and the log of searches.

A search writes a row to `prediction_queries`, live or not. Nothing outside is changed.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import MICROSECOND, iso, when
from beforehand.config import DEFAULT_POLYMARKET_RESULTS, MAX_POLYMARKET_RESULTS
from beforehand.errors import InputError, NotFound
from beforehand.ids import new_session_id
from beforehand.records.bus import PredictionQuery
from beforehand.records.world import PricePoint
from beforehand.sources.polymarket import VENUE
from beforehand.tools.bounds import Rows
from beforehand.tools.markets import YES, ListedMarket, lookup, moment, search, venues
from beforehand.tools.registry import Call, Example, Row, server, tool


class AgentMarkets(TypedDict):
    markets: list[ListedMarket]
    metadata: Row


class AgentHistory(TypedDict):
    history: list[Row]
    metadata: Row


class Sides(TypedDict):
    yes: float
    no: float


class Change(TypedDict):
    yes: float | None
    no: float | None


class PriceAround(TypedDict):
    market_id: str
    date: str
    price: Sides
    data_points: int
    data_source: str
    note: str


class DatedPrice(TypedDict):
    date: str
    yes: float
    no: float


class PriceRange(TypedDict):
    market_id: str
    start_date: str
    end_date: str
    prices: list[DatedPrice]
    data_points: int
    price_change: Change
    note: str


SERVER = server(
    "polymarket-agent",
    "The agents' four tools over Polymarket, with the log of their searches.",
)
PLATFORM = "polymarket"
NAMES = venues(VENUE)
GAMMA = Example("recorded", "2026-07-25", "Gamma responses")
HISTORY = Example("recorded", "2026-02-07", "CLOB price histories; Data API v2 from its SDK 0.14")
Id = Annotated[
    str, Field(min_length=1, max_length=200, description="Condition id, slug or VENUE:id.")
]
LOG = Example("offline", "2026-11-22", "the home folder's own log")
SAME_HOUR = timedelta(hours=1)


@tool(
    SERVER,
    example=GAMMA,
    rows=Rows(
        "markets",
        DEFAULT_POLYMARKET_RESULTS,
        MAX_POLYMARKET_RESULTS,
        ("metadata.result_count",),
        counted=False,
    ),
    services=("gamma", "clob"),
    probe="gamma public-search",
)
def search_polymarket_markets(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Search query.")],
    session_id: Annotated[
        str | None, Field(max_length=100, description="Session to log under [a new one].")
    ] = None,
) -> AgentMarkets:
    """Search Polymarket markets, and log the search.

    Always returns at least one market if any is known: rated by a model where there is one, else
    by words and meaning, else the most traded; `search_method` says which.
    """
    at = call.at
    found, method, rated = search(call, query, call.skip + call.wanted + 1, NAMES)
    session = session_id or new_session_id(at)
    shown = found[call.skip : call.skip + call.wanted]
    if call.skip == 0:
        logged = _logged(session, query, shown, at, call.knows)
        call.storage.queries.add(logged, call.toolbox.caller.user)
    return {
        "markets": found,
        "metadata": {
            "query": query,
            "search_method": method,
            "llm_scoring_enabled": rated,
            "session_id": session,
            "result_count": len(found),
            "platform": PLATFORM,
            "timestamp": iso(at),
        },
    }


def _logged(
    session: str, query: str, rows: list[ListedMarket], at: datetime, knows: datetime
) -> PredictionQuery:
    """The row of a search as of `at`. It is known from `knows`, the latest instant that its author
    could see."""
    prices = [next(iter(row["prices"].values())) for row in rows if row["prices"]]
    volumes = [row["volume"] for row in rows if row["volume"] is not None]
    return PredictionQuery(
        session_id=session,
        user_query=query,
        timestamp=at,
        results=rows,
        platform=PLATFORM,
        market_ids=[row["market_id"] for row in rows],
        avg_probability=round(100 * sum(prices) / len(prices), 6) if prices else None,
        total_volume=int(sum(volumes)) if volumes else None,
        result_count=len(rows),
        created_at=knows,
    )


@tool(
    SERVER,
    example=LOG,
    rows=Rows("history", 10, 100, ("metadata.count",), counted=False),
)
def get_polymarket_history(
    call: Call,
    *,
    session_id: Annotated[str | None, Field(description="Only this session.")] = None,
    start_date: Annotated[str | None, Field(description="Not before (ISO 8601).")] = None,
    end_date: Annotated[str | None, Field(description="Not after (ISO 8601).")] = None,
) -> AgentHistory:
    """List the searches that were logged, newest first. A day alone as `end_date` includes it.

    `id` is that of the row in `prediction_queries`; under `as_of`, and for a user of a server, it
    numbers the searches that are shown.
    """
    found = call.storage.queries.history(
        call.at,
        session_id,
        moment("start_date", start_date),
        moment("end_date", end_date, when),
        call.skip + call.wanted + 1,
        PLATFORM,
        call.toolbox.caller.user,
        call.toolbox.pinned is not None,
    )
    return {
        "history": [row.model_dump(mode="json", exclude={"expanded_keywords"}) for row in found],
        "metadata": {
            "count": len(found),
            "filters": {
                "session_id": session_id,
                "start_date": start_date,
                "end_date": end_date,
                "limit": call.wanted,
                "platform": PLATFORM,
            },
            "timestamp": iso(call.at),
        },
    }


def _day(name: str, text: str) -> datetime:
    """00:00 UTC of a day."""
    try:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
            raise ValueError
        day = date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{name} must be a day such as 2024-11-01, not {text!r}") from None
    if not 1971 <= day.year <= 9998:
        raise InputError(f"{name} must lie between the years 1971 and 9998, not {text!r}")
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _source(call: Call) -> tuple[str, str]:
    """(data_source, its name in a note)."""
    if call.storage.mode == "replay":
        return "recorded_archive", "recorded archive"
    return "polymarket_data_api_v2", "Polymarket Data API v2"


@tool(SERVER, example=HISTORY, services=("polymarket-data", "gamma"), probe="data prices-history")
def get_market_price_history(
    call: Call,
    *,
    market_id: Id,
    date: Annotated[str, Field(description="Target day, YYYY-MM-DD.")],
    date_range_hours: Annotated[
        int, Field(ge=1, le=720, description="Hours around noon of that day.")
    ] = 12,
) -> PriceAround:
    """Get a market's price around a date: the mean of the points near noon UTC of that day,
    weighted by how near they are. Under `as_of` only points known by then enter."""
    target = _day("date", date) + timedelta(hours=12)
    reach = timedelta(hours=date_range_hours)
    market = lookup(call.view, VENUE, market_id)
    view = call.view if target + reach > call.at else call.view.narrow(target + reach)
    points = [p for p in view.history(market.id, target - reach) if p.observed_at <= target + reach]
    if not points:
        raise NotFound(
            f"{market.id} has no price within {date_range_hours} hours of {date} 12:00 UTC: widen "
            "date_range_hours or choose another date"
        )
    weights = [1.0 / (1.0 + abs(p.observed_at - target) / SAME_HOUR) for p in points]
    yes = sum(w * p.price for w, p in zip(weights, points, strict=True)) / sum(weights)
    source, title = _source(call)
    return {
        "market_id": market.native_id,
        "date": date,
        "price": {"yes": round(yes, 6), "no": round(1 - yes, 6)},
        "data_points": len(points),
        "data_source": source,
        "note": f"Historical price from {len(points)} data points ({title})",
    }


@tool(
    SERVER,
    example=HISTORY,
    rows=Rows("prices", default=1000, maximum=5000, series=YES, counts=("data_points",)),
    services=("polymarket-data", "gamma"),
    probe="data prices-history",
)
def get_market_price_range(
    call: Call,
    *,
    market_id: Id,
    start_date: Annotated[str, Field(description="First day, YYYY-MM-DD.")],
    end_date: Annotated[str, Field(description="Last day, YYYY-MM-DD (included).")],
    interval_days: Annotated[int, Field(ge=1, le=366, description="Days between points.")] = 1,
) -> PriceRange:
    """Get a market's price over a range of days: of each interval the last price observed in
    it. Both days are included; an interval without a price is left out."""
    first, last = _day("start_date", start_date), _day("end_date", end_date)
    if last < first:
        raise InputError(f"end_date {end_date} lies before start_date {start_date}")
    end = last + timedelta(days=1) - MICROSECOND
    market = lookup(call.view, VENUE, market_id)
    points = [p for p in call.view.history(market.id, first) if p.observed_at <= end]
    prices = _sampled(points, first, timedelta(days=interval_days))
    moved = round(prices[-1]["yes"] - prices[0]["yes"], 6) if prices else None
    return {
        "market_id": market.native_id,
        "start_date": start_date,
        "end_date": end_date,
        "prices": prices,
        "data_points": len(prices),
        "price_change": {
            "yes": moved,
            "no": None if moved is None else round(-moved, 6),
        },
        "note": f"Historical price trend from {_source(call)[1]} ({len(points)} raw data points)",
    }


def _sampled(points: list[PricePoint], first: datetime, interval: timedelta) -> list[DatedPrice]:
    """The last price of each interval, dated by the interval's first day."""
    latest: dict[int, PricePoint] = {}
    for point in points:
        latest[(point.observed_at - first) // interval] = point
    return [
        {
            "date": (first + i * interval).date().isoformat(),
            "yes": point.price,
            "no": round(1 - point.price, 9),
        }
        for i, point in sorted(latest.items())
    ]
