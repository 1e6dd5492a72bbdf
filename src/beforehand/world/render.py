"""A drawn world as archive records: questions, prices, news, endings, and canaries; and stored."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from beforehand.clock import MICROSECOND, Clock
from beforehand.errors import InputError
from beforehand.ids import digest, market_id
from beforehand.records.record import Record
from beforehand.records.world import (
    Document,
    Event,
    Market,
    PricePoint,
    RecordedForecast,
    Resolution,
)
from beforehand.score.leaks.report import CANARY
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter, ImportReport
from beforehand.world import services
from beforehand.world.simulate import DAY, VENUES, SimConfig, SimMarket, draw

TRUTH = "truth"

_NOUNS = (
    "harvest reservoir tariff ferry orchard turbine census marathon archive lighthouse "
    "satellite pipeline vaccine stadium railway aquifer festival currency glacier parliament "
    "shipyard observatory refinery museum bakery copper timber barley cobalt lithium"
).split()
_PLACES = (
    "Avaria Belmora Castrel Dunmark Elvania Farsund Galdor Hestia Ilmar Jorvia Kestria "
    "Lorvane Merovia Norland Ostrava Pellia Quorra Rivona Sandrel Torvald Ulmia Vantor "
    "Westria Yarrow"
).split()
_UP = "surges beats rises advances confirmed approval gains"
_DOWN = "slumps misses falls delayed rejected setback loses"


def records(config: SimConfig) -> Iterator[Record]:
    """The world as archive records: markets, events, prices, documents, resolutions, and the
    truth itself as a recorded forecaster."""
    rng = np.random.default_rng([config.seed, 1])
    markets = draw(config)
    topics = {
        event: (str(rng.choice(_PLACES)), str(rng.choice(_NOUNS)), int(rng.integers(100, 1000)))
        for event in sorted({m.event for m in markets})
    }
    by_event: dict[int, list[SimMarket]] = {}
    for market in markets:
        by_event.setdefault(market.event, []).append(market)
    known: list[tuple[Market, list[PricePoint]]] = []
    for event, members in by_event.items():
        place, noun, level = topics[event]
        yield Event(
            id=market_id("SIM", f"event-{event:04d}"),
            venue="SIM",
            title=f"{place} {noun} index",
            market_ids=tuple(_name(m) for m in members),
            mutually_exclusive=False,
            known_at=members[0].opened,
        )
        for rank, market in enumerate(members):
            told = list(_market_records(config, rng, market, place, noun, level + 5 * rank))
            prices = [r for r in told if isinstance(r, PricePoint)]
            known += [(r, prices) for r in told[:1] if isinstance(r, Market)]
            yield from told
    yield from _noise_documents(config, rng)
    yield from services.records(
        known, config.start, config.start + 7 * config.dates * DAY, config.seed
    )


BEGUN = frozenset({"archive.lock", "segments"})
"""What an archive holds before its manifest is written."""


def store_world(config: SimConfig, path: Path, clock: Clock) -> ImportReport:
    """Store a simulated world in the folder `path`; nothing happens if it is there already. Raises
    InputError for a folder that holds another world."""
    name = f"seed {config.seed}, {config.dates} dates"
    source = digest(repr(config).encode())
    if (path / "archive.json").is_file():
        for entry in Archive(path).manifest["imports"]:
            if (entry["importer"], entry["source_digest"]) != ("simulate", source):
                raise InputError(
                    f"{path} holds another world ({entry['importer']} {entry['source']}): name a "
                    "new folder"
                )
    elif path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder for the world")
    elif path.is_dir() and not {entry.name for entry in path.iterdir()} <= BEGUN:
        raise InputError(f"{path} is a folder with other files: name a new one for the world")
    return ArchiveWriter(path).add(
        records(config),
        importer="simulate",
        licence="CC0-1.0",
        source=name,
        source_digest=source,
        recorded_at=clock.now(),
    )


def _name(market: SimMarket) -> str:
    return market_id(market.venue, f"m{market.number:04d}")


def _market_records(
    config: SimConfig,
    rng: np.random.Generator,
    market: SimMarket,
    place: str,
    noun: str,
    level: int,
) -> Iterator[Record]:
    name = _name(market)
    question = f"Will the {place} {noun} index close above {level} on {market.resolved:%-d %B %Y}?"
    early = rng.random() < config.early
    rules = f"Resolves YES if the {place} {noun} index closes above {level}."
    text: dict[str, object] = {
        "id": name,
        "venue": market.venue,
        "native_id": name.split(":")[1],
        "question": question,
        "rules": rules,
        "event_id": market_id("SIM", f"event-{market.event:04d}"),
        "opened_at": market.opened,
        "scheduled_close": market.resolved + (30 * DAY if early else timedelta(0)),
        "currency": dict(VENUES)[market.venue],
        "domain": "simulated",
    }
    yield Market(**text, known_at=market.opened)
    if rng.random() < config.revised_text:
        late = market.opened + 0.6 * (market.resolved - market.opened)
        revised = {**text, "rules": f"{rules} Clarified: the official fixing counts."}
        yield Market(**revised, known_at=late.replace(microsecond=0))
    yield from _prices(config, rng, market)
    for day, truth in enumerate(market.truth.tolist()):
        yield RecordedForecast(
            market_id=name,
            predictor=TRUTH,
            probability=round(truth, 6),
            known_at=market.opened + day * DAY + timedelta(hours=8),
        )
    yield from _news(rng, market, place, noun)
    ending = market.payout
    yield Resolution(
        market_id=name,
        status="void" if ending is None else "resolved",
        payout=ending,
        resolved_at=market.resolved,
        known_at=market.resolved + timedelta(hours=int(rng.integers(1, 6))),
    )
    if rng.random() < config.canaries:
        yield from _canaries(market, f"{place} {noun}")


def _prices(config: SimConfig, rng: np.random.Generator, market: SimMarket) -> Iterator[PricePoint]:
    """The prices of the recorded days; a play-money venue has neither a book nor a volume."""
    book = market.venue != "SIMPLAY"
    for day in np.flatnonzero(market.recorded).tolist():
        observed = market.opened + int(day) * DAY + timedelta(hours=8)
        price = float(market.price[day])
        yield PricePoint(
            market_id=_name(market),
            price=price,
            bid=round(max(price - config.half_spread, 0.0), 3) if book else None,
            ask=round(min(price + config.half_spread, 1.0), 3) if book else None,
            volume=float(rng.integers(50, 5000)) if book else None,
            observed_at=observed,
            known_at=observed + timedelta(minutes=int(rng.integers(5, 60))),
        )


def _news(rng: np.random.Generator, market: SimMarket, place: str, noun: str) -> Iterator[Document]:
    """A headline on most days with a large move, in the move's direction; one in five says the
    opposite."""
    clipped = np.clip(market.truth, 0.002, 0.998)
    moves = np.diff(np.log(clipped / (1 - clipped)))
    for day in np.flatnonzero(np.abs(moves) > 0.45):
        if rng.random() > 0.6:
            continue
        up = (moves[day] > 0) != (rng.random() < 0.2)
        verb = rng.choice((_UP if up else _DOWN).split())
        at = market.opened + int(day + 1) * DAY + timedelta(hours=int(rng.integers(9, 23)))
        yield _document(
            f"news-{market.number:04d}-{int(day):03d}",
            f"{place} {noun} index {verb} as traders watch the fixing",
            at,
        )


def _canaries(market: SimMarket, topic: str) -> Iterator[Record]:
    """Planted at the first instant that no step may see: the end of the forecasting period."""
    end = market.resolved.replace(hour=0, minute=0, second=0, microsecond=0)
    says = "void" if market.payout is None else f"{market.payout:g}"
    yield _document(f"{CANARY}{market.number:04d}", f"{topic}: settled at {says}", end)
    if market.payout is not None:
        yield PricePoint(
            market_id=_name(market),
            price=market.payout,
            observed_at=end,
            known_at=end + MICROSECOND,
        )


def _noise_documents(config: SimConfig, rng: np.random.Generator) -> Iterator[Document]:
    for day in range(7 * config.dates):
        for item in range(3):
            place, noun = rng.choice(_PLACES), rng.choice(_NOUNS)
            verb = rng.choice((_UP + " " + _DOWN).split())
            at = config.start + day * DAY + timedelta(minutes=int(rng.integers(0, 1440)))
            yield _document(
                f"noise-{day:04d}-{item}", f"{place} mayor {verb} over {noun} budget debate", at
            )


def _document(name: str, title: str, at: datetime) -> Document:
    return Document(
        id=name,
        title=title,
        source="simulated wire",
        published_at=at,
        known_at=at,
        text_known_at=at,
        captured_how="simulated",
        licence="CC0-1.0",
    )
