"""Every tool against a real server on loopback, live and recorded; then replayed with it gone."""

import json
import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import shapes
from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home, Workspace
from beforehand.errors import (
    BadAnswer,
    BeforehandError,
    NotFound,
    ReplayMiss,
    Unauthorized,
    Unavailable,
)
from beforehand.gateway.opening import connect
from beforehand.records.world import Exchange
from beforehand.store.archive.reader import Archive
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage
from beforehand.traffic import Spent
from live import Setup, opened
from toolcalls import CALLS, NOW
from vendor import Vendor

REGISTRY = load_tools()


def test_every_tool_has_a_call() -> None:
    assert set(CALLS) == set(REGISTRY)


def test_every_tool_live_then_recorded_then_replayed(setup: Setup) -> None:
    """One recording session asks for everything; with the server gone, each answer is the same as
    of the instant at which it was recorded."""
    box, connection = setup.box("record")
    recorded, at = {}, {}
    for name, arguments in CALLS.items():
        recorded[name] = box.call(name, arguments).content
        at[name] = setup.clock.now()
        meta = recorded[name].pop("_meta")
        assert meta["tool"] == name
    connection.close()
    assert recorded["search_markets"]["markets"][0]["title"] == shapes.GAMMA_MARKET["question"]
    assert recorded["get_order_books"]["books"][0]["bids"][0] == [0.6, 10.0]
    assert recorded["get_prices"]["prices"][0]["price"] == 0.61
    assert recorded["get_user_positions"]["positions"][0]["current_size"] == 10.5
    assert recorded["get_top_holders"]["holders"][0]["amount"] == 500.25
    assert recorded["list_comments"]["comments"][0]["body"] == "Clouds."
    assert recorded["get_btc_price"]["price"] == 61234.5
    assert recorded["get_market_metadata"]["quote"]["bid"] == 0.56
    assert recorded["get_odds_at"]["odds"] == 0.57
    assert recorded["get_kalshi_candlesticks"]["candles"][0]["eastern_day"] == "2026-01-05"
    assert recorded["get_kalshi_trades"]["trades"][0]["yes_price"] == 0.57
    assert recorded["preview_search_feed"]["items"][0]["title"] == "Rain in Avaria"
    assert recorded["search_web"]["answer"] == "It may rain in Avaria."
    assert recorded["search"]["results"][0]["title"] == "Rain expected"
    threads = recorded["reddit_api_search_and_fetch_threads"]["threads"]
    assert threads[0]["comments"][0]["body"] == "Yes, rain."
    assert recorded["get_company_facts"]["facts"][0]["value"] == 5
    assert recorded["run_query"]["metadata"]["row_count"] == 2
    assert recorded["get_market_price_history"]["data_source"] == "polymarket_data_api_v2"

    exchanges = Archive(setup.archive).records(Exchange)
    assert len(exchanges) >= 25
    assert all(e.digest and e.known_at >= NOW for e in exchanges)
    stored = b"".join(b"\n".join(Archive(setup.archive).lines(k)) for k in ("exchange", "market"))
    assert b"secret-" not in stored, "no key goes on record"
    assert not Archive(setup.archive).verify()

    asked = len(setup.vendor.log)
    setup.vendor.routes.clear()
    box, _ = setup.box("replay")
    gateway, storage = box.gateway, box.storage
    differing = []
    for name, arguments in CALLS.items():
        box = Toolbox(gateway, storage, at[name])
        answer = box.call(name, arguments)
        assert answer.spent == Spent()
        replayed = answer.content
        del replayed["_meta"]
        if _settled(name, replayed) != _settled(name, recorded[name]):
            differing.append(name)
    # Exa ranks by its own lights, the archive by ours; the second says who searched.
    assert differing == ["search", "search_domains"]
    assert len(setup.vendor.log) == asked, "a replay asks nobody"


