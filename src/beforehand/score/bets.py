"""Profit after spread and fees: fractional Kelly bets on forecasts, and flat bets from a list.

Kelly bets are made at the recorded bid and ask, never in the middle. There is one bet per question,
at the first forecast that sees an edge after spread and fee at a price no older than a week. With c
the cost of a share and its fee (YES: ask + fee, NO: 1 - bid + fee; taker fee = rate * a * (1 - a) a
share at price a), Kelly's part of the wealth is f = (p - c) / (1 - c) (Kelly 1956), scaled by
`fraction` and capped. Wealth is cash plus what open bets cost; a bet pays out when its market
resolves. Bets of one instant share what cash there is in proportion to what they ask for; where
there is none, no bet is made, and the question may be bet on later. All that settles at one instant
settles together. Without a recorded book there is nothing to compute, and play money has no profit.

A wider assumed spread can end in more wealth: it leaves the bets with a small edge out, and makes
the others later, at the first price that leaves an edge behind the spread; both change which bets
there are, and not only what they cost.

Flat bets, with the same stake for every entry of a list, give profit, return, win rate and
drawdown. A bet on a side at price p wins 1/p per unit staked; a taker fee of rate * p * (1-p) a
share costs rate * p * (1-p) / p per unit staked, won or lost. The drawdown is in stakes, from a
peak that starts at 0, in the order given.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from beforehand.score.table import Floats, Ints, Table, parts_of

NO_BOOK = "not computable: no bid and ask were recorded"
PLAY_MONEY = "not computable: play-money venues only"
LAST = 2**63 - 1
"""When a bet pays out whose resolution has no date."""


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
    settle: Literal["known", "stated"] = "known"
    """When a bet pays: once it is known how its market ended, or on the date that the venue states,
    which may lie long after."""
    tried: int = field(default=1, repr=False, compare=False)
    """How many stake rules were ever tried on such a set of markets, these included."""

    @property
    def said(self) -> str:
        """The rules in words."""
        spread = "recorded book" if self.spread is None else f"spread {self.spread:g}"
        fees = "".join(f", fee {name}={rate:g}" for name, rate in self.fees)
        when = "" if self.settle == "known" else ", settled on stated dates"
        return f"{self.fraction:g} of Kelly, at most {self.cap:g} a bet, {spread}{fees}{when}"

    def fee(self, venue: str, category: str | None, otherwise: float) -> float:
        """The fee rate of a market."""
        stated = {name.lower(): rate for name, rate in self.fees}
        for name in (f"{venue}/{category}", venue, "*"):
            if name.lower() in stated:
                return stated[name.lower()]
        return otherwise


@dataclass(frozen=True)
class Profit:
    """Wealth starts at 1, and `staked`, `fees` and `gain` are in its units. Each array of the first
    block has one value a bet, in the order in which they were made: `row` and `question` are places
    in the table, `stake` is without the fee. `sharpe` is the mean over the standard deviation
    (n - 1) of `returns`, the gains as shares of the wealth at the bet: for one bet and not for a
    year. `wealth` is what there is after each instant at which something settled (`settled`,
    microseconds, `LAST` where unknown). `unfunded` counts the questions with an edge for which
    there was never cash. `note` says what prices and fees rest on."""

    row: Ints
    question: Ints
    t: Ints
    yes: npt.NDArray[np.bool_]
    price: Floats
    fee: Floats
    stake: Floats
    gain: Floats
    returns: Floats
    before: Floats
    """The wealth at the bet."""

    wanted: Floats
    """The share of that wealth that the bet asks for, with its fee; it gets less where the cash
    does not reach."""

    settled: Ints
    wealth: Floats
    unfunded: int
    note: str
    rules: Kelly
    roi_ci: tuple[float, float] = (float("nan"), float("nan"))
    cut: int = 0
    """How many bets got less than they asked for, because the cash did not reach."""
    tried: int = 1
    """How many ways to bet were tried on such a set: forecasters times stake rules."""
    drawdown_at_prices: float = 0.0
    """The largest fall from a peak, as a share of it, with open bets at the market's price at every
    instant of the table and every other price on record, and not only at settlements."""
    fair_wealth: float = 1.0
    """What the same rules come to at the end if each bet is filled at the price of the midnight
    (UTC) after it: on the day of a forecast a market that is asked cannot end, which favours
    whoever bets on what that day did not bring (prices.py)."""
    most_at_risk: float = 0.0
    most_on_event: float = 0.0
    """The largest share of the wealth that open bets cost: all of them, and those on one event."""

    @property
    def by_chance(self) -> float | None:
        """The most that the probability can be that bets come to as much wealth where prices are
        right: the wealth of bets that are filled at midnight (`fair_wealth`) is then a martingale
        (less what spread and fees take), whatever the markets have to do with each other, and
        reaches W with a probability of at most 1 / W (Ville 1939). None without a bet."""
        return min(1.0, 1.0 / max(self.fair_wealth, 1e-300)) if self.bets else None

    @property
    def best_by_chance(self) -> float | None:
        """`by_chance` for the best of all that were tried: a bound (Bonferroni), at most 1."""
        return None if self.by_chance is None else min(1.0, self.by_chance * self.tried)

    @property
    def bets(self) -> int:
        """How many bets were made."""
        return len(self.row)

    @property
    def staked(self) -> float:
        """What all bets cost, without fees."""
        return float(self.stake.sum())

    @property
    def paid(self) -> Floats:
        """What each bet cost, with its fee."""
        return np.asarray(self.stake * (1 + self.fee / self.price))

    @property
    def fees(self) -> float:
        """The fees of all bets."""
        return float(self.paid.sum()) - self.staked

    @property
    def final_wealth(self) -> float:
        """The wealth at the end."""
        return float(self.wealth[-1]) if len(self.wealth) else 1.0

    @property
    def roi(self) -> float | None:
        """Gain over what the bets cost, fees included; None without a bet."""
        paid = self.staked + self.fees
        return float(self.gain.sum()) / paid if paid > 0 else None

    @property
    def roi_equal(self) -> float | None:
        """The same if every bet had cost as much as every other: what Kelly's stakes, and wealth
        that had grown, did not do. None without a bet."""
        return float((self.gain / self.paid).mean()) if self.bets else None

    @property
    def sharpe(self) -> float | None:
        """Mean over standard deviation of a bet's return; None below two bets."""
        spread = float(np.std(self.returns, ddof=1)) if self.bets > 1 else 0.0
        return float(self.returns.mean()) / spread if spread > 0 else None

    @property
    def max_drawdown(self) -> float:
        """The largest fall from a peak, as a share of it, at settlements: open bets stand at what
        they cost."""
        wealth = np.concatenate([[1.0], self.wealth])
        return float((1 - wealth / np.maximum.accumulate(wealth)).max())


