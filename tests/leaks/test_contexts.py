"""What a model is shown at t, and what becomes of it: nothing after t can be read off it."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from worlds import START, MemoryArchive, pair, without_the_guard

from beforehand.clock import DAY_US, FrozenClock, to_us
from beforehand.forecast import prompts
from beforehand.gateway import search as search_module
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.walk import context_of
from beforehand.records.world import Document, Market, PricePoint
from proofs import count

PAIRS = count("pairs of worlds through prompts and contexts", 100, 600)
NAMES = [f"{venue}:m{i}" for venue in ("POLYMARKET", "MANIFOLD", "KALSHI") for i in range(3)]


def gateway(records: list[Any]) -> Gateway:
    return Gateway(RecordedWorld(MemoryArchive(records)), FrozenClock(START + timedelta(days=9)))


def queries(text: Market) -> list[str]:
    """Queries as a model might word them, from the text alone."""
    words = (text.question or "").split()
    return [" ".join(words[:3]), " ".join(words[-3:])]


def dump(records: list[Any], t: Any) -> str:
    """Every prompt of every market at instants up to t, as the models get it."""
    world = gateway(records)
    instants = np.arange(to_us(START), to_us(t) + 1, 6 * 3_600_000_000, dtype=np.int64)
    lines = []
    for name in NAMES:
        for maker in (None, queries):
            panel = world.panel([(name, instants)], (), Evidence(3, 1), maker)
            for i in range(len(panel)):
                seen = context_of(panel, i, []).wire()
                lines += [prompts.code_prompt(seen), prompts.shown(seen)]
    return "\n".join(lines)


@pytest.mark.parametrize("block", range(4))
def test_prompts_cannot_tell_what_comes_after(block: int) -> None:
    size, different = PAIRS // 4, 0
    for seed in range(block * size, (block + 1) * size):
        first, second, t = pair(200_000 + seed)
        assert dump(first, t) == dump(second, t), f"seed {seed} at {t}"
        end = START + timedelta(days=2)
        different += dump(first, end) != dump(second, end)
    assert different > size * 0.8, "the pairs hardly differ: the test would prove nothing"


def take_the_guards_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index's prefix at t, and the View's check of what comes back."""
    honest = search_module.SearchIndex.search

    def later(self: Any, query: str, t: Any, limit: int, since: Any = None) -> Any:
        return honest(self, query, t + 2 * DAY_US, limit, since)

    monkeypatch.setattr(search_module.SearchIndex, "search", later)
    without_the_guard(monkeypatch)


def test_without_the_predicate_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_guards_out(monkeypatch)
    caught = 0
    for seed in range(60):
        first, second, t = pair(200_000 + seed)
        caught += dump(first, t) != dump(second, t)
    assert caught > 5


M, T = "POLYMARKET:m0", START + timedelta(days=3)
SECOND = timedelta(seconds=1)


def world(*later: Any) -> list[Any]:
    text = Market(
        id=M, venue="POLYMARKET", native_id="m0", question="Harvest ferry tariff vote passed?",
        known_at=START,
    )  # fmt: skip
    price = PricePoint(market_id=M, price=0.4, observed_at=START, known_at=START)
    document = Document(
        id="d1", title="Harvest ferry tariff debated", source="s", known_at=START,
        text_known_at=START,
    )  # fmt: skip
    return [text, price, document, *later]


def seen_at(records: list[Any], t: Any) -> dict[str, Any]:
    instants = np.array([to_us(t)], dtype=np.int64)
    panel = gateway(records).panel([(M, instants)], evidence=Evidence(5, 30))
    return context_of(panel, 0, []).wire()


CANARIES: dict[str, Any] = {
    "a document after t": Document(
        id="canary-1", title="CANARY harvest ferry tariff passed", source="s",
        known_at=T + SECOND, text_known_at=T + SECOND,
    ),
    "a price after t": PricePoint(
        market_id=M, price=0.987, observed_at=T + SECOND, known_at=T + SECOND
    ),
    "a price of before, published after": PricePoint(
        market_id=M, price=0.987, observed_at=T - SECOND, known_at=T + SECOND
    ),
    "an edited question": Market(
        id=M, venue="POLYMARKET", native_id="m0", question="CANARY: harvest ferry tariff passed",
        known_at=T + SECOND,
    ),
    "an edited document": Document(
        id="d1", title="CANARY harvest ferry tariff passed", source="s", known_at=START,
        text_known_at=T + SECOND,
    ),
    "a document that its vendor dates before t": Document(
        id="canary-2", title="CANARY harvest ferry tariff passed", source="s",
        published_at=T - timedelta(days=1), known_at=T + SECOND, text_known_at=T + SECOND,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CANARIES)
def test_a_planted_canary_never_sings(name: str) -> None:
    records = world(CANARIES[name])
    before = prompts.shown(seen_at(records, T))
    assert before == prompts.shown(seen_at(world(), T)), "byte for byte as if it were not there"
    assert "CANARY" not in before
    assert "0.987" not in before
    after = prompts.shown(seen_at(records, T + SECOND))
    assert "CANARY" in after or "0.987" in after, "one second later it is shown: it was there"


@pytest.mark.parametrize("name", [name for name in CANARIES if "document" in name])
def test_with_the_predicate_taken_out_it_would(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_guards_out(monkeypatch)
    assert "CANARY" in prompts.shown(seen_at(world(CANARIES[name]), T))


def test_one_guard_alone_still_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that looks ahead is caught by the View: the document is refused, and on record."""
    honest = search_module.SearchIndex.search
    monkeypatch.setattr(
        search_module.SearchIndex,
        "search",
        lambda self, q, t, n, since=None: honest(self, q, t + 2 * DAY_US, n, since),
    )
    found = gateway(world(CANARIES["a document after t"]))
    instants = np.array([to_us(T)], dtype=np.int64)
    panel = found.panel([(M, instants)], evidence=Evidence(5, 30))
    assert [d.id for d in panel.documents[0]] == ["d1"]
    assert [refusal.record for refusal in found.audit.refusals] == ["canary-1"]


def test_the_rarity_of_a_word_is_that_of_its_time() -> None:
    """A word that a thousand later documents hold ranks as it did before they were known."""
    early = [
        Document(id=f"d{i}", title=title, source="s", known_at=START, text_known_at=START)
        for i, title in enumerate(
            ("harvest ferry news", "harvest tariff news", "ferry tariff news", "stadium news ferry")
        )
    ]
    later = [
        Document(
            id=f"l{i}", title="ferry ferry tariff", source="s", known_at=T + SECOND,
            text_known_at=T + SECOND,
        )
        for i in range(1000)
    ]  # fmt: skip
    first, second = gateway(early), gateway([*early, *later])
    for query in ("harvest ferry", "ferry tariff news", "harvest ferry tariff stadium"):
        assert first.at(T).search(query, 4) == second.at(T).search(query, 4)
    ranked = [d.id for d in second.at(T + 2 * SECOND).search("harvest ferry tariff", 4)]
    assert ranked != [d.id for d in first.at(T).search("harvest ferry tariff", 4)]