def _settled(name: str, content: dict[str, Any]) -> str:
    """The answer without what is bound to differ: the moment of the call, and the named source."""
    text = json.dumps(content, sort_keys=True)
    content = json.loads(re.sub(r"created_us <= \d+", "created_us <= t", text))

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            moving = {"timestamp", "age_seconds", "time_upper_bound", "data_source", "note"}
            moving |= {"text_known_at", "observed_at", "reason", "execution_time_ms"}
            moving |= {"created_at", "id", "count"} if name == "get_polymarket_history" else set()
            return {k: walk(v) for k, v in value.items() if k not in moving}
        if isinstance(value, list):
            if name == "get_polymarket_history":
                value = value[-1:]
            return [walk(item) for item in value]
        return value

    return json.dumps(walk(content), sort_keys=True)


@pytest.mark.parametrize("name", sorted(set(CALLS)))
def test_a_replay_miss_is_an_error_and_never_a_call(setup: Setup, name: str) -> None:
    from beforehand.store.archive.writer import ArchiveWriter

    ArchiveWriter(setup.archive).add(
        [], importer="none", source="", source_digest="", recorded_at=NOW
    )
    box, _ = setup.box("replay")
    tool = REGISTRY[name]
    empty = {"markets", "events", "history"}
    if tool.outside and name != "run_query":
        with suppress(ReplayMiss, NotFound):
            content = box.call(name, CALLS[name]).content
            assert not any(content.get(key) for key in empty | {"results"}), name
    else:
        box.call(name, CALLS[name])
    assert setup.vendor.log == []


def test_a_pinned_live_view_gets_prices_and_no_texts_of_today(setup: Setup) -> None:
    box, _ = setup.box("live", NOW - timedelta(days=1))
    history = box.call("get_price_history", CALLS["get_price_history"]).content
    assert [p["yes"] for p in history["points"]] == [0.5], "later points are not shown"
    market = box.call("get_market", CALLS["get_market"]).content
    assert market["title"] is None
    assert market["volume"] is None
    assert market["known_since"] == "2025-12-01T00:00:00Z"
    assert box.call("search_markets", {"query": "rain"}).content["markets"] == []
    with pytest.raises(NotFound, match="has no price within"):
        box.call("get_market_price_history", {"market_id": shapes.CONDITION, "date": "2026-01-07"})
    with pytest.raises(NotFound, match="gave no positions"):
        box.call("get_user_positions", {"user": shapes.WALLET})
    facts = box.call("get_company_facts", {"cik": "320193"}).content["facts"]
    assert len(facts) == 1
    candle = box.call("get_btc_price", {}).content
    assert candle["observed_at"] <= "2026-01-06"
    searched = box.call("search", {"query": "rain"}).content["results"]
    assert [r["title"] for r in searched] == ["Rain expected"], "no stored version, not shown"
    body = next(a.body for a in setup.vendor.log if a.path == "/search")
    assert body["contents"]["snapshotAsOf"].startswith("2026-01-06")


def test_a_box_pinned_to_now_has_prices_at_once(setup: Setup) -> None:
    box, _ = setup.box("live", setup.clock.at)
    (price,) = box.call("get_prices", CALLS["get_prices"]).content["prices"]
    assert price["price"] == 0.61
    assert price["observed_at"] == "2026-01-06T09:00:00Z"


def test_a_pinned_box_asks_nothing_that_cannot_look_back(setup: Setup) -> None:
    for pinned in (NOW - timedelta(days=1), setup.clock.at):  # A pin to this second is a pin.
        box, _ = setup.box("live", pinned)
        for name in ("search_web", "fetch_search_feed", "reddit_search_and_fetch_threads"):
            with pytest.raises(NotFound):
                box.call(name, CALLS[name])
    assert setup.vendor.log == []
    assert box.call("search", {"query": "rain"}).content["results"], "stored versions until then"
    assert "snapshotAsOf" in setup.vendor.log[-1].body["contents"]
    unpinned = setup.box("live")[0]
    assert unpinned.call("fetch_search_feed", CALLS["fetch_search_feed"]).content["items"]


def test_the_cached_reddit_tool_never_asks(setup: Setup) -> None:
    setup.box("live")[0].call("reddit_api_search_and_fetch_threads", {"keywords": ["rain"]})
    setup.vendor.log.clear()
    setup.vendor.routes.clear()
    found = setup.box("live")[0].call("reddit_search_and_fetch_threads", {"keywords": ["rain"]})
    assert found.content["threads"][0]["comments"][0]["body"] == "Yes, rain."
    assert setup.vendor.log == []


