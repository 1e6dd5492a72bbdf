"""Dumps of venues in Parquet: made files whose truth is known, the gaps planted in them, and what
a backtest says of prices from before one."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock, from_us, iso, iso_us, to_us
from beforehand.errors import InputError
from beforehand.records.world import Resolution
from beforehand.store.archive.ledger import PointLedger
from beforehand.store.archive.manifest import coverage_of
from beforehand.store.archive.reader import Archive
from beforehand.world.importers import dumps
from beforehand.world.importers.dumps import Order, store_dump
from experiments import Out, told

START = datetime(2025, 1, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
GAPS = [(30, 33), (100, 124), (301, 302)]
"""Hours without any row: from the end of the first until the begin of the second."""


def parquet(path: Path, sql: str, **tables: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as db:
        for name, columns in tables.items():
            db.register(name, columns)
        db.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    return path


def walks(n: int, hours: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """(n, hours) prices in cents: what was true at the begin of each hour."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-2, 3, (n, hours))
    return np.clip(50 + np.cumsum(steps, axis=1), 1, 99)


def trades(n: int = 6, hours: int = 400) -> dict[str, Any]:
    """Trades at the true price, five at odd minutes of each hour of each market, none in a gap."""
    truth, rng = walks(n, hours), np.random.default_rng(2)
    hour = np.repeat(np.arange(hours), 5)
    hour = hour[~np.isin(hour, [h for a, b in GAPS for h in range(a, b)])]
    who = np.repeat(np.arange(n), len(hour))
    when = np.tile(hour, n)
    minute = rng.integers(1, 59, len(when))
    at = np.datetime64(START.replace(tzinfo=None), "us") + (when * 60 + minute) * np.timedelta64(
        1, "m"
    )
    order = rng.permutation(len(when))
    return {
        "who": who[order], "hour": when[order], "t": at[order], "p": truth[who, when][order],
        "size": rng.integers(1, 50, len(when)), "place": np.arange(len(when)),
    }  # fmt: skip


KALSHI = (
    "SELECT CAST(place AS VARCHAR) AS trade_id, 'KXA-' || who AS ticker, size AS \"count\", "
    "CAST(p AS INTEGER) AS yes_price, 100 - CAST(p AS INTEGER) AS no_price, 'yes' AS taker_side, "
    "t AS created_time FROM rows"
)
MARKETS = (
    "SELECT 'KXA-' || w AS ticker, 'KXA-' || (w // 2) AS event_ticker, 'Will it?' AS title, "
    "CASE WHEN w % 2 = 0 THEN 'yes' ELSE 'no' END AS result, "
    "TIMESTAMP '2025-01-06' AS open_time, TIMESTAMP '2025-01-22 16:00' AS close_time, "
    "TIMESTAMP '2025-03-01' AS _fetched_at FROM range(6) r(w)"
)


def rows_of(found: dict[str, Any]) -> Any:
    return pd.DataFrame(found)


def gaps_planted(found: dict[str, Any]) -> list[list[str]]:
    """The planted gaps, from the last row before to the first after."""
    t = np.sort(found["t"]).astype("datetime64[us]").astype(np.int64)
    wide = np.flatnonzero(np.diff(t) >= 3_600_000_000)
    assert len(wide) == len(GAPS)
    return [[iso(from_us(int(t[i]))), iso(from_us(int(t[i + 1])))] for i in wide]


def test_kalshis_trades(tmp_path: Path) -> None:
    """One price an hour, the last at its own time; every planted gap, and no other."""
    found, archive = trades(), tmp_path / "a"
    rows = rows_of(found)
    one = parquet(tmp_path / "trades.parquet", KALSHI, rows=rows)
    two = parquet(tmp_path / "markets.parquet", MARKETS)
    report = store_dump([one, two], archive, SystemClock())
    assert report.new == {"market": 6, "price": 6 * (400 - 28), "resolution": 6}
    assert report.notes == {"trades_and_quotes_of_kalshi": len(rows)}
    assert Archive(archive).verify() == []
    assert coverage_of(Archive(archive).manifest)[0]["gaps"] == gaps_planted(found)
    for name, series in Archive(archive).series().items():
        mine = rows[rows.who == int(name.rpartition("-")[2])].sort_values(["t", "place"])
        last = mine.groupby("hour").last()
        assert (series.observed_at == last.t.astype("datetime64[us]").astype("int64")).all()
        assert (series.known_at == series.observed_at).all()
        assert np.abs(series.price - last.p / 100).max() < 0.0051, "within one tick of the truth"
        assert series.volume.sum() == mine["size"].sum()
    again = store_dump([two, one], archive, SystemClock())
    assert again.new == {}
    assert len(Archive(archive).manifest["imports"]) == 1
    with pytest.raises(InputError, match="at least a second"):
        store_dump([one], archive, SystemClock(), Order(timedelta(0)))


