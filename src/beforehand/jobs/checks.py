"""What a user asks for, checked: settings of the scoring, and how a run is carried out.

The command line and Python ask for the same things. `mark` is what stands before a name in an error
message: `--` for an option of the command line, nothing for an argument in Python.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from beforehand.clock import parse_instant
from beforehand.errors import InputError
from beforehand.store.files import read_text

if TYPE_CHECKING:  # Most callers check an instant alone: the scoring is loaded where it is meant.
    from beforehand.engine.job import RunLimits
    from beforehand.records.world import Market
    from beforehand.score.bets import Kelly
    from beforehand.score.evaluate import Settings

MOST = 10**12
AMOUNTS = ("max_calls", "max_tokens", "max_cost", "cost_per_call")


def between(name: str, value: int, low: int, high: int, mark: str = "") -> int:
    """The value, or InputError with its name and what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{mark}{name} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise InputError(f"{mark}{name} must lie between {low:,} and {high:,}, not {value:,}")
    return value


def lookback(days: int | None, name: str = "lookback_days") -> int | None:
    """How many days evidence may be old; None: any age."""
    return None if days is None else between(name, days, 1, 100_000)


def flag(name: str, value: bool) -> bool:
    """The value, or InputError for anything but True and False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is True or False, not {value!r}")
    return value


Fees = float | Mapping[str, float] | Sequence[str] | None
"""Taker fee rates: one for all, by venue or VENUE/CATEGORY, or as text (`KALSHI=0.07`, `0.02`)."""


def stakes(
    spread: float | None = None,
    fees: Fees = None,
    kelly: float = 0.25,
    cap: float = 0.1,
    mark: str = "",
    settle: Literal["known", "stated"] = "known",
) -> "Kelly":
    """The rules of the bets. Raises InputError."""
    from beforehand.score.bets import Kelly

    if spread is not None and not (_is_number(spread) and 0.0 <= spread < 1.0):
        raise InputError(f"{mark}spread must lie in [0, 1), not {spread}")
    for name, value in (("kelly", kelly), ("cap", cap)):
        if not (_is_number(value) and 0.0 < value <= 1.0):
            raise InputError(f"{mark}{name} must lie in (0, 1], not {value}")
    if settle not in ("known", "stated"):
        raise InputError(f"{mark}settle is known or stated, not {settle!r}")
    return Kelly(kelly, cap, spread, tuple(sorted(_rates(fees, mark).items())), settle)


def fees_apply(rules: "Kelly", markets: "Collection[Market]") -> None:
    """Raises InputError for a stated fee that no market of these pays: it would be charged to
    nobody."""
    if not any(name != "*" for name, _ in rules.fees):
        return
    there = {market.venue for market in markets if market.currency == "usd"}
    pairs = {f"{market.venue}/{market.domain}".lower() for market in markets}
    for name, _ in rules.fees:
        if name != "*" and name.lower() not in {v.lower() for v in there} | pairs:
            raise InputError(
                f"fee of {name}: no market here pays it; venues with money are "
                f"{', '.join(sorted(there)) or 'none'}"
            )


def _rates(fees: Fees, mark: str) -> dict[str, float]:
    """Fee rates by what they hold for; `*` is everything."""
    if fees is None:
        return {}
    if isinstance(fees, (int, float)):
        fees = {"*": fees}
    if isinstance(fees, str):
        fees = [fees]
    if not isinstance(fees, Mapping):
        parts = [text.rpartition("=") for text in fees]
        fees = {(name or "*"): _rate(name, rate, mark) for name, _, rate in parts}
    for name, rate in fees.items():
        if not (_is_number(rate) and 0.0 <= rate <= 1.0):
            of = "" if name == "*" else f" of {name}"
            raise InputError(f"{mark}fee{of} must lie in [0, 1], not {rate!r}")
    return {str(name): float(rate) for name, rate in fees.items()}


def _rate(name: str, text: str, mark: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"{mark}fee {name + '=' if name else ''}{text}: write a rate such as 0.02, VENUE=0.07 "
            "or VENUE/CATEGORY=0.03"
        ) from None


def settings(
    seed: int,
    draws: int,
    placebo: int,
    kelly: "Kelly | None" = None,
    mark: str = "",
    margin: float | None = None,
) -> "Settings":
    """The settings of the scoring. Raises InputError."""
    from beforehand.score.bets import Kelly
    from beforehand.score.evaluate import Settings
    from beforehand.score.verdict import PRINTED

    if margin is not None and not (_is_number(margin) and 0 <= margin <= 1):
        raise InputError(f"{mark}margin is a difference in Brier score from 0 to 1, not {margin!r}")
    return Settings(
        margin=PRINTED if margin is None else float(margin),
        seed=between("seed", seed, 0, 2**31, mark),
        draws=between("draws", draws, 100, 100_000, mark),
        placebo=between("placebo", placebo, 0, 10_000, mark),
        kelly=kelly or Kelly(),
    )


def checked(limits: "RunLimits", mark: str = "") -> "RunLimits":
    """The limits themselves, or InputError for the first that cannot be."""
    from beforehand.forecast.schemes.http import parse_rate

    parse_rate(limits.rate)
    if limits.concurrency is not None:
        between("concurrency", limits.concurrency, 1, 256, mark)
    if not (_is_number(limits.timeout) and 0.1 <= limits.timeout <= 3600.0):
        raise InputError(
            f"{mark}timeout must lie between 0.1 and 3600 seconds, not {limits.timeout}"
        )
    for name in AMOUNTS:
        value = getattr(limits, name)
        if value is not None and not (_is_number(value) and 0 <= value <= MOST):
            option = name.replace("_", "-") if mark else name
            raise InputError(f"{mark}{option} must lie between 0 and {MOST:,}, not {value}")
    return limits


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def instant(name: str, value: datetime | date | str, mark: str = "") -> datetime:
    """An instant as a user states it: an aware datetime, or ISO 8601 with a zone; a bare date is
    its start in UTC. Raises InputError."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InputError(f"{mark}{name} {value} needs a time zone: add tzinfo=datetime.UTC")
        return value
    if isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str):
        raise InputError(f"{mark}{name} is a time such as 2025-01-31, not {value!r}")
    try:
        return parse_instant(value)
    except ValueError as error:
        raise InputError(f"{mark}{name}: {error}") from None


