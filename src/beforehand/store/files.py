"""Atomic files and line readers. Every file of the product is written through here."""

import csv
import fcntl
import hashlib
import io
import os
import re
import stat
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import orjson
from isal import isal_zlib

from beforehand.errors import InputError, Unavailable


@dataclass(frozen=True)
class Reject:
    """A rejected line: where it is, why it was rejected, and its text."""

    file: str
    line: int
    reason: str
    raw: str = ""

    def sentence(self) -> str:
        """`file:line: reason`."""
        return f"{self.file}:{self.line}: {self.reason}"


def write_atomic(path: Path, data: bytes) -> None:
    """Write to a temporary name, fsync, rename, fsync: a reader sees the old file or the new
    one, after a power cut as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    put(str(path), data, str(temporary_name(path)))
    sync_folder(path.parent)


_TEMPORARY = count()


def temporary_name(path: Path) -> Path:
    """A name beside a file that no other process or thread uses."""
    mine = f"{os.getpid()}.{next(_TEMPORARY)}"
    return path.with_name(f".{path.name}.{mine}.tmp")


def is_alive(process: int) -> bool:
    """True if this machine runs a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # It is somebody else's.
        return True
    return True


def write_durable(path: str, data: bytes, durable: bool = True) -> None:
    """Write a file and fsync it, or leave that to the system."""
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    try:
        left = memoryview(data)
        while left:  # A disk that fills up takes a part.
            left = left[os.write(handle, left) :]
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def put(path: str, data: bytes, temporary: str, durable: bool = True) -> None:
    """Write a file under another name, then rename it: it appears whole or not at all."""
    try:
        write_durable(temporary, data, durable)
        os.rename(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def sync_folder(path: Path) -> None:
    """Fsync a folder: only then does a rename in it survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_bytes(value: Any) -> bytes:
    """Indented JSON with sorted keys and a final newline."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(value, option=options)


def write_json(path: Path, value: Any) -> None:
    """`json_bytes`, atomically."""
    write_atomic(path, json_bytes(value))


def write_json_around(path: Path, value: Mapping[str, Any], name: str, rows: Iterable[Any]) -> None:
    """`write_json` of a value that has a long list under this name, with one row in memory."""
    mark = json_bytes({name: [0]}).removeprefix(b"{\n").removesuffix(b"\n}\n")
    before, _, after = json_bytes({**value, name: [0]}).partition(mark)
    start, end = mark.split(b"0")

    def parts() -> Iterator[bytes]:
        lead = before + start
        for row in rows:
            yield lead + json_bytes(row).rstrip(b"\n").replace(b"\n", b"\n    ")
            lead = b",\n    "
        yield end + after if lead[:1] == b"," else json_bytes({**value, name: []})

    write_lines(path, parts())


def write_lines(path: Path, lines: Iterable[bytes | memoryview]) -> int:
    """Lines, each with its newline, one after the other; the file appears whole or not at all.
    Returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, n = temporary_name(path), 0
    try:
        with temporary.open("wb") as out:
            for line in lines:
                out.write(line)
                n += 1
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return n


def write_jsonl(path: Path, rows: Iterable[Any]) -> int:
    """One compact JSON document a line, as `write_lines` writes them; returns how many."""
    return write_lines(path, (orjson.dumps(row) + b"\n" for row in rows))


def append_jsonl(path: Path, rows: Iterable[Any]) -> None:
    """Add lines to the end, fsynced; a last line that a crash cut short is removed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as out:
        out.seek(0)
        content = out.read()
        out.truncate(content.rfind(b"\n") + 1)
        out.write(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        out.flush()
        os.fsync(out.fileno())


MOST_UNPACKED_MB = 4096
"""The most that a file is read or unpacked to, in MB; BEFOREHAND_MAX_UNPACKED_MB sets another."""
EARLY_MB, MOST_RATIO = 256, 100
"""What unpacks to more than so many MB may not be more than so many times its packed size: text
hardly gets that far, and a bomb to a thousand times. Not checked where a bound is set."""
_STEP, _PART = 2**16, 2**20
"""Bytes at a time: packed ones, which unpack to 67 MB at most, and others."""


def read_bytes(path: Path) -> bytes:
    """The file's bytes, unpacked where they are gzip (by their first two bytes, not the name).
    Raises InputError where there is nothing to read, for more bytes than are allowed, for UTF-16,
    and for a Git LFS pointer."""
    return b"".join(read_parts(path))


def read_parts(path: Path) -> Iterator[bytes]:
    """What `read_bytes` reads, a part after the other; raises as it does."""
    try:
        need_file(path)
        with path.open("rb") as file:
            first, parts = file.read(_STEP), iter(partial(file.read, _PART), b"")
            if first[:2] == b"\x1f\x8b":
                packed = chain([first], iter(partial(file.read, _STEP), b""))
                parts = _unpacked(packed, str(path))
                first = next(parts, b"")
            _refuse_strange(path, first)
            yield first
            yield from parts
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _refuse_strange(path: Path, first: bytes) -> None:
    """Raises InputError for what begins as no text does that is read here."""
    if first[:4] == b"PK\x03\x04":
        raise InputError(
            f"{path} is a workbook (xlsx) or a zip: export it as CSV in UTF-8, or unpack it first"
        )
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path} is UTF-16: save it as UTF-8")
    if first.startswith(b"version https://git-lfs.github.com/spec/"):
        raise InputError(f"{path} is a Git LFS pointer and not the file: run `git lfs pull` first")


def need_file(path: Path) -> None:
    """Raises InputError where there is no file of bounded size: a folder, a device that never ends,
    a pipe that may never begin, a name that no file can have."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied") from None
    except OSError as error:
        raise InputError(f"{str(path)[:200]} cannot be read: {error.strerror or error}") from None
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} is a folder: name a file")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is a pipe or a device: write its content to a file first")
    refuse_size(path, found.st_size)


def refuse_packed(path: Path) -> None:
    """Raises InputError for a gzip file that is damaged, or unpacks to more than is read; keeps
    nothing of it."""
    with path.open("rb") as file:
        for _ in _unpacked(iter(partial(file.read, _STEP), b""), str(path)):
            pass


def unpack(data: bytes, name: str, most: int | None = None) -> bytes:
    """The content of a gzip file, all its members. Raises InputError for a damaged one, and for one
    that unpacks to more than is allowed (`most` bytes, else what is set), before it has done so."""
    steps = (data[start : start + _STEP] for start in range(0, len(data), _STEP))
    return b"".join(_unpacked(steps, name, most))


def _unpacked(steps: Iterable[bytes], name: str, bound: int | None = None) -> Iterator[bytes]:
    trusted = "BEFOREHAND_MAX_UNPACKED_MB" in os.environ
    most = _most_bytes() if bound is None else min(bound, _most_bytes())
    size, read = 0, 0
    member: Any = isal_zlib.decompressobj(wbits=31)
    try:
        for packed in steps:
            left = packed
            while left := left.lstrip(b"\0") if member.eof else left:  # Zeros may follow a member.
                if member.eof:
                    # isal 1.9 refuses some sound headers that lie across two steps.
                    member = zlib.decompressobj(wbits=31)
                part = member.decompress(left)
                read += len(left) - len(member.unused_data)
                left = member.unused_data
                size += len(part)
                bomb = size > EARLY_MB * 10**6 and size > MOST_RATIO * read and not trusted
                if bomb or size > most:
                    raise InputError(
                        f"{name} unpacks to more than {size // 10**6:,} MB and may be made to fill "
                        "the memory: nothing was read. If it is what it should be, set "
                        "BEFOREHAND_MAX_UNPACKED_MB"
                    )
                if part:
                    yield part
    except (zlib.error, isal_zlib.error) as error:  # type: ignore[misc]  # Its stub has an instance.
        raise InputError(f"{name} is a damaged gzip file: {error}") from None
    if not member.eof:
        raise InputError(f"{name} is a damaged gzip file: it is cut short")


def _most_bytes() -> int:
    stated = os.environ.get("BEFOREHAND_MAX_UNPACKED_MB")
    try:
        found = int(stated) if stated else MOST_UNPACKED_MB
    except ValueError:
        found = 0
    if found < 1:
        raise InputError(f"BEFOREHAND_MAX_UNPACKED_MB must be a whole number of MB, not {stated!r}")
    return found * 10**6


def refuse_size(path: Path, size: int) -> None:
    """Raises InputError for a file that is, or unpacks to, more than is read."""
    if size > (most := _most_bytes()):
        raise InputError(
            f"{path} has {size / 1e6:,.0f} MB unpacked, and at most {most / 1e6:,.0f} are read: "
            "split it, or set BEFOREHAND_MAX_UNPACKED_MB"
        )


LONGEST_LINE = 50_000_000
"""The most bytes of a line of JSONL: reading it takes some times as much memory."""


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line) of every line that is not blank, without a byte-order mark."""
    number, rest = 0, b""
    for part in chain(read_parts(path), [b""]):
        lines = (rest + part).splitlines(keepends=True)
        # The last line may go on, or its carriage return be followed by a line feed.
        rest = lines.pop() if part and lines and not lines[-1].endswith(b"\n") else b""
        for line in (*lines, rest) if len(rest) > LONGEST_LINE else lines:
            number += 1
            line = line.rstrip(b"\r\n")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{path}:{number}: the line has more than {LONGEST_LINE / 1e6:,.0f} MB, the "
                    "most that is read: is each record on a line of its own?"
                )
            if line.strip():
                yield number, line


