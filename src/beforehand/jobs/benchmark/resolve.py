"""How events ended: ResolutionRecords from venues, filings, prices and people, with their history.

Each event asks the sources that fit it. A market of a venue ends as the venue says; an event whose
key `resolves_by` names an XBRL fact or a price is settled by the first filing of it, or by the last
price at its time; a person may state an outcome with a reason. Two sources that disagree are a
conflict: both are named, and nothing is written for that event. Resolving again writes what holds
now, and adds what changed to the history, which is never rewritten.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso, when
from beforehand.errors import InputError, NotFound, ReplayMiss
from beforehand.gateway.view import View
from beforehand.jobs.benchmark.events import load_events, market_of, valid
from beforehand.jobs.results import resolution_wire
from beforehand.records import xbrl
from beforehand.records.benchmark import EventSpec, Outcome, ResolutionRecord
from beforehand.records.record import Number, Record, Utc
from beforehand.records.settles import Settles, rule_of
from beforehand.sources import edgar
from beforehand.store.files import append_jsonl, plain_number, read_csv, read_lines, write_jsonl

LONGEST_GAP = timedelta(days=1)
"""A price settles a question if it is at most so old at the question's time."""
OPEN, VOID, DISPUTED, CONFLICT = "open", "void", "disputed", "conflict"
UNDECIDED = "undecided"
"""Several reported values fit what settles it."""


class Manual(Record):
    """An outcome that a person states, with who and why."""

    id: str
    outcome: Outcome
    author: Annotated[str, Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]
    resolved_at: Utc | None = None
    verified_value: Number | None = None
    verified_source: str | None = None


class Ended(TypedDict):
    """A ResolutionRecord with where it comes from. `settled` is the payout where it is partial,
    else the outcome."""

    id: str
    outcome: int
    resolved_at: str | None
    verified_source: str
    payout: NotRequired[float]
    verified_value: NotRequired[float]
    source: str


class Change(TypedDict):
    """A line of the history: what an event ended as before and from then on (None: not at all)."""

    id: str
    at: str
    before: Ended | None
    now: Ended | None
    conflict: NotRequired[list[Ended]]


@dataclass
class Resolved:
    """What resolving found. `states` counts the events by how they stand, `early` those that ended
    before their resolution_date."""

    records: list[Ended] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    conflicts: dict[str, list[Ended]] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)
    early: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Close:
    """A price of anything (not of a market) at an instant."""

    at: datetime
    price: float


@dataclass(frozen=True)
class Sources:
    """Where endings are looked up: the world, prices by id, and outcomes that people state."""

    view: View
    prices: Mapping[str, Sequence[Close]] = field(default_factory=dict)
    manual: Mapping[str, Manual] = field(default_factory=dict)


def load_manual(path: Path) -> dict[str, Manual]:
    """Outcomes that people state, by event. Raises InputError, which names file and line."""
    found = dict[str, Manual]()
    for number, line in read_lines(path):
        said = valid(path, number, line, Manual)
        if said.id in found and found[said.id].outcome != said.outcome:
            raise InputError(f"{path}:{number}: a second, different outcome for {said.id!r}")
        found[said.id] = said
    return found


def load_prices(path: Path) -> dict[str, list[Close]]:
    """Prices by id, in order of time, from a CSV of id,time,price. Raises InputError, which names
    file and line."""
    found = dict[str, list[Close]]()
    for number, row, problem in read_csv(path, ("id", "time", "price")):
        try:
            if row is None:
                raise ValueError(problem)
            close = Close(when(row["time"]), plain_number(row["price"]))
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        found.setdefault(row["id"].strip(), []).append(close)
    for points in found.values():
        points.sort(key=lambda point: point.at)
    return found


def resolve(events: Path, out: Path, sources: Sources, now: datetime) -> Resolved:
    """Resolve every event that has ended, write the records to `out`, and what changed to its
    history beside it (`NAME_history.jsonl`). Raises InputError for files that cannot be read."""
    before = {one["id"]: one for one in _stored(out)}
    found = Resolved()
    asked = load_events(events)
    unknown = sources.manual.keys() - {spec.id for _, spec in asked}
    found.problems += [
        f"{name}: stated by hand, and no event has this id" for name in sorted(unknown)
    ]
    for number, spec in asked:
        try:
            state, said = _ask(spec, sources)
        except xbrl.Undecided as error:
            found.problems.append(f"{spec.id}: {error}")
            state, said = UNDECIDED, []
        except InputError as error:
            raise InputError(f"{events}:{number}: {spec.id}: {error}") from None
        _keep(found, spec, state, said, before.get(spec.id), now)
    append_jsonl(history_of(out), found.changes)  # First: a crash in between loses no change.
    write_jsonl(out, found.records)
    return found


