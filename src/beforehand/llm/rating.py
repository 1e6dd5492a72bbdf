"""How well markets fit a query, rated by a model: `relevance_score` and `relevance_reason`.

Markets are rated ten at a time, so that a small model's answer is not cut off. The schema names
every market of a request, so that none is left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, Field, create_model

from beforehand.llm.prompt import ModelClient, Prompt
from beforehand.records.world import Market

AT_ONCE, LONGEST_TEXT = 10, 300
TOKENS_EACH, TOKENS_MORE = 60, 100
INSTRUCTIONS = (
    "You are given a search query and prediction markets. Rate how relevant each market is to the "
    "query: score from 0 (about something else) to 1 (exactly what is asked), and a reason of at "
    "most ten words. Judge the question of the market alone, not what became of it."
)


class Rating(BaseModel):
    """How well a market, or a document, fits."""

    score: float = Field(ge=0, le=1, description="From 0 to 1.")
    reason: str = Field(max_length=200, description="Why, in at most ten words.")


def rate(client: ModelClient, query: str, markets: Sequence[Market]) -> list[tuple[float, str]]:
    """(relevance from 0 to 1, reason) for each market, in the order given. Raises what the model's
    calls raise: BadAnswer, Refused, Unavailable, Stopped."""
    return [
        rating
        for first in range(0, len(markets), AT_ONCE)
        for rating in _rated(client, query, markets[first : first + AT_ONCE])
    ]


def _rated(
    client: ModelClient, query: str, markets: Sequence[Market]
) -> Iterator[tuple[float, str]]:
    named = {f"market_{number}": market for number, market in enumerate(markets, start=1)}
    fields: dict[str, Any] = dict.fromkeys(named, (Rating, ...))
    shown = {name: _text(market) for name, market in named.items()}
    said = client.ask(
        Prompt(
            INSTRUCTIONS,
            orjson.dumps({"query": query, "markets": shown}).decode(),
            create_model("Ratings", **fields),
            TOKENS_MORE + TOKENS_EACH * len(markets),
        )
    )
    for name in named:
        rating: Rating = getattr(said, name)
        yield rating.score, rating.reason


def _text(market: Market) -> dict[str, str]:
    description = market.rules or market.background or ""
    return {"title": market.question or market.id, "description": description[:LONGEST_TEXT]}
