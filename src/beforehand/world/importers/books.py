"""Order books of a dump, as hourly files of snapshots and changes, rebuilt into best bid and ask.

A snapshot (`event_type` book) replaces the book of an asset; a change (price_change) sets the size
at one price. After a time in which the dump has no row of anything, a book is void until its next
snapshot: no price is made from what may have changed unseen.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import duckdb
import numpy as np
import orjson

from beforehand.clock import from_us, iso, to_us
from beforehand.errors import InputError
from beforehand.ids import market_id
from beforehand.records.bulk import PriceSeriesRow
from beforehand.store.archive.manifest import Coverage
from beforehand.world.importers.dump_markets import instant

VENUE, SNAPSHOT, CHANGE = "POLYMARKET", "book", "price_change"
Point = tuple[int, float, float]
"""An instant (microseconds), the best bid and the best ask."""


class Book:
    """What is offered of one asset; void until its first snapshot."""

    def __init__(self) -> None:
        self._bids, self._asks = dict[float, float](), dict[float, float]()
        self.whole = False

    def void(self) -> None:
        """What it held may have changed unseen."""
        self._bids, self._asks, self.whole = {}, {}, False

    def snapshot(self, bids: object, asks: object) -> None:
        """All that is offered."""
        self._bids, self._asks, self.whole = _levels(bids), _levels(asks), True

    def change(self, side: str, price: float, size: float) -> None:
        """What is offered at one price now; a size of 0 takes it out."""
        levels = self._bids if side.upper() in ("BUY", "BID") else self._asks
        if size > 0:
            levels[price] = size
        else:
            levels.pop(price, None)

    def best(self) -> tuple[float, float] | None:
        """The best bid and ask; None where one is not known, or where they cross."""
        if not (self.whole and self._bids and self._asks):
            return None
        bid, ask = max(self._bids), min(self._asks)
        return (bid, ask) if 0 <= bid <= ask <= 1 else None


def _levels(said: object) -> dict[float, float]:
    if isinstance(said, str):
        said = orjson.loads(said)
    found = dict[float, float]()
    for level in said if isinstance(said, list) else ():
        if isinstance(level, Mapping):
            price, size = float(level["price"]), float(level["size"])
        else:
            price, size = float(level[0]), float(level[1])
        if size > 0:
            found[price] = size
    return found


def prices(
    db: duckdb.DuckDBPyConnection,
    files: Sequence[str],
    yes: Mapping[str, str],
    every: timedelta,
    gap: timedelta,
    notes: dict[str, int],
    coverage: list[Coverage],
) -> Iterator[PriceSeriesRow]:
    """One series a market, of the middle between best bid and ask of its asset `yes`: the last of
    each `every`. Raises InputError for rows that are none."""
    gaps = _gaps(db, files, int(gap.total_seconds() * 1e6), coverage)
    found = db.execute(
        'SELECT market, CAST(asset_id AS VARCHAR) AS asset, "timestamp", event_type, bids, asks, '
        "price, size, side FROM read_parquet(?, union_by_name = true) "
        'ORDER BY market, asset, "timestamp"',
        [list(files)],
    )
    step, book, points, now = int(every.total_seconds() * 1e6), Book(), list[Point](), ("", "")
    after = list[tuple[int, int]]()
    while part := found.fetchmany(10_000):
        for market, asset, at, kind, bids, asks, price, size, side in part:
            if yes.get(market) != asset:
                continue
            if now != (market, asset):
                yield from _series(now[0], points)
                book, points, now, after = Book(), [], (market, asset), list(gaps)
            t = _us(at)
            while after and t >= after[0][1]:
                after.pop(0)
                if book.whole:
                    notes["books_voided_by_a_gap"] = notes.get("books_voided_by_a_gap", 0) + 1
                book.void()
            try:
                if kind == SNAPSHOT:
                    book.snapshot(bids, asks)
                elif kind == CHANGE and book.whole:
                    book.change(str(side), float(price), float(size))
            except (TypeError, ValueError, KeyError, IndexError):
                raise InputError(
                    f"a row of the order book of {market} at {at} has no levels"
                ) from None
            if (best := book.best()) is not None:
                _keep(points, (t, *best), step)
    yield from _series(now[0], points)


def _keep(points: list[Point], point: Point, step: int) -> None:
    """Add a point; of those within one `every` the last stays."""
    if points and points[-1][0] // step == point[0] // step:
        points[-1] = point
    elif not points or points[-1][1:] != point[1:]:
        points.append(point)


def _series(market: str, points: Sequence[Point]) -> Iterator[PriceSeriesRow]:
    if points:
        t = [at for at, _, _ in points]
        bid, ask = [bid for _, bid, _ in points], [ask for _, _, ask in points]
        mid = [round((b + a) / 2, 6) for b, a in zip(bid, ask, strict=True)]
        yield PriceSeriesRow(market_id(VENUE, market), t, t, mid, [*bid], [*ask])


def _us(at: Any) -> int:
    found = instant(at)
    if found is not None:
        return to_us(found)
    number = float(at)
    scale = next(k for limit, k in ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0)) if number < limit)
    return int(number * scale)


def _gaps(
    db: duckdb.DuckDBPyConnection, files: Sequence[str], least: int, coverage: list[Coverage]
) -> list[tuple[int, int]]:
    """Times of at least `least` microseconds without a row, as (last row before, first after)."""
    rows = db.execute(
        'SELECT min("timestamp"), max("timestamp") FROM read_parquet(?, union_by_name = true) '
        "GROUP BY date_trunc('minute', CAST(\"timestamp\" AS TIMESTAMPTZ)) ORDER BY 1"
        if _dated(db, files)
        else 'SELECT min("timestamp"), max("timestamp") FROM read_parquet(?, '
        'union_by_name = true) GROUP BY "timestamp" // 60000 ORDER BY 1',
        [list(files)],
    ).fetchall()
    spans = [(_us(low), _us(high)) for low, high in rows]
    low, high = (np.array(side, dtype=np.int64) for side in zip(*spans, strict=True))
    wide = np.flatnonzero(low[1:] - high[:-1] >= least)
    found = [(int(high[i]), int(low[i + 1])) for i in wide]
    said = [[iso(from_us(a)), iso(from_us(b))] for a, b in found]
    first, last = iso(from_us(int(low[0]))), iso(from_us(int(high[-1])))
    coverage.append({"venue": VENUE, "first": first, "last": last, "gaps": said})
    return found


def _dated(db: duckdb.DuckDBPyConnection, files: Sequence[str]) -> bool:
    """True where the times are timestamps, false for Unix milliseconds."""
    sql = 'SELECT typeof("timestamp") FROM read_parquet(?, union_by_name = true) LIMIT 1'
    found = db.execute(sql, [list(files)]).fetchone()
    return found is not None and found[0].startswith("TIMESTAMP")
