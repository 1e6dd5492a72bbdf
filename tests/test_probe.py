"""The counterfactual future: who looks ahead is caught, and nobody else is accused.

`make chaos-probe` tries every peeker over 200 pairs of a cut and a market, `make chaos-honest`
every honest forecaster over 1,000; other runs some of each over ten.
"""

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beforehand as bh
from beforehand.clock import SystemClock
from beforehand.config import Home
from beforehand.errors import Corrupt, ExecutionFailed, InputError, NotConfigured, Unavailable
from beforehand.forecast.callables import code_digest, load, place_of
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.probe.arms import ASIDE, Arms, Place, Subject
from beforehand.jobs.probe.permutation import detectable, holm, permutation_test
from beforehand.jobs.probe.probe import probe
from beforehand.jobs.probe.redraw import OtherFuture, all_records
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.world.render import store_world
from beforehand.world.simulate import SimConfig
from experiments import Out, told
from peekers import BASELINES, HONEST, OF_THE_OUTCOME, PEEKERS
from proofs import FULL, count, some

N_PEEKERS = count("futures for each peeker", 10, 200)
N_HONEST = count("futures for each honest forecaster", 10, 1000)
DRAWS = 20 if FULL else 8
SMOKE = ("of_files", "OfItsOwnCache", "of_the_context_itself")
"""One that reads the disk, one that keeps what it saw, one that looks into memory."""
CONFIG = SimConfig(seed=5, dates=110, events_per_date=1.0) if FULL else SimConfig(5, 6)
EVERY = timedelta(days=5 if FULL else 7)  # The world of the full count has a hundred such instants.


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world, with the forecasters beside it."""
    folder = tmp_path_factory.mktemp("probed")
    store_world(CONFIG, folder / "archive", SystemClock())
    shutil.copy(Path(__file__).parent / "peekers.py", folder / "peekers.py")
    return folder


def probed(place: Path, name: str, n: int, **more: object) -> bh.Probe:
    entry = name if name in BASELINES else f"python:{place / 'peekers.py'}:{name}"
    subject = Subject(entry, name, folder=place)
    where = Place(place / "archive", Home(place / "home"), "captured", 5, 300.0)
    return probe(subject, where, n=n, every=EVERY, draws=DRAWS, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", some("peekers", SMOKE, PEEKERS))
def test_who_looks_ahead_is_caught(place: Path, name: str) -> None:
    found = probed(place, name, N_PEEKERS, explain=False)
    assert found.deterministic, name
    assert found.peeked, name
    assert found.undetected_below is None
    assert "mounted" in found.how
    if name in OF_THE_OUTCOME:
        assert len(found.differences) == found.n, "no pair escapes who looks at the outcome alone"
    assert not (place / "cache.json").exists(), "what it wrote is gone with its process"


@pytest.mark.parametrize(
    "name", some("honest forecasters", ("looks_back", "drift"), [*HONEST, *BASELINES])
)
def test_who_does_not_is_not_accused(place: Path, name: str) -> None:
    found = probed(place, name, N_HONEST)
    chancy = name in ("by_a_fast_clock", "by_chance")
    if chancy and found.peeked:  # One of a hundred is accused by chance: that is its level.
        found = probed(place, name, N_HONEST)
    assert not found.peeked, found
    bound = None if chancy else pytest.approx(1 - 0.05 ** (1 / found.n))
    assert found.undetected_below == bound
    assert found.deterministic is not chancy, name
    assert (found.detectable is not None) == chancy
    assert found.failures == 0
    assert not (place / "seen.json").exists()


def test_what_an_answer_depends_on(place: Path) -> None:
    found = probed(place, "of_a_kept_view", 10)
    assert "how SIM" in found.because[0]
    assert "resolved" in found.because[0]
    named = found.because[0].split("how ")[1].split()[0]
    assert named in {one.market_id for one in found.differences}
    of_bytes = ("of_the_digest", "of_sizes", "of_file_order", "of_the_manifest")
    for name in of_bytes if FULL else ():
        assert "the archive's files themselves" in probed(place, name, 10).because[0], name
    for name in ("of_every_later_price", "of_a_later_price") if FULL else ():
        assert "it depends on the price of" in probed(place, name, 10).because[0], name


def test_moved_to_the_archives_path(place: Path) -> None:
    """Where nothing can be mounted: the same verdicts, the archive as it was."""
    archive = Archive(place / "archive")
    before, digest = sorted(os.listdir(place)), archive.digest
    assert probed(place, "of_files", 10, mounts=False, explain=False).peeked
    if FULL:
        honest = probed(place, "looks_back", 10, mounts=False)
        assert not honest.peeked
        assert "what it keeps in files of its own" in honest.not_seen
    assert Archive(place / "archive").digest == digest
    assert sorted(os.listdir(place)) == before


@pytest.mark.chaos
def test_nobody_meets_a_swapped_world(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a probe moves worlds to the archive's path, nobody else reads or writes there, and no
    other probe begins."""
    archive, refused = place / "archive", list[Path]()
    digest, swapped = Archive(archive).digest, Arms._swapped

    @contextmanager
    def looked_at(arms: Arms, world: Path) -> Iterator[None]:
        with swapped(arms, world):
            before = Archive(world).digest
            with pytest.raises(NotConfigured, match="a probe is at work here"):
                bh.open_world(archive)
            with pytest.raises(NotConfigured, match="a probe is at work here"):
                store_world(CONFIG, archive, SystemClock())
            yield
            assert Archive(world).digest == before
            refused.append(world)

    def look(step: str, done: int, total: int) -> None:
        if step == "cuts":  # Between two cuts the archive is in its place again.
            assert Archive(archive).digest == digest
            with pytest.raises(Unavailable, match="another probe is at work over"):
                probed(place, "market", 10)

    def meddle() -> None:
        """Store what the archive holds already, at every moment: where that is let in, it changes
        nothing, and anywhere else it would."""
        while not over.is_set():
            with suppress(NotConfigured, InputError, Corrupt, Unavailable):
                assert bh.open_world(archive).digest == digest
            with suppress(NotConfigured, InputError, Corrupt, Unavailable):
                store_world(CONFIG, archive, SystemClock())

    monkeypatch.setattr(Arms, "_swapped", looked_at)
    over = threading.Event()
    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        found = probed(place, "of_files", 10, mounts=False, explain=False, progress=look)
    finally:
        over.set()
        meddler.join()
    assert found.peeked
    assert len(refused) > 10
    assert Archive(archive).digest == digest


