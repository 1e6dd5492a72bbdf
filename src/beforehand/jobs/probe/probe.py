"""The probe: whether a forecaster's answer at t depends on anything after t.

At each of several instants T, two worlds are made that are the same up to T, record for record, and
different after it (`redraw`). The forecaster is begun anew in each, at the same path, and shown the
same contexts in the same order: once in world A, once in world B, and once more in A. If both A's
agree and B does not, the answer depends on something after T, and the change that it depends on is
found by bisection. If the A's do not agree, the forecaster has chance of its own: then its answers
are drawn again and again, and the two sets of draws are compared by a permutation test.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from math import ceil, comb, nan
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import numpy.typing as npt

from beforehand.clock import from_us, iso, to_us
from beforehand.engine.plan import Progress
from beforehand.errors import InputError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs.backtest.grid import life
from beforehand.jobs.backtest.walk import context_of
from beforehand.jobs.probe.arms import Answer, Arms, Place, Subject, restore
from beforehand.jobs.probe.permutation import Detectable, detectable, holm, permutation_test
from beforehand.jobs.probe.redraw import Kept, OtherFuture, all_records
from beforehand.records.record import Record
from beforehand.records.rows import Context
from beforehand.records.world import PricePoint
from beforehand.runs.interval_columns import PREVIOUS
from beforehand.store.archive.reader import Archive
from beforehand.store.files import exclusive

MARKETS, MOST_SHOWN = 10, 3
"""Markets at each cut."""
LEVEL, CONFIDENCE = 0.01, 0.95
DRAWS = 20
PERMUTATIONS_OF_ONE = 19_999
CONFIRMED, AGAIN = 2, 6
"""How many cuts that differ are tried again, and how often, before anybody is accused."""
SIDE_BY_SIDE = 2
Floats = npt.NDArray[np.float64]
NOT_SEEN = (
    "what it takes from the web or from another service",
    "what a model's weights hold",
    "files outside the archive that hold the answers (a cache of an earlier run too), also where "
    "it finds the archive itself by another way, such as its parent's files under /proc",
    "what it does only at other instants than these, or only when it is not probed",
)


@dataclass(frozen=True)
class Difference:
    """A question that was answered otherwise when the future was another: at `time`, with the
    probabilities in both worlds (None where there was no answer)."""

    cut: datetime
    market_id: str
    time: datetime
    a: float | None
    b: float | None


@dataclass(frozen=True, repr=False)
class Probe:
    """What a probe found. `n` pairs of a cut and a market were tried; `differences` has the first
    answer of each pair that differed. `because` says what the answers depend on, in sentences.
    `undetected_below`: where nothing was found, a forecaster that looks in a larger share of pairs
    than this would have been found with a confidence of 95 %. `detectable`: for a forecaster with
    chance of its own, the shifts in a market's mean probability that would have been found with a
    power of 80 %: where it looks in `one` market of a cut, and where it looks in `all` of them.
    `files` are those that it read besides its code and the archive: the same in every world, so
    what it knows from them is not seen. `not_seen` lists what such a probe cannot see."""

    name: str
    n: int
    peeked: bool
    because: list[str]
    undetected_below: float | None
    deterministic: bool
    detectable: Detectable | None
    differences: list[Difference]
    failures: int
    reason: str | None
    contexts: int
    how: str
    not_seen: list[str]
    files: list[str] = field(default_factory=list)

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        found: dict[str, object] = dict(vars(self))
        found["differences"] = [
            {**vars(one), "cut": iso(one.cut), "time": iso(one.time)} for one in self.differences
        ]
        return found

    def __repr__(self) -> str:
        lines = []
        if self.peeked:
            lines.append(
                f"{self.name}: its answers depend on what came later, in "
                f"{len(self.differences)} of {self.n} (cut, market) pairs"
            )
            lines += [f"  {sentence}" for sentence in self.because]
        else:
            lines.append(
                f"{self.name}: 0 of {self.n} (cut, market) pairs depend on what came later"
            )
            if self.undetected_below is not None:
                share = 100 * self.undetected_below
                lines.append(f"  a share of {share:.2g} % or more would have been found (95 %)")
        if not self.deterministic and self.detectable is not None:
            one, every = (
                "no shift" if shift is None else f"a shift of {shift:.3f}"
                for shift in (self.detectable["one"], self.detectable["all"])
            )
            lines.append(
                f"  it has chance of its own: {every} in its mean probability in every market of "
                f"an instant, or {one} in one of them, would have been found (power 80 %)"
            )
        if self.failures:
            lines.append(
                f"  {self.failures} of {self.contexts} answers were failures, first: {self.reason}"
            )
        if self.files:
            shown = ", ".join(self.files[:MOST_SHOWN]) + (
                f" and {len(self.files) - MOST_SHOWN} more" if len(self.files) > MOST_SHOWN else ""
            )
            lines.append(
                f"  it looked at {shown}: the same in every world, or made by an earlier run, so "
                "this probe does not cover what it knows from there"
            )
        lines.append(f"  {self.how}; a probe cannot see {', '.join(self.not_seen)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Cut:
    """An instant, the markets that lived through it, and all their contexts until then."""

    t: datetime
    markets: list[str]
    contexts: list[Context]


@dataclass
class Seen:
    """What the arms of one cut said."""

    cut: Cut
    a: list[Answer]
    b: list[Answer]
    again: list[Answer]
    draws_a: list[Floats] = field(default_factory=list)
    draws_b: list[Floats] = field(default_factory=list)

    @property
    def same_twice(self) -> bool:
        """True if both arms in world A said the same."""
        return self.a == self.again

    @property
    def varies(self) -> bool:
        """True if any of the three arms said anything else than another."""
        return not self.a == self.b == self.again

    @property
    def answered(self) -> int:
        """How many of its markets got any answer: only those were tried."""
        said = zip(self.cut.contexts, self.a, self.b, strict=True)
        return len({c.market.id for c, a, b in said if a[0] is not None or b[0] is not None})

    def differences(self) -> list[Difference]:
        """The first answer of each market that is another one in world B."""
        found: dict[str, Difference] = {}
        for context, a, b in zip(self.cut.contexts, self.a, self.b, strict=True):
            name = context.market.id
            if a != b and name not in found:
                found[name] = Difference(self.cut.t, name, from_us(context.t), a[0], b[0])
        return list(found.values())


def probe(
    subject: Subject,
    place: Place,
    *,
    n: int = 200,
    every: timedelta = timedelta(days=7),
    draws: int = DRAWS,
    seed: int = 0,
    mounts: bool | None = None,
    explain: bool = True,
    progress: Progress = lambda step, done, total: None,
) -> Probe:
    """Probe a forecaster over `n` pairs of a cut and a market, MARKETS at each cut. Without
    `explain` it is not found out what an answer depends on, which takes the longest. Raises
    InputError where the world is too small, or where the forecaster cannot be opened."""
    lock = f"beforehand-probe-{digest(str(place.archive).encode())[:16]}.lock"
    busy = f"another probe is at work over {place.archive}"
    with exclusive(Path(gettempdir()) / lock, busy):  # Two would take each other's worlds.
        restore(place.archive)
        return _probe(subject, place, n, every, draws, seed, mounts, explain, progress)


def _probe(
    subject: Subject,
    place: Place,
    n: int,
    every: timedelta,
    draws: int,
    seed: int,
    mounts: bool | None,
    explain: bool,
    progress: Progress,
) -> Probe:
    archive = Archive(place.archive)
    kept = all_records(archive)
    cuts = _cuts(archive, place, kept, ceil(n / MARKETS), every, seed)
    if not cuts:
        raise InputError(
            f"{place.archive} has no instant at which {MARKETS} markets live on: it is too small "
            "for a probe"
        )
    draws = max(draws, _least_draws(len(cuts)))
    arms = Arms(subject, place, mounts)
    try:
        return _Probing(subject, arms, kept, place, cuts, draws, seed, explain, progress).run()
    finally:
        arms.close()


def _least_draws(tests: int) -> int:
    """The fewest draws in each world with which one of `tests` tests could find anything."""
    draws = 2
    while 2 / comb(2 * draws, draws) >= LEVEL / tests:
        draws += 1
    return draws


class _Probing:
    def __init__(
        self,
        subject: Subject,
        arms: Arms,
        kept: Kept,
        place: Place,
        cuts: list[Cut],
        draws: int,
        seed: int,
        explain: bool,
        progress: Progress,
    ) -> None:
        self._subject, self._arms, self._kept, self._place = subject, arms, kept, place
        self._cuts, self._draws, self._seed = cuts, draws, seed
        self._explain, self._progress, self._done = explain, progress, 0

    def run(self) -> Probe:
        """Every arm of every cut, and what follows from them."""
        first = self._arms.world("a", _all(self._kept))
        total = len(self._cuts)
        self._progress("worlds", 0, total)
        seen = [self._look(0, first)]  # It also finds out whether worlds can be mounted.
        with ThreadPoolExecutor(SIDE_BY_SIDE if self._arms.mounts else 1) as pool:
            seen += pool.map(lambda k: self._look(k, first), range(1, total))
            chance = not all(one.same_twice for one in seen) or not self._confirmed(seen, first)
            drawn = [k for k, one in enumerate(seen) if chance and one.varies]
            self._done = 0
            list(pool.map(lambda k: self._draw(seen[k], k, first, len(drawn)), drawn))
        found = [] if chance else [one for cut in seen for one in cut.differences()]
        because = []
        if found and self._explain:
            because.append(self._reason(next(one for one in seen if one.differences())))
        shifted, least = _shifts([seen[k] for k in drawn], self._seed)
        found += shifted
        if shifted:
            times = ", ".join(sorted({iso(one.cut)[:10] for one in shifted}))
            because.append(f"its draws differ between the two futures at {times} (p < {LEVEL})")
        n = sum(one.answered for one in seen)
        said = [answer for one in seen for answer in one.a]
        reason = next((error for p, error in said if p is None), None)
        if all(p is None for p, _ in said):
            raise InputError(f"{self._subject.name} gave no answer to look at: {reason}")
        return Probe(
            name=self._subject.name,
            n=n,
            peeked=bool(found),
            because=because,
            undetected_below=None if found or chance else 1 - (1 - CONFIDENCE) ** (1 / n),
            deterministic=not chance,
            detectable=least,
            differences=found,
            failures=sum(p is None for p, _ in said),
            reason=reason,
            contexts=len(said),
            how=self._how(),
            not_seen=self._not_seen(),
            files=sorted(self._arms.files),
        )

    def _confirmed(self, seen: Sequence[Seen], first: Path) -> bool:
        """False if arms of the first cuts that differ do not say the same again: then it was chance
        that differed from process to process, and not the future."""
        for k in [k for k, one in enumerate(seen) if one.differences()][:CONFIRMED]:
            one = seen[k]
            other = self._arms.world(f"c{k}", self._other(one.cut).records())
            try:
                for number in range(AGAIN):
                    self._progress("is it chance?", number, AGAIN)
                    for world, said in ((first, one.a), (other, one.b)):
                        if self._arms.ask(world, one.cut.contexts, iso(one.cut.t)) != said:
                            return False
            finally:
                self._arms.forget(other)
        return True

    def _look(self, k: int, first: Path) -> Seen:
        """The three arms of a cut."""
        cut = self._cuts[k]
        other = self._arms.world(f"b{k}", self._other(cut).records())
        try:
            now = iso(cut.t)
            a, b, again = (
                self._arms.ask(world, cut.contexts, now) for world in (first, other, first)
            )
        finally:
            self._arms.forget(other)
        self._done += 1
        self._progress("cuts", self._done, len(self._cuts))
        return Seen(cut, a, b, again)

    def _draw(self, seen: Seen, k: int, first: Path, total: int) -> None:
        """Draw the answers of both worlds again and again."""
        cut = seen.cut
        other = self._arms.world(f"d{k}", self._other(cut).records())
        try:
            for _ in range(self._draws):
                for world, kept in ((first, seen.draws_a), (other, seen.draws_b)):
                    said = self._arms.ask(world, cut.contexts, iso(cut.t))
                    kept.append(np.array([nan if p is None else p for p, _ in said]))
        finally:
            self._arms.forget(other)
        self._done += 1
        self._progress("draws", self._done, total)

    def _other(self, cut: Cut) -> OtherFuture:
        return OtherFuture(self._kept, cut.t, self._seed, self._place.grade, cut.markets)

    def _reason(self, seen: Seen) -> str:
        """What a cut's answers depend on. The same records in other files come first: who answers
        otherwise there looks at the files themselves. Else it is found by bisection: the first of
        the changes, in the order of the records, that makes the answers differ."""
        cut, other = seen.cut, self._other(seen.cut)
        low, high = 0, len(other.changes)  # The first `low` changes do not make them differ.
        done, total = 0, 1 + high.bit_length()

        def differs(*parts: Iterable[Record]) -> bool:
            nonlocal done
            self._progress("what it depends on", done, total)
            done += 1
            world = self._arms.world("bisect", *parts)
            return self._arms.ask(world, cut.contexts, iso(cut.t)) != seen.a

        halves = [
            (records[: len(records) // 2], records[len(records) // 2 :])
            for records in self._kept.values()
        ]
        if differs(*(chain.from_iterable(part) for part in zip(*halves, strict=True))):
            return (
                f"at {iso(cut.t)} it depends on the archive's files themselves: the same records "
                "in other files (another digest, other names and sizes) change its answers"
            )
        while high - low > 1:
            middle = (low + high) // 2
            if differs(other.records(lambda k, limit=middle: k < limit)):  # type: ignore[misc]
                high = middle
            else:
                low = middle
        found = other.changes[high - 1]
        return f"at {iso(cut.t)} it depends on {found.what}, known at {iso(found.known_at)}"

    def _how(self) -> str:
        if self._arms.mounts:
            return "each arm was a process of its own, with its world mounted at the archive's path"
        return "each arm was a process of its own, with its world moved to the archive's path"

    def _not_seen(self) -> list[str]:
        more = [] if self._arms.mounts else ["what it keeps in files of its own"]
        carried = ["what this session had in memory"] if self._subject.pickled else []
        return [*NOT_SEEN, *more, *carried]


def _all(kept: Kept) -> Iterable[Record]:
    return chain.from_iterable(kept.values())


def _shifts(seen: Sequence[Seen], seed: int) -> tuple[list[Difference], Detectable | None]:
    """For cuts with chance of their own: the markets of those where the two sets of draws differ,
    and the shifts in probability that would have been found."""
    if not seen:
        return [], None
    tests = [
        permutation_test(_markets(one, one.draws_a), _markets(one, one.draws_b), seed)
        for one in seen
    ]
    found = []
    for one, rejected in zip(seen, holm(tests, LEVEL), strict=True):
        if rejected:
            found += _shifted(one, seed)
    spread = float(np.mean([_markets(s, s.draws_a).std(axis=0, ddof=1).mean() for s in seen]))
    return found, detectable(spread, len(seen[0].draws_a), MARKETS, len(seen), LEVEL)


def _shifted(one: Seen, seed: int) -> list[Difference]:
    """The markets of a cut whose own draws differ, with their mean answers; the one that differs
    most where none does so by itself."""
    a, b = _markets(one, one.draws_a), _markets(one, one.draws_b)
    tests = [
        permutation_test(a[:, [k]], b[:, [k]], seed, PERMUTATIONS_OF_ONE)
        for k in range(len(one.cut.markets))
    ]
    chosen = [k for k, rejected in enumerate(holm(tests, LEVEL)) if rejected]
    found = []
    for k in chosen or [int(np.argmin(tests))]:
        market = one.cut.markets[k]
        t = max(context.t for context in one.cut.contexts if context.market.id == market)
        means = [round(float(draws[:, k].mean()), 6) for draws in (a, b)]
        found.append(Difference(one.cut.t, market, from_us(t), *means))
    return found


def _markets(one: Seen, draws: list[Floats]) -> Floats:
    """The draws (n,) of every context as the mean of each market's answers: (n, markets). What was
    not answered counts as -1: to fail is an answer too."""
    filled = np.nan_to_num(np.stack(draws), nan=-1.0)
    names = np.array([context.market.id for context in one.cut.contexts])
    return np.stack([filled[:, names == name].mean(axis=1) for name in one.cut.markets], axis=1)


def _cuts(
    archive: Archive, place: Place, kept: Kept, wanted: int, every: timedelta, seed: int
) -> list[Cut]:
    """Instants spread over the world's time, each with MARKETS markets that live on after it."""
    world = RecordedWorld(archive, place.grade)
    gateway = Gateway(world)
    full = gateway.full_view()
    lives: dict[str, npt.NDArray[np.int64]] = {}
    ends = {r.market_id: to_us(min(r.resolved_at, r.known_at)) for r in full.resolutions()}
    last = _last_known(kept["price"])
    for name, first in full.first_prices().items():
        end = min(ends.get(name, last[name]), last[name])
        lives[name] = life(first, from_us(end), every, "aligned").t
    counted: dict[int, list[str]] = {}
    for name, t in sorted(lives.items()):
        for instant in t.tolist():
            counted.setdefault(instant, []).append(name)
    fitting = sorted(t for t, names in counted.items() if len(names) >= MARKETS)
    places = np.linspace(0, len(fitting) - 1, min(wanted, len(fitting))).round().astype(int)
    rng, found = np.random.default_rng([seed, 3]), []
    for k in dict.fromkeys(places.tolist()):
        t = fitting[k]
        chosen = sorted(rng.choice(counted[t], MARKETS, replace=False).tolist())
        contexts = _contexts(gateway, place, [(n, lives[n][lives[n] <= t]) for n in chosen])
        found.append(Cut(from_us(t), chosen, contexts))
    return found


def _last_known(points: Iterable[PricePoint]) -> dict[str, int]:
    found: dict[str, int] = {}
    for point in points:
        known = to_us(point.known_at)
        found[point.market_id] = max(found.get(point.market_id, known), known)
    return found


def _contexts(
    gateway: Gateway, place: Place, pairs: Sequence[tuple[str, npt.NDArray[np.int64]]]
) -> list[Context]:
    """The contexts of these markets, in order of time; earlier aggregates are the prices then."""
    panel = gateway.panel(pairs, evidence=Evidence(place.max_results))
    before: dict[str, list[tuple[int, float]]] = {}
    made = []
    for k in range(len(panel)):
        earlier = before.setdefault(panel.market[k], [])
        made.append(context_of(panel, k, earlier[-PREVIOUS:]))
        if panel.price[k] == panel.price[k]:
            earlier.append((int(panel.t[k]), float(panel.price[k])))
    return sorted(made, key=lambda context: (context.t, context.market.id))
