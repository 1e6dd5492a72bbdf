"""Public dumps of venues in Parquet: trades, quotes, order books and markets, read by DuckDB.

What a file holds is told by its columns:

    Kalshi trades        trade_id, ticker, count, yes_price, no_price (cents), created_time
    Kalshi markets       ticker, title, result, close_time, _fetched_at
    Polymarket trades    block_number, log_index, maker_asset_id, taker_asset_id, maker_amount,
                         taker_amount (six decimals; asset 0 is the dollar)
    Polymarket blocks    block_number, timestamp: the times of those trades
    Polymarket markets   condition_id, outcomes, clob_token_ids: whose those assets are
    order books          timestamp, market, event_type, asset_id, bids, asks, price, size, side
    trades, quotes       an id, a time, and a price, or bid and ask

Of the trades of a market one price is kept for each `every`: the last, at its own time, with the
volume of all. Nothing moves in time. What is known of a market later than it was true (its words,
its ending) is known when the dump was fetched.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import duckdb
import numpy as np
import numpy.typing as npt

from beforehand.clock import Clock, zone_of
from beforehand.errors import InputError
from beforehand.ids import digest, market_id
from beforehand.records.bulk import PriceSeriesRow
from beforehand.store.archive.manifest import Coverage
from beforehand.store.archive.writer import ArchiveWriter, ImportReport
from beforehand.store.files import file_digest
from beforehand.world.importers import books
from beforehand.world.importers.coverage import Times, Values, covered, micros
from beforehand.world.importers.dump_markets import records_of
from beforehand.world.importers.lines import Stored

Kind = Literal["kalshi_trades", "kalshi_markets", "trades", "blocks", "markets", "books", "plain"]
NEEDED: Mapping[Kind, frozenset[str]] = {
    "kalshi_trades": frozenset({"ticker", "yes_price", "count", "created_time"}),
    "kalshi_markets": frozenset({"ticker", "title", "result", "close_time", "_fetched_at"}),
    "trades": frozenset({"block_number", "log_index", "maker_asset_id", "taker_asset_id"}),
    "markets": frozenset({"condition_id", "outcomes", "clob_token_ids", "question"}),
    "books": frozenset({"timestamp", "market", "event_type", "asset_id", "bids", "asks"}),
    "blocks": frozenset({"block_number", "timestamp"}),
}
"""The columns by which a file is known, the most particular first."""
IDS = ("market_id", "market", "ticker", "condition_id", "symbol", "id")
TIMES = ("timestamp", "created_time", "time", "ts", "datetime")
SUMS = ("0x4bfb41d5b3570defd03c39a9a4d8de6bd8b8982e", "0xc5d563a36ae78145c45a50134d48a1215220f80a")
"""Polymarket's exchanges: a fill that one of them takes repeats what its makers' fills say."""
LEFT_OUT = "rows_not_taken"
"""Without a known market, a time or a possible price; or a fill that repeats others."""
MEMORY, MARKETS_AT_ONCE = "1200MB", 1000
Say = Callable[[str], None]
Files = Mapping[Kind, list[str]]
"""The files of a dump by what they hold; an empty list for what it does not have."""


@dataclass(frozen=True)
class Order:
    """How a dump is read: at most one price of a market for each `every`; a time of at least `gap`
    without any row of a venue is a gap; ids of plain files belong to `venue`; times that state no
    zone are of `timezone` (in the venues' own dumps UTC, if None)."""

    every: timedelta = timedelta(hours=1)
    gap: timedelta = timedelta(hours=1)
    venue: str = "LOCAL"
    timezone: str | None = None


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The Parquet files that are named, and those in the folders that are. Raises InputError where
    there are none."""
    found = list[Path]()
    for path in paths:
        # macOS puts a second file with the name ._NAME into archives.
        inside = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith("."))
        if path.is_dir() and not inside:
            raise InputError(f"{path} holds no Parquet file (*.parquet)")
        found += inside if path.is_dir() else [path]
    if not found:
        raise InputError("name the Parquet files of a dump, or a folder of them")
    for path in found:
        if not path.is_file():
            raise InputError(f"{path} is no file")
    return found


def store_dump(
    paths: Sequence[Path],
    target: Path,
    clock: Clock,
    order: Order = Order(),
    licence: str | None = None,
    say: Say = lambda _: None,
) -> ImportReport:
    """Store what a dump holds that is not there yet, as one import. Raises InputError for files
    that cannot be read, or that need another one of the dump."""
    if order.every < timedelta(seconds=1):
        raise InputError("--every: at least a second (1s)")
    if order.timezone is not None:
        zone_of(order.timezone, "--")
    files, notes, coverage = files_of(paths), dict[str, int](), list[Coverage]()
    with TemporaryDirectory() as spill, duckdb.connect(config=_settings(spill)) as db:
        db.execute("SET TimeZone = 'UTC'")
        try:
            kinds = _sorted(db, files)
            # Closed before the database is: a part may be read ahead.
            with closing(_records(db, kinds, order, notes, coverage, say)) as records:
                return ArchiveWriter(target).add(
                    records,
                    importer="dump",
                    source=", ".join(path.name for path in paths)[:300],
                    source_digest=digest(sorted(file_digest(path) for path in files)),
                    recorded_at=clock.now(),
                    notes=notes,
                    licence=licence,
                    coverage=coverage,
                )
        except RuntimeError as error:
            if str(error) == "Query interrupted":  # So DuckDB names Ctrl-C in a query.
                raise KeyboardInterrupt from None
            raise
        except duckdb.Error as error:
            said = str(error).splitlines()[0][:300]
            raise InputError(f"the dump cannot be read: {said}") from None


def _settings(spill: str) -> dict[str, str | bool | int | float | list[str]]:
    """What does not fit into memory goes to a folder of ours."""
    return {
        "preserve_insertion_order": False,
        "memory_limit": MEMORY,
        "temp_directory": spill,
    }


def _sorted(db: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> Files:
    found = defaultdict[Kind, list[str]](list)
    for path in files:
        try:
            rows = db.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
        except duckdb.Error as error:
            raise InputError(f"{path} is no Parquet file: {str(error).splitlines()[0]}") from None
        columns = {str(row[0]).lower() for row in rows}
        kind = next((kind for kind, needed in NEEDED.items() if needed <= columns), None)
        if kind is None:
            priced = "price" in columns or {"bid", "ask"} <= columns
            if not (columns & {*IDS} and columns & {*TIMES} and priced):
                raise InputError(
                    f"{path}: its columns ({', '.join(sorted(columns))[:200]}) are none of a known "
                    "dump: it needs an id, a time and a price (or bid and ask)"
                )
            kind = "plain"
        found[kind].append(str(path))
    what = "trades" if found["trades"] else "order books"
    if (found["trades"] or found["books"]) and not found["markets"]:
        raise InputError(
            f"the {what} of Polymarket need its table of markets, which says whose outcome each "
            "asset is: name that file as well"
        )
    if found["trades"] and not found["blocks"]:
        raise InputError(
            "the trades of Polymarket need its table of blocks, which has their times: name that "
            "file as well"
        )
    return found


def _records(
    db: duckdb.DuckDBPyConnection,
    files: Files,
    order: Order,
    notes: dict[str, int],
    coverage: list[Coverage],
    say: Say,
) -> Generator[Stored]:
    times = Times(order.timezone, "UTC")
    tables: Sequence[tuple[Kind, str]] = (("kalshi_markets", "KALSHI"), ("markets", "POLYMARKET"))
    for kind, venue in tables:
        if files[kind]:
            say(f"markets of {venue}")
            for row in _rows(db, files[kind]):
                yield from records_of(venue, row, notes)
    if named := files["kalshi_trades"]:
        say("trades of KALSHI")
        sql = _KALSHI.replace("{time}", micros(db, named, "created_time", times))
        sql = sql.replace("{tenths}", str(_tenths(db, named)))
        trades = _Trades(sql, _KALSHI_NAMES, _KALSHI_LAST, {"files": named})
        yield from _prices(db, trades, "KALSHI", order, notes, coverage)
    if named := files["trades"]:
        say("trades of POLYMARKET")
        sql = _POLYMARKET.replace("{time}", micros(db, files["blocks"], "timestamp", times))
        values = {"files": named, "blocks": files["blocks"], "markets": files["markets"]}
        trades = _Trades(sql, _POLYMARKET_NAMES, _LAST, values)
        yield from _prices(db, trades, "POLYMARKET", order, notes, coverage)
    for path in files["plain"]:
        say(Path(path).name)
        yield from _prices(
            db, _plain(db, path, Times(order.timezone)), order.venue, order, notes, coverage
        )
    if named := files["books"]:
        say("order books")
        yes = _yes_assets(db, files["markets"])
        yield from books.prices(db, named, yes, times, order.every, order.gap, notes, coverage)


# Each has the id of a market, the time in microseconds, the price of YES, and a key by which the
# last of several at one time is the same on every machine (one number: two columns are slow).
# Kalshi's key says time and price (rounded to a tenth of a cent), and the largest of them is found
# in half the time that the price of the largest is.
_KALSHI = """
SELECT ticker AS name, {time} AS t, CAST("count" AS DOUBLE) AS size,
    {time} * 1024 + CAST(CAST(yes_price AS DOUBLE) * {tenths} AS BIGINT) AS key
FROM read_parquet($files, union_by_name = true)
WHERE yes_price > 0 AND yes_price < 1000 // {tenths}"""
_KALSHI_LAST = {"t": "max(key) >> 10", "p": "(max(key) & 1023) / 1000.0"}
_KALSHI_NAMES = "SELECT ticker AS name FROM read_parquet($files, union_by_name = true)"


def _tenths(db: duckdb.DuckDBPyConnection, files: Sequence[str]) -> int:
    """How many tenths of a cent one of a dump's prices is: of cents, or of dollars where none is
    above 1 and some are no whole number."""
    found = db.execute(
        "SELECT max(yes_price), bool_or(yes_price <> floor(yes_price)) "
        "FROM read_parquet(?, union_by_name = true)",
        [list(files)],
    ).fetchone()
    largest, broken = found or (None, None)
    return 1000 if broken and largest is not None and largest <= 1 else 10


_SIDES = """
    SELECT condition_id, unnest(CAST(clob_token_ids AS VARCHAR[])) AS token,
        lower(unnest(CAST(outcomes AS VARCHAR[]))) AS outcome,
        generate_subscripts(CAST(outcomes AS VARCHAR[]), 1) AS place,
        list_contains(
            list_transform(CAST(outcomes AS VARCHAR[]), lambda x: lower(x)), 'yes'
        ) AS named
    FROM read_parquet($markets, union_by_name = true)
    WHERE len(CAST(outcomes AS VARCHAR[])) = 2"""
_YES = "CASE WHEN s.named THEN s.outcome = 'yes' ELSE s.place = 1 END"
"""Whether an asset is that of YES: of the outcome of that name, else of the first."""
_POLYMARKET = f"""
WITH sides AS ({_SIDES}
), fills AS (
    SELECT block_number, log_index, CAST(maker_asset_id AS VARCHAR) = '0' AS buys,
        CAST(maker_asset_id AS VARCHAR) AS given, CAST(taker_asset_id AS VARCHAR) AS taken,
        CAST(maker_amount AS DOUBLE) AS gave, CAST(taker_amount AS DOUBLE) AS got
    FROM read_parquet($files, union_by_name = true)
    WHERE coalesce(lower(taker), '') NOT IN {SUMS}
), trades AS (
    SELECT block_number, log_index, CASE WHEN buys THEN taken ELSE given END AS token,
        CASE WHEN buys THEN gave / nullif(got, 0) ELSE got / nullif(gave, 0) END AS p,
        CASE WHEN buys THEN got ELSE gave END / 1e6 AS size
    FROM fills
)
SELECT s.condition_id AS name, t,
    CASE WHEN {_YES} THEN p ELSE 1 - p END AS p,
    size, (t // 1000000) * 2147483648 + CAST(log_index AS BIGINT) AS key
FROM trades JOIN sides s USING (token) JOIN (
    SELECT block_number, any_value({{time}}) AS t
    FROM read_parquet($blocks, union_by_name = true) GROUP BY block_number
) b USING (block_number)
WHERE p > 0 AND p < 1"""
_LAST = {"t": "max(t)", "p": "arg_max(p, key)"}
_POLYMARKET_NAMES = "SELECT condition_id AS name FROM read_parquet($markets, union_by_name = true)"


def _yes_assets(db: duckdb.DuckDBPyConnection, markets: Sequence[str]) -> dict[str, str]:
    """The asset of YES of each market."""
    sql = f"SELECT condition_id, token FROM ({_SIDES}) s WHERE {_YES}"
    return dict(db.execute(sql, {"markets": list(markets)}).fetchall())


def _plain(db: duckdb.DuckDBPyConnection, path: str, times: Times) -> "_Trades":
    rows = db.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path]).fetchall()
    columns = {str(row[0]).lower(): str(row[0]) for row in rows}
    name = columns[next(one for one in IDS if one in columns)]
    time = columns[next(one for one in TIMES if one in columns)]
    sides = ("bid", "ask") if {"bid", "ask"} <= columns.keys() else ()
    quoted = {side: f'CAST("{columns[side]}" AS DOUBLE)' for side in sides}
    price = (
        f'CAST("{columns["price"]}" AS DOUBLE)'
        if "price" in columns
        else f"CASE WHEN {quoted['bid']} > 0 AND {quoted['ask']} < 1 AND {quoted['bid']} <= "
        f"{quoted['ask']} THEN ({quoted['bid']} + {quoted['ask']}) / 2 END"
    )
    size = next((columns[one] for one in ("size", "count", "volume") if one in columns), None)
    amount = f'CAST("{size}" AS DOUBLE)' if size else "NULL"
    names = f'SELECT CAST("{name}" AS VARCHAR) AS name'
    said = "".join(f"{value} AS {side}, " for side, value in quoted.items())
    # The rows of one time are in order, but not those of different times.
    return _Trades(
        f"{names}, {micros(db, [path], time, times)} AS t, {price} AS p, {said}{amount} AS size, "
        "file_row_number AS key FROM read_parquet($files, file_row_number = true) "
        f"WHERE {price} BETWEEN 0 AND 1",
        f"{names} FROM read_parquet($files)",
        {"t": "max(t)", **{one: f"arg_max({one}, (t, key))" for one in ("p", *sides)}},
        {"files": [path]},
    )


