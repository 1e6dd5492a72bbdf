"""Two forecasters of finished runs against each other, on the rows that both forecast."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from typing_extensions import TypedDict

from beforehand.clock import iso_us, parse_us
from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.ids import digest
from beforehand.records.rows import forecasts
from beforehand.runs.columns import read_questions
from beforehand.runs.marks import with_marks
from beforehand.runs.rows import questions_of, read_intervals, read_jsonl, read_predictions
from beforehand.score import positions, verdict
from beforehand.score.calibration import column
from beforehand.score.compare import Comparison, compare, compare_apart
from beforehand.score.evaluate import Columns, Question, build_table
from beforehand.score.skill import MARKET, Options
from beforehand.score.summary import Summary, number
from beforehand.score.table import Table
from beforehand.store.files import read_json
from beforehand.store.run_folder import INTERVALS, RunFolder
from beforehand.store.trials import note_trials

Said = Mapping[tuple[str, int], float]
"""Probabilities by market and instant (microseconds)."""


class QuestionWire(TypedDict):
    """A question that two forecasters both forecast, `n` times. `a` and `b` are their mean squared
    errors on it, `difference` is b's minus a's (above 0, a is better), `apart` its size. They said
    `forecast_a` and `forecast_b` last, at `time`. `prices` are the market's at their forecasts,
    oldest first, where one of the two is the market."""

    market_id: str
    question: str | None
    outcome: float
    n: int
    a: float
    b: float
    difference: float
    apart: float
    forecast_a: float
    forecast_b: float
    time: str
    prices: list[float]


class Subject(NamedTuple):
    """A forecaster of a run."""

    folder: RunFolder
    name: str


def subject_of(folder: RunFolder, name: str | None = None) -> Subject:
    """A forecaster of a finished run; without a name, the only one under test. Raises InputError
    where that is not one, NotFound where the run has no scores."""
    scores = folder.path / "scores.json"
    if not scores.is_file():
        raise folder.without_scores()
    summary: Summary = read_json(scores)
    board = summary["leaderboard"]
    known = [row["forecaster"] for row in board]
    if name is not None:
        if name not in known:
            raise InputError(
                f"run {folder.run_id} has no forecaster {name!r}: it has {', '.join(known)}"
            )
        return Subject(folder, name)
    tested = summary.get("subjects") or [
        row["forecaster"] for row in board if row["isolation"] not in (None, "by construction")
    ]
    if len(tested) != 1:
        raise InputError(
            f"run {folder.run_id} tests {len(tested)} forecasters: name one of {', '.join(known)}"
        )
    return Subject(folder, tested[0])


def compare_forecasters(a: Subject, b: Subject, options: Options = Options()) -> Comparison:
    """The paired difference of two forecasters, of one run or of two; of two that never forecast at
    the same instant, that of their skills against the market. Raises InputError if a run has no
    such forecaster, if they share no question, or if their runs settled a question otherwise."""
    said, names = _said(a, b)
    if said[0].keys() & said[1].keys():
        return compare(_shared(a, b, said, names), *names, options)
    if MARKET in (a.name, b.name):
        raise InputError(_NOTHING.format(*names))
    prices = _prices(a, b)
    of_both = {market for market, _ in said[0]} & {market for market, _ in said[1]}
    rows = sorted(key for key in said[0].keys() | said[1].keys() if key[0] in of_both)
    if not rows:
        raise InputError(f"{names[0]} and {names[1]} have no market in common: nothing to compare")
    columns = _columns(rows, {**dict(zip(names, said, strict=True)), MARKET: prices})
    table = with_marks(build_table(columns, _questions(a, b)), _folders(a, b))
    return compare_apart(table, *names, options)


def _prices(a: Subject, b: Subject) -> Said:
    """The market's prices at the instants of both runs."""
    found = dict[tuple[str, int], float]()
    for folder in {a.folder.path: a.folder, b.folder.path: b.folder}.values():
        with suppress(InputError):  # A set without any market.
            found |= said_by(Subject(folder, MARKET))
    return found


def _folders(a: Subject, b: Subject) -> list[Path]:
    return list(dict.fromkeys([a.folder.path, b.folder.path]))


FailIf = Literal["worse", "not-as-good"]


