"""Answers: JSON, CSV and Arrow by the Accept header, with ETags from their digests, compressed, and
the last ones kept; and pages of lists, by the key of their last row."""

import base64
import gzip
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar

import orjson
from fastapi import Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from beforehand.errors import InputError, Unavailable
from beforehand.front.arrow import Table

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
MEDIA = {"json": JSON, "csv": CSV, "arrow": ARROW}
SMALL = 1024
"""Bytes up to which an answer is not compressed."""
MOST_BYTES, HEAVY_AT_ONCE = 128 * 2**20, 4
Row = Mapping[str, Any]
T = TypeVar("T")


class Listed(TypedDict, Generic[T]):
    """One page of a list. `next` is the cursor of the next page (null: this is the last one);
    `total` counts the rows of the whole list where that is known."""

    items: list[T]
    next: str | None
    total: int | None


Limit = Annotated[int, Query(ge=1, le=1000, description="Rows of this page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before.")]
Format = Annotated[
    Literal["json", "csv", "arrow"] | None,
    Query(description="Instead of the Accept header. CSV and Arrow hold every row."),
]
Descending = Annotated[bool, Query(description="Sort downwards. Rows without a value stand last.")]


@dataclass(frozen=True)
class Held:
    """The bytes of an answer."""

    body: bytes
    media: str

    @cached_property
    def packed(self) -> bytes:
        """The same, compressed; the bytes depend on the content alone."""
        return gzip.compress(self.body, 6, mtime=0)

    @cached_property
    def etag(self) -> str:
        """Weak, because the compressed form has the same one."""
        return f'W/"{hashlib.sha256(self.body).hexdigest()[:32]}"'


@dataclass
class Answers:
    """The last answers by what they depend on. Safe for threads. What several clients ask for at
    one time is made once; of what takes long (`heavy`) a few are made at a time, and further ones
    are told to wait."""

    most: int = MOST_BYTES
    heavy: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(HEAVY_AT_ONCE)
    )
    _making: dict[Hashable, threading.Lock] = field(default_factory=dict)
    _held: "OrderedDict[Hashable, Held]" = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def held(
        self, key: Hashable, make: Callable[[], bytes], media: str, heavy: bool = False
    ) -> Held:
        """The answer of this key, made if it is not here. Raises Unavailable where another client's
        request makes it, and that takes long."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
            making = self._making.setdefault(key, threading.Lock())
        if not making.acquire(blocking=not heavy):
            raise Unavailable("another request asked for this already: ask again soon", 1.0)
        try:
            with self._lock:
                if key in self._held:
                    return self._held[key]
            made = Held(make(), media)
            self._keep(key, made)
            return made
        finally:
            with self._lock:
                self._making.pop(key, None)
            making.release()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """A slot for work that takes long. Raises Unavailable where none is free."""
        if not self.heavy.acquire(blocking=False):
            raise Unavailable("the server is busy with long answers: ask again in a moment", 1.0)
        try:
            yield
        finally:
            self.heavy.release()

    def _keep(self, key: Hashable, made: Held) -> None:
        with self._lock:
            if key not in self._held and len(made.body) < self.most // 8:
                self._held[key] = made
                self._bytes += len(made.body)
                while self._bytes > self.most:
                    _, gone = self._held.popitem(last=False)
                    self._bytes -= len(gone.body)

    def reply(
        self,
        request: Request,
        make: Callable[[], object],
        key: Hashable | None = None,
        media: str = JSON,
        heavy: bool = False,
    ) -> Response:
        """An answer made of a JSON-ready value, or of bytes of another media type. Under the same
        `key` the same bytes are sent again; without one it is made each time. Raises Unavailable
        where it takes long and enough of that is being made."""

        def body() -> bytes:
            with self.slot() if heavy else nullcontext():
                value = make()
                return value if isinstance(value, bytes) else encode(value)

        held = Held(body(), media) if key is None else self.held((key, media), body, media, heavy)
        headers = {
            "ETag": held.etag,
            "Cache-Control": "private, no-cache",
            "Vary": "Accept, Accept-Encoding, Authorization",
        }
        if _matches(request.headers.get("if-none-match"), held.etag):
            return Response(status_code=304, headers=headers)
        content = held.body
        if len(content) > SMALL and "gzip" in request.headers.get("accept-encoding", ""):
            content = held.packed
            headers["Content-Encoding"] = "gzip"
        return Response(content, 200, headers, media_type=media)


@dataclass
class Kept:
    """The last rows that were read or computed, by what they depend on. Safe for threads."""

    most: int = 32
    _held: "OrderedDict[Hashable, Any]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def held(self, key: Hashable, make: Callable[[], T]) -> T:
        """The rows of this key, made if they are not here."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                found: T = self._held[key]
                return found
        made = make()
        with self._lock:
            self._held[key] = made
            while len(self._held) > self.most:
                self._held.popitem(last=False)
        return made


