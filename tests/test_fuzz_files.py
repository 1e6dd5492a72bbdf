"""A fuzzer over every file that is read: importers, forecasts, benchmark records, settings. Only our
own errors come out, each with one sentence, in bounded memory; what is taken is whole.

`make chaos` reads about a million inputs, with those of test_fuzz_parsers.py; here it is some thousands.
"""

import csv
import gzip
import io
import json
import resource
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from beforehand.cli.backtest import load_configs
from beforehand.errors import BeforehandError, Corrupt, InputError
from beforehand.forecast.files import forecast_file
from beforehand.jobs.benchmark import evaluation
from beforehand.records.bulk import PriceSeriesRow, decode_series
from beforehand.records.record import Record
from beforehand.score.evaluate import Settings
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.rules import series_problem
from beforehand.world.importers.lines import Rejects
from beforehand.world.importers.named import OWN
from fuzzing import STRANGE, bitten, mutated
from proofs import count
from shapes import GAMMA_MARKET, KALSHI_EVENT

AT = datetime(2026, 9, 1, tzinfo=UTC)
ROUNDS = count("broken files of each importer", 600, 40_000)
MOST_MB = 300
HISTORY = {
    "source": "polymarket", "id": "0x1", "question": "Will it?", "background": "b", "event_id": "e",
    "resolution_criteria": "r", "rounds": ["2025-01-05"], "freeze": [], "url": "https://x.org",
    "open_datetime": "2024-12-01T00:00:00Z", "close_datetime": "2025-02-01T00:00:00Z",
    "history": [["2025-01-01", 0.4, 1735776000.0], ["2025-01-02", 0.5, 1735862400.0]],
    "resolution": {"date": "2025-01-20", "outcome": 1.0, "first_published": 1737417600.0},
}  # fmt: skip
DOCUMENT = {
    "id": "d1", "title": "T", "text": "t", "url": "https://x.org/1", "source": "s",
    "published_at": "2025-01-05", "captured_at": "2025-01-06T00:00:00Z", "captured_how": "feed",
    "licence": "CC0-1.0",
}  # fmt: skip
SET = {
    "forecast_due_date": "2025-01-05",
    "questions": [
        {"id": "0x1", "source": "polymarket", "question": "Will it?", "background": "b", "url": "u",
         "market_info_open_datetime": "2024-12-01T00:00:00Z", "resolution_dates": "N/A",
         "market_info_close_datetime": "N/A", "resolution_criteria": "r"},
        {"id": "s1", "source": "fred", "question": "By {resolution_date}?", "background": "b",
         "resolution_dates": ["2025-02-01"], "resolution_criteria": "r"},
    ],
}  # fmt: skip
SETTLED = {
    "forecast_due_date": "2025-01-05",
    "resolutions": [
        {"id": "0x1", "source": "polymarket", "resolution_date": "2025-01-20", "resolved_to": 1.0,
         "resolved": True, "direction": None},
        {"id": "s1", "source": "fred", "resolution_date": "2025-02-01", "resolved_to": 0.0,
         "resolved": True, "direction": None},
    ],
}  # fmt: skip
PREDICTION = {
    "id": "POLYMARKET:0x1",
    "prediction": {"probability": 0.4, "rationale": [{"type": "news", "source": "s", "timestamp": "2025-01-02T00:00:00Z"}]},
    "metadata": {"model": "m", "timestamp": "2025-01-03T00:00:00Z", "predictor_id": "p"},
}  # fmt: skip
RESOLUTION = {"id": "POLYMARKET:0x1", "outcome": 1, "resolved_at": "2025-01-20T00:00:00Z"}
EVENT = {
    "id": "POLYMARKET:0x1", "question": "Will it?", "domain": "politics",
    "resolution_date": "2025-01-20T00:00:00Z", "source": {"type": "Polymarket", "market_id": "0x1"},
    "ground_truth_source": "Polymarket", "tags": ["a"],
}  # fmt: skip
CONFIG = {
    "experiment_id": "e", "market_id": "SIMEX:m0", "start_time": "2025-01-01T00:00:00Z",
    "end_time": "2025-03-01T00:00:00Z", "interval_minutes": 10080, "models": ["market"], "num_sims": 1,
    "mode": "baseline", "search_config": {"max_results": 5},
}  # fmt: skip
ROWS = [
    {"id": "SIMEX:m0", "time": "2025-01-03T00:00:00Z", "probability": "0.4", "forecaster": "a"},
    {"id": "SIMEX:m1", "time": "2025-01-04", "probability": "0.5", "forecaster": "b"},
]
PRICES = [
    {"id": "0x1", "time": "2025-01-03T00:00:00Z", "price": "0.4", "bid": "0.3", "ask": "0.5",
     "volume": "3", "known_at": "2025-01-04"},
]  # fmt: skip
BETS = [{"entry_price": 0.4, "won": True, "side": "YES", "resolved_ts": 1737417600.0}]
Write = Callable[[Any], bytes]


def lines(rows: Any) -> bytes:
    many = rows if isinstance(rows, list) else [rows]
    return b"\n".join(json.dumps(row).encode() for row in many) + b"\n"


def document(value: Any) -> bytes:
    return json.dumps(value).encode()


def table(rows: Any) -> bytes:
    """CSV of rows of a JSON value, whatever became of them."""
    out = io.StringIO()
    held = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    names = list(dict.fromkeys(name for row in held for name in row))
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(held)
    return out.getvalue().encode("utf-8", "surrogatepass")


