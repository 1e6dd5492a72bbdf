"""Galileo traces: what its SDK sends to the ingestion endpoint, as plain JSON.

A run of forecasts is one trace per interval, with a retriever span for the evidence and one span
per decision; times are the interval's own instant. A question is one trace, with an agent span for
each task. Durations and tokens are left out where they were not measured. Ids are derived from the
run, so exporting twice gives the same file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict
from uuid import UUID

import msgspec
import orjson

from beforehand.clock import parse_instant
from beforehand.ids import digest
from beforehand.records.rows import BASELINE, DecisionRow, FailureRow, IntervalRow
from beforehand.runs.spent import Spent
from beforehand.store.files import read_json
from beforehand.store.journal.calls import TOOL, CallRow
from beforehand.store.journal.journal import Journal, TaskSpan
from beforehand.store.run_folder import RunFolder

LOGGING_METHOD = "api_direct"


class IngestRequest(TypedDict):
    """The body of a traces request."""

    logging_method: str
    reliable: bool
    traces: list[Mapping[str, object]]
    is_complete: bool


def ingest_request(traces: Sequence[Mapping[str, object]]) -> IngestRequest:
    """The body of a traces request."""
    return {
        "logging_method": LOGGING_METHOD,
        "reliable": False,
        "traces": list(traces),
        "is_complete": True,
    }


def interval_traces(
    intervals: Iterable[IntervalRow], outcomes: Mapping[str, float], spent: Spent
) -> list[Mapping[str, object]]:
    """One trace per interval. `outcomes` are settlements by market, `spent` says what a decision or
    a failure cost."""
    return [_trace(row, outcomes.get(row.market_id), spent) for row in intervals]


def question_trace(folder: RunFolder, journal: Journal | None) -> Mapping[str, object]:
    """The trace of a question: an agent span for each task with the times of the journal, and in it
    a span for each call on record, of a model or of a tool. The calls that planned come first, and
    those that checked the answer last. A request is named by its key: answers alone are kept."""
    answer = read_json(folder.path / "answer.json")
    tasks = [step["args"] for step in read_json(folder.path / "plan.json")["steps"] if step["args"]]
    times = {} if journal is None else {s["task_id"]: s for s in journal.spans(folder.run_id)}
    calls = [] if journal is None else journal.calls.rows(folder.run_id)
    seed, facts = f"beforehand/{folder.run_id}", facts_of(answer["question"], None)
    spans = list[Mapping[str, object]]()
    for task in tasks:
        span = times.get(task["id"])
        begun = answer["as_of"] if span is None else span["started_at"]
        cited = [one for one in answer["citations"] if one["task"] == task["id"]]
        spans.append(
            {
                "type": "agent",
                "agent_type": "default",
                "input": said_as_text(task["inputs"]),
                "output": said_as_text(cited),
                "name": task["agent"],
                "created_at": begun,
                "user_metadata": {"task": task["id"], "why": task["why"]},
                "tags": [] if span is None or span["status"] == "success" else ["failed"],
                "metrics": took(span),
                **facts,
                "id": identity(seed, f"task/{task['id']}"),
                "spans": [call_span(c, facts, seed) for c in calls if c["task_id"] == task["id"]],
            }
        )
    known = {task["id"] for task in tasks}
    around = [call_span(call, facts, seed) for call in calls if call["task_id"] not in known]
    begun = str(spans[0]["created_at"])
    first = [one for one in around if str(one["created_at"]) <= begun]
    spans = [*first, *spans, *(one for one in around if one not in first)]
    return {
        "type": "trace",
        "input": answer["question"],
        "output": answer["answer"],
        "name": f"ask@{answer['as_of']}",
        "created_at": answer["as_of"],
        "user_metadata": {"run_id": folder.run_id, "planned_by": answer["planned_by"]},
        "tags": ["ask"],
        "metrics": {},
        **facts,
        "id": identity(seed, "trace"),
        "spans": spans,
    }


def call_span(call: CallRow, facts: Mapping[str, object], seed: str) -> Mapping[str, object]:
    """A call of a task, as the journal has it."""
    tool = call["provider"].removeprefix(TOOL)
    metrics: dict[str, int] = {}
    if call["latency_ms"] is not None:
        metrics["duration_ns"] = round(call["latency_ms"] * 1e6)
    if call["tokens"] is not None and tool == call["provider"]:
        metrics["num_total_tokens"] = call["tokens"]
    asked, said = f"request {call['call_key']}", str(call["answer"] or call["error"] or "")
    shared = {
        "name": call["provider"],
        "created_at": call["sent_at"],
        "user_metadata": {"state": call["state"]},
        "tags": [] if call["state"] == "done" else ["failed"],
        "metrics": metrics,
        **facts,
        "id": identity(seed, call["call_key"]),
    }
    if tool != call["provider"]:
        return {"type": "tool", "input": asked, "output": said, **shared, "spans": []}
    return {
        "type": "llm",
        "input": [{"content": asked, "role": "user"}],
        "output": {"content": said, "role": "assistant"},
        **shared,
        "model": call["provider"],
    }


def took(span: TaskSpan | None) -> dict[str, int]:
    if span is None or span["completed_at"] is None:
        return {}
    took = parse_instant(span["completed_at"]) - parse_instant(span["started_at"])
    return {"duration_ns": round(took.total_seconds() * 1e9)}


def facts_of(question: str, outcome: float | None) -> dict[str, object]:
    return {
        "dataset_input": question,
        "dataset_output": None if outcome is None else f"{outcome:g}",
        "dataset_metadata": {},
    }


def _trace(row: IntervalRow, outcome: float | None, spent: Spent) -> Mapping[str, object]:
    context = row.context
    name = f"{row.market_id}@{row.time}"
    seed = f"beforehand/{row.run_id}/{name}"
    question = context.market.description or row.market_id
    facts = facts_of(question, outcome)
    spans: list[Mapping[str, object]] = [
        {
            "type": "retriever",
            "input": question,
            "output": [
                {"content": s.text, "metadata": {"id": s.id, "published": s.timestamp}}
                for s in context.search_snippets
            ],
            "redacted_output": [{"content": "", "metadata": {}}],  # The SDK's own default.
            "name": "search<=t",
            "created_at": row.time,
            "user_metadata": {},
            "tags": [],
            "metrics": {},
            **facts,
            "id": identity(seed, "search"),
            "spans": [],
        }
    ]
    for said in row.said:
        spans.append(_decision(row, said, facts, seed, spent))
    return {
        "type": "trace",
        "input": said_as_text(context.wire()),
        "output": said_as_text({"probability": row.aggregate.probability}),
        "name": name,
        "created_at": row.time,
        "user_metadata": {"run_id": row.run_id, "market_id": row.market_id, "t": row.time},
        "tags": ["backtest"],
        "metrics": {},
        **facts,
        "id": identity(seed, "trace"),
        "spans": spans,
    }


def _decision(
    row: IntervalRow,
    said: DecisionRow | FailureRow,
    facts: Mapping[str, object],
    seed: str,
    spent: Spent,
) -> Mapping[str, object]:
    """A paid forecaster is a model span, a baseline a tool span."""
    model, index = said.model_id, said.simulation_index
    paid = spent(row, said)
    name = f"{model}#{index}"
    metrics: dict[str, int] = {}
    if paid is not None and paid.latency_ms is not None:
        metrics["duration_ns"] = round(paid.latency_ms * 1e6)
    if paid is not None and paid.tokens is not None:
        metrics["num_total_tokens"] = paid.tokens
    if isinstance(said, FailureRow):
        answer: dict[str, object] = {"error": said.error}
    else:
        answer = {"probability": said.probability, "rationale": said.rationale}
    shared = {
        "name": name,
        "created_at": row.time,
        "user_metadata": {"simulation_index": str(index)},
        "tags": ["failed"] if isinstance(said, FailureRow) else [],
        "metrics": metrics,
        **facts,
        "id": identity(seed, name),
    }
    baseline = isinstance(said, DecisionRow) and said.mode == "baseline"
    if paid is None and (baseline or model.startswith(BASELINE)):
        return {
            "type": "tool",
            "input": said_as_text(msgspec.to_builtins(row.context.market)),
            "output": said_as_text(answer),
            **shared,
            "spans": [],
        }
    return {
        "type": "llm",
        "input": [{"content": said_as_text(row.context.wire()), "role": "user"}],
        "output": {"content": said_as_text(answer), "role": "assistant"},
        **shared,
        "model": model,
    }


def identity(seed: str, part: str) -> str:
    """A version 4 id, as the SDK needs; its bits come from the content, not from chance."""
    return str(UUID(digest([seed, part])[:32], version=4))


def said_as_text(value: object) -> str:
    return orjson.dumps(value).decode()