@pytest.mark.parametrize("kind", ["TINYINT", "UTINYINT", "BIGINT", "DECIMAL(4, 1)", "DOUBLE"])
def test_kalshis_cents_in_any_type(tmp_path: Path, kind: str) -> None:
    """The last of an hour, and of one time the dearest; tenths of a cent where a type has them;
    nothing of a row without a market or a time, or at a price that is none (0, or 100)."""
    tenths = kind in ("DECIMAL(4, 1)", "DOUBLE")
    rows = [
        ("A", 0, 99),
        ("A", 58, 1),
        ("A", 59, 0),
        ("A", 59, 100),
        ("A", 60, 57),
        ("A", 60, 58),
        ("B", 5, 0.5 if tenths else 2),
    ]
    values = ", ".join(f"('{name}', {minute}, {cents})" for name, minute, cents in rows)
    sql = (
        f'SELECT name AS ticker, 1 AS "count", CAST(cents AS {kind}) AS yes_price, '
        "TIMESTAMP '2025-01-06' + to_minutes(m) AS created_time "
        f"FROM (VALUES {values}, (NULL, 1, 40), ('C', NULL, 40)) r(name, m, cents)"
    )
    report = store_dump([parquet(tmp_path / "t.parquet", sql)], tmp_path / "a", SystemClock())
    assert report.notes == {"trades_and_quotes_of_kalshi": 5, "rows_not_taken": 4}
    series = Archive(tmp_path / "a").series()
    assert series["KALSHI:A"].price.tolist() == [0.01, 0.58]
    assert series["KALSHI:A"].observed_at.tolist() == [
        to_us(START) + m * 60_000_000 for m in (58, 60)
    ]
    assert series["KALSHI:A"].volume.tolist() == [2.0, 2.0]
    assert series["KALSHI:B"].price.tolist() == [0.005 if tenths else 0.02]
    assert len(series) == 2


def test_kalshis_dollars(tmp_path: Path) -> None:
    """A dump whose prices are dollars is known by them."""
    sql = (
        "SELECT 'A' AS ticker, 1 AS \"count\", p AS yes_price, TIMESTAMP '2025-01-06' + to_hours(h) "
        "AS created_time FROM (VALUES (1, 0.45), (2, 0.005), (3, 1.0), (4, 0.999)) r(h, p)"
    )
    store_dump([parquet(tmp_path / "t.parquet", sql)], tmp_path / "a", SystemClock())
    series = Archive(tmp_path / "a").series()
    assert series["KALSHI:A"].price.tolist() == [0.45, 0.005, 0.999]


STATED = "TIMESTAMP '2025-01-20 11:00:00'"


