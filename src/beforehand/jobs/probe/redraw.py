"""Another future: a world that is the same up to T, record for record, and different after it.

What was known at T stays as it is. Of what became known later, outcomes are flipped in the markets
that are asked about and in half of the others, dates are moved in half, prices are mirrored (in
log-odds, about the last price known at T), books, states and others' forecasts likewise, texts are
reworded, numbers of vendors' rows changed, and some records are left out, so that counts, sizes and
digests differ as well.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from beforehand.clock import from_us
from beforehand.gateway.search import Grade
from beforehand.records.bulk import decode_series
from beforehand.records.cutoff import document_known_at, visible
from beforehand.records.record import Record
from beforehand.records.world import (
    BookLevel,
    Document,
    Event,
    Exchange,
    Market,
    MarketState,
    Observation,
    OrderBook,
    PricePoint,
    RecordedForecast,
    Resolution,
)
from beforehand.store.archive.reader import KINDS, Archive

EDGE = 1e-3
LEFT_OUT = 0.2
"""The share of later prices, documents and rows that the other future does not have."""
MOST_DAYS = 20
Kept = Mapping[str, list[Any]]
"""Every record of an archive by kind, in stored order."""


def all_records(archive: Archive) -> dict[str, list[Any]]:
    """Every record of an archive, by kind."""
    found: dict[str, list[Any]] = {}
    for kind, model in KINDS.items():
        if kind == "price":
            found[kind] = list(_points(archive))
        else:
            found[kind] = list(archive.records(model))
    return found


def _points(archive: Archive) -> Iterator[PricePoint]:
    for line in archive.lines("price"):
        row = decode_series(line)
        n = len(row.price)
        bid, ask, volume = (getattr(row, name) or [None] * n for name in ("bid", "ask", "volume"))
        for i in range(n):
            yield PricePoint(
                market_id=row.market_id,
                price=row.price[i],
                observed_at=from_us(row.observed_at[i]),
                known_at=from_us(row.known_at[i]),
                bid=bid[i],
                ask=ask[i],
                volume=volume[i],
            )


@dataclass(frozen=True)
class Change:
    """One record that the other future has differently, for people to read."""

    kind: str
    what: str
    known_at: datetime


class OtherFuture:
    """The other future of a world after `t`; the same seed gives the same one. `asked` are the
    markets that are asked about: all their outcomes are flipped, so that who looks at nothing else
    answers otherwise in each. `changes` lists what differs, in the order in which the records are
    stored."""

    def __init__(
        self,
        kept: Kept,
        t: datetime,
        seed: int = 0,
        grade: Grade = "captured",
        asked: Iterable[str] = (),
    ) -> None:
        self._kept, self._t, self._seed, self._grade = kept, t, seed, grade
        self._anchor = _last_prices(kept, t)
        rng = np.random.default_rng([seed, 7])
        names = sorted({r.market_id for r in kept["resolution"]})
        self._flipped = {n for n, u in zip(names, rng.random(len(names)), strict=True) if u < 0.5}
        self._flipped |= set(asked)
        self._moved = {n for n, u in zip(names, rng.random(len(names)), strict=True) if u < 0.5}
        self.changes = [change for change, _ in self._walk() if change is not None]

    def records(self, only: Callable[[int], bool] = lambda k: True) -> Iterator[Record]:
        """The records of this future. `only` says which of the changes are made, by their place."""
        k = 0
        for change, (before, after) in self._walk():
            made = before
            if change is not None:
                made, k = (after if only(k) else before), k + 1
            if made is not None:
                yield made

    def _walk(self) -> Iterator[tuple[Change | None, tuple[Any, Any]]]:
        """Each record as it is and as it is in this future, with what changed."""
        for number, (kind, records) in enumerate(self._kept.items()):
            chance = np.random.default_rng([self._seed, number]).random((len(records), 2))
            for record, (u, v) in zip(records, chance.tolist(), strict=True):
                if not self._is_later(record):
                    yield None, (record, record)
                    continue
                after = self._other(kind, record, u, v)
                if after == record:
                    yield None, (record, record)
                else:
                    yield Change(kind, _named(record), record.known_at), (record, after)

    def _is_later(self, record: Any) -> bool:
        """True for what was not known, or not all of it, at T."""
        known_at = record.known_at
        if isinstance(record, Document):
            known_at = document_known_at(known_at, record.text_known_at, self._grade)
        if known_at is None or not visible(known_at, self._t):
            return True
        if isinstance(record, Observation) and record.now_known_at is not None:
            return not visible(record.now_known_at, self._t)
        return False

    def _other(self, kind: str, record: Any, u: float, v: float) -> Any:
        """The record in this future; None where it has none. `u` and `v` lie in [0, 1)."""
        if isinstance(record, Observation) and visible(record.known_at, self._t):
            return record.model_copy(update={"now": _numbers(record.now, 1 + v)})
        if isinstance(record, Exchange):
            return None
        droppable = isinstance(record, (PricePoint, Document, Observation, MarketState, OrderBook))
        if droppable and u < LEFT_OUT:
            return None
        return _OTHERS[kind](self, record, v)

    def _price(self, point: PricePoint, v: float) -> PricePoint:
        about = partial(_mirrored, about=self._anchor.get(point.market_id, 0.5))
        return point.model_copy(
            update={
                "price": about(point.price),
                "bid": None if point.ask is None else about(point.ask),
                "ask": None if point.bid is None else about(point.bid),
                "volume": None if point.volume is None else round(point.volume * (1 + v), 1),
            }
        )

    def _resolution(self, record: Resolution, v: float) -> Resolution:
        changed: dict[str, object] = {}
        if record.market_id in self._flipped:
            before = record.payout
            changed["payout"] = 1.0 if before is None or before == 0.5 else 1.0 - before
        if record.market_id in self._moved:
            later = timedelta(days=1 + int(v * MOST_DAYS))
            changed |= {
                "resolved_at": record.resolved_at + later,
                "known_at": record.known_at + later,
                "first_published": record.first_published and record.first_published + later,
            }
        return record.model_copy(update=changed)

    def _document(self, record: Document, v: float) -> Document:
        return record.model_copy(
            update={"title": _reworded(record.title), "text": _reworded(record.text)}
        )

    def _market(self, record: Market, v: float) -> Market:
        close = record.scheduled_close
        return record.model_copy(
            update={
                "question": record.question and _reworded(record.question),
                "rules": record.rules and _reworded(record.rules),
                "scheduled_close": close and close + timedelta(days=1 + int(v * MOST_DAYS)),
            }
        )

    def _state(self, record: MarketState, v: float) -> MarketState:
        price = record.last_price
        closed = record.status in ("closed", "resolved", "settled", "finalized")
        return record.model_copy(
            update={
                "status": record.status and ("active" if closed else "closed"),
                "volume": None if record.volume is None else round(record.volume * (1 + v), 1),
                "last_price": None
                if price is None
                else _mirrored(price, self._anchor.get(record.market_id, 0.5)),
            }
        )

    def _event(self, record: Event, v: float) -> Event:
        return record.model_copy(update={"title": _reworded(record.title)})

    def _book(self, record: OrderBook, v: float) -> OrderBook:
        about = partial(_mirrored, about=self._anchor.get(record.market_id, 0.5))

        def other(levels: tuple[BookLevel, ...]) -> tuple[BookLevel, ...]:
            return tuple(BookLevel(price=about(one.price), size=one.size) for one in levels)

        return record.model_copy(update={"bids": other(record.asks), "asks": other(record.bids)})

    def _forecast(self, record: RecordedForecast, v: float) -> RecordedForecast:
        return record.model_copy(update={"probability": round(1 - record.probability, 6)})

    def _observation(self, record: Observation, v: float) -> Observation:
        data = {
            name: _reworded(value) if name in ("title", "text", "body", "selftext") else value
            for name, value in _numbers(record.data, 1 + v).items()
        }
        return record.model_copy(update={"data": data, "now": _numbers(record.now, 1 + v)})


_OTHERS: dict[str, Callable[[OtherFuture, Any, float], Any]] = {
    "price": OtherFuture._price,
    "resolution": OtherFuture._resolution,
    "document": OtherFuture._document,
    "market": OtherFuture._market,
    "state": OtherFuture._state,
    "event": OtherFuture._event,
    "book": OtherFuture._book,
    "forecast": OtherFuture._forecast,
    "observation": OtherFuture._observation,
}


def _last_prices(kept: Kept, t: datetime) -> dict[str, float]:
    """Each market's last price known at t."""
    found: dict[str, PricePoint] = {}
    for point in kept["price"]:
        held = found.get(point.market_id)
        if visible(point.known_at, t) and (held is None or held.observed_at <= point.observed_at):
            found[point.market_id] = point
    return {name: point.price for name, point in found.items()}


