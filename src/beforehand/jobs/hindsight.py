"""What came after each forecast, for scoring alone: does a forecaster look as if it had known it?

Where trust alone kept a forecaster from the future, one that looks like the outcomes, or like the
market's later prices, is not said to beat the market. The thresholds are far from what skill can
do; a leak that is softened enough is not seen, and docs/metrics.md says so.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US, MICROSECOND, to_us
from beforehand.gateway.gateway import Gateway
from beforehand.score import metrics
from beforehand.score.report.words import LOOKS_AHEAD, LOOKS_KNOWN
from beforehand.score.table import BLOCK, Floats, Ints, Marks, Table, parts_of
from beforehand.store.npy import Pieces

CLAIRVOYANT, LEAST_SUSPECT, ALL_BUT_ALL = 0.1, 30, 0.98
"""What looks like the outcomes: this share of the market's Brier score, or no forecast on the wrong
side where the market has more than one of fifty there; from so many questions on. Or what they say
beyond the price goes with the outcome (`ALL_BUT_LINEAR`)."""
LEAST_MOVE, MOST_FORESEEN, ALL_BUT_LINEAR = 0.01, 0.5, 0.9
"""What looks like later prices: half of the forecasts are what the price moved to (by a cent or
more; to within a tenth of the move), or what they say beyond the price and what it then did
correlate as strongly as this."""
ALL_BUT_OPPOSITE = 0.8
"""Two that say the opposite of each other beyond the price, so strongly, are one that hedges."""
DAYS_AHEAD = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 21, 25, 30, 45, 60)
ROWS_AHEAD = 4
MOST_ROWS = 20_000
"""Of more rows, so many are looked at."""


def clairvoyant(table: Table, names: Iterable[str], gateway: Gateway) -> dict[str, str]:
    """Forecasters whose forecasts look like the outcomes themselves, or like later prices, and
    why."""
    found = dict[str, str]()
    aside = Gateway(gateway.world)  # Its trail is of nothing that was shown.
    later: list[tuple[str, Floats]] | None = None
    for name in names:
        if name not in table.forecasts:
            continue  # It never answered.
        p = table.forecasts[name]
        valid = np.isfinite(p) & np.isfinite(table.market)
        if int(table.question_means(p, valid)[1].sum()) < LEAST_SUSPECT:
            continue
        if said := _outcomes(table, p):
            found[name] = f"it {LOOKS_KNOWN}: {said}"
            continue
        if later is None:
            later = list(_prices_ahead(table, aside))
        if said := _ahead(table, p, later):
            found[name] = f"it {LOOKS_AHEAD}: {said}"
    return found


def doubted(table: Table, names: list[str], gateway: Gateway) -> dict[str, str]:
    """Why forecasters that trust alone keeps from the future may not be said to beat the market."""
    return {**hedged(table, names), **clairvoyant(table, names, gateway)}


def hedged(table: Table, names: Iterable[str]) -> dict[str, str]:
    """Forecasters of which another one says the opposite: what one of them says beyond the price,
    the other says against it, at the same instants. One of the two is always right, so neither is
    said to beat the market."""
    found, listed = dict[str, str](), [n for n in names if n in table.forecasts]
    rows = np.arange(len(table.q))[:: max(1, -(-len(table.q) // MOST_ROWS))]
    beyond = {name: (table.forecasts[name] - table.market)[rows] for name in listed}
    for i, one in enumerate(listed):
        for other in listed[:i]:
            both = np.isfinite(beyond[one]) & np.isfinite(beyond[other])
            a, b = beyond[one][both], beyond[other][both]
            if len(a) < LEAST_SUSPECT or np.abs(a).mean() < LEAST_MOVE / 2:
                continue
            if (r := _correlation(a, b)) <= -ALL_BUT_OPPOSITE:
                for name, against in ((one, other), (other, one)):
                    said = f"at {len(a):,} instants (correlation beyond the price {r:.2f})"
                    found.setdefault(name, f"hedging: {against} says the opposite {said}")
    return found


def _outcomes(table: Table, p: Floats) -> str:
    """Why forecasts look like the outcomes; empty where they do not."""
    y = table.y[table.q]
    valid = np.isfinite(p) & np.isfinite(table.market)
    weights = table.row_weights(valid)
    mine, market = (metrics.brier(x[valid], y[valid], weights[valid]) for x in (p, table.market))
    if mine < CLAIRVOYANT * market:
        return f"its Brier score, {mine:.4f}, is less than a tenth of the market's ({market:.4f})"
    sure = valid & np.isin(y, (0.0, 1.0))
    if not sure.any():
        return ""
    right, others = (float(((x >= 0.5) == (y == 1))[sure].mean()) for x in (p, table.market))
    if right == 1.0 and others < ALL_BUT_ALL:
        known = int(table.question_means(p, sure)[1].sum())
        return f"it was on the right side in every forecast of {known:,} questions"
    beyond, left = (p - table.market)[sure], (y - table.market)[sure]
    if (r := _correlation(beyond, left)) >= ALL_BUT_LINEAR:
        return (
            f"what its {len(left):,} forecasts say beyond the price goes with the outcome "
            f"(correlation {r:.2f})"
        )
    return ""


def _correlation(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0


def _prices_ahead(table: Table, gateway: Gateway) -> Iterator[tuple[str, Floats]]:
    """The market's price some days after each row, NaN where none; at most `MOST_ROWS` rows have
    one."""
    rows = np.arange(len(table.q))
    rows = rows[:: max(1, -(-len(rows) // MOST_ROWS))]
    rows = rows[np.argsort(table.q[rows], kind="stable")]
    ahead = np.full((len(DAYS_AHEAD), len(table.q)), np.nan)
    bounds = np.flatnonzero(np.diff(table.q[rows], prepend=-1)).tolist()
    for first, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
        mine = rows[first:end]
        t = (table.t[mine][None, :] + np.array(DAYS_AHEAD)[:, None] * DAY_US).ravel()
        series, places = gateway.take(table.questions[int(table.q[mine[0]])], t, "hindsight")
        if not len(series):
            continue
        prices = np.where(places >= 0, series.price[np.maximum(places, 0)], np.nan)
        ahead[:, mine] = prices.reshape(len(DAYS_AHEAD), len(mine))
    for days, prices in zip(DAYS_AHEAD, ahead, strict=True):
        yield f"{days} day{'' if days == 1 else 's'} later", prices


def _ahead(table: Table, p: Floats, later: list[tuple[str, Floats]]) -> str:
    """Why forecasts look like the market's later prices, with the counts; empty where they do
    not."""
    mine = np.flatnonzero(np.isfinite(p) & np.isfinite(table.market))
    mine = mine[np.lexsort((table.t[mine], table.q[mine]))]
    for k in range(1, ROWS_AHEAD + 1):
        same = table.q[mine[:-k]] == table.q[mine[k:]]
        at = f"{k} of its own instants later" if k > 1 else "at its next instant"
        if said := _foreseen(table, p, mine[:-k][same], table.market[mine[k:]][same], at):
            return said
    for at, prices in later:
        known = mine[np.isfinite(prices[mine])]
        if said := _foreseen(table, p, known, prices[known], at):
            return said
    return ""


def _foreseen(table: Table, p: Floats, rows: npt.NDArray[np.intp], later: Floats, at: str) -> str:
    """What is said of forecasts beside the price that the market had later."""
    now = table.market[rows]
    moved = np.abs(later - now) >= LEAST_MOVE
    rows, move, beyond = rows[moved], (later - now)[moved], (p[rows] - now)[moved]
    n = len(move)
    if n < LEAST_SUSPECT or len(np.unique(table.q[rows])) < LEAST_SUSPECT:
        return ""
    near = int((np.abs(beyond - move) <= CLAIRVOYANT * np.abs(move)).sum())
    if near >= MOST_FORESEEN * n:
        return (
            f"{near:,} of {n:,} forecasts are what the market's price moved to {at}, to within a "
            "tenth of its move"
        )
    if (r := _correlation(beyond, move)) >= ALL_BUT_LINEAR:
        return (
            f"what its {n:,} forecasts say beyond the price goes with what the price did {at} "
            f"(correlation {r:.2f})"
        )
    return ""


def marked(
    table: Table,
    gateway: Gateway,
    every: timedelta | None = None,
    stop: datetime | None = None,
    market: Callable[[str], str] = str,
) -> Table:
    """A table with every later price on record; and, for the instants of a grid, with how many were
    to be expected of each question. `market` is the id of a question's market."""
    known, closes = on_record(table, gateway, market)
    planned = table.scheduled if every is None else scheduled(table, closes, every, stop)
    still_open = None if table.open is None else marked(table.open, gateway, every, stop, market)
    return replace(table, marks=known, scheduled=planned, closes=closes, open=still_open)


