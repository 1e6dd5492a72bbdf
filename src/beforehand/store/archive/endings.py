"""How markets ended: of a hundred thousand, numbers are kept and no records."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import nan

from beforehand.clock import from_us, to_us
from beforehand.records.world import Resolution, ResolutionStatus
from beforehand.store.archive.rules import disagree

_NEVER = -(2**63)


class Numbers(Mapping[str, int]):
    """A whole number of 64 bits for each name, in order of the names: a tenth of the memory of a
    dictionary."""

    def __init__(self, names: Sequence[str], numbers: Iterable[int]) -> None:
        """`names` in order; their numbers."""
        self._names, self._numbers = names, array("q", numbers)

    @classmethod
    def of(cls, known: Mapping[str, int]) -> Mapping[str, int]:
        """The same; what is not in order stays as it is."""
        names = [*known]
        in_order = all(a < b for a, b in pairwise(names))
        return cls(names, map(known.__getitem__, names)) if in_order else known

    def __getitem__(self, name: str) -> int:
        k = bisect_left(self._names, name)
        if k == len(self._names) or self._names[k] != name:
            raise KeyError(name)
        return self._numbers[k]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Endings(Mapping[str, Resolution]):
    """Each market's latest known ending, by name; two outcomes that disagree are a dispute."""

    def __init__(self, records: Iterable[Resolution] = ()) -> None:
        """`records` in the order in which they were stored."""
        self._added: dict[str, int] = {}
        self._place: Mapping[str, int] = self._added
        self._status: list[ResolutionStatus] = []
        self._payout, self._times = array("d"), array("q")
        self._whole: dict[str, list[Resolution]] = {}
        """Records that numbers do not hold: several of one market, and what a newer version of
        this program wrote."""
        for record in records:
            self.add(record)

    def add(self, ending: Resolution) -> None:
        """Take in a record."""
        name = ending.market_id
        if name in self._added:
            self._whole.setdefault(name, [self._made(name)]).append(ending)
            return
        if ending.model_extra:
            self._whole[name] = [ending]
        first = ending.first_published
        self._added[name] = len(self._status)
        self._status.append(ending.status)
        self._payout.append(nan if ending.payout is None else ending.payout)
        self._times.extend((to_us(ending.resolved_at), to_us(ending.known_at)))
        self._times.append(_NEVER if first is None else to_us(first))

    def only(self, names: Iterable[str]) -> "Endings":
        """Those of these markets, in this order; none is added to them."""
        found = Endings()
        found._status, found._payout, found._times = self._status, self._payout, self._times
        found._place = Numbers.of({name: self._place[name] for name in names})
        found._whole = {name: all_ for name, all_ in self._whole.items() if name in found._place}
        return found

    def of_several(self) -> Iterator[Resolution]:
        """Every record of the markets that have more than one."""
        return (one for found in self._whole.values() if len(found) > 1 for one in found)

    def says(self, name: str) -> tuple[ResolutionStatus, float | None]:
        """The status and the payout of a market, without making a record."""
        if name in self._whole:
            return self[name].status, self[name].payout
        payout = self._payout[place := self._place[name]]
        return self._status[place], None if payout != payout else payout

    def times(self, name: str) -> tuple[int, int]:
        """When a market was resolved, and when that was first published, in microseconds."""
        if name in self._whole:
            one = self[name]
            return to_us(one.resolved_at), to_us(one.first_published or one.known_at)
        place = 3 * self._place[name]
        resolved_at, known_at, first = self._times[place : place + 3]
        return resolved_at, known_at if first == _NEVER else first

    def __getitem__(self, name: str) -> Resolution:
        several = self._whole.get(name)
        found = self._made(name) if several is None else ending_of(several)
        assert found is not None
        return found

    def _made(self, name: str) -> Resolution:
        place = self._place[name]
        payout = self._payout[place]
        resolved_at, known_at, first = self._times[3 * place : 3 * place + 3]
        return Resolution(
            market_id=name,
            status=self._status[place],
            payout=None if payout != payout else payout,
            resolved_at=from_us(resolved_at),
            known_at=from_us(known_at),
            first_published=None if first == _NEVER else from_us(first),
        )

    def __contains__(self, name: object) -> bool:
        return name in self._place  # A Mapping's own would make a record.

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


def ending_of(records: list[Resolution]) -> Resolution | None:
    """The ending known last (of several known at one instant, the one stored last); a dispute where
    two outcomes on record disagree: which of them holds cannot be known here."""
    last = max(reversed(records), key=lambda r: r.known_at, default=None)
    if last is not None and len(records) > 1 and disagree(records):
        return last.model_copy(update={"status": "disputed", "payout": None})
    return last
