"""Many (market, t) pairs at once: what a baseline may look at, one row a pair.

Every column of a row holds only what was known at that row's own t; each chunk is checked column by
column, and the walk ends with an error if the world returns anything later.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from beforehand.clock import DAY_US, from_us, to_us
from beforehand.errors import Corrupt
from beforehand.ids import number_of, split_market_id
from beforehand.records.world import Document, Market

if TYPE_CHECKING:
    from beforehand.gateway.gateway import Gateway

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
QueryMaker = Callable[[Market], list[str]]
"""Search queries for the wording of a question."""
PRIOR = 0.5
"""The base rate where no resolution is known; it counts as two observations (Laplace's rule)."""


@dataclass(frozen=True)
class Panel:
    """Columns of length n. Times are microseconds, `price_age` seconds; NaN where unknown.

    `base_rate` is the share of YES among the venue's resolutions known at t (`base_n` of them).
    `text` is the market with the wording known at t, or None. `documents` are the search results
    for that wording, known at t. `recorded[name]` replays the forecasts of others.
    """

    market: list[str]
    t: Ints
    price: Floats
    price_age: Floats
    known_at: Ints
    bid: Floats
    ask: Floats
    week_ago: Floats
    base_rate: Floats
    base_n: Ints
    text: list[Market | None]
    documents: list[list[Document]]
    recorded: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True)
class Evidence:
    """How documents are looked up: at most `max_results`, of all that was known by then, or in the
    last `lookback_days` alone."""

    max_results: int = 5
    lookback_days: int | None = None


USUAL = Evidence()


class PanelBuilder:
    """Builds panels over one gateway (`Gateway.panel`); keeps what is shared between them."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._rates = _BaseRates(gateway)

    def build(
        self,
        pairs: Sequence[tuple[str, Ints]],
        recorded: Sequence[str],
        evidence: Evidence,
        queries: QueryMaker | None,
    ) -> Panel:
        """One panel over markets and their instants, as `Gateway.panel` describes it."""
        parts = [self._market(name, t, recorded, evidence, queries) for name, t in pairs if len(t)]
        if len(parts) < 2:
            return parts[0] if parts else _EMPTY
        joined = {
            key: np.concatenate([getattr(part, key) for part in parts])
            for key in (
                "t",
                "price",
                "price_age",
                "known_at",
                "bid",
                "ask",
                "week_ago",
                "base_rate",
                "base_n",
            )
        }
        return Panel(
            market=list(chain.from_iterable(part.market for part in parts)),
            text=list(chain.from_iterable(part.text for part in parts)),
            documents=list(chain.from_iterable(part.documents for part in parts)),
            recorded={
                name: np.concatenate([part.recorded[name] for part in parts]) for name in recorded
            },
            **joined,
        )

    def _market(
        self,
        name: str,
        t: Ints,
        recorded: Sequence[str],
        evidence: Evidence,
        queries: QueryMaker | None,
    ) -> Panel:
        series, rows = self._gateway.take(name, t)
        before, earlier = self._gateway.take(name, t - 7 * DAY_US, "odds_week_ago")
        rate, count = self._rates.at(split_market_id(name)[0] or "", t)
        texts = self._texts(name, t)
        if rows.min() >= 0:
            known_at = series.known_at[rows]
        else:
            known_at = np.full(len(t), -1, dtype=np.int64)
            known_at[rows >= 0] = series.known_at[rows[rows >= 0]]
        age = (t - _pick(series.observed_at, rows)) / 1e6
        if (age < 0).any():
            raise Corrupt(
                f"{name}: a price is known before it was observed; `beforehand world verify` lists "
                "all of them"
            )
        return Panel(
            market=[name] * len(t),
            t=t,
            price=_pick(series.price, rows),
            price_age=age,
            known_at=known_at,
            bid=_pick(series.bid, rows),
            ask=_pick(series.ask, rows),
            week_ago=_pick(before.price, earlier),
            base_rate=rate,
            base_n=count,
            text=texts,
            documents=[
                self._search(text, at, evidence, queries)
                for text, at in zip(texts, t.tolist(), strict=True)
            ]
            if evidence.max_results
            else [[]] * len(t),
            recorded={source: self._replay(name, source, t) for source in recorded},
        )

    def _texts(self, name: str, t: Ints) -> list[Market | None]:
        """The wording known at each instant, or None; versions without a question are left out, and
        what is shown is checked."""
        versions = sorted(
            (
                v
                for v in self._gateway.world.market_versions(name, int(t[-1]))
                if v.question is not None
            ),
            key=lambda v: v.known_at,
        )
        if not versions:
            return [None] * len(t)
        known = np.array([to_us(v.known_at) for v in versions], dtype=np.int64)
        place = np.searchsorted(known, t, side="right") - 1
        shown = place >= 0
        self._gateway.guard.all("market", name, known[place[shown]], t[shown])
        return [versions[i] if i >= 0 else None for i in place]

    def _search(
        self, text: Market | None, t: int, evidence: Evidence, queries: QueryMaker | None
    ) -> list[Document]:
        """The documents for a wording, best first; results of several queries take turns."""
        if text is None or text.question is None:
            return []
        view, since = self._gateway.at(t), None
        if evidence.lookback_days is not None:
            since = from_us(t) - timedelta(days=evidence.lookback_days)
        asked = [text.question] if queries is None else queries(text)
        found = [view.search(query, evidence.max_results, since) for query in asked]
        if len(found) == 1:
            return found[0]
        turns = chain.from_iterable(zip_longest(*found))
        return list({d.id: d for d in turns if d is not None}.values())[: evidence.max_results]

    def _replay(self, name: str, source: str, t: Ints) -> Floats:
        """The last forecast of `source` known at each instant."""
        mine = sorted(
            (to_us(f.known_at), f.probability)
            for f in self._gateway.world.forecasts(name, int(t[-1]))
            if f.predictor == source
        )
        known = np.array([k for k, _ in mine], dtype=np.int64)
        values = np.array([p for _, p in mine], dtype=np.float64)
        place = np.searchsorted(known, t, side="right") - 1
        shown = place >= 0
        self._gateway.guard.all("forecast", name, known[place[shown]], t[shown])
        out = np.full(len(t), np.nan)
        out[shown] = values[place[shown]]
        return out


def _pick(column: npt.NDArray[Any], rows: Ints) -> Floats:
    """The column at those rows; NaN where the row is -1."""
    if not len(rows) or rows.min() >= 0:
        return np.asarray(column[rows], dtype=np.float64)
    out = np.full(len(rows), np.nan)
    found = rows >= 0
    out[found] = column[rows[found]]
    return out


_ENDED: "WeakKeyDictionary[Any, dict[str, tuple[Ints, Floats]]]" = WeakKeyDictionary()
"""By world: each venue's resolutions in the order in which they became known, and running sums."""


