"""A run over OTLP: its steps and calls as spans with their real times, its totals as metrics.

Nothing is sent unless a collector is named. Needs the extra `otel`.

A run as Galileo traces: what its SDK sends to the ingestion endpoint, as plain JSON.

One trace an interval: a retriever span with the evidence, a span a decision. Times are the
interval's own instant; durations and tokens are given where they were measured, and left out
where they were not. Ids are derived from the run's rows, so exporting twice gives the same file.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import msgspec
import orjson

from beforehand import __version__
from beforehand.clock import parse_instant, to_us
from beforehand.errors import NotConfigured, NotFound, Unavailable
from beforehand.ids import digest
from beforehand.records.rows import BASELINE, DecisionRow, FailureRow, IntervalRow
from beforehand.runs.spent import Spent
from beforehand.store.journal.journal import Journal
from beforehand.store.run_folder import RunFolder

TIMEOUT_S = 5


def send(folder: RunFolder, journal: Journal | None, address: str) -> dict[str, Any]:
    """Send a run's spans and metrics to a collector (`http://host:4318`)."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from opentelemetry.sdk.trace.id_generator import IdGenerator
    except ImportError:
        raise NotConfigured(
            "OpenTelemetry needs the extra: pip install 'beforehand[otel]'; csv, parquet, jsonl "
            "and galileo work without"
        ) from None
    row = None if journal is None else journal.run(folder.run_id)
    if journal is None or row is None:
        raise NotFound(f"run {folder.run_id} is not in the journal: its times are not on record")
    resource = Resource.create({"service.name": "beforehand", "service.version": __version__})
    kept = InMemorySpanExporter()
    ids = cast(IdGenerator, _Ids(folder.run_id))
    tracer_provider = TracerProvider(resource=resource, id_generator=ids)
    tracer_provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = tracer_provider.get_tracer("beforehand", __version__)
    root = tracer.start_span(
        "run",
        start_time=_ns(row.created_at),
        attributes={"run.id": row.run_id, "run.kind": row.kind, "run.status": row.status},
    )
    inside = trace.set_span_in_context(root)
    parents = {}
    for task in journal.spans(folder.run_id):
        span = tracer.start_span(
            f"step {task['task_id'].split('/')[0]}",
            inside,
            start_time=_ns(task["started_at"]),
            attributes={"step.id": task["task_id"], "step.status": task["status"]},
        )
        parents[task["task_id"]] = trace.set_span_in_context(span)
        span.end(_ns(task["completed_at"] or task["started_at"]))
    every = journal.calls.rows(folder.run_id)
    rows = [call for call in every if call["origin"] is None]  # A fork's own.
    for call in rows:
        attributes = {
            "call.key": call["call_key"],
            "call.state": call["state"],
            "gen_ai.request.model": call["provider"],
            "simulation.index": call["simulation_index"],
        }
        if call["tokens"] is not None:
            attributes["gen_ai.usage.total_tokens"] = call["tokens"]
        if call["cost"] is not None:
            attributes["cost.usd"] = call["cost"]
        span = tracer.start_span(
            "call",
            parents.get(call["task_id"], inside),
            start_time=_ns(call["sent_at"]),
            attributes=attributes,
        )
        span.end(_ns(call["answered_at"] or call["sent_at"]))
    root.end(_ns(row.updated_at))
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], resource=resource)
    meter = meters.get_meter("beforehand", __version__)
    labels = {"run.id": row.run_id, "run.kind": row.kind}
    meter.create_counter("beforehand.calls").add(row.calls, labels)
    meter.create_counter("beforehand.tokens").add(row.tokens, labels)
    meter.create_counter("beforehand.cost", unit="USD").add(row.cost, labels)
    meter.create_counter("beforehand.steps").add(len(parents), labels)
    latency = meter.create_histogram("beforehand.call.duration", unit="ms")
    for call in rows:
        if call["latency_ms"] is not None:
            latency.record(call["latency_ms"], {**labels, "provider": call["provider"]})
    base = address.rstrip("/")
    spans = kept.get_finished_spans()
    sent = OTLPSpanExporter(f"{base}/v1/traces", timeout=TIMEOUT_S).export(spans)
    metrics = reader.get_metrics_data()
    assert metrics is not None
    counted = OTLPMetricExporter(f"{base}/v1/metrics", timeout=TIMEOUT_S).export(metrics)
    tracer_provider.shutdown()
    meters.shutdown()
    if sent is not SpanExportResult.SUCCESS or counted is not MetricExportResult.SUCCESS:
        raise Unavailable(f"the collector at {address} did not take the run: is it up?")
    return {"out": address, "rows": len(spans), "what": "spans, and the run's metrics"}


class _Ids:
    """Trace and span ids derived from the run: sending twice sends the same ones."""

    def __init__(self, run_id: str) -> None:
        self._run_id, self._n = run_id, 0

    def generate_trace_id(self) -> int:
        return int(digest(["trace", self._run_id])[:32], 16)

    def generate_span_id(self) -> int:
        self._n += 1
        return int(digest(["span", self._run_id, self._n])[:16], 16)

    def is_trace_id_random(self) -> bool:
        return False


def _ns(stamp: str) -> int:
    instant: datetime = parse_instant(stamp)
    return to_us(instant) * 1000


LOGGING_METHOD = "api_direct"


def ingest_request(
    intervals: Iterable[IntervalRow], outcomes: Mapping[str, float], spent: Spent
) -> dict[str, Any]:
    """The body of a traces request. `outcomes` are settlements by market, `spent` says what a
    decision or a failure cost."""
    traces = [_trace(row, outcomes.get(row.market_id), spent) for row in intervals]
    return {
        "logging_method": LOGGING_METHOD,
        "reliable": False,
        "traces": traces,
        "is_complete": True,
    }


def _trace(row: IntervalRow, outcome: float | None, spent: Spent) -> dict[str, Any]:
    context = row.context
    name = f"{row.market_id}@{row.time}"
    seed = f"beforehand/{row.run_id}/{name}"
    question = context.market.description or row.market_id
    facts: dict[str, Any] = {
        "dataset_input": question,
        "dataset_output": None if outcome is None else f"{outcome:g}",
        "dataset_metadata": {},
    }
    spans = [
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
    facts: Mapping[str, Any],
    seed: str,
    spent: Spent,
) -> dict[str, Any]:
    """A paid forecaster is a model span, a baseline a tool span."""
    model, index = said.model_id, said.simulation_index
    paid = spent(row, said)
    name = f"{model}#{index}"
    metrics: dict[str, Any] = {}
    if paid is not None and paid.latency_ms is not None:
        metrics["duration_ns"] = round(paid.latency_ms * 1e6)
    if paid is not None and paid.tokens is not None:
        metrics["num_total_tokens"] = paid.tokens
    if isinstance(said, FailureRow):
        answer: dict[str, Any] = {"error": said.error}
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


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
