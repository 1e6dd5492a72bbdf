"""Over stdio, every line has an answer: also one that is no message."""

import json
import queue
import subprocess
import threading
from pathlib import Path

import pytest
from serving import COMMAND, environment

from program import Program

HALF = json.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "search_markets", "arguments": {"query": "cut \ud83d"}},
})  # fmt: skip
BEGIN = json.dumps({
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
})  # fmt: skip


@pytest.mark.parametrize(
    ("line", "asked", "code"),
    [
        (HALF, 1, -32700),
        ("this line is no JSON", None, -32700),
        ("[" * 5000, None, -32700),
        ('{"jsonrpc": "2.0", "id": 7}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": true}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 9, "method": "ping"}', 9, None),
    ],
)
def test_every_line_has_an_answer(
    sim: Path, home: Path, line: str, asked: int | None, code: int | None
) -> None:
    command = [*COMMAND, "mcp", "all", "--archive", str(sim), "--as-of", "2025-03-01"]
    found = queue.Queue[bytes]()
    with Program(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment(home),
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None

        def read() -> None:
            for said in iter(server.stdout.readline, b""):
                found.put(said)

        threading.Thread(target=read, daemon=True).start()
        for text in (BEGIN, line):
            server.stdin.write(text.encode() + b"\n")
            server.stdin.flush()
        answers = [json.loads(found.get(timeout=30)) for _ in range(2)]
        server.stdin.close()
        assert server.wait(30) == 0
    (answer,) = (one for one in answers if one["id"] != 0)
    assert answer["id"] == asked
    assert answer.get("error", {}).get("code") == code
