"""Real servers in processes of their own, and real clients of them."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from program import COMMAND, Program, run_program

START_S = 60.0
HTTP = httpx2.Client(timeout=120, limits=httpx2.Limits(max_keepalive_connections=0))
"""One client for all requests, a connection for each: making a client takes longer than most of
the answers."""
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@dataclass
class Served:
    """A running HTTP server."""

    process: subprocess.Popen[str]
    url: str
    home: Path
    said: list[str] = field(default_factory=list)

    def tells(self, text: str, wait: float = 5.0) -> bool:
        """Whether its log has, or soon has, a line with this text."""
        end = time.monotonic() + wait
        while not (found := any(text in line for line in self.said)) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    def stop(self, number: int = signal.SIGTERM, wait: float = 40.0) -> int:
        """End it by a signal; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(wait)


def environment(home: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "BEFOREHAND_DATABASE_URL"}
    return {**kept, "BEFOREHAND_HOME": str(home), **(more or {})}


@contextmanager
def served(
    home: Path,
    *arguments: str,
    server: str = "all",
    port: int = 0,
    more: dict[str, str] | None = None,
) -> Iterator[Served]:
    """`beforehand mcp SERVER --transport http --port 0 …`, until the block ends."""
    process = Program(
        [*COMMAND, "mcp", server, "--transport", "http", "--port", str(port), *arguments],
        env=environment(home, more),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=home,
    )
    assert process.stderr is not None
    made = Served(process, "", home)
    ready = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            made.said.append(line)
            if (found := re.search(r"http://\S+/mcp$", line.strip())) and not made.url:
                made.url = found[0]
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert ready.wait(START_S), "the server did not start"
    assert made.url, "".join(made.said)
    try:
        yield made
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join(5)
        process.stderr.close()
        assert process.stdout is not None
        process.stdout.close()


def token(home: Path, *arguments: str) -> str:
    """A token, by the command line."""
    given = list(arguments) or ["--user", "ann", "--servers", "all"]
    done = command(home, "token", "issue", *given)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def must(done: subprocess.CompletedProcess[str], codes: tuple[int, ...] = (0,)) -> None:
    assert done.returncode in codes, done.stderr


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of the program."""
    return run_program(
        [*COMMAND, *arguments], env=environment(home), capture_output=True, text=True, cwd=home
    )


@asynccontextmanager
async def over_http(
    url: str, text: str | None = None, mode: str = "auto", timeout: float = 60
) -> AsyncIterator[Client]:
    """The official client over HTTP, with a token if there is one."""
    headers = {} if text is None else {"authorization": f"Bearer {text}"}
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode) as client:  # type: ignore[arg-type]
            yield client


def over_stdio(home: Path, *arguments: str, mode: str = "auto", more: Any = None) -> Client:
    """The official client over stdio."""
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "mcp", *arguments],
        env=environment(home, more),
        cwd=home,
    )
    return Client(stdio_client(parameters), mode=mode)  # type: ignore[arg-type]


def post(url: str, body: Any, text: str | None = None, **headers: str) -> httpx2.Response:
    """One raw message over HTTP, in the protocol of 2025-11-25."""
    given = {**HEADERS, **headers}
    if text is not None:
        given["authorization"] = f"Bearer {text}"
    raw = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return HTTP.post(url, content=raw, headers=given)


def call(name: str, arguments: dict[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    """A tools/call message."""
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments or {}},
    }


def said(response: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC message of an answer, streamed or not."""
    text = response.text
    if "text/event-stream" in response.headers.get("content-type", ""):
        lines = [line[5:] for line in text.splitlines() if line.startswith("data:")]
        text = lines[-1]
    return dict(json.loads(text))
