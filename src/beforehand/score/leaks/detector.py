"""The leak detector: what in a text speaks of a time after t.

It reads the text alone and knows no outcome: dates after t (written in the common ways), a year
after t's beside a word of the past, words that say a correction was made, and words that report an
ending. A further rule, where the archive is at hand, flags a result that no other document speaks
of (`jobs/backtest/unwitnessed.py`). “Live updates” in a headline is no mark: of 206 flags on real
headlines 157 were such, and none of them a leak. A flag is a reason to look, not a proof.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

UNWITNESSED: Final = "unwitnessed result"
Kind = Literal[
    "date after t", "year after t", "update marker", "outcome word", "unwitnessed result"
]
_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_MONTH = "|".join(f"{m}|{m[:3]}" for m in _MONTHS)
_DATES = (
    re.compile(r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)\b"),
    re.compile(
        rf"\b(?P<n>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>(?:19|20)\d\d)\b", re.I
    ),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)? (?P<n>{_MONTH})\.?,? (?P<y>(?:19|20)\d\d)\b", re.I
    ),
)
_YEAR = re.compile(
    r"\b(?:was|were|had|won|lost|died|resigned|became|elected|signed|passed|ended|happened|occurred|"
    r"defeated|announced|reported|since)\b[^.;!?]{0,60}?\b(?:in|of|since|during|after) (20\d\d)\b",
    re.I,
)
_UPDATE = re.compile(
    r"(?:\(updated\)|\bcorrection:|\beditor'?s note|\bthis (?:article|story) (?:was|has been) "
    r"updated)",
    re.I,
)
_OUTCOME = re.compile(
    r"\b(?:resolve[sd]? (?:to )?(?:yes|no)\b|was (?:later )?(?:confirmed|announced) as the winner|"
    r"final (?:result|results|score|tally)|officially (?:won|lost|ended|declared)|in hindsight|"
    r"as it turned out|has since (?:been|become|died|resigned|won|lost))",
    re.I,
)
PLANNED = re.compile(
    r"\b(?:by|before|until|through|scheduled|expected|due|will|plan(?:s|ned)?|"
    r"set (?:for|to)|upcoming|ahead of|next|deadline|on or before|no later than)\b",
    re.I,
)
"""Words that make a later date a plan: what is announced beforehand is no leak."""


@dataclass(frozen=True)
class Flag:
    """One thing in a text that speaks of a time after t."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class _Reading:
    """What a text holds, independent of t."""

    dates: tuple[tuple[date, str, bool], ...]
    years: tuple[tuple[int, str, bool], ...]
    marks: tuple[Flag, ...]


def flags(text: str, t: datetime) -> list[Flag]:
    """What in `text` speaks of a time after `t` (an instant with a zone)."""
    found = _read(text)
    day = t.astimezone(UTC).date()
    late = [
        Flag("date after t", said)
        for when, said, planned in found.dates
        if when > day + timedelta(days=1) and not planned
    ]
    late += [
        Flag("year after t", said)
        for year, said, planned in found.years
        if year > day.year and not planned
    ]
    return [*late, *found.marks]


@lru_cache(maxsize=100_000)
def _read(text: str) -> _Reading:
    dates = []
    for pattern in _DATES:
        for match in pattern.finditer(text):
            if (when := _date(match)) is not None:
                dates.append((when, match.group(), _planned(text, match.start())))
    years = [(int(m.group(1)), m.group(), _planned(text, m.start())) for m in _YEAR.finditer(text)]
    marks = [Flag("update marker", m.group()) for m in _UPDATE.finditer(text)]
    marks += [Flag("outcome word", m.group()) for m in _OUTCOME.finditer(text)]
    return _Reading(tuple(dates), tuple(years), tuple(marks))


def _date(match: re.Match[str]) -> date | None:
    groups = match.groupdict()
    name = groups.get("n")
    month = int(groups["m"]) if name is None else 1 + _month(name)
    try:
        return date(int(groups["y"]), month, int(groups["d"]))
    except ValueError:
        return None


def _month(name: str) -> int:
    return next(i for i, month in enumerate(_MONTHS) if month.startswith(name.lower()[:3]))


def _planned(text: str, start: int) -> bool:
    """Whether the words before a date (in its sentence) make it a plan."""
    before = text[max(0, start - 60) : start]
    return PLANNED.search(re.split(r"[.;!?]\s", before)[-1]) is not None
