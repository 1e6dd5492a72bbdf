"""The API over HTTP, against what it could at best be: `python bench/api.py`.

All servers are in one process on loopback and are asked in turn by one client that keeps its
connection; medians of wall time, ratios within one run.

    series      10,000 prices: goal at most 1.3 times bytes that were compressed before, where it
                was asked before; at least 15 times faster than FastAPI's typed models
    thinned     the same, thinned to 1,000 points for a chart (its bytes, and their share)
    first page  of a run with 30,000 intervals (JSONL) and of one with 290,000 (columns), against
                one with 300: goal at most 1.5; and what the page of such a run begins with
"""

import argparse
import asyncio
import gzip
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount

from beforehand.clock import SystemClock, iso_us, parse_instant, to_us
from beforehand.config import Home, Workspace
from beforehand.gateway.opening import connect
from beforehand.records.world import Market, PricePoint
from beforehand.serve.api.app import build
from beforehand.serve.api.base import Api, Worlds
from beforehand.serve.auth import Visitor, open_quotas
from beforehand.serve.backend import Backend
from beforehand.serve.connections import Limits
from beforehand.serve.starter import Starter
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.tools.storage import Storage
from large import made

POINTS, CALLS = 10_000, 60
START = parse_instant("2025-01-01T00:00:00Z")


class Point(BaseModel):
    """A price as typed models have it."""

    observed_at: str
    known_at: str
    price: float
    bid: float | None
    ask: float | None
    volume: float | None


def world(home: Path) -> None:
    """A market with many prices."""
    rng = np.random.default_rng(0)
    prices = np.clip(0.5 + np.cumsum(rng.normal(0, 0.004, POINTS)), 0.02, 0.98)
    times = [START + timedelta(minutes=20 * i) for i in range(POINTS)]
    records: list[Any] = [
        Market(id="SIMEX:m1", venue="SIMEX", native_id="m1", question="Will it?", known_at=START)
    ]
    records += [
        PricePoint(
            market_id="SIMEX:m1", price=round(float(p), 4), observed_at=at, known_at=at, bid=None,
            ask=None, volume=float(i),
        )
        for i, (p, at) in enumerate(zip(prices, times, strict=True))
    ]  # fmt: skip
    ArchiveWriter(home / "data" / "archive").add(
        records, importer="bench", source="bench", source_digest="bench", recorded_at=START
    )