def encode(value: object) -> bytes:
    """A value as JSON; NaN and infinities become null."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _matches(given: str | None, etag: str) -> bool:
    if given is None:
        return False
    return given.strip() == "*" or etag.removeprefix("W/") in (
        part.strip().removeprefix("W/") for part in given.split(",")
    )


def wanted(request: Request, format: str | None) -> str:
    """`json`, `csv` or `arrow`: what the client accepts."""
    if format is not None:
        return format
    accepted = request.headers.get("accept", "")
    for name in ("csv", "arrow"):
        if MEDIA[name] in accepted and JSON not in accepted:
            return name
    return "json"


def as_bytes(table: Table, kind: str) -> bytes:
    """A table as CSV or as an Arrow stream."""
    return table.to_csv() if kind == "csv" else table.to_ipc()


def encode_cursor(*parts: object) -> str:
    """An opaque mark of where the next page begins."""
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def decode_cursor(cursor: str, name: str, length: int) -> list[Any]:
    """The parts of a cursor of this list. Raises InputError for any other text."""
    try:
        found = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(found, list) and len(found) == length and found[0] == name:
            return found
    except ValueError:
        pass
    raise InputError(f"cursor {cursor[:40]!r} is not from this list: leave it out to start again")


def page(
    rows: Sequence[Row],
    name: str,
    cursor: str | None,
    limit: int,
    sort: str | None = None,
    id: str = "id",
    descending: bool = False,
) -> dict[str, Any]:
    """One page of rows that are all known, by the value of `sort` and then by id; rows without that
    value stand last. Rows that come or go between two pages shift nothing."""
    sort = sort or id
    with_value = [row for row in rows if row.get(sort) is not None]
    without = [row for row in rows if row.get(sort) is None]
    with_value.sort(key=lambda row: (row[sort], row[id]), reverse=descending)
    without.sort(key=lambda row: row[id])
    tag = f"{name}/{sort}/{int(descending)}"
    ordered = [*with_value, *without]
    start = 0
    if cursor is not None:
        _, value, last = decode_cursor(cursor, tag, 3)
        start = sum(1 for row in ordered if not _after(row, sort, id, value, last, descending))
    shown = ordered[start : start + limit]
    more = start + limit < len(ordered)
    last_row = shown[-1] if shown else None
    next_page = encode_cursor(tag, last_row.get(sort), last_row[id]) if more and last_row else None
    return {"items": shown, "next": next_page, "total": len(ordered)}


def _after(row: Row, sort: str, id: str, value: Any, last: Any, descending: bool) -> bool:
    """True for a row that stands after the last one that was shown."""
    mine = row.get(sort)
    try:
        if mine is None or value is None:
            return mine is None and (value is not None or bool(row[id] > last))
        if descending:
            return bool((mine, row[id]) < (value, last))
        return bool((mine, row[id]) > (value, last))
    except TypeError:
        raise InputError("the cursor is not from this list: leave it out to start again") from None
