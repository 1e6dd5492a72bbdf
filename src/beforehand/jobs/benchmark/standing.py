"""How rounds stand: what each holds, what of it was sealed and has resolved, and whether the events
and the sealed log are what they were."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import orjson
from typing_extensions import TypedDict

from beforehand.errors import BeforehandError, NotFound
from beforehand.ids import check_segment, digest
from beforehand.jobs.benchmark.live import LOG
from beforehand.jobs.benchmark.rounds import FROZEN, Round
from beforehand.store.files import read_bytes, read_json, read_lines
from beforehand.store.seals import Seal, check, read_seals


class RoundRow(TypedDict):
    """A round: when it was frozen, how many events, and why other markets are none. `changed` says
    that the events are no longer the frozen ones. `sealed` counts forecasts in the log, of
    `predictors`; `resolved` events. `problem` says why it cannot be read (null: it can)."""

    name: str
    made_at: str | None
    events: int
    left_out: dict[str, int]
    digest: str | None
    changed: bool
    sealed: int
    predictors: list[str]
    resolved: int
    problem: str | None


class SealedForecast(TypedDict):
    """What a predictor said of an event, and when that was sealed."""

    predictor: str
    probability: float
    sealed_at: str


class RoundEvent(TypedDict):
    """An event of a round with its sealed forecasts, and what it settled at (null: not yet)."""

    id: str
    question: str
    domain: str | None
    resolution_date: str | None
    baseline_probability: float | None
    forecasts: list[SealedForecast]
    outcome: float | None


class LogState(TypedDict):
    """The sealed log beside the rounds: its lines, the digest of the last one, and what is not as
    sealed. (Somebody who can write the file can make all of it anew: compare `head` with one that
    was published.)"""

    lines: int
    head: str | None
    problems: list[str]


def log_of(folder: Path) -> tuple[list[Seal], LogState]:
    """The log beside the rounds, and how it stands."""
    path = folder / LOG
    if not path.is_file():
        return [], {"lines": 0, "head": None, "problems": []}
    try:
        lines = read_seals(path)
    except BeforehandError as error:
        return [], {"lines": 0, "head": None, "problems": [str(error)]}
    found = check(lines)
    return lines, {"lines": found.n, "head": found.head, "problems": list(found.problems)}


def rounds_in(folder: Path) -> list[RoundRow]:
    """Every round of a folder, newest first."""
    lines, _ = log_of(folder)
    by_event = defaultdict[str, list[Seal]](list)
    for line in lines:
        by_event[line["id"]].append(line)
    names = sorted((path.parent.name for path in folder.glob(f"*/{FROZEN}")), reverse=True)
    return [_row(folder / name, by_event) for name in names]


def _row(folder: Path, by_event: Mapping[str, Sequence[Seal]]) -> RoundRow:
    empty: RoundRow = {
        "name": folder.name,
        "made_at": None,
        "events": 0,
        "left_out": {},
        "digest": None,
        "changed": False,
        "sealed": 0,
        "predictors": [],
        "resolved": 0,
        "problem": None,
    }
    try:
        frozen = cast(Round, read_json(folder / FROZEN))
        content = read_bytes(folder / "events.jsonl")
        events = [str(orjson.loads(line)["id"]) for line in content.splitlines() if line.strip()]
        row = {**empty, "made_at": frozen["made_at"], "left_out": frozen["left_out"]}
        row |= {"events": len(events), "digest": frozen["digest"]}
        row["changed"] = digest(content) != frozen["digest"]
        resolved = _outcomes(folder).keys() & set(events)
    except (BeforehandError, KeyError, TypeError, ValueError) as error:
        return {**empty, "problem": f"it cannot be read: {error}"}
    mine = [line for name in events for line in by_event.get(name, ())]
    row["sealed"], row["resolved"] = len(mine), len(resolved)
    row["predictors"] = sorted({line["predictor"] for line in mine})
    return cast(RoundRow, row)


def events_of(folder: Path, name: str) -> list[RoundEvent]:
    """The events of a round. Raises NotFound, and InputError for a name that is none."""
    place = folder / check_segment(name, "the name of a round")
    if not (place / FROZEN).is_file():
        raise NotFound(f"there is no round {name!r}: `beforehand bench crawl` makes one")
    lines, _ = log_of(folder)
    said = defaultdict[str, list[SealedForecast]](list)
    for line in lines:
        known = ("predictor", "probability", "sealed_at")
        said[line["id"]].append(cast(SealedForecast, {key: line[key] for key in known}))  # type: ignore[literal-required]
    outcomes, found = _outcomes(place), list[RoundEvent]()
    for _, text in read_lines(place / "events.jsonl"):
        event: dict[str, Any] = orjson.loads(text)
        found.append(
            {
                "id": event["id"],
                "question": event["question"],
                "domain": event.get("domain"),
                "resolution_date": event.get("resolution_date"),
                "baseline_probability": event.get("baseline_probability"),
                "forecasts": sorted(said[event["id"]], key=lambda one: one["predictor"]),
                "outcome": outcomes.get(event["id"]),
            }
        )
    return found


def _outcomes(folder: Path) -> dict[str, float]:
    path = folder / "resolutions.jsonl"
    rows = [orjson.loads(line) for _, line in read_lines(path)] if path.is_file() else []
    return {str(row["id"]): float(row.get("payout", row["outcome"])) for row in rows}
