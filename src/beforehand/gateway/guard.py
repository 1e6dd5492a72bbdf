"""The one path on which anything is shown at t, a single record or a column of a million.

Every View, panel and bulk walk of a gateway puts what came back from its world to the predicate
here. Instants are microseconds since 1970.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.errors import CutoffViolation
from beforehand.gateway.audit import Audit
from beforehand.records.cutoff import visible_us

Ints = npt.NDArray[np.int64]


class Guard:
    """Applies the predicate, and keeps the trail of what passed and what did not."""

    def __init__(self) -> None:
        self.audit = Audit()

    def one(self, method: str, name: str, known_at: int | None, t: int) -> bool:
        """True if one record may be shown at t; a refusal is kept in full."""
        if known_at is not None and visible_us(known_at, t):
            self.audit.admit(method, known_at, t)
            return True
        self.audit.refuse(method, name, known_at, t)
        return False

    def all(self, method: str, name: str, known_at: Ints, t: Ints) -> None:
        """Let a column pass whose rows (n,) are each shown at their own t (n,). Raises
        CutoffViolation if a single one may not be: a world that hands it out cannot be trusted."""
        if not len(t):
            return
        passed: Any = visible_us(known_at, t)
        if passed.all():
            self.audit.chunk(method, known_at, t)
            return
        self.audit.chunk(method, known_at[passed], t[passed])
        for i in np.flatnonzero(~passed).tolist():
            self.audit.refuse(method, name, int(known_at[i]), int(t[i]))
        raise CutoffViolation(f"{name}: the world returned {method} known after t")
