"""The benchmark's last stage: events, predictions and resolutions in, verdicts out. It also reads
bets and their terms."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson
from typing_extensions import TypedDict

from beforehand import __version__
from beforehand.clock import to_us
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import Forecaster
from beforehand.forecast.cutoff_guard import Training
from beforehand.forecast.schemes.baselines import BASELINES
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.jobs import results
from beforehand.jobs.benchmark.events import deadline, load_events, market_of, valid
from beforehand.jobs.forecasters import MAY_REMEMBER, STATED_REMEMBERING
from beforehand.jobs.hindsight import hedged, marked
from beforehand.records.benchmark import EventSpec, MarketSnapshot, ResolutionRecord, zoned
from beforehand.records.bulk import PredictionRow, decode_prediction
from beforehand.records.rows import label
from beforehand.records.text import one_line
from beforehand.runs.columns import question
from beforehand.score.audit import Audit, Stored, audit
from beforehand.score.bets import Bet
from beforehand.score.evaluate import Columns, Question, Result, Settings, build_table, evaluate
from beforehand.score.leaks.report import LeakReport, LeaksWire
from beforehand.score.scoreboard import Kept
from beforehand.score.skill import MARKET
from beforehand.score.summary import About, EvidenceAudit, Few, ResultWire
from beforehand.score.table import Table
from beforehand.score.validity import STATED, SetFacts
from beforehand.store.files import read_bytes, read_lines, write_jsonl

if TYPE_CHECKING:
    from beforehand.jobs.benchmark.sealed import SealedLog


class UnscoredWire(TypedDict):
    """A prediction that was not scored: its line in the file, and why."""

    line: int
    id: str
    predictor: str
    reason: str


@dataclass(frozen=True)
class Evaluation:
    """A scored benchmark with its evidence audit and counts of what did not fit."""

    result: Result
    audit: EvidenceAudit
    counts: dict[str, int]
    unscored: list[UnscoredWire]


UNKNOWN, UNRESOLVED = "no event has this id", "the event is not resolved, or void"
TOO_LATE, AFTER_PRICE = "made at or after the resolution", "made after the market's price was taken"
NO_PRICE = "the market has no price at its instant"
SECOND = "a second prediction of the same event at the same instant"
SUPERSEDED = "a later prediction of the same predictor counts"
"""No fault: a forecast may be brought up to date."""
UNSEALED = "not in the sealed log as it stands in the file"
MARKET_LOOKED_UP = "the market's price is looked up in the archive"
NO_FAULT = (SUPERSEDED, MARKET_LOOKED_UP)
"""Reasons for which a prediction is not scored though nothing is wrong with it."""
SEALED = Kept("by construction (sealed beforehand)", "as sealed")
MOST_FAILURES = 200


def evaluate_files(
    events: Path,
    predictions: Path,
    resolutions: Path,
    settings: Settings,
    training: Training | None = None,
    kept: Mapping[str, Kept] | None = None,
    assume_utc: bool = False,
    stored: Stored | None = None,
    sealed: "SealedLog | None" = None,
    gateway: Gateway | None = None,
) -> Evaluation:
    """Pure scoring: three files in, verdicts out.

    The market is the predictor named `market` at the same instant. Without one, it is each event's
    baseline_probability, which is the price at `forecast_at`: a later prediction is not scored
    against it. Price ages come from `events_snapshots.jsonl` beside the events. `training` is what
    is known of the training of models among the predictors. `assume_utc` takes times without a zone
    as UTC. `stored` has the records in which the audit looks the cited sources up. With
    `sealed`, only what was sealed counts, as made when it was, beside the market's price then. With
    `gateway`, positions stand at every price on its record, and bets at its books; events without a
    resolution are open. Where no book is on record a bet is made at the price itself, unless a
    spread is stated, and the money is labelled so.
    """
    specs = {spec.id: spec for _, spec in load_events(events, assume_utc)}
    endings = _load_resolutions(resolutions, assume_utc)
    rows = _load_predictions(predictions, assume_utc)
    questions = [_question(spec, endings.get(name)) for name, spec in specs.items()]
    timed, barred = _timed(predictions, [row for _, row in rows], sealed)
    prices = [] if sealed is None else sealed.prices(specs.values(), timed)
    if sealed is not None:
        gateway = sealed.gateway
        settings = replace(settings, variants=max(settings.variants or 0, len(sealed.predictors)))
    rows_with_prices = [*timed, *prices]
    ages = _ages(events, specs) if sealed is None else sealed.ages
    placed = place(rows_with_prices, specs, endings, ages, barred)
    if gateway is not None:
        _add_books(placed.columns, gateway, specs)
    if settings.kelly.spread is None and np.isnan(placed.columns.bid).any():
        settings = replace(settings, kelly=replace(settings.kelly, spread=0.0))
    counts = {**_counts([row for _, row in rows], specs, endings, questions), **placed.counts}
    table = build_table(placed.columns, questions)
    if not len(table.q):
        said = ", ".join(f"{n} {what}" for what, n in counts.items())
        raise InputError(
            f"nothing to score: no prediction in {predictions} is for an event of {events} that "
            f"{resolutions} resolves ({said})"
        )
    if gateway is not None:
        table = marked(table, gateway, market=lambda name: market_of(specs[name]))
    settled = {q.id for q in questions if q.settled is not None}
    if sealed is not None:
        asked = _asked(placed, settled, sealed.of(settled))
        left = sealed.left_out(specs, settled)
        table = replace(table, asked={who: n + left.get(who, 0) for who, n in asked.items()})
    unscored = _unscored(rows, placed.left, specs, settled)
    _refuse_all(unscored, len(rows), predictions)
    audited = audit([row for _, row in rows], stored)
    facts = SetFacts(
        documents=0,
        **_trained(training),
        unresolved=counts["events_without_resolution"],
        variants=max(settings.variants or 0, len(table.forecasts)),
        admitted_after_t=len(audited.leaking),
        undated=counts["predictions_without_a_time"],
        texts_known=False,
        kept=_with_hedges(table, _kept([row for _, row in rows], sealed) if kept is None else kept),
    )
    without = None
    if failing := [rows[i][1] for i in audited.failed if i not in placed.left]:
        part = build_table(_less(placed, failing), questions)
        without = results.with_and_without(table, part, settings)
    told = _audit_wire(audited, stored is not None, without)
    return Evaluation(evaluate(table, facts, settings), told, counts, unscored)


def _add_books(columns: Columns, gateway: Gateway, specs: Mapping[str, EventSpec]) -> None:
    """Put the best bid and ask on record at each row's instant into the columns."""
    view, rows = gateway.full_view(), dict[str, list[int]]()
    for k, (event, t) in enumerate(zip(columns.id, columns.t, strict=True)):
        if t > 0:
            rows.setdefault(event, []).append(k)
    for event, places in rows.items():
        try:
            name = view.resolve_id(market_of(specs[event]))
        except NotFound:
            continue
        instants = np.array(sorted({columns.t[k] for k in places}), dtype=np.int64)
        panel = gateway.panel([(name, instants)], evidence=Evidence(0))
        books = dict(zip(instants.tolist(), zip(panel.bid, panel.ask, strict=True), strict=True))
        for k in places:
            columns.bid[k], columns.ask[k] = map(float, books[columns.t[k]])


