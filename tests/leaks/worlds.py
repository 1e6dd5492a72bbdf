"""Worlds made to break the wall: random pairs that differ after t, and a source that lies."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from beforehand.clock import MICROSECOND
from beforehand.gateway import gateway as guard_module
from beforehand.gateway import view as view_module
from beforehand.ids import canonical
from beforehand.records.record import Record
from beforehand.records.world import (
    BookLevel,
    Document,
    Event,
    Market,
    MarketState,
    Observation,
    OrderBook,
    PricePoint,
    RecordedForecast,
    Resolution,
)
from beforehand.store.archive.ledger import Numbers, PointLedger, Shelf
from beforehand.store.archive.manifest import Segment
from beforehand.store.archive.reader import KIND_OF, Archive

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = "harvest ferry tariff turbine census marathon vaccine stadium railway glacier".split()
VENUES = ("POLYMARKET", "MANIFOLD", "KALSHI")


class _Held(dict[str, list[bytes]]):
    """Lines by kind, in place of files."""

    def of(self, segment: Segment) -> bytes:
        return b"".join(line + b"\n" for line in self[segment["kind"]])


class MemoryArchive(Archive):
    """An archive whose segments are held in memory; everything above them is the real code."""

    def __init__(self, records: Iterable[Record]) -> None:
        ledger, lines = PointLedger(None, Shelf(), Numbers()), _Held()
        for record in records:
            if isinstance(record, PricePoint):
                ledger.add(record)
            else:
                line = canonical(record.model_dump(mode="json", exclude_none=True))
                lines.setdefault(KIND_OF[type(record)], []).append(line)
        lines["price"] = list(ledger.lines())
        self.contents = lines  # type: ignore[assignment]
        self.segments = [_segment(kind, len(found)) for kind, found in lines.items()]


def _segment(kind: str, records: int) -> Segment:
    return {
        "kind": kind,
        "digest": kind,
        "file_digest": kind,
        "records": records,
        "recorded_at": "2026-01-01T00:00:00Z",
        "import": "made",
    }


def random_world(rng: np.random.Generator, n: int = 60) -> list[Record]:
    """`n` records of all kinds at whole hours (many at the same one), of a few markets."""
    return [_record(rng) for _ in range(n)]


def _hour(rng: np.random.Generator) -> datetime:
    return START + timedelta(hours=int(rng.integers(0, 24)))


def _text(rng: np.random.Generator, n: int) -> str:
    return " ".join(rng.choice(WORDS, n))


def _record(rng: np.random.Generator) -> Record:
    venue = str(rng.choice(VENUES))
    native = f"m{int(rng.integers(0, 3))}"
    name, at = f"{venue}:{native}", _hour(rng)
    p = round(float(rng.random()), 3)
    kind = int(rng.integers(0, 12))
    if kind <= 2:
        known = at + timedelta(hours=int(rng.integers(0, 3)))
        book = rng.random() < 0.5
        return PricePoint(
            market_id=name,
            price=p,
            observed_at=at,
            known_at=known,
            bid=max(p - 0.1, 0) if book else None,
            ask=min(p + 0.1, 1) if book else None,
        )
    if kind == 3:
        return Market(
            id=name,
            venue=venue,
            native_id=native,
            question=f"Will the {_text(rng, 3)} end?",
            rules=_text(rng, 2),
            url=f"https://polymarket.com/event/{native}",
            event_id=f"{venue}:e",
            known_at=at,
        )
    if kind == 4:
        return MarketState(market_id=name, status=_text(rng, 1), volume=p, known_at=at)
    if kind == 5:
        return Event(
            id=f"{venue}:e{native}",
            venue=venue,
            title=_text(rng, 2),
            market_ids=(name,),
            known_at=at,
        )
    if kind == 6:
        return OrderBook(market_id=name, bids=(BookLevel(price=p, size=1.0),), known_at=at)
    if kind == 7:
        return Resolution(
            market_id=name,
            status="resolved",
            payout=float(p > 0.5),
            resolved_at=at,
            known_at=at + timedelta(hours=1),
        )
    if kind == 8:
        return RecordedForecast(market_id=name, predictor="someone", probability=p, known_at=at)
    if kind >= 10:
        return _observation(rng, native, at)
    number = int(rng.integers(0, 30))
    return Document(
        id=f"d{number}",
        url=f"https://kalshi.com/news/{number}",
        title=_text(rng, 4),
        text=_text(rng, 2),
        known_at=at,
        text_known_at=None if rng.random() < 0.2 else at + timedelta(hours=int(rng.integers(0, 3))),
    )


WALLET = "0x" + "ab" * 20
STREAMS = (
    ("polymarket", "activity", WALLET),
    ("polymarket", "comment", "event:e"),
    ("kalshi", "trade", "m0"),
    ("kalshi", "candle", "m1|1440"),
    ("reddit", "post", "avaria"),
    ("reddit", "comment", "r1"),
    ("edgar", "fact", "0000000007"),
    ("edgar", "filing", "0000000007"),
    ("coinbase", "price", "BTC-USD"),
)
SNAPSHOTS = (
    ("polymarket", "positions", WALLET),
    ("polymarket", "holders", "m0"),
    ("polymarket", "holders", "m2"),
    ("polymarket", "builders", "week"),
    ("google-news", "feed", f"US|{WORDS[0]}"),
    ("openai", "answer", f"{WORDS[1]} {WORDS[2]}||"),
    ("reddit", "search", f"|all|10|{WORDS[0]}"),
)


def _observation(rng: np.random.Generator, native: str, at: datetime) -> Observation:
    """A vendor's row of any kind that a tool shows, with NOW-valued fields seen later."""
    number, text = round(float(rng.random()), 3), _text(rng, 2)
    data = {
        "id": f"r{int(rng.integers(0, 3))}",
        "title": text,
        "selftext": text,
        "body": text,
        "parent": "t3_r1",
        "type": "TRADE",
        "price": number,
        "observed_at": at.isoformat(),
        "concept": f"x:{text}",
        "form": "10-K",
        "end": at.isoformat(),
        "close": number,
        "amount": number,
    }
    seen = at + timedelta(hours=int(rng.integers(0, 6)))
    if rng.random() < 0.6:
        source, kind, subject = STREAMS[int(rng.integers(0, len(STREAMS)))]
        return Observation(
            source=source,
            kind=kind,
            subject=subject,
            id=str(data["id"]),
            data=data,
            known_at=at,
            now={"score": number, "num_comments": number, "reactions": number},
            now_known_at=seen,
        )
    source, kind, subject = SNAPSHOTS[int(rng.integers(0, len(SNAPSHOTS)))]
    rows = [{**data, "url": "u", "link": "u", "published_at": at.isoformat(), "snippet": text}]
    return Observation(
        source=source,
        kind=kind,
        subject=subject,
        id="@snapshot",
        data={"rows": rows, "answer": text},
        snapshot=True,
        known_at=at,
    )


