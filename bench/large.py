"""A made world of ten thousand markets with two hundred prices each, walked weekly by every
baseline: `python bench/large.py [MARKETS] [PYTHON]`. Every command runs in a process of its own, so
that its memory can be told; seconds are set against parsing the same file with orjson in the same
run. With PYTHON, that of another checkout, its import and run are measured beside ours.

    import  against parsing and writing the same data as Parquet (pyarrow): goal at most 3
    run     against parsing: goal at most 62, of which 25 are the marks of every price, on which
            verdicts stand; 700 MB, 100 MB of disk
    verify, export    seconds; of `export` also the bytes
    odds    the first price of an opened archive: goal 50 ms
"""

import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow
from pyarrow import parquet

PRICES, DAY = 200, timedelta(days=1)
IMPORT = ("world", "import", "markets")
WALK = ("backtest", "run", "--every", "7d", "--run-id", "large")
EXPORT = ("runs", "export", "large", "--format", "intervals")
ODDS = """
import sys, time
import beforehand as bh
began = time.perf_counter()
world = bh.open_world(sys.argv[1])
opened = time.perf_counter()
world.at("2024-12-01T00:00:00Z").odds("MANIFOLD:m5")
print(opened - began, time.perf_counter() - opened)
"""


def made(n: int) -> Iterator[dict[str, object]]:
    """Markets as `world import markets` reads them."""
    rng, start = random.Random(1), datetime(2024, 1, 1, tzinfo=UTC)
    for i in range(n):
        first = start + timedelta(days=rng.randrange(300), seconds=rng.randrange(86_400))
        x, history = rng.gauss(0, 1), []
        for k in range(PRICES):
            x += rng.gauss(0, 0.12)
            day = datetime.combine((first + k * DAY).date(), datetime.min.time(), UTC)
            known = int((day + DAY).timestamp()) + rng.randrange(3600)
            history.append([day.date().isoformat(), round(1 / (1 + math.exp(-x)), 4), known])
        end = first + (PRICES + 3) * DAY
        about = " ".join(f"w{rng.randrange(5000)}" for _ in range(40))
        yield {
            "source": "manifold",
            "id": f"m{i}",
            "question": f"Will subject {rng.randrange(10**9)} of kind {i} reach "
            f"{rng.randrange(1000)} before its day?",
            "background": f"A made question about {about}.",
            "open_datetime": first.isoformat(),
            "close_datetime": end.isoformat(),
            "rounds": [(first + DAY).date().isoformat()],
            "history": history,
            "resolution": {
                "outcome": float(rng.random() < history[-1][1]),
                "date": end.date().isoformat(),
                "first_published": int(end.timestamp()) + 7200,
            },
        }


def floors(path: Path) -> tuple[float, float]:
    """Seconds of parsing with orjson, and of parsing and writing the same data as columns: Parquet
    by pyarrow, packed by zstd, a table of the prices and one of the markets. Parsing alone keeps no
    row: Python would spend more time on looking for cycles in them than on parsing."""
    parsing = list[float]()
    for _ in range(3):  # It is short, so that one alone says little.
        began = time.perf_counter()
        with path.open("rb") as lines:
            for line in lines:
                orjson.loads(line)
        parsing.append(time.perf_counter() - began)
    parsed = sorted(parsing)[1]
    began = time.perf_counter()
    of, days, prices, times = array("i"), list[str](), array("d"), array("q")
    markets = list[tuple[object, ...]]()
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            row = orjson.loads(line)
            history, ending = row.pop("history"), row.pop("resolution")
            of.extend([number] * len(history))
            days.extend([day for day, _, _ in history])
            prices.extend([p for _, p, _ in history])
            times.extend([known for _, _, known in history])
            markets.append((*row.values(), *ending.values()))
    names = (*row, *ending)
    columns = {"market": np.frombuffer(of, np.int32), "day": days}
    columns |= {"price": np.frombuffer(prices), "known_at": np.frombuffer(times, np.int64)}
    told = dict(zip(names, map(list, zip(*markets, strict=True)), strict=True))
    for kind, table in (("prices", columns), ("markets", told)):
        parquet.write_table(pyarrow.table(table), path.with_suffix(f".{kind}"), compression="zstd")
    return parsed, time.perf_counter() - began


