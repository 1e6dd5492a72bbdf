"""What goes wrong around a server: its log's reader, its databases, its signals, greedy clients."""

import json
import os
import pty
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from serving import COMMAND, Served, call, environment, over_stdio, post, said, served, token

from beforehand.config import Workspace
from beforehand.errors import BeforehandError
from beforehand.serve import guards
from beforehand.serve.auth import open_quotas, open_tokens
from beforehand.serve.connections import USUAL, Limits
from beforehand.serve.guards import Body
from beforehand.store.archive.reader import Archive
from beforehand.tools.bounds import Page, bound, estimate_tokens
from beforehand.tools.caller import Caller
from beforehand.tools.registry import argument_schema
from live import Setup
from postgres import cluster

HISTORY = {"session_id": "s"}


@pytest.fixture(scope="module")
def replaying(tmp_path_factory: pytest.TempPathFactory, sim: Path) -> Iterator[tuple[Served, str]]:
    home = tmp_path_factory.mktemp("robust")
    with served(home, "--archive", str(sim)) as made:
        yield made, token(home)


def result(server: Served, text: str, name: str, arguments: Any) -> dict[str, Any]:
    return dict(said(post(server.url, call(name, arguments), text))["result"])


def test_a_user_sees_searches_of_its_own_made_at_its_pin(tmp_path: Path, sim: Path) -> None:
    """Neither another user's, nor its own that were made by somebody who could see later."""
    search = "search_polymarket_markets"
    with served(tmp_path, "--archive", str(sim)) as server:
        early, late, now, bob = (
            token(tmp_path, "--user", user, "--servers", "all", *pin)
            for user, pin in (
                ("ann", ("--as-of", "2025-03-01")),
                ("ann", ("--as-of", "2025-06-01")),
                ("ann", ()),
                ("bob", ()),
            )
        )
        past = {"as_of": "2025-02-01T00:00:00Z", "session_id": "s"}
        for text, words in ((early, "early"), (late, "late ended"), (now, "now ended")):
            result(server, text, search, {"query": words, **past})

        def seen(text: str) -> set[str]:
            rows = json.loads(
                result(server, text, "get_polymarket_history", HISTORY)["content"][0]["text"]
            )["history"]
            return {row["user_query"] for row in rows}

        assert seen(early) == {"early"}
        assert seen(late) == {"early", "late ended"}
        assert seen(now) == {"early", "late ended", "now ended"}
        assert seen(bob) == set()


def test_a_name_of_a_megabyte_stalls_nobody(replaying: tuple[Served, str]) -> None:
    server, text = replaying
    started = time.monotonic()
    for path, name, arguments in (
        ("/mcp", "x y " * 500_000, {}),
        ("/mcp/discovery", "get_tool_schema", {"name": "x y " * 500_000}),
        ("/mcp/discovery", "call_tool", {"name": "get " * 500_000}),
        ("/mcp", "get_market", {"x" * 2_000_000: 1}),
    ):
        answer = post(server.base + path, call(name, arguments), text)
        assert len(answer.content) < 3000
    assert time.monotonic() - started < 3


def test_code_may_make_a_thousand_calls_at_once(replaying: tuple[Served, str]) -> None:
    server, text = replaying
    code = (
        "import asyncio\nr = await asyncio.gather(*[list_editions() for _ in range(1000)])\nlen(r)"
    )
    ran = result(server, text, "run_code", {"code": code})["structuredContent"]
    assert (ran["result"], ran["calls"], ran["error"]) == (1000, 1000, None)


def test_places_of_the_machine_are_not_told(replaying: tuple[Served, str]) -> None:
    server, text = replaying
    for name, arguments in (
        ("run_query", {"template": "statistics"}),
        ("run_code", {"code": "await run_query(template='statistics')"}),
    ):
        answer = json.dumps(result(server, text, name, arguments))
        assert "there is no market-data table at workspace/market_data.db" in answer
        assert str(server.home) not in answer


def test_what_goes_out_twice_is_half_as_long(replaying: tuple[Served, str]) -> None:
    """Text and structured content together keep to what was asked for; a tool's list is long."""
    server, text = replaying
    whole = post(f"{server.base}/mcp/discovery", call("search_tools"), text).content
    for most in (1000, 1500, 2000):
        asked = call("search_tools", {"max_tokens": most})
        answer = post(f"{server.base}/mcp/discovery", asked, text).content
        assert len(answer) < len(whole), "it is cut"
        assert 0.5 * most < estimate_tokens(answer) < 1.2 * most


