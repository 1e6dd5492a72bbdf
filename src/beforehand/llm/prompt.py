"""What a model is asked and what it says, without any vendor's library."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from beforehand.store.calls import Usage


class Meter(Protocol):
    """What the engine's StepContext offers: one paid request, asked once however often."""

    @property
    def policy(self) -> str: ...

    def call(
        self,
        provider: str,
        request: Any,
        index: int,
        send: Callable[[str], str],
        measure: Callable[[str], Usage] = ...,
        turn: Callable[[threading.Event], None] | None = ...,
    ) -> str: ...


@dataclass(frozen=True)
class Prompt:
    """What a model is asked. `output` is the pydantic model of a structured answer, else text."""

    instructions: str
    text: str
    output: type[BaseModel] | None = None
    max_tokens: int = 1500


class Asks(Protocol):
    """Whoever puts prompts to models (`llm/ask.py`)."""

    def ask(
        self, name: str, prompt: Prompt, index: int, meter: Meter, calls: list[str] | None = ...
    ) -> Any: ...
    def close(self) -> None: ...
