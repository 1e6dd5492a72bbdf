"""Where things are: the workspace, its home folder, the recorded data."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from beforehand.clock import Clock, SystemClock

AGENT_VERSION = "1.0"
OUTPUT_VERSION = "1.0"
MAX_ROWS_PER_QUERY = 10_000
MAX_SEARCH_RESULTS = 20
DEFAULT_SEARCH_RESULTS = 10
ALLOWED_PREDICTION_DOMAINS = ["polymarket.com"]
PREDICTION_DOMAINS = ("polymarket.com", "kalshi.com", "predictit.org")
"""What a search of prediction markets' sites may be limited to; all of them unless it says so."""
SESSION_ID_FORMAT = "{timestamp}_{hash}"
POLYMARKET_API_BASE_URL = "https://clob.polymarket.com"
POLYMARKET_GAMMA_BASE_URL = "https://gamma-api.polymarket.com"
MAX_POLYMARKET_RESULTS = 50
DEFAULT_POLYMARKET_RESULTS = 10
MARKET_STATUS_ACTIVE = "active"
MARKET_STATUS_CLOSED = "closed"
MARKET_STATUS_RESOLVED = "resolved"
NO_PROGRAMS = "BEFOREHAND_NO_PROGRAMS"
"""Set in processes that a server starts for callers who may not run code of its machine."""
ENDS_WITH = "BEFOREHAND_ENDS_WITH"
"""The process with which a server ends: the one that started it for its clients."""
WorldMode = Literal["replay", "live", "record"]
"""Where answers come from: the archive, the services, or the services with every exchange kept."""


@dataclass(frozen=True)
class Home:
    """Everything the program writes lies under `root` (`BEFOREHAND_HOME`, else the cwd)."""

    root: Path

    @classmethod
    def from_environment(cls) -> "Home":
        return cls(Path(os.environ.get("BEFOREHAND_HOME") or ".").resolve())

    @property
    def archive(self) -> Path:
        return self.root / "data" / "archive"

    def archive_at(self, given: Path | None) -> Path:
        """The folder of an archive as a user names it, else the home's own. A relative name that
        is not in the current folder is looked for in the home as well."""
        if given is None:
            return self.archive
        if not given.exists() and (self.root / given / "archive.json").is_file():
            return self.root / given
        return given

    @property
    def runs(self) -> Path:
        return self.root / "data" / "runs"

    @property
    def removed(self) -> Path:
        """Runs that were removed, until they are restored or purged."""
        return self.root / "data" / "removed"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def journal(self) -> Path:
        return self.workspace / "orchestrator_results.db"

    @property
    def bus(self) -> Path:
        return self.workspace / "agents"

    @property
    def engine(self) -> Path:
        return self.workspace / "engine"

    @property
    def traffic(self) -> Path:
        return self.workspace / "traffic.db"

    @property
    def access(self) -> Path:
        return self.workspace / "access.db"

    @property
    def market_data(self) -> Path:
        return self.workspace / "market_data.db"

    @property
    def queries(self) -> Path:
        return self.root / "polymarket_markets.db"

    @property
    def recording(self) -> Path:
        return self.root / "data" / "recording"

    @property
    def fetched(self) -> Path:
        """Archives of other machines, as a worker fetched them."""
        return self.root / "data" / "fetched"

    @property
    def feeds(self) -> Path:
        return self.root / "data" / "feeds"

    @property
    def weights(self) -> Path:
        return self.workspace / "models"

    @property
    def live_checks(self) -> Path:
        return self.workspace / "live_checks.json"

    @property
    def reddit_cache(self) -> Path:
        return self.root / "data" / "reddit_cache" / "threads"

    @property
    def trials(self) -> Path:
        return self.root / "data" / "trials.jsonl"

    @property
    def probes(self) -> Path:
        return self.root / "data" / "probes.jsonl"

    @property
    def collecting(self) -> Path:
        """What the server for clients of MCP keeps: hidden from those clients."""
        return self.root / "data" / "collecting"


@dataclass(frozen=True)
class Workspace:
    """What one caller works with, passed down: the home folder, the database that several machines
    share (`postgresql://…`; None: SQLite files in the home), the clock, and the settings (keys and
    addresses by the name of their environment variable). Only the surfaces (command line, servers)
    read the environment."""

    home: Home
    database: str | None = None
    clock: Clock = field(default_factory=SystemClock)
    settings: Mapping[str, str] = field(default_factory=dict)
    programs: bool = True
    """False where no forecaster may run code of this machine (a server's callers are not its
    owner)."""

    @classmethod
    def from_environment(cls) -> "Workspace":
        """As the environment's variables say: BEFOREHAND_HOME, BEFOREHAND_DATABASE_URL, keys."""
        database = os.environ.get("BEFOREHAND_DATABASE_URL") or None
        programs = os.environ.get(NO_PROGRAMS) is None
        return cls(Home.from_environment(), database, SystemClock(), os.environ, programs)

    def at(self, root: Path) -> "Workspace":
        """The same with another home folder."""
        return replace(self, home=Home(root))

    @property
    def journal(self) -> Path | str:
        """Where the journal is: a file, or the shared database."""
        return self.database or self.home.journal

    @property
    def traffic(self) -> Path | str:
        """Where the ledger of outgoing requests is."""
        return self.database or self.home.traffic

    @property
    def access(self) -> Path | str:
        """Where the servers' tokens are."""
        return self.database or self.home.access


def in_a_probe() -> bool:
    """True in a process that a probe started: another world stands at the archive's path."""
    return "BEFOREHAND_PROBE" in os.environ


def recorded_data() -> Path | None:
    """The folder of recorded data named by `BEFOREHAND_DATA`, if it is there. Never written to."""
    name = os.environ.get("BEFOREHAND_DATA")
    path = Path(name) if name else None
    return path if path and path.is_dir() else None
