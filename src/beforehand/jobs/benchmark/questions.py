"""Questions of other benchmarks, and questions born from EDGAR, as EventSpecs.

ForecastBench's question sets (CC BY-SA 4.0), Metaculus' questions as forecasting-tools exports
them, Prophet Arena's events. Metaculus forbids the evaluation of models on its questions without
its permission: they are read only where that is confirmed, and every record says so.

A question from EDGAR asks whether the next value of an XBRL fact will exceed that of the same
period a year before; companyfacts alone settle it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from beforehand.clock import end_of_day, iso, parse_instant
from beforehand.errors import InputError, ReplayMiss
from beforehand.gateway.view import View
from beforehand.ids import market_id
from beforehand.jobs.benchmark.events import SnapshotLine
from beforehand.jobs.benchmark.rounds import LeftOut
from beforehand.records import xbrl
from beforehand.records.world import Observation
from beforehand.score.forecastbench import kind_of
from beforehand.sources import edgar
from beforehand.store.files import read_json, read_text

FORECASTBENCH_LICENCE = "CC-BY-SA-4.0"
METACULUS_LICENCE = "Metaculus: no evaluation of models without its permission"
QUARTER = 3
"""Days of a quarter, as companies count them."""
FEWEST_VALUES, LONGEST_LAG = 5, 200
"""Quarterly values on record, and days from a quarter's end to the filing, in the median."""
Event = dict[str, Any]


@dataclass
class Read:
    """The events of a file, what of it is none, and the dated prices behind the baselines."""

    events: list[Event] = field(default_factory=list)
    left: list[LeftOut] = field(default_factory=list)
    snapshots: list[SnapshotLine] = field(default_factory=list)

    def leave(self, name: object, why: str) -> None:
        """Note a question that is no event."""
        self.left.append({"id": str(name)[:200], "reason": why})


def read(kind: str, path: Path, terms: bool = False) -> Read:
    """The questions of a file as events. Raises InputError for a file of another kind, and for
    Metaculus where nobody confirmed (`terms`) that it may be used."""
    if kind == "metaculus" and not terms:
        raise InputError(
            "Metaculus allows no evaluation of models on its questions without its permission: "
            "with that permission, say --with-permission"
        )
    found = Read()
    READERS[kind](path, found)
    names = set[str]()
    for event in list(found.events):
        if event["id"] in names:
            found.events.remove(event)
            found.leave(event["id"], "listed twice")
        names.add(event["id"])
    if not found.events:
        why = {one["reason"] for one in found.left}
        raise InputError(f"{path} holds no question that can be an event ({'; '.join(why)})")
    return found


def _forecastbench(path: Path, found: Read) -> None:
    body = read_json(path)
    try:
        due, items = str(body["forecast_due_date"]), list(body["questions"])
        asked_at = end_of_day(parse_instant(due))
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is no question set of ForecastBench: it needs forecast_due_date and questions"
        ) from None
    for one in items:
        if not isinstance(one, Mapping) or not isinstance(one.get("id"), str):
            found.leave(one.get("id") if isinstance(one, Mapping) else one, "a combination")
            continue
        source, text = str(one.get("source")), one.get("question")
        if (kind := kind_of(one)) is None or not isinstance(text, str):
            found.leave(one["id"], "no question, or of an unknown source")
            continue
        text = text.replace("{forecast_due_date}", due)
        base: Event = {
            "question": text,
            "domain": None,
            "ground_truth_source": source,
            "tags": [source],
            "forecast_at": iso(asked_at),
            "licence": FORECASTBENCH_LICENCE,
        }
        place = {"type": source, "market_id": one["id"], "url": _text(one.get("url"))}
        source_wire = {k: v for k, v in place.items() if v}
        if kind == "market":
            _market_question(one, {**base, "source": source_wire}, asked_at, found)
            continue
        dates = one.get("resolution_dates")
        for day in dates if isinstance(dates, list) else ():
            end = _instant(day)
            if end is None:
                found.leave(f"{one['id']}@{day}", "a resolution date that is none")
                continue
            found.events.append(
                {
                    "id": market_id(source, f"{one['id']}@{day}"),
                    **base,
                    "question": text.replace("{resolution_date}", str(day)),
                    "source": source_wire,
                    "resolution_date": end,
                }
            )


