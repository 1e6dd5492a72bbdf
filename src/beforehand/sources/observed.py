"""Observations that every source makes: a snapshot of rows, and the mark of a fetch."""

from datetime import datetime
from typing import Any

from beforehand.records.world import Observation


def snapshot(
    source: str, kind: str, subject: str, found: list[Any], fetched_at: datetime
) -> Observation:
    """Rows that show one moment: known when fetched, replaced by the next fetch."""
    return Observation(
        source=source,
        kind=kind,
        subject=subject,
        id="@snapshot",
        data={"rows": found},
        snapshot=True,
        known_at=fetched_at,
    )


def fetch_mark(
    source: str, kind: str, subject: str, count: int, fetched_at: datetime
) -> Observation:
    """That a stream was asked for: an empty answer is told from one that was never recorded."""
    return Observation(
        source=source,
        kind=kind,
        subject=subject,
        id="@fetch",
        data={"rows": count},
        snapshot=True,
        known_at=fetched_at,
    )
