"""What was recorded and is not in its archive yet: one file a process, fsynced line by line.

Every exchange is on disk before its answer is used, so that a crash loses nothing that was paid
for. A file names the archive it belongs to. `flush` moves the lines there, those of processes that
ended without it as well; moving them twice changes nothing. A line that cannot be read is set
aside (`.damaged`), never dropped.
"""

import fcntl
import os
import secrets
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from orjson import JSONDecodeError, dumps, loads
from pydantic import BaseModel

from beforehand.errors import Unavailable
from beforehand.ids import digest
from beforehand.records.world import Exchange
from beforehand.store.archive.reader import KIND_OF, KINDS
from beforehand.store.archive.writer import ArchiveWriter

PATIENCE_S = 30.0


class Spool:
    """The waiting records of one archive; safe for threads of one process."""

    def __init__(self, folder: Path, archive: Path) -> None:
        self.folder, self.archive = folder, archive.resolve()
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()

    def keep(self, exchange: Exchange, records: Sequence[BaseModel]) -> None:
        """Write an exchange and its records down, for good. Raises Unavailable where the disk
        takes no more: nothing half-written stays behind."""
        rows = [[KIND_OF[type(r)], r.model_dump(mode="json", exclude_none=True)] for r in records]
        with self._lock:
            if self._file is None:
                self._file = self._open()
            self._write(dumps({"exchange": exchange.wire(), "records": rows}) + b"\n")

    def _open(self) -> IO[bytes]:
        """A new file, locked before its name says that it may be flushed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        hidden = path.with_suffix(".new")
        made = hidden.open("ab", buffering=0)
        weakref.finalize(self, made.close)
        fcntl.flock(made, fcntl.LOCK_EX)
        made.write(dumps({"archive": str(self.archive)}) + b"\n")
        hidden.rename(path)
        self._path = path
        return made

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        start, done = os.fstat(self._file.fileno()).st_size, 0
        try:
            while done < len(line):
                done += os.write(self._file.fileno(), line[done:])
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), start)
            raise Unavailable(
                f"{self.folder} takes no more ({error.strerror}): an answer could not be kept; "
                "make room before you record on"
            ) from None

    @property
    def size(self) -> int:
        """Bytes that wait in this process's file."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def flush(self, now: datetime) -> int:
        """Move everything that waits into its archive; returns how many exchanges were new."""
        with self._lock:
            return self._flush(now)

    def _flush(self, now: datetime) -> int:
        moved = 0
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder.is_dir() else ():
            mine = self._file is not None and self._path == path
            try:
                handle = path.open("rb")
            except FileNotFoundError:
                continue  # Another process has just moved it.
            with handle:
                if not mine:
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue  # Another process is still recording.
                moved += self._move(path, handle.read(), now)
                if mine:
                    assert self._file is not None
                    self._file.close()
                    self._file = None
                path.unlink(missing_ok=True)
        return moved

    def _move(self, path: Path, content: bytes, now: datetime) -> int:
        records: list[BaseModel] = []
        damaged: list[bytes] = []
        archive, providers = self.archive, set()
        lines = content.split(b"\n")
        for line in filter(None, lines):
            try:
                row = loads(line)
                if "archive" in row:
                    archive = Path(row["archive"])
                    continue
                found = _read(row)
            except (JSONDecodeError, KeyError, TypeError, ValueError):
                if line != lines[-1]:  # The last one may be what a crash left of a line.
                    damaged.append(line)
                continue
            records += found
            providers.add(row["exchange"]["provider"])
        if damaged:
            path.with_suffix(".damaged").write_bytes(b"\n".join(damaged) + b"\n")
        if not records:
            return 0
        waited = 0.0
        while True:
            try:
                report = ArchiveWriter(archive).add(
                    records,
                    importer="record",
                    source=", ".join(sorted(providers)),
                    source_digest=digest(content),
                    recorded_at=now,
                )
                return report.new.get("exchange", 0)
            except Unavailable:
                if waited >= PATIENCE_S:
                    raise
                time.sleep(0.2)
                waited += 0.2


def _read(row: dict[str, Any]) -> list[BaseModel]:
    """The exchange of a line and its records."""
    records: list[BaseModel] = [Exchange.model_validate(row["exchange"])]
    return records + [KINDS[kind].model_validate(value) for kind, value in row["records"]]
