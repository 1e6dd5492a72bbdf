"""What a question is about, and whether a title is about the same."""

import re
from dataclasses import dataclass
from typing import Self

from rapidfuzz.distance import OSA

from beforehand.gateway.search import SIMILAR, stems

MONTHS = (
    "january february march april may june july august september october november december"
).split()
MISSPELT, LONG, ENDING, SEVERAL = 5, 4, 3, 3
_YEAR = re.compile(r"(?:19|20)\d{2}")
_COMMON = re.compile(
    rf"{'|'.join(MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|"
    r"\d{1,2}|end|ends|ended|predictions?|forecasts?|markets?|odds?|prices?|chances?|things?|"
    r"looks?|looking|gets?|got|resolved|settled|concluded|happen(?:ed|ing)?|goe?s?|"
    r"going|went|shows?|showed|tell|latest|news|reports?|reported|results?|likely|likelihood|"
    r"probability|expect(?:ed|s)?|think|thought|polymarket|kalshi|manifold|metaculus|infer|"
    r"know|known|anything|something|everything|still|yet|soon|ever|early|hopes?|favou?rites?|"
    r"saying|start|beginning|become|becoming"
)
ALIASES = {
    "academy awards": "oscars", "academy award": "oscar", "federal reserve": "fed",
    "united states": "us", "united kingdom": "uk", "united nations": "un",
    "european union": "eu", "prime minister": "pm", "goes public": "ipo", "go public": "ipo",
    "going public": "ipo", "best": "top",
}  # fmt: skip
"""What is written in two ways, and the one that is compared."""
_ALIAS = re.compile(rf"\b(?:{'|'.join(ALIASES)})\b", re.IGNORECASE)
_BEFORE_YEAR = re.compile(r"\bbefore\s+((?:19|20)\d{2})\b", re.IGNORECASE)
_ORDINAL = re.compile(r"\b(?:second|third|fourth|runner-up)\b", re.IGNORECASE)
_ENDS = re.compile(r"(?:ing|ed|es|e|s)$")
_AMOUNT = re.compile(r"(\$)?(?<![\w.])(\d+(?:,\d{3})*(?:\.\d+)?)(?:\s?([kKmMbB]))?(?![\w%])")
_INITIALS = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b")
_GLUED = re.compile(r"(?<=[A-Za-z])(?=(?:19|20)\d{2}\b)")
_FIGURE = re.compile(r"\d+amount")
_CAPITAL = re.compile(r"\b[A-Z][\w'-]*")
# "may" and "mar" are words too: months where a day follows, or after "in", "by" and "before".
_MONTH = re.compile(
    rf"\b(?:(?:{'|'.join(m for m in MONTHS if m != 'may')}"
    r"|jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)\b"
    r"|(?:may|mar)\b(?=\.?\s+\d)|(?<=in\s)may\b|(?<=by\s)may\b|(?<=before\s)may\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Subject:
    """The words that say what a topic is about, which of them are names (written with a capital),
    and the months and years that it names."""

    words: frozenset[str]
    months: frozenset[str]
    years: frozenset[str]
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topic: str) -> Self:
        """A topic's subject. Dates and the words of the field fit many other markets too: they
        count only where there is nothing else."""
        every = _words(topic)
        kept = [word for word in every if not _COMMON.fullmatch(word)] or every
        years = _years(topic)
        words = frozenset(kept) - years or frozenset(kept)
        named = frozenset(_words(" ".join(_CAPITAL.findall(aliased(plain(topic))))))
        return cls(words, _months(topic), years, named & words)

    @classmethod
    def names_something(cls, topic: str) -> bool:
        """False for a topic of dates and words of the field alone, such as "markets in May"."""
        return any(not _COMMON.fullmatch(word) for word in _words(topic))

    def fits(self, title: str | None) -> bool:
        """True where a title has more than half of the words, or half with a figure among them, a
        name where there are names, and no other month, year or place (second best is not best). A
        word may be misspelt."""
        shared = self._shared(title)
        if not self._named_in(shared):
            return False
        if _ORDINAL.search(title or "") and not self.words & {"second", "third", "fourth"}:
            return False
        figure = any(_FIGURE.fullmatch(word) for word in shared)
        most = 2 * len(shared) > len(self.words) or (figure and 2 * len(shared) == len(self.words))
        return most and not self.other_time(title or "")

    def named_by(self, title: str | None) -> bool:
        """True where a title has every word, month and year."""
        text = title or ""
        dated = self.months <= _months(text) and (self.years & _years(text) or not self.years)
        return bool(dated) and self._shared(text) == self.words

    def share_in(self, title: str | None, text: str | None) -> float:
        """The share of the words that a document holds, from 0 to 1."""
        return len(self._shared(f"{title or ''} {text or ''}")) / max(len(self.words), 1)

    def found_in(self, title: str | None, text: str | None) -> bool:
        """True where a document holds all names; or half of the words with the longest one, and a
        name where there are names."""
        shared = self._shared(f"{title or ''} {text or ''}")
        if not self._named_in(shared):
            return False
        half = max(self.words, key=len) in shared and 2 * len(shared) >= len(self.words)
        return half or (bool(self.names) and self.names <= shared)

    def meant_by(self, title: str | None, text: str | None) -> bool:
        """True where a document holds all names and half of the words, at least two of several."""
        shared = self._shared(f"{title or ''} {text or ''}")
        half = 2 * len(shared) >= len(self.words) and (len(shared) > 1 or bool(self.names))
        return self.names <= shared and half

    def names_in(self, title: str | None) -> frozenset[str]:
        """Which of the names a title has."""
        return self.names.intersection(self._shared(title))

    def _named_in(self, shared: set[str]) -> bool:
        """True with a name where there are one or two, and with more than half of several."""
        there = len(self.names & shared)
        if not self.names:
            return True
        return there > 0 if len(self.names) < SEVERAL else 2 * there > len(self.names)

    def _shared(self, title: str | None) -> set[str]:
        found = set(_words(title or ""))
        return {word for word in self.words if any(_alike(word, other) for other in found)}

    def names_no_year(self, title: str | None) -> bool:
        """True for a title without a year."""
        return not _years(title or "")

    def other_time(self, title: str | None) -> bool:
        """True where a title names another month or year."""
        text = title or ""
        pairs = ((self.months, _months(text)), (self.years, _years(text)))
        return any(asked and found and not asked & found for asked, found in pairs)


