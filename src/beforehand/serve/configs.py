"""What to paste into each MCP client, for a server on this machine or at an address.

A desktop client starts servers without your shell, your folder and your PATH, so the command is a
full path, and the home folder is named.
"""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from beforehand.config import Home
from beforehand.errors import InputError

TOKEN = "BEFOREHAND_TOKEN"


@dataclass(frozen=True)
class Target:
    """A server as a client reaches it: a command with its environment, or an address."""

    name: str
    command: list[str]
    environment: dict[str, str]
    url: str | None = None
    token: bool = True

    @property
    def remote(self) -> dict[str, object]:
        """The headers of a server at an address. They hold a placeholder: a token is never written
        into a file unasked."""
        return {"headers": {"Authorization": f"Bearer <{TOKEN}>"}} if self.token else {}

    @property
    def started(self) -> dict[str, object]:
        """The usual three keys of a local server."""
        return {"command": self.command[0], "args": self.command[1:], "env": self.environment}


def _json(outer: str, url_key: str = "url", **more: str) -> Callable[[Target], str]:
    """A JSON file with servers under `outer`."""

    def made(target: Target) -> str:
        entry = target.started
        if target.url is not None:
            entry = {url_key: target.url, **target.remote}
        if more:
            entry = {"type": more["local" if target.url is None else "remote"], **entry}
        return json.dumps({outer: {target.name: entry}}, indent=2)

    return made


def _claude_code(target: Target) -> str:
    if target.url is not None:
        header = f' --header "Authorization: Bearer ${TOKEN}"' if target.token else ""
        return f"claude mcp add --transport http {target.name} {target.url}{header}"
    given = [f"{key}={value}" for key, value in target.environment.items()]
    env = [part for pair in given for part in ("--env", pair)]
    return shlex.join(["claude", "mcp", "add", target.name, *env, "--", *target.command])


def _codex(target: Target) -> str:
    if target.url is not None:
        lines = [f"url = {json.dumps(target.url)}"]
        lines += [f'bearer_token_env_var = "{TOKEN}"'] if target.token else []
    else:
        env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in target.environment.items())
        lines = [
            f"command = {json.dumps(target.command[0])}",
            f"args = {json.dumps(target.command[1:])}",
            f"env = {{ {env} }}",
        ]
    # Codex waits for a server only if it is required; else the first turn runs without it.
    return "\n".join([f"[mcp_servers.{target.name}]", *lines, "required = true"])


CLIENTS: dict[str, tuple[str, Callable[[Target], str]]] = {
    "claude-code": ("run in a shell", _claude_code),
    "claude-desktop": ("claude_desktop_config.json", _json("mcpServers")),
    "codex": ("~/.codex/config.toml", _codex),
    "cursor": ("~/.cursor/mcp.json", _json("mcpServers")),
    "gemini": ("~/.gemini/settings.json", _json("mcpServers", "httpUrl")),
    "vscode": (".vscode/mcp.json", _json("servers", local="stdio", remote="http")),
    "windsurf": ("~/.codeium/windsurf/mcp_config.json", _json("mcpServers", "serverUrl")),
    "zed": ("settings.json of Zed", _json("context_servers")),
}
"""For each client: where to paste, and a function that makes the text."""


def config(
    client: str, server: str, options: list[str], url: str | None = None, token: bool = True
) -> tuple[str, str]:
    """(where to paste it, the text) for a client. Raises InputError for one that is not known."""
    if client not in CLIENTS:
        raise InputError(f"no client {client!r}: there are {', '.join(CLIENTS)}")
    if client == "claude-desktop" and url is not None:
        raise InputError("claude-desktop takes no token in its file: leave out --transport http")
    place, made = CLIENTS[client]
    if url is not None and token:
        place += f" (with your token for {TOKEN})"
    program = Path(sys.executable).with_name("beforehand")
    command = [str(program)] if program.is_file() else [sys.executable, "-m", "beforehand"]
    environment = {"BEFOREHAND_HOME": str(Home.from_environment().root)}
    name = "beforehand" if server == "all" else f"beforehand-{server}"
    target = Target(name, [*command, "mcp", server, *options], environment, url, token)
    return place, made(target)