def on_record(
    table: Table, gateway: Gateway, market: Callable[[str], str] = str
) -> tuple[Marks, Ints]:
    """Every price on record of the table's markets, from the first row of each on: positions and
    open bets stand at these until settlement. And when each market's own text, as it was known at
    its first row, says that it closes (Q,), in microseconds; 0 where it says nothing. `market` is
    the id of a question's market."""
    first, pieces = _first_rows(table), Pieces(Path(gettempdir()))
    closes, aside = np.zeros(len(table.questions), dtype=np.int64), Gateway(gateway.world)
    for i, name in enumerate(map(market, table.questions)):
        series = gateway.world.series(name)
        if series is None or not len(series):
            continue
        close = aside.at(int(first[i])).market(name).scheduled_close
        closes[i] = 0 if close is None else to_us(close)
        kept = series.known_at > first[i]
        pieces.add("q", np.full(int(kept.sum()), i))
        pieces.add("t", series.known_at[kept])
        pieces.add("price", series.price[kept])
    if not (found := [*pieces]):
        return Marks.none(), closes
    if table.disk is None:
        return Marks(*(pieces.take(name) for name in found)), closes
    made = Marks(*(table.disk.keep(pieces.parts(name, BLOCK)) for name in found))
    pieces.close()
    return made, closes


def scheduled(table: Table, closes: Ints, every: timedelta, stop: datetime | None = None) -> Floats:
    """How many instants of a grid were to be expected for each question at its first row: from then
    to the close that was stated by then [at most to `stop`, which is included]; NaN where none was.
    (Q,)"""
    first, latest = _first_rows(table), np.inf if stop is None else to_us(stop) + 1
    planned = np.ceil((np.minimum(closes, latest) - first) / (every // MICROSECOND))
    return np.where(closes > first, planned, np.nan)


def _first_rows(table: Table) -> Ints:
    """When the first row of each question is (Q,)."""
    first = np.full(len(table.questions), np.iinfo(np.int64).max)
    for part in parts_of(len(table.q)):
        np.minimum.at(first, table.q[part], table.t[part])
        table.let_go()
    return first
