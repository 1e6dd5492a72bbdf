"""Tokens and quotas: who gets in, to what, how often, and that a restart forgets nothing."""

import json
import re
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from serving import (
    COMMAND,
    Served,
    call,
    command,
    environment,
    over_stdio,
    post,
    said,
    served,
    token,
)

from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Workspace
from beforehand.errors import NotFound, RateLimited, Unauthorized
from beforehand.serve.auth import Quotas, Verifier, Visitor, open_quotas, span
from beforehand.serve.http import check_binding
from beforehand.store.ledger import Ledger
from beforehand.store.tokens import Tokens
from beforehand.tools.caller import ToolLimit
from postgres import cluster

NOW = parse_instant("2026-11-22T12:00:00Z")
DAY = timedelta(days=1)
SEARCH = {"query": "will it rain"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, sim: Path) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("access")
    with served(home, "--archive", str(sim)) as made:
        yield made


def test_without_a_token_401(running: Served) -> None:
    for headers in ({}, {"authorization": "Bearer"}, {"authorization": "Bearer wrong"}):
        for path in ("/mcp", "/mcp/", "/kalshi/mcp", "/mcp/discovery"):
            answer = post(running.base + path, call("list_editions"), **headers)
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/json"
            assert "beforehand token issue" in answer.json()["error"]["message"]
            asked = "error=" if headers else "realm="
            assert answer.headers["www-authenticate"].startswith(f"Bearer {asked}")
    long = post(running.url, call("list_editions"), "bh_" + "x" * 5000)
    assert long.status_code == 401


def test_a_token_covers_its_servers(running: Served) -> None:
    text = token(running.home, "--user", "kim", "--servers", "kalshi,edgar")
    inside = post(running.base + "/kalshi/mcp", call("list_kalshi_markets", {"limit": 1}), text)
    assert said(inside)["result"]["isError"] is False
    outside = post(running.base + "/polymarket/mcp", call("list_markets"), text)
    assert outside.status_code == 403
    assert "covers edgar, kalshi, not polymarket" in outside.json()["error"]["message"]
    listed = post(running.url, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, text)
    names = {tool["name"] for tool in said(listed)["result"]["tools"]}
    assert "get_kalshi_trades" in names
    assert "get_company_facts" in names
    assert not names & {"get_market", "search_web"}
    refused = said(post(running.url, call("list_markets"), text))["result"]
    assert refused["isError"] is True
    assert "does not cover (it covers edgar, kalshi here)" in refused["content"][0]["text"]
    # Neither by way of discovery, nor of code.
    found = said(post(running.base + "/mcp/discovery", call("search_tools"), text))["result"]
    assert {t["server"] for t in found["structuredContent"]["tools"]} == {"kalshi", "edgar"}
    hidden = call("call_tool", {"name": "list_markets"})
    answer = said(post(running.base + "/mcp/discovery", hidden, text))["result"]
    assert "no tool is named 'list_markets': perhaps" in answer["content"][0]["text"]
    assert "list_kalshi_markets" in answer["content"][0]["text"], "of its own servers"
    code = "try:\n    await list_markets()\nexcept NameError as e:\n    print('no', e)"
    ran = said(post(running.url, call("run_code", {"code": code}), text))["result"]
    assert "no " in ran["structuredContent"]["output"], ran


def test_a_revoked_token_ends_within_a_second(running: Served) -> None:
    done = command(running.home, "token", "issue", "--user", "eve", "--servers", "all", "--json")
    made = json.loads(done.stdout)
    assert post(running.url, call("list_editions"), made["token"]).status_code == 200
    assert command(running.home, "token", "revoke", made["id"]).returncode == 0
    time.sleep(1.1)
    assert post(running.url, call("list_editions"), made["token"]).status_code == 401


