"""What a question asks, read by rules: what it is about, and which time it asks about."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from beforehand.errors import InputError
from beforehand.ids import is_storable
from beforehand.jobs.ask.subject import MONTHS, Subject, plain

MOST_TOPICS, MOST_IDS = 3, 10
_VENUE = r"(?:polymarket|kalshi|manifold|metaculus|infer)"
_COMPARE = re.compile(r"^\s*compare\s+", re.IGNORECASE)
_SIDES = re.compile(
    r"[?;]|\s+(?:vs\.?|versus|compared\s+(?:to|with))\s+|"
    r"\s+and\s+(?=(?:(?:the\s+)?(?:odds|chances?|probability|price)\s+)?(?:of|for|about)\s)|"
    r",?\s+and\s+(?=(?:will|what|when|who|which|is|are)\s)|,\s+(?=(?:will|what|who|which)\s)",
    re.IGNORECASE,
)
_SIDES_OF = re.compile(rf"{_SIDES.pattern}|,(?!\d)|\s+(?:and|with|to)\s+", re.IGNORECASE)
_SYMBOL = re.compile(r"\b[A-Z]{2,8}(?:\.[A-Z0-9%_]+)+\b|(?<=[\"'])[A-Z0-9][A-Z0-9 .%_]+(?=[\"'])")
_TITLE = re.compile('["\u201c]([^"\u201c\u201d]+)["\u201d]')
_DAY = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
_COUNT = "|".join(_NUMBERS)
_SPAN = re.compile(
    rf"\b(?:last|past|previous)\s+(?:(\d+|{_COUNT})\s+)?(day|week|fortnight|month|quarter|year)s?\b",
    re.IGNORECASE,
)
_THIS = re.compile(r"\bthis\s+(week|month|quarter|year)\b", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|to|till|through)\s+(\d{4}-\d{2}-\d{2})\b", re.IGNORECASE)
_MONTH_NAME = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
)
_MONTH = rf"({_MONTH_NAME})(?:\s+(\d{{4}}))?\b(?!\s+\d)"
_SINCE_MONTH = re.compile(rf"\bsince\s+{_MONTH}", re.IGNORECASE)
_MOVED_IN = re.compile(
    rf"(?<=[a-z])\s+(?:in|during|through)\s+{_MONTH}(?=\W*(?:$|[,;?!]|and\b))", re.IGNORECASE
)
_IN_MONTH = re.compile(rf"\b(?:in|during|through)\s+{_MONTH}", re.IGNORECASE)
_DATED = (
    rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|{_MONTH_NAME}\s+\d{{1,2}}(?!\d)(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH_NAME}(?:,?\s+\d{{4}})?)"
)
_UNIT = r"(day|week|fortnight|month|year)s?"
_BEFORE_DAY = re.compile(
    rf"\b(an?|\d+|{_COUNT})\s+{_UNIT}\s+before\b([^,;?]*?)({_DATED})", re.IGNORECASE
)
_BEFORE_EVENT = re.compile(
    rf"\b(?:an?|the|\d+|{_COUNT})\s+{_UNIT}\s+(?:before|after)\b[^,;?]*", re.IGNORECASE
)
_SINCE_START = re.compile(
    r"\b(?:since|from)\s+the\s+(?:start|beginning)\s+of\s+(?:the|this)\s+(week|month|quarter|year)\b",
    re.IGNORECASE,
)
_AGO = re.compile(rf"\b(?:(?:since|from)\s+)?(an?|\d+|{_COUNT})\s+{_UNIT}\s+ago\b", re.IGNORECASE)
_BETWEEN = re.compile(
    rf"\b(?:between|from)\s+({_DATED})\s+(?:and|to|until|till)\s+({_DATED})", re.IGNORECASE
)
_SINCE_DAY = re.compile(rf"\b(?:since|from|after)\s+({_DATED})", re.IGNORECASE)
_SINCE_YEAR = re.compile(r"\bsince\s+((?:19|20)\d{2})\b(?!-)", re.IGNORECASE)
_ON_DAY = re.compile(rf"\b(?:on|at|as\s+of)\s+({_DATED})", re.IGNORECASE)
_PAST = re.compile(r"\b(?:was|were|did|had)\b", re.IGNORECASE)
_PRICE = re.compile(r"\b(?:prices?|odds|chances?|probabilit\w+)\b", re.IGNORECASE)
_WHAT_HAPPENED = re.compile(
    r"\bhappened\s+(?:to|with)\s+(?:the\s+)?(?:prices?|odds|chances?)\b", re.IGNORECASE
)
_AHEAD = re.compile(r"\b(?:will|would|odds|chances?|prices?|likely|probability)\b", re.IGNORECASE)
ENDED = re.compile(r"\b(?:ended|resolved|settled|concluded)\b", re.IGNORECASE)
_ONE_OF_MANY = re.compile(
    r"\s*(?:who|which|what\s+(?:company|team|country|party))\b", re.IGNORECASE
)
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_SINCE_WEEKDAY = re.compile(rf"\bsince\s+(?:last\s+)?({'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)
_URL = re.compile(r"https?://\S+")
_DAY_BEFORE = re.compile(r"\b(?:since\s+)?yesterday\b", re.IGNORECASE)
_MOVE = re.compile(
    r"\b(move[ds]?|moving|change[ds]?|changing|trend\w*|history|evolve\w*|rise|rose|fall|fell|"
    r"doubl\w*|halv\w*|jump\w*|drop\w*|shift\w*|highest|lowest|up or down|over time|so far)\b",
    re.IGNORECASE,
)
_EVENT = re.compile(r"\s*(?:will|would|how\s+likely|what\s+are\s+the\s+odds)\b", re.IGNORECASE)
_WHY = re.compile(
    r"\b(why|news|reasons?|because|happened|happening|report\w*|headlines?|evidence|articles?|"
    r"documents?|"
    rf"what(?:'s|\s+is|\s+was)?\s+going\s+on|who\s+won|what\s+did\s+(?!{_VENUE}\b|(?:the\s+)?markets?\b)|"
    rf"did\s+(?!{_VENUE}\b|(?:the\s+)?markets?\b)(?:\w+\s+){{1,3}}say|who\s+said)\b",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:why|reasons?|because)\b", re.IGNORECASE)
_ID = re.compile(r"[A-Z][A-Z0-9_]*:[\w.-]*\w|0x[0-9a-fA-F]{64}|KX[A-Z0-9]+-[A-Z0-9.-]*[A-Z0-9]")
_QUOTES = re.compile(
    r"\b(quotes?|bids?|asks?|option chain|market[- ]data|ticks?|contracts? symbols?)\b",
    re.IGNORECASE,
)
_FRAME = re.compile(
    r"^(?:please\s+|and\s+|so\s+|then\s+)*"
    r"(?:(?:the\s+)?(?:latest\s+)?(?:news|reports?|headlines?|articles?)\s+(?:about|on|of)\s*|"
    r"what\s+(?:is|was|has\s+been)\s+(?:reported|said|written)\s+(?:about|on|of)\s*|"
    r"what\s+(?:do|did)\s+(?:the\s+)?(?:reports?|news|papers?|articles?)\s+say\s*(?:about|on|of)?\s*|"
    r"when\s+(?:did|will|does|do|is|was)\s+|"
    r"(?:show|tell)\s+me\s+(?:everything|all)\s+(?:about|on|of)\s*|"
    r"(?:which|what)\s+(?:of\s+the\s+)?(?:company|companies|team|country|countries|person|people|"
    r"candidate|party|parties|player|artist|model)\s+|"
    r"(?:what|which)\s+(?:is|are|was|were)\s+(?:the\s+)?"
    r"(?:priced\s+in\s+for|(?:market\s+)?(?:odds|chances?|probabilit\w+|price|prices)\s+"
    r"(?:of|that|for|on))\s*|how\s+likely\s+(?:is|are)\s+(?:it\s+that\s+)?|"
    r"what\s+(?:is|are|was|were)\s+the\s+(?:odds|chances?)\s+|"
    r"what\s+(?:are|is|do|does|did)\s+(?:people\s+)?(?:on\s+)?reddit\w*\s+(?:say|think)(?:ing)?\s+"
    r"(?:about|of|on)\s+|"
    r"what(?:'s|\s+is|\s+was)?\s+going\s+on\s+(?:with|in)\s+|"
    r"what\s+(?:is|was|were)\s+in\s+the\s+(?:news|papers|headlines)\s+(?:about|on)\s+|"
    r"(?:how\s+(?:have|has|did)\s+)?(?:the\s+)?hopes?\s+(?:of|for)\s+|"
    r"who\s+(?:is|was|are)\s+(?:the\s+)?(?:favou?rite|most\s+likely|likeliest)\s+(?:for|to)\s+|"
    rf"what\s+(?:do|does|did)\s+{_VENUE}(?:\s*(?:,|and|or)\s+{_VENUE})*\s+(?:say|think|expect)\s+"
    r"(?:about|of|on)\s+|"
    r"how\s+do(?:es)?\s+things\s+look\s+(?:for|in|with)\s+|"
    r"did\s+(?:polymarket|kalshi|manifold|metaculus|the\s+markets?)\s+(?:get|call|predict)\s+|"
    r"what\s+happened\s+(?:to|with)\s+(?:the\s+)?(?:price|odds|chances?)\s+(?:of|that|for|on)\s+|"
    r"(?:did|has|was|were|is)\s+(?:there\s+)?(?:anything|something)\s+(?:about|on)\s+|"
    r"(?:which|what)\s+markets?\s+(?:about|on)\s+|"
    r"what\s+(?:do|does|did)\s+(?:the\s+)?(?:prediction\s+markets?|markets?|polymarket|kalshi)\s+"
    r"(?:say|think|expect|imply|price)\s*(?:about|on|for|of|in)?\s*|"
    r"what(?:\s+has|'s|\s+is)?\s+(?:happened|happening|new|known)\s+(?:with|to|about|in|on)\s*|"
    r"(?:what|which)\s+(?:(?:are|were)\s+the\s+|(?:is|was)\s+the\s+)?(?:latest\s+)?"
    r"(?:reports?|news|headlines?|articles?|evidence|documents?)\s+(?:are\s+there\s+|is\s+there\s+|"
    r"was\s+there\s+|were\s+there\s+)?(?:about|on|for|of)\s*|"
    r"what\s+(?:is|was|were)\s+the\s+(?:highest|lowest|high|low)(?:\s+and\s+(?:the\s+)?(?:highest|"
    r"lowest|high|low))?\s+(?:prices?|odds|probabilit\w+)\s+(?:of|for|on)\s*|which\s+(?:of\s+the\s+)?|"
    r"tell\s+me\s+about\s*|(?:show|find|list|search)(?:\s+me)?\s+(?:all\s+)?(?:the\s+)?"
    r"(?:prediction\s+)?(?:markets?\s+)?(?:for|on|about)?\s*|why\s+(?:did|does|do|has|have|is)\s+)",
    re.IGNORECASE,
)
_TIMES = re.compile(
    rf"{_AGO.pattern}|{_SINCE_START.pattern}|{_BEFORE_EVENT.pattern}|{_BETWEEN.pattern}|{_SINCE_DAY.pattern}|{_SINCE_YEAR.pattern}|"
    rf"(?:\b(?:over|in|during|for)\s+the\s+)?{_SPAN.pattern}|{_THIS.pattern}|"
    rf"{_UNTIL.pattern}|{_SINCE_MONTH.pattern}|{_SINCE_WEEKDAY.pattern}|{_DAY_BEFORE.pattern}|"
    r"\bover time\b|\bso far\b|\b(?:right\s+|as\s+of\s+)?(?:now|today)\b|\bcurrently\b|"
    r"\bat\s+the\s+moment\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(it|they|that|this|these|those|its|their|the\s+(?:price|odds|market)s?)\b", re.IGNORECASE
)
_BACK = re.compile(r"(?:how|why)\s+\w+\s+(?:it|they|that|this|these|those)\b", re.IGNORECASE)
_CLAUSES = re.compile(r",(?!\d)|:\s|[;?!\n]|\band (?=how|why|what)")
_HOW = re.compile(
    r"\b(?:how|why)\s+(?:did|has|have|does|do|is|are)\b|\bover\s+the\b|\bin\s+the\s*$",
    re.IGNORECASE,
)
_OF = re.compile(
    r"^(?:the\s+)?(?:(?:market\s+)?(?:odds|chances?|probabilit\w+|prices?|those)\s+)?"
    r"(?:of|that|for|on|about)\s+",
    re.IGNORECASE,
)
_AT_THE_END = re.compile(
    r"\s+(?:move[ds]?|change[ds]?|evolve[ds]?|shift(?:ed|s)?|develop(?:ed|s)?|trend(?:ed|s)?)"
    rf"(?:\s+(?:the\s+)?most)?(?:\s+(?:in|during|through)\s+{_MONTH})?$|"
    r"(?:\s+(?:odds|chances?|price|market))?(?:\s+(?:go|going|went))?\s+(?:up|down|rising|falling|higher|"
    r"lower)$|\s+(?:right|wrong|correctly)$|"
    r"\s+(?:(?:have|has|had|was|were|are|is|been)\s+)*"
    rf"(?:ended|resolved|settled|concluded)(?:\s+(?:yes|no))?(?:\s+(?:in|during)\s+(?:{_MONTH_NAME}\s*)?"
    r"(?:(?:19|20)\d{2})?)?(?:\s+and)?$|"
    r"\s+show(?:ed|s)?\s+up(?:\s+in\s+the\s+news)?(?:\s+before\b.*)?$",
    re.IGNORECASE,
)
_ASKS_HOW = re.compile(r"\s*(?:why|how)\b", re.IGNORECASE)
_VERB_AT_THE_END = re.compile(
    r"\s+(?:fall|fell|rise|rose|drop(?:ped)?|jump(?:ed)?|climb(?:ed)?)$", re.IGNORECASE
)
_ON_A_VENUE = re.compile(
    rf"\s+(?:on|at|according to)\s+{_VENUE}(?:\s*(?:,|and|or|versus|vs\.?)\s+{_VENUE})*\b",
    re.IGNORECASE,
)
_DAYS = {"day": 1, "week": 7, "fortnight": 14, "month": 30, "quarter": 91, "year": 365}
USUAL_DAYS = 30


@dataclass(frozen=True)
class Known:
    """What there is to search as of the question's instant: the venues with markets, the markets'
    ids (live, where nobody lists them all: none), how many have no text yet, the ids by the
    addresses of their pages, and whether documents cost nothing (on record)."""

    venues: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    untold: int = 0
    pages: Mapping[str, str] = field(default_factory=dict)
    documents: bool = False


@dataclass(frozen=True)
class Read:
    """What a question asks: its topics (the words to search for), the markets that it names by
    their ids, the days that it asks about (None: only the present), whether it asks for documents,
    the symbols of quotes, whether it asks for one of many, and the month that it names."""

    topics: tuple[str, ...]
    ids: tuple[str, ...]
    days: tuple[date, date] | None
    documents: bool
    symbols: tuple[str, ...]
    quotes: bool
    many: bool = False
    month: tuple[date, date] | None = None


def read(question: str, at: datetime, known: Known | None = None) -> Read:
    """What a question asks as of an instant. Raises InputError where it names nothing to look for,
    or a time after the instant."""
    if not is_storable(question):
        raise InputError("the question is not Unicode text")
    ids = _ids(question, known or Known())
    for name in (*_URL.findall(question), *ids):
        question = question.replace(name, " ")
    symbols = tuple(dict.fromkeys(_SYMBOL.findall(question)))
    topics = _asked_about(_BEFORE_DAY.sub(" ", question)) or _asked_about(question)
    quotes = bool(symbols) or (bool(_QUOTES.search(question)) and bool(_DAY.search(question)))
    if not topics and not quotes and not ids:
        raise InputError(
            f"{question.strip()!r} does not say what it is about: name an event, a person or a "
            'price, such as "What is priced in for a rate cut in December?"'
        )
    try:
        days = _days(question, at)
    except (OverflowError, ValueError):
        raise InputError(f"{question.strip()!r} names a time that is not on the calendar") from None
    many = bool(_ONE_OF_MANY.match(question) or ENDED.search(question))
    month = _named_month(question, at.date())
    told = month is not None and days is None and not _AHEAD.search(question)
    documents = told or bool(_WHY.search(_WHAT_HAPPENED.sub(" ", question)))
    return Read(topics, ids, days, documents, symbols, quotes, many, month)


def _asked_about(question: str) -> tuple[str, ...]:
    """The topics of a question, without the days of the past that it asks about."""
    past = _ON_DAY.sub(" ", question) if _PAST.search(question) else question
    if _WHAT_HAPPENED.search(question):
        past = _IN_MONTH.sub(" ", past)
    return _topics(_ON_A_VENUE.sub("", plain(past)))


def _ids(question: str, known: Known) -> tuple[str, ...]:
    """The markets that a question names by their ids. A plain number or word is none."""
    words = [word.strip("\"'?!.,;()[]") for word in _URL.sub(" ", question).split()]
    urls = [url.rstrip("?!.,;)/") for url in _URL.findall(question)]
    pages = [known.pages.get(url, url.rsplit("/", 1)[-1]) for url in urls]
    named = [w for w in words if _ID.fullmatch(w) or (w in known.ids and re.search(r"\d", w))]
    words = [word for word in named if not word.isdecimal()]
    return tuple(dict.fromkeys([*filter(None, pages), *words]))[:MOST_IDS]


def _topics(question: str) -> tuple[str, ...]:
    """What is asked about: each question of several, each side of a comparison."""
    if quoted := [title for title in _TITLE.findall(question) if len(title.split()) > 2]:
        return tuple(dict.fromkeys(quoted))[:MOST_TOPICS]
    sides = _SIDES_OF if _COMPARE.match(question) else _SIDES
    parts = [part for part in sides.split(_COMPARE.sub("", question)) if part and part.strip()]
    found = dict.fromkeys(filter(None, map(_topic, parts)))
    return tuple(found)[:MOST_TOPICS]


def _topic(question: str) -> str:
    """A question without its frame, its times, and the clauses that only point back."""
    parts = [part.strip() for part in _CLAUSES.split(question)]
    kept = []
    for part in filter(None, parts):
        if _BACK.match(part):
            continue
        rest = _TIMES.sub(" ", _FRAME.sub("", part))
        rest = _HOW.sub(" ", _SYMBOL.sub(" ", _DAY.sub(" ", rest)))
        rest = _ON_A_VENUE.sub("", _OF.sub("", " ".join(rest.split())))
        rest = _AT_THE_END.sub("", rest)
        if _ASKS_HOW.match(part):
            rest = _VERB_AT_THE_END.sub("", rest)
        about = rest
        for filler in (_MOVE, _POINTS_BACK, _WHY, _QUOTES):
            about = filler.sub(" ", about)
        if Subject.names_something(about):
            kept.append(rest)
    return " ".join(kept).strip(" .")


def _days(question: str, at: datetime) -> tuple[date, date] | None:
    today = at.date()
    end = min(_date(_UNTIL, question) or today, today)
    if found := _BETWEEN.search(question):
        first, last = _dated(found[1], today), min(_dated(found[2], today), today)
        if _dated(found[1], today) > today:
            raise InputError(f"{found[0]}: this time lies after {today}, as of which is answered")
        if last < first:
            raise InputError(f"{found[0]}: this time is reversed, name the earlier day first")
        if len(_BETWEEN.findall(question)) > 1:
            raise InputError("ask for one range of days at a time")
        return first, last
    if day := _one_day(question, today):
        return day, day
    start = _since_day(question, today) or _since_month(question, today)
    if start is None and (found := _SINCE_WEEKDAY.search(question)):
        back = (today.weekday() - _WEEKDAYS.index(found[1].lower())) % 7
        start = today - timedelta(days=back or 7)
    if start is None and (month := _moved_in(question, today)):
        return month
    if start is None and _DAY_BEFORE.search(question):
        start = today - timedelta(days=1)
    if start is None and (found := _SINCE_START.search(question) or _THIS.search(question)):
        start = _begin(found[1].lower(), today)
    if start is None and (found := _AGO.search(question)):
        start = today - timedelta(days=_number(found[1]) * _DAYS[found[2].lower()])
    if start is None and (found := _SPAN.search(question)):
        start = today - timedelta(days=_number(found[1]) * _DAYS[found[2].lower()])
    if start is None:
        if not _asks_of_moves(question) and not _REASON.search(question):
            return None
        start = end - timedelta(days=USUAL_DAYS)
    if start > today:
        raise InputError(f"{start} lies after {today}, as of which this is answered")
    if end < start:
        raise InputError(f"{end} lies before {start}: the time must not be reversed")
    return start, end


def _one_day(question: str, today: date) -> date | None:
    """The day in "what was it on April 5", "a week before the vote on April 12" and "two weeks
    ago"; None where days since then are asked about. Raises InputError for one that lies ahead."""
    if found := _BEFORE_DAY.search(question):
        back = timedelta(days=_number(found[1]) * _DAYS[found[2].lower()])
        day, said = _dated(found[4], today) - back, found[0]
    elif (found := _AGO.search(question)) and not _asks_of_moves(question):
        day = today - timedelta(days=_number(found[1]) * _DAYS[found[2].lower()])
        said = found[0]
    elif _PAST.search(question) and (found := _ON_DAY.search(question)):
        day, said = _dated(found[1], today), found[1]
        if day > today and not _PRICE.search(question):
            return None  # What a market asks about.
    else:
        return None
    if day > today:
        raise InputError(f"{said}: this day lies after {today}, as of which is answered")
    return day


