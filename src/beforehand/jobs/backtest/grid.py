"""The instants at which questions are asked, all in microseconds since 1970.

`aligned` (the default): 1970-01-05T00:00Z, a Monday, plus whole intervals, so that every market is
asked at the same instants. `own`: a market's first price, plus whole intervals. Either way t lies
in t0 <= t < end: t0 is when the market's first price was known; the end is 00:00 UTC of the
resolution date, or the first publication of the outcome if that is earlier. The instants of an
ExperimentConfig are used exactly as it states them.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US, MICROSECOND, from_us, to_us
from beforehand.errors import InputError
from beforehand.records.backtest import ExperimentConfig
from beforehand.records.world import Resolution

Ints = npt.NDArray[np.int64]
Kind = Literal["aligned", "own"]
ORIGIN_US = 4 * DAY_US
"""1970-01-05T00:00Z, the first Monday: weekly instants are Mondays."""
STATEMENTS = {
    "aligned": "1970-01-05T00:00Z (a Monday) plus whole intervals",
    "own": "each market's first price plus whole intervals",
    "configured": "as each ExperimentConfig says",
}
_BOUNDS = (
    "{}, while first price's known_at <= t < min(resolution date 00:00 UTC, first publication); "
    "price at t = latest observation known at t"
)
LONGEST_MINUTES = 10 * 366 * 1440
_UNITS = {"m": 1, "h": 60, "d": 1440, "w": 10080}


@dataclass(frozen=True)
class Life:
    """The instants of one market. `short` means that no instant of the grid lies in its life, so
    it is asked once, when its first price was known."""

    t: Ints
    short: bool = False


def statement(kind: str) -> str:
    """The grid in one sentence, for configuration and report."""
    return _BOUNDS.format(STATEMENTS[kind])


def in_words(every: timedelta) -> str:
    """An interval in words: `7 days`, `12 hours`, `90 minutes`."""
    minutes = round(every / timedelta(minutes=1))
    sizes = ((1440, "day"), (60, "hour"), (1, "minute"))
    size, unit = next((size, unit) for size, unit in sizes if minutes % size == 0)
    n = minutes // size
    return f"{n:,} {unit}{'' if n == 1 else 's'}"


def end_of(resolution: Resolution) -> datetime:
    """The instant from which a market is over, exclusive."""
    published = resolution.first_published or resolution.known_at
    return from_us(over(to_us(resolution.resolved_at), to_us(published)))


def over(resolved_at: int, published: int) -> int:
    """The same in microseconds, from when it was resolved and when that was first published."""
    return min(resolved_at - resolved_at % DAY_US, published)


def life(
    first: int,
    end: datetime | int,
    every: timedelta,
    kind: Kind,
    start: datetime | None = None,
    stop: datetime | None = None,
) -> Life:
    """The instants of a market. Its first price was known at `first`, and it is over at `end`
    [microseconds].
    `start` and `stop` (inclusive) leave instants out and shift none."""
    step, until = every // MICROSECOND, end if isinstance(end, int) else to_us(end)
    origin = first if kind == "own" else ORIGIN_US - (ORIGIN_US - first) // step * step
    t = np.arange(origin, until, step, dtype=np.int64)
    short = not len(t) and first < until
    if short:
        t = np.array([first], dtype=np.int64)
    if start is not None:
        t = t[t >= to_us(start)]
    if stop is not None:
        t = t[t <= to_us(stop)]
    return Life(t, short)


def instants(config: ExperimentConfig) -> Ints:
    """The instants of one experiment."""
    step = config.interval_minutes * 60_000_000
    return np.arange(to_us(config.start_time), to_us(config.end_time) + 1, step, dtype=np.int64)


def count(config: ExperimentConfig) -> int:
    """How many instants an experiment has."""
    span = config.end_time - config.start_time
    return int(span / timedelta(minutes=config.interval_minutes)) + 1


def parse_interval(text: str) -> timedelta:
    """`30m`, `6h`, `7d`, `2w`; raises InputError otherwise."""
    match = re.fullmatch(r"([1-9]\d{0,5})([mhdw])", text.strip())
    if not match:
        raise InputError(
            f"{text!r} is not an interval: write a number and m, h, d or w, such as 7d"
        )
    minutes = int(match[1]) * _UNITS[match[2]]
    if minutes > LONGEST_MINUTES:
        raise InputError(f"{text!r} is longer than ten years")
    return timedelta(minutes=minutes)
