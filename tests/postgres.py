"""A real Postgres on loopback, in a cluster of its own, for as long as the tests need it."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest


def binaries() -> Path | None:
    """The folder with initdb and pg_ctl."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a fresh database; the server is stopped at the end, and its files are removed.
    They lie apart from those of pytest, which closes its folder to others whenever one begins."""
    place = binaries()
    if place is None:
        if os.environ.get("CI"):
            pytest.fail("no Postgres here: CI needs it (apt-get install postgresql)")
        pytest.skip("no Postgres here: install it to run the tests over several workers")
    folder = Path(mkdtemp(prefix="beforehand-postgres-"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # Postgres refuses to run as root.
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")

    def run(*command: str) -> None:
        subprocess.run([*as_user, *command], check=True, capture_output=True, cwd="/", timeout=120)

    data = folder / "data"
    run(str(place / "initdb"), "-D", str(data), "-U", "tester", "-A", "trust", "--no-sync")
    for attempt in range(5):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c max_connections=200"
        log = str(folder / "log")
        try:
            run(str(place / "pg_ctl"), "-D", str(data), "-l", log, "-w", "-o", options, "start")
            break
        except subprocess.CalledProcessError:  # Somebody took the port in between.
            if attempt == 4:
                raise
    pid = int((data / "postmaster.pid").read_text().split()[0])
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        os.kill(pid, signal.SIGQUIT)  # An immediate stop: nothing of it is kept.
        shutil.rmtree(folder, ignore_errors=True)
