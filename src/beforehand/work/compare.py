"""What differs between two runs: configuration, forecasts, results."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beforehand.store.files import read_json
from beforehand.store.runs import RunFolder
from beforehand.work.results import read_jsonl

IGNORED = ("run_id", "digest")


def differences(left: RunFolder, right: RunFolder) -> dict[str, Any]:
    """JSON-ready. `config` lists fields as [left, right]; `intervals.first` is the first
    forecast that differs, by market and time; `leaderboard` the Brier scores of both."""
    intervals = _intervals(left.path, right.path)
    return {
        "left": left.run_id,
        "right": right.run_id,
        "same": not intervals["different"] and not intervals["only_left"] + intervals["only_right"],
        "config": _fields(_json(left.path, "config.json"), _json(right.path, "config.json")),
        "intervals": intervals,
        "leaderboard": _boards(_json(left.path, "scores.json"), _json(right.path, "scores.json")),
    }


def _json(path: Path, name: str) -> dict[str, Any]:
    file = path / name
    found = read_json(file) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


def _fields(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, list[Any]]:
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


def _values(experiments: list[dict[str, Any]], name: str) -> list[Any]:
    seen: list[Any] = []
    for experiment in experiments:
        if experiment.get(name) not in seen:
            seen.append(experiment.get(name))
    return seen


def _rows(path: Path) -> Iterator[tuple[tuple[str, str, int], dict[str, Any]]]:
    """Rows by market, time and number: several experiments may have asked the same."""
    file, seen = path / "intervals.jsonl", Counter[tuple[str, str]]()
    for row in read_jsonl(file) if file.is_file() else ():
        key = row["market_id"], row["time"]
        yield (*key, seen[key]), {k: v for k, v in row.items() if k not in IGNORED}
        seen[key] += 1


def _intervals(left: Path, right: Path) -> dict[str, Any]:
    mine, other = dict(_rows(left)), dict(_rows(right))
    differ = [key for key in mine if key in other and mine[key] != other[key]]
    first = None
    if differ:
        a, b = mine[differ[0]], other[differ[0]]
        first = {
            "market_id": differ[0][0],
            "time": differ[0][1],
            "parts": sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k)),
        }
    return {
        "both": len(mine.keys() & other.keys()),
        "different": len(differ),
        "only_left": len(mine.keys() - other.keys()),
        "only_right": len(other.keys() - mine.keys()),
        "first": first,
    }


def _boards(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[dict[str, Any]]:
    boards = [
        {row["forecaster"]: row for row in side.get("leaderboard", [])} for side in (left, right)
    ]
    return [
        {
            "forecaster": name,
            "brier": [board.get(name, {}).get("brier") for board in boards],
            "verdict": [board.get(name, {}).get("verdict") for board in boards],
        }
        for name in dict.fromkeys([*boards[0], *boards[1]])
    ]
