"""Packs: many small imports in few files, and nothing else is new."""

import gzip
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.errors import Corrupt
from beforehand.records.world import Document, PricePoint
from beforehand.store.archive import packs, writer
from beforehand.store.archive.manifest import read_manifest, write_manifest
from beforehand.store.archive.reader import KINDS, Archive
from beforehand.store.archive.remote import fetch
from beforehand.store.archive.writer import ArchiveWriter
from experiments import Out, told
from website import serving

START = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDS = 40


def grow(path: Path, k: int) -> None:
    """A round of a recorder: a price and a page."""
    at = START + timedelta(hours=k)
    ArchiveWriter(path).add(
        [
            PricePoint(market_id="KALSHI:a", price=k % 100 / 100, observed_at=at, known_at=at),
            Document(
                id=f"web:{k}",
                title=f"Page {k} says secret{k}",
                url=f"https://example.org/{k}",
                source="example.org",
                published_at=at,
                known_at=at,
                captured_how="live",
            ),
        ],
        importer="record",
        source=f"round {k}",
        source_digest=f"round {k}",
        recorded_at=at,
    )


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rounds") / "archive"
    for k in range(ROUNDS):
        grow(path, k)
    return path


@pytest.fixture
def archive(rounds: Path, tmp_path: Path) -> Path:
    return shutil.copytree(rounds, tmp_path / "world")


def files(path: Path) -> list[str]:
    return sorted(one.name for one in (path / "segments").iterdir())


def holds(path: Path, stored_until: datetime | None = None) -> dict[str, list[bytes]]:
    opened = Archive(path, stored_until)
    return {kind: list(opened.lines(kind)) for kind in KINDS}