def test_a_place_with_odd_letters(place: Path, tmp_path: Path) -> None:
    """Paths with what the mount options separate by; a helper beside the file is part of it."""
    odd = tmp_path / "a, b:c \\ d"
    shutil.copytree(place / "archive", odd / "archive")
    (odd / "mine.py").write_text(
        "def f(context):\n    from helper import p\n    return p(context)\n"
    )
    (odd / "helper.py").write_text("def p(context):\n    return context.odds / 2\n")
    where = Place(odd / "archive", Home(odd / "home"), "captured", 5, 300.0)
    entry = f"python:{odd / 'mine.py'}:f"
    (odd / "sitecustomize.py").touch()
    subject = Subject(entry, "f", folder=odd)
    sys.path.insert(0, str(odd))
    try:
        found = probe(subject, where, n=10, every=EVERY, draws=DRAWS)
        first = code_digest(load(entry.removeprefix("python:")).callee)
        (odd / "helper.py").write_text("def p(context):\n    return context.odds / 3\n")
        second = code_digest(load(entry.removeprefix("python:")).callee)
    finally:
        sys.path.remove(str(odd))
    assert not found.peeked
    assert "mounted" in found.how
    assert first != second


def test_an_interrupted_probe_leaves_the_archive_recoverable(place: Path) -> None:
    archive, aside = place / "archive", place / f"archive{ASIDE}"
    digest = Archive(archive).digest
    archive.rename(aside)
    archive.symlink_to(place / "gone")
    with pytest.raises(NotConfigured, match="a probe is at work here, or was interrupted"):
        bh.open_world(archive)
    assert not probed(place, "market", 10, mounts=False).peeked
    assert not aside.exists()
    assert Archive(archive).digest == digest


