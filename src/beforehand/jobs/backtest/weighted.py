"""Aggregates weighted by past score: after the walk, with what was known at each instant.

At t a forecaster's past is its forecasts on other markets whose answer had become known by t, the
last one before each answer. Intervals are taken in time order over all markets. (Contexts were
written during the walk: their previous intervals hold the plain mean.)
"""

import heapq
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beforehand.clock import to_us
from beforehand.forecast.aggregate import Past, aggregate
from beforehand.records.cutoff import visible_us
from beforehand.records.rows import AggregateRow, IntervalRow, forecasts, label, yes_or_no
from beforehand.records.world import Resolution
from beforehand.runs.rows import read_intervals
from beforehand.store.files import write_atomic


def weigh(path: Path, answers: Mapping[str, Resolution]) -> None:
    """Rewrite the aggregates of an intervals.jsonl with weights from what was known at each t."""
    rows = list(read_intervals(path))
    past = Past()
    latest: dict[str, dict[str, float]] = {}
    waiting = [
        (to_us(r.known_at), name, float(r.payout))
        for name, r in answers.items()
        if r.status == "resolved" and r.payout is not None
    ]
    heapq.heapify(waiting)
    order = sorted(range(len(rows)), key=lambda i: (rows[i].context.t, rows[i].market_id))
    for i in order:
        row = rows[i]
        while waiting and visible_us(waiting[0][0], row.context.t):
            _, name, answer = heapq.heappop(waiting)
            past.learn(latest.pop(name, {}), answer)
        rows[i] = _again(row, past)
        if row.decisions:
            latest.setdefault(row.market_id, {}).update(forecasts(row.decisions))
    write_atomic(path, b"".join(row.sealed() + b"\n" for row in rows))


def _again(row: IntervalRow, past: Past) -> IntervalRow:
    """The row with its decisions weighted anew."""
    weights = past.weights([label(one.model_id) for one in row.decisions])
    together = aggregate("weighted", [one.probability for one in row.decisions], weights)
    decision = None if together is None else yes_or_no(together)
    found = AggregateRow(row.aggregate.method, together, decision, row.aggregate.n)
    return msgspec.structs.replace(row, aggregate=found)