def beside_it(pid: int, found: list[float]) -> None:
    """The MB at most of the processes that a process starts, until it ends."""
    while Path(f"/proc/{pid}").exists():
        for path in Path("/proc").glob("[0-9]*/status"):
            try:
                told = dict(line.split(":\t", 1) for line in path.read_text().splitlines())
            except OSError:
                continue  # It has ended.
            if told.get("PPid") == str(pid) and "VmHWM" in told:
                found.append(int(told["VmHWM"].split()[0]) / 1000)
        time.sleep(0.1)


def run(home: Path, *arguments: str, python: str = sys.executable) -> tuple[float, float]:
    """Wall seconds of a command, and MB at most of its processes, the second one added."""
    began, others = time.perf_counter(), [0.0]
    process = subprocess.Popen(
        [python, "-m", "beforehand", *arguments],
        env=os.environ | {"BEFOREHAND_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    watch = threading.Thread(target=beside_it, args=(process.pid, others))
    watch.start()
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    watch.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 3), f"{arguments} ended with {process.returncode}"
    return took, used.ru_maxrss / 1000 + max(others)


def output(*arguments: str) -> str:
    """What a Python process prints."""
    order = [sys.executable, *arguments]
    return subprocess.run(order, capture_output=True, text=True, check=True).stdout


def size(folder: Path) -> float:
    """MB of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def beside(home: Path, path: Path, python: str, ours: float) -> None:
    """The same import and run by another checkout."""
    imported, memory = run(home, *IMPORT, str(path), python=python)
    print(f"beside  import {imported:.1f} s, {memory:.0f} MB")
    before = size(home)
    took, memory = run(home, *WALK, python=python)
    print(
        f"beside  run {took:.1f} s, {memory:.0f} MB, {size(home) - before:.0f} MB of disk: "
        f"{took / ours:.1f} times ours [8]"
    )


def main() -> None:
    """One line a measurement."""
    if sys.argv[1:2] == ["floors"]:
        print(*floors(Path(sys.argv[2])))
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        home, path = Path(folder), Path(folder) / "markets.jsonl"
        with path.open("wb") as out:
            out.writelines(orjson.dumps(row) + b"\n" for row in made(n))
        # In a process of its own: a child's peak of memory begins at its parent's.
        parsed, columns = map(float, output(__file__, "floors", str(path)).split())
        print(f"{n:,} markets, {path.stat().st_size / 1e6:.0f} MB; parsing {parsed:.2f} s")
        took, memory = run(home, *IMPORT, str(path))
        archive = home / "data" / "archive"
        print(
            f"import  {took:.1f} s, {took / columns:.1f} of parsing and columns [3]; "
            f"{memory:.0f} MB, {size(archive):.0f} MB of disk"
        )
        before = size(home)
        took, memory = run(home, *WALK)
        print(
            f"run     {took:.1f} s, {took / parsed:.0f} of parsing [62]; {memory:.0f} MB [700], "
            f"{size(home) - before:.0f} MB of disk [100]"
        )
        for other in sys.argv[2:]:
            beside(home / "beside", path, other, took)
        took, memory = run(home, "runs", "verify", "large")
        print(f"verify  {took:.1f} s, {took / parsed:.0f} of parsing; {memory:.0f} MB")
        out = home / "intervals.jsonl"
        took, memory = run(home, *EXPORT, "--out", str(out))
        print(f"export  {took:.1f} s, {out.stat().st_size / 1e6:.0f} MB written; {memory:.0f} MB")
        opened, odds = map(float, output("-c", ODDS, str(archive)).split())
        print(f"odds    {1000 * odds:.0f} ms [50], after {1000 * opened:.0f} ms of opening")


if __name__ == "__main__":
    main()
