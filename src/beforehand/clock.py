"""The only module that reads the wall clock; everything else takes time as an argument."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from beforehand.errors import InputError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY_US = 86_400_000_000
FIRST_YEAR, LAST_YEAR = 1971, 9998


class Clock(Protocol):
    """Answers the current instant, in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock. Only surfaces (command line, servers) and run logs hold one."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True)
class FrozenClock:
    """A clock that stands still at `instant`."""

    instant: datetime

    def now(self) -> datetime:
        return self.instant


def epoch(instant: datetime) -> float:
    """Seconds since 1970, for ledgers that several processes share."""
    return (instant - EPOCH).total_seconds()


def stopwatch() -> float:
    """Seconds on a monotonic clock, for durations in logs."""
    return time.monotonic()


def lease_clock() -> float:
    """Seconds on a clock that never stands still, not even while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def to_us(instant: datetime) -> int:
    """Microseconds since 1970-01-01T00:00Z, exactly (no float in between)."""
    return (instant - EPOCH) // MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The UTC instant at so many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=int(microseconds))


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC with a trailing Z, as every document on the wire has it."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=8192)
def iso_us(microseconds: int) -> str:
    """`iso` of an instant in microseconds, cached because the same instants come up often."""
    return iso(from_us(microseconds))


@lru_cache(maxsize=8192)
def parse_us(text: str) -> int:
    """`parse_instant` in microseconds since 1970."""
    return to_us(parse_instant(text))


def end_of_day(instant: datetime) -> datetime:
    """The last microsecond of the instant's UTC day: when a day-precision date is known."""
    day = instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1) - MICROSECOND


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 instant that carries an offset, or a bare date as 00:00 UTC.

    Raises ValueError on anything else; a time without an offset is refused, because a wrong guess
    of its zone would show a backtest a few hours of the future.
    """
    text = text.strip()
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an ISO 8601 time such as 2026-01-05T12:00:00Z") from None
    if len(text) == 10:
        instant = instant.replace(tzinfo=UTC)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: add Z or an offset such as +00:00")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise ValueError(f"{text!r} lies outside the years {FIRST_YEAR} to {LAST_YEAR}")
    return instant.astimezone(UTC)


def when(text: str) -> datetime:
    """The same, and the end of its day for a bare date: when what it dates is known."""
    instant = parse_instant(text)
    return end_of_day(instant) if len(text.strip()) == 10 else instant


def zone_of(name: str, mark: str = "") -> ZoneInfo:
    """The time zone of this name; `mark` stands before the option in the error. Raises
    InputError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"{mark}timezone {name!r} is not known: write it like Europe/Berlin or UTC"
        ) from None