def _named_month(question: str, today: date) -> tuple[date, date] | None:
    """The month that a question names, as far as it has begun."""
    found = _IN_MONTH.search(question)
    if found is None:
        return None
    start = _month(found[1], found[2], today)
    after = (start + timedelta(days=32)).replace(day=1)
    return None if start > today else (start, min(after - timedelta(days=1), today))


def _asks_of_moves(question: str) -> bool:
    """True where a part of the question asks how something moved; "will it fall" does not."""
    parts = re.split(r",(?!\d)|[;?!\n]|\band\b", question)
    return any(_MOVE.search(part) and not _EVENT.match(part) for part in parts)


def _number(said: str | None) -> int:
    """How many: digits, or a word such as "two"."""
    if said is None or said.lower() in ("a", "an"):
        return 1
    return int(said) if said.isdigit() else _NUMBERS.index(said.lower()) + 1


def _begin(unit: str, today: date) -> date:
    """The first day of this week, month, quarter or year."""
    if unit == "week":
        return today - timedelta(days=today.weekday())
    month = {"month": today.month, "quarter": 3 * ((today.month - 1) // 3) + 1, "year": 1}[unit]
    return date(today.year, month, 1)


def _since_day(question: str, today: date) -> date | None:
    """The day in "since 2025-10-01", "since October 3" and "since 2025"."""
    if found := _SINCE_DAY.search(question):
        return _dated(found[1], today)
    year = _SINCE_YEAR.search(question)
    return None if year is None else date(int(year[1]), 1, 1)


def _dated(text: str, today: date) -> date:
    """A day as a question states it; without a year the latest one that has begun."""
    if text[:4].isdigit():
        return date.fromisoformat(text)
    parts = re.sub(r"(?<=\d)(?:st|nd|rd|th)|,|\bof\b", "", text).split()
    if parts[0].isdigit():  # The day first: 14 January.
        parts[:2] = parts[1], parts[0]
    name, day, *year = parts
    number = MONTHS.index(name.lower()) + 1
    if year:
        return date(int(year[0]), number, int(day))
    found = date(today.year, number, int(day))
    return found if found <= today else date(today.year - 1, number, int(day))


def _since_month(question: str, today: date) -> date | None:
    """The first day of the month in "since October", the latest one that has begun."""
    found = _SINCE_MONTH.search(question)
    return None if found is None else _month(found[1], found[2], today)


def _moved_in(question: str, today: date) -> tuple[date, date] | None:
    """The month in "how did it move in October", where that month has begun; a month that lies
    ahead belongs to the event that is asked about."""
    found = _MOVED_IN.search(question)
    moved = found and _MOVE.search(question[: found.start()].split()[-1])
    return _named_month(question, today) if moved or _WHAT_HAPPENED.search(question) else None


def _month(name: str, year: str | None, today: date) -> date:
    number = MONTHS.index(name.lower()) + 1
    if year is not None:
        return date(int(year), number, 1)
    return date(today.year - (number > today.month), number, 1)


def _date(pattern: re.Pattern[str], question: str) -> date | None:
    found = pattern.search(question)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        raise InputError(f"{found[1] if found else ''} is no day of the calendar") from None


def day_named(question: str) -> str | None:
    """The first day that is written as 2025-07-21. Raises InputError for one that is not on the
    calendar."""
    found = _date(_DAY, question)
    return None if found is None else found.isoformat()


def month_named(question: str, as_of: str) -> str | None:
    """The month that a question names, such as 2026-02, as far as it has begun."""
    found = _named_month(question, date.fromisoformat(as_of[:10]))
    return None if found is None else f"{found[0]:%Y-%m}"


def venues_named(question: str) -> list[str]:
    """The venues that a question names, in lower case."""
    return list(dict.fromkeys(name.lower() for name in re.findall(_VENUE, question, re.IGNORECASE)))


def day_of_an_event(question: str) -> str | None:
    """A day that only an event names, such as "a week before he resigned"."""
    found = _BEFORE_EVENT.search(question)
    return None if found is None or _BEFORE_DAY.search(question) else found[0].strip()
