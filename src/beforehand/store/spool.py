"""What was recorded and is not in the archive yet: one file a process, fsynced line by line.

Every exchange is on disk before its answer is used, so that a crash loses nothing that was paid
for. `flush` moves the lines into the archive, those of processes that ended without it as well;
moving them twice changes nothing.
"""

import fcntl
import os
import secrets
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from orjson import JSONDecodeError, dumps, loads
from pydantic import BaseModel

from beforehand.errors import Unavailable
from beforehand.ids import digest
from beforehand.records.world import Exchange
from beforehand.store.archive import KIND_OF, KINDS
from beforehand.store.archive_writer import ArchiveWriter

PATIENCE_S = 30.0


class Spool:
    """Safe for threads of one process: a line is one write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[bytes] | None = None

    def keep(self, exchange: Exchange, records: Sequence[BaseModel]) -> None:
        """Write an exchange and its records down, for good."""
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            self._file = path.open("ab", buffering=0)
            weakref.finalize(self, self._file.close)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        rows = [[KIND_OF[type(r)], r.model_dump(mode="json", exclude_none=True)] for r in records]
        line = dumps({"exchange": exchange.wire(), "records": rows})
        self._file.write(line + b"\n")
        os.fsync(self._file.fileno())

    @property
    def size(self) -> int:
        """Bytes that wait in this process's file."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def flush(self, archive: Path, now: datetime) -> int:
        """Move everything that waits into the archive; returns how many exchanges."""
        moved = 0
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder.is_dir() else ():
            mine = self._file is not None and Path(self._file.name) == path
            with path.open("rb") as handle:
                if not mine:
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue  # Another process is still recording.
                content = handle.read()
                moved += self._move(content, archive, now)
                if mine:
                    assert self._file is not None
                    self._file.close()
                    self._file = None
                with suppress(FileNotFoundError):
                    path.unlink()
        return moved

    def _move(self, content: bytes, archive: Path, now: datetime) -> int:
        lines = list(_lines(content))
        if not lines:
            return 0
        records: list[BaseModel] = []
        for line in lines:
            records.append(Exchange.model_validate(line["exchange"]))
            records += [KINDS[kind].model_validate(row) for kind, row in line["records"]]
        providers = sorted({line["exchange"]["provider"] for line in lines})
        waited = 0.0
        while True:
            try:
                ArchiveWriter(archive).add(
                    records,
                    importer="record",
                    source=", ".join(providers),
                    source_digest=digest(content),
                    recorded_at=now,
                )
                return len(lines)
            except Unavailable:
                if waited >= PATIENCE_S:
                    raise
                time.sleep(0.2)
                waited += 0.2


def _lines(content: bytes) -> Iterator[dict[str, Any]]:
    """Whole lines; what a crash left of a last one is passed over."""
    for line in content.split(b"\n"):
        if line:
            try:
                yield loads(line)
            except JSONDecodeError:
                continue
