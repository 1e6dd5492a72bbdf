"""What many threads share: asked once, loaded once, one reader each. Beside each the control, with
its guard taken out."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import shapes
from beforehand.errors import BeforehandError
from beforehand.gateway.worlds import pull
from beforehand.lazy import lazy
from beforehand.store.market_data.table import MarketData
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.traffic import counting
from live import Setup
from toolcalls import CALLS

THREADS = 12
load_tools()


def together(work: Callable[[], Any]) -> list[Any]:
    """The work on many threads that start at the same moment; errors as they are."""
    gate = threading.Barrier(THREADS)

    def one() -> Any:
        gate.wait()
        try:
            return work()
        except BeforehandError as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        return [job.result() for job in [pool.submit(one) for _ in range(THREADS)]]


class Open:
    """A lock that locks nothing."""

    def acquire(self, blocking: bool = True) -> bool:
        return True

    def release(self) -> None: ...


def slow(setup: Setup, answer: Any) -> None:
    def answered(_: Any) -> Any:
        time.sleep(0.3)
        return answer

    setup.vendor.route("openai", "/responses", answered)


@pytest.mark.parametrize("guarded", [True, False])
def test_what_all_ask_for_is_asked_and_paid_once(
    setup: Setup, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not guarded:
        monkeypatch.setattr(pull._Turn, "__init__", _no_lock)
    slow(setup, shapes.OPENAI)
    box, _ = setup.box("live")
    answers = together(lambda: box.call("search_web", CALLS["search_web"]).content["answer"])
    assert len(set(answers)) == 1
    asked = len([a for a in setup.vendor.log if a.path == "/responses"])
    assert (asked == 1) is guarded, asked


def _no_lock(self: Any) -> None:
    self.lock, self.failure = Open(), None


def test_a_failure_is_not_waited_for_by_each(setup: Setup) -> None:
    """Those who waited for a call that failed are told so at once."""

    def refused(_: Any) -> int:
        time.sleep(0.3)
        return 404

    setup.vendor.route("edgar", "/submissions", refused)
    box, _ = setup.box("live")
    started = time.monotonic()
    answers = together(lambda: box.call("list_company_filings", {"cik": "320193"}))
    assert time.monotonic() - started < 0.3 * THREADS / 2
    assert all(isinstance(answer, BeforehandError) for answer in answers)


@pytest.mark.parametrize("guarded", [True, False])
def test_what_is_lazy_is_worked_out_once(guarded: bool) -> None:
    made: list[int] = []

    def work(_: Any) -> int:
        time.sleep(0.05)
        made.append(1)
        return len(made)

    class Unguarded(cached_property[int]):
        """As the library has it since Python 3.12."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if "value" not in instance.__dict__:
                instance.__dict__["value"] = self.func(instance)
            return instance.__dict__["value"]

    kind: Any = lazy if guarded else Unguarded
    holder = type("Holder", (), {"value": kind(work)})
    if guarded:
        holder.value.__set_name__(holder, "value")
    held = holder()
    together(lambda: held.value)
    assert (len(made) == 1) is guarded


def test_queries_of_many_threads_do_not_mix(setup: Setup, tmp_path: Path) -> None:
    table = MarketData(setup.home.market_data)
    alone = table.run("statistics").wire()
    rows = [table.run("by_symbol", {"symbol_pattern": s}).wire() for s in ("%A%", "%B%")]
    for _ in range(20):
        answers = together(
            lambda: (
                table.run("statistics").wire()["data"] == alone["data"],
                table.run("by_symbol", {"symbol_pattern": "%A%"}).wire() == rows[0],
                table.run("by_symbol", {"symbol_pattern": "%B%"}).wire() == rows[1],
            )
        )
        assert answers == [(True, True, True)] * THREADS
    assert table._idle.qsize() == 4, "every reader was put back"


def test_each_call_counts_its_own_and_the_calls_within(setup: Setup) -> None:
    """Side by side, no call's cost counts what another's sent; code counts what its calls did."""
    box, _ = setup.box("live")
    box.call("get_btc_price", {})

    def one(i: int) -> tuple[int, int]:
        mine = Toolbox(box.gateway, box.storage)
        quiet = mine.call("explain_operators", {}).spent.requests
        return quiet, mine.call("get_company_facts", {"cik": str(1000 + i)}).spent.requests

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(8))) == {(0, 1)}
    with counting() as outer:
        with counting() as inner:
            inner.requests, inner.usd = 2, 0.5
        with counting() as inner:
            inner.requests = 1
    assert (outer.requests, outer.usd) == (3, 0.5)
