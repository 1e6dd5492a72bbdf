"""The `web-search` server (OpenAI's web search), and `search`: evidence as of an instant."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso
from beforehand.config import DEFAULT_SEARCH_RESULTS, MAX_SEARCH_RESULTS, PREDICTION_DOMAINS
from beforehand.errors import (
    BadAnswer,
    BeforehandError,
    InputError,
    NotConfigured,
    NotFound,
    ReplayMiss,
    Unauthorized,
    Unavailable,
)
from beforehand.gateway.search import domain_of
from beforehand.records.world import Document, Market
from beforehand.sources import kalshi, polymarket, web_search
from beforehand.sources.catalogue import PROVIDERS
from beforehand.tools.bounds import Rows
from beforehand.tools.caller import ToolLimit
from beforehand.tools.markets import FOUND_ROWS, ListedMarket, find, moment, odds
from beforehand.tools.registry import Call, Example, Row, server, tool


class WebAnswer(TypedDict):
    """`answered_at` is null where no stored answer is at hand and documents stand in."""

    query: str
    answer: NotRequired[str | None]
    results: list[Row]
    answered_at: str | None


class Capabilities(TypedDict):
    model: str
    maxResults: dict[str, int]
    query: dict[str, int]
    timeoutSeconds: float
    rateLimit: Row
    dateFilter: bool
    freshnessHours: str
    pointInTime: str


class Found(TypedDict):
    id: str
    title: str | None
    text: str | None
    url: str | None
    source: str | None
    timestamp: str
    published_at: str | None


class DomainHit(TypedDict):
    """A page of a domain; `snippet` is its text, or what a market's price was."""

    url: str
    title: str
    snippet: str
    domain: str


class DomainHits(TypedDict):
    """`searched_by`: recorded archive, or the live search."""

    query: str
    results: list[DomainHit]
    result_count: int
    domains_searched: str
    searched_by: str


class VenueMarket(ListedMarket):
    """A market of any venue; `id` is VENUE:market_id."""

    id: str
    venue: str


class VenueMarkets(TypedDict):
    markets: list[VenueMarket]
    search_method: str
    llm_scoring_enabled: bool


class FoundDocuments(TypedDict):
    query: str
    time_upper_bound: str
    results: list[Found]


SERVER = server("web-search", "General web search with a narrative answer and citations.")
EVIDENCE = server("search", "Dated documents, nothing known later than an upper bound.")
MAX_RESULTS, DEFAULT_RESULTS = 8, 5
OPENAI = Example("simulated", "2026-10-31", "openai 3.54 (shape, not recorded)")
PLAIN = Example("offline", "2026-11-22", "needs no network")
GAMMA = Example("recorded", "2026-07-25", "Gamma responses")
EXA = Example("simulated", "2026-10-31", "exa-py 2.27 (shape, not recorded)")
PER_USER = ToolLimit(20, 600, "searches")


@tool(SERVER, example=OPENAI, services=("openai",), limit=PER_USER)
def search_web(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=3, max_length=400, description="Search query.")],
    maxResults: Annotated[  # noqa: N803
        int, Field(ge=1, le=MAX_RESULTS, description="Most results.")
    ] = DEFAULT_RESULTS,
    freshnessHours: Annotated[  # noqa: N803
        float | None, Field(gt=0, le=87_600, description="Prefer the last so many hours.")
    ] = None,
    region: Annotated[
        str | None, Field(pattern="^[A-Za-z]{2}$", description="ISO country code, such as US.")
    ] = None,
    includeAnswers: Annotated[  # noqa: N803
        bool, Field(description="Include the narrative answer.")
    ] = True,
) -> WebAnswer:
    """Search the web: a narrative answer with its citations.

    The service has no date filter and cannot look back. Under `as_of`, and on record, the stored
    answer to the same question is given, else the stored documents that fit its words.
    """
    filed = web_search.subject(query, region, freshnessHours)
    try:
        found = call.view.snapshot(web_search.SOURCE, "answer", filed)
    except (ReplayMiss, NotFound) as miss:
        if call.storage.mode != "replay":
            raise NotFound(
                "this service cannot look back, and no stored answer to the question is at hand: "
                "leave out as_of, or ask the archive (--mode replay)"
            ) from None
        try:
            documents = call.view.search(query, maxResults)
        except BeforehandError:
            raise miss from None
        if not documents:
            raise ReplayMiss(
                f"no answer to this question and no document that fits it is on record at "
                f"{iso(call.at)}"
            ) from None
        call.note("no stored answer to this question: documents of the archive that fit its words")
        results: list[Row] = [
            {"title": d.title, "url": d.url, "snippet": d.text, "known_at": iso(d.known_at)}
            for d in documents
        ]
        return {"query": query, "results": results, "answered_at": None}
    rows, at = found.data["rows"][:maxResults], iso(found.known_at)
    if not includeAnswers:
        return {"query": query, "results": rows, "answered_at": at}
    return {
        "query": query,
        "answer": found.data["answer"],
        "results": rows,
        "answered_at": at,
    }