def _market_question(one: Mapping[str, Any], base: Event, asked_at: datetime, found: Read) -> None:
    """A market's question, with its value at the freeze as the dated baseline."""
    close = _instant(one.get("market_info_close_datetime"))
    price, frozen = _share(one.get("freeze_datetime_value")), _instant(one.get("freeze_datetime"))
    event: Event = {"id": market_id(str(one["source"]), one["id"]), **base}
    event |= {"resolution_date": close} if close else {}
    if price is not None and frozen:
        event |= {"baseline_probability": price}
        age = (asked_at - parse_instant(frozen)).total_seconds()
        found.snapshots.append(
            {
                "id": event["id"],
                "probability": price,
                "observed_at": frozen,
                "known_at": frozen,
                "price_age": age,
            }
        )
    found.events.append(event)


def _metaculus(path: Path, found: Read) -> None:
    body = read_json(path)
    items = body.get("results", body.get("questions")) if isinstance(body, Mapping) else body
    if not isinstance(items, list):
        raise InputError(f"{path} is no export of Metaculus' questions: a list is expected")
    for one in items:
        if not isinstance(one, Mapping):
            found.leave(one, "no object")
            continue
        name, text = one.get("question_id"), one.get("question_text")
        kind = one.get("question_type", "binary")
        if type(name) is not int or name <= 0 or not isinstance(text, str) or not text.strip():
            found.leave(name, "no id or no text")
        elif kind != "binary":
            found.leave(name, f"a {kind} question: only binary ones are events")
        else:
            close = _instant(one.get("scheduled_resolution_time")) or _instant(
                one.get("close_time")
            )
            place = {"type": "Metaculus", "market_id": str(name), "url": _text(one.get("page_url"))}
            event = {
                "id": market_id("METACULUS", str(name)),
                "question": text,
                "ground_truth_source": "Metaculus",
                "tags": [],
                "source": {k: v for k, v in place.items() if v},
                "licence": METACULUS_LICENCE,
            }
            found.events.append(event | ({"resolution_date": close} if close else {}))


def _prophet(path: Path, found: Read) -> None:
    rows = read_text(path).strip()
    try:
        whole = rows.startswith("[")
        items = orjson.loads(rows) if whole else [orjson.loads(r) for r in rows.splitlines()]
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path} is neither a JSON list nor JSONL: {error}") from None
    for one in items:
        if not isinstance(one, Mapping):
            found.leave(one, "no object")
            continue
        ticker, title = one.get("market_ticker"), one.get("title")
        if not isinstance(ticker, str) or not ticker or not isinstance(title, str):
            found.leave(ticker or one.get("event_ticker"), "no market_ticker or no title")
            continue
        parts = [title, one.get("subtitle")]
        close = _instant(one.get("close_time"))
        event: Event = {
            "id": market_id("KALSHI", ticker),
            "question": " — ".join(str(p) for p in parts if p),
            "domain": _text(one.get("category")),
            "ground_truth_source": "Kalshi",
            "tags": [],
            "source": {"type": "Kalshi", "market_id": ticker},
            "event_id": _text(one.get("event_ticker")),
        }
        found.events.append(event | ({"resolution_date": close} if close else {}))


READERS: Mapping[str, Callable[[Path, Read], None]] = {
    "forecastbench": _forecastbench,
    "metaculus": _metaculus,
    "prophet": _prophet,
}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and value != "N/A" else None


def _instant(value: object) -> str | None:
    try:
        return iso(parse_instant(str(value))) if _text(value) else None
    except ValueError:
        return None


