"""How long an answer may be, and what is said when something was left out.

Tokens are estimated as a third of the bytes: JSON full of numbers runs at about three bytes a
token, prose at four, so the estimate is on the careful side. A table is cut after the last row
that fits, with a cursor; before a row is left out, the lists in all rows are shortened. A series of
numbers is thinned instead: the lowest and the highest point of each stretch are kept, so that no
spike disappears (after Jugel et al. 2014, "M4"). An answer that is still too long is cut inside its
longest texts.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NotRequired, TypedDict, cast

import msgspec
from orjson import loads

from beforehand.errors import InputError
from beforehand.traffic import Spent

MAX_TOKENS = 10_000
BYTES_PER_TOKEN = 3
META_ROOM = 250
"""Tokens kept free for `_meta`."""
_encode = msgspec.json.Encoder().encode


def estimate_tokens(data: bytes | bytearray | str) -> int:
    """Tokens of a text, estimated."""
    size = len(data.encode()) if isinstance(data, str) else len(data)
    return -(-size // BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Rows:
    """Where an answer's rows are: under `key`. `counts` (dotted names) are the fields that hold the
    number of rows. `series` gives, for a series, the columns whose lowest and highest values are
    kept when it is thinned (in each group, the first column that a row has)."""

    key: str
    default: int = 10
    maximum: int = 100
    counts: tuple[str, ...] = ()
    series: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    whole: bool = False
    """True where the tool itself applies skip and limit (a database does it better)."""
    counted: bool = True
    """False where the tool finds no more than it is asked for: it cannot say how many there are."""


@dataclass(frozen=True)
class Page:
    """Which rows were asked for, and how many there are where the tool says so."""

    limit: int
    skip: int
    total: int | None = None


class Cut(TypedDict, total=False):
    """What was left out of an answer, and why: `limit`, `tokens` or `thinned`."""

    reason: str
    rows_found: int
    rows_shown: int
    next_cursor: str
    kept: str
    texts_shortened: int
    lists_shortened: int


class LiveCost(TypedDict):
    """What a live answer cost."""

    requests: int
    usd: float


class AnswerMeta(TypedDict):
    """An answer's `_meta`."""

    tool: str
    as_of: NotRequired[str | None]
    world: NotRequired[str]
    simulated: NotRequired[bool]
    cost: NotRequired[LiveCost]
    notes: NotRequired[list[str]]
    cut: NotRequired[Cut]
    tokens_estimated: NotRequired[int]


@dataclass(frozen=True)
class ToolAnswer:
    """A bounded answer: its JSON, what was cut, and what it cost (for the operator; under a pin the
    answer itself does not say it)."""

    raw: bytes | bytearray
    cut: Cut | None
    spent: Spent = field(default_factory=Spent)

    @cached_property
    def content(self) -> dict[str, object]:
        """The answer as Python values."""
        return dict(loads(self.raw))

    @property
    def tokens(self) -> int:
        """Estimated tokens."""
        return estimate_tokens(self.raw)


