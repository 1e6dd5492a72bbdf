"""Loading CSV and Parquet into the market-data table, with every rejected row reported.

DuckDB reads the file; each row is checked; what is taken goes to a file of columns and, in one
transaction that also lists that file, to SQLite. The same file is not loaded twice.
"""

import sqlite3
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.clock import iso, to_us
from beforehand.errors import InputError
from beforehand.store.files import Reject, exclusive, file_digest, write_jsonl
from beforehand.store.market_data import INDEXES, connect
from beforehand.store.market_data_templates import COLUMNS

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
    rejected: int = 0
    already: bool = False
    rejects: list[Reject] = field(default_factory=list)
    rejects_file: str | None = None

    def wire(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "source": self.source,
            "loaded": self.loaded,
            "rejected": self.rejected,
            "already_loaded": self.already,
            "rejects": [reject.sentence() for reject in self.rejects[:20]],
            "rejects_file": self.rejects_file,
        }


def load(path: Path, file: Path, loaded_at: datetime) -> LoadReport:
    """Load one file into the table at `path`. Raises InputError where the file cannot be read or
    lacks `symbol` or `timestamp`."""
    import duckdb

    if not file.is_file():
        raise InputError(f"{file} does not exist")
    report = LoadReport(str(file))
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "load.lock"):
        db = connect(path)
        mark = file_digest(file)
        if db.execute("SELECT 1 FROM loads WHERE digest = ?", (mark,)).fetchone():
            report.already = True
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


