"""An MCP call over HTTP, ours against bare servers: `python bench/servers.py`.

Each server runs in a process of its own on loopback and is asked in turn by one client that keeps
its connection; medians of wall time, ratios within one run. Ours asks for a token, counts the call
against a quota, validates it, bounds the answer and writes a log line.

    trivial     a tool that returns a word: goal at most 1.2 times a bare server of the same SDK
    counted     the same, counted against a quota that is on disk before the answer goes out
    rows        10,000 ready rows: goal at most 1.5 times a handler that makes one string of them;
                a string that was made before the server started is shown as well
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import orjson
from typing_extensions import TypedDict

ROWS, CALLS, BIG_CALLS, USERS = 10_000, 400, 25, 30
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NAMES = ("bare", "ours", "fastmcp")
AT = {
    "bare": {"counted": "word"},
    "fastmcp": {"counted": "word", "stored": "table"},
    "ours": {"stored": "table"},
}
"""What stands in for a tool that only one server has."""


class Word(TypedDict):
    said: str


class Rows(TypedDict):
    rows: list[dict[str, Any]]


def rows() -> list[dict[str, Any]]:
    """Rows like those of the market-data table, ready made."""
    return [
        {
            "id": i,
            "symbol": f"XX.{i % 97}.C",
            "bid": i / 7,
            "ask": i / 7 + 0.01,
            "price": None,
            "timestamp": "2026-01-01T10:00:00.000000Z",
            "is_valid": True,
        }
        for i in range(ROWS)
    ]


def bare(port: int) -> None:
    """The official SDK with two handlers and nothing else."""
    import mcp_types as types
    import uvicorn
    from mcp.server.lowlevel import Server

    made = {"rows": rows()}
    text = orjson.dumps(made).decode()

    async def listed(_ctx: Any, _params: Any) -> Any:
        schema = {"type": "object"}
        tools = [
            types.Tool(name=name, input_schema=schema) for name in ("word", "counted", "table")
        ]
        return types.ListToolsResult(tools=tools)

    async def called(_ctx: Any, params: Any) -> Any:
        said = '{"said":"yes"}'
        if params.name == "table":
            said = orjson.dumps(made).decode()
        elif params.name == "stored":
            said = text
        return types.CallToolResult(content=[types.TextContent(text=said)])

    server = Server("bare", on_list_tools=listed, on_call_tool=called)
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


def fastmcp(port: int) -> None:
    """FastMCP as its documentation writes a server."""
    from fastmcp import FastMCP

    server: Any = FastMCP("peer")
    made = rows()

    @server.tool
    def word() -> dict[str, str]:
        return {"said": "yes"}

    @server.tool
    def table() -> list[dict[str, Any]]:
        return made

    server.run(
        transport="http",
        port=port,
        stateless_http=True,
        json_response=True,
        log_level="error",
        show_banner=False,
    )


def ours(port: int) -> None:
    """Our server with two more tools, a token and a quota for each call."""
    from beforehand.clock import iso
    from beforehand.config import Workspace
    from beforehand.gateway.opening import connect
    from beforehand.serve.auth import Verifier, open_quotas
    from beforehand.serve.backend import Backend
    from beforehand.serve.http import application, listen, run
    from beforehand.store.tokens import Tokens
    from beforehand.tools import discovery
    from beforehand.tools.bounds import Rows as Where
    from beforehand.tools.caller import ToolLimit
    from beforehand.tools.registry import Call, Example, tool
    from beforehand.tools.storage import Storage

    made, here = rows(), Example("offline", "2026-11-22", "a benchmark")
    discovery.load_tools()

    @tool("edgar", example=here, outside=False)
    def word(call: Call) -> Word:
        """Say a word."""
        return {"said": "yes"}

    counting = ToolLimit(20, 600, "words")

    @tool("edgar", example=here, outside=False, limit=counting)
    def counted(call: Call) -> Word:
        """Say a word, so many times in ten minutes."""
        return {"said": "yes"}

    @tool("edgar", example=here, outside=False, rows=Where("rows", 100, ROWS))
    def table(call: Call) -> Rows:
        """Give ready made rows."""
        return {"rows": made}

    log = open(os.devnull, "w")  # noqa: SIM115
    workspace = Workspace.from_environment()
    home, clock = workspace.home, workspace.clock
    backend = Backend(
        connect(workspace, "replay", home.archive),
        Storage(home),
        open_quotas(workspace),
        lambda text: print(f"{iso(clock.now())} {text}", file=log),
        None,
    )
    tokens, now = Tokens(home.access), clock.now()
    issued = [
        tokens.issue(f"user{i}", None, now, now + timedelta(hours=1))[0] for i in range(USERS)
    ]
    (home.root / "tokens").write_text("\n".join(issued))
    with listen("127.0.0.1", port) as sock:
        run(application(backend, "all", Verifier(tokens, clock)), [sock])


def start(name: str, port: int, home: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--serve", name, "--port", str(port)]
    process = subprocess.Popen(command, env={**os.environ, "BEFOREHAND_HOME": str(home)})
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            httpx2.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=HEADERS)
        except httpx2.HTTPError:
            time.sleep(0.1)
        else:
            return process
    raise SystemExit(f"{name} did not start")


def measure(
    clients: dict[str, httpx2.Client], issued: list[str], tool: str, n: int
) -> dict[str, float]:
    """Median milliseconds a call, the servers asked in turn, some calls each."""
    took: dict[str, list[float]] = {name: [] for name in clients}
    block = max(5, n // 8)
    for turn in range(8):
        for name, client in clients.items():
            for i in range(turn * block, (turn + 1) * block):
                arguments = {}
                if name == "ours" and tool in ("table", "stored"):
                    arguments = {"limit": ROWS, "max_tokens": 1_000_000}
                params = {"name": AT[name].get(tool, tool), "arguments": arguments}
                body = {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": params}
                raw, token = json.dumps(body), issued[i % USERS]
                headers = {"authorization": f"Bearer {token}"} if name == "ours" else {}
                started = time.perf_counter()
                answer = client.post("/mcp", content=raw, headers=headers)
                spent = 1000 * (time.perf_counter() - started)
                if answer.status_code != 200 or '"isError":true' in answer.text[-300:]:
                    raise SystemExit(f"{name}: {answer.text[:300]}")
                if i - turn * block >= block // 5:  # The first calls of a block warm up.
                    took[name].append(spent)
    return {name: median(found) for name, found in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=NAMES)
    parser.add_argument("--port", type=int, default=8790)
    given = parser.parse_args()
    if given.serve:
        {"bare": bare, "ours": ours, "fastmcp": fastmcp}[given.serve](given.port)
        return
    names = list(NAMES)
    try:
        import fastmcp as _  # noqa: F401
    except ImportError:
        names.remove("fastmcp")
        print("FastMCP is not installed: compared with the bare server alone")
    processes, clients = [], {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for i, name in enumerate(names):
                processes.append(start(name, given.port + i, Path(folder)))
                clients[name] = httpx2.Client(
                    base_url=f"http://127.0.0.1:{given.port + i}", headers=HEADERS, timeout=60
                )
            issued = (Path(folder) / "tokens").read_text().split()
            for what, tool, n, goal in (
                ("trivial call", "word", CALLS, 1.2),
                ("trivial call, counted against a quota", "counted", CALLS, 1.2),
                (f"{ROWS:,} rows", "table", BIG_CALLS, 1.5),
                (f"{ROWS:,} rows, the bare server's made beforehand", "stored", BIG_CALLS, 1.5),
            ):
                found = measure(clients, issued, tool, n)
                told = ", ".join(f"{name} {ms:.2f} ms" for name, ms in found.items())
                ratio = found["ours"] / found["bare"]
                print(f"{what}: {told}; ours/bare {ratio:.2f} [{goal}]", end="")
                if "fastmcp" in found:
                    print(f", FastMCP/ours {found['fastmcp'] / found['ours']:.1f}", end="")
                print()
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


if __name__ == "__main__":
    main()
