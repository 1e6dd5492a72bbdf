"""Models of servers that speak almost as OpenAI does: what is needed of an answer is its text."""

from typing import Any

from openai.types.chat import ChatCompletion
from pydantic_ai.models.openai import OpenAIChatModel


class CompatibleModel(OpenAIChatModel):
    """Reads answers that lack what OpenAI's have: the call was paid, and the text is there."""

    def _validate_completion(self, response: ChatCompletion) -> Any:
        """The documented hook of the library, over an answer whose missing fields are filled in."""
        told: dict[str, Any] = response.model_dump(warnings=False)
        usual = {"id": "", "object": "chat.completion", "created": 0, "model": self.model_name}
        filled = told | {name: told.get(name) or value for name, value in usual.items()}
        filled["object"] = usual["object"]
        choices = [one for one in told.get("choices") or () if isinstance(one, dict)]
        filled["choices"] = [_choice(k, one) for k, one in enumerate(choices)]
        filled["usage"] = _usage(told.get("usage"))
        return super()._validate_completion(ChatCompletion.model_construct(**filled))


def _choice(k: int, told: dict[str, Any]) -> dict[str, Any]:
    message = told.get("message")
    found = {**told, "index": k, "finish_reason": told.get("finish_reason") or "stop"}
    return found | {"message": {**(message or {}), "role": "assistant"}}


def _usage(told: object) -> dict[str, Any] | None:
    """The tokens as they were stated; None where not both are."""
    if not isinstance(told, dict):
        return None
    asked, answered = told.get("prompt_tokens"), told.get("completion_tokens")
    if not isinstance(asked, int) or not isinstance(answered, int):
        return None
    return {**told, "total_tokens": told.get("total_tokens") or asked + answered}