def profit(
    table: Table, p: Floats, rules: Kelly = Kelly(), counted: Floats | None = None
) -> Profit | str:
    """The bets on forecasts `p` (n,), or a sentence saying why there are none. `counted` (n,) are
    the prices at which each bet would be filled at midnight (`prices.counted_prices`); without
    them, those of the forecasts."""
    if table.play.all():
        return PLAY_MONEY
    found = [_edges(part, p[rows], rules, rows.start) for rows, part in table.blocks()]
    booked, without = np.concatenate([one for _, one, _ in found]), sum(one for *_, one in found)
    if not booked.any():
        return NO_BOOK
    every = _Edges.of([one for one, *_ in found])
    edges = every.at(np.lexsort((every.t, table.q[every.row])))
    settled_at = table.resolved_at if rules.settle == "stated" else table.settled_at
    made, unfunded = _walk(table, edges, settled_at)
    fair = made
    if counted is not None:
        fair, _ = _walk(
            table, edges.moved(counted[edges.row] - table.market[edges.row]), settled_at
        )
    bet = np.array([one[0] for one in made.bets], dtype=np.int64)
    mine = edges.at(bet)
    outlay = np.array([one[1] for one in made.bets])
    before = np.array([one[2] for one in made.bets])
    gain = outlay * (mine.paid - 1)
    settles = np.array([one[3] for one in made.bets], dtype=np.int64)
    shares = outlay * mine.kept / mine.price
    question = table.q[mine.row]
    at_risk = _exposure(table.event[question], mine.t, settles, outlay, before)
    return Profit(
        row=mine.row,
        question=question,
        t=mine.t,
        yes=mine.yes,
        price=mine.price,
        fee=mine.fee,
        stake=outlay * mine.kept,
        gain=gain,
        returns=gain / before,
        before=before,
        wanted=mine.wanted,
        settled=np.array(made.instants, dtype=np.int64),
        wealth=np.array(made.wealth),
        unfunded=unfunded,
        cut=made.cut,
        note=_note(table, booked, without, rules),
        rules=rules,
        fair_wealth=fair.wealth[-1] if fair.wealth else 1.0,
        most_at_risk=at_risk[0],
        most_on_event=at_risk[1],
        drawdown_at_prices=_fall(table, mine, shares, outlay, outlay + gain, settles),
    )


