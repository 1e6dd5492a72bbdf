"""What waits to be archived: nothing lost to short writes, races, damage, kill -9, other archives."""

import os
import re
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

from beforehand.errors import Unavailable
from beforehand.records.world import Exchange, Observation
from beforehand.sources.base import Request
from beforehand.store.archive import writer as spool_module
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import Spool
from program import Program, run_program
from vendor import Vendor, serving

AT = datetime(2026, 1, 1, tzinfo=UTC)


def exchange(n: int, body: str = "{}") -> Exchange:
    return Request("exa", "search", f"/search/{n}").exchange("http://x", body + " " * n, AT)


def row(n: int) -> Observation:
    return Observation(source="s", kind="k", subject="x", id=str(n), data={}, known_at=AT)


def test_what_was_kept_is_archived_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", tmp_path / "a")
    for n in range(3):
        spool.keep(exchange(n), [])
        spool.keep(exchange(n), [row(n)])
    assert spool.size > 0
    assert spool.flush(AT) == 3
    assert (spool.flush(AT), list((tmp_path / "s").iterdir())) == (0, [])
    counts = Archive(tmp_path / "a").counts()
    assert (counts["exchange"], counts["observation"]) == (3, 3)
    spool.keep(exchange(3), [])
    assert spool.flush(AT) == 1


def test_a_full_disk_is_told_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "s", tmp_path / "a")
    spool.keep(exchange(1), [])
    real, left = os.write, [40]

    def short(fd: int, data: bytes) -> int:
        """Takes a few bytes at a time, then the disk is full."""
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        n = real(fd, data[:10])
        left[0] -= n
        return n

    monkeypatch.setattr(spool_module.os, "write", short)
    with pytest.raises(Unavailable, match="No space left"):
        spool.keep(exchange(2), [])
    monkeypatch.setattr(spool_module.os, "write", lambda fd, data: real(fd, data[:7]))
    spool.keep(exchange(3), [])
    monkeypatch.undo()
    assert spool.flush(AT) == 2
    bodies = {e.url + e.body for e in Archive(tmp_path / "a").records(Exchange)}
    assert len(bodies) == 2


def test_another_process_never_takes_a_live_file(tmp_path: Path) -> None:
    mine, other = (Spool(tmp_path / "s", tmp_path / name) for name in ("a", "b"))
    mine.keep(exchange(1), [])
    assert other.flush(AT) == 0
    mine.keep(exchange(2), [])
    assert mine.flush(AT) == 2
    assert not (tmp_path / "b").exists()


def test_a_leftover_goes_to_its_own_archive_and_damage_is_set_aside(tmp_path: Path) -> None:
    gone = Spool(tmp_path / "s", tmp_path / "a")
    gone.keep(exchange(1), [row(1)])
    path = gone._path
    assert gone._file is not None
    gone._file.close()
    with path.open("ab") as torn:
        torn.write(b'{"a": 1}\n123\n{"exchange": {"x": 1}, "records": []}\n{"exchange": {"pro')
    other = Spool(tmp_path / "s", tmp_path / "b")
    other.keep(exchange(2), [])
    assert other.flush(AT) == 2
    assert len(Archive(tmp_path / "a").records(Exchange)) == 1
    assert len(Archive(tmp_path / "b").records(Exchange)) == 1
    (aside,) = (tmp_path / "s").glob("*.damaged")
    assert len(aside.read_bytes().splitlines()) == 3


def test_threads_lose_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", tmp_path / "a")

    def keep() -> None:
        for n in range(150):
            spool.keep(exchange(n), [])

    keeper = Thread(target=keep)
    keeper.start()
    while keeper.is_alive():
        spool.flush(AT)
    spool.flush(AT)
    assert len(Archive(tmp_path / "a").records(Exchange)) == 150


SCRIPT = """
import sys
from pathlib import Path
from threading import Thread
from beforehand.cli.app import run
sys.exit(run(["tool", "search", "--arg", "query=rain", "--mode", "record", "--archive", sys.argv[1]]))
"""


def test_kill_9_while_recording_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    """Killed at growing delays after the service answered. Whatever the killed process had shown
    is in the archive after one more run; what was on the wire when it died never arrived."""
    paid = 0

    def answer(_: object) -> object:
        nonlocal paid
        paid += 1
        return {"results": [{"url": f"https://example.org/{paid}"}]}

    vendor = Vendor()
    vendor.route("exa", "/search", answer)
    shown: set[bytes] = set()
    with serving(vendor):
        environment = {**os.environ, **vendor.environment, "BEFOREHAND_HOME": str(tmp_path)}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "a")]
        for delay in (0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.4):
            child = Program(command, env=environment, stdout=-1, stderr=-3)
            deadline, before = time.monotonic() + 30, paid
            while paid == before and child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
            shown |= set(re.findall(rb"https://example.org/\d+", child.communicate()[0]))
        assert run_program(command, env=environment, stdout=-3, check=False).returncode == 0
    kept = Archive(tmp_path / "a")
    assert not kept.verify()
    bodies = " ".join(e.body for e in kept.records(Exchange)).encode()
    assert shown <= set(re.findall(rb"https://example.org/\d+", bodies))
    assert paid == 9
    assert len(kept.records(Exchange)) >= 2