def runs(home: Path) -> None:
    """Two runs, one a hundred times as long as the other, of the same rows; and a large one."""
    from beforehand.cli.app import run as cli

    os.environ["BEFOREHAND_HOME"] = str(home)
    small, large, few = home / "data" / "sim", home / "data" / "large", home / "markets.jsonl"
    with few.open("wb") as lines:
        lines.writelines(orjson.dumps(market) + b"\n" for market in made(10_000))
    quick = ["backtest", "run", "--draws", "100", "--placebo", "0"]
    for command in (
        ["world", "simulate", "--dates", "24", "--archive", str(small)],
        [*quick, "--archive", str(small), "--every", "28d", "--run-id", "short"],
        ["world", "import", "markets", str(few), "--archive", str(large)],
        [*quick, "--archive", str(large), "--every", "7d", "--run-id", "large"],
    ):
        with redirect_stdout(StringIO()):
            assert cli(command) in (0, 3), command
    short = home / "data" / "runs" / "short"
    long = short.with_name("long")
    shutil.copytree(short, long)
    lines = (short / "intervals.jsonl").read_bytes().splitlines(keepends=True)[:300]
    (short / "intervals.jsonl").write_bytes(b"".join(lines))
    (long / "intervals.jsonl").write_bytes(b"".join(lines * (30_000 // len(lines))))
    facts = orjson.loads((long / "run.json").read_bytes())
    (long / "run.json").write_bytes(orjson.dumps({**facts, "run_id": "long"}))


def application(home: Path) -> Starlette:
    """The API, prebuilt bytes, and typed models, in one application."""
    workspace = Workspace(Home(home), clock=SystemClock())
    path, limits = home / "data" / "archive", Limits(rate=1e6)
    backend = Backend(
        connect(workspace, "replay", path), Storage(workspace.home), open_quotas(workspace),
        lambda text: None, Visitor(),
    )  # fmt: skip
    starter = Starter(workspace, lambda text: None)
    api = Api(workspace, backend, Worlds(workspace), limits, True, False, starter)
    series = api.worlds.open("archive").gateway().full_view().series("SIMEX:m1")
    columns = {
        "observed_at": series.observed_at, "known_at": series.known_at, "price": series.price,
        "bid": series.bid, "ask": series.ask, "volume": series.volume,
    }  # fmt: skip
    columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    packed = gzip.compress(orjson.dumps(columns, option=orjson.OPT_SERIALIZE_NUMPY), 6)
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    other = FastAPI()

    @other.get("/prebuilt")
    def prebuilt() -> Response:
        return Response(packed, headers=headers)

    @other.get("/typed", response_model=list[Point])
    def typed() -> list[Point]:
        return [
            Point(
                observed_at=iso_us(int(series.observed_at[i])),
                known_at=iso_us(int(series.known_at[i])),
                price=float(series.price[i]),
                bid=None,
                ask=None,
                volume=float(series.volume[i]),
            )
            for i in range(len(series))
        ]  # fmt: skip

    return Starlette(
        routes=[Mount("/floor", other), Mount("/", build(api, None, lambda text: None))]
    )


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The application on loopback, in a thread of this process."""
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


def timed(ask: Callable[[], httpx2.Response]) -> tuple[float, list[float]]:
    """Median and all durations, in milliseconds."""
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        answer = ask()
        took.append(1000 * (time.perf_counter() - began))
        assert answer.status_code == 200, answer.text
    return median(took), sorted(took)


def main() -> None:
    """Print the figures. The process ends at once: threads of its servers may still wait."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    folder, code = tempfile.mkdtemp(prefix="bench-api-"), 1
    try:
        measure(Path(folder))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sys.stdout.flush()
        os._exit(code)


def measure(home: Path) -> None:
    """Print the figures of a home that is made here."""
    world(home)
    runs(home)
    with served(application(home)) as base, httpx2.Client(timeout=120) as client:
        path = f"{base}/api/archives/archive/series/SIMEX:m1"
        began = time.perf_counter()
        client.get(path, params={"points": 100_000})
        first = 1000 * (time.perf_counter() - began)
        found = []
        for _ in range(3):  # In turn, because a machine's speed drifts.
            floor, _ = timed(lambda: client.get(f"{base}/floor/prebuilt"))
            ours, every = timed(lambda: client.get(path, params={"points": 100_000}))
            found.append((ours / floor, ours, floor, every))
        _, ours, floor, every = sorted(found)[1]
        typed, _ = timed(lambda: client.get(f"{base}/floor/typed"))
        print(
            f"series, {POINTS:,} prices: {ours:.2f} ms ({ours / floor:.2f} of prebuilt gzip "
            f"[1.3]; {typed / ours:.0f} times as fast as typed models [15]); p99 "
            f"{every[int(len(every) * 0.99)]:.2f} ms; made anew {first:.1f} ms"
        )
        number = [0]

        def thin() -> httpx2.Response:
            number[0] += 1
            mark = iso_us(to_us(START) + number[0] * 1_000_000)
            return client.get(path, params={"points": 1000, "keep": mark})

        fresh, _ = timed(thin)
        whole = len(client.get(path, params={"points": 100_000}).content)
        few = len(thin().content)
        print(
            f"thinned to 1,000 by LTTB: {fresh:.2f} ms made anew, {few:,} bytes "
            f"({few / whole:.0%} of all)"
        )
        pages, shown = dict[str, float](), dict[str, float]()
        for name in ("short", "long", "large"):
            where = f"{base}/api/runs/{name}/intervals"
            limits = iter(range(20, 20 + CALLS))
            pages[name], _ = timed(
                lambda w=where, n=limits: client.get(w, params={"limit": next(n)})  # type: ignore[misc]
            )
        for name in ("short", "large"):
            shown[name], _ = timed(lambda r=name: client.get(f"{base}/api/runs/{r}"))  # type: ignore[misc]
        for name, n in (("long", "30,000"), ("large", "290,000")):
            print(
                f"first page of {n} intervals: {pages[name]:.2f} ms "
                f"({pages[name] / pages['short']:.2f} of one of 300 [1.5])"
            )
        print(
            f"a run of 290,000 intervals, whole: {shown['large']:.2f} ms "
            f"({shown['large'] / shown['short']:.2f} of one of 300 [1.5])"
        )


if __name__ == "__main__":
    main()
