"""The archive: imports that change nothing, two time axes, and a flipped byte that is found."""

import json
import shutil
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from beforehand.clock import parse_instant, to_us
from beforehand.errors import Corrupt, NotConfigured, Unavailable
from beforehand.ids import digest
from beforehand.records.world import Document, Market, PricePoint, Resolution
from beforehand.store.archive.reader import Archive, Series
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.files import Reject, exclusive
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

T = parse_instant("2026-01-01T00:00:00Z")


def price(p: float, observed: int, known: int, market: str = "A:x") -> PricePoint:
    return PricePoint(
        market_id=market,
        price=p,
        observed_at=T + timedelta(hours=observed),
        known_at=T + timedelta(hours=known),
    )


def add(path: Path, made: list, *, source: str = "s", day: int = 0):  # type: ignore[no-untyped-def,type-arg]
    return ArchiveWriter(path).add(
        made,
        importer="test",
        source=source,
        source_digest=source,
        recorded_at=T + timedelta(days=day),
    )


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    made = list(records(SimConfig(seed=5, dates=4)))
    first = add(tmp_path, made)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    second = add(tmp_path, made, day=3)
    assert not second.new
    assert sum(second.same.values()) == sum(first.new.values()) == len(made)
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_only_new_points_are_stored_and_corrections_are_kept(tmp_path: Path) -> None:
    add(tmp_path, [price(0.1, 0, 1), price(0.2, 1, 2)])
    report = add(tmp_path, [price(0.2, 1, 2), price(0.3, 1, 5)], source="again", day=1)
    assert (report.new, report.same) == ({"price": 1}, {"price": 1})
    series = Archive(tmp_path).series()["A:x"]
    assert series.price.tolist() == [0.1, 0.2, 0.3]


def test_stored_until_is_the_second_time_axis(tmp_path: Path) -> None:
    add(tmp_path, [price(0.1, 0, 1)])
    old = Archive(tmp_path).digest
    add(tmp_path, [price(0.2, 1, 2)], source="later", day=2)
    then = Archive(tmp_path, stored_until=T + timedelta(days=1))
    assert then.digest == old != Archive(tmp_path).digest
    assert len(then.series()["A:x"]) == 1


def test_same_content_same_digest_whenever_stored(tmp_path: Path) -> None:
    made = list(records(SimConfig(seed=1, dates=3)))
    add(tmp_path / "a", made)
    add(tmp_path / "b", made, day=9)
    assert Archive(tmp_path / "a").digest == Archive(tmp_path / "b").digest


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    add(
        tmp_path,
        [
            price(0.1, 0, 1),
            Document(id="d", title="t", known_at=T, text_known_at=T),
            Market(id="A:x", venue="A", native_id="x", question="q", known_at=T),
        ],
    )
    assert Archive(tmp_path).verify() == []
    files = [p for p in tmp_path.rglob("*") if p.suffix in (".gz", ".json")]
    assert len(files) == 4
    checked = 0
    for path in files:
        good = path.read_bytes()
        path.chmod(0o644)
        for at in range(len(good)):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            try:
                found = Archive(tmp_path).verify()
            except Exception as error:
                found = [str(error)]
            assert found, f"{path.name} byte {at}"
            checked += 1
        path.write_bytes(good)
    assert checked > 500
    (tmp_path / "segments" / "price-x.jsonl.gz").write_bytes(b"")
    assert Archive(tmp_path).verify() == []
    assert Archive(tmp_path).strays() == ["price-x.jsonl.gz"]


def test_replay_is_read_only(sim: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sim, copy)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in copy.rglob("*") if p.is_file()}
    archive = Archive(copy)
    archive.series(), archive.documents(), archive.verify(), archive.records(Market)
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in copy.rglob("*") if p.is_file()}
    assert before == after
    assert all(p.stat().st_mode & 0o222 == 0 for p in (copy / "segments").iterdir())


def test_writers_take_turns(tmp_path: Path) -> None:
    """What another has in hand for a moment is waited for."""
    with exclusive(tmp_path / "archive.lock"):
        later = threading.Thread(target=add, args=(tmp_path, [price(0.1, 0, 1)]))
        later.start()
        later.join(0.3)
        assert later.is_alive()
        assert not (tmp_path / "archive.json").exists()
    later.join(20)
    assert Archive(tmp_path).counts()["price"] == 1


def test_two_writers_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.store.archive.writer.TURN", 0.1)
    with exclusive(tmp_path / "archive.lock"), pytest.raises(Unavailable):
        add(tmp_path, [price(0.1, 0, 1)])
    assert not (tmp_path / "archive.json").exists()


