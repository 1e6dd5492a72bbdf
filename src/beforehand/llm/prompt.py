"""What a model is asked and what it says, without any vendor's library."""

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from beforehand.meter import Meter


@dataclass(frozen=True)
class Prompt:
    """What a model is asked. `output` is the pydantic model of a structured answer, else text."""

    instructions: str
    text: str
    output: type[BaseModel] | None = None
    max_tokens: int = 1500


class Asks(Protocol):
    """Sends prompts to models (`llm/ask.py`)."""

    def ask(
        self, name: str, prompt: Prompt, meter: Meter, calls: list[str] | None = ...
    ) -> Any: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class ModelClient:
    """One model by its name, and the meter that its calls pass."""

    models: Asks
    name: str
    meter: Meter

    def ask(self, prompt: Prompt) -> Any:
        """One answer. Raises BadAnswer, Refused, NotConfigured and what the traffic raises."""
        return self.models.ask(self.name, prompt, self.meter)
