"""The check of a finished answer by a model: does it answer the question, and does what it cites
bear it out? The check is shown beside the answer and changes nothing in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, Field

from beforehand.errors import BadAnswer, Refused
from beforehand.llm.prompt import ModelClient, Prompt
from beforehand.records.bus import OutputEnvelope

TOKENS, LONGEST_EVIDENCE = 400, 6000
INSTRUCTIONS = (
    "You check an answer about prediction markets. `answer` has numbered sentences with citations "
    "such as [2]; `evidence` is what the agents found, by citation. Say whether the answer "
    "responds to the question, list the numbers of sentences that the evidence does not bear out, "
    "and give one or two sentences on what a reader should know. Add no figures of your own."
)


class Review(BaseModel):
    """What a model says of an answer."""

    responds: bool = Field(description="Whether the answer responds to the question.")
    not_borne_out: list[int] = Field(
        default_factory=list, max_length=40, description="Sentences without evidence, from 1 on."
    )
    remarks: str = Field(default="", max_length=600, description="One or two sentences.")


def review(
    client: ModelClient,
    answer: Mapping[str, Any],
    outputs: Mapping[str, OutputEnvelope],
) -> dict[str, Any]:
    """The review as JSON: the model, and what it says; or the `error` where it gave none."""
    lines = answer["answer"].splitlines()[1:]  # The first says as of when.
    shown = {
        "as_of": answer["as_of"],
        "question": answer["question"],
        "answer": {str(number): line for number, line in enumerate(lines, start=1)},
        "not_found": answer["not_found"],
        "evidence": dict(_evidence(answer["citations"], outputs)),
    }
    prompt = Prompt(INSTRUCTIONS, orjson.dumps(shown).decode(), Review, TOKENS)
    try:
        said: Review = client.ask(prompt)
    except (BadAnswer, Refused) as error:
        return {"model": client.name, "error": str(error)}
    known = [number for number in said.not_borne_out if 1 <= number <= len(lines)]
    return {"model": client.name, **said.model_dump(), "not_borne_out": known}


def _evidence(citations: Sequence[Mapping[str, Any]], outputs: Mapping[str, OutputEnvelope]) -> Any:
    """The rows that each citation points to, each cut to its share of the room."""
    share = LONGEST_EVIDENCE // max(len(citations), 1)
    for one in citations:
        rows = outputs[one["task"]].data
        found = [row for row in _flat(rows) if one["id"] in _names(row)] or list(rows)
        yield str(one["n"]), orjson.dumps(found).decode()[:share]


def _flat(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The records inside the rows of a search, else the rows."""
    inner = [
        record for row in rows for key in ("markets", "results") for record in row.get(key, ())
    ]
    return inner or rows


def _names(row: Mapping[str, Any]) -> set[Any]:
    return {row.get(key) for key in ("market_id", "id", "url")}
