"""The `google-news-rss` server: build, check and fetch English Google News search feeds."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso
from beforehand.errors import InputError, NotFound, ReplayMiss
from beforehand.records.world import Document
from beforehand.sources import google_news
from beforehand.tools.bounds import Rows
from beforehand.tools.registry import Call, Example, Row, server, tool


class EditionRow(TypedDict):
    edition: str
    name: str
    gl: str
    hl: str
    ceid: str


class Editions(TypedDict):
    editions: list[EditionRow]


class Operator(TypedDict):
    operator: str
    meaning: str


class Operators(TypedDict):
    operators: list[Operator]
    notes: list[str]


class BuiltFeed(TypedDict):
    q: str
    edition: str
    url: str
    queryKey: str


class FeedItems(TypedDict):
    """`fetched_at` is null where no copy of the feed is on record and documents stand in."""

    q: str
    edition: str
    queryKey: str
    fetched_at: str | None
    count: int
    items: list[Row]


SERVER = server("google-news-rss", "Build, check and fetch English Google News search feeds.")
PLAIN = Example("offline", "2026-11-22", "needs no network")
FEED = Example("simulated", "2026-11-01", "community documentation (shape, not recorded)")
SERVICES = (google_news.SOURCE,)
_PLAIN = re.compile(r"(?!.*\bOR\b)\w+( \w+)*")
Words = Annotated[tuple[str, ...], Field(max_length=20)]
Query = Annotated[str, Field(max_length=400, description="Words and operators.")]
Edition = Annotated[str, Field(description="Country of an English edition, such as US or AE.")]
Day = Annotated[str | None, Field(description="YYYY-MM-DD, whole days.")]


@tool(SERVER, example=PLAIN, outside=False)
def list_editions(call: Call) -> Editions:
    """List the English editions with their gl and ceid."""
    return {
        "editions": [
            {"edition": code, "name": name, "gl": code, "hl": f"en-{code}", "ceid": f"{code}:en"}
            for code, name in google_news.EDITIONS.items()
        ]
    }


@tool(SERVER, example=PLAIN, outside=False)
def explain_operators(call: Call) -> Operators:
    """Explain the search operators that work (no network)."""
    return {
        "operators": [{"operator": k, "meaning": v} for k, v in google_news.OPERATORS.items()],
        "notes": [
            "before: and after: count whole days and are never strict to an instant",
            "about 100 items at most, and no paging",
            "a pubDate may be the time of an update",
        ],
    }


@tool(SERVER, example=PLAIN, outside=False)
def build_search_feed(
    call: Call,
    *,
    query: Query = "",
    phrases: Annotated[Words, Field(description="Exact phrases.")] = (),
    any_of: Annotated[Words, Field(description="Any of these words.")] = (),
    exclude: Annotated[Words, Field(description="None of these words.")] = (),
    in_title: Annotated[str | None, Field(description="A word in the headline.")] = None,
    site: Annotated[str | None, Field(description="A domain, such as reuters.com.")] = None,
    source: Annotated[str | None, Field(description="An outlet, such as Reuters.")] = None,
    when: Annotated[str | None, Field(description="The last while: 1h, 7d, 1y.")] = None,
    after: Day = None,
    before: Day = None,
    edition: Edition = "US",
) -> BuiltFeed:
    """Build a feed from a structured query: the canonical q, its URL and its queryKey."""
    feed = google_news.build(
        query,
        phrases=phrases,
        any_of=any_of,
        exclude=exclude,
        in_title=in_title,
        site=site,
        source=source,
        when=when,
        after=after,
        before=before,
        edition=edition,
    )
    return {"q": feed.q, "edition": feed.edition, "url": feed.url, "queryKey": feed.query_key}


@tool(
    SERVER,
    example=FEED,
    rows=Rows("items", default=10, maximum=100, counts=("count",)),
    services=SERVICES,
    probe="google news search",
)
def preview_search_feed(call: Call, *, query: Query, edition: Edition = "US") -> FeedItems:
    """Look at a feed once: its newest items as text. A feed is polled at most once in three
    hours; within that window the copy at hand is shown."""
    return _read(call, google_news.build(query, edition=edition))


@tool(
    SERVER,
    example=FEED,
    rows=Rows("items", default=50, maximum=100, counts=("count",)),
    services=SERVICES,
    probe="google news search",
)
def fetch_search_feed(
    call: Call,
    *,
    queryKey: Annotated[  # noqa: N803 (the documented name)
        str | None, Field(max_length=600, description="As build_search_feed gives it.")
    ] = None,
    query: Query = "",
    edition: Edition = "US",
) -> FeedItems:
    """Fetch a feed for a schedule, cached by its queryKey: at most one poll in three hours."""
    if queryKey is not None and query:
        raise InputError("give a queryKey or a query, not both")
    if queryKey is not None:
        return _read(call, google_news.of_key(queryKey))
    return _read(call, google_news.build(query, edition=edition))


def _read(call: Call, feed: google_news.Feed) -> FeedItems:
    """The feed's last copy by t; where none is on record, the stored documents that fit."""
    try:
        found = call.view.snapshot(google_news.SOURCE, "feed", feed.subject)
    except (ReplayMiss, NotFound) as miss:
        # Only plain words can be looked up in the archive; operators would be broken silently.
        plain = call.storage.mode == "replay" and _PLAIN.fullmatch(feed.q)
        documents = call.view.search(feed.q, 100) if plain else []
        if not documents:
            raise miss from None
        call.note("this feed is not on record: documents of the archive that fit its words")
        items = [_item(document) for document in documents]
        return _shown(feed, None, items)
    items = [row for row in found.data["rows"] if _published_by(row, call.at)]
    return _shown(feed, iso(found.known_at), items)


def _shown(feed: google_news.Feed, fetched_at: str | None, items: list[Row]) -> FeedItems:
    return {
        "q": feed.q,
        "edition": feed.edition,
        "queryKey": feed.query_key,
        "fetched_at": fetched_at,
        "count": len(items),
        "items": items,
    }


def _published_by(row: Row, t: datetime) -> bool:
    stamp = row.get("published_at")
    return stamp is None or datetime.fromisoformat(str(stamp)) <= t


def _item(document: Document) -> Row:
    published = document.published_at
    return {
        "title": document.title,
        "source": document.source,
        "link": document.url,
        "published_at": None if published is None else iso(published),
        "snippet": document.text,
        "guid": document.id,
    }
