"""Noninterference through the wire: two servers over worlds that share what was known by t, and a
client that reads every byte they send.

The pin is the server's in half of the pairs and the token's in the other half. Everything that a
client can do is done to both: connecting, listing, every tool with every argument, discovery, code
that calls tools, errors, an `as_of` before and after t.
"""

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from serving import HEADERS, call, post, said, served, token
from test_every_tool import ARGUMENTS, MemoryArchive, shared_table
from worlds import START, pair

from beforehand.clock import FrozenClock, iso
from beforehand.config import Home, Workspace
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.opening import Connection
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.serve.auth import Verifier, open_quotas
from beforehand.serve.backend import Backend
from beforehand.serve.http import application, listen
from beforehand.store.tokens import Tokens
from beforehand.tools.storage import Storage
from proofs import count

NOW = FrozenClock(START + timedelta(days=9))
PAIRS = count("pairs of worlds through MCP on the wire", 10, 1000)
TOOK = re.compile(rb'((?:execution_time_ms|tokens_estimated)\\?":)[\d.e-]+')
CODE = """
for ask in (
    lambda: list_markets(),
    lambda: get_market(id="POLYMARKET:m0"),
    lambda: get_price_history(id="m1"),
    lambda: search(query="harvest ferry"),
):
    try:
        print(await ask())
    except Exception as error:
        print("not", error)
"""


