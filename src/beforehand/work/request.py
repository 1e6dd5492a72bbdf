"""What a user asks of a backtest, as values that the journal can keep."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal

from beforehand.forecast.aggregate import Method
from beforehand.forecast.cutoff_guard import Knowledge
from beforehand.forecast.external import TIMEOUT_S
from beforehand.gateway.search import Grade
from beforehand.records.backtest import ExperimentConfig
from beforehand.sandbox.engines import Engine
from beforehand.work.grid import Kind
from beforehand.work.scoring import Settings


@dataclass(frozen=True)
class Effort:
    """How a run is carried out; no part of what it is. `concurrency` caps the steps and calls in
    flight in a process, `rate` the requests to each address over all of them."""

    concurrency: int | None = None
    rate: str | None = None
    timeout: float = TIMEOUT_S
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    in_flight: Literal["resend", "skip", "stop"] = "resend"
    cost_per_call: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The budget, by what is limited."""
        found = {"calls": self.max_calls, "tokens": self.max_tokens, "cost": self.max_cost}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Fork:
    """A run that repeats `parent` up to `at`, and has other models from there on."""

    parent: str
    at: datetime
    models: dict[str, str]


@dataclass(frozen=True)
class Minds:
    """How language models are used: the mode and the wording of searches where no configuration
    says so, how decisions are brought together, where code runs, and what becomes of questions
    whose answer is older than a model's training (`cutoffs` states it for models that are not
    listed)."""

    mode: Literal["daytona_agent", "direct_llm", "hybrid"] = "daytona_agent"
    query_mode: Literal["template", "llm_generated"] = "template"
    method: Method = "mean"
    engine: Engine = "auto"
    knowledge: Knowledge = "mark"
    cutoffs: dict[str, date] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What a user asked for. `configs` replaces markets, interval, grid and forecasters; `fresh`
    states that the forecasters at addresses were restarted just before."""

    archive: Path
    home: Path
    markets: list[str] | None = None
    every: timedelta = timedelta(days=7)
    grid: Kind = "aligned"
    forecasters: str = "all"
    num_sims: int = 1
    start: datetime | None = None
    stop: datetime | None = None
    max_results: int = 5
    grade: Grade = "captured"
    configs: list[ExperimentConfig] | None = None
    settings: Settings = Settings()
    effort: Effort = field(default_factory=Effort)
    fork: Fork | None = None
    minds: Minds = field(default_factory=Minds)
    fresh: bool = False