@pytest.mark.parametrize("rounds_of", [1, ROUNDS])
def test_what_another_version_packed_otherwise_stays_as_it_is(
    rounds_of: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same content in other bytes: one segment alone, and a pack that is full already."""
    path = tmp_path / "world"
    with monkeypatch.context() as other:
        other.setattr(packs, "packed", lambda content: gzip.compress(content, 4, mtime=0))
        for k in range(rounds_of):
            grow(path, k)
        ArchiveWriter(path).compact()
    before, bytes_before = files(path), [one.read_bytes() for one in path.rglob("*.gz")]
    assert ArchiveWriter(path).compact().files == 2
    assert files(path) == before
    assert [one.read_bytes() for one in path.rglob("*.gz")] == bytes_before
    assert Archive(path).verify() == []
    assert any(packs.packed(gzip.decompress(old)) != old for old in bytes_before)


def test_the_archive_is_the_same(rounds: Path, archive: Path) -> None:
    done = ArchiveWriter(archive).compact()
    assert (done.segments, done.files_before, done.files) == (2 * ROUNDS, 2 * ROUNDS, 2)
    assert Archive(archive).digest == Archive(rounds).digest
    assert Archive(archive).verify() == []
    for k in (0, ROUNDS // 2, ROUNDS):
        until = START + timedelta(hours=k)
        assert holds(archive, until) == holds(rounds, until)
    assert holds(archive) == holds(rounds)
    one, other = (Archive(path).series()["KALSHI:a"] for path in (archive, rounds))
    assert one.known_at.tolist() == other.known_at.tolist()
    assert one.price.tolist() == other.price.tolist()
    before = Archive(rounds).manifest["segments"]
    stamps = [(s["digest"], s["recorded_at"], s["import"], s["records"]) for s in before]
    after = Archive(archive).manifest["segments"]
    assert [(s["digest"], s["recorded_at"], s["import"], s["records"]) for s in after] == stamps


def test_who_reads_meanwhile_is_not_disturbed(rounds: Path, archive: Path) -> None:
    opened = Archive(archive)
    ArchiveWriter(archive).compact()
    assert list(opened.lines("document")) == list(Archive(rounds).lines("document"))
    assert len(files(archive)) == 2 * ROUNDS + 2
    done = ArchiveWriter(archive).prune()
    assert done.files == 2 * ROUNDS
    assert len(files(archive)) == 2
    assert Archive(archive).verify() == Archive(archive).strays() == []


def test_again_changes_nothing_and_later_imports_are_taken_in(archive: Path) -> None:
    ArchiveWriter(archive).compact()
    first = (archive / "archive.json").read_bytes()
    ArchiveWriter(archive).compact()
    assert (archive / "archive.json").read_bytes() == first
    grow(archive, ROUNDS)
    grow(archive, 0)  # It is there already.
    expected, digest = holds(archive), Archive(archive).digest
    assert len(expected["document"]) == ROUNDS + 1
    done = ArchiveWriter(archive).compact()
    assert (done.files_before, done.files) == (4, 2)
    assert (holds(archive), Archive(archive).digest) == (expected, digest)
    ArchiveWriter(archive).prune()
    assert Archive(archive).verify() == []


def test_packs_have_a_bound(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = holds(archive)
    monkeypatch.setattr(packs, "LARGEST", 2000)
    done = ArchiveWriter(archive).compact()
    assert 5 < done.files < ROUNDS
    assert holds(archive) == expected
    for name in (one for one in files(archive) if "-pack-" in one):
        assert len(gzip.decompress((archive / "segments" / name).read_bytes())) <= 2000
    monkeypatch.setattr(packs, "SMALL", 0)  # Files of their own are large now.
    grow(archive, ROUNDS)
    after = ArchiveWriter(archive).compact()
    assert after.files == after.files_before == done.files + 2


def test_an_import_that_is_taken_out_leaves_its_pack(archive: Path) -> None:
    expected = [line for line in holds(archive)["document"] if b"secret7" not in line]
    ArchiveWriter(archive).compact()
    gone = ArchiveWriter(archive).prune(["0008-record"])
    assert gone.records == {"document": 1, "price": 1}
    assert holds(archive)["document"] == expected
    assert Archive(archive).verify() == []
    for path in archive.rglob("*.gz"):
        assert b"secret7 " not in gzip.decompress(path.read_bytes())
        assert b'secret7"' not in gzip.decompress(path.read_bytes())


def test_a_write_that_fails_loses_nothing(
    rounds: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "write_manifest", full)
        with pytest.raises(OSError):
            ArchiveWriter(archive).compact()
    assert holds(archive) == holds(rounds)
    assert len(Archive(archive).strays()) == 2
    assert ArchiveWriter(archive).compact().files == 2


def test_every_changed_byte_is_seen(archive: Path) -> None:
    ArchiveWriter(archive).compact()
    ArchiveWriter(archive).prune()
    (pack,) = archive.glob("segments/price-pack-*")
    whole = pack.read_bytes()
    pack.chmod(0o644)
    for at in range(0, len(whole), 97):
        pack.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(Corrupt, match="price-pack"):
            list(Archive(archive).lines("price"))
    pack.write_bytes(whole)
    # A place in a pack that holds other lines than the segment's digest says.
    manifest = read_manifest(archive)
    packed = [s for s in manifest["segments"] if s["kind"] == "price"]
    packed[3]["pack"]["start"] -= 1
    write_manifest(archive, manifest)
    with pytest.raises(Corrupt, match="what it holds of 0004-record was changed"):
        list(Archive(archive).lines("price"))
    assert any("0004-record" in problem for problem in Archive(archive).verify())
    for wrong in ({"digest": "x"}, {"digest": "0" * 64, "start": -1, "size": 3}, [1]):
        packed[3]["pack"] = wrong  # type: ignore[typeddict-item]
        write_manifest(archive, manifest)
        with pytest.raises(Corrupt, match="not a beforehand-archive/1 manifest"):
            read_manifest(archive)


def test_a_pack_is_fetched_once(archive: Path, tmp_path: Path) -> None:
    ArchiveWriter(archive).compact()
    with serving(archive.parent) as served:
        folder = fetch(f"{served.url}/world", tmp_path / "cache")
        assert len([name for name in served.asked if "segments" in name]) == 2
    assert holds(folder) == holds(archive)
    assert Archive(folder).verify() == []


def test_a_run_can_be_verified_and_made_again(home: Path, capsys: Out) -> None:
    made = ("world", "simulate", "--dates", "4", "--json")
    assert cli([*made]) == 0
    capsys.readouterr()
    archive = Home(home).archive
    for k in range(5):
        grow(archive, k)
    assert cli(["backtest", "run", "--run-id", "before"]) == 0
    assert cli(["world", "compact"]) == 0
    assert "before in" in capsys.readouterr().out
    assert cli(["world", "prune", "--yes"]) == 0
    assert cli(["runs", "verify", "before"]) == 0
    assert cli(["backtest", "run", "--run-id", "after"]) == 0
    capsys.readouterr()
    scores = [
        json.loads((Home(home).runs / r / "run.json").read_bytes()) for r in ("before", "after")
    ]
    assert scores[0]["archive_digest"] == scores[1]["archive_digest"]
    assert scores[0]["files"]["predictions.jsonl"] == scores[1]["files"]["predictions.jsonl"]
    assert cli(["world", "compact"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    found = told(capsys, "world", "compact")
    assert found["files"] == found["files_before"] < found["segments"]


def test_there_must_be_an_archive(home: Path, capsys: Out) -> None:
    assert cli(["world", "compact"]) != 0
    assert "there is no archive" in capsys.readouterr().err
