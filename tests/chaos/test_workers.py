"""Several processes on one real Postgres: the work spreads, one is killed, the limits hold."""

import subprocess
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from crew import asked, at_work, backtest, done, files, program, workers
from provider import Provider, serving

from beforehand.store.archive.reader import Archive
from website import serving as web_server

RATE = 60


def busiest(times: list[float], window: float) -> int:
    """The most of these instants that lie within so many seconds."""
    return max(sum(start <= t < start + window for t in times) for start in times)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.chaos
def test_work_spreads_and_one_worker_is_killed(n: int, sim: Path, tmp_path: Path, url: str) -> None:
    home, twin = tmp_path / "home", tmp_path / "twin"
    with serving(Provider(latency=0.05)) as provider:
        alone = program(*backtest(sim, provider), home=twin, url=None)
        _, err = alone.communicate(timeout=300)
        assert alone.returncode == 0, err.decode()
        provider.log.clear()
        with workers(n, home, url) as crew:
            run = program(*backtest(sim, provider, "--rate", f"{RATE}/s"), home=home, url=url)
            busy: list[subprocess.Popen[bytes]] = []
            while not busy and run.poll() is None:
                time.sleep(0.02)
                busy = at_work(url, crew) if done(url) > 60 else []
            busy[0].kill()
            killed = time.monotonic()
            mark = len(provider.log)
            known = {
                str(row[0]) for row in asked(url, "SELECT call_key FROM calls WHERE state='done'")
            }
            _, err = run.communicate(timeout=300)
            assert run.returncode == 0, err.decode()
            took = time.monotonic() - killed
        later = {entry.key for entry in provider.log[mark:]}
        assert not later & known, "no finished paid call was repeated"
        again = sum(times - 1 for times in provider.paid().values())
        assert again <= 4, "no more than the dead worker had in flight"
        shares = asked(
            url, "SELECT owner, count(*) FROM calls WHERE run_id = 'r' GROUP BY 1 ORDER BY 2"
        )
        # Whoever looks first takes what waits, so not every worker must have had a share.
        assert len(shares) >= n // 2 + 1, "the one that was killed had a share, and others"
        assert files(home) == files(twin)
        came = [entry.at for entry in provider.log]
        left_at = [
            datetime.fromisoformat(str(row[0])).timestamp()
            for row in asked(url, "SELECT sent_at FROM calls")
        ]
        most, left = busiest(came, 0.8), len(provider.paid()) - len(known)
        assert most <= RATE
        print(
            f"{n} workers and the driver, shares {[int(str(s[1])) for s in shares]}; one killed -9, "
            f"all done {took:.1f} s later (the {left} calls left take {left / RATE:.1f} s at the "
            f"limit), in flight restarted {again}, at most {busiest(left_at, 1.0)} "
            f"calls begun in 1 s, {busiest(came, 1.0)} arrived (limit {RATE})"
        )


@pytest.mark.chaos
def test_a_worker_elsewhere_reads_the_archive_at_a_url(sim: Path, tmp_path: Path, url: str) -> None:
    """It has no file of the run's machine but what it fetched, and the run is the same."""
    home, elsewhere, twin = tmp_path / "home", tmp_path / "elsewhere", tmp_path / "twin"
    with serving(Provider(latency=0.05)) as provider, web_server(sim) as served:
        alone = program(*backtest(sim, provider), home=twin, url=None)
        _, err = alone.communicate(timeout=300)
        assert alone.returncode == 0, err.decode()
        with workers(1, elsewhere, url, "--archive", served.url) as (worker,):
            run = program(*backtest(sim, provider), home=home, url=url)
            _, err = run.communicate(timeout=300)
            assert run.returncode == 0, err.decode()
            shares = dict(
                asked(
                    url,
                    "SELECT pid, count(*) FROM calls JOIN workers ON worker_id = owner "
                    "WHERE run_id = 'r' GROUP BY 1",
                )
            )
    assert shares[worker.pid], "it had a share"
    assert files(home) == files(twin)
    (fetched,) = (elsewhere / "data" / "fetched").iterdir()
    assert Archive(fetched).digest == Archive(sim).digest
    asked_for = Counter(served.asked)
    assert {n for name, n in asked_for.items() if name != "/archive.json"} == {1}


@pytest.mark.chaos
def test_a_dead_driver_is_replaced_by_a_worker(sim: Path, tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    with serving(Provider(latency=0.05)) as provider, workers(1, home, url):
        run = program(*backtest(sim, provider), home=home, url=url)
        while done(url) < 60 and run.poll() is None:
            time.sleep(0.02)
        run.kill()
        run.communicate()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if asked(url, "SELECT status FROM runs") == [("success",)]:
                break
            time.sleep(0.2)
        assert asked(url, "SELECT status FROM runs") == [("success",)]
        assert (home / "data" / "runs" / "r" / "report.html").is_file()
        checked = program("runs", "verify", "r", home=home, url=url)
        out, _ = checked.communicate(timeout=60)
        assert checked.returncode == 0, out.decode()


def test_odd_answers_are_recorded_and_cost_their_row(sim: Path, tmp_path: Path, url: str) -> None:
    """What SQLite takes and Postgres does not: bare NULs, and more than 2^31 tokens."""

    class Odd(Provider):
        def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
            super().answer(key, path, body, index)
            if index == "0":
                return 200, b'{"probability": 0.5, "tokens": 3000000000}'
            return (200, b'\x00{"probability": 0.5}') if int(key, 16) % 2 else (400, b"\x00no")

    with serving(Odd(latency=0.0)) as odd:
        run = program(*backtest(sim, odd, "--every", "60d"), home=tmp_path / "home", url=url)
        _, err = run.communicate(timeout=120)
        assert run.returncode == 0, err.decode()
        assert max(odd.paid().values()) == 1
    states = dict(asked(url, "SELECT state, count(*) FROM calls GROUP BY 1"))
    assert states.keys() == {"done", "failed"}


def test_two_drivers_by_mistake(sim: Path, tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    with serving(Provider(latency=0.05)) as provider:
        few = ("--every", "42d")
        first = program(*backtest(sim, provider, *few), home=home, url=url)
        while done(url) < 20 and first.poll() is None:
            time.sleep(0.02)
        second = program(*backtest(sim, provider, *few), home=home, url=url)
        _, err = second.communicate(timeout=60)
        assert second.returncode == 1
        assert b"carried out by another process" in err
        _, err = first.communicate(timeout=300)
        assert first.returncode == 0, err.decode()
        assert max(provider.paid().values()) == 1
