"""A pool before Postgres: one by transaction is refused, one by session is a Postgres."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import pytest

from beforehand.cli.app import run as cli
from beforehand.errors import InputError
from beforehand.store.database import Database
from experiments import QUICK
from postgres import cluster


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with cluster() as address:
        yield address


@contextmanager
def pooled(server: str, mode: str) -> Iterator[str]:
    """The address of a PgBouncer in this mode; its files lie where its user may read them."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("no PgBouncer here: CI needs it (apt-get install pgbouncer)")
        pytest.skip("no PgBouncer here: install it to run the tests over a pool")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    host = urlsplit(server)
    folder = Path(mkdtemp(prefix="beforehand-pool-"))
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={host.port} dbname=postgres user=tester\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        f"pool_mode = {mode}\nunix_socket_dir =\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    folder.chmod(0o755)
    as_user = ["-u", "postgres"] if os.geteuid() == 0 else []
    with (folder / "out").open("wb") as out:
        pool = subprocess.Popen([program, *as_user, str(ini)], stdout=out, stderr=out)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        pool.kill()
        pool.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pool_by_less_than_a_session_is_refused_at_the_start(
    mode: str, server: str, sim: Path, home: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pooled(server, mode) as address:
        with pytest.raises(InputError, match=r"PgBouncer.*session mode"):
            Database(address).create("CREATE TABLE IF NOT EXISTS a (x TEXT)")
        monkeypatch.setenv("BEFOREHAND_DATABASE_URL", address)
        who = ["--archive", str(sim), "--forecasters", "market", *QUICK, "--run-id", "r"]
        assert cli(["backtest", "run", *who]) == 2
        assert "the address of the server itself" in capsys.readouterr().err
        assert not (home / "data" / "runs" / "r").exists()


def test_a_pool_by_session_is_a_postgres(server: str) -> None:
    with pooled(server, "session") as address:
        made = Database(address)
        made.create("CREATE TABLE IF NOT EXISTS b (x TEXT)")
        for _ in range(20):  # Statements are not prepared: a pool may forget them.
            with made.write("b") as tx:
                tx.run("INSERT INTO b VALUES (:x)", x="a")
        with made.read() as tx:
            assert tx.run("SELECT count(*) FROM b") == [(20,)]
        made.close()
