"""The pages about Python are true: the reference is what the docstrings give, and examples run."""

import re
import sys
from pathlib import Path

import pytest

import beforehand as bh
from beforehand.front.pages import GROUPS, page
from program import run_program

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIRST = """
import beforehand as bh
world = bh.simulate(seed=1, dates=12)
"""
LAST = """
run = bh.backtest(world, Learner, every="14d", draws=200, placebo=0, progress=False)
assert not run.failures.columns == [] and len(run.failures) == 0, list(run.failures)
assert len(run.forecasts) > 100
"""


def test_the_reference_is_renewed() -> None:
    assert (DOCS / "python.md").read_text() == page(), "make docs"
    named = {name for names in GROUPS.values() for name in names}
    assert named == set(bh.__all__) - {"__version__"}


@pytest.mark.parametrize("name", ["python.md", "coming-from.md"])
def test_the_examples_run(name: str, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    if name == "coming-from.md":
        code = FIRST + code + LAST
    done = run_program(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "BEFOREHAND_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_each_page_of_the_docs_is_reachable() -> None:
    """From README or from another page."""
    root = DOCS.parent
    pages = [root / "README.md", *DOCS.glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    for path in DOCS.glob("*.md"):
        assert re.search(rf"\]\((docs/)?{re.escape(path.name)}[)#]", text), path.name
