"""What a model has to say of one question: the structured answer, from JSON or from a program."""

from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beforehand.errors import BadAnswer
from beforehand.records.base import Probability
from beforehand.records.rows import yes_or_no

LONGEST_RATIONALE = 600
MOST_CITED = 20
Id = Annotated[str, Field(max_length=80)]
NO_DECISION = "no decision in the output"


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
