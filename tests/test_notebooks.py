"""The notebooks of docs/ run from top to bottom, and hold no output; Ctrl-C in one leaves a run that
goes on."""

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from proofs import some

DOCS = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize(
    "path",
    some("notebooks", [p for p in NOTEBOOKS if p.stem == "first_verdict"], NOTEBOOKS),
    ids=lambda path: path.stem,
)
@pytest.mark.filterwarnings("ignore")
def test_it_runs(path: Path, home: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "no output in git"
    assert all(cell.get("execution_count") is None for cell in notebook.cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(home)}}).execute()
    shown = "".join(
        out.get("text", "") + "".join(out.get("data", {}).values())
        for cell in notebook.cells
        for out in cell.get("outputs", ())
    )
    assert "Error" not in shown.replace("ValueError", "").replace("Errors", ""), shown
    told = {
        "first_verdict": ["<table>", "is not shown to beat the market"],
        "your_own_forecaster": ["0 of 20 (cut, market) pairs", "a probe found that it looks ahead"],
        "reading_a_run": ["<table>", "ValueError: too close to call", "<svg", ": sound"],
    }
    assert all(text in shown for text in told[path.stem]), shown
    assert "NOT sound" not in shown


SLOW = """
import time
import beforehand as bh
world = bh.simulate(seed=1, dates=12)
@bh.forecaster
class Slow:
    def __init__(self):
        self.seen = 0
    def decide(self, context):
        self.seen += 1
        if not resumed:
            time.sleep(0.05)
        return min(context.odds + 0.001 * self.seen, 1.0)
resumed = False
run = bh.backtest(world, Slow, every="7d", run_id="r", draws=200, placebo=0)
"""


@pytest.mark.chaos
@pytest.mark.filterwarnings("ignore")
def test_interrupted_in_a_notebook(home: Path) -> None:
    """The cell ends with a sentence; the run goes on in the next, to the same result."""
    manager, client = start_new_kernel(cwd=str(home))

    def executed(code: str, interrupt_after: float | None = None) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = []
        asked = client.execute(code)
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            manager.interrupt_kernel()
        while True:
            message = client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return said
            said.append({"type": message["msg_type"], **message["content"]})

    try:
        ended = executed(SLOW, interrupt_after=6.0)
        error = next(part for part in ended if part["type"] == "error")
        assert error["ename"] == "Interrupted", error
        assert 'run this program again with run_id="r"' in error["evalue"]
        assert any('open_run("r").resume()' in line for line in error["traceback"]), error
        assert any("<progress" in str(part.get("data", "")) for part in ended), "a progress bar"
        again = executed(
            'resumed = True\nrun = bh.open_run("r").resume()\n'
            "whole = bh.backtest(world, Slow, every='7d', run_id='s', draws=200, placebo=0)\n"
            "print(list(run.forecasts) == list(whole.forecasts), run.verify().sound)"
        )
        text = "".join(part.get("text", "") for part in again if part.get("name") == "stdout")
        assert text == "True True\n", again
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