@tool(SERVER, example=PLAIN, outside=False)
def get_search_capabilities(call: Call) -> Capabilities:
    """Say how search_web is set up and what its limits are (no network)."""
    provider = PROVIDERS["openai"]
    return {
        "model": web_search.MODEL,
        "maxResults": {"min": 1, "max": MAX_RESULTS, "default": DEFAULT_RESULTS},
        "query": {"minLength": 3, "maxLength": 400},
        "timeoutSeconds": provider.deadline,
        "rateLimit": {"calls": PER_USER.calls, "seconds": PER_USER.seconds, "per": "user"},
        "dateFilter": False,
        "freshnessHours": "a wish in the prompt; nothing guarantees it",
        "pointInTime": "stored answers and documents only",
    }


@tool(
    EVIDENCE,
    example=EXA,
    rows=Rows("results", DEFAULT_SEARCH_RESULTS, MAX_SEARCH_RESULTS, counted=False),
    services=("exa",),
)
def search(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words to look for.")],
    time_upper_bound: Annotated[
        str | None, Field(description="Nothing known later (ISO 8601); the same as as_of.")
    ] = None,
    time_lower_bound: Annotated[
        str | None, Field(description="Nothing known before (ISO 8601) [all].")
    ] = None,
) -> FoundDocuments:
    """Search dated documents, nothing known later than the upper bound.

    On record: the archive, ranked with the statistics of that instant. Live: Exa, asked for pages
    as they were stored by then; a page without a stored version is left out. Which pages it names
    is today's knowledge: they are nominated by a search that may know how it ended.
    """
    bound = moment("time_upper_bound", time_upper_bound)
    view = call.view if bound is None else call.view.narrow(bound)
    since = moment("time_lower_bound", time_lower_bound)
    found = view.search(query, min(call.skip + call.wanted + 1, MAX_SEARCH_RESULTS), since)
    if call.skip > MAX_SEARCH_RESULTS:
        raise InputError(f"a search shows at most {MAX_SEARCH_RESULTS} results")
    return {
        "query": query,
        "time_upper_bound": iso(view.t),
        "results": [
            {
                "id": d.id,
                "title": d.title,
                "text": d.text,
                "url": d.url,
                "source": d.source,
                "timestamp": iso(d.known_at),
                "published_at": None if d.published_at is None else iso(d.published_at),
            }
            for d in found
        ],
    }