def _words(text: str) -> list[str]:
    """The words of a text; an amount is one word, however it is written: $140k, $140,000."""
    return stems(_AMOUNT.sub(_amount, aliased(plain(text))))


def aliased(text: str) -> str:
    """A text with one word for what is written in two ways; a name stays one."""

    def other(found: re.Match[str]) -> str:
        made = ALIASES[found[0].lower()]
        return made.capitalize() if found[0][0].isupper() else made

    return _ALIAS.sub(other, text)


def also_called(text: str) -> list[str]:
    """How else what a text names is written."""
    there = f" {' '.join(stems(text))} "
    found = [long for long, short in ALIASES.items() if f" {short} " in there and " " in long]
    found += [short for long, short in ALIASES.items() if " " in long and long in text.lower()]
    return list(dict.fromkeys(found))


def plain(text: str) -> str:
    """A text without what hides its words: U.S. is US, Starmer's is Starmer, EOY2025 is
    EOY 2025."""
    joined = _INITIALS.sub(lambda found: found[0].replace(".", ""), text)
    return _GLUED.sub(" ", _POSSESSIVE.sub("", joined))


def _amount(found: re.Match[str]) -> str:
    digits, unit = found[2].replace(",", ""), (found[3] or "").lower()
    plain_number = not found[1] and not unit and "," not in found[2]
    if plain_number and (len(digits) < LONG or _YEAR.fullmatch(digits)):
        return found[0]
    value = float(digits) * {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}[unit]
    return f" {value:.0f}amount " if value >= 1 else found[0]


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    short, more = sorted((one, other), key=len)
    if len(short) >= MISSPELT and more.startswith(short) and len(more) - len(short) <= ENDING:
        return True  # disarm, disarming
    if len(short) >= MISSPELT and _ENDS.sub("", one) == _ENDS.sub("", other):
        return True  # become, becoming
    long = (
        one[:1] == other[:1]
        and one.isalpha()
        and other.isalpha()
        and min(len(one), len(other)) >= MISSPELT
    )
    return long and bool(OSA.normalized_similarity(one, other) >= SIMILAR)


def _years(text: str) -> frozenset[str]:
    """The years that a text names; before 2026 is 2025 as well."""
    named = frozenset(word for word in _words(text) if _YEAR.fullmatch(word))
    return named | {str(int(found[1]) - 1) for found in _BEFORE_YEAR.finditer(text)}


def _months(text: str) -> frozenset[str]:
    """The months that a text names, by their first three letters."""
    return frozenset(found[0][:3].lower() for found in _MONTH.finditer(text))
