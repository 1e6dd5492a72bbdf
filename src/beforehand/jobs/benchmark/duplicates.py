"""Which questions are one question asked twice: on two venues, or again on a later day.

Two questions are the same where they name the same things, ask for the same figures in the same
direction by the same time, and read alike otherwise (the cosine of wordllama's vectors). All but
the reading is compared exactly, so a hundred thousand questions are sorted into groups first, and
only what lies in one group is read against each other. Another strike, another month, another
candidate is another question: such are left in, and the scores count them as one event.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from beforehand.errors import NotConfigured
from beforehand.gateway.search import encoder, stem

ALIKE, REST_ALIKE = 0.70, 0.55
"""The least cosine of two whole texts, and of what is left of them without names, figures, dates
and directions."""
BLOCK = 2048
NEAR_CLOSE, SAME_YEAR_CLOSE = timedelta(days=2), timedelta(days=75)
"""How far apart two closes may lie where the texts say no date, and where they say the same one."""

_WORD = re.compile(r"[^\W\d_]+(?:['’.–-][^\W\d_]+)*")
_NONE: frozenset[str] = frozenset()
_FIGURE = re.compile(
    r"(\d[\d,]*(?:\.\d+)?)\s?(%|percent\b|k\b|m\b|mm\b|bn?\b|t\b|thousand\b|million\b|billion\b"
    r"|trillion\b|bps\b|bp\b)?",
    re.IGNORECASE,
)
_TIMES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mm": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9,
          "billion": 1e9, "t": 1e12, "trillion": 1e12}  # fmt: skip
_UNITS = frozenset((*_TIMES, "percent", "bps", "bp"))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAMES = (
    r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DATE = re.compile(
    rf"\b{_MONTH_NAMES}\b\.?(?:\s+(\d{{1,2}})(?:st|nd|rd|th)?\b)?(?:,?\s+((?:19|20)\d\d)\b)?"
    rf"|\b(\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH_NAMES}\b\.?(?:,?\s+((?:19|20)\d\d)\b)?"
    r"|\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b"
)
_YEAR = re.compile(r"\b(?:19|20)\d\d(?:\s?[-–/]\s?(?:\d{4}|\d\d))?\b")
_EDITION = re.compile(r"\b(?:\d+(?:st|nd|rd|th)|[XVLI]{2,})\b")
_ALIASES = {
    "federal reserve": "Fed", "fomc": "Fed", "united states": "US", "u.s.": "US", "u.s.a.": "US",
    "usa": "US", "united kingdom": "UK", "u.k.": "UK", "britain": "UK", "btc": "Bitcoin",
    "eth": "Ethereum", "european union": "EU", "basis points": "bps", "basis point": "bps",
    "prime minister": "PM", "artificial intelligence": "AI", "step down": "leave",
    "steps down": "leave", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
}  # fmt: skip
_ALIAS = re.compile(
    rf"\b(?:{'|'.join(re.escape(said) for said in _ALIASES)})(?!\w)|['’]s\b|^\[[^\]]*\]",
    re.IGNORECASE,
)
_DIRECTIONS = {
    name: group
    for group, names in {
        "up": "above over exceed exceeds more greater higher high rise rises increase increases "
        "hike hikes raise raises gain reach reaches least up",
        "down": "below under less fewer lower low fall falls drop drops dip dips decrease "
        "decreases cut cuts decline most down",
        "not": "no not never without neither fail fails unchanged except",
        "stays": "remain remains stay stays still maintain keep keeps hold",
        "leaves": "leave leaves cease ceases resign resigns out exit exits fired ousted",
    }.items()
    for name in names.split()
}
_FILLER = frozenset(
    "a an and any at be been before being by can could did do does during end ending ended for "
    "from had has have how if in into is it its next of on or than that the then there these "
    "this those through time to until was were what when where which while who will with would "
    "year day month week quarter after between within as about per am pm et est utc".split()
)


@dataclass(frozen=True)
class Question:
    """A candidate: its id, its words, when it is due to close."""

    id: str
    text: str
    close: datetime | None = None


@dataclass(frozen=True)
class Duplicate:
    """The question at `place` is the one at `of`, which comes before it."""

    place: int
    of: int
    cosine: float


@dataclass(frozen=True)
class _Read:
    """A question taken apart. `first` is the name that comes first; `plain` is the text
    without dates and figures."""

    names: frozenset[str]
    first: str
    figures: frozenset[str]
    directions: frozenset[str]
    dates: frozenset[tuple[int, int]]
    years: frozenset[int]
    editions: frozenset[str]
    rest: str
    plain: str


def duplicates(questions: Sequence[Question]) -> list[Duplicate]:
    """The questions that were asked before, each with the first one that it repeats. Raises
    NotConfigured where the vectors' package is missing."""
    if not questions:
        return []
    model = encoder()
    if model is None:
        raise NotConfigured("duplicates are found by wordllama's vectors: pip install wordllama")
    read = _taken_apart([one.text for one in questions])
    groups = defaultdict[object, dict[str, list[int]]](lambda: defaultdict(list))
    for i, one in enumerate(read):
        groups[one.names, one.figures, one.directions][one.plain].append(i)
    texts = sorted({text for group in groups.values() if len(group) > 1 for text in group})
    vectors = _unit(model.embed(texts)) if texts else np.zeros((0, 1), np.float32)
    row = {text: n for n, text in enumerate(texts)}
    families, candidates = _Families(questions, read), list[tuple[int, int, float]]()
    for group in groups.values():
        for text, places in group.items():
            group[text] = families.collapse(places)
        same = [(text, text, 1.0) for text, places in group.items() if len(places) > 1]
        for text, again, cosine in [*same, *_texts_alike(list(group), vectors, row)]:
            for a, b in _by_close(questions, group[text], group[again]):
                if _one_time(questions[a], questions[b], read[a], read[b]):
                    candidates.append((min(a, b), max(a, b), cosine))
    alike = _rest_alike(model, read, candidates)
    alike.sort(key=lambda found: (_apart(questions, found), found))
    for a, b, cosine in alike:
        families.join(a, b, cosine)
    return families.repeated()


