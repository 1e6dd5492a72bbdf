"""A hundred and fifty bad inputs, over all commands: each gets a sentence that says what is wrong,
where, and what to do; the right exit code; no traceback; and nothing is lost."""

import gzip
import json
import os
import random
import re
import sys
import zlib
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.cli.app import run as cli
from beforehand.errors import InputError
from beforehand.store import files
from beforehand.store.archive.manifest import seal_of
from beforehand.store.archive.reader import Archive
from experiments import Out
from prepared import copy
from program import run_program
from proofs import some

HISTORY = (
    '{"source": "polymarket", "id": "0x1", "question": "Q?", "rounds": ["2025-01-05"], '
    '"history": [["2025-01-01", 0.4, 1735776000]], '
    '"resolution": {"date": "2025-01-20", "outcome": 1.0, "first_published": 1737417600}}'
)


def history(old: str, new: str) -> str:
    assert old in HISTORY
    return HISTORY.replace(old, new)


ROW = "SIMEX:m0000,2024-12-05T00:00:00Z,0.4\n"
HEAD = "id,time,probability\n"
EVENT = '{"id": "SIMEX:m0000", "question": "Q?", "domain": null, "resolution_date": null, "source": {"type": "Simex", "market_id": "m0000"}, "ground_truth_source": "Simex", "tags": []}'  # fmt: skip
SAID = '{"id": "SIMEX:m0000", "prediction": {"probability": 0.4}, "metadata": {"model": "m", "timestamp": "2024-12-05T00:00:00Z", "predictor_id": "m"}}'  # fmt: skip
ENDED = '{"id": "SIMEX:m0000", "outcome": 1, "resolved_at": "2026-01-20T00:00:00Z"}'
CONFIG = {
    "experiment_id": "e", "market_id": "SIMEX:m0000", "start_time": "2025-01-01T00:00:00Z",
    "end_time": "2025-02-01T00:00:00Z", "interval_minutes": 10080, "models": ["market"],
    "num_sims": 1, "mode": "baseline", "search_config": {"max_results": 5},
}  # fmt: skip


def config(**changes: object) -> str:
    return json.dumps({**CONFIG, **changes})