class _BaseRates:
    """The base rate of a venue at t, from the resolutions known by then."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    def at(self, venue: str, t: Ints) -> tuple[Floats, Ints]:
        """(base rate, number of resolutions known) at each instant."""
        known, sums = self._load().get(venue, (np.zeros(0, np.int64), np.zeros(1)))
        if not len(known):
            return np.full(len(t), PRIOR), np.zeros(len(t), dtype=np.int64)
        n = np.searchsorted(known, t, side="right")
        shown = n > 0
        if shown.any():
            self._gateway.guard.all("resolution", venue, known[n[shown] - 1], t[shown])
        return (sums[n] + 2 * PRIOR) / (n + 2), n.astype(np.int64)

    def _load(self) -> dict[str, tuple[Ints, Floats]]:
        world = self._gateway.world
        if world not in _ENDED:
            known_at, payouts, names = array("q"), array("d"), array("q")
            venue_of, venues = array("l"), dict[str, int]()
            for r in world.resolutions(None, to_us(self._gateway.clock.now())):
                if r.status == "resolved" and r.payout is not None:
                    known_at.append(to_us(r.known_at))
                    payouts.append(r.payout)
                    names.append(number_of(r.market_id))
                    venue = split_market_id(r.market_id)[0] or ""
                    venue_of.append(venues.setdefault(venue, len(venues)))
            since, paid, name, of = map(np.array, (known_at, payouts, names, venue_of))
            # Of each market the first outcome that was known counts.
            order = np.lexsort((paid, since, name))
            name = name[order]
            order = order[np.concatenate([[True], name[1:] != name[:-1]])[: len(order)]]
            found = {}
            for venue, k in venues.items():
                mine = order[of[order] == k]
                mine = mine[np.lexsort((paid[mine], since[mine]))]
                sums = np.concatenate([[0.0], np.cumsum(paid[mine])])
                found[venue] = since[mine], sums
            _ENDED[world] = found
        return _ENDED[world]


_NONE_F, _NONE_I = np.zeros(0), np.zeros(0, dtype=np.int64)
_EMPTY = Panel(
    [], _NONE_I, _NONE_F, _NONE_F, _NONE_I, _NONE_F, _NONE_F, _NONE_F, _NONE_F, _NONE_I, [], [], {}
)
