"""The one predicate, and a source that hands out what it should not."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import without_the_guard

from beforehand.clock import MICROSECOND, FrozenClock, end_of_day, from_us, to_us
from beforehand.errors import Corrupt, CutoffViolation, InputError, NotFound
from beforehand.forecast.schemes.baselines import BASELINES
from beforehand.gateway.gateway import Gateway, Guard
from beforehand.gateway.search import Hit, Method
from beforehand.gateway.worlds import Listing
from beforehand.jobs.backtest.large.bulk import Bulk, Rows
from beforehand.records.cutoff import document_known_at, visible, visible_us
from beforehand.records.world import (
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
from beforehand.store.archive.reader import Series

T = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMES = {"before": T - MICROSECOND, "at": T, "after": T + MICROSECOND, "later": T + timedelta(9)}
M = "POLYMARKET:m"
instants = st.integers(0, 4 * 10**15).map(from_us)


@given(instants, instants)
def test_both_forms_of_the_predicate_agree(known_at: datetime, t: datetime) -> None:
    assert visible(known_at, t) == (known_at <= t)
    assert bool(visible_us(to_us(known_at), to_us(t))) == visible(known_at, t)
    assert visible_us(np.array([to_us(known_at)]), np.array([to_us(t)]))[0] == visible(known_at, t)


@given(instants)
def test_inclusive_to_the_microsecond(t: datetime) -> None:
    assert visible(t, t)
    assert not visible(t + MICROSECOND, t)
    assert not visible(None, t)


def test_grades() -> None:
    assert document_known_at(T, None, "captured") is None
    assert document_known_at(T, T + MICROSECOND, "captured") == T + MICROSECOND
    assert document_known_at(T, T + MICROSECOND, "published") == T


class Liar:
    """A world that ignores `until` and returns records around t, and an early-closed ending."""

    grade = "captured"
    live = False

    def market_versions(self, market_id: str | None, until: int) -> list[Market]:
        return [
            Market(id=M, venue="POLYMARKET", native_id="m", question=w, known_at=k)
            for w, k in TIMES.items()
        ]

    def states(self, market_id: str, until: int) -> list[MarketState]:
        return [MarketState(market_id=M, status=w, known_at=k) for w, k in TIMES.items()]

    def books(self, market_id: str, until: int) -> list[OrderBook]:
        return [OrderBook(market_id=M, said=w, known_at=k) for w, k in TIMES.items()]

    def resolutions(self, market_id: str | None, until: int) -> list[Resolution]:
        # Closed early: it says it ended long ago, and became known only after t.
        return [
            Resolution(
                market_id=M,
                status="resolved",
                payout=1.0,
                resolved_at=T - timedelta(30),
                known_at=TIMES["after"],
            )
        ]

    def forecasts(self, market_id: str, until: int) -> list[RecordedForecast]:
        return [
            RecordedForecast(market_id=M, predictor=w, probability=0.5, known_at=k)
            for w, k in TIMES.items()
        ]

    def events(self, event_id: str | None, until: int, venue: str | None = None) -> list[Event]:
        return [Event(id=w, venue="POLYMARKET", title=w, known_at=k) for w, k in TIMES.items()]

    def prices(self, market_id: str, until: int) -> list[PricePoint]:
        return [
            PricePoint(market_id=M, price=0.1 * (i + 1), observed_at=k, known_at=k)
            for i, k in enumerate(TIMES.values())
        ]

    def last_price(self, market_id: str, until: int, live: bool = False) -> list[PricePoint]:
        return self.prices(market_id, until)

    def series(self, market_id: str) -> Series:
        class Peeking(Series):
            def positions(self, t: Any) -> Any:
                return np.full(len(t), len(self) - 1)

            def position(self, t: int) -> int:
                return len(self) - 1

        times = np.array([to_us(k) for k in TIMES.values()], dtype=np.int64)
        return Peeking.build(M, times, times, [np.full(len(TIMES), 0.5)] * 4)

    def _documents(self) -> list[Document]:
        made = [Document(id=w, title=w, known_at=k, text_known_at=k) for w, k in TIMES.items()]
        made.append(Document(id="undated", title="no stored text", known_at=T - timedelta(1)))
        made.append(
            Document(
                id="edited",
                title="edited later",
                known_at=T - timedelta(1),
                text_known_at=T + MICROSECOND,
            )
        )
        made.append(
            Document(
                id="day", title="dated by day", known_at=end_of_day(T), text_known_at=end_of_day(T)
            )
        )
        return made

    def observations(
        self, source: str, kind: str, subject: str | None, until: int, live: bool = False
    ) -> list[Observation]:
        made = [
            Observation(
                source=source,
                kind=kind,
                subject="s",
                id=w,
                data={
                    "said": w,
                    "rows": [{"title": w}],
                    "answer": w,
                    "title": f"harvest ferry tariff {w}",
                    "concept": w,
                    "form": "10-K",
                    "end": k.isoformat(),
                    "price": 0.5,
                    "observed_at": k.isoformat(),
                },
                snapshot=kind == "shot",
                known_at=k,
                now={"said": "later"},
                now_known_at=TIMES["after"],
            )
            for w, k in TIMES.items()
        ]
        return made[::-1]

    def list_markets(self, listing: Listing, until: int) -> list[Market]:
        return self.market_versions(None, until)

    def find_markets(
        self,
        query: str,
        until: int,
        limit: int,
        venues: frozenset[str] | None,
        live: bool = False,
    ) -> tuple[list[Hit], Method]:
        return [Hit(market, 1.0) for market in self.market_versions(None, until)], "hybrid"

    def document(self, document_id: str, until: int) -> list[Document]:
        return self._documents()

    def documents(self, until: int, since: int | None, limit: int) -> list[Document]:
        return self._documents()

    def search(
        self,
        query: str,
        until: int,
        limit: int,
        since: int | None,
        live: bool = False,
        domains: Sequence[str] = (),
    ) -> list[Document]:
        return self._documents()


def shown(gateway: Gateway) -> dict[str, Any]:
    """What a View at T shows of the liar's world."""
    view = gateway.at(T)
    return {
        "market": [view.market(M).question],
        "markets": [m.question for m in view.markets()],
        "state": [view.state(M).status],  # type: ignore[union-attr]
        "book": [view.book(M).said],  # type: ignore[union-attr]
        "events": [e.id for e in view.events()],
        "history": [p.known_at for p in view.history(M)],
        "odds": [view.odds(M).known_at],
        "forecasts": [f.predictor for f in view.forecasts(M)],
        "resolution": [r for r in [view.resolution(M)] if r],
        "resolutions": view.resolutions(),
        "endings": [*view.endings().values()],
        "document": [view.document("x").id],
        "listed": [m.question for m in view.list_markets(Listing())],
        "found": [hit.market.question for hit in view.find_markets("anything", 10)[0]],
        "observations": [
            (o.id, o.now) for o in view.observations("x", "y", None) if o.now or o.id != "x"
        ],
        "snapshot": [view.snapshot("x", "shot", "s").data["said"]],
        "documents": [d.id for d in view.documents()],
        "search": [d.id for d in view.search("anything", 10)],
    }