def test_the_other_future_is_the_same_until_then(place: Path, tmp_path: Path) -> None:
    """Record for record up to T, in order; every View, panel and search at T alike; and after T
    something of each kind differs."""
    kept = all_records(Archive(place / "archive"))
    cut = bh.open_world(place / "archive").at("2025-02-03").t
    other = OtherFuture(kept, cut)
    worlds = []
    for name, records in (
        ("a", (r for kind in kept.values() for r in kind)),
        ("b", other.records()),
    ):
        ArchiveWriter(tmp_path / name).add(
            records, importer="t", source="t", source_digest="t", recorded_at=cut
        )
        worlds.append(RecordedWorld(Archive(tmp_path / name)))
    views = [Gateway(world).at(cut) for world in worlds]
    assert views[0].markets() == views[1].markets()
    assert views[0].resolutions() == views[1].resolutions()
    assert views[0].documents(limit=1000) == views[1].documents(limit=1000)
    names = [m.id for m in views[0].markets()]
    for name in names:
        assert views[0].history(name) == views[1].history(name)
        assert views[0].search(name) == views[1].search(name)
    pairs = [(name, np.array([int(cut.timestamp()) * 1_000_000])) for name in names]
    panels = [Gateway(world).panel(pairs, evidence=Evidence(5)) for world in worlds]
    assert panels[0].documents == panels[1].documents
    assert np.array_equal(panels[0].base_rate, panels[1].base_rate)
    kinds = {change.kind for change in other.changes}
    assert kinds >= {"market", "price", "document", "resolution", "forecast", "event"}
    assert all(c.known_at > cut for c in other.changes if c.kind not in ("document", "observation"))
    late = [Gateway(world).full_view().resolutions() for world in worlds]
    flipped = sum(a.payout != b.payout for a, b in zip(*late, strict=True) if a.known_at > cut)
    assert 0.25 < flipped / len(late[0]) < 0.75
    assert [r for r in late[0] if r.known_at <= cut] == [
        r for r in late[1] if r.market_id in {x.market_id for x in late[0] if x.known_at <= cut}
    ]


def test_from_python_and_on_the_card(place: Path, home: Path, capsys: Out) -> None:
    world = bh.open_world(place / "archive")
    few: Any = {"every": "56d", "draws": 200, "placebo": 0, "progress": False}

    @bh.forecaster
    def mine(context: bh.Context) -> float:
        return 0.5 * context.odds

    found = bh.probe(mine, world, n=10, progress=False)
    assert not found.peeked
    assert "what this session had in memory" in found.not_seen
    code = f"python:{place / 'peekers.py'}:of_files"
    caught = told(
        capsys, "backtest", "probe", code, "--n", "10", "--archive", str(world.path), code=1
    )
    assert caught["peeked"]
    assert "how SIM" in caught["because"][0]
    run = bh.backtest(world, [mine, code], **few)
    assert run["mine"].isolation == "probed (0 of 10 futures)"
    assert run["of_files"].isolation == "caught by a probe"
    other = bh.backtest(world, code.replace("of_files", "of_sizes"), **few)
    assert other["of_sizes"].isolation == "trusted", "another function of the same file"
    with (place / "peekers.py").open("a") as file:
        file.write("# A comment makes other code of it, and no honest one.\n")
    changed = told(
        capsys, "backtest", "run", "--forecasters", code, "--archive", str(world.path), "--every",
        "28d", "--draws", "200", "--placebo", "0",
    )  # fmt: skip
    row = next(r for r in changed["leaderboard"] if r["forecaster"] == "of_files")
    assert row["isolation"] == "trusted, caught before it was changed"
    assert row["verdict"] != "beats the market"
    assert run["of_files"].verdict != "beats the market"
    assert any("a probe found that it looks ahead" in why for why in run["of_files"].reasons) or (
        run["of_files"].verdict == "not shown"
    )


@pytest.mark.chaos
def test_what_a_session_holds_may_be_fitted(place: Path, home: Path) -> None:
    world, held = bh.open_world(place / "archive"), {"SIM:m0001": 0.9}

    @bh.forecaster
    def fitted(context: bh.Context) -> float:
        return held.get(context.market.id, 0.5)

    assert not bh.probe(fitted, world, n=10, progress=False).peeked
    few: Any = {"every": "56d", "draws": 200, "placebo": 0, "progress": False}
    fits = bh.backtest(world, fitted, **few)["fitted"]
    assert fits.isolation is not None
    assert fits.isolation.startswith("trusted (0 of 10 futures, but what its session holds")


