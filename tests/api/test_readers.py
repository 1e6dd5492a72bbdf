"""Many clients at once over reads of every resource, and a restart in the middle: no wrong answer.

Four clients for a moment; `make chaos` runs sixty-four for a minute, and two hundred watchers.
"""

import asyncio
import random
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
from apiserver import Api, api
from test_watching import _free_port

from proofs import FULL, count

CLIENTS, SECONDS = count("readers of the API at once", 4, 64), 60.0 if FULL else 1.5


def _paths(served: Api) -> list[tuple[str, dict[str, Any]]]:
    """Reads of every resource, those that were asked for once and again."""
    document = served.json("/api/openapi.json")
    row = served.json("/api/runs/walk/intervals", limit=1)["items"][0]
    market, time_ = row["market_id"], row["time"]
    event = served.json("/api/archives/sim/events", limit=1)["items"][0]["id"]
    text = served.json("/api/archives/sim/documents", limit=1)["items"][0]["id"]
    log = served.json("/api/bus/documents-agent", folder="logs")["items"][0]["name"]
    params = {"market_id": market, "time": time_, "bin": 4, "forecaster": "drift", "a": "walk:drift",
              "b": "walk:market", "other": "benched", "draws": 200}  # fmt: skip
    found = []
    for path, operations in document["paths"].items():
        if "get" not in operations or path.endswith(("/events", "/verify", "/doctor")):
            continue
        names = {p["name"] for p in operations["get"].get("parameters", ()) if p["in"] == "query"}
        filled = path.replace("{archive}", "sim").replace("{run_id}", "walk").replace("{market_id}", market)  # fmt: skip
        filled = filled.replace("{event_id}", event).replace("{document_id}", text).replace("{agent}", "documents-agent")  # fmt: skip
        if "{name}" in filled:
            named = {
                "files": "scores.json",
                "tools": "get_market",
                "out": "000001.json",
                "logs": log,
            }
            filled = filled.replace("{name}", named[filled.split("/{name}")[0].rpartition("/")[2]])
        given = {name: value for name, value in params.items() if name in names}
        if "t" in names:
            given["t"] = time_
        found.append((filled, given))
    return found


class Load:
    """What the clients saw."""

    def __init__(self, url: str, expected: dict[str, tuple[int, bytes]]) -> None:
        self.url, self.expected, self.end = url, expected, time.monotonic() + SECONDS
        self.took: list[float] = []
        self.market: list[float] = []
        self.again = self.told_to_wait = 0
        self.wrong: list[str] = []
        self.seen = Counter[str]()

    async def client(self, paths: list[tuple[str, dict[str, Any]]], seed: int) -> None:
        chosen = random.Random(seed)
        async with httpx2.AsyncClient(timeout=60) as http:
            while time.monotonic() < self.end:
                path, params = chosen.choice(paths)
                began = time.monotonic()
                try:
                    answer = await http.get(self.url + path, params=params)
                except httpx2.TransportError:
                    self.again += 1
                    await asyncio.sleep(0.1)
                    continue
                took = time.monotonic() - began
                if answer.status_code == 503 and answer.headers["retry-after"]:
                    self.told_to_wait += 1
                    await asyncio.sleep(0.2)
                    continue
                self.took.append(took)
                self.seen[path] += 1
                if "/series/" in path or "/markets/" in path:
                    self.market.append(took)
                if (answer.status_code, answer.content) != self.expected[f"{path} {params}"]:
                    self.wrong.append(f"{path}: {answer.status_code} {answer.text[:200]}")


def test_many_readers_and_a_restart(made: Path) -> None:
    port = _free_port()
    options = ("--archive", "data/sim", "--rate", "100000")
    with api(made, *options, port=port) as served:
        paths = [p for p in _paths(served) if p[0] not in ("/api/workspace", "/api/tokens")]
        expected = {}
        for path, params in paths:
            answer = served.get(path, **params)
            assert answer.status_code in (200, 404), (path, params, answer.text)
            expected[f"{path} {params}"] = (answer.status_code, answer.content)
        assert sum(status == 404 for status, _ in expected.values()) <= 2, "nearly all are there"
        load = Load(served.url, expected)

        async def everyone() -> None:
            clients = [asyncio.create_task(load.client(paths, i)) for i in range(CLIENTS)]
            await asyncio.sleep(SECONDS / 2)
            await asyncio.to_thread(served.process.terminate)
            await asyncio.to_thread(served.process.wait)
            with api(made, *options, port=port) as second:
                await asyncio.gather(*clients)
                memory = _memory(second.process.pid)
            took = sorted(load.took)
            market = sorted(load.market)
            print(
                f"\n{len(took):,} reads of {len(load.seen)} paths by {CLIENTS} clients in {SECONDS:.0f} s, "
                f"{load.again} asked again, {load.told_to_wait} told to wait; p50 {1000 * took[len(took) // 2]:.1f} ms, p99 "
                f"{1000 * took[int(len(took) * 0.99)]:.1f} ms; a market's p50 "
                f"{1000 * market[len(market) // 2]:.1f}, p99 {1000 * market[int(len(market) * 0.99)]:.1f} ms; "
                f"server {memory} MB"
            )

        asyncio.run(everyone())
    assert not load.wrong, load.wrong[:5]
    assert len(load.took) > (20 if FULL else 2) * CLIENTS
    assert load.again, "the restart was felt"


def _memory(pid: int) -> int:
    """The most memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
