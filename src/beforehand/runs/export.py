"""A finished run for other tools: one row per decision (of a scout run: per document), Galileo
traces, OpenTelemetry."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from beforehand.config import Home
from beforehand.errors import InputError, NotConfigured, NotFound
from beforehand.records.rows import DecisionRow, FailureRow, encode
from beforehand.records.spreadsheet import spreadsheet_cell
from beforehand.runs.query import tried_since
from beforehand.runs.rows import (
    columns_at,
    has_intervals,
    read_intervals,
    read_jsonl,
    read_predictions,
)
from beforehand.runs.scouted import COLUMNS as DOCUMENT_COLUMNS
from beforehand.runs.scouted import documents, is_scouted, trace
from beforehand.runs.spent import Cost, spent
from beforehand.runs.traces.galileo import ingest_request, interval_traces, question_trace
from beforehand.score.skill import MARKET
from beforehand.score.summary import Summary
from beforehand.store.files import (
    read_json,
    write_atomic,
    write_json,
    write_jsonl,
    write_lines,
)
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


ALSO = {".tex": (".latex",), ".md": (".markdown",)}
ROWS_OF = ("intervals", "predictions")
"""Formats that are a file of the run, line by line."""
PAPER = {"latex": ".tex", "markdown": ".md", "svg": ".svg", "png": ".png", "gain": ".gain.svg"}
"""Formats for a paper, and how their files end."""


class Exported(TypedDict):
    """Where an export went, how many rows of what, and the licences of the data behind them."""

    out: str
    rows: int
    what: str
    licences: NotRequired[list[str]]


def export(
    folder: RunFolder,
    format: str,
    out: str | None,
    journal: Journal | None,
    home: Home | None = None,
) -> Exported:
    """Write one format; returns where it went, and how many rows of what. Raises NotFound for a run
    that is not finished or has no forecasts, NotConfigured if an extra is missing."""
    if folder.facts()["status"] != "success":
        raise NotFound(f"run {folder.run_id} is not finished: resume it, then export it")
    folder.unchanged(
        f"nothing is exported; `beforehand runs verify {folder.run_id}` says what can be trusted"
    )
    if format in PAPER:
        return _paper(folder, format, out, home)
    if format == "otlp":
        return _send(folder, journal, out)
    asked, scouted = (folder.path / "answer.json").is_file(), is_scouted(folder)
    if asked and format != "galileo":
        raise NotFound(
            f"run {folder.run_id} answered a question: it has no table of forecasts; export it "
            "with --format galileo or otlp"
        )
    walked = has_intervals(folder.path / "intervals.jsonl")
    stated = not walked and folder.wrote("predictions.jsonl")
    if not (asked or scouted or stated or walked):
        raise NotFound(f"run {folder.run_id} holds no forecasts of its own to export")
    if stated and format == "galileo":
        raise NotFound(f"run {folder.run_id} scored a file: nobody was asked, so there is no trace")
    if format in ROWS_OF:
        return _rows(folder, format, out)
    calls = None if journal is None else journal.calls
    endings = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".json": "galileo"}
    suffix = next(end for end, kind in endings.items() if kind == format)
    path = _target(folder, out, f"{folder.run_id}-{format}{suffix}")
    if format == "galileo":
        if scouted:
            traces = ingest_request([trace(folder, journal)])
        else:
            traces = ingest_request(list(_traces(folder, journal, asked)))
        write_json(path, traces)
        return {"out": str(path), "rows": len(traces["traces"]), "what": "traces"}
    told = documents(folder) if scouted else decisions(folder, calls)
    rows = _stated(folder) if stated else told
    columns, licences = DOCUMENT_COLUMNS if scouted else COLUMNS, _licences(folder)
    if format == "csv":
        n = write_lines(path, _csv(columns, rows)) - 1
    elif format == "jsonl":
        n = write_jsonl(path, rows)
    else:
        n = write_parquet(path, rows, columns, {"data_licences": ", ".join(licences)})
    what = "documents" if scouted else "decisions"
    return {"out": str(path), "rows": n, "what": what, "licences": licences}


def _csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The lines of a spreadsheet, the header first."""
    line = io.StringIO()
    writer = csv.DictWriter(line, list(columns), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        yield line.getvalue().encode()
        line.seek(0)
        line.truncate()
        writer.writerow({k: spreadsheet_cell(cell) for k, cell in row.items()})
    yield line.getvalue().encode()


def _rows(folder: RunFolder, format: str, out: str | None) -> Exported:
    """The lines of intervals.jsonl or predictions.jsonl, made from columns where the run has such:
    the same bytes."""
    name = f"{format}.jsonl"
    if not folder.wrote(name):
        raise NotFound(f"run {folder.run_id} has no {name}")
    path, source = _target(folder, out, f"{folder.run_id}-{name}"), folder.path / name
    if columns_at(source) is None:
        with source.open("rb") as lines:
            n = write_lines(path, lines)
    elif format == "intervals":
        n = write_lines(path, (row.sealed() + b"\n" for row in read_intervals(source)))
    else:
        n = write_lines(path, (encode(row) + b"\n" for row in read_predictions(source)))
    return {"out": str(path), "rows": n, "what": format, "licences": _licences(folder)}


def _licences(folder: RunFolder) -> list[str]:
    """The licences of the data behind a run, as its scores state them."""
    scores = folder.path / "scores.json"
    summary: Summary | None = read_json(scores) if scores.is_file() else None
    return [] if summary is None else summary.get("licences", [])


def _paper(folder: RunFolder, format: str, out: str | None, home: Home | None) -> Exported:
    """The leaderboard and what was done, for a paper. With `home`, also what was tried since."""
    from beforehand.score.report import paper
    from beforehand.score.report.pictures import for_print, gain_course, png, style

    scores = folder.path / "scores.json"
    if not scores.is_file():
        raise folder.without_scores()
    summary: Summary = read_json(scores)
    if home is not None and (since := tried_since(folder, home, summary)):
        more = f"{since:,} more tried on such a set after this run: its bounds do not count them"
        summary["hints"] = [*summary.get("hints", []), more]
    path = _target(folder, out, f"{folder.run_id}{PAPER[format]}")
    if format == "latex":
        content = paper.latex(summary).encode()
    elif format == "markdown":
        content = paper.markdown(summary).encode()
    elif format == "svg":
        content = paper.picture(summary).encode()
    elif format == "gain":
        tested = summary.get("subjects")
        drawn = [
            (row["forecaster"], row["evidence"])
            for row in summary["leaderboard"]
            if row.get("evidence") and (tested is None or row["forecaster"] in tested)
        ]
        if not drawn:
            raise NotFound(f"run {folder.run_id} has no gain of anyone on a market to draw")
        content = for_print(style(gain_course(*drawn[0]))).encode()
    else:
        content = png(paper.picture(summary))
    write_atomic(path, content)
    if format == "gain":
        return {"out": str(path), "rows": 1, "what": "forecaster"}
    return {"out": str(path), "rows": len(summary["leaderboard"]), "what": "forecasters"}


def _beside(folder: RunFolder, name: str) -> Path:
    """Beside the run; where nobody may write there, the folder in which one stands."""
    place = folder.path.parent
    return place / name if os.access(place, os.W_OK) else Path(name).absolute()


def _target(folder: RunFolder, out: str | None, name: str) -> Path:
    """Where an export goes: `out`, else beside the run's folder. Raises InputError."""
    path, suffix = Path(out) if out else _beside(folder, name), Path(name).suffix
    if path.suffix and path.suffix not in (suffix, *ALSO.get(suffix, ())):
        raise InputError(f"--out {path} ends in {path.suffix}, and this format is {suffix}")
    if path.resolve().is_relative_to(folder.path.resolve()):
        raise InputError(f"--out {path} lies inside the run's own folder, which is sealed")
    return path


def _traces(
    folder: RunFolder, journal: Journal | None, asked: bool
) -> Iterable[Mapping[str, object]]:
    if asked:
        return [question_trace(folder, journal)]
    rows = read_intervals(folder.path / "intervals.jsonl")
    paid = spent(folder, None if journal is None else journal.calls)
    return interval_traces(rows, _outcomes(folder), paid)


def _send(folder: RunFolder, journal: Journal | None, address: str | None) -> Exported:
    if address is None:
        raise InputError("--out: name the collector's address, such as http://localhost:4318")
    try:
        from beforehand.runs.traces.otlp import send
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


def _stated(folder: RunFolder) -> Iterator[Mapping[str, object]]:
    """One row per forecast that came in a file; of a scored file also the market and the yardsticks
    at its instants."""
    outcomes, said = _outcomes(folder), dict[tuple[str, str], dict[str, float]]()
    for row in read_predictions(folder.path / "predictions.jsonl"):
        name = row.metadata.predictor_id or row.metadata.model or ""
        here = said.setdefault((row.id, row.metadata.timestamp), {})
        here[name] = row.prediction.probability
    beside: dict[tuple[str, str], Mapping[str, Any]] = {}
    if folder.wrote("instants.jsonl"):
        beside = {(r["id"], r["time"]): r for r in read_jsonl(folder.path / "instants.jsonl")}
    for market, time in dict.fromkeys([*beside, *said]):
        seen = beside.get((market, time))
        odds = None if seen is None else seen["odds"]
        known = {} if seen is None else {MARKET: odds, **seen["yardsticks"]}
        for name, p in {**known, **said.get((market, time), {})}.items():
            yield {
                **dict.fromkeys(COLUMNS),
                "run_id": folder.run_id,
                "market_id": market,
                "time": time,
                "model_id": name,
                "probability": p,
                "odds": odds,
                "price_age_s": None if seen is None else seen["price_age_s"],
                "outcome": outcomes.get(market),
            }


def _outcomes(folder: RunFolder) -> dict[str, float]:
    path = folder.path / "resolutions.jsonl"
    rows = read_jsonl(path) if path.is_file() else iter(())
    return {row["id"]: float(row.get("payout", row["outcome"])) for row in rows}