def history_of(out: Path) -> Path:
    """Where the history of a file of resolutions stands."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}_history.jsonl")


def _stored(out: Path) -> Iterator[Ended]:
    for number, line in read_lines(out) if out.is_file() else ():
        record = valid(out, number, line, ResolutionRecord)
        extra = record.model_extra or {}
        kept: Ended = {
            "id": record.id,
            "outcome": record.outcome,
            "resolved_at": None if record.resolved_at is None else iso(record.resolved_at),
            "verified_source": record.verified_source or "",
            "source": str(extra.get("source", "")),
        }
        if record.payout is not None:
            kept["payout"] = record.payout
        if record.verified_value is not None:
            kept["verified_value"] = record.verified_value
        yield kept


def _keep(
    found: Resolved,
    spec: EventSpec,
    state: str,
    said: list[Ended],
    before: Ended | None,
    now: datetime,
) -> None:
    """Count an event, and note its record, its conflict, and what changed since the last time."""
    if len({_settled(one) for one in said}) > 1:
        found.states[CONFLICT] += 1
        found.conflicts[spec.id] = said
        found.changes.append(
            {"id": spec.id, "at": iso(now), "before": before, "now": None, "conflict": said}
        )
        return
    one = said[0] if said else None
    found.states["resolved" if one else state] += 1
    if one is not None:
        found.records.append(one)
        at, due = one["resolved_at"], spec.resolution_date
        found.early += at is not None and due is not None and at < iso(due)
    if before != one and (before is None or one is None or _told(before) != _told(one)):
        found.changes.append({"id": spec.id, "at": iso(now), "before": before, "now": one})


def _settled(one: Ended) -> float:
    return one.get("payout", float(one["outcome"]))


def _told(one: Ended) -> tuple[object, ...]:
    return (_settled(one), one["resolved_at"], one["verified_source"], one.get("verified_value"))


def _ask(spec: EventSpec, sources: Sources) -> tuple[str, list[Ended]]:
    """How an event stands where nothing says how it ended, and what each source says of its
    end."""
    said, state = list[Ended](), OPEN
    if (rule := rule_of(spec)) is not None:
        said += _by_rule(rule, sources)
    else:
        state, of_venue = _of_venue(spec, sources.view)
        said += of_venue
    if (stated := sources.manual.get(spec.id)) is not None:
        said.append(_by_hand(stated))
    for one in said:
        one["id"] = spec.id
    return state, said


def _of_venue(spec: EventSpec, view: View) -> tuple[str, list[Ended]]:
    try:
        name = view.resolve_id(market_of(spec))
        ending = view.resolution(name)
    except (NotFound, ReplayMiss):
        return "not in the archive", []
    if ending is None:
        return OPEN, []
    line = resolution_wire(ending)
    if line is None:
        return ending.status, []
    source = (spec.source.url if spec.source else None) or name
    made: Ended = {
        "id": spec.id,
        "outcome": line["outcome"],
        "resolved_at": line["resolved_at"],
        "verified_source": source,
        "source": name.partition(":")[0],
    }
    if "payout" in line:
        made["payout"] = line["payout"]
    return OPEN, [made]


def _by_rule(settles: Settles, sources: Sources) -> Iterator[Ended]:
    if settles.kind == "xbrl_fact":
        yield from _of_fact(settles, sources.view)
    else:
        yield from _of_price(settles, sources.prices)


def _of_fact(settles: Settles, view: View) -> Iterator[Ended]:
    """The first filing of a fact."""
    company, concept, period = settles.fact()
    cik = edgar.cik10(company)
    try:
        rows = view.observations(edgar.SOURCE, "fact", cik)
    except ReplayMiss:
        return
    filed = xbrl.Filings(xbrl.Fact.of(row.data, row.known_at) for row in rows if not row.snapshot)
    if (fact := filed.first(concept, settles.unit, period)) is not None:
        yield {
            "id": "",
            "outcome": settles.outcome(fact.value),
            "resolved_at": iso(fact.known_at),
            "verified_value": fact.value,
            "verified_source": f"edgar:{cik}/{fact.accession}",
            "source": "EDGAR",
        }


def _of_price(settles: Settles, prices: Mapping[str, Sequence[Close]]) -> Iterator[Ended]:
    """The last price at the stated time, where it is at most a day old."""
    if settles.id is None or settles.at is None:
        raise InputError("resolves_by of a price needs id and at")
    points = prices.get(settles.id, ())
    known = [p for p in points if p.at <= settles.at]
    # Until a later one is on record, more prices of before may still come.
    if not known or points[-1].at < settles.at:
        return
    last = known[-1]
    if settles.at - last.at > LONGEST_GAP:
        return
    yield {
        "id": "",
        "outcome": settles.outcome(last.price),
        "resolved_at": iso(settles.at),
        "verified_value": last.price,
        "verified_source": f"price of {settles.id} at {iso(last.at)}",
        "source": "prices",
    }


def _by_hand(said: Manual) -> Ended:
    made: Ended = {
        "id": said.id,
        "outcome": said.outcome,
        "resolved_at": None if said.resolved_at is None else iso(said.resolved_at),
        "verified_source": said.verified_source or f"{said.author}: {said.reason}",
        "source": f"by hand: {said.author}",
    }
    if said.verified_value is not None and math.isfinite(said.verified_value):
        made["verified_value"] = said.verified_value
    return made


def conflict_lines(conflicts: Mapping[str, Iterable[Ended]]) -> Iterator[str]:
    """Each conflict in a sentence that names its sources."""
    for name, said in conflicts.items():
        told = "; ".join(
            f"{one['source']} says {_settled(one):g} ({one['verified_source']})" for one in said
        )
        yield f"{name}: {told}"
