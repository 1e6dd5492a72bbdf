"""SEC EDGAR: facts a company reported, and its filings. `filed` is when a fact is known, not the
period it is about; a filing day is over at its end in UTC (filings of a day close at 17:30
Eastern). Submissions: shape, not recorded.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from beforehand.clock import end_of_day
from beforehand.errors import BadAnswer, InputError
from beforehand.records.record import Record
from beforehand.records.world import Observation
from beforehand.sources.base import (
    Further,
    Limit,
    Parse,
    Probe,
    Provider,
    Request,
    Source,
    fetch_mark,
    words,
)
from beforehand.sources.fields import answer, each, instant, mapping, number, required, rows, text

SOURCE = "edgar"
CIK = "9999999999"
"""The company of simulated worlds."""


def cik10(cik: str) -> str:
    """A central index key as EDGAR's addresses have it: ten digits."""
    digits = cik.strip().upper().removeprefix("CIK").lstrip("0")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        raise InputError(f"{cik!r} is not a CIK: give up to ten digits, such as 320193")
    return digits.zfill(10)


def facts_request(cik: str) -> Request:
    """All XBRL facts of a company."""
    return Request("edgar", "companyfacts", f"/api/xbrl/companyfacts/CIK{cik10(cik)}.json")


def submissions_request(cik: str) -> Request:
    """A company's recent filings."""
    return Request("edgar", "submissions", f"/submissions/CIK{cik10(cik)}.json")


def _filed(value: Any) -> datetime:
    return end_of_day(datetime.fromisoformat(str(value)).replace(tzinfo=UTC))


def _accepted(value: Any) -> datetime:
    """When a filing was accepted: some forms are taken until 22:00 Eastern of their day."""
    return instant(value) or datetime.fromtimestamp(0, UTC)


@answer("EDGAR's company facts")
def parse_facts(raw: Any, fetched_at: datetime) -> list[Observation]:
    """One observation a reported value, known at the end of the day it was filed."""
    body = mapping(raw, "company facts")
    subject = cik10(str(required(body, "cik")))
    out = list[tuple[str, str, object]]()
    for taxonomy, concepts in mapping(required(body, "facts"), "facts").items():
        for concept, entry in mapping(concepts, taxonomy).items():
            units = mapping(mapping(entry, concept).get("units"), "units")
            for unit, values in units.items():
                out += [(f"{taxonomy}:{concept}", unit, row) for row in rows(values, unit)]

    def fact(named: tuple[str, str, object]) -> Observation:
        name, unit, row = named
        item = mapping(row, "a fact")
        span = "/".join(str(item.get(k)) for k in ("start", "end", "accn"))
        return Observation(
            source=SOURCE,
            kind="fact",
            subject=subject,
            id=f"{name}/{unit}/{span}",
            data={
                "concept": name,
                "unit": unit,
                "value": number(required(item, "val")),
                "start": text(item.get("start")),
                "end": text(item.get("end")),
                "fiscal_year": item.get("fy"),
                "fiscal_period": item.get("fp"),
                "form": item.get("form"),
                "filed": str(required(item, "filed")),
                "accession": item.get("accn"),
            },
            known_at=_filed(item["filed"]),
        )

    facts = each(out, fact)
    return [fetch_mark(SOURCE, "fact", subject, len(facts), fetched_at), *facts]


@answer("EDGAR's submissions")
def parse_submissions(raw: Any, fetched_at: datetime) -> list[Observation | Further]:
    """One observation a filing, known at the end of its filing day; and the further files that
    list a company's older filings, each as another request."""
    body = mapping(raw, "submissions")
    subject = cik10(str(required(body, "cik")))
    filings = mapping(required(body, "filings"), "filings")
    out = _listed(subject, mapping(filings.get("recent"), "recent"))
    further = list[Further]()
    for item in rows(filings.get("files") or [], "files"):
        name = str(required(mapping(item, "a further file"), "name"))
        if not re.fullmatch(rf"CIK{subject}-submissions-\d{{3}}\.json", name):
            raise BadAnswer(f"filings.files names {name[:80]!r}, which is no file of this company")
        request = Request("edgar", "submissions", f"/submissions/{name}")
        further.append(Further(request, partial(_further, subject)))
    return [fetch_mark(SOURCE, "filing", subject, len(out), fetched_at), *out, *further]