@dataclass(frozen=True)
class _Edges:
    """Rows with an edge, and what a bet there costs and pays. `wanted` is the share of the wealth
    that it asks for; an outlay pays `paid` times as much, and all but its fee (`kept`) counts as
    wealth until then."""

    row: Ints
    t: Ints
    yes: npt.NDArray[np.bool_]
    wanted: Floats
    price: Floats
    fee: Floats
    paid: Floats
    kept: Floats

    @classmethod
    def of(cls, parts: Sequence["_Edges"]) -> "_Edges":
        """All of them."""
        return cls(
            **{name: np.concatenate([vars(one)[name] for one in parts]) for name in _COLUMNS}
        )

    def at(self, places: npt.NDArray[np.intp]) -> "_Edges":
        """Those at some places."""
        return _Edges(**{name: vars(self)[name][places] for name in _COLUMNS})

    def moved(self, by: Floats) -> "_Edges":
        """The same bets at prices of YES that are higher `by` so much (m,): a bet that cannot be
        filled, where that is not known or leaves no price, is none."""
        price = self.price + np.where(self.yes, by, -by)
        there = (price > 0) & (price < 1)
        some = self.at(np.flatnonzero(there))
        rate = some.fee / (some.price * (1 - some.price))
        price = price[there]
        fee = rate * price * (1 - price)
        value = some.paid * (some.price + some.fee)
        return replace(
            some, price=price, fee=fee, paid=value / (price + fee), kept=price / (price + fee)
        )


_COLUMNS = tuple(_Edges.__annotations__)


def _edges(table: Table, p: Floats, rules: Kelly, first: int) -> tuple[_Edges, Ints, int]:
    """The edges in a part of the rows, the first of which is row `first`; how many rows of each
    question have a book, and how many in all an assumed one."""
    real = ~table.play[table.q]
    bid, ask = table.bid, table.ask
    recorded = np.isfinite(bid) & np.isfinite(ask)
    if rules.spread is not None:
        missing = np.isnan(bid) | np.isnan(ask)
        bid = np.where(missing, np.clip(table.market - rules.spread / 2, 0, 1), bid)
        ask = np.where(missing, np.clip(table.market + rules.spread / 2, 0, 1), ask)
    booked = real & np.isfinite(bid) & np.isfinite(ask)
    rate = table.fee[table.q]
    usable = booked & table.fresh & np.isfinite(p) & (ask < 1) & (bid > 0)
    yes = _kelly(np.where(usable, p, 0.0), ask, rate)
    no = _kelly(np.where(usable, 1 - p, 0.0), 1 - bid, rate)
    wanted = np.minimum(rules.fraction * np.maximum(yes, no), rules.cap)
    buys_yes = yes > 0
    price = np.where(buys_yes, ask, 1 - bid)
    value = np.where(buys_yes, table.y[table.q], 1 - table.y[table.q])
    fee = rate * price * (1 - price)
    with np.errstate(invalid="ignore", divide="ignore"):
        paid, kept = value / (price + fee), price / (price + fee)
    at = np.flatnonzero(wanted > 0)
    edges = _Edges(
        row=at + first,
        t=table.t[at],
        yes=buys_yes[at],
        wanted=wanted[at],
        price=price[at],
        fee=fee[at],
        paid=paid[at],
        kept=kept[at],
    )
    on = np.bincount(table.q[booked], minlength=len(table.questions))
    return edges, on, int((booked & ~recorded).sum())