class _Families:
    """Questions that are one: each family has its first question, and no two of its members may
    differ in their time."""

    def __init__(self, questions: Sequence[Question], read: Sequence[_Read]) -> None:
        self._questions, self._read = questions, read
        self._members = dict[int, list[int]]()
        self._first = dict[int, int]()
        self._cosine = dict[int, float]()

    def collapse(self, places: Sequence[int]) -> list[int]:
        """One of each time among questions with the same words, in the order of their closes; the
        others repeat it."""
        held = dict[object, int]()
        for i in sorted(places):
            one, close = self._read[i], self._questions[i].close
            first = held.setdefault((close, one.dates, one.years, one.editions), i)
            if first != i:
                self._first[i], self._cosine[i] = first, 1.0
        return sorted(held.values(), key=lambda i: (_due(self._questions[i]), i))

    def join(self, a: int, b: int, cosine: float) -> None:
        """Make two one, unless a member of one family has another time than one of the other."""
        one, other = self._root(a), self._root(b)
        if one == other:
            return
        one, other = min(one, other), max(one, other)
        mine, theirs = self._members.get(one, [one]), self._members.get(other, [other])
        for x in mine:
            for y in theirs:
                if not _one_time(
                    self._questions[x], self._questions[y], self._read[x], self._read[y]
                ):
                    return
        self._members[one] = [*mine, *theirs]
        self._first[other], self._cosine[other] = one, cosine

    def _root(self, i: int) -> int:
        while i in self._first:
            i = self._first[i]
        return i

    def repeated(self) -> list[Duplicate]:
        """Every question that repeats another one, with the first of its family."""
        return [Duplicate(i, self._root(i), self._cosine[i]) for i in sorted(self._first)]


def _texts_alike(
    texts: Sequence[str], vectors: npt.NDArray[np.float32], row: dict[str, int]
) -> list[tuple[str, str, float]]:
    if len(texts) < 2:
        return []
    own = vectors[[row[text] for text in texts]]
    return [(texts[i], texts[j], cosine) for i, j, cosine in _near(own, ALIKE)]