def encode_cursor(asked: str, offset: int) -> str:
    """An opaque mark of where the next page of a question begins."""
    return base64.urlsafe_b64encode(f"{asked}:{offset}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, asked: str) -> int:
    """The offset in a cursor of this question. Any other text raises InputError."""
    if cursor is None:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        name, _, offset = text.rpartition(":")
        if name == asked and offset.isdigit() and len(offset) <= 9:
            return int(offset)
    except (binascii.Error, ValueError):
        pass
    raise InputError(
        f"cursor {cursor[:40]!r} is not from this question: leave it out to start again"
    )


def bound(
    result: Mapping[str, object],
    rows: Rows | None,
    page: Page,
    max_tokens: int,
    meta: AnswerMeta,
    asked: str,
) -> ToolAnswer:
    """The answer's JSON within `max_tokens`, with `_meta` saying what it cost and what was cut."""
    room = max(max_tokens - META_ROOM, 50) * BYTES_PER_TOKEN
    cut: Cut | None = None
    if rows is None:
        raw = _encode(result)
    elif rows.series is not None:
        result, raw, cut = _thinned(result, rows, page.limit, room)
    else:
        result, raw, cut = _paged(result, rows, page, room, asked)
    if len(raw) > room and (cut or {}).get("reason") != "tokens":
        shorter, shortened = _shortened(result, room)
        raw = _encode(shorter)
        cut = {**(cut or {}), "texts_shortened": shortened, "reason": "tokens"}
    if cut is not None:
        meta = {**meta, "cut": cut}
    # A long answer is encoded only once; `_meta` is added at its end.
    size = len(raw) + len(_encode(meta))
    meta["tokens_estimated"] = -(-size // BYTES_PER_TOKEN) + 14
    comma = b"" if raw == b"{}" else b","
    whole = bytearray(raw)
    whole[-1:] = b"".join((comma, b'"_meta":', _encode(meta), b"}"))
    return ToolAnswer(whole, cut)


def _found(result: Mapping[str, object], rows: Rows) -> Sequence[object]:
    """All rows of a result; a tool with `Rows` always has a list there."""
    return cast(Sequence[object], result[rows.key])


def _with(result: Mapping[str, object], rows: Rows, kept: Sequence[object]) -> dict[str, object]:
    """The result with these rows, and with the fields that count them."""
    made = dict(result)
    made[rows.key] = kept
    for path in rows.counts:
        *outer, last = path.split(".")
        place: Any = made
        for name in outer:
            place[name] = dict(place[name])
            place = place[name]
        place[last] = len(kept)
    return made


def _paged(
    result: Mapping[str, object], rows: Rows, page: Page, room: int, asked: str
) -> tuple[dict[str, object], bytes, Cut | None]:
    """The page that was asked for, as far as it fits; its JSON; what was cut."""
    found = _found(result, rows)
    total = page.total if rows.whole else len(found)
    shown = found if rows.whole else found[page.skip : page.skip + page.limit]
    answer, reason = _with(result, rows, shown), "limit"
    raw, shortened = _encode(answer), 0
    if len(raw) > room:
        left = room - len(_encode(_with(result, rows, [])))
        shown, shortened = _lighter(shown, left)
        kept = 0
        for row in shown:
            left -= len(_encode(row)) + 1
            if left < 0:
                break
            kept += 1
        if kept == len(shown):
            answer, reason = _with(result, rows, shown), "tokens"
            raw = _encode(answer)
        else:
            shown, reason = shown[: max(kept, 1)], "tokens"
            answer = _with(result, rows, shown)
            if kept == 0:  # A single row that does not fit is shortened like any other answer.
                answer, _ = _shortened(answer, room)
            raw = _encode(answer)
    end = page.skip + len(shown)
    more = len(shown) == page.limit if total is None else end < total
    if reason == "limit" and not more:
        return answer, raw, None
    cut: Cut = {"reason": reason, "rows_shown": len(shown)}
    if total is not None and rows.counted:
        cut["rows_found"] = total
    if more or reason == "tokens":
        cut["next_cursor"] = encode_cursor(asked, end)
    if total is not None and end >= total:
        cut.pop("next_cursor", None)
    if shortened:
        cut["lists_shortened"] = shortened
    return answer, raw, cut


def _lighter(rows: Sequence[object], room: int) -> tuple[Sequence[object], int]:
    """The rows with the lists in them cut to half, and half again, until all fit or no list is
    longer than three: what is in a row is given up before a row is. How much was left out."""
    size = sum(len(_encode(row)) + 1 for row in rows)
    plain: Any = None
    left_out = 0
    while size > room:
        plain = msgspec.json.decode(_encode(rows)) if plain is None else plain
        halves = [_halved(row) for row in plain]
        if not (n := sum(n for _, n in halves)):
            break
        plain, left_out = [row for row, _ in halves], left_out + n
        size = sum(len(_encode(row)) + 1 for row in plain)
    return (rows, 0) if plain is None or not left_out else (plain, left_out)


def _halved(value: Any) -> tuple[Any, int]:
    """Every list of texts or objects of at least four loses its second half. (One of numbers loses
    its meaning with its length.)"""
    if isinstance(value, dict):
        parts = {key: _halved(item) for key, item in value.items()}
        return {k: v for k, (v, _) in parts.items()}, sum(n for _, n in parts.values())
    if isinstance(value, list):
        cut = len(value) >= 4 and all(isinstance(item, (dict, str)) for item in value)
        kept = value[: -(-len(value) // 2)] if cut else value
        items = [_halved(item) for item in kept]
        return [v for v, _ in items], sum(n for _, n in items) + len(value) - len(kept)
    return value, 0


def _thinned(
    result: Mapping[str, object], rows: Rows, limit: int, room: int
) -> tuple[dict[str, object], bytes, Cut | None]:
    """The series, thinned until it fits; its JSON; what was left out."""
    found = _found(result, rows)
    assert rows.series is not None
    kept = thin(found, limit, rows.series)
    shown = _with(result, rows, kept)
    while len(raw := _encode(shown)) > room and len(kept) > 4:
        kept = thin(found, len(kept) * 3 // 4, rows.series)
        shown = _with(result, rows, kept)
    if len(kept) == len(found):
        return shown, raw, None
    return (
        shown,
        raw,
        {
            "reason": "thinned",
            "rows_found": len(found),
            "rows_shown": len(kept),
            "kept": "the first and last point, and the lowest and highest of each stretch",
        },
    )


def thin(
    rows: Sequence[Any], keep: int, columns: tuple[tuple[str, ...], tuple[str, ...]]
) -> Sequence[Any]:
    """At most `keep` rows in order: the last, the first, and of each stretch of equal length the
    lowest and the highest (with three, the middle one); `columns` names what is lowest and highest
    in a row."""
    n = len(rows)
    if n <= keep:
        return rows
    if keep < 4:
        return [rows[i] for i in ([n - 1], [0, n - 1], [0, n // 2, n - 1])[keep - 1]]
    stretches = (keep - 2) // 2
    inner = n - 2
    chosen = {0, n - 1}
    for i in range(stretches):
        low, high = 1 + i * inner // stretches, 1 + (i + 1) * inner // stretches
        for names, pick in zip(columns, (min, max), strict=True):
            values = [(_first(rows[j], names), j) for j in range(low, high)]
            known = [(value, j) for value, j in values if value is not None]
            if known:
                chosen.add(pick(known)[1])
    return [rows[j] for j in sorted(chosen)]


def _first(row: Any, names: tuple[str, ...]) -> Any:
    """The first of these columns that the row has a value in."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def _shortened(value: Mapping[str, object], room: int) -> tuple[dict[str, object], int]:
    """The value with its longest texts (then its longest lists) cut until it fits."""
    plain = msgspec.json.decode(_encode(value))
    shortened = 0
    longest = 4000
    while len(_encode(plain)) > room and longest >= 20:
        plain, n = _cut_texts(plain, longest)
        shortened = max(shortened, n)
        longest //= 2
    for least in (8, 2):  # Short lists, such as a market's outcomes, last of all.
        while len(_encode(plain)) > room:
            plain, n = _cut_lists(plain, least)
            if not n:
                break
            shortened += n
    return plain, shortened


def _cut_texts(value: Any, longest: int) -> tuple[Any, int]:
    if isinstance(value, str):
        if len(value) <= longest:
            return value, 0
        return f"{value[: longest - 1]}…", 1
    if isinstance(value, dict):
        parts = {key: _cut_texts(item, longest) for key, item in value.items()}
        return {k: v for k, (v, _) in parts.items()}, sum(n for _, n in parts.values())
    if isinstance(value, list):
        items = [_cut_texts(item, longest) for item in value]
        return [v for v, _ in items], sum(n for _, n in items)
    return value, 0


def _cut_lists(value: Any, least: int) -> tuple[Any, int]:
    """Every list of at least `least` items loses its second half."""
    if isinstance(value, dict):
        parts = {key: _cut_lists(item, least) for key, item in value.items()}
        return {k: v for k, (v, _) in parts.items()}, sum(n for _, n in parts.values())
    if isinstance(value, list):
        # Rows only: a list of numbers loses its meaning with its length.
        halved = len(value) >= least and (least < 8 or isinstance(value[0], dict))
        kept = value[: -(-len(value) // 2)] if halved else value
        items = [_cut_lists(item, least) for item in kept]
        return [v for v, _ in items], sum(n for _, n in items) + len(value) - len(kept)
    return value, 0
