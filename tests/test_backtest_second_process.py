"""The second process of a large run: the same bytes, what it raises, and how it ends."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from beforehand.clock import SystemClock, to_us
from beforehand.errors import Corrupt, Unavailable
from beforehand.forecast import process
from beforehand.forecast.process import Helper
from beforehand.forecast.schemes.baselines import BASELINES
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest import backtest_job
from beforehand.jobs.backtest.large import bulk, joined
from beforehand.jobs.backtest.large.bulk import Bulk, Bulks, Rows
from beforehand.score.evaluate import Settings, evaluate
from beforehand.score.placebo import Placebo, placebo
from beforehand.score.skill import Options
from beforehand.score.slices import slices
from beforehand.score.table import Table
from beforehand.score.validity import SetFacts
from beforehand.store.archive.reader import Archive
from beforehand.world.simulate import SimConfig
from columned import made, walked
from tables import on_disk, table

PURE = ("market", "always:0.5", "base_rate", "drift", "extremised")
SOON_S = 20.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> RecordedWorld:
    """A simulated world without documents."""
    return RecordedWorld(Archive(made(tmp_path_factory.mktemp("world") / "archive", False, 5)))


def bulk_of(world: RecordedWorld) -> Bulk:
    return Bulk(world, SystemClock(), "mean", {name: BASELINES[name] for name in PURE})


def asked(world: RecordedWorld) -> Rows:
    """Every market once a month."""
    names = sorted(world.archive.first_known())
    start = to_us(datetime(2025, 1, 1, tzinfo=UTC))
    t = start + np.arange(12, dtype=np.int64) * 30 * 86_400_000_000
    of = [k for k in range(len(names)) for _ in t]
    return Rows([(name, t) for name in names], of, PURE)


def soon(done: Callable[[], bool]) -> bool:
    """Whether it happens within some seconds."""
    until = time.monotonic() + SOON_S
    while not done() and time.monotonic() < until:
        time.sleep(0.02)
    return done()


def running(pid: int) -> bool:
    """Whether there is such a process, that is more than an exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_both_processes_make_the_same_bytes(world: RecordedWorld) -> None:
    rows, here = asked(world), bulk_of(world)
    helper = Helper(bulk.__name__, pickle.dumps(here))
    try:
        assert soon(lambda: helper.ready)
        there = helper.ask(rows)
    finally:
        helper.close()
    mine = here.walk(rows)
    assert there == mine
    assert mine.rows == len(rows.experiments) > 100
    assert mine.audit["checked"] != 0


def test_what_it_raises_is_raised_here(world: RecordedWorld, tmp_path: Path) -> None:
    whole = pickle.dumps(bulk_of(world))
    moved = tmp_path / "archive"
    subprocess.run(["cp", "-r", str(world.archive.path), str(moved)], check=True)
    helper = Helper(bulk.__name__, pickle.dumps(bulk_of(RecordedWorld(Archive(moved)))))
    try:
        assert soon(lambda: helper.ready)
        for segment in (moved / "segments").iterdir():
            segment.unlink()
        with pytest.raises(Corrupt, match="the file is missing"):
            helper.ask(asked(world))
        with pytest.raises(RuntimeError, match="TypeError"):  # A bug, with where it is.
            helper.ask("no rows")
        assert helper.ready
    finally:
        helper.close()
    assert not helper.ready
    assert pickle.loads(whole).walk(asked(world)).rows


@pytest.fixture(scope="module")
def scored() -> Table:
    """A table on disk, as a large run has it."""
    return on_disk(table(SimConfig(seed=2, dates=60))[0])


def test_both_processes_score_alike(world: RecordedWorld, scored: Table) -> None:
    helper, options = Helper(bulk.__name__, pickle.dumps(bulk_of(world))), Options(draws=300)
    parts = partial(placebo, scored, options, 20), partial(slices, scored, options)
    try:
        assert soon(lambda: helper.ready)
        there = [helper.ask(part) for part in parts]
    finally:
        helper.close()
    assert there == [part() for part in parts]
    assert there[0].draws == 20
    assert len(there[1]) > 5


def test_what_the_second_process_cannot_score_is_scored_here(
    world: RecordedWorld, scored: Table
) -> None:
    options, settings = Options(draws=300), Settings(draws=300, placebo=20)
    expected = evaluate(scored, SetFacts(documents=0), settings).wire()
    assert expected["placebo"]
    assert expected["slices"]
    both, more = Bulks(bulk_of(world)), partial(int, 3)
    both.begin()
    try:
        helper = both._helper
        assert helper is not None
        assert soon(lambda: helper.ready)
        with both.beside() as beside:
            assert evaluate(scored, SetFacts(documents=0), settings, beside).wire() == expected
            assert beside(lambda: 5)() == 5  # It cannot be sent.
            assert helper.ready
            os.kill(helper._process.pid, signal.SIGSTOP)
            waiting = beside(partial(placebo, scored, options, 20))
            os.kill(helper._process.pid, signal.SIGKILL)
            assert not isinstance(waiting, partial)  # It was asked.
            assert waiting() == placebo(scored, options, 20)
            assert soon(lambda: not helper.ready)
            assert beside(more) is more
    finally:
        both.close()


