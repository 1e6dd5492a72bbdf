"""Send a run over OTLP: its steps and calls as spans with their real times, totals as metrics.

Nothing is sent unless a collector is named. Importing this needs the extra `otel`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from beforehand import __version__
from beforehand.clock import parse_instant, to_us
from beforehand.errors import NotFound, Unavailable
from beforehand.ids import digest
from beforehand.store.journal.calls import TOOL, CallRow
from beforehand.store.journal.journal import Journal, TaskSpan
from beforehand.store.journal.schema import RunRow
from beforehand.store.run_folder import RunFolder

TIMEOUT_S = 5


def send(folder: RunFolder, journal: Journal | None, address: str) -> int:
    """Send a run's spans and metrics to a collector (`http://host:4318`); returns how many spans.
    Raises NotFound for a run without a journal, Unavailable if the collector refuses it.
    """
    row = None if journal is None else journal.run(folder.run_id)
    if journal is None or row is None:
        raise NotFound(f"run {folder.run_id} is not in the journal: its times are not on record")
    every = journal.calls.rows(folder.run_id)
    calls = [
        call for call in every if call["origin"] is None
    ]  # Without those that a fork inherited.
    steps = journal.spans(folder.run_id)
    spans = _spans(row, steps, calls)
    base = address.rstrip("/")
    sent = OTLPSpanExporter(f"{base}/v1/traces", timeout=TIMEOUT_S).export(spans)
    metrics = _metrics(row, len(steps), calls)
    counted = OTLPMetricExporter(f"{base}/v1/metrics", timeout=TIMEOUT_S).export(metrics)
    if sent is not SpanExportResult.SUCCESS or counted is not MetricExportResult.SUCCESS:
        raise Unavailable(
            f"the collector at {urlsplit(address).hostname} did not accept the run: is it up?"
        )
    return len(spans)


def _resource() -> Resource:
    return Resource.create({"service.name": "beforehand", "service.version": __version__})


def _spans(
    row: RunRow, steps: Sequence[TaskSpan], calls: Sequence[CallRow]
) -> Sequence[ReadableSpan]:
    """The run as a span, its steps inside it, and each call inside its step."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(
        resource=_resource(), id_generator=cast(IdGenerator, _Ids(row.run_id))
    )
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("beforehand", __version__)
    root = tracer.start_span(
        "run",
        start_time=_ns(row.created_at),
        attributes={"run.id": row.run_id, "run.kind": row.kind, "run.status": row.status},
    )
    inside = trace.set_span_in_context(root)
    parents = dict[str, Context]()
    for step in steps:
        span = tracer.start_span(
            f"step {step['task_id'].split('/')[0]}",
            inside,
            start_time=_ns(step["started_at"]),
            attributes={"step.id": step["task_id"], "step.status": step["status"]},
        )
        parents[step["task_id"]] = trace.set_span_in_context(span)
        span.end(_ns(step["completed_at"] or step["started_at"]))
    for call in calls:
        span = tracer.start_span(
            "call",
            parents.get(call["task_id"], inside),
            start_time=_ns(call["sent_at"]),
            attributes=_attributes(call),
        )
        span.end(_ns(call["answered_at"] or call["sent_at"]))
    root.end(_ns(row.updated_at))
    provider.shutdown()
    return kept.get_finished_spans()


def _attributes(call: CallRow) -> Mapping[str, str | int | float]:
    """The attributes of a call's span, in OpenTelemetry's names where it has them."""
    found: dict[str, str | int | float] = {
        "call.key": call["call_key"],
        "call.state": call["state"],
        "simulation.index": call["simulation_index"],
    }
    tool = call["provider"].removeprefix(TOOL)
    named = "gen_ai.request.model" if tool == call["provider"] else "gen_ai.tool.name"
    found[named] = tool
    if call["tokens"] is not None:
        found["gen_ai.usage.total_tokens"] = call["tokens"]
    if call["cost"] is not None:
        found["cost.usd"] = call["cost"]
    return found


def _metrics(row: RunRow, steps: int, calls: Sequence[CallRow]) -> MetricsData:
    """The run's totals as counters, and how long its calls took as a histogram."""
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], resource=_resource())
    meter = meters.get_meter("beforehand", __version__)
    labels = {"run.id": row.run_id, "run.kind": row.kind}
    meter.create_counter("beforehand.calls").add(row.calls, labels)
    meter.create_counter("beforehand.tokens").add(row.tokens, labels)
    meter.create_counter("beforehand.cost", unit="USD").add(row.cost, labels)
    meter.create_counter("beforehand.steps").add(steps, labels)
    latency = meter.create_histogram("beforehand.call.duration", unit="ms")
    for call in calls:
        if call["latency_ms"] is not None:
            latency.record(call["latency_ms"], {**labels, "provider": call["provider"]})
    found = reader.get_metrics_data()
    assert found is not None
    meters.shutdown()
    return found


class _Ids:
    """Trace and span ids derived from the run: sending it twice sends the same ids."""

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
