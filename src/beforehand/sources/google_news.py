"""Google News RSS: queries built and checked, feeds read as text. Nothing here is documented by
Google; the operators are those that the community has found to work.

`before:` and `after:` count whole days and a `pubDate` may be the time of an update, so a feed is
known when it was fetched. Shape, not recorded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import TypedDict
from urllib.parse import urlencode
from xml.etree import ElementTree

from beforehand.clock import iso, parse_instant
from beforehand.errors import BadAnswer, InputError
from beforehand.ids import digest
from beforehand.records.record import Record
from beforehand.records.world import Document
from beforehand.sources.base import (
    RATE_LIMITED,
    Limit,
    Parse,
    Probe,
    Provider,
    Request,
    Source,
    params,
    snapshot,
    words,
)
from beforehand.sources.fields import answer

SOURCE = "google-news"
BASE = "https://news.google.com/rss/search"
MAX_QUERY, MAX_ITEMS = 500, 100
EDITIONS = {
    "US": "United States",
    "GB": "United Kingdom",
    "AE": "United Arab Emirates",
    "AU": "Australia",
    "CA": "Canada",
    "IE": "Ireland",
    "IN": "India",
    "KE": "Kenya",
    "MY": "Malaysia",
    "NG": "Nigeria",
    "NZ": "New Zealand",
    "PH": "Philippines",
    "PK": "Pakistan",
    "SG": "Singapore",
    "ZA": "South Africa",
}
OPERATORS = {
    '"phrase"': "these words in this order",
    "OR": "either side (in capitals)",
    "AROUND(n)": "between two words: at most n words apart",
    "-word": "without this word",
    "intitle:": "the word in the headline; allintitle: all that follow",
    "intext:": "the word in the text; allintext: all that follow",
    "inurl:": "the word in the address",
    "source:": "an outlet by name, as in source:Reuters",
    "site:": "a domain, as in site:reuters.com",
    "when:": "the last while: when:1h, when:7d, when:1y (not with after: or before:)",
    "after:": "from this day on, YYYY-MM-DD (whole days)",
    "before:": "until this day, YYYY-MM-DD (whole days)",
}
_NAMES = frozenset(
    "intitle allintitle intext allintext inurl source site when after before".split()
)
_OPERATOR = re.compile(r"(?:^|\s|\()-?([A-Za-z]+):(\S*)")
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class Feed:
    """A checked search: its canonical `q`, its edition, and the key it is cached under."""

    q: str
    edition: str

    @property
    def query_key(self) -> str:
        """The same for the same feed, however the search was written: what it is filed under."""
        return self.subject

    @property
    def subject(self) -> str:
        """What the feed is filed under: edition and canonical search."""
        return f"{self.edition}|{self.q}"

    @property
    def values(self) -> dict[str, str]:
        """The URL's parameters; hl, gl and ceid must agree."""
        return {
            "q": self.q,
            "hl": f"en-{self.edition}",
            "gl": self.edition,
            "ceid": f"{self.edition}:en",
        }

    @property
    def url(self) -> str:
        """The feed's public address."""
        return f"{BASE}?{urlencode(self.values)}"

    def request(self) -> Request:
        """One poll; at most one in three hours."""
        return Request(SOURCE, "search", "/rss/search", params(self.values), window=self.query_key)


def of_key(key: str) -> Feed:
    """The feed of a `query_key`. Raises InputError for what is none."""
    edition, bar, q = key.partition("|")
    if not bar:
        raise InputError(
            f"queryKey {key[:80]!r} is none that build_search_feed gave: it looks like US|words"
        )
    return build(q, edition=edition)


def build(
    query: str = "",
    *,
    phrases: Sequence[str] = (),
    any_of: Sequence[str] = (),
    exclude: Sequence[str] = (),
    in_title: str | None = None,
    site: str | None = None,
    source: str | None = None,
    when: str | None = None,
    after: str | None = None,
    before: str | None = None,
    edition: str = "US",
) -> Feed:
    """A feed from words and operators. Raises InputError on an unknown edition or operator, on
    when: beside after: or before:, and on a date that is not valid."""
    name = edition.upper().removesuffix(":EN")
    if name not in EDITIONS:
        raise InputError(f"unknown edition {edition!r}: English editions are {', '.join(EDITIONS)}")
    parts = [query.strip()]
    parts += [f'"{p}"' for p in sorted(_plain(p) for p in phrases)]
    if any(not _plain(w) for w in (*phrases, *any_of, *exclude)):
        raise InputError("an empty word: no entry of phrases, any_of or exclude may be empty")
    if any_of:
        parts.append("(" + " OR ".join(sorted(_word(w) for w in any_of)) + ")")
    parts += [f"-{_word(w)}" for w in sorted(exclude)]
    pairs = (("intitle", in_title), ("site", site), ("source", source))
    parts += [f"{key}:{_word(value)}" for key, value in pairs if value]
    parts += [f"{k}:{v}" for k, v in (("when", when), ("after", after), ("before", before)) if v]
    q = " ".join(" ".join(part.split()) for part in parts if part)
    _check(q)
    return Feed(q, name)


