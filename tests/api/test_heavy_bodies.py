"""Bodies that are small to send and dear to read: refused before they are looked into."""

import contextlib
import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from apiserver import Api
from serving import Served, served, token
from test_refused import refused

CSV = {"Content-Type": "text/csv"}
JSON = {"Content-Type": "application/json"}


def resident(server: Api | Served) -> int:
    """The memory of the server's process, in MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def test_an_upload_of_a_few_bytes_takes_no_gigabytes(serving: Api) -> None:
    row = b"m0009,2025-01-15,0.3\n"
    before = resident(serving)
    for rows, why in ((200_000, "more than 100,000 lines"), (8_000_000, "unpacks to more than")):
        packed = gzip.compress(b"id,time,probability\n" + row * rows)
        sent = serving.post("/api/scores?archive=sim&draws=100&placebo=0", packed, **CSV)
        refused(sent, 422, why)
    wide = ",".join(map(str, range(300_000))).encode() + b"\n"
    refused(serving.post("/api/scores?archive=sim", wide, **CSV), 422, "columns")
    assert resident(serving) - before < 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/tools/get_market", '{"id":[' + "[]," * 1_000_000 + "[]]}"),
        ("/api/tools/get_market", '{"id":[' + ",".join(["[" * 200 + "1" + "]" * 200] * 900) + "]}"),
        ("/api/backtests?dry_run=true", '{"configs":[' + "{}," * 130_000 + "{}]}"),
        ("/api/backtests?dry_run=true", '{"models":[' + "1," * 500_000 + "1]}"),
        ("/mcp", '{"id":[' + "[]," * 1_000_000 + "[]]}"),
    ],
)
def test_json_of_a_million_parts_is_refused_at_once(serving: Api, path: str, body: str) -> None:
    """And while they come, others are answered."""
    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(serving.post, path, body.encode(), **JSON) for _ in range(8)]
        asked = [serving.get("/api/health").status_code for _ in range(20)]
        found = [one.result() for one in sent]
    assert asked == [200] * 20
    for answer in found:
        assert answer.status_code == 413
        assert "open brackets" in json.dumps(answer.json())


def test_code_of_many_brackets_is_no_such_body(serving: Api) -> None:
    code = "x = [" + "(1), " * 5_000 + "]\nlen(x)"
    asked = {"name": "run_code", "arguments": {"code": code}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    accept = {"Accept": "application/json, text/event-stream"}
    answer = serving.post("/mcp", message, **accept).json()
    assert answer["result"]["structuredContent"]["result"] == 5_000


def test_two_lengths_end_a_connection(serving: Api) -> None:
    host, port = serving.url.removeprefix("http://").split(":")
    second = f"GET /api/health HTTP/1.1\r\nHost: {host}\r\n\r\n"
    head = f"POST /api/backtests HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 4\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as made:
        made.sendall((head + second).encode())
        got = b""
        while part := made.recv(65536):
            got += part
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"400" in got


def test_a_bad_chunk_leaves_no_traceback(tmp_path: Path) -> None:
    with served(tmp_path, "--auth", "token") as server:
        token(tmp_path)
        host, port = server.base.removeprefix("http://").split(":")
        for path in ("/mcp", "/", "/nope", "/mcp/discovery") * 3:
            for last in ("zz\r\n", "5\r\nabc", "-1\r\n\r\n"):
                head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
                with socket.create_connection((host, int(port)), timeout=10) as made:
                    made.sendall((head + last).encode())
                    made.settimeout(0.3)
                    with contextlib.suppress(TimeoutError):
                        made.recv(65536)
        time.sleep(0.5)
        said = "".join(server.said)
    assert "Traceback" not in said
    assert "Exception in ASGI" not in said