def test_quotas_are_exact_and_survive_kill_9(tmp_path: Path, sim: Path) -> None:
    """Twenty searches in ten minutes for each user, over every way in, before and after a kill."""
    ann, bob = "", ""
    with served(tmp_path, "--archive", str(sim)) as first:
        ann = token(tmp_path, "--user", "ann", "--servers", "all")
        bob = token(tmp_path, "--user", "bob", "--servers", "web-search")
        for _ in range(12):
            assert "quota" not in _text(first.url, ann)
        first.stop(signal.SIGKILL)
    with served(tmp_path, "--archive", str(sim)) as second:
        second_token = token(tmp_path, "--user", "ann", "--servers", "web-search")
        for _ in range(4):
            assert "quota" not in _text(second.url, ann)
        for _ in range(3):  # Another token of the same user, and another way in.
            assert "quota" not in _text(second.base + "/web-search/mcp", second_token)
        inner = call("call_tool", {"name": "search_web", "arguments": SEARCH})
        through = said(post(second.base + "/mcp/discovery", inner, ann))["result"]
        assert "quota" not in through["content"][0]["text"]
        refused = said(post(second.url, call("search_web", SEARCH), ann))["result"]
        assert refused["isError"] is True
        text = refused["content"][0]["text"]
        assert re.search(
            r"quota of searches \(20 in 10 minutes\) is used up for ann: try again in", text
        )
        about = refused["_meta"]["beforehand/error"]
        assert about["kind"] == "RateLimited"
        assert 500 < about["retry_after"] <= 601
        code = "await search_web(query='will it rain')"
        ran = said(post(second.url, call("run_code", {"code": code}), ann))["result"]
        assert "quota of searches (20" in ran["structuredContent"]["error"]
        assert "quota" not in _text(second.url, bob), "bob has his own"
        # What is wrong in the first place costs nothing.
        for _ in range(30):
            bad = said(post(second.url, call("search_web", {"query": "x"}), bob))["result"]
            assert "at least 3 characters" in bad["content"][0]["text"]
        assert "quota" not in _text(second.url, bob)


def _text(url: str, text: str) -> str:
    result = said(post(url, call("search_web", SEARCH), text))["result"]
    return str(result["content"][0]["text"])


def test_executions_share_one_quota(running: Served) -> None:
    text = token(running.home, "--user", "dan", "--servers", "all")
    for i in range(10):
        name = "run_code" if i % 2 else "execute-python-code"
        result = said(post(running.url, call(name, {"code": "print(1)"}), text))["result"]
        assert result["structuredContent"]["output"] == "1\n"
    for name in ("run_code", "execute-python-code"):
        refused = said(post(running.url, call(name, {"code": "print(1)"}), text))["result"]
        assert "quota of executions (10 in 60 minutes)" in refused["content"][0]["text"]


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "sqlite":
        yield tmp_path / "access.db"
    else:
        with cluster() as url:
            yield url


def test_the_table_of_tokens(address: Any) -> None:
    tokens = Tokens(address)
    pin = parse_instant("2025-03-01T00:00:00Z")
    text, made = tokens.issue("ann", frozenset({"kalshi"}), NOW, NOW + DAY, pin)
    other, _ = tokens.issue("bob", None, NOW, NOW + DAY)
    assert text != other
    assert tokens.find(text) == made
    assert tokens.find(text[:-1]) is None
    assert tokens.find("\udcff") is None
    assert made.state(NOW) == "valid"
    assert made.state(NOW + DAY) == "expired", "the end itself is outside"
    assert {t.user for t in tokens.all()} == {"ann", "bob"}
    assert [t.user for t in tokens.all("bob")] == ["bob"]
    assert tokens.revoke(made.id, NOW).state(NOW) == "revoked"
    again = tokens.revoke(made.id, NOW + DAY)
    assert again.revoked_at == NOW, "the first time counts"
    with pytest.raises(NotFound, match="token list"):
        tokens.revoke("nothing", NOW)
    tokens.close()


def test_no_token_is_stored(tmp_path: Path) -> None:
    """Only its digest is: the file and its journal hold nothing of the text."""
    tokens = Tokens(tmp_path / "t.db")
    text, made = tokens.issue("ann", None, NOW, NOW + DAY)
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("t.db*"))
    tokens.close()
    assert made.id.encode() in raw, "the control: what is stored is found"
    assert text[3:20].encode() not in raw


def test_the_verifier(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "t.db")
    good, _ = tokens.issue("ann", None, NOW, NOW + DAY)
    old, _ = tokens.issue("ann", None, NOW - 2 * DAY, NOW - DAY)

    async def ask(text: str | None) -> str | None:
        try:
            return (await Verifier(tokens, FrozenClock(NOW)).visitor(text)).user
        except Unauthorized as error:
            return str(error)

    assert anyio.run(ask, f"Bearer {good}") == "ann"
    assert anyio.run(ask, f"bearer  {good} ") == "ann"
    for shown, sentence in (
        (f"Bearer {old}", "this token is expired"),
        (f"Bearer {good}x", "does not know this token"),
        (f"Basic {good}", "needs a bearer token"),
        (good, "needs a bearer token"),
        ("Bearer ", "needs a bearer token"),
        (None, "needs a bearer token"),
    ):
        assert sentence in str(anyio.run(ask, shown))
    tokens.close()


