"""What tools read besides the View: the log of searches, the market-data table, the meters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from beforehand.config import Home
from beforehand.gateway.opening import Mode
from beforehand.gateway.threads import write_threads
from beforehand.gateway.worlds.live import LiveWorld
from beforehand.lazy import lazy
from beforehand.records.world import Market, Observation
from beforehand.sandbox.engines import Sandbox, shared
from beforehand.store.market_data.table import MarketData
from beforehand.store.queries import QueryLog
from beforehand.traffic import Traffic

Scorer = Callable[[str, Sequence[Market]], list[tuple[float, str]]]
"""A model's (relevance in [0, 1], reason) for each market and a query."""


@dataclass
class Storage:
    """Opened on first use. `scorer` is the model that rates search results, where there is one."""

    home: Home
    mode: Mode = "replay"
    world: LiveWorld | None = None
    traffic: Traffic | None = None
    scorer: Scorer | None = None

    @lazy
    def queries(self) -> QueryLog:
        """The log of market searches."""
        return QueryLog(self.home.queries)

    @lazy
    def table(self) -> MarketData:
        """The market-data table."""
        return MarketData(self.home.market_data)

    @property
    def sandbox(self) -> Sandbox:
        """Where code runs."""
        return shared()

    def keep_threads(self) -> None:
        """Store the Reddit threads that were fetched live, for the cache-backed tool."""
        if self.world is not None:
            write_threads(self.home.reddit_cache, self.world.seen(Observation))
