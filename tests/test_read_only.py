"""What reads needs no right to write: a finished run on a volume that is mounted read-only."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.errors import Unavailable
from beforehand.store.database import Database
from experiments import QUICK

READS = [
    ["world", "verify"],
    ["runs", "trials"],
    ["runs", "list"],
    ["token", "list"],
    ["bus", "list"],
    ["tool", "list_markets"],
    ["runs", "show", "done"],
    ["runs", "verify", "done"],
    ["runs", "leaks", "done"],
    ["runs", "export", "done", "--format", "markdown"],
]
WRITES = [
    ["backtest", "run", "--forecasters", "market", *QUICK],
    ["world", "simulate", "--seed", "9"],
]
TESTS = os.pathsep.join(str(Path(__file__).parent / one) for one in (".", "api", "servers"))
CODE = """
import json, sys
from beforehand.cli.app import run
codes = {" ".join(c): run(c) for c in json.loads(sys.argv[1])}
from pathlib import Path
from apiserver import api
started = {"forecasters": ["market"], "every": "56d"}
with api(Path(sys.argv[2])) as served:
    for path in ("workspace", "tokens", "runs", "runs/done/leaderboard", "runs/done/verify"):
        codes[path] = served.get(f"/api/{path}").status_code
    answer = served.post("/api/backtests", started)
    codes["start"] = [answer.status_code, answer.json()["detail"]]
print(json.dumps(codes), file=sys.stderr)
"""


def test_a_finished_run_is_read_where_nobody_may_write(
    sim: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:  # fmt: skip
        pytest.skip("a mount of our own is not allowed here")
    shutil.copytree(sim, home / "data" / "archive")
    assert (
        cli(["backtest", "run", "--forecasters", "market,drift", *QUICK, "--run-id", "done"]) == 0
    )
    capsys.readouterr()
    place = tmp_path / "elsewhere"
    place.mkdir()
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, str(home), sys.executable, "-c", CODE, json.dumps([*READS, *WRITES]), str(home)],
        capture_output=True, text=True, cwd=place, check=False, env={**os.environ, "PYTHONPATH": TESTS},
    )  # fmt: skip
    codes = json.loads(done.stderr.splitlines()[-1])
    assert [codes[" ".join(one)] for one in READS] == [0] * len(READS), done.stderr
    assert all(codes[" ".join(one)] != 0 for one in WRITES)
    assert {
        code for name, code in codes.items() if "/" in name or name in ("workspace", "tokens")
    } == {200}
    assert codes["start"] == [
        503,
        "the server cannot use its home folder: Read-only file system",
    ]
    assert "Traceback" not in done.stderr
    assert (place / "done.md").is_file(), "an export goes where one stands"


def test_changes_that_cannot_be_read_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log beside the file holds what was written last: without it the past would be shown."""
    path = tmp_path / "x.db"
    made = Database(path)
    made.create("CREATE TABLE IF NOT EXISTS t (x TEXT)")
    with made.write() as tx:
        tx.run("INSERT INTO t VALUES ('a')")
    monkeypatch.setattr("beforehand.store.database.os.access", lambda *_: False)
    assert path.with_name("x.db-wal").stat().st_size
    with pytest.raises(Unavailable, match="copy the folder"), Database(path).read() as tx:
        tx.run("SELECT x FROM t")
    made.close()  # It writes the log into the file.
    with Database(path).read() as tx:
        assert tx.run("SELECT x FROM t") == [("a",)]


def test_where_nobody_may_write_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading finds empty tables and makes no file; writing is refused in a sentence."""
    monkeypatch.setattr("beforehand.store.database.os.access", lambda *_: False)
    path = tmp_path / "none" / "x.db"
    made = Database(path)
    made.create("CREATE TABLE IF NOT EXISTS t (x TEXT)")
    made.create("CREATE TABLE IF NOT EXISTS u (x TEXT)")
    with made.read() as tx:
        assert tx.run("SELECT x FROM t") == tx.run("SELECT x FROM u") == []
    assert made.tables() == {"t", "u"}
    with pytest.raises(Unavailable, match="cannot be opened for writing"), made.write():
        pass
    with pytest.raises(Unavailable, match="cannot be opened for writing"):
        made.together("t", lambda tx: tx.run("INSERT INTO t VALUES ('a')"))
    made.close()
    assert not path.parent.exists()