def read_text(path: Path) -> str:
    """The whole file as UTF-8 (a byte-order mark is taken off)."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8 (Excel: “CSV UTF-8”)"
        ) from None


SEPARATORS = ",;\t|"
MOST_COLUMNS = 1000
MOST_LINES, LONGEST_CELL = 1000, 2**26
"""Lines of a record, and characters of a cell: Python's own limit is a page of text."""
csv.field_size_limit(LONGEST_CELL)
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


def csv_header(path: Path) -> list[str]:
    """The names in a CSV's first line, in small letters. Raises InputError if it is not CSV."""
    return _begin(path)[1]


def _begin(path: Path) -> tuple[list[str], list[str], str, int]:
    """The lines of a CSV, the names in its header, its separator, and the line (from 0) after the
    header. A first line `sep=;` is how files for Excel state the separator."""
    lines = re.split(r"\r\n|\n|\r", read_text(path))
    stated = _SEPARATOR.fullmatch(lines[0])
    first = 1 if stated and len(lines) > 1 else 0
    names, mark = _header(path, lines[first], stated[1] if stated and first else None)
    return lines, names, mark, first + 1


def _header(path: Path, line: str, stated: str | None) -> tuple[list[str], str]:
    """(names, separator): the separator is the stated one, else that which makes most columns of
    the first line."""
    split, wrong = {stated or ",": list[str]()}, None
    for mark in (stated or SEPARATORS) if line.strip() else "":
        try:
            split[mark] = _cells(line, mark)
        except csv.Error as error:
            wrong = error
    mark = max(split, key=lambda mark: len(split[mark]))
    if wrong is not None and not split[mark]:
        raise InputError(f"{path}:1: the header is not CSV ({wrong})")
    names = [name.strip().lower() for name in split[mark]]
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{path}:1: {len(names):,} columns, and at most {MOST_COLUMNS:,} are read")
    if repeated := sorted(name for name, n in Counter(names).items() if n > 1):
        raise InputError(f"{path}:1: the column {repeated[0]!r} occurs twice in the header")
    return names, mark


