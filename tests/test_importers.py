"""Importers: what is taken, what is rejected with file, line and reason, and what it is known at."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beforehand.clock import from_us, iso, parse_instant
from beforehand.errors import BadAnswer, InputError
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.cutoff import document_known_at
from beforehand.records.world import Document, Market, OrderBook, PricePoint, Resolution
from beforehand.sources import kalshi, polymarket
from beforehand.world.importers import (
    Rejects,
    documents,
    forecastbench,
    markets,
    predictions,
    prices,
)

FETCHED = datetime(2026, 8, 1, tzinfo=UTC)
ROW = {
    "source": "manifold",
    "id": "x1",
    "url": "https://example.org/x1",
    "question": "Will it?",
    "background": "N/A",
    "resolution_criteria": "It does.",
    "market_info_resolution_criteria": "N/A",
    "open_datetime": "2025-01-01T00:00:00+00:00",
    "close_datetime": "2026-01-01T00:00:00+00:00",
    "rounds": ["2025-03-02", "2025-05-11"],
    "freeze": [],
    "history": [["2025-02-01", 0.4, 1738456200], ["2025-02-03", 0.5, 1738629000]],
    "resolution": {"outcome": 1.0, "date": "2025-06-30", "first_published": 1751200000},
}


def test_a_market_row() -> None:
    text, prices, ending = markets.parse_row(ROW)
    assert isinstance(text, Market)
    assert (text.id, text.currency, iso(text.known_at)) == (
        "MANIFOLD:x1",
        "play",
        "2025-05-11T23:59:59.999999Z",
    )
    assert isinstance(prices, PriceSeriesRow)
    assert iso(from_us(prices.observed_at[0])) == "2025-02-01T23:59:59.999999Z"
    assert iso(from_us(prices.known_at[0])) == "2025-02-02T00:30:00Z"
    assert len(prices.price) == 2
    assert isinstance(ending, Resolution)
    # First published before the end of its own date: the later of the two counts.
    assert iso(ending.known_at) == iso(ending.resolved_at) == "2025-06-30T23:59:59.999999Z"
    assert ending.first_published == datetime.fromtimestamp(1751200000, UTC)


def test_bad_lines_name_file_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl.gz"
    bad = [{**ROW, "history": [["2025-02-01", 1.4, 1]]}, {k: ROW[k] for k in ROW if k != "source"}]
    lines = [json.dumps(ROW), "{broken", *(json.dumps(b) for b in bad), "[1]", "", json.dumps(ROW)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(InputError, match=r"m\.jsonl\.gz:2: .*Nothing of this file"):
        list(markets.read(path, Rejects(), {}))
    rejects = Rejects(skip_bad=True)
    taken = list(markets.read(path, rejects, {}))
    assert len(taken) == 6
    assert [r.line for r in rejects] == [2, 3, 4, 5]
    assert "row 1: the price 1.4 is not from 0 to 1" in rejects[1].reason
    assert "'source' is missing" in rejects[2].reason


def test_documents_are_known_at_capture() -> None:
    both = {
        "id": "a",
        "title": "t",
        "published_at": "2026-01-01",
        "captured_at": "2026-01-03T05:00:00Z",
    }
    document = documents.parse_row(both)
    assert isinstance(document, Document)
    assert document.text_known_at == parse_instant("2026-01-03T05:00:00Z")
    assert iso(document.known_at) == "2026-01-01T23:59:59.999999Z"
    grades = {
        grade: document_known_at(document.known_at, document.text_known_at, grade)
        for grade in ("captured", "published")
    }
    assert grades == {"captured": document.text_known_at, "published": document.known_at}
    dated = documents.parse_row({"id": "b", "title": "t", "published_at": "2026-01-01"})
    assert iso(dated.known_at) == "2026-01-01T23:59:59.999999Z"
    assert dated.text_known_at is None
    with pytest.raises(ValueError, match="needs a time"):
        documents.parse_row({"id": "c", "title": "t"})
    with pytest.raises(ValueError, match="time zone"):
        documents.parse_row({"id": "d", "captured_at": "2026-01-03T05:00:00"})


def test_prices_csv(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(
        "\ufeffID,Time,Price,bid,ask\nKALSHI:a,2026-01-01T00:00:00Z,0.4,0.39,0.41\n"
        "b,2026-01-02,0.5,,\nc,2026-01-02T00:00:00,0.5,,\nd,2026-01-02T00:00:00Z,x,,\n"
    )
    rejects = Rejects(skip_bad=True)
    first, second = prices.read(path, rejects, "local")
    assert isinstance(first, PricePoint)
    assert isinstance(second, PricePoint)
    assert (first.market_id, first.bid, second.market_id) == ("KALSHI:a", 0.39, "LOCAL:b")
    assert iso(second.known_at) == "2026-01-02T23:59:59.999999Z"
    assert [r.line for r in rejects] == [4, 5]
    path.write_text("id,when\n")
    with pytest.raises(InputError, match="lacks time, price"):
        list(prices.read(path, Rejects(), "local"))


def test_predictions_and_resolutions(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [
        {
            "id": "e1",
            "prediction": {"probability": 0.3},
            "metadata": {"model": "m", "timestamp": "2026-01-01T00:00:00Z"},
        },
        {"id": "e1", "outcome": 0, "resolved_at": "2026-02-01T00:00:00Z"},
        {"id": "e1", "prediction": {"probability": 0.3}},
        {"id": "e2", "outcome": 3, "resolved_at": "2026-02-01T00:00:00Z"},
    ]
    path.write_text("\n".join(json.dumps(r) for r in rows))
    rejects = Rejects(skip_bad=True)
    forecast, ending = predictions.read(path, rejects, "LOCAL")
    assert forecast.market_id == ending.market_id == "LOCAL:e1"  # type: ignore[attr-defined]
    assert [r.line for r in rejects] == [3, 4]


def test_forecastbench_sets(tmp_path: Path) -> None:
    questions = {
        "forecast_due_date": "2026-01-04",
        "question_set": "x",
        "questions": [
            {
                "id": "m1",
                "source": "metaculus",
                "question": "Q1",
                "resolution_dates": "N/A",
                "market_info_open_datetime": "N/A",
                "market_info_close_datetime": "N/A",
            },
            {
                "id": "d1",
                "source": "fred",
                "question": "Up by {resolution_date}?",
                "resolution_dates": ["2026-01-11", "2026-02-03"],
            },
            {"id": ["m1", "m2"], "source": "metaculus", "question": "both"},
        ],
    }
    resolutions = {
        "forecast_due_date": "2026-01-04",
        "resolutions": [
            {
                "id": "m1",
                "source": "metaculus",
                "resolution_date": "2026-01-09",
                "resolved_to": 1,
                "resolved": True,
            },
            {
                "id": "m2",
                "source": "metaculus",
                "resolution_date": "2026-01-09",
                "resolved_to": 0.3,
                "resolved": False,
            },
            {
                "id": "d1",
                "source": "fred",
                "resolution_date": "2026-01-11",
                "resolved_to": 0,
                "resolved": True,
            },
        ],
    }
    (tmp_path / "q.json").write_text(json.dumps(questions))
    (tmp_path / "r.json").write_text(json.dumps(resolutions))
    notes: dict[str, int] = {}
    asked = list(forecastbench.read(tmp_path / "q.json", Rejects(), notes, FETCHED))
    assert [m.id for m in asked] == [  # type: ignore[attr-defined]
        "METACULUS:m1",
        "FRED:d1@2026-01-11",
        "FRED:d1@2026-02-03",
    ]
    assert asked[1].question == "Up by 2026-01-11?"  # type: ignore[attr-defined]
    assert notes == {"combination_questions_left_out": 1}
    endings = list(forecastbench.read(tmp_path / "r.json", Rejects(), {}, FETCHED))
    assert [type(r).__name__ for r in endings] == ["Resolution", "PricePoint", "Resolution"]
    assert all(r.known_at == FETCHED for r in endings)  # type: ignore[attr-defined]
    (tmp_path / "n.json").write_text("{}")
    with pytest.raises(InputError, match="neither a question set"):
        list(forecastbench.read(tmp_path / "n.json", Rejects(), {}, FETCHED))


GAMMA = {
    "id": "7",
    "conditionId": "0xc",
    "question": "Will it?",
    "outcomes": '["Yes", "No"]',
    "outcomePrices": '["0.995", "0.005"]',
    "clobTokenIds": '["11", "12"]',
    "closed": False,
    "active": True,
    "bestBid": 0.99,
    "bestAsk": 1,
    "volumeNum": 5.5,
    "slug": "will-it",
    "endDate": "2026-09-01T00:00:00Z",
    "closedTime": "2026-07-30 20:56:36+00",
}


def kinds(records: list) -> list[str]:  # type: ignore[type-arg]
    return [type(r).__name__ for r in records]


def test_polymarket_a_pinned_price_is_no_resolution() -> None:
    open_ = polymarket.parse_market(GAMMA, FETCHED)
    assert kinds(open_) == ["Market", "MarketState", "PricePoint"]
    assert all(r.known_at == FETCHED for r in open_)  # type: ignore[attr-defined]
    closed = polymarket.parse_market({**GAMMA, "closed": True}, FETCHED)
    assert kinds(closed) == ["Market", "MarketState"]


@pytest.mark.parametrize(
    ("change", "status", "payout"),
    [
        ({"umaResolutionStatus": "resolved", "outcomePrices": '["1", "0"]'}, "resolved", 1.0),
        (
            {"umaResolutionStatus": "resolved", "outcomePrices": '["0.0000008", "0.9999992"]'},
            "resolved",
            0.0,
        ),
        ({"umaResolutionStatus": "resolved", "outcomePrices": '["0.5", "0.5"]'}, "void", None),
        ({"umaResolutionStatus": "disputed"}, "disputed", None),
    ],
)
def test_polymarket_endings(change: dict[str, object], status: str, payout: float | None) -> None:
    ending = polymarket.parse_market({**GAMMA, "closed": True, **change}, FETCHED)[-1]
    assert isinstance(ending, Resolution)
    assert (ending.status, ending.payout, ending.known_at) == (status, payout, FETCHED)


def test_polymarket_refusals() -> None:
    for change, reason in (
        ({"outcomes": '["a"]'}, "outcomes"),
        ({"version": "v9"}, "version"),
        ({"conditionId": ""}, "conditionId"),
    ):
        with pytest.raises(BadAnswer, match=reason):
            polymarket.parse_market({**GAMMA, **change}, FETCHED)
    with pytest.raises(BadAnswer, match="--market"):
        polymarket.parse({"history": []}, FETCHED)
    v2 = polymarket.parse_market({**GAMMA, "version": "v2", "positionIds": ["21", "22"]}, FETCHED)
    assert v2[0].tokens == ("21", "22")  # type: ignore[attr-defined]


def test_polymarket_book_leaves_best_first() -> None:
    raw = {
        "market": "0xc",
        "asset_id": "11",
        "timestamp": "1785734468581",
        "bids": [{"price": "0.01", "size": "5"}, {"price": "0.02", "size": "6"}],
        "asks": [],
    }
    book = polymarket.parse_book(raw)
    assert ([level.price for level in book.bids], book.asks) == ([0.02, 0.01], ())


KALSHI = {
    "ticker": "RAIN-26",
    "event_ticker": "RAIN",
    "title": "Rain?",
    "status": "active",
    "yes_bid_dollars": "0.5300",
    "yes_ask_dollars": "0.5500",
    "last_price_dollars": "0.6000",
    "volume_fp": "10.50",
    "result": "",
    "close_time": "2026-09-01T00:00:00Z",
}


def test_kalshi_market_and_settlements() -> None:
    market, state, point = kalshi.parse_market(KALSHI, FETCHED)
    assert isinstance(point, PricePoint)
    assert (point.price, point.bid, point.ask) == (0.54, 0.53, 0.55)
    for change, payout in (
        (({"result": "yes"}), 1.0),
        (({"result": "no"}), 0.0),
        ({"result": "scalar", "settlement_value_dollars": "0.3300"}, 0.33),
    ):
        ending = kalshi.parse_market({**KALSHI, "status": "finalized", **change}, FETCHED)[-1]
        assert isinstance(ending, Resolution)
        assert ending.payout == payout
    with pytest.raises(BadAnswer, match="unknown result"):
        kalshi.parse_market({**KALSHI, "status": "finalized", "result": "maybe"}, FETCHED)
    assert kinds(kalshi.parse_market({**KALSHI, "status": "closed"}, FETCHED)) == [
        "Market",
        "MarketState",
    ]


def test_kalshi_candles_of_both_tiers_are_known_at_their_end() -> None:
    live = {
        "end_period_ts": 1785899820,
        "price": {"close_dollars": "0.7600"},
        "yes_bid": {"close_dollars": "0.7500"},
        "yes_ask": {"close_dollars": "0.7600"},
        "volume_fp": "4866.38",
    }
    old = {
        "end_period_ts": 1730847600,
        "price": {"close": "0.5900"},
        "volume": "3.00",
        "yes_bid": {"close": "0.5800"},
        "yes_ask": {"close": "0.5900"},
    }
    carried = {
        "end_period_ts": 1730847660,
        "price": {"previous_dollars": "0.4100"},
        "yes_bid": {"close_dollars": "0.0000"},
        "yes_ask": {"close_dollars": "1.0000"},
    }
    empty = {"end_period_ts": 1730847720, "price": {}, "yes_bid": None, "yes_ask": None}
    a, b = kalshi.parse_candles([live, old, carried, empty], "KALSHI:X")
    assert (a.price, b.price) == (0.755, 0.585), "a close carried forward was not observed then"
    assert a.known_at == a.observed_at == datetime.fromtimestamp(1785899820, UTC)


def test_kalshi_book_asks_come_from_no_bids() -> None:
    raw = {
        "orderbook_fp": {
            "yes_dollars": [["0.10", "1.00"], ["0.20", "2.00"]],
            "no_dollars": [["0.60", "3.00"], ["0.70", "4.00"]],
        }
    }
    book = kalshi.parse_book(raw, "KALSHI:X", FETCHED)
    assert isinstance(book, OrderBook)
    assert [level.price for level in book.bids] == [0.2, 0.1]
    assert [level.price for level in book.asks] == [0.3, 0.4]
