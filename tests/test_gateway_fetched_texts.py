"""What a fetch shows is known since the fetch: texts, names, scores and removals under a pin."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shapes
from beforehand.clock import iso
from beforehand.config import Home, Workspace
from beforehand.errors import ReplayMiss
from beforehand.gateway.opening import connect
from beforehand.records.record import Record
from beforehand.records.world import Market, Observation, OrderBook, PricePoint, Resolution
from beforehand.sources import edgar, kalshi, polymarket, polymarket_data, reddit
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.tools.bounds import thin
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage

load_tools()
T0 = datetime.fromtimestamp(shapes.T0, UTC)
SOON, T, LATE = T0 + timedelta(days=2), T0 + timedelta(days=5), T0 + timedelta(days=60)


def box(tmp_path: Path, records: list[Record], pinned: datetime = T) -> Toolbox:
    """A toolbox over these records, pinned."""
    ArchiveWriter(tmp_path / "a").add(
        records, importer="t", source="", source_digest="", recorded_at=LATE
    )
    home = Home(tmp_path)
    return Toolbox(
        connect(Workspace(home), "replay", tmp_path / "a").gateway, Storage(home), pinned
    )


def test_a_later_fetch_of_a_thread_changes_nothing_at_t(tmp_path: Path) -> None:
    first = reddit.parse(shapes.listing(("t3", shapes.POST)), SOON)
    removed = {**shapes.POST, "selftext": "[removed]", "author": "[deleted]", "score": 999}
    later = reddit.parse(shapes.listing(("t3", removed)), LATE)
    risen = reddit.parse(shapes.listing(("t3", {**shapes.POST, "score": 500})), LATE)
    for records in (first, [*first, *later], [*later, *first], [*first, *risen], [*risen, *first]):
        folder = tmp_path / str(id(records))
        shown = box(folder, list(records)).call(
            "reddit_search_and_fetch_threads", {"keywords": ["rain"]}
        )
        (thread,) = shown.content["threads"]
        assert (thread["selftext"], thread["author"], thread["score"]) == (
            "Who knows.",
            "cloud",
            12,
        )
    alone = box(tmp_path / "x", list(later), T)
    with pytest.raises(ReplayMiss):  # A removal is known when it is seen.
        alone.call("reddit_search_and_fetch_threads", {"keywords": ["rain"]})


def test_names_and_titles_are_those_of_the_fetch(tmp_path: Path) -> None:
    acted = polymarket_data.parse_rows(
        shapes.page([shapes.ACTIVITY_V2]), "activity", shapes.WALLET, LATE
    )
    named = {**shapes.COMMENT, "profile": {"name": "RENAMED"}}
    said = polymarket_data.parse_comments([named], "event:55", LATE)
    tools = box(tmp_path, [*acted, *said])
    (row,) = tools.call("get_user_activity", {"user": shapes.WALLET}).content["activity"]
    assert row["price"] == 0.6
    assert not {"title", "slug", "name"} & set(row)
    (comment,) = tools.call("list_comments", {"id": "55"}).content["comments"]
    assert comment["body"] == "Clouds."
    assert "author" not in comment
    unpinned = Toolbox(tools.gateway, tools.storage, None)
    (row,) = unpinned.call("get_user_activity", {"user": shapes.WALLET}).content["activity"]
    assert row["title"]


def test_distinct_fills_stay_apart() -> None:
    two = [shapes.TRADE_V2, {**shapes.TRADE_V2, "price": 0.7}]
    rows = polymarket_data.parse_rows(shapes.page(two), "trades", "c", LATE)
    assert len({row.id for row in rows}) == 3


def test_a_filing_is_known_when_it_was_accepted() -> None:
    recent = {k: list(v) for k, v in shapes.SUBMISSIONS["filings"]["recent"].items()}
    recent["acceptanceDateTime"] = ["2025-11-01T02:30:00.000Z"]
    raw = {**shapes.SUBMISSIONS, "filings": {"recent": recent}}
    _, filing = edgar.parse_submissions(raw, LATE)
    assert filing.known_at == datetime(2025, 11, 1, 2, 30, tzinfo=UTC)


def test_a_candle_that_carries_a_close_forward_observed_nothing() -> None:
    carried = {"end_period_ts": shapes.T0, "price": {"previous_dollars": "0.10"}}
    assert kalshi.parse_candles([carried], "KALSHI:X") == []
    assert kalshi.candle_rows({"candlesticks": [carried]}, "X", 60, LATE) == []


def test_imported_daily_candles_keep_their_eastern_day(tmp_path: Path) -> None:
    def day(end: int, high: str) -> dict[str, Any]:
        prices = {"open_dollars": ".05", "high_dollars": high, "low_dollars": ".01"}
        side = {"close_dollars": "0.10"}
        price = {**prices, "close_dollars": ".11"}
        return {
            "end_period_ts": end,
            "price": price,
            "yes_bid": side,
            "yes_ask": {"close_dollars": "0.12"},
        }

    raw = {"ticker": "KXD-1", "candlesticks": [day(1736139600, "0.90"), day(1736226000, "0.20")]}
    tools = box(tmp_path, list(kalshi.parse(raw, LATE)))
    found = tools.call("get_kalshi_candlesticks", {"id": "KXD-1", "period": "1d"}).content
    first, second = found["candles"]
    assert (first["eastern_day"], first["end"], first["high"]) == (
        "2025-01-05",
        "2025-01-06T05:00:00Z",
        0.9,
    )
    assert second["eastern_day"] == "2025-01-06"
    made = box(tmp_path / "m", [p for p in kalshi.parse(raw, LATE) if isinstance(p, PricePoint)])
    drawn = made.call("get_kalshi_candlesticks", {"id": "KXD-1", "period": "1d"}).content["candles"]
    assert [c["eastern_day"] for c in drawn] == ["2025-01-05", "2025-01-06"]
    assert [c["end"] for c in drawn] == ["2025-01-06T05:00:00Z", "2025-01-07T05:00:00Z"]


def test_kalshis_event_answer_holds_its_markets_beside_it() -> None:
    raw = {
        "event": {"event_ticker": "KXRAIN-26MAR", "title": "Rain"},
        "markets": [shapes.KALSHI_MARKET],
    }
    event, *rest = kalshi.parse(raw, LATE)
    assert event.market_ids == ("KALSHI:KXRAIN-26MAR-T1",)  # type: ignore[attr-defined]
    assert rest


def test_yes_is_yes_whatever_the_order(tmp_path: Path) -> None:
    """[No, Yes] markets of Gamma and of the CLOB: prices, quotes, tokens and winners turned."""
    turned = {
        **shapes.GAMMA_MARKET,
        "outcomes": '["No", "Yes"]',
        "outcomePrices": '["0.9", "0.1"]',
        "bestBid": 0.89,
        "bestAsk": 0.91,
        "lastTradePrice": 0.9,
    }
    market, state, point = polymarket.parse_market(turned, T)
    assert isinstance(point, PricePoint)
    assert (point.price, point.bid, point.ask) == (0.1, 0.09, 0.11)
    assert state.last_price == 0.1  # type: ignore[attr-defined]
    assert market.tokens == (shapes.NO, shapes.YES)  # type: ignore[attr-defined]
    clob = {
        "condition_id": shapes.CONDITION,
        "question": "Q?",
        "closed": True,
        "end_date_iso": "2026-01-01",
        "tokens": [
            {"token_id": "n", "outcome": "No", "price": 0.9, "winner": True},
            {"token_id": "y", "outcome": "Yes", "price": 0.1, "winner": False},
        ],
    }
    records = polymarket.parse_market(clob, T)
    ended = next(r for r in records if isinstance(r, Resolution))
    assert (ended.payout, ended.resolved_at) == (0.0, T), "no ending is made up"
    assert next(r for r in records if isinstance(r, Market)).tokens == ("y", "n")
    raw = {
        "market": shapes.CONDITION,
        "asset_id": "y",
        "timestamp": str(shapes.T0 * 1000),
        "bids": [{"price": "0.09", "size": "1"}],
        "asks": [{"price": "0.11", "size": "1"}],
    }
    tools = box(tmp_path, [*records, polymarket.parse_book(raw)])
    (book,) = tools.call("get_order_books", {"ids": [shapes.CONDITION]}).content["books"]
    assert (book["bids"], book["asks"]) == ([[0.09, 1.0]], [[0.11, 1.0]])


def test_prices_are_not_made_of_nothing() -> None:
    assert polymarket.parse_quotes({"1": {"SELL": "0.99"}}, "1", "POLYMARKET:x", T) == []
    unopened = {**shapes.GAMMA_MARKET, "outcomePrices": '["0", "0"]'}
    assert not any(isinstance(r, PricePoint) for r in polymarket.parse_market(unopened, T))
    disputed = {**shapes.GAMMA_MARKET, "umaResolutionStatus": "disputed"}
    kinds = [type(r) for r in polymarket.parse_market(disputed, T)]
    assert PricePoint in kinds
    assert Resolution in kinds


def test_one_odd_row_does_not_take_a_page_along() -> None:
    from beforehand.gateway.worlds.pull import Skipped, gamma_events, gamma_markets

    odd = [
        {**shapes.GAMMA_MARKET, "version": "v9"},
        {**shapes.GAMMA_MARKET, "outcomePrices": '["1.01", "0"]'},
        {**shapes.GAMMA_MARKET, "outcomes": "x"},
        {**shapes.GAMMA_MARKET, "createdAt": "yesterday"},
        "no object",
    ]
    *records, _ = gamma_markets({"markets": [*odd, shapes.GAMMA_MARKET]}, T)
    assert sum(isinstance(r, Market) and r.question is not None for r in records) == 1
    assert sum(isinstance(r, Skipped) for r in records) == len(odd)
    event = {**shapes.GAMMA_EVENT, "markets": [*odd, shapes.GAMMA_MARKET]}
    assert len(gamma_events({"events": [event, "no object"]}, T)) >= 3


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=30, max_size=200))
def test_thinned_candles_keep_their_extremes(pairs: list[tuple[float, float]]) -> None:
    rows = [
        {"low": min(a, b), "high": max(a, b), "close": None, "end": iso(T0 + timedelta(hours=i))}
        for i, (a, b) in enumerate(pairs)
    ]
    columns = (("low", "close", "yes_bid"), ("high", "close", "yes_ask"))
    kept = list(thin(rows, 20, columns))
    assert len(kept) <= 20
    assert max(r["high"] for r in kept) == max(r["high"] for r in rows)
    assert min(r["low"] for r in kept) == min(r["low"] for r in rows)
    silent = [{"close": None, "yes_bid": b, "yes_ask": b} for b, _ in pairs]
    assert len(thin(silent, 20, columns)) > 2


def test_rows_keep_their_parts_when_they_are_cut(tmp_path: Path) -> None:
    """A cut answer drops whole rows: a level keeps its size, a market its outcomes."""
    records: list[Record] = []
    for i in range(20):
        name = f"POLYMARKET:m{i:02d}"
        records.append(
            Market(id=name, venue="POLYMARKET", native_id=f"m{i:02d}", question="Q?", known_at=T0)
        )
        levels = [{"price": 0.01 * (j + 1), "size": 100.0 + j} for j in range(20)]
        records.append(OrderBook(market_id=name, bids=levels, known_at=T0))  # type: ignore[arg-type]
    tools = box(tmp_path, records)
    ids = [f"m{i:02d}" for i in range(20)]
    content = tools.call("get_order_books", {"ids": ids, "depth": 20, "max_tokens": 1500}).content
    assert 0 < len(content["books"]) < 20
    assert content["_meta"]["cut"]["rows_found"] == 20
    assert all(len(level) == 2 for book in content["books"] for level in book["bids"])
    small = tools.call("get_market", {"id": "m00", "max_tokens": 500})
    assert small.content["outcomes"] == ["Yes", "No"]
    assert small.tokens <= 500


def test_observations_survive_a_round_trip() -> None:
    (post,) = reddit.parse(shapes.listing(("t3", shapes.POST)), SOON)
    assert Observation.model_validate(json.loads(post.model_dump_json())) == post
