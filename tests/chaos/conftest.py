"""A real Postgres for the tests over several processes."""

from collections.abc import Iterator

import psycopg
import pytest

from postgres import cluster


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster() as url:
        yield url


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    """A database of the test's own on the shared server."""
    name = "d" + request.node.name.translate(str.maketrans("[-]", "___")).lower()
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return server.rsplit("/", 1)[0] + "/" + name
