"""Loading CSV and Parquet into the market-data table, with every rejected row reported.

DuckDB reads the file; each row is checked; accepted rows go to a file of columns and, in one
transaction that also lists that file, to SQLite. The same file is not loaded twice.
"""

import re
import sqlite3
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.clock import FIRST_YEAR, LAST_YEAR, iso, to_us
from beforehand.errors import InputError
from beforehand.store.files import (
    TURN,
    Reject,
    exclusive,
    file_digest,
    need_file,
    refuse_packed,
    refuse_size,
    write_jsonl,
)
from beforehand.store.market_data.table import INDEXES, connect
from beforehand.store.market_data.templates import COLUMNS

ALIASES = {"raw_symbol": "symbol", "last_price": "price", "ask_quantity": "offer_quantity"}
NEEDED = ("symbol", "timestamp")
CHUNK = 50_000
KEPT_REJECTS = 1000
_NUMBERS = ("bid", "ask", "price", "bid_quantity", "offer_quantity")


@dataclass
class LoadReport:
    """What a load did. `rejects` holds the first thousand; all are counted."""

    source: str
    loaded: int = 0
    same: int = 0
    rejected: int = 0
    undated: int = 0
    sourced: bool = False
    ignored: list[str] = field(default_factory=list)
    already: bool = False
    rejects: list[Reject] = field(default_factory=list)
    rejects_file: str | None = None

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "source": self.source,
            "loaded": self.loaded,
            "same": self.same,
            "without_created_at": self.undated,
            "ignored_columns": self.ignored,
            "rejected": self.rejected,
            "already_loaded": self.already,
            "rejects": [reject.sentence() for reject in self.rejects[:20]],
            "rejects_file": self.rejects_file,
        }


def load(path: Path, file: Path, loaded_at: datetime) -> LoadReport:
    """Load one file into the table at `path`. Raises InputError where the file cannot be read or
    lacks `symbol` or `timestamp`."""
    import duckdb

    _look(file)
    report = LoadReport(str(file))
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "load.lock", wait=TURN):
        db = connect(path)
        mark = file_digest(file)
        held = db.execute("SELECT rejected, rejects FROM loads WHERE digest = ?", (mark,))
        if row := held.fetchone():
            db.close()
            report.already, report.rejected, report.rejects_file = True, row[0], row[1]
            return report
        duck = duckdb.connect()
        try:
            _read(duck, file, report)
            _check(duck, db, file, loaded_at, report)
            segment = folder / f"{mark[:32]}.duckdb"
            if report.loaded:
                _write_columns(duck, segment)
            if report.rejects:
                target = folder / f"{mark[:32]}.rejects.jsonl"
                write_jsonl(target, [vars(reject) for reject in report.rejects])
                report.rejects_file = str(target)
            _store(duck, db, segment.name, mark, loaded_at, report)
        except duckdb.Error as error:
            raise InputError(f"{file} cannot be read: {str(error).splitlines()[0]}") from None
        finally:
            duck.close()
            db.close()
    return report


def _look(file: Path) -> None:
    """Raise InputError, with a message for each case, for a file that is not a table."""
    need_file(file)
    with file.open("rb") as opened:
        head = opened.read(4096)
    if not head.strip():
        raise InputError(f"{file} is empty")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{file} is UTF-16: save it as UTF-8")
    if file.suffix != ".parquet" and head[:2] != b"\x1f\x8b":
        names = head.decode("utf-8-sig", "replace").splitlines()[0].split(",")
        plain = [name.strip().strip('"').lower() for name in names]
        if repeated := sorted({n for n in plain if n in COLUMNS and plain.count(n) > 1}):
            raise InputError(f"{file} has the column {repeated[0]!r} twice")


def _pattern(path: Path) -> str:
    """The path as DuckDB takes it: quoted, and with its wildcards taken literally."""
    return _quoted(Path(re.sub(r"([\[\]*?])", r"[\1]", str(path))))


