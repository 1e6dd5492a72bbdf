"""What happens after t cannot be read off anything that a View at t answers."""

import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worlds import (
    SNAPSHOTS,
    START,
    STREAMS,
    VENUES,
    WORDS,
    MemoryArchive,
    pair,
    without_the_guard,
)

from beforehand.clock import FrozenClock, to_us
from beforehand.errors import BeforehandError
from beforehand.forecast.schemes.baselines import BASELINES
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.view import View
from beforehand.gateway.worlds import Listing
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive, Series
from beforehand.store.archive.writer import ArchiveWriter
from proofs import count

NAMES = [f"{venue}:m{i}" for venue in VENUES for i in range(3)] + ["m0", "m2", "POLYMARKET:none"]
BLOCKS = count("blocks of 50 pairs of worlds through the View", 2, 30)
PAIRS = 50 * BLOCKS


def attempt(call: Callable[[], Any]) -> str:
    """The answer or the error, as text that shows every difference."""
    try:
        answer = call()
    except BeforehandError as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(answer, list):
        return "[" + ", ".join(item.model_dump_json() for item in answer) + "]"
    return "None" if answer is None else str(getattr(answer, "model_dump_json", answer.__str__)())


def calls(view: View) -> dict[str, list[Callable[[], Any]]]:
    """Every public method of the View, with arguments that reach its corners."""
    each = [
        [lambda n=n, m=m: getattr(view, m)(n) for n in NAMES]
        for m in (
            "market",
            "wordings",
            "odds",
            "history",
            "state",
            "book",
            "resolution",
            "forecasts",
            "resolve_id",
        )
    ]
    return {
        **dict(
            zip(
                (
                    "market",
                    "wordings",
                    "odds",
                    "history",
                    "state",
                    "book",
                    "resolution",
                    "forecasts",
                    "resolve_id",
                ),
                each,
                strict=True,
            )
        ),
        "history": [*each[2], lambda: view.history(NAMES[0], START + timedelta(hours=5), 2)],
        "series": [lambda n=n: _columns(view.series(n)) for n in NAMES],
        "first_prices": [view.first_prices],
        "markets": [view.markets],
        "events": [view.events],
        "event": [lambda v=v, n=n: view.event(f"{v}:em{n}") for v in VENUES for n in range(3)],
        "resolutions": [view.resolutions],
        "endings": [lambda: [*view.endings().values()]],
        "document": [lambda i=i: view.document(f"d{i}") for i in range(30)],
        "documents": [view.documents, lambda: view.documents(START + timedelta(hours=6), 3)],
        "search": [
            *(lambda w=w: view.search(" ".join(w), 3) for w in pairwise(WORDS)),
            lambda: view.search(" ".join(WORDS), 10, START + timedelta(hours=4)),
        ],
        "list_markets": [
            lambda o=o: view.list_markets(Listing(frozenset(VENUES[:2]), None, o))
            for o in ("volume", "id")
        ],
        "find_markets": [
            *(lambda w=w: _found(view, " ".join(w)) for w in pairwise(WORDS)),
            lambda: _found(view, "harvets stadum", frozenset(VENUES[:1])),
        ],
        "observations": [
            *(lambda k=k: view.observations(*k) for k in STREAMS),
            lambda: view.observations("reddit", "post", None),
        ],
        "snapshot": [lambda k=k: view.snapshot(*k) for k in SNAPSHOTS],
        "narrow": [lambda: attempt(lambda: view.narrow(START).markets())],
    }


def _columns(series: Series) -> str:
    return f"{series.market_id} {[column.tolist() for column in (series.known_at, series.observed_at, series.price, series.bid, series.ask, series.volume)]}"


def _found(view: View, query: str, venues: frozenset[str] | None = None) -> str:
    hits, method = view.find_markets(query, 3, venues)
    return f"{method} {[(hit.market.model_dump_json(), hit.score) for hit in hits]}"


def dump(gateway: Gateway, t: datetime) -> str:
    """Everything a View at t can say, and what the bulk path says at instants up to t."""
    view = gateway.at(t)
    lines = [
        f"{name}[{i}] {attempt(call)}"
        for name, group in calls(view).items()
        for i, call in enumerate(group)
    ]
    instants = np.arange(to_us(START), to_us(t) + 1, 3 * 3_600_000_000, dtype=np.int64)
    for name in NAMES[:9]:
        panel = gateway.panel([(name, instants)], ["someone"], Evidence(3, 1))
        shown = [[d.id for d in docs] for docs in panel.documents]
        columns = [panel.price, panel.week_ago, panel.known_at, panel.base_rate, panel.recorded]
        texts = [x and x.model_dump_json() for x in panel.text]
        lines.append(f"{name} {columns} {shown} {texts}")
        lines += [f"{b.name} {b.forecast(panel)}" for b in BASELINES.values()]
    return "\n".join(lines)


def _gateway(records: list[Any]) -> Gateway:
    return Gateway(RecordedWorld(MemoryArchive(records)), FrozenClock(START + timedelta(days=9)))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_pairs_cannot_be_told_apart(block: int) -> None:
    size = PAIRS // BLOCKS
    different = 0
    for seed in range(block * size, (block + 1) * size):
        first, second, t = pair(seed)
        a, b = dump(_gateway(first), t), dump(_gateway(second), t)
        assert a == b, f"seed {seed} at {t}"
        end = START + timedelta(days=2)
        different += dump(_gateway(first), end) != dump(_gateway(second), end)
    assert different > size * 0.9, "the pairs hardly differ: the test would prove nothing"


def test_pairs_on_disk(tmp_path: Path) -> None:
    for seed in range(10):
        first, second, t = pair(100_000 + seed)
        dumps = []
        for side, records in (("a", first), ("b", second)):
            path = tmp_path / f"{seed}{side}"
            ArchiveWriter(path).add(
                records, importer="test", source=side, source_digest=side, recorded_at=START
            )
            dumps.append(dump(Gateway(RecordedWorld(Archive(path))), t))
        assert dumps[0] == dumps[1]


def test_every_public_method_is_covered() -> None:
    public = {n for n, _ in inspect.getmembers(View, inspect.isfunction) if not n.startswith("_")}
    assert calls(_gateway([]).at(START)).keys() == public


def test_without_the_guard_the_pairs_can_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_guard(monkeypatch)
    caught = 0
    for seed in range(30):
        first, second, t = pair(seed)
        caught += dump(_gateway(first), t) != dump(_gateway(second), t)
    assert caught > 20