def _counts(
    rows: Sequence[PredictionRow],
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, ResolutionRecord],
    questions: Sequence[Question],
) -> dict[str, int]:
    """What of the three files fits together."""
    untimed = sum(q.settled is not None and not q.resolved_at for q in questions)
    return {
        "predictions": len(rows),
        "events": len(specs),
        "predictions_of_unknown_events": sum(row.id not in specs for row in rows),
        "events_without_resolution": sum(name not in endings for name in specs),
        "resolutions_without_a_time": untimed,
        "events_without_prediction": len(specs.keys() - {row.id for row in rows}),
    }


def _timed(
    path: Path, rows: Sequence[PredictionRow], sealed: "SealedLog | None"
) -> tuple[list[PredictionRow], dict[int, str]]:
    """The predictions with the time that counts, and those that do not count at all, by place."""
    if sealed is None:
        return list(rows), {}
    timed, barred = list(rows), dict[int, str]()
    for i, ((_, line), row) in enumerate(zip(read_lines(path), rows, strict=True)):
        found = sealed.as_sealed(line, row)
        if predictor_of(row) == MARKET:
            barred[i] = MARKET_LOOKED_UP
        elif found is None:
            barred[i] = UNSEALED
        else:
            timed[i] = found
    return timed, barred


def _asked(placed: "Placed", settled: Set[str], sealed: Mapping[str, int]) -> dict[str, int]:
    """How many forecasts each predictor of sealed ones was asked for: those that it made, and one
    for each settled event of which it made none; or as many as it `sealed`, if these are more: who
    seals two and keeps one in the file leaves one out. The instants are its own."""
    columns, made = placed.columns, dict[str, Counter[str]]()
    for event, said in zip(columns.id, columns.forecasts, strict=True):
        for who in said if event in settled else ():
            made.setdefault(who, Counter())[event] += 1
    found = {who: mine.total() + len(settled - mine.keys()) for who, mine in made.items()}
    return {who: max(n, sealed.get(who, 0)) for who, n in found.items()}


