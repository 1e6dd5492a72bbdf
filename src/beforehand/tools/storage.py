"""What tools read besides the View: the log of searches, the market-data table, the cache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beforehand.config import Home, WorldMode
from beforehand.lazy import lazy

if TYPE_CHECKING:
    from beforehand.gateway.worlds.live import LiveWorld
    from beforehand.records.world import Market
    from beforehand.sandbox.engines import Sandbox
    from beforehand.store.market_data.table import MarketData
    from beforehand.store.queries import QueryLog
    from beforehand.traffic import Traffic

Scorer = Callable[[str, "Sequence[Market]"], list[tuple[float, str]]]
"""A model's (relevance in [0, 1], reason) for each market and a query."""


@dataclass
class Storage:
    """Opened on first use. `scorer` is the model that rates search results, where there is one."""

    home: Home
    mode: WorldMode = "replay"
    world: "LiveWorld | None" = None
    traffic: "Traffic | None" = None
    scorer: Scorer | None = None

    @lazy
    def queries(self) -> "QueryLog":
        """The log of market searches."""
        from beforehand.store.queries import QueryLog

        return QueryLog(self.home.queries)

    @lazy
    def table(self) -> "MarketData":
        """The market-data table."""
        from beforehand.store.market_data.table import MarketData

        return MarketData(self.home.market_data)

    @property
    def sandbox(self) -> "Sandbox":
        """Where code runs."""
        from beforehand.sandbox.engines import shared

        return shared()

    def keep_threads(self) -> None:
        """Store the Reddit threads that were fetched live, for the cache-backed tool."""
        if self.world is not None:
            from beforehand.gateway.opening import write_threads
            from beforehand.records.world import Observation

            write_threads(self.home.reddit_cache, self.world.seen(Observation))
