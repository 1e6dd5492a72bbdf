"""What must hold between the records of an archive, whatever their digests say."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from beforehand.clock import end_of_day, from_us, iso, parse_instant, to_us
from beforehand.records.bulk import PriceSeriesRow
from beforehand.records.world import Resolution
from beforehand.store.archive.manifest import ArchiveManifest

SAME_PAYOUT = 1e-3
"""Sources round payouts; two that differ by more than this are two outcomes."""
MADE_UP = "simulate"
"""The importer whose records may lie in the future: a simulated world goes on as long as asked."""


def series_problem(row: PriceSeriesRow) -> str | None:
    """What is wrong with a line of prices, if anything."""
    n = len(row.price)
    columns = (row.observed_at, row.known_at, row.bid, row.ask, row.volume)
    if any(column is not None and len(column) != n for column in columns):
        return f"{row.market_id}: columns of unequal length"
    early = sum(k < o for o, k in zip(row.observed_at, row.known_at, strict=True))
    if early:
        return f"{row.market_id}: {early} prices are known before they were observed"
    return None


def resolution_problem(ending: Resolution) -> str | None:
    """What is wrong with an ending."""
    if ending.known_at < min(ending.resolved_at, ending.first_published or ending.resolved_at):
        return f"{ending.market_id}: its ending is known before it resolved"
    if (ending.payout is None) != (ending.status != "resolved"):
        return f"{ending.market_id}: {ending.status} with the payout {ending.payout}"
    return None


def document_problem(name: str, known_at: int | None, published_at: datetime | None) -> str | None:
    """What is wrong with a document's dates; `known_at` in microseconds since 1970."""
    if published_at is not None and known_at is not None and known_at < to_us(published_at):
        return f"document {name}: known before it was published"
    return None


def disagree(endings: Sequence[Resolution]) -> bool:
    """True for two outcomes of one market that differ; a dispute is no outcome yet."""
    payouts = [e.payout for e in endings if e.status != "disputed"]
    if not payouts or all(payout is None for payout in payouts):
        return False
    known = [payout for payout in payouts if payout is not None]
    return len(known) < len(payouts) or max(known) - min(known) > SAME_PAYOUT


def conflicts(endings: Iterable[Resolution]) -> list[str]:
    """A sentence for each market with two outcomes that differ."""
    groups: dict[str, list[Resolution]] = defaultdict(list)
    for ending in endings:
        groups[ending.market_id].append(ending)
    return [_conflict(name, found) for name, found in sorted(groups.items()) if disagree(found)]


def _conflict(name: str, found: Sequence[Resolution]) -> str:
    said = sorted(
        {
            f"{'void' if e.payout is None else f'{e.payout:g}'} on {iso(e.known_at)}"
            for e in found
            if e.status != "disputed"
        }
    )
    return f"{name}: outcomes that disagree ({'; '.join(said[:4])}): it is not scored"


def import_problems(manifest: ArchiveManifest, now: datetime) -> Iterator[str]:
    """What is wrong with the manifest's own dates and counts."""
    counts: Mapping[str, dict[str, int]] = defaultdict(dict)
    for segment in manifest["segments"]:
        held = counts[segment["import"]]
        held[segment["kind"]] = held.get(segment["kind"], 0) + segment["records"]
    names = {entry["name"] for entry in manifest["imports"]}
    for name in sorted(counts.keys() - names):
        yield f"archive.json: segments of {name}, which is no import"
    stamps = [(parse_instant(e["recorded_at"]), e["name"]) for e in manifest["imports"]]
    for entry in manifest["imports"]:
        if counts.get(entry["name"], {}) != entry["new"]:
            yield f"archive.json: {entry['name']} counts other records than its segments hold"
    for (before, first), (after, second) in pairwise(stamps):
        if after < before:
            yield f"archive.json: {second} was recorded before {first}, which stands before it"
    for at, name in stamps:
        if at > now:
            yield f"archive.json: {name} was recorded in the future ({iso(at)})"


def late_records(kind: str, latest: int | None, importer: str, recorded_at: str) -> str | None:
    """A problem where a record is known later than it was recorded. A bare date counts to the end
    of its day. Texts count to the due date of their question set, endings to the date and documents
    to the publication that they state, which may lie ahead: these are left out."""
    if latest is None or importer == MADE_UP or kind in ("market", "resolution", "document"):
        return None
    if latest <= to_us(end_of_day(parse_instant(recorded_at))):
        return None
    return f"a {kind} is known since {iso(from_us(latest))}, after it was recorded ({recorded_at})"