@dataclass(frozen=True)
class _Trades:
    """Trades or quotes, as queries over the files in `values`: `sql` gives `name, t, size, key`,
    `names` each name, and `last` says which column is what of the last of several rows."""

    sql: str
    names: str
    last: Mapping[str, str]
    values: Values

    def given(self, sql: str) -> dict[str, list[str]]:
        """The files that a query names: DuckDB takes no others."""
        return {name: list(value) for name, value in self.values.items() if f"${name}" in sql}


def _prices(
    db: duckdb.DuckDBPyConnection,
    trades: _Trades,
    venue: str,
    order: Order,
    notes: dict[str, int],
    coverage: list[Coverage],
) -> Iterator[PriceSeriesRow]:
    """One series a market, and what the dump covers."""
    names = (  # Texts are slow to group and to sort by: each market has its number.
        "CREATE OR REPLACE TEMP TABLE names AS SELECT name, row_number() OVER (ORDER BY name) AS "
        f"number FROM (SELECT DISTINCT name FROM ({trades.names}) WHERE name IS NOT NULL)"
    )
    kept = (
        "CREATE OR REPLACE TEMP TABLE kept AS SELECT number, "
        + ", ".join(f"{value} AS {name}" for name, value in trades.last.items())
        + f", sum(size) AS size, count(*) AS n FROM ({trades.sql}) JOIN names USING (name) "
        f"WHERE t IS NOT NULL GROUP BY number, t // {int(order.every.total_seconds() * 1e6)}"
    )
    for sql in (names, kept):
        db.execute(sql, trades.given(sql))
    files = list(trades.values["files"])
    (n,) = db.execute("SELECT coalesce(sum(n), 0) FROM kept").fetchone() or (0,)
    (rows,) = db.execute(
        "SELECT count(*) FROM read_parquet(?, union_by_name = true)", [files]
    ).fetchone() or (0,)
    if rows and not n:
        raise InputError(
            f"none of {rows:,} rows in {', '.join(files)[:300]} has a known market, a "
            "time and a price from 0 to 1 (Kalshi's: 0 to 100 cents)"
        )
    for note, count in ((f"trades_and_quotes_of_{venue.lower()}", n), (LEFT_OUT, rows - n)):
        if count:
            notes[note] = notes.get(note, 0) + int(count)
    coverage.append(covered(db, trades.sql, trades.values, venue, order.gap))
    markets = db.execute(
        "SELECT number, name, n FROM (SELECT number, count(*) AS n FROM kept GROUP BY number) "
        "JOIN names USING (number) ORDER BY number"
    ).fetchall()

    def read(some: Sequence[tuple[int, str, int]]) -> Mapping[str, Any]:
        return db.execute(
            f"SELECT {', '.join(trades.last)}, size FROM kept WHERE number BETWEEN ? AND ? "
            "ORDER BY number, t",
            [some[0][0], some[-1][0]],
        ).fetchnumpy()

    parts = [markets[k : k + MARKETS_AT_ONCE] for k in range(0, len(markets), MARKETS_AT_ONCE)]
    with ThreadPoolExecutor(1) as pool:  # DuckDB sorts the next part meanwhile.
        ahead = pool.submit(read, parts[0]) if parts else None
        for some, after in zip_longest(parts, parts[1:]):
            assert ahead is not None
            found, ahead = ahead.result(), pool.submit(read, after) if after else None
            yield from _series(venue, [(name, n) for _, name, n in some], found)


