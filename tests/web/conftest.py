"""Real Chromium over the built pages and a real server."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import Api, api
from browsing import FLAGS, Screen, screen
from serving import command, must

from beforehand.serve.api.pages import BUILT
from homes import first_made, made
from prepared import copy, prepared
from proofs import FULL

__all__ = ["first_made", "made"]
CI = bool(os.environ.get("CI"))


def _missing(what: str) -> None:
    """CI has everything; elsewhere a sentence says how to get it."""
    if CI:
        pytest.fail(f"CI needs {what}")
    pytest.skip(f"it needs {what}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, where the pages are built and Playwright is installed. Its event loop goes on
    between tests, and must be gone when the tests of another file begin."""
    if importlib.util.find_spec("playwright") is None:
        _missing("Playwright: make chaos-ui")
    if not (BUILT / "index.html").is_file():
        _missing("the web UI: make ui")
    shells = ("chromium-headless-shell", "chromium", "google-chrome")  # The first costs half.
    found = next(filter(None, map(shutil.which, shells[1:] + shells[:1] if FULL else shells)), None)
    if found is None:
        _missing("a browser: apt-get install chromium-headless-shell")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(found), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def first_with_worlds(first_made: Path, request: pytest.FixtureRequest) -> Path:
    """The home with runs of each kind, and a backtest over recorded markets where there are any;
    read only."""
    if not os.environ.get("BEFOREHAND_DATA"):
        return first_made
    real = request.getfixturevalue("real")

    def make(home: Path) -> None:
        copy(first_made, home)
        (home / "data" / "real").symlink_to(real)
        few = ("--draws", "200", "--placebo", "0", "--every", "28d", "--run-id", "over-real")
        must(command(home, "backtest", "run", "--archive", "data/real", *few))

    return prepared("home-over-real", make)


@pytest.fixture(scope="module")
def with_worlds(first_with_worlds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it, to be changed."""
    return copy(first_with_worlds, tmp_path_factory.mktemp("copy") / "home")


@pytest.fixture(scope="module")
def serving(with_worlds: Path) -> Iterator[Api]:
    """The server over it."""
    with api(with_worlds, "--archive", "data/sim", "--rate", "5000") as found:
        yield found


@pytest.fixture(scope="module")
def browse(chromium: Any, serving: Api) -> Iterator[Callable[..., Screen]]:
    """Opens a screen: `browse("/leaderboard/", theme="dark", width=390)`."""
    with screen(chromium, serving.url) as opened:
        yield opened
