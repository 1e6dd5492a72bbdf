"""The sentences of a report: which world, what was walked, what was left out."""

from collections.abc import Iterable, Mapping
from typing import Any

from beforehand.errors import NotFound
from beforehand.records.rows import IntervalRow
from beforehand.store.archive.reader import Archive

LEAK_NOTE = (
    "This says that no record after t was shown. A language model's own memory lies outside the "
    "wall: for that the card has the share of forecasts after the training cutoff."
)


def world_kind(archive: Archive) -> str:
    """`simulated world` or `recorded archive`, as every page must say."""
    importers = {entry["importer"] for entry in archive.manifest["imports"]}
    kind = "recorded archive" if "simulate" not in importers else "simulated world"
    if kind == "simulated world" and len(importers) > 1:
        kind = "simulated world with imported records"
    return f"{kind} {archive.digest[:12]}"


def subtitle(t: Any, grade: str, strict: float) -> str:
    """What was walked, and on what grade of text."""
    start = f"{len(t):,} forecasts. Text grade: {grade}; "
    if strict == 1.0:
        return (
            start + "every forecast had a question text whose stored version was no later than t."
        )
    return start + (
        f"{100 * strict:.0f} % of the forecasts had a question text whose stored version was no "
        "later than t, the others were made on the price alone."
    )


def left_out_sentence(left_out: Mapping[str, int]) -> str:
    """Markets not walked, with the reason."""
    if not left_out:
        return "Every market was walked."
    parts = [f"{n:,} {why}" for why, n in sorted(left_out.items())]
    return f"Markets not scored: {', '.join(parts)}."


def pictured(intervals: Iterable[IntervalRow]) -> str:
    """The market to draw: one whose price moved far while documents came in."""
    seen: dict[str, set[str]] = {}
    odds: dict[str, list[float]] = {}
    for row in intervals:
        name, price = row.market_id, row.context.odds
        seen.setdefault(name, set()).update(s.id for s in row.context.search_snippets)
        if price is not None:
            odds.setdefault(name, []).append(price)
    if not odds:
        raise NotFound("the run has no interval to draw")

    def interest(name: str) -> tuple[float, str]:
        moved = max(odds[name]) - min(odds[name])
        return (1 + min(len(seen[name]), 12)) * moved * min(len(odds[name]), 12), name

    return max(odds, key=interest)