FILES: dict[str, str | bytes] = {
    "empty": "",
    "utf16.csv": (HEAD + ROW).encode("utf-16"),
    "good.csv": HEAD + ROW,
    "nul.csv": HEAD + "SIMEX:m0\x00000,2024-12-05T00:00:00Z,0.4\n",
    "head.csv": HEAD,
    "names.csv": "alpha,beta,gamma\n1,2,3\n",
    "percent.csv": HEAD + ROW.replace("0.4", "40") * 3,
    "unknown.csv": HEAD + "SIMEX:none,2024-12-05T00:00:00Z,0.4\n",
    "early.csv": HEAD + "SIMEX:m0000,1999-01-01T00:00:00Z,0.4\n",
    "late.csv": HEAD + "SIMEX:m0000,2099-01-01T00:00:00Z,0.4\n",
    "notime.csv": HEAD + "SIMEX:m0000,2024-12-05 00:00,0.4\n",
    "word.csv": HEAD + "SIMEX:m0000,2024-12-05T00:00:00Z,likely\n",
    "two.csv": HEAD + "SIMEX:m0000,2024-12-05T00:00:00Z,1.5\n" + ROW,
    "twice.csv": HEAD + ROW + ROW,
    "short.csv": HEAD + ROW + "SIMEX:m0000\n",
    "comma.csv": "id;time;probability\nSIMEX:m0000;2024-12-05T00:00:00Z;0,4\nSIMEX:m0001;x;0,5\n",
    "german.csv": HEAD + "SIMEX:m0000,05.12.2024,0.4\n",
    "list.json": f"[{SAID}]",
    "broken.jsonl": '{"id": \n',
    "number.jsonl": "3\n",
    "deep.jsonl": "[" * 20_000 + "\n",
    "lfs.jsonl": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "cut.gz": gzip.compress(HISTORY.encode() * 50)[:-20],
    "nogz.gz": HISTORY,
    "m_nohistory": history('"history": [["2025-01-01", 0.4, 1735776000]], ', ""),
    "m_null": history('[["2025-01-01", 0.4, 1735776000]]', "null"),
    "m_short": history("0.4, 1735776000", "0.4"),
    "m_text": history("0.4,", '"0.4",'),
    "m_high": history("0.4,", "1.4,"),
    "m_day": history('"2025-01-01"', '"soon"'),
    "m_rounds": history('["2025-01-05"]', '"2025-01-05"'),
    "m_round": history('["2025-01-05"]', "[20250105]"),
    "m_end": history('{"date": "2025-01-20", "outcome": 1.0, "first_published": 1737417600}', "1"),
    "m_outcome": history('"outcome": 1.0', '"outcome": "YES"'),
    "m_two": history('"outcome": 1.0', '"outcome": 2.0'),
    "m_first": history('"first_published": 1737417600', '"first_published": null'),
    "m_year": history("1735776000", "253402300800000"),
    "m_id": history('"0x1"', '""'),
    "m_nul": history('"0x1"', '"0\\u0000x"'),
    "m_source": history('"polymarket"', "5"),
    "m_noquestion": history('"question": "Q?", ', ""),
    "d_notime": '{"id": "d", "title": "t"}',
    "d_noid": '{"title": "t", "captured_at": "2025-01-01T00:00:00Z"}',
    "d_time": '{"id": "d", "captured_at": "2025-01-01"}\n{"id": "e", "captured_at": "x"}',
    "d_text": '{"id": "d", "title": 5, "captured_at": "2025-01-01T00:00:00Z"}',
    "p_cols.csv": "id,when,price\nx,2025-01-01,0.4\n",
    "p_price.csv": "id,time,price\nx,2025-01-01,2\n",
    "p_known.csv": "id,time,price,known_at\nx,2025-01-05,0.4,2025-01-01\n",
    "p_book.csv": "id,time,price,bid,ask\nx,2025-01-05,0.4,0.6,0.3\n",
    "p_zone.csv": "id,time,price\nx,2025-01-05T00:00:00,0.4\n",
    "p_nan.csv": "id,time,price\nx,2025-01-05,nan\n",
    "set.json": '{"forecast_due_date": "soon", "questions": []}',
    "noset.json": '{"a": 1}',
    "set_source.json": '{"forecast_due_date": "2025-01-05", "questions": [{"id": "x", "source": "tarot", "question": "q"}]}',
    "e.jsonl": EVENT,
    "s.jsonl": SAID,
    "r.jsonl": ENDED,
    "e_noid.jsonl": EVENT.replace('"id": "SIMEX:m0000", ', ""),
    "s_high.jsonl": SAID.replace("0.4", "1.4"),
    "s_zone.jsonl": SAID.replace("05T00:00:00Z", "05T00:00:00"),
    "s_other.jsonl": SAID.replace("m0000", "m0009"),
    "r_two.jsonl": ENDED + "\n" + ENDED.replace('"outcome": 1', '"outcome": 0'),
    "r_half.jsonl": ENDED.replace('"outcome": 1', '"outcome": 7'),
    "bets.json": '[{"entry_price": 2, "won": true}]',
    "bets_none.json": "[]",
    "bets_order.json": '[{"entry_price": 0.4, "won": true}]',
    "c_list.json": "[]",
    "c_text.json": '"x"',
    "c_model.json": config(models=["nobody"]),
    "c_nomodel.json": config(models=[]),
    "c_market.json": config(market_id="SIMEX:none"),
    "c_order.json": config(end_time="2024-01-01T00:00:00Z"),
    "c_zone.json": config(start_time="2025-01-01T00:00:00"),
    "c_zero.json": config(interval_minutes=0),
    "c_sims.json": config(num_sims=0),
    "c_mode.json": config(mode="magic"),
    "c_extra.json": config(num_sim=3),
    "c_good.json": config(),
    "loop.py": "while True: pass",
    "raise.py": "1 / 0",
    "syntax.py": "def f(:",
    "import.py": "import socket",
    "f.py": "def f(context):\n    return 0.4\n",
    "plan.json": '{"schema": "scout_plan_v1"}',
    "noplan.json": "[1]",
    "wide.csv": ",".join(f"c{n}" for n in range(40_000)) + "\n",
    "longline.jsonl": '{"id": "' + "x" * 60_000_000 + '"}\n',
    "p_long.csv": "id,time,price\nx,2025-01-05," + "9x" * 50_000 + "\n",
    "kalshibench.json": '{"predictions": [{"predicted_probability": 0.4}], "reliability_diagram": '
    '[{"count": 1, "avg_confidence": 0.4, "avg_accuracy": "NaN"}]}',
    "q.json": '{"forecast_due_date": "2025-01-05", "questions": [{"id": "x", "source": "fred"}]}',
    "q_id.json": '{"forecast_due_date": "2025-01-05", "questions": [{"id": 1, "source": "fred"}]}',
    "a.json": '{"forecast_due_date": "2025-01-05", "resolutions": [{"id": "x", "source": "fred", '
    '"resolution_date": "2025-02-01", "resolved": true, "resolved_to": 1}]}',
    "a_date.json": '{"forecast_due_date": "2025-01-05", "resolutions": [{"id": "x", "source": '
    '"fred", "resolution_date": {}, "resolved": true, "resolved_to": 1}]}',
    "f_source.json": '{"forecasts": [{"id": "x", "source": {}, "forecast": 0.4}]}',
    "bets_tiny.json": '[{"entry_price": 5e-324, "won": true}]',
}  # fmt: skip
SCORE = ["score", "{f}", "--archive", "{sim}", "--draws", "100", "--placebo", "0"]
TEST = ["backtest", "run", "--archive", "{sim}", "--every", "28d", "--placebo", "0"]
FROM = ["backtest", "run", "{f}", "--archive", "{sim}"]


