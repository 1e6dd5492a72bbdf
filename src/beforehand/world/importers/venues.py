"""Recorded responses of outside services, as JSON files.

What a response shows is known at the moment it was fetched (`--fetched-at`; without it, the
time of the import: late at worst, never early). Books and price histories carry their own times.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.records.record import Record
from beforehand.sources.catalogue import RECORDED
from beforehand.sources.polymarket_data import is_table
from beforehand.store.files import read_json
from beforehand.world.importers.lines import Rejects, guarded


def read(
    venue: str, path: Path, rejects: Rejects, fetched_at: datetime, market: str | None
) -> Iterator[Record]:
    """Records of one response file; each item of a list is taken or rejected on its own."""
    for number, raw in enumerate(_items(venue, read_json(path)), start=1):

        def one(item: Any) -> list[Record]:
            return RECORDED[venue](item, fetched_at, market)

        yield from guarded(path, number, raw, rejects, one)


def _items(venue: str, body: Any) -> list[Any]:
    """The items of a list, or of a page that holds one list; anything else is one item."""
    if venue not in ("polymarket", "kalshi") or is_table(body):
        return [body]
    if isinstance(body, list):
        return body
    if isinstance(body, dict) and "title" not in body and "question" not in body:
        for key in ("markets", "events", "data"):
            if isinstance(body.get(key), list):
                return list(body[key])
    return [body]