@pytest.mark.parametrize(
    ("time", "zone", "known"),
    [
        ("DATE '2025-01-20'", None, "2025-01-20T23:59:59.999999Z"),
        ("'2025-01-20'", None, "2025-01-20T23:59:59.999999Z"),
        ("TIMESTAMPTZ '2025-01-20 11:00:00+01'", None, "2025-01-20T10:00:00Z"),
        ("'2025-01-20T11:00:00+01:00'", None, "2025-01-20T10:00:00Z"),
        ("'2025-01-20 11:00:00Z'", None, "2025-01-20T11:00:00Z"),
        ("1737370800", None, "2025-01-20T11:00:00Z"),
        ("1737370800000", None, "2025-01-20T11:00:00Z"),
        ("1737370800000000", None, "2025-01-20T11:00:00Z"),
        ("1737370800000000000", None, "2025-01-20T11:00:00Z"),
        (STATED, "UTC", "2025-01-20T11:00:00Z"),
        (STATED, "America/New_York", "2025-01-20T16:00:00Z"),
        ("'2025-01-20 11:00:00'", "America/New_York", "2025-01-20T16:00:00Z"),
        ("TIMESTAMP '2025-11-02 01:30:00'", "America/New_York", "2025-11-02T06:30:00Z"),
        (STATED, None, None),
        ("'2025-01-20 11:00:00'", None, None),
    ],
)
def test_a_time_is_never_guessed_early(
    tmp_path: Path, time: str, zone: str | None, known: str | None
) -> None:
    """A date is its end, an hour that comes twice the later one, and a time without a zone is
    refused where none is stated."""
    files = [parquet(tmp_path / "p.parquet", f"SELECT 'A' AS id, {time} AS time, 0.4 AS price")]
    if known is None:
        with pytest.raises(InputError, match=r"without a zone .*--timezone"):
            store_dump(files, tmp_path / "a", SystemClock())
        return
    store_dump(files, tmp_path / "a", SystemClock(), Order(timezone=zone))
    series = Archive(tmp_path / "a").series()
    assert [iso_us(t) for t in series["LOCAL:A"].known_at.tolist()] == [known]


def test_a_zone_that_is_none(tmp_path: Path) -> None:
    files = [parquet(tmp_path / "p.parquet", f"SELECT 'A' AS id, {STATED} AS time, 0.4 AS price")]
    with pytest.raises(InputError, match="--timezone 'Mars/Base' is not known"):
        store_dump(files, tmp_path / "a", SystemClock(), Order(timezone="Mars/Base"))


def test_polymarkets_trades(tmp_path: Path) -> None:
    """Both assets of a market give the price of YES; a fill of an exchange repeats its makers'."""
    found, folder, archive = trades(4), tmp_path / "dump", tmp_path / "a"
    rows = rows_of(found)
    rows["no"], rows["sells"] = rows.place % 2, rows.place % 3 == 0
    rows["block"] = (rows.t - pd.Timestamp(START).tz_localize(None)).dt.total_seconds().astype(
        int
    ) // 2 + 1000
    rows["shares"] = rows["size"] * 1_000_000
    side = "CASE WHEN no = 1 THEN 100 - p ELSE p END"
    cash, token = (
        f"CAST(shares * ({side}) // 100 AS BIGINT)",
        "'7000000000000000000000000' || who || no",
    )
    sql = (
        "SELECT block AS block_number, place AS log_index, 'm' AS maker, 't' AS taker, "
        f"CASE WHEN sells THEN {token} ELSE '0' END AS maker_asset_id, "
        f"CASE WHEN sells THEN '0' ELSE {token} END AS taker_asset_id, "
        f"CASE WHEN sells THEN shares ELSE {cash} END AS maker_amount, "
        f"CASE WHEN sells THEN {cash} ELSE shares END AS taker_amount FROM rows"
    )
    exchange = sql.replace("'t' AS taker", "'0xC5d563A36AE78145C45a50134d48A1215220f80a' AS taker")
    parquet(
        folder / "t" / "1.parquet",
        f"{sql} UNION ALL {exchange.replace('shares *', '0 *')}",
        rows=rows,
    )
    parquet(folder / "b" / "1.parquet", "SELECT DISTINCT block AS block_number, CAST(1736121600 + 2 * (block - 1000) AS BIGINT) AS \"timestamp\" FROM rows", rows=rows)  # fmt: skip
    with pytest.raises(InputError, match="need its table of markets"):
        store_dump([folder], archive, SystemClock())
    parquet(folder / "m" / "1.parquet", (
        "SELECT w AS id, 'c' || w AS condition_id, 'Will it?' AS question, 'will-it' AS slug, "
        "CASE WHEN w = 3 THEN '[\"No\", \"Yes\"]' ELSE '[\"Yes\", \"No\"]' END AS outcomes, "
        "CASE WHEN w = 3 THEN '[\"0\", \"1\"]' ELSE '[\"1\", \"0\"]' END AS outcome_prices, "
        "CASE WHEN w = 3 THEN '[\"' || k || w || '1\", \"' || k || w || '0\"]' ELSE '[\"' || k || w || '0\", \"' || k || w || '1\"]' END AS clob_token_ids, "
        "true AS closed, TIMESTAMP '2025-02-01' AS end_date, TIMESTAMP '2025-03-01' AS _fetched_at "
        "FROM range(4) r(w), (SELECT '7000000000000000000000000' AS k)"
    ))  # fmt: skip
    report = store_dump([folder], archive, SystemClock())
    assert report.notes == {
        "trades_and_quotes_of_polymarket": len(rows),
        "rows_not_taken": len(rows),
    }
    assert report.new["price"] == 4 * (400 - 28)
    assert {one.payout for one in Archive(archive).records(Resolution)} == {1.0}
    assert len(Archive(archive).gaps() or ()) == len(GAPS)
    for name, series in Archive(archive).series().items():
        mine = (
            rows[rows.who == int(name[-1])].sort_values(["block", "place"]).groupby("hour").last()
        )
        assert np.abs(series.price - mine.p / 100).max() < 1e-6
    assert Archive(archive).verify() == []