class GateWire(TypedDict):
    """A comparison that may be looked at as often as one likes. `failed`, by what `fail_if` says:
    `worse`, where the evidence (`e_value`) that a is worse than b reaches what is `needed`, which
    happens at all with a probability of 2.5 % where a is not, and grows with the `candidates` that
    were held against the set; `not-as-good`, unless a is shown to be worse by less than the margin.
    `power` is the probability that a forecaster that is worse by `effect` is found to be worse, as
    far as the variance seen here tells."""

    fail_if: str
    failed: bool
    e_value: float
    needed: float
    candidates: int
    effect: float
    power: float | None
    power_at_one_look: float | None


def gate(
    a: Subject,
    b: Subject,
    fail_if: FailIf,
    home: Home,
    at: str,
    effect: float = 0.01,
    options: Options = Options(),
) -> tuple[Comparison, GateWire]:
    """Whether a change of a forecaster may pass: a against b, with a look that the ledger of trials
    counts. Raises InputError as `compare_forecasters`, and where the two share no instant."""
    said, names = _said(a, b)
    table = _shared(a, b, said, names)
    found = positions.gains(table, {names: positions.AgainstEachOther(*names)}, looked=True)[names]
    tried = digest([sorted((*key, p) for key, p in one.items()) for one in said])
    candidates = note_trials(
        home.trials,
        "gate",
        table.questions,
        {tried: f"{names[0]} against {names[1]}"},
        a.folder.run_id,
        at,
        str(a.folder.facts().get("archive_digest", "")),
    )
    compared = compare(table, *names, options)
    needed = verdict.EVIDENCE * candidates
    value = float(verdict.e_values(found, below=True).max(initial=0.0))
    gain = replace(compared.gain, factor=verdict.for_tries([], candidates))
    failed = value >= needed
    if fail_if == "not-as-good":
        shown = gain.enough and gain.bounds[0] > -options.margin
        failed = not shown and gain.apart > options.margin
    return compared, {
        "fail_if": fail_if,
        "failed": failed,
        "e_value": value,
        "needed": needed,
        "candidates": candidates,
        "effect": effect,
        "power": number(verdict.looked_power(found, effect, needed)),
        "power_at_one_look": number(gain.power(effect)),
    }


def gate_power(a: Subject, effect: float) -> tuple[float, float]:
    """The power of a gate before a candidate is asked, looked at every day and once, as far as what
    `a` gains on the market tells of the variance: that of two like forecasters is smaller."""
    said = said_by(a)
    columns = _columns(sorted(said), {MARKET: _prices(a, a), a.name: said})
    table = with_marks(build_table(columns, read_questions(a.folder.path)), [a.folder.path])
    found = positions.gains(table, {a.name: positions.AgainstMarket(a.name)}, looked=True)[a.name]
    once = verdict.evidence(table, found)
    return verdict.looked_power(found, effect), once.power(effect) if once.apart else nan


def compare_questions(a: Subject, b: Subject, prices: int = 0) -> list[QuestionWire]:
    """The same for each question alone, those first on which the two differ most, with at most so
    many prices of each. Raises InputError as `compare_forecasters`."""
    said, names = _said(a, b)
    if not said[0].keys() & said[1].keys() and MARKET not in (a.name, b.name):
        raise InputError(
            f"{names[0]} and {names[1]} never forecast at the same instant, so no question can be "
            "set side by side: compare them as a whole"
        )
    table = _shared(a, b, said, names)
    p, q = (column(table, name) for name in names)
    texts = {question.id: question.text for question in _questions(a, b)}
    order = np.lexsort((table.t, table.q))
    rows = []
    for mine in np.split(order, np.flatnonzero(np.diff(table.q[order])) + 1):
        name, y = table.questions[table.q[mine[0]]], float(table.y[table.q[mine[0]]])
        error_a, error_b = (float(np.mean((x[mine] - y) ** 2)) for x in (p, q))
        last, drawn = mine[-1], table.market[mine[_thinned(len(mine), prices)]]
        rows.append(
            QuestionWire(
                market_id=name,
                question=texts.get(name),
                outcome=y,
                n=len(mine),
                a=error_a,
                b=error_b,
                difference=error_b - error_a,
                apart=abs(error_b - error_a),
                forecast_a=float(p[last]),
                forecast_b=float(q[last]),
                time=iso_us(int(table.t[last])),
                prices=[float(price) for price in drawn if np.isfinite(price)],
            )
        )
    return sorted(rows, key=lambda row: (-row["apart"], row["market_id"]))


