"""Thousands of silent connections from many addresses: a user is answered all the same, the log
stays short, and nothing is held for long. On both commands, with few file descriptors, and with the
event loop of the standard library, which retries each accept that fails."""

import asyncio
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
from serving import HEADERS, call, environment, token

from beforehand.serve import http
from beforehand.serve.connections import Limits
from beforehand.serve.guards import InFlight
from program import Program

FILES, CONNECTIONS, PEERS = 400, 3000, 20
PLAIN = "import sys; sys.modules['uvloop'] = None; from beforehand.__main__ import main; main()"
ROUTE = {"mcp": "/mcp", "serve": "/api/runs"}


@contextmanager
def starved(home: Path, command: str, log: Path) -> Iterator[str]:
    """A server with few file descriptors; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = ["mcp", "google-news-rss", "--transport", "http"] if command == "mcp" else ["serve"]
    arguments = [sys.executable, "-c", PLAIN, *given, "--auth", "token", "--head-timeout", "4"]
    arguments += ["--port", str(port)]
    with log.open("wb") as out:
        process = Program(
            arguments, env=environment(home), stderr=out, stdout=subprocess.DEVNULL, cwd=home,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(40)


def ask(base: str, command: str, text: str) -> int:
    """A request of a user; raises where it is not answered."""
    headers = {**HEADERS, "authorization": f"Bearer {text}"}
    if command == "mcp":
        body = call("explain_operators")
        return httpx2.post(base + "/mcp", headers=headers, json=body, timeout=30).status_code
    return httpx2.get(base + ROUTE[command], headers=headers, timeout=30).status_code


async def hold(base: str, n: int, opened: list[socket.socket]) -> None:
    """Open `n` connections from many addresses of this machine, and say nothing."""
    loop, port = asyncio.get_running_loop(), int(base.rpartition(":")[2])

    async def one(i: int) -> None:
        made = socket.socket()
        made.setblocking(False)
        opened.append(made)
        made.bind((f"127.0.0.{2 + i % PEERS}", 0))
        await asyncio.wait_for(loop.sock_connect(made, ("127.0.0.1", port)), 20)

    for first in range(0, n, 250):
        await asyncio.gather(*(one(i) for i in range(first, first + 250)), return_exceptions=True)


@pytest.mark.parametrize("command", ["mcp", "serve"])
def test_a_flood_of_connections(tmp_path: Path, command: str) -> None:
    text, log = token(tmp_path), tmp_path / "log"
    mine = resource.getrlimit(resource.RLIMIT_NOFILE)
    if mine[1] < CONNECTIONS + 500:
        pytest.skip(f"this machine allows {mine[1]:,} open files, and {CONNECTIONS:,} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(mine[0], CONNECTIONS + 500), mine[1]))
    with starved(tmp_path, command, log) as base, ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, mine)
        for _ in range(300):
            try:
                if ask(base, command, text) == 200:
                    break
            except httpx2.TransportError:
                time.sleep(0.1)
        held = list[socket.socket]()
        for _ in range(2):
            asyncio.run(hold(base, CONNECTIONS // 2, held))
            assert ask(base, command, text) == 200
        for one in held:
            stack.callback(one.close)
        end = time.monotonic() + 30
        while (left := sum(map(alive, held))) and time.monotonic() < end:
            time.sleep(0.5)
        assert left == 0, f"{left:,} of {len(held):,} are still open"
        assert ask(base, command, text) == 200
    said = log.read_text()
    assert len(said) < 20_000
    assert "Traceback" not in said


def alive(one: socket.socket) -> bool:
    """Whether the other end of a connection is still open."""
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_accepts_that_fail_are_said_once() -> None:
    said, told = list[str](), list[dict[str, object]]()

    async def fail() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(http._Unaccepted(said.append))
        for _ in range(1000):
            loop.call_exception_handler({"message": "accept", "exception": OSError(24, "Too many")})
        loop.default_exception_handler = told.append  # type: ignore[method-assign]
        loop.call_exception_handler({"message": "another", "exception": OSError(5, "no disk")})

    asyncio.run(fail())
    assert len(said) == 1
    assert "raise `ulimit -n`" in said[0]
    assert len(told) == 1, "what is no accept is told as ever"


def test_one_user_cannot_take_all_calls_in_flight() -> None:
    """Beyond its cap a user is refused; another is answered; what ended makes room."""
    answered, waiting = list[tuple[str, int]](), asyncio.Event()

    async def slow(scope: object, receive: object, send: object) -> None:
        await waiting.wait()
        await http.JSONResponse({})(scope, receive, send)  # type: ignore[arg-type]

    app = InFlight(slow, Limits(at_once_each=3))

    async def request(address: str) -> None:
        async def send(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                answered.append((address, int(str(message["status"]))))

        scope = {"type": "http", "path": "/mcp", "method": "POST", "client": (address, 1)}
        await app(scope, None, send)  # type: ignore[arg-type]

    async def play() -> None:
        many = [asyncio.create_task(request("1.1.1.1")) for _ in range(10)]
        other = asyncio.create_task(request("2.2.2.2"))
        await asyncio.sleep(0.01)
        assert answered == [("1.1.1.1", 429)] * 7
        waiting.set()
        await asyncio.gather(*many, other)
        await request("1.1.1.1")

    asyncio.run(play())
    assert answered[7:].count(("1.1.1.1", 200)) == 4
    assert ("2.2.2.2", 200) in answered
    assert not InFlight.now


def test_a_line_of_the_log_survives_any_path(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with starved(tmp_path, "mcp", log) as base:
        for path in ("/mcp%0a2026-01-01T00:00:00Z%20ann%20ok", "/mcp%1b%5b2J", "/%e2%80%ae/mcp"):
            for _ in range(100):
                try:
                    httpx2.post(base + path, headers=HEADERS, json=call("list_editions"))
                    break
                except httpx2.TransportError:
                    time.sleep(0.1)
        httpx2.post(base + "/mcp", headers={**HEADERS, "authorization": "Bearer \x1b[2J"}, json={})
    said = log.read_text()
    assert "ann ok" not in "".join(line[:45] for line in said.splitlines())
    assert all(c.isprintable() or c == "\n" for c in said)
    assert os.path.getsize(log) < 5000
