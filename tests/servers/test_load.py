"""Many clients at once, and a restart in the middle: no error, no lost answer, quotas exact.

Four clients for a moment; `make chaos` runs sixty-four for a minute.
"""

import asyncio
import json
import random
import signal
import socket
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import httpx2
from serving import HEADERS, Served, call, served

from beforehand.clock import SystemClock
from beforehand.config import Home, Workspace
from beforehand.serve.auth import open_tokens
from proofs import FULL, count

CLIENTS, SECONDS = count("MCP clients at once", 4, 64), 60.0 if FULL else 1.5
SEARCHES, RUNS = 20, 10
PATIENCE_S = 60.0
"""On a slow machine the clients go on for so long, until one of them has reached a quota."""


class Load:
    """What the clients saw."""

    def __init__(self, url: str) -> None:
        self.url, self.end = url, time.monotonic() + SECONDS
        self.answers: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.repeated = 0
        self.wrong: list[str] = []

    async def client(self, user: str, text: str, seed: int) -> None:
        chosen, number = random.Random(seed), 0
        headers = {**HEADERS, "authorization": f"Bearer {text}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            while self.goes_on():
                number += 1
                market = f"m{chosen.randint(1, 60):04d}"
                name, arguments = chosen.choice(
                    [
                        ("get_market", {"id": market}),
                        ("get_price_history", {"id": market, "limit": 20}),
                        ("list_markets", {"limit": 5}),
                        ("explain_operators", {}),
                        ("search_web", {"query": "harbour index"}),
                        ("execute-python-code", {"code": f"print({number})"}),
                    ]
                )
                found = await self.ask(http, call(name, arguments, number))
                self.check(user, name, found, number, market)

    def goes_on(self) -> bool:
        left = self.end - time.monotonic()
        return left > 0 or (not self.refused and left > -PATIENCE_S)

    async def ask(self, http: httpx2.AsyncClient, body: dict[str, object]) -> dict[str, object]:
        """The answer; while the server is being restarted the same is asked again."""
        while True:
            try:
                answer = await http.post(self.url, content=json.dumps(body))
            except httpx2.TransportError:
                self.repeated += 1
                await asyncio.sleep(0.1)
                continue
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

    def check(
        self, user: str, name: str, found: dict[str, object], number: int, market: str
    ) -> None:
        self.answers[name] += 1
        result = found.get("result")
        if found.get("id") != number or not isinstance(result, dict):
            self.wrong.append(f"{name}: {found}")
            return
        text = result["content"][0]["text"]
        if name in ("search_web", "execute-python-code"):
            kind = result.get("_meta", {}).get("beforehand/error", {}).get("kind")
            if kind == "RateLimited":
                self.refused[f"{user} {name}"] += 1
                return
            self.taken[f"{user} {name}"] += 1
            if name == "execute-python-code" and json.loads(text)["output"] != f"{number}\n":
                self.wrong.append(text)
        elif result["isError"]:
            self.wrong.append(text)
        elif name.startswith("get_") and json.loads(text)["market_id"] != market:
            self.wrong.append(f"{market}: {text[:100]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_many_clients_and_a_restart(tmp_path: Path, sim: Path) -> None:
    now, port = SystemClock().now(), free_port()
    with open_tokens(Workspace(Home(tmp_path))) as tokens:
        issued = {
            f"user{i}": tokens.issue(f"user{i}", None, now, now + timedelta(hours=1))[0]
            for i in range(CLIENTS)
        }
    arguments = ("--archive", str(sim))

    async def drive(first: Served) -> Load:
        load = Load(first.url)
        tasks = [
            asyncio.create_task(load.client(user, text, i))
            for i, (user, text) in enumerate(issued.items())
        ]
        await asyncio.sleep(SECONDS / 2)
        assert await asyncio.to_thread(first.stop, signal.SIGTERM) == 0
        with served(tmp_path, *arguments, port=port) as second:
            await asyncio.gather(*tasks)
            assert not any("Traceback" in line for line in second.said)
        return load

    with served(tmp_path, *arguments, port=port) as first:
        load = asyncio.run(drive(first))
        assert not any("Traceback" in line for line in first.said)
    total = sum(load.answers.values())
    print(f"{total:,} answers to {CLIENTS} clients in {SECONDS:g} s, {load.repeated} asked again")
    assert not load.wrong, load.wrong[:3]
    assert total > CLIENTS * SECONDS
    for user in issued:
        for name, most in (("search_web", SEARCHES), ("execute-python-code", RUNS)):
            tried = load.taken[f"{user} {name}"] + load.refused[f"{user} {name}"]
            assert load.taken[f"{user} {name}"] == min(tried, most), (user, name, tried)
    assert load.refused, "nobody reached a quota: the test would prove nothing"