def _thinned(n: int, most: int) -> np.ndarray:
    """At most so many places among n, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


_NOTHING = (
    "{0} and {1} have no market and instant in common: nothing can be paired (a date without a "
    "time of day is the end of that day)"
)


def _said(a: Subject, b: Subject) -> tuple[tuple[Said, Said], tuple[str, str]]:
    """What the two said, and names that tell them apart."""
    said = (said_by(a), said_by(b))
    names = (a.name, b.name)
    if a.name == b.name:
        names = (f"{a.name} ({a.folder.run_id})", f"{b.name} ({b.folder.run_id})")
    if names[0] == names[1]:
        raise InputError(f"{names[0]} is compared with itself: name another forecaster or run")
    return said, names


def _shared(a: Subject, b: Subject, said: tuple[Said, Said], names: tuple[str, str]) -> Table:
    """The rows that both forecast. Raises InputError where there are none."""
    shared = sorted(said[0].keys() & said[1].keys())
    if not shared:
        raise InputError(_NOTHING.format(*names))
    columns = _columns(shared, {MARKET: _prices(a, b), **dict(zip(names, said, strict=True))})
    return with_marks(build_table(columns, _questions(a, b)), _folders(a, b))


def table_of(one: Subject) -> Table:
    """A forecaster's rows for scoring: those of questions that have settled. Raises InputError."""
    said = said_by(one)
    columns = _columns(sorted(said), {one.name: said})
    return build_table(columns, read_questions(one.folder.path))


def _columns(rows: Sequence[tuple[str, int]], said: Mapping[str, Said]) -> Columns:
    """What forecasters said at these markets and instants, and nothing else."""
    nan, n = float("nan"), len(rows)
    return Columns(
        id=[market for market, _ in rows],
        t=[t for _, t in rows],
        market=[said[MARKET].get(key, nan) for key in rows] if MARKET in said else [nan] * n,
        price_age=[nan] * n,
        strict=[False] * n,
        evidence=[0] * n,
        bid=[nan] * n,
        ask=[nan] * n,
        forecasts=[
            {name: p[key] for name, p in said.items() if name != MARKET and key in p}
            for key in rows
        ],
    )


def said_by(one: Subject) -> Said:
    """What a forecaster said. Several simulations count as their mean. Raises InputError."""
    found = _of_intervals(one) if one.folder.wrote(INTERVALS) else _of_file(one)
    if not found:
        raise InputError(f"run {one.folder.run_id} holds no forecasts of {one.name!r}")
    return found


def _of_file(one: Subject) -> dict[tuple[str, int], float]:
    """The same for a scored file, which keeps the market and the yardsticks beside it."""
    path = one.folder.path
    found = {
        (row.id, parse_us(row.metadata.timestamp)): row.prediction.probability
        for row in read_predictions(path / "predictions.jsonl")
        if row.metadata.predictor_id == one.name
    }
    if not found and one.folder.wrote("instants.jsonl"):
        for row in read_jsonl(path / "instants.jsonl"):
            p = row["odds"] if one.name == MARKET else row["yardsticks"].get(one.name)
            if p is not None:
                found[row["id"], parse_us(row["time"])] = p
    return found


def _of_intervals(one: Subject) -> dict[tuple[str, int], float]:
    config = read_json(one.folder.path / "config.json")
    apart = set(config.get("short", ()))  # Scored apart: asked at instants of their own.
    found = dict[tuple[str, int], float]()
    for row in questions_of(read_intervals(one.folder.path / "intervals.jsonl")):
        if row.market_id in apart:
            continue
        p = row.context.odds if one.name == MARKET else forecasts(row.decisions).get(one.name)
        if p is not None:
            found[row.market_id, row.context.t] = p
    return found


def _questions(a: Subject, b: Subject) -> list[Question]:
    found = {q.id: q for q in read_questions(a.folder.path)}
    for question in read_questions(b.folder.path):
        mine = found.setdefault(question.id, question)
        if mine.settled != question.settled:
            raise InputError(
                f"{question.id} settled at {mine.settled} in run {a.folder.run_id} and at "
                f"{question.settled} in run {b.folder.run_id}: the runs do not share one truth"
            )
    return list(found.values())
