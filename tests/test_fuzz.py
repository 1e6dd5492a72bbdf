"""A fuzzer over every parser and every file that is read (importers, forecasts, benchmark records,
settings): truncated, mistyped, huge, deeply nested, wrongly encoded. Only our own errors come out,
each with one sentence, in bounded memory; what is taken is whole.

`make chaos-fuzz` reads about a million inputs; here it is some thousands."""

import copy
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

import shapes
from beforehand.cli.backtest import load_configs
from beforehand.errors import BadAnswer, BeforehandError, Corrupt, InputError
from beforehand.forecast.files import forecast_file
from beforehand.gateway.worlds.pull import gamma_events, gamma_markets, kalshi_markets
from beforehand.jobs.benchmark import evaluation
from beforehand.records.bulk import PriceSeriesRow, decode_series
from beforehand.records.record import Record
from beforehand.score.evaluate import Settings
from beforehand.sources import (
    btc,
    edgar,
    exa,
    google_news,
    kalshi,
    polymarket,
    polymarket_data,
    reddit,
    web_search,
)
from beforehand.sources.fields import answer, decode_json
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.rules import series_problem
from beforehand.world.importers.lines import Rejects
from beforehand.world.importers.named import OWN
from fuzzing import STRANGE, bitten, mutated
from proofs import count
from shapes import GAMMA_MARKET, KALSHI_EVENT

AT = datetime(2026, 9, 1, tzinfo=UTC)
FEED = google_news.build("x")
READS = count("broken inputs of each reader", 400, 15_000)
Parser = Callable[[Any], Any]


def _rows(kind: str) -> Parser:
    return lambda raw: polymarket_data.parse_rows(raw, kind, "s", AT)


JSON: dict[str, tuple[Parser, Any]] = {
    "gamma market": (lambda r: polymarket.parse_market(r, AT), shapes.GAMMA_MARKET),
    "gamma event": (lambda r: polymarket.parse_event(r, AT), shapes.GAMMA_EVENT),
    "gamma anything": (
        lambda r: polymarket.parse(r, AT),
        [shapes.GAMMA_EVENT, shapes.GAMMA_MARKET],
    ),
    "gamma page": (
        lambda r: answer("x")(gamma_markets)(r, AT),
        {"markets": [shapes.GAMMA_MARKET], "next_cursor": "x"},
    ),
    "gamma events page": (
        lambda r: answer("x")(gamma_events)(r, AT),
        {"events": [shapes.GAMMA_EVENT]},
    ),
    "gamma listing": (polymarket.listed, shapes.GAMMA_MARKET),
    "clob book": (
        polymarket.parse_book,
        {
            "market": "0x1",
            "asset_id": "1",
            "timestamp": "1785734468581",
            "bids": [{"price": "0.1", "size": "5"}],
            "asks": [],
        },
    ),
    "clob prices": (
        lambda r: polymarket.parse_quotes(r, "1", "POLYMARKET:x", AT),
        {"1": {"BUY": "0.1", "SELL": "0.2"}},
    ),
    "clob history": (
        lambda r: polymarket.parse(r, AT, "POLYMARKET:x"),
        {"history": [{"t": shapes.T0, "p": 0.5}]},
    ),
    "comments": (lambda r: polymarket_data.parse_comments(r, "event:1", AT), [shapes.COMMENT]),
    "data history": (lambda r: polymarket_data.parse_history(r, "POLYMARKET:x"), shapes.PRICES_V2),
    "data resolutions": (
        lambda r: polymarket_data.parse_resolutions(r, AT),
        shapes.page([shapes.RESOLUTION_V2]),
    ),
    "data positions": (_rows("positions"), shapes.page([shapes.POSITION_V2])),
    "data activity": (_rows("activity"), shapes.page([shapes.ACTIVITY_V2])),
    "data trades": (_rows("trades"), shapes.page([shapes.TRADE_V2])),
    "data holders": (_rows("holders"), shapes.page([shapes.HOLDERS_V2])),
    "data builders": (_rows("builders"), shapes.page([shapes.BUILDER_V2])),
    "kalshi anything": (lambda r: kalshi.parse(r, AT), {"events": [shapes.KALSHI_EVENT]}),
    "kalshi page": (
        lambda r: answer("x")(kalshi_markets)(r, AT),
        {"markets": [shapes.KALSHI_MARKET], "cursor": ""},
    ),
    "kalshi listing": (kalshi.listed, shapes.KALSHI_MARKET),
    "kalshi book": (lambda r: kalshi.parse_book(r, "KALSHI:x", AT), shapes.KALSHI_BOOK),
    "kalshi candles": (
        lambda r: kalshi.candle_rows(r, "x", 1440, AT),
        {"candlesticks": [shapes.KALSHI_CANDLE, shapes.KALSHI_CANDLE_OLD]},
    ),
    "kalshi trades": (lambda r: kalshi.parse_trades(r, AT), {"trades": [shapes.KALSHI_TRADE]}),
    "kalshi cutoff": (kalshi.parse_cutoff, shapes.CUTOFF),
    "exa": (lambda r: exa.parse(r, AT, False), shapes.EXA),
    "openai": (lambda r: web_search.parse(r, "q||", AT), shapes.OPENAI),
    "reddit": (
        lambda r: reddit.parse(r, AT),
        [shapes.listing(("t3", shapes.POST)), shapes.listing(("t1", shapes.REPLY))],
    ),
    "reddit file": (
        lambda r: reddit.parse_thread_file(r, AT),
        {"uri": "x", "body": shapes.listing(("t3", shapes.POST))},
    ),
    "edgar facts": (lambda r: edgar.parse_facts(r, AT), shapes.FACTS),
    "edgar submissions": (lambda r: edgar.parse_submissions(r, AT), shapes.SUBMISSIONS),
    "btc ticker": (lambda r: btc.parse_ticker(r, AT), shapes.TICKER),
    "btc candles": (btc.parse_candles, shapes.CANDLES),
}