def importing(kind: str) -> list[str]:
    return ["world", "import", kind, "{f}", "--archive", "{home}/new"]


def bench(**files: str) -> list[str]:
    given = {"events": "e.jsonl", "predictions": "s.jsonl", "resolutions": "r.jsonl", **files}
    return ["bench", "evaluate", *(x for k, v in given.items() for x in (f"--{k}", "{home}/" + v))]


Case = tuple[list[str], str, int, str]
"""The command, the file that {f} stands for, the exit code, and what stderr must say."""
CASES: list[Case] = [
    # Files of forecasts.
    (SCORE, "missing.csv", 2, r"missing\.csv.*does not exist"),
    (SCORE, "empty", 2, "empty"),
    (SCORE, ".", 2, "is a folder|not a file"),
    (SCORE, "utf16.csv", 2, "UTF-8"),
    (SCORE, "nul.csv", 2, "no market .SIMEX:m0.x00000.*nearest"),
    (SCORE, "head.csv", 2, "it has no rows"),
    (SCORE, "names.csv", 2, "--columns"),
    (SCORE, "percent.csv", 2, "--percent"),
    (SCORE, "unknown.csv", 2, "no market 'SIMEX:none'.*world list"),
    (SCORE, "early.csv", 2, "first known price"),
    (SCORE, "late.csv", 2, "market's end"),
    (SCORE, "notime.csv", 2, "--timezone"),
    (SCORE, "word.csv", 2, "not a number.*line 2"),
    (SCORE, "two.csv", 3, "not scored: 1 ×.*2"),
    (SCORE, "twice.csv", 3, "second forecast.*3"),
    (SCORE, "short.csv", 3, "line.*3|3"),
    (SCORE, "comma.csv", 3, "ISO 8601.*3"),
    (SCORE, "german.csv", 2, "--dates day-first"),
    (SCORE, "list.json", 2, "JSONL|one object a line|jq"),
    (SCORE, "broken.jsonl", 2, "JSON"),
    (SCORE, "number.jsonl", 2, "object"),
    (SCORE, "deep.jsonl", 2, "."),
    (SCORE, "lfs.jsonl", 2, "LFS"),
    (SCORE, "cut.gz", 2, "gz"),
    (SCORE, "nogz.gz", 2, "gz"),
    ([*SCORE, "--columns", "id=alpha"], "good.csv", 2, "alpha"),
    ([*SCORE, "--timezone", "Mars/Base"], "good.csv", 2, "Mars/Base"),
    ([*SCORE, "--dates", "sometimes"], "good.csv", 2, "day-first"),
    ([*SCORE, "--training-cutoff", "soon"], "good.csv", 2, "--training-cutoff"),
    ([*SCORE, "--leave-out", "venue=NONE"], "good.csv", 2, "leaves out no row"),
    ([*SCORE, "--leave-out", "mood=bad"], "good.csv", 2, "FIELD=VALUE"),
    ([*SCORE, "--name", "market"], "good.csv", 2, "may not be called market|rename"),
    ([*SCORE, "--fee", "KALSHI=much"], "good.csv", 2, "--fee"),
    ([*SCORE, "--fee", "KALSHI=2"], "good.csv", 2, "--fee"),
    ([*SCORE, "--spread", "3"], "good.csv", 2, "--spread"),
    ([*SCORE, "--kelly", "-1"], "good.csv", 2, "--kelly"),
    ([*SCORE, "--cap", "2"], "good.csv", 2, "--cap"),
    (["score", "{f}", "--archive", "{sim}", "--draws", "5"], "good.csv", 2, "--draws must lie between"),
    (["score", "{f}", "--archive", "{sim}", "--placebo", "-1"], "good.csv", 2, "--placebo must lie"),
    ([*SCORE, "--seed", "x"], "good.csv", 2, "seed"),
    ([*SCORE, "--run-id", "../x"], "good.csv", 2, "plain path segment"),
    ([*SCORE, "--run-id", "latest"], "good.csv", 2, "latest"),
    ([*SCORE, "--run-id", "kept"], "good.csv", 2, "exists already"),
    (["score", "{f}", "--archive", "{home}/nowhere"], "good.csv", 1, "there is no archive"),
    (SCORE, "pipe", 2, "is a pipe or a device"),
    (SCORE, "../../../../../../../dev/zero", 2, "is a pipe or a device"),
    (SCORE, "x" * 300, 2, "cannot be read.*too long"),
    (SCORE, "loop", 2, "cannot be read.*symbolic links"),
    (SCORE, "wide.csv", 2, "40,000 columns"),
    (SCORE, "longline.jsonl", 2, ":1.*the line has more than 50 MB"),
    (["world", "import", "market-data", "{f}"], "pipe", 2, "is a pipe or a device"),
    (["world", "import", "prices", "{f}", "--archive", "{home}/new"], "p_long.csv", 2, "^.{0,900}$"),
    # Importers.
    *[(importing("markets"), name, 2, word) for name, word in (
        ("missing", "does not exist"), ("empty", "is empty"), ("list.json", "jq"), ("broken.jsonl", ":1"),
        ("number.jsonl", ":1.*object"), ("deep.jsonl", ":1"), ("lfs.jsonl", "LFS"), ("cut.gz", "gz"),
        ("utf16.csv", ":1|UTF"), ("m_nohistory", ":1.*history"), ("m_null", ":1.*history"),
        ("m_short", "history, row 1"), ("m_text", "row 1.*number"), ("m_high", ":1.*price"),
        ("m_day", ":1.*soon"), ("m_rounds", ":1.*rounds"), ("m_round", ":1.*rounds"), ("m_end", ":1.*resolution"),
        ("m_outcome", "outcome 'YES'"), ("m_two", ":1.*payout"), ("m_first", "first_published None"),
        ("m_year", ":1"), ("m_id", ":1"), ("m_nul", ":1"), ("m_source", ":1"), ("m_noquestion", ":1.*question"),
    )],
    *[(importing("documents"), name, 2, word) for name, word in (
        ("d_notime", ":1.*needs a time"), ("d_noid", ":1.*id"), ("d_time", ":2"), ("d_text", ":1.*title"),
        ("broken.jsonl", ":1"), ("empty", "is empty"),
    )],
    *[(importing("prices"), name, 2, word) for name, word in (
        ("p_cols.csv", "time"), ("p_price.csv", ":2.*price"), ("p_known.csv", ":2.*known_at"),
        ("p_book.csv", ":2.*bid"), ("p_zone.csv", ":2.*zone"), ("p_nan.csv", ":2"), ("empty", "empty|columns"),
    )],
    *[(importing("forecastbench"), name, 2, word) for name, word in (
        ("set.json", "forecast_due_date"), ("noset.json", "neither a question set"), ("broken.jsonl", "JSON"),
        ("set_source.json", "unknown source"), ("deep.jsonl", "."),
    )],
    *[(importing("predictions"), name, 2, word) for name, word in (
        ("s_high.jsonl", ":1.*probability"), ("s_zone.jsonl", ":1.*zone|--assume-utc"), ("r_half.jsonl", ":1.*outcome"),
    )],
    (importing("tarot"), "good.csv", 2, "."),
    ([*importing("polymarket"), "--fetched-at", "soon"], "list.json", 2, "fetched-at"),
    # The benchmark's files.
    (bench(events="missing"), "", 2, "missing.*does not exist"),
    (bench(events="e_noid.jsonl"), "", 2, ":1.*id"),
    (bench(events="empty"), "", 2, "."),
    (bench(predictions="s_high.jsonl"), "", 2, ":1.*probability"),
    (bench(predictions="s_zone.jsonl"), "", 2, "--assume-utc|zone"),
    (bench(predictions="s_other.jsonl"), "", 2, "."),
    (bench(predictions="broken.jsonl"), "", 2, ":1"),
    (bench(resolutions="r_two.jsonl"), "", 2, ":2: a second, different outcome"),
    (bench(resolutions="r_half.jsonl"), "", 2, ":1.*outcome"),
    (bench(resolutions="list.json"), "", 2, "."),
    (["bench", "evaluate", "--bets", "{f}"], "bets.json", 2, "entry_price"),
    (["bench", "evaluate", "--bets", "{f}"], "bets_none.json", 2, "."),
    (["bench", "evaluate", "--bets", "{f}"], "c_text.json", 2, "."),
    (["bench", "evaluate", "--bets", "{f}", "--order", "time"], "bets_order.json", 2, "resolved_ts"),
    (["bench", "evaluate", "--bets", "{f}", "--stake", "all"], "bets_order.json", 2, "flat:AMOUNT"),
    (["bench", "evaluate", "--bets", "{f}", "--fee", "some"], "bets_order.json", 2, "rate:R"),
    (["bench", "evaluate", "--bets", "{f}", "--events", "{f}"], "bets_order.json", 2, "excludes"),
    (["bench", "forecastbench", "--questions", "{f}", "--resolutions", "{f}"], "noset.json", 2, "."),
    (["bench", "published", "{f}"], "noset.json", 2, "."),
    (["bench", "published", "{f}"], "kalshibench.json", 2, "'NaN' is not a number"),
    (["bench", "published", "/dev/full"], "", 2, "is a pipe or a device"),
    (["bench", "forecastbench", "--questions", "{home}/q.json", "--resolutions", "{f}"], "a_date.json", 2, r"a_date\.json: resolution 1"),
    (["bench", "forecastbench", "--questions", "{f}", "--resolutions", "{home}/a.json"], "q_id.json", 2, r"q_id\.json: question 1"),
    (["bench", "forecastbench", "--questions", "{home}/q.json", "--resolutions", "{home}/a.json", "--forecasts", "{f}"], "f_source.json", 2, r"f_source\.json: forecast 1"),
    (["bench", "evaluate", "--bets", "{f}"], "bets_tiny.json", 2, "between 1e-06 and"),
    (["world", "verify", "--archive", "{home}/broken"], "", 1, "not a beforehand-archive"),
    (["world", "list", "--archive", "{home}/broken"], "", 1, "not a beforehand-archive"),
    (["bench", "ingest", "--archive", "{sim}", "--horizon", "-7d"], "", 2, "."),
    (["bench", "predict", "--archive", "{sim}", "--forecaster", "nobody"], "", 2, "."),
    # Backtests.
    *[(FROM, name, 2, word) for name, word in (
        ("missing", "does not exist"), ("empty", "."), ("c_list.json", "."), ("c_text.json", "."),
        ("c_model.json", "nobody"), ("c_nomodel.json", "models"), ("c_market.json", "SIMEX:none"),
        ("c_order.json", "end|after"), ("c_zone.json", "zone"), ("c_zero.json", "interval_minutes"),
        ("c_sims.json", "num_sims"), ("c_mode.json", "mode"), ("c_extra.json", "'num_sims' meant"),
    )],
    ([*TEST, "--forecasters", "nobody"], "", 2, "nobody"),
    ([*TEST, "--forecasters", ""], "", 2, "."),
    ([*TEST, "--forecasters", "python:{home}/f.py"], "", 2, "f.py"),
    ([*TEST, "--forecasters", "python:{home}/f.py:g"], "", 2, "'g'|g"),
    ([*TEST, "--forecasters", "python:{home}/none.py:f"], "", 2, "none.py"),
    ([*TEST, "--forecasters", "python:{home}/syntax.py:f"], "", 2, "syntax.py"),
    ([*TEST, "--forecasters", "http://127.0.0.1:9/x"], "", 1, "127.0.0.1:9"),
    ([*TEST, "--forecasters", "ftp://x/y"], "", 2, "ftp"),
    ([*TEST, "--forecasters", "recorded:none"], "", 2, "none"),
    ([*TEST, "--markets", "none"], "", 2, "none"),
    ([*TEST, "--grid", "round"], "", 2, "aligned"),
    ([*TEST, "--start", "soon"], "", 2, "--start"),
    ([*TEST, "--start", "2099-01-01"], "", 2, "."),
    ([*TEST, "--try", "99"], "", 2, "."),
    ([*TEST, "--max-calls", "-1"], "", 2, "--max-calls"),
    ([*TEST, "--max-cost", "nan"], "", 2, "max-cost"),
    ([*TEST, "--rate", "fast"], "", 2, "10/s"),
    ([*TEST, "--timeout", "0"], "", 2, "--timeout"),
    ([*TEST, "--concurrency", "0"], "", 2, "--concurrency"),
    (["backtest", "ab", "{f}", "--archive", "{sim}"], "c_good.json", 2, "."),
    (["backtest", "probe", "nobody", "--archive", "{sim}"], "", 2, "nobody"),
    # Runs.
    *[(["runs", verb, "none"], "", 2, "no run 'none'") for verb in (
        "show", "verify", "leaks", "costs", "resume", "cancel", "watch", "calibration", "export",
    )],
    (["runs", "diff", "kept", "none"], "", 2, "no run 'none'"),
    (["runs", "compare", "kept:market", "kept:nobody"], "", 2, "nobody"),
    (["runs", "export", "kept", "--format", "papyrus"], "", 2, "latex"),
    (["runs", "fork", "kept", "--at", "soon", "--model", "a=b"], "", 2, "."),
    (["runs", "resume", "kept"], "", 2, "finished"),
    (["runs", "rm", "none"], "", 2, "no run 'none'"),
    (["runs", "restore", "none"], "", 2, "none"),
    (["runs", "trace", "kept", "SIMEX:none"], "", 2, "."),
    (["runs", "show", "a/b"], "", 2, "plain path segment"),
    # The rest.
    (["world", "verify", "--archive", "{home}"], "", 1, "there is no archive"),
    (["world", "simulate", "--dates", "0"], "", 2, "--dates must lie between"),
    (["world", "list", "--archive", "{sim}", "--limit", "0"], "", 2, "."),
    (["world", "prune", "--archive", "{sim}", "--import", "none"], "", 2, "."),
    (["world", "record", "--every", "never"], "", 2, "."),
    (["tool", "nothing"], "", 2, "nothing"),
    (["tool", "get_market", "--archive", "{sim}"], "", 2, "id"),
    (["tool", "get_market", "--archive", "{sim}", "--arg", "id=none"], "", 2, "none"),
    (["tool", "get_market", "--archive", "{sim}", "--arg", "id"], "", 2, "name=value"),
    (["tool", "list_markets", "--archive", "{sim}", "--as-of", "soon"], "", 2, "soon|as-of"),
    (["agent", "nobody", "--archive", "{sim}"], "", 2, "nobody"),
    (["ask", "", "--archive", "{sim}"], "", 2, "."),
    (["ask", "Will it?", "--archive", "{sim}", "--as-of", "soon"], "", 2, "as-of"),
    (["scout", "run", "{f}", "--archive", "{sim}"], "plan.json", 2, "."),
    (["scout", "run", "{f}", "--archive", "{sim}"], "noplan.json", 2, "."),
    (["bus", "show", "nobody"], "", 2, "nobody"),
    (["run-code", "{f}"], "missing.py", 2, "no such file"),
    (["run-code", "{f}"], "raise.py", 1, "division by zero|ZeroDivisionError"),
    (["run-code", "{f}"], "syntax.py", 1, "line 1|SyntaxError"),
    (["run-code", "{f}"], "import.py", 1, "socket"),
    (["run-code", "{f}", "--timeout", "0.5"], "loop.py", 1, "0.5|time"),
    (["run-code", "{f}", "--timeout", "99"], "raise.py", 2, "timeout must lie"),
    (["run-code", "{f}", "--input", "[1]"], "raise.py", 2, "object"),
    (["token", "issue", "--user", "a", "--scopes", "all"], "", 2, "read"),
    (["token", "revoke", "none"], "", 2, "none"),
    (["serve", "--port", "70000"], "", 2, "65535"),
    (["mcp", "nobody"], "", 2, "nobody"),
    (["new-plugin", "a b", "--into", "{home}"], "", 2, "."),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, sim: Path) -> Path:
    """A home with the files and one scored run."""
    folder = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    (folder / "loop").symlink_to("loop")
    broken = folder / "broken"
    broken.mkdir()
    manifest = json.loads((sim / "archive.json").read_text())
    manifest["segments"][0]["records"] = None
    manifest["seal"] = seal_of(manifest)
    (broken / "archive.json").write_text(json.dumps(manifest))
    command = ["score", str(folder / "good.csv"), "--archive", str(sim), "--draws", "100"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEFOREHAND_HOME", str(folder))
        assert cli([*command, "--placebo", "0", "--run-id", "kept"]) == 0
    return folder


@pytest.fixture(autouse=True)
def kept(place: Path, home: Path, capsys: Out) -> None:
    for one in place.iterdir():
        if one.is_dir():
            copy(one, home / one.name)
        else:
            (home / one.name).symlink_to(one)
    os.mkfifo(home / "pipe")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("command", "file", "code", "says"),
    CASES,
    ids=[
        f"{n:03} {' '.join(one[0][:2])} {one[1]}".replace("/", "-") for n, one in enumerate(CASES)
    ],
)
def test_a_bad_input(
    command: list[str],
    file: str,
    code: int,
    says: str,
    home: Path,
    sim: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home)
    put = {"{f}": str(home / file), "{sim}": str(sim), "{home}": str(home)}
    arguments = []
    for part in command:
        for mark, text in put.items():
            part = part.replace(mark, text)
        arguments.append(part)
    found = cli(arguments)
    said = capsys.readouterr()
    err = re.sub(r"[\s│╭╮╰╯─]+", " ", said.err)
    assert "Traceback" not in said.err + said.out
    assert found == code, err
    assert re.search(says, err, re.DOTALL), err
    runs = sorted(p.name for p in (home / "data" / "runs").iterdir() if p.is_dir())
    assert "kept" in runs, "nothing is lost"
    assert found == 3 or runs == ["kept"], "what was refused leaves no run"