def known(record: Record) -> datetime:
    """When a record of a random world is known."""
    at: datetime = record.known_at  # type: ignore[attr-defined]
    late = getattr(record, "text_known_at", None)
    return max(at, late) if late else at


def _changed(rng: np.random.Generator, record: Record, t: datetime) -> Record:
    """The record with other NOW-valued fields, where those were seen after t only."""
    if isinstance(record, Observation) and record.now_known_at and record.now_known_at > t:
        return record.model_copy(update={"now": {"score": float(rng.random())}})
    return record


def pair(seed: int) -> tuple[list[Record], list[Record], datetime]:
    """Two worlds with the same records up to t, in the same order, and unrelated ones after."""
    rng = np.random.default_rng(seed)
    world = random_world(rng)
    t = _hour(rng) + int(rng.integers(-1, 2)) * MICROSECOND
    early = [r for r in world if known(r) <= t]
    changed = [_changed(rng, r, t) for r in early]
    later = [r for r in random_world(rng, int(rng.integers(0, 120))) if known(r) > t]
    mixed = list(changed)
    for record in later:
        mixed.insert(int(rng.integers(0, len(mixed) + 1)), record)
    return world, mixed, t


def without_the_guard(monkeypatch: Any) -> None:
    """Take the predicate out of everything that a gateway shows."""

    def everything(known_at: Any, t: Any) -> Any:
        return np.ones(len(t), dtype=bool) if isinstance(t, np.ndarray) else True

    for module in (guard_module, view_module):
        monkeypatch.setattr(module, "visible_us", everything)
