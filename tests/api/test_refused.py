"""Bad input over HTTP: one sentence that says what to do, the right status, nothing of the machine,
never a 500; tokens and their scopes; connections that are held for nothing."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from apiserver import Api, api
from serving import call, token

SECRETS = re.compile(r"/tmp/|/home/|Traceback|site-packages|\.py\b")


def refused(answer: httpx2.Response, status: int, part: str = "") -> Any:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert {"type", "title", "detail", "error"} <= set(found)
    assert part in found["detail"], found["detail"]
    assert not SECRETS.search(answer.text), answer.text
    return found


@pytest.mark.parametrize(
    ("path", "params", "field", "allowed"),
    [
        ("/api/runs", {"limit": 0}, "limit", None),
        ("/api/runs", {"limit": 10**30}, "limit", None),
        ("/api/runs", {"limit": "x"}, "limit", None),
        ("/api/runs", {"sort": "brier"}, "sort", "created_at"),
        ("/api/runs/walk/forecasts", {"format": "xml"}, "format", "csv"),
        ("/api/runs/walk/calibration", {"bins": 1}, "bins", None),
        ("/api/archives/sim/markets", {"status": "closed"}, "status", "open"),
        ("/api/comparisons", {"a": "walk:drift"}, "b", None),
        ("/api/runs/walk/interval", {"time": "2025-01-01"}, "market_id", None),
    ],
)
def test_wrong_parameters_name_the_field(
    serving: Api, path: str, params: Any, field: str, allowed: str | None
) -> None:
    found = refused(serving.get(path, **params), 422)
    assert found["field"] == field
    assert (allowed in found.get("allowed", ())) == (allowed is not None)


@pytest.mark.parametrize(
    ("path", "params", "status", "part"),
    [
        ("/api/runs/wlk", {}, 404, "walk"),
        ("/api/runs/wlk/forecasts", {}, 404, "walk"),
        ("/api/archives/sin", {}, 404, "sim"),
        ("/api/archives/sin/markets", {}, 404, "sim"),
        ("/api/archives/sim/markets/nope", {}, 404, "no market 'nope'"),
        ("/api/archives/sim/documents/nope", {}, 404, "no document"),
        ("/api/archives/sim/events/nope", {}, 404, "no event"),
        ("/api/tools/get_markt", {}, 404, "get_market"),
        ("/api/bus/document-agent", {}, 404, "documents-agent"),
        ("/api/bus/documents-agent/out/9", {}, 404, "no output"),
        ("/api/runs/walk/files/nope.json", {}, 404, "no file"),
        ("/api/runs/asked/leaderboard", {}, 404, "has no scores"),
        ("/api/nothing", {}, 404, "no such path"),
        ("/api/runs/walk/forecasts", {"cursor": "x"}, 422, "cursor"),
        ("/api/runs/walk/forecasts", {"cursor": "WyJmb3JlY2FzdHMiLDUsMF0"}, 422, "cursor"),
        ("/api/runs/walk/forecasts", {"cursor": "WyJmb3JlY2FzdHMiLC01LDBd"}, 422, "cursor"),
        ("/api/runs", {"cursor": "WzEsMl0"}, 422, "cursor"),
        ("/api/runs/walk/forecasts", {"since": "yesterday"}, 422, "ISO 8601"),
        ("/api/archives/sim/markets", {"t": "2025-01-01T00:00:00"}, 422, "time zone"),
        ("/api/archives/sim/markets", {"t": "12025-01-01"}, 422, "t: "),
        ("/api/archives/sim/markets", {"q": "  "}, 422, "q names no word"),
        ("/api/comparisons", {"a": "walk:drift", "b": "walk:drift"}, 422, "itself"),
        ("/api/comparisons", {"a": ":x", "b": "walk:drift"}, 422, "RUN:FORECASTER"),
        ("/api/runs/walk/calibration/questions", {"bin": 10, "forecaster": "drift"}, 422, "bin 10"),
        ("/api/archives/sim/markets/m0000", {"as_of": "2025-01-15"}, 422, "no parameter 'as_of' here: there is evidence, t"),
        ("/api/runs", {"limt": 3}, 422, "no parameter 'limt'"),
        ("/api/runs/walk/forecasts", {"market": "m0000"}, 422, "no parameter 'market'"),
        ("/api/runs/walk/forecasts", {"forecaster": "drft"}, 404, "drift"),
        ("/api/runs/walk/forecasts", {"market_id": "m999999"}, 404, "no market"),
        ("/api/runs/walk/intervals", {"since": "2026-01-01", "until": "2025-01-01"}, 422, "reversed"),
        ("/api/runs/walk/interval", {"market_id": "m999999", "time": "2025-01-01"}, 404, "no market"),
    ],
)  # fmt: skip
def test_one_sentence_says_what_to_do(
    serving: Api, path: str, params: Any, status: int, part: str
) -> None:
    refused(serving.get(path, **params), status, part)


TRICKS = (
    "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "walk%2f..%2f..%2farchive.json",
    "walk%00", "a%0ab", "con", "~", "$(id)", "walk/../../..", "....//", "%c0%ae%c0%ae", "x" * 3000,
    "\ud83d\ude00", "%ff%fe", "-", "latest/../walk", ".hidden",
)  # fmt: skip


@pytest.mark.parametrize(
    "pattern",
    ["/api/runs/{}", "/api/runs/walk/files/{}", "/api/archives/{}", "/api/bus/{}", "/api/bus/documents-agent/out/{}",
     "/api/archives/sim/documents/{}", "/api/archives/sim/markets/{}", "/api/tools/{}", "/api/runs/{}/events"],
)  # fmt: skip
def test_path_tricks(serving: Api, pattern: str) -> None:
    """No path leaves its folder, none is a 500; what they ask for is not there."""
    host, port = serving.url.removeprefix("http://").split(":")
    for trick in TRICKS:
        target = pattern.format(trick).encode("utf-8", "surrogatepass")
        with socket.create_connection((host, int(port)), 10) as held:
            held.sendall(
                b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            answer = b""
            while part := held.recv(65536):
                answer += part
        status = int(answer.split(b" ")[1])
        assert status in (400, 404, 405, 422) or (trick in ("latest/../walk", "-", ".") and status < 500) or (status == 200 and b"root:" not in answer), (trick, answer[:200])  # fmt: skip
        assert b"root:" not in answer
        assert status != 200 or trick in (".", "walk/../../..", "latest/../walk", "....//"), (trick, answer[:300])  # fmt: skip


def test_methods_bodies_and_media(serving: Api) -> None:
    assert serving.post("/api/runs", {}).status_code == 405
    refused(httpx2.delete(serving.url + "/api/runs/walk"), 405)
    refused(
        serving.post("/api/backtests", b"{", **{"Content-Type": "application/json"}),
        422,
        "not JSON",
    )
    refused(
        serving.post("/api/backtests", b'{"every": "7d"}', **{"Content-Type": "text/plain"}),
        422,
        "Content-Type",
    )
    refused(
        serving.post("/api/scores?archiv=sim", b"x", **{"Content-Type": "text/csv"}), 422, "archiv"
    )
    refused(
        serving.post("/api/backtests?dry_run=true", {"run_id": "../x"}), 422, "plain path segment"
    )
    refused(serving.post("/api/backtests", b"\xff", **{"Content-Type": "application/json"}), 400)
    refused(serving.post("/api/backtests", {"forecasters": "drift"}), 422)
    refused(serving.post("/api/backtests", {"every": "0d"}), 422, "not an interval")
    refused(serving.post("/api/backtests", {"colour": 1}), 422, "colour")
    refused(serving.post("/api/backtests", {"archive": "../sim"}), 404, "sim")
    refused(serving.post("/api/scores", b"id\n", **{"Content-Type": "text/html"}), 422, "text/csv")
    refused(serving.post("/api/scores", b"id,time\n", **{"Content-Type": "text/csv"}), 422)
    big = b"x" * (4 * 2**20 + 1)
    refused(serving.post("/api/asks", big, **{"Content-Type": "application/json"}), 413, "bytes")
    deep, deepest = b"[" * 15_000, b"[" * 100_000
    refused(serving.post("/api/tools/get_market", deep, **{"Content-Type": "application/json"}), 400)  # fmt: skip
    refused(serving.post("/api/tools/get_market", deepest, **{"Content-Type": "application/json"}), 413)  # fmt: skip
    refused(serving.post("/api/tools/get_market", {"idd": 1}), 422, "unknown argument")


def test_another_site_gets_nothing(serving: Api) -> None:
    """No page of another origin, no other name of this machine; safe headers on everything."""
    port = serving.url.rpartition(":")[2]
    other = httpx2.get(serving.url + "/api/runs", headers={"Origin": "http://evil.example"})
    refused(other, 403, "evil.example")
    assert "access-control-allow-origin" not in other.headers
    refused(httpx2.get(serving.url + "/api/runs", headers={"Host": "evil.example"}), 421)
    assert httpx2.get(serving.url + "/api/runs", headers={"Origin": f"http://localhost:{port}"}).status_code == 200  # fmt: skip
    for path in ("/", "/api", "/api/runs", "/api/nothing", "/api/runs/walk/files/report.html"):
        headers = serving.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors" in headers["content-security-policy"]
        assert "server" not in headers


@pytest.fixture(scope="module")
def guarded(made: Path) -> Iterator[Api]:
    """The same home, with tokens."""
    with api(made, "--archive", "data/sim", "--auth", "token") as found:
        yield found


def test_scopes(guarded: Api, made: Path) -> None:
    read = token(made, "--user", "ann", "--scopes", "read")
    start = token(made, "--user", "ben", "--scopes", "read,start")
    tools = token(made, "--user", "cat", "--scopes", "tools", "--servers", "polymarket")
    for path in ("/api/runs", "/api/runs/walk", "/api/archives", "/api/tools", "/api/doctor"):
        assert refused(guarded.get(path), 401)["error"] == "no_token"
        assert refused(guarded.get(path, "bh_nonsense"), 401)["error"] == "invalid_token"
        refused(guarded.get(path, tools), 403, "--scopes read")
        assert guarded.get(path, read).status_code == 200
    for path in ("/", "/api", "/api/openapi.json", "/api/health"):
        assert guarded.get(path).status_code == 200
    body = {"forecasters": ["market"], "every": "28d"}
    refused(guarded.post("/api/backtests?dry_run=true", body, read), 403, "--scopes read,start")
    assert guarded.post("/api/backtests?dry_run=true", body, start).status_code == 200
    refused(guarded.post("/api/runs/walk/cancel", {}, read), 403)
    refused(guarded.post("/api/tools/get_market", {"id": "m0000"}, read), 403, "call tools")
    assert guarded.post("/api/tools/get_market", {"id": "m0000"}, tools).status_code == 200
    refused(guarded.post("/api/tools/search_news", {}, tools), 404)
    assert guarded.get("/api/tools/search_news", read).status_code in (200, 404)
    mcp = httpx2.post(f"{guarded.url}/mcp", json=call("get_market", {"id": "m0000"}), headers={"Authorization": f"Bearer {read}"})  # fmt: skip
    assert (mcp.status_code, mcp.headers["content-type"]) == (403, "application/json")
    assert "call tools" in mcp.json()["error"]["message"]
    program = {"forecasters": ["python:x:f"]}
    refused(guarded.post("/api/backtests", program, start), 403, "--allow-programs")
    mine = guarded.get("/api/tokens", read).json()["items"]
    assert {row["user"] for row in mine} == {"ann"}


def test_a_pinned_token_reads_worlds_and_no_runs(guarded: Api, made: Path) -> None:
    pin = "2025-02-03T00:00:00Z"
    text = token(made, "--user", "dan", "--scopes", "read,start,tools", "--as-of", pin)
    for path in ("/api/runs", "/api/runs/walk", "/api/archives", "/api/archives/sim", "/api/bus"):
        refused(guarded.get(path, text), 403, "as of 2025-02-03")
    refused(guarded.post("/api/backtests", {}, text), 403)
    rows = guarded.get("/api/archives/sim/markets", text).json()["items"]
    assert rows
    assert all(row["known_at"] <= pin for row in rows)
    later = guarded.get("/api/archives/sim/markets", text, t="2025-02-03T00:00:00.000001Z")
    assert refused(later, 422)["error"] == "cutoff_violation"
    assert guarded.get("/api/archives/sim/markets", text, t=pin).status_code == 200
    about = guarded.get("/api/workspace", text).json()
    assert (about["as_of"], about["runs"]) == (pin, None)


def test_rates_and_room(made: Path) -> None:
    with api(made, "--archive", "data/sim", "--rate", "5", "--at-once", "1") as served:
        statuses = [served.get("/api/health") for _ in range(30)]
        late = [one for one in statuses if one.status_code == 429]
        assert late
        assert refused(late[0], 429, "5 requests a second")["retry_after"] >= 1
        assert late[0].headers["retry-after"]
        time.sleep(2.5)
        found: list[int] = []

        def ask() -> None:
            answer = served.get("/api/doctor")
            found.append(answer.status_code)
            if answer.status_code == 503:
                refused(answer, 503, "in progress")
                assert answer.headers["retry-after"] == "1"

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert sorted(found)[0] == 200
        assert 503 in found


def _connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 5)


def _closed(one: socket.socket, wait: float) -> bool:
    one.settimeout(wait)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def _received(one: socket.socket) -> int:
    """How many bytes still come before the connection ends."""
    total = 0
    try:
        while part := one.recv(2**20):
            total += len(part)
    except ConnectionError:
        pass
    return total


def test_silent_connections_are_closed(made: Path) -> None:
    """A thousand that send nothing, a slow head, a slow body, one that does not read: each ends, and
    others are answered meanwhile."""
    limits = (
        "--head-timeout",
        "1",
        "--body-timeout",
        "1",
        "--per-peer",
        "20",
        "--stall-timeout",
        "1",
    )
    with api(made, "--archive", "data/sim", *limits) as served:
        held = []
        for _ in range(1000):
            held.append(_connect(served.url))
        assert served.get("/api/health").status_code == 200, "a newer one is let in"
        open_ones = [one for one in held if not _closed(one, 0.001)]
        assert len(open_ones) <= 20
        slow = _connect(served.url)
        slow.sendall(b"GET /api/health HTTP/1.1\r\nHost: local")
        assert _closed(slow, 3.0), "the head did not arrive in time"
        again = _connect(served.url)
        again.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.3)
        assert again.recv(65536).startswith(b"HTTP/1.1 200")
        again.sendall(b"G")
        assert _closed(again, 3.0), "nor does a second one on the same connection"
        body = _connect(served.url)
        body.sendall(b"POST /api/asks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")  # fmt: skip
        body.settimeout(5)
        assert b" 408 " in body.recv(65536)
        deaf = _connect(served.url)
        for _ in range(200):
            try:
                deaf.sendall(
                    b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n"
                )
            except OSError:
                break
        time.sleep(2.5)
        deaf.settimeout(2)
        whole = len(httpx2.get(f"{served.url}/api/openapi.json").content)
        assert _received(deaf) < 200 * whole / 2, "it was cut off in the middle"
        assert served.get("/api/health").status_code == 200
        for one in (*held, slow, again, body, deaf):
            one.close()


def test_a_client_that_hangs_up(serving: Api) -> None:
    for _ in range(20):
        one = _connect(serving.url)
        one.sendall(b"GET /api/runs/walk/forecasts?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        one.close()
    body = json.dumps({"code": "while True: pass"}).encode()
    head = f"POST /api/tools/execute-python-code HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"  # fmt: skip
    one = _connect(serving.url)
    one.sendall(head.encode() + body)
    time.sleep(0.5)
    one.close()
    assert serving.json("/api/health")["name"] == "beforehand"
    assert not any("failed (" in line for line in serving.said), serving.said