def _series(
    venue: str, markets: Sequence[tuple[str, int]], found: Mapping[str, Any]
) -> Iterator[PriceSeriesRow]:
    """Columns `t` (microseconds), `p` and, where there are any, `bid, ask, size`, one market after
    the other, as a series each; `markets` has the names and how many rows are of each."""
    columns = {name: _filled(column) for name, column in found.items() if name != "t"}
    times, prices, high = np.asarray(found["t"], dtype=np.int64), columns["p"].round(6), 0
    for name, n in markets:
        low, high = high, high + n
        t, mine = times[low:high].tolist(), prices[low:high].tolist()
        bid, ask, size = (
            _stated(columns[key][low:high]) if key in columns else None
            for key in ("bid", "ask", "size")
        )
        yield PriceSeriesRow(market_id(venue, name), t, t, mine, bid, ask, size)


def _filled(column: Any) -> npt.NDArray[np.float64]:
    values = np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)
    return np.asarray(values, dtype=np.float64)


def _stated(values: npt.NDArray[np.float64]) -> list[float | None] | None:
    """A column with None where nothing is stated; None where nothing is."""
    known, every = ~np.isnan(values), values.tolist()
    if known.all():
        return [*every]
    if not known.any():
        return None
    return [value if is_known else None for value, is_known in zip(every, known, strict=True)]


def _rows(db: duckdb.DuckDBPyConnection, files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a table of markets, a thousand at a time; times in UTC without a zone."""
    named = db.execute(
        "DESCRIBE SELECT * FROM read_parquet(?, union_by_name = true)", [list(files)]
    ).fetchall()
    # DuckDB needs another package to hand out a time with its zone.
    parts = [
        f'CAST("{name}" AS TIMESTAMP) AS "{name}"' if "TIME ZONE" in kind else f'"{name}"'
        for name, kind, *_ in named
    ]
    found = db.execute(
        f"SELECT {', '.join(parts)} FROM read_parquet(?, union_by_name = true)", [list(files)]
    )
    names = [str(one[0]).lower() for one in named]
    while part := found.fetchmany(1000):
        for row in part:
            yield dict(zip(names, row, strict=True))