def _write_columns(duck: Any, segment: Path) -> None:
    """The rows as a DuckDB file of their own, whole or not at all."""
    partial = segment.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    duck.execute(f"ATTACH '{_quoted(partial)}' AS made")
    columns = ", ".join((*COLUMNS, "created_us", "timestamp_us"))
    duck.execute(f"CREATE TABLE made.market_data AS SELECT {columns} FROM good ORDER BY id")
    duck.execute("CHECKPOINT made")
    duck.execute("DETACH made")
    partial.replace(segment)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _read(duck: Any, file: Path, report: LoadReport) -> None:
    """The file as text columns under our names, with the line each row stood on."""
    if file.suffix == ".parquet":
        source = f"read_parquet('{_pattern(file)}', hive_partitioning=false)"
        whole = f"parquet_metadata('{_pattern(file)}')"
        (size,) = duck.execute(f"SELECT sum(total_uncompressed_size) FROM {whole}").fetchone()
        refuse_size(file, int(size or 0))
        duck.execute(f"CREATE TABLE raw AS SELECT * FROM {source}")
        first = 1
    else:
        if file.name.endswith(".gz"):
            refuse_packed(file)
        duck.execute(
            f"CREATE TABLE raw AS SELECT * FROM read_csv('{_pattern(file)}', all_varchar=true, "
            "header=true, store_rejects=true, null_padding=false, hive_partitioning=false)"
        )
        first = 2
        lost = duck.execute(
            "SELECT line, any_value(error_message), any_value(csv_line) FROM reject_errors "
            "GROUP BY line ORDER BY line"
        ).fetchall()
        report.rejected += len(lost)
        for line, reason, text in lost[:KEPT_REJECTS]:
            said = str(reason).splitlines()[0]
            report.rejects.append(Reject(str(file), int(line), said, str(text or "")[:200]))
    names = [row[0] for row in duck.execute("DESCRIBE raw").fetchall()]
    renamed = {name: ALIASES.get(name.strip().lower(), name.strip().lower()) for name in names}
    if missing := [name for name in NEEDED if name not in renamed.values()]:
        raise InputError(
            f"{file} lacks the column {missing[0]!r}: it has {', '.join(names[:12])}; known are "
            f"{', '.join(COLUMNS)}"
        )
    if len(set(renamed.values())) != len(renamed):
        raise InputError(f"{file} has a column twice: {', '.join(names[:12])}")
    report.sourced = "data_source" in renamed.values()
    report.ignored = [name for name, ours in renamed.items() if ours not in COLUMNS][:20]
    picked = [
        f'CAST("{name}" AS VARCHAR) AS {ours}' for name, ours in renamed.items() if ours in COLUMNS
    ]
    absent = [f"NULL AS {name}" for name in COLUMNS if name not in renamed.values()]
    duck.execute(
        f"CREATE TABLE lines AS SELECT row_number() OVER () + {first - 1} AS line, "
        f"{', '.join(picked + absent)} FROM raw"
    )
    duck.execute("DROP TABLE raw")


def _check(
    duck: Any, db: sqlite3.Connection, file: Path, loaded_at: datetime, report: LoadReport
) -> None:
    """Put the accepted rows in the table `good`; report each other row with its first fault."""
    top = int(db.execute("SELECT coalesce(max(id), 0) FROM market_data").fetchone()[0])
    duck.execute("SET TimeZone = 'UTC'")
    earlier = _attach_earlier(duck, db, file)
    _make_typed(duck)
    cases = " ".join(f"WHEN {condition} THEN '{reason}'" for condition, reason in _faults(earlier))
    duck.execute(f"CREATE TABLE judged AS SELECT *, CASE {cases} END AS fault FROM counted")
    _report_bad(duck, file, report)
    report.undated = int(
        duck.execute(
            "SELECT count(*) FROM judged WHERE fault IS NULL AND created_t IS NULL"
        ).fetchone()[0]
    )
    _make_good(duck, file, loaded_at, top)
    _drop_same(duck, earlier, report)
    report.loaded = int(duck.execute("SELECT count(*) FROM good").fetchone()[0])


