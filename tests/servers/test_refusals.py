"""Bad input, clients that hang up, servers that are stopped: one clear sentence each, nothing
lost, and the server goes on."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from serving import (
    COMMAND,
    Served,
    call,
    environment,
    over_http,
    over_stdio,
    post,
    said,
    served,
    token,
)

SLEEP = "x = 0\nwhile True:\n    x += 1"
"""Code that runs to its limit of thirty seconds."""
WAITING = "import datetime\nt = datetime.datetime.now()\nx = 0\nfor i in range(20_000_000):\n    x += i\nprint('done')"
"""Code that runs for a second or two."""


@pytest.fixture(scope="module")
def replaying(tmp_path_factory: pytest.TempPathFactory, sim: Path) -> Iterator[tuple[Served, str]]:
    home = tmp_path_factory.mktemp("refusals")
    with served(home, "--archive", str(sim)) as made:
        yield made, token(home)


def result(replaying: tuple[Served, str], name: str, arguments: Any) -> dict[str, Any]:
    server, text = replaying
    answer: dict[str, Any] = said(post(server.url, call(name, arguments), text))["result"]
    return answer


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("get_market", {"idd": "x"}, "unknown argument 'idd': get_market takes id, as_of, max_tokens"),
        ("get_market", {}, "the argument 'id' is missing"),
        ("get_market", {"id": 5}, "id: input should be a valid string (given 5)"),
        ("get_market", {"id": None}, "id: input should be a valid string"),
        ("get_prices", {"ids": "abc"}, "ids: input should be a valid list"),
        ("list_markets", {"limit": 10**30}, "limit: "),
        ("list_markets", {"limit": "many"}, "limit: input should be a valid integer"),
        ("list_markets", {"limit": 1.5}, "limit: "),
        ("list_markets", {"cursor": "bogus"}, "is not from this question"),
        ("get_market", {"id": "m0001", "as_of": "2999-01-01"}, "lies in the future"),
        ("run_query", {"template": "drop"}, "there is no market-data table"),
        ("get_market", {"id": "no such market"}, "no market"),
        ("run_code", {"code": 5}, "code: input should be a valid string"),
        ("run_code", {"code": "1", "input_data": [1]}, "input_data: input should be"),
    ],
)  # fmt: skip
def test_one_clear_sentence(
    replaying: tuple[Served, str], name: str, arguments: Any, sentence: str
) -> None:
    answer = result(replaying, name, arguments)
    assert answer["isError"] is True
    assert "structuredContent" not in answer
    text = answer["content"][0]["text"]
    assert sentence in text
    assert "\n" not in text
    assert "Traceback" not in text
    assert answer["_meta"]["beforehand/error"]["kind"]


@pytest.mark.parametrize(
    ("path", "name", "sentence"),
    [
        ("/mcp", "get_markt", "Unknown tool: get_markt (perhaps get_market"),
        ("/kalshi/mcp", "get_market", "get_market (it belongs to the server polymarket)"),
        ("/edgar/mcp", "facts", "there is get_company_facts, list_company_filings"),
    ],
)
def test_unknown_tools(replaying: tuple[Served, str], path: str, name: str, sentence: str) -> None:
    server, text = replaying
    error = said(post(server.base + path, call(name), text))["error"]
    assert error["code"] == -32602
    assert sentence in error["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000,
     json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nothing"}).encode(),
     json.dumps({"jsonrpc": "2.0", "id": {}, "method": "ping"}).encode(),
     json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}).encode(),
     json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}).encode()],
)  # fmt: skip
def test_what_is_no_request(replaying: tuple[Served, str], body: bytes) -> None:
    server, text = replaying
    answer = post(server.url, body, text)
    assert (
        answer.status_code == 413
        if body.count(b"[") > 20_000
        else answer.status_code in (200, 202, 400)
    )
    if answer.status_code == 200:
        assert "error" in said(answer)
    assert "Traceback" not in answer.text
    assert post(server.url, call("list_editions"), text).status_code == 200


def test_oversized_requests(replaying: tuple[Served, str]) -> None:
    server, text = replaying
    big = call("run_code", {"code": "1", "input_data": {"a": "x" * (5 * 2**20)}})
    assert post(server.url, big, text).status_code == 413
    assert result(replaying, "list_editions", {})["isError"] is False


def test_two_clients_at_once_get_their_own_answers(replaying: tuple[Served, str]) -> None:
    server, text = replaying

    def ask(i: int) -> bool:
        market = f"m{i % 40 + 1:04d}"
        answer = said(post(server.url, call("get_market", {"id": market}, i), text))
        return bool(
            answer["id"] == i and answer["result"]["structuredContent"]["market_id"] == market
        )

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(160)))


@pytest.mark.parametrize("wire", ["2025-11-25", "streamed", "2026-07-28"])
def test_hanging_up_ends_the_call(tmp_path: Path, sim: Path, wire: str) -> None:
    """The code that ran for a client that has gone is stopped, long before its thirty seconds."""
    with served(tmp_path, "--archive", str(sim), "--auth", "none") as server:
        post(server.url, call("run_code", {"code": "1"}))  # The jail is started.
        body, headers = call("run_code", {"code": SLEEP}), {"mcp-protocol-version": "2025-11-25"}
        if wire == "streamed":
            body["params"]["_meta"] = {"progressToken": "p"}
        if wire == "2026-07-28":
            body["params"]["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": wire,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            headers = {
                "mcp-protocol-version": wire,
                "mcp-method": "tools/call",
                "mcp-name": "run_code",
            }
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(
                server.url,
                json=body,
                headers={"accept": "application/json, text/event-stream", **headers},
                timeout=1.5,
            )
        assert server.tells("cancelled", 10)
        assert any("run_code" in line and "cancelled" in line for line in server.said)
        time.sleep(1.5)
        assert not busy(server), "the code still runs"
        assert said(post(server.url, call("list_editions")))["result"]["isError"] is False


def busy(server: Served) -> bool:
    """Whether anything below the server burns time: user ticks over a third of a second."""

    def ticks() -> int:
        total = 0
        for pid in below(server.process.pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            total += int(fields[11]) + int(fields[12])
        return total

    before = ticks()
    time.sleep(0.34)
    return ticks() - before > 10


def below(pid: int) -> set[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = set(), [pid]
    while waiting:
        found.add(waiting[-1])
        waiting += parents.get(waiting.pop(), [])
    return found


def test_the_control_a_call_at_work_is_busy(tmp_path: Path, sim: Path) -> None:
    with served(tmp_path, "--archive", str(sim), "--auth", "none") as server:
        thread = threading.Thread(
            target=lambda: post(server.url, call("run_code", {"code": WAITING}))
        )
        thread.start()
        end = time.monotonic() + 10
        while not (seen := busy(server)) and time.monotonic() < end:
            pass
        thread.join()
        assert seen


def test_a_cancelled_call_over_stdio(tmp_path: Path, sim: Path) -> None:
    """The client gives up waiting; the next call is answered at once."""

    async def ask() -> float:
        async with over_stdio(tmp_path, "all", "--archive", str(sim)) as client:
            await client.call_tool("run_code", {"code": "1"})
            with anyio.move_on_after(1.0):
                await client.call_tool("run_code", {"code": SLEEP})
            started = time.monotonic()
            answer = await client.call_tool("run_code", {"code": "print(2)"})
            assert answer.structured_content["output"] == "2\n"
            return time.monotonic() - started

    assert anyio.run(ask) < 10


def test_progress_is_told(replaying: tuple[Served, str]) -> None:
    server, text = replaying
    code = "for i in range(3):\n    await list_editions()"

    async def ask(mode: str) -> list[tuple[float, str | None]]:
        heard: list[tuple[float, str | None]] = []

        async def hear(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, message))

        async with over_http(server.url, text, mode) as client:
            await client.call_tool("run_code", {"code": code}, progress_callback=hear)
            with anyio.move_on_after(10):  # The client may hear of the answer first.
                while len(heard) < 3:
                    await anyio.sleep(0.01)
        return sorted(heard)

    for mode in ("auto", "legacy"):
        assert anyio.run(ask, mode) == [(i, "list_editions") for i in (1, 2, 3)]


@contextmanager
def at_work(home: Path, sim: Path, code: str) -> Iterator[tuple[Served, "Future[httpx2.Response]"]]:
    """A server in the middle of running the code, and what will be answered."""
    with served(home, "--archive", str(sim), "--auth", "none") as server:
        post(server.url, call("run_code", {"code": "1"}))
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(post, server.url, call("run_code", {"code": code}))
            time.sleep(0.7)
            yield server, waiting


def test_stopped_in_the_middle_the_call_is_answered(tmp_path: Path, sim: Path) -> None:
    """SIGTERM lets calls in flight end, then the server is gone with exit code 0."""
    with at_work(tmp_path, sim, WAITING) as (server, waiting):
        code = server.stop(signal.SIGTERM)
        assert said(waiting.result())["result"]["structuredContent"]["output"] == "done\n"
    assert code == 0
    assert not any("Traceback" in line for line in server.said)


def test_killed_in_the_middle_nothing_stays_behind(tmp_path: Path, sim: Path) -> None:
    with at_work(tmp_path, sim, SLEEP) as (server, waiting):
        mine = below(server.process.pid) - {server.process.pid}
        server.stop(signal.SIGKILL)
        with pytest.raises(httpx2.HTTPError):
            waiting.result()
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in mine) and time.monotonic() < end:
        time.sleep(0.1)
    assert mine
    assert not [pid for pid in mine if Path(f"/proc/{pid}").exists()]


def test_a_stdio_client_that_leaves_ends_the_server(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "mcp", "google-news-rss"],
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    out, err = process.communicate(b"this is no message\n", timeout=60)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())


def test_a_half_sent_request_hurts_nobody(replaying: tuple[Served, str]) -> None:
    server, text = replaying
    host, port = server.base.removeprefix("http://").split(":")
    for raw in (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{",
        b"\x00" * 9,
    ):
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(raw)
    assert result(replaying, "list_editions", {})["isError"] is False


def test_names_of_other_hosts_are_refused(tmp_path: Path) -> None:
    """A page in a browser that points its own name here reaches nothing."""
    with served(tmp_path, "--auth", "none", server="google-news-rss") as server:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert post(server.url, body).status_code == 200
        assert post(server.url, body, host="evil.example").status_code == 421
        assert post(server.url, body, origin="http://evil.example").status_code == 403
