"""One SQL database behind short transactions: a SQLite file, or Postgres where one is named.

SQL is written once, with `:name` parameters, in the common part of both dialects; the schema's
`{identity}` and `{blob}` stand for the two column types that differ. SQLite is used directly;
Postgres through SQLAlchemy (`store/postgres.py`), which takes a third of a second to load.
"""

import os
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

from beforehand.errors import BeforehandError, Corrupt, Held, InputError, Unavailable
from beforehand.store.files import exclusive

BUSY_S = 30.0
MOST_IDLE = 16
"""How many unused connections to a SQLite file are kept open."""
Row = tuple[Any, ...]
T = TypeVar("T")


class Transaction(ABC):
    """Statements between one BEGIN and one COMMIT."""

    @abstractmethod
    def run(self, sql: str, **values: Any) -> list[Row]:
        """Execute one statement; returns its rows (none for a plain write). A list as value stands
        for the members after IN."""

    @abstractmethod
    def many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> int:
        """Execute one statement for each of the rows; returns how many rows it changed in all."""

    @abstractmethod
    def epoch(self, given: float) -> float:
        """Seconds since 1970: the server's own clock on Postgres (machines may disagree), else
        the caller's."""


class DatabaseBackend(Protocol):
    """What lies behind a Database."""

    types: Mapping[str, str]
    """The column types that differ between the dialects."""
    read_only: bool
    """Whether nobody may write here."""
    schema: str
    """What reading finds there where nothing is: empty tables."""

    def transaction(
        self, write: bool, lock: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """BEGIN to COMMIT; rolled back where the block raises. `lock` is held until it ends."""

    def tables(self) -> set[str]: ...
    def hold(self, name: str, file: Path) -> AbstractContextManager[Callable[[], None]]: ...
    def explain(self, error: BaseException) -> str | None:
        """The driver's message, if the error comes from the driver."""

    def close(self) -> None: ...


class Database:
    """Safe for threads and processes. Raises Unavailable where the database is locked, full or
    unreachable, and Corrupt where the file is not a database."""

    def __init__(self, address: Path | str, *, durable: bool = True, busy: float = BUSY_S) -> None:
        """`address` is a file, or a `postgresql://` URL. `durable` asks for an fsync at each
        commit; `busy` is how many seconds to wait for a lock."""
        self.postgres = isinstance(address, str)
        self.title = "the database at BEFOREHAND_DATABASE_URL" if self.postgres else str(address)
        self._writing, self._queueing = threading.Lock(), threading.Lock()
        self._queue: list[_Waiting] = []
        self._backend: DatabaseBackend
        if isinstance(address, str):
            from beforehand.store.postgres import Postgres

            self._backend = Postgres(address)
        else:
            self._backend = Sqlite(address, durable, busy)

    @property
    def read_only(self) -> bool:
        """Whether nobody may write here."""
        return self._backend.read_only

    @contextmanager
    def write(self, lock: str | None = None) -> Iterator[Transaction]:
        """A transaction that may write. On Postgres it holds the named lock until it ends; SQLite
        has one writer anyway."""
        if self.postgres:
            with self._mapped(), self._backend.transaction(True, lock) as tx:
                yield tx
            return
        # Threads queue here, not in SQLite's busy handler, which sleeps longer each time.
        with self._writing, self._mapped(), self._backend.transaction(True) as tx:
            yield tx

    def together(self, lock: str, work: Callable[[Transaction], T]) -> T:
        """What `work` returns, once it is committed. On SQLite all callers that wait for the writer
        share one transaction, and so one fsync; if one of them fails, only its own work is undone.
        On Postgres each call is a transaction of its own, under the named lock."""
        if self.postgres:
            with self.write(lock) as tx:
                return work(tx)
        mine = _Waiting(work)
        with self._queueing:
            self._queue.append(mine)
        with self._writing:
            if not mine.ended:
                with self._queueing:
                    batch, self._queue = self._queue, []
                self._write_all(batch)
        if mine.error is not None:
            raise mine.error
        return cast(T, mine.result)

    def _write_all(self, batch: "list[_Waiting]") -> None:
        """Run each piece of work in one transaction."""
        try:
            with self._mapped(), self._backend.transaction(True) as tx:
                assert isinstance(tx, SqliteTransaction)
                for waiting in batch:
                    try:
                        with self._mapped():
                            waiting.result = tx.attempt(waiting.work)
                    except _Undone:
                        raise
                    except BaseException as error:
                        waiting.error = error
        except BaseException as error:  # Nothing was committed: all of them failed.
            for waiting in batch:
                waiting.error = self._cause(error)
        finally:
            for waiting in batch:
                waiting.ended = True

    def _cause(self, error: BaseException) -> BaseException:
        """The error to raise for a transaction that was undone."""
        if not isinstance(error, _Undone):
            return error
        try:
            with self._mapped():
                raise error.cause
        except BaseException as said:
            return said

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A transaction that only reads: one snapshot for all its statements."""
        with self._mapped(), self._backend.transaction(False) as tx:
            yield tx

    def tables(self) -> set[str]:
        """The names of the tables that are there."""
        with self._mapped():
            return self._backend.tables()

    def create(self, schema: str) -> None:
        """Create tables and indices that are not there yet; in a folder that nobody may write to,
        they are as they are, or empty."""
        whole = schema.format(**self._backend.types)
        if self._backend.read_only:
            self._backend.schema += f"{whole};"
            return
        with self.write("schema") as tx:
            for statement in filter(str.strip, whole.split(";")):
                tx.run(statement)

    @contextmanager
    def hold(self, name: str, file: Path) -> Iterator[Callable[[], None]]:
        """Hold a lock that dies with this process: a lock file, or a lock of a Postgres session.
        Raises Held if another process holds it. Yields a function that raises Unavailable if the
        lock was lost meanwhile."""
        with ExitStack() as held:
            with self._mapped():
                still = held.enter_context(self._backend.hold(name, file))
            yield lambda: self._checked(still)

    def _checked(self, still: Callable[[], None]) -> None:
        with self._mapped():
            still()

    def close(self) -> None:
        """Give the connections back."""
        self._backend.close()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except (BeforehandError, _Undone):
            raise
        except Exception as error:
            said = self._backend.explain(error)
            if said is None:
                raise
            raise _explain(said, self.title) from error


class Sqlite:
    """A SQLite file: WAL, foreign keys, IMMEDIATE transactions for writing. Connections are kept,
    the last one used first."""

    types: Mapping[str, str] = MappingProxyType({"identity": "INTEGER PRIMARY KEY", "blob": "BLOB"})

    def __init__(self, path: Path, durable: bool, busy: float) -> None:
        self._path, self._durable, self._busy = path, durable, busy
        self._idle: list[sqlite3.Connection] = []
        self._lock, self._closed = threading.Lock(), False
        # A published run on a volume, a snapshot, a colleague's folder.
        there = next(folder for folder in path.resolve().parents if folder.exists())
        self.read_only = not os.access(there, os.W_OK)
        self.schema = ""
        if self.read_only:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"{path} cannot be opened for writing: {error}") from None

    @contextmanager
    def transaction(self, write: bool, lock: str | None = None) -> Iterator[Transaction]:
        """BEGIN to COMMIT on a connection of its own."""
        if write and self.read_only:
            raise Unavailable(
                f"{self._path} cannot be opened for writing: nobody may write to its folder"
            )
        connection = self._take()
        try:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield SqliteTransaction(connection)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if connection.in_transaction:  # A full disk has undone all of it already.
                    connection.execute("ROLLBACK")
            raise
        finally:
            self._give(connection)

    def tables(self) -> set[str]:
        """The names of the tables that are there."""
        with self.transaction(False) as tx:
            return {row[0] for row in tx.run("SELECT name FROM sqlite_master WHERE type='table'")}

    @contextmanager
    def hold(self, name: str, file: Path) -> Iterator[Callable[[], None]]:
        """Hold a lock file."""
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(file))
            except Unavailable:
                raise Held(f"another process holds {name!r}") from None
            yield lambda: None

    def explain(self, error: BaseException) -> str | None:
        """What SQLite says."""
        return str(error) if isinstance(error, sqlite3.Error) else None

    def close(self) -> None:
        """Close every connection; one that is in use closes when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_to_read(self) -> sqlite3.Connection:
        """A connection to a file that nobody may write to, and that lies there whole; where there
        is none, to empty tables."""
        if not self._path.exists():
            made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            made.executescript(self.schema)
            return made
        log = self._path.with_name(f"{self._path.name}-wal")
        if log.is_file() and log.stat().st_size:
            raise Unavailable(
                f"{self._path} has changes in {log.name} that can only be read where {log.parent} "
                "can be written to: copy the folder"
            )
        return sqlite3.connect(
            f"{self._path.resolve().as_uri()}?mode=ro&immutable=1",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            self._closed = False
            if self._idle:
                return self._idle.pop()
        if self.read_only:
            return self._take_to_read()
        connection = sqlite3.connect(
            self._path, timeout=self._busy, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys=ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _give(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE and not connection.in_transaction:
                self._idle.append(connection)
                return
        connection.close()


class SqliteTransaction(Transaction):
    """Statements of one transaction, straight to SQLite's driver, which reads `:name` as well."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, **values: Any) -> list[Row]:
        """Execute one statement."""
        for name in [name for name, value in values.items() if isinstance(value, list)]:
            members = {f"{name}_{i}": value for i, value in enumerate(values.pop(name))}
            inside = ", ".join(f":{member}" for member in members) or "NULL"
            sql = re.sub(rf":{name}\b", f"({inside})", sql)
            values |= members
        return self._connection.execute(sql, values).fetchall()

    def many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> int:
        """Execute one statement for each of the rows."""
        return self._connection.executemany(sql, rows).rowcount if rows else 0

    def epoch(self, given: float) -> float:
        """The caller's clock: there is one machine."""
        return given

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """What `work` returns; if it raises, only its own statements are undone."""
        self._connection.execute("SAVEPOINT part")
        try:
            found = work(self)
        except BaseException as error:
            if not self._connection.in_transaction:  # A full disk undid all of it.
                raise _Undone(error) from error
            self._connection.execute("ROLLBACK TO part")
            self._connection.execute("RELEASE part")
            raise
        self._connection.execute("RELEASE part")
        return found


class _Undone(Exception):
    """The database has undone a whole transaction."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Waiting:
    """One piece of work that waits for the writer, and how it ended."""

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work, self.ended = work, False
        self.result: Any = None
        self.error: BaseException | None = None


POOLED = (
    "BEFOREHAND_DATABASE_URL is the address of a pool that hands out connections by transaction or "
    "by statement (PgBouncer), and runs hold locks of whole sessions: give the address of the "
    "server itself, or of a pool in session mode"
)


def _explain(text: str, title: str) -> BeforehandError:
    """Our error for a message of the driver."""
    low = text.lower()
    if "statement pooling mode" in low:
        return InputError(POOLED)
    if "locked" in low:
        return Unavailable(f"{title} is locked by another program: close it, then start again")
    if "disk is full" in low or "disk i/o error" in low or "no space left" in low:
        return Unavailable(f"{title} cannot be written ({text}): free space, then start again")
    if "malformed" in low or "not a database" in low:
        return Corrupt(f"{title} is damaged ({text})")
    if "unable to open" in low or "readonly" in low:
        return Unavailable(f"{title} cannot be opened for writing: {text}")
    return Unavailable(f"{title} failed: {text.splitlines()[0]}")