def test_one_that_is_killed_is_told_once_and_asked_no_more(world: RecordedWorld) -> None:
    both, rows = Bulks(bulk_of(world)), asked(world)
    both.begin()
    try:
        helper = both._helper
        assert helper is not None
        assert soon(lambda: helper.ready)
        assert both.at_once == bulk.IN_FLIGHT
        os.kill(helper._process.pid, signal.SIGKILL)
        with both._here, pytest.raises(Unavailable, match=r"ended by itself, with code -9"):
            both.walk(rows)
        assert not helper.ready
        assert both.walk(rows).rows == len(rows.experiments)
    finally:
        both.close()


def test_one_that_hangs_is_ended_where_the_run_is_to_stop(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOOK_S", 0.05)
    monkeypatch.setattr(process, "ENDS_WITHIN_S", 0.3)
    helper = Helper(bulk.__name__, pickle.dumps(bulk_of(world)))
    try:
        assert soon(lambda: helper.ready)
        os.kill(helper._process.pid, signal.SIGSTOP)
        with pytest.raises(Unavailable, match=r"ended by itself, with code -9"):
            helper.ask(asked(world), lambda: True)
        assert not helper.ready
    finally:
        helper.close()


def test_one_of_other_sources_is_never_asked(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = Helper(bulk.__name__, pickle.dumps(bulk_of(world)))
    try:
        monkeypatch.setattr(process, "_sources", lambda: "elsewhere")
        assert soon(lambda: helper._pipe.poll())
        assert not helper.ready
        assert helper._gone
    finally:
        helper.close()


def test_what_it_is_told_first_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sleeper.py").write_text("import time; time.sleep(15)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(process, "ENDS_WITHIN_S", 0.1)
    helper = Helper("sleeper", bytes(5_000_000))  # More than a pipe holds.
    try:
        assert running(helper._process.pid)
        assert not helper.ready
    finally:
        helper.close()


def test_one_that_cannot_begin_is_never_asked(world: RecordedWorld) -> None:
    helper = Helper(bulk.__name__, b"no pickle")
    try:
        assert soon(lambda: not running(helper._process.pid))
        assert not helper.ready
    finally:
        helper.close()


def test_it_ends_when_the_first_process_is_killed(world: RecordedWorld) -> None:
    code = (
        "import pickle, sys, time\n"
        "from beforehand.forecast.process import Helper\n"
        "helper = Helper('beforehand.jobs.backtest.large.bulk', sys.stdin.buffer.read())\n"
        "while not helper.ready: time.sleep(0.02)\n"
        "print(helper._process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(pickle.dumps(bulk_of(world)))
        first.stdin.close()
        pid = int(first.stdout.readline())
        assert running(pid)
        first.kill()
    assert soon(lambda: not running(pid))


def test_it_is_begun_for_two_cores_and_what_can_be_sent(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsent = Bulks(Bulk(world, SystemClock(), "mean", {"mine": lambda: None}))  # type: ignore[dict-item]
    unsent.begin()
    assert unsent.at_once == 1
    with monkeypatch.context() as patch:

        def refuse(*_: object, **__: object) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

        patch.setattr(process.subprocess, "Popen", refuse)
        limited = Bulks(bulk_of(world))
        limited.begin()
        assert limited.at_once == 1
        assert limited.walk(asked(world)).rows
    monkeypatch.setattr(bulk, "cores", lambda: 1)
    alone = Bulks(bulk_of(world))
    alone.begin()
    assert alone.at_once == 1


def test_a_run_that_one_process_walks_writes_the_same_files(
    world: RecordedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "MOST_ROWS", 10)
    begun, answered = list[Helper](), list[type]()

    class Noted(Helper):
        def __init__(self, module: str, begin: bytes) -> None:
            super().__init__(module, begin)
            begun.append(self)
            assert soon(lambda: self.ready)

        def ask(self, question: object, stopped: Callable[[], bool] = lambda: False) -> object:
            answer = super().ask(question, stopped)
            answered.append(type(answer))
            return answer

    monkeypatch.setattr(bulk, "Helper", Noted)
    monkeypatch.setattr(bulk, "cores", lambda: 2)
    two = walked(world.archive.path, tmp_path / "two")
    (helper,) = begun
    assert not running(helper._process.pid)  # It ends with the run.
    assert answered[-2:] == [list, Placebo]  # The slices, and the placebo.
    one = walked(world.archive.path, tmp_path / "one", "--concurrency", "1")
    assert len(begun) == 1
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(two) for path in two.rglob("*") if path.is_file())
    for name in names:
        if name.name != "log.json":
            assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_of_a_very_large_run_nobody_scores_beside(
    world: RecordedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: Bulks) -> None:
        raise AssertionError("it was given work")

    monkeypatch.setattr(joined, "MOST_ROWS", 10)
    monkeypatch.setattr(Bulks, "beside", never)
    monkeypatch.setattr(backtest_job, "MOST_BESIDE", 10)
    assert (walked(world.archive.path, tmp_path / "alone") / "scores.json").is_file()
    monkeypatch.setattr(backtest_job, "MOST_BESIDE", 10**6)
    with pytest.raises(AssertionError):
        walked(world.archive.path, tmp_path / "helped")


def test_this_machine_has_cores() -> None:
    assert process.cores() >= 1