def imported(name: str) -> Callable[[Path], int]:
    """An importer, without and with the bad lines skipped; gives how many records came."""

    def read(path: Path) -> int:
        records = list[Record]()
        for skip in (False, True):
            rejects = Rejects(skip_bad=skip)
            records = list(OWN[name](path, rejects, {}, AT))
        for record in records:
            if isinstance(record, PriceSeriesRow):
                assert series_problem(record) is None
                assert decode_series(msgspec.json.encode(record)) == record
                continue
            again = type(record).model_validate_json(record.model_dump_json())
            assert again == record
        return len(records)

    return read


def scored(path: Path) -> int:
    """A file of forecasts; every row is taken, blank, or rejected with its reason."""
    stated = forecast_file.read_file(path)
    assert len(stated.lines) + stated.rejected.count == stated.rows
    assert all(0 <= line.probability <= 1 for line in stated.lines)
    list(stated.rejected.rows())
    return len(stated.lines)


def judged(kind: str) -> Callable[[Path], int]:
    """`bench evaluate` over three files, of which one is broken."""

    def read(path: Path) -> int:
        files = {
            "events": lines(EVENT),
            "predictions": lines(PREDICTION),
            "resolutions": lines(RESOLUTION),
        }
        paths = {}
        for name, data in files.items():
            paths[name] = path.parent / f"{name}.jsonl"
            paths[name].write_bytes(path.read_bytes() if name == kind else data)
        done = evaluation.evaluate_files(
            paths["events"],
            paths["predictions"],
            paths["resolutions"],
            Settings(draws=20, placebo=0),
        )
        return len(done.result.rows)

    return read


READERS: dict[str, tuple[Callable[[Path], int], Write, Any, str]] = {
    "markets": (imported("markets"), lines, HISTORY, "x.jsonl"),
    "documents": (imported("documents"), lines, DOCUMENT, "x.jsonl"),
    "question set": (imported("forecastbench"), document, SET, "x.json"),
    "resolution set": (imported("forecastbench"), document, SETTLED, "x.json"),
    "prices": (imported("prices"), table, PRICES, "x.csv"),
    "predictions": (imported("predictions"), lines, [PREDICTION, RESOLUTION], "x.jsonl"),
    "polymarket": (imported("polymarket"), document, [GAMMA_MARKET], "x.json"),
    "kalshi": (imported("kalshi"), document, {"events": [KALSHI_EVENT]}, "x.json"),
    "forecasts, CSV": (scored, table, ROWS, "x.csv"),
    "forecasts, JSONL": (scored, lines, ROWS, "x.jsonl"),
    "events": (judged("events"), lines, EVENT, "x.jsonl"),
    "bench predictions": (judged("predictions"), lines, PREDICTION, "x.jsonl"),
    "bench resolutions": (judged("resolutions"), lines, RESOLUTION, "x.jsonl"),
    "bets": (lambda path: len(evaluation.load_bets(path, "file")), document, BETS, "x.json"),
    "experiment": (lambda path: len(load_configs(path)), document, CONFIG, "x.json"),
}


def inputs(rng: np.random.Generator, write: Write, example: Any, n: int) -> Iterator[bytes]:
    """Broken values, broken bytes, and both, packed now and then."""
    whole = write(example)
    for k in range(n):
        data = whole if k % 3 == 1 else write(mutated(rng, example))
        if k % 3:
            data = bitten(rng, data)
        if k % 50 == 0:
            data = gzip.compress(data)[: None if k % 100 else -3]
        yield data


def refused(read: Callable[[Path], int], path: Path, data: bytes) -> bool:
    """False where the reader took it; an error is ours, and says where and what."""
    path.write_bytes(data)
    try:
        read(path)
    except InputError as error:
        said = str(error)
        assert said.strip(), "it says nothing"
        assert "\n" not in said.strip() or len(said) < 2000
        return True
    except Corrupt:
        return True
    return False


@pytest.mark.parametrize("name", sorted(READERS))
def test_files(name: str, tmp_path: Path) -> None:
    read, write, example, file = READERS[name]
    path = tmp_path / file
    path.write_bytes(write(example))
    assert read(path) > 0, "the example itself is read"
    rng = np.random.default_rng(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = sum(not refused(read, path, data) for data in inputs(rng, write, example, ROUNDS))
    assert 0 < taken < ROUNDS, "some are harmless and some must be refused, or it proves nothing"
    for value in STRANGE:
        refused(read, path, write(value))
        refused(read, path, json.dumps(value).encode())
    for data in (
        b"",
        b"\x00" * 100,
        b"[" * 50_000,
        b"\xff" * 100,
        b"version https://git-lfs",
        b"\n",
    ):
        refused(read, path, data)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MOST_MB, f"{grown:,.0f} MB more"


def test_archives(sim: Path, tmp_path: Path) -> None:
    """An archive's manifest with any place or byte changed: it is refused, or its problems are
    listed, or it was changed where nothing is read from."""
    folder = tmp_path / "archive"
    shutil.copytree(sim, folder)
    manifest = folder / "archive.json"
    whole = json.loads(manifest.read_text())
    rng = np.random.default_rng(0)
    found = 0
    rounds = ROUNDS // 20
    for k in range(rounds):
        changed = json.dumps(mutated(rng, whole)).encode()
        manifest.write_bytes(bitten(rng, changed) if k % 2 else changed)
        try:
            found += bool(Archive(folder).verify())
        except BeforehandError:
            found += 1
    assert found > rounds // 2
