"""docs/extending.md: its examples are run as they stand, and what they make keeps the promises."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.forecast import base
from beforehand.forecast.base import Context, Decision, Forecaster, Meter, Opening, scheme
from experiments import QUICK, Out, told

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
    done = subprocess.run(
        [sys.executable, "-c", head + "\n".join(found) + AFTER], capture_output=True, text=True
    )
    assert done.stdout == "all 1\n", done.stderr


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
    command += ["--forecasters", "market,counts:x"]
    told(capsys, *command, "--run-id", "whole")
    assert cli([*command, "--run-id", "parts", "--fresh", "--max-calls", "40"]) == 3
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
    command += ["--forecasters", "market,counts:x"]
    told(capsys, *command, "--run-id", "whole")
    assert cli([*command, "--run-id", "parts", "--max-calls", "40"]) == 3
    told(capsys, "runs", "resume", "parts", "--max-calls", "99999")
    rows = [
        (Home(home).runs / name / "intervals.jsonl").read_text().replace(f'"{name}"', '"r"')
        for name in ("whole", "parts")
    ]
    assert rows[0] != rows[1]
