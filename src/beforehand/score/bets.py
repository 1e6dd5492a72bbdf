"""Profit of flat bets from a list.

Every bet has the same stake. A bet on a side at price p wins 1/p per unit staked; a taker fee of
rate * p * (1-p) a share costs rate * p * (1-p) / p per unit staked, won or lost. The drawdown is in
stakes, from a peak that starts at 0, in the order given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired

import numpy as np
from typing_extensions import TypedDict


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
