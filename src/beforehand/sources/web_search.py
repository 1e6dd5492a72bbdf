"""OpenAI's web search through the Responses API: a narrative answer with inline citations.

It has no date filter and no maximum of results: `freshnessHours` can only be asked for in the
prompt, and `maxResults` is applied to what comes back. It cannot look back, so a pinned View is
served stored answers. Shape, not recorded (openai 3.54).
"""

from datetime import datetime
from typing import Any

from beforehand.errors import BadAnswer
from beforehand.records.world import Observation
from beforehand.sources.base import Limit, Parse, Provider, Request, Source, snapshot
from beforehand.sources.fields import answer, mapping, number, rows, text

SOURCE, MODEL = "openai", "gpt-5-nano"
SNIPPET = 240


def subject(query: str, region: str | None, freshness_hours: float | None) -> str:
    """What a stored answer is filed under: the question as it was asked."""
    hours = "" if freshness_hours is None else f"{freshness_hours:g}"
    return f"{' '.join(query.split())}|{(region or '').upper()}|{hours}"


def search_request(
    query: str, max_results: int, freshness_hours: float | None, region: str | None
) -> Request:
    """A paid call: a lost answer is not asked for again."""
    wishes = [f"Search the web and answer: {query}", f"Cite at most {max_results} sources."]
    if freshness_hours is not None:
        wishes.append(f"Prefer sources of the last {freshness_hours:g} hours.")
    tool: dict[str, object] = {"type": "web_search", "search_context_size": "low"}
    if region:
        tool["user_location"] = {"type": "approximate", "country": region.upper()}
    body = {
        "model": MODEL,
        "input": " ".join(wishes),
        "tools": [tool],
        "include": ["web_search_call.action.sources"],
        "store": False,
    }
    return Request("openai", "responses", "/responses", body=body, repeatable=False)


@answer("an OpenAI search answer")
def parse(raw: Any, filed_under: str, fetched_at: datetime) -> Observation:
    """The answer's text and its citations (title, url, snippet: the words before the citation), as
    a snapshot of the fetch; tokens used are kept in `now`."""
    body = mapping(raw, "an OpenAI answer")
    texts: list[str] = []
    found: dict[str, dict[str, str]] = {}
    for output in rows(body.get("output"), "output"):
        item = mapping(output, "an output item")
        if item.get("type") != "message":
            continue
        for part in rows(item.get("content"), "content"):
            block = mapping(part, "a content part")
            said = text(block.get("text")) or ""
            texts.append(said)
            for note in rows(block.get("annotations"), "annotations"):
                cited = mapping(note, "an annotation")
                if cited.get("type") == "url_citation" and cited.get("url"):
                    start = int(number(cited.get("start_index")) or 0)
                    found.setdefault(
                        str(cited["url"]),
                        {
                            "title": text(cited.get("title")) or str(cited["url"]),
                            "url": str(cited["url"]),
                            "snippet": said[max(0, start - SNIPPET) : start].strip(),
                        },
                    )
    if not any(texts):
        raise BadAnswer("it holds no text")
    made = snapshot(SOURCE, "answer", filed_under, list(found.values()), fetched_at)
    usage = mapping(body.get("usage") or {}, "usage")
    tokens = {k: number(usage.get(k)) for k in ("input_tokens", "output_tokens")}
    data = {**made.data, "answer": "\n".join(t for t in texts if t), "tokens": tokens}
    return made.model_copy(update={"data": data})


def _answer(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    query, region, hours = subject.rsplit("|", 2)
    request = search_request(query, 8, float(hours) if hours else None, region or None)
    return [(request, lambda b, at: [parse(b, subject, at)])]


THE_SOURCE = Source(
    SOURCE,
    (
        Provider(
            "openai",
            "OpenAI Responses API",
            "https://api.openai.com/v1",
            (
                Limit(60, 60.0),
            ),  # Ours; the documented 20 per 10 minutes bind each user of a server.
            timeout=15.0,
            deadline=15.0,
            attempts=3,
            auth="bearer",
            keys=("OPENAI_API_KEY",),
            without="stored answers and documents of the archive work without a key "
            "(--mode replay)",
        ),
    ),
    answers={"answer": _answer},
)
