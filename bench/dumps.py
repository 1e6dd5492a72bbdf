"""A dump of twenty million trades stored as hourly prices, against DuckDB's own reading and sorting
of the same file in the same run. Goal: at most twice that, in at most 2 GB.

Each of the two runs in a process of its own, so that its memory can be told.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

N, MARKETS, DAYS, GOAL, MOST_GB = 20_000_000, 5_000, 90, 2.0, 2.0
MADE = f"""COPY (SELECT CAST(i AS VARCHAR) AS trade_id, 'KXM-' || CAST(hash(i) % {MARKETS} AS INT)
    AS ticker, CAST(1 + hash(i + 1) % 50 AS INTEGER) AS "count",
    CAST(1 + hash(i + 2) % 99 AS INTEGER) AS yes_price,
    CAST(99 - hash(i + 2) % 99 AS INTEGER) AS no_price, 'yes' AS taker_side,
    TIMESTAMP '2025-01-01' + to_microseconds(CAST(hash(i + 3) % {DAYS * 86_400_000_000} AS BIGINT))
    AS created_time FROM range({N}) r(i)) TO '$PATH' (FORMAT parquet)"""


def floor(path: str) -> None:
    """Read and sort."""
    with duckdb.connect() as db:
        db.execute("SET memory_limit = '1500MB'")
        db.execute(
            'CREATE TEMP TABLE kept AS SELECT ticker, created_time, yes_price, "count" '
            f"FROM '{path}' ORDER BY ticker, created_time"
        )


def ours(path: str) -> None:
    """Store it."""
    from beforehand.clock import SystemClock
    from beforehand.world.importers.dumps import store_dump

    store_dump([Path(path)], Path(path).parent / "archive", SystemClock())


def timed(what: str, path: Path) -> tuple[float, float]:
    """Wall seconds and GB at most."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, what, str(path)], capture_output=True, text=True, check=True
    )
    return time.perf_counter() - began, float(done.stdout)


def main() -> None:
    """One line."""
    if len(sys.argv) > 1:
        {"floor": floor, "ours": ours}[sys.argv[1]](sys.argv[2])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trades.parquet"
        with duckdb.connect() as db:
            db.execute(MADE.replace("$PATH", str(path)))
        least, _ = timed("floor", path)
        took, memory = timed("ours", path)
    print(
        f"{N:,} trades of {MARKETS:,} markets: {took:.1f} s, DuckDB's reading and sorting "
        f"{least:.1f} s: {took / least:.2f} of it [{GOAL:g}]; {memory:.2f} GB [{MOST_GB:g}]"
    )


if __name__ == "__main__":
    main()
