"""The outside services: addresses, limits, time limits, keys. One table, read by the traffic.

Limits are the services' own where they state them (docs.polymarket.com/api-reference/rate-limits,
docs.kalshi.com/getting_started/rate_limits, sec.gov/os/accessing-edgar-data), else a modest rate
of ours; each entry says which. A limit holds in any rolling window and over all processes that
share a home folder.
"""

from dataclasses import dataclass
from typing import Literal

from beforehand.config import POLYMARKET_API_BASE_URL, POLYMARKET_GAMMA_BASE_URL

RATE_LIMITED = 429


@dataclass(frozen=True)
class Limit:
    """At most `calls` in any `seconds`; of these endpoints, or of all."""

    calls: int
    seconds: float
    endpoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provider:
    """One service. `timeout` bounds one attempt and `deadline` all of them, in seconds.

    `key` is the environment variable with the secret, sent as `auth` says; `without` says what
    works without it, `instead` what to do while the service is away, `uncertain` what to do where
    a request that must not be repeated got no answer. Answers with a status in `defer` are not
    retried: the poll waits for its next window. Without `circuit`, failures in a row keep no later
    call away: whoever asks has a rule of its own.
    """

    name: str
    title: str
    base: str
    limits: tuple[Limit, ...]
    timeout: float = 15.0
    deadline: float = 45.0
    attempts: int = 4
    defer: frozenset[int] = frozenset()
    window_seconds: float = 0.0
    auth: Literal["none", "bearer", "x-api-key", "reddit", "contact"] = "none"
    keys: tuple[str, ...] = ()
    without: str = ""
    instead: str = "use what is recorded (--mode replay)"
    uncertain: str = "check the account before you repeat it"
    circuit: bool = True

    @property
    def override(self) -> str:
        """The environment variable that replaces the address (a mirror, a proxy, a test)."""
        return f"BEFOREHAND_{self.name.upper().replace('-', '_')}_URL"


_SECONDS = 10.0
PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            "gamma",
            "Polymarket Gamma",
            POLYMARKET_GAMMA_BASE_URL,
            (
                Limit(4000, _SECONDS),
                Limit(500, _SECONDS, ("events",)),
                Limit(300, _SECONDS, ("markets",)),
                Limit(200, _SECONDS, ("comments",)),
                Limit(350, _SECONDS, ("public-search",)),
            ),
        ),
        Provider(
            "clob",
            "Polymarket CLOB",
            POLYMARKET_API_BASE_URL,
            (
                Limit(9000, _SECONDS),
                Limit(500, _SECONDS, ("books", "prices")),
                Limit(1000, _SECONDS, ("prices-history",)),
            ),
        ),
        Provider(
            "polymarket-data",
            "Polymarket Data API",
            "https://data-api.polymarket.com",
            (
                Limit(1000, _SECONDS),
                Limit(200, _SECONDS, ("trades",)),
                Limit(150, _SECONDS, ("positions",)),
            ),
        ),
        Provider(
            "kalshi",
            "Kalshi Trade API",
            "https://external-api.kalshi.com/trade-api/v2",
            (Limit(20, 1.0),),
        ),
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
        Provider(
            "reddit",
            "Reddit Data API",
            "https://oauth.reddit.com",
            (Limit(60, 60.0),),  # The lower of the figures in circulation.
            auth="reddit",
            keys=("REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET"),
            without="Reddit needs approved credentials since late 2025; the cache-backed "
            "reddit_search_and_fetch_threads works without",
        ),
        Provider(
            "reddit-auth",
            "Reddit sign-in",
            "https://www.reddit.com",
            (Limit(10, 60.0),),
            auth="reddit",
            keys=("REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET"),
        ),
        Provider(
            "edgar",
            "SEC EDGAR",
            "https://data.sec.gov",
            (Limit(10, 1.0),),
            auth="contact",
            keys=("BEFOREHAND_CONTACT",),
            without="the SEC asks every client to name a contact, such as "
            "BEFOREHAND_CONTACT='Ada Example ada@example.org'; recorded facts work without "
            "(--mode replay)",
        ),
        Provider(
            "coinbase",
            "Coinbase Exchange",
            "https://api.exchange.coinbase.com",
            (Limit(10, 1.0),),
        ),
        Provider(
            "download",
            "Public files",
            "",
            (Limit(5, 1.0),),
            timeout=30.0,
            deadline=120.0,
            attempts=3,
        ),
    )
}
