"""A large import is cut by market: one market is read without the others, and is the same."""

import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import orjson
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, parse_instant, to_us
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import _BaseRates
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest, digest_around
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.world import Market, Resolution
from beforehand.runs.columns import each_question
from beforehand.store.archive import ledger, nearby, reader, writer
from beforehand.store.archive.endings import Endings, Numbers
from beforehand.store.archive.manifest import seal_of
from beforehand.store.archive.reader import MARKET_KINDS, Archive
from beforehand.store.archive.rules import disagree
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.files import json_bytes, read_json, write_json, write_json_around, write_jsonl
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig
from experiments import Out

STORED = FrozenClock(parse_instant("2026-11-01T00:00:00Z")).now()


def stored(path: Path) -> Archive:
    facts = {"importer": "simulate", "source": "test", "source_digest": "test"}
    ArchiveWriter(path).add(records(SimConfig(seed=3, dates=12)), **facts, recorded_at=STORED)
    return Archive(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return stored(tmp_path_factory.mktemp("whole") / "archive")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "LARGEST_BY_MARKET", 4000)
        return stored(tmp_path_factory.mktemp("cut") / "archive")


def test_a_small_import_is_stored_as_ever(whole: Archive, cut: Archive) -> None:
    assert not whole.by_market
    assert not any("markets" in segment for segment in whole.manifest["segments"])
    assert cut.by_market
    assert cut.counts() == whole.counts()
    assert len(cut.manifest["segments"]) > 20
    for kind in whole.counts():
        assert sorted(whole.lines(kind)) == sorted(cut.lines(kind))


