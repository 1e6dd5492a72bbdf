"""The Gateway: Views over one world, panels and bulk walks, all through one guard.

Nothing is shown at t on any other path, neither a single record nor a column of a million.
Every View, panel and bulk walk of a gateway checks what its world returned against the predicate
here. The audit counts what was shown, and keeps every refusal in full. Instants are microseconds
since 1970.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.clock import Clock, SystemClock, from_us, iso, to_us
from beforehand.errors import CutoffViolation, InputError
from beforehand.gateway.panel import USUAL, Evidence, Panel, PanelBuilder, QueryMaker
from beforehand.gateway.view import View
from beforehand.gateway.worlds import FOREVER, World
from beforehand.lazy import lazy
from beforehand.records.cutoff import visible_us
from beforehand.store.archive.reader import Series

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Refusal:
    """A record that came back and was not shown."""

    method: str
    record: str
    known_at: str | None
    t: str


@dataclass
class Tally:
    """One method's trail. `digest` chains every admitted (known_at, t) — in bulk walks their sums
    and inner product over a market, in those of large runs over a step — so that a replay can be
    compared with the run it repeats."""

    checked: int = 0
    admitted: int = 0
    first_known_at: int | None = None
    last_known_at: int | None = None
    digest: str = ""


@dataclass
class Audit:
    """The trail of one gateway."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def admit(self, method: str, known_at: int, t: int) -> None:
        """Count one admitted record (microseconds)."""
        self._add(method, 1, known_at, known_at, b"%d,%d;" % (known_at, t))

    def refuse(self, method: str, record: str, known_at: int | None, t: int) -> None:
        """Keep one refused record in full (microseconds)."""
        self.tallies.setdefault(method, Tally()).checked += 1
        stamp = None if known_at is None else iso(from_us(known_at))
        self.refusals.append(Refusal(method, record, stamp, iso(from_us(t))))

    def chunk(self, method: str, known_at: Ints, t: Ints) -> None:
        """Count a column of admitted records: how many, the range of known_at, a digest."""
        if len(known_at):
            first, last = int(known_at.min()), int(known_at.max())
            self._add(method, len(known_at), first, last, _sums(known_at, t))

    def _add(self, method: str, n: int, first: int, last: int, raw: bytes) -> None:
        tally = self.tallies.setdefault(method, Tally())
        tally.checked += n
        tally.admitted += n
        tally.first_known_at = (
            first if tally.first_known_at is None else min(first, tally.first_known_at)
        )
        tally.last_known_at = (
            last if tally.last_known_at is None else max(last, tally.last_known_at)
        )
        tally.digest = hashlib.blake2b(tally.digest.encode() + raw, digest_size=16).hexdigest()

    def add(self, wire: Mapping[str, Any]) -> None:
        """Append the trail of a later step, as its `wire` gives it."""
        for name, raw in wire["methods"].items():
            mine, other = self.tallies.setdefault(name, Tally()), Tally(**raw)
            mine.checked += other.checked
            mine.admitted += other.admitted
            firsts = [x for x in (mine.first_known_at, other.first_known_at) if x is not None]
            lasts = [x for x in (mine.last_known_at, other.last_known_at) if x is not None]
            mine.first_known_at = min(firsts, default=None)
            mine.last_known_at = max(lasts, default=None)
            chained = mine.digest.encode() + other.digest.encode()
            mine.digest = hashlib.blake2b(chained, digest_size=16).hexdigest()
        self.refusals += [Refusal(**raw) for raw in wire["refusals"]]

    @property
    def checked(self) -> int:
        """How many returned records were checked against the predicate."""
        return sum(tally.checked for tally in self.tallies.values())

    def wire(self) -> dict[str, object]:
        """JSON-ready: per method, and every refusal."""
        return {
            "checked": self.checked,
            "refused": len(self.refusals),
            "methods": {name: vars(tally) for name, tally in sorted(self.tallies.items())},
            "refusals": [vars(refusal) for refusal in self.refusals],
        }


def _sums(known_at: Ints, t: Ints) -> bytes:
    """A cheap checksum of a chunk: wrapping sums and the inner product of its two columns."""
    return b"%d,%d,%d;" % (known_at.sum(), t.sum(), (known_at * (t | 1)).sum())


