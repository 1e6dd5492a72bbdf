"""The commands whose bytes are held (harness.py): over a simulated world, and over recorded
markets."""

import csv
import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beforehand.config import recorded_data
from modelserver import completion, model_server, sensible
from prepared import real_archive, simulated_archive
from scouting import write_cache

PORT = 38_713
"""Of the model server: an address is part of what is written."""
QUICK = ("--draws", "200", "--placebo", "20")
TITLE = "Will the Merovia timber index close above 993?"


@dataclass(frozen=True)
class Command:
    """One command: its name here, its arguments, its exit code, what is put in place first."""

    name: str
    arguments: tuple[str, ...]
    code: int = 0
    before: Callable[[Path], None] | None = None


def of(
    name: str, *arguments: str, code: int = 0, before: Callable[[Path], None] | None = None
) -> Command:
    return Command(name, arguments, code, before)


def as_json(*commands: str) -> list[Command]:
    """Each of these with --json."""
    return [
        of(text.replace(":", "-").replace(" ", "-"), *text.split(), "--json") for text in commands
    ]


def answered(body: dict[str, Any]) -> Any:
    """Code that works, code that fails, or a direct answer: by what was asked, not by when."""
    text = json.dumps(body, sort_keys=True)
    if '"code"' in text and len(text) % 3 == 0:
        return completion(json.dumps({"code": "raise ValueError('no')"}))
    return sensible(body)


def world(home: Path) -> None:
    shutil.copytree(simulated_archive(24), home / "data" / "archive")


def some_documents(home: Path) -> None:
    write_cache(home)


def _rows(home: Path) -> list[tuple[str, str]]:
    """The market and the instant of each forecast of the run `aligned`."""
    with (home / "aligned.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["model_id"] == "baseline:drift"]
    return [(r["market_id"], r["time"]) for r in rows]


def own_probabilities(home: Path) -> None:
    lines = [f"{m},{t},{0.2 + (n % 7) / 10}" for n, (m, t) in enumerate(_rows(home))]
    (home / "mine.csv").write_text("id,time,probability\n" + "\n".join(lines) + "\nnope,2025-01-01T00:00:00Z,0.5\n")  # fmt: skip


def submission(home: Path) -> None:
    """A ForecastBench forecast set."""
    names = list(dict.fromkeys(m for m, _ in _rows(home)))[:40]
    forecasts = [
        {"id": m.partition(":")[2], "source": m.partition(":")[0].lower(), "forecast": 0.3 + n / 100,
         "resolution_date": None, "reasoning": "r"}
        for n, m in enumerate(names)
    ]  # fmt: skip
    body = {
        "organization": "o", "model": "m1", "model_organization": "o", "question_set": "s",
        "forecast_due_date": "2025-03-31", "forecasts": forecasts,
    }  # fmt: skip
    (home / "submission.json").write_text(json.dumps(body))


MODEL = f"m-1@http://127.0.0.1:{PORT}/v1"
FIRST = "SIMEX:m0003,SIMEX:m0010,SIMKET:m0011"
FORMS = {
    "csv": "csv", "parquet": "parquet", "jsonl": "jsonl", "intervals": "jsonl",
    "predictions": "jsonl", "latex": "tex", "markdown": "md", "svg": "svg", "galileo": "json",
}  # fmt: skip
COMMANDS = [
    of("demo", "demo"),
    of("aligned", "backtest", "run", "--every", "28d", "--forecasters", "all,scripted", *QUICK,
       "--run-id", "aligned", before=world),
    of("own-grid", "backtest", "run", "--every", "28d", "--grid", "own", *QUICK, "--run-id", "own",
       "--spread", "0.02"),
    of("code-with-fallback", "backtest", "run", "--every", "28d", "--markets", FIRST,
       "--forecasters", f"market,thinker={MODEL}", "--concurrency", "1", "--max-calls", "500",
       *QUICK, "--run-id", "code"),
    of("hybrid", "backtest", "run", "--every", "28d", "--markets", FIRST, "--forecasters",
       f"market,thinker={MODEL}", "--mode", "hybrid", "--sims", "3", "--aggregate", "trimmed",
       "--concurrency", "1", "--max-calls", "500", *QUICK, "--run-id", "hybrid"),
    of("fork", "runs", "fork", "aligned", "--at", "2025-04-01", "--model", "drift=shrunk",
       "--new-id", "forked"),
    of("large", "backtest", "run", "--every", "2h", "--forecasters", "market,drift",
       *QUICK, "--run-id", "large"),
    *(of(f"export-{form}", "runs", "export", "aligned", "--format", form, "--out", f"aligned.{end}")
      for form, end in FORMS.items()),
    of("score", "score", "mine.csv", *QUICK, "--run-id", "scored", code=3, before=own_probabilities),
    of("score-foreign", "score", "submission.json", *QUICK, "--run-id", "foreign", code=3, before=submission),
    of("bench", "bench", "run", "--forecasters", "market,drift,shrunk", *QUICK, "--run-id", "bench"),
    of("ask", "ask", TITLE, "--run-id", "asked"),
    of("ask-with-a-model", "ask", TITLE, "--model", "scripted", "--run-id", "planned"),
    of("scout", "scout", "run", "rain and snow", "--keyword", "rain", "--as-of",
       "2025-06-25T00:00:00Z", "--run-id", "scouted", before=some_documents),
    *as_json(
        "runs list", "runs show aligned", "runs show scored", "runs show large", "runs verify aligned",
        "runs verify large", "runs diff aligned own", "runs diff aligned forked",
        "runs compare aligned:drift aligned:market", "runs compare own:drift aligned:drift",
        "runs calibration aligned --forecaster drift", "runs trials", "runs leaks aligned", "runs costs hybrid",
        "world info", "world verify", "tool get_market --arg id=SIMEX:m0003",
    ),
]  # fmt: skip


def beside_simulated(stack: ExitStack) -> None:
    stack.enter_context(model_server(answered, PORT))


def real_world(home: Path) -> None:
    data = recorded_data()
    assert data is not None
    shutil.copytree(real_archive(data), home / "data" / "archive")


SIMULATED = (COMMANDS, beside_simulated)
REAL = (
    [
        of("aligned", "backtest", "run", "--every", "7d", *QUICK, "--run-id", "aligned",
           before=real_world),
        of("own-grid", "backtest", "run", "--every", "7d", "--grid", "own", *QUICK, "--run-id",
           "own"),
        of("export", "runs", "export", "aligned", "--out", "aligned.csv"),
        of("score", "score", "mine.csv", *QUICK, "--run-id", "scored", code=3,
           before=own_probabilities),
        of("bench", "bench", "run", "--forecasters", "market,drift,shrunk", *QUICK, "--run-id",
           "bench"),
        of("ask", "ask", "Will Bitcoin reach $100k?", "--as-of", "2025-11-25", "--run-id", "asked"),
        *as_json(
            "runs show aligned", "runs verify aligned", "runs diff aligned own",
            "runs compare aligned:drift aligned:market", "runs calibration aligned --forecaster drift",
        ),
    ],
    lambda stack: None,
)  # fmt: skip
