"""What models are told. A prompt holds the context and nothing else of the world."""

import re
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel, Field

from beforehand.sandbox.policy import MODULES

LONGEST_DESCRIPTION = 2000
MOST_QUERIES = 3

_QUESTION = (
    "You forecast whether a prediction market resolves YES. The time is the context's `time`: use "
    "only what the context holds, and nothing that happened later. `odds` is the market's "
    "probability, `previous_intervals` is what was forecast before."
)
CODE = (
    f"{_QUESTION}\n\nWrite one Python program that computes the forecast. The context's keys are "
    "global variables: time, market, search_snippets, previous_intervals. Allowed imports: "
    f"{', '.join(MODULES)}. There are no files and no network. Print one line of JSON: probability "
    "(0 to 1), confidence (0 to 1), rationale (text), key_evidence_ids (ids of snippets). Answer "
    "as JSON with the key code."
)
EXAMPLE = (
    'import json\np = (market["odds"] + 0.5) / 2\nprint(json.dumps({"probability": p, '
    '"confidence": 0.5, "rationale": "half way to the price", "key_evidence_ids": []}))\n'
)
DIRECT = (
    f"{_QUESTION}\n\nAnswer as JSON with probability (of YES, 0 to 1), confidence (0 to 1), "
    "rationale (a sentence or two) and key_evidence_ids (ids of the snippets that you used)."
)
QUERIES = (
    "You look for news about the question of a prediction market. Give up to "
    f"{MOST_QUERIES} short search queries (names, places, things), as JSON with the key queries."
)
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)


class Queries(BaseModel):
    """Search queries for a question."""

    queries: list[str] = Field(min_length=1, max_length=MOST_QUERIES)


class Written(BaseModel):
    """A program."""

    code: str = Field(max_length=20_000, description="The whole program.")


def code_prompt(context: Mapping[str, Any]) -> str:
    """The context, and an answer of the right shape."""
    example = orjson.dumps({"code": EXAMPLE}).decode()
    return f"{shown(context)}\n\nExample answer: {example}"


def shown(context: Mapping[str, Any]) -> str:
    """The context as a model reads it: a long description is cut, and says so."""
    market = dict(context["market"])
    text = market.get("description")
    if text and len(text) > LONGEST_DESCRIPTION:
        market["description"] = f"{text[:LONGEST_DESCRIPTION]}… (cut)"
    return orjson.dumps({**context, "market": market}).decode()


def code_in(written: str) -> str | None:
    """The program without a fence around it; None if nothing is left."""
    found = _BLOCK.search(written)
    code = (found.group(1) if found else written).strip()
    return f"{code}\n" if code else None
