"""docs/api.md is true: its examples run, and it names every resource."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import Api, api
from serving import environment, must

from program import run_program

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
TEXT = PAGE.read_text()
CURLS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in re.sub(r" \\\n\s*", " ", block).strip().splitlines()
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    home = tmp_path_factory.mktemp("demo")
    small = "import beforehand.cli.demo as demo; demo.DEMO_DATES = 20; from beforehand.cli.app import run"
    order = [sys.executable, "-c", f"{small}; raise SystemExit(run(['demo']))"]
    must(run_program(order, cwd=home, env=environment(home), capture_output=True, text=True))
    with api(home) as served:
        yield served


def test_every_example_runs(demo: Api) -> None:
    """In order, in one folder; what is shown as an error is one, everything else is not."""
    host = demo.url.removeprefix("http://")
    assert len(CURLS) >= 20
    for line in CURLS:
        done = subprocess.run(
            ["sh", "-c", line.replace("localhost:8765", host)],
            cwd=demo.home, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stderr)
        if line.startswith("curl"):
            failed = '"type":"about:blank"' in done.stdout
            assert failed == ("sort=brier" in line), (line, done.stdout)
            assert done.stdout or "-o " in line, line
    assert "drift" in (demo.home / "forecasts.csv").read_text()
    assert demo.ended("by-curl")["status"] == "success"


def test_the_python_example_runs(demo: Api) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code.replace("http://127.0.0.1:8765", demo.url)],
        cwd=demo.home, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "market" in done.stdout


def test_every_resource_is_named(demo: Api) -> None:
    named = TEXT[TEXT.index("## Resources") :]
    for path in demo.json("/api/openapi.json")["paths"]:
        last = path.removeprefix("/api/runs/{run_id}").removeprefix("/api/archives/{archive}")
        last = last.removeprefix("/api/bus/{agent}")
        assert f"`{path}`" in named or f"`…{last}`" in named or f"{last.rpartition('/{name}')[0]}`" in named, path  # fmt: skip
