"""Every engine under attack, and the host that an escape would touch."""

from collections.abc import Iterator
from typing import Any

import pytest

from beforehand.sandbox.engines import Sandbox
from beforehand.sandbox.jail import Jail
from beforehand.sandbox.monty import Monty
from sandbox.escapes import UNGUARD
from sandbox.policies import QUICK
from sandbox.scene import Scene


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, tuple[Any, str]]]:
    """Every engine under attack, with what is run before an attempt."""
    guarded, off = Jail(), Jail(guard=False)
    made = {
        "guarded": (guarded, ""),
        "unguarded": (guarded, UNGUARD),
        "off": (off, ""),
        "bare": (Jail(bubblewrap=False, guard=False), ""),
        "monty": (Monty(), ""),
    }
    yield made
    for engine, _ in made.values():
        engine.close()


@pytest.fixture(scope="module")
def jail(engines: dict[str, tuple[Any, str]]) -> Jail:
    """Without the guard: what is tested is the wall."""
    found = engines["off"][0]
    assert isinstance(found, Jail)
    found.run("1", None, QUICK)
    return found


@pytest.fixture(scope="module")
def fallback() -> Iterator[Sandbox]:
    made = Sandbox("monty")
    made.run("import statistics", None, QUICK)  # Both engines are up.
    yield made
    made.close()
