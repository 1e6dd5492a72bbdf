"""An archive at a URL: fetched once, checked against its digests, from a real server."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from beforehand.errors import BeforehandError, Corrupt, InputError, NotConfigured, Unavailable
from beforehand.records.world import PricePoint
from beforehand.store.archive import remote
from beforehand.store.archive.manifest import seal_of
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.remote import fetch
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.files import write_json
from website import serving

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def grow(path: Path, days: int, name: str) -> None:
    """One more import: a price a day of a market of its own."""
    ArchiveWriter(path).add(
        [
            PricePoint(
                market_id=f"POLYMARKET:{name}",
                price=i / 10,
                observed_at=DAY + timedelta(days=i),
                known_at=DAY + timedelta(days=i),
            )
            for i in range(days)
        ],
        importer="test",
        source=name,
        source_digest=name,
        recorded_at=DAY + timedelta(days=30),
    )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "site" / "world"
    grow(path, 3, "a")
    grow(path, 4, "b")
    return path


def test_each_segment_is_fetched_once(archive: Path, tmp_path: Path) -> None:
    with serving(archive.parent) as served:
        said: list[str] = []
        url = f"{served.url}/world/"
        folder = fetch(url, tmp_path / "cache", said.append)
        here, there = Archive(folder), Archive(archive)
        assert here.digest == there.digest
        assert here.verify() == there.verify() == []
        assert said == [f"{served.url}/world: fetching 2 of 2 segments"]
        served.asked.clear()
        assert fetch(url, tmp_path / "cache", said.append) == folder
        assert served.asked == ["/world/archive.json"]
        grow(archive, 5, "c")
        served.asked.clear()
        assert Archive(fetch(url, tmp_path / "cache")).digest == Archive(archive).digest
        assert len(served.asked) == 2, "the manifest, and the new segment"
        assert len(said) == 1


def test_a_damaged_copy_is_fetched_again(archive: Path, tmp_path: Path) -> None:
    with serving(archive) as served:
        folder = fetch(served.url, tmp_path / "cache")
        damaged = next((folder / "segments").iterdir())
        damaged.write_bytes(damaged.read_bytes()[:-1])
        assert Archive(folder).verify()
        assert not Archive(fetch(served.url, tmp_path / "cache")).verify()


def test_what_does_not_match_its_digest_is_refused(archive: Path, tmp_path: Path) -> None:
    segment = next((archive / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    with serving(archive) as served:
        with pytest.raises(Corrupt, match="do not match the digest"):
            fetch(served.url, tmp_path / "cache")
        assert not list((tmp_path / "cache").rglob("archive.json")), "half an archive is none"
        assert not list((tmp_path / "cache").rglob(segment.name))
        segment.unlink()
        with pytest.raises(Corrupt, match="the file is missing"):
            fetch(served.url, tmp_path / "cache")


@pytest.mark.parametrize(
    ("field", "value"), [("kind", "../../../../evil"), ("records", 4), ("digest", "../" * 10)]
)
def test_a_manifest_from_outside_names_no_path(
    archive: Path, tmp_path: Path, field: str, value: object
) -> None:
    """Sealed or not: a manifest that somebody made is not followed out of the cache."""
    manifest = orjson.loads((archive / "archive.json").read_bytes())
    manifest["segments"][0][field] = value
    if field == "kind":
        manifest["seal"] = seal_of(manifest)
    write_json(archive / "archive.json", manifest)
    with serving(archive) as served, pytest.raises(Corrupt):
        fetch(served.url, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_server_that_is_down_for_a_moment(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSE_S", 0.001)
    with serving(archive) as served:
        served.status += [503, 500]
        fetch(served.url, tmp_path / "cache")
        served.status += [503] * remote.TRIES
        with pytest.raises(Unavailable, match="status 503"):
            fetch(served.url, tmp_path / "cache")
    with pytest.raises(Unavailable, match="did not answer in 3 tries"):
        fetch(served.url, tmp_path / "cache")


@pytest.mark.parametrize(
    ("url", "kind", "sentence"),
    [
        ("nothing://host/world", InputError, "cannot be read"),
        ("dropbox://world", NotConfigured, "needs a package .*dropbox"),
        ("http://127.0.0.1:1/world?token=secret", InputError, "no \\? and no #"),
        ("file:///nowhere/world", NotConfigured, "there is no archive at"),
    ],
)
def test_a_url_that_cannot_be_read(
    url: str, kind: type[BeforehandError], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=sentence) as raised:
        fetch(url, tmp_path)
    assert "secret" not in str(raised.value)


def test_a_password_is_not_shown(archive: Path, tmp_path: Path) -> None:
    with serving(archive) as served:
        served.status += [401]
        said: list[str] = []
        url = served.url.replace("http://", "http://user:secret@")
        with pytest.raises(NotConfigured, match="credentials") as raised:
            fetch(url, tmp_path / "cache")
        fetch(url, tmp_path / "cache", said.append)
    assert "secret" not in str(raised.value) + "".join(said)


def test_a_mounted_path_is_a_url_too(archive: Path, tmp_path: Path) -> None:
    assert Archive(fetch(f"file://{archive}", tmp_path / "c")).digest == Archive(archive).digest
