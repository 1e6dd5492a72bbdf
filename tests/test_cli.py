"""The command line as people meet it: sentences, exit codes, one JSON document, interrupts."""

import gzip
import hashlib
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.errors import EXIT_CODES, BeforehandError, Interrupted, Stopped, exit_code
from beforehand.world.simulate import DEMO_DATES
from experiments import QUICK
from program import Program, run_program
from proofs import some

Out = pytest.CaptureFixture[str]


def test_the_demo_in_json(capsys: Out, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.cli.demo.DEMO_DATES", 20)
    assert cli(["demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"run_id", "leaderboard", "leaks", "validity", "placebo", "report"} <= found.keys()
    assert found["leaks"]["admitted_after_t"] == 0
    assert Path(found["report"]).is_file()
    keys = {"forecaster", "n", "brier", "brier_ci", "skill_vs_market", "skill_ci"}
    assert all(keys <= row.keys() for row in found["leaderboard"])
    assert cli(["runs", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert [r["run_id"] for r in listed] == [found["run_id"]]
    assert cli(["runs", "show", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["leaderboard"] == found["leaderboard"]
    assert cli(["runs", "show", found["run_id"]]) == 0
    assert "placebo" not in (brief := capsys.readouterr().out)
    assert "--verbose" in brief
    assert cli(["runs", "show", found["run_id"], "--verbose"]) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("placebo", "leaks", "kept", "bets", "against forecaster"))


def test_every_command_has_help_and_json(capsys: Out) -> None:
    from beforehand.cli.app import COMMANDS, GROUPS, SUMMARIES, build

    for path in COMMANDS:
        assert cli([*path.split(), "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "--json" in text, path
        assert SUMMARIES[path].split()[0] in text
    for group in (
        ["world"],
        ["world", "import"],
        ["bench"],
        ["runs"],
        ["backtest"],
        ["bus"],
        ["scout"],
        ["token"],
        [],
    ):
        assert cli([*group, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.replace("│", " ").split())
        for path, summary in SUMMARIES.items():
            if path.split()[:-1] == group:
                assert summary in text, path
    assert set(GROUPS) == {"world", "import", "bench", "runs", "backtest", "bus", "token", "scout"}
    assert build().name == ("beforehand",)


def test_a_narrow_terminal_loses_columns_and_never_digits() -> None:
    from beforehand.cli.tables import leaderboard

    row = {
        "forecaster": "recorded:truth",
        "n": 5312,
        "missing": 0,
        "brier": 0.1147,
        "market_brier": 0.0045,
        "brier_ci": [0.103, 0.1271],
        "skill_vs_market": -0.1102,
        "skill_ci": [-0.1042, -0.1166],
        "evidence": {"mean": -0.1102, "ci": [-0.1, -0.12], "bounds": [-0.1042, -0.1166]},
        "ece": 0.019,
        "kelly": "no",
        "verdict": "worse than the market",
    }
    for width in (60, 80, 100, 140):
        console = Console(width=width, file=io.StringIO())
        console.print(leaderboard({"leaderboard": [row]}, width))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert "…" not in text, width
        for part in ("recorded:truth", "0.1147", "[-0.1042, -0.1166]", "worse than the market"):
            assert part in text, (width, part)


def test_the_examples_of_the_docs_run(
    home: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CSV of the README and the experiment of the quickstart, over the demo's own world."""
    root = Path(__file__).resolve().parents[1]
    archive = str(home / "world")
    assert cli(["world", "simulate", "--dates", str(DEMO_DATES), "--archive", archive]) == 0
    csv = re.search(r"```csv\n(.*?)```", (root / "README.md").read_text(), re.S)
    experiment = re.search(r"```json\n(.*?)```", (root / "docs/quickstart.md").read_text(), re.S)
    assert csv
    assert experiment
    (home / "mine.csv").write_text(csv[1])
    (home / "experiment.json").write_text(experiment[1])
    assert cli(["score", str(home / "mine.csv"), "--archive", archive]) == 0
    assert "2 of 2 scored" in capsys.readouterr().out
    assert cli(["backtest", "run", str(home / "experiment.json"), "--archive", archive]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nope"], 2, ""),
        (["backtest", "run", "--every", "7x"], 2, "is not an interval"),
        (["backtest", "run", "--seed", "-1"], 2, "--seed must lie between"),
        (["backtest", "run", "--start", "2026-01-01T00:00:00"], 2, "no time zone"),
        (["backtest", "run", "--archive", "nowhere"], 1, "there is no archive"),
        (["backtest", "run", "missing.json"], 2, "does not exist"),
        (["runs", "show", "nothing"], 2, "no run 'nothing'"),
        (["runs", "show", "../x"], 2, "one plain path segment"),
        (["world", "simulate", "--dates", "0"], 2, "--dates must lie between"),
        (["world", "import", "markets"], 2, ""),
        (["world", "import", "markets", "missing.jsonl"], 2, "does not exist"),
        (["world", "import", "polymarket", "x.json", "--fetched-at", "soon"], 2, ""),
        (["world", "fetch", "something"], 2, "choose polymarket, kalshi, forecastbench"),
        (["bench", "evaluate"], 2, "name --events"),
        (["bench", "evaluate", "--bets", "x.json", "--stake", "all"], 2, "flat:AMOUNT"),
        (["score", "missing.csv"], 1, "there is no archive"),
    ],
)
def test_bad_usage_gets_a_sentence(
    arguments: list[str],
    code: int,
    says: str,
    capsys: Out,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home)
    (home / "x.json").write_text("[]")
    assert cli(arguments) == code
    out, err = capsys.readouterr()
    assert says in err
    assert "Traceback" not in err
    assert not out
    assert not (home / "data" / "runs").exists()


def test_experiments_from_a_file(sim: Path, tmp_path: Path, capsys: Out) -> None:
    config = tmp_path / "e.json"
    config.write_text(
        json.dumps(
            [
                {
                    "market_id": "x",
                    "start_time": "2026-01-01T00:00:00Z",
                    "end_time": "2026-01-02T00:00:00Z",
                    "interval_minutes": 0,
                    "models": ["baseline:market"],
                    "mode": "baseline",
                }
            ]
        )
    )
    assert cli(["backtest", "run", str(config), "--archive", str(sim)]) == 2
    assert "interval_minutes" in capsys.readouterr().err


def test_partial_imports_exit_3_and_keep_the_rejects(tmp_path: Path, capsys: Out) -> None:
    rows = tmp_path / "p.csv"
    rows.write_text("id,time,price\nA:x,2026-01-01T00:00:00Z,0.4\nA:x,2026-01-02T00:00:00Z,1.4\n")
    base = ["world", "import", "prices", str(rows), "--archive", str(tmp_path / "a")]
    assert cli(base) == 2
    assert not (tmp_path / "a" / "archive.json").exists()
    capsys.readouterr()
    assert cli([*base, "--skip-bad", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)["imports"][0]
    assert (report["new"], report["rejected"]) == ({"price": 1}, 1)
    kept = json.loads(Path(report["rejects_file"]).read_text())
    assert (kept["line"], kept["file"]) == (3, str(rows))
    assert cli(["world", "verify", "--archive", str(tmp_path / "a")]) == 0
    assert cli(["world", "info", "--archive", str(tmp_path / "a")]) == 0
    assert "0001-prices" in capsys.readouterr().out


def test_a_damaged_archive_fails_verification(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "a"
    assert cli(["world", "simulate", "--dates", "3", "--archive", str(path)]) == 0
    assert cli(["world", "simulate", "--dates", "3", "--archive", str(path)]) == 0
    assert "there already" in capsys.readouterr().out
    assert cli(["world", "simulate", "--dates", "4", "--archive", str(path)]) == 2
    segment = next((path / "segments").glob("price-*"))
    data = segment.read_bytes()
    segment.chmod(0o644)
    segment.write_bytes(data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
    capsys.readouterr()
    assert cli(["world", "verify", "--archive", str(path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["intact"] is False
    assert segment.name in found["problems"][0]
    assert cli(["backtest", "run", "--archive", str(path)]) == 1
    assert "do not match" in capsys.readouterr().err


def test_doctor(capsys: Out, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = {c["name"] for c in told["checks"]}
    assert {"python", "archive", "home", "recorded data", "tools"} <= names
    assert all(tool["label"] and tool["date"] for tool in told["tools"])
    assert cli(["doctor"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for check in told["checks"]:
        assert " ".join(check["detail"].split()[-3:]) in text, "what to do is never cut"
    monkeypatch.setenv("BEFOREHAND_HOME", str(home / "gone"))
    assert cli(["doctor"]) == 1


def test_exit_codes_cover_every_error() -> None:
    assert exit_code(KeyboardInterrupt()) == 130
    assert set(EXIT_CODES.values()) == {2, 3}
    assert exit_code(Interrupted("x", signal.SIGTERM)) == 143
    assert exit_code(Stopped("x")) == 3
    assert exit_code(BeforehandError("x")) == 1


SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130)]


@pytest.mark.parametrize(("number", "code"), some("signals to a run", SIGNALS[:1], SIGNALS))
def test_a_signal_ends_a_run_cleanly_and_it_resumes(
    sim: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    env = {**os.environ, "BEFOREHAND_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "beforehand", "backtest", "run", "--archive", str(sim)]
    command += [*QUICK, "--every", "7d"]
    process = Program(command, fresh=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    journal = Home(tmp_path).journal

    def finished() -> int:
        if not journal.is_file():
            return 0
        with suppress(sqlite3.Error), closing(sqlite3.connect(journal)) as db:
            return int(db.execute("SELECT count(*) FROM task_outputs").fetchone()[0])
        return 0

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not finished():
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in err
    assert b"runs resume" in err
    runs = tmp_path / "data" / "runs"
    assert not list(runs.glob("*/run.json"))
    done = run_program(
        [*command[:3], "runs", "list"], env=env, capture_output=True, text=True, check=True
    )
    assert "stopped" in done.stdout
    again = run_program(
        [*command[:3], "runs", "resume", "latest", "--json"], env=env, capture_output=True
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["leaderboard"]
    checked = run_program(
        [*command[:3], "runs", "verify", "latest"], env=env, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


SETS = {
    "/question_sets/2026-01-04-llm.json": b'{"forecast_due_date": "2026-01-04", "questions": []}',
    "/resolution_sets/2026-01-04_resolution_set.json": b'{"forecast_due_date": "2026-01-04", "resolutions": []}',
}


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, int]]]:
    """A real server on loopback that fails first, and lies on some paths."""
    asked: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] = asked.get(self.path, 0) + 1
            body = SETS.get(self.path.removeprefix("/flaky"), b"<html>")
            if self.path.startswith("/flaky") and asked[self.path] == 1:
                self.send_error(503)
            elif self.path.startswith("/down"):
                self.send_error(500)
            elif self.path.startswith("/short"):
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                self.wfile.write(b"{")
            elif body == b"<html>" and "gone" in self.path:
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", asked
        http.shutdown()
        thread.join()


def test_fetch_from_a_server(
    server: tuple[str, dict[str, int]], tmp_path: Path, capsys: Out
) -> None:
    base, asked = server
    command = ["world", "fetch", "forecastbench", "--due", "2026-01-04", "--out", str(tmp_path)]
    assert cli([*command, "--base-url", f"{base}/flaky", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [f["sha256"] for f in files] == [hashlib.sha256(b).hexdigest() for b in SETS.values()]
    assert sorted(asked.values()) == [2, 2]
    assert [Path(f["path"]).read_bytes() for f in files] == list(SETS.values())
    imported = [f["path"] for f in files]
    assert (
        cli(["world", "import", "forecastbench", *imported, "--archive", str(tmp_path / "a")]) == 0
    )
    wrong = ["--sha256", "0" * 64, "--sha256", "0" * 64]
    other = [*command[:-1], str(tmp_path / "other"), "--base-url", base]
    assert cli([*other, *wrong]) == 1
    assert "expected 0000" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert cli([*other, "--kind", "human"]) == 1
    assert "did not answer with JSON" in capsys.readouterr().err


def test_gzip_is_read_everywhere(sim: Path, tmp_path: Path, capsys: Out) -> None:
    from beforehand.gateway.gateway import Gateway
    from beforehand.gateway.worlds.recorded import RecordedWorld
    from beforehand.store.archive.reader import Archive

    record = next(
        r
        for r in Gateway(RecordedWorld(Archive(sim))).full_view().resolutions()
        if r.payout is not None
    )
    path = tmp_path / "mine.csv.gz"
    t = record.resolved_at.replace(hour=0).isoformat().replace("T00", "T00")
    path.write_bytes(
        gzip.compress(
            f"id,time,probability\n{record.market_id},2026-01-01,0.5\n"
            f"{record.market_id},{t[:10]}T00:00:00Z,0.5\n".encode()
        )
    )
    code = cli(["score", str(path), "--archive", str(sim), "--json"])
    err = capsys.readouterr().err
    assert code == 2
    assert "at or after the market's end" in err