def test_a_turned_market_resolves_the_right_way(setup: Setup) -> None:
    turned = {
        **shapes.GAMMA_MARKET,
        "outcomes": '["No", "Yes"]',
        "outcomePrices": '["0", "1"]',
        "closed": True,
        "umaResolutionStatus": "resolved",
    }
    setup.vendor.route("gamma", "/markets/keyset", {"markets": [turned], "next_cursor": None})
    ended = shapes.page([{**shapes.RESOLUTION_V2, "payouts": [0, 1_000_000]}])
    setup.vendor.route("polymarket-data", "/v2/resolutions", ended)
    market = setup.box("live")[0].call("get_market", CALLS["get_market"]).content
    assert market["outcomes"] == ["Yes", "No"]
    assert market["resolution"]["payout"] == 1.0


def test_prices_alone_do_not_take_away_what_is_known(setup: Setup) -> None:
    box, connection = setup.box("record")
    for name in ("get_market", "list_comments", "get_price_history", "get_order_books"):
        box.call(name, CALLS[name])
    connection.close()
    for day in (5, 6):
        pinned = NOW.replace(day=day, hour=22)
        replay = setup.box("replay", pinned)[0]
        assert replay.call("list_comments", CALLS["list_comments"]).content["comments"]
        (book,) = replay.call("get_order_books", CALLS["get_order_books"]).content["books"]
        assert book["bids"]


def test_an_unfinished_bucket_is_no_close(setup: Setup) -> None:
    start = int(NOW.timestamp())
    running = {"timestamp": start, "price": 0.4, "resolution_seconds": 43_200}
    setup.vendor.route("polymarket-data", "/v2/prices-history", shapes.page([running]))
    candle = {**shapes.KALSHI_CANDLE, "end_period_ts": start + 3600}
    batch = {"market_ticker": "KXRAIN-26MAR-T1", "candlesticks": [candle]}
    setup.vendor.route("kalshi", "/markets/candlesticks", {"markets": [batch]})
    box, connection = setup.box("record")
    box.call("get_price_history", CALLS["get_price_history"])
    box.call("get_kalshi_candlesticks", {"id": "KXRAIN-26MAR-T1", "period": "1h"})
    connection.close()
    setup.clock.at += timedelta(days=1)
    replay = setup.box("replay")[0]
    shown = replay.call("get_price_history", CALLS["get_price_history"]).content["points"]
    assert [p["yes"] for p in shown] == [0.61], "the quote of the fetch, and no close to come"


def test_a_listing_goes_on_until_enough_fit(setup: Setup) -> None:
    def market(i: int) -> dict[str, Any]:
        done = {} if i % 20 == 0 else {"umaResolutionStatus": "resolved"}
        prices = '["0.5", "0.5"]' if i % 20 == 0 else '["1", "0"]'
        name = f"0x{i:064x}"
        return {
            **shapes.GAMMA_MARKET,
            "conditionId": name,
            "closed": True,
            "outcomePrices": prices,
        } | done

    def page(asked: Any) -> Any:
        if name := asked.param("condition_ids"):
            return {"markets": [market(int(name, 16))], "next_cursor": None}
        first, n = int(asked.param("after_cursor") or 0), int(asked.param("limit"))
        last = min(first + n, 300)
        following = str(last) if last < 300 else None
        return {"markets": [market(i) for i in range(first, last)], "next_cursor": following}

    setup.vendor.route("gamma", "/markets/keyset", page)
    box, _ = setup.box("live")
    content = box.call("list_markets", {"status": "closed", "limit": 5}).content
    assert len(content["markets"]) == 5
    assert "rows_found" not in content["_meta"].get("cut", {})
    assert len(setup.vendor.log) < 20
    whole = setup.box("live")[0].call("list_markets", {"status": "closed", "limit": 100}).content
    assert len(whole["markets"]) == 15


