"""Forecasters that remember gain nothing where questions are asked in order of time.

Three rules that copy the market unless their memory holds the future:

sibling  of two markets of one event, it carries over how the other one's price moves later
own      it answers with its market's own later price, if it was shown that before
count    it tells from how often it was asked about a sibling how long the sibling lived

In order none of them ever finds anything. In disorder each "beats the market": market after market
(the barrier taken out) for the first two, a second run of a forecaster that was not restarted for
`own`. The worlds' seeds are 7000 to 7099, the first eight of them in `make test`, all in
`make chaos`.
"""

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.clock import FrozenClock
from beforehand.config import Home, Workspace
from beforehand.engine.job import RunLimits
from beforehand.engine.runs import Finished, start
from beforehand.forecast.schemes.held import HELD
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.records.record import Record
from beforehand.records.world import Document, PricePoint, RecordedForecast, Resolution
from beforehand.runs.rows import read_jsonl
from beforehand.score.evaluate import Settings
from beforehand.score.intervals import t_quantile
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig
from proofs import FULL, count

SEEDS = range(7000, 7000 + count("worlds in which a forecaster remembers", 2, 100))
RULES = ("sibling", "own", "count")
NOW = FrozenClock(datetime(2026, 11, 1, tzinfo=UTC))
WEEK, T = timedelta(days=7), datetime(2025, 2, 12, 9, tzinfo=UTC)
Key = tuple[str, str, str]
"""(rule, market, time)"""


def logit(p: float) -> float:
    q = min(max(p, 0.005), 0.995)
    return math.log(q / (1 - q))


