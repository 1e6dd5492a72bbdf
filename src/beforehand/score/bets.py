"""Profit after spread and fees: fractional Kelly bets on forecasts, and flat bets from a list.

Kelly bets are made at the recorded bid and ask, never in the middle. There is one bet per question,
at the first forecast that sees an edge after the spread at a price no older than a week. YES at ask
a: f = (p-a)/(1-a); NO at bid b: f = (b-p)/b; scaled by `fraction`, capped, staked on the wealth of
that moment as far as there is cash, settled at resolution (Kelly 1956; taker fee = rate * a * (1-a)
a share). Without a recorded book there is nothing to compute, and play money has no profit.

A wider assumed spread can end in more wealth: it leaves the bets with a small edge out, and makes
the others later, at the first price that leaves an edge behind the spread; both change which bets
there are, and not only what they cost.

Flat bets, with the same stake for every entry of a list, give profit, return, win rate and
drawdown. A bet on a side at price p wins 1/p per unit staked; a taker fee of rate * p * (1-p) a
share costs rate * p * (1-p) / p per unit staked, won or lost. The drawdown is in stakes, from a
peak that starts at 0, in the order given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from beforehand.score.table import Floats, Ints, Table

NO_BOOK = "not computable: no bid and ask were recorded"
PLAY_MONEY = "not computable: play-money venues only"


class Bet(TypedDict):
    """A bet in a file: bought at `entry_price`, in (0, 1)."""

    entry_price: float
    won: bool
    side: NotRequired[str]
    resolved_ts: NotRequired[float]


@dataclass(frozen=True)
class BetScore:
    """`roi` is profit over the sum of stakes."""

    n: int
    staked: float
    profit: float
    roi: float
    win_rate: float
    max_drawdown: float
    sides: dict[str, int]


def score_bets(bets: Sequence[Bet], stake: float, fee_rate: float, order: str) -> BetScore:
    """Score `bets` (entry_price, won, side, resolved_ts) in `order`: `file` or `time`."""
    rows = list(bets) if order == "file" else sorted(bets, key=lambda b: b["resolved_ts"])
    price = np.array([b["entry_price"] for b in rows], dtype=np.float64)
    won = np.array([bool(b["won"]) for b in rows])
    profit = stake * (np.where(won, 1 / price, 0.0) - 1 - fee_rate * price * (1 - price) / price)
    curve = np.cumsum(profit)
    peak = np.maximum.accumulate(np.maximum(curve, 0.0))
    sides: dict[str, int] = {}
    for bet in rows:
        side = str(bet.get("side", "YES"))
        sides[side] = sides.get(side, 0) + 1
    return BetScore(
        n=len(rows),
        staked=stake * len(rows),
        profit=float(profit.sum()),
        roi=float(profit.sum() / (stake * len(rows))),
        win_rate=float(won.mean()),
        max_drawdown=float((peak - curve).max()),
        sides=sides,
    )


@dataclass(frozen=True)
class Kelly:
    """Stake rules: the `fraction` of what Kelly's formula says, at most `cap` of the wealth on one
    bet. `spread` (full width, in price) makes a book where none was recorded; the result is
    labelled as such. `fees` replace the venues' own taker fee rates: by venue (`KALSHI`), by venue
    and category (`POLYMARKET/crypto`), or for all (`*`); the closest one counts."""

    fraction: float = 0.25
    cap: float = 0.1
    spread: float | None = None
    fees: tuple[tuple[str, float], ...] = ()

    @property
    def statement(self) -> str:
        """What the prices rest on."""
        book = "recorded book" if self.spread is None else f"assumed spread {self.spread:g}"
        fees = ", ".join(f"{'all' if name == '*' else name} {rate:g}" for name, rate in self.fees)
        return f"{book}; fees stated: {fees}" if fees else book

    def fee(self, venue: str, category: str | None, otherwise: float) -> float:
        """The fee rate of a market."""
        stated = {name.lower(): rate for name, rate in self.fees}
        for name in (f"{venue}/{category}", venue, "*"):
            if name.lower() in stated:
                return stated[name.lower()]
        return otherwise


@dataclass(frozen=True)
class Profit:
    """Wealth starts at 1, and `staked`, `fees` and `gain` are in its units. `returns` are per
    question, as shares of the wealth at the bet, with `question` giving the row of the table's
    questions; `sharpe` is their mean over their standard deviation (n - 1), for one bet and not for
    a year. `wealth` is what there is after each settlement, at `settled` (microseconds, 0 where
    unknown). `note` says what they rest on. Each array has one value a bet."""

    bets: int
    staked: float
    fees: float
    final_wealth: float
    mean_return: float
    sharpe: float | None
    max_drawdown: float
    note: str
    rules: Kelly
    question: Ints
    t: Ints
    yes: npt.NDArray[np.bool_]
    price: Floats
    stake: Floats
    gain: Floats
    returns: Floats
    settled: Ints
    wealth: Floats
    mean_return_ci: tuple[float, float] = (float("nan"), float("nan"))


def profit(table: Table, p: Floats, rules: Kelly = Kelly()) -> Profit | str:
    """The wealth path over all questions with a book, or a sentence saying why there is none."""
    real = ~table.play[table.q]
    if not real.any():
        return PLAY_MONEY
    bid, ask = table.bid, table.ask
    if rules.spread is not None:
        missing = np.isnan(bid) | np.isnan(ask)
        bid = np.where(missing, np.clip(table.market - rules.spread / 2, 0, 1), bid)
        ask = np.where(missing, np.clip(table.market + rules.spread / 2, 0, 1), ask)
    booked = real & np.isfinite(bid) & np.isfinite(ask)
    usable = booked & table.fresh & np.isfinite(p) & (ask < 1) & (bid > 0)
    if not booked.any():
        return NO_BOOK
    with np.errstate(invalid="ignore", divide="ignore"):
        yes = np.where(usable, np.maximum(0.0, (p - ask) / (1 - ask)), 0.0)
        no = np.where(usable, np.maximum(0.0, (bid - p) / bid), 0.0)
    edge = np.flatnonzero((yes > 0) | (no > 0))
    edge = edge[np.lexsort((table.t[edge], table.q[edge]))]
    first = edge[np.unique(table.q[edge], return_index=True)[1]]
    question = table.q[first]
    stake = np.minimum(rules.fraction * np.maximum(yes, no)[first], rules.cap)
    buys_yes = yes[first] > 0
    price = np.where(buys_yes, ask[first], 1 - bid[first])
    value = np.where(buys_yes, table.y[question], 1 - table.y[question])
    fee = table.fee[question] * price * (1 - price)
    settled = table.resolved_at[question]
    path, cost, shares = _wealth(table.t[first], settled, stake, fee / price, value / price)
    returns = shares * (value - price - fee) / price
    wealth = np.concatenate([[1.0], path])
    peak = np.maximum.accumulate(wealth)
    spread = float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0
    return Profit(
        bets=len(first),
        staked=float(cost.sum()),
        fees=float((cost * fee / price).sum()),
        final_wealth=float(wealth[-1]),
        mean_return=float(returns.mean()) if len(returns) else 0.0,
        sharpe=float(returns.mean()) / spread if spread > 0 else None,
        max_drawdown=float((1 - wealth / peak).max()),
        note=rules.statement,
        rules=rules,
        question=question,
        t=table.t[first],
        yes=buys_yes,
        price=price,
        stake=cost,
        gain=cost * (value - price - fee) / price,
        returns=returns,
        settled=np.sort(settled),
        wealth=path,
    )


def _wealth(
    opened: Ints, settled: Ints, stake: Floats, fee: Floats, paid: Floats
) -> tuple[Floats, Floats, Floats]:
    """(wealth after each settlement, what each bet really staked, its share of the wealth then).

    `fee` and `paid` are per unit staked. A bet pays its stake and fee when it is opened and never
    more than the cash there is; wealth is cash plus what open bets cost.
    """
    events = sorted(
        [(int(at), 1, i) for i, at in enumerate(opened)]
        + [(int(at), 0, i) for i, at in enumerate(settled)]
    )
    cash, open_cost = 1.0, 0.0
    cost, share = np.zeros(len(stake)), np.zeros(len(stake))
    path = []
    for _, opens, i in events:
        if opens:
            wealth = cash + open_cost
            cost[i] = min(stake[i] * wealth, cash / (1 + fee[i]))
            share[i] = cost[i] / wealth if wealth > 0 else 0.0
            cash = max(cash - cost[i] * (1 + fee[i]), 0.0)
            open_cost += cost[i]
        else:
            cash, open_cost = cash + cost[i] * paid[i], max(open_cost - cost[i], 0.0)
            path.append(cash + open_cost)
    return np.array(path), cost, share
