"""What a user asks of a backtest, as values that the journal can keep."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from beforehand.engine.job import RunLimits
from beforehand.forecast.base import ModelOptions
from beforehand.gateway.search import Grade
from beforehand.jobs.backtest.grid import Kind
from beforehand.records.backtest import ExperimentConfig
from beforehand.score.evaluate import Settings


@dataclass(frozen=True)
class Fork:
    """A run that repeats `parent` up to `at`, and has other models from there on: each of `models`
    is OLD=NEW, the old one by its entry or its name."""

    parent: str
    at: datetime
    models: list[str]


@dataclass(frozen=True)
class BacktestRequest:
    """What a user asked for. `configs` replaces markets, interval, grid and forecasters; `fresh`
    states that the forecasters at addresses were restarted just before."""

    archive: Path
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
    limits: RunLimits = field(default_factory=RunLimits)
    fork: Fork | None = None
    model_options: ModelOptions = field(default_factory=ModelOptions)
    fresh: bool = False
