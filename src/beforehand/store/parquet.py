"""Tables for other tools."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from beforehand.store.files import write_jsonl


def write_parquet(
    path: Path,
    rows: Iterable[Mapping[str, object]],
    columns: Mapping[str, str],
    facts: Mapping[str, str],
) -> int:
    """Rows as a Parquet file, atomically; returns how many. `columns` maps each name to its SQL
    type, `facts` become the file's key-value metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    kept = ", ".join(f"{name}: '{_escaped(text)}'" for name, text in facts.items())
    with TemporaryDirectory(dir=path.parent) as folder:
        lines, made = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        n = write_jsonl(lines, rows)
        with duckdb.connect() as db:
            db.execute(
                f"COPY (SELECT * FROM read_json(?, format = 'newline_delimited', "
                f"columns = {{{kinds}}})) TO '{_quoted(made)}' (FORMAT parquet, "
                f"COMPRESSION zstd, KV_METADATA {{{kept}}})",
                [str(lines)],
            )
        made.replace(path)
    return n


def _quoted(path: Path) -> str:
    return _escaped(str(path))


def _escaped(text: str) -> str:
    return text.replace("'", "''")