@pytest.mark.parametrize("in_memory", [0, 2000])
def test_lines_that_wait_in_a_file_are_stored_as_those_in_memory(
    in_memory: int, whole: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []

    def counted(**given: Any) -> Any:
        files.append(TemporaryFile(**given))  # noqa: SIM115 (the shelf closes it)
        return files[-1]

    monkeypatch.setattr(ledger, "IN_MEMORY", in_memory)
    monkeypatch.setattr(ledger, "TemporaryFile", counted)
    made = stored(tmp_path / "archive")
    assert made.digest == whole.digest
    assert made.verify() == []
    assert files
    assert all(file.closed for file in files)
    assert {path.name for path in made.path.iterdir()} == {
        path.name for path in whole.path.iterdir()
    }


def test_a_market_in_pieces_is_taken_back_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prices so far wait in the file when more of them come."""
    digests = []
    for in_memory in (10**6, 0):
        monkeypatch.setattr(ledger, "IN_MEMORY", in_memory)
        pieces = [
            PriceSeriesRow("A:1", [10, 20], [10, 20], [0.1, 0.2]),
            PriceSeriesRow("A:2", [10], [10], [0.5]),
            PriceSeriesRow("A:1", [20, 30], [20, 30], [0.2, 0.3]),
        ]
        facts = {"importer": "test", "source": "test", "source_digest": "test"}
        path = tmp_path / str(in_memory)
        report = ArchiveWriter(path).add(pieces, **facts, recorded_at=STORED)
        assert (report.new, report.same) == ({"price": 4}, {"price": 1})
        assert Archive(path).series()["A:1"].price.tolist() == [0.1, 0.2, 0.3]
        digests.append(Archive(path).digest)
    assert digests[0] == digests[1]


def everything(world: RecordedWorld, market: str) -> list[Any]:
    """What a world says of one market."""
    until = to_us(STORED)
    series = world.series(market)
    return [
        list(world.market_versions(market, until)),
        list(world.states(market, until)),
        list(world.books(market, until)),
        list(world.resolutions(market, until)),
        list(world.forecasts(market, until)),
        list(world.prices(market, until)),
        list(world.last_price(market, until)),
        None if series is None else series.price.tolist(),
    ]


def test_what_was_forgotten_is_read_again(cut: Archive) -> None:
    world = RecordedWorld(cut)
    markets = sorted(cut.series())
    before = [everything(world, market) for market in markets]
    assert len(world._series) == len(markets)
    assert "_series" in world.__dict__
    world.forget()
    assert "_series" not in world.__dict__
    assert [everything(world, market) for market in markets] == before


@pytest.mark.parametrize("grade", ["captured", "published"])
def test_one_market_alone_is_the_same(
    grade: Any, whole: Archive, cut: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearby, "PASSES", 10**9)
    all_at_once, alone = RecordedWorld(whole, grade), RecordedWorld(cut, grade)
    names = sorted(v.id for v in all_at_once.market_versions(None, to_us(STORED)))
    assert len(set(names)) > 40
    for name in [*dict.fromkeys(names), "SIMEX:none", ""]:
        assert everything(alone, name) == everything(all_at_once, name), name
    assert "_series" not in alone.__dict__, "it was looked up alone"
    assert "_versions" not in alone.__dict__


def test_who_goes_through_them_reads_each_segment_once(
    cut: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    unpack = reader._unpack
    monkeypatch.setattr(
        reader, "_unpack", lambda p, s, d: read.append(s["digest"]) or unpack(p, s, d)
    )
    world = RecordedWorld(cut)
    names = sorted(cut.series())
    read.clear()
    gateway = Gateway(world)
    assert gateway.full_view().odds(names[0]).price >= 0
    assert 0 < len(read) <= 4, "the segments of one market and no others"
    for name in names:
        gateway.full_view().odds(name)
    assert len(read) == len(set(read)) > 10
    assert "_series" not in world.__dict__
    for _ in range(100):  # Here and there: then all of them cost less.
        for name in names[::7] + names[::-5]:
            world.series(name)
    assert "_series" in world.__dict__


def test_a_run_over_it_is_the_same(whole: Archive, cut: Archive, home: Path, capsys: Out) -> None:
    boards = []
    for archive in (whole, cut):
        run = ("backtest", "run", "--archive", str(archive.path), "--every", "28d")
        code = cli([*run, "--draws", "200", "--placebo", "0", "--run-id", f"r{len(boards)}"])
        assert code in (0, 3)
        found = read_json(home / "data" / "runs" / f"r{len(boards)}" / "scores.json")
        boards.append(found["leaderboard"])
    assert boards[0] == boards[1]


def test_verify_names_a_record_that_would_not_be_found(
    cut: Archive, tmp_path: Path, capsys: Out
) -> None:
    path = tmp_path / "forged"
    shutil.copytree(cut.path, path)
    assert cli(["world", "verify", "--archive", str(path)]) == 0
    manifest = read_json(path / "archive.json")
    priced = next(s for s in manifest["segments"] if s["kind"] == "price" and "markets" in s)
    priced["markets"] = ["SIMEX:a", "SIMEX:b"]
    manifest["seal"] = seal_of(manifest)
    write_json(path / "archive.json", manifest)
    capsys.readouterr()
    assert cli(["world", "verify", "--archive", str(path)]) != 0
    said = capsys.readouterr()
    assert "outside of its markets" in said.out + said.err


@pytest.mark.parametrize("kind", MARKET_KINDS)
def test_segments_hold_the_markets_that_they_say(kind: str, cut: Archive) -> None:
    for segment in cut.manifest["segments"]:
        if segment["kind"] == kind and "markets" in segment:
            lines = reader.Contents(cut.path).of(segment).splitlines()
            key = "id" if kind == "market" else "market_id"
            names = [orjson.loads(line)[key] for line in lines]
            assert names == sorted(names)
            assert segment["markets"] == [names[0], names[-1]]


@pytest.mark.parametrize("rows", [[], [{"b": 1, "a": [1, 2]}], [{"z": "line\nbreak"}, {}, [], 3]])
def test_a_long_list_is_written_and_digested_row_by_row(tmp_path: Path, rows: list[Any]) -> None:
    """The bytes and the digest are those of the whole value."""
    value = {"c": {"experiments": [0]}, "z": [], "a": "text"}
    write_json_around(tmp_path / "parts.json", value, "experiments", iter(rows))
    assert (tmp_path / "parts.json").read_bytes() == json_bytes({**value, "experiments": rows})
    assert digest_around("x", iter(rows), value) == digest(["x", rows, value])


def test_endings_are_kept_as_numbers_and_given_as_records() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    every = [
        Resolution(market_id="A:1", status="resolved", payout=1.0, resolved_at=at, known_at=at),
        Resolution(
            market_id="A:2",
            status="resolved",
            payout=0.0,
            resolved_at=at,
            known_at=at + timedelta(days=1),
            first_published=at - timedelta(microseconds=1),
        ),
        Resolution(market_id="A:3", status="void", resolved_at=at, known_at=at),
        Resolution.model_validate(
            {"market_id": "A:4", "status": "void", "resolved_at": at, "known_at": at, "newer": 1}
        ),
    ]
    kept = Endings(every)
    assert [*kept.values()] == every
    assert [*kept] == ["A:1", "A:2", "A:3", "A:4"]
    assert kept.get("A:5") is None
    assert [kept.says(name) for name in kept] == [(one.status, one.payout) for one in every]
    some = kept.only(["A:3", "A:4", "A:1"])
    assert [*some] == ["A:3", "A:4", "A:1"]
    assert [*some.values()] == [every[2], every[3], every[0]]
    assert some.get("A:2") is None
    in_order = kept.only(["A:1", "A:3"])
    assert [*in_order.values()] == [every[0], every[2]]
    assert "A:2" not in in_order
    assert "A:3" in in_order
    assert in_order.only(["A:3"])["A:3"] == every[2]


def test_numbers_by_name_are_those_of_a_dictionary() -> None:
    known = {f"A:{k}": k * k - 50 for k in range(300, 900, 7)}
    held = Numbers.of(known)
    assert isinstance(held, Numbers)
    assert dict(held) == known
    assert [held.get(f"A:{k}") for k in range(1000)] == [known.get(f"A:{k}") for k in range(1000)]
    unordered = {"b": 1, "a": 2}
    assert Numbers.of(unordered) is unordered
    assert len(Numbers.of({})) == 0


def test_endings_need_not_be_in_the_order_of_the_questions(tmp_path: Path) -> None:
    names = [f"MANIFOLD:m{k}" for k in range(40)]
    source = {"type": "Manifold", "market_id": "m"}
    events = [{"id": n, "question": n, "domain": None, "source": source} for n in names]
    endings = [{"id": n, "outcome": k % 2, "resolved_at": None} for k, n in enumerate(names)]
    write_jsonl(tmp_path / "events.jsonl", events)
    random.Random(2).shuffle(endings)
    kept = endings[5:]  # The others are open.
    write_jsonl(tmp_path / "resolutions.jsonl", kept)
    found = list(each_question(tmp_path))
    assert [one.id for one in found] == names
    settled = {one["id"]: one["outcome"] for one in kept}
    assert [one.settled for one in found] == [settled.get(name) for name in names]


def test_base_rates_are_those_of_the_first_outcome_of_each_market() -> None:
    rng, start = random.Random(4), datetime(2026, 1, 1, tzinfo=UTC)
    every = list[Resolution]()
    for _ in range(200):
        payout = rng.choice([0.0, 1.0, None])
        at = start + timedelta(hours=rng.randrange(9))
        every.append(
            Resolution(
                market_id=f"{rng.choice('AB')}:{rng.randrange(30)}",
                status="void" if payout is None else "resolved",
                payout=payout,
                resolved_at=start,
                known_at=at,
            )
        )
    first: dict[str, tuple[datetime, float]] = {}
    for one in every:
        if one.payout is not None:
            said = one.known_at, one.payout
            first[one.market_id] = min(said, first.get(one.market_id, said))

    class World:
        def resolutions(self, *_: object) -> list[Resolution]:
            return every

    t = np.array([to_us(start + timedelta(hours=h, minutes=1)) for h in range(-1, 10)])
    rates = _BaseRates(Gateway(World()))  # type: ignore[arg-type]
    for venue in "ABC":
        rate, n = rates.at(venue, t)
        for k, at in enumerate(t.tolist()):
            mine = [p for m, (known, p) in first.items() if m[0] == venue and to_us(known) <= at]
            assert n[k] == len(mine)
            assert rate[k] == (sum(mine) + 1) / (len(mine) + 2)
    assert len(first) > 20


def test_marks_are_those_of_a_dictionary() -> None:
    rng, marks, plain = random.Random(3), ledger.Marks(4), dict[int, list[bytes]]()
    for _ in range(3000):
        number, mark = rng.randrange(400), rng.randbytes(3) + b"x"
        assert marks.of(number) == sorted(plain.get(number, []))
        if rng.random() < 0.5:
            marks.add(number, mark)
            plain.setdefault(number, []).append(mark)
    assert {len(held) for held in plain.values()} >= {1, 2, 3}
    assert not marks.of(9999)


def test_what_is_new_is_what_a_plain_list_says_is_new(tmp_path: Path) -> None:
    """Texts that are there, and endings that say again what was known last, are not stored; over
    several imports, in any order."""
    rng, at = random.Random(7), datetime(2026, 1, 2, tzinfo=UTC)
    texts, endings = set[tuple[object, ...]](), dict[str, list[tuple[int, float]]]()
    for number in range(8):
        records_, expected = list[Market | Resolution](), {"market": 0, "resolution": 0}
        for _ in range(60):
            name, hours = f"MANIFOLD:m{rng.randrange(12)}", rng.randrange(6)
            known_at = at + timedelta(hours=hours)
            if rng.random() < 0.5:
                told = name, rng.choice("abc"), hours
                expected["market"] += told not in texts
                texts.add(told)
                records_.append(
                    Market(
                        id=name, venue="MANIFOLD", native_id=name[9:], question=f"Will {told[1]}?",
                        known_at=known_at,
                    )
                )  # fmt: skip
                continue
            payout, known = rng.choice([0.0, 1.0]), endings.setdefault(name, [])
            before = [one for one in sorted(known) if one[0] <= hours]
            # Of two at one instant, either was said before; else the last one counts.
            again = (hours, payout) in known or (before and before[-1][1] == payout)
            if before and before[-1][0] == hours and (hours, payout) not in known:
                again = None  # Two outcomes at one instant: which of them is last is not looked at.
            records_.append(
                Resolution(
                    market_id=name, status="resolved", payout=payout, resolved_at=at,
                    known_at=known_at,
                )
            )  # fmt: skip
            if again is None:
                records_.pop()
                continue
            if not again:
                expected["resolution"] += 1
                known.append((hours, payout))
        report = ArchiveWriter(tmp_path / "world").add(
            records_, importer="test", source=str(number), source_digest=str(number),
            recorded_at=STORED,
        )  # fmt: skip
        assert {kind: report.new.get(kind, 0) for kind in expected} == expected
    assert len(endings) == 12


def test_a_series_without_a_price_is_none(tmp_path: Path) -> None:
    row = PriceSeriesRow("MANIFOLD:m1", [], [], [])
    about = {"importer": "test", "source": "x", "source_digest": "x", "recorded_at": STORED}
    report = ArchiveWriter(tmp_path / "world").add([row], **about)  # type: ignore[arg-type]
    assert not report.new
    assert not Archive(tmp_path / "world").verify()


def test_of_several_endings_the_last_counts_and_two_outcomes_are_a_dispute() -> None:
    """Numbers give what the records themselves gave."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    rng, every = random.Random(1), list[Resolution]()
    for _ in range(400):
        status = rng.choice(["resolved", "resolved", "void", "disputed"])
        known_at = at + timedelta(hours=rng.randrange(3))
        payout = rng.choice([0.0, 1.0]) if status == "resolved" else None
        one = {"market_id": f"A:{rng.randrange(90)}", "status": status, "payout": payout}
        every.append(Resolution(**one, resolved_at=at, known_at=known_at))  # type: ignore[arg-type]
    groups: dict[str, list[Resolution]] = {}
    for ending in every:
        groups.setdefault(ending.market_id, []).append(ending)
    kept, disputed = Endings(every), 0
    assert [*kept] == [*groups]
    for name, several in groups.items():
        last = max(reversed(several), key=lambda r: r.known_at)
        if disagree(several):
            last, disputed = last.model_copy(update={"status": "disputed", "payout": None}), 1
        assert kept[name] == last
        assert kept.says(name) == (last.status, last.payout)
    assert disputed
    assert sum(len(several) == 1 for several in groups.values()) > 0