def _kept(rows: Sequence[PredictionRow], sealed: "SealedLog | None") -> dict[str, Kept]:
    """How the predictors were kept from the future: as their predictions say, or by the seal."""
    if sealed is None:
        return _stated(rows)
    return {predictor_of(row): SEALED for row in rows if predictor_of(row) != MARKET}


def _with_hedges(table: Table, kept: Mapping[str, Kept]) -> dict[str, Kept]:
    """The same, with what hedges. (Baselines that mirror each other are no one's bet.)"""
    names = [name for name in table.forecasts if name not in BASELINES]
    found = dict(kept)
    for name, why in hedged(table, names).items():
        one = found.get(name, STATED)
        found[name] = replace(one, because=one.because or why)
    return found


def _trained(training: Training | None) -> dict[str, Any]:
    """What is known of the models' training, as fields of SetFacts."""
    if training is None:
        return {}
    return {
        "models": True,
        "share_after_training_cutoff": training.share,
        "share_made_after_training": training.made,
    }


def _less(placed: "Placed", failing: Sequence[PredictionRow]) -> Columns:
    """The columns without these forecasts; the market's own stay."""
    gone = {(row.id, predictor_of(row), _instant(row)) for row in failing}
    at_deadline = {(event, who) for event, who, _ in gone}

    def stays(event: str, who: str, t: int) -> bool:
        return (event, who, t) not in gone if placed.by_market else (event, who) not in at_deadline

    columns = placed.columns
    forecasts: list[Mapping[str, float]] = [
        {who: p for who, p in said.items() if stays(event, who, t)}
        for event, t, said in zip(columns.id, columns.t, columns.forecasts, strict=True)
    ]
    return replace(columns, forecasts=forecasts)


def _audit_wire(
    found: Audit, against_records: bool, without: dict[str, dict[str, Few]] | None
) -> EvidenceAudit:
    return {
        "total": found.total,
        "passed": found.passed,
        "failures": found.failures[:MOST_FAILURES],
        "citing": found.citing,
        "items": found.items,
        "levels": dict(found.levels),
        "faults": dict(found.faults.most_common()),
        "precision": found.precision,
        "leakage_passed": found.total - len(found.leaking),
        "against_records": against_records,
        "without_failing": without,
    }


def _refuse_all(unscored: Sequence[UnscoredWire], n: int, path: Path) -> None:
    """Raises InputError where none of the `n` predictions is scored."""
    if len(unscored) == n:
        reasons = Counter(one["reason"] for one in unscored).most_common()
        why = "; ".join(f"{many:,} × {reason}" for reason, many in reasons)
        raise InputError(f"none of the {n:,} predictions of {path} can be scored: {why}")