def _fall(
    table: Table,
    made: _Edges,
    shares: Floats,
    outlay: Floats,
    payout: Floats,
    settles: Ints,
) -> float:
    """The largest fall of the wealth with open bets at the market's price. Each bet adds what its
    price gained since the row before, its first row what it lost on buying, and its settlement what
    it then paid: their sums through time are the wealth."""
    if not len(made.row):
        return 0.0
    bet_of = np.full(len(table.questions), -1)
    bet_of[table.q[made.row]] = np.arange(len(made.row))
    found, marks = list[tuple[Ints, Ints, Floats]](), table.marks
    for part in parts_of(len(table.q)):
        mine = part.start + np.flatnonzero(bet_of[table.q[part]] >= 0)
        found.append((table.q[mine], table.t[mine], table.market[mine]))
        table.let_go()
    on = bet_of[marks.q] >= 0
    found.append((marks.q[on], marks.t[on], marks.price[on]))
    q, at, prices = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((at, q))
    bet, t, price = bet_of[q[order]], at[order], prices[order]
    open_then = (t >= made.t[bet]) & (t < settles[bet]) & np.isfinite(price)
    bet, t, price = bet[open_then], t[open_then], price[open_then]
    value = shares[bet] * np.where(made.yes[bet], price, 1 - price)
    first = np.diff(bet, prepend=-1) != 0
    before = np.where(first, outlay[bet], np.concatenate([[0.0], value[:-1]]))
    last = outlay.copy()
    last[bet] = value  # Of a bet's rows in order of time, the last one stays.
    when, place = np.unique(np.concatenate([t, settles]), return_inverse=True)
    moved = np.concatenate([value - before, payout - last])
    steps = np.bincount(place, weights=moved, minlength=len(when))
    wealth = np.concatenate([[1.0], 1.0 + np.cumsum(steps)])
    return float((1 - wealth / np.maximum.accumulate(wealth)).max())


def _exposure(
    event: Ints, t: Ints, settles: Ints, outlay: Floats, before: Floats
) -> tuple[float, float]:
    """The largest shares of the wealth that open bets cost at the instant of a bet: of all of them,
    and of those on the event of one bet. Bets are in the order in which they were made."""
    whole, single = 0.0, 0.0
    open_bets: list[tuple[int, int, float]] = []
    on, every = dict[int, float](), 0.0
    for k in range(len(t)):
        while open_bets and open_bets[0][0] <= t[k]:
            _, i, cost = heapq.heappop(open_bets)
            on[int(event[i])] -= cost
            every -= cost
        cost = float(outlay[k])
        heapq.heappush(open_bets, (int(settles[k]), k, cost))
        on[int(event[k])] = on.get(int(event[k]), 0.0) + cost
        every += cost
        whole = max(whole, every / float(before[k]))
        single = max(single, on[int(event[k])] / float(before[k]))
    return whole, single


def in_effect(table: Table, rules: Kelly) -> Kelly | None:
    """The rules as far as they change anything on these rows: a spread only where a book is
    missing, fees only of venues that are bet on. None where no bet can be made at all."""
    there, some, missing = np.zeros(len(table.questions), dtype=bool), False, False
    for part in parts_of(len(table.q)):
        q = table.q[part]
        real, recorded = ~table.play[q], np.isfinite(table.bid[part]) & np.isfinite(table.ask[part])
        there[q[real]] = True
        some |= bool((real & (recorded | (rules.spread is not None))).any())
        missing |= bool((real & ~recorded).any())
        table.let_go()
    if not some:
        return None
    venues = {table.questions[i].partition(":")[0].lower() for i in np.flatnonzero(there)}
    return replace(
        rules,
        spread=rules.spread if missing else None,
        fees=tuple(
            f for f in rules.fees if f[0] == "*" or f[0].partition("/")[0].lower() in venues
        ),
    )