def test_order_books(tmp_path: Path) -> None:
    """Rebuilt from snapshots and changes; void after a missing hour until the next snapshot."""
    base = int(START.timestamp() * 1000)

    def row(minute: float, kind: str, **more: Any) -> dict[str, Any]:
        nothing = dict.fromkeys(("bids", "asks", "price", "size", "side"))
        return {"timestamp": base + int(minute * 60_000), "market": "c0", "event_type": kind,
                "asset_id": "70", **nothing, **more}  # fmt: skip

    def level(*pairs: tuple[float, float]) -> str:
        return json.dumps([{"price": str(p), "size": str(size)} for p, size in pairs])

    rows = [
        row(1, "price_change", price=0.9, size=5, side="BUY"),  # Before any snapshot: nothing.
        row(2, "book", bids=level((0.4, 10), (0.38, 5)), asks=level((0.44, 7))),
        row(3, "price_change", price=0.41, size=2, side="BUY"),
        row(50, "price_change", price=0.3, size=1, side="BUY"),
        row(70, "price_change", price=0.41, size=0, side="BUY"),
        row(75, "price_change", price=0.44, size=0, side="SELL"),
        row(76, "price_change", price=0.46, size=3, side="SELL"),
        # The files of hours 2 and 3 are missing.
        row(245, "price_change", price=0.45, size=9, side="BUY"),  # Of a book that is void.
        row(250, "book", bids=level((0.6, 1)), asks=level((0.62, 1))),
        {**row(251, "book", bids=level((0.38, 1)), asks=level((0.4, 1))), "asset_id": "71"},
    ]
    folder, archive = tmp_path / "dump", tmp_path / "a"
    one = parquet(folder / "books.parquet", "SELECT * FROM rows", rows=_frame(rows))
    with pytest.raises(InputError, match="order books of Polymarket need its table of markets"):
        store_dump([one], archive, SystemClock())
    parquet(folder / "m.parquet", "SELECT 'c0' AS condition_id, 'Will it?' AS question, '[\"Yes\", \"No\"]' AS outcomes, '[\"70\", \"71\"]' AS clob_token_ids, TIMESTAMP '2025-03-01' AS _fetched_at, false AS closed")  # fmt: skip
    report = store_dump([folder], archive, SystemClock(), Order(every=timedelta(minutes=1)))
    series = Archive(archive).series()["POLYMARKET:c0"]
    at = [(int(t) // 1000 - base) / 60_000 for t in series.observed_at]
    assert at == [2, 3, 50, 70, 76, 250], "what did not change was observed all the same"
    assert series.price.tolist() == pytest.approx([0.42, 0.425, 0.425, 0.42, 0.43, 0.61])
    assert series.bid.tolist() == pytest.approx([0.4, 0.41, 0.41, 0.4, 0.4, 0.6])
    assert report.notes["books_voided_by_a_gap"] == 1
    gap = [iso(START + timedelta(minutes=m)) for m in (76, 245)]
    assert coverage_of(Archive(archive).manifest) == [
        {"venue": "POLYMARKET", "gap_s": 3600.0, "first": iso(START + timedelta(minutes=1)),
         "last": iso(START + timedelta(minutes=251)),
         "gaps": [gap]},
    ]  # fmt: skip


def _frame(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows).astype({"bids": "string", "asks": "string", "side": "string"})


def test_plain_quotes_and_refusals(tmp_path: Path, home: Path, capsys: Out) -> None:
    quotes = parquet(tmp_path / "q.parquet", (
        "SELECT 'A' AS symbol, CAST(1736121600 + 86400 * d AS BIGINT) AS \"timestamp\", "
        "0.4 AS bid, 0.5 AS ask FROM range(10) r(d)"
    ))  # fmt: skip
    archive = tmp_path / "a"
    done = told(capsys, "world", "import", "dump", str(quotes), "--every", "1d", "--gap", "2d", "--archive", str(archive))  # fmt: skip
    assert done["imports"][0]["new"] == {"price": 10}
    series = Archive(archive).series()["LOCAL:A"]
    assert series.price.tolist() == pytest.approx([0.45] * 10)
    assert to_us(START) in series.observed_at.tolist()
    assert told(capsys, "world", "coverage", "--archive", str(archive))["coverage"][0]["gaps"] == []
    odd = parquet(tmp_path / "odd.parquet", "SELECT 1 AS a")
    (tmp_path / "no.parquet").write_text("nothing")
    (tmp_path / "empty").mkdir()
    for path, why in (
        (odd, "none of a known dump"),
        (tmp_path / "no.parquet", "is no Parquet file"),
        (tmp_path / "gone.parquet", "is no file"),
        (tmp_path / "empty", "holds no Parquet file"),
    ):
        assert cli(["world", "import", "dump", str(path), "--archive", str(archive)]) == 2
        said = capsys.readouterr().err
        assert why in said
        assert len(said.strip().splitlines()) == 1


def test_a_backtest_says_which_prices_are_from_before_a_gap(
    tmp_path: Path, home: Path, capsys: Out
) -> None:
    """And says nothing of it where no dump says what it covers."""
    one = parquet(tmp_path / "trades.parquet", KALSHI, rows=rows_of(trades()))
    two = parquet(tmp_path / "markets.parquet", MARKETS)
    archive = tmp_path / "a"
    store_dump([one, two], archive, SystemClock())
    done = told(capsys, "backtest", "run", "--archive", str(archive), "--forecasters", "market,drift", "--every", "1d", "--draws", "100", "--placebo", "0", "--run-id", "r")  # fmt: skip
    share = done["validity"]["share_price_from_before_a_gap"]["value"]
    panel = [json.loads(line) for line in (home / "data" / "runs" / "r" / "intervals.jsonl").read_text().splitlines()]  # fmt: skip
    old = [START + b * HOUR > datetime.fromisoformat(row["time"]) > START + a * HOUR for row in panel for a, b in GAPS]  # fmt: skip
    assert share == pytest.approx(sum(old) / len(panel), abs=1e-9)
    assert 0 < share < 0.2


BOOK = """SELECT {time} AS "timestamp", 'c0' AS market, 'book' AS event_type, '70' AS asset_id,
    '[["{bid}", "1"]]' AS bids, '[["0.5", "1"]]' AS asks, 0.0 AS price, 0.0 AS size, '' AS side"""
ASSETS = (
    "SELECT 'c0' AS condition_id, 'Will it?' AS question, '[\"Yes\", \"No\"]' AS outcomes, "
    "'[\"70\", \"71\"]' AS clob_token_ids, TIMESTAMPTZ '2025-03-01 00:00:00+00' AS _fetched_at"
)


@pytest.mark.parametrize(
    "time",
    [
        "CAST({us} // 1000000 AS BIGINT)",
        "CAST({us} // 1000 AS BIGINT)",
        "{us}",
        "CAST({us} / 1e6 AS DOUBLE)",
        "make_timestamptz({us})",
        "CAST(make_timestamp({us}) AS TIMESTAMP)",
        "CAST(make_timestamp({us}) AS VARCHAR) || 'Z'",
    ],
)
def test_times_as_they_are_written(tmp_path: Path, time: str) -> None:
    """In every form: the same instants, and the gaps; a quote that did not change is observed."""
    at = [to_us(START + 4 * HOUR * k) for k in range(3)]
    rows = (BOOK.format(time=time.format(us=us), bid="0.4") for us in at)
    parquet(tmp_path / "d" / "b.parquet", " UNION ALL ".join(rows))
    parquet(tmp_path / "d" / "m.parquet", ASSETS)
    store_dump([tmp_path / "d"], tmp_path / "a", SystemClock())
    archive = Archive(tmp_path / "a")
    assert archive.series()["POLYMARKET:c0"].observed_at.tolist() == at
    assert archive.gaps() == [("POLYMARKET", *at[:2]), ("POLYMARKET", *at[1:])]


def test_the_last_of_one_time_is_that_of_the_file(tmp_path: Path) -> None:
    for bids in (("0.4", "0.3"), ("0.3", "0.4")):
        folder = tmp_path / bids[0]
        time = f"CAST({to_us(START)} AS BIGINT)"
        rows = (BOOK.format(time=time, bid=bid) for bid in bids)
        parquet(folder / "b.parquet", " UNION ALL ".join(rows))
        parquet(folder / "m.parquet", ASSETS)
        store_dump([folder], tmp_path / f"a{bids[0]}", SystemClock())
        series = Archive(tmp_path / f"a{bids[0]}").series()["POLYMARKET:c0"]
        assert series.bid.tolist() == [float(bids[1])]


def test_files_of_days_and_what_another_import_fills(tmp_path: Path) -> None:
    """A day that is missing is a gap, between files and between imports; a later one fills it."""

    def day(k: int, scale: float = 1.0) -> Path:
        first = to_us(START + 24 * HOUR * k) // 1_000_000
        return parquet(tmp_path / f"{k}-{scale}.parquet", (
            f"SELECT 'A' AS ticker, {first} + 600 * i AS ts, {scale} * 0.4 AS price, 2 AS size "
            "FROM range(144) r(i)"
        ))  # fmt: skip

    archive = tmp_path / "a"
    report = store_dump([day(0), day(1), day(3)], archive, SystemClock())
    assert report.notes == {"trades_and_quotes_of_local": 3 * 144}
    last = to_us(START + 48 * HOUR) - 600_000_000
    assert Archive(archive).gaps() == [("LOCAL", last, to_us(START + 72 * HOUR))]
    store_dump([day(2)], archive, SystemClock())
    assert Archive(archive).gaps() == []
    assert Archive(archive).verify() == []
    store_dump([day(9)], archive, SystemClock())
    assert len(Archive(archive).gaps() or ()) == 1
    with pytest.raises(InputError, match="none of 144 rows"):
        store_dump([day(4, 100.0)], archive, SystemClock())


@pytest.mark.parametrize(
    ("raised", "told_as"),
    [
        (OSError(28, "No space left"), OSError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (RuntimeError("Query interrupted"), KeyboardInterrupt),  # DuckDB's word for it.
        (RuntimeError("something else"), RuntimeError),
    ],
)
def test_what_ends_an_import_is_what_is_told(
    raised: BaseException,
    told_as: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while the next part is being read."""
    one = parquet(tmp_path / "trades.parquet", KALSHI, rows=rows_of(trades()))
    monkeypatch.setattr(dumps, "MARKETS_AT_ONCE", 1)
    before, seen = threading.active_count(), list[object]()

    def full(_: PointLedger, row: object) -> int:
        seen.append(row)
        if len(seen) > 1:
            raise raised
        return 1

    monkeypatch.setattr(PointLedger, "add_series", full)
    with pytest.raises(told_as) as found:
        store_dump([one], tmp_path / "world", SystemClock())
    assert found.value is raised or told_as is not type(raised)
    assert threading.active_count() == before
    assert not (tmp_path / "world" / "archive.json").exists()


def test_a_large_import_has_several_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = parquet(tmp_path / "trades.parquet", KALSHI, rows=rows_of(trades()))
    store_dump([one], tmp_path / "whole", SystemClock())
    monkeypatch.setattr("beforehand.store.archive.writer.LARGEST_SEGMENT", 30_000)
    store_dump([one], tmp_path / "cut", SystemClock())
    whole, cut = Archive(tmp_path / "whole"), Archive(tmp_path / "cut")
    assert len(cut.manifest["segments"]) > len(whole.manifest["segments"]) == 1
    assert [*cut.lines("price")] == [*whole.lines("price")]
    assert cut.verify() == []
