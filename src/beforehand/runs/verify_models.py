"""Models' decisions checked again from a run's records: decision against trace, trace against the
answers in the journal, output against the code, run once more."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from beforehand.errors import NotConfigured
from beforehand.forecast.answer import Answer, from_output
from beforehand.forecast.code_mode import policy_of
from beforehand.forecast.prompts import code_in
from beforehand.sandbox.engines import Sandbox

_FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
MOST_RERUN = 500
"""Programs that one verification runs again."""
ARM_OF = {"daytona_agent": "code", "direct_llm": "direct"}


class Answered:
    """What the models of a run were heard to say, by the keys of the calls in the journal."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], asked: Mapping[str, str]) -> None:
        """`asked` gives who is on record as asked, by name."""
        self._rows = {row["call_key"]: row for row in rows if row["state"] == "done"}
        self._asked = asked

    def check(self, trace: Mapping[str, Any]) -> None:
        """ValueError if the trace holds what the model did not say in the calls that it names."""
        where = f"{trace['market_id']} at {trace.get('time')}: {trace['model_id']}"
        provider = self._asked.get(trace["model_id"], trace["model_id"])
        texts = [
            unfenced(text)
            for key in trace["calls"]
            if (row := self._rows.get(key)) and row["provider"] == provider
            for text in _texts(row["answer"])
        ]
        if "code" in trace and trace["code"] not in map(_code, texts):
            raise ValueError(f"{where}: no answer on record holds this code")
        answer = trace.get("answer")
        if answer is not None and _plain(answer) not in map(_answer, texts):
            raise ValueError(f"{where}: no answer on record says this")


class Rerun:
    """Runs the code of traces once more, in the jail: same context, clock and seed."""

    def __init__(self) -> None:
        self._sandbox = Sandbox("jail")
        self.ran = 0

    def check(self, trace: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """ValueError if the code prints something else now than it is said to have. Where there is
        no jail, and after MOST_RERUN of them, nothing is checked."""
        if self.ran >= MOST_RERUN or trace["engine"] == "daytona":
            return
        policy = policy_of(context, trace["simulation_index"])
        try:
            done = self._sandbox.run(trace["code"], dict(context), policy)
        except NotConfigured:
            return
        self.ran += 1
        if done.output != trace["output"]:
            raise ValueError(
                f"{trace['market_id']} at {trace['time']}: {trace['model_id']}: its code prints "
                "something else than is stored"
            )

    def close(self) -> None:
        """End the jail."""
        self._sandbox.close()


def check_decision(
    row: Mapping[str, Any],
    decision: Mapping[str, Any],
    traces: Mapping[Any, Mapping[str, Any]],
    rerun: Rerun,
) -> None:
    """ValueError if a model's decision is not what its trace gives."""
    arm = ARM_OF[decision["mode"]]
    key = (row["market_id"], row["time"], decision["model_id"], decision["simulation_index"], arm)
    where = f"{row['market_id']} at {row['time']}: {decision['model_id']}"
    trace = traces.get(key)
    if trace is None:
        raise ValueError(f"{where}: no trace of its {arm} arm")
    if arm == "code":
        said = from_output(trace["output"], trace.get("result")).probability
        rerun.check(trace, row["context"])
    else:
        said = trace["answer"]["probability"]
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


def unfenced(text: str) -> str:
    """A text without the fence that some models put around JSON."""
    found = _FENCE.fullmatch(text.strip())
    return found.group(1) if found else text


def _code(text: str) -> str | None:
    try:
        return code_in(str(orjson.loads(text)["code"]))
    except (ValueError, KeyError, TypeError):
        return None


def _answer(text: str) -> bytes | None:
    try:
        return _plain(Answer.model_validate(orjson.loads(text)).model_dump(mode="json"))
    except ValueError:
        return None


def _plain(answer: Mapping[str, Any]) -> bytes:
    return orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)
