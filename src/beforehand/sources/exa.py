"""Exa search, for pages as they were at t: `endPublishedDate` and `contents.snapshotAsOf`.

A date filter alone is not point-in-time: `publishedDate` is an estimate, and the page may have
been edited since. So the page's stored version at or before t is asked for, and `snapshotAt`
says which version came; a hit without it has no `text_known_at` and the strict grade hides it.
Shape, not recorded (exa-py 2.27).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from beforehand.clock import iso
from beforehand.ids import digest
from beforehand.records.world import NOMINATED, Document
from beforehand.sources.base import Limit, Probe, Provider, Request, Source, words
from beforehand.sources.fields import answer, each, instant, mapping, required, rows, text

MAX_TEXT = 2000


def search_request(
    query: str, time_upper_bound: datetime | None, limit: int, domains: Sequence[str] = ()
) -> Request:
    """The documented `search(query, time_upper_bound, limit)`; None means now. With `domains` only
    pages of these are searched. It costs money, so a lost answer is not asked for again."""
    contents: dict[str, object] = {"text": {"maxCharacters": MAX_TEXT}}
    body: dict[str, object] = {"query": query, "numResults": limit, "type": "auto"}
    if domains:
        body["includeDomains"] = list(domains)
    if time_upper_bound is not None:
        body["endPublishedDate"] = iso(time_upper_bound)
        contents["snapshotAsOf"] = iso(time_upper_bound)
    return Request("exa", "search", "/search", body=body | {"contents": contents}, repeatable=False)


@answer("an Exa answer")
def parse(raw: Any, fetched_at: datetime, live: bool) -> tuple[list[Document], float]:
    """(documents, dollars). `live` says that no time bound was sent: the text is then the text at
    the fetch."""
    body = mapping(raw, "an Exa answer")

    def document(row: object) -> Document:
        item = mapping(row, "a result")
        url = str(required(item, "url"))
        published = instant(item.get("publishedDate"))
        stored = instant(item.get("snapshotAt")) or (fetched_at if live else None)
        return Document(
            id=f"{NOMINATED}{digest([url, None if stored is None else iso(stored)])[:16]}",
            title=text(item.get("title")) or url,
            text=(text(item.get("text")) or "")[:MAX_TEXT],
            url=url,
            source="exa",
            published_at=published,
            known_at=published or stored or fetched_at,
            text_known_at=stored,
            captured_how="exa snapshotAt" if item.get("snapshotAt") else "exa",
        )

    found = each(rows(required(body, "results"), "results"), document)
    cost = body.get("costDollars")
    total: Any = mapping(cost, "costDollars").get("total") if cost else None
    return found, float(total or 0.0)


THE_SOURCE = Source(
    "exa",
    (
        Provider(
            "exa",
            "Exa",
            "https://api.exa.ai",
            (Limit(5, 1.0),),  # Ours: no public figure for every plan.
            timeout=30.0,
            auth="x-api-key",
            keys=("EXA_API_KEY",),
            without="search over the archive's documents works without a key (--mode replay)",
        ),
    ),
    probes=(
        Probe(  # It costs as much as one search.
            "exa search",
            lambda _: search_request("prediction markets", None, 1),
            "results",
            words("url title publishedDate text"),
            "search",
        ),
    ),
)
