"""A CSV of prices: `id,time,price`, and where known `bid`, `ask`, `volume`, `known_at`.

Ids are `VENUE:native`; a bare id belongs to the venue given with --venue. A time needs an offset
(`2026-01-05T12:00:00Z`); a bare date means the end of that day.
"""

from collections.abc import Iterator
from pathlib import Path

from beforehand.clock import when
from beforehand.ids import market_id, split_market_id
from beforehand.records.record import Record
from beforehand.records.world import PricePoint
from beforehand.store.files import plain_number, read_csv
from beforehand.world.importers.lines import Rejects, guarded

COLUMNS = ("id", "time", "price")


def read(path: Path, rejects: Rejects, venue: str) -> Iterator[Record]:
    """One PricePoint a row."""
    for number, row, problem in read_csv(path, COLUMNS):
        if row is None:
            rejects.bad(path, number, problem)
            continue

        def one(item: dict[str, str]) -> list[Record]:
            return [_point(item, venue)]

        yield from guarded(path, number, row, rejects, one)


def _point(row: dict[str, str], venue: str) -> PricePoint:
    head, native = split_market_id(row["id"].strip())
    observed_at = when(row["time"])
    stated = (row.get("known_at") or "").strip()
    known_at = when(stated) if stated else observed_at
    if known_at < observed_at:
        raise ValueError(f"known_at {stated} lies before time {row['time'].strip()}")

    def optional(key: str) -> float | None:
        text = (row.get(key) or "").strip()
        return plain_number(text) if text else None

    return PricePoint(
        market_id=market_id(head or venue, native),
        price=plain_number(row["price"]),
        observed_at=observed_at,
        known_at=known_at,
        bid=optional("bid"),
        ask=optional("ask"),
        volume=optional("volume"),
    )
