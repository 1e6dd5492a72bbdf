"""The live twin of a backtest: its configuration on open events, and the gap between the two.

The gap is the live skill against the market less the backtested one, a forecaster at a time. The
live side is read from the sealed log alone, every forecast in it, beside the market's price when it
was sealed: whoever seals two forecasts has both counted. The interval draws whole clusters of each
side's questions, apart from one another, by event and by month; the wider one leads. With few
events or months on a side nothing is said of the gap.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import orjson

from beforehand.clock import parse_instant
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import ModelOptions
from beforehand.gateway.gateway import Gateway
from beforehand.jobs.benchmark.events import Asking, load_events, market_of
from beforehand.jobs.benchmark.rounds import frozen_round
from beforehand.records.backtest import SearchConfig
from beforehand.records.benchmark import EventSpec
from beforehand.score.evaluate import Settings
from beforehand.score.intervals import Resampler
from beforehand.score.skill import MARKET, MIN_EVENTS, ratio, width
from beforehand.score.table import event_labels
from beforehand.store.files import read_csv, read_json, read_lines
from beforehand.store.run_folder import RunFolder
from beforehand.store.seals import Seal

LOG, MIN_MONTHS = "sealed.jsonl", 4
"""The log beside the rounds; and months on each side below which nothing is said of a gap."""


def predictions_of(run_id: str) -> str:
    """The file in a round's folder with what the forecasters of a backtest said."""
    return f"predictions.{run_id}.jsonl"


@dataclass(frozen=True)
class Configuration:
    """Who was asked in a backtest, and how."""

    forecasters: tuple[str, ...]
    asking: Asking


def configuration_of(folder: RunFolder) -> Configuration:
    """The configuration of a finished backtest, the market always among its forecasters. Raises
    InputError for a run of another kind, and where its configuration was changed."""
    folder.check_file("config.json")
    facts = folder.facts()
    if facts["status"] != "success" or facts.get("kind") != "backtest":
        raise InputError(
            f"run {folder.run_id} is no finished backtest ({facts.get('kind', facts['status'])}): "
            "name one of `beforehand backtest run`"
        )
    config = read_json(folder.path / "config.json")
    entries, sims, search = dict.fromkeys([MARKET]), 1, SearchConfig()
    for experiment in config["experiments"]:
        entries |= dict.fromkeys(name.removeprefix("baseline:") for name in experiment["models"])
        sims = max(sims, experiment.get("num_sims", 1))
        search = SearchConfig.model_validate(experiment.get("search_config") or {})
    known = ModelOptions.__dataclass_fields__
    stated = {k: v for k, v in config.get("models", {}).items() if k in known and k != "cutoffs"}
    return Configuration(tuple(entries), Asking(ModelOptions(**stated), sims, search))


@dataclass(frozen=True)
class Scored:
    """One side: per question the skill, and what it counts as one with."""

    skill: np.ndarray[Any, np.dtype[np.float64]]
    event: np.ndarray[Any, np.dtype[np.int64]]
    month: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def mean(self) -> float:
        """The skill, each question with one vote."""
        return float(self.skill.mean())


Cell = tuple[float, object, str]
"""A question's skill, the event that it counts as, the month in which it settled."""


