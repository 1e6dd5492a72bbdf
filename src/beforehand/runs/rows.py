"""The rows of a run's files, read back and typed."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from beforehand.records.rows import IntervalRow, TraceRow, decode_interval, decode_trace


def read_intervals(path: Path) -> Iterator[IntervalRow]:
    """The rows of an intervals.jsonl that this program wrote."""
    with path.open("rb") as lines:
        yield from map(decode_interval, lines)


def read_traces(path: Path) -> Iterator[TraceRow]:
    """The rows of a traces.jsonl; none where no model was asked."""
    if path.is_file():
        with path.open("rb") as lines:
            yield from map(decode_trace, lines)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Each line of a file this program wrote."""
    with path.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def questions_of(rows: Iterable[IntervalRow]) -> Iterator[IntervalRow]:
    """Rows of an intervals.jsonl, one a market and instant: where several experiments asked, their
    decisions and failures together, with the context that shows most."""
    held: IntervalRow | None = None
    for row in rows:
        if held is None or (held.market_id, held.time) != (row.market_id, row.time):
            if held is not None:
                yield held
            held = row
            continue
        shows_more = len(row.context.search_snippets) > len(held.context.search_snippets)
        held = msgspec.structs.replace(
            held,
            decisions=held.decisions + row.decisions,
            failures=held.failures + row.failures,
            context=row.context if shows_more else held.context,
        )
    if held is not None:
        yield held
