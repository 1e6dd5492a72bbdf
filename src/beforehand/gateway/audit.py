"""What the wall let through and what it refused: counts in bulk, refusals in full."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from beforehand.clock import from_us, iso

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
    and inner product — so that a replay can be compared with the run it repeats."""

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
        """Records that came back and were put to the predicate."""
        return sum(tally.checked for tally in self.tallies.values())

    def wire(self) -> dict[str, Any]:
        """JSON-ready: per method, and every refusal."""
        return {
            "checked": self.checked,
            "refused": len(self.refusals),
            "methods": {name: vars(tally) for name, tally in sorted(self.tallies.items())},
            "refusals": [vars(refusal) for refusal in self.refusals],
        }


def _sums(known_at: Ints, t: Ints) -> bytes:
    """A cheap mark of a chunk: wrapping sums and the inner product of its two columns."""
    return b"%d,%d,%d;" % (known_at.sum(), t.sum(), (known_at * (t | 1)).sum())