def test_there_are_a_hundred_and_fifty() -> None:
    assert len(CASES) >= 150
    assert len({one[0][0] for one in CASES}) >= 14


BROKEN = {"source": "polymarket", "id": "0x1", "question": "Q?"}


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 GB of zeros in 2 MB."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=9) as out:
        for _ in range(200):
            out.write(b"0" * 10**7)
    return path


BOMBED = [
    ["world", "import", "markets"],
    ["score"],
    ["world", "import", "documents"],
    ["world", "import", "prices"],
    ["world", "import", "polymarket"],
    ["world", "import", "forecastbench"],
    ["bench", "published"],
]


@pytest.mark.parametrize("command", some("commands that are given a bomb", BOMBED[:2], BOMBED))
def test_a_bomb_ends_in_a_sentence(
    bomb: Path, sim: Path, tmp_path: Path, command: list[str]
) -> None:
    """Exit 2, one sentence, and less than 600 MB although 2 GB are packed in it."""
    measured = (
        "import sys\nfrom beforehand.cli.app import run\n"
        "code = run(sys.argv[1:])\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith('VmHWM'):\n"
        "        print(line.split()[1])\n"
        "sys.exit(code)"
    )
    archive = sim if command[0] == "score" else tmp_path / "a"
    where = [] if command[0] == "bench" else ["--archive", str(archive)]
    done = run_program(
        [sys.executable, "-c", measured, *command, str(bomb), *where],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "BEFOREHAND_HOME": str(tmp_path)},
    )
    assert done.returncode == 2, done.stderr
    assert "BEFOREHAND_MAX_UNPACKED_MB" in done.stderr
    assert "Traceback" not in done.stderr
    assert int(done.stdout.split()[-1]) < 600_000