def test_an_odd_row_is_left_out_and_counted(setup: Setup) -> None:
    odd = {**shapes.GAMMA_MARKET, "version": "v9", "conditionId": "0x99"}
    rows = {"markets": [odd, shapes.GAMMA_MARKET], "next_cursor": None}
    setup.vendor.route("gamma", "/markets/keyset", rows)
    event = {**shapes.GAMMA_EVENT, "markets": [odd, shapes.GAMMA_MARKET]}
    setup.vendor.route("gamma", "/public-search", {"events": [event]})
    for name in ("list_markets", "search_markets"):
        content = setup.box("live")[0].call(name, CALLS[name]).content
        assert len(content["markets"]) == 1, name
        assert "could not be read and were left out" in content["_meta"]["notes"][0]


def test_a_feed_is_polled_once_and_served_from_its_copy(setup: Setup) -> None:
    box, _ = setup.box("live")
    first = box.call("fetch_search_feed", {"query": "rain"}).content
    setup.clock.at += timedelta(hours=1)
    again, _ = setup.box("live")
    second = again.call("fetch_search_feed", {"query": "rain"}).content
    assert second["fetched_at"] == first["fetched_at"]
    assert len(setup.vendor.log) == 1
    setup.clock.at += timedelta(hours=2, minutes=1)
    third = setup.box("live")[0].call("fetch_search_feed", {"query": "rain"}).content
    assert third["fetched_at"] > first["fetched_at"]
    assert len(setup.vendor.log) == 2


@pytest.mark.parametrize(
    "lie", [b"<html>maintenance</html>", b"", b"[]", b'{"markets": 5}', b"null"]
)
def test_a_lying_service_ends_in_our_own_error(setup: Setup, lie: bytes) -> None:
    for key in list(setup.vendor.routes):
        setup.vendor.routes[key] = lie
    box, _ = setup.box("live")
    for name, arguments in CALLS.items():
        try:
            box.call(name, arguments)
        except BeforehandError:
            continue


def test_what_was_paid_is_kept_though_it_cannot_be_read(setup: Setup) -> None:
    setup.vendor.route("exa", "/search", {"results": "none of your business"})
    box, connection = setup.box("record")
    with pytest.raises(BadAnswer):
        box.call("search", {"query": "rain"})
    assert connection.close() == 1
    (kept,) = Archive(setup.archive).records(Exchange)
    assert "none of your business" in kept.body


def test_a_dead_network_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    nowhere = {f"BEFOREHAND_{p}_URL": "http://127.0.0.1:1" for p in ("GAMMA", "KALSHI", "COINBASE")}
    connection = connect(Workspace(home, settings=nowhere), "live", tmp_path / "a")
    box = Toolbox(connection.gateway, Storage(home, "live", connection.live, connection.traffic))
    with pytest.raises(Unavailable, match="check the network"):
        box.call("get_btc_price", {})


def test_frozen_clocks_still_work(setup: Setup) -> None:
    assert FrozenClock(NOW).now() == NOW


def test_a_token_of_a_market_that_nobody_has_seen(setup: Setup) -> None:
    """In a home that holds nothing: Gamma is asked for the token, and not for a market of that
    number; a short number is Gamma's own."""
    box, _ = setup.box("live")
    found = box.call("get_market", {"id": shapes.YES}).content
    (asked,) = setup.vendor.log
    assert (asked.param("clob_token_ids"), asked.param("id")) == (shapes.YES, None)
    assert found["id"] == f"POLYMARKET:{shapes.CONDITION}"
    with pytest.raises(NotFound):
        setup.box("live")[0].call("get_market", {"id": "512345"})
    asked = setup.vendor.log[-1]
    assert (asked.param("clob_token_ids"), asked.param("id")) == (None, "512345")


