"""What `--config` prints is what its client reads, and the command in it starts a server."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from serving import environment

from beforehand.cli.app import run
from beforehand.cli.mcp import Client as Names
from beforehand.errors import InputError
from beforehand.serve.configs import CLIENTS, config


def entry(client: str, text: str, name: str = "beforehand") -> dict[str, Any]:
    """{command, args, env} or {url, headers}, read as the client reads it."""
    if client == "codex":
        return dict(tomllib.loads(text)["mcp_servers"][name])
    if client == "claude-code":
        words = shlex.split(text)
        assert words[:3] == ["claude", "mcp", "add"]
        if "--transport" in words:
            return {"url": next(word for word in words if word.startswith("http://"))}
        env = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--env")
        command, *args = words[words.index("--") + 1 :]
        return {"command": command, "args": args, "env": env}
    (servers,) = json.loads(text).values()
    return dict(servers[name])


async def listed(found: dict[str, Any], folder: Path) -> list[str]:
    parameters = StdioServerParameters(
        command=found["command"],
        args=found["args"],
        env={**environment(folder), **found["env"]},
        cwd="/",
    )
    async with Client(stdio_client(parameters)) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_local_server(client: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "google-news-rss", "--config", client]) == 0
    text, place = capsys.readouterr()
    assert place.strip().endswith(":")
    found = entry(client, text, "beforehand-google-news-rss")
    assert found["env"] == {"BEFOREHAND_HOME": str(home)}
    assert Path(found["command"]).is_absolute()
    names = anyio.run(listed, found, home)
    assert names[0] == "list_editions"


@pytest.mark.parametrize("client", sorted(set(CLIENTS) - {"claude-desktop"}))
def test_an_address(client: str) -> None:
    _, text = config(client, "all", [], "http://127.0.0.1:8765/mcp")
    found = entry(client, text)
    assert "http://127.0.0.1:8765/mcp" in found.values()
    assert "bh_" not in text, "no token is printed"
    _, open_to_all = config(client, "all", [], "http://127.0.0.1:8765/mcp", token=False)
    assert "Bearer" not in open_to_all


def test_what_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "all", "--config", "emacs"]) == 2
    assert "emacs" in capsys.readouterr().err
    assert set(get_args(Names)) == set(CLIENTS)
    with pytest.raises(InputError, match="no client 'emacs': there are claude-code"):
        config("emacs", "all", [])
    with pytest.raises(InputError, match="takes no token"):
        config("claude-desktop", "all", [], "http://127.0.0.1:8765/mcp")


def test_options_come_along(sim: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--discovery", "--as-of", "2025-03-01", "--mode", "record", "--archive", str(sim)]
    assert run(["mcp", "all", *given, "--config", "cursor"]) == 0
    args = entry("cursor", capsys.readouterr().out)["args"]
    assert args[:-1] == ["mcp", "all", *given[:-1]]
    assert Path(args[-1]).is_absolute()
