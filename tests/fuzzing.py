"""Broken inputs from whole ones: places of a JSON value changed, bytes of a file changed."""

import copy
from typing import Any

import numpy as np

STRANGE: list[Any] = [
    None,
    True,
    -1,
    0,
    10**40,
    1e308,
    float("1e-320"),
    "",
    "x",
    "\x00",
    "9" * 400,
    "nan",
    "inf",
    "2026-99-99T00:00:00Z",
    "0001-01-01",
    "9999-12-31T23:59:59Z",
    "1e400",
    "é漢\ud7ff",
    "../../x",
    "=cmd()",
    "\x1b[2J",
    [],
    {},
    [[]],
    {"a": None},
    [None],
    "x" * 10_000,
]
BYTES = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n\n",
    b'"',
    b"{",
    b"]",
    b",",
    b"\\u",
    b"1e9",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path] if path else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        found += places(item, (*path, key))
    return found


def mutated(rng: np.random.Generator, value: Any) -> Any:
    """The value with one to three places changed, removed, or nested."""
    made = copy.deepcopy(value)
    for _ in range(int(rng.integers(1, 4))):
        spots = places(made)
        if not spots:
            return made
        *outer, last = spots[int(rng.integers(0, len(spots)))]
        parent = made
        for key in outer:
            parent = parent[key]
        choice = rng.random()
        if choice < 0.2:
            del parent[last]
        elif choice < 0.3:
            parent[last] = [parent[last]]
        elif choice < 0.4:
            parent[last] = {"x": parent[last]}
        else:
            parent[last] = copy.deepcopy(STRANGE[int(rng.integers(0, len(STRANGE)))])
    return made


def bitten(rng: np.random.Generator, data: bytes) -> bytes:
    """The bytes with one to three stretches cut, doubled, or replaced."""
    made = data
    for _ in range(int(rng.integers(1, 4))):
        a, b = sorted(rng.integers(0, len(made) + 1, 2).tolist())
        b = min(b, a + 40)
        choice = rng.random()
        put = b"" if choice < 0.3 else made[a:b] * 2
        if choice > 0.5:
            put = BYTES[int(rng.integers(0, len(BYTES)))]
        made = made[:a] + put + made[b:]
    return made
