"""One reading of a price, of a unit and of an ending, by whatever door it comes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from beforehand.errors import BadAnswer
from beforehand.records.world import PricePoint, Resolution
from beforehand.sources import kalshi, polymarket, polymarket_data
from beforehand.sources.readings import Quote, dollars, of_payouts, of_result, of_winners, quoted
from beforehand.world.importers.books import Book
from beforehand.world.importers.dump_markets import records_of

NOW = datetime(2026, 1, 6, 18, tzinfo=UTC)
NOTHING = Quote(None, None, None)
QUOTES: dict[str, tuple[tuple[float | None, float | None, float | None], Quote]] = {
    "two sides": ((0.4, 0.5, 0.1), Quote(0.45, 0.4, 0.5)),
    "one cent apart": ((0.01, 0.99, None), Quote(0.5, 0.01, 0.99)),
    "no offer": ((0.02, 1.0, 0.03), Quote(0.03, 0.02, None)),
    "no bid": ((0.0, 0.99, 0.03), Quote(0.03, None, 0.99)),
    "neither, traded": ((0.0, 1.0, 0.03), Quote(0.03, None, None)),
    "neither, never traded": ((0.0, 1.0, 0.0), NOTHING),
    "zeros everywhere": ((0.0, 0.0, 0.0), NOTHING),
    "ones everywhere": ((1.0, 1.0, 1.0), NOTHING),
    "nulls": ((None, None, None), NOTHING),
    "no offer, never traded": ((0.02, 1.0, 0.0), Quote(None, 0.02, None)),
    "crossed": ((0.6, 0.5, 0.55), Quote(0.55, None, None)),
    "locked": ((0.5, 0.5, None), Quote(0.5, 0.5, 0.5)),
}


def listing(bid: float | None, ask: float | None, trade: float | None) -> Any:
    """A market as Kalshi lists it."""
    named = {"yes_bid": bid, "yes_ask": ask, "last_price": trade}
    prices = {f"{key}_dollars": None if p is None else f"{p:.4f}" for key, p in named.items()}
    return {"ticker": "KXA-1", "title": "Will it?", "status": "active", **prices}


def in_cents(bid: float | None, ask: float | None, trade: float | None) -> Any:
    """The same in whole cents, as it was listed before."""
    named = {"yes_bid": bid, "yes_ask": ask, "last_price": trade}
    cents = {key: None if p is None else round(100 * p) for key, p in named.items()}
    return {"ticker": "KXA-1", "title": "Will it?", "status": "active", **cents}


def candle(bid: float | None, ask: float | None, trade: float | None, tier: str) -> Any:
    """A candle of the live or the historical tier, or one in cents."""
    sides = {"yes_bid": bid, "yes_ask": ask, "price": trade}

    def close(p: float | None) -> Any:
        if tier == "live":
            return {"close_dollars": None if p is None else f"{p:.4f}"}
        if tier == "historical":
            return {"close": None if p is None else f"{p:.4f}"}
        return {"close": None if p is None else round(100 * p)}

    return {"end_period_ts": 1_767_700_000, **{key: close(p) for key, p in sides.items()}}


def gamma(bid: float | None, ask: float | None, trade: float | None, no_first: bool) -> Any:
    """A market as Gamma lists it, with YES or with NO first."""

    def other(p: float | None) -> float | None:
        return None if p is None else 1 - p

    if no_first:
        bid, ask, trade = other(ask), other(bid), other(trade)
    return {
        "conditionId": "0xa",
        "question": "Will it?",
        "active": True,
        "outcomes": '["No", "Yes"]' if no_first else '["Yes", "No"]',
        "clobTokenIds": '["1", "2"]',
        "bestBid": bid,
        "bestAsk": ask,
        "lastTradePrice": trade,
    }


def shown(records: list[Any]) -> Quote:
    """The quote among some records."""
    points = [r for r in records if isinstance(r, PricePoint)]
    assert len(points) <= 1
    return Quote(points[0].price, points[0].bid, points[0].ask) if points else NOTHING


def near(found: Quote, wanted: Quote) -> bool:
    """Whether two quotes agree; where there is no price, nothing is kept of a book either."""
    wanted = wanted if wanted.price is not None else NOTHING
    return all(
        (a is None) == (b is None) and (a is None or b is None or abs(a - b) < 1e-9)
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("name", QUOTES)
def test_a_price_is_the_same_by_every_door(name: str) -> None:
    sides, wanted = QUOTES[name]
    assert quoted(*sides) == wanted
    doors = {
        "listing": shown(kalshi.parse_market(listing(*sides), NOW)),
        "gamma": shown(polymarket.parse_market(gamma(*sides, no_first=False), NOW)),
        "gamma, NO first": shown(polymarket.parse_market(gamma(*sides, no_first=True), NOW)),
    }
    for tier in ("live", "historical", "cents"):
        doors[tier] = shown(list(kalshi.parse_candles([candle(*sides, tier)], "KALSHI:KXA-1")))
    doors["listing in cents"] = shown(kalshi.parse_market(in_cents(*sides), NOW))
    for door, found in doors.items():
        assert near(found, wanted), (door, found, wanted)


@pytest.mark.parametrize("name", QUOTES)
def test_the_books_of_a_token_say_the_same(name: str) -> None:
    """CLOB's quotes and a dump's order books have no trade."""
    (bid, ask, _), wanted = QUOTES[name][0], quoted(*QUOTES[name][0][:2])
    raw = {"1": {"BUY": bid, "SELL": ask}}
    found = shown(list(polymarket.parse_quotes(raw, "1", "POLYMARKET:0xa", NOW)))
    if name != "crossed":  # Which side a vendor calls BUY has changed before.
        assert near(found, wanted)
    book = Book()
    levels = [[{"price": p, "size": 1}] if p is not None else [] for p in (bid, ask)]
    book.snapshot(*levels)
    best = book.best()
    assert (best is not None) == (wanted.price is not None)
    assert best is None or best == (bid, ask)


def test_units_are_told_by_what_they_are() -> None:
    assert dollars({"close_dollars": "0.4500"}, "close") == 0.45
    assert dollars({"close": "0.4500"}, "close") == 0.45
    assert dollars({"close": 45}, "close") == 0.45
    assert dollars({"close": 1}, "close") == 0.01, "a cent, and no certainty"
    assert dollars({"close": 100}, "close") == 1.0
    assert dollars({"close": 45, "close_dollars": "0.4512"}, "close") == 0.4512
    assert dollars({"close": None}, "close") is None
    assert dollars({}, "close") is None
    for odd, why in ((101, "cents"), (-1, "cents"), (1.0, "dollars or cents"), (45.0, "dollars"), ("45", "price")):  # fmt: skip
        with pytest.raises(BadAnswer, match=why):
            dollars({"close": odd}, "close")


def test_a_book_in_either_unit() -> None:
    new = {"orderbook_fp": {"yes_dollars": [["0.40", "10.00"]], "no_dollars": [["0.45", "5.00"]]}}
    old = {"orderbook": {"yes": [[40, 10]], "no": [[45, 5]]}}
    books = [kalshi.parse_book(raw, "KALSHI:KXA-1", NOW) for raw in (new, old)]
    assert books[0] == books[1]
    assert (books[0].bids[0].price, books[0].asks[0].price) == (0.4, 0.55)
    empty = {"orderbook": {"yes": None, "no": None}}
    assert not kalshi.parse_book(empty, "KALSHI:KXA-1", NOW).bids
    with pytest.raises(BadAnswer, match="no yes_dollars"):
        kalshi.parse_book({"orderbook": {"yes_points": [[40, 10]]}}, "KALSHI:KXA-1", NOW)


ENDINGS: dict[str, tuple[float, float] | None] = {
    "yes": (1.0, 0.0),
    "no": (0.0, 1.0),
    "a third": (1 / 3, 2 / 3),
    "half each": (0.5, 0.5),
    "nothing paid": (0.0, 0.0),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_is_the_same_by_every_door(name: str) -> None:
    paid = ENDINGS[name]
    assert paid is not None
    wanted = of_payouts(*paid)
    base = {
        "conditionId": "0xa",
        "question": "Will it?",
        "closed": True,
        "clobTokenIds": '["1","2"]',
    }
    of_gamma = {
        **base,
        "umaResolutionStatus": "resolved",
        "outcomes": '["Yes", "No"]',
        "outcomePrices": [f"{p:.9f}" for p in paid],
    }
    turned = {**of_gamma, "outcomes": '["No", "Yes"]', "outcomePrices": of_gamma["outcomePrices"][::-1]}  # type: ignore[index]  # fmt: skip
    doors = {
        "gamma": polymarket.parse_market(of_gamma, NOW),
        "gamma, NO first": polymarket.parse_market(turned, NOW),
    }
    row = {"condition_id": "0xa", "status": "resolved", "payouts": [f"{p * 1e6:.0f}" for p in paid]}
    if sum(paid) > 0:
        doors["data api"] = polymarket_data.parse_resolutions([row], NOW)
    else:
        with pytest.raises(BadAnswer, match="not a pair of amounts"):
            polymarket_data.parse_resolutions([row], NOW)
    if name in ("yes", "no", "half each"):
        tokens = [{"token_id": str(k), "outcome": o, "winner": p == 1.0, "price": p} for k, (o, p) in enumerate(zip(("Yes", "No"), paid, strict=True))]  # fmt: skip
        clob = {"condition_id": "0xa", "closed": True, "tokens": tokens, "is_50_50_outcome": name == "half each"}  # fmt: skip
        doors["clob"] = polymarket.parse_market(clob, NOW)
        dump = {"_fetched_at": NOW, "condition_id": "0xa", "outcomes": ["Yes", "No"], "outcome_prices": [*paid], "closed": True, "end_date": NOW}  # fmt: skip
        doors["dump"] = list(records_of("POLYMARKET", dump, {}))
    for door, records in doors.items():
        found = [(r.status, r.payout) for r in records if isinstance(r, Resolution)]
        if wanted is None:
            assert not found, door
        else:
            ((status, payout),) = found
            assert status == wanted.status, door
            assert payout == pytest.approx(wanted.payout, abs=1e-6), door


def test_results_of_kalshi() -> None:
    for said in ("", "null", None):
        assert of_result(said or "", None, "m") is None
    assert of_result("yes", None, "m") == ("resolved", 1.0)
    assert of_result("NO", None, "m") == ("resolved", 0.0)
    assert of_result("scalar", 0.4, "m") == ("resolved", 0.4)
    assert of_result("voided", None, "m") == ("void", None)
    with pytest.raises(BadAnswer, match="unknown result 'maybe'"):
        of_result("maybe", None, "m")
    with pytest.raises(BadAnswer, match="without settlement_value"):
        of_result("scalar", None, "m")
    rows = [{"_fetched_at": NOW, "ticker": "A", "title": "?", "result": r, "close_time": NOW} for r in ("yes", "void", "maybe", None)]  # fmt: skip
    notes = dict[str, int]()
    found = [r for row in rows for r in records_of("KALSHI", row, notes)]
    assert [(r.status, r.payout) for r in found if isinstance(r, Resolution)] == [
        ("resolved", 1.0),
        ("void", None),
    ]
    assert notes == {"endings_of_an_unknown_kind": 1}


def test_flags_of_winners() -> None:
    assert of_winners([True, False], False) == ("resolved", 1.0)
    assert of_winners([True, True], False) == ("void", None)
    assert of_winners([False, False], True) == ("void", None)
    assert of_winners([False, False], False) is None
