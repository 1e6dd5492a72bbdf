"""The evidence audit: is each cited source a stored record, was it known by then, does it say so?

A forecast fails where one item of its evidence does. What is claimed is read from the item's
snippet, and from `value`, `unit` and `period` where the item has them:

* a text must hold the snippet word for word, or every quotation in it ("…" leaves words out), and
  every number that the snippet states;
* a market must have stood at the stated price at the item's timestamp, to the digits stated;
* an XBRL fact must have the stated value in the stated unit for the stated period, filed by then.

An item without anything that can be checked `exists`; it is counted apart, and is no support.
Without stored records only the dates are checked.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol

from beforehand.clock import iso
from beforehand.records.bulk import EvidenceRow, PredictionRow
from beforehand.records.cutoff import visible
from beforehand.records.xbrl import LABEL, Fact, Filings, Period, undecided

Level = Literal["supported", "exists", "dated", "failed"]
UNDATED, OWNLESS = "no timestamp", "the prediction has no timestamp"
LATER, KNOWN_LATER = "dated after the prediction", "known only after the prediction"
MISSING, QUOTE = "no stored record", "quotation not in the record"
FIGURE, UNIT, PERIOD = "wrong figure", "wrong unit", "wrong period"
FUTURE = (UNDATED, OWNLESS, LATER, KNOWN_LATER)
"""The faults by which something from after t may have come in."""
LEAST_QUOTED = 3
"""A quotation of fewer words is a name or a term, and no claim that the source says so."""


@dataclass(frozen=True)
class StoredText:
    """A document: each version of its words, with the instant from which it was known."""

    versions: Sequence[tuple[datetime, str]]


@dataclass(frozen=True)
class StoredMarket:
    """A market's prices. `at(instant, until)` gives those that were known, or observed, at an
    instant (last, bid, ask, mid: what is on record, and was known at `until`), none before the
    first."""

    first: datetime
    at: Callable[[datetime, datetime], Sequence[float]]


@dataclass(frozen=True)
class StoredFacts:
    """What a company reported, as far as a source names it (one filing, one concept, or all)."""

    facts: Sequence[Fact]


StoredRecord = StoredText | StoredMarket | StoredFacts


class Stored(Protocol):
    """Where the audit looks sources up."""

    def find(self, kind: str, source: str) -> StoredRecord | None:
        """The record that a source names, whenever it was known; `kind` is the item's type."""


@dataclass(frozen=True)
class Checked:
    """What the audit says of an item: how far it is supported, and what is wrong with it."""

    level: Level
    fault: str | None = None
    why: str = ""


@dataclass
class Audit:
    """The audit of all forecasts. `failed` are their places, `leaking` those with a fault by which
    something from after t may have come in, `levels` and `faults` count the items."""

    total: int = 0
    citing: int = 0
    failed: list[int] = field(default_factory=list)
    leaking: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    levels: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def passed(self) -> int:
        """The forecasts of which no item failed."""
        return self.total - len(self.failed)

    @property
    def items(self) -> int:
        """How many items were cited."""
        return sum(self.levels.values())

    @property
    def precision(self) -> float | None:
        """Attribution precision: of the items that claim something, the share that holds."""
        claims = self.levels["supported"] + self.levels["failed"]
        return self.levels["supported"] / claims if claims else None


def audit(predictions: Iterable[PredictionRow], stored: Stored | None = None) -> Audit:
    """Check every item of every forecast; without `stored`, its dates alone."""
    found = Audit()
    for place, record in enumerate(predictions):
        found.total += 1
        at = record.metadata.timestamp if record.metadata else None
        faults = set[str]()
        for item in record.prediction.rationale or ():
            said = check(item, at, stored)
            found.levels[said.level] += 1
            if said.fault is not None:
                found.faults[said.fault] += 1
                if not faults:
                    found.failures.append(f"{record.id}: {said.why}")
                faults.add(said.fault)
        found.citing += bool(record.prediction.rationale)
        if faults:
            found.failed.append(place)
        if faults & set(FUTURE):
            found.leaking.append(place)
    return found


def check(item: EvidenceRow, at: datetime | None, stored: Stored | None = None) -> Checked:
    """One item of a forecast that was made `at` an instant."""
    name = f"evidence {item.source!r}"
    if item.timestamp is None:
        return Checked("failed", UNDATED, f"{name} has no timestamp")
    if at is None:
        return Checked("failed", OWNLESS, "the prediction that cites it has no timestamp")
    if not visible(item.timestamp, at):
        why = f"{name} is dated {iso(item.timestamp)}, after the prediction at {iso(at)}"
        return Checked("failed", LATER, why)
    if stored is None:
        return Checked("dated")
    record = stored.find(item.type, item.source)
    if record is None:
        return Checked("failed", MISSING, f"{name} ({item.type}) is no record of the archive")
    known = _first_known(record)
    if known is None or not visible(known, at):
        when = "never" if known is None else f"only at {iso(known)}"
        why = f"{name} was known {when}, after the prediction at {iso(at)}"
        return Checked("failed", KNOWN_LATER, why)
    if isinstance(record, StoredText):
        return _text(name, item, [said for since, said in record.versions if visible(since, at)])
    if isinstance(record, StoredMarket):
        return _market(name, item, record, at)
    return _facts(name, item, [fact for fact in record.facts if visible(fact.known_at, at)])