def _make_typed(duck: Any) -> None:
    """Make the table `counted`: each line's texts, their values (NULL where a text is not one), and
    how often its id occurs."""
    numbers = ", ".join(f"TRY_CAST({name} AS DOUBLE) AS {name}_n" for name in _NUMBERS)
    whole = "regexp_full_match(trim(id), '-?[0-9]{1,15}')"
    duck.execute(
        f"CREATE TABLE typed AS SELECT *, {numbers}, "
        f"CASE WHEN {whole} THEN id::BIGINT END AS id_n, "
        "TRY_CAST(timestamp AS TIMESTAMPTZ) AS timestamp_t, "
        "TRY_CAST(coalesce(file_date, substr(timestamp, 1, 10)) AS DATE) AS file_date_d, "
        "CASE WHEN is_valid IS NULL THEN true ELSE coalesce(TRY_CAST(is_valid AS BOOLEAN), "
        "TRY_CAST(TRY_CAST(is_valid AS DOUBLE) AS BOOLEAN)) END AS valid_b, "
        "TRY_CAST(created_at AS TIMESTAMPTZ) AS created_t FROM lines"
    )
    duck.execute(
        "CREATE TABLE counted AS SELECT *, count(*) OVER (PARTITION BY id_n) AS same_id FROM typed"
    )


def _faults(earlier: str) -> list[tuple[str, str]]:
    """(condition, the reason given for a row that meets it), in the order in which they are
    checked."""
    years = f"BETWEEN TIMESTAMPTZ '{FIRST_YEAR}-01-01' AND TIMESTAMPTZ '{LAST_YEAR}-12-31'"
    days = f"BETWEEN DATE '{FIRST_YEAR}-01-01' AND DATE '{LAST_YEAR}-12-31'"
    faults = [
        ("symbol IS NULL OR trim(symbol) = ''", "no symbol"),
        (f"coalesce(timestamp_t {years}, false) = false", "timestamp is not a time"),
        (f"coalesce(file_date_d {days}, false) = false", "file_date is not a day"),
        ("id IS NOT NULL AND id_n IS NULL", "id is not a whole number"),
        ("id_n IS NOT NULL AND same_id > 1", "id occurs twice in the file"),
        ("valid_b IS NULL", "is_valid is neither true nor false"),
        (
            f"created_at IS NOT NULL AND coalesce(created_t {years}, false) = false",
            "created_at is not a time",
        ),
    ]
    if earlier:
        taken = f"id_n IN (SELECT id FROM {earlier})"
        faults.append((taken, "id is taken by an earlier load"))
    for name in _NUMBERS:
        given = f"{name} IS NOT NULL AND {name} <> ''"
        faults.append((f"{given} AND {name}_n IS NULL", f"{name} is not a number"))
        faults.append((f"NOT isfinite(coalesce({name}_n, 0))", f"{name} is not a finite number"))
    return faults


def _report_bad(duck: Any, file: Path, report: LoadReport) -> None:
    """Count the rows with a fault, and keep the first of them."""
    bad = duck.execute(
        "SELECT line, fault, concat_ws(',', symbol, timestamp, bid, ask, price) FROM judged "
        f"WHERE fault IS NOT NULL ORDER BY line LIMIT {KEPT_REJECTS}"
    ).fetchall()
    total = duck.execute("SELECT count(*) FROM judged WHERE fault IS NOT NULL").fetchone()
    report.rejected += int(total[0])
    skipped = sorted(reject.line for reject in report.rejects)
    for position, why, raw in bad:
        report.rejects.append(Reject(str(file), _line(position, skipped), why, str(raw)[:200]))
    report.rejects.sort(key=lambda reject: reject.line)


