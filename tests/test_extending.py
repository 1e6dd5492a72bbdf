"""docs/extending.md: its examples are run as they stand, and what they make keeps the promises."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.forecast import base
from beforehand.forecast.base import Context, Decision, Forecaster, Meter, Opening, scheme
from experiments import QUICK, Out, config, intervals, told
from program import run_program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
AFTER = """
from beforehand.engine.job import kind_named
from beforehand.forecast.base import class_of
from beforehand.score.metrics import ADDED
from beforehand.tools.registry import REGISTRY

assert class_of("momentum:0.5") is Momentum
assert kind_named("count").request is CountRequest
assert "spherical" in ADDED
assert "get_weather_readings" in REGISTRY
assert len(parse({"id": "A", "readings": [{"time": "2026-01-01T00:00:00Z", "temperature": 1}]}, None or __import__("datetime").datetime.now(__import__("datetime").UTC))) == 2
print("all", len(THE_SOURCE.probes))
"""


def examples() -> list[str]:
    """The Python blocks of the page."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_examples_run() -> None:
    found = examples()
    assert len(found) == 6
    head = "import numpy as np\nfrom beforehand.score.metrics import Floats, metric\n"
    done = run_program(
        [sys.executable, "-c", head + "\n".join(found) + AFTER], capture_output=True, text=True
    )
    assert done.stdout == "all 1\n", done.stderr


class Rough(Provider):
    """While it is `failing`, answers each question from the fourth attempt on."""

    failing, failed = False, 0

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        found = super().answer(key, path, body, index)
        if self.failing and self._tried[key] <= 3:
            self.failed += 1
            return 503, b"{}"
        return found


@pytest.fixture
def remembers() -> Iterator[None]:
    """A forecaster as a user would write it: plain, with a memory, and no call."""

    @scheme("counts")
    class Counts(Forecaster):
        def __init__(self, rest: str, name: str | None) -> None:
            super().__init__(rest, name)
            self.seen = 0

        @classmethod
        def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
            return cls(rest, name)

        def decide(self, context: Context, meter: Meter) -> Decision:
            self.seen += 1
            return Decision(1 / (1 + self.seen), confidence=0.25, rationale=f"the {self.seen}th")

    yield
    del base._SCHEMES["counts"]


def test_a_memory_survives_a_stop(sim: Path, home: Path, capsys: Out, remembers: None) -> None:
    command = ["backtest", "run", "--archive", str(sim), "--every", "28d", *QUICK]
    with serving(Provider()) as provider:  # What is paid stops the run.
        command += ["--forecasters", f"market,counts:x,{provider.address()}"]
        told(capsys, *command, "--run-id", "whole")
        assert cli([*command, "--run-id", "parts", "--fresh", "--max-calls", "40"]) == 3
        assert told(capsys, "runs", "show", "parts")["calls"] == 40, "its own answers are free"
        assert cli(["runs", "resume", "parts", "--max-calls", "80"]) == 3
        told(capsys, "runs", "resume", "parts", "--max-calls", "99999")
    for name in ("whole", "parts"):
        verified = told(capsys, "runs", "verify", name)
        assert verified["sound"], verified
    rows = [
        (Home(home).runs / name / "intervals.jsonl").read_text().replace(f'"{name}"', '"r"')
        for name in ("whole", "parts")
    ]
    assert rows[0] == rows[1]
    assert '"confidence":0.25' in rows[0]


def test_without_catching_up_it_would_forget(
    sim: Path, home: Path, capsys: Out, remembers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.jobs.backtest.walk.Walker._catch_up", lambda *_: None)
    command = ["backtest", "run", "--archive", str(sim), "--every", "28d", *QUICK]
    with serving(Provider()) as provider:
        command += ["--forecasters", f"market,counts:x,{provider.address()}"]
        told(capsys, *command, "--run-id", "whole")
        assert cli([*command, "--run-id", "parts", "--max-calls", "40"]) == 3
        told(capsys, "runs", "resume", "parts", "--max-calls", "99999")
    rows = [
        (Home(home).runs / name / "intervals.jsonl").read_text().replace(f'"{name}"', '"r"')
        for name in ("whole", "parts")
    ]
    assert rows[0] != rows[1]


def test_a_free_decision_moves_no_budget(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out, remembers: None
) -> None:
    """Beside a forecaster of its own that cost nothing, a paid one still costs what it may."""
    with serving(Provider()) as provider:
        path = config(home / "c.json", market, models=["counts:x", provider.address()], num_sims=2)
        command = ["backtest", "run", str(path), "--archive", str(sim), "--run-id", "r", *QUICK]
        assert cli([*command, "--max-cost", "0.03", "--cost-per-call", "0.01"]) == 3
        assert len(provider.log) == 3


def test_a_step_that_is_tried_again_shows_nothing_twice(
    market: dict[str, Any], sim: Path, home: Path, capsys: Out, remembers: None
) -> None:
    with serving(Rough()) as provider:
        models = ["counts:x", provider.address()]
        path = config(home / "c.json", market, models=models)
        command = ["backtest", "run", str(path), "--archive", str(sim), *QUICK]
        told(capsys, *command, "--run-id", "calm", "--fresh")
        provider.failing = True
        told(capsys, *command, "--run-id", "rough", "--fresh")
        assert provider.failed > 6
    said = [
        [d["probability"] for row in intervals(home, name) for d in row["decisions"]]
        for name in ("calm", "rough")
    ]
    assert said[0] == said[1]
