"""Configurations of one market, and the command line as the tests of experiments call it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.config import Home
from beforehand.work.results import read_jsonl

Out = pytest.CaptureFixture[str]


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