def _kelly(p: Floats, price: Floats, rate: Floats) -> Floats:
    """Kelly's part of the wealth at this price with its fee, 0 without an edge."""
    cost = price + rate * price * (1 - price)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where((p > cost) & (cost < 1), (p - cost) / (1 - cost), 0.0)
    return np.asarray(found)


@dataclass
class _Made:
    """`bets` are (place of the edge, outlay with the fee, wealth before it, when it settles)."""

    bets: list[tuple[int, float, float, int]]
    instants: list[int]
    wealth: list[float]
    cut: int = 0


def _walk(table: Table, edges: _Edges, settled_at: Ints) -> tuple[_Made, int]:
    """The bets through time, and for how many questions there was never cash. `edges` are in order
    of question and time; `settled_at` is when each question pays (0 where unknown)."""
    asked, rows = table.q[edges.row], edges.row.tolist()
    t, q = edges.t.tolist(), asked.tolist()
    starts = np.flatnonzero(np.diff(asked, prepend=-1)).tolist()
    ends = {q[i]: j for i, j in zip(starts, [*starts[1:], len(q)], strict=False)}
    due = [(t[i], q[i], i) for i in starts]
    heapq.heapify(due)
    open_bets: list[tuple[int, int, int, float]] = []  # (settles, row, place, outlay)
    cash, at_cost, unfunded = 1.0, 0.0, 0
    made = _Made([], [], [])
    while due or open_bets:
        if open_bets and (not due or open_bets[0][0] <= due[0][0]):
            now = open_bets[0][0]
            while open_bets and open_bets[0][0] == now:
                _, _, i, outlay = heapq.heappop(open_bets)
                cash += outlay * float(edges.paid[i])
                at_cost = max(at_cost - outlay * float(edges.kept[i]), 0.0)
            made.instants.append(now)
            made.wealth.append(cash + (at_cost if open_bets else 0.0))
            continue
        now, here = due[0][0], list[int]()
        while due and due[0][0] == now:
            here.append(heapq.heappop(due)[2])
        if cash <= 1e-12:
            # Nothing can be bet before something settles.
            later = open_bets[0][0] if open_bets else LAST
            for i in here:
                n = int(np.searchsorted(t[i : ends[q[i]]], later)) + i
                if n < ends[q[i]]:
                    heapq.heappush(due, (t[n], q[n], n))
                else:
                    unfunded += 1
            continue
        wealth = cash + at_cost
        outlays = [float(edges.wanted[i]) * wealth for i in here]
        scale = min(1.0, cash / sum(outlays))
        made.cut += len(here) if scale < 1.0 else 0
        for i, outlay in zip(here, outlays, strict=True):
            outlay = outlay * scale
            settles = int(settled_at[q[i]]) or LAST
            settles = max(settles, now + 1)
            heapq.heappush(open_bets, (settles, rows[i], i, outlay))
            made.bets.append((i, outlay, wealth, settles))
            at_cost += outlay * float(edges.kept[i])
        cash = 0.0 if scale < 1.0 else cash - sum(outlays)
    return made, unfunded


def _note(table: Table, booked: Ints, without: int, rules: Kelly) -> str:
    """What the prices rest on, and the fee rates charged, by venue; `booked` has how many rows of
    each question have a book, `without` how many of them an assumed one."""
    book = "recorded book"
    if rules.spread is not None:
        assumed = "the market's price itself (no spread)"
        if rules.spread:
            assumed = f"assumed spread {rules.spread:g}"
        if without == booked.sum():
            book = assumed
        elif not without and rules.spread:
            book += " (every market has one: the assumed spread changes nothing)"
        elif without:
            book += f", and {assumed} where there was none"
    rates = dict[str, set[float]]()
    for i in np.flatnonzero(booked).tolist():
        venue = table.questions[i].partition(":")[0]
        rates.setdefault(venue, set()).add(float(table.fee[i]))
    charged = [
        f"{venue} {min(of):g}" + (f" to {max(of):g}" if len(of) > 1 else "")
        for venue, of in sorted(rates.items())
    ]
    tried = f"; {rules.tried:,} stake rules tried on such a set" if rules.tried > 1 else ""
    return f"{book}; fee rates charged: {', '.join(charged)}{tried}"


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
