"""Forecasts from elsewhere, as they come: files and tables of id, time, probability (forecaster).

Columns may go by the other names that people give them, times by Unix seconds or a stated time
zone, probabilities in percent where that is said. Every row is either a `Line` or listed with the
reason why not.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, cast, get_args
from zoneinfo import ZoneInfo

import orjson

from beforehand.clock import end_of_day, from_us, parse_instant, zone_of
from beforehand.errors import InputError
from beforehand.forecast.files.foreign import foreign
from beforehand.forecast.files.inspect_log import is_archive, of_archive
from beforehand.records.text import one_line
from beforehand.store.files import csv_header, plain_number, read_bytes, read_csv, read_lines

MOST_LINES = 5
COLUMNS = ("id", "time", "probability")
ALIASES = {
    "id": ("market_id", "question_id", "ticker", "slug", "condition_id", "url"),
    "time": (
        "timestamp",
        "datetime",
        "date",
        "t",
        "made_at",
        "as_of",
        "forecast_time",
        "forecast_date",
        "created_at",
        "ts",
    ),
    "probability": (
        "prob",
        "p",
        "forecast",
        "prediction",
        "p_yes",
        "prob_yes",
        "probability_yes",
        "yes_probability",
        "percent",
        "pct",
    ),
    "forecaster": ("model", "model_id", "predictor", "predictor_id", "agent"),
}
"""Other names of the columns, in small letters."""
NOTHING = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
"""What stands in a cell where there is no probability."""
BARE = len("2026-01-05")
Dates = Literal["day-first", "month-first"]
_WRITTEN = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?:[ ,T]+(\d{1,2}):(\d{2}(?::\d{2})?))?")
"""05.01.2026, 1/5/2026 9:30."""
FIRST_S, LAST_S, LAST_MS = 10**8, 10**11, 10**14
"""Numbers from the first to the second are Unix seconds (1973 to 5138), from there milliseconds."""


@dataclass(frozen=True)
class Reading:
    """How to read forecasts: `columns` names those of the file (`{"id": "market_id"}`), `timezone`
    the zone of times that state none, `percent` says that probabilities are in percent, `dates`
    what comes first in dates such as 05.01.2026. `mark` stands before the name of an option in a
    message."""

    columns: Mapping[str, str] = field(default_factory=dict)
    timezone: ZoneInfo | None = None
    percent: bool = False
    mark: str = ""
    dates: Dates | None = None


def reading(
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    percent: bool = False,
    mark: str = "",
    dates: str | None = None,
) -> Reading:
    """How to read, as a user states it: columns as `id=market_id,time=when`. Raises InputError."""
    named = dict[str, str]()
    if isinstance(columns, str):
        parts = [part.partition("=") for part in columns.split(",") if part.strip()]
        columns = {name.strip(): said.strip() for name, _, said in parts}
    for name, said in (columns or {}).items():
        if name not in ALIASES or not said:
            raise InputError(
                f"{mark}columns: write id=…,time=…,probability=…,forecaster=… with the file's own "
                f"names, not {name}={said}"
            )
        named[name] = said.lower()
    zone = zone_of(timezone, mark) if timezone else None
    if dates not in (None, *get_args(Dates)):
        raise InputError(f"{mark}dates {dates!r} must be {' or '.join(get_args(Dates))}")
    return Reading(named, zone, percent, mark, cast("Dates | None", dates))


@dataclass(frozen=True)
class Line:
    """One forecast as stated in the file."""

    number: int
    id: str
    t: datetime
    probability: float
    forecaster: str


@dataclass
class Rejected:
    """Rows not scored, by reason, each with its line number; what they stated, as far as that could
    be read; and the ids that are most like those that are not known. `unanswered` counts by
    forecaster those that count as asked and not answered: what its own file got wrong is not
    free."""

    reasons: dict[str, list[int]] = field(default_factory=dict)
    stated: dict[int, Mapping[str, object]] = field(default_factory=dict)
    nearest: dict[str, list[str]] = field(default_factory=dict)
    unanswered: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        reason: str,
        line: int,
        stated: Mapping[str, object] | None = None,
        unanswered_by: str | None = None,
    ) -> None:
        """Add one row; `unanswered_by` is the forecaster for whom it counts as not answered."""
        self.reasons.setdefault(reason, []).append(line)
        self.stated[line] = stated or {}
        if unanswered_by is not None:
            self.unanswered[unanswered_by] += 1

    @property
    def count(self) -> int:
        """How many rows were not scored."""
        return sum(len(lines) for lines in self.reasons.values())

    @property
    def unknown_ids(self) -> list[str]:
        """What to say of ids that are not known."""
        return [
            f"no market {name!r} is in the archive"
            + (f"; the nearest are {', '.join(near)}" if near else "")
            + " (`beforehand world list` has all)"
            for name, near in self.nearest.items()
        ]

    @property
    def sentence(self) -> str:
        """Why nothing can be scored."""
        reasons = "; ".join(
            f"{len(ns):,} × {why} ({_lines(ns)})" for why, ns in self.reasons.items()
        )
        return ". ".join([reasons or "it has no rows", *self.unknown_ids])

    def rows(self) -> Iterator[Mapping[str, object]]:
        """One JSON row per rejected row, with the reason."""
        for reason, lines in self.reasons.items():
            for line in lines:
                said = self.stated[line]
                cells = {n: None if said.get(n) is None else str(said[n]) for n in COLUMNS}
                yield {"line": line, **cells, "reason": reason}


def _lines(numbers: Sequence[int]) -> str:
    """The first of the lines, for a sentence."""
    shown = ", ".join(map(str, numbers[:MOST_LINES]))
    more = ", …" if len(numbers) > MOST_LINES else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"


@dataclass(frozen=True)
class Stated:
    """Forecasts as they came: what they are called (the file's name), the lines that can be read,
    and the others, of `rows` in all. `blank` are the rejected lines that name a market and a time
    and give no probability: questions that the forecaster left out. `bare_dates` is the number of
    times without a time of day: each means the end of its day. `unread` are columns of the file
    that were not looked at, `remarks` what is odd, `read_as` the file's columns by our names."""

    name: str
    lines: list[Line]
    rejected: Rejected
    rows: int
    blank: list[Line] = field(default_factory=list)
    bare_dates: int = 0
    unread: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    read_as: Mapping[str, str] = field(default_factory=dict)


def read_file(path: Path, name: str | None = None, how: Reading = Reading()) -> Stated:
    """A file's forecasts: CSV with a header (separated by `,`, `;`, tab or `|`), JSONL of plain
    rows or PredictionRecords, or a file of another benchmark (`foreign.py`). `name` is the
    forecaster's where a row names none [the file's]. Raises InputError for a file that cannot be
    read so."""
    rejected, found = Rejected(), of_archive(path) if is_archive(path) else None
    head = b""
    if found is None:
        head = read_bytes(path)[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
        if not head:
            raise InputError(f"{path} is empty: it needs rows of id,time,probability")
        found = foreign(path, head)
    if found is not None:
        for number, why, row in found.rejected:
            rejected.add(why, number, row, None if row.get("probability") is None else name)
        made = _stated(
            str(path), path.name, name or path.name.split(".")[0], found.rows, rejected, how
        )
        remarks = (f"read as {found.kind}", *found.remarks, *made.remarks)
        return replace(made, unread=tuple(sorted(found.fields)), remarks=remarks)
    if head[:1] == b"[":
        raise InputError(f"{path} is a JSON list: write one object a line (JSONL), or CSV")
    jsonl = head[:1] == b"{" or path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    rows = _json_rows(path, rejected) if jsonl else _csv_rows(path, rejected, how)
    return _stated(str(path), path.name, name or path.name.split(".")[0], rows, rejected, how)


def read_rows(rows: Iterable[Mapping[str, object]], name: str, how: Reading = Reading()) -> Stated:
    """The same for rows in memory, counted from 1."""
    return _stated("the table", name, name, enumerate(rows, start=1), Rejected(), how)


def _stated(
    source: str,
    title: str,
    name: str,
    rows: Iterable[tuple[int, Mapping[str, object]]],
    rejected: Rejected,
    how: Reading,
) -> Stated:
    lines, blank, numbers, bare = list[Line](), list[Line](), list[float](), 0
    places = dict[tuple[str, ...], Mapping[str, str]]()
    for number, row in rows:
        keys = tuple(row)
        if keys not in places:
            places[keys] = columns_of(keys, how, source, whole=False)
        plain = {ours: row[theirs] for ours, theirs in places[keys].items()}
        try:
            p, signed = _probability(plain.get("probability"))
            if not signed:
                numbers.append(p)
            p = p / 100 if signed or how.percent else p
            lines.append(_line(number, plain, p, name, how))
            bare += _is_bare(_in_order(str(plain.get("time")).strip(), how))
        except ValueError as error:
            reason, who = str(error), str(plain.get("forecaster") or name).strip()
            unanswered: str | None = who
            given = plain.get("probability")
            if given is None or str(given).strip().lower() in NOTHING:
                with suppress(ValueError):
                    blank.append(_line(number, plain, 0.0, name, how))
                    unanswered = None  # Whether the market could be forecast is seen later.
                    reason = "the probability is missing: it counts as not answered"
            rejected.add(reason, number, plain, unanswered)
    if rejected.count and not lines and places:
        columns_of(dict.fromkeys(key for keys in places for key in keys), how, source)
    remarks = tuple(_check_scale(source, numbers, how))
    unread = dict.fromkeys(
        key for keys, found in places.items() for key in keys if key not in found.values() and key
    )
    rows_in_all = len(lines) + rejected.count
    read_as = next(iter(places.values()), {})
    return Stated(title, lines, rejected, rows_in_all, blank, bare, tuple(unread), remarks, read_as)


def _is_bare(text: str) -> bool:
    """True for a date without a time of day."""
    return len(text) == BARE and text[4:5] == "-"


def _in_order(text: str, how: Reading) -> str:
    """A time whose date has the day or the month first, as ISO 8601, where that is said."""
    if how.dates is None or not (found := _WRITTEN.fullmatch(text)):
        return text
    first, second, year, hour, rest = found.groups()
    day, month = (first, second) if how.dates == "day-first" else (second, first)
    date = f"{year}-{int(month):02}-{int(day):02}"
    return date if hour is None else f"{date}T{int(hour):02}:{rest}"


def columns_of(
    names: Iterable[str], how: Reading, source: str, whole: bool = True
) -> dict[str, str]:
    """Where each of our columns stands among a file's, by the file's own names. Raises InputError
    if two could be meant, and, for the `whole` of them, if one is missing."""
    known, found = {name.strip().lower(): name for name in names}, dict[str, str]()
    for ours, others in ALIASES.items():
        if ours in how.columns:
            if how.columns[ours] not in known and not whole:
                continue
            if how.columns[ours] not in known:
                raise InputError(
                    f"{source}: there is no column {how.columns[ours]!r}; it has {', '.join(known)}"
                )
            found[ours] = known[how.columns[ours]]
        elif ours in known:
            found[ours] = known[ours]
        else:
            named = [name for name in others if name in known]
            if len(named) > 1:
                raise InputError(
                    f"{source}: {' and '.join(named)} could both be the {ours}: say which with "
                    f"{how.mark}columns {ours}={named[0]}"
                )
            if named:
                found[ours] = known[named[0]]
    if whole and (lacking := [name for name in COLUMNS if name not in found]):
        named_so = (name.strip()[:60] or "(without a name)" for name in list(known.values())[:30])
        there = ", ".join(named_so)[:300]
        raise InputError(
            f"{source}: no column for {', '.join(lacking)} among {there or 'none'}. "
            f"Name the columns {','.join(COLUMNS)}, or say which they are: "
            f"{how.mark}columns {lacking[0]}=NAME{_LACKING.get(lacking[0], '')}"
        )
    return found


_LACKING = {
    "probability": ". One forecaster a row: where each has a column of its own, make the table "
    "long, with a column forecaster",
    "time": ". Every forecast needs the time at which it was made: the market is taken at that "
    "instant",
}


def _check_scale(source: str, numbers: list[float], how: Reading) -> list[str]:
    """What is remarkable of the numbers without a percent sign. Raises InputError where most of
    them are percent and nobody said so."""
    above = sum(1 for p in numbers if 1 < p <= 100)
    if not how.percent and above * 2 > len(numbers):
        raise InputError(
            f"{source}: {above:,} of {len(numbers):,} probabilities lie above 1: if they are in "
            f"percent, say so with {how.mark}percent; else write them from 0 to 1"
        )
    known = [p for p in numbers if not math.isnan(p)]
    if how.percent and known and max(known) <= 1:
        return [
            f"no value is above 1, and {how.mark}percent says that they are in percent: "
            f"{max(known)} was read as {max(known) / 100:g}"
        ]
    return []


def _csv_rows(
    path: Path, rejected: Rejected, how: Reading
) -> Iterator[tuple[int, Mapping[str, object]]]:
    columns_of(csv_header(path), how, str(path))
    for number, row, problem in read_csv(path, ()):
        if row is None:
            rejected.add(problem, number)
        else:
            yield number, row


def _collected(raw: object) -> tuple[str, ...] | None:
    """Of a row that a server of ours took (`mcp --answers`), the user, the market and the instant;
    None for another."""
    if not isinstance(raw, dict) or not {"user", "id", "time", "received_at"} <= raw.keys():
        return None
    return tuple(str(raw[name]) for name in ("user", "id", "time"))


def _last_of(path: Path) -> dict[tuple[str, ...], int]:
    """The line of what was submitted last of a market and an instant, by `_collected`."""
    found = dict[tuple[str, ...], int]()
    for number, line in read_lines(path):
        if b"received_at" in line:
            with suppress(orjson.JSONDecodeError):
                if (key := _collected(orjson.loads(line))) is not None:
                    found[key] = number
    return found


def _json_rows(path: Path, rejected: Rejected) -> Iterator[tuple[int, Mapping[str, object]]]:
    last = _last_of(path)
    for number, line in read_lines(path):
        try:
            raw = orjson.loads(line)
        except orjson.JSONDecodeError:
            rejected.add("not JSON", number)
            continue
        if last and isinstance(raw, dict):
            if raw.keys() == {"user", "day"}:
                continue  # How far a user has gone through the days is no forecast.
            if (key := _collected(raw)) is not None:
                if last[key] != number:
                    continue
                raw = {**raw, "forecaster": raw.get("forecaster", raw["user"])}
        if isinstance(raw, dict) and isinstance(raw.get("prediction"), dict):
            meta = raw.get("metadata")
            meta = meta if isinstance(meta, dict) else {}
            raw = {
                "id": raw.get("id"),
                "time": meta.get("timestamp"),
                "probability": raw["prediction"].get("probability"),
                "forecaster": meta.get("predictor_id") or meta.get("model"),
            }
        if isinstance(raw, dict):
            yield number, raw
        else:
            rejected.add("not a JSON object", number)


def _probability(value: object) -> tuple[float, bool]:
    """A number as it is stated, NaN for none, and whether a percent sign follows it: `0.4`, `40 %`,
    and `0,4` where commas do not separate the columns."""
    if isinstance(value, bool) or value is None:
        return math.nan, False
    try:
        if isinstance(value, str):
            text = value.strip()
            signed = text.endswith("%")
            text = text.removesuffix("%").rstrip()
            number = plain_number(text.replace(",", ".") if text.count(",") == 1 else text)
            return number, signed
        return float(value), False  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan, False


def _instant(value: object, how: Reading) -> datetime:
    """A time as it is stated: ISO 8601, or Unix seconds or milliseconds."""
    text = _in_order(str(value if value is not None else "").strip(), how)
    try:
        number = plain_number(text)
    except ValueError:
        number = 0.0
    if FIRST_S <= number < LAST_MS:
        return from_us(round(number * (1_000_000 if number < LAST_S else 1000)))
    # A bare date is taken at its end: the market may know all that day's news as well.
    bare = _is_bare(text)
    if how.timezone is None:
        t = parse_instant(text)
        return end_of_day(t) if bare else t
    stated = datetime.fromisoformat(text)
    if stated.tzinfo is None:
        if bare:
            stated += timedelta(days=1, microseconds=-1)
        # An hour that comes twice is taken the second time: the market knows more then.
        stated = stated.replace(tzinfo=how.timezone, fold=1)
    return parse_instant(stated.isoformat())


def _unread_time(text: str, how: Reading) -> str:
    """Why a time cannot be read."""
    if how.dates is None and re.match(r"\d{1,2}[./-]\d{1,2}[./-]\d{4}", text):
        return (
            "the time has the day or the month first: say which with "
            f"{how.mark}dates day-first (or month-first), or write it like 2026-01-05T12:00:00Z"
        )
    try:
        datetime.fromisoformat(_in_order(text, how))
    except ValueError:
        return "the time is not ISO 8601 (write it like 2026-01-05T12:00:00Z)"
    return (
        "the time states no zone (write it like 2026-01-05T12:00:00Z, or state "
        f"{how.mark}timezone Europe/Berlin)"
    )


def _line(number: int, row: Mapping[str, object], p: float, name: str, how: Reading) -> Line:
    identifier = str(row.get("id") or "").strip()
    if not identifier:
        raise ValueError("the id is missing")
    try:
        t = _instant(row.get("time"), how)
    except (ValueError, OverflowError):
        raise ValueError(_unread_time(str(row.get("time") or "").strip(), how)) from None
    if not 0.0 <= p <= 1.0:
        raise ValueError("the probability is not a number in [0, 1]")
    said_by = row.get("forecaster") or name
    if not isinstance(said_by, str) or not said_by.strip():
        raise ValueError("the forecaster is not a name")
    return Line(number, identifier, t, p, one_line(said_by.strip()))
