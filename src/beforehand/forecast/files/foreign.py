"""Forecasts in the files of other benchmarks, read without their packages.

ForecastBench's submissions, Prophet Arena's predictions, Metaculus' data downloads, the benchmarks
of forecasting-tools, and logs of inspect (`inspect_log.py`). A file is known by what it holds, not
by its name. Each forecast becomes a row of id, time, probability and forecaster, as in a CSV;
fields that have no place there are listed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from beforehand.clock import end_of_day, iso, parse_instant
from beforehand.errors import BadAnswer, InputError
from beforehand.forecast.answers import read_probability
from beforehand.ids import market_id
from beforehand.score.forecastbench import DATASETS
from beforehand.store.files import csv_header, read_bytes, read_csv

Row = Mapping[str, object]


@dataclass
class Foreign:
    """What a file of another kind holds: its kind for people, the rows with their numbers, rows
    that cannot be one and why, and the fields that were not read."""

    kind: str
    rows: list[tuple[int, Row]] = field(default_factory=list)
    rejected: list[tuple[int, str, Row]] = field(default_factory=list)
    fields: dict[str, None] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def unread(self, said: Mapping[str, object], known: Iterable[str], where: str = "") -> None:
        """Note the fields of an object that have no place in a row."""
        for name in said.keys() - set(known):
            self.fields.setdefault(f"{where}{name}")

    def add(self, number: int, name: object, time: object, value: object, who: object) -> None:
        """Add a forecast, or note why it is none."""
        row = {"id": name, "time": time, "probability": value, "forecaster": who}
        if value is not None and not isinstance(value, float):
            try:
                row["probability"] = read_probability(value).p
            except BadAnswer as error:
                self.rejected.append((number, f"no probability: {error}", row))
                return
        self.rows.append((number, row))


def foreign(path: Path, head: bytes) -> Foreign | None:
    """The forecasts of a file of another kind, which begins so; None for one of ours. Raises
    InputError for a file of a known kind that is damaged."""
    from beforehand.forecast.files.inspect_log import of_log

    if head[:1] not in (b"{", b"["):
        return _metaculus_download(path) if _is_metaculus(path) else None
    if path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return None
    try:
        body = orjson.loads(read_bytes(path).removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None  # JSONL, or damaged: our own reader names the line.
    found = kind_of(body)
    if found is None:
        return None
    made = Foreign(found)
    try:
        {**READERS, "an inspect log": of_log}[found](body, made)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = error.args[0] if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} looks like {found}, and is damaged: {what!r}") from None
    if not made.rows and not made.rejected:
        raise InputError(f"{path} is {found} without any forecast")
    return made


def kind_of(body: object) -> str | None:
    """What a JSON document is, by the fields that only its kind has."""
    if isinstance(body, list):
        first = body[0] if body else None
        return "forecasting-tools' benchmark" if _has(first, "forecast_reports") else None
    if _has(body, "forecasts", "question_set"):
        return "a ForecastBench submission"
    if _has(body, "predictions", "timestamp"):
        return "a Prophet submission"
    if _has(body, "forecast_reports"):
        return "forecasting-tools' benchmark"
    return "an inspect log" if _has(body, "eval", "status") else None


def _has(body: object, *names: str) -> bool:
    return isinstance(body, Mapping) and all(name in body for name in names)


def _forecastbench(body: Mapping[str, Any], made: Foreign) -> None:
    """Market questions; those of datasets are scored by `bench forecastbench`."""
    named = str(body["question_set"])[: len("2025-10-26")]  # As in 2025-10-26-llm.json.
    due = iso(end_of_day(parse_instant(str(body.get("forecast_due_date") or named))))
    who = " ".join(str(body[key]) for key in ("model_organization", "model") if body.get(key))
    known = ("organization", "model", "model_organization", "question_set", "forecast_due_date")
    made.unread(body, (*known, "forecasts"))
    for number, one in enumerate(_listed(body["forecasts"]), start=1):
        made.unread(one, ("id", "source", "forecast", "resolution_date", "reasoning"))
        name, source = one.get("id"), str(one.get("source"))
        row = {"id": str(name), "time": due, "probability": one.get("forecast")}
        if not isinstance(name, str):
            made.rejected.append((number, "a combination of questions", row))
        elif source in DATASETS or one.get("resolution_date") is not None:
            why = "a question of a dataset: `beforehand bench forecastbench` scores these"
            made.rejected.append((number, why, row))
        else:
            made.add(number, market_id(source, name), due, one.get("forecast"), who or None)


def _prophet(body: Mapping[str, Any], made: Foreign) -> None:
    made.unread(body, ("timestamp", "predictions", "team_name"))
    time, who = str(body["timestamp"]), body.get("team_name")
    for number, one in enumerate(_listed(body["predictions"]), start=1):
        made.unread(one, ("market_ticker", "p_yes", "rationale"))
        ticker = one.get("market_ticker")
        name = market_id("KALSHI", str(ticker)) if ticker else None
        made.add(number, name, one.get("timestamp", time), one.get("p_yes"), who)


def _forecasting_tools(body: Any, made: Foreign) -> None:
    """Binary reports. A question counts as asked when it was read; without that, when the benchmark
    was made."""
    number = 0
    for benchmark in _listed(body if isinstance(body, list) else [body]):
        made.unread(
            benchmark,
            ("explicit_name", "name", "timestamp", "forecast_reports", "forecast_bot_class_name"),
        )
        who = benchmark.get("explicit_name") or benchmark.get("name")
        who = who or benchmark.get("forecast_bot_class_name")
        for one in _listed(benchmark["forecast_reports"]):
            number += 1
            question = one["question"]
            made.unread(one, ("question", "prediction", "prediction_in_decimal", "explanation"))
            made.unread(
                question,
                (
                    "id_of_post",
                    "question_id",
                    "page_url",
                    "question_type",
                    "date_accessed",
                    "question_text",
                ),
                "question.",
            )
            post = question.get("id_of_post") or question.get("question_id")
            name = market_id("METACULUS", str(post)) if post else question.get("page_url")
            time = question.get("date_accessed") or benchmark.get("timestamp")
            value = one.get("prediction", one.get("prediction_in_decimal"))
            if question.get("question_type", "binary") != "binary":
                row = {"id": name, "time": time, "probability": None}
                made.rejected.append((number, f"a {question['question_type']} question", row))
                continue
            made.add(number, name, time, value, who)


_METACULUS = {"question id": "id", "start time": "time", "probability yes": "probability"}


def _is_metaculus(path: Path) -> bool:
    try:
        names = {name.strip().lower() for name in csv_header(path)}
    except InputError:
        return False
    return names >= _METACULUS.keys()


def _metaculus_download(path: Path) -> Foreign:
    """`forecast_data.csv` of a data download: a row for each forecast, from its start on."""
    made = Foreign("a Metaculus data download")
    for number, row, problem in read_csv(path, ()):
        if row is None:
            made.rejected.append((number, problem, {}))
            continue
        said = {name.strip().lower(): value for name, value in row.items()}
        who = said.get("forecaster username") or said.get("forecaster id")
        made.unread(said, (*_METACULUS, "forecaster username", "forecaster id", "end time"))
        name, value = said["question id"].strip(), said["probability yes"].strip()
        if not value:
            shown = {"id": name, "time": said["start time"], "probability": None}
            made.rejected.append((number, "no probability of YES: another kind of question", shown))
            continue
        time = said["start time"].strip().replace(" UTC", "+00:00")
        made.add(number, market_id("METACULUS", name) if name else None, time, value, who or None)
    return made


def _listed(value: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise ValueError("a list of objects is expected")
    return value


READERS: Mapping[str, Callable[[Any, Foreign], None]] = {
    "a ForecastBench submission": _forecastbench,
    "a Prophet submission": _prophet,
    "forecasting-tools' benchmark": _forecasting_tools,
}