def _scored(cells: Sequence[Cell]) -> Scored:
    def labels(values: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
        places = {value: i for i, value in enumerate(dict.fromkeys(values))}
        return np.array([places[value] for value in values], dtype=np.int64)

    return Scored(
        np.array([skill for skill, _, _ in cells]),
        labels([event for _, event, _ in cells]),
        labels([month for _, _, month in cells]),
    )


def by_forecaster(rows: Iterable[Mapping[str, Any]]) -> dict[str, Scored]:
    """The rows of a questions.csv as sides, by forecaster; months are those in which questions
    settled, where that is on record."""
    found = defaultdict[str, list[Cell]](list)
    for row in rows:
        if row["skill_vs_market"] not in ("", None) and row["forecaster"] != MARKET:
            month = str(row["settled"])[:7] if row["settled"] else f"m{row['month']}"
            cell = (float(row["skill_vs_market"]), row["event"], month)
            found[str(row["forecaster"])].append(cell)
    return {name: _scored(cells) for name, cells in found.items()}


class GapWire(TypedDict):
    """Live skill less backtested skill, with its 95 % interval (null where one side has fewer than
    two clusters), and what each side rests on. `told`: the interval excludes 0, and neither side
    has `too_few` events or months."""

    forecaster: str
    gap: float
    ci: list[float | None]
    leading: str
    live: float
    backtest: float
    live_questions: int
    live_events: int
    backtest_questions: int
    backtest_events: int
    told: bool
    too_few: str | None


def gaps(
    backtest: Mapping[str, Scored], live: Mapping[str, Scored], settings: Settings
) -> list[GapWire]:
    """The gap of every forecaster that has both, the widest fall first."""
    found = [_gap(name, backtest[name], live[name], settings) for name in live if name in backtest]
    return sorted(found, key=lambda one: one["gap"])


def _gap(name: str, before: Scored, now: Scored, settings: Settings) -> GapWire:
    intervals = {
        kind: _interval(getattr(before, kind), before, getattr(now, kind), now, settings)
        for kind in ("event", "month")
    }
    leading = max(intervals, key=lambda kind: width(intervals[kind]))
    low, high = intervals[leading]
    few = _too_few("the backtest", before) or _too_few("live", now)
    return {
        "forecaster": name,
        "gap": now.mean - before.mean,
        "ci": [None if v != v else v for v in (low, high)],
        "leading": leading,
        "live": now.mean,
        "backtest": before.mean,
        "live_questions": len(now.skill),
        "live_events": len(set(now.event.tolist())),
        "backtest_questions": len(before.skill),
        "backtest_events": len(set(before.event.tolist())),
        "told": few is None and (low > 0 or high < 0),
        "too_few": few,
    }


def _too_few(side: str, found: Scored) -> str | None:
    events, months = len(set(found.event.tolist())), len(set(found.month.tolist()))
    if events < MIN_EVENTS:
        return f"{side}: {events} events, and {MIN_EVENTS} are needed"
    if months < MIN_MONTHS:
        return f"{side}: {months} months, and {MIN_MONTHS} are needed"
    return None


def _interval(
    old: Any, before: Scored, new: Any, now: Scored, settings: Settings
) -> tuple[float, float]:
    sides = []
    for n, (labels, side) in enumerate(((old, before), (new, now))):
        sampler = Resampler(labels, settings.draws, settings.seed + n)
        columns = np.stack([side.skill, np.ones(len(side.skill))], axis=1)
        sides.append((ratio(sampler.totals(columns)), sampler))
    (first, one), (second, other) = sides
    fewest = min(one, other, key=lambda sampler: sampler.size)
    return fewest.interval(second - first)


def of_backtest(folder: RunFolder) -> dict[str, Scored]:
    """The questions of a finished backtest. Raises Corrupt where they were changed, NotFound where
    the run has none."""
    folder.check_file("questions.csv")
    path = folder.path / "questions.csv"
    if not path.is_file():
        raise NotFound(f"run {folder.run_id} keeps no questions.csv: make the run again")
    return by_forecaster(row for _, row, _ in read_csv(path, ()) if row is not None)


class Counted(TypedDict):
    """What of a round counts: its events, how many have resolved, how many sealed forecasts were
    scored, and how many were sealed too late, or without a price then."""

    round: str
    events: int
    resolved: int
    scored: int
    too_late: int
    without_price: int


def of_rounds(
    rounds: Sequence[Path], lines: Sequence[Seal], gateway: Gateway
) -> tuple[dict[str, Scored], list[Counted]]:
    """Every forecast that was sealed about the events of these rounds before they ended, and how
    much of each round counts. Raises InputError for a round that is named twice, or where nothing
    of any has resolved; Corrupt where events are not the frozen ones."""
    if len({folder.resolve() for folder in rounds}) < len(rounds):
        raise InputError("a --round is named twice")
    specs, endings, told = dict[str, EventSpec](), dict[str, Mapping[str, Any]](), list[Counted]()
    for folder in rounds:
        frozen_round(folder)
        mine = {spec.id: spec for _, spec in load_events(folder / "events.jsonl")}
        ended = _endings(folder)
        counts = _count(mine, ended, lines, gateway)
        told.append({"round": str(folder), "events": len(mine), **counts})  # type: ignore[typeddict-item]
        specs |= mine
        endings |= {name: end for name, end in ended.items() if name in mine}
    gains = _gains(specs, endings, lines, gateway)
    if not gains:
        raise InputError(
            "nothing that was sealed about these rounds has resolved: run `beforehand bench "
            "resolve` on each first"
        )
    settled = sorted({name for names in gains.values() for name in names})
    days = [str(endings[name]["resolved_at"])[:10] for name in settled]
    events = [(specs[name].model_extra or {}).get("event_id") for name in settled]
    labels = event_labels([specs[name].question for name in settled], days, events)
    label = {name: int(one) for name, one in zip(settled, labels, strict=True)}
    month = {name: day[:7] for name, day in zip(settled, days, strict=True)}
    return {
        who: _scored([(float(np.mean(g)), label[name], month[name]) for name, g in mine.items()])
        for who, mine in gains.items()
    }, told


def _endings(folder: Path) -> dict[str, Mapping[str, Any]]:
    path = folder / "resolutions.jsonl"
    rows = [orjson.loads(text) for _, text in read_lines(path)] if path.is_file() else []
    return {str(row["id"]): row for row in rows if row.get("resolved_at")}


def _in_time(
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Seal],
) -> Iterator[tuple[Seal, bool]]:
    """The lines about events that have ended, each with whether it was sealed before."""
    for line in lines:
        if line["id"] in specs and line["id"] in endings and line["predictor"] != MARKET:
            end = parse_instant(str(endings[line["id"]]["resolved_at"]))
            yield line, parse_instant(line["sealed_at"]) < end


def _price(spec: EventSpec, line: Seal, gateway: Gateway) -> float | None:
    try:
        return gateway.at(parse_instant(line["sealed_at"])).odds(market_of(spec)).price
    except NotFound:
        return None


def _count(
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Seal],
    gateway: Gateway,
) -> dict[str, int]:
    found = {"resolved": len(specs.keys() & endings.keys()), "scored": 0, "too_late": 0}
    found["without_price"] = 0
    for line, early in _in_time(specs, endings, lines):
        if not early:
            found["too_late"] += 1
        elif _price(specs[line["id"]], line, gateway) is None:
            found["without_price"] += 1
        else:
            found["scored"] += 1
    return found


def _gains(
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Seal],
    gateway: Gateway,
) -> dict[str, dict[str, list[float]]]:
    """By forecaster and event: how much less the squared error is than the market's, for every
    forecast that counts."""
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    for line, early in _in_time(specs, endings, lines):
        price = _price(specs[line["id"]], line, gateway) if early else None
        if price is None:
            continue
        end = endings[line["id"]]
        paid, p = float(end.get("payout", end["outcome"])), float(line["probability"])
        found[line["predictor"]][line["id"]].append((price - p) * (price + p - 2 * paid))
    return {who: dict(mine) for who, mine in found.items()}
