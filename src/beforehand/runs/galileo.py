"""A run as Galileo traces: what its SDK sends to the ingestion endpoint, as plain JSON.

One trace an interval: a retriever span with the evidence, a span a decision. Times are the
interval's own instant; durations and tokens are given where they were measured, and left out
where they were not. Ids are derived from the run's rows, so exporting twice gives the same file.
"""

from collections.abc import Iterable, Mapping
from typing import TypedDict
from uuid import UUID

import msgspec
import orjson

from beforehand.ids import digest
from beforehand.records.rows import BASELINE, DecisionRow, FailureRow, IntervalRow
from beforehand.runs.spent import Spent

LOGGING_METHOD = "api_direct"


class IngestRequest(TypedDict):
    """The body of a traces request."""

    logging_method: str
    reliable: bool
    traces: list[Mapping[str, object]]
    is_complete: bool


def ingest_request(
    intervals: Iterable[IntervalRow], outcomes: Mapping[str, float], spent: Spent
) -> IngestRequest:
    """The body of a traces request. `outcomes` are settlements by market, `spent` says what a
    decision or a failure cost."""
    traces = [_trace(row, outcomes.get(row.market_id), spent) for row in intervals]
    return {
        "logging_method": LOGGING_METHOD,
        "reliable": False,
        "traces": traces,
        "is_complete": True,
    }


def _trace(row: IntervalRow, outcome: float | None, spent: Spent) -> Mapping[str, object]:
    context = row.context
    name = f"{row.market_id}@{row.time}"
    seed = f"beforehand/{row.run_id}/{name}"
    question = context.market.description or row.market_id
    facts: dict[str, object] = {
        "dataset_input": question,
        "dataset_output": None if outcome is None else f"{outcome:g}",
        "dataset_metadata": {},
    }
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
            "id": _id(seed, "search"),
            "spans": [],
        }
    ]
    for said in row.said:
        spans.append(_decision(row, said, facts, seed, spent))
    return {
        "type": "trace",
        "input": _text(context.wire()),
        "output": _text({"probability": row.aggregate.probability}),
        "name": name,
        "created_at": row.time,
        "user_metadata": {"run_id": row.run_id, "market_id": row.market_id, "t": row.time},
        "tags": ["backtest"],
        "metrics": {},
        **facts,
        "id": _id(seed, "trace"),
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
        "id": _id(seed, name),
    }
    baseline = isinstance(said, DecisionRow) and said.mode == "baseline"
    if paid is None and (baseline or model.startswith(BASELINE)):
        return {
            "type": "tool",
            "input": _text(msgspec.to_builtins(row.context.market)),
            "output": _text(answer),
            **shared,
            "spans": [],
        }
    return {
        "type": "llm",
        "input": [{"content": _text(row.context.wire()), "role": "user"}],
        "output": {"content": _text(answer), "role": "assistant"},
        **shared,
        "model": model,
    }


def _id(seed: str, part: str) -> str:
    """A version 4 id, as the SDK wants, whose bits come from the content and not from chance."""
    return str(UUID(digest([seed, part])[:32], version=4))


def _text(value: object) -> str:
    return orjson.dumps(value).decode()