def _make_good(duck: Any, file: Path, loaded_at: datetime, top: int) -> None:
    stamp = "'%Y-%m-%dT%H:%M:%S'"
    form = (
        "strftime({0}, " + stamp + ") || CASE WHEN microsecond({0}) % 1000000 = 0 THEN '' ELSE "
        "strftime({0}, '.%f') END || 'Z'"
    )
    highest = "coalesce((SELECT max(id_n) FROM judged WHERE fault IS NULL), 0)"
    duck.execute(
        "CREATE TABLE good AS SELECT id_n IS NOT NULL AS named, "
        f"coalesce(id_n, greatest({top}, {highest}, 0) + row_number() OVER (ORDER BY line)) AS id, "
        "symbol, bid_n AS bid, ask_n AS ask, price_n AS price, bid_quantity_n AS bid_quantity, "
        f"offer_quantity_n AS offer_quantity, {form.format('timestamp_t')} AS timestamp, "
        "strftime(file_date_d, '%Y-%m-%d') AS file_date, "
        f"coalesce(data_source, '{_quoted(Path(file.name))}') AS data_source, "
        "CASE WHEN valid_b THEN 1 ELSE 0 END AS is_valid, "
        f"CASE WHEN created_t IS NULL THEN '{iso(loaded_at)}' ELSE {form.format('created_t')} END "
        f"AS created_at, coalesce(epoch_us(created_t), {to_us(loaded_at)}) AS created_us, "
        "epoch_us(timestamp_t) AS timestamp_us FROM judged WHERE fault IS NULL"
    )


def _attach_earlier(duck: Any, db: sqlite3.Connection, file: Path) -> str:
    """The rows of all earlier loads, to select from; empty where there are none."""
    folder = Path(str(db.execute("PRAGMA database_list").fetchone()[2])).with_suffix("")
    names = []
    for number, columns in db.execute("SELECT id, columns FROM loads WHERE rows > 0").fetchall():
        duck.execute(f"ATTACH '{_quoted(folder / columns)}' AS load_{number} (READ_ONLY)")
        names.append(f"SELECT * FROM load_{number}.market_data")
    return f"({' UNION ALL '.join(names)})" if names else ""


def _drop_same(duck: Any, earlier: str, report: LoadReport) -> None:
    """Leave out rows without an id of their own that an earlier load holds already: a corrected
    file may be loaded again."""
    if not earlier:
        return
    keys = ["symbol", "timestamp_us", "file_date", "is_valid", *_NUMBERS]
    if report.sourced:
        keys.append("data_source")
    equal = " AND ".join(f"e.{key} IS NOT DISTINCT FROM good.{key}" for key in keys)
    before = duck.execute("SELECT count(*) FROM good").fetchone()[0]
    duck.execute(
        f"CREATE TABLE fresh AS SELECT * FROM good WHERE named OR NOT EXISTS "
        f"(SELECT 1 FROM {earlier} e WHERE {equal})"
    )
    duck.execute("DROP TABLE good")
    duck.execute("ALTER TABLE fresh RENAME TO good")
    report.same = int(before - duck.execute("SELECT count(*) FROM good").fetchone()[0])


def _line(position: int, skipped: list[int]) -> int:
    """The line of a row in the file, from its place among the rows that could be read."""
    for line in skipped:
        if line <= position:
            position += 1
    return position


def _store(
    duck: Any, db: sqlite3.Connection, segment: str, mark: str, at: datetime, report: LoadReport
) -> None:
    """Rows, symbols, the list of loads and the indexes, in one transaction."""
    db.execute("PRAGMA cache_size=-400000")
    db.execute("BEGIN IMMEDIATE")
    try:
        held = db.execute("SELECT coalesce(sum(rows), 0) FROM loads").fetchone()[0]
        if report.loaded > held:  # Building an index at the end is cheaper than updating it.
            for name in INDEXES:
                db.execute(f"DROP INDEX IF EXISTS {name}")
        marks = ", ".join("?" * (len(COLUMNS) + 2))
        columns = ", ".join((*COLUMNS, "created_us", "timestamp_us"))
        rows = duck.execute(f"SELECT {columns} FROM good ORDER BY id")
        while chunk := rows.fetchmany(CHUNK):
            db.executemany(f"INSERT INTO market_data VALUES ({marks})", chunk)
        symbols = duck.execute("SELECT DISTINCT symbol FROM good").fetchall()
        db.executemany("INSERT OR IGNORE INTO symbols VALUES (?)", symbols)
        db.execute(
            "INSERT INTO loads (source, digest, columns, rows, same, rejected, rejects, loaded_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                report.source,
                mark,
                segment,
                report.loaded,
                report.same,
                report.rejected,
                report.rejects_file,
                iso(at),
            ),
        )
        for name, columns in INDEXES.items():
            db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("PRAGMA optimize")