def _first_known(record: StoredRecord) -> datetime | None:
    if isinstance(record, StoredMarket):
        return record.first
    if isinstance(record, StoredText):
        return min((since for since, _ in record.versions), default=None)
    return min((fact.known_at for fact in record.facts), default=None)


_WORD = re.compile(r"[^\W_]+(?:[.,'’]\d+)*")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]+)[\"”“»]")
_ELLIPSIS = re.compile(r"…|\.\.\.|\[…\]|\[\.\.\.\]")


def _flat(text: str) -> str:
    """The words of a text, in lower case, each between spaces."""
    return " " + " ".join(word.replace(",", "").lower() for word in _WORD.findall(text)) + " "


def _holds(text: str, quoted: str) -> bool:
    """True if a text has the quoted words in their order; an ellipsis leaves some out."""
    place = 0
    for part in _ELLIPSIS.split(quoted):
        words = _flat(part)
        if words.strip():
            place = text.find(words, place)
            if place < 0:
                return False
            place += len(words) - 1
    return True


def _text(name: str, item: EvidenceRow, versions: Sequence[str]) -> Checked:
    """A snippet against the versions of a text: one of them must hold all of it."""
    said = (item.snippet or "").strip()
    if not said:
        return Checked("exists")
    flat = [_flat(text) for text in versions]
    if any(_holds(text, said) for text in flat):
        return Checked("supported")
    quoted = [q for q in _QUOTED.findall(said) if len(_WORD.findall(q)) >= LEAST_QUOTED]
    missing = [q for q in quoted if not any(_holds(text, q) for text in flat)]
    if missing:
        return Checked("failed", QUOTE, f"{name} does not say {_short(missing[0])}")
    figures = [
        one for one in _numbers(_QUOTED.sub(" ", said)) if not any(_states(t, one) for t in flat)
    ]
    if figures:
        return Checked("failed", FIGURE, f"{name} does not state {figures[0].text}")
    return Checked("supported" if quoted or _numbers(said) else "exists")


@dataclass(frozen=True)
class Stated:
    """A number as it is written: its value, half a unit of its last digit, what follows it."""

    text: str
    value: float
    half: float
    unit: str = ""


_SCALES = {"thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "mn": 1e6}
_SCALES |= {"billion": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12, "tn": 1e12}
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?\b")
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[-−]?)(?P<money>[$€£]?)(?P<digits>\d[\d,]*(?:\.\d+)?|\.\d+)"
    r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|mn|tn|[kmb])\b)?"
    r"\s?(?P<unit>%|¢|cents?\b|c\b|percent\b|per cent\b|USD/shares\b|USD\b|EUR\b|GBP\b|"
    r"shares\b|pure\b)?",
    re.IGNORECASE,
)


def _numbers(text: str) -> list[Stated]:
    """The numbers that a text states; dates and fiscal periods are none."""
    found = []
    for match in _NUMBER.finditer(LABEL.sub(" ", _DATE.sub(" ", text))):
        digits = match["digits"].replace(",", "")
        factor = _SCALES.get((match["scale"] or "").lower(), 1.0)
        decimals = len(digits.partition(".")[2])
        value = float(digits) * factor * (-1 if match["sign"] else 1)
        unit = (match["unit"] or match["money"] or "").lower()
        found.append(Stated(match[0].strip(), value, 0.5 * 10.0**-decimals * factor, unit))
    return found


def _states(flat: str, one: Stated) -> bool:
    """True if the words of a text have a number that is the stated one, to its digits."""
    size = replace(one, value=abs(one.value))
    return any(_equal(abs(other.value), size) for other in _numbers(flat))


def _equal(value: float, stated: Stated) -> bool:
    return abs(value - stated.value) <= stated.half * (1 + 1e-9) + 1e-12


def _market(name: str, item: EvidenceRow, record: StoredMarket, at: datetime) -> Checked:
    """A price against the one on record at the item's own instant."""
    assert item.timestamp is not None
    known = record.at(item.timestamp, at)
    if not known:
        why = f"{name} had no price on record at {iso(item.timestamp)}"
        return Checked("failed", MISSING, why)
    claimed = _prices(item)
    if not claimed:
        return Checked("exists")
    one = claimed[0]
    if any(_equal(price, one) for price in known):
        return Checked("supported")
    why = f"{name} stood at {known[0]:g} at {iso(item.timestamp)}, not at {one.text}"
    return Checked("failed", FIGURE, why)