def _write_columns(duck: Any, segment: Path) -> None:
    """The rows as a DuckDB file of their own, whole or not at all."""
    partial = segment.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    duck.execute(f"ATTACH '{_quoted(partial)}' AS made")
    columns = ", ".join((*COLUMNS, "created_us"))
    duck.execute(f"CREATE TABLE made.market_data AS SELECT {columns} FROM good ORDER BY id")
    duck.execute("CHECKPOINT made")
    duck.execute("DETACH made")
    partial.replace(segment)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _read(duck: Any, file: Path, report: LoadReport) -> None:
    """The file as text columns under our names, with the line each row stood on."""
    if file.suffix == ".parquet":
        duck.execute(f"CREATE TABLE raw AS SELECT * FROM read_parquet('{_quoted(file)}')")
        first = 1
    else:
        duck.execute(
            f"CREATE TABLE raw AS SELECT * FROM read_csv('{_quoted(file)}', all_varchar=true, "
            "header=true, store_rejects=true, null_padding=false)"
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
        raise InputError(f"{file} has a column twice: {', '.join(names)}")
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
    """`good` holds what is taken; whatever is not is told apart by its first fault."""
    top = db.execute("SELECT coalesce(max(id), 0) FROM market_data").fetchone()[0]
    taken = [row[0] for row in db.execute("SELECT id FROM market_data")] if top else []
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute("CREATE TABLE taken (id BIGINT)")
    if taken:
        import numpy as np

        ids = np.array(taken, dtype=np.int64)
        duck.register("ids", {"id": ids})
        duck.execute("INSERT INTO taken SELECT id FROM ids")
    numbers = ", ".join(f"TRY_CAST({name} AS DOUBLE) AS {name}_n" for name in _NUMBERS)
    duck.execute(
        f"CREATE TABLE typed AS SELECT *, TRY_CAST(id AS BIGINT) AS id_n, {numbers}, "
        "TRY_CAST(timestamp AS TIMESTAMPTZ) AS timestamp_t, "
        "TRY_CAST(coalesce(file_date, substr(timestamp, 1, 10)) AS DATE) AS file_date_d, "
        "CASE WHEN is_valid IS NULL THEN true ELSE TRY_CAST(is_valid AS BOOLEAN) END AS valid_b, "
        "TRY_CAST(created_at AS TIMESTAMPTZ) AS created_t, "
        "count(*) OVER (PARTITION BY id) AS same_id FROM lines"
    )
    faults = [
        ("symbol IS NULL OR trim(symbol) = ''", "no symbol"),
        ("timestamp_t IS NULL", "timestamp is no time"),
        ("file_date_d IS NULL", "file_date is no day"),
        ("id IS NOT NULL AND id_n IS NULL", "id is no whole number"),
        ("id IS NOT NULL AND same_id > 1", "id stands twice in the file"),
        ("id_n IN (SELECT id FROM taken)", "id is taken by an earlier load"),
        ("valid_b IS NULL", "is_valid is neither true nor false"),
        ("created_at IS NOT NULL AND created_t IS NULL", "created_at is no time"),
    ]
    for name in _NUMBERS:
        faults.append(
            (f"{name} IS NOT NULL AND {name} <> '' AND {name}_n IS NULL", f"{name} is no number")
        )
        faults.append((f"NOT isfinite(coalesce({name}_n, 0))", f"{name} is no finite number"))
    cases = " ".join(f"WHEN {condition} THEN '{reason}'" for condition, reason in faults)
    duck.execute(f"CREATE TABLE judged AS SELECT *, CASE {cases} END AS fault FROM typed")
    bad = duck.execute(
        "SELECT line, fault, concat_ws(',', symbol, timestamp, bid, ask, price) FROM judged "
        f"WHERE fault IS NOT NULL ORDER BY line LIMIT {KEPT_REJECTS}"
    ).fetchall()
    report.rejected += duck.execute(
        "SELECT count(*) FROM judged WHERE fault IS NOT NULL"
    ).fetchone()[0]
    skipped = sorted(reject.line for reject in report.rejects)
    for position, why, raw in bad:
        report.rejects.append(Reject(str(file), _line(position, skipped), why, str(raw)[:200]))
    stamp = "'%Y-%m-%dT%H:%M:%S'"
    form = (
        "strftime({0}, " + stamp + ") || CASE WHEN microsecond({0}) % 1000000 = 0 THEN '' ELSE "
        "strftime({0}, '.%f') END || 'Z'"
    )
    duck.execute(
        "CREATE TABLE good AS SELECT "
        f"coalesce(id_n, {top} + row_number() OVER (ORDER BY line) + "
        "coalesce((SELECT max(id_n) FROM judged WHERE fault IS NULL), 0)) AS id, "
        "symbol, bid_n AS bid, ask_n AS ask, price_n AS price, bid_quantity_n AS bid_quantity, "
        f"offer_quantity_n AS offer_quantity, {form.format('timestamp_t')} AS timestamp, "
        "strftime(file_date_d, '%Y-%m-%d') AS file_date, "
        f"coalesce(data_source, '{_quoted(Path(file.name))}') AS data_source, "
        "CASE WHEN valid_b THEN 1 ELSE 0 END AS is_valid, "
        f"CASE WHEN created_t IS NULL THEN '{iso(loaded_at)}' ELSE {form.format('created_t')} END "
        f"AS created_at, coalesce(epoch_us(created_t), {to_us(loaded_at)}) AS created_us "
        "FROM judged WHERE fault IS NULL"
    )
    report.loaded = duck.execute("SELECT count(*) FROM good").fetchone()[0]


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
        if report.loaded > held:  # Building an index at the end is cheaper than keeping it up.
            for name in INDEXES:
                db.execute(f"DROP INDEX IF EXISTS {name}")
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        rows = duck.execute(f"SELECT {', '.join(COLUMNS)}, created_us FROM good ORDER BY id")
        while chunk := rows.fetchmany(CHUNK):
            db.executemany(f"INSERT INTO market_data VALUES ({marks})", chunk)
        symbols = duck.execute("SELECT DISTINCT symbol FROM good").fetchall()
        db.executemany("INSERT OR IGNORE INTO symbols VALUES (?)", symbols)
        db.execute(
            "INSERT INTO loads (source, digest, columns, rows, rejected, loaded_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (report.source, mark, segment, report.loaded, report.rejected, iso(at)),
        )
        for name, columns in INDEXES.items():
            db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("PRAGMA optimize")
