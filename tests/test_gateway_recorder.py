"""The recorder and the live check: bounded, interrupted, resumed."""

from datetime import timedelta
from itertools import pairwise

import pytest

import shapes
from beforehand.jobs import live_check
from beforehand.jobs.record import Order, record
from beforehand.records.world import Exchange
from beforehand.sources import google_news
from beforehand.sources.catalogue import PROBES
from beforehand.store.archive.reader import Archive
from beforehand.store.files import write_json
from beforehand.tools.discovery import load_tools
from beforehand.tools.index import listed_tools
from live import Setup


def test_an_unflushed_recording_survives_its_process(setup: Setup) -> None:
    box, connection = setup.box("record")
    box.call("get_btc_price", {})
    assert connection.spool is not None
    assert connection.spool._file is not None
    path = connection.spool._path
    with path.open("ab") as torn:
        torn.write(b'{"exchange": {"prov')
    connection.spool._file.close()  # The process is gone, and its lock with it.
    connection.spool._file = None
    other = setup.connection("record")
    assert other.close() == 1
    assert not path.exists()
    assert setup.box("replay")[0].call("get_btc_price", {}).content["price"] == 61234.5


REGISTRY = load_tools()
ORDER = Order(
    markets=(f"POLYMARKET:{shapes.CONDITION}", "KALSHI:KXRAIN-26MAR-T1"),
    feeds=(google_news.build("rain"),),
    every=timedelta(minutes=10),
    rounds=3,
)


def test_the_recorder(setup: Setup) -> None:
    done = record(
        setup.connection("record"),
        ORDER,
        setup.home,
        setup.archive,
        setup.clock,
        sleep=setup.clock.sleep,
    )
    assert done.failures == []
    assert (done.rounds, done.stopped) == (3, "the rounds are done")
    counts = Archive(setup.archive).counts()
    assert counts["book"] >= 3
    assert counts["state"] >= 6
    assert counts["market"] >= 6, "each round keeps the text as it stood"
    assert counts["document"] == 1
    assert done.exchanges == counts["exchange"]
    assert sum(a.path == "/v2/prices-history" for a in setup.vendor.log) == 2, "backfilled once"
    assert sum(a.path == "/rss/search" for a in setup.vendor.log) == 1

    again = record(
        setup.connection("record"),
        ORDER,
        setup.home,
        setup.archive,
        setup.clock,
        sleep=setup.clock.sleep,
    )
    assert again.rounds == 3
    times = sorted(
        {e.known_at for e in Archive(setup.archive).records(Exchange) if e.endpoint == "books"}
    )
    gaps = [(b - a) for a, b in pairwise(times)]
    assert len(times) == 6
    assert all(abs(gap - timedelta(minutes=10)) < timedelta(seconds=30) for gap in gaps), "one grid"


def test_a_text_is_served_as_it_stood(setup: Setup) -> None:
    """Promise one, on what the recorder collects: the wording changes, and each instant sees its
    own."""
    name = f"POLYMARKET:{shapes.CONDITION}"
    order = Order(markets=(name,), what=frozenset({"texts"}), rounds=1)
    record(
        setup.connection("record"),
        order,
        setup.home,
        setup.archive,
        setup.clock,
        sleep=setup.clock.sleep,
    )
    before = setup.clock.at + timedelta(minutes=1)
    setup.clock.at += timedelta(minutes=10)
    edited = {
        **shapes.GAMMA_MARKET,
        "description": "Resolves YES if it rains. Update: drizzle counts.",
    }
    setup.vendor.route("gamma", "/markets/keyset", {"markets": [edited], "next_cursor": None})
    record(
        setup.connection("record"),
        order,
        setup.home,
        setup.archive,
        setup.clock,
        sleep=setup.clock.sleep,
    )
    old = setup.box("replay", before)[0].call("get_market", {"id": shapes.CONDITION}).content
    new = setup.box("replay")[0].call("get_market", {"id": shapes.CONDITION}).content
    assert old["description"] == "Resolves YES if it rains."
    assert "drizzle" in new["description"]
    slug = setup.box("replay", before)[0].call("get_market", {"id": "will-it-rain"}).content
    assert slug["market_id"] == shapes.CONDITION