def _further(subject: str, raw: Any, fetched_at: datetime) -> list[Observation]:
    return _listed(subject, mapping(raw, "a further file"))


def _listed(subject: str, table: Mapping[str, object]) -> list[Observation]:
    """The filings of a table of columns."""
    columns = {key: rows(table.get(key), key) for key in table if isinstance(table[key], list)}

    def filing(numbered: tuple[int, object]) -> Observation:
        i, accession = numbered

        def cell(name: str) -> Any:
            column = columns.get(name) or []
            return column[i] if i < len(column) else None

        filed = cell("filingDate")
        if filed is None:
            raise BadAnswer(f"filing {accession}: the field 'filingDate' is missing")
        return Observation(
            source=SOURCE,
            kind="filing",
            subject=subject,
            id=str(accession),
            data={
                "accession": str(accession),
                "form": cell("form"),
                "filed": str(filed),
                "report_date": cell("reportDate") or None,
                "accepted": cell("acceptanceDateTime"),
                "document": cell("primaryDocument"),
                "description": cell("primaryDocDescription") or None,
            },
            known_at=max(_filed(filed), _accepted(cell("acceptanceDateTime"))),
        )

    return each(enumerate(columns.get("accessionNumber", [])), filing)


def _facts(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    return [(facts_request(subject), lambda b, at: list(parse_facts(b, at)))]


def _filings(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    return [(submissions_request(subject), lambda b, at: list(parse_submissions(b, at)))]


def read_recorded(raw: Any, fetched_at: datetime, market: str | None) -> list[Record]:
    """Any recorded answer, by its shape."""
    body = mapping(raw, "an EDGAR answer")
    parse = parse_facts if "facts" in body else parse_submissions
    return [row for row in parse(body, fetched_at) if isinstance(row, Observation)]


def simulated(rng: Any, start: datetime, stop: datetime) -> Iterator[Record]:
    """A company that reports every quarter, filed five weeks after the quarter's end."""
    yield fetch_mark(SOURCE, "fact", CIK, 0, start)
    for i, at in enumerate(_quarters(start, stop)):
        filed, accession = at + timedelta(days=35), f"{CIK}-{i:06d}"
        day = filed.date().isoformat()
        fact = {
            "concept": "us-gaap:Revenues",
            "unit": "USD",
            "value": float(rng.integers(10_000, 99_000)),
            "start": None,
            "end": at.date().isoformat(),
            "fiscal_year": at.year,
            "fiscal_period": f"Q{1 + i % 4}",
            "form": "10-Q",
            "filed": day,
            "accession": accession,
        }
        known = end_of_day(filed)
        yield _row("fact", f"us-gaap:Revenues/{accession}", fact, known)
        filing = {
            "accession": accession,
            "form": "10-Q",
            "filed": day,
            "report_date": fact["end"],
            "accepted": None,
            "document": None,
            "description": "Simulated filing",
        }
        yield _row("filing", accession, filing, known)


def _quarters(start: datetime, stop: datetime) -> Iterator[datetime]:
    at = start + timedelta(days=91)
    while at < stop:
        yield at
        at += timedelta(days=91)


def _row(kind: str, name: str, data: Mapping[str, object], at: datetime) -> Observation:
    return Observation(source=SOURCE, kind=kind, subject=CIK, id=name, data=data, known_at=at)


THE_SOURCE = Source(
    SOURCE,
    (
        Provider(
            "edgar",
            "SEC EDGAR",
            "https://data.sec.gov",
            (Limit(10, 1.0),),
            auth="contact",
            keys=("BEFOREHAND_CONTACT",),
            without="the SEC asks every client to name a contact, such as "
            "BEFOREHAND_CONTACT='Ada Example ada@example.org'; recorded facts work without "
            "(--mode replay)",
        ),
    ),
    answers={"fact": _facts, "filing": _filings},
    probes=(
        Probe(
            "edgar companyfacts",
            lambda _: facts_request("320193"),
            "-",
            words("cik facts"),
            "edgar",
        ),
        Probe(
            "edgar submissions",
            lambda _: submissions_request("320193"),
            "-",
            words("cik filings"),
            "edgar",
        ),
    ),
    recorded=read_recorded,
    sample=simulated,
)
