"""A CSV of prices: `id,time,price`, and where known `bid`, `ask`, `volume`, `known_at`.

Ids are `VENUE:native`; a bare id belongs to the venue given with --venue. A time needs an offset
(`2026-01-05T12:00:00Z`); a bare date means the end of that day.
"""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from beforehand.clock import end_of_day, parse_instant
from beforehand.ids import market_id, split_market_id
from beforehand.records.base import Record
from beforehand.records.world import PricePoint
from beforehand.store.files import read_text
from beforehand.world.importers.lines import Rejects, guarded

COLUMNS = ("id", "time", "price")


def read(path: Path, rejects: Rejects, venue: str) -> Iterator[Record]:
    """One PricePoint a row."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    header = [name.strip().lower() for name in reader.fieldnames or []]
    reader.fieldnames = header
    if missing := [name for name in COLUMNS if name not in header]:
        rejects.bad(path, 1, f"the header lacks {', '.join(missing)}: expected id,time,price")
        return
    for row in reader:

        def one(item: dict[str, str]) -> list[Record]:
            return [_point(item, venue)]

        yield from guarded(path, reader.line_num, row, rejects, one)


def _point(row: dict[str, str], venue: str) -> PricePoint:
    head, native = split_market_id(row["id"].strip())
    observed_at = when(row["time"])
    known = row.get("known_at")

    def optional(key: str) -> float | None:
        text = (row.get(key) or "").strip()
        return float(text) if text else None

    return PricePoint(
        market_id=market_id(head or venue, native),
        price=float(row["price"]),
        observed_at=observed_at,
        known_at=when(known) if known and known.strip() else observed_at,
        bid=optional("bid"),
        ask=optional("ask"),
        volume=optional("volume"),
    )


def when(text: str) -> datetime:
    """An instant with an offset; a bare date is the end of that day."""
    instant = parse_instant(text)
    return end_of_day(instant) if len(text.strip()) == 10 else instant
