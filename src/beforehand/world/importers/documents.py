"""Dated documents in JSONL: id, title, text, url, source, published_at, captured_at.

A row is dated `published_at`; a bare date means the end of that day. A run of the grade `captured`
shows it from `captured_at` on, when this very wording was stored (or from its publication, should
that be stated as later), and never where no version was stored; a run of the grade `published`
shows it from its publication on. A row with neither date is refused.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Required, TypedDict

from beforehand.clock import end_of_day, parse_instant
from beforehand.records.record import Record
from beforehand.records.world import Document
from beforehand.world.importers.lines import Rejects, each_object


def read(path: Path, rejects: Rejects, notes: dict[str, int]) -> Iterator[Record]:
    """One Document a line."""

    def parse(raw: _DocumentLine) -> list[Record]:
        document = parse_row(raw)
        if document.text_known_at and document.text_known_at < document.known_at:
            why = "captured_before_publication_dated_by_the_later"
            notes[why] = notes.get(why, 0) + 1
        if document.published_at is None:
            notes["without_published_at"] = notes.get("without_published_at", 0) + 1
        return [document]

    return each_object(path, rejects, parse)


class _DocumentLine(TypedDict, total=False):
    """A line as it should look: the Document made from it refuses anything else."""

    id: Required[str]
    title: str | None
    text: str | None
    url: str | None
    source: str | None
    published_at: str | None
    captured_at: str | None
    captured_how: str | None
    licence: str | None


def parse_row(raw: _DocumentLine) -> Document:
    """One evidence row."""
    captured = raw.get("captured_at")
    captured_at = parse_instant(captured) if captured else None
    published = raw.get("published_at")
    published_at = _published(published) if published else None
    known_at = published_at or captured_at
    if known_at is None:
        raise ValueError("neither captured_at nor published_at: a document needs a time")
    return Document(
        id=str(raw["id"]),
        title=raw.get("title") or "",
        text=raw.get("text") or "",
        url=raw.get("url"),
        source=raw.get("source"),
        published_at=published_at,
        known_at=known_at,
        text_known_at=captured_at,
        captured_how=raw.get("captured_how"),
        licence=raw.get("licence"),
    )


def _published(text: str) -> datetime:
    instant = parse_instant(text)
    return end_of_day(instant) if len(text.strip()) == 10 else instant
