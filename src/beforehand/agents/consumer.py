"""The consumer: statistics of a producer's output."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Annotated, Any

from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.clock import iso
from beforehand.errors import InputError

NAME = "consumer-agent"


@agent(NAME, tools=(), logged=("input_path",))
def consumer(
    work: Work,
    *,
    input_path: Annotated[str, Field(min_length=1, description="A producer's output file.")],
) -> Output:
    """Count a producer's records, and give the least, greatest and mean bid and ask."""
    source = work.read(input_path)
    row = {
        "source": source.metadata.agent,
        "source_query": source.metadata.query,
        "source_row_count": source.metadata.row_count,
        "timestamp": iso(source.metadata.timestamp),
        "statistics": statistics(source.data),
    }
    return Output([row], f"Processed from {input_path}")


def statistics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | int | None]:
    """The documented figures. A null is not counted; where no row has a value, they are null. The
    mean is exact to the last bit of its sum (fsum). Raises InputError for what is no number."""
    bids, asks = _numbers(rows, "bid"), _numbers(rows, "ask")
    found: dict[str, float | int | None] = {
        "total_records": len(rows),
        "records_with_bid": len(bids),
        "records_with_ask": len(asks),
    }
    for name, values in (("bid", bids), ("ask", asks)):
        found[f"{name}_min"] = min(values, default=None)
        found[f"{name}_max"] = max(values, default=None)
        found[f"{name}_avg"] = fsum(values) / len(values) if values else None
    return found


def _numbers(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    found = []
    for place, row in enumerate(rows, start=1):
        value = row.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise InputError(f"row {place} of the input: {name} is {value!r}, which is no number")
        found.append(value)
    return found
