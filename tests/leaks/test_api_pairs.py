"""Noninterference over the API: of two worlds that share what was known by t, every GET with `t`
gives the same bytes and the same headers."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from serving import HTTP
from worlds import START, pair

from beforehand.clock import FrozenClock, iso
from beforehand.config import Home, Workspace
from beforehand.gateway.opening import connect
from beforehand.serve.api.app import build
from beforehand.serve.api.base import Api, Worlds
from beforehand.serve.auth import Visitor, open_quotas
from beforehand.serve.backend import Backend
from beforehand.serve.connections import Connections, Limits
from beforehand.serve.http import application, listen
from beforehand.serve.starter import Starter
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.tools.storage import Storage
from proofs import count

NOW = FrozenClock(START + timedelta(days=9))
PAIRS = count("pairs of worlds through the API", 6, 200)
LIMITS = Limits(rate=100_000.0)


@contextmanager
def listening(home: Path, pinned: Any) -> Iterator[str]:
    """The API over the archive `w` of a home, pinned or not."""
    workspace = Workspace(Home(home), clock=NOW)
    path = home / "data" / "w"
    connection = connect(workspace, "replay", path)
    backend = Backend(
        connection,
        Storage(workspace.home),
        open_quotas(workspace),
        lambda text: None,
        Visitor(),
        pinned,
    )
    starter = Starter(workspace, lambda text: None)
    api = Api(workspace, backend, Worlds(workspace, path), LIMITS, True, False, starter)
    with listen("127.0.0.1", 0) as sock:
        app = application(backend, "all", None, LIMITS, build(api, None, lambda text: None))
        config = uvicorn.Config(
            app, http=Connections(LIMITS).protocol(), log_level="warning", access_log=False,
            date_header=False, server_header=False,
        )  # fmt: skip
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
            backend.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def asked(base: str, t: str) -> list[tuple[str, dict[str, str]]]:
    """Every GET of the OpenAPI document that takes `t`, with what there may be and what not."""
    document = httpx2.get(f"{base}/api/openapi.json").json()
    found: list[tuple[str, dict[str, str]]] = []
    for path, operations in document["paths"].items():
        names = {one["name"] for one in operations.get("get", {}).get("parameters", ())}
        if "t" not in names:
            continue
        ids = {
            "market_id": ["POLYMARKET:m0", "m1", "KALSHI:m2", "nope"],
            "event_id": ["e0", "nope"],
            "document_id": ["d0", "d1", "nope"],
        }
        places = [name for name in ids if "{" + name + "}" in path]
        for value in ids[places[0]] if places else [""]:
            filled = path.replace("{archive}", "w")
            filled = filled.replace("{" + places[0] + "}", value) if places else filled
            found.append((filled, {"t": t}))
            if "q" in names:
                found += [(filled, {"t": t, "q": word}) for word in ("ferry", "harvest", "will")]
            if "limit" in names:
                found.append((filled, {"t": t, "limit": "2"}))
            if "sort" in names:
                found.append((filled, {"t": t, "sort": "price", "descending": "true"}))
            if "format" in names:
                found += [(filled, {"t": t, "format": kind}) for kind in ("csv", "arrow")]
            if "points" in names:
                found.append((filled, {"t": t, "points": "10"}))
    return found


def everything(base: str, t: str, as_of: str = "") -> list[Any]:
    """(status, headers, body) of every answer, pages after the first one included."""
    answers: list[Any] = []
    with httpx2.Client(timeout=60) as client:
        for path, params in asked(base, t):
            cursor: dict[str, str] = {}
            for _ in range(50):
                answer = client.get(base + path, params={**params, **cursor})
                headers = sorted((k, v) for k, v in answer.headers.items())
                answers.append((path, params, answer.status_code, headers, answer.content))
                if "limit" not in params or answer.status_code != 200:
                    break
                if not (found := answer.json()["next"]):
                    break
                cursor = {"cursor": found}
        for name in ("list_markets", "get_market", "search"):
            given = {"get_market": {"id": "POLYMARKET:m0"}, "search": {"query": "ferry"}}
            body = {**given.get(name, {}), "as_of": t}
            answer = client.post(f"{base}/api/tools/{name}", json=body)
            answers.append((name, body, answer.status_code, [], answer.content))
    return answers


def _homes(root: Path, seed: int) -> tuple[list[Path], Any]:
    first, second, t = pair(seed)
    homes = []
    for name, records in (("a", first), ("b", second)):
        home = root / f"{name}{seed}"
        ArchiveWriter(home / "data" / "w").add(
            records, importer="test", source="test", source_digest="test", recorded_at=NOW.now()
        )
        homes.append(home)
    return homes, t


def _both(homes: list[Path], at: str, pinned: Any) -> list[Any]:
    found = []
    for home in homes:
        with listening(home, pinned) as base:
            found.append(everything(base, at))
    return found


def test_every_get_with_t_is_the_same_in_both_worlds(tmp_path: Path) -> None:
    different = asked_in_all = 0
    for seed in range(PAIRS):
        homes, t = _homes(tmp_path, 170_000 + seed)
        one, two = _both(homes, iso(t), t if seed % 2 else None)
        assert one == two, next((x, y) for x, y in zip(one, two, strict=False) if x != y)
        asked_in_all += len(one)
        if seed % 6 == 0:  # The control: at a later instant the same two worlds differ.
            one, two = _both(homes, iso(START + timedelta(days=2)), None)
            different += sum(x != y for x, y in zip(one, two, strict=False)) + abs(
                len(one) - len(two)
            )
    assert asked_in_all > PAIRS * 30
    assert different > PAIRS / 12, "the pairs hardly differ: the test would prove nothing"


def test_a_pinned_server_shows_nothing_later(tmp_path: Path) -> None:
    """What tells of later times (runs, an archive's counts) is refused, and a later t as well."""
    homes, t = _homes(tmp_path, 170_000)
    with listening(homes[0], t) as base:
        document = httpx2.get(f"{base}/api/openapi.json").json()
        refused = []
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if path.startswith(("/api/runs", "/api/comparisons", "/api/bus", "/api/agents")):
                    filled = (
                        path.replace("{run_id}", "latest")
                        .replace("{agent}", "x")
                        .replace("{name}", "x")
                    )
                    params = {
                        "a": "x",
                        "b": "y",
                        "bin": 0,
                        "market_id": "m",
                        "time": "2025-01-01",
                        "other": "x",
                    }
                    taken = {one["name"] for one in operation.get("parameters", ())}
                    params = {name: value for name, value in params.items() if name in taken}
                    answer = HTTP.request(method, base + filled, params=params, json={"at": "2025-01-01", "models": ["a=b"]} if method == "post" else None)  # fmt: skip
                    refused.append((path, answer.status_code))
        assert refused
        assert {status for _, status in refused} == {403}, refused
        assert httpx2.get(f"{base}/api/archives").status_code == 403
        later = httpx2.get(
            f"{base}/api/archives/w/markets", params={"t": iso(t + timedelta(seconds=1))}
        )
        assert later.status_code == 422
        assert later.json()["error"] == "cutoff_violation"
        assert httpx2.get(f"{base}/api/archives/w/markets", params={"t": iso(t)}).status_code == 200
