"""Aggregates weighted by past score: after the walk, with what was known at each instant.

At t a model's past is its forecasts on other markets whose answer had become known by t, the last
one before each answer. Intervals are taken in time order over all markets. (Contexts were written
during the walk: their previous intervals hold the plain mean.)
"""

import heapq
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from beforehand.clock import parse_instant
from beforehand.forecast.aggregate import Past, aggregate
from beforehand.forecast.answer import decide
from beforehand.ids import digest
from beforehand.records.backtest import forecasts
from beforehand.records.cutoff import visible
from beforehand.records.world import Resolution
from beforehand.store.files import write_atomic


def weigh(path: Path, answers: Mapping[str, Resolution]) -> None:
    """Rewrite the aggregates of an intervals.jsonl with weights from what was known at each t."""
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    past = Past()
    latest: dict[str, dict[str, float]] = {}
    waiting = [
        (r.known_at, name, float(r.payout))
        for name, r in answers.items()
        if r.status == "resolved" and r.payout is not None
    ]
    heapq.heapify(waiting)
    for row in sorted(rows, key=lambda r: (parse_instant(r["time"]), r["market_id"])):
        t = parse_instant(row["time"])
        while waiting and visible(waiting[0][0], t):
            _, name, answer = heapq.heappop(waiting)
            past.learn(latest.pop(name, {}), answer)
        _again(row, past)
        if row["decisions"]:
            latest.setdefault(row["market_id"], {}).update(forecasts(row["decisions"]))
    write_atomic(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))


def _again(row: dict[str, Any], past: Past) -> None:
    said = [d["probability"] for d in row["decisions"]]
    names = [d["model_id"].removeprefix("baseline:") for d in row["decisions"]]
    together = aggregate("weighted", said, past.weights(names))
    row["aggregate"]["probability"] = together
    row["aggregate"]["decision"] = None if together is None else decide(together)
    body = {key: value for key, value in row.items() if key not in ("run_id", "digest")}
    row["digest"] = digest(body)
