"""The ledger of what was tried: each variant of a forecaster on a set of markets, once.

Whoever tries many things on the same markets finds one that looks good by chance. The validity card
and the interval of a verdict count what stands here.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NotRequired, TypeGuard

import orjson
from typing_extensions import TypedDict

from beforehand.ids import digest
from beforehand.store.files import TURN, append_jsonl, exclusive

LEAST_SHARED = 10
"""An earlier trial counts on a set of which it covered one market of so many."""
BESIDE = ("stakes", "leave-out", "gate")
"""Families that are listed and are no variants of a forecaster: stake rules, rules by which earlier
versions left rows out, and what was held against what."""


class Trial(TypedDict):
    """A line of the ledger: a variant that was tried on a set of markets (digests of their ids).
    `name`, `run_id` and `at` say what it was called, and which run tried it first, and when, and
    `archive` on which content (a digest); lines of earlier versions lack some."""

    family: str
    variant: str
    markets: list[str]
    name: NotRequired[str]
    run_id: NotRequired[str]
    at: NotRequired[str]
    archive: NotRequired[str]


def read_trials(ledger: Path) -> list[Trial]:
    """The ledger's readable lines; a damaged one is skipped, and stays in the file."""
    return [*_each(ledger)]


def _each(ledger: Path) -> Iterator[Trial]:
    """The same, one at a time: of a large world each names a hundred thousand markets."""
    if not ledger.is_file():
        return
    with ledger.open("rb") as lines:
        for line in lines:
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if _is_trial(row):
                yield row


def _is_trial(row: object) -> TypeGuard[Trial]:
    if not isinstance(row, dict):
        return False
    markets = row.get("markets")
    return (
        isinstance(row.get("family"), str)
        and isinstance(row.get("variant"), str)
        and isinstance(markets, list)
        and all(isinstance(name, str) for name in markets)
    )


def tried_so_far(ledger: Path, run_id: str, markets: Iterable[str]) -> int | None:
    """How many variants of a run's family were ever tried on such a set of markets, until now;
    None where the ledger does not know the run."""
    mine_of = (r["family"] for r in _each(ledger) if r.get("run_id") == run_id and _counts(r))
    family = next(mine_of, None)
    if family is None:
        return None
    mine = {digest(name.encode())[:8] for name in markets}
    return len(
        {row["variant"] for row in _each(ledger) if row["family"] == family and _shares(mine, row)}
    )


def _counts(row: Trial) -> bool:
    return row["family"] not in BESIDE


def _shares(mine: set[str], row: Trial) -> bool:
    return LEAST_SHARED * len(mine & set(row["markets"])) >= len(mine)


def note_trials(
    ledger: Path,
    family: str,
    markets: Iterable[str],
    variants: Mapping[str, str],
    run_id: str,
    at: str,
    archive: str,
) -> int:
    """Add variants tried on a set of markets, each with its name, by a run at a time (ISO 8601) on
    the archive of a digest. Returns how many of the family were ever tried on such a set, these
    included.

    An earlier trial counts if it covered a tenth of the present markets: choosing some of them, or
    importing more, does not restart the count, and a test file of three rows does not count.
    Families (a user's files, the forecasters of backtests) are counted apart.
    """
    mine = {digest(name.encode())[:8] for name in markets}
    with exclusive(ledger.with_suffix(".lock"), wait=TURN):
        seen = {
            row["variant"]
            for row in _each(ledger)
            if row["family"] == family and _shares(mine, row)
        }
        covered = sorted(mine)
        new = [
            Trial(
                family=family,
                variant=variant,
                markets=covered,
                name=name,
                run_id=run_id,
                at=at,
                archive=archive,
            )
            for variant, name in sorted(variants.items())
            if variant not in seen
        ]
        if new:
            append_jsonl(ledger, new)
    return len(seen | set(variants))