def _unscored(
    rows: Sequence[tuple[int, PredictionRow]],
    left: Mapping[int, str],
    specs: Mapping[str, EventSpec],
    settled: Container[str],
) -> list[UnscoredWire]:
    """Every prediction that was not scored, in the order of the file; `left` has those that found
    no place, by their place in `rows`."""
    found = list[UnscoredWire]()
    for i, (line, row) in enumerate(rows):
        reason = left.get(i)
        if row.id not in specs:
            reason = UNKNOWN
        elif row.id not in settled:
            reason = UNRESOLVED
        if reason is not None:
            found.append(
                {"line": line, "id": row.id, "predictor": predictor_of(row), "reason": reason}
            )
    return found


def _load_resolutions(path: Path, assume_utc: bool) -> dict[str, ResolutionRecord]:
    endings: dict[str, ResolutionRecord] = {}
    for number, line in read_lines(path):
        record = valid(path, number, line, ResolutionRecord, assume_utc)
        if endings.get(record.id, record).settled != record.settled:
            raise InputError(f"{path}:{number}: a second, different outcome for {record.id!r}")
        endings[record.id] = record
    return endings


def _load_predictions(path: Path, assume_utc: bool) -> list[tuple[int, PredictionRow]]:
    """The rows, each with the number of its line."""
    rows = []
    for number, line in read_lines(path):
        try:
            rows.append((number, decode_prediction(zoned(line, assume_utc))))
        except msgspec.ValidationError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        except msgspec.DecodeError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    if not rows:
        raise InputError(f"{path} holds no predictions")
    return rows


def _ages(events: Path, specs: Mapping[str, EventSpec]) -> dict[tuple[str, int], float]:
    """Price age in days at the deadline of each event, from the dated snapshots beside them."""
    path = events.with_name("events_snapshots.jsonl")
    if not path.is_file():
        return {}
    return {
        (record.id, to_us(limit)): record.price_age / 86400
        for record in (valid(path, n, line, MarketSnapshot) for n, line in read_lines(path))
        if record.id in specs and (limit := deadline(specs[record.id])) is not None
    }


def predictor_of(row: PredictionRow) -> str:
    """Who made a prediction: predictor_id, else the model's name."""
    if row.metadata is None:
        return "unnamed"
    return one_line(row.metadata.predictor_id or label(row.metadata.model))


def _stated(rows: Sequence[PredictionRow]) -> dict[str, Kept]:
    """The predictors that may remember, as predictions made by this program state it."""
    return {
        predictor_of(row): Kept("trusted", MAY_REMEMBER, STATED_REMEMBERING)
        for row in rows
        if row.metadata and (row.metadata.order or "").startswith(MAY_REMEMBER)
    }


@dataclass(frozen=True)
class Placed:
    """Predictions at the instants at which they can be compared; counts of the others, and why each
    found no place, by its place among the rows."""

    columns: Columns
    counts: dict[str, int]
    left: dict[int, str]
    by_market: bool
    """Whether rows stand at the instants of a predictor named `market`, and not at deadlines."""


def place(
    rows: Sequence[PredictionRow],
    specs: Mapping[str, EventSpec],
    endings: Mapping[str, ResolutionRecord],
    ages: Mapping[tuple[str, int], float],
    barred: Mapping[int, str] = MappingProxyType({}),
) -> Placed:
    """Put each prediction beside the market's price of its own instant.

    If a predictor is named `market`, rows are (event, instant) and take its price there.
    Otherwise there is one row per event, at its deadline: each predictor's last prediction that
    was made by then counts. `ages` says how old the price of an event was at an instant (days).
    `barred` have no place, for the reason given by their place.
    """
    by_market = any(predictor_of(row) == MARKET for row in rows)
    put = _at_same_instant if by_market else _at_deadline
    counts = dict.fromkeys(
        (
            "predictions_made_after_the_market_price",
            "predictions_without_a_market_price",
            "predictions_replaced_by_a_later_one",
            "predictions_repeated",
            "predictions_without_a_time",
            "predictions_at_or_after_the_resolution",
            "market_rows_that_contradict_the_events",
        ),
        0,
    )
    left = dict(barred)
    known = [(i, row) for i, row in enumerate(rows) if row.id in specs and i not in barred]
    counts["predictions_without_a_time"] = sum(row.metadata is None for _, row in known)
    late = {i for i, row in known if _too_late(row, endings.get(row.id))}
    left |= dict.fromkeys(late, TOO_LATE)
    counts["predictions_at_or_after_the_resolution"] = len(late)
    cells = put([(i, row) for i, row in known if i not in late], specs, counts, left)
    columns = Columns()
    for (event, t), said in sorted(cells.items()):
        price = said.pop(MARKET, None if by_market else specs[event].baseline_probability)
        columns.id.append(event)
        columns.t.append(t)
        columns.market.append(math.nan if price is None else price)
        columns.price_age.append(ages.get((event, t), math.nan))
        columns.strict.append(False)
        columns.evidence.append(0)
        columns.bid.append(math.nan)
        columns.ask.append(math.nan)
        columns.forecasts.append(said)
    return Placed(columns, counts, left, by_market)


