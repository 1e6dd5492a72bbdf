"""A run as Galileo traces: what its SDK sends to the ingestion endpoint, as plain JSON.

One trace an interval: a retriever span with the evidence, a span a decision. Times are the
interval's own instant; durations and tokens are given where they were measured, and left out
where they were not. Ids are derived from the run's rows, so exporting twice gives the same file.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import orjson

from beforehand.ids import digest

LOGGING_METHOD = "api_direct"


def ingest_request(
    intervals: Iterable[Mapping[str, Any]],
    outcomes: Mapping[str, float],
    spent: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The body of a traces request. `outcomes` are settlements by market, `spent` the journal's
    calls by content key."""
    traces = [_trace(row, outcomes.get(row["market_id"]), spent) for row in intervals]
    return {
        "logging_method": LOGGING_METHOD,
        "reliable": False,
        "traces": traces,
        "is_complete": True,
    }


def _trace(
    row: Mapping[str, Any], outcome: float | None, spent: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    context = row["context"]
    name = f"{row['market_id']}@{row['time']}"
    seed = f"beforehand/{row['run_id']}/{name}"
    question = context["market"].get("description") or row["market_id"]
    facts = {
        "dataset_input": question,
        "dataset_output": None if outcome is None else f"{outcome:g}",
        "dataset_metadata": {},
    }
    spans = [
        {
            "type": "retriever",
            "input": question,
            "output": [
                {
                    "content": snippet["text"],
                    "metadata": {"id": snippet["id"], "published": snippet["timestamp"]},
                }
                for snippet in context["search_snippets"]
            ],
            "redacted_output": [{"content": "", "metadata": {}}],  # The SDK's own default.
            "name": "search<=t",
            "created_at": row["time"],
            "user_metadata": {},
            "tags": [],
            "metrics": {},
            **facts,
            "id": _id(seed, "search"),
            "spans": [],
        }
    ]
    for said in [*row["decisions"], *row["failures"]]:
        spans.append(_decision(row, said, facts, seed, spent))
    return {
        "type": "trace",
        "input": _text(context),
        "output": _text({"probability": row["aggregate"]["probability"]}),
        "name": name,
        "created_at": row["time"],
        "user_metadata": {
            "run_id": row["run_id"],
            "market_id": row["market_id"],
            "t": row["time"],
        },
        "tags": ["backtest"],
        "metrics": {},
        **facts,
        "id": _id(seed, "trace"),
        "spans": spans,
    }


def _decision(
    row: Mapping[str, Any],
    said: Mapping[str, Any],
    facts: Mapping[str, Any],
    seed: str,
    spent: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A paid forecaster is a model span, a baseline a tool span."""
    model, index = said["model_id"], said["simulation_index"]
    paid = spent.get(spent_key(said, row["context"]))
    name = f"{model}#{index}"
    metrics: dict[str, Any] = {}
    if paid is not None and paid["latency_ms"] is not None:
        metrics["duration_ns"] = round(paid["latency_ms"] * 1e6)
    if paid is not None and paid["tokens"] is not None:
        metrics["num_total_tokens"] = paid["tokens"]
    answer = {key: said[key] for key in ("probability", "rationale", "error") if key in said}
    shared = {
        "name": name,
        "created_at": row["time"],
        "user_metadata": {"simulation_index": str(index)},
        "tags": ["failed"] if "error" in said else [],
        "metrics": metrics,
        **facts,
        "id": _id(seed, name),
    }
    if paid is None and model.startswith("baseline:"):
        return {
            "type": "tool",
            "input": _text(row["context"]["market"]),
            "output": _text(answer),
            **shared,
            "spans": [],
        }
    return {
        "type": "llm",
        "input": [{"content": _text(row["context"]), "role": "user"}],
        "output": {"content": _text(answer), "role": "assistant"},
        **shared,
        "model": model,
    }


def _id(seed: str, part: str) -> str:
    """A version 4 id, as the SDK wants, whose bits come from the content and not from chance."""
    return str(UUID(digest([seed, part])[:32], version=4))


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def spent_key(said: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    """What a decision or a failure was paid under: an address's call as the journal has it; of a
    model the arm as well, as one decision may take several calls."""
    asked = [said["model_id"], context, said["simulation_index"]]
    mode = said.get("mode", "failed")
    return digest([*asked, mode] if mode in ("daytona_agent", "direct_llm", "failed") else asked)
