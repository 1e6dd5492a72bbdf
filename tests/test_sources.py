"""Every parser on real captures, against the vendors' own models, and on shapes where no capture
exists."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import shapes
from beforehand.errors import BadAnswer, InputError
from beforehand.records.world import Document, Market, Observation, Resolution
from beforehand.sources import (
    btc,
    edgar,
    exa,
    google_news,
    kalshi,
    polymarket,
    polymarket_data,
    reddit,
    web_search,
)
from beforehand.sources.base import Request

AT = datetime(2026, 9, 1, tzinfo=UTC)
T0 = datetime.fromtimestamp(shapes.T0, UTC)


def load(data: Path, name: str) -> Any:
    return json.loads((data / "_look_only" / name).read_text())


# Polymarket's Data API: recorded v1, and v2 against the SDK's own models.


@pytest.mark.real_data
def test_recorded_data_api_rows(data: Path) -> None:
    raw = load(data, "polymarket/data_api_positions.json")
    (shot,) = polymarket_data.parse_rows(raw, "positions", "0x1", AT)
    assert shot.snapshot
    assert shot.known_at == AT
    first = shot.data["rows"][0]
    assert first["current_size"] == raw[0]["size"]
    assert first["percent_pnl"] == -99.9999
    assert first["wallet"] == raw[0]["proxyWallet"]
    raw = load(data, "polymarket/data_api_activity.json")
    mark, redeem, *_ = polymarket_data.parse_rows(raw, "activity", "0x1", AT)
    assert mark.id == "@fetch"
    assert redeem.known_at == datetime.fromtimestamp(raw[0]["timestamp"], UTC)
    assert "outcome_index" not in redeem.data, "999 is no outcome"
    assert redeem.data["type"] == "REDEEM"
    raw = load(data, "polymarket/data_api_trades.json")
    trades = polymarket_data.parse_rows(raw, "trades", "c", AT)[1:]
    assert [t.data["price"] for t in trades] == [r["price"] for r in raw]
    for name in ("nautilus_data_api_positions_response", "nautilus_data_api_trades_response"):
        kind = "positions" if "positions" in name else "trades"
        assert polymarket_data.parse_rows(load(data, f"polymarket/{name}.json"), kind, "x", AT)


@pytest.mark.real_data
def test_recorded_comments(data: Path) -> None:
    raw = load(data, "polymarket/gamma_comments_captured_2026-08-19.json")
    found = polymarket_data.parse_comments(raw, None, AT)
    assert [row.id for row in found] == [r["id"] for r in raw]
    first = found[0]
    assert first.subject == "event:45915"
    assert first.data["body"] == raw[0]["body"]
    assert first.known_at == datetime.fromisoformat(raw[0]["updatedAt"]), "late, never early"
    assert first.now_known_at == AT


def test_data_v2_against_the_venues_own_models() -> None:
    import polymarket.models.data as own
    from polymarket.models.data.activity import parse_activities

    (position,) = own.Position.parse_response_list([shapes.POSITION_V2])
    (shot,) = polymarket_data.parse_rows(shapes.page([shapes.POSITION_V2]), "positions", "w", AT)
    row = shot.data["rows"][0]
    for key in ("current_size", "avg_price", "current_value", "total_pnl", "percent_pnl"):
        assert row[key] == float(getattr(position, key)), key
    assert row["wallet"] == position.wallet
    (trade,) = own.Trade.parse_response_list([shapes.TRADE_V2])
    _, mine = polymarket_data.parse_rows(shapes.page([shapes.TRADE_V2]), "trades", "c", AT)
    assert mine.known_at == trade.timestamp
    assert (mine.data["size"], mine.data["price"]) == (float(trade.size), float(trade.price))
    (act,) = parse_activities([shapes.ACTIVITY_V2])
    _, did = polymarket_data.parse_rows(shapes.page([shapes.ACTIVITY_V2]), "activity", "w", AT)
    assert did.known_at == act.timestamp  # type: ignore[union-attr]
    assert did.data["usdc_size"] == float(act.amount)  # type: ignore[union-attr]
    (group,) = own.MetaHolder.parse_response_list([shapes.HOLDERS_V2])
    (held,) = polymarket_data.parse_rows(shapes.page([shapes.HOLDERS_V2]), "holders", "c", AT)
    assert held.data["rows"][0]["amount"] == float(group.holders[0].amount)
    assert held.data["rows"][0]["token_id"] == group.asset_id
    (builder,) = own.BuilderStanding.parse_response_list([shapes.BUILDER_V2])
    (board,) = polymarket_data.parse_rows(shapes.page([shapes.BUILDER_V2]), "builders", "all", AT)
    assert board.data["rows"][0]["volume"] == float(builder.volume)
    assert board.data["rows"][0]["rank"] == str(builder.rank)
    prices = own.PriceHistoryPoint.parse_response_list(shapes.PRICES_V2["data"])
    points, cursor = polymarket_data.parse_history(shapes.PRICES_V2, "POLYMARKET:x")
    assert cursor is None
    assert [p.price for p in points] == [float(p.price) for p in prices]
    assert points[0].known_at == prices[0].timestamp + timedelta(hours=12), "a bucket's end"
    assert points[2].known_at == prices[2].timestamp
    (ended,) = own.Resolution.parse_response_list([shapes.RESOLUTION_V2])
    (mine_ended,) = polymarket_data.parse_resolutions(shapes.page([shapes.RESOLUTION_V2]), AT)
    assert isinstance(mine_ended, Resolution)
    assert mine_ended.payout == 1.0
    assert mine_ended.resolved_at == ended.resolved_at
    half = {**shapes.RESOLUTION_V2, "payouts": [500_000, 500_000]}
    (void,) = polymarket_data.parse_resolutions(shapes.page([half]), AT)
    assert (void.status, void.payout) == ("void", None)  # type: ignore[attr-defined]
    disputed = {**shapes.RESOLUTION_V2, "status": "disputed", "payouts": None}
    (open_,) = polymarket_data.parse_resolutions(shapes.page([disputed]), AT)
    assert open_.status == "disputed"  # type: ignore[attr-defined]


@pytest.mark.real_data
def test_gamma_markets_and_events_against_the_venues_own_models(data: Path) -> None:
    from polymarket.models.gamma import Event as TheirEvent
    from polymarket.models.gamma import Market as Theirs

    compared = 0
    names = (
        "polymarket/gamma_markets_60_of_600.json",
        "pmvl_captures_2026-07/polymarket_markets.json",
    )
    for name in names:
        for raw in load(data, name):
            if not polymarket.is_binary(raw):
                continue
            try:
                theirs = Theirs.parse_response(raw)
            except Exception:  # The SDK is stricter than the captures.
                continue
            market, state, *_ = polymarket.parse_market(raw, AT)
            assert isinstance(market, Market)
            assert market.native_id == theirs.condition_id
            assert market.question == theirs.question
            assert market.slug == theirs.slug  # type: ignore[attr-defined]
            compared += 1
    assert compared >= 50
    seen = 0
    for raw in load(data, "pmvl_captures_2026-07/polymarket_events.json"):
        try:
            theirs_event = TheirEvent.parse_response(raw)
        except Exception:
            continue
        event, *_ = polymarket.parse_event(raw, AT)
        assert event.title == theirs_event.title  # type: ignore[attr-defined]
        seen += 1
    assert seen >= 1


def test_versions_of_the_protocol() -> None:
    v2 = {**shapes.GAMMA_MARKET, "version": "v2", "positionIds": ["9", "8"]}
    market, *_ = polymarket.parse_market(v2, AT)
    assert market.tokens == ("9", "8")  # type: ignore[attr-defined]
    assert polymarket.listed(v2).tokens == ("9", "8")  # type: ignore[union-attr]
    with pytest.raises(BadAnswer, match="unknown market version 'v3'"):
        polymarket.parse_market({**shapes.GAMMA_MARKET, "version": "v3"}, AT)


def test_requests_of_polymarket_follow_the_sdk() -> None:
    from polymarket._internal.actions import data as theirs

    def same(mine: Request, spec: Any, *extra: str) -> None:
        params = getattr(spec, "base_params", None) or spec.params
        assert mine.path == spec.path
        wanted = {
            k: str(v).lower() if isinstance(v, bool) else str(v)
            for k, v in dict(params).items()
            if v is not None
        }
        given = {k: v for k, v in mine.params if k not in ("limit", *extra)}
        assert given == wanted

    same(
        polymarket_data.trades_request(shapes.CONDITION, 5),
        theirs.list_trades_spec(condition_id=shapes.CONDITION),
    )
    same(
        polymarket_data.user_request("activity", shapes.WALLET, 5),
        theirs.list_activity_spec(user=shapes.WALLET, sort_direction="DESC", full_history=True),
    )
    same(
        polymarket_data.user_request("positions", shapes.WALLET, 5),
        theirs.list_positions_spec(user=shapes.WALLET),
    )
    same(
        polymarket_data.holders_request(shapes.CONDITION, 5),
        theirs.build_list_market_holders_spec(condition_ids=shapes.CONDITION),
    )
    same(
        polymarket_data.builders_request("week", 5),
        theirs.list_builder_leaderboard_spec(window="week"),
    )
    same(
        polymarket_data.resolutions_request(shapes.CONDITION),
        theirs.build_get_resolutions_spec(condition_ids=shapes.CONDITION),
    )
    same(
        polymarket_data.history_request("1", as_of=T0),
        theirs.build_list_price_history_spec(asset_id="1", as_of=T0),
    )
    end = T0 + timedelta(days=15)
    same(
        polymarket_data.history_request("1", start=T0, end=end, bucket_seconds=3600),
        theirs.build_list_price_history_spec(asset_id="1", start=T0, end=end, bucket_seconds=3600),
    )


def test_gamma_requests_sort_by_number() -> None:
    request = polymarket.markets_request(order="volume", closed=False)
    assert dict(request.params)["order"] == "volumeNum"
    assert dict(request.params)["closed"] == "false"
    assert request.path == "/markets/keyset"


def test_quotes_do_not_rely_on_the_name_of_a_side() -> None:
    for block in ({"BUY": "0.6", "SELL": "0.62"}, {"BUY": "0.62", "SELL": "0.6"}):
        (point,) = polymarket.parse_quotes({"1": block}, "1", "POLYMARKET:x", AT)
        assert (point.bid, point.ask, point.price) == (0.6, 0.62, 0.61)
    assert polymarket.parse_quotes({}, "1", "POLYMARKET:x", AT) == []


def test_exa_takes_only_what_was_stored_by_then() -> None:
    request = exa.search_request("rain", T0, 5)
    assert request.body["endPublishedDate"] == request.body["contents"]["snapshotAsOf"]
    assert not request.repeatable
    found, cost = exa.parse(shapes.EXA, AT, live=False)
    assert cost == 0.005
    stored, edited = found
    assert stored.text_known_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert edited.text_known_at is None, "no stored version: the strict grade hides it"
    live, _ = exa.parse(shapes.EXA, AT, live=True)
    assert live[1].text_known_at == AT
    assert "endPublishedDate" not in exa.search_request("rain", None, 5).body


@pytest.mark.real_data
def test_exa_request_fits_its_specification(data: Path) -> None:
    text = (data / "_look_only/news/exa-openapi-spec.yaml").read_text()
    for key in ("query", "numResults", "endPublishedDate", "contents", "maxCharacters"):
        assert f" {key}:" in text, key


def test_google_news_feeds() -> None:
    feed = google_news.build("fed", phrases=["rate cut"], exclude=["crypto"], edition="AE")
    assert feed.q == 'fed "rate cut" -crypto'
    assert feed.values == {"q": feed.q, "hl": "en-AE", "gl": "AE", "ceid": "AE:en"}
    assert feed.query_key == google_news.build('fed  "rate cut"  -crypto', edition="ae").query_key
    snapshot, document = google_news.parse(shapes.RSS.decode(), feed, AT)
    assert isinstance(document, Document)
    assert (document.title, document.source) == ("Rain in Avaria", "Example Post")
    assert document.text == "Rain in Avaria"
    assert document.known_at == AT
    assert document.published_at == T0
    assert isinstance(snapshot, Observation)
    assert snapshot.data["rows"][0]["link"] == "https://example.org/r"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ({"query": ""}, "empty search"),
        ({"query": "fed", "edition": "XX"}, "unknown edition"),
        ({"query": "fed filetype:pdf"}, "unsupported operator filetype:"),
        ({"query": "fed when:7d after:2026-01-01"}, "cannot be combined"),
        ({"query": "fed", "when": "soon"}, "not a span"),
        ({"query": "fed", "before": "2026-13-01"}, "not a day"),
        ({"query": 'fed "open'}, "not closed"),
        ({"query": "fed site:"}, "has no value"),
        ({"query": "x" * 600}, "at most 500"),
    ],
)
def test_bad_feeds_are_refused(build: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        google_news.build(**build)


def test_openai_answers() -> None:
    made = web_search.parse(shapes.OPENAI, "rain||", AT)
    assert made.data["answer"] == "It may rain in Avaria."
    assert made.data["rows"] == [
        {"title": "Rain", "url": "https://example.org/rain", "snippet": "It may rain in Avaria."}
    ]
    request = web_search.search_request("rain", 5, 24, "us")
    assert request.body["model"] == "gpt-5-nano"
    assert request.body["tools"][0]["user_location"]["country"] == "US"
    assert not request.repeatable


@pytest.mark.real_data
def test_reddit_captures(data: Path) -> None:
    total = 0
    for path in sorted((data / "reddit").glob("*.json")):
        body = json.loads(path.read_text())["body"]
        found = reddit.parse(body, AT)
        assert found, path
        assert all(row.known_at <= AT for row in found)
        assert all(set(row.now) <= {"score", "num_comments"} for row in found)
        total += len(found)
    assert total > 300


def test_an_edited_reddit_text_is_known_at_its_edit() -> None:
    thread = [shapes.listing(("t3", shapes.POST)), shapes.listing(("t1", shapes.REPLY))]
    post, reply = reddit.parse(thread, AT)
    assert post.known_at == T0
    assert reply.known_at == T0 + timedelta(seconds=120)
    (old,) = reddit.parse(shapes.listing(("t3", {**shapes.POST, "edited": True})), AT)
    assert old.known_at == AT


@pytest.mark.real_data
def test_edgar_capture(data: Path) -> None:
    raw = json.loads((data / "edgar/lpa_companyfacts.json").read_text())
    mark, *facts = edgar.parse_facts(raw, AT)
    values = [
        row
        for concepts in raw["facts"].values()
        for entry in concepts.values()
        for rows in entry["units"].values()
        for row in rows
    ]
    assert len(facts) == len(values) == mark.data["rows"]
    last = facts[-1]
    assert last.known_at.date().isoformat() == last.data["filed"]
    assert (last.known_at.hour, last.known_at.minute) == (23, 59), "the day is over"


def test_edgar_shapes() -> None:
    assert edgar.cik10("320193") == edgar.cik10("CIK0000320193") == "0000320193"
    with pytest.raises(InputError):
        edgar.cik10("apple")
    _, filing = edgar.parse_submissions(shapes.SUBMISSIONS, AT)
    assert filing.data["form"] == "10-K"
    assert filing.known_at.date().isoformat() == "2025-10-31"


def test_bitcoin() -> None:
    (now,) = btc.parse_ticker(shapes.TICKER, AT)
    assert now.data["price"] == 61234.5
    candles = btc.parse_candles(shapes.CANDLES)
    assert candles[0].data["price"] == 61250.0
    assert candles[0].known_at == T0 + timedelta(minutes=1), "a candle is known at its end"


def test_request_keys() -> None:
    one = kalshi.market_request("A")
    assert one.key == kalshi.market_request("A").key
    assert one.key != kalshi.market_request("B").key
    assert one.exchange("u", "b", AT).digest != one.exchange("u", "c", AT).digest
