"""What the vendors' other services would have answered in a simulated world: books, comments,
wallets, feeds, threads, Bitcoin, and what each source adds itself. There is a little of each, so
that every tool has something to answer without a network; all of it is made up, and says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from beforehand.clock import iso
from beforehand.ids import digest
from beforehand.records.record import Record
from beforehand.records.world import (
    BookLevel,
    Market,
    MarketState,
    Observation,
    OrderBook,
    PricePoint,
)
from beforehand.sources import btc, google_news, reddit, web_search
from beforehand.sources.base import snapshot
from beforehand.sources.catalogue import OWN
from beforehand.sources.polymarket_data import SOURCE

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
SEARCH = "index"
"""The search under which the simulated feed, answer and threads are filed."""
_WALLETS = 4


Priced = Sequence[tuple[Market, Sequence[PricePoint]]]


def records(priced: Priced, start: datetime, stop: datetime, seed: int) -> Iterator[Record]:
    """Observations between two instants about these markets, in line with their prices."""
    rng = np.random.default_rng([seed, 2])
    wallets = [f"0x{digest([seed, i])[:40]}" for i in range(_WALLETS)]
    for market, prices in priced:
        yield from _about(rng, market, prices, wallets, stop)
    for at in _every(start, stop, 7 * DAY):
        yield from _wallets(rng, wallets, priced, at)
        volumes = sorted((float(v) for v in rng.integers(1_000, 90_000, 3)), reverse=True)
        rows = [_builder(rng, i + 1, volume) for i, volume in enumerate(volumes)]
        for period in ("day", "week", "month", "all"):
            yield snapshot(SOURCE, "builders", period, rows, at)
        yield from _texts(rng, at)
    price = 60_000.0
    for at in _every(start, stop, DAY):
        price = round(price * float(np.exp(rng.normal(0, 0.02))), 2)
        yield Observation(
            source=btc.SOURCE,
            kind="price",
            subject=btc.SUBJECT,
            id=iso(at),
            data={"price": price, "observed_at": iso(at), "source": "simulated"},
            known_at=at,
        )
    for source in OWN:
        if source.sample is not None:
            yield from source.sample(rng, start, stop)


def _every(start: datetime, stop: datetime, step: timedelta) -> Iterator[datetime]:
    at = start + step
    while at < stop:
        yield at
        at += step


def _price_at(prices: Sequence[PricePoint], at: datetime) -> float | None:
    """The last price known at an instant."""
    known = [p for p in prices if p.known_at <= at]
    return max(known, key=lambda p: p.observed_at).price if known else None


def _about(
    rng: np.random.Generator,
    market: Market,
    prices: Sequence[PricePoint],
    wallets: list[str],
    stop: datetime,
) -> Iterator[Record]:
    """States, books, holders, trades and comments of one market in its first weeks."""
    event = (market.event_id or "").partition(":")[2]
    for week in range(3):
        at = market.known_at + (7 * week + 1) * DAY
        if at >= min(stop, market.scheduled_close or stop):
            return
        mid = _price_at(prices, at)
        if mid is None:
            continue
        yield MarketState(
            market_id=market.id,
            status="active",
            volume=float(rng.integers(1_000, 500_000)),
            liquidity=float(rng.integers(100, 20_000)),
            last_price=mid,
            known_at=at,
        )
        levels = [(0.01 * (i + 1), float(rng.integers(10, 2_000))) for i in range(5)]
        yield OrderBook(
            market_id=market.id,
            bids=tuple(BookLevel(price=round(mid - d, 3), size=s) for d, s in levels if mid > d),
            asks=tuple(
                BookLevel(price=round(mid + d, 3), size=s) for d, s in levels if mid + d < 1
            ),
            known_at=at,
        )
        holders = [
            {"wallet": w, "amount": float(rng.integers(10, 5_000)), "outcome_index": i % 2}
            for i, w in enumerate(wallets)
        ]
        yield snapshot(SOURCE, "holders", market.native_id, holders, at)
        yield _trade(rng, market.native_id, mid, at + HOUR)
        yield _comment(rng, event, market.native_id, week, at + 2 * HOUR)


def _trade(rng: np.random.Generator, ticker: str, price: float, at: datetime) -> Observation:
    name = digest([ticker, iso(at)])[:16]
    data = {
        "trade_id": name,
        "time": iso(at),
        "yes_price": price,
        "count": float(rng.integers(1, 500)),
        "taker_side": "yes" if rng.random() < 0.5 else "no",
    }
    return _row("kalshi", "trade", ticker, name, data, at)


def _comment(
    rng: np.random.Generator, event: str, market: str, week: int, at: datetime
) -> Observation:
    name = digest([market, week, "comment"])[:12]
    data = {
        "id": name,
        "body": f"Simulated comment {week + 1} on {market}.",
        "wallet": None,
        "reply_to": None,
        "created_at": iso(at),
    }
    made = _row(SOURCE, "comment", f"event:{event}", name, data, at)
    author = f"sim-{int(rng.integers(1, 50)):02d}"
    now = {"author": author, "reactions": int(rng.integers(0, 20)), "reports": 0}
    return made.model_copy(update={"now": now, "now_known_at": at + 30 * DAY})


def _wallets(
    rng: np.random.Generator, wallets: list[str], priced: Priced, at: datetime
) -> Iterator[Observation]:
    """Positions, as fetched at `at`, and one trade of each wallet."""
    trading = [
        (market, price)
        for market, prices in priced
        if (market.scheduled_close or at) > at and (price := _price_at(prices, at)) is not None
    ]
    for wallet in wallets if trading else ():
        market, price = trading[int(rng.integers(0, len(trading)))]
        size = float(rng.integers(5, 900))
        about = {"condition_id": market.native_id, "title": market.question}
        held = {
            **about,
            "wallet": wallet,
            "current_size": size,
            "avg_price": price,
            "outcome_index": 0,
        }
        yield snapshot(SOURCE, "positions", wallet, [held], at)
        name = digest([wallet, iso(at)])[:16]
        data = {**about, "type": "TRADE", "side": "BUY", "size": size, "price": price}
        data |= {"wallet": wallet, "timestamp": int(at.timestamp()), "transaction_hash": name}
        yield _row(SOURCE, "activity", wallet, name, data, at)


def _builder(rng: np.random.Generator, rank: int, volume: float) -> dict[str, object]:
    return {
        "rank": str(rank),
        "builder_name": f"Simulated Builder {rank}",
        "volume": volume,
        "active_users": float(rng.integers(1, 400)),
        "verified": False,
    }


def _texts(rng: np.random.Generator, at: datetime) -> Iterator[Record]:
    """A feed, an answer, and a thread of that week."""
    level = int(rng.integers(100, 1000))
    title = f"Simulated headline: index at {level}"
    item: google_news.NewsItem = {
        "title": title,
        "source": "simulated wire",
        "link": "https://example.org/simulated",
        "published_at": iso(at - HOUR),
        "snippet": title,
        "guid": digest([title, iso(at)])[:16],
    }
    feed = google_news.build(SEARCH)
    yield snapshot(google_news.SOURCE, "feed", feed.subject, [item], at)
    cited = {"title": title, "url": item["link"], "snippet": title}
    answered = snapshot(
        web_search.SOURCE, "answer", web_search.subject(SEARCH, None, None), [cited], at
    )
    data = {
        **answered.data,
        "answer": f"Simulated answer: the index stands at {level}.",
        "tokens": {},
    }
    yield answered.model_copy(update={"data": data})
    name = digest(["thread", iso(at)])[:7]
    post = {
        "id": name,
        "subreddit": "simulated",
        "title": f"Where will the index go from {level}?",
        "selftext": "Simulated post.",
        "author": "sim",
        "created_at": iso(at),
        "permalink": f"/r/simulated/comments/{name}/",
        "url": None,
    }
    made = _row(reddit.SOURCE, "post", "simulated", name, post, at)
    now = {"score": int(rng.integers(0, 300)), "num_comments": 1}
    yield made.model_copy(update={"now": now, "now_known_at": at + 2 * DAY})
    reply = {"id": f"{name}c", "body": "Simulated reply.", "author": "sim"}
    reply |= {"created_at": iso(at + HOUR), "parent": f"t3_{name}"}
    yield _row(reddit.SOURCE, "comment", name, f"{name}c", reply, at + HOUR)


def _row(
    source: str, kind: str, subject: str, name: str, data: Mapping[str, object], at: datetime
) -> Observation:
    return Observation(source=source, kind=kind, subject=subject, id=name, data=data, known_at=at)
