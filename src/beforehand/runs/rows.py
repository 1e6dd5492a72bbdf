"""The rows of a run's files, read back and typed; and counts of how its decisions were made: by
code, by fallback, directly, or not at all, with the reasons."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict, TypeVar

import msgspec
import orjson

from beforehand.errors import InputError
from beforehand.records.rows import (
    DecisionRow,
    IntervalRow,
    PredictionLine,
    TraceRow,
    decode_interval,
    decode_line,
    decode_trace,
)
from beforehand.runs.interval_columns import FOLDER, Answers, IntervalColumns

if TYPE_CHECKING:
    from beforehand.score.summary import DecisionCounts, ModelCounts, WayCounts

R = TypeVar("R")
_ARM = re.compile(r"(?:^|; )(?:code|direct): ")
WAYS: Final = (
    "made",
    "code",
    "fallback",
    "direct",
    "external",
    "baseline",
    "failed",
    "unshown_evidence_ids",
    "flagged_evidence_ids",
    "answer_in_training",
)
MARKS = ("unshown_evidence_ids", "flagged_evidence_ids", "answer_in_training")


def read_intervals(path: Path) -> Iterator[IntervalRow]:
    """The rows of an intervals.jsonl that this program wrote, or of the columns in its place."""
    if (columns := columns_at(path)) is None:
        yield from _decoded(path, decode_interval)
    else:
        yield from columns.rows()


def has_intervals(path: Path) -> bool:
    """True where there is an intervals.jsonl, or columns in its place."""
    return path.is_file() or path.with_name(FOLDER).is_dir()


def columns_at(path: Path) -> IntervalColumns | None:
    """The columns that stand in the place of this intervals.jsonl or predictions.jsonl; None where
    there are none."""
    folder = path.with_name(FOLDER)
    return None if path.is_file() or not folder.is_dir() else _open(folder)


def _open(folder: Path) -> IntervalColumns:
    """The columns in a folder. They stay open as long as no file there changes, so that a page of
    rows need not open them again."""
    with os.scandir(folder) as files:
        found = [(file.name, file.stat()) for file in files]
    marks = [(name, at.st_mtime_ns, at.st_size, at.st_ino) for name, at in sorted(found)]
    return _opened(folder, tuple(marks))


@lru_cache(maxsize=8)
def _opened(folder: Path, marks: tuple[tuple[str, int, int, int], ...]) -> IntervalColumns:
    return IntervalColumns(folder)


def read_traces(path: Path) -> Iterator[TraceRow]:
    """The rows of a traces.jsonl; none where no model was asked."""
    if path.is_file():
        yield from _decoded(path, decode_trace)


def read_predictions(path: Path) -> Iterator[PredictionLine]:
    """The rows of a predictions.jsonl that a run wrote, or of the columns in its place."""
    if (columns := columns_at(path)) is None:
        yield from _decoded(path, decode_line)
    else:
        yield from columns.predictions()


def read_jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    """Each line of a file this program wrote. Raises InputError where it is damaged."""
    yield from _decoded(path, _object)


def _object(line: bytes) -> Mapping[str, Any]:
    found = orjson.loads(line)
    if not isinstance(found, dict):
        raise msgspec.ValidationError("not a JSON object")
    return found


def _decoded(path: Path, decode: Callable[[bytes], R]) -> Iterator[R]:
    """Each line of a run's file. Raises InputError where it is damaged."""
    done = 0
    try:
        with path.open("rb") as lines:
            for line in lines:
                yield decode(line)
                done += 1
    except (msgspec.MsgspecError, orjson.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is damaged at line {done + 1} ({error}): `beforehand runs verify` says what "
            "of the run can be trusted"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


class EventLine(TypedDict):
    """A line of events.jsonl: an EventSpec, with our additive keys."""

    id: str
    question: str
    domain: str | None
    resolution_date: str | None
    source: dict[str, str]
    ground_truth_source: str
    tags: list[str]
    event_id: str | None
    currency: str
    forecast_until: NotRequired[str]
    forecast_from: NotRequired[str]


class ResolutionLine(TypedDict):
    """A line of resolutions.jsonl: a ResolutionRecord; `payout` is there where it is partial,
    `known_at` where the ending was first published at another time than that of `resolved_at`."""

    id: str
    outcome: int
    resolved_at: str
    payout: NotRequired[float]
    known_at: NotRequired[str]


class InstantLine(TypedDict):
    """A line of instants.jsonl: the market's price at an instant of a scored file (`odds`, and its
    age in seconds), and what the yardsticks said there."""

    id: str
    time: str
    odds: float | None
    price_age_s: float | None
    yardsticks: dict[str, float]


def questions_of(rows: Iterable[IntervalRow]) -> Iterator[IntervalRow]:
    """Rows of an intervals.jsonl, one per market and instant. Where several experiments asked, the
    row has the decisions and failures of all, with the context that shows the most."""
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


def counts(
    intervals: Iterable[IntervalRow | Answers], traces: Iterable[TraceRow]
) -> "DecisionCounts":
    """Decisions by how they were made, failures, and why code did not decide; per model as well.

    `reasons` counts why code did not decide (the fallback was then asked), `failures` why there was
    no decision at all.
    """
    fallbacks = set[tuple[str, str, str, int]]()
    reasons, requests = Counter[str](), Counter[str]()
    for trace in traces:
        requests[trace.model_id] += len(trace.calls)
        if isinstance(trace.fallback_reason, str):
            time, index = str(trace.time), int(trace.simulation_index or 0)
            fallbacks.add((trace.market_id, time, trace.model_id, index))
            reasons[reason(trace.fallback_reason)] += 1
    total, failures = Counter[str](), Counter[str]()
    models: dict[str, Counter[str]] = {}
    for row in intervals:
        for decision in row.decisions:
            name, index = decision.model_id, decision.simulation_index
            kind = _kind(decision, (row.market_id, row.time, name, index) in fallbacks)
            mine = models.setdefault(name, Counter())
            for counted in (total, mine):
                counted[kind] += 1
                counted["made"] += 1
                for mark in MARKS:
                    counted[mark] += bool(getattr(decision, mark))
        for failure in row.failures:
            total["failed"] += 1
            models.setdefault(failure.model_id, Counter())["failed"] += 1
            failures[reason(failure.error)] += 1
    return {
        **_shown(total),
        "reasons": dict(sorted(reasons.items())),
        "failures": dict(sorted(failures.items())),
        "models": {
            name: {**_shown(found), "requests": requests[name]}
            for name, found in sorted(models.items())
        },
    }


def counts_of_columns(
    columns: IntervalColumns, answered: "DecisionCounts | None" = None
) -> "DecisionCounts":
    """The same of pure functions, with the counts of those who were asked."""
    import numpy as np

    total, failures = Counter[str](), Counter[str]()
    models: dict[str, ModelCounts] = {}
    if answered is not None:
        total.update({name: answered[name] for name in WAYS})
        failures.update(answered["failures"])
        models.update(answered["models"])
    for k, one in enumerate(columns.who):
        if one["asked"]:
            continue
        made = int(np.isfinite(columns.forecasts[k]).sum())
        columns.release()
        missing = columns.rows_of(k) - made
        mine = Counter(made=made, baseline=made, failed=missing)
        failures[reason(one["failure"])] += missing
        total += mine
        models[one["model_id"]] = {**_shown(mine), "requests": 0}
    return {
        **_shown(total),
        "reasons": {} if answered is None else answered["reasons"],
        "failures": dict(sorted((+failures).items())),
        "models": dict(sorted(models.items())),
    }


def reason(text: str) -> str:
    """A reason without its details, so that it can be counted."""
    arms = [part for part in _ARM.split(text) if part]
    bare = (part.partition(": ")[0].partition(" (")[0] for part in arms)
    return "; ".join(shorten(part, 100, placeholder=" …") for part in bare)


def _kind(decision: DecisionRow, fallback: bool) -> str:
    if decision.mode == "direct_llm":
        return "fallback" if fallback else "direct"
    return "code" if decision.mode == "daytona_agent" else decision.mode


def _shown(found: Counter[str]) -> "WayCounts":
    return {name: found[name] for name in WAYS}  # type: ignore[return-value]
