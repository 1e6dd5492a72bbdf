"""Runs a forecaster in another interpreter's environment: `python host.py TARGET KIND FOLDER`.

That interpreter needs nothing of ours: this file alone runs there, on the standard library, with
Python 3.9 or later. It reads one question a line and writes one answer a line. What the forecaster
prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any


class Fields(dict[str, Any]):
    """A mapping whose keys are attributes too: what is not there is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.get(name)
        return fields(found)


def fields(value: Any) -> Any:
    if isinstance(value, dict):
        return Fields(value)
    return [fields(one) for one in value] if isinstance(value, list) else value


def load(target: str, folder: str) -> Any:
    """The callable at `module:name` or `file.py:name`, as seen from a folder."""
    place, _, name = target.rpartition(":")
    sys.path.insert(0, folder)
    if place.endswith(".py"):
        path = os.path.join(folder, place)
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location("_forecaster", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["_forecaster"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    found = getattr(module, name)
    return found() if inspect.isclass(found) else found


def of_context(callee: Any, asked: dict[str, Any]) -> Any:
    """Called with the context: `odds`, `time`, `market`, `search_snippets`, and `question`."""
    shown = Fields(asked)
    shown["odds"] = asked["market"].get("odds")
    return getattr(callee, "decide", callee)(shown)


def of_prophet(callee: Any, asked: dict[str, Any]) -> Any:
    """Prophet Arena: `predict(event)`, or an agent with `forecast` or `forecast_async`."""
    question = asked["question"]
    event = {
        "event_ticker": question["event_ticker"],
        "market_ticker": question["ticker"],
        "title": question["question"],
        "subtitle": None,
        "description": question["background"],
        "category": question["category"],
        "rules": question["rules"],
        "close_time": question["close_time"],
    }
    for name in ("forecast", "forecast_async", "predict"):
        if hasattr(callee, name):
            return getattr(callee, name)(Fields(event))
    return callee(Fields(event))


def of_forecasting_tools(callee: Any, asked: dict[str, Any]) -> Any:
    """forecasting-tools: a bot's `forecast_question(BinaryQuestion)`, whose report has
    `prediction`."""
    from forecasting_tools import BinaryQuestion  # type: ignore[import-not-found]

    question = asked["question"]
    named = {
        "question_text": question["question"],
        "background_info": question["background"] or "",
        "resolution_criteria": question["rules"] or "",
        "fine_print": "",
        "page_url": question["url"],
        "close_time": question["close_time"],
    }
    made = BinaryQuestion(**{name: said for name, said in named.items() if said is not None})
    return callee.forecast_question(made)


def of_dspy(callee: Any, asked: dict[str, Any]) -> Any:
    """A DSPy module: called with `question` and `context`, a text."""
    parts = [asked["market"].get("description") or ""]
    parts += [one["text"] for one in asked.get("search_snippets", ())]
    return callee(question=asked["question"]["question"], context="\n\n".join(parts))


KINDS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "context": of_context,
    "prophet": of_prophet,
    "forecasting-tools": of_forecasting_tools,
    "dspy": of_dspy,
}


def plain(value: Any, deep: int = 0) -> Any:
    """What can be written as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number.
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(name): plain(said, deep + 1) for name, said in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(said, deep + 1) for said in value]
    if deep > 6:
        return str(value)
    if hasattr(value, "item"):  # A number of numpy's.
        return plain(value.item(), deep + 1)
    for name in ("toDict", "model_dump", "dict"):
        if callable(getattr(value, name, None)):
            return plain(getattr(value, name)(), deep + 1)
    try:
        return plain(vars(value), deep + 1)
    except TypeError:
        return str(value)


def said_of(value: Any) -> dict[str, Any]:
    """The answer: an object as what it holds; where that has none, with its `prediction`."""
    found = plain(value)
    if not isinstance(found, dict):
        return {"probability": found}
    for name in ("probability", "p_yes", "prediction", "explanation", "rationale", "reasoning"):
        if name not in found and not isinstance(value, dict):
            try:
                held = getattr(value, name)
            except Exception:
                continue
            if held is None or isinstance(held, (int, float, str)):
                found[name] = held
    return found


async def awaited(value: Awaitable[Any]) -> Any:
    return await value


def main() -> None:
    target, kind, folder = sys.argv[1:4]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What the forecaster prints is no answer.
    loop = asyncio.new_event_loop()
    callee, broken = None, None
    try:
        callee = load(target, folder)
    except BaseException as error:
        traceback.print_exc()
        broken = f"it cannot be imported: {type(error).__name__}: {error}"
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {"error": broken}
        if broken is None:
            try:
                said = KINDS[kind](callee, asked)
                if inspect.isawaitable(said):
                    said = loop.run_until_complete(awaited(said))
                answer = said_of(said)
            except (Exception, SystemExit) as error:
                traceback.print_exc()
                answer = {"error": f"it raised {type(error).__name__}: {error}"}
        out.write(json.dumps({**answer, "id": asked["id"]}, default=str) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