def interval(name: str, value: timedelta | str) -> timedelta:
    """The time between two forecasts: `6h`, `7d`, or a timedelta. Raises InputError."""
    if isinstance(value, str):
        from beforehand.jobs.backtest.grid import parse_interval

        return parse_interval(value)
    if not isinstance(value, timedelta) or value < timedelta(minutes=1):
        raise InputError(
            f'{name} is a time of a minute or more, such as "6h" or "7d", not {value!r}'
        )
    return value


def one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises InputError for a word that is not allowed."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def in_order(start: datetime | None, stop: datetime | None, mark: str = "") -> None:
    """Raises InputError where a range is reversed."""
    if start and stop and stop < start:
        raise InputError(
            f"{mark}end {stop} lies before {mark}start {start}: the range must not be reversed"
        )


def market_names(text: str) -> list[str]:
    """Ids separated by commas, or those in a file (the first column of each line)."""
    if path := _file(text):
        names = [line.split(",")[0].strip() for line in read_text(path).splitlines()]
        names = [name for name in names if name and name.lower() != "id"]
    else:
        names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"markets {text!r} names no market")
    return names


def _file(text: str) -> Path | None:
    try:
        return Path(text) if Path(text).is_file() else None
    except OSError:  # A long list of ids is not a file name.
        return None


def folder_for(forecasters: str) -> Path | None:
    """The folder from which forecasters are named: that of this process, where one of them is
    named by a file or a module. A run keeps it, so that it goes on from another folder."""
    return Path.cwd() if "python:" in forecasters else None
