"""Reported values and their periods. An XBRL fact is its concept, unit, start and end.

The fields `fy` and `fp` of the SEC's company facts name the filing, and stand on the values of the
year before in it as well. So a fiscal label (`2025 Q2`, `Q2 2025`, `FY2025`) is that of a fact
whose period ends with the filing's own, or whole years before it; and a quarter, a half-year, nine
months and a year that end on one day are told apart by their length.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from beforehand.clock import iso
from beforehand.errors import InputError


class Undecided(InputError):
    """Several reported values fit what is asked."""


Part = Literal["Q1", "Q2", "Q3", "Q4", "H1", "H2", "9M", "FY"]
LENGTHS = {3: (80, 100), 6: (170, 192), 9: (260, 290), 12: (350, 380)}
"""Months of a period, and its days: fiscal calendars of 13, 26, 39, 52 and 53 weeks too."""
MONTHS: Mapping[Part, int] = {
    "Q1": 3, "Q2": 3, "Q3": 3, "Q4": 3, "H1": 6, "H2": 6, "9M": 9, "FY": 12,
}  # fmt: skip
FILED_IN: Mapping[Part, str] = {"Q4": "FY", "H1": "Q2", "H2": "FY", "9M": "Q3"}
"""The filing of which a period is, where it has another name."""
WEEK_YEAR = 10
"""So many days may a fiscal year end earlier or later than the one before."""
YEAR = 365.25
_WORDS = {3: "the quarter", 6: "the half-year", 9: "the nine months", 12: "the year"}
_YEAR = r"(?P<{0}>(?:19|20)\d\d)"
LABEL = re.compile(
    r"\b(?:(?:FY\s*)?" + _YEAR.format("before") + r"[\s/-]*(?P<part2>Q[1-4]|H[12]|9M|FY)|"
    r"(?P<part>Q[1-4]|H[12]|9M|FY)[\s/-]*(?:of\s+)?(?:FY\s*)?" + _YEAR.format("after") + r"|"
    r"fiscal(?:\s+year)?\s+" + _YEAR.format("fiscal") + r")\b",
    re.IGNORECASE,
)
"""A fiscal quarter, half-year, nine months or year, as people write it."""
_PART = re.compile(r"\b(?:Q[1-4]|H[12]|9M)\b", re.IGNORECASE)
_SPAN = re.compile(r"(\d{4}-\d\d-\d\d)(?:\s*(?:/|to)\s*(\d{4}-\d\d-\d\d))?")


def months_of(days: int) -> int | None:
    """3, 6, 9 or 12, as so many days are; None for another length."""
    return next((m for m, (low, high) in LENGTHS.items() if low <= days <= high), None)


def a_year_before(day: str) -> str:
    """The same day of the year before (28 February for the 29th)."""
    last = date.fromisoformat(day)
    return last.replace(
        year=last.year - 1, day=min(last.day, 28 if last.month == 2 else 31)
    ).isoformat()


@dataclass(frozen=True)
class Fact:
    """A reported value: `concept` such as us-gaap:Revenues, the days on which its period starts
    (None: it is counted on one day) and ends, what its filing calls itself (`fy`, `fp`, `form`,
    `accession`), known once it was filed."""

    concept: str
    value: float
    unit: str
    start: str | None
    end: str | None
    fy: int | None
    fp: str | None
    form: str | None
    accession: str | None
    known_at: datetime

    @classmethod
    def of(cls, data: Mapping[str, object], known_at: datetime) -> "Fact":
        """The fact of an observation."""
        year = str(data.get("fiscal_year") or "")

        def said(key: str) -> str | None:
            return None if data.get(key) is None else str(data[key])

        return cls(
            concept=str(data["concept"]),
            value=float(str(data["value"])),
            unit=str(data["unit"]),
            start=said("start"),
            end=said("end"),
            fy=int(year) if year.isdigit() else None,
            fp=said("fiscal_period"),
            form=said("form"),
            accession=said("accession"),
            known_at=known_at,
        )

    @property
    def days(self) -> int | None:
        """How long its period is, both days counted; None for what is counted on one day."""
        if self.start is None or self.end is None:
            return None
        return (date.fromisoformat(self.end) - date.fromisoformat(self.start)).days + 1

    @property
    def months(self) -> int | None:
        """3, 6, 9 or 12; None for another length, or none."""
        return None if self.days is None else months_of(self.days)

    @property
    def span(self) -> str:
        """Its period in words."""
        if self.start is None:
            return f"{self.end}"
        return f"{_WORDS.get(self.months or 0, f'{self.days} days')} {self.start} to {self.end}"

    def is_of(self, concept: str, unit: str | None = None) -> bool:
        """Whether it is of a concept, with or without its taxonomy, and of a unit."""
        named, asked = self.concept.lower(), concept.lower()
        if unit is not None and self.unit.lower() != unit.lower():
            return False
        return asked in (named, named.partition(":")[2])


@dataclass(frozen=True)
class Period:
    """What a statement says of a period: its days, or a fiscal label, or both; `months` where its
    length is said."""

    start: str | None = None
    end: str | None = None
    year: int | None = None
    part: Part | None = None
    months: int | None = None

    @classmethod
    def read(cls, text: str, months: int | None = None) -> "Period | None":
        """A period as people write it: `2025-06-30`, `2025-04-01/2025-06-30`, `Q2 2025`, `2025 Q2`,
        `FY2025`, `fiscal 2025`. None where a text says none."""
        label, span = LABEL.search(text), _SPAN.search(text)
        year: int | None = None
        part: Part | None = None
        if label is not None:
            # "the first quarter (Q1) of fiscal 2025"
            beside = _PART.search(text) if label["fiscal"] else None
            named = (label["part"] or label["part2"] or (beside[0] if beside else "FY")).upper()
            year = int(label["after"] or label["before"] or label["fiscal"])
            part, length = next((one, n) for one, n in MONTHS.items() if one == named)
            months = months or length
        if label is None and span is None:
            return None
        days = (None, None) if span is None else span.groups()
        start, end = (None, days[0]) if days[1] is None else days
        return cls(start, end, year, part, months)

    @property
    def length(self) -> int | None:
        """Its months: as said, or as its two days are apart; None where neither tells."""
        if self.months is not None or self.start is None or self.end is None:
            return self.months
        return months_of((date.fromisoformat(self.end) - date.fromisoformat(self.start)).days + 1)

    def a_year_before(self) -> "Period":
        """The same period of the year before."""
        start, end = (None if day is None else a_year_before(day) for day in (self.start, self.end))
        year = None if self.year is None else self.year - 1
        return Period(start, end, year, self.part, self.months)

    def __str__(self) -> str:
        label = None if self.year is None else f"{self.year} {self.part}"
        days = self.end if self.start is None else f"{self.start} to {self.end}"
        return ", ".join(one for one in (label, days) if one)


class Filings:
    """The facts of a company, by what each filing is about."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = [fact for fact in facts if fact.end is not None]
        self._last: dict[str | None, str] = {}
        for fact in self.facts:
            assert fact.end is not None
            # What is counted on one day (shares on the cover) may lie after the period.
            if fact.start is not None or fact.accession not in self._last:
                before = self._last.get(fact.accession, "")
                self._last[fact.accession] = max(before, fact.end)

    def label(self, fact: Fact) -> tuple[int, str] | None:
        """The fiscal year, and the part of it with which a fact's period ends: None where its
        filing does not say, or where it is of another part than its filing."""
        if fact.fy is None or fact.fp is None or fact.end is None:
            return None
        last = date.fromisoformat(self._last[fact.accession])
        before = (last - date.fromisoformat(fact.end)).days
        years = round(before / YEAR)
        if years < 0 or abs(before - years * YEAR) > WEEK_YEAR:
            return None
        return fact.fy - years, fact.fp

    def fit(self, fact: Fact, period: Period) -> bool:
        """Whether a fact is of a period, as far as the period says."""
        if period.months is not None and fact.start is not None and fact.months != period.months:
            return False
        if period.end is not None and not self._ends(fact, period):
            return False
        if period.start is not None and fact.start != period.start:
            return False
        if period.year is None or period.part is None:
            return True
        return self.label(fact) == (period.year, FILED_IN.get(period.part, period.part))

    def _ends(self, fact: Fact, period: Period) -> bool:
        """Whether a fact ends on the day of a period; in a calendar of whole weeks, near it."""
        if period.months is None or period.start is not None:
            return fact.end == period.end
        assert fact.end is not None
        assert period.end is not None
        apart = date.fromisoformat(fact.end) - date.fromisoformat(period.end)
        return abs(apart.days) <= WEEK_YEAR

    def first(self, concept: str, unit: str | None, period: Period) -> Fact | None:
        """The first filing of the value of a concept for a period: a later one may restate it, and
        that is no news then. None where none is on record. Raises Undecided where several
        values fit."""
        fitting = [f for f in self.facts if f.is_of(concept, unit) and self.fit(f, period)]
        found = first_filed(fitting)
        if len({(one.value, one.unit) for one in found}) > 1:
            raise Undecided(undecided(str(period), found))
        return next(iter(found), None)


def filing_order(fact: Fact) -> tuple[datetime, bool, str]:
    """First what was filed first; of one day, amendments last."""
    return fact.known_at, (fact.form or "").endswith("/A"), fact.accession or ""


def first_filed(facts: Iterable[Fact]) -> list[Fact]:
    """One fact of each concept, unit and period, what was filed first; in the order of filing."""
    found = dict[tuple[str, str, str | None, str | None], Fact]()
    for fact in sorted(facts, key=filing_order):
        found.setdefault((fact.concept, fact.unit, fact.start, fact.end), fact)
    return [*found.values()]


def undecided(period: str, facts: Sequence[Fact]) -> str:
    """Why a period does not say which value is meant."""
    values = "; ".join(
        f"{one.value:,.12g} {one.unit} for {one.span} (filed by {iso(one.known_at)[:10]})"
        for one in facts[:4]
    )
    return (
        f"{period} may be several reported values: {values}. Say which: with both days "
        "(2025-04-01/2025-06-30), or with the fiscal label (2025 Q2)"
    )