_NEAR_PRICE = re.compile(
    r"\b(?:price|odds|probability|yes|mid|last|trad\w+|implied|at)\b", re.IGNORECASE
)


def _prices(item: EvidenceRow) -> list[Stated]:
    """The prices that an item states, as probabilities; first one that follows a word for it."""
    if item.value is not None:
        return [Stated(f"{item.value:g}", item.value, _half(item.value))]
    text = item.snippet or ""
    named = _NEAR_PRICE.search(text)
    found = []
    for part in ([text[named.end() :]] if named else []) + [text]:
        for one in _numbers(part):
            if one.unit in ("%", "¢", "c", "cent", "cents", "percent", "per cent"):
                found.append(Stated(one.text, one.value / 100, one.half / 100))
            elif 0 <= one.value <= 1:
                found.append(one)
    return found


def _half(value: float) -> float:
    """Half a unit of the last digit of a number as JSON writes it."""
    text = repr(value)
    return 0.5 * 10.0 ** -len(text.partition(".")[2]) if "e" not in text else abs(value) * 1e-9


@dataclass(frozen=True)
class _Claim:
    """A figure, with the unit and the period that are stated for it."""

    values: Sequence[Stated]
    unit: str | None
    period: Period | None


_UNITS = {"$": "USD", "usd": "USD", "€": "EUR", "eur": "EUR", "£": "GBP", "gbp": "GBP"}
_UNITS |= {"shares": "shares", "pure": "pure", "usd/shares": "USD/shares"}


def _claim(item: EvidenceRow) -> _Claim:
    """What an item says of a fact: its own fields, else what its snippet states."""
    text = item.snippet or ""
    values = _numbers(text)
    if item.value is not None:
        values = [Stated(f"{item.value:g}", item.value, _half(item.value))]
    unit = item.unit
    if unit is None:
        unit = next((_UNITS[one.unit] for one in values if one.unit in _UNITS), None)
        if unit is not None and re.search(r"\bper share\b", text, re.IGNORECASE):
            unit = f"{unit}/shares"
    return _Claim(values, unit, _period(item))


def _period(item: EvidenceRow) -> Period | None:
    """The period that an item names; a day in its field, and the quarter in its words."""
    text = item.snippet or ""
    stated = None if item.period is None else Period.read(item.period)
    said = Period.read(text)
    if stated is None or said is None or stated.year is not None or said.year is None:
        return stated or said
    return replace(stated, year=said.year, part=said.part, months=said.months)


def _facts(name: str, item: EvidenceRow, facts: Sequence[Fact]) -> Checked:
    """A figure against the facts of its concept that were filed by then."""
    filed, named = Filings(facts), _of_concept(item, facts)
    claim = _claim(item)
    if not claim.values:
        return Checked("exists")

    def of(unit: bool = True, period: bool = True) -> list[Fact]:
        return [
            fact
            for fact in named
            if (not unit or claim.unit is None or fact.unit.lower() == claim.unit.lower())
            and (not period or claim.period is None or filed.fit(fact, claim.period))
        ]

    def stated(some: Sequence[Fact]) -> bool:
        return any(_equal(fact.value, one) for fact in some for one in claim.values)

    text = claim.values[0].text
    if stated(fitting := of()):
        lengths = {fact.months for fact in fitting if fact.start is not None}
        if claim.period is not None and claim.period.months is None and len(lengths) > 1:
            why = undecided(str(claim.period), fitting)
            return Checked("failed", PERIOD, f"{name}: {text} of {why}")
        whole = claim.period is not None and claim.unit is not None
        return Checked("supported" if whole else "exists")
    if stated(others := of(period=False)):
        held = next(f for f in others if any(_equal(f.value, one) for one in claim.values))
        why = f"{name} has {text} for another period than {claim.period}: for {held.span}"
        return Checked("failed", PERIOD, why)
    if stated(of(unit=False)):
        return Checked("failed", UNIT, f"{name} has {text} in another unit than {claim.unit}")
    return Checked("failed", FIGURE, f"{name} has no reported value {text}")


def _of_concept(item: EvidenceRow, facts: Sequence[Fact]) -> Sequence[Fact]:
    """The facts of the concept that the item names, if it names one; else all."""
    text = f"{item.source} {item.snippet or ''}".lower()
    names = {fact.concept.partition(":")[2] or fact.concept for fact in facts}
    told = [
        one for one in names if re.search(rf"(?<![a-z]){re.escape(one.lower())}(?![a-z])", text)
    ]
    if not told:
        return facts
    longest = max(told, key=len)
    return [f for f in facts if (f.concept.partition(":")[2] or f.concept) == longest]


def _short(text: str) -> str:
    said = " ".join(text.split())
    return f"“{said if len(said) <= 80 else said[:77] + '…'}”"
