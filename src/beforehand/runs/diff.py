"""What differs between two runs: configuration, forecasts, results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import TypedDict

from beforehand.errors import InputError
from beforehand.records.rows import PairWire
from beforehand.runs.rows import columns_at, has_intervals, read_jsonl, read_predictions
from beforehand.store.files import read_json
from beforehand.store.run_folder import RunFolder

IGNORED = ("run_id", "digest")


Json = Mapping[str, Any]
"""A JSON object that was read back; it may be of another version, so no key is certain."""


class FirstDifference(TypedDict):
    """The first forecast that differs, and the parts of its row that do."""

    market_id: str
    time: str
    parts: list[str]


class IntervalDiff(TypedDict):
    """Counts of rows in both runs, of those that differ (in what was shown, in what was said; one
    row may differ in both), and of rows in only one run."""

    both: int
    different: int
    other_context: int
    other_probability: int
    only_left: int
    only_right: int
    first: FirstDifference | None


class BoardDiff(TypedDict):
    """A forecaster's Brier score and verdict in both runs; null in a run that does not have it.
    `paired` is its left self against its right self, on the rows of both; null where there are
    none."""

    forecaster: str
    brier: list[float | None]
    verdict: list[str | None]
    paired: PairWire | None


class RunDiff(TypedDict):
    """What differs; `config` lists fields as [left, right]."""

    left: str
    right: str
    same: bool
    config: dict[str, list[object]]
    intervals: IntervalDiff
    leaderboard: list[BoardDiff]


def differences(left: RunFolder, right: RunFolder) -> RunDiff:
    """Two runs compared; JSON-ready. Raises NotFound for a run without forecasts."""
    for folder in (left, right):
        if not any((folder.path / name).is_file() for name in ("config.json", "scores.json")):
            raise folder.without_scores()
    intervals = _intervals(left.path, right.path)
    return {
        "left": left.run_id,
        "right": right.run_id,
        "same": not intervals["different"] and not intervals["only_left"] + intervals["only_right"],
        "config": _fields(_json(left.path, "config.json"), _json(right.path, "config.json")),
        "intervals": intervals,
        "leaderboard": [
            {**row, "paired": _paired(left, right, row)}
            for row in _boards(_json(left.path, "scores.json"), _json(right.path, "scores.json"))
        ],
    }


def _json(path: Path, name: str) -> Json:
    file = path / name
    found = read_json(file) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


def _fields(left: Json, right: Json) -> dict[str, list[object]]:
    names = [name for name in left.keys() | right.keys() if name != "experiments"]
    found = {
        name: [left.get(name), right.get(name)]
        for name in sorted(names)
        if left.get(name) != right.get(name)
    }
    mine, other = left.get("experiments", []), right.get("experiments", [])
    if mine != other:
        found["experiments"] = [len(mine), len(other)]
        for name in ("models", "interval_minutes", "num_sims", "mode", "search_config"):
            a, b = _values(mine, name), _values(other, name)
            if a != b:
                found[f"experiments.{name}"] = [a, b]
    return found


def _values(experiments: Sequence[Json], name: str) -> list[object]:
    seen: list[object] = []
    for experiment in experiments:
        if experiment.get(name) not in seen:
            seen.append(experiment.get(name))
    return seen


Where = tuple[str, str]
"""Market and time."""


def _rows(path: Path) -> dict[Where, list[Json]]:
    """Rows by market and time: several experiments may have asked the same. Of a scored file, a row
    a forecast."""
    file, found = path / "intervals.jsonl", dict[Where, list[Json]]()
    if not has_intervals(file):
        return _stated(path)
    columns = columns_at(file)
    rows = read_jsonl(file) if columns is None else map(msgspec.to_builtins, columns.rows())
    for row in rows:
        kept = {k: v for k, v in row.items() if k not in IGNORED}
        found.setdefault((row["market_id"], row["time"]), []).append(kept)
    return found


def _stated(path: Path) -> dict[Where, list[Json]]:
    """The forecasts of a scored file as rows that hold nothing but what was said."""
    file, found = path / "predictions.jsonl", dict[Where, list[Json]]()
    for row in read_predictions(file) if file.is_file() else ():
        who = row.metadata.predictor_id or row.metadata.model
        said = {"model_id": who, "probability": row.prediction.probability}
        where = row.id, row.metadata.timestamp
        found.setdefault(where, []).append({"decisions": [said], "failures": []})
    return found


def _said_otherwise(a: Json, b: Json) -> bool:
    """True if a forecaster of both rows said another probability."""
    mine, other = (
        {(d["model_id"], d.get("simulation_index", 0)): d["probability"] for d in row["decisions"]}
        for row in (a, b)
    )
    return any(mine[who] != other[who] for who in mine.keys() & other.keys())


def _paired(left: RunFolder, right: RunFolder, row: Mapping[str, Any]) -> PairWire | None:
    """A forecaster of both runs against itself."""
    if None in row["brier"] or left.run_id == right.run_id:
        return None
    from beforehand.runs.compare import Subject, compare_forecasters  # It loads numpy.

    name = row["forecaster"]
    try:
        found = compare_forecasters(Subject(left, name), Subject(right, name))
        return found.wire() if found.skills is None else None
    except InputError:  # No row in common, or another truth.
        return None


def _pairs(left: Sequence[Json], right: Sequence[Json]) -> list[tuple[Json, Json]]:
    """Pairs of rows: first those of the same forecasters, then the remaining rows in order."""
    mine, other, pairs = list(left), list(right), []
    for row in left:
        twin = next((r for r in other if _who(r) == _who(row)), None)
        if twin is not None:
            mine.remove(row)
            other.remove(twin)
            pairs.append((row, twin))
    return [*pairs, *zip(mine, other, strict=False)]


def _who(row: Json) -> set[str]:
    return {said["model_id"] for said in [*row["decisions"], *row["failures"]]}


def _intervals(left: Path, right: Path) -> IntervalDiff:
    mine, other = _rows(left), _rows(right)
    pairs = [
        (where, a, b) for where, rows in mine.items() for a, b in _pairs(rows, other.get(where, []))
    ]
    differ = [(where, a, b) for where, a, b in pairs if a != b]
    first: FirstDifference | None = None
    if differ:
        (market, time), a, b = differ[0]
        first = {
            "market_id": market,
            "time": time,
            "parts": sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k)),
        }
    return {
        "both": len(pairs),
        "different": len(differ),
        "other_context": sum(a.get("context") != b.get("context") for _, a, b in differ),
        "other_probability": sum(_said_otherwise(a, b) for _, a, b in differ),
        "only_left": sum(map(len, mine.values())) - len(pairs),
        "only_right": sum(map(len, other.values())) - len(pairs),
        "first": first,
    }


def _boards(left: Json, right: Json) -> list[BoardDiff]:
    boards = [
        {row["forecaster"]: row for row in side.get("leaderboard", [])} for side in (left, right)
    ]
    return [
        {
            "forecaster": name,
            "brier": [board.get(name, {}).get("brier") for board in boards],
            "verdict": [board.get(name, {}).get("verdict") for board in boards],
            "paired": None,
        }
        for name in dict.fromkeys([*boards[0], *boards[1]])
    ]