class Side:
    """A server on loopback whose world can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.tokens = Tokens(folder / "access.db")
        self.home = Home(folder)
        connection = Connection(Gateway(RecordedWorld(MemoryArchive([])), NOW), "replay")
        quotas = open_quotas(Workspace(self.home, clock=NOW))
        self.backend = Backend(connection, Storage(self.home), quotas, lambda text: None, None)

    def show(self, records: list[Any], pinned: Any) -> None:
        """Another world, in a home of its own."""
        self.number += 1
        self.backend.connection.gateway = Gateway(RecordedWorld(MemoryArchive(records)), NOW)
        self.backend.storage = Storage(Home(self.folder / str(self.number)))
        self.backend.storage.__dict__["table"] = shared_table()
        self.backend.pinned = pinned


@contextmanager
def listening(side: Side) -> Iterator[str]:
    """The side's server with tokens, its pin read from the backend at each call."""
    with listen("127.0.0.1", 0) as sock:
        app = application(side.backend, "all", Verifier(side.tokens, NOW))
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on")
        server = uvicorn.Server(config)
        server.capture_signals = _nothing  # type: ignore[method-assign]
        thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            side.backend.close()
            side.tokens.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def messages(t: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, message): everything a client can ask."""
    numbers = itertools.count(1)

    def message(method: str, params: Any = None) -> dict[str, Any]:
        made = {"jsonrpc": "2.0", "id": next(numbers), "method": method}
        return made if params is None else {**made, "params": params}

    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    for path in ("/mcp", "/kalshi/mcp", "/mcp/discovery"):
        yield path, message("initialize", hello)
        yield path, message("tools/list")
    for name, arguments in ARGUMENTS.items():
        for given in arguments:
            yield "/mcp", call(name, given, next(numbers))
        yield "/mcp/discovery", call("call_tool", {"name": name, "arguments": arguments[0]})
    for at in (t, t - timedelta(hours=3), t + timedelta(microseconds=1), t + timedelta(days=1)):
        for name in ("get_market", "get_price_history"):
            yield "/mcp", call(name, {"id": "POLYMARKET:m0", "as_of": iso(at)})
    yield "/mcp", call("get_market", {"idd": "m0"})
    yield "/mcp", call("no_such_tool")
    yield "/mcp", call("run_code", {"code": CODE})


def everything(base: str, text: str, t: Any) -> list[tuple[int, bytes]]:
    """Status and body of every answer, but for how long things took."""
    headers = {**HEADERS, "authorization": f"Bearer {text}"}
    with httpx2.Client(headers=headers, timeout=60) as client:
        answers = [client.post(base + path, content=json.dumps(body)) for path, body in messages(t)]
    return [(answer.status_code, TOOK.sub(rb"\g<1>0", answer.content)) for answer in answers]


@pytest.mark.parametrize(
    "first_pair",
    [
        pytest.param(k, id=f"{'late' if k >= 500 else 'early'}-{k}")
        for k in range(0, PAIRS, min(PAIRS, 100))
    ],
)
def test_no_client_tells_two_worlds_apart(tmp_path: Path, first_pair: int) -> None:
    sides = [Side(tmp_path / name) for name in ("a", "b")]
    for side in sides:
        side.folder.mkdir(exist_ok=True)
    different = 0
    with listening(sides[0]) as one, listening(sides[1]) as two:
        for seed in range(first_pair, first_pair + min(PAIRS, 100)):
            first, second, t = pair(130_000 + seed)
            by_token = seed % 2 == 1
            late = START + timedelta(days=2)
            answers = []
            for side, base, records in ((sides[0], one, first), (sides[1], two, second)):
                side.show(records, None if by_token else t)
                answers.append(everything(base, _issue(side, f"u{seed}", t, by_token), t))
            assert answers[0] == answers[1], next(
                (x, y) for x, y in zip(*answers, strict=True) if x != y
            )
            if seed % 10 == 0:  # The control: a later pin tells the same two worlds apart.
                later = []
                for side, base, records in ((sides[0], one, first), (sides[1], two, second)):
                    side.show(records, late)
                    later.append(everything(base, _issue(side, f"v{seed}", late, False), t))
                different += sum(x != y for x, y in zip(*later, strict=True))
    assert different > min(PAIRS, 100) / 10, "the pairs hardly differ: the test would prove nothing"


def _issue(side: Side, user: str, t: Any, pinned: bool) -> str:
    now = NOW.now()
    text, _ = side.tokens.issue(user, None, now, now + timedelta(days=1), t if pinned else None)
    return text


def test_the_earlier_pin_counts(tmp_path: Path, sim: Path) -> None:
    """A token cannot look past its server's pin, nor an argument past either."""
    early, late = "2025-03-01T00:00:00Z", "2025-05-01T00:00:00Z"
    with served(tmp_path, "--archive", str(sim), "--as-of", early) as server:
        for pin, seen in ((early, early), (late, early), ("2025-02-01T00:00:00Z", None)):
            text = token(tmp_path, "--user", "ann", "--servers", "all", "--as-of", pin)
            answer = said(post(server.url, call("list_markets", {"limit": 1}), text))["result"]
            meta = json.loads(answer["content"][0]["text"])["_meta"]
            assert meta["as_of"] == (seen or pin)
            later = said(post(server.url, call("list_markets", {"as_of": late}), text))["result"]
            assert later["isError"] is True
            assert "only be narrowed" in later["content"][0]["text"]
            clock = call("run_code", {"code": "import datetime\nprint(datetime.datetime.now())"})
            ran = said(post(server.url, clock, text))["result"]
            assert ran["structuredContent"]["output"].startswith((seen or pin)[:10])


@pytest.mark.parametrize("unpinned", [False, True])
def test_the_guard_taken_out(tmp_path: Path, unpinned: bool) -> None:
    """Without the pin the same messages do tell the worlds apart."""
    sides = [Side(tmp_path / name) for name in ("a", "b")]
    first, second, t = pair(130_004)
    with listening(sides[0]) as one, listening(sides[1]) as two:
        answers = []
        for side, base, records in ((sides[0], one, first), (sides[1], two, second)):
            side.show(records, None if unpinned else t)
            answers.append(everything(base, _issue(side, "u", t, False), t))
    assert (answers[0] != answers[1]) is unpinned
    *_, (_, last) = answers[0]
    ran = said_in(last)["output"]
    assert len(ran.splitlines()) == 4
    assert ("'data_points'" in ran) is unpinned, "the code does see the world"


def said_in(body: bytes) -> Any:
    """What run_code answered."""
    return json.loads(json.loads(body)["result"]["content"][0]["text"])
