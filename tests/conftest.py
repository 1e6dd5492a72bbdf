"""Shared fixtures: no network but loopback, a home of one's own, a simulated archive, real data."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import recorded_data
from beforehand.store.archive import Archive
from beforehand.store.archive_writer import ArchiveWriter
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")
STORED_AT = FrozenClock(parse_instant("2026-11-01T00:00:00Z"))


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
def sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated world as an archive; read only."""
    path = tmp_path_factory.mktemp("sim") / "archive"
    ArchiveWriter(path).add(
        records(SimConfig(seed=3, dates=24)),
        importer="simulate",
        source="test",
        source_digest="test",
        recorded_at=STORED_AT.now(),
    )
    return path


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