def _share(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None


def from_edgar(view: View, companies: Sequence[str], concepts: Sequence[str]) -> Read:
    """A question for each company and concept whose quarterly values are on record by the view's
    instant: will the next value exceed that of a year before? Raises InputError for what is no
    CIK."""
    found = Read()
    for company in companies:
        if not company.isdigit():
            raise InputError(f"--cik {company!r}: a CIK is a number, such as 320193")
        try:
            rows = view.observations(edgar.SOURCE, "fact", edgar.cik10(company))
        except ReplayMiss:
            found.leave(f"CIK {company}", "no filing on record")
            continue
        series = defaultdict[tuple[str, str], dict[date, Observation]](dict)
        for row in sorted(rows, key=lambda r: r.known_at, reverse=True):
            if not row.snapshot and (end := _quarter_end(row)) is not None:
                key = str(row.data["concept"]), str(row.data["unit"])
                series[key][end] = row  # The first filing of it: a later one may restate it.
        for (concept, unit), values in sorted(series.items()):
            names = (concept, concept.partition(":")[2])
            if concepts and not set(names) & set(concepts):
                continue
            _next(view, company, concept, unit, values, found)
    return found


def _quarter_end(row: Observation) -> date | None:
    """The end of the quarter that a value is of (or the day, for what is counted on one)."""
    fact = xbrl.Fact.of(row.data, row.known_at)
    try:
        quarterly = fact.end is not None and (fact.start is None or fact.months == QUARTER)
        return date.fromisoformat(str(fact.end)) if quarterly else None
    except ValueError:
        return None


def _next(
    view: View,
    company: str,
    concept: str,
    unit: str,
    values: Mapping[date, Observation],
    found: Read,
) -> None:
    ends, name = sorted(values), f"edgar:{int(company)}:{concept}:{unit}"
    if len(ends) < FEWEST_VALUES:
        found.leave(name, f"fewer than {FEWEST_VALUES} quarterly values on record")
        return
    year_later = {_later(end): end for end in ends}
    period = _near(ends[-1] + timedelta(days=91), year_later)
    if period is None:
        found.leave(name, "no value of a year before the next quarter")
        return
    before = year_later[period]
    lag = median((row.known_at.date() - end).days for end, row in values.items())
    due = datetime.combine(period, datetime.min.time(), view.t.tzinfo) + timedelta(days=lag)
    if due <= view.t or lag > LONGEST_LAG:
        found.leave(name, "the next value is overdue, or such values are filed late")
        return
    bound = float(values[before].data["value"])
    of_quarter = values[before].data.get("start") is not None
    span = "quarter" if of_quarter else "period"
    found.events.append(
        {
            "id": f"{name}:{period.isoformat()}",
            "question": f"Will {concept} of CIK {int(company)} for the {span} that ends on {period.isoformat()} exceed {bound:,.10g} {unit}, the value of a year before?",  # noqa: E501
            "domain": "finance",
            "resolution_date": iso(due),
            "source": {"type": "SEC", "market_id": f"CIK{edgar.cik10(company)}"},
            "ground_truth_source": "EDGAR companyfacts",
            "tags": ["earnings", concept.partition(":")[2]],
            "forecast_at": iso(view.t),
            "resolves_by": {
                "kind": "xbrl_fact",
                "cik": str(int(company)),
                "concept": concept,
                "unit": unit,
                "period": period.isoformat(),
                **({"months": QUARTER} if of_quarter else {}),
                "above": bound,
            },
        }
    )


def _later(end: date) -> date:
    """The same day a year later (28 February for the 29th)."""
    try:
        return end.replace(year=end.year + 1)
    except ValueError:
        return end.replace(year=end.year + 1, day=28)


def _near(wanted: date, known: Iterable[date]) -> date | None:
    """The known day that is nearest, if it lies within two weeks."""
    close = [day for day in known if abs((day - wanted).days) <= 14]
    return min(close, key=lambda day: abs((day - wanted).days)) if close else None
