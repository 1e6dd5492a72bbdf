"""The scorer in a real task, and its log, read by beforehand where that is at hand.

Needs inspect-ai: `pip install -e contrib/inspect-beforehand pytest`.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import solver
from inspect_beforehand import last_probability, probability

SAID = ["I say 65%.", "0.2", "no idea", "Of 3 drivers, 2 hint at 0.7"]


@pytest.mark.parametrize(
    ("text", "p"),
    [
        ("65%", 0.65),
        ("about 0.2.", 0.2),
        ("in 2026: 5 percent", 0.05),
        ("hm", None),
        ("7 of 9", None),
    ],
)
def test_the_last_probability(text: str, p: float | None) -> None:
    assert last_probability(text) == p


@solver
def fixed():
    async def solve(state, generate):
        said = SAID[int(state.sample_id[1:])]
        state.output, state.completed = ModelOutput.from_content("mockllm/model", said), True
        return state

    return solve


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_task(form: str, tmp_path: Path) -> None:
    dataset = [
        Sample(
            id=f"q{n}",
            input="Will it?",
            target="YES",
            metadata={"market_id": f"SIMEX:m{n:04d}", "as_of": "2025-02-03T00:00:00Z"},
        )
        for n in range(len(SAID))
    ]
    task = Task(dataset=dataset, solver=[fixed()], scorer=probability())
    model = get_model("mockllm/model")
    (log,) = eval(task, model=model, log_format=form, log_dir=str(tmp_path), display="none")
    assert log.status == "success"
    values = [one.scores["probability"].value for one in log.samples]
    assert values == pytest.approx([0.35**2, 0.8**2, 0.25, 0.3**2])
    command = os.environ.get("BEFOREHAND") or shutil.which("beforehand")
    if command is None:
        pytest.skip(
            "BEFOREHAND names no command of beforehand: its reading of the log was not tried"
        )
    home = {**os.environ, "BEFOREHAND_HOME": str(tmp_path)}
    subprocess.run(
        [command, "world", "simulate", "--dates", "6"], env=home, check=True, capture_output=True
    )
    done = subprocess.run(
        [command, "score", log.location, "--check", "--json"],
        env=home,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)["forecasters"]["mockllm/model"]
    assert found["asked"] >= 3
