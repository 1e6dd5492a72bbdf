"""The leak tests over every tool, generated from the registry: a new tool cannot escape them."""

import itertools
import re
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_wall import Liar, M, T
from worlds import START, WALLET, WORDS, MemoryArchive, pair, without_the_guard

from beforehand.clock import MICROSECOND, FrozenClock, iso
from beforehand.config import Home
from beforehand.errors import BeforehandError, CutoffViolation, InputError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.market_data.load import load
from beforehand.store.market_data.table import MarketData
from beforehand.store.market_data.templates import TEMPLATES
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage
from proofs import count

REGISTRY = load_tools()
MARKETS = ["POLYMARKET:m0", "m1", "MANIFOLD:m2", "KALSHI:m0", "none"]
EACH = [{"id": name} for name in MARKETS]
PAIRS = count("pairs of worlds through every tool", 40, 300)
TOOK = re.compile(r'"execution_time_ms":[\d.]+|"tokens_estimated":\d+')
DAY = "2026-01-01"
TEXTS = [" ".join(pair_) for pair_ in itertools.pairwise(WORDS)][:4]
PARAMS = {
    "symbol_pattern": "%",
    "file_date": DAY,
    "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-02T00:00:00Z",
    "min_price": 0.0,
    "max_price": 1.0,
    "symbol_a": "S0",
    "symbol_b": "S1",
    "timestamp": "2026-01-01T12:00:00Z",
    "left_pattern": "S0",
    "right_pattern": "S%",
}
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "search_markets": [{"query": t} for t in [*TEXTS, "zzzz"]] + [{"query": TEXTS[0], "limit": 1}],
    "list_markets": [{}, {"order": "close_time"}, {"order": "id", "ascending": True, "limit": 1}],
    "get_market": EACH,
    "list_events": [{}, {"limit": 1}],
    "get_event": [{"id": "em0"}, {"id": "MANIFOLD:em1"}],
    "get_order_books": [{"ids": [m]} for m in MARKETS],
    "get_prices": [{"ids": [m]} for m in MARKETS],
    "get_price_history": [*EACH, {"id": "m1", "limit": 4}],
    "get_user_positions": [{"user": WALLET}],
    "get_user_activity": [{"user": WALLET}],
    "get_top_holders": EACH,
    "list_comments": EACH,
    "get_builder_leaderboard": [{"period": "week"}],
    "get_btc_price": [{}],
    "execute-python-code": [{"code": "import datetime\nprint(datetime.datetime.now())"}],
    "get_market_snapshot": EACH,
    "get_event_overview": [{"id": "em0"}],
    "compare_markets": [{"ids": MARKETS}],
    "search_polymarket_markets": [{"query": TEXTS[0], "session_id": "s"}],
    "get_polymarket_history": [{}],
    "get_market_price_history": [{"market_id": m, "date": DAY} for m in MARKETS],
    "get_market_price_range": [
        {"market_id": m, "start_date": DAY, "end_date": "2026-01-03"} for m in MARKETS
    ],
    "get_market_metadata": EACH,
    "get_odds_at": [{"id": m, "time": iso(START + timedelta(hours=3))} for m in MARKETS],
    "search_kalshi_markets": [{"query": TEXTS[1]}],
    "list_kalshi_markets": [{}],
    "get_kalshi_event": [{"id": "em0"}],
    "get_kalshi_order_book": EACH,
    "get_kalshi_candlesticks": [*EACH, {"id": "m1", "period": "1h"}],
    "get_kalshi_trades": EACH,
    "list_editions": [{}],
    "explain_operators": [{}],
    "build_search_feed": [{"query": "x"}],
    "preview_search_feed": [{"query": WORDS[0]}, {"query": TEXTS[1]}],
    "fetch_search_feed": [{"query": WORDS[0]}],
    "search_web": [{"query": f"{WORDS[1]} {WORDS[2]}"}, {"query": TEXTS[3]}],
    "get_search_capabilities": [{}],
    "search": [{"query": t} for t in TEXTS],
    "search_domains": [{"query": t} for t in TEXTS],
    "search_all_markets": [{"query": TEXTS[0]}, {"query": TEXTS[1], "venues": ["SIM"]}],
    "reddit_search_and_fetch_threads": [
        {"keywords": WORDS[:3]},
        {"keywords": WORDS, "min_score": 1},
    ],
    "reddit_api_search_and_fetch_threads": [{"keywords": WORDS[:2]}],
    "get_company_facts": [{"cik": "7"}],
    "list_company_filings": [{"cik": "7", "form": "10-K"}],
    "run_query": [
        {"template": name, "params": {key: PARAMS[key] for key in spec.required}}
        for name, spec in TEMPLATES.items()
    ],
}


