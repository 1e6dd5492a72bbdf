"""One decision of a model, whole, from a run's files and the journal."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from beforehand.clock import iso_us, parse_us
from beforehand.errors import NotFound
from beforehand.records.rows import IntervalRow, TraceRow, decode_interval, label
from beforehand.runs.rows import columns_at, has_intervals, read_jsonl, read_traces
from beforehand.store.journal.calls import CallRow
from beforehand.store.journal.journal import Journal
from beforehand.store.run_folder import RunFolder


class Traced(NamedTuple):
    """The rows of the instant (one for each experiment that asked), first the one with the
    attempts; the attempts in order (code, then a direct answer where code gave none), and their
    calls on record."""

    rows: list[IntervalRow]
    attempts: list[TraceRow]
    calls: list[CallRow]


def traced(
    folder: RunFolder,
    journal: Journal | None,
    market: str,
    t: int | None,
    forecaster: str | None,
    simulation: int = 0,
) -> Traced:
    """How `forecaster` (None: any) came to its decision about a market at an instant (microseconds;
    None: the last one). Raises NotFound where it said nothing there."""
    path, found = folder.path / "intervals.jsonl", list[IntervalRow]()
    times, others = list[str](), set[str]()
    for row in _of(path, market):
        others.update(map(label, _ids(row)))
        if _said(row, forecaster):
            times.append(row.time)
            if t in (None, row.context.t):
                found.append(row)
    if not found:
        when = "at any instant" if t is None else f"at {iso_us(t)}"
        said = "nobody said anything" if forecaster is None else f"{forecaster!r} said nothing"
        if forecaster is not None and others:
            said += f" (there are {', '.join(sorted(others))})"
        asked = f": it was asked at {', '.join(_nearest(times, t))}" if times else ""
        raise NotFound(f"{said} about {market} {when}{asked}")
    last = max(one.context.t for one in found)
    rows = [one for one in found if one.context.t == (last if t is None else t)]
    attempts = [
        one
        for one in read_traces(folder.path / "traces.jsonl")
        if (one.market_id, one.time) == (market, rows[0].time)
        and forecaster in (None, label(one.model_id))
        and one.simulation_index == simulation
    ]
    models = {one.model_id for one in attempts}
    rows.sort(key=lambda row: not models & set(_ids(row)))
    numbers = [one.simulation_index for row in rows for one in row.decisions]
    numbers += [one.simulation_index for row in rows for one in row.failures]
    if simulation not in numbers:
        raise NotFound(f"there is no simulation {simulation}: there are {max(numbers) + 1}, from 0")
    keys = {key for one in attempts for key in one.calls}
    calls = journal.calls.rows(folder.run_id) if journal is not None and keys else []
    return Traced(rows, attempts, [call for call in calls if call["call_key"] in keys])


def whole_id(folder: RunFolder, market: str) -> str:
    """The id of a run's market, also where its venue is left out. Raises NotFound, which names the
    nearest ones."""
    path = folder.path / "events.jsonl"
    known = [row["id"] for row in read_jsonl(path)] if path.is_file() else []
    if market in known or not known:
        return market
    named = [name for name in known if name.partition(":")[2] == market]
    if len(named) == 1:
        return str(named[0])
    near = get_close_matches(market, known, 3, 0.5) or known[:3]
    raise NotFound(f"run {folder.run_id} has no market {market[:100]!r}: it has {', '.join(near)}…")


def _nearest(times: list[str], t: int | None) -> list[str]:
    """A few of the instants, those nearest to `t`."""
    near = sorted(times, key=lambda at: abs(parse_us(at) - (t or 0)))[:3]
    return sorted(dict.fromkeys(near))


def _of(path: Path, market: str) -> Iterator[IntervalRow]:
    """The rows of a market."""
    if not has_intervals(path):
        return
    if (columns := columns_at(path)) is not None:
        yield from columns.rows(columns.places(market, None, None))
        return
    needle = market.encode()
    with path.open("rb") as lines:
        for line in lines:
            if needle in line and (row := decode_interval(line)).market_id == market:
                yield row


def _said(row: IntervalRow, forecaster: str | None) -> bool:
    return forecaster is None or any(label(name) == forecaster for name in _ids(row))


def _ids(row: IntervalRow) -> list[str]:
    return [one.model_id for one in row.decisions] + [one.model_id for one in row.failures]
