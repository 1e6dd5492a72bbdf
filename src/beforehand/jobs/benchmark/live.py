"""The live twin of a backtest: its configuration on open events, and the gap between the two.

The gap is the live gain on the market less the backtested one, a forecaster at a time, each as
verdict.py has it. The live side is read from the sealed log alone, every forecast in it, beside the
market's price when it was sealed: whoever seals two forecasts has both counted, and events that are
still open count at their last price. With few effective periods on a side nothing is said of the
gap.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, nan
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import orjson

from beforehand.clock import from_us, parse_instant, to_us
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import ModelOptions
from beforehand.gateway.gateway import Gateway
from beforehand.jobs import hindsight
from beforehand.jobs.benchmark.events import Asking, load_events, market_of
from beforehand.jobs.benchmark.rounds import frozen_round
from beforehand.records.backtest import SearchConfig
from beforehand.records.benchmark import EventSpec
from beforehand.runs.columns import question
from beforehand.score import positions, verdict
from beforehand.score.evaluate import Columns, Question, build_table
from beforehand.score.skill import MARKET
from beforehand.score.summary import Summary, pair
from beforehand.score.table import Table
from beforehand.store.files import read_json, read_lines
from beforehand.store.run_folder import RunFolder
from beforehand.store.seals import Seal

LOG = "sealed.jsonl"
"""The log beside the rounds."""


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
class Side:
    """One side: the mean gain on the market with the half-width of its interval (95 %), on how many
    effective periods it rests, and on how many questions and events. `e_value` is its evidence for
    whoever looks every day, `looked` the one that is needed; 0 where that is not asked."""

    mean: float
    half: float
    periods: float
    questions: int
    events: int
    e_value: float = 0.0
    looked: float = verdict.EVIDENCE


class GapWire(TypedDict):
    """Live gain on the market less the backtested one, with its 95 % interval, and what each side
    rests on. `told`: the interval excludes 0, and neither side has `too_few` effective periods.
    `e_value` is the evidence that the forecaster beats the market live, for whoever looks every
    day: `beats_live` from `e_value_needed` on, which grows with the forecasters in the log."""

    forecaster: str
    gap: float
    ci: list[float | None]
    live: float
    backtest: float
    live_questions: int
    live_events: int
    backtest_questions: int
    backtest_events: int
    told: bool
    too_few: str | None
    e_value: float
    e_value_needed: float
    beats_live: bool


def gaps(backtest: Mapping[str, Side], live: Mapping[str, Side]) -> list[GapWire]:
    """The gap of every forecaster that has both, the widest fall first."""
    found = [_gap(name, backtest[name], live[name]) for name in live if name in backtest]
    return sorted(found, key=lambda one: one["gap"])


def _gap(name: str, before: Side, now: Side) -> GapWire:
    # The two rest on different times, so that their variances add up.
    apart, half = now.mean - before.mean, hypot(before.half, now.half)
    few = _too_few("the backtest", before) or _too_few("live", now)
    return {
        "forecaster": name,
        "gap": apart,
        "ci": pair((apart - half, apart + half)),
        "live": now.mean,
        "backtest": before.mean,
        "live_questions": now.questions,
        "live_events": now.events,
        "backtest_questions": before.questions,
        "backtest_events": before.events,
        "told": few is None and abs(apart) > half,
        "too_few": few,
        "e_value": now.e_value,
        "e_value_needed": now.looked,
        "beats_live": now.e_value >= now.looked,
    }


def _too_few(side: str, found: Side) -> str | None:
    if found.periods >= verdict.LEAST_PERIODS:
        return None
    return (
        f"{side}: {found.periods:.3g} effective periods, and {verdict.LEAST_PERIODS:g} are needed"
    )


def of_backtest(folder: RunFolder) -> dict[str, Side]:
    """What each forecaster of a finished backtest gained on the market. Raises Corrupt where its
    scores were changed, NotFound where it has none."""
    folder.check_file("scores.json")
    path = folder.path / "scores.json"
    if not path.is_file():
        raise folder.without_scores()
    summary: Summary = read_json(path)
    found = dict[str, Side]()
    for row in summary["leaderboard"]:
        gain = row.get("evidence")
        if gain is None or gain["mean"] is None or None in gain["ci"]:
            continue
        low, high = gain["ci"]
        assert low is not None
        assert high is not None
        size = row["n_questions"], row["n_events"]
        half, periods = (high - low) / 2, gain["effective_periods"]
        found[row["forecaster"]] = Side(gain["mean"], half, periods, *size)
    return found


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
) -> tuple[dict[str, Side], list[Counted]]:
    """Every forecast that was sealed about the events of these rounds before they ended, those that
    are still open at their last price, and how much of each round counts. Raises InputError for a
    round that is named twice, or where nothing of any has resolved; Corrupt where events are not
    the frozen ones."""
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
    columns = _columns(specs, endings, lines, gateway)
    said = gateway.full_view().endings()
    questions = [
        replace(_question(spec, endings.get(spec.id)), id=market)
        for spec in specs.values()
        if (market := market_of(spec)) not in said or said.says(market)[0] != "void"
    ]
    table = build_table(columns, questions)
    if not len(table.q):
        raise InputError(
            "nothing that was sealed about these rounds has resolved: run `beforehand bench "
            "resolve` on each first"
        )
    table = hindsight.marked(table, gateway)
    return {name: _side(table, name) for name in table.forecasts}, told


def _question(spec: EventSpec, ending: Mapping[str, Any] | None) -> Question:
    return question(spec.model_dump(mode="json", exclude_none=True), ending)


def _side(table: Table, name: str) -> Side:
    found = positions.gains(table, {name: positions.AgainstMarket(name)}, looked=True)[name]
    gain, needed = verdict.evidence(table, found), verdict.EVIDENCE * len(table.forecasts)
    events, questions = set[int](), 0
    for one in (table, table.open):
        if one is not None and name in one.forecasts:
            asked = np.unique(one.q[np.isfinite(one.forecasts[name])])
            questions += len(asked)
            events.update(one.event[asked].tolist())
    e_value = float(verdict.e_values(found).max(initial=0.0))
    size = questions, len(events)
    return Side(gain.mean, gain.half, gain.rests_on, *size, e_value, needed)


def _endings(folder: Path) -> dict[str, Mapping[str, Any]]:
    path = folder / "resolutions.jsonl"
    rows = [orjson.loads(text) for _, text in read_lines(path)] if path.is_file() else []
    return {str(row["id"]): row for row in rows if row.get("resolved_at")}


def _in_time(
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Seal],
) -> Iterator[tuple[Seal, bool]]:
    """The lines about events, each with whether it was sealed before the event ended."""
    for line in lines:
        if line["id"] in specs and line["predictor"] != MARKET:
            end = endings.get(line["id"])
            ended = None if end is None else parse_instant(str(end["resolved_at"]))
            yield line, ended is None or parse_instant(line["sealed_at"]) < ended


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


def _columns(
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Seal],
    gateway: Gateway,
) -> Columns:
    """Every forecast that counts, beside the market's price when it was sealed."""
    rows = dict[tuple[str, int], dict[str, float]]()
    for line, early in _in_time(specs, endings, lines):
        if early:
            key = market_of(specs[line["id"]]), to_us(parse_instant(line["sealed_at"]))
            rows.setdefault(key, {})[line["predictor"]] = float(line["probability"])
    columns = Columns()
    for (market, t), said in sorted(rows.items()):
        try:
            odds = gateway.at(from_us(t)).odds(market)
        except NotFound:
            continue
        columns.id.append(market)
        columns.t.append(t)
        columns.market.append(odds.price)
        columns.price_age.append(odds.price_age / 86400)
        columns.strict.append(False)
        columns.evidence.append(0)
        columns.bid.append(nan if odds.bid is None else odds.bid)
        columns.ask.append(nan if odds.ask is None else odds.ask)
        columns.forecasts.append(said)
    return columns
