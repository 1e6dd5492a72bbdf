"""Identities: content digests, run and session ids, market ids."""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import orjson

from beforehand.errors import InputError

SESSION_ID_HASH_LENGTH = 3
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_VENUE = re.compile(r"[A-Z][A-Z0-9_-]*\Z")


def canonical(value: Any) -> bytes:
    """The one JSON form of a value: sorted keys, no spaces, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)


def is_storable(value: Any) -> bool:
    """False for what JSON cannot hold: half a character, an integer of more than 64 bits."""
    try:
        canonical(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def check_storable(value: Any, what: str) -> None:
    """Raises InputError for what cannot be stored."""
    if not is_storable(value):
        raise InputError(f"{what} cannot be stored as JSON: text must be Unicode, integers 64 bits")


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON (or of the bytes as they are), in hex."""
    data = value if isinstance(value, bytes) else canonical(value)
    return hashlib.sha256(data).hexdigest()


def number_of(text: str) -> int:
    """64 bits of a text's digest, as a signed number: where many are compared, texts would take ten
    times the memory. Of a million, two have the same with a probability of 3e-8."""
    made = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(made, "little", signed=True)


def digest_around(before: Any, rows: Iterable[Any], after: Any) -> str:
    """`digest([before, [*rows], after])`, with one row in memory."""
    made = hashlib.sha256(b"[" + canonical(before) + b",[")
    for n, row in enumerate(rows):
        made.update((b"," if n else b"") + canonical(row))
    made.update(b"]," + canonical(after) + b"]")
    return made.hexdigest()


def new_run_id(now: datetime, taken: Callable[[str], bool]) -> str:
    """`YYYYMMDD_HHMMSS`, then `_2`, `_3`… while `taken` says the name is in use."""
    base = now.strftime("%Y%m%d_%H%M%S")
    candidate, n = base, 1
    while taken(candidate):
        n += 1
        candidate = f"{base}_{n}"
    return candidate


def new_session_id(now: datetime) -> str:
    """`{timestamp}_{6 hex}`, e.g. `20251112143022_a3f2e9`."""
    return f"{now.strftime('%Y%m%d%H%M%S')}_{secrets.token_hex(SESSION_ID_HASH_LENGTH)}"


def is_segment(name: str) -> bool:
    """True for a name that is safe as one path segment."""
    return bool(_SEGMENT.match(name)) and ".." not in name


def check_segment(name: str, what: str = "run id") -> str:
    """A name that is safe as one path segment; raises InputError otherwise."""
    if not is_segment(name):
        raise InputError(
            f"{what} {name!r} must be one plain path segment: letters, digits, '.', '_' and '-', "
            "starting with a letter or digit"
        )
    return name


def market_id(venue: str, native: str) -> str:
    """`VENUE:native`, the one spelling used inside; bare ids repeat across venues."""
    venue = venue.strip().upper()
    if not _VENUE.match(venue):
        raise InputError(f"venue {venue!r} must be letters, digits, '_' or '-'")
    if any(not mark.isprintable() for mark in native):
        raise InputError(f"the market id {native!r} holds a character that cannot be printed")
    if not native or native != native.strip():
        raise InputError("a market id must not be empty, nor begin or end with a space")
    return f"{venue}:{native}"


def split_market_id(identifier: str) -> tuple[str | None, str]:
    """(venue, native); the venue is None for a bare id."""
    head, colon, tail = identifier.partition(":")
    if colon and tail and _VENUE.match(head.upper()):
        return head.upper(), tail
    return None, identifier
