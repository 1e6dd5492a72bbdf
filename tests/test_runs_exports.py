"""Finished runs for other tools: tables, Galileo, OpenTelemetry, each read back by its own reader."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.config import Home
from experiments import Out, config, told


def test_tables_of_a_run(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    counted = {}
    for kind in ("csv", "jsonl", "parquet"):
        found = told(
            capsys, "runs", "export", "r", "--format", kind, "--out", str(home / f"t.{kind}")
        )
        counted[kind] = found["rows"]
    assert counted == {"csv": 18, "jsonl": 18, "parquet": 18}
    with (home / "t.csv").open() as file:
        from_csv = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (home / "t.jsonl").read_text().splitlines()]
    with duckdb.connect() as db:
        parquet = db.execute("SELECT * FROM read_parquet(?)", [str(home / "t.parquet")]).fetchall()
    assert [float(r["probability"]) for r in from_csv] == [r["probability"] for r in lines]
    assert [r[6] for r in parquet] == [r["probability"] for r in lines]
    assert sum(float(r["cost"] or 0) for r in from_csv) == pytest.approx(0.12)
    assert {r["outcome"] for r in lines} <= {0.0, 1.0}
    inside = Home(home).runs / "r" / "x.csv"
    assert cli(["runs", "export", "r", "--out", str(inside)]) == 2
    assert cli(["runs", "verify", "r"]) == 0


class Takes(Provider):
    """A collector: it takes whatever is posted."""

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        self.bodies[path] = body
        return 200, b""


def needs(module: str) -> None:
    """The peers of the exports are an extra: CI has it."""
    try:
        __import__(module)
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail(f"{module} is not installed: CI needs the extra `exports`")
        pytest.skip(f"{module} is not installed: uv pip install -e '.[exports]'")


@pytest.mark.filterwarnings("ignore")
def test_galileo_traces_are_what_its_sdk_sends(
    provider: Provider,
    market: dict[str, Any],
    sim: Path,
    home: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs("galileo")
    from galileo import GalileoLogger
    from galileo.schema.trace import TracesIngestRequest

    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    out = home / "traces.json"
    assert (
        told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))["rows"] == 6
    )
    first = out.read_bytes()
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    assert out.read_bytes() == first, "the same run, the same bytes"
    body = json.loads(first)
    parsed = TracesIngestRequest.model_validate(body)
    assert [len(t.spans) for t in parsed.traces] == [4] * 6
    kinds = [span.type.value for span in parsed.traces[0].spans]
    assert kinds == ["retriever", "tool", "llm", "llm"]
    assert parsed.traces[0].spans[2].metrics.num_total_tokens == 7
    # The same traces through the SDK's own logger, with its hook instead of its network.
    monkeypatch.setenv("GALILEO_API_KEY", "none")
    received: list[TracesIngestRequest] = []
    logger = GalileoLogger(ingestion_hook=received.append, mode="batch")
    for trace in parsed.traces:
        logger.traces.append(trace)
    logger.flush()
    assert [t.name for t in received[0].traces] == [t["name"] for t in body["traces"]]


def test_galileo_traces_have_the_recorded_shape(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out, data: Path
) -> None:
    golden = json.loads((data / "galileo" / "traces_ingest_request.json").read_text())
    path = config(home / "c.json", market, models=["market", provider.address()])
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")
    out = home / "traces.json"
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    mine = json.loads(out.read_text())
    assert mine.keys() == golden.keys()
    assert mine["traces"][0].keys() == golden["traces"][0].keys()
    theirs = {span["type"]: span for span in golden["traces"][0]["spans"]}
    for span in mine["traces"][0]["spans"]:
        assert span.keys() == theirs[span["type"]].keys(), span["type"]
    for kind in ("input", "output"):
        model = next(s for s in mine["traces"][0]["spans"] if s["type"] == "llm")
        assert type(model[kind]) is type(theirs["llm"][kind])


def test_spans_and_metrics_reach_a_collector(
    provider: Provider, market: dict[str, Any], sim: Path, home: Path, capsys: Out
) -> None:
    needs("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    path = config(home / "c.json", market, models=["market", provider.address()], num_sims=2)
    told(capsys, "backtest", "run", str(path), "--archive", str(sim), "--run-id", "r")

    with serving(Takes()) as collector:
        collector.bodies = {}
        address = collector.address("")
        found = told(capsys, "runs", "export", "r", "--format", "otlp", "--out", address)
        bodies = collector.bodies
    spans = ExportTraceServiceRequest.FromString(bodies["/v1/traces"]).resource_spans[0]
    names = [span.name for span in spans.scope_spans[0].spans]
    assert len(names) == found["rows"]
    assert names.count("call") == 12
    assert {"run", "step ask", "step collect", "step score"} <= set(names)
    for span in spans.scope_spans[0].spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    metrics = ExportMetricsServiceRequest.FromString(bodies["/v1/metrics"]).resource_metrics[0]
    values = {
        m.name: m.sum.data_points[0].as_double or m.sum.data_points[0].as_int
        for m in metrics.scope_metrics[0].metrics
        if m.HasField("sum")
    }
    assert values["beforehand.calls"] == 12
    assert values["beforehand.cost"] == pytest.approx(0.12)
    assert cli(["runs", "export", "r", "--format", "otlp"]) == 2
    assert cli(["runs", "export", "r", "--format", "otlp", "--out", address]) == 1
    assert "is it up?" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_an_answered_question_reaches_galileo_and_a_collector(
    sim: Path, home: Path, capsys: Out
) -> None:
    """An agent span for each task, and inside it its calls; events are those of any run."""
    needs("galileo")
    from galileo.schema.trace import TracesIngestRequest

    question = ("ask", "Will the Jorvia pipeline index close above 772, and how did it move?")
    more = ("--archive", str(sim), "--as-of", "2025-02-20", "--model", "scripted")
    told(capsys, *question, *more, "--run-id", "r")
    out = home / "traces.json"
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    first = out.read_bytes()
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    assert out.read_bytes() == first, "the same run, the same bytes"
    (trace,) = TracesIngestRequest.model_validate(json.loads(first)).traces
    assert trace.input == question[1]
    names = [(span.type.value, span.name) for span in trace.spans]
    assert names[:5] == [("llm", "scripted")] * 5, "an outline, and four tasks"
    assert len({span.id for span in trace.spans}) == len(trace.spans)
    trace.spans = trace.spans[5:]
    assert names[5:] == [
        ("agent", "polymarket-agent"),
        ("agent", "predictive-markets-agent"),
        ("agent", "code-agent"),
        ("agent", "price-history-agent"),
    ]
    inner = {span.type.value for span in trace.spans[2].spans}
    assert inner == {"llm", "tool"}, "the model that wrote code, and the tools that it called"
    with serving(Takes()) as collector:
        collector.bodies = {}
        address = collector.address("")
        found = told(capsys, "runs", "export", "r", "--format", "otlp", "--out", address)
    assert found["rows"] == 1 + 6 + len(trace.spans[0].spans) + 5 + len(trace.spans[2].spans)
    assert cli(["runs", "watch", "r", "--events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    whats = {event["what"] for event in events}
    assert {
        "run begun",
        "step begun",
        "step ended",
        "call sent",
        "call ended",
        "run ended",
    } <= whats
    assert cli(["runs", "export", "r", "--format", "csv"]) == 2
    assert "--format galileo or otlp" in capsys.readouterr().err


def test_a_scout_run_exported(sim: Path, home: Path, capsys: Out) -> None:
    """A span for each node with its calls inside, as Galileo's own SDK reads it, and over OTLP."""
    needs("galileo")
    needs("opentelemetry.exporter.otlp.proto.http")
    from galileo.schema.trace import TracesIngestRequest

    asked = ("scout", "run", "Will the Jorvia index close higher?", "--keyword", "Jorvia")
    more = ("--archive", str(sim), "--as-of", "2025-02-20", "--model", "scripted")
    told(capsys, *asked, *more, "--run-id", "r")
    out = home / "traces.json"
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    first = out.read_bytes()
    told(capsys, "runs", "export", "r", "--format", "galileo", "--out", str(out))
    assert out.read_bytes() == first, "the same run, the same bytes"
    (trace,) = TracesIngestRequest.model_validate(json.loads(first)).traces
    names = [(span.type.value, span.name) for span in trace.spans]
    assert names == [
        ("agent", "scout plan"),
        ("workflow", "reddit_search_and_fetch_threads"),
        ("agent", "scout think"),
        ("agent", "scout act"),
    ]
    inner = [[span.type.value for span in one.spans] for one in trace.spans]
    assert inner == [["llm"], ["tool"], [], []], "the simulated world has no thread to rate"
    with serving(Takes()) as collector:
        collector.bodies = {}
        address = collector.address("")
        found = told(capsys, "runs", "export", "r", "--format", "otlp", "--out", address)
    assert found["rows"] == 1 + 5 + 2, "the run, its steps, its calls"