def _check(q: str) -> None:
    if not q:
        raise InputError("an empty search: give `query`, `phrases` or `any_of`")
    if len(q) > MAX_QUERY:
        raise InputError(f"the search has {len(q)} characters, at most {MAX_QUERY} are allowed")
    if q.count('"') % 2:
        raise InputError("a quotation mark is not closed")
    outside = re.sub(r'"[^"]*"', '""', q)
    if outside.count("(") != outside.count(")"):
        raise InputError("a bracket is not closed")
    if re.search(r"(^|\()\s*OR\b|\bOR\s*($|\))|\bOR\s+OR\b", outside):
        raise InputError("OR needs a word on either side")
    used = _OPERATOR.findall(outside)
    for name, value in used:
        if name.lower() not in _NAMES:
            known = ", ".join(f"{n}:" for n in sorted(_NAMES))
            raise InputError(f"unsupported operator {name}: — these work: {known}, OR, -word")
        if not value:
            raise InputError(f"the operator {name}: has no value")
        if name.lower() in ("after", "before"):
            _day(name, value)
        if name.lower() == "when" and not re.fullmatch(r"\d{1,4}[hdmy]", value):
            raise InputError(f"when:{value} is not a span such as 1h, 7d or 1y")
    listed = [name.lower() for name, _ in used]
    for once in ("when", "after", "before"):
        if listed.count(once) > 1:
            raise InputError(f"{once}: is given twice")
    names = set(listed)
    if "when" in names and names & {"after", "before"}:
        raise InputError("when: cannot be combined with after: or before:")


def _day(name: str, value: str) -> None:
    try:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            raise ValueError
        date.fromisoformat(value)
    except ValueError:
        raise InputError(f"{name}:{value} is not a day such as {name}:2026-01-31") from None


def _plain(words: str) -> str:
    return " ".join(words.replace('"', " ").split())


def _word(words: str) -> str:
    clean = _plain(words)
    return f'"{clean}"' if " " in clean else clean


@answer("a Google News feed")
def parse(body: str, feed: Feed, fetched_at: datetime) -> list[Record]:
    """The feed as a snapshot of its items, and each item as a Document (the wording of the
    fetch, dated by pubDate). Text only: markup and redirect parameters are taken off."""
    if "<!DOCTYPE" in body or "<!ENTITY" in body:
        raise BadAnswer("a Google News feed carries a document type: not read")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise BadAnswer(f"a Google News feed is not XML: {error}") from None
    if root.tag != "rss":
        raise BadAnswer(f"a Google News feed begins with <{root.tag[:40]}>, not <rss>")
    items = [_item(node) for node in root.iter("item")][:MAX_ITEMS]
    records: list[Record] = [snapshot(SOURCE, "feed", feed.subject, items, fetched_at)]
    for item in items:
        stamp = item["published_at"]
        published = datetime.fromisoformat(stamp) if stamp else None
        records.append(
            Document(
                id=f"google-news:{digest([item['guid'], item['title']])[:16]}",
                title=item["title"],
                text=item["snippet"],
                url=item["link"],
                source=item["source"],
                published_at=published,
                known_at=fetched_at,
                text_known_at=fetched_at,
                captured_how="google news rss",
            )
        )
    return records


class NewsItem(TypedDict):
    """An item of a feed. `guid` is the feed's own id of it, or else its link."""

    title: str
    source: str | None
    link: str
    published_at: str | None
    snippet: str
    guid: str


def _item(node: ElementTree.Element) -> NewsItem:
    title, outlet = _text(node.findtext("title")), _text(node.findtext("source"))
    if outlet and title.endswith(f" - {outlet}"):
        title = title[: -len(outlet) - 3]
    link = (node.findtext("link") or "").strip()
    return {
        "title": title,
        "source": outlet or None,
        "link": link,
        "published_at": _published(node.findtext("pubDate")),
        "snippet": _text(node.findtext("description")),
        "guid": (node.findtext("guid") or link).strip(),
    }


def _text(markup: str | None) -> str:
    return " ".join(unescape(_TAG.sub(" ", markup or "")).split())


def _published(value: str | None) -> str | None:
    """When an item says that it was published; None where it does not, or in a zone that is not
    certain (`BRT` is one of Brazil or of Brunei): it is known since it was fetched, then."""
    said = (value or "").strip()
    try:
        stamp = parsedate_to_datetime(said)
    except (TypeError, ValueError, OverflowError):
        try:
            return iso(parse_instant(said)) if len(said) > 10 else None
        except ValueError:
            return None
    if stamp.tzinfo is None and not said.endswith("-0000"):
        return None
    return iso(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC))


def _feed(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    edition, _, q = subject.partition("|")
    feed = Feed(q, edition)
    return [(feed.request(), lambda b, at: parse(b, feed, at))]


THE_SOURCE = Source(
    SOURCE,
    (
        Provider(
            "google-news",
            "Google News RSS",
            "https://news.google.com",
            (Limit(10, 60.0),),  # Ours: Google states none, and answers 429 or 503 to heavy use.
            timeout=10.0,
            deadline=22.0,
            attempts=2,
            defer=frozenset({RATE_LIMITED, 503}),
            window_seconds=3 * 3600.0,
        ),
    ),
    answers={"feed": _feed},
    probes=(
        Probe(
            "google news search",
            lambda _: build("economy").request(),
            "rss",
            words("title link pubDate"),
            "google-news-rss",
        ),
    ),
)