def test_the_bound_is_a_setting(
    bomb: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = tmp_path / "small.gz"
    small.write_bytes(gzip.compress(b"x" * 3_000_000))
    assert len(files.read_bytes(small)) == 3_000_000
    monkeypatch.setenv("BEFOREHAND_MAX_UNPACKED_MB", "2")
    with pytest.raises(InputError, match="unpacks to more than 3 MB"):
        files.read_bytes(small)
    plain = tmp_path / "plain"
    plain.write_bytes(b"x" * 3_000_000)
    with pytest.raises(InputError, match="at most 2 are read"):
        files.read_bytes(plain)
    monkeypatch.setenv("BEFOREHAND_MAX_UNPACKED_MB", "many")
    with pytest.raises(InputError, match="must be a whole number"):
        files.read_bytes(small)


def test_members_padding_and_damage(tmp_path: Path) -> None:
    one = gzip.compress(b"a" * 100_000) + gzip.compress(b"b")
    assert files.unpack(one + b"\0" * 7, "x") == b"a" * 100_000 + b"b"
    for cut in (one[:-3], one[:40], b"\x1f\x8b" + b"x" * 20, b"\x1f\x8b"):
        with pytest.raises(InputError, match="damaged gzip"):
            files.unpack(cut, "x")


@pytest.mark.parametrize("flags", [2, 4, 8, 16, 2 + 8, 4 + 8, 4 + 16, 2 + 4 + 8 + 16])
def test_a_header_may_lie_across_two_steps(flags: int) -> None:
    """At any of its bytes: a checksum, extra bytes, a name, a comment (RFC 1952, 2.3)."""
    extra, text = b"\x03\x00abc" * bool(flags & 4), b"name\0" * bool(flags & 8)
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\x03" + extra + text
    head += b"why\0" * bool(flags & 16)
    if flags & 2:
        head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    second = head + gzip.compress(b"b", mtime=0)[10:]
    assert gzip.decompress(second) == b"b"
    noise = random.Random(1).randbytes(files._STEP)
    for cut in range(len(head) + 1):
        for size in range(files._STEP - 200, files._STEP):
            first = gzip.compress(noise[:size], 0)
            if len(first) == files._STEP - cut:
                assert files.unpack(first + second, "x") == noise[:size] + b"b"
                break
        else:
            raise AssertionError("no first member of this size")


PIECES = [b"a", b"xyz", b"\n", b"\r", b"\r\n", b" ", b"\xef\xbb\xbf", b"\x0b", b"\x85"]


@pytest.mark.parametrize("part", [1, 2, 3, 2**20])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14), packed=st.booleans())
def test_lines_are_the_same_in_parts_of_any_size(
    part: int, tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], packed: bool
) -> None:
    content, path = b"".join(pieces), tmp_path_factory.getbasetemp() / f"parts-{part}"
    path.write_bytes(gzip.compress(content[:3]) + gzip.compress(content[3:]) if packed else content)
    whole = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_STEP", max(part, 2))
        patch.setattr(files, "_PART", part)
        found = list(files.read_lines(path))
    assert found == [(n, line) for n, line in enumerate(whole, start=1) if line.strip()]