Cells = dict[tuple[str, int], dict[str, float]]


def _instant(row: PredictionRow) -> int:
    return to_us(row.metadata.timestamp) if row.metadata else 0


def _too_late(row: PredictionRow, ending: ResolutionRecord | None) -> bool:
    if row.metadata is None or ending is None or ending.resolved_at is None:
        return False
    return row.metadata.timestamp >= ending.resolved_at


def _forged(row: PredictionRow, spec: EventSpec) -> bool:
    """True for a `market` row at the instant of the dated baseline that states another price."""
    limit, stated = deadline(spec), spec.baseline_probability
    if limit is None or stated is None or _instant(row) != to_us(limit):
        return False
    return abs(row.prediction.probability - stated) > 1e-9


def _at_same_instant(
    rows: Sequence[tuple[int, PredictionRow]],
    specs: Mapping[str, EventSpec],
    counts: dict[str, int],
    left: dict[int, str],
) -> Cells:
    forged = {
        (row.id, _instant(row))
        for _, row in rows
        if predictor_of(row) == MARKET and _forged(row, specs[row.id])
    }
    counts["market_rows_that_contradict_the_events"] = len(forged)
    priced = {(row.id, _instant(row)) for _, row in rows if predictor_of(row) == MARKET} - forged
    cells: Cells = {key: {} for key in priced}
    for i, row in rows:
        key = (row.id, _instant(row))
        if key not in priced:
            counts["predictions_without_a_market_price"] += 1
            left[i] = NO_PRICE
        elif predictor_of(row) in cells[key]:
            counts["predictions_repeated"] += 1
            left[i] = SECOND
        else:
            cells[key][predictor_of(row)] = row.prediction.probability
    return cells


def _at_deadline(
    rows: Sequence[tuple[int, PredictionRow]],
    specs: Mapping[str, EventSpec],
    counts: dict[str, int],
    left: dict[int, str],
) -> Cells:
    limits = {
        name: None if (at := deadline(spec)) is None else to_us(at) for name, spec in specs.items()
    }
    cells: Cells = {(name, limit or 0): {} for name, limit in limits.items()}
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for i, row in rows:
        limit, t = limits[row.id], _instant(row)
        if limit is not None and t > limit:
            counts["predictions_made_after_the_market_price"] += 1
            left[i] = AFTER_PRICE
            continue
        key = (row.id, predictor_of(row))
        before = last.get(key)
        if before is not None and before[0] == t:
            counts["predictions_repeated"] += 1
            left[i] = SECOND
            continue
        if before is not None:
            counts["predictions_replaced_by_a_later_one"] += 1
            left[before[1] if t > before[0] else i] = SUPERSEDED
        if before is None or t > before[0]:
            last[key] = t, i
            cells[row.id, limit or 0][key[1]] = row.prediction.probability
    return cells


def _question(spec: EventSpec, ending: ResolutionRecord | None) -> Question:
    event = spec.model_dump(mode="json", exclude_none=True)
    return question(event, ending.model_dump(mode="json") if ending else None)


class EvaluationWire(ResultWire):
    """What `bench evaluate --json` prints."""

    inputs: list[str]
    counts: dict[str, int]
    unscored: list[UnscoredWire]
    audit: EvidenceAudit
    leaks: LeaksWire


