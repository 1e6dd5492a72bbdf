"""Which reported value is meant: concept, unit, start and end."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from beforehand.records.xbrl import Fact, Filings, Period, Undecided


def fact(value: float, start: str | None, end: str, filing: tuple[int, str, str], form: str = "10-Q") -> Fact:  # fmt: skip
    """A value of revenue, as the filing (fiscal year, part, day on which it was filed) has it."""
    year, part, day = filing
    filed = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return Fact("us-gaap:Revenues", value, "USD", start, end, year, part, form, day, filed)


Q2, Q3, FY = (2025, "Q2", "2025-08-01"), (2025, "Q3", "2025-11-01"), (2025, "FY", "2026-02-15")
CALENDAR = [
    fact(90, "2025-04-01", "2025-06-30", Q2),
    fact(170, "2025-01-01", "2025-06-30", Q2),
    fact(95, "2024-04-01", "2024-06-30", Q2),
    fact(180, "2024-01-01", "2024-06-30", Q2),
    fact(100, "2025-07-01", "2025-09-30", Q3),
    fact(270, "2025-01-01", "2025-09-30", Q3),
    fact(380, "2025-01-01", "2025-12-31", FY, "10-K"),
    fact(110, "2025-10-01", "2025-12-31", FY, "10-K"),
    fact(370, "2024-01-01", "2024-12-31", FY, "10-K"),
]
APPLE = [  # A year that ends on the last Saturday of September.
    fact(124, "2024-09-29", "2024-12-28", (2025, "Q1", "2025-01-31")),
    fact(119, "2023-10-01", "2023-12-30", (2025, "Q1", "2025-01-31")),
    fact(95, "2024-12-29", "2025-03-29", (2025, "Q2", "2025-05-02")),
    fact(219, "2024-09-29", "2025-03-29", (2025, "Q2", "2025-05-02")),
]


@pytest.mark.parametrize(
    ("facts", "period", "value"),
    [
        (CALENDAR, "2025 Q2", 90),
        (CALENDAR, "Q2 2025", 90),
        (CALENDAR, "Q2 FY2025", 90),
        (CALENDAR, "H1 2025", 170),
        (CALENDAR, "2024 Q2", 95),
        (CALENDAR, "2025-04-01/2025-06-30", 90),
        (CALENDAR, "2025-01-01/2025-06-30", 170),
        (CALENDAR, "9M 2025", 270),
        (CALENDAR, "FY2025", 380),
        (CALENDAR, "fiscal 2025", 380),
        (CALENDAR, "Q4 2025", 110),
        (CALENDAR, "FY 2024", 370),
        (CALENDAR, "2026 Q2", None),
        (CALENDAR, "2025-07-31", None),
        (APPLE, "Q1 2025", 124),
        (APPLE, "Q1 2024", 119),
        (APPLE, "2025 Q2", 95),
        (APPLE, "2024-12-28", 124),
    ],
)
def test_a_period_names_one_value(facts: list[Fact], period: str, value: float | None) -> None:
    said = Period.read(period)
    assert said is not None
    found = Filings(facts).first("Revenues", "USD", said)
    assert (None if found is None else found.value) == value


def test_a_day_with_several_lengths_is_undecided() -> None:
    day = Period.read("2025-06-30")
    assert day is not None
    with pytest.raises(
        Undecided, match=r"90 USD for the quarter 2025-04-01 .* 170 USD for the half"
    ):
        Filings(CALENDAR).first("Revenues", "USD", day)
    assert Filings(CALENDAR).first("Revenues", "USD", replace(day, months=3)) == CALENDAR[0]
    assert Filings(CALENDAR).first("Revenues", "USD", replace(day, months=6)) == CALENDAR[1]
    other = [*CALENDAR[:1], replace(CALENDAR[0], unit="EUR", value=80)]
    with pytest.raises(Undecided, match="80 EUR"):
        Filings(other).first("us-gaap:Revenues", None, day)


def test_the_end_of_a_quarter_may_lie_some_days_off() -> None:
    """A quarter of whole weeks ends on another day each year."""
    period = Period(end="2025-03-30", months=3)
    assert Filings(APPLE).first("Revenues", "USD", period) == APPLE[2]
    assert Filings(APPLE).first("Revenues", "USD", replace(period, months=None)) is None


def test_the_first_filing_counts_and_amendments_come_after() -> None:
    first = CALENDAR[0]
    amended = replace(first, value=91, form="10-Q/A", accession="a")
    restated = replace(first, value=92, accession="later", known_at=CALENDAR[6].known_at)
    period = Period.read("2025-04-01/2025-06-30")
    assert period is not None
    for several in ([amended, restated, first], [first, restated, amended]):
        assert Filings(several).first("Revenues", "USD", period) == first


def test_what_is_no_period() -> None:
    for text in ("", "soon", "Q5 2025", "2025", "31.06.2025"):
        assert Period.read(text) is None, text