def _by_close(
    questions: Sequence[Question], ones: Sequence[int], others: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """For each of the others, those of the ones that close next to it. (A question that is asked
    anew every hour has one text and thousands of closes.) Both are in the order of their closes."""
    due = [_due(questions[i]) for i in ones]
    for n, b in enumerate(others):
        place = n if ones is others else bisect_left(due, _due(questions[b]))
        near = {max(place - 1, 0), min(place, len(ones) - 1)}
        if questions[ones[-1]].close is None:
            near.add(len(ones) - 1)
        yield from ((ones[i], b) for i in near if ones[i] != b)


def _apart(questions: Sequence[Question], found: tuple[int, int, float]) -> timedelta:
    return abs(_due(questions[found[0]]) - _due(questions[found[1]]))


def _due(one: Question) -> datetime:
    return one.close or datetime.max.replace(tzinfo=UTC)


def _rest_alike(
    model: object, read: Sequence[_Read], candidates: Sequence[tuple[int, int, float]]
) -> list[tuple[int, int, float]]:
    """The pairs of which the remaining words mean the same, too."""
    texts = sorted({read[i].rest for pair in candidates for i in pair[:2] if read[i].rest})
    if not texts:
        return [*candidates]
    vectors = _unit(model.embed(texts))  # type: ignore[attr-defined]
    row = {text: n for n, text in enumerate(texts)}
    found = list[tuple[int, int, float]]()
    for a, b, cosine in candidates:
        one, other = read[a].rest, read[b].rest
        if one == other:
            if read[a].first != read[b].first:
                continue  # The same words in another order: who attacks whom.
        elif not one or not other or vectors[row[one]] @ vectors[row[other]] < REST_ALIKE:
            continue
        found.append((a, b, cosine))
    return found


def _near(vectors: npt.NDArray[np.float32], least: float) -> "list[tuple[int, int, float]]":
    """(i, j, cosine) of all pairs i < j at least so alike, a block at a time."""
    found = list[tuple[int, int, float]]()
    n = len(vectors)
    for low in range(0, n, BLOCK):
        rows = vectors[low : low + BLOCK]
        for start in range(low, n, BLOCK):
            likeness = rows @ vectors[start : start + BLOCK].T
            for i, j in np.argwhere(likeness >= least).tolist():
                if low + i < start + j:
                    found.append((low + i, start + j, float(likeness[i, j])))
    return found


def _one_time(a: Question, b: Question, one: _Read, other: _Read) -> bool:
    """True where two questions may have one deadline: what their texts say of it does not differ,
    and their closes lie near each other."""
    if one.dates and other.dates and one.dates != other.dates:
        return False
    if one.years and other.years and one.years != other.years:
        return False
    if one.editions and other.editions and one.editions != other.editions:
        return False
    said = (one.dates and other.dates) or (one.years and other.years)
    if a.close is None or b.close is None:
        bare = bool(one.dates) == bool(other.dates)  # One date and no close says too little.
        return bare or bool(one.years and other.years)
    if not said and a.id.partition(":")[0] == b.id.partition(":")[0]:
        return a.close == b.close  # A venue that asks every hour means another hour.
    return abs(a.close - b.close) <= (SAME_YEAR_CLOSE if said else NEAR_CLOSE)


def _taken_apart(texts: Sequence[str]) -> list[_Read]:
    """Each text as names, figures, directions, dates and the rest. A word is a name where most
    texts write it with a capital inside a sentence."""
    capital, seen, roots = defaultdict[str, int](int), defaultdict[str, int](int), _Roots()
    parts = []
    for text in texts:
        dates, years, without = _dates(_ALIAS.sub(_spoken, text))
        editions = frozenset(_EDITION.findall(without))
        without = _EDITION.sub(" ", without) if editions else without
        figures = frozenset(_figure(*found) for found in _FIGURE.findall(without))
        plain = " ".join(_FIGURE.sub(" ", without).split())
        words = _WORD.findall(plain)
        parts.append((words, _Read(_NONE, "", figures, _NONE, dates, years, editions, "", plain)))
        for word in words[1:]:
            root = roots[word]
            seen[root] += 1
            capital[root] += word[0].isupper()
    named = {root for root, n in seen.items() if capital[root] * 2 > n}
    return [_sorted_words(words, read, named, roots) for words, read in parts]


class _Roots(dict[str, str]):
    """The root of each word, worked out once."""

    def __missing__(self, word: str) -> str:
        self[word] = root = stem(word.lower())
        return root


def _sorted_words(words: Sequence[str], read: _Read, named: set[str], roots: _Roots) -> _Read:
    names, directions, rest = list[str](), set[str](), list[str]()
    for word in words:
        low = word.lower()
        if low in _FILLER:
            continue
        if low in _DIRECTIONS:
            directions.add(_DIRECTIONS[low])
        elif (root := roots[word]) in named:
            names.append(root)
        elif low not in _UNITS:
            rest.append(low.replace("–", "-"))
    directions.discard("up")  # Most questions ask for more without saying so.
    return replace(
        read,
        names=frozenset(names),
        first=names[0] if names else "",
        directions=frozenset(directions),
        rest=" ".join(rest),
    )


def _dates(text: str) -> tuple[frozenset[tuple[int, int]], frozenset[int], str]:
    """The (month, day) and the years that a text names, and the text without them. The end of a
    year that is named is the year alone; so is what lies before its first day."""
    dates, years = set[tuple[int, int]](), set[int]()
    for found in _DATE.finditer(text):
        year = int(found[3] or found[6] or found[7] or 0)
        if found[7]:
            date = (int(found[8]), int(found[9]))
        else:
            month = _MONTHS.index((found[1] or found[5]).lower()[:3]) + 1
            date = (month, int(found[2] or found[4] or _last(month)))
        if date == (1, 1) and _before(text, found.start()):
            date, year = (12, 31), max(year - 1, 0)
        dates.add(date)
        years |= {year} - {0}
    without = _DATE.sub(" ", text) if dates else text
    for found in _YEAR.finditer(without):
        said = found[0]
        if len(said) > 4:  # 2025-26, a season.
            years.add(int(said[:2] + said[-2:]))
        else:
            years.add(int(said) - _before(without, found.start()))
    return (
        frozenset(dates - {(12, 31)} if years else dates),
        frozenset(years),
        _YEAR.sub(" ", without),
    )


def _before(text: str, place: int) -> bool:
    return text[:place].lower().rstrip().endswith("before")


def _last(month: int) -> int:
    return 31 if month in (1, 3, 5, 7, 8, 10, 12) else 28 if month == 2 else 30


def _figure(digits: str, said: str) -> str:
    value = float(digits.replace(",", "").rstrip(".") or 0)
    unit = said.lower()
    kind = "%" if unit in ("%", "percent") else ""
    if unit in ("bp", "bps"):
        value, kind = value / 100, "%"
    return f"{value * _TIMES.get(unit, 1.0):.6g}{kind}"


def _spoken(found: re.Match[str]) -> str:
    return _ALIASES.get(found[0].lower(), "")


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-9), dtype=np.float32)
