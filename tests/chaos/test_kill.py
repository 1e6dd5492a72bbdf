"""kill -9 at random points, against an uninterrupted twin, with a provider that counts.

Three kills in the tests, twenty-four in `make chaos-kills`.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from provider import Provider, serving

from beforehand.config import Home
from program import Program
from proofs import count

ITEMS, CAP = 200, 8
PROGRAM = Path(__file__).with_name("small_job.py")


def launch(home: Path, provider: Provider, **env: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, PROGRAM, home, provider.address(), str(ITEMS), str(CAP)]
    return Program(
        [str(part) for part in command],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(home: Path, provider: Provider) -> None:
    process = launch(home, provider)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()


def rows(home: Path, sql: str) -> list[tuple[str, ...]]:
    if not Home(home).journal.is_file():
        return []
    with closing(sqlite3.connect(Home(home).journal, timeout=30)) as db:
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []


def calls(home: Path, state: str) -> set[str]:
    return {row[0] for row in rows(home, f"SELECT call_key FROM calls WHERE state = '{state}'")}


def outcome(home: Path) -> tuple[bytes, list[tuple[str, ...]]]:
    """The final file, and every output on record."""
    outputs = rows(home, "SELECT task_id, output_data FROM task_outputs ORDER BY task_id")
    return (home / "result.json").read_bytes(), outputs


def test_killed_runs_equal_their_twin(tmp_path: Path) -> None:
    runs, kills = count("runs killed three times each", 1, 8), 3
    killed = lost = wrong = repeated = restarted = 0
    with serving(Provider(latency=0.01, shaky=7)) as provider:
        twin = tmp_path / "twin"
        twin.mkdir()
        finish(twin, provider)
        expected = outcome(twin)
        assert len(expected[1]) == 3 * ITEMS + 1
        for number in range(runs):
            home, chance = tmp_path / f"run{number}", random.Random(number)
            home.mkdir()
            known, marks = set[str](), list[tuple[int, set[str], set[str]]]()
            for point in sorted(chance.sample(range(1, 2 * ITEMS - 20), kills)):
                process = launch(home, provider)
                while len(calls(home, "done")) < point and process.poll() is None:
                    time.sleep(chance.uniform(0.0, 0.01))
                process.send_signal(signal.SIGKILL)
                process.communicate()
                assert process.returncode == -signal.SIGKILL, "it was killed at work"
                killed += 1
                time.sleep(0.1)  # What the dead process had sent arrives.
                known, sent = calls(home, "done"), calls(home, "sent")
                assert len(sent) <= CAP
                marks.append((len(provider.log), known, sent))
            finish(home, provider)
            found = outcome(home)
            lost += len(expected[1]) - len(found[1])
            wrong += sum(a != b for a, b in zip(expected[1], found[1], strict=False))
            assert found == expected
            for mark, known, sent in marks:
                later = {asked.key for asked in provider.log[mark:]}
                repeated += len(later & known)
                restarted += len(later & sent)
    print(
        f"items {ITEMS} x 3 stages, kills {killed}: lost {lost}, wrong {wrong}, finished paid "
        f"calls repeated {repeated}, in flight restarted {restarted} (cap {CAP} a kill)"
    )
    assert killed == runs * kills
    assert (lost, wrong, repeated) == (0, 0, 0)
    assert restarted <= CAP * killed


def test_a_second_driver_is_told_so(tmp_path: Path) -> None:
    with serving(Provider(latency=0.02)) as provider:
        first = launch(tmp_path, provider)
        while not calls(tmp_path, "done") and first.poll() is None:
            time.sleep(0.02)
        second = launch(tmp_path, provider)
        second.communicate(timeout=60)
        assert second.returncode != 0
        _, err = first.communicate(timeout=120)
        assert first.returncode == 0, err.decode()
        assert max(provider.paid().values()) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_waits_for_what_is_paid(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with serving(Provider(latency=0.05)) as provider:
        process = launch(tmp_path, provider)
        while len(calls(tmp_path, "done")) < 20 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code, err.decode()
        assert calls(tmp_path, "sent") == set(), "nothing in flight was dropped"
        assert set(provider.paid()) == calls(tmp_path, "done")
        finish(tmp_path, provider)
        assert max(provider.paid().values()) == 1


def test_a_second_signal_leaves_at_once(tmp_path: Path) -> None:
    with serving(Provider(latency=0.01)) as provider:
        process = launch(tmp_path, provider)
        while len(calls(tmp_path, "done")) < 20 and process.poll() is None:
            time.sleep(0.01)
        provider.hang = True
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None, "the first one waits"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 130
        provider.hang = False
        known, mark = calls(tmp_path, "done"), len(provider.log)
        finish(tmp_path, provider)
        assert not {asked.key for asked in provider.log[mark:]} & known


def test_a_hanging_provider_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    with serving(Provider(latency=0.01)) as provider:
        process = launch(tmp_path, provider)
        while len(calls(tmp_path, "done")) < 30 and process.poll() is None:
            time.sleep(0.01)
        provider.hang = True
        threading.Timer(3.0, lambda: setattr(provider, "hang", False)).start()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        assert max(provider.paid().values()) == 1


def test_a_locked_journal_is_waited_for(tmp_path: Path) -> None:
    with serving(Provider(latency=0.01)) as provider:
        process = launch(tmp_path, provider)
        while len(calls(tmp_path, "done")) < 30 and process.poll() is None:
            time.sleep(0.01)
        with closing(sqlite3.connect(Home(tmp_path).journal, isolation_level=None)) as db:
            db.execute("PRAGMA busy_timeout=30000")
            db.execute("BEGIN IMMEDIATE")
            time.sleep(3)
            db.execute("COMMIT")
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        assert max(provider.paid().values()) == 1


@pytest.mark.chaos
def test_a_full_disk_is_said_and_resumed_from(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the full disk: SQLite's writes fail alike."""
    with serving(Provider(latency=0.0)) as provider:
        command = [sys.executable, PROGRAM, tmp_path, provider.address(), str(ITEMS), str(CAP)]
        small = ["bash", "-c", 'ulimit -f 400; trap "" XFSZ; exec "$@"', "--"]
        process = Program(
            [*small, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        _, err = process.communicate(timeout=120)
        assert process.returncode not in (0, -signal.SIGKILL), err.decode()
        known, mark = calls(tmp_path, "done"), len(provider.log)
        assert 0 < len(known) < 2 * ITEMS
        finish(tmp_path, provider)
        assert not {asked.key for asked in provider.log[mark:]} & known
