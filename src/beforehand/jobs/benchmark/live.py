"""The live twin of a backtest: its configuration on open events, and the gap between the two.

The gap is the live skill against the market less the backtested one, a forecaster at a time. Its
interval draws whole clusters of each side's questions, apart from one another, by event and by
month; the wider one leads, as for every interval here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import ModelOptions
from beforehand.jobs.benchmark import evaluation
from beforehand.jobs.benchmark.events import Asking
from beforehand.jobs.benchmark.sealed import SealedLog
from beforehand.records.backtest import SearchConfig
from beforehand.score.evaluate import Settings
from beforehand.score.intervals import Resampler
from beforehand.score.report.spreadsheets import question_rows
from beforehand.score.skill import MARKET, ratio, width
from beforehand.store.files import read_csv, read_json
from beforehand.store.run_folder import RunFolder

PREDICTIONS, LOG = "predictions.jsonl", "sealed.jsonl"
"""The forecasts in a round's folder, and the log beside the rounds."""


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


Row = Mapping[str, Any]


def by_forecaster(sets: Iterable[Iterable[Row]]) -> dict[str, Scored]:
    """The rows of several sets (a backtest, rounds) as sides, by forecaster. Events of two sets
    count as two; months are those in which questions settled."""
    found = defaultdict[str, list[tuple[float, tuple[int, Any], str]]](list)
    for n, rows in enumerate(sets):
        for row in rows:
            if row["skill_vs_market"] not in ("", None) and row["forecaster"] != MARKET:
                month = str(row["settled"] or f"{n}.{row['month']}")[:7]
                cell = (float(row["skill_vs_market"]), (n, row["event"]), month)
                found[str(row["forecaster"])].append(cell)
    return {name: _scored(cells) for name, cells in found.items()}


def _scored(cells: Sequence[tuple[float, tuple[int, Any], str]]) -> Scored:
    def labels(values: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
        places = {value: i for i, value in enumerate(dict.fromkeys(values))}
        return np.array([places[value] for value in values], dtype=np.int64)

    return Scored(
        np.array([skill for skill, _, _ in cells]),
        labels([event for _, event, _ in cells]),
        labels([month for _, _, month in cells]),
    )


class GapWire(TypedDict):
    """Live skill less backtested skill, with its 95 % interval (null where one side has fewer than
    two clusters), and what each side rests on."""

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
        "told": low > 0 or high < 0,
    }


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
    """The questions of a finished backtest. Raises InputError where they were changed, NotFound
    where the run has none."""
    folder.check_file("questions.csv")
    path = folder.path / "questions.csv"
    if not path.is_file():
        raise NotFound(f"run {folder.run_id} keeps no questions.csv: make the run again")
    return by_forecaster([[row for _, row, _ in read_csv(path, ()) if row is not None]])


def of_rounds(
    rounds: Sequence[Path], log: SealedLog, settings: Settings
) -> tuple[dict[str, Scored], list[dict[str, Any]]]:
    """What was sealed in these rounds and has resolved since, and how much of each round counts.
    Raises InputError where nothing of any has."""
    sets, told = list[list[Row]](), list[dict[str, Any]]()
    for folder in rounds:
        events, made = folder / "events.jsonl", folder / PREDICTIONS
        endings = folder / "resolutions.jsonl"
        if not made.is_file():
            raise InputError(f"{folder} has no {PREDICTIONS}: `beforehand bench live` makes it")
        try:
            done = evaluation.evaluate_files(
                events, made, endings, replace(settings, placebo=0), sealed=log
            )
        except InputError as error:
            told.append({"round": str(folder), "scored": 0, "why": str(error)})
            continue
        sets.append(list(question_rows(done.result, {})))
        told.append({"round": str(folder), "scored": int(done.result.rows[0].n)})
    if not sets:
        raise InputError(
            "nothing of these rounds has resolved: run `beforehand bench resolve` on each first "
            f"({told[0]['why']})"
        )
    return by_forecaster(sets), told


def frozen(rounds: Sequence[Path]) -> Iterator[Path]:
    """The folders, looked at. Raises NotFound for one without events."""
    for folder in rounds:
        if not (folder / "events.jsonl").is_file():
            raise NotFound(f"there is no round at {folder}: `beforehand bench crawl` makes one")
        yield folder
