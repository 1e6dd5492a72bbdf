"""When forecasts are made: t0 is the first price's known_at, then every interval, while t lies
before the end — 00:00 UTC of the resolution date, or the first publication if that is earlier."""

import re
from datetime import UTC, datetime, time, timedelta

import numpy as np
import numpy.typing as npt

from beforehand.clock import to_us
from beforehand.errors import InputError
from beforehand.records.world import Resolution
from beforehand.store.series import Series

STATEMENT = (
    "first price's known_at, then every interval, while t < min(resolution date 00:00 UTC, first "
    "publication); price at t = latest observation known at t"
)
LONGEST_MINUTES = 10 * 366 * 1440
_UNITS = {"m": 1, "h": 60, "d": 1440, "w": 10080}


def end_of(resolution: Resolution) -> datetime:
    """The instant from which a market is over, exclusive."""
    day = datetime.combine(resolution.resolved_at.astimezone(UTC).date(), time(), UTC)
    published = resolution.first_published or resolution.known_at
    return min(day, published)


def instants(
    series: Series,
    end: datetime,
    every: timedelta,
    start: datetime | None = None,
    stop: datetime | None = None,
) -> npt.NDArray[np.int64]:
    """The grid in microseconds; `start` replaces t0 where it is later, `stop` is inclusive."""
    if not len(series):
        return np.zeros(0, dtype=np.int64)
    first = int(series.known_at[0])
    if start is not None:
        first = max(first, to_us(start))
    last = to_us(end) - 1
    if stop is not None:
        last = min(last, to_us(stop))
    step = every // timedelta(microseconds=1)
    return np.arange(first, last + 1, step, dtype=np.int64)


def parse_interval(text: str) -> timedelta:
    """`30m`, `6h`, `7d`, `2w`; raises InputError otherwise."""
    match = re.fullmatch(r"([1-9]\d{0,5})([mhdw])", text.strip())
    if not match:
        raise InputError(f"{text!r} is no interval: write a number and m, h, d or w, such as 7d")
    minutes = int(match[1]) * _UNITS[match[2]]
    if minutes > LONGEST_MINUTES:
        raise InputError(f"{text!r} is longer than ten years")
    return timedelta(minutes=minutes)