def test_quotas_count_together(address: Any) -> None:
    """Two processes' quotas over one ledger; the local caller is not counted."""
    limit, clock = ToolLimit(3, 60, "tries"), FrozenClock(NOW)
    ledgers = [Ledger(address), Ledger(address)]
    two = [Quotas(ledger, clock) for ledger in ledgers]
    for i in range(3):
        two[i % 2].caller(Visitor("ann"), None).take(limit)  # type: ignore[misc]
    for quotas in two:
        with pytest.raises(
            RateLimited, match=r"quota of tries \(3 in 60 s\) is used up for ann"
        ) as e:
            quotas.caller(Visitor("ann"), None).take(limit)  # type: ignore[misc]
        assert e.value.retry_after == pytest.approx(60, abs=1)
    two[0].caller(Visitor("bob"), None).take(limit)  # type: ignore[misc]
    assert two[0].caller(Visitor(), None).take is None
    later = Quotas(ledgers[0], FrozenClock(NOW + timedelta(seconds=61)))
    if isinstance(address, Path):  # Postgres counts by its own clock.
        later.caller(Visitor("ann"), None).take(limit)  # type: ignore[misc]
    for quotas in two:
        quotas.close()


def test_a_token_with_quotas_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from beforehand.cli.app import run
    from beforehand.tools.servers.code import EXECUTIONS

    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    asked = ["token", "issue", "--user", "ann", "--json"]
    assert run([*asked, "--quota", "executions=12"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["quotas"] == {"executions": 12}
    workspace = Workspace.from_environment()
    tokens, quotas = Tokens(workspace.access), open_quotas(workspace)
    who = anyio.run(Verifier(tokens, workspace.clock).visitor, f"Bearer {made['token']}")
    for _ in range(12):  # The documented ten, and two more.
        quotas.caller(who, None).take(EXECUTIONS)  # type: ignore[misc]
    with pytest.raises(RateLimited, match=r"quota of executions \(12"):
        quotas.caller(who, None).take(EXECUTIONS)  # type: ignore[misc]
    with pytest.raises(RateLimited, match=r"quota of executions \(10"):
        quotas.caller(replace(who, quotas=()), None).take(EXECUTIONS)  # type: ignore[misc]
    tokens.close()
    quotas.close()
    assert run(["token", "usage", "--json"]) == 0
    rows = {row["limit"]: row for row in json.loads(capsys.readouterr().out)["usage"]}
    assert (rows["executions"]["used"], rows["executions"]["left"]) == (12, 0)
    assert (rows["searches"]["used"], rows["searches"]["left"]) == (0, 20)
    assert run([*asked]) == 0, "a second token, with the documented limit"
    second = json.loads(capsys.readouterr().out)["id"]
    assert run(["token", "usage", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["usage"]
    assert [(r["of"], r["left"], r["tokens"]) for r in said if r["limit"] == "executions"] == [
        (12, 0, [made["id"]]),
        (10, 0, [second]),
    ]
    for wrong in ("runs=5", "executions=0", "executions"):
        assert run([*asked, "--quota", wrong]) == 2
        assert "one of executions, searches" in capsys.readouterr().err


def test_times_to_wait_are_never_too_short() -> None:
    assert span(0.2) == "1 s"
    assert span(59.1) == "60 s"
    assert span(122.5) == "3 minutes"
    assert span(600.25) == "10 minutes"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["token", "issue", "--user", "a b", "--servers", "all"], "must be one word"),
        (["token", "issue", "--user", "a", "--servers", "nope"], "no server 'nope': there are poly"),
        (["token", "issue", "--user", "a", "--servers", ","], "names no server"),
        (["token", "issue", "--user", "a", "--servers", "all", "--expires", "soon"], "12h or 30d"),
        (["token", "issue", "--user", "a", "--servers", "all", "--expires", "0d"], "above 0"),
        (["token", "issue", "--user", "a", "--servers", "all", "--expires", "400d"], "366 days"),
        (["token", "issue", "--user", "a", "--servers", "all", "--as-of", "now"], "--as-of: 'now'"),
        (["token", "revoke"], "name a token's id, or --user"),
        (["token", "revoke", "abc"], "no token has the id 'abc'"),
        (["token", "revoke", "--user", "nobody"], "nobody has no valid token"),
        (["mcp", "nope"], "no server 'nope'"),
        (["mcp", "all", "--port", "5"], "--port goes with --transport http"),
        (["mcp", "all", "--auth", "none"], "--auth goes with --transport http"),
        (["mcp", "all", "--transport", "http", "--discovery"], "/mcp/discovery"),
        (["mcp", "all", "--transport", "http", "--host", "0.0.0.0", "--auth", "none"], "only for this machine"),
        (["mcp", "all", "--transport", "http", "--port", "70000"], "between 0 and 65535"),
        (["mcp", "all", "--as-of", "2999-01-01"], "lies in the future"),
        (["token", "issue", "--user", "a", "--servers", "all", "--as-of", "2999-01-01"], "in the future"),
        (["mcp", "all", "--mode", "replay"], "there is no archive at"),
        (["mcp", "all", "--as-of", "2025-01-01"], "there is no archive at"),
        (["mcp", "google-news-rss", "--archive", "nope", "--config", "zed"], "there is no archive at nope"),
        (["mcp", "--config", "zed"], "name a server first"),
        (["mcp", "edgar", "--transport", "http", "--as-of", "2025-01-01", "--config", "zed", "--mode", "live"], "to the command that serves"),
        (["mcp", "google-news-rss", "--transport", "http", "--port", "0", "--config", "zed"], "another port each time"),
        (["mcp", "all", "--as-of", "2025-01-01T00:00:00"], "has no time zone"),
        (["mcp", "all", "--json"], "--json goes with"),
    ],
)  # fmt: skip
def test_bad_commands(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    from beforehand.cli.app import run

    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_taken_port_is_one_sentence(running: Served) -> None:
    port = running.url.rpartition(":")[2].partition("/")[0]
    server = ("mcp", "google-news-rss", "--transport", "http")
    done = command(running.home, *server, "--port", port)
    assert done.returncode == 2
    assert "choose another port" in done.stderr


def test_only_loopback_is_open_to_all() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        check_binding(host, "none")
    check_binding("0.0.0.0", "token")


def test_the_commands(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from beforehand.cli.app import run

    assert run(["token", "list"]) == 0
    assert "no token was issued" in capsys.readouterr().out
    given = ["--user", "ann", "--servers", "kalshi", "--expires", "12h", "--as-of", "2025-03-01"]
    assert run(["token", "issue", *given]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"bh_[\w-]{43}\n", out)
    assert "pinned to 2025-03-01T00:00:00Z" in err
    assert run(["token", "list", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["tokens"][0]
    assert (row["user"], row["servers"], row["state"]) == ("ann", ["kalshi"], "valid")
    assert run(["token", "list"]) == 0
    assert out.strip() not in capsys.readouterr().out
    assert run(["token", "revoke", "--user", "ann"]) == 0
    assert "is revoked" in capsys.readouterr().out
    assert run(["token", "list", "--user", "ann", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"][0]["state"] == "revoked"
    assert run(["mcp", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["servers"]
    assert rows[-1]["server"] == "all"
    assert run(["mcp"]) == 0
    assert "tokens, plain" in capsys.readouterr().out


def test_a_token_over_stdio(tmp_path: Path, sim: Path) -> None:
    """A stdio server with a token in its environment counts that token's quota, keeps its pin, and
    does not start with one that is unknown."""
    home = tmp_path
    text = token(home, "--user", "ann", "--quota", "executions=1", "--as-of", "2025-02-01")

    async def twice(more: dict[str, str]) -> list[Any]:
        async with over_stdio(home, "all", "--archive", str(sim), more=more) as client:
            code = {"code": "import datetime; print(datetime.datetime.now().year)"}
            return [await client.call_tool("execute-python-code", code) for _ in range(2)]

    first, second = anyio.run(twice, {"BEFOREHAND_TOKEN": text})
    assert first.structured_content["output"] == "2025\n"
    assert second.is_error
    assert "the quota of executions (1 in 60 minutes) is used up for ann" in second.content[0].text
    free = anyio.run(twice, {})
    assert not any(done.is_error for done in free)
    done = subprocess.run(
        [*COMMAND, "mcp", "all", "--archive", str(sim)],
        env={**environment(home), "BEFOREHAND_TOKEN": "bh_wrong"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "does not know this token" in done.stderr


def test_a_client_of_the_protocol_shows_why_it_was_refused(tmp_path: Path, sim: Path) -> None:
    """The sentence of the server, and not "Server returned an error response"."""

    async def ask(url: str, shown: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"authorization": shown}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await client.list_tools()

    kept = token(tmp_path, "--user", "ann", "--servers", "kalshi")
    with served(tmp_path, "--archive", str(sim)) as server:
        for shown, where, why in (
            ("Bearer bh_nonsense", "/mcp", "does not know this token"),
            (f"Bearer {kept}", "/polymarket/mcp", "covers kalshi, not polymarket"),
        ):
            with pytest.raises((BaseExceptionGroup, MCPError)) as found:
                anyio.run(ask, server.base + where, shown)
            assert why in "".join(traceback.format_exception(found.value))
