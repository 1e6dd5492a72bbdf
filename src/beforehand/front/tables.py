"""A run's files as tables: what was forecast, shown, cited, called, and what failed."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beforehand.clock import parse_us
from beforehand.forecast.files.forecast_file import COLUMNS
from beforehand.front.arrow import Column, Kind, Table
from beforehand.records.rows import DecisionRow, IntervalRow, PredictionLine, TraceRow, label
from beforehand.runs.interval_columns import IntervalColumns
from beforehand.runs.rows import InstantLine, questions_of
from beforehand.runs.spent import ForecasterCost
from beforehand.score.report.spreadsheets import CSV_COLUMNS, csv_cells
from beforehand.score.summary import BoardRow
from beforehand.store.files import read_csv
from beforehand.store.journal.calls import CallRow

Kinds = Mapping[str, Kind]
NUMBERS: Kinds = dict.fromkeys(("n", "n_questions", "missing"), "int")
WORDS = ("forecaster", "leading", "verdict", "isolation", "order", "kelly_note")


def table_of(name: str, kinds: Kinds, rows: Iterable[Sequence[Any]]) -> Table:
    """A table of rows whose cells stand in the order of `kinds`."""
    columns: list[list[Any]] = [[] for _ in kinds]
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            column.append(cell)
    made = {
        key: Column.of(kind, values)
        for (key, kind), values in zip(kinds.items(), columns, strict=True)
    }
    return Table(made, name)


def leaderboard(board: Sequence[BoardRow]) -> Table:
    """One row per forecaster, best first: the columns of leaderboard.csv."""
    cells = [csv_cells(row) for row in board]
    added = [name for name in cells[0] if name not in CSV_COLUMNS] if cells else []
    kinds: dict[str, Kind] = {}
    for name in (*CSV_COLUMNS, *added):
        kinds[name] = "text" if name in WORDS else NUMBERS.get(name, "float")
    numbers = ([_number(row[name], kinds[name]) for name in kinds] for row in cells)
    return table_of("leaderboard", kinds, numbers)


def _number(value: object, kind: Kind) -> object:
    """A cell; where a figure is replaced by the reason why there is none, it is unknown."""
    return None if kind == "float" and isinstance(value, str) else value


BETS: Kinds = {
    "forecaster": "text",
    "market_id": "text",
    "time": "time",
    "question": "text",
    "venue": "text",
    "side": "text",
    "forecast": "float",
    "market": "float",
    "price": "float",
    "wanted": "float",
    "stake": "float",
    "fee_rate": "float",
    "fee": "float",
    "gain": "float",
    "wealth": "float",
    "event": "int",
    "outcome": "float",
    "settled": "time",
}


def bets(path: Path) -> Table:
    """Every Kelly bet of a run, as its bets.csv has them."""
    return _read(path, "bets", BETS)


SCORED: Kinds = {
    "forecaster": "text",
    "market_id": "text",
    "question": "text",
    "venue": "text",
    "category": "text",
    "outcome": "float",
    "settled": "time",
    "n": "int",
    "brier": "float",
    "skill_vs_market": "float",
    "event": "int",
    "month": "int",
}


def questions(path: Path) -> Table:
    """Every question of every forecaster of a run, as its questions.csv has them."""
    return _read(path, "questions", SCORED)


def _read(path: Path, name: str, kinds: Kinds) -> Table:
    def cell(kind: Kind, text: str) -> object:
        if not text:
            return None
        return parse_us(text) if kind == "time" else float(text) if kind == "float" else text

    rows = [row for _, row, _ in read_csv(path, ()) if row is not None]
    return table_of(name, kinds, ([cell(k, row[n]) for n, k in kinds.items()] for row in rows))


COMPARED: Kinds = {
    "market_id": "text",
    "question": "text",
    "outcome": "float",
    "n": "int",
    "a": "float",
    "b": "float",
    "difference": "float",
    "forecast_a": "float",
    "forecast_b": "float",
    "time": "text",
}


def compared(rows: Sequence[Mapping[str, object]]) -> Table:
    """One row per question that two forecasters both forecast."""
    return table_of("compared", COMPARED, ([row[name] for name in COMPARED] for row in rows))


FORECASTS: Kinds = {
    "market_id": "text",
    "time": "time",
    "forecaster": "text",
    "simulation": "int",
    "probability": "float",
    "confidence": "float",
    "market": "float",
    "price_age": "float",
    "outcome": "float",
    "short": "bool",
    "mode": "text",
    "rationale": "text",
}


def forecasts(
    rows: Iterable[IntervalRow], outcomes: Mapping[str, float], apart: Container[str]
) -> Table:
    """One row per decision; `apart` are the markets that are scored apart."""
    if isinstance(rows, IntervalColumns) and not rows.asked:
        return _forecasts(rows, outcomes, apart)
    return table_of(
        "forecasts",
        FORECASTS,
        (
            (
                row.market_id,
                row.context.t,
                label(said.model_id),
                said.simulation_index,
                said.probability,
                said.confidence,
                row.context.odds,
                row.context.market.price_age,
                outcomes.get(row.market_id),
                row.market_id in apart,
                said.mode,
                said.rationale,
            )
            for row in rows
            for said in row.decisions
        ),
    )


def _forecasts(
    rows: IntervalColumns, outcomes: Mapping[str, float], apart: Container[str]
) -> Table:
    """The same in bulk."""
    said = np.asarray(rows.forecasts).T
    row, who = np.nonzero(np.isfinite(said))
    market = rows.column("market")[row]
    probability, by_market = said[row, who], market.tolist()
    sure = [round(abs(p - 0.5) * 2, 12) for p in probability.tolist()]
    settled = np.array([outcomes.get(name, np.nan) for name in rows.markets])
    cells = {
        "market_id": [rows.markets[i] for i in by_market],
        "time": rows.column("t")[row],
        "forecaster": [label(rows.who[k]["model_id"]) for k in who.tolist()],
        "simulation": np.zeros(len(row), dtype=np.int64),
        "probability": probability,
        "confidence": np.array(sure),
        "market": rows.column("odds")[row],
        "price_age": rows.column("price_age")[row],
        "outcome": settled[market],
        "short": np.array([name in apart for name in rows.markets], dtype=np.bool_)[market],
        "mode": ["baseline"] * len(row),
        "rationale": [rows.who[k]["rationale"] for k in who.tolist()],
    }
    return Table({name: Column(kind, cells[name]) for name, kind in FORECASTS.items()}, "forecasts")


STATED: Kinds = {
    name: FORECASTS[name]
    for name in (
        *("market_id", "time", "forecaster", "probability"),
        *("market", "price_age", "outcome"),
    )
}


def stated(
    rows: Iterable[PredictionLine],
    outcomes: Mapping[str, float],
    beside: Iterable[InstantLine] = (),
) -> Table:
    """One row per forecast of a scored file; `beside` is what stood beside it."""
    prices = {(row["id"], row["time"]): (row["odds"], row["price_age_s"]) for row in beside}
    return table_of(
        "forecasts",
        STATED,
        (
            (
                row.id,
                parse_us(row.metadata.timestamp),
                row.metadata.predictor_id or None,
                row.prediction.probability,
                *prices.get((row.id, row.metadata.timestamp), (None, None)),
                outcomes.get(row.id),
            )
            for row in rows
        ),
    )


INTERVALS: Kinds = {
    "market_id": "text",
    "time": "time",
    "question": "text",
    "odds": "float",
    "bid": "float",
    "ask": "float",
    "price_age": "float",
    "documents": "int",
    "decisions": "int",
    "failures": "int",
    "outcome": "float",
}


def intervals(rows: Iterable[IntervalRow], outcomes: Mapping[str, float]) -> Table:
    """One row per market and instant: what was shown, and how it ended."""
    return table_of(
        "intervals",
        INTERVALS,
        (
            (
                row.market_id,
                row.context.t,
                row.context.market.description,
                row.context.odds,
                row.context.market.bid,
                row.context.market.ask,
                row.context.market.price_age,
                len(row.context.search_snippets),
                len(row.decisions),
                len(row.failures),
                outcomes.get(row.market_id),
            )
            for row in questions_of(rows)
        ),
    )


EVIDENCE: Kinds = {
    "market_id": "text",
    "time": "time",
    "document_id": "text",
    "known_at": "time",
    "text": "text",
    "cited_by": "text",
}


def evidence(rows: Iterable[IntervalRow]) -> Table:
    """One row per document that was shown; `cited_by` names the forecasters that rest on it."""
    return table_of(
        "evidence",
        EVIDENCE,
        (
            (
                row.market_id,
                row.context.t,
                shown.id,
                parse_us(shown.timestamp),
                shown.text,
                ", ".join(_citing(row.decisions, shown.id)) or None,
            )
            for row in questions_of(rows)
            for shown in row.context.search_snippets
        ),
    )


def _citing(decisions: Iterable[DecisionRow], document: str) -> list[str]:
    names = (label(one.model_id) for one in decisions if document in one.key_evidence_ids)
    return list(dict.fromkeys(names))


FAILURES: Kinds = {
    "market_id": "text",
    "time": "time",
    "forecaster": "text",
    "simulation": "int",
    "error": "text",
    "traceback": "text",
}


def failures(rows: Iterable[IntervalRow], traces: Iterable[TraceRow]) -> Table:
    """One row per forecast that did not come about; `traceback` where code of ours raised."""
    told = {
        (trace.market_id, trace.time, trace.model_id, trace.simulation_index): trace.error
        for trace in traces
        if trace.arm == "python" and isinstance(trace.error, str)
    }
    return table_of(
        "failures",
        FAILURES,
        (
            (
                row.market_id,
                row.context.t,
                label(one.model_id),
                one.simulation_index,
                one.error,
                told.get((row.market_id, row.time, one.model_id, one.simulation_index)),
            )
            for row in rows
            for one in row.failures
        ),
    )


CALLS: Kinds = {
    "provider": "text",
    "question": "text",
    "instant": "time",
    "simulation": "int",
    "state": "text",
    "attempts": "int",
    "tokens": "float",
    "cost": "float",
    "latency_ms": "float",
    "sent_at": "time",
    "answered_at": "time",
    "error": "text",
    "answer": "text",
}


def calls(rows: Iterable[CallRow]) -> Table:
    """One row per call on record, in the order sent. Wall-clock times; `cost` in US dollars."""
    return table_of(
        "calls",
        CALLS,
        (
            (
                row["provider"],
                row["question"],
                row["instant"],
                row["simulation_index"],
                row["state"],
                row["attempts"],
                row["tokens"],
                row["cost"],
                row["latency_ms"],
                parse_us(row["sent_at"]),
                None if row["answered_at"] is None else parse_us(row["answered_at"]),
                row["error"],
                row["answer"],
            )
            for row in rows
        ),
    )


COSTS: Kinds = {
    "forecaster": "text",
    "forecasts": "int",
    "asked": "int",
    "tokens": "float",
    "cost": "float",
    "latency_ms": "float",
}


def costs(rows: Iterable[ForecasterCost]) -> Table:
    """One row per forecaster: what its forecasts cost."""
    return table_of("costs", COSTS, ([getattr(row, name) for name in COSTS] for row in rows))


def rejected(rows: Iterable[Mapping[str, Any]]) -> Table:
    """One row per row of a scored file that could not be scored, as it was stated."""
    kinds: Kinds = {"line": "int", **dict.fromkeys(COLUMNS, "text"), "reason": "text"}
    return table_of("rejected", kinds, ([row.get(name) for name in kinds] for row in rows))
