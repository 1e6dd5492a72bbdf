"""Worlds with known truth: latent probability paths, noisy markets, dated documents, endings.

A market i asks whether a random walk ends above a threshold: W_i(1) > c_i, where W_i mixes a
walk shared by its event, one shared by all markets that resolve on the same date, and its own; the
thresholds of an event, and of a date, lie close together as well, so that errors do not cancel.
Given W_i(s) the probability of YES is Phi((W_i(s) - c_i) / sqrt(1 - s)): a martingale known exactly
at every step, and the truth that intervals must cover. The quoted price distorts it (favourite
bias, the crowd's mood, slow noise, a spread), so a forecaster can do better or worse than the
market.

The same seed gives the same world, byte for byte.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from beforehand.records.world import Currency

Floats = npt.NDArray[np.float64]
DAY = timedelta(days=1)
DEMO_DATES = 150
"""Resolution dates of the demo's world."""


@dataclass(frozen=True)
class SimConfig:
    """What a simulated world is made of; shares are probabilities per market."""

    seed: int = 0
    dates: int = 40
    events_per_date: float = 2.5
    markets_per_event: int = 3
    start: datetime = datetime(2025, 1, 6, tzinfo=UTC)
    event_share: float = 0.45
    date_share: float = 0.2
    noise: float = 0.35
    mood: float = 0.3
    bias: float = 0.9
    half_spread: float = 0.01
    gaps: float = 0.2
    early: float = 0.1
    void: float = 0.03
    half: float = 0.02
    scalar: float = 0.05
    revised_text: float = 0.15
    canaries: float = 0.5


@dataclass(frozen=True)
class SimMarket:
    """One drawn market: daily latent `truth`, quoted `price`, which days were `recorded`."""

    number: int
    event: int
    date: int
    opened: datetime
    resolved: datetime
    truth: Floats
    price: Floats
    recorded: npt.NDArray[np.bool_]
    payout: float | None
    venue: str


VENUES: tuple[tuple[str, Currency], ...] = (
    ("SIMEX", "usd"),
    ("SIMKET", "usd"),
    ("SIMPLAY", "play"),
)


def draw(config: SimConfig) -> list[SimMarket]:
    """Paths and endings of one world."""
    rng = np.random.default_rng(config.seed)
    markets: list[SimMarket] = []
    event = 0
    for date in range(config.dates):
        resolved = config.start + timedelta(days=int(35 + 7 * date), hours=12)
        shared = rng.standard_normal(120)
        lean, mood = rng.normal(0.4, 0.4), rng.normal(0.0, config.mood)
        for _ in range(1 + int(rng.poisson(max(config.events_per_date - 1, 0)))):
            days = int(rng.integers(14, 85))
            own = rng.standard_normal(days)
            centre = lean + rng.normal(0.0, 0.5)
            tilt = mood + rng.normal(0.0, config.mood)
            for _ in range(int(rng.integers(1, config.markets_per_event + 1))):
                markets.append(
                    _draw_market(
                        config,
                        rng,
                        len(markets),
                        event,
                        date,
                        resolved,
                        (centre, tilt),
                        shared,
                        own,
                    )
                )
            event += 1
    return markets


def _draw_market(
    config: SimConfig,
    rng: np.random.Generator,
    number: int,
    event: int,
    date: int,
    resolved: datetime,
    level: tuple[float, float],
    shared: Floats,
    own: Floats,
) -> SimMarket:
    days, (centre, tilt) = len(own), level
    mix = (
        np.sqrt(config.event_share) * own
        + np.sqrt(config.date_share) * shared[-days:]
        + np.sqrt(1 - config.event_share - config.date_share) * rng.standard_normal(days)
    ) / np.sqrt(days)
    threshold = rng.normal(centre, 0.4)
    walk = np.concatenate([[0.0], np.cumsum(mix)])
    left = np.sqrt(1 - np.arange(days) / days)
    margin = walk[:-1] - threshold
    kind = rng.random()
    scalar = kind < config.scalar
    truth = normal_cdf(margin / (np.sqrt(left**2 + 1.0) if scalar else left))
    truth = (1 - config.half) * truth + config.half * 0.5
    end = float(walk[-1] - threshold)
    payout: float | None = float(normal_cdf(np.array([end]))[0]) if scalar else float(end > 0)
    ending = rng.random()
    if ending < config.half:
        payout = 0.5
    elif ending < config.half + config.void:
        payout = None
    return SimMarket(
        number=number,
        event=event,
        date=date,
        opened=resolved - days * DAY,
        resolved=resolved,
        truth=truth,
        price=_quote(config, rng, truth, tilt),
        recorded=_recorded(config, rng, days),
        payout=None if payout is None else round(payout, 4),
        venue=VENUES[int(rng.choice(3, p=[0.5, 0.3, 0.2]))][0],
    )


def _quote(config: SimConfig, rng: np.random.Generator, truth: Floats, tilt: float) -> Floats:
    """The market's price: the truth's log odds, flattened, plus the crowd's mood about the event
    and the date (`tilt`), plus slowly moving noise."""
    shocks = rng.standard_normal(len(truth)) * config.noise * 0.6
    noise = np.empty(len(truth))
    level = rng.standard_normal() * config.noise
    for i, shock in enumerate(shocks):
        level = 0.8 * level + shock
        noise[i] = level
    clipped = np.clip(truth, 0.002, 0.998)
    odds = config.bias * np.log(clipped / (1 - clipped)) + tilt + noise
    return np.asarray(np.round(np.clip(1 / (1 + np.exp(-odds)), 0.01, 0.99), 3), np.float64)


def _recorded(config: SimConfig, rng: np.random.Generator, days: int) -> npt.NDArray[np.bool_]:
    keep = np.ones(days, dtype=bool)
    if rng.random() < config.gaps:
        start, length = int(rng.integers(2, days)), int(rng.integers(4, 20))
        keep[start : start + length] = False
    return keep


def normal_cdf(x: Floats) -> Floats:
    """Standard normal distribution function (Abramowitz and Stegun 7.1.26, error < 1.5e-7)."""
    z = np.abs(x) / np.sqrt(2)
    k = 1 / (1 + 0.3275911 * z)
    poly = k * (
        0.254829592 + k * (-0.284496736 + k * (1.421413741 + k * (-1.453152027 + k * 1.061405429)))
    )
    erf = 1 - poly * np.exp(-(z**2))
    return np.asarray(0.5 * (1 + np.sign(x) * erf), dtype=np.float64)