def read_csv(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str] | None, str]]:
    """(line number, row by lower-case column, reason why there is none) of every record (RFC 4180);
    cells are separated by `,`, `;`, tab or `|`.

    A cell in quotes may hold line breaks. A quote that is not closed within some lines costs its
    own line alone, and not the rest of the file. A row with more or fewer cells than the header is
    refused: a decimal comma can cause this.
    """
    lines, header, mark, k = _begin(path)
    if missing := [name for name in needed if name not in header]:
        raise InputError(
            f"{path}: the header lacks {', '.join(missing)}. The first line must name the columns "
            f"{','.join(needed)}"
        )
    while k < len(lines):
        number, line = k + 1, lines[k]
        k += 1
        if not line.strip():
            continue
        try:
            cells, more = _record(lines, k - 1, mark, len(header))
        except csv.Error as error:
            yield number, None, f"not CSV, perhaps an unbalanced quote ({error})"
            continue
        k += more
        if len(cells) != len(header):
            hint = " (a decimal comma?)" if len(cells) > len(header) else ""
            yield number, None, f"{len(cells)} cells under {len(header)} columns{hint}"
            continue
        yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True)), ""


def _record(lines: Sequence[str], k: int, mark: str, n: int) -> tuple[list[str], int]:
    """The cells of the record that begins with a line, and over how many more lines it goes: to
    where its quotes are closed, if it has `n` cells then. Raises csv.Error."""
    try:
        return _cells(lines[k], mark), 0
    except csv.Error:
        if lines[k].count('"') % 2 == 0:
            raise
        for more in range(1, min(MOST_LINES, len(lines) - k)):
            if lines[k + more].count('"') % 2:  # Here the quotes are closed.
                with suppress(csv.Error):
                    cells = _cells("\n".join(lines[k : k + more + 1]), mark)
                    if len(cells) == n:
                        return cells, more
                break
        raise


def _cells(record: str, mark: str = ",") -> list[str]:
    return next(csv.reader(io.StringIO(record, newline=""), strict=True, delimiter=mark))


_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")


def plain_number(text: str) -> float:
    """A float from plain decimal notation; ValueError for anything else (nan, inf, 1_000…)."""
    if not _NUMBER.match(text.strip()):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def read_json(path: Path) -> Any:
    """The file as one JSON document."""
    content = read_bytes(path)
    if not content.strip():
        raise InputError(f"{path} is empty")
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}") from None


def file_digest(path: Path) -> str:
    """SHA-256 of the file as it lies on disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


TURN = 10.0
"""Seconds to wait for a short piece of another process's work in the same place."""
_LOOK = 0.02


@contextmanager
def exclusive(
    path: Path, busy: str | None = None, make: bool = True, wait: float = 0.0
) -> Iterator[None]:
    """Hold an exclusive lock on `path`; raises Unavailable (saying `busy`) if another process holds
    it for longer than `wait` seconds. Its folder is made, or must be there."""
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if wait <= 0:
                    said = busy or f"another process is writing to {path.parent}"
                    raise Unavailable(f"{said}: wait for it to finish") from None
                time.sleep(_LOOK)
                wait -= _LOOK
        yield
