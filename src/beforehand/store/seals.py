"""The sealed log: forecasts written down before the outcome, each line chained to the one before.

A line holds what was forecast, when it was sealed by this machine's clock, the digest of the whole
PredictionRecord and that of the line before. So no line can be changed, dropped, moved or added in
between without breaking the chain. Whoever may write the file can make a chain of his own from the
first line on: against that stands the digest of the last line, published elsewhere when it was
new (`heads` of `verify`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from typing_extensions import TypedDict

from beforehand.clock import iso, parse_instant
from beforehand.errors import Corrupt, InputError
from beforehand.ids import digest
from beforehand.store.files import TURN, append_jsonl, exclusive, need_file

NOTHING = digest(b"")
"""What the first line is chained to."""


class Seal(TypedDict):
    """A line of the log. `record` is the digest of the PredictionRecord, `before` that of the line
    before, `digest` that of this one without itself."""

    n: int
    sealed_at: str
    id: str
    predictor: str
    probability: float
    record: str
    before: str
    digest: str


@dataclass(frozen=True)
class Record:
    """A PredictionRecord to be sealed: its event, who forecast, its probability, when it says it
    was made, and the whole of it."""

    id: str
    predictor: str
    probability: float
    made: datetime | None
    whole: Mapping[str, Any]

    @property
    def mark(self) -> str:
        """The digest of the whole record."""
        return digest(self.whole)


@dataclass
class Checked:
    """What `verify` found: the number of lines, the digest of the last, and what is wrong."""

    n: int = 0
    head: str = NOTHING
    problems: list[str] = field(default_factory=list)


def read_seals(log: Path) -> list[Seal]:
    """The lines of a log; raises Corrupt for one that is none. A last line that a crash cut short
    was never sealed, and is left out."""
    if not log.exists():
        return []
    need_file(log)
    found, whole = list[Seal](), log.read_bytes()
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            row = orjson.loads(line)
            ok = isinstance(row, dict) and set(row) == set(Seal.__annotations__)
        except orjson.JSONDecodeError:
            ok = False
        if not ok or not all(isinstance(row[name], kind) for name, kind in _KINDS.items()):
            raise Corrupt(f"{log}:{number}: this line is no seal")
        found.append(row)
    return found


_KINDS: dict[str, type | tuple[type, ...]] = {
    "n": int,
    "sealed_at": str,
    "id": str,
    "predictor": str,
    "probability": (int, float),
}
_KINDS |= {"record": str, "before": str, "digest": str}


def seal(log: Path, records: Iterable[Record], now: datetime) -> list[Seal]:
    """Add records to the log, but for those that it holds already; returns the new lines. Raises
    InputError for a record that is dated ahead of `now`, Corrupt where the log is not whole, and
    where its last line is dated ahead of now."""
    busy = f"another process is sealing into {log}"
    with exclusive(log.with_name(f"{log.name}.lock"), busy, wait=TURN):
        held = read_seals(log)
        checked = check(held)
        if checked.problems:
            raise Corrupt(f"{log} is not whole ({checked.problems[0]}): nothing was sealed")
        if held and parse_instant(held[-1]["sealed_at"]) > now:
            raise Corrupt(
                f"the last line of {log} is dated {held[-1]['sealed_at']}, ahead of this machine's "
                "clock: set the clock right"
            )
        known, made, before = {one["record"] for one in held}, list[Seal](), checked.head
        for one in records:
            if one.made is not None and one.made > now:
                raise InputError(
                    f"{one.id}: a forecast dated {iso(one.made)} lies ahead of now ({iso(now)}): "
                    "nothing was sealed"
                )
            if one.mark in known:
                continue
            line = {
                "n": len(held) + len(made),
                "sealed_at": iso(now),
                "id": one.id,
                "predictor": one.predictor,
                "probability": one.probability,
                "record": one.mark,
                "before": before,
            }
            before = digest(line)
            made.append({**line, "digest": before})  # type: ignore[typeddict-item]
            known.add(one.mark)
        if made:
            append_jsonl(log, made)
    return made


def check(lines: Sequence[Seal], heads: Sequence[str] = ()) -> Checked:
    """Look whether each line is what it was: its digest, its number, its chain, its time after the
    one before; and whether each of the `heads`, digests that were published, is that of a line."""
    found, last = Checked(n=len(lines)), ""
    for place, line in enumerate(lines):
        where = f"line {place + 1} ({line['id']}, {line['predictor']})"
        body = {name: value for name, value in line.items() if name != "digest"}
        if digest(body) != line["digest"]:
            found.problems.append(f"{where} was changed: it does not have its digest")
        if line["n"] != place:
            what = (
                "lines are missing before it" if line["n"] > place else "it was moved or repeated"
            )
            found.problems.append(f"{where} has number {line['n']}, not {place}: {what}")
        elif line["before"] != found.head:
            found.problems.append(f"{where} is not chained to the line before it")
        if line["sealed_at"] < last:
            found.problems.append(f"{where} is dated {line['sealed_at']}, before the one before it")
        last, found.head = line["sealed_at"], line["digest"]
    known = {line["digest"] for line in lines}
    found.problems += [
        f"no line has the published digest {one}: the log is not the one that was published, or "
        "was cut short"
        for one in heads
        if one not in known
    ]
    return found
