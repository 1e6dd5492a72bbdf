"""SEC EDGAR: facts a company reported, and its filings. `filed` is when a fact is known, not the
period it speaks of; a filing day is over at its end in UTC (filings of a day close at 17:30
Eastern). Submissions: shape, not recorded.
"""

from datetime import UTC, datetime
from typing import Any

from beforehand.clock import end_of_day
from beforehand.errors import InputError
from beforehand.records.world import Observation
from beforehand.sources.fields import answer, instant, mapping, number, required, rows, text
from beforehand.sources.observed import fetch_mark
from beforehand.sources.request import Request

SOURCE = "edgar"


def cik10(cik: str) -> str:
    """A central index key as EDGAR's addresses have it: ten digits."""
    digits = cik.strip().upper().removeprefix("CIK").lstrip("0")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        raise InputError(f"{cik!r} is no CIK: give up to ten digits, such as 320193")
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
    out = []
    for taxonomy, concepts in mapping(required(body, "facts"), "facts").items():
        for concept, entry in mapping(concepts, taxonomy).items():
            units = mapping(mapping(entry, concept).get("units"), "units")
            for unit, values in units.items():
                for row in rows(values, unit):
                    item = mapping(row, "a fact")
                    span = "/".join(str(item.get(k)) for k in ("start", "end", "accn"))
                    out.append(
                        Observation(
                            source=SOURCE,
                            kind="fact",
                            subject=subject,
                            id=f"{taxonomy}:{concept}/{unit}/{span}",
                            data={
                                "concept": f"{taxonomy}:{concept}",
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
                    )
    return [fetch_mark(SOURCE, "fact", subject, len(out), fetched_at), *out]


@answer("EDGAR's submissions")
def parse_submissions(raw: Any, fetched_at: datetime) -> list[Observation]:
    """One observation a filing, known at the end of its filing day."""
    body = mapping(raw, "submissions")
    subject = cik10(str(required(body, "cik")))
    recent = mapping(mapping(required(body, "filings"), "filings").get("recent"), "recent")
    columns = {key: rows(recent.get(key), key) for key in recent if isinstance(recent[key], list)}
    accessions = columns.get("accessionNumber", [])
    out = []
    for i, accession in enumerate(accessions):

        def cell(name: str, i: int = i) -> Any:
            column = columns.get(name) or []
            return column[i] if i < len(column) else None

        out.append(
            Observation(
                source=SOURCE,
                kind="filing",
                subject=subject,
                id=str(accession),
                data={
                    "accession": str(accession),
                    "form": cell("form"),
                    "filed": str(cell("filingDate")),
                    "report_date": cell("reportDate") or None,
                    "accepted": cell("acceptanceDateTime"),
                    "document": cell("primaryDocument"),
                    "description": cell("primaryDocDescription") or None,
                },
                known_at=max(_filed(cell("filingDate")), _accepted(cell("acceptanceDateTime"))),
            )
        )
    return [fetch_mark(SOURCE, "filing", subject, len(out), fetched_at), *out]