class Rule:
    """A forecaster with memory: every price that it was shown, by market and time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: dict[str, dict[str, float]] = defaultdict(dict)
        self.event: dict[str, str] = {}
        self.asked: Counter[str] = Counter()

    def __call__(self, context: Mapping[str, Any], index: int) -> dict[str, float]:
        market, time, odds = (
            context["market"]["id"],
            context["time"],
            context["market"]["odds"],
        )
        self.event[market] = re.sub(r"above \d+|\d+\.|Clarified.*", "", _text(context))
        siblings = [m for m, e in self.event.items() if e == self.event[market] and m != market]
        p = getattr(self, f"_{self.name}")(market, time, odds, siblings)
        self.seen[market][time] = odds
        self.asked[market] += 1
        return {"probability": p}

    def _sibling(self, market: str, time: str, odds: float, siblings: list[str]) -> float:
        moves = [
            logit(known[max(known)]) - logit(known[time])
            for m in siblings
            if time in (known := self.seen[m]) and max(known) > time
        ]
        shift = 0.5 * statistics.fmean(moves) if moves else 0.0
        return odds if not shift else 1 / (1 + math.exp(-(logit(odds) + shift)))

    def _own(self, market: str, time: str, odds: float, siblings: list[str]) -> float:
        later = [t for t in self.seen[market] if t > time]
        return self.seen[market][max(later)] if later else odds

    def _count(self, market: str, time: str, odds: float, siblings: list[str]) -> float:
        """A sibling that it was asked about more often has lived its whole life by now."""
        lives = [n for m in siblings if (n := self.asked[m]) > self.asked[market] + 1]
        if not lives:
            return odds
        return 1 / (1 + math.exp(-(logit(odds) + (0.8 if min(lives) <= SHORT else -0.4))))


SHORT = 4


def _text(context: Mapping[str, Any]) -> str:
    return context["market"]["description"] or ""


def world(seed: int) -> list[Record]:
    """A simulated world in which an event that comes true ends early, as events with a deadline
    do: its markets end after four weeks."""
    config = SimConfig(seed=seed, dates=9, canaries=0, void=0, half=0, scalar=0, early=0)
    made = list(records(config))
    ends = {r.market_id: r for r in made if isinstance(r, Resolution)}
    opened: dict[str, datetime] = {}
    event: dict[str, str] = {}
    for r in made:
        if isinstance(r, PricePoint):
            opened[r.market_id] = min(r.known_at, opened.get(r.market_id, r.known_at))
        elif name := getattr(r, "event_id", None):
            event[r.id] = name  # type: ignore[attr-defined]
    true = {event[m] for m, r in ends.items() if r.payout == 1.0}
    cut = {m: opened[m] + 4 * WEEK for m in ends if event[m] in true}
    return list(_ended(made, {m: end for m, end in cut.items() if end < ends[m].resolved_at}))


def altered(made: list[Record], t: datetime) -> list[Record]:
    """The same world up to `t`; after it prices are mirrored, documents gone, endings turned round,
    and what could end a week earlier does."""
    out: list[Record] = []
    first: dict[str, datetime] = {}
    for r in made:
        if isinstance(r, PricePoint):
            first[r.market_id] = min(r.known_at, first.get(r.market_id, r.known_at))
    ends = {
        r.market_id: r.resolved_at - WEEK
        for r in made
        if isinstance(r, Resolution)
        and r.resolved_at - WEEK > max(t + timedelta(days=1), first[r.market_id] + 2 * WEEK)
    }
    for r in made:
        if isinstance(r, PricePoint) and r.known_at > t:
            swap = {"price": 1 - r.price, "bid": None, "ask": None}
            out.append(r.model_copy(update=swap))
        elif isinstance(r, Resolution) and r.known_at > t and r.payout is not None:
            out.append(r.model_copy(update={"payout": 1 - r.payout}))
        elif isinstance(r, Document) and r.known_at > t:
            continue
        else:
            out.append(r)
    return list(_ended(out, ends))


def _ended(made: list[Record], ends: Mapping[str, datetime]) -> Iterator[Record]:
    """The records of a world in which these markets end at other times."""
    for r in made:
        end = ends.get(getattr(r, "market_id", ""))
        if end is None or not isinstance(r, PricePoint | Resolution | RecordedForecast):
            yield r
        elif isinstance(r, Resolution):
            yield r.model_copy(update={"resolved_at": end, "known_at": end + timedelta(hours=2)})
        elif r.known_at < end:
            yield r


def stored(made: list[Record], path: Path) -> Path:
    ArchiveWriter(path).add(
        made, importer="simulate", source="t", source_digest="t", recorded_at=NOW.now()
    )
    return path


def run(archive: Path, home: Path, run_id: str, rules: Mapping[str, Rule]) -> Finished:
    """One run of these forecasters, held in this process, one step at a time."""
    for name, rule in rules.items():
        HELD[f"held:{name}"] = lambda rule=rule: rule  # type: ignore[misc]
    request = BacktestRequest(
        archive=archive,
        forecasters=",".join(["market", *(f"held:{name}" for name in rules)]),
        max_results=0,
        settings=Settings(draws=100, placebo=0),
        limits=RunLimits(concurrency=1),
    )
    try:
        return start(request, Workspace(Home(home)), run_id)
    finally:
        for name in rules:
            del HELD[f"held:{name}"]


def answers(done: Finished, until: datetime | None = None) -> dict[Key, float]:
    return {
        (d["model_id"], row["market_id"], row["time"]): d["probability"]
        for row in read_jsonl(done.folder.path / "intervals.jsonl")
        for d in row["decisions"]
        if d["model_id"].startswith("held:")
        and (until is None or datetime.fromisoformat(row["time"]) <= until)
    }


def new() -> dict[str, Rule]:
    return {name: Rule(name) for name in RULES}


def skill(done: Finished) -> dict[str, float]:
    board = {row["forecaster"]: row for row in done.summary["leaderboard"]}
    return {
        name: board[f"held:{name}"]["skill_vs_market"] for name in RULES if f"held:{name}" in board
    }


def all_runs(
    archive: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, float], dict[str, float], dict[Key, float], dict[Key, float], Finished]:
    """(skill in order, skill in disorder, answers by T in order, in disorder, the second run)."""
    rules = new()
    ordered = run(archive, home, "ordered", rules)
    again = run(archive, home, "again", {"own": rules["own"]})  # Not restarted.
    with monkeypatch.context() as patched:
        patched.setattr("beforehand.jobs.backtest.order._memoryless", lambda cast: True)
        two = {name: rule for name, rule in new().items() if name != "own"}
        disordered = run(archive, home, "disordered", two)
    return (
        skill(ordered),
        {**skill(disordered), **skill(again)},
        answers(ordered, T),
        {**answers(disordered, T), **answers(again, T)},
        again,
    )


def bounds(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the mean, by Student's t."""
    half = t_quantile(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def test_memory_gains_nothing_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gained: dict[str, list[float]] = defaultdict(list)
    less: dict[str, list[float]] = defaultdict(list)
    changed, compared = Counter[str](), 0
    for seed in SEEDS:
        made = world(seed)
        first = all_runs(stored(made, tmp_path / f"a{seed}"), tmp_path / f"ha{seed}", monkeypatch)
        other = all_runs(
            stored(altered(made, T), tmp_path / f"b{seed}"), tmp_path / f"hb{seed}", monkeypatch
        )
        assert first[2].keys() == other[2].keys(), "the same questions up to T"
        compared += len(first[2])
        changed["in order"] += sum(first[2][key] != other[2][key] for key in first[2])
        for key, said in first[3].items():
            changed[key[0]] += said != other[3].get(key)
        for name in RULES:
            gained[name].append(first[1][name])
            less[name].append(first[0][name] - first[1][name])
        row = next(r for r in first[4].summary["leaderboard"] if r["forecaster"] == "held:own")
        assert row["order"] == "may remember"
        assert row["verdict"] != "beats the market"
    assert changed["in order"] == 0 < compared
    for name in RULES:
        low, _ = bounds(gained[name])
        _, high = bounds(less[name])
        print(
            f"{name}: skill in disorder {statistics.fmean(gained[name]):.4f}, lower bound "
            f"{low:.4f}; in order less disorder, upper bound {high:.4f}; altering what follows "
            f"changes {changed[f'held:{name}']:,} answers in disorder"
        )
        if FULL:  # The bounds of a hundred worlds; a few show the direction.
            assert low > 0 > high, name
        assert statistics.fmean(gained[name]) > 0 > statistics.fmean(less[name]), name
        assert changed[f"held:{name}"] > 0, name
    print(f"{len(SEEDS)} worlds: 0 of {compared:,} answers in order changed")
