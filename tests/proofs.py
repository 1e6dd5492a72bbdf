"""How much of each proof is made: a smoke of it in `make test`, its full count in `make chaos`.

BEFOREHAND_CHAOS=full is the switch. What a run made of each proof is printed at its end.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

FULL = os.environ.get("BEFOREHAND_CHAOS") == "full"
COUNTS: dict[str, tuple[int, int]] = {}
"""What each proof counts: in this run, and in full."""


def count(what: str, smoke: int, full: int) -> int:
    """How many of `what` this run tries."""
    made = full if FULL else smoke
    COUNTS[what] = (made, full)
    return made


def some(what: str, smoke: Sequence[Case], full: Sequence[Case]) -> Sequence[Case]:
    """Which of `what` this run tries."""
    count(what, len(smoke), len(full))
    return full if FULL else smoke
