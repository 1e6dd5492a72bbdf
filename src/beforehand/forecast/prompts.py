"""What models are told, and the structured answer that they give, from JSON or from a program.

A prompt holds the context and nothing else of the world.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beforehand.errors import BadAnswer
from beforehand.llm.prompt import Prompt
from beforehand.records.record import Probability
from beforehand.records.rows import yes_or_no
from beforehand.sandbox.policy import MODULES

Arm = Literal["code", "direct"]
CODE_TOKENS, DIRECT_TOKENS = 1500, 600
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
LONGEST_RATIONALE = 600
MOST_CITED = 20
Id = Annotated[str, Field(max_length=80)]
NO_DECISION = "no decision in the output"


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
    """The context as a model reads it; a long description is cut, with a note that says so."""
    market = dict(context["market"])
    text = market.get("description")
    if text and len(text) > LONGEST_DESCRIPTION:
        market["description"] = f"{text[:LONGEST_DESCRIPTION]}… (cut)"
    return orjson.dumps({**context, "market": market}).decode()


def prompt_of(arm: Arm, context: Mapping[str, Any]) -> Prompt:
    """What a model is told about a context: `code` asks for a program, `direct` for an answer."""
    if arm == "code":
        return Prompt(CODE, code_prompt(context), Written, CODE_TOKENS)
    return Prompt(DIRECT, shown(context), Answer, DIRECT_TOKENS)


def code_in(written: str) -> str | None:
    """The program without a fence around it; None if nothing is left."""
    found = _BLOCK.search(written)
    code = (found.group(1) if found else written).strip()
    return f"{code}\n" if code else None


class Answer(BaseModel):
    """A probability of YES and what it rests on. `decision` follows from the probability; one that
    contradicts it is malformed."""

    model_config = ConfigDict(extra="ignore")

    probability: Probability = Field(description="Probability of YES, from 0 to 1.")
    confidence: Probability = Field(default=0.5, description="How sure you are of it, from 0 to 1.")
    rationale: str = Field(
        default="", max_length=LONGEST_RATIONALE, description="Why, in a sentence or two."
    )
    key_evidence_ids: list[Id] = Field(
        default_factory=list, max_length=MOST_CITED, description="Ids of the snippets used."
    )


class Program(Answer):
    """The answer that a program prints: the documented DecisionResult's own part."""

    decision: Literal["YES", "NO"] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "Program":
        if self.decision is not None and self.decision != yes_or_no(self.probability):
            raise ValueError(
                f"decision {self.decision} contradicts probability {self.probability:g}"
            )
        return self


def from_output(output: str, result: object) -> Answer:
    """The last JSON object that was printed, else the value of the last expression. Raises
    BadAnswer saying what is wrong."""
    found: object = None
    for line in reversed(output.strip().splitlines()):
        found = _object(line)
        if found is not None:
            break
        if line.lstrip().startswith("{") and line.rstrip().endswith("}"):
            raise BadAnswer(f"malformed decision: the last line is no JSON: {line[:200]}")
    if found is None:
        start = output.find("{")
        found = _object(output[start:]) if start >= 0 else None
    if found is None and isinstance(result, dict):
        found = result
    if found is None:
        raise BadAnswer(NO_DECISION)
    try:
        return Program.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the decision"
        said = first["msg"].removeprefix("Value error, ")
        raise BadAnswer(f"malformed decision: {where}: {said}") from None


def _object(text: str) -> dict[str, object] | None:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