class Guard:
    """Applies the predicate, and keeps the trail of what passed and what did not."""

    def __init__(self) -> None:
        self.audit = Audit()
        self._waiting: dict[str, list[tuple[str, Ints, Ints]]] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Columns that are checked by `all` inside wait for the end, and are checked there, those
        of a method at once, however it ends: nothing may be shown before. One thread at a time."""
        self._waiting = waiting = dict[str, list[tuple[str, Ints, Ints]]]()
        try:
            yield
        finally:
            self._waiting = None
            for method, parts in waiting.items():
                known_at, t = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
                if bool(np.all(visible_us(known_at, t))):
                    self.all(method, "", known_at, t)
                else:  # One by one, to say which.
                    for part in parts:
                        self.all(method, *part)

    def one(self, method: str, name: str, known_at: int | None, t: int) -> bool:
        """True if one record may be shown at t; a refusal is kept in full."""
        if known_at is not None and visible_us(known_at, t):
            self.audit.admit(method, known_at, t)
            return True
        self.audit.refuse(method, name, known_at, t)
        return False

    def all(self, method: str, name: str, known_at: Ints, t: Ints) -> None:
        """Check a column `known_at` (n,), each row shown at its own `t` (n,). Raises
        CutoffViolation if a single row may not be shown: a world that returns such a row cannot be
        trusted."""
        if not len(t):
            return
        if self._waiting is not None:
            self._waiting.setdefault(method, []).append((name, known_at, t))
            return
        passed: Any = visible_us(known_at, t)
        if passed.all():
            self.audit.chunk(method, known_at, t)
            return
        self.audit.chunk(method, known_at[passed], t[passed])
        for i in np.flatnonzero(~passed).tolist():
            self.audit.refuse(method, name, int(known_at[i]), int(t[i]))
        raise CutoffViolation(f"{name}: the world returned {method} known after t")


class Gateway:
    """Hands out Views over one world and keeps the audit trail of all of them."""

    def __init__(self, world: World, clock: Clock | None = None) -> None:
        self.world = world
        self.clock = clock or SystemClock()
        self.guard = Guard()

    @property
    def audit(self) -> Audit:
        """The trail of everything that was shown, or refused, through this gateway."""
        return self.guard.audit

    def at(self, t: datetime | int) -> View:
        """The world at `t` (an aware datetime, or microseconds since 1970)."""
        if isinstance(t, datetime):
            if t.tzinfo is None:
                raise InputError("the instant of a View needs a time zone")
            t = to_us(t)
        return View(self, t)

    def panel(
        self,
        pairs: Sequence[tuple[str, npt.NDArray[np.int64]]],
        recorded: Sequence[str] = (),
        evidence: Evidence = USUAL,
        queries: QueryMaker | None = None,
    ) -> Panel:
        """Many (market, t) at once, each row as a View at its own t would show it: markets and
        their instants (each array ascending), in that order. `recorded` names the predictors whose
        stored forecasts are replayed. Without `queries` the question itself is searched for."""
        return self._panels.build(pairs, recorded, evidence, queries)

    @lazy
    def _panels(self) -> PanelBuilder:
        return PanelBuilder(self)

    def live(self) -> View:
        """The world now. Its instant moves on with the clock, so that what a service answers a
        moment later is not refused."""
        return View(self, None)

    def full_view(self) -> View:
        """Everything the world holds: for naming markets and scoring them, never for forecasting.

        Not the same as `live`: an ending may be recorded with a date that still lies ahead, and
        a score must not depend on the day it is computed.
        """
        return self.at(FOREVER)

    def take(
        self, market_id: str, t: npt.NDArray[np.int64], method: str = "odds"
    ) -> tuple[Series, npt.NDArray[np.int64]]:
        """A series and the row in it for each instant (-1 where none), the chunk audited.

        Raises CutoffViolation if the world handed out anything known after its instant.
        """
        # A market without prices answers like one whose first price is still to come.
        series = self.world.series(market_id) or Series.empty(market_id)
        rows = series.positions(t)
        if len(rows) and rows.min() >= 0:
            known, at = series.known_at[rows], t
        else:
            known, at = series.known_at[rows[rows >= 0]], t[rows >= 0]
        self.guard.all(method, market_id, known, at)
        return series, rows
