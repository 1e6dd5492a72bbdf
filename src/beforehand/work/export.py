"""A finished run for other tools: one row a decision, Galileo traces, OpenTelemetry."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from beforehand.errors import InputError, NotFound
from beforehand.score.galileo import ingest_request, spent_key
from beforehand.store.calls import Calls
from beforehand.store.files import write_atomic, write_json, write_jsonl
from beforehand.store.runs import RunFolder
from beforehand.store.tables import write_parquet
from beforehand.work.deciders import MODES
from beforehand.work.results import read_jsonl

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


def export(folder: RunFolder, format: str, out: str | None, calls: Calls | None) -> dict[str, Any]:
    """Write one format; returns the place, and how many of what. Raises NotFound for a run that is
    not finished or has no forecasts, NotConfigured where an extra is missing."""
    if folder.facts()["status"] != "success":
        raise NotFound(f"run {folder.run_id} is not finished: resume it, then export it")
    if not (folder.path / "intervals.jsonl").is_file():
        raise NotFound(f"run {folder.run_id} holds no forecasts of its own to export")
    if format == "otlp":
        from beforehand.work.telemetry import send

        if out is None:
            raise InputError("--out: name the collector's address, such as http://localhost:4318")
        return send(folder, calls, out)
    endings = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".json": "galileo"}
    suffix = next(end for end, kind in endings.items() if kind == format)
    path = Path(out) if out else folder.path.with_name(f"{folder.run_id}-{format}{suffix}")
    if path.resolve().is_relative_to(folder.path.resolve()):
        raise InputError(f"--out {path} lies inside the run's own folder, which is sealed")
    if format == "galileo":
        traces = ingest_request(
            read_jsonl(folder.path / "intervals.jsonl"), _outcomes(folder), _spent(folder, calls)
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


def decisions(folder: RunFolder, calls: Calls | None) -> Iterator[dict[str, Any]]:
    """One row a decision, and one a failure, with what it cost where that is on record."""
    outcomes, spent = _outcomes(folder), _spent(folder, calls)
    for row in read_jsonl(folder.path / "intervals.jsonl"):
        market = row["context"]["market"]
        for said in [*row["decisions"], *row["failures"]]:
            paid = spent.get(spent_key(said, row["context"]), {})
            yield {
                "run_id": row["run_id"],
                "market_id": row["market_id"],
                "time": row["time"],
                "model_id": said["model_id"],
                "simulation_index": said["simulation_index"],
                "mode": said.get("mode"),
                "probability": said.get("probability"),
                "decision": said.get("decision"),
                "confidence": said.get("confidence"),
                "error": said.get("error"),
                "odds": market.get("odds"),
                "price_age_s": market.get("price_age"),
                "documents": len(row["context"]["search_snippets"]),
                "aggregate": row["aggregate"]["probability"],
                "outcome": outcomes.get(row["market_id"]),
                "tokens": paid.get("tokens"),
                "cost": paid.get("cost"),
                "latency_ms": paid.get("latency_ms"),
            }


def _outcomes(folder: RunFolder) -> dict[str, float]:
    path = folder.path / "resolutions.jsonl"
    rows = read_jsonl(path) if path.is_file() else iter(())
    return {row["id"]: float(row.get("payout", row["outcome"])) for row in rows}


def _spent(folder: RunFolder, calls: Calls | None) -> dict[str, dict[str, Any]]:
    """What was paid, by `spent_key`; what a fork inherited was not paid for by it."""
    if calls is None:
        return {}
    free = {"tokens": None, "cost": None, "latency_ms": None}
    found = {
        row["call_key"]: row if row["origin"] is None else {**row, **free}
        for row in calls.rows(folder.run_id)
    }
    traces = folder.path / "traces.jsonl"
    return found | (_of_models(folder, traces, found) if traces.is_file() else {})


def _of_models(
    folder: RunFolder, traces: Path, paid: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """A model's calls, summed by decision: a fallback cost what the code before it did as well."""
    contexts = {
        (row["market_id"], row["time"], said["model_id"]): row["context"]
        for row in read_jsonl(folder.path / "intervals.jsonl")
        for said in [*row["decisions"], *row["failures"]]
    }
    found: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    for trace in read_jsonl(traces):
        if trace["arm"] not in MODES:
            continue
        context = contexts[trace["market_id"], trace["time"], trace["model_id"]]
        mine = _total(paid[key] for key in trace["calls"] if key in paid)
        if "fallback_reason" in trace:
            mine = _total([before, mine])
        before = mine
        found[spent_key({**trace, "mode": MODES[trace["arm"]]}, context)] = mine
        failed = spent_key({**trace, "mode": "failed"}, context)
        found[failed] = mine
    return found


def _total(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums of what is known; None where nothing is."""
    rows = list(rows)
    return {
        name: sum(known) if (known := [r[name] for r in rows if r[name] is not None]) else None
        for name in ("tokens", "cost", "latency_ms")
    }