RARE = """
import secrets


class Rare:
    def __init__(self):
        self.shift = 0.01 if secrets.randbelow(3) == 0 else 0.0

    def decide(self, context):
        return 0.9 * context.odds + self.shift
"""


@pytest.mark.chaos
def test_chance_of_a_process_is_not_the_future(place: Path, tmp_path: Path) -> None:
    """One that throws a die where it begins: by luck its arms look like a peeker's."""
    (tmp_path / "rare.py").write_text(RARE)
    where = Place(place / "archive", Home(place / "home"), "captured", 5, 300.0)
    for seed in range(20):
        subject = Subject(f"python:{tmp_path / 'rare.py'}:Rare", "Rare", folder=tmp_path)
        found = probe(subject, where, n=10, draws=DRAWS, seed=seed)
        assert not found.peeked, (seed, found)


def test_what_an_earlier_version_is() -> None:
    """A name in a file; not a lambda, and nothing of a notebook."""
    place = place_of(test_what_an_earlier_version_is)
    assert place == f"{Path(__file__).resolve()}:test_what_an_earlier_version_is"
    names: dict[str, object] = {}
    exec("def mine(context): return 0.5", names)  # As a notebook's cell.
    for other in (names["mine"], lambda context: 0.5, Subject("x", "y")):
        assert place_of(other) is None


def test_what_cannot_be_probed(place: Path, capsys: Out, tmp_path: Path) -> None:
    world = bh.open_world(place / "archive")
    for name, said in (
        ("http://localhost:1/x", "a probe starts the code itself"),
        ("scripted", "a probe starts the code itself"),
        ("python:nothing_here:x", "there is no module"),
    ):
        with pytest.raises(InputError, match=said):
            bh.probe(name, world, progress=False)
    with pytest.raises(InputError, match="n must lie between 10"):
        bh.probe("market", world, n=3)
    (tmp_path / "dies.py").write_text("import os\n\n\ndef f(context):\n    os._exit(3)\n")
    with pytest.raises(ExecutionFailed, match="ended its process with code 3"):
        bh.probe(f"python:{tmp_path / 'dies.py'}:f", world, n=10, progress=False)
    (tmp_path / "slow.py").write_text("import time\n\n\ndef f(context):\n    time.sleep(9)\n")
    with pytest.raises(ExecutionFailed, match="took longer than 3 s"):
        bh.probe(f"python:{tmp_path / 'slow.py'}:f", world, n=10, timeout=3, progress=False)
    small = bh.simulate(seed=1, path=tmp_path / "small", dates=1)
    with pytest.raises(InputError, match="too small for a probe"):
        bh.probe("market", small, progress=False)


def test_the_permutation_test() -> None:
    """A shift is found, no shift is not: about 1 in 20 at 5 %, whatever the figures' scale."""
    rng = np.random.default_rng(0)
    p = [
        permutation_test(rng.normal(0, 1, (20, 3)), rng.normal(0, 1, (20, 3)), k, 999)
        for k in range(200)
    ]
    assert 0.01 <= np.mean([x <= 0.05 for x in p]) <= 0.1
    shifted = rng.normal(0, 1, (20, 3)) + np.array([3.0, 0.0, 0.0])
    assert permutation_test(rng.normal(0, 1, (20, 3)), shifted) < 0.001
    assert permutation_test(np.ones((5, 2)), np.ones((5, 2))) == 1.0
    assert holm([0.001, 0.04, 0.03], 0.05) == [True, False, False]
    assert holm([0.001, 0.02, 0.03], 0.05) == [True, True, True]


def test_the_shift_that_is_found() -> None:
    """What `detectable` says is found with a power of 80 %, is: in one of ten figures, and in all;
    and half of it is not."""
    least = detectable(1.0, 20, 10, tests=5, level=0.01)
    rng, figures = np.random.default_rng(1), np.arange(10)
    for shifted, far, power in (
        (figures < 1, least["one"], 0.8),
        (figures < 10, least["all"], 0.8),
        (figures < 1, least["one"] / 2, 0.1),
    ):
        p = [
            permutation_test(
                rng.normal(0, 1, (20, 10)), rng.normal(0, 1, (20, 10)) + far * shifted, k, 2_499
            )
            for k in range(100)
        ]
        assert abs(np.mean([x <= 0.01 / 5 for x in p]) - power) < 0.15
