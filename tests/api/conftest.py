"""The server over a home with runs of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import Api, api

from homes import first_made, made

__all__ = ["first_made", "made", "serving"]


@pytest.fixture(scope="module")
def serving(made: Path) -> Iterator[Api]:
    """The server over it, on this machine and without tokens."""
    with api(made, "--archive", "data/sim", "--rate", "5000") as found:
        yield found
