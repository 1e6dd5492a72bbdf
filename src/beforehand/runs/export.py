"""A finished run for other tools: one row per decision, Galileo traces, OpenTelemetry.

Galileo traces are what its SDK sends to the ingestion endpoint, as plain JSON: one trace per
interval, with a retriever span for the evidence and one span per decision. Times are the interval's
own instant; durations and tokens are left out where they were not measured. Ids are derived from
the run's rows, so exporting twice gives the same file.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict
from uuid import UUID

import msgspec
import orjson

from beforehand.errors import InputError, NotConfigured, NotFound
from beforehand.ids import digest
from beforehand.records.rows import BASELINE, DecisionRow, FailureRow, IntervalRow
from beforehand.runs.rows import read_intervals, read_jsonl
from beforehand.runs.spent import Cost, Spent, spent
from beforehand.store.files import write_atomic, write_json, write_jsonl
from beforehand.store.journal.calls import Calls
from beforehand.store.journal.journal import Journal
from beforehand.store.parquet import write_parquet
from beforehand.store.run_folder import RunFolder

COLUMNS = {
    "run_id": "VARCHAR",
    "market_id": "VARCHAR",
    "time": "TIMESTAMP",
    "model_id": "VARCHAR",
    "simulation_index": "INTEGER",
    "mode": "VARCHAR",
    "probability": "DOUBLE",
    "decision": "VARCHAR",
    "confidence": "DOUBLE",
    "error": "VARCHAR",
    "odds": "DOUBLE",
    "price_age_s": "DOUBLE",
    "documents": "INTEGER",
    "aggregate": "DOUBLE",
    "outcome": "DOUBLE",
    "tokens": "BIGINT",
    "cost": "DOUBLE",
    "latency_ms": "DOUBLE",
}
"""The columns of the tables; `outcome` is what the market settled at, empty where it is void."""
LOGGING_METHOD = "api_direct"


class Exported(TypedDict):
    """Where an export went, and how many rows of what."""

    out: str
    rows: int
    what: str


def export(folder: RunFolder, format: str, out: str | None, journal: Journal | None) -> Exported:
    """Write one format; returns where it went, and how many rows of what. Raises NotFound for a run
    that is not finished or has no forecasts, NotConfigured if an extra is missing."""
    if folder.facts()["status"] != "success":
        raise NotFound(f"run {folder.run_id} is not finished: resume it, then export it")
    if not (folder.path / "intervals.jsonl").is_file():
        raise NotFound(f"run {folder.run_id} holds no forecasts of its own to export")
    if format == "otlp":
        return _send(folder, journal, out)
    calls = None if journal is None else journal.calls
    endings = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".json": "galileo"}
    suffix = next(end for end, kind in endings.items() if kind == format)
    path = Path(out) if out else folder.path.with_name(f"{folder.run_id}-{format}{suffix}")
    if path.resolve().is_relative_to(folder.path.resolve()):
        raise InputError(f"--out {path} lies inside the run's own folder, which is sealed")
    if format == "galileo":
        traces = ingest_request(
            read_intervals(folder.path / "intervals.jsonl"), _outcomes(folder), spent(folder, calls)
        )
        write_json(path, traces)
        return {"out": str(path), "rows": len(traces["traces"]), "what": "traces"}
    rows = list(decisions(folder, calls))
    if format == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(path, text.getvalue().encode())
    elif format == "jsonl":
        write_jsonl(path, rows)
    else:
        write_parquet(path, rows, COLUMNS)
    return {"out": str(path), "rows": len(rows), "what": "decisions"}


def _send(folder: RunFolder, journal: Journal | None, address: str | None) -> Exported:
    if address is None:
        raise InputError("--out: name the collector's address, such as http://localhost:4318")
    try:
        from beforehand.runs.telemetry import send
    except ImportError:
        raise NotConfigured(
            "OpenTelemetry needs the extra: pip install 'beforehand[otel]'; csv, parquet, jsonl "
            "and galileo work without"
        ) from None
    n = send(folder, journal, address)
    return {"out": address, "rows": n, "what": "spans, and the run's metrics"}


def decisions(folder: RunFolder, calls: Calls | None) -> Iterator[Mapping[str, object]]:
    """One row per decision and one per failure, with its cost if that is on record."""
    outcomes, paid = _outcomes(folder), spent(folder, calls)
    for row in read_intervals(folder.path / "intervals.jsonl"):
        market = row.context.market
        for said in row.said:
            cost = paid(row, said) or Cost()
            made = said if isinstance(said, DecisionRow) else None
            yield {
                "run_id": row.run_id,
                "market_id": row.market_id,
                "time": row.time,
                "model_id": said.model_id,
                "simulation_index": said.simulation_index,
                "mode": made.mode if made else None,
                "probability": made.probability if made else None,
                "decision": made.decision if made else None,
                "confidence": made.confidence if made else None,
                "error": said.error if isinstance(said, FailureRow) else None,
                "odds": market.odds,
                "price_age_s": market.price_age,
                "documents": len(row.context.search_snippets),
                "aggregate": row.aggregate.probability,
                "outcome": outcomes.get(row.market_id),
                "tokens": cost.tokens,
                "cost": cost.cost,
                "latency_ms": cost.latency_ms,
            }


def _outcomes(folder: RunFolder) -> dict[str, float]:
    path = folder.path / "resolutions.jsonl"
    rows = read_jsonl(path) if path.is_file() else iter(())
    return {row["id"]: float(row.get("payout", row["outcome"])) for row in rows}


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
    """A version 4 id, as the SDK needs; its bits come from the content, not from chance."""
    return str(UUID(digest([seed, part])[:32], version=4))


def _text(value: object) -> str:
    return orjson.dumps(value).decode()
