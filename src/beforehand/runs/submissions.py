"""A run's forecasts in the form that other benchmarks take: ForecastBench's forecast set,
Metaculus' list of forecasts. Only files are written; nothing is sent.

ForecastBench: one entry a market question, one for each resolution date of a dataset question, with
id, source, forecast, resolution_date (null for markets) and reasoning (its wiki, "How to submit",
December 2025). Metaculus: what `POST /api/questions/forecast/` takes, with probabilities from 0.001
to 0.999.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.clock import end_of_day, parse_instant
from beforehand.errors import InputError, NotFound
from beforehand.ids import market_id
from beforehand.records.rows import PredictionLine, label
from beforehand.runs.rows import read_predictions
from beforehand.score.forecastbench import kind_of
from beforehand.store.files import read_csv, read_json
from beforehand.store.run_folder import RunFolder
from beforehand.world.importers.forecastbench import horizon_id

LOW, HIGH = 0.001, 0.999
"""What Metaculus takes for a binary question."""
LONGEST_REASON = 2000


@dataclass(frozen=True)
class Submission:
    """What goes into the file, and what of the set has no forecast here."""

    content: Any
    forecasts: int
    missing: tuple[str, ...] = ()


def forecasts_of(folder: RunFolder, who: str | None) -> dict[str, list[PredictionLine]]:
    """One forecaster's forecasts by market, oldest first. Raises NotFound where the run has none,
    InputError where it has several forecasters and none is named."""
    folder.check_file("predictions.jsonl")
    path = folder.path / "predictions.jsonl"
    if not path.is_file():
        raise NotFound(f"run {folder.run_id} holds no forecasts")
    found: dict[str, dict[str, list[PredictionLine]]] = {}
    for row in read_predictions(path):
        name = row.metadata.predictor_id or label(row.metadata.model)
        found.setdefault(name, {}).setdefault(row.id, []).append(row)
    names = ", ".join(found)
    if who is None and len(found) > 1:
        raise InputError(f"name a --forecaster: run {folder.run_id} has {names}")
    chosen = next(iter(found)) if who is None else who
    if chosen not in found:
        raise NotFound(f"run {folder.run_id} has no forecaster {chosen[:100]!r}: it has {names}")
    for rows in found[chosen].values():
        rows.sort(key=lambda row: row.metadata.timestamp)
    return found[chosen]


def forecastbench(
    made: Mapping[str, Sequence[PredictionLine]], questions: Path, organization: str, model: str
) -> Submission:
    """The forecast set for a question set: of each question the last forecast that was made by the
    end of the due date. Raises InputError for a file that is no question set, or where nothing of
    it was forecast."""
    body = read_json(questions)
    try:
        due = end_of_day(parse_instant(str(body["forecast_due_date"])))
        name, items = str(body["question_set"]), list(body["questions"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{questions} is no question set of ForecastBench: it needs forecast_due_date, "
            "question_set and questions"
        ) from None
    rows, missing = list[dict[str, Any]](), list[str]()
    for one in items:
        for market, date in _asked(one):
            last = _last(made.get(market, ()), due)
            if last is None:
                missing.append(market)
                continue
            rows.append(
                {
                    "id": one["id"],
                    "source": one["source"],
                    "forecast": last.prediction.probability,
                    "resolution_date": date,
                    "reasoning": _reason(last),
                }
            )
    if not rows:
        raise InputError(
            f"nothing of {questions} was forecast by {due.date()}: the run's markets are "
            f"{', '.join(list(made)[:3])}, …"
        )
    content = {
        "organization": organization,
        "model": model,
        "model_organization": organization,
        "question_set": name,
        "forecast_due_date": str(body["forecast_due_date"]),
        "forecasts": rows,
    }
    return Submission(content, len(rows), tuple(missing))


def _asked(question: Any) -> Iterator[tuple[str, str | None]]:
    """Under which ids a question may have been forecast, each with its resolution date; nothing for
    a combination of two questions, which rounds no longer have."""
    if not isinstance(question, Mapping) or not isinstance(question.get("id"), str):
        return
    source, native = str(question.get("source")), question["id"]
    kind = kind_of(question)
    if kind == "market":
        yield market_id(source, native), None
    elif kind == "dataset" and isinstance(dates := question.get("resolution_dates"), list):
        for date in map(str, dates):
            yield horizon_id(source, native, date), date


def _last(rows: Sequence[PredictionLine], due: datetime) -> PredictionLine | None:
    early = [row for row in rows if parse_instant(row.metadata.timestamp) <= due]
    return early[-1] if early else None


def _reason(row: PredictionLine) -> str:
    said = row.prediction.analysis
    return said[:LONGEST_REASON] if isinstance(said, str) else ""


def metaculus(made: Mapping[str, Sequence[PredictionLine]], ids: Path | None = None) -> Submission:
    """The forecasts on Metaculus' questions, the last of each, within [0.001, 0.999]. A question's
    id is not the number in its address, which is the post's: `ids` is a CSV with `market_id` and
    `question` that says which is which; without it the market's own number is taken. Raises
    InputError where no market of the run is a question of Metaculus."""
    known = {} if ids is None else _question_ids(ids)
    rows, missing = list[dict[str, Any]](), list[str]()
    for market, forecasts in made.items():
        venue, _, native = market.partition(":")
        number = known.get(market, native if ids is None and venue == "METACULUS" else "")
        if not _is_number(number):
            missing += [market] if venue == "METACULUS" or market in known else []
            continue
        rows.append(
            {
                "question": int(number),
                "source": "api",
                "probability_yes": min(max(forecasts[-1].prediction.probability, LOW), HIGH),
                "probability_yes_per_category": None,
                "continuous_cdf": None,
            }
        )
    if not rows:
        raise InputError(
            "no market of the run is a question of Metaculus: give --ids FILE, a CSV with "
            "market_id and question"
        )
    return Submission(rows, len(rows), tuple(missing))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _question_ids(path: Path) -> dict[str, str]:
    found = dict[str, str]()
    for number, row, why in read_csv(path, ("market_id", "question")):
        if row is None:
            raise InputError(f"{path}:{number}: {why}")
        market, question = row["market_id"].strip(), row["question"].strip()
        if market in found or question in found.values():
            raise InputError(f"{path}:{number}: {market} or question {question} stands there twice")
        found[market] = question
    return found