def test_the_recorder_is_bounded_and_goes_on_after_failures(setup: Setup) -> None:
    small = Order(markets=ORDER.markets, rounds=50, max_bytes=3000)
    done = record(
        setup.connection("record"),
        small,
        setup.home,
        setup.archive,
        setup.clock,
        sleep=setup.clock.sleep,
    )
    assert "has reached" in done.stopped
    assert done.rounds < 50
    setup.vendor.route("clob", "/books", 400)
    one = Order(markets=(*ORDER.markets, "POLYMARKET:nothing"), rounds=1)
    done = record(
        setup.connection("record"),
        one,
        setup.home,
        setup.archive,
        setup.clock,
        sleep=setup.clock.sleep,
    )
    assert any("books" in f for f in done.failures)
    assert any("nothing" in f for f in done.failures)
    assert done.exchanges > 3


def test_an_interrupt_loses_nothing(setup: Setup) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(
            setup.connection("record"), ORDER, setup.home, setup.archive, setup.clock, sleep=stop
        )
    assert Archive(setup.archive).counts()["exchange"] == len(setup.vendor.log)
    assert not list(setup.home.recording.glob("*.jsonl"))


def test_doctor_live_reports_drift(setup: Setup) -> None:
    traffic = setup.connection("live").traffic
    assert traffic is not None
    found = live_check.check(traffic, setup.clock, setup.home.live_checks)
    *asked, sandbox, login = found
    assert {row["state"] for row in asked} == {"ok"}, found
    assert len(asked) == len(PROBES)
    assert (sandbox["name"], sandbox["state"]) == ("daytona sandbox", "not configured")
    assert (login["name"], login["state"]) == ("galileo login", "not configured")
    for answer, state in (({"access_token": "t"}, "ok"), ({}, "drift"), (401, "not reachable")):
        setup.vendor.route("galileo", "/login/api_key", answer)
        settings = {"GALILEO_API_KEY": "secret"}
        *_, login = live_check.check(
            traffic, setup.clock, setup.home.live_checks, settings=settings
        )
        assert login["state"] == state, login
        assert "secret" not in str(login)
        assert setup.vendor.log[-1].body == {"api_key": "secret"}
    renamed = {**shapes.KALSHI_TRADE, "price": "0.57"}
    del renamed["yes_price_dollars"]
    setup.vendor.route("kalshi", "/markets/trades", {"trades": [renamed], "cursor": ""})
    setup.vendor.route("coinbase", "/products/BTC-USD/ticker", b"<html>")
    setup.vendor.route("edgar", "/submissions", 404)
    setup.clock.at += timedelta(hours=4)
    found = live_check.check(traffic, setup.clock, setup.home.live_checks)
    states = {row["name"]: row for row in found}
    assert states["kalshi trades"]["state"] == "drift"
    assert "yes_price_dollars" in states["kalshi trades"]["detail"]
    assert states["coinbase ticker"]["state"] == "drift"
    assert states["edgar submissions"]["state"] == "not reachable"

    cents = {**shapes.KALSHI_TRADE, "yes_price_dollars": 57, "no_price_dollars": "43.00"}
    setup.vendor.route("kalshi", "/markets/trades", {"trades": [cents], "cursor": ""})
    for _ in range(2):  # It is said each time, until it is as before.
        setup.clock.at += timedelta(hours=4)
        found = live_check.check(traffic, setup.clock, setup.home.live_checks)
        (trades,) = [row for row in found if row["name"] == "kalshi trades"]
        assert trades["state"] == "drift"
        assert "yes_price_dollars was number as text up to 1, is number above 1" in trades["detail"]
    setup.vendor.route("kalshi", "/markets/trades", {"trades": [shapes.KALSHI_TRADE], "cursor": ""})
    setup.clock.at += timedelta(hours=4)
    found = live_check.check(traffic, setup.clock, setup.home.live_checks)
    assert {row["state"] for row in found if row["name"] == "kalshi trades"} == {"ok"}

    def proof(name: str) -> list[str]:
        found = next(tool for tool in listed_tools(setup.home) if tool["name"] == name)
        return [found["label"], found["date"], found["source"]]

    assert proof("get_market")[0] == "recorded", "a mirror is not live"
    kept = live_check.read_checks(setup.home.live_checks)
    del kept["gamma markets"]["mirror"]
    write_json(setup.home.live_checks, kept)
    assert proof("get_market") == ["live-verified", "2026-01-07", "gamma markets"]
    assert proof("get_btc_price")[0] == "simulated"
