"""What differs between two runs: configuration, forecasts, results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beforehand.runs.rows import read_jsonl
from beforehand.store.files import read_json
from beforehand.store.run_folder import RunFolder

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


Where = tuple[str, str]
"""Market and time."""


def _rows(path: Path) -> dict[Where, list[dict[str, Any]]]:
    """Rows by market and time: several experiments may have asked the same."""
    file, found = path / "intervals.jsonl", dict[Where, list[dict[str, Any]]]()
    for row in read_jsonl(file) if file.is_file() else ():
        kept = {k: v for k, v in row.items() if k not in IGNORED}
        found.setdefault((row["market_id"], row["time"]), []).append(kept)
    return found


def _pairs(
    left: list[dict[str, Any]], right: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of the same forecasters with each other, then what is left of both in its order."""
    mine, other, pairs = list(left), list(right), []
    for row in left:
        twin = next((r for r in other if _who(r) == _who(row)), None)
        if twin is not None:
            mine.remove(row)
            other.remove(twin)
            pairs.append((row, twin))
    return [*pairs, *zip(mine, other, strict=False)]


def _who(row: dict[str, Any]) -> set[str]:
    return {said["model_id"] for said in [*row["decisions"], *row["failures"]]}


def _intervals(left: Path, right: Path) -> dict[str, Any]:
    mine, other = _rows(left), _rows(right)
    pairs = [
        (where, a, b) for where, rows in mine.items() for a, b in _pairs(rows, other.get(where, []))
    ]
    differ = [(where, a, b) for where, a, b in pairs if a != b]
    first = None
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
        "only_left": sum(map(len, mine.values())) - len(pairs),
        "only_right": sum(map(len, other.values())) - len(pairs),
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
