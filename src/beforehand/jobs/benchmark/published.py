"""Result files of other benchmarks, scored by our own arithmetic beside the figures they state.

KalshiBench: one JSON object a model, with `predictions` and a `reliability_diagram`. Its outcomes
are not in the file, so its calibration error follows from its own bins' outcomes and our counts.
Consistency forecasting: JSONL of `{"prob", "resolution", "brier_score", "log_score"}`; the log
score has base 2 and is clipped at 1e-8.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from typing_extensions import TypedDict

from beforehand.errors import InputError
from beforehand.score.metrics import Binning, Floats, ece, log_loss, reliability
from beforehand.store.files import read_bytes

CONSISTENCY_CLIP = 1e-8


class Published(TypedDict):
    """A file's figures: ours, and those that it states of the same name (None: it states none).
    `bins_agree` is the number of bins in which our count and mean forecast are the file's own."""

    file: str
    kind: str
    forecaster: str
    n: int
    ours: dict[str, float]
    stated: dict[str, float | None]
    bins_agree: int | None
    bins: int | None


def read(path: Path, binning: Binning) -> Published:
    """Score a file. Raises InputError, with the line, for one that is neither kind."""
    raw = read_bytes(path)
    try:
        body = orjson.loads(raw)
    except ValueError:
        return _consistency(path, raw, binning)
    if isinstance(body, dict) and isinstance(body.get("predictions"), list):
        return _kalshibench(path, body, binning)
    return _consistency(path, raw, binning)


def _kalshibench(path: Path, body: dict[str, Any], binning: Binning) -> Published:
    try:
        p = _probabilities([row["predicted_probability"] for row in body["predictions"]])
        diagram = body["reliability_diagram"]
        counts, means, came_true = (
            np.array([_figure(row[name]) for row in diagram], dtype=np.float64)
            for name in ("count", "avg_confidence", "avg_accuracy")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not a KalshiBench result: it needs predictions[].predicted_probability in "
            f"[0, 1] and reliability_diagram[] ({type(error).__name__}: {error})"
        ) from None
    found = reliability(p, np.zeros(len(p)), bins=len(diagram), rule=binning)
    ours = np.where(found.weight > 0, found.forecast, 0.0)
    agree = (found.weight == counts) & (np.abs(ours - means) < 1e-9)
    off = float((found.weight * np.abs(ours - came_true)).sum() / len(p))
    return {
        "file": path.name,
        "kind": "KalshiBench",
        "forecaster": str(body.get("model_name") or path.stem),
        "n": len(p),
        "ours": {"ece": off},
        "stated": {"ece": _number(body.get("ece"))},
        "bins_agree": int(agree.sum()),
        "bins": len(diagram),
    }


def _figure(value: object) -> float:
    """A figure of a diagram, 0 where it has none. Raises ValueError for what is no number."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.80} is not a number")
    return float(value)


def _consistency(path: Path, raw: bytes, binning: Binning) -> Published:
    rows = []
    for number, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            if not isinstance(row["resolution"], bool):
                raise ValueError("resolution is not true or false")
            rows.append((row["prob"], row["resolution"], row["brier_score"], row["log_score"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}:{number}: neither a KalshiBench result (one JSON object) nor a line of a "
                "consistency result (prob, resolution, brier_score, log_score): "
                f"{type(error).__name__}: {error}"
            ) from None
    if not rows:
        raise InputError(f"{path} holds no forecasts")
    try:
        p = _probabilities([row[0] for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    y = np.array([row[1] for row in rows], dtype=np.float64)
    found = reliability(p, y, rule=binning)
    return {
        "file": path.name,
        "kind": "consistency",
        "forecaster": path.resolve().parent.name,
        "n": len(p),
        "ours": {
            "brier": float(((p - y) ** 2).mean()),
            "log_score": log_loss(p, y, clip=CONSISTENCY_CLIP) / float(np.log(2)),
            "ece": ece(p, y) if binning == "snapped" else found.ece,
        },
        "stated": {
            "brier": float(np.mean([row[2] for row in rows])),
            "log_score": float(np.mean([row[3] for row in rows])),
            "ece": None,
        },
        "bins_agree": None,
        "bins": None,
    }


def _probabilities(values: Sequence[Any]) -> Floats:
    for number, value in enumerate(values, start=1):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError(f"forecast {number}: {value!r} is not a probability in [0, 1]")
    if not values:
        raise ValueError("no forecasts")
    return np.array(values, dtype=np.float64)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
