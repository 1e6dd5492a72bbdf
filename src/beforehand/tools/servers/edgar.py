"""The `edgar` server: what companies reported to the SEC, by the day it was filed."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.sources import edgar
from beforehand.tools.bounds import Rows
from beforehand.tools.registry import Call, Example, Row, server, tool


class Facts(TypedDict):
    cik: str
    facts: list[Row]


class Filings(TypedDict):
    cik: str
    filings: list[Row]


SERVER = server("edgar", "What companies reported to the SEC, by the day it was filed.")
SERVICES = ("edgar",)
FACTS = Example("recorded", "2025-11-01", "one company's facts")
FILINGS = Example("simulated", "2026-11-01", "EDGAR's documentation (shape, not recorded)")
Cik = Annotated[str, Field(max_length=13, description="Central index key, such as 320193.")]


@tool(
    SERVER,
    example=FACTS,
    rows=Rows("facts", default=20, maximum=1000),
    services=SERVICES,
    probe="edgar companyfacts",
)
def get_company_facts(
    call: Call,
    *,
    cik: Cik,
    concept: Annotated[
        str | None, Field(description="Only this concept, such as us-gaap:Assets or Assets.")
    ] = None,
) -> Facts:
    """Get the facts a company reported, last filed first. A fact is known once it was filed,
    whatever period it speaks of."""
    subject = edgar.cik10(cik)
    found = [row.data for row in call.view.observations(edgar.SOURCE, "fact", subject)]
    if concept is not None:
        wanted = concept.lower()
        found = [
            row
            for row in found
            if wanted in (row["concept"].lower(), row["concept"].partition(":")[2].lower())
        ]
    return {"cik": subject, "facts": found}


@tool(
    SERVER,
    example=FILINGS,
    rows=Rows("filings", default=20, maximum=1000),
    services=SERVICES,
    probe="edgar submissions",
)
def list_company_filings(
    call: Call,
    *,
    cik: Cik,
    form: Annotated[str | None, Field(description="Only this form, such as 10-K or 8-K.")] = None,
) -> Filings:
    """List a company's filings, last filed first."""
    subject = edgar.cik10(cik)
    found = [row.data for row in call.view.observations(edgar.SOURCE, "filing", subject)]
    if form is not None:
        found = [row for row in found if str(row["form"]).upper() == form.upper()]
    return {"cik": subject, "filings": found}
