"""Models' decisions checked again from a run's records: decision against trace, trace against the
answers in the journal."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from beforehand.forecast.answer import Answer, from_output
from beforehand.forecast.prompts import code_in
from beforehand.llm.names import is_model

ARM_OF = {"daytona_agent": "code", "direct_llm": "direct"}


class Answered:
    """What the models of a run were heard to say, from the journal's rows."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._codes: dict[str, set[str]] = defaultdict(set)
        self._answers: dict[str, set[bytes]] = defaultdict(set)
        for row in rows:
            if row["state"] == "done" and is_model(row["provider"]):
                for text in _texts(row["answer"]):
                    self._hear(row["provider"], text)

    def _hear(self, model: str, text: str) -> None:
        try:
            found = orjson.loads(text)
            if code := code_in(str(found.get("code") or "")):
                self._codes[model].add(code)
                return
            self._answers[model].add(_plain(Answer.model_validate(found).model_dump(mode="json")))
        except (ValueError, AttributeError):
            return

    def check(self, trace: Mapping[str, Any]) -> None:
        """ValueError if the trace holds what the model never said."""
        where = f"{trace['market_id']} at {trace.get('time')}: {trace['model_id']}"
        if "code" in trace and trace["code"] not in self._codes[trace["model_id"]]:
            raise ValueError(f"{where}: no answer on record holds this code")
        answer = trace.get("answer")
        if isinstance(answer, dict) and _plain(answer) not in self._answers[trace["model_id"]]:
            raise ValueError(f"{where}: no answer on record says this")


def check_decision(
    row: Mapping[str, Any], decision: Mapping[str, Any], traces: Mapping[Any, Mapping[str, Any]]
) -> None:
    """ValueError if a model's decision is not what its trace gives."""
    arm = ARM_OF[decision["mode"]]
    key = (row["market_id"], row["time"], decision["model_id"], decision["simulation_index"], arm)
    where = f"{row['market_id']} at {row['time']}: {decision['model_id']}"
    trace = traces.get(key)
    if trace is None:
        raise ValueError(f"{where}: no trace of its {arm} arm")
    said = (
        from_output(trace["output"], None).probability
        if arm == "code"
        else trace["answer"]["probability"]
    )
    if said != decision["probability"]:
        raise ValueError(f"{where}: {decision['probability']} stored, {said} in its trace")


def keyed(traces: Iterable[Mapping[str, Any]]) -> dict[Any, Mapping[str, Any]]:
    """Traces of arms by market, time, model, simulation and arm."""
    return {
        (t["market_id"], t["time"], t["model_id"], t["simulation_index"], t["arm"]): t
        for t in traces
        if "simulation_index" in t
    }


def _texts(answer: str) -> Iterable[str]:
    """The texts, and the arguments of tool calls, of a stored response."""
    for message in orjson.loads(answer):
        for part in message.get("parts", ()):
            if part.get("part_kind") == "text":
                yield part["content"]
            elif part.get("part_kind") == "tool-call":
                args = part.get("args")
                yield args if isinstance(args, str) else orjson.dumps(args).decode()


def _plain(answer: Mapping[str, Any]) -> bytes:
    return orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)
