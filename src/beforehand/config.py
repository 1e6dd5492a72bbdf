"""Where things are: the home folder, the default archive, the recorded data."""

import os
from dataclasses import dataclass
from pathlib import Path

AGENT_VERSION = "1.0"
OUTPUT_VERSION = "1.0"
MAX_ROWS_PER_QUERY = 10_000
MAX_SEARCH_RESULTS = 20
DEFAULT_SEARCH_RESULTS = 10
ALLOWED_PREDICTION_DOMAINS = ["polymarket.com"]
SESSION_ID_FORMAT = "{timestamp}_{hash}"
POLYMARKET_API_BASE_URL = "https://clob.polymarket.com"
POLYMARKET_GAMMA_BASE_URL = "https://gamma-api.polymarket.com"
MAX_POLYMARKET_RESULTS = 50
DEFAULT_POLYMARKET_RESULTS = 10
MARKET_STATUS_ACTIVE = "active"
MARKET_STATUS_CLOSED = "closed"
MARKET_STATUS_RESOLVED = "resolved"


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

    @property
    def runs(self) -> Path:
        return self.root / "data" / "runs"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def journal(self) -> Path:
        return self.workspace / "orchestrator_results.db"

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


def database_url() -> str | None:
    """The Postgres address of `BEFOREHAND_DATABASE_URL`; without one, SQLite files in the home."""
    return os.environ.get("BEFOREHAND_DATABASE_URL") or None


def recorded_data() -> Path | None:
    """The folder of recorded data named by `BEFOREHAND_DATA`, if it is there. Never written to."""
    name = os.environ.get("BEFOREHAND_DATA")
    path = Path(name) if name else None
    return path if path and path.is_dir() else None
