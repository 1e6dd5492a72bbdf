"""A server whose every service is a vendor on loopback, and one over a simulated archive."""

from collections.abc import Iterator

import pytest
from serving import Served, served, token

from live import Setup, opened


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """A home, and a vendor that answers for every service."""
    with opened(tmp_path_factory.mktemp("clients")) as made:
        yield made


@pytest.fixture(scope="module")
def running(place: Setup) -> Iterator[tuple[Served, str]]:
    """A live server over HTTP, and a token for all of it."""
    text = token(place.home.root)
    with served(place.home.root, "--mode", "live", more=place.vendor.environment) as made:
        yield made, text