def test_a_parquet_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    path = tmp_path / "q.parquet"
    duckdb.sql(
        f"COPY (SELECT 'S' AS symbol, repeat('x', 1000) AS note FROM range(40000)) TO '{path}'"
    )
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    monkeypatch.setenv("BEFOREHAND_MAX_UNPACKED_MB", "1")
    size = duckdb.sql(f"SELECT sum(total_uncompressed_size) FROM parquet_metadata('{path}')")
    stated = int(size.fetchall()[0][0])
    code = cli(["world", "import", "market-data", str(path)])
    assert code == 2
    assert ("unpacked" in capsys.readouterr().err) == (stated > 10**6)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        ("{}".encode("utf-16"), "is UTF-16: save it as UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"),
        (b'[{"id": "a"},\n{"id": "b"}]', "is one JSON document"),
        (b'{"id": "a",\n "source": "b"}', "is one JSON document"),
        (b"[" * 100_000, ":1:"),
    ],
)
def test_what_is_no_jsonl(tmp_path: Path, capsys: Out, content: bytes, said: str) -> None:
    path = tmp_path / "markets.jsonl"
    path.write_bytes(content)
    for importer in ("markets", "documents", "predictions"):
        assert cli(["world", "import", importer, str(path), "--archive", str(tmp_path / "a")]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"history": None}, "history is not a list"),
        ({"history": [["2025-01-01", 0.5]]}, "history, row 1: it is not [day, price, published"),
        ({"history": [["2025-01-01", "0.5", 1.7e9]]}, "history, row 1: '0.5' is not a number"),
        ({"history": [[20250101, 0.5, 1.7e9]]}, "history, row 1: the day 20250101 is not text"),
        ({"history": [["2025-01-01", 1.5, 1.7e9]]}, "is not from 0 to 1"),
        ({"history": [["9999-12-31", 0.5, 1.7e9]]}, "9999"),
        ({"history": [], "id": "a\0b"}, "cannot be printed"),
        ({"history": [], "rounds": ["9999-01-01"]}, "9999"),
    ],
)
def test_a_bad_market_history(tmp_path: Path, capsys: Out, changes: object, said: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({**BROKEN, **changes}))  # type: ignore[dict-item]
    archive = str(tmp_path / "a")
    assert cli(["world", "import", "markets", str(path), "--archive", archive]) == 2
    err = capsys.readouterr().err
    assert f"{path}:1: " in err
    assert said in err
    good = {**BROKEN, "history": [["2025-01-01", 0.5, 1.736e9]]}
    path.write_text(json.dumps({**BROKEN, **changes}) + "\n" + json.dumps(good))  # type: ignore[dict-item]
    assert cli(["world", "import", "markets", str(path), "--archive", archive, "--skip-bad"]) == 3
    assert Archive(tmp_path / "a").counts()["price"] == 1


def test_a_negative_horizon(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('{"id": "e", "question": "Q?", "forecast_horizon_days": -3}\n')
    command = ["bench", "evaluate", "--events", str(path), "--predictions", str(path)]
    assert cli([*command, "--resolutions", str(path)]) == 2
    assert "e.jsonl:1: forecast_horizon_days" in capsys.readouterr().err