def test_the_liar_is_caught_in_every_method() -> None:
    gateway = Gateway(Liar())  # type: ignore[arg-type]
    answers = shown(gateway)
    assert answers["history"] == [TIMES["before"], T]
    assert answers["odds"] == [T]
    assert answers["resolution"] == answers["resolutions"] == answers["endings"] == []
    for method in ("events", "forecasts", "documents", "search"):
        assert sorted(answers[method]) == ["at", "before"], method
    assert sorted(answers["observations"]) == [("at", {}), ("before", {})], "NOW fields are off"
    assert sorted(answers["found"]) == ["at", "before"]
    for method in ("market", "markets", "listed", "snapshot", "state", "book", "document"):
        assert answers[method] == ["at"], method
    with pytest.raises(NotFound):
        gateway.at(T).event("after")
    refused = {(r.method, r.known_at) for r in gateway.audit.refusals}
    assert {m for m, _ in refused} == {
        "market",
        "state",
        "book",
        "event",
        "history",
        "odds",
        "forecast",
        "resolution",
        "document",
        "observation",
    }
    assert ("document", None) in refused
    assert gateway.audit.checked > len(gateway.audit.refusals) > 0


def test_without_the_guard_the_liar_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_guard(monkeypatch)
    assert "later" in shown(Gateway(Liar()))["events"]  # type: ignore[arg-type]


def test_bulk_paths_stop_at_the_liar() -> None:
    gateway = Gateway(Liar())  # type: ignore[arg-type]
    t = np.array([to_us(T)], dtype=np.int64)
    with pytest.raises(CutoffViolation):
        gateway.take(M, t)
    with pytest.raises(CutoffViolation):
        gateway.panel([(M, t)])
    assert gateway.audit.refusals


@pytest.mark.parametrize("lies", [False, True])
def test_columns_that_are_checked_together_are_checked(lies: bool) -> None:
    """The same is refused as one by one, at the end, and nothing is waiting after it."""
    t = np.array([to_us(T)], dtype=np.int64)
    later = t + (1 if lies else 0)
    alone, together = Guard(), Guard()

    def check(guard: Guard) -> None:
        for name, known_at in (("a", t), ("b", later), ("c", t - 1)):
            guard.all("odds", name, known_at, t)
        guard.all("market", "a", t, t)

    def both() -> None:
        with together.together():
            check(together)

    for guard, way in ((alone, lambda: check(alone)), (together, both)):
        if lies:
            with pytest.raises(CutoffViolation, match="b: the world returned odds known after t"):
                way()
        else:
            way()
        assert [r.record for r in guard.audit.refusals] == ["b"] * lies
        assert guard.audit.tallies["odds"].admitted == (1 if lies else 3)
    with pytest.raises(CutoffViolation):
        together.all("odds", "later", t + 1, t)


def test_a_large_run_stops_at_the_liar() -> None:
    t = np.array([to_us(T)], dtype=np.int64)
    bulk = Bulk(Liar(), FrozenClock(T), "mean", {"market": BASELINES["market"]})  # type: ignore[arg-type]
    with pytest.raises(CutoffViolation):
        bulk.walk(Rows([(M, t)], [0], ["market"]))


def test_without_the_guard_a_large_run_is_told_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops it then is that the price is of a day that lies ahead."""
    without_the_guard(monkeypatch)
    t = np.array([to_us(T)], dtype=np.int64)
    bulk = Bulk(Liar(), FrozenClock(T), "mean", {"market": BASELINES["market"]})  # type: ignore[arg-type]
    with pytest.raises(Corrupt, match="known before it was observed"):
        bulk.walk(Rows([(M, t)], [0], ["market"]))


def test_a_view_can_only_be_narrowed() -> None:
    view = Gateway(Liar()).at(T)  # type: ignore[arg-type]
    assert view.narrow(T - timedelta(1)).t == T - timedelta(1)
    assert view.narrow(T).t == T
    with pytest.raises(CutoffViolation):
        view.narrow(T + MICROSECOND)
    with pytest.raises(InputError):
        Gateway(Liar()).at(datetime(2026, 1, 1))  # type: ignore[arg-type]  # noqa: DTZ001
