"""Drivers and workers as processes, for the tests over several of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from provider import Provider

from program import Program


def program(*arguments: str, home: Path, url: str | None) -> subprocess.Popen[bytes]:
    env = {k: v for k, v in os.environ.items() if k != "BEFOREHAND_DATABASE_URL"}
    env["BEFOREHAND_HOME"] = str(home)
    if url:
        env["BEFOREHAND_DATABASE_URL"] = url
    return Program(
        [sys.executable, "-m", "beforehand", *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def backtest(archive: Path, provider: Provider, *more: str) -> list[str]:
    return [
        *("backtest", "run", "--archive", str(archive), "--run-id", "r"),
        *("--forecasters", f"market,{provider.address()}", "--sims", "2"),
        *(
            "--draws",
            "100",
            "--placebo",
            "0",
            *(more if "--every" in more else ("--every", "14d", *more)),
        ),
    ]


@contextmanager
def workers(n: int, home: Path, url: str, *more: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many workers, at work; ended cleanly at the end. One that ended by itself is told."""
    command = ("worker", "--concurrency", "4", *more)
    started = [program(*command, home=home, url=url) for _ in range(n)]
    for process in started:
        assert process.stderr is not None
        assert any(line.startswith(b"worker") for line in process.stderr)
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            assert process.returncode in (0, -signal.SIGKILL), err.decode()


def asked(url: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as db:
        return db.execute(sql).fetchall()  # type: ignore[arg-type]


def done(url: str) -> int:
    try:
        return int(str(asked(url, "SELECT count(*) FROM calls WHERE state = 'done'")[0][0]))
    except psycopg.errors.UndefinedTable:
        return 0


def owners(url: str) -> int:
    """How many processes have had a share of the calls."""
    try:
        return int(str(asked(url, "SELECT count(DISTINCT owner) FROM calls")[0][0]))
    except psycopg.errors.UndefinedTable:
        return 0


def events(url: str, known: list[int]) -> list[int]:
    """The numbers of the events of run r after the last that is known."""
    sql = "SELECT number FROM events WHERE run_id = 'r' AND number > {} ORDER BY 1"
    try:
        return [int(str(row[0])) for row in asked(url, sql.format(known[-1] if known else 0))]
    except psycopg.errors.UndefinedTable:
        return []


def at_work(url: str, crew: list[subprocess.Popen[bytes]]) -> list[subprocess.Popen[bytes]]:
    """The workers that have a call in flight, and had answers before."""
    try:
        found = asked(
            url,
            "SELECT pid FROM workers JOIN calls ON worker_id = owner "
            "GROUP BY pid HAVING count(*) FILTER (WHERE state = 'sent') > 0 "
            "AND count(*) FILTER (WHERE state = 'done') > 0",
        )
    except psycopg.errors.UndefinedTable:
        return []
    return [process for process in crew if (process.pid,) in found]


def files(home: Path) -> dict[str, bytes]:
    folder = home / "data" / "runs" / "r"
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "log.json"}
