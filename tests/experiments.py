"""Configurations of one market, and the command line as the tests of experiments call it."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso, parse_instant
from beforehand.config import Home, Workspace
from beforehand.engine.plan import Plan
from beforehand.forecast.base import Forecaster, Opening, open_forecasters
from beforehand.records.backtest import ExperimentConfig
from beforehand.runs.rows import read_jsonl

Out = pytest.CaptureFixture[str]
MONDAY = parse_instant("2026-01-05T00:00:00Z")
QUICK = ("--draws", "100", "--placebo", "0")
DAY = 1440


def config(path: Path, market: dict[str, Any], **changes: Any) -> Path:
    body = {
        "market_id": market["id"],
        "start_time": iso(market["first"]),
        "end_time": iso(market["first"] + timedelta(hours=20)),
        "interval_minutes": 240,
        "num_sims": 1,
        "models": ["baseline:market"],
        "mode": "external",
        "search_config": {"max_results": 5, "query_mode": "template"},
    }
    path.write_text(json.dumps({**body, **changes}))
    return path


def told(capsys: Out, *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert cli([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def intervals(home: Path, run_id: str) -> list[dict[str, Any]]:
    return list(read_jsonl(Home(home).runs / run_id / "intervals.jsonl"))


def experiment(market: str, start: datetime, n: int, minutes: int, *models: str) -> Any:
    return ExperimentConfig(
        market_id=market,
        start_time=start,
        end_time=start + timedelta(minutes=minutes * (n - 1)),
        interval_minutes=minutes,
        models=list(models),
        mode="external",
    )


def cast_of(configs: Sequence[ExperimentConfig], *more: str) -> dict[str, Forecaster]:
    """The forecasters of these experiments, opened."""
    names = [name for one in configs for name in one.models]
    return open_forecasters([*names, *more], Opening(Workspace(Home(Path(".")))))


def waits_for(plan: Plan) -> dict[str, set[str]]:
    """Every step that must have ended before each one begins."""
    deps = {step.id: set(step.deps) for step in plan.steps}
    known: dict[str, set[str]] = {}
    for step in plan.ordered():
        known[step.id] = deps[step.id].union(*(known[dep] for dep in deps[step.id]))
    return known