def summary(evaluation: Evaluation, paths: Sequence[Path]) -> EvaluationWire:
    """An evaluation as JSON, for when no report is written."""
    return {
        "inputs": [str(path) for path in paths],
        "counts": evaluation.counts,
        "unscored": evaluation.unscored,
        "audit": evaluation.audit,
        "leaks": _leaks(evaluation).wire(),
        **evaluation.result.wire(),
    }


def _leaks(evaluation: Evaluation) -> LeakReport:
    total, passed = evaluation.audit["total"], evaluation.audit["leakage_passed"]
    return LeakReport(
        checked=total, rechecked=total, admitted_after_t=total - passed, from_file=True
    )


def counted(counts: Mapping[str, int]) -> str:
    """The counts in words; zeros are left out, except for predictions and events."""
    said = ("predictions", "events")
    return ", ".join(
        f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items() if n or what in said
    )


def store(
    evaluation: Evaluation, paths: Sequence[Path], out: Path, asked: Iterable[Forecaster] = ()
) -> Path:
    """Write scores.json, leaderboard.csv, report.html and rejected.jsonl (each prediction that was
    not scored, with its line and why) into `out`; returns the report. `asked` are the forecasters
    of a run."""
    about: About = {
        "title": paths[1].name,
        "version": __version__,
        "world_kind": "predictions from a file",
        "subtitle": f"{counted(evaluation.counts)}.",
        "grid": "One row per event at the instant of its market price, or the market predictor's "
        "own instants",
        "left_out": "",
        "leak_note": "The times are taken as stated in the files.",
        "audit": evaluation.audit,
        "inputs": [path.name for path in paths],
        "counts": evaluation.counts,
    }
    results.end_in_report(out, evaluation.result, _leaks(evaluation), about, asked=asked)
    write_jsonl(out / "rejected.jsonl", evaluation.unscored)
    return out / "report.html"


LEAST_PRICE = 1e-6
"""The least price of a bet: at less, no venue trades, and a gain has no bound."""


def load_bets(path: Path, order: str) -> list[Bet]:
    """A JSON file with a list `bets`, a JSON list, or JSONL; each bet needs entry_price
    between 0 and 1 and won, and resolved_ts to be ordered by time."""
    try:
        body = orjson.loads(read_bytes(path))
        rows = body.get("bets", [body]) if isinstance(body, dict) else body
    except orjson.JSONDecodeError:
        rows = [_json(path, number, line) for number, line in read_lines(path)]
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} holds no list of bets")
    for number, bet in enumerate(rows, start=1):
        price = bet.get("entry_price") if isinstance(bet, dict) else None
        if not isinstance(price, int | float) or isinstance(price, bool):
            price = 0.0
        if not LEAST_PRICE <= price <= 1 - LEAST_PRICE:
            raise InputError(
                f"{path}: bet {number}: entry_price must be a number between {LEAST_PRICE:g} and "
                f"{1 - LEAST_PRICE:g}"
            )
        if not isinstance(bet.get("won"), bool):
            raise InputError(f"{path}: bet {number}: won must be true or false")
        if order == "time" and not isinstance(bet.get("resolved_ts"), int | float):
            raise InputError(f"{path}: bet {number}: resolved_ts is needed for --order time")
    return rows


def _json(path: Path, number: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}:{number}: not JSON: {error}") from None


def parse_terms(stake: str, fee: str) -> tuple[float, float]:
    """(amount, fee rate) from `flat:AMOUNT` and `none` or `rate:R`."""
    kind, _, amount = stake.partition(":")
    if kind != "flat" or not _number(amount) or float(amount) <= 0:
        raise InputError(f"--stake {stake!r}: write flat:AMOUNT, such as flat:1")
    if fee == "none":
        return float(amount), 0.0
    kind, _, rate = fee.partition(":")
    if kind != "rate" or not _number(rate) or not 0 <= float(rate) <= 1:
        raise InputError(f"--fee {fee!r}: write none or rate:R with R in [0, 1], such as rate:0.05")
    return float(amount), float(rate)


def _number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
