"""A finished run's calibration: its bins with their intervals, and the questions behind a bin."""

import numpy as np
from typing_extensions import TypedDict

from beforehand.clock import iso_us
from beforehand.errors import InputError
from beforehand.records.rows import label
from beforehand.runs.columns import read_questions
from beforehand.runs.compare import Subject, table_of
from beforehand.score.calibration import Bin, calibration, column
from beforehand.score.metrics import BINS, Binning, bin_index
from beforehand.score.summary import Pair, number, pair


class BinWire(TypedDict):
    """A bin of a reliability diagram. `weight` and `share` count each question once; `ci` is the
    95 % interval of `outcome`. `told`: the mean forecast lies outside of it, also once it is
    widened for the number of bins."""

    low: float
    high: float
    n: int
    n_questions: int
    weight: float
    share: float
    forecast: float | None
    outcome: float | None
    ci: Pair
    told: bool


class CalibrationWire(TypedDict):
    """A forecaster's calibration, with Murphy's parts of its Brier score (reliability and residual:
    lower is better; resolution: higher is better) and its sharpness."""

    run_id: str
    forecaster: str
    n: int
    n_questions: int
    ece: float | None
    murphy: dict[str, float | None]
    sharpness: float | None
    bins: list[BinWire]


class BinQuestion(TypedDict):
    """A forecast that lies in a bin, and how its question ended."""

    market_id: str
    question: str | None
    time: str
    probability: float
    outcome: float
    weight: float


def calibration_of(one: Subject, bins: int = BINS, rule: Binning = "snapped") -> CalibrationWire:
    """The calibration of a forecaster of a finished run. Raises InputError where it has none."""
    found = calibration(table_of(one), one.name, bins, rule)
    return {
        "run_id": one.folder.run_id,
        "forecaster": label(one.name),
        "n": found.n,
        "n_questions": found.n_questions,
        "ece": number(found.ece),
        "murphy": {name: number(value) for name, value in vars(found.murphy).items()},
        "sharpness": number(found.sharpness),
        "bins": [_bin(one) for one in found.bins],
    }


def _bin(one: Bin) -> BinWire:
    return {
        "low": one.low,
        "high": one.high,
        "n": one.n,
        "n_questions": one.n_questions,
        "weight": one.weight,
        "share": one.share,
        "forecast": number(one.forecast),
        "outcome": number(one.outcome),
        "ci": pair(one.ci),
        "told": one.told,
    }


def questions_of_bin(
    one: Subject, which: int, bins: int = BINS, rule: Binning = "snapped"
) -> list[BinQuestion]:
    """The forecasts of one bin (0 is the lowest), by market and time. Raises InputError."""
    if not 0 <= which < bins:
        raise InputError(f"there are {bins} bins, from 0 to {bins - 1}: there is no bin {which}")
    table = table_of(one)
    p = column(table, one.name)
    valid = np.isfinite(p)
    weights = table.row_weights(valid)
    texts = {question.id: question.text for question in read_questions(one.folder.path)}
    rows = np.flatnonzero(valid & (bin_index(np.where(valid, p, 0.0), bins, rule) == which))
    return [
        {
            "market_id": (name := table.questions[table.q[i]]),
            "question": texts.get(name),
            "time": iso_us(int(table.t[i])),
            "probability": float(p[i]),
            "outcome": float(table.y[table.q[i]]),
            "weight": float(weights[i]),
        }
        for i in rows
    ]
