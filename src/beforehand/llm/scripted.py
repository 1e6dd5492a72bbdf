"""The scripted model: deterministic and offline. It writes real code for the sandbox from
templates, and direct answers. It tests the path and is not a forecaster: its answer is the market's
price, moved a little by rule. It is never ranked.
"""

import json
import re
from collections.abc import Mapping
from typing import TypedDict

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from beforehand.llm.names import LABEL, SCRIPTED
from beforehand.llm.scripted_ask import answered

STOP = frozenset("will would does have been this that with from than then what when which".split())

BASIC = """import json
import math

p = min(max(market["odds"], 0.01), 0.99)
x = math.log(p / (1 - p))
cited = []
"""
TREND = """
# Lean back towards what was said before: the last intervals, newest first, halved each time.
weight = 0.2
for row in reversed(previous_intervals):
    q = min(max(row["aggregated_probability"], 0.01), 0.99)
    x += weight * (math.log(q / (1 - q)) - x)
    weight /= 2
"""
NEWS = """
# Cite the snippets that share words with the question; each moves the log odds a little.
asked = {w.lower() for w in (market["description"] or "").split() if len(w) > 4}
for snippet in search_snippets:
    shared = asked & {w.lower().strip(".,:;") for w in snippet["text"].split()}
    if len(shared) >= 2:
        cited.append(snippet["id"])
        x += 0.05 if p >= 0.5 else -0.05
"""
LAST = """
probability = 1 / (1 + math.exp(-x))
print(json.dumps({
    "decision": "YES" if probability >= 0.5 else "NO",
    "confidence": round(abs(probability - 0.5) * 2, 6),
    "probability": round(probability, 6),
    "rationale": f"The price of {market['odds']:g}, moved by {len(cited)} snippets and "
                 f"{len(previous_intervals)} earlier intervals.",
    "key_evidence_ids": cited,
}))
"""


class _Market(TypedDict, total=False):
    """What the model reads of a market."""

    description: str | None
    odds: float | None


class _Seen(TypedDict, total=False):
    """What the model reads of a context; a search for queries shows it less."""

    market: _Market
    search_snippets: list[object]
    previous_intervals: list[object]


def scripted_model() -> FunctionModel:
    """The model; it has no vendor, so no tokens and no cost are counted."""
    return FunctionModel(_answer, model_name=SCRIPTED)


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    context = _context(messages)
    if not info.output_tools:
        return ModelResponse([TextPart(LABEL)])
    tool = info.output_tools[0]
    wanted = tool.parameters_json_schema.get("properties", {})
    said = answered(wanted, context)
    if said is None:
        said = _forecast(wanted, context)
    return ModelResponse([ToolCallPart(tool.name, said)])


def _forecast(wanted: Mapping[str, object], context: _Seen) -> dict[str, object]:
    """What a forecaster is asked for: code, queries, or a direct answer."""
    if "code" in wanted:
        return {"code": _code(context)}
    return _queries(context) if "queries" in wanted else _direct(context)


def _code(context: _Seen) -> str:
    """Code for what this context holds."""
    parts = [BASIC]
    if context.get("previous_intervals"):
        parts.append(TREND)
    if context.get("search_snippets"):
        parts.append(NEWS)
    return "".join([*parts, LAST])


def _direct(context: _Seen) -> dict[str, object]:
    odds = context.get("market", {}).get("odds")
    probability = 0.5 if odds is None else odds
    return {
        "probability": probability,
        "confidence": round(abs(probability - 0.5) * 2, 6),
        "rationale": "The market's price, as it is." if odds is not None else "No price is known.",
        "key_evidence_ids": [],
    }


def _queries(context: _Seen) -> dict[str, object]:
    """The question's names, and its long words."""
    text = context.get("market", {}).get("description") or ""
    names = re.findall(r"\b[A-Z][\w'-]+(?: [A-Z][\w'-]+)*", text.split("\n")[0])
    names = [name for name in names if name.lower() not in STOP]
    long = [w for w in re.findall(r"[A-Za-z]{5,}", text.split("\n")[0]) if w.lower() not in STOP]
    found = [" ".join(names[:3]), " ".join(long[:5])]
    return {"queries": [query for query in dict.fromkeys(found) if query] or [text[:80] or "news"]}


def _context(messages: list[ModelMessage]) -> _Seen:
    """The JSON in the first user prompt."""
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                start = part.content.find("{")
                if start >= 0:
                    found: _Seen = json.JSONDecoder().raw_decode(part.content[start:])[0]
                    return found
    return {}
