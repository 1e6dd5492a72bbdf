"""Dumps of twenty million trades stored as hourly prices, against DuckDB's own reading and sorting
of the same files in the same run (those of Polymarket are joined with their blocks' times on the
way). Goal: at most twice that, in at most 2 GB.

Each run has a process of its own, so that its memory can be told.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

N, MARKETS, DAYS, GOAL, MOST_GB = 20_000_000, 5_000, 90, 2.0, 2.0
BLOCKS = DAYS * 43_200
KALSHI = {
    "trades": f"""SELECT CAST(i AS VARCHAR) AS trade_id,
    'KXM-' || CAST(hash(i) % {MARKETS} AS INT) AS ticker,
    CAST(1 + hash(i + 1) % 50 AS INTEGER) AS "count",
    CAST(1 + hash(i + 2) % 99 AS INTEGER) AS yes_price,
    CAST(99 - hash(i + 2) % 99 AS INTEGER) AS no_price, 'yes' AS taker_side,
    TIMESTAMP '2025-01-01' + to_microseconds(CAST(hash(i + 3) % {DAYS * 86_400_000_000} AS BIGINT))
    AS created_time FROM range({N}) r(i)"""
}
POLYMARKET = {
    "trades": f"""SELECT CAST(hash(i + 3) % {BLOCKS} AS BIGINT) AS block_number,
    CAST(i AS BIGINT) AS log_index, '0xabc' AS maker, '0xdef' AS taker, '0' AS maker_asset_id,
    't' || hash(i) % {MARKETS} || CASE WHEN hash(i + 1) % 2 = 0 THEN 'a' ELSE 'b' END
    AS taker_asset_id, CAST(1 + hash(i + 2) % 99 AS BIGINT) * 10000 AS maker_amount,
    CAST(1000000 AS BIGINT) AS taker_amount FROM range({N}) r(i)""",
    "blocks": f"""SELECT b AS block_number,
    strftime(TIMESTAMP '2025-01-01' + to_seconds(2 * b), '%Y-%m-%dT%H:%M:%SZ') AS "timestamp"
    FROM range({BLOCKS}) r(b)""",
    "markets": f"""SELECT 'c' || m AS condition_id, ['Yes', 'No'] AS outcomes,
    ['t' || m || 'a', 't' || m || 'b'] AS clob_token_ids, 'Will it?' AS question
    FROM range({MARKETS}) r(m)""",
}
DUMPS = {"Kalshi": KALSHI, "Polymarket": POLYMARKET}
FLOORS = {
    "Kalshi": "SELECT ticker, created_time, yes_price, \"count\" FROM '$DIR/trades.parquet' "
    "ORDER BY ticker, created_time",
    "Polymarket": "SELECT token, t, p, size FROM (SELECT block_number, taker_asset_id AS token, "
    "maker_amount / taker_amount AS p, taker_amount / 1e6 AS size FROM '$DIR/trades.parquet') "
    'JOIN (SELECT block_number, epoch_us(CAST("timestamp" AS TIMESTAMPTZ)) AS t '
    "FROM '$DIR/blocks.parquet') USING (block_number) ORDER BY token, t",
}


def floor(venue: str, folder: Path) -> None:
    """Read and sort."""
    with duckdb.connect() as db:
        db.execute("SET memory_limit = '1500MB'")
        db.execute(f"CREATE TEMP TABLE kept AS {FLOORS[venue].replace('$DIR', str(folder))}")


def ours(_: str, folder: Path) -> None:
    """Store it."""
    from beforehand.clock import SystemClock
    from beforehand.world.importers.dumps import store_dump

    store_dump([folder], folder / "archive", SystemClock())


def timed(what: str, venue: str, folder: Path) -> tuple[float, float]:
    """Wall seconds and GB at most."""
    began = time.perf_counter()
    command = [sys.executable, __file__, what, venue, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, float(done.stdout)


def measure(venue: str) -> None:
    """One line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect() as db:
            for table, sql in DUMPS[venue].items():
                db.execute(f"COPY ({sql}) TO '{folder / table}.parquet' (FORMAT parquet)")
        least, _ = timed("floor", venue, folder)
        took, memory = timed("ours", venue, folder)
    print(
        f"{venue}, {N:,} trades of {MARKETS:,} markets: {took:.1f} s, DuckDB's reading and sorting "
        f"{least:.1f} s: {took / least:.2f} of it [{GOAL:g}]; {memory:.2f} GB [{MOST_GB:g}]",
        flush=True,
    )


def main() -> None:
    """One line for each venue."""
    if len(sys.argv) > 1:
        what, venue, folder = sys.argv[1:]
        {"floor": floor, "ours": ours}[what](venue, Path(folder))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        return
    for venue in DUMPS:
        measure(venue)


if __name__ == "__main__":
    main()