def test_a_damaged_table_of_tokens(tmp_path: Path, sim: Path) -> None:
    text = token(tmp_path)
    with served(tmp_path, "--archive", str(sim)) as server:
        for file in (tmp_path / "workspace").glob("access.db*"):
            file.write_bytes(b"no database" * 1000)
        answer = post(server.url, call("list_editions"), text)
        assert answer.status_code == 503
        assert "tokens cannot be checked" in answer.json()["error"]["message"]
        assert server.tells("503")
        assert not any("Traceback" in line for line in server.said)


def test_a_locked_log_of_searches_is_one_sentence(tmp_path: Path, sim: Path) -> None:
    with served(tmp_path, "--archive", str(sim), "--auth", "none") as server:
        asked = call("search_polymarket_markets", {"query": "harbour"})
        post(server.url, asked)
        holder = sqlite3.connect(tmp_path / "polymarket_markets.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        answer = said(post(server.url, asked))["result"]
        assert "polymarket_markets.db" in answer["content"][0]["text"]
        assert answer["_meta"]["beforehand/error"]["kind"] == "Unavailable"
        listed = said(post(server.url, call("get_polymarket_history")))["result"]
        assert listed["isError"] is False, "reading waits for nobody"
        holder.close()


@pytest.mark.parametrize("gone", [True, False])
def test_a_log_that_nobody_reads_holds_up_nothing(tmp_path: Path, gone: bool) -> None:
    """Standard error is closed, or a full pipe: answers come all the same."""
    process = subprocess.Popen(
        [*COMMAND, "mcp", "google-news-rss"],
        env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    assert process.stderr
    if gone:
        process.stderr.close()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}  # fmt: skip
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for message in (first, ready):
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    for i in range(1, 1500):
        process.stdin.write(json.dumps(call("explain_operators", {}, i)).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == i
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_stdio_server_in_a_terminal(tmp_path: Path, number: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "mcp", "google-news-rss"],
        env=environment(tmp_path), stdin=theirs, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stderr
    assert "serving MCP on standard input" in process.stderr.readline()
    assert "Ctrl-C ends it" in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(5) == 0
    assert "Traceback" not in process.stderr.read()
    for stream in (process.stdout, process.stderr):
        assert stream
        stream.close()
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_what_was_recorded_is_put_away_at_the_end(setup: Setup, transport: str) -> None:
    archive = ("--mode", "record", "--archive", str(setup.archive))
    home, more = setup.home.root, setup.vendor.environment
    if transport == "http":
        with served(home, *archive, "--auth", "none", more=more) as server:
            post(server.url, call("get_btc_price"))
            assert server.stop(signal.SIGTERM) == 0
            assert server.tells("recorded")
    else:

        async def ask() -> None:
            async with over_stdio(home, "all", *archive, more=more) as client:
                await client.call_tool("get_btc_price", {})

        anyio.run(ask)
    assert Archive(setup.archive).verify() == []
    assert list(Archive(setup.archive).lines("exchange"))


def test_the_log_says_what_was_asked_for_and_what_failed(setup: Setup) -> None:
    home, more = setup.home.root, setup.vendor.environment
    with served(home, "--mode", "live", "--auth", "none", more=more) as server:
        code = "await get_company_facts(cik='320193')\nawait list_company_filings(cik='320193')"
        post(server.url, call("run_code", {"code": code}))
        post(server.url, call("no_such\x1b[31m_tool"))
        post(server.url, call("list_comments", {"id": "x\x1b[2J\u202e"}))
        assert server.tells("all/list_comments")
        log = "".join(server.said)
    assert "all/run_code" in log
    assert "2 requests" in log, "what its code asked for is counted"
    assert "Unknown tool" in log
    assert "\x1b" not in log
    assert "\u202e" not in log


def test_an_unforeseen_failure_is_written_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mcp.client import Client

    from beforehand.clock import SystemClock
    from beforehand.config import Home
    from beforehand.gateway.opening import connect
    from beforehand.serve.auth import Visitor
    from beforehand.serve.backend import Backend
    from beforehand.serve.mcp import McpServer
    from beforehand.tools.registry import REGISTRY
    from beforehand.tools.storage import Storage

    home, clock, lines = Home(tmp_path), SystemClock(), list[str]()
    connection = connect(Workspace(home), "replay", home.archive)
    backend = Backend(
        connection,
        Storage(home),
        open_quotas(Workspace(home, clock=clock)),
        lines.append,
        Visitor(),
    )
    server = McpServer(backend, "google-news-rss")
    monkeypatch.setattr("beforehand.sources.google_news.build", lambda *a, **k: 1 / 0)
    assert "build_search_feed" in REGISTRY

    async def ask() -> Any:
        async with Client(server.sdk) as client:
            return await client.call_tool("build_search_feed", {"query": "x"})

    answer = anyio.run(ask)
    backend.close()
    mark = answer.meta["beforehand/error"]["mark"]
    assert answer.is_error
    assert "ZeroDivisionError" not in answer.content[0].text
    assert any(mark in line and "ZeroDivisionError" in line for line in lines)


def body(messages: list[Any], limits: Limits = USUAL) -> tuple[int, list[bytes]]:
    """What `Body` answers to these messages (200 where it lets them pass), and what it passed."""
    passed: list[bytes] = []
    sent: list[Any] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        passed.append((await receive())["body"])

    async def run() -> None:
        waiting = list(messages)

        async def receive() -> Any:
            if not waiting:
                await anyio.sleep_forever()
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await Body(app, limits)({"type": "http", "method": "POST", "headers": []}, receive, send)

    anyio.run(run)
    return (sent[0]["status"] if sent else 200), passed


def part(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


def test_bodies_are_bounded_in_length_time_and_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    assert body([part(b"a"), part(b"b", False)]) == (200, [b"ab"])
    assert body([part(b"x" * USUAL.largest), part(b"x", False)]) == (413, [])
    assert body([part(b"a"), {"type": "http.disconnect"}]) == (200, []), "nothing is passed on"
    assert body([part(b"a")], Limits(body=0.2)) == (408, [])
    monkeypatch.setattr(Body, "reading", guards.LARGEST_TOGETHER)
    assert body([part(b"a", False)]) == (503, [])
    assert Body.reading == guards.LARGEST_TOGETHER, "what was counted is given back"


def test_postgres_is_where_tokens_and_quotas_go_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beforehand.serve.auth import Visitor

    with cluster() as url:
        monkeypatch.setenv("BEFOREHAND_DATABASE_URL", url)
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
        workspace = Workspace.from_environment()
        home, clock = workspace.home, workspace.clock
        with open_tokens(workspace) as tokens:
            text, made = tokens.issue("ann", None, clock.now(), clock.now().replace(year=2999))
            assert tokens.find(text) == made
        quotas = open_quotas(workspace)
        caller = quotas.caller(Visitor("ann"), None)
        assert caller.take
        from beforehand.tools.servers.code import EXECUTIONS

        for _ in range(EXECUTIONS.calls):
            caller.take(EXECUTIONS)
        with pytest.raises(BeforehandError, match=r"quota of executions \(10"):
            caller.take(EXECUTIONS)
        quotas.close()
    assert not home.access.exists()
    assert not home.traffic.exists()


def test_schemas_keep_what_stands_beside_a_reference() -> None:
    from enum import Enum
    from typing import Annotated

    from pydantic import BaseModel, Field

    class Side(Enum):
        YES = "yes"
        NO = "no"

    class Made(BaseModel):
        side: Annotated[Side, Field(description="Which.")] = Side.YES
        other: int | str | None = None
        kept: dict[str, str] = {"title": "t"}

    found = argument_schema(Made)["properties"]
    assert found["side"]["description"] == "Which."
    assert found["side"]["default"] == "yes"
    assert found["side"]["enum"] == ["yes", "no"]
    assert found["other"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert found["kept"]["default"] == {"title": "t"}


def test_an_empty_answer_is_json() -> None:
    for empty in ({}, {"a": 1}):
        answer = bound(empty, None, Page(0, 0), 1000, {"tool": "x"}, "x")
        assert answer.content["_meta"]["tool"] == "x"
        assert answer.tokens <= answer.content["_meta"]["tokens_estimated"] <= answer.tokens + 15


def test_errors_are_told_without_the_places_that_are_hidden() -> None:
    caller = Caller(hidden=(("/home/ann/", ""), ("/srv/", "")))
    assert str(caller.told(BeforehandError("no file /home/ann/x, /srv/y"))) == "no file x, y"


def test_slow_code_of_some_holds_up_nobody_else(tmp_path: Path, sim: Path) -> None:
    """Code waits for code: thirty runs of it leave every other tool as quick as before."""
    with served(tmp_path, "--archive", str(sim)) as server:
        users = [token(tmp_path, "--user", f"u{i}", "--servers", "all") for i in range(3)]
        post(server.url, call("list_markets"), users[0])
        busy = call("run_code", {"code": "x = 0\nfor i in range(3_000_000):\n    x += i"})
        with ThreadPoolExecutor(30) as pool:
            jobs = [pool.submit(post, server.url, busy, users[i % 3]) for i in range(30)]
            time.sleep(1)
            started = time.monotonic()
            answer = post(server.url, call("get_market", {"id": "m0001"}), users[0])
            took = time.monotonic() - started
            assert not all(job.done() for job in jobs), "the control: they are still at work"
            assert [job.result().status_code for job in jobs] == [200] * 30
        assert said(answer)["result"]["isError"] is False
        assert took < 10