@tool(
    EVIDENCE,
    example=EXA,
    rows=Rows("results", DEFAULT_SEARCH_RESULTS, MAX_SEARCH_RESULTS, ("result_count",)),
    services=("exa", "gamma", "clob", "kalshi"),
)
def search_domains(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words or a question.")],
    domains: Annotated[
        list[str] | None,
        Field(description=f"Some of {', '.join(PREDICTION_DOMAINS)} [all of them]."),
    ] = None,
) -> DomainHits:
    """Search the prediction markets' sites: their markets and pages, nothing of other domains.

    On record: the archive's markets and documents whose address lies there. Live: the own search
    of each venue whose domain is asked for, and Exa limited to these domains; what cannot be had is
    left out with a note, and only if nothing can be had is it an error.
    """
    wanted = [name.strip().lower() for name in domains or PREDICTION_DOMAINS]
    if unknown := [name for name in wanted if name not in PREDICTION_DOMAINS]:
        raise InputError(
            f"{unknown[0]!r} is no domain to search: choose of {', '.join(PREDICTION_DOMAINS)}"
        )
    failed, looked = list[BeforehandError](), 0
    markets = list[DomainHit | None]()
    for venues in _venues(call, wanted):
        try:
            found, method = call.view.find_markets(query, MAX_SEARCH_RESULTS, venues)
        except (NotConfigured, Unavailable, Unauthorized, BadAnswer) as error:
            failed.append(error)
            call.note(f"{' and '.join(sorted(venues or ()))} was not searched: {error}")
            continue
        looked += 1
        if method != "top_volume":
            markets += [_market_hit(call, hit.market, wanted) for hit in found]
    pages = list[Document]()
    try:
        pages, looked = call.view.search(query, MAX_SEARCH_RESULTS, domains=wanted), looked + 1
    except (NotConfigured, Unavailable, Unauthorized, BadAnswer) as error:
        failed.append(error)
        call.note(f"pages were not searched: {error}")
    if not looked:
        raise failed[0]
    texts = [_page_hit(call, page, wanted) for page in pages]
    # One of each in turn: neither kind hides the other.
    shown = [hit for pair in zip_longest(markets, texts) for hit in pair if hit is not None]
    first = dict[tuple[str, str], DomainHit]()
    for hit in shown:  # Kalshi's markets of one series share a page.
        first.setdefault((hit["url"], hit["title"] if hit["domain"] == "kalshi.com" else ""), hit)
    results = list(first.values())
    return {
        "query": query,
        "results": results[:MAX_SEARCH_RESULTS],
        "result_count": len(results[:MAX_SEARCH_RESULTS]),
        "domains_searched": ", ".join(wanted),
        "searched_by": "recorded archive" if call.storage.mode == "replay" else "venues and Exa",
    }


@tool(
    EVIDENCE,
    example=GAMMA,
    rows=FOUND_ROWS,
    services=("gamma", "clob", "kalshi"),
    probe="gamma public-search",
)
def search_all_markets(
    call: Call,
    *,
    query: Annotated[str, Field(min_length=1, max_length=400, description="Words or a question.")],
    venues: Annotated[
        list[str] | None,
        Field(max_length=50, description="Venues to search, such as MANIFOLD [all]."),
    ] = None,
) -> VenueMarkets:
    """Search the markets of every venue by words and meaning.

    On record: those of the archive, whichever venue they are of. Live: Polymarket's and, where it
    is named, Kalshi's.
    """
    names = None if venues is None else frozenset(name.strip().upper() for name in venues)
    found, method, rated = find(call, query, min(call.skip + call.wanted + 1, 51), names)
    rows: list[VenueMarket] = [
        {"id": market.id, "venue": market.venue, **row} for market, row in found
    ]
    return {"markets": rows, "search_method": method, "llm_scoring_enabled": rated}


SNIPPET = 300
VENUES = {"polymarket.com": polymarket.VENUE, "kalshi.com": kalshi.VENUE}
"""Whose markets lie in which domain, of the venues that can be asked now."""


def _venues(call: Call, domains: Sequence[str]) -> Iterator[frozenset[str] | None]:
    """Which venues are asked for their markets, each by itself; an archive has all of them."""
    if not call.view.live:
        yield None
        return
    for domain in domains:
        if domain in VENUES:
            yield frozenset([VENUES[domain]])


def _longest(call: Call) -> int | None:
    """Characters of a snippet, where a model or a person reads it; on the bus it is whole."""
    return SNIPPET if call.toolbox.bounded else None


def _page_hit(call: Call, page: Document, domains: list[str]) -> DomainHit | None:
    """A page that lies in one of the domains, whatever a service sends."""
    domain = domain_of(page.url, domains)
    if domain is None or page.url is None:
        return None
    text = page.text[: _longest(call)]
    return {"url": page.url, "title": page.title, "snippet": text, "domain": domain}


def _market_hit(call: Call, market: Market, domains: list[str]) -> DomainHit | None:
    """A market whose page lies in one of the domains, with its price at t."""
    url = market.url
    if url is None and market.venue == kalshi.VENUE:
        url = kalshi.page_of(market.native_id)
    domain = domain_of(url, domains)
    if domain is None or url is None:
        return None
    price = odds(call.view, market.id)
    said = "no price is known"
    if price is not None:
        said = f"YES {price.price:g} at {iso(price.observed_at)}"
    text = " ".join(part for part in (f"{said}.", market.rules) if part)
    return {
        "url": url,
        "title": market.question or market.native_id,
        "snippet": text[: _longest(call)],
        "domain": domain,
    }
