"""`beforehand world list`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit, plain_table
from beforehand.clock import from_us, iso
from beforehand.errors import EXIT_OK
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.grid import end_of
from beforehand.jobs.checks import between
from beforehand.records.world import Market, Resolution
from beforehand.store.archive.reader import Archive


def list_(
    *,
    like: Annotated[
        str | None, Parameter(help="Only markets with all these words in their id or text.")
    ] = None,
    venue: Annotated[str | None, Parameter(help="Only markets of this venue.")] = None,
    limit: Annotated[int, Parameter(help="At most so many.")] = 50,
    ids: Annotated[bool, Parameter(negative="", help="Print the ids alone, one a line.")] = False,
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """The markets of the archive: their ids and texts, and when each can be forecast."""
    most = between("limit", limit, 1, 1_000_000, "--")
    view = Gateway(RecordedWorld(Archive(archive_path(archive)))).full_view()
    words = (like or "").lower().split()
    found = [
        market
        for market in view.markets()
        if venue in (None, market.venue, market.venue.lower()) and _fits(market, words)
    ]
    first = view.first_prices()
    endings = view.endings()
    rows = [_row(m, first.get(m.id), endings.get(m.id)) for m in found[:most]]
    more = f"{len(rows):,} of {len(found):,} markets: --limit shows more, --like WORDS fewer"
    if json:
        emit({"total": len(found), "markets": rows})
    elif ids:
        print("\n".join(str(row["id"]) for row in rows))
    elif not rows:
        print("no market fits: `beforehand world info` says what the archive holds")
    else:
        head = ["id", "from", "until", "ended", "title"]
        cells = [[str(row[name] or "")[: LONGEST[name]] for name in head] for row in rows]
        print(plain_table([head, *cells]))
        print(more if len(rows) < len(found) else f"{len(rows):,} markets")
    return EXIT_OK


LONGEST = {"id": 80, "from": 10, "until": 10, "ended": 10, "title": 90}


def _fits(market: Market, words: list[str]) -> bool:
    text = f"{market.id} {market.question or ''} {market.url or ''}".lower()
    return all(word in text for word in words)


def _row(market: Market, first: int | None, ending: Resolution | None) -> dict[str, object]:
    """A market of the list; it can be forecast `from` its first price `until` shortly before its
    end (both null where they are not on record)."""
    ended = None
    if ending is not None:
        ended = ending.status if ending.payout is None else f"{ending.payout:g}"
    return {
        "id": market.id,
        "title": market.question,
        "venue": market.venue,
        "category": market.domain,
        "from": None if first is None else iso(from_us(first)),
        "until": None if ending is None else iso(end_of(ending)),
        "ended": ended,
        "url": market.url,
    }
