"""Models of servers that speak almost as OpenAI does: what is needed of an answer is its text."""

from typing import Any

from openai.types.chat import ChatCompletion
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models.openai import OpenAIChatModel

_SAID = ("content", "tool_calls", "refusal", "reasoning", "reasoning_content")
_COUNTED = ("prompt_tokens", "completion_tokens")
_DETAILS = ("prompt_tokens_details", "completion_tokens_details")


class CompatibleModel(OpenAIChatModel):
    """Reads answers that lack what OpenAI's have, or have it otherwise: the call was paid, and the
    text is there."""

    def _validate_completion(self, response: ChatCompletion) -> Any:
        """The documented hook of the library, over what is needed of an answer. Raises
        UnexpectedModelBehavior where it holds no choice."""
        told: dict[str, Any] = response.model_dump(warnings=False)
        choices = [one for one in told.get("choices") or () if isinstance(one, dict)]
        if not choices:
            error = told.get("error")
            error = error.get("message") if isinstance(error, dict) else error
            because = f": {error[:300]}" if isinstance(error, str) else ""
            raise UnexpectedModelBehavior(f"the answer has no choices, and so no text{because}")
        model, mark = told.get("model"), told.get("id")
        needed: dict[str, Any] = {
            "id": str(mark or ""),
            "object": "chat.completion",
            "created": 0,
            "model": model if isinstance(model, str) and model else self.model_name,
            "choices": [_choice(k, one) for k, one in enumerate(choices)],
            "usage": _usage(told.get("usage")),
        }
        return super()._validate_completion(ChatCompletion.model_construct(**needed))


def _choice(k: int, told: dict[str, Any]) -> dict[str, Any]:
    message = told.get("message")
    if not isinstance(message, dict):
        # As older completions have it.
        message = {"content": message if isinstance(message, str) else told.get("text")}
    said = {name: message[name] for name in _SAID if message.get(name) is not None}
    reason = told.get("finish_reason")
    return {
        "index": k,
        "finish_reason": reason if isinstance(reason, str) and reason else "stop",
        "message": {**said, "role": "assistant"},
    }


def _usage(told: object) -> dict[str, Any] | None:
    """The tokens as they were stated; None where not both are."""
    if not isinstance(told, dict):
        return None
    counts: dict[str, Any] = {
        name: found for name in _COUNTED if (found := _whole(told.get(name))) is not None
    }
    if len(counts) < len(_COUNTED):
        return None
    for name in _DETAILS:
        if isinstance(of := told.get(name), dict):
            counts[name] = {k: n for k, v in of.items() if (n := _whole(v)) is not None}
    return {**counts, "total_tokens": counts["prompt_tokens"] + counts["completion_tokens"]}


def _whole(told: object) -> int | None:
    """A count of tokens, as a number or in digits."""
    if isinstance(told, str) and told.strip().isdecimal():
        return int(told)
    if isinstance(told, int | float) and not isinstance(told, bool) and told == told // 1 >= 0:
        return int(told)
    return None
