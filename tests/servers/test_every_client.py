"""Real clients list and call every tool, over stdio and over HTTP with a token."""

import json
from typing import Any

import anyio
import pytest
from serving import Served, over_http, over_stdio, post

from beforehand.tools.bounds import MAX_TOKENS, estimate_tokens
from beforehand.tools.discovery import load_tools
from live import Setup
from toolcalls import CALLS

REGISTRY = load_tools()
LIVE = ("--mode", "live")
UNSTORED = {"reddit_search_and_fetch_threads"}
"""Answers only once threads were fetched."""


async def _everything(opening: Any) -> dict[str, Any]:
    """What every tool of a server answers to a valid call."""
    answers = {}
    async with opening as client:
        listed = await client.list_tools()
        names = [tool.name for tool in listed.tools]
        for name in [*CALLS, "run_code"]:
            if name == "execute-python-code" or name == "run_code":
                given = {"code": "print(6 * 7)"}
            else:
                given = CALLS[name]
            if name in names:
                answers[name] = await client.call_tool(name, given)
        return {"names": names, "answers": answers}


def check(found: dict[str, Any]) -> None:
    """Every tool was listed and answered, within its bound; structured where that was declared."""
    assert set(found["names"]) == {*REGISTRY, "run_code"}
    assert set(found["answers"]) == set(found["names"])
    for name, answer in found["answers"].items():
        text = answer.content[0].text
        assert answer.is_error is (name in UNSTORED and "gave no post" in text), f"{name}: {text}"
        structured = answer.structured_content
        whole = len(text.encode()) + (0 if structured is None else len(json.dumps(structured)))
        assert estimate_tokens(b"." * whole) <= MAX_TOKENS * 1.05, name
        if name in REGISTRY and REGISTRY[name].rows is None:
            assert structured == json.loads(text), name


def test_what_connecting_costs(running: tuple[Served, str]) -> None:
    """All servers together through four tools: everything that connecting sends, in tokens."""
    server, text = running
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    for path, least, most in (("/mcp/discovery", 500, 1500), ("/mcp", 10_000, 20_000)):
        paid = 0
        for method, params in (("initialize", hello), ("tools/list", {})):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            paid += estimate_tokens(post(server.base + path, body, text).content)
        print(f"connecting to {path}: {paid:,} tokens")
        assert least < paid <= most


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_over_stdio(place: Setup, mode: str) -> None:
    client = over_stdio(place.home.root, "all", *LIVE, mode=mode, more=place.vendor.environment)
    check(anyio.run(_everything, client))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_over_http(running: tuple[Served, str], mode: str) -> None:
    server, text = running
    check(anyio.run(_everything, over_http(server.url, text, mode)))