def _mirrored(price: float, about: float) -> float:
    """The price as far on the other side of `about`, in log-odds."""
    p, q = (min(max(x, EDGE), 1 - EDGE) for x in (price, about))
    far = 2 * math.log(q / (1 - q)) - math.log(p / (1 - p))
    return round(1 / (1 + math.exp(-far)), 4)


def _reworded(text: str) -> str:
    """The same words in another order, and one more."""
    return " ".join([*reversed(text.split()), "otherwise"])


def _numbers(row: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """The row with its numbers changed."""
    return {
        name: type(value)(value * factor + 1)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else value
        for name, value in row.items()
    }


def _named(record: Any) -> str:
    """A record for people to read."""
    name = getattr(record, "market_id", None) or getattr(record, "id", None) or record.key
    if isinstance(record, PricePoint):
        return f"the price of {name}"
    if isinstance(record, Resolution):
        return f"how {name} resolved"
    kind = next(text for model, text in _KINDS if isinstance(record, model))
    return f"{kind} {name}"


_KINDS: tuple[tuple[type[Record], str], ...] = (
    (Document, "the document"),
    (Market, "the text of"),
    (MarketState, "the state of"),
    (Event, "the event"),
    (OrderBook, "the order book of"),
    (RecordedForecast, "another's forecast of"),
    (Observation, "the row"),
    (Exchange, "the recorded answer"),
)