def test_every_tool_is_under_test() -> None:
    off = set(ARGUMENTS) ^ set(REGISTRY)
    assert not off, f"add to ARGUMENTS, or take out of it: {off}"
    for name, tool in REGISTRY.items():
        assert ("as_of" in tool.arguments) == tool.outside, name


def attempt(call: Callable[[], Any]) -> str:
    """The answer's bytes but for how long code ran, or the error in full."""
    try:
        return TOOK.sub("", call().raw.decode())
    except BeforehandError as error:
        return f"{type(error).__name__}: {error}"


def dump(box: Toolbox, **more: Any) -> list[str]:
    """What every tool says to every argument, its pages included."""
    said = []
    for name, arguments in ARGUMENTS.items():
        extra = more if REGISTRY[name].outside else {}
        for given in arguments:
            asked = {**given, **extra}
            said.append(f"{name} {given}: {attempt(lambda n=name, a=asked: box.call(n, a))}")
    return said


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Home]:
    """Fresh home folders."""
    count = itertools.count()
    root = tmp_path_factory.mktemp("homes")
    return lambda: Home(root / str(next(count)))


def toolbox(records: list[Any], home: Home, pinned: datetime | None) -> Toolbox:
    gateway = Gateway(RecordedWorld(MemoryArchive(records)), FrozenClock(START + timedelta(days=9)))
    storage = Storage(home)
    if not home.market_data.is_file():
        storage.__dict__["table"] = shared_table()
    return Toolbox(gateway, storage, pinned)


@cache
def shared_table() -> MarketData:
    """One table for all worlds (its own pairs are tested apart)."""
    folder = Path(tempfile.mkdtemp())
    file = folder / "quotes.csv"
    rows = [_quote(np.random.default_rng(i), START + timedelta(hours=i)) for i in range(30)]
    file.write_text("symbol,bid,ask,price,timestamp,created_at\n" + "\n".join(rows) + "\n")
    load(folder / "market_data.db", file, START)
    return MarketData(folder / "market_data.db")


@pytest.mark.parametrize("block", range(2))
def test_no_tool_tells_two_worlds_apart(block: int, homes: Callable[[], Home]) -> None:
    size, different = PAIRS // 2, 0
    for seed in range(block * size, (block + 1) * size):
        first, second, t = pair(50_000 + seed)
        a, b = (dump(toolbox(records, homes(), t)) for records in (first, second))
        assert a == b, next((x, y) for x, y in zip(a, b, strict=True) if x != y)
        late = START + timedelta(days=2)
        if seed % 10 == 0:
            x, y = (dump(toolbox(records, homes(), late)) for records in (first, second))
            different += sum(p != q for p, q in zip(x, y, strict=True))
    assert different > size, "the pairs hardly differ: the test would prove nothing"


def test_an_argument_pins_as_a_session_does(homes: Callable[[], Home]) -> None:
    """`as_of` in an unpinned box, and a pinned box, give the same answers."""
    for seed in range(10):
        world, _, t = pair(60_000 + seed)
        by_session = dump(toolbox(world, homes(), t))
        by_argument = dump(toolbox(world, homes(), None), as_of=iso(t))
        # The clock in code is that of the session; a search is known since its author's pin.
        own = ("execute-python-code", "get_polymarket_history")
        a, b = ([x for x in said if not x.startswith(own)] for said in (by_session, by_argument))
        assert a == b


def test_later_questions_change_nothing_at_t(homes: Callable[[], Home]) -> None:
    """What questions share (caches, logs, row ids, statistics) tells an earlier one nothing of the
    later ones: every tool answers at t as if nobody had asked at a later instant."""
    for seed in range(8):
        world, _, t = pair(70_000 + seed)
        alone, shared = homes(), homes()
        expected = dump(toolbox(world, alone, t))
        late = toolbox(world, shared, START + timedelta(days=2))
        dump(late)
        early = Toolbox(late.gateway, late.storage, t)
        assert dump(early) == expected
        assert _last_row(shared) > _last_row(alone), "a stored row id would have told"


def _last_row(home: Home) -> int:
    with closing(sqlite3.connect(home.queries)) as db:
        found: int = db.execute("SELECT max(id) FROM prediction_queries").fetchone()[0]
        return found


