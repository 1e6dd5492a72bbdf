"""Shared fixtures: no network but loopback, a home of one's own, a simulated archive, real data."""

import gc
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from provider import Provider, serving

from beforehand.clock import from_us
from beforehand.config import recorded_data
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.records.world import Market, PricePoint, Resolution
from beforehand.sandbox.engines import Sandbox
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from experiments import MONDAY
from live import Setup, opened
from prepared import real_archive, simulated_archive
from proofs import COUNTS, FULL

settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what only `make chaos` runs to it; the files that take longest come first, so that no
    process waits for another at the end."""
    seconds = json.loads(Path(__file__).with_name("seconds.json").read_text())
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0))
    if not FULL:
        left = [item for item in items if item.get_closest_marker("chaos")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
        if left:
            COUNTS["tests that `make chaos` alone runs"] = (0, len(left))


def pytest_collection_finish(session: pytest.Session) -> None:
    """The garbage collector passes over what is loaded, and comes less often: it took a tenth of
    the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Each process of the tests says how much of each proof it made."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["proofs"] = COUNTS


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    COUNTS.update(getattr(node, "workeroutput", {}).get("proofs", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was proved, and how much of it `make chaos` proves. BEFOREHAND_SECONDS=write: how long
    each file took is noted for the order of the next run."""
    if os.environ.get("BEFOREHAND_SECONDS") == "write":
        took: Counter[str] = Counter()
        for reports in terminalreporter.stats.values():
            for report in reports:
                took[getattr(report, "nodeid", "").partition("::")[0]] += getattr(
                    report, "duration", 0
                )
        noted = {file: round(s) for file, s in sorted(took.items()) if file and s >= 2}
        path = Path(__file__).with_name("seconds.json")
        path.write_text(json.dumps(noted, indent=1) + "\n")
    for what, (made, full) in sorted(COUNTS.items()):
        terminalreporter.write_line(f"proof: {made:,} of {full:,} {what}")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that does not stay on this machine."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else None
        if host is not None and host not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address}")
        real(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """BEFOREHAND_HOME in a fresh folder."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("BEFOREHAND_HOME", str(path))
    return path


@pytest.fixture(scope="session")
def sim() -> Path:
    """A small simulated world as an archive; read only."""
    return simulated_archive()


@pytest.fixture(scope="session")
def wide() -> Path:
    """A larger one: it has every kind of ending, and enough of them to tell skill."""
    return simulated_archive(24)


@pytest.fixture(scope="session")
def sim_archive(sim: Path) -> Archive:
    """The opened simulated world."""
    return Archive(sim)


@pytest.fixture(scope="session")
def data() -> Path:
    """The recorded data; missing it fails in CI and skips elsewhere."""
    path = recorded_data()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("BEFOREHAND_DATA names no folder: CI needs the recorded data")
        pytest.skip("BEFOREHAND_DATA names no folder of recorded data")
    return path


@pytest.fixture(scope="session")
def real(data: Path) -> Path:
    """An archive of recorded markets and documents; read only."""
    return real_archive(data)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider(latency=0.0)) as made:
        yield made


@pytest.fixture
def market(sim_archive: Archive) -> dict[str, Any]:
    """A settled market of the simulated world: its id, question, first price and end."""
    world = RecordedWorld(sim_archive)
    record = next(r for r in Gateway(world).full_view().resolutions() if r.payout is not None)
    first = from_us(world.series(record.market_id).known_at[0])
    question = Gateway(world).full_view().market(record.market_id).question
    return {
        "id": record.market_id,
        "first": first,
        "end": record.resolved_at,
        "question": question,
    }


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    """A home and a vendor for the live path."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Three markets that hold Mondays, and two that end before the next one."""
    records: list[Any] = []
    for i, (day, life) in enumerate(((0, 30), (2, 30), (3, 30), (1, 4), (8, 3))):
        name, opened = f"KALSHI:m{i}", MONDAY + timedelta(days=day, hours=9)
        text = {"id": name, "venue": "KALSHI", "native_id": f"m{i}", "question": f"Question {i}?"}
        records.append(Market(**text, known_at=opened))  # type: ignore[arg-type]
        for k in range(life):
            at = opened + timedelta(days=k)
            p = 0.3 + 0.01 * k
            records.append(PricePoint(market_id=name, price=p, observed_at=at, known_at=at))
        end = opened + timedelta(days=life)
        records.append(
            Resolution(
                market_id=name, status="resolved", payout=float(i % 2), resolved_at=end,
                known_at=end + timedelta(hours=1),
            )
        )  # fmt: skip
    path = tmp_path / "made"
    ArchiveWriter(path).add(
        records, importer="t", source="t", source_digest="t", recorded_at=MONDAY
    )
    return path


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses between attempts."""
    monkeypatch.setattr("beforehand.engine.execute.BACKOFF_S", 0.01)
    monkeypatch.setattr("beforehand.traffic.BACKOFF_S", 0.01)
