"""Order books of a dump, as hourly files of snapshots and changes, rebuilt into best bid and ask.

A snapshot (`event_type` book) replaces the book of an asset; a change (price_change) sets the size
at one price. After a time in which the dump has no row of anything, a book is void until its next
snapshot: no price is made from what may have changed unseen.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import duckdb
import orjson

from beforehand.clock import from_us, iso, parse_instant, to_us
from beforehand.errors import InputError
from beforehand.ids import market_id
from beforehand.records.bulk import PriceSeriesRow
from beforehand.sources.readings import quoted
from beforehand.store.archive.manifest import Coverage
from beforehand.world.importers.coverage import Times, covered, micros

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
        quote = quoted(max(self._bids), min(self._asks))
        return None if quote.bid is None or quote.ask is None else (quote.bid, quote.ask)


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
    times: Times,
    every: timedelta,
    gap: timedelta,
    notes: dict[str, int],
    coverage: list[Coverage],
) -> Iterator[PriceSeriesRow]:
    """One series a market, of the middle between best bid and ask of its asset `yes`: the last of
    each `every`. Raises InputError for rows that are none."""
    time = micros(db, files, "timestamp", times)
    from_files = "read_parquet($files, union_by_name = true"
    coverage.append(
        covered(db, f"SELECT {time} AS t FROM {from_files})", {"files": files}, VENUE, gap)
    )
    gaps = [to_us(parse_instant(until)) for _, until in coverage[-1]["gaps"]]
    found = db.execute(
        f"SELECT market, CAST(asset_id AS VARCHAR) AS asset, {time} AS t, event_type, bids, asks, "
        f"price, size, side FROM {from_files}, filename = true, file_row_number = true) "
        "ORDER BY market, asset, t, filename, file_row_number",
        {"files": list(files)},
    )
    step, book, points, now = int(every.total_seconds() * 1e6), Book(), list[Point](), ("", "")
    after = list[int]()
    while part := found.fetchmany(10_000):
        for market, asset, t, kind, bids, asks, price, size, side in part:
            if yes.get(market) != asset:
                continue
            if now != (market, asset):
                yield from _series(now[0], points)
                book, points, now, after = Book(), [], (market, asset), list(gaps)
            while after and t >= after[0]:
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
                    f"a row of the order book of {market} at {iso(from_us(t))} has no levels"
                ) from None
            if (best := book.best()) is not None:
                _keep(points, (t, *best), step)
    yield from _series(now[0], points)


def _keep(points: list[Point], point: Point, step: int) -> None:
    """Add a point; of those within one `every` the last stays."""
    if points and points[-1][0] // step == point[0] // step:
        points.pop()
    points.append(point)


def _series(market: str, points: Sequence[Point]) -> Iterator[PriceSeriesRow]:
    if points:
        t = [at for at, _, _ in points]
        bid, ask = [bid for _, bid, _ in points], [ask for _, _, ask in points]
        mid = [round((b + a) / 2, 6) for b, a in zip(bid, ask, strict=True)]
        yield PriceSeriesRow(market_id(VENUE, market), t, t, mid, [*bid], [*ask])