def test_domains_say_who_is_asked(setup: Setup) -> None:
    """The venues of the domains, each by itself: one that is away costs its own hits alone."""

    def searched(*domains: str) -> tuple[set[str], set[str], list[str]]:
        setup.vendor.log.clear()
        arguments = {"query": "rain avaria", **({"domains": list(domains)} if domains else {})}
        box, _ = setup.box("live")  # What it has asked for, it does not ask again.
        found = box.call("search_domains", arguments).content
        hit = {row["domain"] for row in found["results"]}
        return set(setup.vendor.counts()), hit, found["_meta"].get("notes", [])

    asked, hit, notes = searched("kalshi.com")
    assert "/events" in asked
    assert "/public-search" not in asked, "Polymarket was not asked for"
    assert (hit, notes) == ({"kalshi.com"}, [])
    asked, hit, notes = searched("polymarket.com")
    assert "/public-search" in asked
    assert "/events" not in asked
    assert {"/events", "/public-search"} <= searched()[0]
    setup.vendor.route("gamma", "/public-search", 401)
    asked, hit, notes = searched()
    assert "kalshi.com" in hit
    assert any("POLYMARKET was not searched" in one for one in notes)
    setup.vendor.route("exa", "/search", 401)
    with pytest.raises(Unauthorized):
        searched("polymarket.com")


WITHOUT = ("bestBid", "bestAsk", "lastTradePrice", "outcomePrices")
"""What a listing may lack: then the price is asked for elsewhere."""


@pytest.mark.parametrize("priced", [True, False])
def test_a_tools_page_names_all_whom_it_asks(
    priced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not priced:
        for market in (shapes.GAMMA_MARKET, *shapes.GAMMA_EVENT["markets"]):
            for name in WITHOUT:
                monkeypatch.delitem(market, name, raising=False)
    asked = set[str]()
    answer = Vendor.answer

    def noted(vendor: Vendor, provider: str, request: Any) -> Any:
        asked.add("reddit" if provider == "reddit-auth" else provider)
        return answer(vendor, provider, request)

    monkeypatch.setattr(Vendor, "answer", noted)
    for name, arguments in CALLS.items():
        asked.clear()
        (tmp_path / name).mkdir()
        with opened(tmp_path / name) as home, suppress(BeforehandError):
            home.box("live")[0].call(name, arguments)
        assert asked <= set(REGISTRY[name].services), name


OLDER = {
    "accessionNumber": ["0000320193-01-9", "0000320193-01-8"], "filingDate": ["2001-02-01", "2001-01-01"],
    "reportDate": ["2000-12-30", ""], "acceptanceDateTime": ["2001-02-01T18:00:00.000Z", None],
    "form": ["10-Q", "8-K"], "primaryDocument": ["b.htm", ""], "primaryDocDescription": ["10-Q", ""],
}  # fmt: skip


def test_filings_listed_in_further_files(setup: Setup) -> None:
    """A company's older filings stand in files of their own: they are asked for, and on record."""
    name = "CIK0000320193-submissions-001.json"
    files = [{"name": name, "filingCount": 2, "filingFrom": "2001-01-01", "filingTo": "2001-02-01"}]
    whole = {**shapes.SUBMISSIONS, "filings": {**shapes.SUBMISSIONS["filings"], "files": files}}
    setup.vendor.route("edgar", "/submissions/CIK0000320193.json", whole)
    setup.vendor.route("edgar", f"/submissions/{name}", OLDER)
    box, connection = setup.box("record")
    asked = {"cik": "320193", "limit": 10}
    found = box.call("list_company_filings", asked).content["filings"]
    assert [row["filed"] for row in found] == ["2025-10-31", "2001-02-01", "2001-01-01"]
    assert [row["form"] for row in found] == ["10-K", "10-Q", "8-K"]
    connection.close()
    setup.vendor.routes.clear()
    again = setup.box("replay")[0].call("list_company_filings", asked).content["filings"]
    assert again == found
    early = setup.box("replay", parse_instant("2026-01-06T00:00:00Z"))[0]
    with suppress(ReplayMiss):
        assert len(early.call("list_company_filings", asked).content["filings"]) == 3
    other = [{"name": "../../other.json"}]
    setup.vendor.route(
        "edgar",
        "/submissions/CIK0000320193.json",
        {**whole, "filings": {**whole["filings"], "files": other}},
    )
    with pytest.raises(BadAnswer, match="no file of this company"):
        setup.box("live")[0].call("list_company_filings", asked)
