"""What the readers share: a line that is rejected ends the import, or is recorded."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
from pydantic import ValidationError

from beforehand.errors import BadAnswer, InputError
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.record import Record
from beforehand.store.files import Reject, read_bytes, read_lines

Stored = Record | PriceSeriesRow
"""What goes into an archive: a record, or a market's prices as columns."""
S = TypeVar("S", bound=Stored)
_BAD = (
    ValidationError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    BadAnswer,
    InputError,
    msgspec.ValidationError,
    OSError,
    IndexError,
    OverflowError,
    RecursionError,
)


LONGEST = 400
"""The letters of a reason."""


class Rejects(list[Reject]):
    """Rejected lines. Without `skip_bad` the first one ends the import with its sentence."""

    def __init__(self, skip_bad: bool = False) -> None:
        super().__init__()
        self.skip_bad = skip_bad

    def bad(self, path: Path, line: int, reason: str, raw: bytes | str = "") -> None:
        """Record one line, or raise InputError naming file, line and reason."""
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
        reject = Reject(str(path), line, reason, text[:2000])
        if not self.skip_bad:
            raise InputError(
                f"{reject.sentence()}. Nothing of this file was stored; "
                "--skip-bad leaves such lines out"
            )
        self.append(reject)


def reason(error: BaseException) -> str:
    """One sentence for a validation error: the field and what is wrong with it."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _brief(f"{where}: {first['msg']}" if where else str(first["msg"]))
    if isinstance(error, KeyError):
        return _brief(f"the field {error.args[0]!r} is missing")
    return _brief(str(error) or type(error).__name__)


def _brief(text: str) -> str:
    """A sentence that holds a value, which may be long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def each_object(
    path: Path,
    rejects: Rejects,
    parse: Callable[[Any], Iterable[S]],
    prepare: Callable[[bytes], bytes] = bytes,
) -> Iterator[S]:
    """Apply `parse` to every JSON object of a JSONL file; a line is taken whole or not at all.
    `prepare` may change a line before it is read."""
    number = 0
    for number, line in read_lines(path):
        try:
            raw = orjson.loads(prepare(line))
            if not isinstance(raw, dict):
                raise ValueError("the line is not a JSON object")
            records = list(parse(raw))
        except _BAD as error:
            if number == 1:
                _refuse_document(path)
            rejects.bad(path, number, reason(error), line)
            continue
        yield from records
    if not number:
        raise InputError(f"{path} is empty")


def _refuse_document(path: Path) -> None:
    """Raises InputError for one JSON document where a line should be one."""
    try:
        found = orjson.loads(read_bytes(path))
    except orjson.JSONDecodeError:
        return
    if isinstance(found, list) or b"\n" in read_bytes(path).strip():
        raise InputError(
            f"{path} is one JSON document, and one object a line is due (JSONL): "
            f"`jq -c '.[]' {path.name}` makes lines of a list"
        )


def guarded(
    path: Path, number: int, raw: Any, rejects: Rejects, parse: Callable[[Any], list[Record]]
) -> list[Record]:
    """`parse(raw)`; a failure is recorded as a reject of that line (or item) number."""
    try:
        return parse(raw)
    except _BAD as error:
        rejects.bad(path, number, reason(error), repr(raw))
        return []