def test_a_failing_import_stores_nothing(tmp_path: Path) -> None:
    add(tmp_path, [price(0.1, 0, 1)])
    before = (tmp_path / "archive.json").read_bytes()

    def broken():  # type: ignore[no-untyped-def]
        yield price(0.5, 2, 3)
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError):
        add(tmp_path, broken(), source="broken")
    assert (tmp_path / "archive.json").read_bytes() == before


def test_missing_and_foreign_archives(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="world simulate"):
        Archive(tmp_path)
    (tmp_path / "archive.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(Corrupt):
        Archive(tmp_path)


def test_a_backfilled_price_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    add(tmp_path, [price(0.5, 10, 11), price(0.2, 3, 20), price(0.6, 10, 25)])
    series = Archive(tmp_path).series()["A:x"]
    at = [int((T + timedelta(hours=h)).timestamp() * 1e6) for h in (10, 11, 21, 25)]
    found = [series.position(t) for t in at]
    assert [None if i < 0 else float(series.price[i]) for i in found] == [None, 0.5, 0.5, 0.6]
    import numpy as np

    assert series.positions(np.array(at)).tolist() == found
    assert Series.empty("x").positions(np.array(at)).tolist() == [-1] * 4


def test_kept_rejects_are_verified_too(tmp_path: Path) -> None:
    ArchiveWriter(tmp_path).add(
        [price(0.1, 0, 1)],
        importer="t",
        source="s",
        source_digest="s",
        recorded_at=T,
        rejects=[Reject("f", 3, "because")],
    )
    kept = next((tmp_path / "rejects").iterdir())
    assert Archive(tmp_path).verify() == []
    kept.write_bytes(kept.read_bytes().replace(b"because", b"becausf"))
    assert "rejects" in Archive(tmp_path).verify()[0]


def test_impossible_prices_are_refused() -> None:
    with pytest.raises(ValueError, match="not known in advance"):
        price(0.5, 3, 2)
    with pytest.raises(ValueError, match="bid lies above"):
        PricePoint(market_id="A:x", price=0.5, observed_at=T, known_at=T, bid=0.6, ask=0.4)


def test_an_ending_that_says_nothing_new_is_stored_once(tmp_path: Path) -> None:
    """A set published every night says it every night; a change, and a change back, are new."""
    at = T

    def said(days: int, payout: float) -> Resolution:
        return Resolution(
            market_id="X:1",
            status="resolved",
            payout=payout,
            resolved_at=at,
            known_at=at + timedelta(days=days),
        )

    def stored(*endings: Resolution) -> dict[str, int]:
        report = ArchiveWriter(tmp_path / "a").add(
            endings,
            importer="nightly",
            source="set",
            source_digest=digest([one.model_dump(mode="json") for one in endings]),
            recorded_at=at + timedelta(days=100),
        )
        return report.new

    assert stored(*(said(n, 1.0) for n in range(1, 28))) == {"resolution": 1}
    assert stored(said(30, 0.0), said(31, 0.0), said(32, 1.0)) == {"resolution": 2}
    assert stored(said(0, 1.0)) == {"resolution": 1}, "known earlier than was on record"
    assert [one.payout for one in Archive(tmp_path / "a").records(Resolution)] == [1, 0, 1, 1]


def test_a_price_that_says_nothing_new_is_stored_once(tmp_path: Path) -> None:
    """Twenty-seven nights that repeat a day's price; a correction, and one taken back, are new."""

    def said(night: int, value: float, day: int = 0) -> PricePoint:
        at = T + timedelta(days=day)
        known = T + timedelta(days=night)
        return PricePoint(market_id="X:1", price=value, observed_at=at, known_at=known)

    def stored(*points: PricePoint) -> tuple[int, int]:
        report = ArchiveWriter(tmp_path / "a").add(
            points,
            importer="nightly",
            source="set",
            source_digest=digest([one.model_dump(mode="json") for one in points]),
            recorded_at=T + timedelta(days=100),
        )
        return report.new.get("price", 0), report.same.get("price", 0)

    nights = [said(n, 0.5 + day / 100, day) for n in range(1, 28) for day in range(n)]
    assert stored(*nights) == (27, len(nights) - 27)
    assert stored(*nights) == (0, len(nights)), "again, over what is stored"
    assert stored(said(30, 0.9), said(31, 0.9), said(32, 0.5)) == (2, 1)
    both = [said(40, 0.1), said(40, 0.2)]
    assert stored(*both) == (2, 0)
    assert stored(*both) == (0, 2), "two that became known together are both there"
    assert stored(said(0, 0.5)) == (1, 0), "known earlier than was on record"

    series = Archive(tmp_path / "a").series()["X:1"]

    def latest(night: int) -> float:
        return float(series.price[series.position(to_us(T + timedelta(days=night)))])

    # The price at t is what it was when every night was stored: the last day's, once it is known.
    assert [latest(n) for n in (0, 1, 2, 27, 31)] == [0.5, 0.5, 0.51, 0.76, 0.76]