def check(parse: Parser, raw: Any) -> bool:
    """True where the parser took it; its records are then whole."""
    try:
        found = parse(raw)
    except BeforehandError:
        return False
    flat = found if isinstance(found, list) else [found]
    for record in flat:
        if isinstance(record, Record):
            type(record).model_validate_json(record.model_dump_json())
    return True


@pytest.mark.parametrize("name", sorted(JSON))
def test_mistyped_and_missing(name: str) -> None:
    parse, example = JSON[name]
    assert check(parse, copy.deepcopy(example)), "the example itself is read"
    rng = np.random.default_rng(0)
    taken = sum(check(parse, mutated(rng, example)) for _ in range(READS))
    assert taken < READS, "some must be refused, or the fuzzer proves nothing"


@pytest.mark.parametrize("name", sorted(JSON))
def test_truncated_and_encoded(name: str) -> None:
    parse, example = JSON[name]
    raw = json.dumps(example).encode()
    rng = np.random.default_rng(1)
    for _ in range(100):
        cut = raw[: int(rng.integers(0, len(raw)))]
        for data in (cut, cut + b"\xff\xfe", raw.decode().encode("utf-16")[:-1], b"\x00" * 9):
            with pytest.raises(BadAnswer):
                decode_json(data, "x")
    for deep in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900):
        try:
            value = decode_json(deep, "x")
        except BadAnswer:
            continue
        check(parse, value)
    for strange in STRANGE:
        check(parse, strange)


def test_feeds() -> None:
    rng = np.random.default_rng(2)
    body = shapes.RSS.decode()
    assert google_news.parse(body, FEED, AT)
    for _ in range(READS):
        text = list(body)
        for _ in range(int(rng.integers(1, 30))):
            place = int(rng.integers(0, len(text)))
            text[place] = str(rng.choice(list("<>&;\"'/= x\x0b9é")))
        try:
            found = google_news.parse("".join(text), FEED, AT)
        except BeforehandError:
            continue
        assert all(isinstance(record, Record) for record in found)
    for bad in (
        "",
        body[:200],
        "<html/>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><rss/>",
        "<rss>" * 5000,
        "\x00",
    ):
        with pytest.raises(BadAnswer):
            google_news.parse(bad, FEED, AT)


@pytest.mark.real_data
def test_captures_survive_mutation(data: Path) -> None:
    """The same on real captures, which have more corners than our examples."""
    rng = np.random.default_rng(3)
    names = {
        "_look_only/pmvl_captures_2026-07/polymarket_markets.json": lambda r: polymarket.parse(
            r, AT
        ),
        "_look_only/pmvl_captures_2026-07/kalshi_markets.json": lambda r: kalshi.parse(r, AT),
        "_look_only/polymarket/data_api_positions.json": _rows("positions"),
        "reddit/TestSubmission.test_comments.1.json": lambda r: reddit.parse(r["body"], AT),
    }
    for name, parse in names.items():
        raw = json.loads((data / name).read_text())
        small = raw[:2] if isinstance(raw, list) else raw
        for _ in range(60):
            changed = mutated(rng, small)
            if isinstance(changed, dict) and "body" not in changed and "reddit" in name:
                continue
            check(parse, changed)


AT = datetime(2026, 9, 1, tzinfo=UTC)
FILES_READ = count("broken files of each importer", 600, 40_000)
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
    taken = sum(not refused(read, path, data) for data in inputs(rng, write, example, FILES_READ))
    assert 0 < taken < FILES_READ, (
        "some are harmless and some must be refused, or it proves nothing"
    )
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
    rounds = FILES_READ // 20
    for k in range(rounds):
        changed = json.dumps(mutated(rng, whole)).encode()
        manifest.write_bytes(bitten(rng, changed) if k % 2 else changed)
        try:
            found += bool(Archive(folder).verify())
        except BeforehandError:
            found += 1
    assert found > rounds // 2