def test_without_the_guard_the_tools_tell_them_apart(
    monkeypatch: pytest.MonkeyPatch, homes: Callable[[], Home]
) -> None:
    without_the_guard(monkeypatch)
    caught = set()
    for seed in range(40):
        first, second, t = pair(50_000 + seed)
        a, b = (dump(toolbox(records, homes(), t)) for records in (first, second))
        caught |= {x.split()[0] for x, y in zip(a, b, strict=True) if x != y}
    outside = {name for name, tool in REGISTRY.items() if tool.outside}
    own = {"run_query", "get_polymarket_history", "search", "search_domains"}
    # Document search is guarded twice: its index holds a prefix, and so do those of markets and of
    # their prices. The table has its own predicate.
    own |= {"search_web", "fetch_search_feed", "preview_search_feed"}
    alike = outside - own - caught
    assert not alike, f"they answer alike in both worlds: give them rows in worlds.py ({alike})"


@pytest.mark.parametrize("name", sorted(n for n, t in REGISTRY.items() if t.outside))
def test_a_pin_can_only_be_narrowed(name: str, homes: Callable[[], Home]) -> None:
    t = START + timedelta(hours=12)
    box = toolbox([], homes(), t)
    given = ARGUMENTS[name][0]
    for later in (t + MICROSECOND, t + timedelta(days=400)):
        with pytest.raises(CutoffViolation, match="only be narrowed"):
            box.call(name, {**given, "as_of": iso(later)})
    with pytest.raises(InputError, match="time zone"):
        box.call(name, {**given, "as_of": "2026-01-01T00:00:00"})
    unpinned = toolbox([], homes(), None)
    with pytest.raises(CutoffViolation):
        unpinned.call(name, {**given, "as_of": iso(START + timedelta(days=10))})


@pytest.mark.parametrize("name", sorted(n for n, t in REGISTRY.items() if t.outside))
def test_the_liar_is_caught_in_every_tool(name: str, homes: Callable[[], Home]) -> None:
    """A world that hands out t − 1 µs, t, t + 1 µs, undated, day-dated and edited records: of the
    later ones nothing is shown."""
    gateway = Gateway(Liar(), FrozenClock(T + timedelta(days=30)))  # type: ignore[arg-type]
    box = Toolbox(gateway, Storage(homes()), T)
    for given in ARGUMENTS[name]:
        own = {
            key: ([M] if key == "ids" else M) for key in ("id", "ids", "market_id") if key in given
        }
        said = attempt(lambda g={**given, **own}: box.call(name, g))
        for word in ('"after"', '"later"', "edited later", "dated by day", "no stored text"):
            assert word not in said, said


def test_the_table_is_cut_at_t(tmp_path: Path) -> None:
    """Pairs of tables that share what was created by t: no template tells them apart."""
    t = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for seed in range(count("pairs of tables", 8, 25)):
        rng = np.random.default_rng(seed)
        early = [_quote(rng, t - timedelta(minutes=int(rng.integers(0, 600)))) for _ in range(30)]
        boxes = []
        for side in ("a", "b"):
            later = [
                _quote(rng, t + timedelta(seconds=1 + int(rng.integers(0, 9000))))
                for _ in range(20)
            ]
            home = Home(tmp_path / f"{seed}{side}")
            for part, rows in (("early", early), ("later", later)):
                file = tmp_path / f"{seed}{side}{part}.csv"
                file.write_text(
                    "symbol,bid,ask,price,timestamp,created_at\n" + "\n".join(rows) + "\n"
                )
                load(home.market_data, file, t + timedelta(days=1))
            boxes.append(toolbox([], home, t))
        a, b = (
            [attempt(lambda g=g, box=box: box.call("run_query", g)) for g in ARGUMENTS["run_query"]]
            for box in boxes
        )
        assert _same(a, b)


def _same(a: list[str], b: list[str]) -> bool:
    """Equal but for the file's name in `data_source`."""
    strip = re.compile(r'"data_source":"[^"]*"')
    return [strip.sub("", x) for x in a] == [strip.sub("", y) for y in b]


def _quote(rng: Any, created: datetime) -> str:
    bid = round(float(rng.random()) / 2, 3)
    at = created - timedelta(minutes=int(rng.integers(0, 60)))
    return f"S{int(rng.integers(0, 4))},{bid},{bid + 0.1:.3f},,{iso(at)},{iso(created)}"
